//! The same packets through the kernel engine.

use std::sync::Arc;
use std::time::Duration;

use baker::ir::{Program, TableId, TableStore};
use baker::opt::Level;
use cli::failure::Failure;
use cli::say;
use control::config::Config;
use dataplane::ports::{Driver, PortSpec};
use dataplane::{Instance, Options, TableAccess};
use lab::{Host, L3Switch};

use super::blast::{self, Passed};
use crate::apps::{self, Source};
use crate::commands::engine::{Chosen, Engine, choose};
use crate::commands::instance::ports;

/// What the switch has learned, by table.
pub struct Learned<'l> {
    pub program: &'l Program,
    pub tables: &'l TableAccess,
}

/// Runs the blast through the program in the kernel; `None` where the kernel does not let this process, which is said.
pub fn run(
    network: &L3Switch,
    source: &Source,
    config: &Config,
    options: &Options,
    learned: &Learned<'_>,
    length: Duration,
    cpus: usize,
) -> Result<Option<Passed>, Failure> {
    let compilation = apps::check(source)?;
    let program = apps::lower(source, &compilation)?;
    let driver = |name: &&str| PortSpec { name: name.to_string(), driver: Driver::Xdp { interface: name.to_string() } };
    let devices: Vec<PortSpec> = L3Switch::PORTS.iter().map(driver).collect();
    let ports = ports(config, &devices, None)?;
    let chosen = choose(Engine::Xdp, source, &compilation, program, ports, Level::Cgpc, None);
    let Chosen { program, kind, fast_path, placement: _, ports, about } = match chosen {
        Ok(chosen) => chosen,
        Err(failure) => {
            let why = failure.to_string();
            say!("  not here: {}", why.trim_start_matches("error: ").lines().next().unwrap_or_default());
            return Ok(None);
        }
    };
    // A veth device takes packets from programs only where its other end has a program or this.
    for host in &network.hosts {
        host.ns.check(&["ethtool", "-K", Host::DEVICE, "gro", "on"]).map_err(Failure::refused)?;
    }
    let options = Options { engine: kind, fast_path, ..options.clone() };
    let prepared = network.switch.enter(|| Instance::prepare(program.clone(), &options, &ports));
    let prepared = prepared.map_err(Failure::refused)?.map_err(Failure::refused)?;
    config.fill(&program, &mut prepared.tables()).map_err(Failure::wrong)?;
    copy(learned, &program, &mut prepared.tables()).map_err(Failure::refused)?;
    let instance = prepared.run().map_err(Failure::refused)?;
    about.iter().for_each(|about| say!("  {about}"));
    let passed = blast::through(network, &instance, length, cpus)?;
    let done = instance.stop();
    if done.errors.is_empty() { Ok(Some(passed)) } else { Err(Failure::refused(done.errors.join("; "))) }
}

/// Gives tables what the switch has learned, as far as they have the same names.
fn copy(learned: &Learned<'_>, program: &Arc<Program>, to: &mut TableAccess) -> Result<(), String> {
    for (from, table) in (0..).map(TableId).zip(&learned.program.tables) {
        let Some(id) = program.tables.iter().position(|own| own.name == table.name) else { continue };
        for entry in learned.tables.dump(from) {
            to.insert(TableId(id as u32), &entry).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

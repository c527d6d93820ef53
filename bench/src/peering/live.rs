//! On AF_XDP ports with one UMEM on veth devices: packets that pass through.

use std::sync::Arc;
use std::time::Duration;

use baker::ir::Program;
use dataplane::ports::Driver;
use dataplane::{Access, Instance, Options, PollMode, PortConfig};
use lab::LinkConfig;

use super::{LARGE_MTU, LONGEST_USUAL, case, compared, frames, gigabits, lengths, packets};
use crate::l3::live::routes;
use crate::l3::setup::{ROUTER, Setup};
use crate::results::Results;
use crate::veth::{Entrant, Line, PORTS, SYSTEM_CPU, bytes, race};
use crate::{Effort, text};

#[derive(Clone, Copy, PartialEq)]
enum System {
    Millrace(Access),
    Kernel,
}

/// Measures all lengths.
pub fn measure(program: &Program, setup: &Setup, effort: Effort, results: &mut Results) -> Result<(), String> {
    let program = Arc::new(program.clone());
    for length in lengths(effort) {
        let name = case(length);
        let systems = Access::ALL.map(|access| (access.name(), System::Millrace(access)));
        let entrants = systems.into_iter().chain([("kernel", System::Kernel)]);
        let entrants = entrants.map(|(name, system)| Entrant { name, system, may_fail: false }).collect();
        race(&name, entrants, effort, results, |system, window| one(&program, setup, system, length, window))?;
        for system in Access::ALL.map(Access::name).into_iter().chain(["kernel"]) {
            let rates = results.values(&name, system, "mpps");
            results.add(&name, system, "gbps", "Gbit/s", gigabits(&rates, length));
        }
        compared(results, &name, "mpps");
    }
    Ok(())
}

/// One system for a while.
fn one(
    program: &Arc<Program>,
    setup: &Setup,
    system: System,
    length: usize,
    window: Duration,
) -> Result<(f64, f64), String> {
    let mtu = |config: LinkConfig| if length > LONGEST_USUAL { config.mtu(LARGE_MTU) } else { config };
    let port = |number: u64| match system {
        System::Kernel => LinkConfig::host().mac(bytes(ROUTER + number)).address(format!("10.0.{number}.1/24")),
        System::Millrace(_) => LinkConfig::port(),
    };
    let ports = [mtu(port(1)), mtu(port(2))];
    let line = Line::between(ports, mtu(LinkConfig::port()), system == System::Kernel)?;
    // Stops when it is dropped.
    let _forwarder = match system {
        System::Kernel => {
            routes(&line.system, setup)?;
            None
        }
        System::Millrace(access) => Some(instance(&line, program, setup, length, access)?),
    };
    line.measure(packets(setup, length), Vec::new(), window)
}

/// The L3 switch between the ports, on a CPU of its own.
fn instance(
    line: &Line,
    program: &Arc<Program>,
    setup: &Setup,
    length: usize,
    access: Access,
) -> Result<Instance, String> {
    let options =
        Options { frames: frames(length), poll: PollMode::Busy, cpus: vec![SYSTEM_CPU], ..Options::default() };
    let port = |(number, name): (u8, &str)| PortConfig {
        access,
        ..PortConfig::new(name, number, Driver::AfXdp { interface: name.to_owned() })
    };
    let ports = [(1, PORTS[0]), (2, PORTS[1])].map(port);
    let prepare = || Instance::prepare(program.clone(), &options, &ports);
    let prepared = line.system.enter(prepare).map_err(text)?.map_err(text)?;
    setup.fill(program, &mut prepared.tables())?;
    prepared.run().map_err(text)
}

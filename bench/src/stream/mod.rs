//! `bench stream`: what a stream costs that goes to many receivers, and one that a controller looks at ([`tap`]).
//!
//! Source, system and receivers are on one CPU, by turns: the source sends a burst and gives the CPU away until all
//! copies have come. What the whole machine is busy meanwhile is charged, the receivers' work to all systems alike.
//! `CASE=` and `SYSTEM=` choose by name, as a profile wants it.

pub mod frame;
mod network;
mod peer;
pub mod sinks;
mod tap;

use std::sync::Arc;
use std::time::Duration;

use baker::ir::{Program, TableId};
use dataplane::ports::{Driver, Gso};
use dataplane::{FrameConfig, Instance, Options, PollMode, PortConfig, TableAccess};

use crate::results::Results;
use crate::{Effort, text};
use network::{Links, Network};
use peer::Server;

pub use peer::{Source, stay};

/// CPU of all.
const CPU: usize = 1;
/// Packets of a burst: 8 of a stream of 10 Mbit/s take 8 ms.
const BURST: u16 = 8;
const RECEIVERS: [usize; 4] = [1, 10, 100, 1000];
/// Of 10^6 copies, those that may be lost where a machine stands still for a moment.
const MOST_LOST: f64 = 1000.0;
const PROGRAM: &str = "bench/src/stream/fan.baker";

#[derive(Clone, Copy, PartialEq)]
enum System {
    /// Whether it sends super-packets.
    Millrace(bool),
    Sendmmsg {
        gso: bool,
    },
}

const SYSTEMS: [(&str, System); 4] = [
    ("millrace", System::Millrace(true)),
    ("millrace, gso off", System::Millrace(false)),
    ("sendmmsg", System::Sendmmsg { gso: false }),
    ("sendmmsg, gso", System::Sendmmsg { gso: true }),
];

/// What fans out, for as long as it is there.
enum Running {
    Instance(Box<Instance>),
    Server(Server),
}

/// Runs it.
pub fn run(effort: Effort) -> Result<Results, String> {
    let mut results = Results::default();
    if !lab::has_privileges().map_err(text)? {
        results.note("not measured, it needs root");
        return Ok(results);
    }
    if std::thread::available_parallelism().map_or(1, |n| n.get()) <= CPU {
        results.note("not measured, it needs two CPUs");
        return Ok(results);
    }
    let source = std::fs::read_to_string(PROGRAM).map_err(|error| format!("{PROGRAM}: {error}"))?;
    let program = Arc::new(crate::compile::program(PROGRAM, &source)?);
    let (runs, window) = if effort.quick { (1, 200) } else { (5, 2000) };
    for receivers in RECEIVERS {
        let plural = if receivers == 1 { "" } else { "s" };
        for (links, how) in [(Links::Packets, ""), (Links::SuperPackets, ", links take super-packets")] {
            let case = format!("{receivers} receiver{plural}{how}");
            if chosen("CASE", &case) {
                fan_out(&case, (receivers, links), &program, (runs, window), &mut results)?;
            }
        }
    }
    if chosen("CASE", "tap") {
        tap::measure((runs, window), &mut results)?;
    }
    Ok(results)
}

/// Whether the environment chooses this name, or none.
fn chosen(variable: &str, name: &str) -> bool {
    std::env::var(variable).map_or(true, |only| only.is_empty() || only == name)
}

/// All systems by turns, with so many receivers.
fn fan_out(
    case: &str,
    (receivers, links): (usize, Links),
    program: &Arc<Program>,
    (runs, window): (usize, u64),
    results: &mut Results,
) -> Result<(), String> {
    let (ports, host) = (Network::new(receivers, false, links)?, Network::new(receivers, true, links)?);
    let mut rates: [Vec<f64>; SYSTEMS.len()] = Default::default();
    let mut losses = rates.clone();
    for run in 0..runs {
        for (index, (name, system)) in SYSTEMS.into_iter().enumerate() {
            if !chosen("SYSTEM", name) {
                continue;
            }
            let network = if matches!(system, System::Millrace(_)) { &ports } else { &host };
            // What the others are is known of the same systems at the other links.
            let check = run == 0 && links == Links::Packets;
            let measured = one(network, program, system, check, Duration::from_millis(window));
            let (rate, lost) = measured.map_err(|error| format!("{case}: {name}: {error}"))?;
            rates[index].push(rate);
            losses[index].push(lost);
        }
    }
    for (((name, _), rates), losses) in SYSTEMS.into_iter().zip(rates).zip(losses) {
        if rates.is_empty() {
            continue;
        }
        results.add(case, name, "packets_per_cpu_second", "packets/s of CPU time, whole machine", rates);
        results.add(case, name, "lost_per_million", "copies of 10^6", losses);
    }
    Ok(())
}

/// One system for a while: copies per second of CPU time, and those of 10^6 that were lost.
fn one(
    network: &Network,
    program: &Arc<Program>,
    system: System,
    check: bool,
    window: Duration,
) -> Result<(f64, f64), String> {
    let mut running = start(network, program, system)?;
    if check {
        frame::check(network, BURST)?;
    }
    let frame = frame::frame(0);
    let source = Source {
        namespace: &network.source,
        interface: "eth0",
        frame: &frame,
        numbered: 0,
        apart: 0,
        burst: BURST.into(),
        copies: network.receivers.len() as u32,
        counts: network.counts()?,
        cpu: CPU,
    };
    source.run(window / 4)?;
    let (before, busy) = (network.counted()?, crate::veth::busy()?);
    let streamed = source.run(window)?;
    let (after, busy) = (network.counted()?, crate::veth::busy()? - busy);
    let each = after.0.iter().zip(&before.0).map(|(after, before)| after - before);
    let (least, most) = (each.clone().min().unwrap_or(0), each.max().unwrap_or(0));
    if after.1 > before.1 {
        return Err(format!("{} packets are not as they must be", after.1 - before.1));
    }
    if most - least > streamed.lost {
        return Err(format!("receivers have got {least} to {most} packets"));
    }
    if let Running::Server(server) = &mut running {
        server.end()?;
    }
    if let Running::Instance(instance) = running {
        let report = instance.stop();
        let joined: u64 = report.snapshot.ports.iter().map(|port| port.tx_super).sum();
        if (joined > 0) != (system == System::Millrace(true)) {
            return Err(format!("it has sent {joined} super-packets"));
        }
    }
    let lost = streamed.lost as f64 * 1e6 / (streamed.arrived + streamed.lost).max(1) as f64;
    if lost > MOST_LOST {
        return Err(format!("{} of {} copies were lost", streamed.lost, streamed.arrived + streamed.lost));
    }
    Ok((streamed.arrived as f64 / (busy / 1e9), lost))
}

fn start(network: &Network, program: &Arc<Program>, system: System) -> Result<Running, String> {
    match system {
        System::Sendmmsg { gso } => Ok(Running::Server(Server::start(network, gso, CPU)?)),
        System::Millrace(joins) => {
            let gso = if joins { Gso::On } else { Gso::Off };
            let mut ports = vec![PortConfig::new("in", 1, Driver::AfPacket { interface: "in".into() })];
            for (device, interface) in network.outputs().into_iter().enumerate() {
                let driver = Driver::AfPacket { interface: interface.clone() };
                ports.push(PortConfig { gso, ..PortConfig::new(&interface, output(device), driver) });
            }
            let frames = FrameConfig { count: 65536, ..FrameConfig::default() };
            let options = Options { poll: PollMode::Interrupt, cpus: vec![CPU], frames, ..Options::default() };
            let begin = || {
                // As the peers do; workers have it from the thread that starts them.
                peer::stay(CPU, true)?;
                let prepared = Instance::prepare(program.clone(), &options, &ports).map_err(text)?;
                fill(network, program, &prepared.tables())?;
                prepared.run().map_err(text)
            };
            Ok(Running::Instance(Box::new(network.system.enter(begin).map_err(text)??)))
        }
    }
}

/// The number of the port at a device.
fn output(device: usize) -> u8 {
    device as u8 + 2
}

/// Lets the receivers join.
fn fill(network: &Network, program: &Program, tables: &TableAccess) -> Result<(), String> {
    let is_group = |table: &baker::ir::Table| table.name == "fan.receivers";
    let table = program.tables.iter().position(is_group).ok_or("the program has no group of receivers")?;
    let mac = |mac: [u8; 6]| mac.iter().fold(0, |all, byte| all << 8 | u128::from(*byte));
    let address = |address: [u8; 4]| u128::from(u32::from_be_bytes(address));
    for to in &network.receivers {
        let port = output(to.device.into()).into();
        let value = [port, mac(to.mac()), mac(to.gateway_mac()), address(to.address()), address(to.gateway())];
        tables.join(TableId(table as u32), 0, &value).map_err(text)?;
    }
    Ok(())
}

//! On AF_XDP ports with one UMEM on veth devices: packets that pass through.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use baker::ir::Program;
use dataplane::ports::Driver;
use dataplane::{Access, Instance, Options, PollMode, PortConfig};
use lab::LinkConfig;

use super::{LARGE_MTU, LONGEST_USUAL, case, compared, compared_costs, frames, gigabits, lengths, packets};
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
        let workers = RefCell::new(vec![Vec::new(); Access::ALL.len()]);
        race(&name, entrants, effort, results, |system, window| {
            let (measured, worker) = patiently(|| one(&program, setup, system, length, window))?;
            if let (System::Millrace(access), Some(worker)) = (system, worker) {
                workers.borrow_mut()[access as usize].push(worker);
            }
            Ok(measured)
        })?;
        for (access, values) in Access::ALL.into_iter().zip(workers.into_inner()) {
            results.add(&name, access.name(), "worker_ns_per_packet", "ns of the worker's CPU time", values);
        }
        for system in Access::ALL.map(Access::name).into_iter().chain(["kernel"]) {
            let rates = results.values(&name, system, "mpps");
            results.add(&name, system, "gbps", "Gbit/s", gigabits(&rates, length));
        }
        compared(results, &name, "mpps");
        compared_costs(results, &name);
    }
    Ok(())
}

/// Million packets per second, ns of CPU time of the whole machine per packet; and ns of the worker's CPU time, where
/// there is one.
type Measured = ((f64, f64), Option<f64>);

/// Tries again where the machine is so busy that a worker comes to nothing in the time.
fn patiently(mut one: impl FnMut() -> Result<Measured, String>) -> Result<Measured, String> {
    one().or_else(|_| one()).or_else(|_| one())
}

/// Nanoseconds that a thread of this process has had a CPU for.
fn on_cpu(thread: &str) -> Result<u64, String> {
    let threads = std::fs::read_dir("/proc/self/task").map_err(text)?.flatten().map(|entry| entry.path());
    let named = |path: &PathBuf| std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == thread);
    let path = threads.into_iter().find(named).ok_or_else(|| format!("there is no thread {thread}"))?;
    let times = std::fs::read_to_string(path.join("schedstat")).map_err(text)?;
    times.split(' ').next().and_then(|time| time.parse().ok()).ok_or_else(|| "schedstat says nothing".to_owned())
}

/// Packets that came in at the first port.
fn received(instance: &Instance) -> u64 {
    instance.snapshot().port(PORTS[0]).map_or(0, |port| port.rx_packets)
}

/// One system for a while.
fn one(
    program: &Arc<Program>,
    setup: &Setup,
    system: System,
    length: usize,
    window: Duration,
) -> Result<Measured, String> {
    let mtu = |config: LinkConfig| if length > LONGEST_USUAL { config.mtu(LARGE_MTU) } else { config };
    let port = |number: u64| match system {
        System::Kernel => LinkConfig::host().mac(bytes(ROUTER + number)).address(format!("10.0.{number}.1/24")),
        System::Millrace(_) => LinkConfig::port(),
    };
    let ports = [mtu(port(1)), mtu(port(2))];
    let line = Line::between(ports, mtu(LinkConfig::port()), system == System::Kernel)?;
    // Stops when it is dropped.
    let forwarder = match system {
        System::Kernel => {
            routes(&line.system, setup)?;
            None
        }
        System::Millrace(access) => Some(instance(&line, program, setup, length, access)?),
    };
    // The worker's CPU time and packets: what a packet costs it, however much of the CPU it gets.
    let probe = || forwarder.as_ref().map(|instance| Ok((on_cpu("worker-0")?, received(instance)))).transpose();
    let measured = line.measure_with(packets(setup, length), Vec::new(), window, probe);
    let cost = |[first, last]: [Option<(u64, u64)>; 2]| {
        let ((time, packets), (later, more)) = (first?, last?);
        (more > packets).then(|| (later - time) as f64 / (more - packets) as f64)
    };
    measured.map(|(measured, probes)| (measured, cost(probes))).map_err(|error| match &forwarder {
        Some(instance) => {
            let snapshot = instance.snapshot();
            format!("{error}; Millrace counts {:?}, drops {:?}", snapshot.ports, snapshot.drops)
        }
        None => error,
    })
}

/// The L3 switch between the ports, on a CPU of its own. Its worker sleeps when it has nothing to do, so that its CPU
/// time is that of packets.
fn instance(
    line: &Line,
    program: &Arc<Program>,
    setup: &Setup,
    length: usize,
    access: Access,
) -> Result<Instance, String> {
    let options =
        Options { frames: frames(length), poll: PollMode::Interrupt, cpus: vec![SYSTEM_CPU], ..Options::default() };
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

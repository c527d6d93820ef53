//! `bench xdp`: the L3 switch in the kernel, against an XDP program by hand, one that asks the kernel's tables, and the
//! kernel itself.

mod count;
pub mod line;
mod peer;
mod punt;

use std::time::Duration;

use aya::Ebpf;
use baker::ir::Program;
use dataplane::{Instance, PollMode};
use lab::{LinkConfig, Namespace};

use crate::l3::setup::{ROUTER, Setup};
use crate::results::Results;
use crate::veth::{PORTS, bytes, dotted};
use crate::{Effort, l3, text};
use line::{Line, MOST};

#[derive(Clone, Copy, PartialEq)]
enum System {
    Millrace,
    ByHand,
    FibLookup,
    Kernel,
}

const SYSTEMS: [(&str, System); 4] = [
    ("millrace", System::Millrace),
    ("c", System::ByHand),
    ("bpf_fib_lookup", System::FibLookup),
    ("kernel", System::Kernel),
];

const CASES: [(&str, u32); 2] = [("16 routes", COUNTED), ("1000000 routes", 1_000_000)];

/// Routes of the case whose instructions are counted: they are as many with more.
const COUNTED: u32 = 16;

/// What forwards, for as long as it is there.
enum Forwarder {
    #[expect(dead_code, reason = "stops when dropped")]
    Instance(Box<Instance>),
    #[expect(dead_code, reason = "stops when dropped")]
    Program(Ebpf),
    Kernel,
}

/// Runs it.
pub fn run(effort: Effort) -> Result<Results, String> {
    let mut results = Results::default();
    if !lab::has_privileges().map_err(text)? {
        results.note("not measured, it needs root");
        return Ok(results);
    }
    let program = l3::program()?;
    let (runs, window) = if effort.quick { (1, 200) } else { (7, 2000) };
    for (case, routes) in if effort.quick { &CASES[..1] } else { &CASES } {
        let (case, routes) = (*case, *routes);
        let setup = Setup::new(&program, routes);
        let frames = setup.routed(MOST as u32);
        if routes == COUNTED {
            count::measure(case, &program, &setup, &frames[..1000], &mut results)?;
        }
        let mut rates: Vec<Vec<f64>> = vec![Vec::new(); SYSTEMS.len()];
        for _ in 0..runs {
            for ((name, system), rates) in SYSTEMS.iter().zip(&mut rates) {
                let (mut line, forwarder) =
                    start(&program, &setup, *system).map_err(|e| format!("{case}: {name}: {e}"))?;
                let rate = line.measure(&frames, Duration::from_millis(window));
                rates.push(rate.map_err(|e| format!("{case}: {name}: {e}"))?);
                drop(forwarder);
            }
        }
        for ((name, _), rates) in SYSTEMS.iter().zip(rates) {
            let times = rates.iter().map(|rate| 1e3 / rate).collect();
            results.add(case, name, "mpps", "million packets/s", rates);
            results.add(case, name, "ns_per_packet", "ns, source and sink included", times);
        }
    }
    punt::measure(effort, &mut results)?;
    Ok(results)
}

/// The line with a system in it.
fn start(program: &Program, setup: &Setup, system: System) -> Result<(Line, Forwarder), String> {
    let kernel = matches!(system, System::Kernel | System::FibLookup);
    let port = |number: u64| match kernel {
        // The gateways are in 10.0.2.0/23.
        true => LinkConfig::host().mac(bytes(ROUTER + number)).address(format!("10.0.{number}.1/{}", 25 - number)),
        false => LinkConfig::port(),
    };
    let line = Line::new([port(1), port(2)], kernel)?;
    if kernel {
        routes(&line.system, setup)?;
    }
    let forwarder = match system {
        System::Kernel => Forwarder::Kernel,
        System::FibLookup => Forwarder::Program(peer::fib(&line.system)?),
        System::ByHand => Forwarder::Program(peer::l3(&line.system, setup)?),
        System::Millrace => Forwarder::Instance(Box::new(millrace(program, setup, &line.system)?)),
    };
    Ok((line, forwarder))
}

/// Millrace with its fast path at both ports.
fn millrace(program: &Program, setup: &Setup, system: &Namespace) -> Result<Instance, String> {
    crate::veth::with_fast_path(system, program, PollMode::Interrupt, |tables| setup.fill(program, tables))
}

/// The same routes and neighbours for the kernel.
fn routes(system: &Namespace, setup: &Setup) -> Result<(), String> {
    let mut batch = String::new();
    for &(address, mac) in &setup.neighbours {
        system.neighbour(PORTS[1], &dotted(address), bytes(mac)).map_err(text)?;
    }
    for route in &setup.routes {
        let gateway = setup.next_hops.iter().find(|hop| hop.index == route.next_hop).map_or(0, |hop| hop.gateway);
        batch += &format!("route add {}/{} via {}\n", dotted(route.prefix), route.len, dotted(gateway));
    }
    let done = system.command("ip").args(["-batch", "-"]).input(batch).limit(Duration::from_secs(300)).check();
    done.map(drop).map_err(text)
}

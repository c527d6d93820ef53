//! What streams cost: one for each client, and one for many clients.

use std::net::SocketAddrV4;
use std::time::Duration;

use super::millrace::{Millrace, Start};
use super::relay::{self, Relay};
use super::source::BYTES;
use super::turns::{self, Turns};
use super::{chosen, is_chosen_case};
use crate::media::network::{ENDS_CPU, HOST, Network};
use crate::results::Results;
use crate::{Effort, text};

/// By streams, and clients of each.
const CASES: [(usize, usize, &str); 2] = [(64, 1, "64 streams, 1 client each"), (1, 100, "1 stream, 100 clients")];
/// Of 10^6 copies, those that may be lost where a machine stands still for a moment.
const MOST_LOST: f64 = 1000.0;
/// bit/s of a stream, by which streams of a core are counted.
const RATE: f64 = 4e6;

#[derive(Clone, Copy, PartialEq)]
enum System {
    /// The link from the source to the clients, by RTP.
    Direct,
    Relay,
    Millrace,
}

const SYSTEMS: [(&str, System); 3] =
    [("direct", System::Direct), ("relay", System::Relay), ("millrace", System::Millrace)];

/// All systems by turns.
pub fn measure(effort: Effort, results: &mut Results) -> Result<(), String> {
    let network = Network::new()?;
    // Translation declines timestamps, so nobody has them.
    network.viewers.set_sysctl("net.ipv4.tcp_timestamps", "0").map_err(text)?;
    let (runs, window) = if effort.quick { (1, 500) } else { (3, 3000) };
    for (streams, clients, case) in CASES.into_iter().filter(|(.., case)| is_chosen_case(case)) {
        let mut found: Vec<(&str, [f64; 2])> = Vec::new();
        for _ in 0..runs {
            for (name, system) in SYSTEMS.into_iter().filter(|(name, _)| chosen("SYSTEM", name)) {
                // A link does not make copies.
                if system == System::Direct && clients > 1 {
                    continue;
                }
                let cost = one(&network, system, (streams, clients), Duration::from_millis(window));
                found.push((name, cost.map_err(|error| format!("{case}: {name}: {error}"))?));
            }
        }
        for (name, _) in SYSTEMS {
            let of = |index: usize| found.iter().filter(|(own, _)| *own == name).map(|(_, cost)| cost[index]).collect();
            let costs: Vec<f64> = of(0);
            let unit = "s of a CPU for 10^9 bits of payload, source and clients included";
            results.add(case, name, "cpu_seconds_per_gbit", unit, costs.clone());
            if let Some(link) = results.median(case, SYSTEMS[0].0, "cpu_seconds_per_gbit") {
                let added = costs.iter().map(|own| own - link).collect();
                results.add(case, name, "added_cpu_seconds_per_gbit", "the same less that of one link", added);
            }
            let of_core = costs.iter().map(|own| 1e9 / own / RATE).collect();
            results.add(case, name, "streams_per_core", "copies of a stream of 4 Mbit/s, by that", of_core);
            results.add(case, name, "lost_per_million", "copies of 10^6", of(1));
        }
    }
    Ok(())
}

/// One system for a while: CPU seconds for a Gbit, and copies of 10^6 that were lost.
fn one(
    network: &Network,
    system: System,
    (streams, clients_of_each): (usize, usize),
    window: Duration,
) -> Result<[f64; 2], String> {
    let (mut relay, mut millrace) = (None, None);
    let mut to = Millrace::place();
    match system {
        System::Direct => {}
        System::Relay => {
            to = SocketAddrV4::new(*to.ip(), relay::PORT);
            let ports: Vec<u16> = (0..streams).map(turns::port).collect();
            relay = Some(Relay::start(&network.proxy, HOST, to, &ports, Some(ENDS_CPU))?);
        }
        System::Millrace => {
            let mut own = Millrace::start(&network.proxy, Start { cpu: Some(ENDS_CPU), ..Start::default() })?;
            own.wait()?;
            millrace = Some(own);
        }
    }
    let sinks = turns::sinks(network)?;
    let place = |number: usize| match system {
        System::Millrace => Millrace::path(turns::port(number / clients_of_each)),
        _ => format!("/{}", number / clients_of_each),
    };
    let places: Vec<String> = (0..streams * clients_of_each).map(place).collect();
    let is_direct = system == System::Direct;
    let clients = if is_direct { Vec::new() } else { turns::connect_all(network, to, streams, &places)? };
    let passed = Turns { network, sinks: &sinks, streams, clients_of_each, is_direct }.run(window)?;
    drop(clients);
    relay.map_or(Ok(()), Relay::end)?;
    millrace.map_or(Ok(()), Millrace::end)?;
    let lost = passed.lost as f64 * 1e6 / (passed.arrived + passed.lost).max(1) as f64;
    if lost > MOST_LOST {
        return Err(format!("{} of {} copies were lost", passed.lost, passed.arrived + passed.lost));
    }
    Ok([passed.seconds / (passed.arrived as f64 * BYTES as f64 * 8.0 / 1e9), lost])
}

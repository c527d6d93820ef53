//! One stream to some receivers: what it costs, and how much later packets come than by one link.
//!
//! For costs, source, system and receivers are on one CPU, by turns: the source sends a burst and gives the CPU away
//! until all copies have come. So the CPU is busy all the time, and that time is what the copies have cost.

use std::time::Duration;

use super::network::{ENDS_CPU, Network, SOURCE};
use super::origin::{self, BYTES, Clock, PORT, STAMP};
use super::systems::{Line, SYSTEMS, System};
use crate::results::Results;
use crate::stream::frame::{self, HEADERS};
use crate::stream::{Source, stay};
use crate::{Effort, text, veth};

/// By the number of receivers.
const CASES: [(usize, &str); 4] =
    [(1, "one to one"), (10, "10 receivers"), (100, "100 receivers"), (1000, "1000 receivers")];
/// Packets that the source sends at once: 8 of a stream of 10 Mbit/s take 8 ms.
const BURST: u32 = 8;
/// Of 10^6 copies, those that may be lost where a machine stands still for a moment.
const MOST_LOST: f64 = 1000.0;
/// Packets in a second where latencies are measured.
const RATE: u64 = 2000;
/// Until what was sent has come.
const SETTLE: Duration = Duration::from_millis(300);
/// Parts of the packets, of which the latest one's time is told.
const PARTS: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)];
const UNIT: &str = "µs more than by one link's median";

/// Measures costs or latencies, or both.
pub fn measure(effort: Effort, costs: bool, latency: bool, results: &mut Results) -> Result<(), String> {
    let network = Network::new()?;
    let chosen = |name: &str, variable: &str| {
        let only = std::env::var(variable).unwrap_or_default();
        only.is_empty() || only.split(',').any(|own| own == name)
    };
    let mut systems = Vec::new();
    for (name, system) in SYSTEMS.into_iter().filter(|(name, _)| chosen(name, "SYSTEM")) {
        match system.missing(&network) {
            None => systems.push((name, system)),
            Some(why) => results.note(format!("{name}: not measured, {why}")),
        }
    }
    results.note(
        "ffmpeg as a relay is not measured: it takes a stream apart and puts it together again, and needs one that it can read.",
    );
    let (runs, window) = if effort.quick { (1, 500) } else { (5, 5000) };
    for (receivers, case) in CASES.into_iter().filter(|(_, case)| costs && chosen(case, "CASE")) {
        let here: Vec<_> = systems.iter().filter(|(_, system)| receivers == 1 || !system.is_for_one()).collect();
        let mut found: Vec<(&str, Cost)> = Vec::new();
        for _ in 0..runs {
            for (name, system) in &here {
                let cost = cost(&network, *system, receivers, Duration::from_millis(window));
                found.push((name, cost.map_err(|error| format!("{case}: {name}: {error}"))?));
            }
        }
        for (name, _) in &here {
            let of = |value: fn(&Cost) -> Option<f64>| {
                found.iter().filter(|(own, _)| own == name).filter_map(|(_, cost)| value(cost)).collect()
            };
            let unit = "s of CPU time of the whole machine for 10^9 bits of RTP";
            results.add(case, name, "cpu_seconds_per_gbit", unit, of(|cost| Some(cost.seconds_per_gbit)));
            // What source and receivers take is in all of them.
            if let Some(link) = results.median(case, SYSTEMS[0].0, "cpu_seconds_per_gbit") {
                let added = results.values(case, name, "cpu_seconds_per_gbit").iter().map(|own| own - link).collect();
                results.add(case, name, "added_cpu_seconds_per_gbit", "the same less that of one link", added);
            }
            let unit = "packets/s of CPU time, whole machine";
            results.add(case, name, "packets_per_cpu_second", unit, of(|cost| Some(cost.packets_per_second)));
            results.add(case, name, "lost_per_million", "copies of 10^6", of(|cost| Some(cost.lost)));
            results.add(case, name, "packets_at_controller", "packets", of(|cost| cost.slow));
            results.add(case, name, "memory", "bytes of the process", of(|cost| cost.memory));
        }
    }
    let case = CASES[0].1;
    if latency && chosen(case, "CASE") {
        let mut found: Vec<(&str, [f64; 3])> = Vec::new();
        for _ in 0..runs {
            let window = Duration::from_millis(window);
            let one = |system| latencies(&network, system, window);
            let base = one(System::Direct)?[0];
            for (name, system) in systems.iter().filter(|(_, system)| *system != System::Direct) {
                let times = one(*system).map_err(|error| format!("{case}: {name}: {error}"))?;
                found.push((name, times.map(|time| time - base)));
            }
        }
        for (name, _) in &systems {
            for (index, part) in PARTS.iter().enumerate() {
                let own = found.iter().filter(|(own, _)| own == name).map(|(_, times)| times[index]).collect();
                results.add(case, name, &format!("added_latency_{}_us", part.0), UNIT, own);
            }
        }
    }
    Ok(())
}

/// What a system has used.
struct Cost {
    seconds_per_gbit: f64,
    packets_per_second: f64,
    /// Copies of 10^6.
    lost: f64,
    /// Packets that have left the fast path, where that is known.
    slow: Option<f64>,
    memory: Option<f64>,
}

/// One system for a while.
fn cost(network: &Network, system: System, receivers: usize, window: Duration) -> Result<Cost, String> {
    let line = Line::start(network, system, receivers, true)?;
    let is_direct = system == System::Direct;
    let addresses = [SOURCE.octets(), line.to.ip().octets()];
    let frame = frame::udp(network.link(is_direct)?, addresses, [PORT, line.to.port()], &origin::packet(0));
    let sinks = network.sinks()?;
    let source = Source {
        namespace: &network.servers,
        interface: if is_direct { "eth1" } else { "eth0" },
        frame: &frame,
        numbered: HEADERS as u32 + 2,
        apart: 0,
        burst: BURST,
        copies: receivers as u32,
        counts: sinks.descriptor()?,
        cpu: ENDS_CPU,
    };
    let counted = || sinks.counted(0..receivers as u32);
    source.run(window / 4)?;
    let (before, busy) = (counted()?, veth::busy()?);
    let streamed = source.run(window)?;
    let (after, busy) = (counted()?, veth::busy()? - busy);
    let each = after.0.iter().zip(&before.0).map(|(after, before)| after - before);
    let (least, most) = (each.clone().min().unwrap_or(0), each.max().unwrap_or(0));
    let copies = (streamed.arrived + streamed.lost) as f64;
    let lost = streamed.lost as f64 * 1e6 / copies.max(1.0);
    if after.1 > 0 {
        return Err(format!("{} packets are not as they must be", after.1));
    }
    if lost > MOST_LOST || most - least > streamed.lost {
        return Err(format!("{} of {copies} copies were lost, receivers have got {least} to {most}", streamed.lost));
    }
    let slow = line.millrace.as_ref().map(|own| {
        let at = |name| own.metric(network, name).map(|count| count as f64);
        Ok::<_, String>(at("media_packets_tapped_total")? + at("media_packets_at_sockets_total")?)
    });
    let slow = slow.transpose()?;
    let memory = line.millrace.as_ref().map(|own| own.memory()).transpose()?;
    line.end(network)?;
    let (seconds, packets) = (busy / 1e9, streamed.arrived as f64);
    Ok(Cost {
        seconds_per_gbit: seconds / (packets * BYTES as f64 * 8.0 / 1e9),
        packets_per_second: packets / seconds,
        lost,
        slow,
        memory,
    })
}

/// Times from the source to one receiver that reads, in µs, in the order of [`PARTS`].
fn latencies(network: &Network, system: System, window: Duration) -> Result<[f64; 3], String> {
    let (line, clock) = (Line::start(network, system, 1, false)?, Clock::new());
    let socket = line.sockets[0].try_clone().map_err(text)?;
    socket.set_read_timeout(Some(SETTLE)).map_err(text)?;
    let source = origin::Source::start(network, line.to, RATE, clock)?;
    let reader = std::thread::spawn(move || {
        stay(ENDS_CPU, false)?;
        let (mut times, mut buffer, begin) = (Vec::new(), [0; 2 * BYTES], clock.now());
        while let Ok(length) = socket.recv(&mut buffer) {
            let now = clock.now();
            let stamp = buffer[STAMP].try_into().map(u64::from_be_bytes).map_err(text)?;
            // The first ones find caches empty.
            if length == BYTES && now - begin > window.as_nanos() as u64 / 4 {
                times.push(now - stamp);
            }
        }
        Ok::<_, String>(times)
    });
    std::thread::sleep(window + window / 4);
    source.end()?;
    let mut times = reader.join().map_err(|_| "the reader has panicked")??;
    line.end(network)?;
    times.sort_unstable();
    match times.len() {
        0 => Err("no packet has come".into()),
        all => Ok(PARTS.map(|(_, part)| times[((all - 1) as f64 * part) as usize] as f64 / 1e3)),
    }
}

//! Requests per second, what they cost the balancer, and how long they take.

use std::time::Duration;

use super::client::{self, Load, Served};
use super::cpu::LookUp;
use super::network::{HOSTS_CPU, Links};
use super::systems::{Line, SYSTEMS, System};
use crate::results::Results;
use crate::{Effort, text};

/// Bytes of bodies, and whether a connection has one request after the other.
const CASES: [(usize, bool); 6] =
    [(1 << 10, false), (1 << 10, true), (16 << 10, false), (128 << 10, false), (1 << 20, false), (1 << 20, true)];
/// Those of a smoke run.
const SMOKE: [(usize, bool); 2] = [(1 << 10, false), (1 << 10, true)];
/// Those with the links as the kernel sets them up.
const WITH_OFFLOADS: [(usize, bool); 5] =
    [(1 << 10, false), (1 << 10, true), (64 << 10, true), (1 << 20, false), (1 << 20, true)];
/// Connections at a time: of requests for a lot of data fewer, which fill the links all the same.
const CONNECTIONS: usize = 64;
const FEW_CONNECTIONS: usize = 16;
const A_LOT: usize = 128 << 10;
/// Groups of threads, and the metric of their time.
const THREADS: [(&str, &str); 3] = [
    ("receiving", "us_per_request_receiving"),
    ("worker", "us_per_request_worker"),
    ("controller", "us_per_request_controller"),
];
/// Where the balancer's CPU is that busy with nothing to do, another process uses it.
const BUSY: f64 = 0.05;

fn name((bytes, keeps_alive): (usize, bool), links: Links) -> String {
    let connections = if keeps_alive { "keep-alive" } else { "new connections" };
    let links = if links == Links::Offloads { ", offloads on" } else { "" };
    format!("{bytes} bytes, {connections}{links}")
}

/// One system's case of one round.
struct Measured {
    case: String,
    system: &'static str,
    metric: &'static str,
    unit: &'static str,
    value: f64,
}

/// Measures rates or latencies, or both.
pub fn measure(effort: Effort, rates: bool, latency: bool, results: &mut Results) -> Result<(), String> {
    if !rates && !latency {
        return Ok(());
    }
    if !lab::has_privileges().map_err(text)? || std::thread::available_parallelism().map_or(1, |n| n.get()) < 2 {
        results.note("rates and latencies: not measured, they need root and two CPUs");
        return Ok(());
    }
    let only = std::env::var("SYSTEM").unwrap_or_default();
    let mut systems: Vec<_> =
        SYSTEMS.iter().filter(|(name, _)| only.is_empty() || only.split(',').any(|own| own == *name)).collect();
    systems.retain(|(name, system)| {
        let missing = system.missing();
        if let Some(why) = &missing {
            results.note(format!("{name}: not measured, {why}"));
        }
        missing.is_none()
    });
    let case = std::env::var("CASE").ok();
    let (runs, cases, window) = if effort.quick { (1, &SMOKE[..], 150) } else { (3, &CASES[..], 1000) };
    let window = Duration::from_millis(window);
    let chosen = |all: &[(usize, bool)], links| -> Vec<(usize, bool)> {
        let is_chosen = |own: &(usize, bool)| case.as_ref().is_none_or(|case| *case == name(*own, links));
        all.iter().copied().filter(is_chosen).collect()
    };
    let mut all: Vec<Measured> = Vec::new();
    let mut busiest: f64 = 0.0;
    for round in 0..runs {
        for (links, cases) in [(Links::Plain, cases), (Links::Offloads, &WITH_OFFLOADS[..])] {
            let cases = chosen(cases, links);
            if cases.is_empty() || (links == Links::Offloads && (effort.quick || !rates)) {
                continue;
            }
            let mut direct: Vec<Measured> = Vec::new();
            for (system_name, system) in &systems {
                if links == Links::Offloads && !system.takes_offloads() {
                    continue;
                }
                let failed = |error: String| format!("{system_name}: {error}");
                let line = system.start(links).map_err(failed)?;
                busiest = busiest.max(foreign_load(window / 5)?);
                for case in &cases {
                    let failed = |error| failed(format!("{}: {error}", name(*case, links)));
                    line.check(case.0).map_err(failed)?;
                    let mut add = |metric, unit, value| {
                        all.push(Measured { case: name(*case, links), system: system_name, metric, unit, value });
                    };
                    if rates {
                        let (served, work, threads) = load(&line, *case, CONNECTIONS, window).map_err(failed)?;
                        add("requests_per_second", "requests/s", served.requests as f64 / served.time.as_secs_f64());
                        for (metric, percent) in [("loaded_latency_p50", 50), ("loaded_latency_p99", 99)] {
                            add(metric, "µs, of one of all connections", served.latency(percent));
                        }
                        if *system != System::Direct {
                            let each = served.requests as f64 / work.max(1e-3);
                            add("requests_per_cpu_second", "requests/s of the balancer's CPU", each);
                        }
                        for (group, time) in threads {
                            let metric = THREADS
                                .iter()
                                .find(|(name, _)| *name == group)
                                .map_or("us_per_request_others", |(_, metric)| *metric);
                            add(metric, "µs of these threads' CPU time", time * 1e6 / served.requests.max(1) as f64);
                        }
                    }
                    if latency && links == Links::Plain {
                        let (served, ..) = load(&line, *case, 1, window / 2).map_err(failed)?;
                        for (metric, added, percent) in
                            [("latency_p50", "added_latency_p50", 50), ("latency_p99", "added_latency_p99", 99)]
                        {
                            let (value, case) = (served.latency(percent), name(*case, links));
                            add(metric, "µs", value);
                            if *system == System::Direct {
                                direct.push(Measured { case, system: system_name, metric, unit: "µs", value });
                            } else if let Some(direct) =
                                direct.iter().find(|own| own.case == case && own.metric == metric)
                            {
                                add(added, "µs more than without a balancer", value - direct.value);
                            }
                        }
                    }
                }
            }
        }
        if std::env::var_os("VERBOSE").is_some() {
            eprintln!("bench splice: round {} of {runs} is done", round + 1);
        }
    }
    if busiest > BUSY {
        results.note(format!(
            "THE MACHINE WAS BUSY: up to {:.0} % of the balancer's CPU was used while the balancer had nothing to do",
            busiest * 100.0
        ));
    }
    summarize(all, results);
    Ok(())
}

/// What share of the balancer's CPU is used with nothing to do.
fn foreign_load(time: Duration) -> Result<f64, String> {
    let before = LookUp::now(&[])?;
    std::thread::sleep(time);
    Ok(before.work_until(&LookUp::now(&[])?) / time.as_secs_f64())
}

/// Seconds of each group of threads.
type Times = Vec<(&'static str, f64)>;

/// The load of a case, and seconds of the balancer's work, and of its threads'.
fn load(
    line: &Line,
    (bytes, keeps_alive): (usize, bool),
    connections: usize,
    window: Duration,
) -> Result<(Served, f64, Times), String> {
    let connections = if bytes >= A_LOT { connections.min(FEW_CONNECTIONS) } else { connections };
    let load = Load { address: line.address, bytes, connections, keeps_alive, warm: window / 5, window };
    let run = || {
        super::pin(0, HOSTS_CPU)?;
        client::run(load, || LookUp::now(&line.threads))
    };
    let (served, [first, last]) = line.network.client.enter(run).map_err(text)??;
    Ok((served, first.work_until(&last), first.threads_until(&last)))
}

/// The rows: all values of a case, a system and a metric together.
fn summarize(mut all: Vec<Measured>, results: &mut Results) {
    while let Some(first) = all.first() {
        let (case, system, metric, unit) = (first.case.clone(), first.system, first.metric, first.unit);
        let (own, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|one| one.case == case && one.system == system && one.metric == metric);
        results.add(&case, system, metric, unit, own.into_iter().map(|one| one.value).collect());
        all = others;
    }
}

//! Requests per second, what they cost the balancer, and how long they take.

use std::time::Duration;

use super::systems::{SYSTEMS, System};
use crate::Effort;
use crate::results::Results;
use crate::web::load::{CONNECTIONS, Foreign, Requests, load};
use crate::web::network::Links;
use crate::web::rows::Rows;

const fn requests(bytes: usize, keeps_alive: bool) -> Requests {
    Requests { bytes, keeps_alive }
}

/// What is asked for.
const CASES: [Requests; 6] = [
    requests(1 << 10, false),
    requests(1 << 10, true),
    requests(16 << 10, false),
    requests(128 << 10, false),
    requests(1 << 20, false),
    requests(1 << 20, true),
];
/// Those of a smoke run.
const SMOKE: [Requests; 2] = [requests(1 << 10, false), requests(1 << 10, true)];
/// Those with the links as the kernel sets them up.
const WITH_OFFLOADS: [Requests; 5] = [
    requests(1 << 10, false),
    requests(1 << 10, true),
    requests(64 << 10, true),
    requests(1 << 20, false),
    requests(1 << 20, true),
];

/// Measures rates or latencies, or both.
pub fn measure(effort: Effort, rates: bool, latency: bool, results: &mut Results) -> Result<(), String> {
    if !rates && !latency {
        return Ok(());
    }
    if let Some(why) = crate::web::missing()? {
        results.note(format!("rates and latencies: {why}"));
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
    let chosen = |all: &[Requests], links| -> Vec<Requests> {
        let is_chosen = |own: &Requests| case.as_ref().is_none_or(|case| *case == own.name(links));
        all.iter().copied().filter(is_chosen).collect()
    };
    let (mut rows, mut foreign) = (Rows::default(), Foreign::default());
    for round in 0..runs {
        for (links, cases) in [(Links::Plain, cases), (Links::Offloads, &WITH_OFFLOADS[..])] {
            let cases = chosen(cases, links);
            if cases.is_empty() || (links == Links::Offloads && (effort.quick || !rates)) {
                continue;
            }
            // Latencies of the round without a balancer, by case and metric.
            let mut direct: Vec<(String, &str, f64)> = Vec::new();
            for (system_name, system) in &systems {
                if links == Links::Offloads && !system.takes_offloads() {
                    continue;
                }
                let failed = |error: String| format!("{system_name}: {error}");
                let line = system.start(links).map_err(failed)?;
                foreign.look(window / 5)?;
                for requests in &cases {
                    let case = requests.name(links);
                    let failed = |error| failed(format!("{case}: {error}"));
                    line.check(requests.bytes).map_err(failed)?;
                    if rates {
                        let cost = load(&line, *requests, CONNECTIONS, window).map_err(failed)?;
                        rows.add_load(&case, system_name, &cost, *system != System::Direct);
                    }
                    if latency && links == Links::Plain {
                        let served = load(&line, *requests, 1, window / 2).map_err(failed)?.served;
                        for (metric, added, percent) in
                            [("latency_p50", "added_latency_p50", 50), ("latency_p99", "added_latency_p99", 99)]
                        {
                            let value = served.latency(percent);
                            rows.add(&case, system_name, metric, "µs", value);
                            if *system == System::Direct {
                                direct.push((case.clone(), metric, value));
                            } else if let Some((.., alone)) =
                                direct.iter().find(|(own, of, _)| *own == case && *of == metric)
                            {
                                let unit = "µs more than without a balancer";
                                rows.add(&case, system_name, added, unit, value - alone);
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
    foreign.note(results);
    rows.summarize(results);
    Ok(())
}

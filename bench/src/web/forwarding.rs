//! Systems that forward between client and servers, with the links as the kernel sets them up: TCP in bulk, by
//! super-packets, and small requests.

use std::time::Duration;

use super::line::Line;
use super::load::{CONNECTIONS, Foreign, Requests, load};
use super::network::Links;
use super::rows::Rows;
use crate::Effort;
use crate::results::Results;

/// What is asked for, by the case's name.
const LOADS: [(&str, Requests); 3] = [
    ("TCP in bulk", Requests { bytes: 1 << 20, keeps_alive: true }),
    ("1 byte, one request after the other", Requests { bytes: 1, keeps_alive: true }),
    ("1 byte, new connections", Requests { bytes: 1, keeps_alive: false }),
];
/// How many of its bytes a response has, for the rate in bits.
const BULK: usize = 1 << 20;

/// A system that takes part.
pub struct Forwarder<S> {
    pub name: &'static str,
    pub system: S,
    /// Whether the client's packets go through something that has CPU time of its own.
    pub has_middle: bool,
}

/// All systems in turn, and their rows. `start` gets a system between the client and the servers.
pub fn measure<S: Copy>(
    case: &str,
    systems: &[Forwarder<S>],
    effort: Effort,
    results: &mut Results,
    start: impl Fn(S, Links) -> Result<Line, String>,
) -> Result<(), String> {
    if let Some(why) = super::missing()? {
        results.note(format!("{case}: {why}"));
        return Ok(());
    }
    let (runs, window) = if effort.quick { (1, Duration::from_millis(300)) } else { (5, Duration::from_secs(1)) };
    let (mut rows, mut foreign) = (Rows::default(), Foreign::default());
    for _ in 0..runs {
        for Forwarder { name, system, has_middle } in systems {
            let line = start(*system, Links::Offloads).map_err(|error| format!("{case}: {name}: {error}"))?;
            foreign.look(window / 5)?;
            for (load_name, requests) in LOADS {
                let case = format!("{case}, {load_name}");
                let failed = |error| format!("{case}: {name}: {error}");
                line.check(requests.bytes).map_err(failed)?;
                let cost = load(&line, requests, CONNECTIONS, window).map_err(failed)?;
                rows.add_load(&case, name, &cost, *has_middle);
                if requests.bytes == BULK {
                    let gbit = cost.served.requests as f64 * BULK as f64 * 8.0 / 1e9;
                    rows.add(&case, name, "gbit_per_second", "Gbit/s", gbit / cost.served.time.as_secs_f64());
                }
            }
        }
    }
    foreign.note(results);
    rows.summarize(results);
    Ok(())
}

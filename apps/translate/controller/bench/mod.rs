//! `bench translate`: streams that come by RTP, delivered to HTTP clients by translation, and end to end over TCP.
//!
//! | file | what |
//! |---|---|
//! | `sites` | for each system the same hosts, joined by emulated links |
//! | `systems` | what delivers a stream: Millrace, servers with TCP of several kinds, a relay over sockets |
//! | `millrace`, `relay` | the translation as a process, and the relay |
//! | `source` | who sends a stream |
//! | `client` | who reads it, and how much of it came when |
//! | `throughput` | the published figure: bandwidth by round trip and loss |
//! | `costs`, `turns` | CPU time of a stream for each client, and of many clients of one |
//! | `latency` | how much later packets come than by one link |
//! | `connections` | many at once: how fast, and how much memory |
//! | `fairness` | a stream beside other flows, and at a bottleneck whose rate changes |
//! | `pictures` | what a film suffers |
//! | `plot` | the bandwidth over time, as SVG |

mod client;
mod connections;
mod costs;
mod fairness;
mod latency;
mod millrace;
mod pictures;
mod plot;
mod relay;
mod sites;
pub mod source;
mod systems;
mod throughput;
mod turns;

use crate::results::Results;
use crate::{Effort, text};

/// Runs all parts, or those that `PART=costs,latency` names: throughput, costs, latency,
/// connections, fairness, pictures.
/// `CASE="1 Mbit/s, 100 ms, 1 % behind"` is one case, `CASE="1 Mbit/s, 100 ms;4 Mbit/s"` are all that begin so;
/// `SYSTEM=millrace,cubic` are some systems. With `--plot` each case's bandwidth over time goes to
/// `target/bench/translate`.
pub fn run(effort: Effort) -> Result<Results, String> {
    let mut results = Results::default();
    if !lab::has_privileges().map_err(text)? || std::thread::available_parallelism().map_or(1, |n| n.get()) < 2 {
        results.note("not measured: it needs root and two CPUs");
        return Ok(results);
    }
    let wanted = |part: &str| chosen("PART", part);
    crate::media::open_files()?;
    if wanted("throughput") {
        throughput::measure(effort, std::env::args().any(|argument| argument == "--plot"), &mut results)?;
    }
    if wanted("costs") {
        costs::measure(effort, &mut results)?;
    }
    if wanted("latency") {
        latency::measure(effort, &mut results)?;
    }
    if wanted("connections") {
        connections::measure(effort, &mut results)?;
    }
    if wanted("fairness") {
        fairness::measure(effort, &mut results)?;
    }
    if wanted("pictures") {
        pictures::measure(effort, &mut results)?;
    }
    Ok(results)
}

/// Whether the environment chooses this case, or none: `CASE="1 Mbit/s, 100 ms;4 Mbit/s"` are all that begin so.
fn is_chosen_case(name: &str) -> bool {
    std::env::var("CASE").unwrap_or_default().split(';').any(|own| name.starts_with(own))
}

/// Whether the environment chooses this name, or none.
fn chosen(variable: &str, name: &str) -> bool {
    let only = std::env::var(variable).unwrap_or_default();
    only.is_empty() || only.split(',').any(|own| own == name)
}

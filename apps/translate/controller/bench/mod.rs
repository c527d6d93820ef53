//! `bench translate`: streams that come by RTP, delivered to HTTP clients by translation, and end to end over TCP.
//!
//! | file | what |
//! |---|---|
//! | `sites` | for each system the same hosts, joined by emulated links |
//! | `systems` | what delivers a stream: Millrace, servers with TCP of several kinds, a relay over sockets |
//! | `source` | who sends a stream |
//! | `client` | who reads it, and how much of it came when |
//! | `throughput` | the published figure: bandwidth by round trip and loss |
//! | `plot` | the bandwidth over time, as SVG |

mod client;
mod plot;
mod sites;
mod source;
mod systems;
mod throughput;

use crate::results::Results;
use crate::{Effort, text};

/// Measures. `CASE="1 Mbit/s, 100 ms, 1 % behind"` is one case, `CASE="1 Mbit/s, 100 ms;4 Mbit/s"` are all that begin
/// so, `SYSTEM=millrace,cubic` some systems. With `--plot` each case's bandwidth over time goes to
/// `target/bench/translate`.
pub fn run(effort: Effort) -> Result<Results, String> {
    let mut results = Results::default();
    if !lab::has_privileges().map_err(text)? || std::thread::available_parallelism().map_or(1, |n| n.get()) < 2 {
        results.note("not measured: it needs root and two CPUs");
        return Ok(results);
    }
    throughput::measure(effort, std::env::args().any(|argument| argument == "--plot"), &mut results)?;
    Ok(results)
}

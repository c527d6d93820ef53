//! `bench media`: the media proxy against a plain relay over sockets and the kernel's own forwarding.
//!
//! | file | what |
//! |---|---|
//! | `network`, `systems` | the links, and what is between the source and its receivers |
//! | `origin`, `viewer` | RTSP on both sides, and the source of packets |
//! | `streams` | CPU time and added latency of a stream to 1, 10, 100, 1000 receivers |
//! | `sessions` | RTSP sessions that are set up, kept and ended |
//! | `packets` | the published table: time of each part of the way of a packet, and the plot |

pub mod network;
pub mod origin;
mod packets;
mod sessions;
mod streams;
pub mod systems;
pub mod viewer;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::results::Results;
use crate::{Effort, text};

/// Runs all parts, or those that `PART=streams` names: streams, latency, sessions, packets. `CASE="10 receivers"` is
/// one case of the first two, `SYSTEM=millrace,relay` some systems. With `--plot` the part `packets` writes
/// `target/bench/media.svg`.
pub fn run(effort: Effort) -> Result<Results, String> {
    let mut results = Results::default();
    let parts = std::env::var("PART").unwrap_or_default();
    let wanted = |part: &str| parts.is_empty() || parts.split(',').any(|named| named == part);
    let live = lab::has_privileges().map_err(text)? && std::thread::available_parallelism().map_or(1, |n| n.get()) > 1;
    if !live {
        results.note("streams, latencies, sessions: not measured, they need root and two CPUs");
    }
    // Each viewer has some, in this process and in the proxy.
    open_files()?;
    if live && (wanted("streams") || wanted("latency")) {
        streams::measure(effort, wanted("streams"), wanted("latency"), &mut results)?;
    }
    if live && wanted("sessions") {
        sessions::measure(effort, &mut results)?;
    }
    if wanted("packets") {
        packets::measure(effort, std::env::args().any(|argument| argument == "--plot"), &mut results)?;
    }
    Ok(results)
}

/// Lets this process, and those that it starts, have as many open files as it may; how many.
pub fn open_files() -> Result<u64, String> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).map_err(text)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most).map_err(text)?;
    Ok(most)
}

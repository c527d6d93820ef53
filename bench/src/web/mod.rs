//! A client, web servers and a system between them, whose CPU time is told from theirs; links with or without
//! offloads.
//!
//! | file | what |
//! |---|---|
//! | `network`, `cpu` | the links, and whose CPU time is whose |
//! | `line` | the network with a system in the middle |
//! | `server`, `client` | the web servers and the load |
//! | `load` | a load, and what it costs the middle |
//! | `rows` | values of all rounds |
//! | `forwarding` | systems that forward at traffic control, in turn |

pub mod client;
pub mod cpu;
pub mod forwarding;
pub mod line;
pub mod load;
pub mod network;
pub mod rows;
pub mod server;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// Keeps a thread, the calling one for 0, on one CPU.
fn pin(thread: i32, cpu: usize) -> Result<(), String> {
    let mut cpus = CpuSet::new();
    cpus.set(cpu).and_then(|()| sched_setaffinity(Pid::from_raw(thread), &cpus)).map_err(|e| format!("CPU {cpu}: {e}"))
}

/// Why nothing can be measured here; none where it can.
pub fn missing() -> Result<Option<&'static str>, String> {
    let can =
        lab::has_privileges().map_err(crate::text)? && std::thread::available_parallelism().map_or(1, |n| n.get()) > 1;
    Ok((!can).then_some("not measured, it needs root and two CPUs"))
}

//! `bench splice`: the splicer against HAProxy, nginx and the kernel's plain forwarding, with one client and the same
//! servers.
//!
//! | file | what |
//! |---|---|
//! | `network`, `cpu` | the links, and whose CPU time is whose |
//! | `systems` | what is between client and servers |
//! | `server`, `client` | the web servers and the load |
//! | `rates` | requests per second, per second of the balancer's CPU, and latencies |
//! | `packets` | time per packet in the fast path, and memory per connection |
//! | `controller` | time per request in the controller alone |

mod client;
mod controller;
mod cpu;
mod network;
mod packets;
mod rates;
mod server;
mod systems;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::Effort;
use crate::results::Results;

/// Runs all parts, or those that `PART=rates` names: rates, latency, packets, controller, connections.
/// `CASE="1024 bytes, keep-alive"` limits the first two to one case, `SYSTEM=millrace,haproxy` to some systems.
pub fn run(effort: Effort) -> Result<Results, String> {
    let mut results = Results::default();
    let parts = std::env::var("PART").unwrap_or_default();
    let wanted = |part: &str| parts.is_empty() || parts.split(',').any(|named| named == part);
    rates::measure(effort, wanted("rates"), wanted("latency"), &mut results)?;
    if wanted("packets") {
        packets::kinds(effort, &mut results)?;
    }
    if wanted("controller") {
        controller::measure(effort, &mut results)?;
    }
    if wanted("connections") {
        packets::connections(effort, &mut results)?;
    }
    Ok(results)
}

/// Keeps a thread, the calling one for 0, on one CPU.
fn pin(thread: i32, cpu: usize) -> Result<(), String> {
    let mut cpus = CpuSet::new();
    cpus.set(cpu).and_then(|()| sched_setaffinity(Pid::from_raw(thread), &cpus)).map_err(|e| format!("CPU {cpu}: {e}"))
}

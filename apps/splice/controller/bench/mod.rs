//! `bench splice`: the splicer against HAProxy, nginx and the kernel's plain forwarding, with one client and the same
//! servers.
//!
//! | file | what |
//! |---|---|
//! | `systems` | what is between client and servers, in the network of [`crate::web`] |
//! | `rates` | requests per second, per second of the balancer's CPU, and latencies |
//! | `start` | time until packets pass |
//! | `packets` | time per packet in the fast path, and memory per connection |
//! | `controller` | time per request in the controller alone |

mod controller;
mod packets;
mod rates;
mod start;
pub mod systems;

use crate::Effort;
use crate::results::Results;

/// Runs all parts, or those that `PART=rates` names: rates, latency, start, packets, controller,
/// connections.
/// `CASE="1024 bytes, keep-alive"` limits the first two to one case, `SYSTEM=millrace,haproxy` to some systems.
pub fn run(effort: Effort) -> Result<Results, String> {
    let mut results = Results::default();
    let parts = std::env::var("PART").unwrap_or_default();
    let wanted = |part: &str| parts.is_empty() || parts.split(',').any(|named| named == part);
    rates::measure(effort, wanted("rates"), wanted("latency"), &mut results)?;
    if wanted("start") {
        start::measure(effort, &mut results)?;
    }
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

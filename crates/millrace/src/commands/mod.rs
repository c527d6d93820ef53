//! Subcommands, one file each.

use std::time::Duration;

pub mod check;
pub mod counters;
pub mod demo;
pub mod emit;
mod engine;
pub mod explain;
pub mod figures;
pub mod fmt;
mod instance;
pub mod lab;
mod live;
pub mod lsp;
mod packets;
pub mod reload;
mod remote;
pub mod replay;
pub mod run;
pub mod servers;
pub mod sessions;
pub mod sim;
pub mod status;
pub mod stop;
pub mod table;
mod trace;
mod watch;

/// A length of time on the command line, in seconds: at most a year.
fn seconds(text: &str) -> Result<Duration, String> {
    const YEAR: f64 = 365.0 * 86400.0;
    let seconds = text.parse().ok().filter(|seconds| (0.0..=YEAR).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| format!("not a number of seconds from 0 to {YEAR}"))
}

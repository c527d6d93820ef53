//! Subcommands, one file each.

pub mod check;
pub mod completions;
pub mod counters;
pub mod demo;
pub mod emit;
mod endpoints;
mod engine;
pub mod explain;
pub mod fmt;
pub mod graph;
mod instance;
pub mod lab;
mod live;
pub mod lsp;
pub mod metrics;
mod packets;
pub mod reload;
pub mod replay;
pub mod run;
pub mod sim;
mod stages;
pub mod status;
pub mod stop;
pub mod table;
pub mod test;
mod trace;
mod watch;

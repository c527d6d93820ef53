//! The command line as its users meet it: output, messages and exit status of every subcommand but `demo`.
//!
//! The tests of `run` on network interfaces need root, or `unshare --user --map-root-user`, and fail without.

mod cases;
mod check;
mod collector;
mod config;
mod control;
mod controllers;
mod disk;
mod emit;
mod explain;
mod fmt;
mod hostile_clients;
mod kernel;
mod metrics;
mod offloads;
mod outlast;
mod output;
mod pins;
mod profile;
mod reload;
mod replay;
mod report_archive;
mod run;
mod service;
mod sim;
mod tap;
mod top;
mod twice;
mod watch;
mod web;
mod web_access;

#[path = "../support/exposition.rs"]
mod exposition;
#[path = "../support/frames.rs"]
mod frames;
#[path = "../support/hostile.rs"]
mod hostile;
#[path = "../support/http.rs"]
mod http;
#[path = "../support/instance.rs"]
mod instance;
#[path = "../support/pcap.rs"]
mod pcap;
#[path = "../support/process.rs"]
mod process;
#[path = "../support/random.rs"]
mod random;
#[path = "../support/report.rs"]
mod report;
#[path = "../support/screen.rs"]
mod screen;

/// `examples/patch.baker`.
const PATCH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/patch.baker");
/// `examples/first.pcap`.
const FIRST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/first.pcap");

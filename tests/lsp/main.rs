//! `millrace lsp` as editors meet it.

mod client;
mod editors;
mod half_typed;
mod session;

#[allow(dead_code, reason = "each test uses a part")]
#[path = "../support/process.rs"]
mod process;

/// `apps/l3switch/l3switch.baker`.
const SWITCH: &str = include_str!("../../apps/l3switch/l3switch.baker");

//! `examples/router` between hosts in network namespaces: it forwards by the kernel's routes, in XDP and on workers.
//!
//! ```text
//!  h1 10.0.1.11 ── p1 ┐
//!  h2 10.0.2.12 ── p2 ┤ Millrace beside the kernel, 10.0.N.1 and 2001:db8:N::1
//!  h3 10.0.3.13 ── p3 ┘
//! ```
//!
//! The kernel itself does not forward, so whatever gets across was carried by Millrace, and the hosts' receivers count
//! that, not Millrace. In XDP the kernel has its addresses on p1 to p3; by workers on TAP devices behind them.

mod follow;
mod network;
mod trouble;

#[path = "../../../tests/support/instance.rs"]
#[allow(dead_code)]
mod instance;
#[path = "../../../tests/support/process.rs"]
#[allow(dead_code)]
mod process;

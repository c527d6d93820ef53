//! What an instance sends to collectors by UDP, so that who watches networks sees it beside all else: samples of
//! packets and counters of ports by sFlow, flows that are over by IPFIX.
//!
//! | module | what |
//! |---|---|
//! | [`sflow`] | samples and counters |
//! | [`ipfix`] | flows |
//! | [`exporter`] | an instance's agent of either, as the configuration has it |
//! | [`sockets`] | collectors' sockets, and what was sent |
//! | `rounds` | the thread of an agent |
#![forbid(unsafe_code)]

pub mod exporter;
pub mod ipfix;
mod rounds;
pub mod sflow;
pub mod sockets;

pub use exporter::{Agent, Exporter};

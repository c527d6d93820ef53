//! sFlow version 5 (sflow.org, "sFlow Version 5", July 2004): samples of packets as they come in at ports, and the
//! ports' counters, sent to collectors by UDP.
//!
//! | module | what |
//! |---|---|
//! | [`settings`] | which collectors, and how often |
//! | [`datagram`] | the bytes: samples into datagrams |
//! | `interfaces` | what the kernel knows of a port's interface |
//! | `samples` | samples as they come from workers and from the kernel's part of the program |
//! | [`agent`] | the thread that takes samples, looks at counters and sends |
//! | [`exporter`] | an instance's agent, as the configuration has it |
#![forbid(unsafe_code)]

pub mod agent;
pub mod datagram;
pub mod exporter;
mod interfaces;
mod samples;
pub mod settings;

pub use agent::{Agent, State};
pub use exporter::Exporter;
pub use settings::Settings;

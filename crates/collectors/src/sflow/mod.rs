//! sFlow version 5 (sflow.org, "sFlow Version 5", July 2004): samples of packets as they come in at ports, and the
//! ports' counters.
//!
//! | module | what |
//! |---|---|
//! | [`settings`] | which collectors, and how often |
//! | [`datagram`] | the bytes: samples into datagrams |
//! | `interfaces` | what the kernel knows of a port's interface |
//! | `samples` | samples as they come from workers and from the kernel's part of the program |
//! | `way` | what becomes of packets that are sampled |
//! | `agent` | takes samples, looks at counters and sends |

mod agent;
pub mod datagram;
mod interfaces;
mod samples;
pub mod settings;
mod way;

pub use agent::{Sampled, SflowAgent, State};
pub use settings::Settings;
pub use way::{Follow, Way, Ways};

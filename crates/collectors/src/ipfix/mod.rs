//! IPFIX (RFC 7011): flows that are over, as applications know them.
//!
//! | module | what |
//! |---|---|
//! | [`settings`] | which collectors, and how often they are told what records look like |
//! | [`flow`] | flows on their way from applications |
//! | [`message`] | the bytes: templates, and flows into messages |
//! | `agent` | takes flows and sends |

mod agent;
pub mod flow;
pub mod message;
pub mod settings;

pub use agent::{IpfixAgent, State};
pub use flow::{End, Flow, Flows};
pub use settings::Settings;

//! Which collectors, and how often they are told what records look like.

use std::net::SocketAddr;
use std::time::Duration;

/// The port that collectors listen at, as registered with IANA.
pub const PORT: u16 = 4739;

/// Where flows are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where collectors listen.
    pub collectors: Vec<SocketAddr>,
    /// By which number collectors tell this instance from others of the same machine (`observationDomainId`).
    pub domain: u32,
    /// Between two messages with templates: UDP may lose them, and a collector may be started later.
    pub templates: Duration,
    /// After which time a flow that goes on is told of, by an application that does so; whole seconds count.
    pub active: Duration,
}

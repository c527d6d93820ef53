//! Which collectors, and how often.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// The port that collectors listen at, as registered with IANA.
pub const PORT: u16 = 6343;

/// What is sent, and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where collectors listen.
    pub collectors: Vec<SocketAddr>,
    /// By which address collectors know this machine; none: the one by which it reaches the first of them.
    pub agent: Option<IpAddr>,
    /// One of so many packets is sampled, on average.
    pub one_in: u32,
    /// Bytes of a sampled packet that are sent, 14 to [`dataplane::sampling::MOST_BYTES`].
    pub header: u32,
    /// Between two looks at a port's counters; none: they are not sent.
    pub poll: Option<Duration>,
}

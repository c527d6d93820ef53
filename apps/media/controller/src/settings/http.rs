//! Where recordings are served by HTTP.

use std::net::SocketAddr;
use std::time::Duration;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpSettings {
    /// Where connections are accepted.
    pub listen: Vec<SocketAddr>,
    /// How long the playlist of a live stream is at least.
    pub window: Duration,
    /// How long a stream is recorded that nobody asks for any more.
    pub linger: Duration,
    /// Connections at most.
    pub connections: usize,
    /// Connections of one address at most,
    pub per_client: usize,
    /// and how long one may ask nothing.
    pub idle: Duration,
    /// Web sites whose pages may play it, as `Origin` has them; `*`: any.
    pub allow_origins: Vec<String>,
    /// After so long a segment ends, in seconds.
    pub segment: u64,
}

impl HttpSettings {
    /// Whether pages of a site may play it.
    pub fn allows(&self, origin: &str) -> bool {
        self.allow_origins.iter().any(|own| own == "*" || own == origin)
    }
}

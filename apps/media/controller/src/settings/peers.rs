//! Peers: other proxies, which are asked before origins.

use super::Credentials;
use super::members::Announce;

/// What this proxy is among others. Its peers are the servers of pools of their kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    /// Its name among its siblings, and in `Via`; none: one that is made anew at each start.
    pub name: Option<String>,
    /// Its share of the streams among its siblings, where these are listed.
    pub weight: u32,
    /// What it says of itself where they are found.
    pub announce: Option<Announce>,
    /// Who it is at peers.
    pub credentials: Option<Credentials>,
}

/// What can stand in `Via` as the name of a host (RFC 2068 section 14.44).
pub fn is_peer(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:[]".contains(&byte))
}

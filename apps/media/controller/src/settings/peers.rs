//! Peers: other proxies, which are asked before origins.

use super::Credentials;

/// What this proxy is among others. Its peers are the servers of pools of their kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    /// Its name among its siblings, and in `Via`; none: one that is made anew at each start.
    pub name: Option<String>,
    /// Its share of the streams among its siblings.
    pub weight: u32,
    /// Who it is at peers.
    pub credentials: Option<Credentials>,
}

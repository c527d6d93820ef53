//! Health checks: a connection to each server from time to time, with a request or without.

use wire::flow_key::FlowKey;

/// The check of one server.
#[derive(Clone, Debug)]
pub struct Check {
    /// When the next one begins, or this one is over.
    pub due: u64,
    /// The one that runs.
    pub running: Option<Running>,
}

/// A check that runs.
#[derive(Clone, Debug)]
pub struct Running {
    /// The flow key of the server's segments.
    pub flow_key: FlowKey,
    /// The own sequence number that comes next.
    pub next: u32,
    /// The server's.
    pub expected: u32,
    /// Whether the server has answered the SYN.
    pub connected: bool,
    /// What it has answered.
    pub answer: Vec<u8>,
}

//! Idle connections that may make room for new ones.

/// Connections that may make room, those that are idle longest at the end.
#[derive(Clone, Debug, Default)]
pub struct Candidates {
    /// Since when each is idle, and its number.
    pub found: Vec<(u32, u64)>,
    /// When all connections may be looked at again.
    pub due: u64,
}

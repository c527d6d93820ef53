//! What was counted of viewers by HTTP.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::proxy::http::Numbers;

/// Counted by the thread that serves them.
#[derive(Debug, Default)]
pub struct Counts {
    pub(super) connections: AtomicU64,
    pub(super) accepted: AtomicU64,
    pub(super) beyond: AtomicU64,
    pub(super) slow: AtomicU64,
    pub(super) requests: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) reads: AtomicU64,
    pub(super) shared: AtomicU64,
}

pub(super) fn add(to: &AtomicU64, count: u64) {
    to.fetch_add(count, Ordering::Relaxed);
}

impl Counts {
    /// What was counted so far.
    pub fn now(&self) -> Numbers {
        let value = |own: &AtomicU64| own.load(Ordering::Relaxed);
        Numbers {
            connections: value(&self.connections),
            accepted: value(&self.accepted),
            beyond: value(&self.beyond),
            slow: value(&self.slow),
            requests: value(&self.requests),
            refused: value(&self.refused),
            bytes: value(&self.bytes),
            reads: value(&self.reads),
            shared: value(&self.shared),
        }
    }
}

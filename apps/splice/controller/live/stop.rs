//! Threads that go on until they are told.

use std::sync::atomic::{AtomicBool, Ordering};

/// Tells them when it is dropped, also where something fails.
pub struct Stop<'s>(pub &'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

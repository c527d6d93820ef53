//! Waiting for what comes by itself.

use std::time::{Duration, Instant};

use crate::switch::PATIENCE;

/// What is found at last. It is looked for again and again; where it does not come, that is a failure, called so.
pub fn eventually<T>(missing: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{missing}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

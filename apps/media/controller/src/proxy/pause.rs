//! Pauses between attempts: each is twice as long as the one before, up to the longest.

use std::time::Duration;

/// The pause behind so many attempts in vain before this one.
pub(crate) fn after(attempts: u32, first: Duration, longest: Duration) -> Duration {
    first.saturating_mul(1 << attempts.min(10)).min(longest)
}

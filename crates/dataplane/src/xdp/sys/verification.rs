//! How long the kernel has verified programs for, since the process began.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

static PROGRAMS: AtomicU64 = AtomicU64::new(0);
static NANOSECONDS: AtomicU64 = AtomicU64::new(0);

/// What the kernel has verified, for whatever instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Programs that were offered to it, taken or not.
    pub programs: u64,
    /// How long it took, added up.
    pub time: Duration,
}

/// Notes a program.
pub fn note(time: Duration) {
    PROGRAMS.fetch_add(1, Ordering::Relaxed);
    NANOSECONDS.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// What it has verified so far.
pub fn verification() -> Verification {
    let time = Duration::from_nanos(NANOSECONDS.load(Ordering::Relaxed));
    Verification { programs: PROGRAMS.load(Ordering::Relaxed), time }
}

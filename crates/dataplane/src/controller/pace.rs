//! How soon a controller runs once it is woken, and how long it then goes on until it waits again. A controller that is
//! slow is seen by that before packets are dropped for it.
//!
//! Both are noted where it waits, so a packet costs nothing.

use std::sync::atomic::{AtomicU64, Ordering};

/// The first bucket has what is shorter than two to the power of this, in nanoseconds: 1 µs.
const FIRST: u32 = 10;

/// Intervals by their length, a bucket for each power of two. Any number of threads add to it.
#[derive(Debug, Default)]
pub struct Times {
    counts: [AtomicU64; PaceSnapshot::BUCKETS],
    nanoseconds: AtomicU64,
}

impl Times {
    fn add(&self, nanoseconds: u64) {
        let bucket = (u64::BITS - nanoseconds.leading_zeros()).saturating_sub(FIRST) as usize;
        self.counts[bucket.min(PaceSnapshot::BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    fn snapshot(&self) -> TimesSnapshot {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        TimesSnapshot { counts, nanoseconds: self.nanoseconds.load(Ordering::Relaxed) }
    }
}

/// Intervals that were noted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimesSnapshot {
    /// How many, by their length: see [`PaceSnapshot::bound`].
    pub counts: Vec<u64>,
    /// How long all of them are together.
    pub nanoseconds: u64,
}

/// A controller's pace. It lasts from program to program.
#[derive(Debug, Default)]
pub struct Pace {
    /// From a call that woke it to where it ran.
    wake: Times,
    /// From there to where it waited again.
    busy: Times,
    wakes: AtomicU64,
}

impl Pace {
    /// It is called while it waits.
    pub fn called(&self) {
        self.wakes.fetch_add(1, Ordering::Relaxed);
    }

    /// It runs, so long after it was called.
    pub fn runs(&self, nanoseconds: u64) {
        self.wake.add(nanoseconds);
    }

    /// It waits, and has not for so long.
    pub fn waits(&self, nanoseconds: u64) {
        self.busy.add(nanoseconds);
    }

    /// What was noted.
    pub fn snapshot(&self) -> PaceSnapshot {
        PaceSnapshot {
            wakes: self.wakes.load(Ordering::Relaxed),
            wake: self.wake.snapshot(),
            busy: self.busy.snapshot(),
        }
    }
}

/// A controller's pace at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PaceSnapshot {
    /// How often it was woken while it waited.
    pub wakes: u64,
    /// How long it was from then until it ran.
    pub wake: TimesSnapshot,
    /// How long it went on without waiting. One that is never done has none.
    pub busy: TimesSnapshot,
}

impl PaceSnapshot {
    /// Buckets of intervals; the last one has all that is longer than the one before: 8.6 s.
    pub const BUCKETS: usize = 25;

    /// The least length that a bucket does not hold any more, in nanoseconds.
    pub fn bound(bucket: usize) -> u64 {
        1 << (FIRST as usize + bucket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_in_the_bucket_whose_bound_it_does_not_reach() {
        for (nanoseconds, bucket) in [(0, 0), (1023, 0), (1024, 1), (2047, 1), (2048, 2), (1 << 33, 24), (u64::MAX, 24)]
        {
            let pace = Pace::default();
            pace.runs(nanoseconds);
            let found = pace.snapshot().wake;
            assert_eq!(found.counts.iter().position(|count| *count == 1), Some(bucket), "{nanoseconds}");
            assert_eq!(found.nanoseconds, nanoseconds);
            assert!(nanoseconds < PaceSnapshot::bound(bucket) || bucket == 24);
        }
    }
}

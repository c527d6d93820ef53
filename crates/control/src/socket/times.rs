//! Intervals: how many were how long.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Intervals, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// How long all of them are together.
    pub total_ns: u64,
    /// Half of them are shorter than so many nanoseconds.
    pub p50_ns: u64,
    /// As many in a hundred: 90.
    pub p90_ns: u64,
    /// As many in a hundred: 99.
    pub p99_ns: u64,
    /// How many are how long: buckets that have any, the shortest first.
    pub buckets: Vec<TimeBucket>,
}

/// Intervals of about one length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TimeBucket {
    /// They are shorter than so many nanoseconds, and no shorter than the bucket before says.
    pub below_ns: u64,
    /// How many there are.
    pub count: u64,
}

impl Times {
    /// Of what was counted by bucket; `bound` is the least length that one does not hold any more.
    pub(super) fn new(counts: &[u64], total_ns: u64, bound: fn(usize) -> u64) -> Times {
        let some = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        Times::of(some.map(|(bucket, count)| TimeBucket { below_ns: bound(bucket), count: *count }).collect(), total_ns)
    }

    fn of(buckets: Vec<TimeBucket>, total_ns: u64) -> Times {
        let count: u64 = buckets.iter().map(|bucket| bucket.count).sum();
        let share = |percent: u64| {
            let mut missing = (count * percent).div_ceil(100);
            let reaches = |own: &&TimeBucket| {
                missing = missing.saturating_sub(own.count);
                missing == 0
            };
            buckets.iter().find(reaches).map_or(0, |bucket| bucket.below_ns)
        };
        let [p50_ns, p90_ns, p99_ns] = [50, 90, 99].map(share);
        Times { count, total_ns, p50_ns, p90_ns, p99_ns, buckets }
    }

    /// Those that have come since an earlier look. Where that has seen more, counting has begun anew: all.
    pub fn since(&self, before: &Times) -> Times {
        let mut left: BTreeMap<u64, u64> = self.buckets.iter().map(|own| (own.below_ns, own.count)).collect();
        for TimeBucket { below_ns, count } in &before.buckets {
            match left.get_mut(below_ns).filter(|own| **own >= *count) {
                Some(own) => *own -= count,
                None => return self.clone(),
            }
        }
        let left = left.into_iter().filter(|(_, count)| *count > 0);
        let buckets = left.map(|(below_ns, count)| TimeBucket { below_ns, count }).collect();
        Times::of(buckets, self.total_ns.saturating_sub(before.total_ns))
    }

    /// How long one is, on average.
    pub fn mean_ns(&self) -> f64 {
        self.total_ns as f64 / self.count.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(counts: &[u64], total_ns: u64) -> Times {
        Times::new(counts, total_ns, |bucket| 1 << bucket)
    }

    #[test]
    fn shares_are_bounds_of_buckets() {
        let times = of(&[0, 50, 40, 0, 9, 1], 500);
        assert_eq!((times.count, times.mean_ns()), (100, 5.0));
        assert_eq!([times.p50_ns, times.p90_ns, times.p99_ns], [2, 4, 16]);
        assert_eq!(times.buckets.iter().map(|own| own.below_ns).collect::<Vec<_>>(), [2, 4, 16, 32]);
        assert_eq!(of(&[0; 3], 0), Times::default());
    }

    #[test]
    fn what_was_seen_before_is_left_out() {
        let before = of(&[0, 50, 40], 200);
        assert_eq!(of(&[0, 50, 41, 0, 2], 240).since(&before), of(&[0, 0, 1, 0, 2], 40));
        assert_eq!(before.since(&before), Times::default());
        // It has begun anew.
        let anew = of(&[0, 3], 5);
        assert_eq!(anew.since(&before), anew);
    }
}

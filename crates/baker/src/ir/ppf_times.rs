//! Where a program that measures its time keeps how long packets were in its PPFs.
//!
//! ```text
//! since    when the last PPF was entered, in the unit of the engine's clock
//! row      the row of that PPF, 0 where the packet has ended
//! rows     for each PPF, behind one for the time between packets: intervals by their length, and their sum
//! ```
//!
//! Lengths are in nanoseconds, four buckets to a power of two, as in histograms of the HDR kind: up to 8 ns each has
//! its own, and none is wider than a quarter of where it begins.

use super::program::{PpfId, Program};

/// Powers of two: all that is longer is in the last bucket.
const POWERS: u32 = 24;

/// Slots for times in a [block of counters](super::CounterSlots).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PpfTimes {
    first: usize,
    rows: usize,
}

impl PpfTimes {
    /// Slots of a row: a power of two.
    pub const ROW: usize = 128;
    /// Of a row, the slot with the sum of all its intervals, in nanoseconds.
    pub const SUM: usize = Self::ROW - 1;
    /// Buckets of a power of two, as a power of two.
    pub const FINE: u32 = 2;
    /// Buckets of a histogram.
    pub const BUCKETS: usize = (((POWERS - 1 - Self::FINE) << Self::FINE) + (2 << Self::FINE)) as usize;
    /// The longest interval that is told apart, in nanoseconds; 16.8 ms.
    pub const LONGEST: u64 = (1 << POWERS) - 1;

    /// From a slot on.
    pub(super) fn new(program: &Program, first: usize) -> PpfTimes {
        PpfTimes { first, rows: (program.ppfs.len() + 1).next_power_of_two() }
    }

    /// The first slot behind it.
    pub(super) fn end(&self) -> usize {
        self.first + 2 + self.rows * Self::ROW
    }

    /// When the last PPF was entered.
    pub fn since(&self) -> usize {
        self.first
    }

    /// The row of the last PPF.
    pub fn row(&self) -> usize {
        self.first + 1
    }

    /// The first slot of row 0; each has as many as [`PpfTimes::ROW`] says.
    pub fn rows(&self) -> usize {
        self.first + 2
    }

    /// How many rows there are: a power of two.
    pub fn row_count(&self) -> usize {
        self.rows
    }

    /// The number of a PPF's row.
    pub fn row_of(ppf: PpfId) -> usize {
        ppf.0 as usize + 1
    }

    /// The slot of a PPF's bucket.
    pub fn bucket(&self, ppf: PpfId, bucket: usize) -> usize {
        self.rows() + PpfTimes::row_of(ppf) * Self::ROW + bucket
    }

    /// The slot of the sum of a PPF's intervals.
    pub fn sum(&self, ppf: PpfId) -> usize {
        self.bucket(ppf, Self::SUM)
    }

    /// The bucket of an interval, which generated code finds in the same way.
    pub fn bucket_of(nanoseconds: u64) -> usize {
        let length = nanoseconds.min(PpfTimes::LONGEST);
        let shift = (length | 1 << Self::FINE).ilog2() - Self::FINE;
        ((u64::from(shift) << Self::FINE) + (length >> shift)) as usize
    }

    /// The least length that a bucket does not hold any more, in nanoseconds.
    pub fn bound(bucket: usize) -> u64 {
        let next = bucket as u64 + 1;
        let fine = 1 << Self::FINE;
        let shift = (next / fine).saturating_sub(1);
        (next - shift * fine) << shift
    }
}

#[cfg(test)]
mod tests {
    use super::PpfTimes;

    #[test]
    fn each_length_is_in_the_bucket_whose_bounds_it_is_between() {
        let lengths = (0..5000).chain((12..24).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + 1]));
        for length in lengths.chain([PpfTimes::LONGEST]) {
            let bucket = PpfTimes::bucket_of(length);
            let least = if bucket == 0 { 0 } else { PpfTimes::bound(bucket - 1) };
            assert!((least..PpfTimes::bound(bucket)).contains(&length), "{length} is in {bucket}, from {least} on");
            assert!(length < 8 || PpfTimes::bound(bucket) - least <= least / 4, "{bucket} is wide");
        }
        assert_eq!(PpfTimes::bucket_of(u64::MAX), PpfTimes::BUCKETS - 1);
        assert_eq!(PpfTimes::bound(PpfTimes::BUCKETS - 1), PpfTimes::LONGEST + 1);
    }
}

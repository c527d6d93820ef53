//! Meters: the generic cell rate algorithm, as virtual scheduling (ITU-T I.371, Annex A).
//!
//! A meter is a token bucket: `rate` tokens per second come into it, and it holds `burst` at most. Its one state is the
//! theoretical arrival time: the time at which the bucket will be full again. So a worker changes it by one
//! compare-and-swap, and nothing has to run between packets.
//!
//! Times are nanoseconds with 10 binary digits behind the point: 1/1024 ns is a hundredth of a byte at 100 Gbit/s. They
//! wrap around after 208 days, and differences are taken modulo that. A bucket that was full long ago may so look like
//! one that will be full in the future; nothing lies further ahead than it takes to fill it, so a greater difference
//! means the past.

/// What the control plane sets of a meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MeterRate {
    /// Tokens per second; 0 lets nothing pass.
    pub rate: u64,
    /// Tokens that the bucket holds at most.
    pub burst: u64,
}

/// Binary digits behind the point of a time in nanoseconds.
pub const FRACTION: u32 = 10;

/// Further digits of the time from token to token.
pub const FINER: u32 = 24;

/// A second, in the unit of the time from token to token; just within 64 bits.
pub const SECOND: u64 = 1_000_000_000 << (FRACTION + FINER);

/// A bucket takes 52 days to fill at most; one that would take longer holds less.
pub const LONGEST: u64 = 1 << 62;

/// How far the times of two workers may differ: their batches begin at different moments. One second and a bit.
pub const APART: u64 = 1 << (FRACTION + 30);

impl MeterRate {
    /// Takes `tokens` at the time `now` (nanoseconds) from a bucket that is full again at `full` (see above): the new
    /// time at which it is full, or `None` where it holds less, and nothing is taken.
    pub fn take(self, full: u64, now: u64, tokens: u64) -> Option<u64> {
        let interval = u128::from(SECOND.checked_div(self.rate)?.max(1));
        // Rounded so that a burst passes, also where it is taken in parts.
        let holds = (u128::from(self.burst) * interval).div_ceil(1 << FINER).min(LONGEST.into()) as u64;
        let cost = (u128::from(tokens) * interval) >> FINER;
        let now = now << FRACTION;
        let ahead = full.wrapping_sub(now);
        let ahead = if ahead > holds + APART { 0 } else { ahead };
        let after = u128::from(ahead) + cost;
        (after <= holds.into()).then(|| now.wrapping_add(after as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const S: u64 = 1000 * MS;

    /// How many tokens pass of those asked for one by one, `each` at a time, from `start` on for `steps` steps.
    fn passed(meter: MeterRate, each: u64, start: u64, step: u64, steps: u64) -> u64 {
        let mut full = 0;
        let times = (0..steps).map(|i| start + i * step);
        times.filter_map(|now| meter.take(full, now, each).map(|next| full = next)).count() as u64 * each
    }

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        for rate in [1, 3, 7, 1000, 999_983, 1_000_000_000, 12_500_000_000] {
            for burst in [1, 2, 10, 1_000] {
                let meter = MeterRate { rate, burst };
                let one_by_one = passed(meter, 1, 5 * S, 0, 3 * burst);
                // A token of less than a nanosecond is cut off by up to one unit.
                let cut_off = if rate > S { burst / 64 } else { 0 };
                assert!((burst..=burst + cut_off).contains(&one_by_one), "{meter:?}: {one_by_one}");
                assert_eq!(meter.take(0, 5 * S, burst + 1), None);
                let full = meter.take(0, 5 * S, burst).expect("all at once");
                assert_eq!(meter.take(full, 5 * S, 1), None);
                // The next token is there after its time, and not before.
                let token = S.div_ceil(rate);
                assert!(meter.take(full, 5 * S + token, 1).is_some(), "{meter:?}");
                assert!(token < 4 || meter.take(full, 5 * S + token - token / 4, 1).is_none(), "{meter:?}");
            }
        }
    }

    #[test]
    fn rates_are_exact_over_long_times() {
        // 10 s of packets of 64 bytes at 100 Gbit/s through a meter of half of that.
        let half = MeterRate { rate: 6_250_000_000, burst: 6400 };
        let bytes = passed(half, 64, S, 5, 2_000_000) as f64 / (2_000_000.0 * 5e-9);
        assert!((bytes / 6.25e9 - 1.0).abs() < 1e-3, "{bytes}");
        let slow = MeterRate { rate: 10, burst: 5 };
        assert_eq!(passed(slow, 1, S, 10 * MS, 100 * 100), 5 + 999);
    }

    #[test]
    fn edges() {
        let meter = MeterRate { rate: 1000, burst: 10 };
        for now in [0, 1, S, 1 << 53, 1 << 54, u64::MAX >> 10, u64::MAX] {
            // A bucket that was not touched is full, whatever the time; nothing is always to be had.
            let long_ago = now.wrapping_sub(10 * S) << FRACTION;
            assert!(meter.take(long_ago, now, 10).is_some(), "{now}");
            assert_eq!(meter.take(long_ago, now, 11), None);
            assert_eq!(meter.take(long_ago, now, u64::MAX), None);
            assert!(meter.take(long_ago, now, 0).is_some());
            assert_eq!(MeterRate { rate: 0, burst: 10 }.take(long_ago, now, 0), None);
            assert_eq!(MeterRate { rate: 1000, burst: 0 }.take(long_ago, now, 1), None);
            for rate in [1, u64::MAX] {
                for burst in [1, u64::MAX] {
                    assert!(MeterRate { rate, burst }.take(long_ago, now, 1).is_some());
                }
            }
        }
    }

    #[test]
    fn a_worker_whose_batch_began_earlier_gets_no_further_burst() {
        let meter = MeterRate { rate: 1000, burst: 10 };
        let full = meter.take(0, 5 * S, 10).expect("full");
        for earlier in [1, MS, 500 * MS] {
            assert_eq!(meter.take(full, 5 * S - earlier, 1), None);
        }
        // What it takes is not lost.
        let half = meter.take(0, 5 * S, 5).expect("full");
        let more = meter.take(half, 5 * S - MS, 3).expect("two are missing for the earlier time, eight are left");
        assert_eq!(more, half + 3 * (MS << FRACTION));
    }
}

//! Time in nanoseconds: the emulator schedules by the monotonic clock, the kernel stamps frames with the clock of the
//! day.

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of the monotonic clock; its zero means nothing.
pub(crate) fn monotonic() -> u64 {
    read(ClockId::CLOCK_MONOTONIC)
}

/// Nanoseconds since 1970.
pub(crate) fn realtime() -> u64 {
    read(ClockId::CLOCK_REALTIME)
}

fn read(clock: ClockId) -> u64 {
    // Both clocks exist on every Linux, and reading one cannot fail otherwise (clock_gettime(2)).
    let time = clock_gettime(clock).expect("a clock that always exists");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// Both clocks read at one moment, to turn the kernel's stamps into monotonic time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// Monotonic, in ns.
    pub(crate) now: u64,
    realtime: u64,
}

impl Moment {
    /// How far a stamp may be from this moment to be believed, in ns: beyond it the clock of the day was set meanwhile.
    const FURTHEST: u64 = 10_000_000_000;
    /// Two readings further apart, in ns, were interrupted, and so often it is tried again.
    const APART: u64 = 2_000;
    const TRIES: u32 = 4;

    pub(crate) fn read() -> Moment {
        let mut last = monotonic();
        for _ in 0..Self::TRIES {
            let (realtime, now) = (realtime(), monotonic());
            if now - last <= Self::APART {
                return Moment { now, realtime };
            }
            last = now;
        }
        Moment { now: last, realtime: realtime() }
    }

    /// When a frame arrived, in monotonic time, by its stamp in nanoseconds since 1970. That may be after this moment:
    /// frames arrive while others are taken.
    pub(crate) fn arrival(&self, stamp: u64) -> u64 {
        let age = self.realtime.wrapping_sub(stamp) as i64;
        if age.unsigned_abs() > Self::FURTHEST { self.now } else { self.now.saturating_add_signed(-age) }
    }
}

#[cfg(test)]
mod tests {
    use super::Moment;

    #[test]
    fn stamps_become_monotonic() {
        let moment = Moment { now: 5_000_000_000, realtime: 1_700_000_000_000_000_000 };
        assert_eq!(moment.arrival(moment.realtime - 700), moment.now - 700);
        assert_eq!(moment.arrival(moment.realtime + 700), moment.now + 700);
        for other in [moment.realtime - 3_600_000_000_000, moment.realtime + 3_600_000_000_000, 0] {
            assert_eq!(moment.arrival(other), moment.now, "the clock was set");
        }
    }
}

//! Time in nanoseconds: the emulator schedules by the monotonic clock, the kernel stamps frames with the clock of the day.

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
    /// Oldest stamp that is believed, in ns: beyond it the clock of the day was set meanwhile.
    const OLDEST: u64 = 10_000_000_000;

    pub(crate) fn read() -> Moment {
        Moment { now: monotonic(), realtime: realtime() }
    }

    /// When a frame arrived, in monotonic time, by its stamp in nanoseconds since 1970; never after this moment.
    pub(crate) fn arrival(&self, stamp: u64) -> u64 {
        let age = self.realtime.saturating_sub(stamp);
        if age > Self::OLDEST { self.now } else { self.now.saturating_sub(age) }
    }
}

#[cfg(test)]
mod tests {
    use super::Moment;

    #[test]
    fn stamps_become_monotonic() {
        let moment = Moment { now: 5_000_000_000, realtime: 1_700_000_000_000_000_000 };
        assert_eq!(moment.arrival(moment.realtime - 700), moment.now - 700);
        assert_eq!(moment.arrival(moment.realtime + 700), moment.now, "not in the future");
        assert_eq!(moment.arrival(moment.realtime - 3_600_000_000_000), moment.now, "the clock was set");
    }
}

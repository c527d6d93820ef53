//! Where each counter of a program lies in a worker's block of 64-bit counters.
//!
//! Every engine counts into one block per worker with this order: packets put to each channel, packets dropped for each
//! reason, insertions refused by each full table, runs and visits of each timer, then the cells of the user counters. A
//! program whose time is measured has [`PpfTimes`] behind them, and look-ups of each table. Readers add up the workers'
//! blocks.

use super::ppf_times::PpfTimes;
use super::program::*;

/// Maps counters to slots of the block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterSlots {
    drops: usize,
    full: usize,
    timers: usize,
    user: Vec<usize>,
    times: Option<PpfTimes>,
    look_ups: Option<usize>,
    len: usize,
}

impl CounterSlots {
    /// The slots of a program.
    pub fn new(program: &Program) -> Self {
        let drops = program.channels.len();
        let full = drops + program.drop_reasons.len();
        let timers = full + program.tables.len();
        let mut len = timers + 2 * program.timers.len();
        let user = program
            .counters
            .iter()
            .map(|counter| {
                let first = len;
                len += counter.size as usize;
                first
            })
            .collect();
        let times = program.timed.then(|| PpfTimes::new(program, len));
        len = times.as_ref().map_or(len, PpfTimes::end);
        let look_ups = program.timed.then_some(len);
        len = look_ups.map_or(len, |first| first + 2 * program.tables.len());
        CounterSlots { drops, full, timers, user, times, look_ups, len }
    }

    /// Number of slots.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Packets put to a channel. Channel 0 counts the packets that entered at `rx`.
    pub fn channel(&self, channel: ChannelId) -> usize {
        channel.0 as usize
    }

    /// Packets dropped for a reason.
    pub fn drop(&self, reason: DropId) -> usize {
        self.drops + reason.0 as usize
    }

    /// Insertions that a full table refused.
    pub fn table_full(&self, table: TableId) -> usize {
        self.full + table.0 as usize
    }

    /// How often a timer began to run.
    pub fn timer_runs(&self, timer: TimerId) -> usize {
        self.timers + 2 * timer.0 as usize
    }

    /// Entries that a timer ran for.
    pub fn timer_entries(&self, timer: TimerId) -> usize {
        self.timer_runs(timer) + 1
    }

    /// First cell of a user counter; cell `i` is `i` slots further.
    pub fn user(&self, counter: CounterId) -> usize {
        self.user[counter.0 as usize]
    }

    /// How long packets were in PPFs, where that is measured.
    pub fn times(&self) -> Option<&PpfTimes> {
        self.times.as_ref()
    }

    /// Look-ups in a table, and behind them those that found nothing, where that is counted.
    pub fn look_ups(&self, table: TableId) -> Option<usize> {
        self.look_ups.map(|first| first + 2 * table.0 as usize)
    }
}

//! All counters at one time, by name.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::controller::ControllerSnapshot;
use crate::counters::WorkerCounters;

/// A port's counters at one time. Packets and bytes since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortSnapshot {
    /// The port's name.
    pub name: String,
    /// Its number, as in `rx.port` and `tx.port`.
    pub number: u8,
    /// `DRIVER:DEVICE`.
    pub device: String,
    /// See [`PortCounters`](crate::PortCounters).
    pub rx_packets: u64,
    /// See [`PortCounters`](crate::PortCounters).
    pub rx_bytes: u64,
    /// See [`PortCounters`](crate::PortCounters).
    pub tx_packets: u64,
    /// See [`PortCounters`](crate::PortCounters).
    pub tx_bytes: u64,
    /// See [`PortCounters`](crate::PortCounters).
    pub tx_failed: u64,
    /// See [`PortCounters`](crate::PortCounters).
    pub rx_dropped: u64,
    /// See [`PortCounters`](crate::PortCounters).
    pub oversize: u64,
    /// Packets that could not be finished, by reason; reasons that there were none for are left out.
    pub unfinished: Vec<(&'static str, u64)>,
    /// See [`PortCounters`](crate::PortCounters).
    pub rx_super: u64,
    /// See [`PortCounters`](crate::PortCounters).
    pub rx_in_super: u64,
    /// See [`PortCounters`](crate::PortCounters).
    pub tx_super: u64,
    /// See [`PortCounters`](crate::PortCounters).
    pub tx_in_super: u64,
    /// See [`PortCounters`](crate::PortCounters).
    pub rx_queued: u64,
    /// See [`PortCounters`](crate::PortCounters).
    pub rx_places: u64,
    /// See [`PortCounters`](crate::PortCounters).
    pub tx_queued: u64,
    /// See [`PortCounters`](crate::PortCounters).
    pub tx_places: u64,
    /// What is wrong at the port now.
    pub error: Option<String>,
}

/// What a worker did since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerSnapshot {
    /// See [`WorkerCounters`].
    pub rounds: u64,
    /// See [`WorkerCounters`].
    pub idle: u64,
    /// See [`WorkerCounters`].
    pub sleeps: u64,
    /// See [`WorkerCounters`].
    pub packets: u64,
    /// See [`WorkerCounters`].
    pub cpu_ns: u64,
    /// See [`WorkerCounters`].
    pub ring_bytes: u64,
    /// See [`WorkerCounters`].
    pub ring_size: u64,
}

impl WorkerSnapshot {
    pub(super) fn of(counters: &WorkerCounters) -> Self {
        let now = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        WorkerSnapshot {
            rounds: now(&counters.rounds),
            idle: now(&counters.idle),
            sleeps: now(&counters.sleeps),
            packets: now(&counters.packets),
            cpu_ns: now(&counters.cpu_ns),
            ring_bytes: now(&counters.ring_bytes),
            ring_size: now(&counters.ring_size),
        }
    }
}

/// What a timer did since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimerSnapshot {
    /// Its full name.
    pub name: String,
    /// The table that it goes over.
    pub table: Option<String>,
    /// Nanoseconds from one start to the next.
    pub period: u64,
    /// How often it began to run.
    pub runs: u64,
    /// Entries that it ran for; 0 where it goes over no table. One that is removed at that moment is counted, too.
    pub entries: u64,
}

/// Look-ups of packets in a table since they are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LookUpSnapshot {
    /// The table.
    pub table: String,
    /// How often packets looked something up in it.
    pub count: u64,
    /// How often they found nothing.
    pub missed: u64,
}

/// How long packets were in a PPF since its time is measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeSnapshot {
    /// The PPF's full name.
    pub ppf: String,
    /// Intervals by their length: the buckets of [`baker::ir::PpfTimes`].
    pub buckets: Vec<u64>,
    /// The sum of their lengths, in nanoseconds.
    pub nanoseconds: u64,
}

/// All counters at one time, summed over the workers, by name, in the program's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Packets put to each channel; the first is `rx`.
    pub channels: Vec<(String, u64)>,
    /// Packets that entered each PPF: the sum of the channels that lead to it.
    pub ppfs: Vec<(String, u64)>,
    /// Packets dropped, by reason.
    pub drops: Vec<(String, u64)>,
    /// Packets that the program was done with (`packet_end`): no drops.
    pub ended: u64,
    /// Insertions that a full table refused.
    pub tables_full: Vec<(String, u64)>,
    /// Cells of the program's own counters.
    pub user: Vec<(String, Vec<u64>)>,
    /// Timers.
    pub timers: Vec<TimerSnapshot>,
    /// Calls of functions of controllers that failed and gave 0.
    pub externs_failed: Vec<(String, u64)>,
    /// Controllers.
    pub controllers: Vec<ControllerSnapshot>,
    /// Ports.
    pub ports: Vec<PortSnapshot>,
    /// Workers.
    pub workers: Vec<WorkerSnapshot>,
}

impl Snapshot {
    /// Packets dropped for a reason; 0 where there is no such reason.
    pub fn dropped(&self, reason: &str) -> u64 {
        self.drops.iter().find(|(name, _)| name == reason).map_or(0, |(_, count)| *count)
    }

    /// Packets put to a channel; 0 where there is no such channel.
    pub fn channel(&self, channel: &str) -> u64 {
        self.channels.iter().find(|(name, _)| name == channel).map_or(0, |(_, count)| *count)
    }

    /// Adds what another program counted under the same names. Functions of controllers count through.
    pub(super) fn add(&mut self, other: &Snapshot) {
        let add = |mine: &mut Vec<(String, u64)>, others: &[(String, u64)]| {
            for (name, count) in mine {
                let other = others.iter().find(|(other, _)| other == name);
                *count = other.map_or(*count, |(_, more)| count.wrapping_add(*more));
            }
        };
        add(&mut self.channels, &other.channels);
        add(&mut self.ppfs, &other.ppfs);
        add(&mut self.drops, &other.drops);
        self.ended = self.ended.wrapping_add(other.ended);
        add(&mut self.tables_full, &other.tables_full);
        for (name, cells) in &mut self.user {
            let other = other.user.iter().find(|(other, _)| other == name);
            for (cell, more) in cells.iter_mut().zip(other.iter().flat_map(|(_, cells)| cells)) {
                *cell = cell.wrapping_add(*more);
            }
        }
        for timer in &mut self.timers {
            let other = other.timers.iter().find(|other| other.name == timer.name);
            timer.runs = timer.runs.wrapping_add(other.map_or(0, |other| other.runs));
            timer.entries = timer.entries.wrapping_add(other.map_or(0, |other| other.entries));
        }
    }

    /// A port by name.
    pub fn port(&self, name: &str) -> Option<&PortSnapshot> {
        self.ports.iter().find(|port| port.name == name)
    }
}

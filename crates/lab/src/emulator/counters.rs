//! What happened to the packets of one direction, published by the emulator's thread without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

/// What happened to the packets of one direction.
///
/// Every packet is accounted for: `received + duplicated` is the sum of `sent`, `in_flight` and all drops. The
/// numbers are read one by one while packets move, so the sum holds when the link is at rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Packets that came to the emulator.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets that left it.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Drop: the queue before the rate was full.
    pub queue_full: u64,
    /// Drop: lost, as asked for.
    pub lost: u64,
    /// Drop: the emulator's memory for delayed packets was full.
    pub no_memory: u64,
    /// Drop: longer than the link's MTU allows, as a host with offloads on sends.
    pub too_long: u64,
    /// Drop: the kernel did not take it; the device at the other end is down.
    pub refused: u64,
    /// Copies made, as asked for.
    pub duplicated: u64,
    /// Packets with a bit flipped.
    pub corrupted: u64,
    /// Packets overtaken because they were held back.
    pub reordered: u64,
    /// Packets sent more than 0.1 ms after their time: the emulator did not get the processor, or had too much to do.
    pub late: u64,
    /// Packets under way just now.
    pub in_flight: u64,
    /// Packets that the kernel dropped before the emulator saw them: it was too slow. They are not among `received`.
    pub overrun: u64,
}

const COUNTERS: usize = 15;

impl LinkCounters {
    /// Packets dropped for any cause; not those that the emulator never saw.
    pub fn dropped(&self) -> u64 {
        self.queue_full + self.lost + self.no_memory + self.too_long + self.refused
    }

    /// All of them by name.
    pub fn named(&self) -> [(&'static str, u64); COUNTERS] {
        // Taken apart, so that a new counter cannot be forgotten here.
        let LinkCounters {
            received,
            received_bytes,
            sent,
            sent_bytes,
            queue_full,
            lost,
            no_memory,
            too_long,
            refused,
            duplicated,
            corrupted,
            reordered,
            late,
            in_flight,
            overrun,
        } = *self;
        [
            ("received", received),
            ("received_bytes", received_bytes),
            ("sent", sent),
            ("sent_bytes", sent_bytes),
            ("queue_full", queue_full),
            ("lost", lost),
            ("no_memory", no_memory),
            ("too_long", too_long),
            ("refused", refused),
            ("duplicated", duplicated),
            ("corrupted", corrupted),
            ("reordered", reordered),
            ("late", late),
            ("in_flight", in_flight),
            ("overrun", overrun),
        ]
    }
}

impl From<[u64; COUNTERS]> for LinkCounters {
    fn from(numbers: [u64; COUNTERS]) -> Self {
        let [
            received,
            received_bytes,
            sent,
            sent_bytes,
            queue_full,
            lost,
            no_memory,
            too_long,
            refused,
            duplicated,
            corrupted,
            reordered,
            late,
            in_flight,
            overrun,
        ] = numbers;
        LinkCounters {
            received,
            received_bytes,
            sent,
            sent_bytes,
            queue_full,
            lost,
            no_memory,
            too_long,
            refused,
            duplicated,
            corrupted,
            reordered,
            late,
            in_flight,
            overrun,
        }
    }
}

/// Where one thread puts its counters and others read them.
#[derive(Debug, Default)]
pub(super) struct Published([AtomicU64; COUNTERS]);

impl Published {
    pub(super) fn set(&self, counters: &LinkCounters) {
        for (published, (_, number)) in self.0.iter().zip(counters.named()) {
            published.store(number, Ordering::Relaxed);
        }
    }

    pub(super) fn get(&self) -> LinkCounters {
        self.0.each_ref().map(|number| number.load(Ordering::Relaxed)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::{LinkCounters, Published};

    #[test]
    fn every_counter_is_published_as_itself() {
        let distinct: [u64; super::COUNTERS] = std::array::from_fn(|i| i as u64 + 1);
        let counters = LinkCounters::from(distinct);
        assert_eq!((counters.received, counters.sent, counters.overrun), (1, 3, 15));
        let published = Published::default();
        published.set(&counters);
        assert_eq!(published.get(), counters);
    }
}

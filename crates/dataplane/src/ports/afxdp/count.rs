//! What passes at a port whose packets workers do not see: the interface itself has counted it.

use std::sync::atomic::Ordering;

use crate::counters::PortCounters;
use crate::xdp::Statistics;

/// The counts of a port's interfaces, one after the other.
#[derive(Debug, Default)]
pub struct Count {
    index: i32,
    /// What this one had counted when it was first looked at.
    first: Statistics,
    /// What those before it have counted.
    before: Statistics,
    /// What all of them have.
    all: Statistics,
}

impl Count {
    /// Of an interface with this index.
    pub fn new(index: i32, now: Statistics) -> Self {
        Count { index, first: now, ..Count::default() }
    }

    /// Writes what the interfaces have counted since then. Their `rx_dropped` is not among that: it has what the kernel's own stack
    /// has no use for, too.
    pub fn update(&mut self, index: i32, now: Statistics, counters: &PortCounters) {
        if index != self.index {
            (self.index, self.first, self.before) = (index, Statistics::default(), self.all);
        }
        let Count { first, before, .. } = *self;
        let since = |of: fn(&Statistics) -> u64| of(&before) + of(&now).saturating_sub(of(&first));
        self.all = Statistics {
            rx_packets: since(|s| s.rx_packets),
            tx_packets: since(|s| s.tx_packets),
            rx_bytes: since(|s| s.rx_bytes),
            tx_bytes: since(|s| s.tx_bytes),
        };
        counters.rx_packets.store(self.all.rx_packets, Ordering::Relaxed);
        counters.rx_bytes.store(self.all.rx_bytes, Ordering::Relaxed);
        counters.tx_packets.store(self.all.tx_packets, Ordering::Relaxed);
        counters.tx_bytes.store(self.all.tx_bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_of_a_port_add_up() {
        let seen = |rx_packets, tx_bytes| Statistics { rx_packets, tx_bytes, ..Statistics::default() };
        let counters = PortCounters::default();
        let said = || (counters.rx_packets.load(Ordering::Relaxed), counters.tx_bytes.load(Ordering::Relaxed));
        let mut count = Count::new(4, seen(100, 7));
        count.update(4, seen(150, 9), &counters);
        assert_eq!(said(), (50, 2));
        count.update(9, seen(3, 1), &counters);
        assert_eq!(said(), (53, 3));
        count.update(9, seen(4, 10), &counters);
        assert_eq!(said(), (54, 12));
    }
}

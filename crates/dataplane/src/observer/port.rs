//! What counts at a port.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::snapshot::PortSnapshot;
use crate::counters::PortCounters;
use crate::packets::Refused;
use crate::ports::Count;

/// A port, for observers.
#[derive(Clone, Debug)]
pub(crate) struct ObservedPort {
    pub name: String,
    pub number: u8,
    pub device: String,
    /// One per worker.
    pub counters: Vec<Arc<PortCounters>>,
    /// What counts packets and bytes where workers do not see them all.
    pub count: Option<Arc<Count>>,
}

impl ObservedPort {
    /// The latest error of one of its queues.
    pub(super) fn error(&self) -> Option<String> {
        self.counters.iter().find_map(|counters| counters.error())
    }

    /// Packets that could not be finished, by reason; reasons that there were none for are left out.
    pub(super) fn unfinished(&self) -> Vec<(&'static str, u64)> {
        let count = |why: Refused| -> u64 {
            self.counters.iter().map(|worker| worker.unfinished[why as usize].load(Ordering::Relaxed)).sum()
        };
        Refused::ALL.into_iter().map(|why| (why.name(), count(why))).filter(|(_, count)| *count > 0).collect()
    }

    /// Its counters now; the kernel's programs know of `failed` packets that they could not send there. Also how many
    /// of those that could not be sent no worker has counted.
    pub(super) fn snapshot(&self, failed: u64) -> (PortSnapshot, u64) {
        let sum = |counter: fn(&PortCounters) -> &AtomicU64| {
            self.counters.iter().fold(0u64, |sum, worker| sum.wrapping_add(counter(worker).load(Ordering::Relaxed)))
        };
        let counted = self.count.as_ref().map(|count| count.read()).unwrap_or_default();
        let failed = failed + self.count.as_ref().map_or(0, |count| count.failed(&counted));
        let snapshot = PortSnapshot {
            name: self.name.clone(),
            number: self.number,
            device: self.device.clone(),
            rx_packets: counted.rx_packets + sum(|worker| &worker.rx_packets),
            rx_bytes: counted.rx_bytes + sum(|worker| &worker.rx_bytes),
            tx_packets: counted.tx_packets + sum(|worker| &worker.tx_packets),
            tx_bytes: counted.tx_bytes + sum(|worker| &worker.tx_bytes),
            tx_failed: failed + sum(|worker| &worker.tx_failed),
            rx_dropped: sum(|worker| &worker.rx_dropped),
            oversize: sum(|worker| &worker.oversize),
            unfinished: self.unfinished(),
            rx_super: sum(|worker| &worker.rx_super),
            rx_in_super: sum(|worker| &worker.rx_in_super),
            tx_super: sum(|worker| &worker.tx_super),
            tx_in_super: sum(|worker| &worker.tx_in_super),
            rx_queued: sum(|worker| &worker.rx_queued),
            rx_places: sum(|worker| &worker.rx_places),
            tx_queued: sum(|worker| &worker.tx_queued),
            tx_places: sum(|worker| &worker.tx_places),
            error: self.error(),
        };
        (snapshot, failed)
    }
}

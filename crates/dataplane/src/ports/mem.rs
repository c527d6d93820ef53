//! Packets from and to memory: a generator that cycles through given packets, and a sink that counts or keeps.

use std::sync::{Arc, Mutex, PoisonError};

use super::queue::{Queue, Sent};
use crate::packets::{RxBatch, TxBatch};

/// Packets that were sent, shared with those that look at them.
pub type MemSink = Arc<Mutex<Vec<Vec<u8>>>>;

/// A port in memory, before it is opened. The default receives nothing and only counts what it sends.
#[derive(Clone, Debug, Default)]
pub struct MemPort {
    packets: Arc<[Vec<u8>]>,
    count: u64,
    sink: Option<MemSink>,
    fail_above: Option<usize>,
}

impl MemPort {
    /// Receives `count` packets, cycling through the given ones; none where `packets` is empty.
    pub fn generator(packets: Vec<Vec<u8>>, count: u64) -> Self {
        let count = if packets.is_empty() { 0 } else { count };
        MemPort { packets: packets.into(), count, ..Self::default() }
    }

    /// Keeps the packets that it sends, for tests: allocates per packet.
    pub fn collect(mut self) -> (Self, MemSink) {
        let sink = MemSink::default();
        self.sink = Some(sink.clone());
        (self, sink)
    }

    /// Fails to send packets longer than `bytes`, as a device with an MTU does.
    pub fn fail_above(mut self, bytes: usize) -> Self {
        self.fail_above = Some(bytes);
        self
    }

    /// A queue per worker. Each given packet is received by the same worker every time, so flows stay in order.
    pub(super) fn queues(&self, workers: usize) -> Vec<MemQueue> {
        let given = self.packets.len();
        let queue = |worker: usize| {
            // Of the last cycle, which may be cut short, and of those before it.
            let own = |upto: usize| upto.saturating_sub(worker).div_ceil(workers) as u64;
            let (cycles, rest) = (self.count / given.max(1) as u64, self.count % given.max(1) as u64);
            let left = if given == 0 { 0 } else { cycles * own(given) + own(rest as usize) };
            MemQueue { port: self.clone(), worker, workers, next: worker, left }
        };
        (0..workers).map(queue).collect()
    }
}

/// The queue of a [`MemPort`].
#[derive(Debug)]
pub struct MemQueue {
    port: MemPort,
    worker: usize,
    workers: usize,
    next: usize,
    left: u64,
}

impl Queue for MemQueue {
    fn receive(&mut self, batch: &mut RxBatch<'_>) {
        while self.left > 0 && batch.room() > 0 {
            batch.push(&[&self.port.packets[self.next]]);
            self.next += self.workers;
            if self.next >= self.port.packets.len() {
                self.next = self.worker;
            }
            self.left -= 1;
        }
    }

    fn transmit(&mut self, batch: &mut TxBatch<'_>) -> Sent {
        let mut sent = Sent::default();
        let mut sink = self.port.sink.as_ref().map(|sink| sink.lock().unwrap_or_else(PoisonError::into_inner));
        for packet in batch.packets() {
            if self.port.fail_above.is_some_and(|most| packet.len() > most) {
                continue;
            }
            sent.packets += 1;
            sent.bytes += packet.len() as u64;
            if let Some(sink) = &mut sink {
                sink.push(packet.to_vec());
            }
        }
        sent
    }

    fn finished(&self) -> bool {
        self.left == 0
    }
}

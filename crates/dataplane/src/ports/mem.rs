//! Packets from and to memory: a generator that cycles through given packets, and a sink that counts or keeps.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Queue, Sent};
use crate::context::{RxBatch, TxBatch};

/// Packets that were sent, shared with whoever looks at them.
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

    pub(super) fn queue(&self) -> MemQueue {
        MemQueue { port: self.clone(), next: 0, left: self.count }
    }
}

/// The queue of a [`MemPort`].
#[derive(Debug)]
pub struct MemQueue {
    port: MemPort,
    next: usize,
    left: u64,
}

impl Queue for MemQueue {
    fn receive(&mut self, batch: &mut RxBatch<'_>) {
        while self.left > 0 && batch.room() > 0 {
            batch.push(&[&self.port.packets[self.next]]);
            self.next = (self.next + 1) % self.port.packets.len();
            self.left -= 1;
        }
    }

    fn transmit(&mut self, batch: &TxBatch<'_>) -> Sent {
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

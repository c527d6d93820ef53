//! What was sent in super-packets.

use std::sync::atomic::Ordering;

use super::outgoing::Ready;
use crate::counters::PortCounters;
use crate::ports::queue::Sent;

/// Super-packets that were sent, and the packets in them, since they were counted last.
#[derive(Debug, Default)]
pub struct Joined {
    messages: u64,
    packets: u64,
}

impl Joined {
    /// A message was sent.
    pub fn note(&mut self, message: &Ready, sent: &mut Sent) {
        sent.packets += usize::from(message.packets);
        sent.bytes += u64::from(message.bytes);
        if message.packets > 1 {
            self.messages += 1;
            self.packets += u64::from(message.packets);
        }
    }

    /// Counts them.
    pub fn count(&mut self, counters: &PortCounters) {
        let Joined { messages, packets } = std::mem::take(self);
        counters.tx_super.fetch_add(messages, Ordering::Relaxed);
        counters.tx_in_super.fetch_add(packets, Ordering::Relaxed);
    }
}

//! A rate with a bounded queue before it, as arithmetic: when each packet has left it.

use std::collections::VecDeque;

use super::impairments::QueueLimit;

/// A transmitter that sends one packet after the other.
#[derive(Default)]
pub(super) struct Bottleneck {
    /// When it has sent all that it took, in ns.
    free_at: u64,
    /// What the division by the rate left over, in ns times bit/s, so that no time is lost over many packets.
    remainder: u128,
    /// End and length of each packet that is not yet sent.
    waiting: VecDeque<(u64, usize)>,
    waiting_bytes: u64,
}

impl Bottleneck {
    /// When a packet that comes at `now` is sent at `rate` bit/s, in ns; `None` when the queue is full.
    pub(super) fn take(&mut self, now: u64, bytes: usize, rate: u64, limit: QueueLimit) -> Option<u64> {
        while let Some(&(_, length)) = self.waiting.front().filter(|(end, _)| *end <= now) {
            self.waiting.pop_front();
            self.waiting_bytes -= length as u64;
        }
        let queued = !self.waiting.is_empty();
        if self.waiting.len() >= limit.packets as usize || queued && self.waiting_bytes + bytes as u64 > limit.bytes {
            return None;
        }
        if self.free_at <= now {
            (self.free_at, self.remainder) = (now, 0);
        }
        let work = bytes as u128 * 8 * 1_000_000_000 + self.remainder;
        self.free_at += (work / u128::from(rate)) as u64;
        self.remainder = work % u128::from(rate);
        self.waiting.push_back((self.free_at, bytes));
        self.waiting_bytes += bytes as u64;
        Some(self.free_at)
    }
}

#[cfg(test)]
mod tests {
    use super::{Bottleneck, QueueLimit};

    const NO_LIMIT: QueueLimit = QueueLimit { packets: u32::MAX, bytes: u64::MAX };

    #[test]
    fn packets_leave_at_the_rate() {
        let mut bottleneck = Bottleneck::default();
        // 125 bytes are 1000 bits: 1 ms at 1 Mbit/s.
        assert_eq!(bottleneck.take(5_000_000, 125, 1_000_000, NO_LIMIT), Some(6_000_000));
        assert_eq!(bottleneck.take(5_000_000, 125, 1_000_000, NO_LIMIT), Some(7_000_000));
        assert_eq!(bottleneck.take(9_000_000, 125, 1_000_000, NO_LIMIT), Some(10_000_000));
    }

    #[test]
    fn rounding_does_not_add_up() {
        // One bit takes 1/3 ns, a byte 8/3 ns; 3 million bytes take 8 ms.
        let mut bottleneck = Bottleneck::default();
        let mut last = 0;
        for _ in 0..3_000_000 {
            last = bottleneck.take(0, 1, 3_000_000_000, NO_LIMIT).unwrap();
        }
        assert_eq!(last, 8_000_000);
    }

    #[test]
    fn the_queue_is_bounded_in_packets_and_bytes() {
        let mut bottleneck = Bottleneck::default();
        let three = QueueLimit { packets: 3, bytes: u64::MAX };
        let taken = |bottleneck: &mut Bottleneck, now, limit| {
            (0..10).filter(|_| bottleneck.take(now, 125, 1_000_000, limit).is_some()).count()
        };
        assert_eq!(taken(&mut bottleneck, 0, three), 3);
        // One has left after 1 ms.
        assert_eq!(taken(&mut bottleneck, 1_000_000, three), 1);
        let mut bottleneck = Bottleneck::default();
        assert_eq!(taken(&mut bottleneck, 0, QueueLimit { packets: 100, bytes: 250 }), 2);
        let mut bottleneck = Bottleneck::default();
        assert_eq!(taken(&mut bottleneck, 0, QueueLimit { packets: 100, bytes: 1 }), 1, "one is always taken");
    }
}

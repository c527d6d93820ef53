//! Packets under way, in the order of their time to leave.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use super::pool::Packet;

/// A packet and when it leaves; of two that leave at once, the one that was put in first goes first.
struct Entry {
    due: u64,
    order: u64,
    packet: Packet,
}

impl Entry {
    fn key(&self) -> (u64, u64) {
        (self.due, self.order)
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// The packets under way in one direction.
///
/// With a constant delay they leave as they came: those stand in a queue, which costs nothing. Only a packet that
/// leaves before one that came earlier goes into the heap.
#[derive(Default)]
pub(super) struct DelayLine {
    queue: VecDeque<Entry>,
    heap: BinaryHeap<Reverse<Entry>>,
    orders: u64,
}

impl DelayLine {
    pub(super) fn push(&mut self, due: u64, packet: Packet) {
        let entry = Entry { due, order: self.orders, packet };
        self.orders += 1;
        match self.queue.back() {
            Some(last) if last.due > due => self.heap.push(Reverse(entry)),
            _ => self.queue.push_back(entry),
        }
    }

    /// When the next packet leaves.
    pub(super) fn next_due(&self) -> Option<u64> {
        let (queue, heap) = (self.queue.front(), self.heap.peek());
        queue.into_iter().chain(heap.map(|Reverse(entry)| entry)).map(|entry| entry.due).min()
    }

    /// The next packet if it leaves by `now`, and when it was to leave.
    pub(super) fn pop(&mut self, now: u64) -> Option<(u64, Packet)> {
        let from_queue = match (self.queue.front(), self.heap.peek()) {
            (Some(queue), Some(Reverse(heap))) => queue < heap,
            (queue, _) => queue.is_some(),
        };
        let next = if from_queue { self.queue.front() } else { self.heap.peek().map(|Reverse(entry)| entry) };
        next.filter(|next| next.due <= now)?;
        let entry = if from_queue { self.queue.pop_front() } else { self.heap.pop().map(|Reverse(entry)| entry) }?;
        Some((entry.due, entry.packet))
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len() + self.heap.len()
    }
}

#[cfg(test)]
mod tests {
    use super::DelayLine;
    use crate::emulator::pool::Pool;

    #[test]
    fn packets_leave_in_order_of_time_then_of_arrival() {
        let mut pool = Pool::new(1 << 20);
        let mut line = DelayLine::default();
        let times = [5, 9, 9, 3, 7, 9, 3, 12];
        for (i, &due) in times.iter().enumerate() {
            line.push(due, pool.put(&[&[i as u8]]).unwrap());
        }
        assert_eq!((line.len(), line.next_due()), (8, Some(3)));
        assert!(line.pop(2).is_none());
        let mut left = Vec::new();
        for now in 0..20 {
            while let Some((due, packet)) = line.pop(now) {
                assert_eq!(due, now);
                left.push((due, pool.bytes(&packet)[0]));
            }
        }
        assert_eq!(left, [(3, 3), (3, 6), (5, 0), (7, 4), (9, 1), (9, 2), (9, 5), (12, 7)]);
        assert_eq!((line.len(), line.next_due()), (0, None));
    }
}

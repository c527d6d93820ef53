//! One direction of a link: takes packets as they come, and gives them out when they are to leave. Does no I/O and
//! reads no clock, so that everything about it can be tested to the nanosecond.

use std::collections::VecDeque;

use super::bottleneck::Bottleneck;
use super::counters::LinkCounters;
use super::delay_line::DelayLine;
use super::impairments::Impairments;
use super::pool::{Packet, Pool};
use super::random::Streams;

/// Bytes of an Ethernet header: corruption leaves it alone, so that the packet still gets to its host.
const ETHERNET: usize = 14;
/// A packet that leaves so long after its time counts as late, in ns.
const LATE: u64 = 100_000;

/// A packet that others are to overtake.
struct Held {
    packet: Packet,
    /// It goes when this many packets of the direction have passed, in all.
    release: u64,
    /// It goes by then in any case.
    deadline: u64,
    /// When the first packet that came after it leaves.
    first_after: Option<u64>,
}

/// One direction of a link (a "pipe", as in dummynet: Rizzo 1997).
pub(super) struct Pipe {
    impairments: Impairments,
    random: Streams,
    bottleneck: Bottleneck,
    line: DelayLine,
    held: VecDeque<Held>,
    /// Packets that were not held.
    passed: u64,
    /// When the last packet leaves that was not allowed to overtake.
    last_due: u64,
    pub(super) counters: LinkCounters,
}

impl Pipe {
    /// Direction number `number`, which gets random decisions of its own from `seed`.
    pub(super) fn new(impairments: Impairments, seed: u64, number: u64) -> Pipe {
        Pipe {
            impairments,
            random: Streams::new(seed, number),
            bottleneck: Bottleneck::default(),
            line: DelayLine::default(),
            held: VecDeque::new(),
            passed: 0,
            last_due: 0,
            counters: LinkCounters::default(),
        }
    }

    /// Does to packets from here on what `impairments` say; those under way keep their times.
    pub(super) fn set(&mut self, impairments: Impairments) {
        self.impairments = impairments;
    }

    /// Takes a packet, given in parts, that came at `now` (ns).
    pub(super) fn take(&mut self, parts: &[&[u8]], now: u64, pool: &mut Pool) {
        let bytes = parts.iter().map(|part| part.len()).sum();
        self.counters.received += 1;
        self.counters.received_bytes += bytes as u64;
        let mut sent_at = now;
        if let Some(rate) = self.impairments.rate {
            match self.bottleneck.take(now, bytes, rate, self.impairments.queue) {
                Some(end) => sent_at = end,
                None => {
                    self.counters.queue_full += 1;
                    return;
                }
            }
        }
        if self.random.is_lost(&self.impairments.loss) {
            self.counters.lost += 1;
            return;
        }
        let Some(mut packet) = pool.put(parts) else {
            self.counters.no_memory += 1;
            return;
        };
        if self.impairments.corrupt > 0.0 {
            let bits = bytes.saturating_sub(ETHERNET) * 8;
            if let Some(bit) = self.random.corrupted_bit(self.impairments.corrupt, bits) {
                pool.bytes_mut(&mut packet)[ETHERNET + bit / 8] ^= 1 << (bit % 8);
                self.counters.corrupted += 1;
            }
        }
        let twice = self.impairments.duplicate > 0.0 && self.random.is_duplicated(self.impairments.duplicate);
        let copy = if twice { pool.copy(&packet) } else { None };
        self.dispatch(packet, sent_at);
        if let Some(copy) = copy {
            self.counters.duplicated += 1;
            self.dispatch(copy, sent_at);
        }
    }

    /// Counts a packet that cannot be carried.
    pub(super) fn too_long(&mut self, bytes: usize) {
        self.counters.received += 1;
        self.counters.received_bytes += bytes as u64;
        self.counters.too_long += 1;
    }

    /// Puts a packet that was sent at `sent_at` on its way.
    fn dispatch(&mut self, packet: Packet, sent_at: u64) {
        let delay = self.impairments.delay.as_nanos() as u64;
        let jitter = &self.impairments.jitter;
        let mut due = sent_at + delay;
        if !jitter.spread.is_zero() {
            due = due.saturating_add_signed(self.random.jitter(jitter)).max(sent_at);
        }
        if !jitter.overtake {
            due = due.max(self.last_due);
            self.last_due = due;
        }
        let reorder = self.impairments.reorder;
        if reorder.probability > 0.0 && self.random.is_held(reorder.probability) {
            let release = self.passed + u64::from(reorder.gap);
            let deadline = due + reorder.hold.as_nanos() as u64;
            self.held.push_back(Held { packet, release, deadline, first_after: None });
            return;
        }
        self.line.push(due, packet);
        self.passed += 1;
        for held in self.held.iter_mut().rev() {
            if held.first_after.is_some() {
                break; // and so have those before it
            }
            held.first_after = Some(due);
        }
        while let Some(held) = self.held.pop_front_if(|held| held.release <= self.passed) {
            self.let_go(held, due);
        }
    }

    /// Lets a held packet leave at `due`, or at its own deadline.
    fn let_go(&mut self, held: Held, due: u64) {
        let due = due.min(held.deadline);
        if held.first_after.is_some_and(|first| first <= due) {
            self.counters.reordered += 1;
        }
        self.line.push(due, held.packet);
    }

    /// When something is to be done next, in ns.
    pub(super) fn next_due(&self) -> Option<u64> {
        let held = self.held.front().map(|held| held.deadline);
        self.line.next_due().into_iter().chain(held).min()
    }

    /// The next packet that is to leave by `now`.
    pub(super) fn leave(&mut self, now: u64) -> Option<Packet> {
        while let Some(held) = self.held.pop_front_if(|held| held.deadline <= now) {
            self.let_go(held, u64::MAX);
        }
        let (due, packet) = self.line.pop(now)?;
        self.counters.late += u64::from(now - due > LATE);
        Some(packet)
    }

    /// Counts a packet that left, or that the kernel did not take.
    pub(super) fn left(&mut self, bytes: usize, taken: bool) {
        if taken {
            self.counters.sent += 1;
            self.counters.sent_bytes += bytes as u64;
        } else {
            self.counters.refused += 1;
        }
    }

    /// The counters as they are now.
    pub(super) fn counters(&self) -> LinkCounters {
        LinkCounters { in_flight: (self.line.len() + self.held.len()) as u64, ..self.counters }
    }
}

#[cfg(test)]
#[path = "pipe_tests.rs"]
mod tests;

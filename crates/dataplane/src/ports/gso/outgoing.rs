//! Messages as the socket takes them: each a header of what is to be done with it, and the bytes of its packets where
//! they lie.

use super::part::{Headers, MOST_HEADERS, Part, sum};
use super::plan::{MOST, Plan, Seen, WINDOW};
use crate::packets::{Bytes, HEADER, TxBatch};
use crate::sys::Messages;

/// Payloads that are shared whose sums are remembered within a batch, and places that each may have.
const SUMS: usize = 64;
const PROBES: usize = 4;
/// The header of a packet that is sent as it is.
pub static PLAIN: [u8; HEADER] = [0; HEADER];

/// What a message has.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// The first of its packets.
    pub first: u16,
    /// How many there are.
    pub packets: u16,
    /// Their bytes.
    pub bytes: u32,
}

/// The messages of a window, with the memory that they need.
#[derive(Debug)]
pub struct Outgoing {
    /// As the kernel takes them.
    pub messages: Messages,
    /// What each of them has.
    pub ready: Vec<Ready>,
    /// What precedes the payload of super-packets. Never more than its capacity, so that they stay where they are.
    fronts: Vec<[u8; HEADER + MOST_HEADERS]>,
    sums: Sums,
}

impl Outgoing {
    /// Without messages.
    pub fn new() -> Self {
        Outgoing {
            messages: Messages::new(WINDOW, 3 * WINDOW),
            ready: Vec::with_capacity(WINDOW),
            fronts: Vec::with_capacity(WINDOW),
            sums: Sums([(0, 0, 0); SUMS]),
        }
    }

    /// Makes what was planned for packets of a batch from `start` on: super-packets of those whose checksums are right,
    /// where it may `join` them, and messages of one packet each.
    pub fn make(&mut self, plan: &Plan, batch: &TxBatch<'_>, start: usize, join: bool) {
        self.messages.clear();
        self.ready.clear();
        self.fronts.clear();
        self.sums.0.fill((0, 0, 0));
        for message in &plan.messages {
            let (mut numbers, mut count) = ([0; MOST], 0);
            // By place in the message.
            let mut right = 0u64;
            for number in plan.packets(message.first) {
                numbers[count] = number as u16;
                if join && message.packets > 1 {
                    right |= u64::from(self.sums.is_right(plan.seen(number), batch.packet(start + number))) << count;
                }
                count += 1;
            }
            let mut rest = &numbers[..count];
            while !rest.is_empty() {
                let run = (right.trailing_ones() as usize).clamp(1, rest.len());
                let of_run = rest.iter().map(|number| batch.packet(start + usize::from(*number)));
                let bytes = match (run, plan.seen(rest[0].into())) {
                    (2.., Seen { part: Some(first), headers }) => {
                        let last = &plan.seen(rest[run - 1].into()).headers;
                        self.joined(first, (*headers, last), of_run.take(run))
                    }
                    _ => of_run.take(run).map(|packet| self.single(packet)).sum(),
                };
                self.ready.push(Ready { first: rest[0], packets: run as u16, bytes });
                (rest, right) = (&rest[run..], right.checked_shr(run as u32).unwrap_or(0));
            }
        }
    }

    /// A message of one packet, as it is, and its bytes.
    fn single(&mut self, packet: Bytes<'_>) -> u32 {
        self.messages.begin();
        [&PLAIN[..], packet.head, packet.rest].into_iter().for_each(|piece| self.messages.push(piece));
        packet.len() as u32
    }

    /// A super-packet: the first one's headers, with the length of all, and the payloads. Gives the packets' bytes.
    fn joined<'a>(
        &mut self,
        first: &Part,
        (mut headers, last): (Headers, &Headers),
        packets: impl Iterator<Item = Bytes<'a>> + Clone,
    ) -> u32 {
        let bytes = first.headers();
        let (mut payload, mut all) = (0, 0);
        for packet in packets.clone() {
            payload += packet.len() - bytes;
            all += packet.len() as u32;
        }
        // Within what the plan allows.
        let mut front = [0; HEADER + MOST_HEADERS];
        front[..HEADER].copy_from_slice(&first.extend(&mut headers, last, payload as u16));
        front[HEADER..].copy_from_slice(&headers);
        assert!(self.fronts.len() < self.fronts.capacity(), "as many messages as packets at most");
        self.fronts.push(front);
        self.messages.begin();
        self.messages.push(&self.fronts[self.fronts.len() - 1][..HEADER + bytes]);
        for packet in packets {
            let (head, rest) = behind(packet, bytes);
            self.messages.push(head);
            self.messages.push(rest);
        }
        all
    }
}

/// What follows so many bytes of a packet.
fn behind(packet: Bytes<'_>, bytes: usize) -> (&[u8], &[u8]) {
    let head = bytes.min(packet.head.len());
    (&packet.head[head..], &packet.rest[bytes - head..])
}

/// Sums of what many packets of a batch share, by place and length.
#[derive(Debug)]
struct Sums([(usize, usize, u16); SUMS]);

impl Sums {
    /// Whether the checksums of a packet are right.
    fn is_right(&mut self, seen: &Seen, packet: Bytes<'_>) -> bool {
        let Some(part) = seen.part else { return false };
        part.is_right(&seen.headers, || {
            let (head, rest) = behind(packet, part.headers());
            let rest = if rest.is_empty() { 0 } else { self.of(rest) };
            // Behind an odd number of bytes the two bytes of each word have changed places (RFC 1071 section 2).
            let rest = if head.len() % 2 == 1 { rest.swap_bytes() } else { rest };
            sum(head, rest.into())
        })
    }

    /// The sum of bytes that do not change until the batch is sent.
    fn of(&mut self, bytes: &[u8]) -> u16 {
        let (place, length) = (bytes.as_ptr() as usize, bytes.len());
        // The upper bits of a product depend on all of the lower ones.
        let first = place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        let mut places = (first..first + PROBES).map(|place| place % SUMS);
        let at = places
            .find(|&at| matches!(self.0[at], (known, bytes, _) if (known, bytes) == (place, length) || bytes == 0));
        let known = &mut self.0[at.unwrap_or(first)];
        if (known.0, known.1) != (place, length) {
            *known = (place, length, sum(bytes, 0));
        }
        known.2
    }
}

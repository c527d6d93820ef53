//! Messages as the socket takes them: each a header of what is to be done with it, and the bytes of its packets where
//! they lie.

use super::datagram::{Kind, MOST_HEADERS, look, sum};
use super::plan::{Plan, WINDOW};
use crate::packets::{Bytes, TxBatch};
use crate::sys::Messages;

/// Payloads that are shared whose sums are remembered within a batch.
const SUMS: usize = 64;
/// `struct virtio_net_hdr` (linux/virtio_net.h) as bytes; `VIRTIO_NET_HDR_F_NEEDS_CSUM`, `VIRTIO_NET_HDR_GSO_UDP_L4`.
const HEADER: usize = 10;
const NEEDS_CHECKSUM: u8 = 1;
const UDP_L4: u8 = 5;
/// The header of a packet that is sent as it is.
static PLAIN: [u8; HEADER] = [0; HEADER];

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
            // By place in the message, of which there are 64.
            let mut right = 0u64;
            if message.packets > 1 && join {
                for (place, number) in plan.packets(message.first).enumerate() {
                    right |= u64::from(self.sums.is_right(batch.packet(start + number))) << place;
                }
            }
            let (mut first, mut left) = (Some(message.first), message.packets);
            while let Some(number) = first.filter(|_| left > 0) {
                let packets = right.trailing_ones().clamp(1, left.into()) as u16;
                let of_run = || plan.packets(number).take(packets.into()).map(|number| batch.packet(start + number));
                let bytes = of_run().map(|packet| packet.len() as u32).sum();
                match packets {
                    1 => single(&mut self.messages, of_run()),
                    _ => joined(&mut self.messages, &mut self.fronts, of_run()),
                }
                self.ready.push(Ready { first: number, packets, bytes });
                right = right.checked_shr(packets.into()).unwrap_or(0);
                left -= packets;
                first = plan.packets(number).nth(packets.into()).map(|next| next as u16);
            }
        }
    }
}

/// Messages of a packet each, as it is.
fn single<'a>(messages: &mut Messages, packets: impl Iterator<Item = Bytes<'a>>) {
    for packet in packets {
        messages.begin();
        [&PLAIN[..], packet.head, packet.rest].into_iter().for_each(|piece| messages.push(piece));
    }
}

/// A super-packet: the first one's headers, with the length of all, and the payloads.
fn joined<'a>(
    messages: &mut Messages,
    fronts: &mut Vec<[u8; HEADER + MOST_HEADERS]>,
    packets: impl Iterator<Item = Bytes<'a>> + Clone,
) {
    let mut headers = [0; MOST_HEADERS];
    let Some(Kind::Datagram(first)) = packets.clone().next().map(|packet| look(packet, &mut headers)) else { return };
    let bytes = first.headers();
    let payload: usize = packets.clone().map(|packet| packet.len() - bytes).sum();
    // Within what the plan allows.
    first.extend(&mut headers, payload as u16);
    let (start, place) = first.checksum();
    let mut front = [0; HEADER + MOST_HEADERS];
    (front[0], front[1]) = (NEEDS_CHECKSUM, UDP_L4);
    for (word, value) in [bytes as u16, first.payload, start, place].into_iter().enumerate() {
        front[2 + 2 * word..4 + 2 * word].copy_from_slice(&value.to_ne_bytes());
    }
    front[HEADER..].copy_from_slice(&headers);
    assert!(fronts.len() < fronts.capacity(), "as many messages as packets at most");
    fronts.push(front);
    messages.begin();
    messages.push(&fronts[fronts.len() - 1][..HEADER + bytes]);
    for packet in packets {
        let (head, rest) = behind(packet, bytes);
        messages.push(head);
        messages.push(rest);
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
    /// Whether the checksums of a datagram are right.
    fn is_right(&mut self, packet: Bytes<'_>) -> bool {
        let mut headers = [0; MOST_HEADERS];
        let Kind::Datagram(datagram) = look(packet, &mut headers) else { return false };
        datagram.is_right(&headers, || {
            let (head, rest) = behind(packet, datagram.headers());
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
        let known = &mut self.0[(place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) % SUMS];
        if (known.0, known.1) != (place, length) {
            *known = (place, length, sum(bytes, 0));
        }
        known.2
    }
}

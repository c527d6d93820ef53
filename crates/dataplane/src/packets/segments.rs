//! What a sender has left [`Unfinished`] becomes packets as the network has them: a super-packet the segments that a
//! device would have made of it, another packet itself with its checksum computed. They are written straight to where
//! they are to lie, and nothing is allocated.
//!
//! Segments are those that Linux makes (`tcp_gso_segment`, `__udp_gso_segment`, `inet_gso_segment`): equal payloads but
//! for the last, identifications one after the other (RFC 6864 lets those of packets that must not be fragmented be
//! anything), sequence numbers that follow each other, FIN and PSH in the last one only, CWR in the first, or in all
//! (accurate ECN).
//!
//! A checksum is added up over a segment that was just written, so its bytes are in the nearest cache.

use wire::bytes::{u16_at, u32_at};
use wire::checksum::checksum;
use wire::crc32c::crc32c;
use wire::segment::{FIN, PSH};

use super::layout::{Layout, SCTP, TCP, UDP};
use super::unfinished::{Checksum, Cut, Kind, Refused, Unfinished};
use crate::sys::{ETHERNET, TAG, TAG_AT};

/// Congestion window reduced (RFC 3168 section 6.1.2), or a bit of a count (RFC 9768 section 3.2).
const CWR: u8 = 0x80;
/// What UDP has in place of a checksum of zero, which says that there is none (RFC 768).
const ZERO: u16 = 0xffff;
/// Where SCTP has its checksum, which is another one (RFC 9260 section 3.1).
const SCTP_CHECKSUM: u16 = 8;

/// What is left to be written of a packet. The packet itself is given with each call, the same bytes every time.
#[derive(Clone, Copy, Debug)]
pub struct Segments {
    /// Bytes of the packet.
    len: usize,
    /// The tag of a VLAN that belongs into it.
    tag: Option<[u8; TAG]>,
    task: Task,
    /// Segments that were written, and the bytes of payload in them.
    number: u16,
    done: usize,
}

/// What is to be done with the packet.
#[derive(Clone, Copy, Debug)]
enum Task {
    /// It is copied, and this checksum computed.
    Whole(Option<Sum>),
    /// It is divided.
    Cut(Division),
}

/// A checksum within a whole packet: what it covers, and where it is stored.
#[derive(Clone, Copy, Debug)]
struct Sum {
    start: usize,
    end: usize,
    place: usize,
    is_crc: bool,
}

/// How a super-packet is divided.
#[derive(Clone, Copy, Debug)]
struct Division {
    layout: Layout,
    /// Bytes of all headers.
    headers: usize,
    /// Bytes of payload of a segment.
    size: usize,
    /// The sum of the pseudo header without the length.
    pseudo: u32,
    /// Whether CWR is every segment's.
    keeps_cwr: bool,
}

impl Segments {
    /// Of a packet that is there from its Ethernet header to its end. A tag beside it is put into it.
    pub fn new(packet: &[u8], left: &Unfinished, tag: Option<[u8; TAG]>) -> Result<Segments, Refused> {
        let sum = left.checksum.map(|checksum| sum(packet, checksum)).transpose()?;
        let task = match left.cut {
            None => Task::Whole(sum),
            Some(cut) => Task::Cut(Division::of(packet, cut, sum)?),
        };
        if packet.len() < ETHERNET {
            return Err(Refused::BadHeaders);
        }
        Ok(Segments { len: packet.len(), tag, task, number: 0, done: 0 })
    }

    /// Whether the packet is one of several segments, as which it is counted.
    pub fn is_super(&self) -> bool {
        matches!(self.task, Task::Cut(_))
    }

    /// How many are still to be written.
    pub fn left(&self) -> usize {
        match &self.task {
            Task::Whole(_) => 1 - usize::from(self.number),
            // One without payload is one segment.
            Task::Cut(cut) => {
                let all = (self.len - cut.headers).div_ceil(cut.size).max(1);
                all - usize::from(self.number).min(all)
            }
        }
    }

    /// Bytes of the next one; `None` where all are written.
    pub fn next_len(&self) -> Option<usize> {
        (self.left() > 0).then(|| self.room() + self.bytes())
    }

    /// Bytes of the tag.
    fn room(&self) -> usize {
        if self.tag.is_some() { TAG } else { 0 }
    }

    /// Bytes of the next one of the packet.
    fn bytes(&self) -> usize {
        match &self.task {
            Task::Whole(_) => self.len,
            Task::Cut(cut) => cut.headers + cut.size.min(self.len - cut.headers - self.done),
        }
    }

    /// Writes the next one, which takes as many bytes as [`Segments::next_len`] says.
    pub fn write(&mut self, packet: &[u8], into: &mut [u8]) {
        assert!(
            packet.len() == self.len && Some(into.len()) == self.next_len(),
            "the packet and the room that were told"
        );
        let (room, bytes) = (self.room(), self.bytes());
        let headers = match &self.task {
            Task::Whole(_) => bytes,
            Task::Cut(cut) => cut.headers,
        };
        let (head, payload) = into.split_at_mut(room + headers);
        match self.tag {
            None => head.copy_from_slice(&packet[..headers]),
            Some(tag) => {
                head[..TAG_AT].copy_from_slice(&packet[..TAG_AT]);
                head[TAG_AT..TAG_AT + TAG].copy_from_slice(&tag);
                head[TAG_AT + TAG..].copy_from_slice(&packet[TAG_AT..headers]);
            }
        }
        let from = headers + self.done;
        payload.copy_from_slice(&packet[from..from + payload.len()]);
        let payload = payload.len();
        // From here on places are those without the tag, which is in front of all of them.
        let into = &mut into[room..];
        match &self.task {
            Task::Whole(sum) => sum.iter().for_each(|sum| sum.finish(into)),
            Task::Cut(cut) => cut.finish(into, self.number, self.done, self.done + headers + payload == self.len),
        }
        self.pass(payload);
    }

    /// Passes over the next one.
    pub fn skip(&mut self) {
        let headers = match &self.task {
            Task::Whole(_) => self.len,
            Task::Cut(cut) => cut.headers,
        };
        self.pass(self.bytes() - headers);
    }

    fn pass(&mut self, payload: usize) {
        self.number = self.number.wrapping_add(1);
        self.done += payload;
    }
}

/// The checksum that a header describes, if it lies within the packet.
fn sum(packet: &[u8], Checksum { start, place, len }: Checksum) -> Result<Sum, Refused> {
    let end = len.map_or(packet.len(), |len| usize::from(start) + usize::from(len));
    let mut sum = Sum { start: start.into(), end, place: usize::from(start) + usize::from(place), is_crc: false };
    // Only by what the packet is can it be told apart from a checksum of two bytes at that place.
    sum.is_crc = place == SCTP_CHECKSUM
        && Layout::of(packet).is_some_and(|layout| layout.protocol == SCTP && layout.transport == sum.start);
    let bytes = if sum.is_crc { 4 } else { 2 };
    let is_inside = sum.start >= ETHERNET && sum.place + bytes <= end && end <= packet.len();
    is_inside.then_some(sum).ok_or(Refused::ChecksumOutside)
}

impl Sum {
    /// Computes it.
    fn finish(&self, packet: &mut [u8]) {
        if self.is_crc {
            packet[self.place..self.place + 4].fill(0);
            let crc = crc32c(&packet[self.start..self.end]);
            packet[self.place..self.place + 4].copy_from_slice(&crc.to_le_bytes());
            return;
        }
        // The field is part of what is added up.
        let sum = match checksum(&packet[self.start..self.end], 0) {
            0 => ZERO,
            sum => sum,
        };
        put(packet, self.place, sum);
    }
}

impl Division {
    fn of(packet: &[u8], cut: Cut, sum: Option<Sum>) -> Result<Division, Refused> {
        if cut.size == 0 {
            return Err(Refused::NoSegmentSize);
        }
        let layout = Layout::of(packet).ok_or(Refused::BadHeaders)?;
        // The checksum that is left is the innermost one.
        if sum.is_some_and(|sum| sum.start > layout.transport) {
            return Err(Refused::Tunnel);
        }
        let is_kind = match cut.kind {
            Kind::TcpV4 => layout.protocol == TCP && !layout.is_ipv6,
            Kind::TcpV6 => layout.protocol == TCP && layout.is_ipv6,
            Kind::Udp => layout.protocol == UDP,
            Kind::ByHeaders => true,
        };
        let place = layout.transport + if layout.protocol == TCP { 16 } else { 6 };
        let is_its_sum = sum.is_none_or(|sum| (sum.start, sum.place) == (layout.transport, place));
        // So segments' lengths fit their fields, too.
        let is_whole = layout.ip_length(packet) == Some(packet.len() - layout.ip);
        let headers = layout.payload(packet).filter(|_| is_kind && is_its_sum && is_whole);
        let headers = headers.ok_or(Refused::BadHeaders)?;
        let pseudo = match sum {
            // That is in the field, with the length of all: what is taken away is added as its complement.
            Some(_) => {
                let length = (packet.len() - layout.transport) as u16;
                u16_at(packet, place).map(|field| u32::from(field) + u32::from(!length))
            }
            None => layout.addresses(packet).map(|sum| u32::from(sum) + u32::from(layout.protocol)),
        };
        let pseudo = pseudo.ok_or(Refused::BadHeaders)?;
        Ok(Division { layout, headers, size: cut.size.into(), pseudo, keeps_cwr: cut.keeps_cwr })
    }

    /// Makes of the super-packet's headers those of a segment: the one with this number, behind so many bytes of
    /// payload.
    fn finish(&self, segment: &mut [u8], number: u16, done: usize, is_last: bool) {
        let Layout { ip, is_ipv6, transport, protocol, .. } = self.layout;
        let length = segment.len() - ip;
        if is_ipv6 {
            put(segment, ip + 4, (length - 40) as u16);
        } else {
            let header = usize::from(segment[ip] & 15) * 4;
            put(segment, ip + 2, length as u16);
            let identification = u16_at(segment, ip + 4).unwrap_or_default().wrapping_add(number);
            put(segment, ip + 4, identification);
            put(segment, ip + 10, 0);
            let check = checksum(&segment[ip..ip + header], 0);
            put(segment, ip + 10, check);
        }
        let length = segment.len() - transport;
        if protocol == TCP {
            let sequence = u32_at(segment, transport + 4).unwrap_or_default().wrapping_add(done as u32);
            segment[transport + 4..transport + 8].copy_from_slice(&sequence.to_be_bytes());
            let flags = &mut segment[transport + 13];
            *flags &= !if is_last { 0 } else { FIN | PSH };
            *flags &= !if number == 0 || self.keeps_cwr { 0 } else { CWR };
        } else {
            put(segment, transport + 4, length as u16);
        }
        let place = transport + if protocol == TCP { 16 } else { 6 };
        put(segment, place, 0);
        let check = match checksum(&segment[transport..], self.pseudo + length as u32) {
            0 if protocol == UDP => ZERO,
            check => check,
        };
        put(segment, place, check);
    }
}

fn put(bytes: &mut [u8], place: usize, value: u16) {
    bytes[place..place + 2].copy_from_slice(&value.to_be_bytes());
}

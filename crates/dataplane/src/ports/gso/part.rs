//! Segments of TCP and datagrams of UDP as they lie in frames: what a super-packet may be made of.

use std::ops::Range;

use wire::checksum::checksum;
use wire::segment::{FIN, PSH, RST, SYN};

use crate::packets::{Bytes, Checksum, Cut, HEADER, Kind, Unfinished};
use crate::sys::{ETHERNET, TAG, TAG_AT};

/// Bytes of the headers at most: Ethernet with a tag, IPv6, TCP with options.
pub const MOST_HEADERS: usize = ETHERNET + TAG + 40 + 60;
const UDP: usize = 8;
const TCP: usize = 20;
const IPV4: usize = 20;
const IPV6: usize = 40;
/// Bytes of the headers that nearly all datagrams have: Ethernet, IPv4, UDP.
const USUAL: usize = ETHERNET + IPV4 + UDP;
/// "Don't fragment", in the byte of IPv4's flags.
const DONT_FRAGMENT: u8 = 0x40;
/// Flags of TCP: data that is urgent; the congestion window was reduced.
const URG: u8 = 0x20;
const CWR: u8 = 0x80;

/// The headers of a packet, in one piece.
pub type Headers = [u8; MOST_HEADERS];

/// What a packet is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// One of a flow.
    Part(Part),
    /// It may belong to any flow: a fragment, one with options or extension headers.
    Unclear,
    /// Of another protocol, so of another flow.
    Other,
}

/// A segment or datagram in IPv4 or IPv6 without options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where the IP header begins.
    ip: u8,
    is_ipv6: bool,
    pub is_tcp: bool,
    /// Bytes of the header of TCP or UDP.
    header: u8,
    /// Bytes behind it.
    pub payload: u16,
    /// Whether it may be part of a super-packet.
    pub may_join: bool,
    /// Only the last one of a super-packet may say what it says.
    pub ends: bool,
    /// Of IPv4.
    identification: u16,
    /// It must not be fragmented, so the identification means nothing (RFC 6864 section 4.1).
    is_atomic: bool,
    /// Of the flow.
    pub hash: u32,
}

/// Looks at a packet, and copies its headers, so that nothing touches its frame a second time: frames lie a power of
/// two apart, and their heads displace each other in the processor's caches.
pub fn look(packet: Bytes<'_>, headers: &mut Headers) -> Look {
    match packet.head.first_chunk::<USUAL>() {
        Some(usual) if usual[TAG_AT..TAG_AT + 2] == [0x08, 0x00] && usual[ETHERNET + 9] == 17 => {
            headers[..USUAL].copy_from_slice(usual);
        }
        _ => copy(packet, headers),
    }
    let length = packet.len();
    let word = |at: usize| u16::from_be_bytes([headers[at], headers[at + 1]]);
    let tag = if word(TAG_AT) == 0x8100 { TAG } else { 0 };
    let ip = TAG_AT + tag + 2;
    let (is_ipv6, ip_header) = match word(TAG_AT + tag) {
        0x0800 => (false, IPV4),
        0x86dd => (true, IPV6),
        _ => return Look::Other,
    };
    if length < ip + ip_header {
        return Look::Other;
    }
    let at = ip + ip_header;
    let is_tcp = match (is_ipv6, headers[ip + if is_ipv6 { 6 } else { 9 }]) {
        (_, 6) => true,
        (_, 17) => false,
        // Behind another header of IPv6 may be either.
        (true, protocol) if protocol != 58 => return Look::Unclear,
        _ => return Look::Other,
    };
    let is_plain = is_ipv6 || (headers[ip] == 0x45 && word(ip + 6) & 0x3fff == 0);
    let header = if is_tcp { usize::from(headers[at + 12] >> 4) * 4 } else { UDP };
    if !is_plain || length < at + header || header < if is_tcp { TCP } else { UDP } {
        return Look::Unclear;
    }
    let payload = length - at - header;
    let ip_length = if is_ipv6 { usize::from(word(ip + 4)) } else { usize::from(word(ip + 2)).wrapping_sub(IPV4) };
    // Without padding, whose bytes would get lost, and with a checksum: what the kernel divides gets one. Zero has two
    // forms in IPv4's, of which the kernel writes the other one.
    let is_whole = ip_length == payload + header && (is_ipv6 || word(ip + 10) != 0xffff);
    let flags = if is_tcp { headers[at + 13] } else { 0 };
    let is_usual = match is_tcp {
        // Likewise a checksum that comes out as zero.
        true => flags & (SYN | RST | URG) == 0 && !matches!(word(at + 16), 0 | 0xffff),
        false => usize::from(word(at + 4)) == payload + UDP && word(at + 6) != 0,
    };
    Look::Part(Part {
        ip: ip as u8,
        is_ipv6,
        is_tcp,
        header: header as u8,
        payload: payload as u16,
        may_join: payload > 0 && is_whole && is_usual,
        ends: flags & (FIN | PSH) != 0,
        identification: if is_ipv6 { 0 } else { word(ip + 4) },
        is_atomic: is_ipv6 || headers[ip + 6] & DONT_FRAGMENT != 0,
        hash: hash(&headers[at - if is_ipv6 { 32 } else { 8 }..at + 4]),
    })
}

/// Copies headers of any length, from both pieces of the packet.
fn copy(packet: Bytes<'_>, headers: &mut Headers) {
    let here = packet.head.len().min(MOST_HEADERS);
    headers[..here].copy_from_slice(&packet.head[..here]);
    let there = packet.rest.len().min(MOST_HEADERS - here);
    headers[here..here + there].copy_from_slice(&packet.rest[..there]);
    headers[here + there..].fill(0);
}

/// Of addresses and ports.
fn hash(flow: &[u8]) -> u32 {
    let word = |bytes: &[u8]| u64::from(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
    // The constant of splitmix64.
    let mixed = flow
        .chunks_exact(4)
        .fold(0, |hash: u64, bytes| (hash.rotate_left(23) ^ word(bytes)).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (mixed >> 32) as u32
}

impl Part {
    fn ip(&self) -> usize {
        self.ip.into()
    }

    /// Where the header of TCP or UDP begins.
    fn transport(&self) -> usize {
        self.ip() + if self.is_ipv6 { IPV6 } else { IPV4 }
    }

    /// Bytes of all headers.
    pub fn headers(&self) -> usize {
        self.transport() + usize::from(self.header)
    }

    /// Where addresses and ports lie.
    fn flow(&self) -> Range<usize> {
        self.transport() - if self.is_ipv6 { 32 } else { 8 }..self.transport() + 4
    }

    /// Whether both are of one flow.
    pub fn is_of_flow(&self, own: &Headers, other: &Part, others: &Headers) -> bool {
        self.is_ipv6 == other.is_ipv6 && self.is_tcp == other.is_tcp && own[self.flow()] == others[other.flow()]
    }

    /// Whether this one, the number `place` behind `first` and so many bytes of payload, has its headers but for what
    /// is written when a super-packet is divided: lengths, checksums, identifications and sequence numbers one after
    /// the other, flags of the first and of the last one.
    pub fn follows(&self, own: &Headers, first: &Part, headers: &Headers, place: u16, payload: u32) -> bool {
        if (self.ip, self.is_ipv6, self.header) != (first.ip, first.is_ipv6, first.header) {
            return false;
        }
        let (ip, at) = (self.ip(), self.transport());
        let same = |range: Range<usize>| own[range.clone()] == headers[range];
        // Two packets that are not atomic must not get one identification. The kernel gives the next ones, so that
        // none comes twice where the sender has done so.
        let is_in_order = self.is_atomic || self.identification == first.identification.wrapping_add(place);
        let is_same = match self.is_ipv6 {
            true => same(0..ip + 4) && same(ip + 6..at + 4),
            false => is_in_order && same(0..ip + 2) && same(ip + 6..ip + 10) && same(ip + 12..at + 4),
        };
        if !is_same || !self.is_tcp {
            return is_same;
        }
        let sequence =
            |headers: &Headers| headers[at + 4..].first_chunk::<4>().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        let flags = own[at + 13] & !(FIN | PSH) == headers[at + 13] & !(FIN | PSH | CWR);
        let is_next = sequence(own) == sequence(headers).wrapping_add(payload);
        // The acknowledgement and the length of the header; the window; options.
        is_next && flags && same(at + 8..at + 13) && same(at + 14..at + 16) && same(at + 18..self.headers())
    }

    /// Whether its checksums are right. `payload` gives the sum of what follows the headers.
    pub fn is_right(&self, headers: &Headers, payload: impl FnOnce() -> u16) -> bool {
        let (ip, at) = (self.ip(), self.transport());
        let is_ip_right = self.is_ipv6 || sum_of::<IPV4>(headers, ip) == 0xffff;
        let own = match self.is_tcp {
            true => sum(&headers[at..self.headers()], 0),
            false => sum_of::<UDP>(headers, at),
        };
        let start = self.pseudo(headers, self.payload) + u32::from(payload());
        is_ip_right && sum(&[], start + u32::from(own)) == 0xffff
    }

    /// The sum of the pseudo-header, with so many bytes of payload.
    fn pseudo(&self, headers: &Headers, payload: u16) -> u32 {
        let addresses = match self.is_ipv6 {
            true => sum_of::<32>(headers, self.flow().start),
            false => sum_of::<8>(headers, self.flow().start),
        };
        let protocol = if self.is_tcp { 6 } else { 17 };
        u32::from(addresses) + protocol + u32::from(payload) + u32::from(self.header)
    }

    /// Makes of the headers those of a super-packet with so many bytes of payload, which ends with a packet of these
    /// headers, and gives what a kernel is told of it: its checksum is to be finished by what divides it.
    pub fn extend(&self, headers: &mut Headers, last: &Headers, payload: u16) -> [u8; HEADER] {
        let (ip, at, length) = (self.ip(), self.transport(), payload + u16::from(self.header));
        let mut put = |at: usize, value: u16| headers[at..at + 2].copy_from_slice(&value.to_be_bytes());
        if self.is_ipv6 {
            put(ip + 4, length);
        } else {
            put(ip + 2, length + IPV4 as u16);
            put(ip + 10, 0);
            let check = !sum_of::<IPV4>(headers, ip);
            headers[ip + 10..ip + 12].copy_from_slice(&check.to_be_bytes());
        }
        let (place, kind) = match (self.is_tcp, self.is_ipv6) {
            (true, false) => (16, Kind::TcpV4),
            (true, true) => (16, Kind::TcpV6),
            (false, _) => (6, Kind::Udp),
        };
        if self.is_tcp {
            headers[at + 13] |= last[at + 13] & (FIN | PSH);
        } else {
            headers[at + 4..at + 6].copy_from_slice(&length.to_be_bytes());
        }
        let check = sum(&[], self.pseudo(headers, payload));
        headers[at + place..at + place + 2].copy_from_slice(&check.to_be_bytes());
        let left = Unfinished {
            checksum: Some(Checksum { start: at as u16, place: place as u16, len: None }),
            cut: Some(Cut { kind, size: self.payload, keeps_cwr: false }),
        };
        left.header(self.headers() as u16, self.is_tcp && headers[at + 13] & CWR != 0)
    }

    /// The most bytes of payload in one packet with these headers.
    pub fn most(&self) -> usize {
        usize::from(u16::MAX) - usize::from(self.header) - if self.is_ipv6 { 0 } else { IPV4 }
    }
}

/// The sum of RFC 1071, not inverted.
pub fn sum(bytes: &[u8], start: u32) -> u16 {
    !checksum(bytes, start)
}

/// The sum of so many bytes of headers: their number is known when the code is made, so there is no loop.
fn sum_of<const BYTES: usize>(headers: &Headers, at: usize) -> u16 {
    headers[at..].first_chunk::<BYTES>().map_or(0, |bytes| sum(bytes, 0))
}

//! UDP datagrams as they lie in frames: what a super-packet may be made of.

use crate::packets::Bytes;
use crate::sys::{ETHERNET, TAG, TAG_AT};

/// Bytes of the headers at most: Ethernet with a tag, IPv6, UDP.
pub const MOST_HEADERS: usize = ETHERNET + TAG + 40 + UDP;
const UDP: usize = 8;
const IPV4: usize = 20;
const IPV6: usize = 40;
/// Bytes of the headers that nearly all packets have: Ethernet, IPv4, UDP.
const USUAL: usize = ETHERNET + IPV4 + UDP;
/// "Don't fragment", in the byte of IPv4's flags.
const DONT_FRAGMENT: u8 = 0x40;

/// The headers of a packet, in one piece.
pub type Headers = [u8; MOST_HEADERS];

/// What a packet is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One of a flow of UDP.
    Datagram(Datagram),
    /// It may belong to any flow of UDP: a fragment, one with options or extension headers.
    Unclear,
    /// Of another protocol, so of another flow.
    Other,
}

/// A datagram of UDP in IPv4 or IPv6 without options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Where the IP header begins.
    ip: u8,
    is_ipv6: bool,
    /// Bytes behind the UDP header.
    pub payload: u16,
    /// Whether it may be part of a super-packet.
    pub may_join: bool,
    /// Of IPv4.
    identification: u16,
    /// It must not be fragmented, so the identification means nothing (RFC 6864 section 4.1).
    is_atomic: bool,
    /// Of the flow.
    pub hash: u32,
}

/// Looks at a packet, and copies its headers, so that nothing touches its frame a second time: frames lie a power of
/// two apart, and their heads displace each other in the processor's caches.
pub fn look(packet: Bytes<'_>, headers: &mut Headers) -> Kind {
    match packet.head.first_chunk::<USUAL>() {
        Some(usual) if usual[TAG_AT..TAG_AT + 2] == [0x08, 0x00] => headers[..USUAL].copy_from_slice(usual),
        _ => copy(packet, headers),
    }
    let length = packet.len();
    let word = |at: usize| u16::from_be_bytes([headers[at], headers[at + 1]]);
    let tag = if word(TAG_AT) == 0x8100 { TAG } else { 0 };
    let ip = TAG_AT + tag + 2;
    let (is_ipv6, header) = match word(TAG_AT + tag) {
        0x0800 => (false, IPV4),
        0x86dd => (true, IPV6),
        _ => return Kind::Other,
    };
    if length < ip + header {
        return Kind::Other;
    }
    let udp = ip + header;
    match (is_ipv6, headers[ip + if is_ipv6 { 6 } else { 9 }]) {
        (_, 17) => {}
        // Behind another header of IPv6 may be UDP, too.
        (true, protocol) if !matches!(protocol, 6 | 58) => return Kind::Unclear,
        _ => return Kind::Other,
    }
    let is_plain = is_ipv6 || (headers[ip] == 0x45 && word(ip + 6) & 0x3fff == 0);
    if !is_plain || length < udp + UDP {
        return Kind::Unclear;
    }
    let payload = length - udp - UDP;
    let ip_length = if is_ipv6 { usize::from(word(ip + 4)) } else { usize::from(word(ip + 2)).wrapping_sub(IPV4) };
    // Without padding, whose bytes would get lost, and with a checksum: what the kernel divides gets one. Zero has two
    // forms in IPv4's, of which the kernel writes the other one.
    let is_whole = [ip_length, usize::from(word(udp + 4))] == [payload + UDP; 2];
    let has_checksum = word(udp + 6) != 0 && (is_ipv6 || word(ip + 10) != 0xffff);
    Kind::Datagram(Datagram {
        ip: ip as u8,
        is_ipv6,
        payload: payload as u16,
        may_join: payload > 0 && is_whole && has_checksum,
        identification: if is_ipv6 { 0 } else { word(ip + 4) },
        is_atomic: is_ipv6 || headers[ip + 6] & DONT_FRAGMENT != 0,
        hash: hash(&headers[udp - if is_ipv6 { 32 } else { 8 }..udp + 4]),
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

impl Datagram {
    fn ip(&self) -> usize {
        self.ip.into()
    }

    fn udp(&self) -> usize {
        self.ip() + if self.is_ipv6 { IPV6 } else { IPV4 }
    }

    /// Bytes of all headers.
    pub fn headers(&self) -> usize {
        self.udp() + UDP
    }

    /// Where addresses and ports lie.
    fn flow(&self) -> std::ops::Range<usize> {
        self.udp() - if self.is_ipv6 { 32 } else { 8 }..self.udp() + 4
    }

    /// Whether both are of one flow.
    pub fn is_of_flow(&self, own: &Headers, other: &Datagram, others: &Headers) -> bool {
        self.is_ipv6 == other.is_ipv6 && own[self.flow()] == others[other.flow()]
    }

    /// Whether this one, the number `place` behind `first`, has its headers but for what the kernel writes when it
    /// divides a super-packet: lengths, checksums, and identifications one after the other.
    pub fn follows(&self, own: &Headers, first: &Datagram, headers: &Headers, place: u16) -> bool {
        if self.ip != first.ip || self.is_ipv6 != first.is_ipv6 {
            return false;
        }
        let (ip, udp) = (self.ip(), self.udp());
        let same = |range: std::ops::Range<usize>| own[range.clone()] == headers[range];
        // Two datagrams that are not atomic must not get one identification. The kernel gives the next ones, so that
        // none comes twice where the sender has done so.
        let is_in_order = self.is_atomic || self.identification == first.identification.wrapping_add(place);
        match self.is_ipv6 {
            true => same(0..ip + 4) && same(ip + 6..udp + 4),
            false => is_in_order && same(0..ip + 2) && same(ip + 6..ip + 10) && same(ip + 12..udp + 4),
        }
    }

    /// Whether its checksums are right. `payload` gives the sum of what follows the headers.
    pub fn is_right(&self, headers: &Headers, payload: impl FnOnce() -> u16) -> bool {
        let (ip, udp) = (self.ip(), self.udp());
        let is_ip_right = self.is_ipv6 || sum_of::<IPV4>(headers, ip) == 0xffff;
        let start = self.pseudo(headers, self.payload) + u32::from(payload());
        is_ip_right && sum(&[], start + u32::from(sum_of::<UDP>(headers, udp))) == 0xffff
    }

    /// The sum of the pseudo-header, with so many bytes of payload.
    fn pseudo(&self, headers: &Headers, payload: u16) -> u32 {
        let addresses = match self.is_ipv6 {
            true => sum_of::<32>(headers, self.flow().start),
            false => sum_of::<8>(headers, self.flow().start),
        };
        u32::from(addresses) + 17 + u32::from(payload) + UDP as u32
    }

    /// Makes of the headers those of a super-packet with so many bytes of payload: its checksum is to be finished by
    /// what divides it.
    pub fn extend(&self, headers: &mut Headers, payload: u16) {
        let (ip, udp, length) = (self.ip(), self.udp(), payload + UDP as u16);
        let mut put = |at: usize, value: u16| headers[at..at + 2].copy_from_slice(&value.to_be_bytes());
        put(udp + 4, length);
        if self.is_ipv6 {
            put(ip + 4, length);
        } else {
            put(ip + 2, length + IPV4 as u16);
            put(ip + 10, 0);
            let check = !sum_of::<IPV4>(headers, ip);
            headers[ip + 10..ip + 12].copy_from_slice(&check.to_be_bytes());
        }
        let check = sum(&[], self.pseudo(headers, payload));
        headers[udp + 6..udp + 8].copy_from_slice(&check.to_be_bytes());
    }

    /// Where the checksum begins, and where it lies from there on.
    pub fn checksum(&self) -> (u16, u16) {
        (self.udp() as u16, 6)
    }

    /// The most bytes of payload in one datagram with these headers.
    pub fn most(&self) -> usize {
        usize::from(u16::MAX) - UDP - if self.is_ipv6 { 0 } else { IPV4 }
    }
}

/// The sum of RFC 1071, not inverted.
pub fn sum(bytes: &[u8], start: u32) -> u16 {
    !wire::checksum::checksum(bytes, start)
}

/// The sum of so many bytes of headers: their number is known when the code is made, so there is no loop.
fn sum_of<const BYTES: usize>(headers: &Headers, at: usize) -> u16 {
    headers[at..].first_chunk::<BYTES>().map_or(0, |bytes| sum(bytes, 0))
}

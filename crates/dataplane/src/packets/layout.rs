//! Where the headers of a packet lie: Ethernet, tags of VLANs, IP, TCP or UDP.

use wire::bytes::u16_at;
use wire::checksum::checksum;

use crate::sys::{ETHERNET, TAG, TAG_AT};

/// Tags at most.
const MOST_TAGS: usize = 4;
/// Protocols by number (IANA).
pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
pub const SCTP: u8 = 132;
/// Extension headers of IPv6 that packets have which are no fragments.
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const DESTINATION: u8 = 60;

/// Where they are, from the beginning of the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The IP header.
    pub ip: usize,
    pub is_ipv6: bool,
    /// What is behind the IP header, and what follows it in IPv6.
    pub transport: usize,
    /// What that is.
    pub protocol: u8,
    /// Where the address lies to which it goes in the end, which the pseudo header has (RFC 8200 section 8.1); `None`
    /// where a routing header says that in a way that is not known.
    destination: Option<usize>,
}

impl Layout {
    /// Of a packet in IP that is no fragment. The IP header lies within the packet, and so does the first byte behind
    /// it. `None` where there is no such header.
    pub fn of(packet: &[u8]) -> Option<Layout> {
        let (mut kind, mut ip) = (u16_at(packet, TAG_AT)?, ETHERNET);
        for _ in 0..MOST_TAGS {
            if !matches!(kind, 0x8100 | 0x88a8) {
                break;
            }
            (kind, ip) = (u16_at(packet, ip + 2)?, ip + TAG);
        }
        let version = packet.get(ip)? >> 4;
        let layout = match (kind, version) {
            (0x0800, 4) => Self::of_ipv4(packet, ip)?,
            (0x86dd, 6) => Self::of_ipv6(packet, ip)?,
            _ => return None,
        };
        (layout.transport < packet.len()).then_some(layout)
    }

    fn of_ipv4(packet: &[u8], ip: usize) -> Option<Layout> {
        let header = usize::from(packet[ip] & 15) * 4;
        // More fragments, or not the first one.
        let is_fragment = u16_at(packet, ip + 6)? & 0x3fff != 0;
        let protocol = *packet.get(ip + 9)?;
        let is_right = header >= 20 && !is_fragment;
        let destination = Some(ip + 16);
        is_right.then_some(Layout { ip, is_ipv6: false, transport: ip + header, protocol, destination })
    }

    fn of_ipv6(packet: &[u8], ip: usize) -> Option<Layout> {
        let (mut protocol, mut transport, mut destination) = (*packet.get(ip + 6)?, ip + 40, Some(ip + 24));
        // Each is at least 8 bytes long, so the packet's end ends this.
        while matches!(protocol, HOP_BY_HOP | ROUTING | DESTINATION) {
            let length = (usize::from(*packet.get(transport + 1)?) + 1) * 8;
            if protocol == ROUTING {
                destination = match *packet.get(transport + 2..transport + 4)? {
                    // It has been to all that it was to pass.
                    [_, 0] => destination,
                    // The last one of a list: of type 0 (RFC 2460), and of type 2 (RFC 6275), which has one.
                    [0 | 2, _] if length >= 24 => Some(transport + length - 16),
                    // The first one of a list: segments (RFC 8754).
                    [4, _] if length >= 24 => Some(transport + 8),
                    _ => None,
                };
            }
            (protocol, transport) = (packet[transport], transport + length);
        }
        Some(Layout { ip, is_ipv6: true, transport, protocol, destination })
    }

    /// The sum (RFC 1071) of the two addresses that the pseudo header has.
    pub fn addresses(&self, packet: &[u8]) -> Option<u16> {
        let (source, bytes) = if self.is_ipv6 { (self.ip + 8, 16) } else { (self.ip + 12, 4) };
        let sum = |at: usize, start: u16| packet.get(at..at + bytes).map(|address| !checksum(address, start.into()));
        sum(self.destination?, sum(source, 0)?)
    }

    /// Bytes of the IP packet, as its header says.
    pub fn ip_length(&self, packet: &[u8]) -> Option<usize> {
        let length = |place| u16_at(packet, self.ip + place).map(usize::from);
        if self.is_ipv6 { length(4).map(|payload| payload + 40) } else { length(2) }
    }

    /// Where the payload of TCP or UDP begins, if the header lies within the packet.
    pub fn payload(&self, packet: &[u8]) -> Option<usize> {
        let header = match self.protocol {
            TCP => usize::from(packet.get(self.transport + 12)? >> 4) * 4,
            UDP => 8,
            _ => return None,
        };
        let is_whole = header >= if self.protocol == TCP { 20 } else { 8 };
        Some(self.transport + header).filter(|end| is_whole && *end <= packet.len())
    }
}

//! The link to the client: how long packets may be on it, and of which version of IP they are. The client itself knows
//! IPv4 alone.

use crate::client::{CLIENT, OWN, fold, frame, pseudo, sum};

/// Addresses of IPv6 in place of the client's and the own one.
pub const CLIENT6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x11];
pub const OWN6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const ROUTER6: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x99];

#[derive(Debug, Default)]
pub struct Link {
    /// Bytes of a packet at most, where there is such a router; it says so, or another number.
    pub mtu: Option<usize>,
    pub says: Option<u32>,
    pub is_v6: bool,
    /// Packets that were too long.
    pub refused: u64,
    /// Bytes of the longest packet that has passed.
    pub longest: usize,
}

/// A frame with an IPv6 packet.
pub fn frame6(src: [u8; 16], dst: [u8; 16], next: u8, upper: &[u8]) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 1, 1, 2, 0, 0, 0, 1, 0x11, 0x86, 0xdd, 0x60, 0, 0, 0];
    bytes.extend((upper.len() as u16).to_be_bytes());
    bytes.extend([next, 64]);
    [bytes, src.to_vec(), dst.to_vec(), upper.to_vec()].concat()
}

/// With a checksum that covers a pseudo header, at a place.
fn summed(mut upper: Vec<u8>, at: usize, pseudo: u32) -> Vec<u8> {
    upper[at..at + 2].copy_from_slice(&[0, 0]);
    let checksum = !fold(sum(&upper) + pseudo);
    upper[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    upper
}

fn pseudo6(src: [u8; 16], dst: [u8; 16], next: u8, length: usize) -> u32 {
    sum(&src) + sum(&dst) + u32::from(next) + length as u32
}

impl Link {
    /// The client's address and the own one, as orders have them.
    pub fn addresses(&self) -> Vec<u8> {
        if self.is_v6 {
            return [CLIENT6, OWN6].concat();
        }
        [CLIENT, OWN].map(|address| [&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff], &address[..]].concat()).concat()
    }

    /// What the client gets of a frame of the program.
    pub fn sends(&self, bytes: Vec<u8>) -> Vec<u8> {
        if !self.is_v6 {
            return bytes;
        }
        let (ip, tcp) = bytes[14..].split_at(40);
        assert_eq!((&bytes[12..14], ip[6], &ip[8..24], &ip[24..]), (&[0x86, 0xdd][..], 6, &OWN6[..], &CLIENT6[..]));
        assert_eq!(usize::from(u16::from_be_bytes([ip[4], ip[5]])), tcp.len(), "payload length");
        assert_eq!(fold(sum(tcp) + pseudo6(OWN6, CLIENT6, 6, tcp.len())), 0xffff, "the TCP checksum");
        frame(OWN, CLIENT, 6, &summed(tcp.to_vec(), 16, pseudo(OWN, CLIENT, 6, tcp.len())))
    }

    /// What the program gets of a frame of the client, or of a router.
    pub fn receives(&self, bytes: Vec<u8>) -> Vec<u8> {
        if !self.is_v6 || bytes[12..14] == [0x86, 0xdd] {
            return bytes;
        }
        let tcp = bytes[34..].to_vec();
        let pseudo = pseudo6(CLIENT6, OWN6, 6, tcp.len());
        frame6(CLIENT6, OWN6, 6, &summed(tcp, 16, pseudo))
    }

    /// The error of a router that has no room for a packet (RFC 1191, RFC 4443 section 3.2); `bytes` are of IPv4. None:
    /// it passes.
    pub fn too_long(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let length = bytes.len() - 14 + if self.is_v6 { 20 } else { 0 };
        let may_cut = bytes[20] & 0x40 == 0 && !self.is_v6;
        let Some(mtu) = self.mtu.filter(|mtu| length > *mtu && !may_cut) else {
            self.longest = self.longest.max(length);
            return None;
        };
        self.refused += 1;
        let says = self.says.unwrap_or(mtu as u32).to_be_bytes();
        let error = |kind: u8, code: u8| [&[kind, code, 0, 0][..], &says].concat();
        if self.is_v6 {
            let quote = frame6(OWN6, CLIENT6, 6, &bytes[34..])[14..].to_vec();
            let icmp = [error(2, 0), quote[..1232.min(quote.len())].to_vec()].concat();
            let pseudo = pseudo6(ROUTER6, OWN6, 58, icmp.len());
            return Some(frame6(ROUTER6, OWN6, 58, &summed(icmp, 2, pseudo)));
        }
        let icmp = [error(3, 4), bytes[14..42].to_vec()].concat();
        Some(frame([10, 0, 1, 99], OWN, 1, &summed(icmp, 2, 0)))
    }
}

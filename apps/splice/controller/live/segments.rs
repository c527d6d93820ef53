//! TCP segments that no TCP has sent.

use std::net::{IpAddr, SocketAddr};

use crate::frames::{ETH_IPV4, checksum, ethernet};

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;

/// Ethernet addresses of the example: Millrace's on both ports.
pub const CLIENTS: [u8; 6] = [2, 0, 0, 0, 1, 0xfe];
pub const SERVERS: [u8; 6] = [2, 0, 0, 0, 2, 0xfe];
/// One that no station has.
const UNKNOWN: [u8; 6] = [2, 0, 0, 0, 1, 0x99];
/// Type of IPv6 frames.
const ETH_IPV6: u16 = 0x86dd;

/// A segment without options.
pub struct Segment<'p> {
    pub flow_key: (SocketAddr, SocketAddr),
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    pub payload: &'p [u8],
}

/// The bytes of an address.
fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

impl Segment<'_> {
    /// Its frame, with right checksums.
    pub fn frame(&self, to: [u8; 6]) -> Vec<u8> {
        let (src, dst) = self.flow_key;
        let mut tcp = [src.port(), dst.port()].map(u16::to_be_bytes).concat();
        tcp.extend([self.seq, self.ack].map(u32::to_be_bytes).concat());
        tcp.extend([0x50, self.flags]);
        tcp.extend([self.window, 0, 0].map(u16::to_be_bytes).concat());
        tcp.extend(self.payload);
        let addresses = [octets(src.ip()), octets(dst.ip())].concat();
        let length = tcp.len() as u16;
        // RFC 9293 section 3.1; both pseudo headers have the same sum.
        let sum = checksum(&[&addresses[..], &[0, 6], &length.to_be_bytes(), &tcp].concat());
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        if src.is_ipv6() {
            let head = [&[0x60, 0, 0, 0][..], &length.to_be_bytes(), &[6, 64], &addresses];
            return ethernet(to, UNKNOWN, ETH_IPV6, &[&head.concat()[..], &tcp].concat());
        }
        let mut ip = [&[0x45, 0][..], &(length + 20).to_be_bytes(), &[0, 0, 0, 0, 64, 6, 0, 0], &addresses].concat();
        let sum = checksum(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        ethernet(to, UNKNOWN, ETH_IPV4, &[ip, tcp].concat())
    }
}

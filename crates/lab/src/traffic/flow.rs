//! The frames of a flow: Ethernet, IPv4 or IPv6, UDP, TCP or nothing, and room for number and time.

use std::net::IpAddr;

use super::probe::{EXPERIMENT, EXPERIMENTAL, PROBE, TCP, UDP, payload};
use crate::error::{Error, Result};
use crate::link::Mac;

/// Longest frame: what an IPv4 packet of the greatest length needs.
const LONGEST: usize = 14 + 65535;

/// One flow. Pairs are source, then destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Ethernet addresses.
    pub mac: (Mac, Mac),
    /// IP addresses, both of one version.
    pub address: (IpAddr, IpAddr),
    /// What is inside.
    pub transport: Transport,
}

/// What a flow's packets hold behind the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// UDP with a right checksum.
    Udp {
        /// Its ports.
        ports: (u16, u16),
    },
    /// One TCP segment after the other, each with data, ACK and PSH; they are not answered.
    Tcp {
        /// Its ports.
        ports: (u16, u16),
    },
    /// Nothing: protocol 253, for experiments (RFC 3692).
    Ip,
    /// No IP either: EtherType 0x88b5, for local experiments. The IP addresses are not used.
    Ethernet,
}

/// A frame and the places in it that change with each packet sent.
#[derive(Clone, Debug)]
pub(super) struct Template {
    pub(super) bytes: Vec<u8>,
    /// Where number and time go, and with which flow number.
    pub(super) probe: Option<(usize, u32)>,
    /// Where the transport's checksum is, and the sum of all it covers but the probe.
    pub(super) checksum: Option<(usize, u32)>,
}

impl Flow {
    /// A frame of `length` bytes, without checksum (FCS) at its end: 60 is the shortest on a real Ethernet. Its probe
    /// is zero.
    ///
    /// # Errors
    /// When the headers and [`PROBE`] bytes do not fit, or the addresses are of two versions.
    pub fn frame(&self, length: usize) -> Result<Vec<u8>> {
        self.template(length, 0).map(|template| template.bytes)
    }

    /// The frame as the generator's flow number `flow`.
    pub(super) fn template(&self, length: usize, flow: u32) -> Result<Template> {
        let mut bytes = [self.mac.1, self.mac.0].concat();
        let mut checksum_at = None;
        if self.transport == Transport::Ethernet {
            bytes.extend(EXPERIMENT.to_be_bytes());
        } else {
            self.ip(&mut bytes, length)?;
            let start = bytes.len();
            let rest = (length.saturating_sub(start) as u16).to_be_bytes();
            let ports = |(from, to): (u16, u16)| (u32::from(from) << 16 | u32::from(to)).to_be_bytes();
            match self.transport {
                Transport::Udp { ports: pair } => {
                    bytes.extend([&ports(pair)[..], &rest, &[0, 0]].concat());
                    checksum_at = Some((start, start + 6));
                }
                Transport::Tcp { ports: pair } => {
                    // Sequence and acknowledgement 1; data offset 5; PSH and ACK; window; checksum; no urgent pointer.
                    bytes.extend(ports(pair));
                    bytes.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0]);
                    checksum_at = Some((start, start + 16));
                }
                Transport::Ip | Transport::Ethernet => {}
            }
        }
        let headers = bytes.len();
        if length < headers + PROBE || length > LONGEST {
            let least = headers + PROBE;
            return Err(Error::Invalid(format!("a frame of {length} bytes: from {least} to {LONGEST} for this flow")));
        }
        bytes.resize(length, 0);
        debug_assert_eq!(payload(&bytes), Some(headers));
        let checksum = checksum_at.map(|(start, at)| (at, self.pseudo(length - start) + sum(&bytes[start..])));
        Ok(Template { bytes, probe: Some((headers, flow)), checksum })
    }

    fn protocol(&self) -> u8 {
        match self.transport {
            Transport::Udp { .. } => UDP,
            Transport::Tcp { .. } => TCP,
            Transport::Ip | Transport::Ethernet => EXPERIMENTAL,
        }
    }

    /// EtherType and IP header of a frame of `length` bytes (RFC 791, RFC 8200).
    fn ip(&self, bytes: &mut Vec<u8>, length: usize) -> Result<()> {
        let network = length.saturating_sub(14);
        match self.address {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                bytes.extend([0x08, 0x00]);
                let start = bytes.len();
                let [high, low] = (network as u16).to_be_bytes();
                bytes.extend([0x45, 0, high, low, 0, 0, 0x40, 0, 64, self.protocol(), 0, 0]);
                bytes.extend([from.octets(), to.octets()].concat());
                let checksum = fold(sum(&bytes[start..]));
                bytes[start + 10..start + 12].copy_from_slice(&checksum.to_be_bytes());
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                bytes.extend([0x86, 0xdd]);
                let [high, low] = (network.saturating_sub(40) as u16).to_be_bytes();
                bytes.extend([0x60, 0, 0, 0, high, low, self.protocol(), 64]);
                bytes.extend([from.octets(), to.octets()].concat());
            }
            (from, to) => return Err(Error::Invalid(format!("{from} and {to} are of two versions of IP"))),
        }
        Ok(())
    }

    /// Sum of the pseudo header (RFC 768, RFC 8200 section 8.1).
    fn pseudo(&self, length: usize) -> u32 {
        let address = |address: IpAddr| match address {
            IpAddr::V4(address) => sum(&address.octets()),
            IpAddr::V6(address) => sum(&address.octets()),
        };
        address(self.address.0) + address(self.address.1) + u32::from(self.protocol()) + length as u32
    }
}

/// Sum of 16-bit words, for the Internet checksum (RFC 1071). It does not overflow for a frame.
pub(super) fn sum(bytes: &[u8]) -> u32 {
    let word = |pair: &[u8]| u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    bytes.chunks(2).map(word).sum()
}

/// The Internet checksum of a sum. Never 0, which UDP keeps for "none" and which is equal to all ones otherwise.
pub(super) fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    match !(sum as u16) {
        0 => 0xffff,
        checksum => checksum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(transport: Transport) -> Flow {
        let address = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        Flow { mac: ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]), address, transport }
    }

    #[test]
    fn the_shortest_frame_of_ethernet_holds_a_udp_probe() {
        let udp = flow(Transport::Udp { ports: (1024, 9) });
        let frame = udp.frame(60).unwrap();
        assert_eq!(frame.len(), 60);
        assert_eq!(frame[..24], [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17]);
        assert_eq!(sum(&frame[14..34]) % 0xffff, 0, "the header's checksum");
        assert_eq!(frame[34..40], [4, 0, 0, 9, 0, 26]);
        assert!(udp.frame(59).unwrap_err().to_string().contains("from 60 to 65549"));
    }

    #[test]
    fn every_transport_has_its_place_for_a_probe() {
        let ports = (1, 2);
        let kinds = [Transport::Udp { ports }, Transport::Tcp { ports }, Transport::Ip, Transport::Ethernet];
        let six = ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap());
        for (transport, headers) in kinds.into_iter().zip([42, 54, 34, 14]) {
            let template = flow(transport).template(1514, 7).unwrap();
            assert_eq!(template.probe, Some((headers, 7)));
            let more = if transport == Transport::Ethernet { 0 } else { 20 };
            let template = Flow { address: six, ..flow(transport) }.template(1514, 7).unwrap();
            assert_eq!(template.probe, Some((headers + more, 7)));
        }
    }

    #[test]
    fn two_versions_of_ip_are_refused() {
        let mixed = Flow { address: ([1, 2, 3, 4].into(), "::1".parse().unwrap()), ..flow(Transport::Ip) };
        assert!(mixed.frame(100).unwrap_err().to_string().contains("two versions"));
    }
}

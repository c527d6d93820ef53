//! ICMP errors about segments of Millrace's own (RFC 792, RFC 1191, RFC 4443). The program has looked at checksums, and
//! that there is the beginning of a TCP header.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::flow_key::FlowKey;

/// What an error says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The receiver of the segment is not reached.
    Unreachable,
    /// The segment is longer than a link on its way takes: so many bytes with its IP header.
    TooBig(u16),
    /// Something that may pass, or that nothing can be done about.
    Other,
}

/// An error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpError {
    /// What it says.
    pub problem: Problem,
    /// Flow key of the segment that it is about.
    pub flow_key: FlowKey,
    /// Its sequence number.
    pub seq: u32,
}

/// What routers mean that do not say how much a link takes (RFC 1191 section 5): what every link must take.
const LEAST_V4: u16 = 576;
/// See [`LEAST_V4`]: what every link takes (RFC 8200 section 5).
const LEAST_V6: u16 = 1280;

impl IcmpError {
    /// Reads a frame. None where it is no such error.
    pub fn parse(frame: &[u8]) -> Option<IcmpError> {
        let v6 = match frame.get(12..14)? {
            [8, 0] => false,
            [0x86, 0xdd] => true,
            _ => return None,
        };
        let header = if v6 { 40 } else { 20 };
        let icmp = frame.get(14 + header..)?;
        let inner = icmp.get(8..)?;
        let tcp = inner.get(header..)?;
        let word = |bytes: &[u8], at: usize| Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        let v4_at = |at: usize| Some(Ipv4Addr::from(*inner.get(at..)?.first_chunk::<4>()?).to_ipv6_mapped());
        let v6_at = |at: usize| Some(Ipv6Addr::from(*inner.get(at..)?.first_chunk::<16>()?));
        let (src, dst) = if v6 { (v6_at(8)?, v6_at(24)?) } else { (v4_at(12)?, v4_at(16)?) };
        let mtu = word(icmp, 6)?;
        let problem = match (v6, *icmp.first()?, *icmp.get(1)?) {
            // Smaller ones than every link must take are no routers', and would cost more than they help.
            (false, 3, 4) => Problem::TooBig(if mtu == 0 { LEAST_V4 } else { mtu.max(LEAST_V4) }),
            // More than fits into the lower half is no limit.
            (true, 2, _) if word(icmp, 4)? == 0 => Problem::TooBig(mtu.max(LEAST_V6)),
            (false, 3, _) | (true, 1, _) => Problem::Unreachable,
            _ => Problem::Other,
        };
        let flow_key = FlowKey { src, dst, src_port: word(tcp, 0)?, dst_port: word(tcp, 2)? };
        Some(IcmpError { problem, flow_key, seq: u32::from_be_bytes(*tcp.get(4..)?.first_chunk()?) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::segment::{ACK, Segment, TcpOptions};

    /// The error of a router about a segment, of which it quotes `quoted` bytes of TCP.
    fn about(flow_key: FlowKey, kind: [u8; 2], rest: u32, quoted: usize) -> Vec<u8> {
        let options = TcpOptions::default();
        let (dst_mac, src_mac) = ([1; 6], [2; 6]);
        let frame =
            Segment { dst_mac, src_mac, flow_key, seq: 77, ack: 0, flags: ACK, window: 0, options, payload: b"data" }
                .frame();
        let header = frame.len() - 24;
        let icmp = [&kind[..], &[0, 0], &rest.to_be_bytes()].concat();
        [&frame[..header], &icmp, &frame[14..header + quoted]].concat()
    }

    #[test]
    fn errors_are_read() {
        for (src, dst) in [("::ffff:10.0.0.1", "::ffff:10.0.0.2"), ("2001:db8::1", "2001:db8::2")] {
            let flow_key = FlowKey { src: src.parse().unwrap(), dst: dst.parse().unwrap(), src_port: 9, dst_port: 80 };
            let v6 = dst.contains("db8");
            let problem = |kind: [u8; 2], rest| IcmpError::parse(&about(flow_key, kind, rest, 8)).unwrap().problem;
            let (too_big, gone) = if v6 { ([2, 0], [1, 4]) } else { ([3, 4], [3, 1]) };
            let found = IcmpError::parse(&about(flow_key, too_big, 1400, 8)).unwrap();
            assert_eq!(found, IcmpError { problem: Problem::TooBig(1400), flow_key, seq: 77 });
            assert_eq!(problem(gone, 0), Problem::Unreachable);
            assert_eq!(problem(if v6 { [3, 0] } else { [11, 0] }, 0), Problem::Other);
            let least = if v6 { 1280 } else { 576 };
            assert_eq!((problem(too_big, 0), problem(too_big, 68)), (Problem::TooBig(least), Problem::TooBig(least)));
            assert_eq!(IcmpError::parse(&about(flow_key, too_big, 1400, 7)), None);
        }
    }

    proptest! {
        #[test]
        fn nothing_that_comes_is_a_panic(mut frame in prop::collection::vec(any::<u8>(), 0..140), v6: bool) {
            if frame.len() > 14 {
                frame[12..14].copy_from_slice(if v6 { &[0x86, 0xdd] } else { &[8, 0] });
            }
            let _ = IcmpError::parse(&frame);
        }
    }
}

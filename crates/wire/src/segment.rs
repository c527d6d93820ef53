//! TCP segments in Ethernet frames, read and written: IPv4 without options, IPv6 without extension headers.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::bytes::{at, u16_at, u32_at};
use super::checksum::checksum;
use super::flow_key::FlowKey;

/// Flags of the TCP header (RFC 9293 section 3.1).
pub const FIN: u8 = 0x01;
#[allow(missing_docs)]
pub const SYN: u8 = 0x02;
#[allow(missing_docs)]
pub const RST: u8 = 0x04;
#[allow(missing_docs)]
pub const PSH: u8 = 0x08;
#[allow(missing_docs)]
pub const ACK: u8 = 0x10;

/// Bytes of an Ethernet header.
const ETHER: usize = 14;

/// Options of the TCP header that mean something here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpOptions {
    /// Maximum segment size, of a SYN.
    pub mss: Option<u16>,
    /// Window scale, of a SYN; 14 at most.
    pub scale: Option<u8>,
    /// Whether a SYN permits selective acknowledgements.
    pub sack: bool,
    /// Timestamp and echo.
    pub times: Option<(u32, u32)>,
    /// Selective acknowledgements (RFC 2018 section 3): numbers of the first byte, and behind the last.
    pub sack_blocks: [Option<(u32, u32)>; MAX_SACK_BLOCKS],
}

/// Selective acknowledgements of a segment at most: more do not fit into a header.
const MAX_SACK_BLOCKS: usize = 4;

/// A segment that came, or is to be sent. The Ethernet addresses are those of the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment<'f> {
    /// The receiver of the frame.
    pub dst_mac: [u8; 6],
    /// Its sender.
    pub src_mac: [u8; 6],
    /// Addresses and ports.
    pub flow_key: FlowKey,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement.
    pub ack: u32,
    /// Flags.
    pub flags: u8,
    /// Window as it stands in the header.
    pub window: u16,
    /// Options.
    pub options: TcpOptions,
    /// Data.
    pub payload: &'f [u8],
}

/// The sum of the pseudo header of TCP (RFC 9293 section 3.1, RFC 8200 section 8.1).
fn pseudo(flow_key: &FlowKey, length: usize) -> u32 {
    let words = |address: Ipv6Addr| match address.to_ipv4_mapped() {
        Some(v4) => v4.octets().chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum::<u32>(),
        None => address.segments().into_iter().map(u32::from).sum(),
    };
    words(flow_key.src) + words(flow_key.dst) + 6 + length as u32
}

/// Whether addresses are of IPv6.
pub fn is_v6(flow_key: &FlowKey) -> bool {
    flow_key.src.to_ipv4_mapped().is_none()
}

impl<'f> Segment<'f> {
    /// Reads a frame that the program has taken for a TCP segment. None where it is none, or its checksum is wrong.
    pub fn parse(frame: &'f [u8]) -> Option<Segment<'f>> {
        let (ends_at, tcp) = match u16_at(frame, 12)? {
            0x0800 => {
                let length = usize::from(u16_at(frame, ETHER + 2)?);
                let mapped = |place| Some(Ipv4Addr::from(at::<4>(frame, place)?).to_ipv6_mapped());
                ((mapped(ETHER + 12)?, mapped(ETHER + 16)?), frame.get(ETHER + 20..ETHER + length)?)
            }
            0x86dd => {
                let length = usize::from(u16_at(frame, ETHER + 4)?);
                let address = |place| Some(Ipv6Addr::from(at::<16>(frame, place)?));
                ((address(ETHER + 8)?, address(ETHER + 24)?), frame.get(ETHER + 40..ETHER + 40 + length)?)
            }
            _ => return None,
        };
        let (src, dst) = ends_at;
        let flow_key = FlowKey { src, dst, src_port: u16_at(tcp, 0)?, dst_port: u16_at(tcp, 2)? };
        let header = usize::from(tcp.get(12)? >> 4) * 4;
        if header < 20 || checksum(tcp, pseudo(&flow_key, tcp.len())) != 0 {
            return None;
        }
        Some(Segment {
            dst_mac: at(frame, 0)?,
            src_mac: at(frame, 6)?,
            flow_key,
            seq: u32_at(tcp, 4)?,
            ack: u32_at(tcp, 8)?,
            flags: *tcp.get(13)?,
            window: u16_at(tcp, 14)?,
            options: options(tcp.get(20..header)?),
            payload: tcp.get(header..)?,
        })
    }

    /// Sequence numbers that it takes.
    pub fn space(&self) -> u32 {
        self.payload.len() as u32 + u32::from(self.flags & FIN != 0) + u32::from(self.flags & SYN != 0)
    }

    /// The sequence number behind it.
    pub fn end(&self) -> u32 {
        self.seq.wrapping_add(self.space())
    }

    /// Whether it has one of these flags.
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }

    /// As a frame.
    pub fn frame(&self) -> Vec<u8> {
        let v4 = self.flow_key.src.to_ipv4_mapped().zip(self.flow_key.dst.to_ipv4_mapped());
        let ip = if v4.is_some() { 20 } else { 40 };
        let header = 20 + self.options.len();
        let length = header + self.payload.len();
        let mut frame = Vec::with_capacity(ETHER + ip + length);
        frame.extend_from_slice(&self.dst_mac);
        frame.extend_from_slice(&self.src_mac);
        match v4 {
            Some((src, dst)) => {
                frame.extend_from_slice(&[0x08, 0x00, 0x45, 0]);
                frame.extend_from_slice(&((length + 20) as u16).to_be_bytes());
                frame.extend_from_slice(&[0, 0, 0x40, 0, 64, 6, 0, 0]);
                frame.extend_from_slice(&src.octets());
                frame.extend_from_slice(&dst.octets());
                let sum = checksum(&frame[ETHER..], 0);
                frame[ETHER + 10..ETHER + 12].copy_from_slice(&sum.to_be_bytes());
            }
            None => {
                frame.extend_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0]);
                frame.extend_from_slice(&(length as u16).to_be_bytes());
                frame.extend_from_slice(&[6, 64]);
                frame.extend_from_slice(&self.flow_key.src.octets());
                frame.extend_from_slice(&self.flow_key.dst.octets());
            }
        }
        frame.extend_from_slice(&self.flow_key.src_port.to_be_bytes());
        frame.extend_from_slice(&self.flow_key.dst_port.to_be_bytes());
        frame.extend_from_slice(&self.seq.to_be_bytes());
        frame.extend_from_slice(&self.ack.to_be_bytes());
        frame.extend_from_slice(&[((header / 4) << 4) as u8, self.flags]);
        frame.extend_from_slice(&self.window.to_be_bytes());
        // The checksum, which is not known yet, and nothing urgent.
        frame.extend_from_slice(&[0; 4]);
        self.options.write(&mut frame);
        frame.extend_from_slice(self.payload);
        let start = ETHER + ip;
        let sum = checksum(&frame[start..], pseudo(&self.flow_key, length));
        frame[start + 16..start + 18].copy_from_slice(&sum.to_be_bytes());
        frame
    }
}

impl TcpOptions {
    /// Bytes that they take.
    fn len(&self) -> usize {
        self.fixed_len() + self.sack_len()
    }

    /// Bytes of all but selective acknowledgements.
    fn fixed_len(&self) -> usize {
        let (times, sack) = (self.times.map_or(0, |_| 12), if self.sack { 4 } else { 0 });
        self.mss.map_or(0, |_| 4) + sack + times + self.scale.map_or(0, |_| 4)
    }

    /// The selective acknowledgements that there is room for behind the other options, which are of a fixed form here.
    fn fitting(&self) -> impl Iterator<Item = &(u32, u32)> {
        self.sack_blocks.iter().flatten().take((40 - self.fixed_len()).saturating_sub(4) / 8)
    }

    /// Bytes of them.
    fn sack_len(&self) -> usize {
        match self.fitting().count() {
            0 => 0,
            count => 4 + 8 * count,
        }
    }

    fn write(&self, frame: &mut Vec<u8>) {
        if let Some(mss) = self.mss {
            frame.extend_from_slice(&[2, 4]);
            frame.extend_from_slice(&mss.to_be_bytes());
        }
        if self.sack {
            frame.extend_from_slice(&[1, 1, 4, 2]);
        }
        if let Some((value, echo)) = self.times {
            frame.extend_from_slice(&[1, 1, 8, 10]);
            frame.extend_from_slice(&value.to_be_bytes());
            frame.extend_from_slice(&echo.to_be_bytes());
        }
        if let Some(scale) = self.scale {
            frame.extend_from_slice(&[1, 3, 3, scale]);
        }
        if self.sack_len() > 0 {
            frame.extend_from_slice(&[1, 1, 5, self.sack_len() as u8 - 2]);
        }
        for (from, to) in self.fitting() {
            frame.extend_from_slice(&from.to_be_bytes());
            frame.extend_from_slice(&to.to_be_bytes());
        }
    }
}

/// Reads options. Those that do not fit end it.
fn options(mut rest: &[u8]) -> TcpOptions {
    let mut options = TcpOptions::default();
    while let [kind, behind @ ..] = rest {
        match kind {
            0 => break,
            1 => rest = behind,
            _ => {
                let Some(own) = behind.first().and_then(|length| rest.get(2..usize::from(*length))) else { break };
                match (kind, own) {
                    (2, [high, low]) => options.mss = Some(u16::from_be_bytes([*high, *low])),
                    (3, [scale]) => options.scale = Some((*scale).min(14)),
                    (4, []) => options.sack = true,
                    (5, own) => {
                        for (sack_block, own) in options.sack_blocks.iter_mut().zip(own.chunks_exact(8)) {
                            *sack_block = u32_at(own, 0).zip(u32_at(own, 4));
                        }
                    }
                    (8, own) if own.len() == 8 => options.times = u32_at(own, 0).zip(u32_at(own, 4)),
                    _ => {}
                }
                rest = &rest[own.len() + 2..];
            }
        }
    }
    options
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for (src, dst) in [("::ffff:10.0.0.1", "::ffff:10.0.0.2"), ("2001:db8::1", "2001:db8::2")] {
            let flow_key = FlowKey { src: src.parse().unwrap(), dst: dst.parse().unwrap(), src_port: 1, dst_port: 2 };
            let times = Some((7, 8));
            for options in [
                TcpOptions { mss: Some(1460), scale: Some(7), sack: true, times, ..TcpOptions::default() },
                TcpOptions { times, ..TcpOptions::default() },
                TcpOptions {
                    times,
                    sack_blocks: [Some((9, 12)), Some((u32::MAX, 4)), None, None],
                    ..TcpOptions::default()
                },
                TcpOptions { sack_blocks: [Some((1, 2)); 4], ..TcpOptions::default() },
                TcpOptions::default(),
            ] {
                let segment = Segment {
                    dst_mac: [1; 6],
                    src_mac: [2; 6],
                    flow_key,
                    seq: u32::MAX,
                    ack: 5,
                    flags: SYN | ACK,
                    window: 9,
                    options,
                    payload: b"odd",
                };
                let mut frame = segment.frame();
                assert_eq!(Segment::parse(&frame), Some(segment.clone()));
                assert_eq!(segment.end(), 3);
                // Padding of the link is no data, and a wrong bit is noticed.
                frame.extend([0; 3]);
                assert_eq!(Segment::parse(&frame), Some(segment));
                let last = frame.len() - 4;
                frame[last] ^= 1;
                assert_eq!(Segment::parse(&frame), None);
            }
        }
    }

    proptest! {
        #[test]
        fn nothing_that_comes_is_a_panic(mut frame in prop::collection::vec(any::<u8>(), 0..120), v6: bool) {
            if frame.len() > 14 {
                frame[12..14].copy_from_slice(if v6 { &[0x86, 0xdd] } else { &[8, 0] });
            }
            let _ = Segment::parse(&frame);
            let _ = options(&frame);
        }
    }
}

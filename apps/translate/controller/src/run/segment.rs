//! What the program's ring has of packets that come by the controller: a TCP header, and the payload behind it.

use wire::checksum::checksum;
use wire::rtp;

/// Bytes of a TCP header without options.
const TCP: usize = 20;
/// Where it says how long it is, and the word that does.
pub(super) const OFFSET: usize = 12;
const LENGTH: u8 = 0x50;
/// Where its checksum lies.
const CHECKSUM: usize = 16;
/// Bytes of a packet of a transport stream, and the one that each begins with (ISO/IEC 13818-1 section 2.4.3.2).
const TS: usize = 188;
const SYNC: u8 = 0x47;

/// A header, and bytes behind it, whose checksum is not made yet.
pub fn plain(payload: &[u8]) -> Vec<u8> {
    let mut segment = vec![0; TCP];
    segment[OFFSET] = LENGTH;
    segment.extend_from_slice(payload);
    segment
}

/// An RTP packet as the ring has it.
#[derive(Debug, PartialEq, Eq)]
pub struct Numbered {
    /// The segment.
    pub bytes: Vec<u8>,
    /// What its payload adds up to.
    pub sum: u16,
    /// Its number,
    pub sequence: u16,
    /// and its source.
    pub ssrc: u32,
}

/// Reads an RTP packet. None where it is none, or has no MPEG transport stream in it.
pub fn of_rtp(packet: &[u8]) -> Option<Numbered> {
    let header = rtp::Header::read(packet)?;
    let first = *packet.first()?;
    // Contributing sources, an extension, padding (RFC 3550 section 5.1).
    let mut from = rtp::HEADER + 4 * usize::from(first & 15);
    if first & 0x10 != 0 {
        let words = packet.get(from + 2..from + 4)?;
        from += 4 + 4 * usize::from(u16::from_be_bytes([words[0], words[1]]));
    }
    let excess = if first & 0x20 != 0 { usize::from(*packet.last()?) } else { 0 };
    let payload = packet.get(from..packet.len().checked_sub(excess)?)?;
    if payload.is_empty() || !payload.len().is_multiple_of(TS) || payload[0] != SYNC {
        return None;
    }
    let mut bytes = plain(payload);
    let sum = checksum(&bytes, 0);
    bytes[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
    Some(Numbered { bytes, sum: !checksum(payload, 0), sequence: header.sequence, ssrc: header.ssrc })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_read_as_rtp_has_them() {
        let payload: Vec<u8> = [vec![SYNC], (1..188u32).map(|at| (at * 7) as u8).collect()].concat();
        let ends = [0x80u8, 33, 1, 2, 0, 0, 0, 0, 0, 0, 0, 9];
        let with = |first: u8, between: &[u8], behind: &[u8]| {
            of_rtp(&[&[first], &ends[1..], between, &payload, behind].concat())
        };
        let plain = with(0x80, &[], &[]).unwrap();
        assert_eq!((plain.sequence, plain.ssrc, &plain.bytes[20..]), (0x0102, 9, &payload[..]));
        // The sum of all words, the checksum's among them, is that of no words (RFC 1071).
        assert_eq!(checksum(&plain.bytes, 0), 0);
        let words = payload.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum::<u32>();
        assert_eq!(u32::from(plain.sum), words % 0xffff);
        let extension = [0, 0, 0, 1, 5, 6, 7, 8];
        assert_eq!(with(0x90, &extension, &[]).as_ref(), Some(&plain));
        assert_eq!(with(0xa1, &[1, 2, 3, 4], &[0, 2]).as_ref(), Some(&plain));
        assert_eq!((with(0x80, &[1], &[]), with(0xa0, &[], &[255]), with(0x9f, &[], &[])), (None, None, None));
    }
}

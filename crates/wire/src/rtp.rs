//! The fixed header of RTP packets (RFC 3550 section 5.1).

/// Bytes of the fixed header.
pub const HEADER: usize = 12;

/// What of the header changes from sender to receiver where a proxy is between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The sequence number.
    pub sequence: u16,
    /// The timestamp.
    pub timestamp: u32,
    /// The synchronisation source.
    pub ssrc: u32,
}

impl Header {
    /// Reads it; none where the bytes are no RTP packet of version 2.
    pub fn read(packet: &[u8]) -> Option<Header> {
        let head: &[u8; HEADER] = packet.first_chunk()?;
        let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        (head[0] >> 6 == 2).then(|| Header { sequence: word(0) as u16, timestamp: word(4), ssrc: word(8) })
    }

    /// Writes it over that of a packet, which has one.
    pub fn write(&self, packet: &mut [u8]) {
        if let Some(head) = packet.first_chunk_mut::<HEADER>() {
            head[2..4].copy_from_slice(&self.sequence.to_be_bytes());
            head[4..8].copy_from_slice(&self.timestamp.to_be_bytes());
            head[8..].copy_from_slice(&self.ssrc.to_be_bytes());
        }
    }
}

/// What a packet carries behind its header (RFC 3550 sections 5.1 and 5.3.1), without padding; none where it is no RTP
/// packet of version 2, or is cut off.
pub fn payload(packet: &[u8]) -> Option<&[u8]> {
    let first = *packet.first_chunk::<HEADER>()?.first()?;
    let mut at = HEADER + 4 * usize::from(first & 15);
    if first & 0x10 != 0 {
        let words = packet.get(at + 2..at + 4)?;
        at += 4 + 4 * usize::from(u16::from_be_bytes([words[0], words[1]]));
    }
    let padding = if first & 0x20 != 0 { usize::from(*packet.last()?) } else { 0 };
    (first >> 6 == 2).then(|| packet.get(at..packet.len().checked_sub(padding)?))?
}

/// Whether a packet has the marker, which ends a picture.
pub fn is_marked(packet: &[u8]) -> bool {
    packet.get(1).is_some_and(|own| own & 0x80 != 0)
}

/// Whether a packet of a port that carries both is RTCP (RFC 5761 section 4).
pub fn is_rtcp(packet: &[u8]) -> bool {
    packet.get(1).is_some_and(|kind| (192..=223).contains(kind))
}

/// What a stream's packets get that a receiver sees as its own: another source, and numbers that go on where those
/// before ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rewrite {
    /// The synchronisation source.
    pub ssrc: u32,
    /// Is added to sequence numbers.
    pub sequence: u16,
    /// Is added to timestamps.
    pub timestamp: u32,
}

impl Rewrite {
    /// The header as the receiver gets it.
    pub fn apply(&self, header: Header) -> Header {
        Header {
            sequence: header.sequence.wrapping_add(self.sequence),
            timestamp: header.timestamp.wrapping_add(self.timestamp),
            ssrc: self.ssrc,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_and_rewritten() {
        let mut packet = [0x80, 0xe0, 0xff, 0xff, 0, 0, 0, 1, 9, 9, 9, 9, 42];
        let header = Header::read(&packet).unwrap();
        assert_eq!(header, Header { sequence: 0xffff, timestamp: 1, ssrc: 0x09090909 });
        Rewrite { ssrc: 7, sequence: 2, timestamp: u32::MAX }.apply(header).write(&mut packet);
        assert_eq!(packet, [0x80, 0xe0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7, 42]);
        assert_eq!((Header::read(&packet[..11]), Header::read(&[0; 12])), (None, None));
        let one = |first: u8, rest: &[u8]| [&[first, 0x80][..], &[0; 10], rest].concat();
        assert_eq!(payload(&one(0x80, &[1, 2])), Some(&[1, 2][..]));
        // Two contributors, an extension of one word, two bytes of padding.
        let all = [&[9; 8][..], &[1, 2, 0, 1], &[9; 4], &[7, 8], &[0, 2]].concat();
        assert_eq!(payload(&one(0xb2, &all)), Some(&[7, 8][..]));
        for cut in [one(0xb2, &all[..11]), one(0x81, &[1]), one(0xa0, &[1, 40]), one(0x40, &[1]), vec![0x80; 11]] {
            assert_eq!(payload(&cut), None);
        }
        assert!(is_marked(&one(0x80, &[])) && !is_marked(&[0x80, 0x60]));
        assert!(is_rtcp(&[0x80, 200]) && !is_rtcp(&[0x80, 0x60]) && !is_rtcp(&[0x80]));
    }
}

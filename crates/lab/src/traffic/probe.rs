//! What a numbered frame carries behind its headers, and where those end.
//!
//! ```text
//!  0       2        6          10        18
//!  | magic | flow   | sequence | time    |      big endian; time in ns of the monotonic clock
//! ```
//!
//! It is as long as the shortest Ethernet frame leaves room for behind IPv4 and UDP.

/// Bytes of number and time.
pub const PROBE: usize = 18;

const MAGIC: u16 = 0x4d52;
/// Bytes of the two Ethernet addresses.
const ADDRESSES: usize = 12;
/// EtherType of frames for local experiments (IEEE 802).
pub(super) const EXPERIMENT: u16 = 0x88b5;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// EtherTypes of VLAN tags (IEEE 802.1Q and 802.1ad).
const TAGS: [u16; 2] = [0x8100, 0x88a8];
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;

/// One frame's place in its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    pub(super) flow: u32,
    pub(super) sequence: u32,
    /// When it was sent, in ns of the monotonic clock.
    pub(super) time: u64,
}

impl Probe {
    pub(super) fn bytes(self) -> [u8; PROBE] {
        let mut bytes = [0; PROBE];
        bytes[0..2].copy_from_slice(&MAGIC.to_be_bytes());
        bytes[2..6].copy_from_slice(&self.flow.to_be_bytes());
        bytes[6..10].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[10..18].copy_from_slice(&self.time.to_be_bytes());
        bytes
    }

    /// The probe that a frame carries, whatever was done to its headers on the way.
    pub(super) fn of_frame(frame: &[u8]) -> Option<Probe> {
        let at = payload(frame)?;
        let bytes = frame.get(at..at + PROBE)?;
        let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let time = u64::from(word(10)) << 32 | u64::from(word(14));
        (half(bytes, 0)? == MAGIC).then_some(Probe { flow: word(2), sequence: word(6), time })
    }
}

/// Where the headers of a frame end; `None` where they are not of a kind that the generator makes.
pub(super) fn payload(frame: &[u8]) -> Option<usize> {
    let mut at = ADDRESSES;
    while TAGS.contains(&half(frame, at)?) {
        at += 4;
    }
    let network = at + 2;
    let (protocol, transport) = match half(frame, at)? {
        EXPERIMENT => return Some(network),
        IPV4 => (*frame.get(network + 9)?, network + usize::from(frame[network] & 15) * 4),
        IPV6 => (*frame.get(network + 6)?, network + 40),
        _ => return None,
    };
    match protocol {
        UDP => Some(transport + 8),
        TCP => Some(transport + usize::from(frame.get(transport + 12)? >> 4) * 4),
        EXPERIMENTAL => Some(transport),
        _ => None,
    }
}

/// Protocol number for experiments (RFC 3692).
pub(super) const EXPERIMENTAL: u8 = 253;

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).map(|two| u16::from_be_bytes([two[0], two[1]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_read_back_and_nothing_else_is() {
        let probe = Probe { flow: 0x0102_0304, sequence: 0xfffe_fdfc, time: 0x1122_3344_5566_7788 };
        let mut frame = [vec![0; 12], EXPERIMENT.to_be_bytes().to_vec(), probe.bytes().to_vec()].concat();
        assert_eq!(Probe::of_frame(&frame), Some(probe));
        // A tag in front changes nothing.
        let tagged = [&frame[..12], &[0x81, 0, 0, 7], &frame[12..]].concat();
        assert_eq!(Probe::of_frame(&tagged), Some(probe));
        for length in 0..frame.len() {
            assert_eq!(Probe::of_frame(&frame[..length]), None);
        }
        frame[14] ^= 1;
        assert_eq!(Probe::of_frame(&frame), None);
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut frame = [0u8; 70];
        for kind in [IPV4, IPV6, 0x8100, 0x88a8, EXPERIMENT] {
            frame[12..14].copy_from_slice(&kind.to_be_bytes());
            for first in 0..=255u8 {
                frame[14..].fill(first);
                for length in 0..frame.len() {
                    let _ = Probe::of_frame(&frame[..length]);
                }
            }
        }
    }
}

//! Where a copy of a film ends and its origin goes on. Origins begin where a decoder can, so they may send again what
//! the copy had: packets are known by their payloads, and have the timestamps with which they were sent, or would be.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use wire::rtp;

/// A packet that the copy has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// What it was sent with, or would be.
    pub timestamp: u32,
    /// Whether it was.
    pub is_sent: bool,
}

/// What a copy has of a track around its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    /// By their payloads; none where several have the same, as of silence.
    packets: HashMap<u64, Option<Known>>,
    /// What is to be added to the origin's timestamps, as known packets have shown.
    offset: Option<u32>,
}

/// What an origin's packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It was sent.
    Sent,
    /// It is to be sent, with this added to its timestamp.
    Next(u32),
    /// It is to be sent, and how its timestamp goes on is not known.
    Unknown,
}

impl Tail {
    /// Adds an RTP packet.
    pub fn note(&mut self, packet: &[u8], known: Known) {
        let Some(payload) = rtp::payload(packet) else { return };
        self.packets.entry(key(payload)).and_modify(|own| *own = None).or_insert(Some(known));
    }

    /// Looks for an RTP packet of the origin.
    pub fn place(&mut self, packet: &[u8]) -> Place {
        let header = rtp::Header::read(packet);
        let Some((header, payload)) = header.zip(rtp::payload(packet)) else { return Place::Unknown };
        let known = self.packets.get(&key(payload)).copied().flatten();
        if let Some(known) = known {
            self.offset = Some(known.timestamp.wrapping_sub(header.timestamp));
        }
        match (known, self.offset) {
            (Some(Known { is_sent: true, .. }), _) => Place::Sent,
            (_, Some(offset)) => Place::Next(offset),
            (_, None) => Place::Unknown,
        }
    }
}

/// What a copy has around its end, by the tracks' places in the description.
pub type Seam = HashMap<usize, Tail>;

fn key(payload: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    payload.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(timestamp: u32, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x80, 96, 0, 1];
        packet.extend(timestamp.to_be_bytes());
        packet.extend([0, 0, 0, 7]);
        packet.extend(payload);
        packet
    }

    #[test]
    fn packets_are_known_by_their_payloads() {
        let mut tail = Tail::default();
        for (at, payload) in [b"one", b"two", b"---", b"---", b"six"].into_iter().enumerate() {
            let known = Known { timestamp: 1000 + at as u32, is_sent: at < 4 };
            tail.note(&packet(9, payload), known);
        }
        // What several have says nothing.
        assert_eq!(tail.place(&packet(u32::MAX, b"---")), Place::Unknown);
        assert_eq!(tail.place(&packet(50, b"two")), Place::Sent);
        assert_eq!(tail.place(&packet(51, b"---")), Place::Next(951));
        assert_eq!(tail.place(&packet(53, b"six")), Place::Next(951));
        assert_eq!(tail.place(&packet(54, b"new")), Place::Next(951));
    }
}

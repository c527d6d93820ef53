//! Where a copy of a film ends and its origin goes on. Origins begin where a decoder can, so they may send again what
//! the copy had: packets are known by their payloads, and have the timestamps with which they were sent, or would be.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use wire::rtp;

/// Packets at the beginning that several of the copy are like, and which are left out.
const MOST_AMBIGUOUS: u32 = 16;

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
    /// Keys of payloads, in order.
    packets: Vec<(u64, Known)>,
    /// Places of each payload: several have the same, as of silence.
    places: HashMap<u64, Vec<usize>>,
    /// Behind the packet that the origin has sent last.
    next: Option<usize>,
    /// What is to be added to the origin's timestamps, as known packets have shown.
    offset: Option<u32>,
    /// Packets whose payload several have, before it was known which they are.
    ambiguous: u32,
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
    /// Adds an RTP packet, behind those before.
    pub fn note(&mut self, packet: &[u8], known: Known) {
        let Some(payload) = rtp::payload(packet) else { return };
        let key = key(payload);
        self.places.entry(key).or_default().push(self.packets.len());
        self.packets.push((key, known));
    }

    /// Looks for an RTP packet of the origin. Each packet of the copy is found once, so what is sent again ends.
    pub fn place(&mut self, packet: &[u8]) -> Place {
        let header = rtp::Header::read(packet);
        let Some((header, payload)) = header.zip(rtp::payload(packet)) else { return Place::Unknown };
        let places = self.places.get(&key(payload)).map_or(&[][..], Vec::as_slice);
        let found = match self.next {
            // They come in order.
            Some(next) => places.iter().find(|own| **own >= next).copied(),
            None if places.len() > 1 && self.ambiguous < MOST_AMBIGUOUS => {
                self.ambiguous += 1;
                // One like it was sent: without it nothing is missing that could be told apart.
                return Place::Sent;
            }
            None => places.first().copied().filter(|_| places.len() == 1),
        };
        let known = found.and_then(|found| Some((found, self.packets.get(found)?.1)));
        if let Some((found, known)) = known {
            self.next = Some(found + 1);
            self.offset = Some(known.timestamp.wrapping_sub(header.timestamp));
        }
        match (known, self.offset) {
            (Some((_, Known { is_sent: true, .. })), _) => Place::Sent,
            (_, Some(offset)) => Place::Next(offset),
            (_, None) => Place::Unknown,
        }
    }
}

/// What a copy has around its end, by the tracks' places in the description.
pub type Seam = HashMap<usize, Tail>;

/// What a copy has not of what is played.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// From this time of the film on,
    pub from: Duration,
    /// to this, or its end,
    pub until: Option<Duration>,
    /// so many times as fast as it was recorded.
    pub scale: u32,
    /// What the origin may send again.
    pub seam: Seam,
}

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
        // Which one this is is not known; it was sent, or is like what was.
        assert_eq!((tail.place(&packet(u32::MAX, b"---")), tail.offset), (Place::Sent, None));
        assert_eq!(tail.place(&packet(50, b"two")), Place::Sent);
        // Behind that it is, and each is found once.
        assert_eq!(tail.place(&packet(51, b"---")), Place::Sent);
        assert_eq!(tail.place(&packet(52, b"---")), Place::Sent);
        assert_eq!(tail.place(&packet(53, b"---")), Place::Next(951));
        assert_eq!(tail.place(&packet(53, b"two")), Place::Next(951));
        assert_eq!(tail.place(&packet(53, b"six")), Place::Next(951));
        assert_eq!(tail.place(&packet(54, b"new")), Place::Next(951));
        // An origin that sends one for ever is believed at some time.
        let mut tail = Tail::default();
        for at in 0..20 {
            tail.note(&packet(9, b"---"), Known { timestamp: at, is_sent: true });
        }
        let count = (0..100).take_while(|_| tail.place(&packet(9, b"---")) == Place::Sent).count();
        assert_eq!(count as u32, MOST_AMBIGUOUS);
    }
}

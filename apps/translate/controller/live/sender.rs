//! Who sends RTP, or a transport stream without it, to a place: every byte is known.

use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use crate::network::{Proxy, must};

/// Bytes of a packet of a stream.
pub const PACKET: usize = 1316;

pub struct Sender {
    socket: UdpSocket,
    to: SocketAddr,
    bare: bool,
    next: u16,
    /// Every so many packets one comes behind the next one; 0: none.
    pub swaps: usize,
    held_back: Option<Vec<u8>>,
    /// What was sent, in order.
    pub payloads: Vec<Vec<u8>>,
}

/// The payload of a number: seven packets of a transport stream.
pub fn payload(number: u32) -> Vec<u8> {
    let byte = |at: usize| match at % 188 {
        0 => 0x47,
        // No null packet (ISO/IEC 13818-1 section 2.4.3.3).
        1 => 0x01,
        2 => 0x00,
        4..8 => (number >> (8 * (at % 188 - 4))) as u8,
        at => ((at as u32).wrapping_mul(number) >> 3) as u8 ^ at as u8,
    };
    (0..PACKET).map(byte).collect()
}

impl Sender {
    pub fn new(proxy: &Proxy, from: &str, to: &str, bare: bool) -> Sender {
        let from: SocketAddr = from.parse().unwrap();
        let socket = must(proxy.servers.enter(|| UdpSocket::bind(from))).unwrap();
        let (next, to) = (from.port(), to.parse().unwrap());
        Sender { socket, to, bare, next, swaps: 0, held_back: None, payloads: Vec::new() }
    }

    /// Sends packets, one in each two milliseconds: 5 Mbit/s.
    pub fn send(&mut self, count: u16) {
        for _ in 0..count {
            self.next = self.next.wrapping_add(1);
            let payload = payload(self.payloads.len() as u32);
            let mut packet = Vec::new();
            if !self.bare {
                packet.extend([0x80, 33]);
                packet.extend(self.next.to_be_bytes());
                packet.extend((u32::from(self.next) * 90).to_be_bytes());
                packet.extend([7; 4]);
            }
            packet.extend(&payload);
            if self.swaps != 0 && self.payloads.len().is_multiple_of(self.swaps) && self.held_back.is_none() {
                self.held_back = Some(packet);
            } else {
                self.socket.send_to(&packet, self.to).unwrap();
                if let Some(late) = self.held_back.take() {
                    self.socket.send_to(&late, self.to).unwrap();
                }
            }
            self.payloads.push(payload);
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Checks that what a client has is what was sent, from some packet on, each once and in order; so many may be left out
/// between them.
#[track_caller]
pub fn compare(taken: &[u8], sent: &[Vec<u8>], most_left_out: usize) {
    assert_eq!(taken.len() % PACKET, 0);
    let mut next: Option<usize> = None;
    let mut left_out = 0;
    for (place, packet) in taken.chunks(PACKET).enumerate() {
        let from = next.unwrap_or(0);
        let found = sent[from..].iter().position(|own| own == packet);
        let found = found.unwrap_or_else(|| panic!("packet {place} is none that was sent behind {from}"));
        left_out += if next.is_some() { found } else { 0 };
        next = Some(from + found + 1);
    }
    assert!(left_out <= most_left_out, "{left_out} packets are left out");
}

/// What a client has without packets that are null packets alone, and how many of these there were.
#[track_caller]
pub fn without_nulls(taken: &[u8]) -> (Vec<u8>, usize) {
    assert_eq!(taken.len() % PACKET, 0);
    let is_null = |packet: &&[u8]| packet.chunks(188).all(|own| own[..4] == [0x47, 0x1f, 0xff, 0x10]);
    let nulls = taken.chunks(PACKET).filter(is_null).count();
    (taken.chunks(PACKET).filter(|packet| !is_null(packet)).flatten().copied().collect(), nulls)
}

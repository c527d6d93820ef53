//! Frames as an attacker or a broken device sends them.

use crate::frames::{BROADCAST, Ipv4};
use crate::random::Random;

/// Longest frame with an MTU of 1500.
const LONGEST: usize = 1514;

/// A frame of at least `shortest` bytes: random bytes, random bytes after a header that gets them routed, or a good
/// packet with some bytes changed. `router` is the router's Ethernet address at the port where the frame goes in.
pub fn frame(random: &mut Random, shortest: usize, router: [u8; 6], src: [u8; 6]) -> Vec<u8> {
    let length = match random.below(4) {
        0 => shortest + random.below(64 - shortest),
        _ => shortest + random.below(LONGEST + 1 - shortest),
    };
    let mut frame = match random.below(3) {
        0 => random.bytes(length),
        1 => {
            let mut frame = random.bytes(length);
            let kinds = [0x0800, 0x0806, 0x8100, 0x86dd, 46u16];
            let head = [&router[..], &src, &kinds[random.below(kinds.len())].to_be_bytes()].concat();
            let known = head.len().min(length);
            frame[..known].copy_from_slice(&head[..known]);
            if let Some(first) = frame.get_mut(14) {
                *first = 0x40 | *first & 0x0f;
            }
            frame
        }
        _ => {
            let payload = random.bytes(length.saturating_sub(34));
            let dst = if random.below(8) == 0 { [203, 0, 113, 9] } else { [10, 0, 2, 13] };
            let mut packet = Ipv4::new([10, 0, 1, 11], dst, &payload);
            let options = [0, 0, 0, 4, 40][random.below(5)];
            packet.options = random.bytes(options);
            let mut frame = packet.frame(if random.below(8) == 0 { BROADCAST } else { router }, src);
            for _ in 0..random.below(4) {
                let at = random.below(frame.len().min(60));
                frame[at] = random.next() as u8;
            }
            frame.truncate(length);
            frame
        }
    };
    // A change must not make a host's address belong to another port: after all this the hosts must reach each other.
    if frame.len() >= 12 && frame[6..11] == [2, 0, 0, 0, 0] {
        let known = frame.len().min(12);
        frame[6..known].copy_from_slice(&src[..known - 6]);
    }
    frame
}

//! Random packets: from noise to headers that make sense.

use crate::generate::Header;
use crate::numbers::SplitMix64;

/// Port of entry and bytes.
pub type Packet = (u8, Vec<u8>);

/// A packet for a program with these headers, the first of which is that of received frames.
pub fn packet(n: &mut SplitMix64, headers: &[Header]) -> Packet {
    let port = if n.chance(60) { n.below(6) } else { n.below(256) } as u8;
    let mut bytes = match n.below(6) {
        0 => (0..n.below(201)).map(|_| n.next() as u8).collect(),
        1 => (0..n.below(201)).map(|_| n.below(5) as u8).collect(),
        _ => stack(n, headers),
    };
    if n.chance(10) {
        bytes.truncate(n.below(bytes.len() + 1));
    }
    bytes.truncate(200);
    (port, bytes)
}

/// Headers one after the other, mostly with good lengths; sometimes just enough, or a byte less.
fn stack(n: &mut SplitMix64, headers: &[Header]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut header = &headers[0];
    let most = n.range(1, 5);
    for _ in 0..most {
        let start = bytes.len();
        let noise = n.chance(40);
        bytes.extend((0..header.bytes).map(|_| if noise { n.next() as u8 } else { n.below(4) as u8 }));
        if let Some((offset, width, values)) = &header.length
            && n.chance(85)
        {
            set(&mut bytes[start..], *offset, *width, *n.pick(values));
        }
        // Room for what a demux may say beyond the fixed header.
        if n.chance(40) {
            bytes.extend((0..n.below(12)).map(|i| i as u8));
        }
        header = n.pick(headers);
    }
    match n.below(4) {
        0 => {}
        1 => drop(bytes.pop()),
        _ => bytes.extend((0..n.below(80)).map(|i| (i * 7) as u8)),
    }
    bytes
}

/// Sets a bit field in network order.
fn set(bytes: &mut [u8], offset: u32, width: u32, value: u128) {
    for i in 0..width {
        let (at, bit) = ((offset + i) as usize, value >> (width - 1 - i) & 1);
        let mask = 0x80 >> (at % 8);
        if bit == 1 { bytes[at / 8] |= mask } else { bytes[at / 8] &= !mask }
    }
}

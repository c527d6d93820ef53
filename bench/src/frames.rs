//! Frames of 64 bytes with the frame check sequence, as benchmarks use them.

/// Bytes of a frame without its frame check sequence.
const LEAST: usize = 60;

/// An Ethernet header.
pub fn ethernet(dst: u64, src: u64, kind: u16) -> Vec<u8> {
    let mut frame = dst.to_be_bytes()[2..].to_vec();
    frame.extend(&src.to_be_bytes()[2..]);
    frame.extend(kind.to_be_bytes());
    frame
}

/// The checksum of an IPv4 header whose checksum field is zero (RFC 1071).
pub fn checksum(header: &[u8]) -> [u8; 2] {
    let sum: u32 = header.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    (!(sum as u16)).to_be_bytes()
}

/// An IPv4 header without options in front of what it carries.
pub fn ipv4(src: u32, dst: u32, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = (20 + payload.len()) as u16;
    let mut ip = [&[0x45, 0], &length.to_be_bytes()[..], &[0, 0, 0x40, 0, 64, protocol, 0, 0]].concat();
    ip.extend([src.to_be_bytes(), dst.to_be_bytes()].concat());
    let check = checksum(&ip);
    ip[10..12].copy_from_slice(&check);
    [&ip, payload].concat()
}

/// A UDP header and data, without a checksum.
pub fn udp(src: u16, dst: u16, data: &[u8]) -> Vec<u8> {
    let length = (8 + data.len()) as u16;
    [&src.to_be_bytes()[..], &dst.to_be_bytes(), &length.to_be_bytes(), &[0, 0], data].concat()
}

/// Headers and data as a frame, filled up to the least length.
pub fn frame(header: Vec<u8>, payload: &[u8]) -> Vec<u8> {
    let mut frame = [&header, payload].concat();
    frame.resize(frame.len().max(LEAST), 0);
    frame
}

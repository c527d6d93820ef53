//! The Internet checksum of headers in packets as text.

/// The Internet checksum (RFC 1071) of a header whose checksum field is zero. An odd last byte is a word's upper half.
pub(super) fn checksum(header: &[u8]) -> u16 {
    let word = |pair: &[u8]| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0));
    let mut sum: u64 = header.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

//! The Internet checksum (RFC 1071).

/// The Internet checksum (RFC 1071) of bytes, with a sum to begin with.
#[inline]
pub fn checksum(bytes: &[u8], start: u32) -> u16 {
    // Words of four bytes have the same sum, in any order of bytes (RFC 1071 section 2).
    let mut words = bytes.chunks_exact(4);
    let mut sum: u64 =
        words.by_ref().map(|word| u64::from(u32::from_ne_bytes([word[0], word[1], word[2], word[3]]))).sum();
    let mut last = [0; 4];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    sum += u64::from(u32::from_ne_bytes(last));
    !folded(u64::from(u16::from_be(folded(sum))) + u64::from(start))
}

/// A sum of one's complement in 16 bits.
fn folded(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

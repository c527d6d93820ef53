//! CRC-32C (Castagnoli), the checksum of SCTP (RFC 9260 appendix A).

/// The polynomial 0x1edc6f41, its bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// By byte: what it changes of the remainder.
static TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut rest, mut bit) = (byte as u32, 0);
        while bit < 8 {
            rest = rest >> 1 ^ if rest & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        table[byte] = rest;
        byte += 1;
    }
    table
}

/// The CRC-32C of bytes. SCTP has it in its header with the lowest byte first.
pub fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |rest, byte| rest >> 8 ^ TABLE[usize::from(rest as u8 ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3720 section B.4, and the check value of the catalogue of CRCs.
    #[test]
    fn known_values() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&std::array::from_fn::<u8, 32, _>(|at| at as u8)), 0x46dd_794e);
    }
}

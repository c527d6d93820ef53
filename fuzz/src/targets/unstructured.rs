//! Inputs that are made of small pieces.

/// Reads numbers and bytes off the front; at the end everything is 0 or empty.
pub struct Unstructured<'d>(pub &'d [u8]);

impl<'d> Unstructured<'d> {
    /// Whether there is anything left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A byte.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// Two bytes, the higher one first.
    pub fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// So many bytes, or what is left.
    pub fn bytes(&mut self, count: usize) -> &'d [u8] {
        let (first, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        first
    }
}

/// The Internet checksum of bytes (RFC 1071), with a sum to begin with.
pub fn checksum(bytes: &[u8], start: u32) -> u16 {
    let words = bytes.chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(*two.get(1).unwrap_or(&0)));
    let mut sum = words.sum::<u32>() + start;
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Sets the checksum of what a frame of IP carries, where there is room for one, so that it is read at all.
pub fn set_checksum(frame: &mut [u8]) {
    let (header, addresses) = match frame.get(12..14) {
        Some([8, 0]) => (34, 26..34),
        Some([0x86, 0xdd]) => (54, 22..54),
        _ => return,
    };
    if frame.len() < header {
        return;
    }
    let length = |at: usize| usize::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
    let (end, protocol) = if header == 34 { (14 + length(16), frame[23]) } else { (54 + length(18), frame[20]) };
    let directory = match protocol {
        6 => header + 16,
        58 => header + 2,
        _ => return,
    };
    if end > frame.len() || directory + 2 > end {
        return;
    }
    frame[directory..directory + 2].fill(0);
    let words = frame[addresses].chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]])));
    let pseudo = words.sum::<u32>() + u32::from(protocol) + (end - header) as u32;
    let sum = checksum(&frame[header..end], pseudo);
    frame[directory..directory + 2].copy_from_slice(&sum.to_be_bytes());
}

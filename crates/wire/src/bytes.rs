//! Numbers at places of frames.

/// The bytes at a place, as an array; none where there are not so many.
pub fn at<const N: usize>(bytes: &[u8], place: usize) -> Option<[u8; N]> {
    bytes.get(place..place + N)?.try_into().ok()
}

/// The number of two bytes at a place.
pub fn u16_at(bytes: &[u8], place: usize) -> Option<u16> {
    at(bytes, place).map(u16::from_be_bytes)
}

/// The number of four bytes at a place.
pub fn u32_at(bytes: &[u8], place: usize) -> Option<u32> {
    at(bytes, place).map(u32::from_be_bytes)
}

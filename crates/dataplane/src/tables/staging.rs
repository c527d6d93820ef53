//! Whether look-ups are worth fetching ahead, as generated code is told.

/// The bit of a table's `large` where look-ups of different packets spread over more than `far` bytes, so that it is
/// worth fetching them ahead.
pub fn large(bytes: usize, far: usize, bit: u32) -> u32 {
    if bytes > far { bit } else { 0 }
}

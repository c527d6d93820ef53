//! Arithmetic of TCP sequence numbers and timestamps, which wrap around.

/// Whether a sequence number comes before another one (RFC 9293 section 3.4).
pub fn before(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) < 0
}

//! Packets of MPEG-TS (ISO/IEC 13818-1 section 2.4.3): whether there are any, and their clock references.

/// Bytes of a packet.
pub const PACKET: usize = 188;
/// Program clock references count so many units in a second,
pub const HERTZ: u64 = 27_000_000;
/// and wrap around at this.
pub const WRAP: u64 = (1 << 33) * 300;

/// How many of the bytes are whole packets, from the first on.
pub fn whole(bytes: &[u8]) -> usize {
    let packets = bytes.as_chunks::<PACKET>().0;
    PACKET * packets.iter().take_while(|own| own[0] == 0x47).count()
}

/// Whether it is packets and nothing else.
pub fn is_ts(bytes: &[u8]) -> bool {
    !bytes.is_empty() && whole(bytes) == bytes.len()
}

/// The first program clock reference, in units of 27 MHz (section 2.4.3.5).
pub fn pcr(bytes: &[u8]) -> Option<u64> {
    bytes.as_chunks::<PACKET>().0.iter().find_map(|packet| {
        let has = packet[0] == 0x47 && packet[1] & 0x80 == 0 && packet[3] & 0x20 != 0 && packet[4] >= 7;
        if !has || packet[5] & 0x10 == 0 {
            return None;
        }
        let field = &packet[6..12];
        let base = u64::from(u32::from_be_bytes([field[0], field[1], field[2], field[3]])) << 1;
        let extension = u64::from(u16::from_be_bytes([field[4], field[5]]));
        Some((base | extension >> 15) * 300 + (extension & 0x1ff))
    })
}

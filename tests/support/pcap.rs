//! Capture files (draft-ietf-opsawg-pcap), written and read by hand.

/// A file with these packets, a microsecond apart.
pub fn write(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend([0xa1b2_c3d4u32.to_le_bytes(), [2, 0, 4, 0], [0; 4], [0; 4]].concat());
    file.extend([262_144u32.to_le_bytes(), 1u32.to_le_bytes()].concat());
    for (number, packet) in packets.iter().enumerate() {
        let length = (packet.len() as u32).to_le_bytes();
        file.extend([1_700_000_000u32.to_le_bytes(), (number as u32).to_le_bytes(), length, length].concat());
        file.extend(packet);
    }
    file
}

/// The packets of a file.
pub fn read(file: &[u8]) -> Vec<Vec<u8>> {
    let (header, mut rest) = file.split_at(24);
    // Time stamps in micro- or nanoseconds.
    assert!([0xa1b2_c3d4, 0xa1b2_3c4d].contains(&word(header, 0)), "{header:02x?}");
    let mut packets = Vec::new();
    while !rest.is_empty() {
        let (captured, length) = (word(rest, 8) as usize, word(rest, 12) as usize);
        assert_eq!(captured, length);
        packets.push(rest[16..16 + length].to_vec());
        rest = &rest[16 + length..];
    }
    packets
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

//! The source's stream: MPEG-TS of which each packet says which it is, with the tables and the heads of MPEG-2 pictures
//! (ISO/IEC 13818-1 section 2.4.3, 13818-2 section 6.2.3).

/// Bytes of a packet of MPEG-TS.
const TS: usize = 188;

/// Packets of the stream from one access point to the next one. The tables are in the two in front of it.
pub const GROUP: u32 = 32;

/// A packet of the source: 7 of MPEG-TS that say which they are.
pub fn payload(number: u32) -> Vec<u8> {
    payload_of(number, 7)
}

/// The number of the packet that one of MPEG-TS is of, which part of it that is, and of how many.
pub fn number_of(ts: &[u8]) -> (u32, u8, u8) {
    (u32::from_be_bytes(ts[TS - 6..TS - 2].try_into().unwrap()), ts[TS - 2], ts[TS - 1])
}

/// One of so many.
pub fn payload_of(number: u32, parts: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in 0..parts {
        let counter = (number.wrapping_mul(7) + u32::from(part)) as u8 & 15;
        let mut packet = if part == 0 { first_part(number, counter) } else { vec![0x47, 1, 0, 0x10 | counter] };
        let mut state = u64::from(number) << 8 | u64::from(part);
        while packet.len() < TS - 6 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            packet.push((state >> 56) as u8);
        }
        packet.extend(number.to_be_bytes());
        packet.extend([part, parts]);
        bytes.extend(packet);
    }
    bytes
}

/// How the first part of a packet begins.
fn first_part(number: u32, counter: u8) -> Vec<u8> {
    // The header of a packet of pictures, and of a picture of a kind (`picture_coding_type`).
    let picture = |kind: u8| [0, 0, 1, 0xe0, 0, 0, 0x80, 0, 0, 0, 0, 1, 0, 0, kind << 3];
    match number % GROUP {
        0 => [&[0x47, 0x40, 0, 0x10, 0][..], &[0, 0xb0, 13, 0, 1, 0xc1, 0, 0, 0, 1, 0xe1, 1, 0, 0, 0, 0]].concat(),
        1 => {
            let streams = [0xe1, 0, 0xf0, 0, 2, 0xe1, 0, 0xf0, 0];
            [&[0x47, 0x41, 1, 0x10, 0][..], &[2, 0xb0, 18, 0, 1, 0xc1, 0, 0], &streams, &[0; 4]].concat()
        }
        2 => [&[0x47, 0x41, 0, 0x30 | counter, 1, 0x40][..], &picture(1)].concat(),
        // Others refer to half of the pictures.
        at if at % 2 == 0 => [&[0x47, 0x41, 0, 0x10 | counter][..], &picture(2 + u8::from(at % 4 == 0))].concat(),
        _ => vec![0x47, 1, 0, 0x10 | counter],
    }
}

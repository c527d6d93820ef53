//! The checksums of a packet, found and computed from its bytes alone.

/// Ones' complement sum of 16-bit words (RFC 1071), not folded.
pub fn words(bytes: &[u8]) -> u64 {
    bytes.chunks(2).map(|pair| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |&byte| u64::from(byte))).sum()
}

fn be16(bytes: &[u8], at: usize) -> usize {
    usize::from(bytes[at]) << 8 | usize::from(bytes[at + 1])
}

/// A checksum: whose it is, and by how much it is wrong: a number below 0xffff, or that there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub name: &'static str,
    pub error: Option<u64>,
}

/// What an upper-layer checksum needs of the header in front: its addresses, and where it says that it ends.
struct Around<'a> {
    addresses: &'a [u8],
    end: usize,
}

/// All checksums of an Ethernet frame, the outermost first.
pub fn checksums(frame: &[u8]) -> Vec<Found> {
    let mut found = Vec::new();
    let (mut at, mut kind) = (14, be16(frame, 12));
    while kind == 0x8100 {
        (kind, at) = (be16(frame, at + 2), at + 4);
    }
    if kind == 0x8847 {
        while frame[at + 2] & 1 == 0 {
            at += 4;
        }
        at += 4;
        kind = if frame[at] >> 4 == 4 { 0x0800 } else { 0x86dd };
    }
    match kind {
        0x0800 => ipv4(frame, at, &mut found),
        0x86dd => ipv6(frame, at, &mut found),
        _ => panic!("EtherType {kind:#x}"),
    }
    found
}

fn ipv4(frame: &[u8], at: usize, found: &mut Vec<Found>) {
    let header = usize::from(frame[at] & 15) * 4;
    found.push(Found { name: "ipv4", error: Some(words(&frame[at..at + header]) % 0xffff) });
    let around = Around { addresses: &frame[at + 12..at + 20], end: at + be16(frame, at + 2) };
    upper(frame, at + header, frame[at + 9], &around, found);
}

fn ipv6(frame: &[u8], at: usize, found: &mut Vec<Found>) {
    let around = Around { addresses: &frame[at + 8..at + 40], end: at + 40 + be16(frame, at + 4) };
    let (mut next, mut inner) = (frame[at + 6], at + 40);
    while next == 60 {
        (next, inner) = (frame[inner], inner + (usize::from(frame[inner + 1]) + 1) * 8);
    }
    upper(frame, inner, next, &around, found);
}

fn upper(frame: &[u8], at: usize, protocol: u8, around: &Around, found: &mut Vec<Found>) {
    let (name, field, fixed) = match protocol {
        6 => ("tcp", 16, 20),
        17 => ("udp", 6, 8),
        1 => ("icmp", 2, 8),
        58 => ("icmpv6", 2, 8),
        4 => return ipv4(frame, at, found),
        41 => return ipv6(frame, at, found),
        _ => panic!("protocol {protocol}"),
    };
    // UDP says itself how long it is; the others are as long as what holds them says.
    let length = if name == "udp" { be16(frame, at + 4) } else { around.end - at };
    // The header is always covered, and nothing beyond the packet is there.
    let end = (at + length.max(fixed)).min(frame.len());
    let mut sum = words(&frame[at..end]);
    if name != "icmp" {
        sum += words(around.addresses) + u64::from(protocol) + length as u64;
    }
    let none = name == "udp" && frame[at + field..at + field + 2] == [0, 0];
    found.push(Found { name, error: (!none).then_some(sum % 0xffff) });
}

//! Routers whose links take less than others: they say so, and hosts check what they are told.

use wire::icmp::IcmpError;

/// The address of all routers, and the protocols.
const ROUTER: [u8; 4] = [192, 0, 2, 1];
const ICMP: u8 = 1;
const TCP: u8 = 6;

/// The Internet checksum of bytes.
fn checksum(bytes: &[u8]) -> u16 {
    let sum: u32 = bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

/// What a router answers to a frame that is too long: it goes back to where that came from (RFC 1191).
pub fn too_big(frame: &[u8], mtu: usize, quote: usize) -> Vec<u8> {
    let packet = &frame[14..];
    assert_eq!((packet[9], packet[6] & 0x40), (TCP, 0x40), "it may be cut into pieces");
    let quoted = &packet[..packet.len().min(20 + quote)];
    let mut icmp = [&[3, 4, 0, 0, 0, 0][..], &(mtu as u16).to_be_bytes(), quoted].concat();
    let sum = checksum(&icmp);
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 60, ICMP, 0, 0];
    ip[2..4].copy_from_slice(&(20 + icmp.len() as u16).to_be_bytes());
    ip.extend([&ROUTER[..], &packet[12..16]].concat());
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    [&frame[6..12], &frame[..6], &[8, 0], &ip, &icmp].concat()
}

/// Whether a frame is an error.
pub fn is_error(frame: &[u8]) -> bool {
    frame[12..14] == [8, 0] && frame[23] == ICMP
}

/// Checks an error as careful hosts do.
pub fn believable(frame: &[u8]) -> IcmpError {
    let (ip, icmp) = frame[14..].split_at(20);
    let inner = &icmp[8..];
    assert_eq!((checksum(ip), checksum(icmp)), (0, 0), "the error's own checksums");
    assert_eq!(checksum(&inner[..20]), 0, "the quoted header's checksum");
    assert_eq!(&ip[16..20], &inner[12..16], "it is for the sender of what it is about");
    assert_eq!(&ip[12..16], &inner[16..20], "it comes from no other than is known");
    let length = usize::from(u16::from_be_bytes([inner[2], inner[3]]));
    if inner.len() == length {
        // All of the segment is there, so its checksum must be right.
        let pseudo = [&inner[12..20], &[0, TCP], &((length - 20) as u16).to_be_bytes(), &inner[20..]].concat();
        assert_eq!(checksum(&pseudo), 0, "the quoted segment's checksum");
    }
    IcmpError::parse(frame).expect("an error")
}

/// The fragments of a frame of so many bytes of IP at most (RFC 791 section 2.3), all with this identification.
pub fn fragments(frame: &[u8], size: usize, identification: u16) -> Vec<Vec<u8>> {
    let (header, payload) = frame[14..].split_at(20);
    let length = (size - 20) / 8 * 8;
    let pieces = payload.chunks(length).enumerate().map(|(number, bytes)| {
        let more = u16::from((number + 1) * length < payload.len()) << 13;
        let mut ip = header.to_vec();
        ip[2..4].copy_from_slice(&(20 + bytes.len() as u16).to_be_bytes());
        ip[4..6].copy_from_slice(&identification.to_be_bytes());
        ip[6..8].copy_from_slice(&(more | (number * length / 8) as u16).to_be_bytes());
        ip[10..12].fill(0);
        let sum = checksum(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        [&frame[..14], &ip, bytes].concat()
    });
    pieces.collect()
}

//! Frames with TCP segments, ICMP errors and answers about Ethernet addresses: what is read is written again as it was.

use wire::icmp::{IcmpError, Problem};
use wire::resolution::Answer;
use wire::segment::Segment;

use super::unstructured::set_checksum;

/// Takes a frame with a TCP segment; the first byte says whether its checksum is to be right.
pub fn run(data: &[u8]) {
    let Some(frame) = framed(data) else { return };
    let Some(found) = Segment::parse(&frame) else { return };
    let again = found.frame();
    let read = Segment::parse(&again).expect("what was written is read");
    // There may be room for fewer selective acknowledgements than came.
    let fitting =
        read.options.sack_blocks.iter().zip(&found.options.sack_blocks).all(|(own, came)| own.is_none() || own == came);
    assert!(fitting, "{read:?} {found:?}");
    let options = wire::segment::TcpOptions { sack_blocks: found.options.sack_blocks, ..read.options };
    assert_eq!(Segment { options, ..read }, found);
    assert_eq!(found.end().wrapping_sub(found.seq), found.space());
}

/// Takes a frame with an ICMP error.
pub fn error(data: &[u8]) {
    let Some(frame) = framed(data) else { return };
    let Some(found) = IcmpError::parse(&frame) else { return };
    let v4 = |address: std::net::Ipv6Addr| address.to_ipv4_mapped().is_some();
    if let Problem::TooBig(mtu) = found.problem {
        assert!(mtu >= if frame[12] == 8 { 576 } else { 1280 });
    }
    assert!(frame[12] != 8 || (v4(found.flow_key.src) && v4(found.flow_key.dst)));
}

/// Takes a frame with an ARP reply or a neighbour advertisement.
pub fn answer(data: &[u8]) {
    let Some(frame) = framed(data) else { return };
    let Some(found) = Answer::parse(&frame) else { return };
    assert!(found.mac.is_none_or(|mac| mac[0] & 1 == 0 && mac != [0; 6]), "no station: {found:?}");
    assert!(!found.address.is_multicast());
    if frame[12..14] == [0x86, 0xdd] {
        assert_eq!((frame[21], frame[54]), (255, 136), "from the link");
    }
}

/// The frame of an input.
fn framed(data: &[u8]) -> Option<Vec<u8>> {
    let (first, frame) = data.split_first()?;
    let mut frame = frame.to_vec();
    if first & 1 == 0 {
        set_checksum(&mut frame);
    }
    Some(frame)
}

//! What a sender has left to devices, by the packet itself, where nobody says it.
//!
//! A checksum that is to be computed is in its place with the sum of the pseudo header. One that was computed may be
//! the same number, and is right then only if computing it gives just that. So where the field has that number the
//! checksum may be computed, whatever it is. (A damaged packet is taken for a right one so in one of 65536 cases, as it
//! is by any checksum.)
//!
//! Whether CWR of a super-packet is its first segment's or every one's nobody says, either. It is taken to be every
//! one's, as of all that Linux merges since 6.18. A sender of RFC 3168 that says once too often that it has slowed down
//! may be told later of marks in this very burst, which it would not heed so soon. For accurate ECN (RFC 9768) the flag
//! is part of a count, in which a receiver would find up to seven marks that there were not.

use wire::bytes::{u16_at, u32_at};
use wire::checksum::checksum;

use super::layout::{Layout, SCTP, TCP, UDP};
use super::unfinished::{Checksum, Cut, Kind, Refused, Unfinished};

/// Of a packet from its Ethernet header on: of a super-packet with so many bytes of payload in each segment, or, where
/// that is 0, of another one.
pub fn inferred(packet: &[u8], segment: u16) -> Result<Unfinished, Refused> {
    let layout = Layout::of(packet);
    let checksum = layout.and_then(|layout| left(packet, &layout));
    match (segment, layout, checksum) {
        (0, _, checksum) => Ok(Unfinished { checksum, cut: None }),
        (size, Some(_), Some(_)) => {
            Ok(Unfinished { checksum, cut: Some(Cut { kind: Kind::ByHeaders, size, keeps_cwr: true }) })
        }
        (_, None, _) => Err(Refused::BadHeaders),
        // Kernels make the checksum of a super-packet one that is left, and that is the innermost one.
        (_, Some(_), None) => Err(Refused::Tunnel),
    }
}

/// The checksum, if it says that it is to be computed.
fn left(packet: &[u8], layout: &Layout) -> Option<Checksum> {
    let start = layout.transport;
    // What is behind the end of the IP packet fills up the frame.
    let length = layout.ip_length(packet)?.checked_sub(start - layout.ip)?;
    let pseudo =
        || Some(!checksum(&[], u32::from(layout.addresses(packet)?) + u32::from(layout.protocol) + length as u32));
    let (place, is_left) = match layout.protocol {
        TCP => (16, u16_at(packet, start + 16)? == pseudo()?),
        UDP => (6, u16_at(packet, start + 6)? == pseudo()?),
        // It has no pseudo header (`sctp_packet_pack`).
        SCTP => (8, u32_at(packet, start + 8)? == 0),
        _ => return None,
    };
    let is_inside = place + 2 <= length && start + length <= packet.len();
    (is_left && is_inside).then_some(Checksum { start: start as u16, place: place as u16, len: Some(length as u16) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packets::Segments;
    use crate::tests::super_packet::Super;

    fn finished(packet: &[u8], left: &Unfinished) -> Vec<Vec<u8>> {
        let mut segments = Segments::new(packet, left, None).unwrap();
        let mut all = Vec::new();
        while let Some(len) = segments.next_len() {
            let mut bytes = vec![0; len];
            segments.write(packet, &mut bytes);
            all.push(bytes);
        }
        all
    }

    #[test]
    fn what_headers_of_kernels_say_is_found() {
        for (is_ipv6, is_tcp, tags) in [(false, true, 0), (true, true, 1), (false, false, 2), (true, false, 0)] {
            for payload in [1, 2, 1400, 4000, 20_000] {
                let of = Super { tags: vec![0x2064; tags], ..Super::new(is_ipv6, is_tcp, payload) };
                for size in [0, 1000] {
                    let said = Unfinished::read(&of.header(size)).unwrap();
                    let found = inferred(&of.bytes(), size).unwrap();
                    let place = |left: &Unfinished| left.checksum.map(|checksum| (checksum.start, checksum.place));
                    assert_eq!(place(&found), place(&said));
                    assert_eq!(found.cut.map(|cut| cut.size), said.cut.map(|cut| cut.size));
                    let all = finished(&of.bytes(), &found);
                    assert!(all == finished(&of.bytes(), &said) && all.iter().all(|one| of.is_right(one)), "{of:?}");
                    // What is whole stays as it is.
                    for whole in all {
                        let found = inferred(&whole, 0).unwrap();
                        assert_eq!(finished(&whole, &found), [whole]);
                    }
                }
            }
        }
    }

    /// Of a checksum that is the sum of the pseudo header, too, as the rest adds up to nothing.
    #[test]
    fn a_whole_checksum_like_a_left_one_stays() {
        let mut of = Super::new(false, false, 2);
        let mut found = 0;
        for value in 0..=u16::MAX {
            of.payload = value.to_be_bytes().to_vec();
            let left = Unfinished::read(&of.header(0)).unwrap();
            let whole = finished(&of.bytes(), &left).remove(0);
            let inferred = inferred(&whole, 0).unwrap();
            found += u32::from(inferred.checksum.is_some());
            assert_eq!(finished(&whole, &inferred), [whole]);
        }
        assert!((1..3).contains(&found), "{found}");
    }

    /// What fills a frame up is none of the packet's.
    #[test]
    fn a_checksum_covers_the_packet_alone() {
        for is_tcp in [true, false] {
            let of = Super::new(false, is_tcp, 1);
            let left = [of.bytes(), vec![0xa5; 5]].concat();
            let finished = finished(&left, &inferred(&left, 0).unwrap()).remove(0);
            let (packet, fill) = finished.split_at(finished.len() - 5);
            assert!(of.is_right(packet) && fill == [0xa5; 5], "{finished:02x?}");
            // One that says that it is longer than it is stays as it is.
            let cut = &left[..left.len() - 6];
            assert_eq!(inferred(cut, 0), Ok(Unfinished::default()));
        }
    }

    /// The pseudo header has the address where the packet goes in the end.
    #[test]
    fn checksums_behind_routing_headers_are_found() {
        let (by, end) = ([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7], 38..54);
        for is_tcp in [true, false] {
            let of = Super::new(true, is_tcp, 500);
            let (whole, protocol) = (of.bytes(), if is_tcp { 6 } else { 17 });
            // Type and addresses that are left of a routing header, and its addresses.
            for (kind, left, addresses, is_known) in [
                (2, 1, vec![whole[end.clone()].to_vec()], true),
                (0, 2, vec![vec![9; 16], whole[end.clone()].to_vec()], true),
                (4, 1, vec![whole[end.clone()].to_vec(), by.to_vec()], true),
                (4, 0, vec![vec![3; 16], vec![4; 16]], true),
                (3, 1, vec![whole[end.clone()].to_vec()], false),
                (0, 1, vec![], false),
            ] {
                let addresses = addresses.concat();
                let routing =
                    [&[protocol, (addresses.len() / 8) as u8, kind, left, 0, 0, 0, 0], &addresses[..]].concat();
                let mut packet = [&whole[..54], &routing, &whole[54..]].concat();
                let length = (packet.len() - 54) as u16;
                packet[18..20].copy_from_slice(&length.to_be_bytes());
                packet[20] = 43;
                if left > 0 {
                    packet[end.clone()].copy_from_slice(&by);
                }
                let found = inferred(&packet, 0).unwrap();
                assert_eq!(found.checksum.is_some(), is_known, "{kind} {left}");
                if is_known {
                    let finished = finished(&packet, &found).remove(0);
                    let without = [&whole[..54], &finished[54 + routing.len()..]].concat();
                    assert!(of.is_right(&without), "{kind} {left}");
                    let segments = inferred(&packet, 100).and_then(|left| Segments::new(&packet, &left, None));
                    assert_eq!(segments.unwrap().left(), 5);
                }
            }
        }
    }

    #[test]
    fn super_packets_of_tunnels_are_refused() {
        let of = Super::new(false, false, 4000);
        let mut packet = of.bytes();
        assert!(inferred(&packet, 1000).is_ok());
        // As VXLAN has it: no checksum of its own.
        let place = of.transport() + 6;
        packet[place..place + 2].fill(0);
        assert_eq!(inferred(&packet, 1000), Err(Refused::Tunnel));
        packet[12] = 0x77;
        assert_eq!(inferred(&packet, 1000), Err(Refused::BadHeaders));
        assert_eq!(inferred(&packet, 0), Ok(Unfinished::default()));
        for len in 0..60 {
            // Whatever it is, it is no panic.
            let _ = (inferred(&packet[..len], 0), inferred(&of.bytes()[..len], 1000));
        }
    }
}

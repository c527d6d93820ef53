//! What a sender has left to devices, by the packet itself, where nobody says it.
//!
//! A checksum that is to be computed is in its place with the sum of the pseudo header. One that was computed may be
//! the same number, and is right then only if computing it gives just that. So where the field has that number the
//! checksum may be computed, whatever it is. (A damaged packet is taken for a right one so in one of 65536 cases, as it
//! is by any checksum.)

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
        (size, Some(_), Some(_)) => Ok(Unfinished { checksum, cut: Some(Cut { kind: Kind::ByHeaders, size }) }),
        (_, None, _) => Err(Refused::BadHeaders),
        // Kernels make the checksum of a super-packet one that is left, and that is the innermost one.
        (_, Some(_), None) => Err(Refused::Tunnel),
    }
}

/// The checksum, if it says that it is to be computed.
fn left(packet: &[u8], layout: &Layout) -> Option<Checksum> {
    let start = layout.transport;
    let place = match layout.protocol {
        TCP => 16,
        UDP => 6,
        // It has no pseudo header (`sctp_packet_pack`).
        SCTP => return (u32_at(packet, start + 8)? == 0).then_some(Checksum { start: start as u16, place: 8 }),
        _ => return None,
    };
    let length = layout.ip_length(packet)?.checked_sub(start - layout.ip)?;
    let pseudo = !checksum(packet.get(layout.addresses())?, u32::from(layout.protocol) + length as u32);
    // By a routing header the pseudo header has another address.
    let is_left = !layout.is_routed && u16_at(packet, start + place)? == pseudo;
    is_left.then_some(Checksum { start: start as u16, place: place as u16 })
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
                    assert_eq!(found.checksum, said.checksum);
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

//! Segments against packets made up by other code; what the kernel makes of the same is `tests::segments`.

use super::inferred::inferred;
use super::layout::Layout;
use super::{Checksum, Cut, Kind, Refused, Segments, Unfinished};
use crate::testing::SplitMix64;
use crate::tests::super_packet::{Super, total};

/// All segments of a packet.
fn divide(packet: &[u8], left: &Unfinished, tag: Option<[u8; 4]>) -> Result<Vec<Vec<u8>>, Refused> {
    let mut segments = Segments::new(packet, left, tag)?;
    let (count, mut all) = (segments.left(), Vec::new());
    while let Some(len) = segments.next_len() {
        let mut bytes = vec![0xee; len];
        segments.write(packet, &mut bytes);
        all.push(bytes);
        assert_eq!(segments.left(), count - all.len());
    }
    assert_eq!(all.len(), count);
    Ok(all)
}

fn left(of: &Super, size: u16) -> Unfinished {
    Unfinished::read(&of.header(size)).unwrap()
}

#[test]
fn segments_have_all_bytes_and_right_headers() {
    for (is_ipv6, is_tcp, options, tags) in
        [(false, true, 0, 0), (true, true, 0, 0), (false, false, 0, 0), (true, false, 16, 2), (false, true, 8, 1)]
    {
        let of = Super { options, tags: vec![0x2064; tags], flags: 0xd9, ..Super::new(is_ipv6, is_tcp, 4000) };
        let (packet, headers) = (of.bytes(), of.headers());
        let all = divide(&packet, &left(&of, 1448), None).unwrap();
        assert_eq!(all.iter().map(|segment| segment.len() - headers).collect::<Vec<_>>(), [1448, 1448, 1104]);
        assert_eq!(all.iter().flat_map(|segment| &segment[headers..]).copied().collect::<Vec<u8>>(), of.payload);
        for (number, segment) in all.iter().enumerate() {
            assert!(of.is_right(segment), "{of:?} {number}");
            assert_eq!(segment[..of.ip()], packet[..of.ip()]);
            let word = |at: usize| u16::from_be_bytes([segment[at], segment[at + 1]]);
            if !is_ipv6 {
                assert_eq!(word(of.ip() + 4), 0xfffeu16.wrapping_add(number as u16));
            }
            if is_tcp {
                let at = of.transport();
                let sequence = u32::from_be_bytes(segment[at + 4..at + 8].try_into().unwrap());
                assert_eq!(sequence, 0xffff_f000u32.wrapping_add(number as u32 * 1448));
                // CWR, ECE, PSH, ACK, FIN.
                assert_eq!(segment[at + 13], [0xd0, 0x50, 0x59][number]);
            }
        }
    }
}

/// Of accurate ECN (RFC 9768) the flag CWR is in all segments, where the header says so, where it does not say that the
/// sender is one of RFC 3168, and where there is no header.
#[test]
fn cwr_of_accurate_ecn_is_in_all_segments() {
    for is_ipv6 in [false, true] {
        let of = Super { flags: 0x98, ..Super::new(is_ipv6, true, 3000) };
        let (header, kind) = (of.header(1000), if is_ipv6 { 4 } else { 1 });
        let flags = |left: Unfinished| {
            let all = divide(&of.bytes(), &left, None).unwrap();
            assert!(all.iter().all(|segment| of.is_right(segment)));
            all.iter().map(|segment| segment[of.transport() + 13]).collect::<Vec<_>>()
        };
        for (more, expected) in [(0x80, [0x90, 0x10, 0x18]), (0x10, [0x90, 0x90, 0x98]), (0, [0x90, 0x90, 0x98])] {
            let mut header = header;
            header[1] = kind | more;
            assert_eq!(flags(Unfinished::read(&header).unwrap()), expected, "{more:#x}");
        }
        assert_eq!(flags(inferred(&of.bytes(), 1000).unwrap()), [0x90, 0x90, 0x98]);
    }
}

#[test]
fn a_tag_beside_a_packet_comes_into_each_segment() {
    let of = Super::new(false, true, 3000);
    let tagged = Super { tags: vec![0x2064], ..of.clone() };
    let tag = Some([0x81, 0, 0x20, 0x64]);
    assert_eq!(divide(&of.bytes(), &left(&of, 1000), tag), divide(&tagged.bytes(), &left(&tagged, 1000), None));
    assert_eq!(divide(&of.bytes(), &left(&of, 0), tag), divide(&tagged.bytes(), &left(&tagged, 0), None));
    let plain = divide(&of.bytes(), &Unfinished::default(), tag).unwrap();
    assert_eq!(plain, [tagged.bytes()]);
}

#[test]
fn a_packet_that_is_not_divided_gets_its_checksum() {
    for (is_ipv6, is_tcp) in [(false, true), (true, true), (false, false), (true, false)] {
        for payload in [0, 1, 2, 777] {
            let of = Super::new(is_ipv6, is_tcp, payload);
            let all = divide(&of.bytes(), &left(&of, 0), None).unwrap();
            assert!(all.len() == 1 && of.is_right(&all[0]), "{of:?}");
            // A super-packet of one segment is the same but for what zero is written as.
            let cut = divide(&of.bytes(), &left(&of, 1000), None).unwrap();
            assert_eq!(cut, all);
        }
    }
    // Where it comes out as zero, which says that there is none.
    let mut of = Super::new(false, false, 2);
    let bytes = divide(&of.bytes(), &left(&Super { payload: vec![0, 0], ..of.clone() }, 0), None).unwrap();
    assert!(of.is_right(&bytes[0]));
    of.payload = vec![0, 0];
    let all = divide(&of.bytes(), &left(&of, 0), None).unwrap();
    of.payload = all[0][40..42].to_vec();
    for size in [0, 100] {
        let all = divide(&of.bytes(), &left(&of, size), None).unwrap();
        assert_eq!(all[0][40..42], [0xff, 0xff]);
    }
}

#[test]
fn sctp_has_another_checksum() {
    let mut packet =
        [&[2; 12][..], &[8, 0, 0x45, 0, 0, 44, 0, 0, 0x40, 0, 64, 132, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]].concat();
    // What the checksum field has does not count: this is the CRC of 32 zeros (RFC 3720 section B.4).
    packet.extend([0; 32]);
    packet[42..46].fill(0xee);
    let sum = |place| Unfinished { checksum: Some(Checksum { start: 34, place, len: None }), cut: None };
    let all = divide(&packet, &sum(8), None).unwrap();
    assert_eq!(all[0][42..46], 0x8a91_36aau32.to_le_bytes());
    assert_eq!((&all[0][..42], &all[0][46..]), (&packet[..42], &packet[46..]));
    // Of another protocol it is the sum of RFC 1071, to which the field belongs.
    packet[23] = 99;
    let all = divide(&packet, &sum(8), None).unwrap();
    assert_eq!(total(&[&all[0][34..]]), !0xeeee);
}

#[test]
fn what_cannot_be_is_refused() {
    let of = Super::new(false, true, 3000);
    let refused = |change: &dyn Fn(&mut Vec<u8>, &mut [u8; 10])| {
        let (mut packet, mut header) = (of.bytes(), of.header(1448));
        change(&mut packet, &mut header);
        Unfinished::read(&header).and_then(|left| divide(&packet, &left, None)).err()
    };
    let put = |header: &mut [u8; 10], at: usize, value: u16| header[at..at + 2].copy_from_slice(&value.to_ne_bytes());
    assert_eq!(refused(&|_, _| ()), None);
    for (at, value, because) in [
        (4, 0, Refused::NoSegmentSize),
        (6, 65535, Refused::ChecksumOutside),
        (6, 3060, Refused::ChecksumOutside),
        (8, 65535, Refused::ChecksumOutside),
        (6, 13, Refused::ChecksumOutside),
        // Of an inner header, of none, of another field.
        (6, 84, Refused::Tunnel),
        (6, 33, Refused::BadHeaders),
        (8, 6, Refused::BadHeaders),
    ] {
        assert_eq!(refused(&|_, header| put(header, at, value)), Some(because), "{at} {value}");
    }
    // UFO, a tunnel of newer headers, one that there is not; another kind than the packet is.
    for (kind, because) in [
        (3, Refused::UnknownSegmentation),
        (0x21, Refused::UnknownSegmentation),
        (2, Refused::UnknownSegmentation),
        (4, Refused::BadHeaders),
        (5, Refused::BadHeaders),
    ] {
        assert_eq!(refused(&|_, header| header[1] = kind), Some(because), "{kind}");
    }
    // Too short, a wrong kind of packet, a wrong length of IP's header, of TCP's, of the packet, a fragment.
    for (at, value) in [(12, 9), (14, 0x44), (14, 0x65), (14, 0x4f), (46, 0x40), (17, 1), (20, 0x20), (21, 1), (23, 17)]
    {
        assert_eq!(refused(&|packet, _| packet[at] = value), Some(Refused::BadHeaders), "{at} {value}");
    }
    for len in 50..of.headers() {
        assert!(refused(&|packet, _| packet.truncate(len)).is_some(), "{len}");
    }
    for len in 0..50 {
        assert!(refused(&|packet, _| packet.truncate(len)).is_some(), "{len}");
    }
    let cut = Unfinished { checksum: None, cut: Some(Cut { kind: Kind::ByHeaders, size: 1000, keeps_cwr: true }) };
    assert_eq!(divide(&[], &Unfinished::default(), None), Err(Refused::BadHeaders));
    // Without a word about the checksum it is found by the headers.
    assert!(divide(&of.bytes(), &cut, None).unwrap().iter().all(|segment| of.is_right(segment)));
}

/// Whatever a header says of whatever bytes, it is refused or done.
#[test]
fn nothing_panics() {
    let mut random = SplitMix64(7);
    let (mut done, mut refused) = (0, 0);
    for round in 0..20_000 {
        let mut of = Super::new(random.below(2) == 0, random.below(2) == 0, random.below(300) as usize);
        of.options = 8 * random.below(3) as usize;
        of.tags = vec![5; random.below(3) as usize];
        let (mut packet, mut header) = (of.bytes(), of.header(1 + random.below(100) as u16));
        for _ in 0..random.below(4) {
            let at = random.below(packet.len().min(100) as u64) as usize;
            packet[at] = random.next() as u8;
        }
        if random.below(3) == 0 {
            header[random.below(10) as usize] = random.next() as u8;
        }
        if random.below(5) == 0 {
            packet.truncate(random.below(packet.len() as u64 + 1) as usize);
        }
        let tag = (random.below(2) == 0).then_some([0x81, 0, 0, 1]);
        match Unfinished::read(&header).and_then(|left| divide(&packet, &left, tag)) {
            Ok(all) => {
                done += 1;
                assert!(!all.is_empty() && all.iter().all(|segment| segment.len() <= packet.len() + 4), "{round}");
            }
            Err(_) => refused += 1,
        }
        let _ = Layout::of(&packet);
    }
    assert!(done > 5000 && refused > 2000, "{done} {refused}");
}

#[test]
fn what_is_told_of_a_packet_is_what_was_read() {
    for (is_ipv6, is_tcp, size) in [(false, true, 1448), (true, true, 9), (false, false, 1200), (true, false, 0)] {
        let of = Super::new(is_ipv6, is_tcp, 3000);
        assert_eq!(left(&of, size).header(of.headers() as u16, false), of.header(size));
    }
}

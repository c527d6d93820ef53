//! Capture files made by hand, whole and damaged.

use std::io::Read;
use std::time::Duration;

use super::*;
use crate::testing::SplitMix64;

/// Numbers in either order of bytes.
#[derive(Clone, Copy)]
struct Order(bool);

impl Order {
    fn u16(self, number: u16) -> Vec<u8> {
        if self.0 { number.to_le_bytes().into() } else { number.to_be_bytes().into() }
    }

    fn u32(self, number: u32) -> Vec<u8> {
        if self.0 { number.to_le_bytes().into() } else { number.to_be_bytes().into() }
    }

    fn words(self, numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| self.u32(*number)).collect()
    }
}

const LITTLE: Order = Order(true);
const BIG: Order = Order(false);
const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;

fn packet(number: u8, len: usize) -> Vec<u8> {
    (0..len).map(|at| number.wrapping_mul(31).wrapping_add(at as u8)).collect()
}

fn pcap_header(order: Order, magic: u32, link: u32) -> Vec<u8> {
    [order.u32(magic), order.u16(2), order.u16(4), order.words(&[0, 0, 65535, link])].concat()
}

fn record(order: Order, seconds: u32, fraction: u32, packet: &[u8], original: usize) -> Vec<u8> {
    [order.words(&[seconds, fraction, packet.len() as u32, original as u32]), packet.to_vec()].concat()
}

/// A file with so many packets of growing lengths, a second apart, and where each record begins.
fn pcap(count: u8) -> (Vec<u8>, Vec<usize>) {
    let mut file = pcap_header(LITTLE, MICROSECONDS, 1);
    let mut places = Vec::new();
    for number in 0..count {
        let packet = packet(number, 60 + usize::from(number));
        places.push(file.len());
        file.extend(record(LITTLE, 1_700_000_000 + u32::from(number), 5, &packet, packet.len()));
    }
    (file, places)
}

fn block(order: Order, kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let len = order.u32(padded as u32 + 12);
    [order.u32(kind), len.clone(), body.to_vec(), vec![0; padded - body.len()], len].concat()
}

fn section(order: Order) -> Vec<u8> {
    block(order, 0x0a0d_0d0a, &[order.u32(0x1a2b_3c4d), order.u16(1), order.u16(0), vec![0xff; 8]].concat())
}

fn option(order: Order, code: u16, value: &[u8]) -> Vec<u8> {
    let padding = vec![0; value.len().next_multiple_of(4) - value.len()];
    [order.u16(code), order.u16(value.len() as u16), value.to_vec(), padding].concat()
}

fn interface(order: Order, link: u16, most: u32, options: &[Vec<u8>]) -> Vec<u8> {
    block(order, 1, &[order.u16(link), order.u16(0), order.u32(most), options.concat()].concat())
}

fn named(order: Order, name: &str) -> Vec<u8> {
    interface(order, 1, 0, &[option(order, 2, name.as_bytes()), option(order, 0, &[])])
}

/// An enhanced packet block. It has its flags where they are not 0.
fn enhanced(order: Order, interface: u32, stamp: u64, packet: &[u8], original: usize, flags: u32) -> Vec<u8> {
    let words = [interface, (stamp >> 32) as u32, stamp as u32, packet.len() as u32, original as u32];
    let padding = vec![0; packet.len().next_multiple_of(4) - packet.len()];
    // Without the option that ends options, as some write it.
    let flags = if flags == 0 { Vec::new() } else { option(order, 2, &order.u32(flags)) };
    block(order, 6, &[order.words(&words), packet.to_vec(), padding, flags].concat())
}

/// What is read: times, interfaces, directions and bytes; and what is told at the end.
type Seen = (Vec<(Duration, Option<String>, bool, Vec<u8>)>, Option<String>);

fn read(file: &[u8]) -> Result<Seen, String> {
    let mut input = CaptureInput::of("f", file.to_vec()).map_err(|error| error.to_string())?;
    let mut packets = Vec::new();
    while let Some(packet) = input.next_packet() {
        let Captured { time, interface, outgoing, frame, .. } = packet.map_err(|error| error.to_string())?;
        packets.push((time, interface.map(|name| name.to_string()), outgoing, frame.to_vec()));
    }
    Ok((packets, input.skipped()))
}

/// The numbers of the packets of [`pcap`] that are read, whose bytes must be right, and what is told.
fn numbers(file: &[u8]) -> (Vec<u8>, Option<String>) {
    let (packets, skipped) = read(file).unwrap();
    let number = |(time, _, _, frame): &(Duration, _, _, Vec<u8>)| {
        let number = (time.as_secs() - 1_700_000_000) as u8;
        assert_eq!(*frame, packet(number, 60 + usize::from(number)));
        number
    };
    (packets.iter().map(number).collect(), skipped)
}

#[test]
fn pcap_of_all_kinds() {
    for order in [LITTLE, BIG] {
        for (magic, nanoseconds) in [(MICROSECONDS, 7000), (NANOSECONDS, 7)] {
            let (one, two) = (packet(1, 60), packet(2, 1514));
            let records = [record(order, 100, 7, &one, 60), record(order, 99, 999_999, &two, 1514)];
            let file = [pcap_header(order, magic, 1), records.concat()].concat();
            let (packets, skipped) = read(&file).unwrap();
            let second = Duration::new(99, 999_999 * (nanoseconds / 7));
            assert_eq!(packets, [(Duration::new(100, nanoseconds), None, false, one), (second, None, false, two)]);
            assert_eq!(skipped, None);
        }
    }
}

#[test]
fn pcapng_of_several_sections() {
    let (one, two, three) = (packet(1, 61), packet(2, 60), packet(3, 63));
    let offset = |order: Order, seconds: i64| if order.0 { seconds.to_le_bytes() } else { seconds.to_be_bytes() };
    let file = [
        section(LITTLE),
        named(LITTLE, "p1"),
        // Nanoseconds, and a snapshot length.
        interface(LITTLE, 1, 96, &[option(LITTLE, 2, b"switch:p2\0"), option(LITTLE, 9, &[9])]),
        enhanced(LITTLE, 1, 1_700_000_000_123_456_789, &one, 61, 2),
        enhanced(LITTLE, 0, 1_700_000_000_123_456, &two, 60, 1),
        // Statistics, and an unknown block.
        block(LITTLE, 5, &[0; 12]),
        block(LITTLE, 0x8000_0001, b"what is this"),
        // The other order of bytes, with interfaces of its own: 2^-10 s, an hour later; no name.
        section(BIG),
        interface(BIG, 1, 0, &[option(BIG, 9, &[0x8a]), option(BIG, 14, &offset(BIG, 3600)), option(BIG, 0, &[])]),
        enhanced(BIG, 0, 1024 * 100 + 512, &three, 63, 0),
        // The simple one has no time; the obsolete one has numbers of 16 bits.
        block(BIG, 3, &[BIG.u32(60), two.clone()].concat()),
        block(BIG, 2, &[BIG.u16(0), BIG.u16(7), BIG.words(&[0, 2048, 63, 63]), three.clone()].concat()),
    ]
    .concat();
    let (packets, skipped) = read(&file).unwrap();
    let hour = |seconds: u64, nanoseconds| Duration::new(3600 + seconds, nanoseconds);
    assert_eq!(
        packets,
        [
            (Duration::new(1_700_000_000, 123_456_789), Some("switch:p2".into()), true, one),
            (Duration::new(1_700_000_000, 123_456_000), Some("p1".into()), false, two.clone()),
            (hour(100, 500_000_000), None, false, three.clone()),
            (hour(100, 500_000_000), None, false, two),
            (hour(2, 0), None, false, three),
        ]
    );
    assert_eq!(skipped, None);
}

#[test]
fn the_last_record_is_often_incomplete() {
    let (file, places) = pcap(5);
    for end in places[4] + 1..file.len() {
        let (found, skipped) = numbers(&file[..end]);
        assert_eq!(found, [0, 1, 2, 3], "{end}");
        let place = format!(
            "f: passed over the last packet, within which the file ends (behind packet 4, at byte {})",
            places[4]
        );
        assert_eq!(skipped, Some(place), "{end}");
    }
    let blocks = [enhanced(LITTLE, 0, 1, &packet(1, 60), 60, 0), enhanced(LITTLE, 0, 2, &packet(2, 60), 60, 0)];
    let file = [section(LITTLE), named(LITTLE, "p1"), blocks.concat()].concat();
    for cut in 1..blocks[1].len() {
        let (packets, skipped) = read(&file[..file.len() - cut]).unwrap();
        assert_eq!((packets.len(), skipped.unwrap().contains("the last packet")), (1, true), "{cut}");
    }
}

#[test]
fn packets_of_which_bytes_are_missing() {
    let (mut file, _) = pcap(3);
    file.extend(record(LITTLE, 1_700_000_003, 5, &packet(9, 60), 1500));
    file.extend(record(LITTLE, 1_700_000_003, 5, &packet(9, 96), 9000));
    let (more, _) = pcap(5);
    file.extend(&more[more.len() - 16 - 64..]);
    let (found, skipped) = numbers(&file);
    assert_eq!(found, [0, 1, 2, 4]);
    let said = "f: passed over 2 packets that were not captured whole (packet 4: only 60 of 1500 bytes; tcpdump -s 0 captures all)";
    assert_eq!(skipped.as_deref(), Some(said));
    // Of a file in which no packet is whole there is nothing to use.
    let none = [pcap_header(LITTLE, MICROSECONDS, 1), record(LITTLE, 1, 1, &packet(1, 60), 61)].concat();
    let error = read(&none).unwrap_err();
    assert!(
        error.starts_with("f: no packet of it can be used: passed over 1 packet that was not captured whole"),
        "{error}"
    );
    let simple =
        [section(LITTLE), interface(LITTLE, 1, 40, &[]), block(LITTLE, 3, &[LITTLE.u32(60), packet(1, 40)].concat())];
    assert!(read(&simple.concat()).unwrap_err().contains("only 40 of 60 bytes"));
}

/// Each byte of a record's head is set to each of some values: at most this packet and the next are lost, and it is
/// told.
#[test]
fn a_damaged_record_costs_one_packet_or_two() {
    let (good, places) = pcap(8);
    for at in 0..16 {
        for value in [0, 1, 0x3f, 0x80, 0xff] {
            let mut file = good.clone();
            let place = places[3] + at;
            if std::mem::replace(&mut file[place], value) == value {
                continue;
            }
            // Another time, within what a second has, is no damage that can be seen.
            let (packets, skipped) = read(&file).unwrap();
            let right =
                |number: u8| packets.iter().filter(|found| found.3 == packet(number, 60 + usize::from(number))).count();
            for number in [0, 1, 2, 5, 6, 7] {
                assert_eq!(right(number), 1, "packet {number}, byte {at} = {value:#x}: {skipped:?}");
            }
            assert_eq!(packets.len(), 6 + right(3) + right(4), "byte {at} = {value:#x}: a packet that was not sent");
            assert_eq!(skipped.is_none(), right(3) + right(4) == 2, "byte {at} = {value:#x}: {skipped:?}");
        }
    }
    // In the midst of it lies something else, such as a page of zeros.
    for rubbish in [vec![0; 4096], vec![0xff; 300_000], b"no packet".to_vec()] {
        let file = [&good[..places[4]], &rubbish, &good[places[4]..]].concat();
        let (found, skipped) = numbers(&file);
        assert_eq!(found, [0, 1, 2, 3, 4, 5, 6, 7]);
        let place = format!("f: passed over 1 damaged place (behind packet 4, at byte {})", places[4]);
        assert_eq!(skipped, Some(place));
        // At the end nothing follows.
        let file = [&good[..], &rubbish].concat();
        let (found, skipped) = numbers(&file);
        assert!(found.len() == 8 && skipped.is_some(), "{skipped:?}");
    }
    // Places beyond the first three are counted.
    let mut file = good.clone();
    for place in [0, 3, 5, 6] {
        file[places[place] + 11] = 0xff;
    }
    let (found, skipped) = numbers(&file);
    assert_eq!(found, [1, 2, 4, 7]);
    let skipped = skipped.unwrap();
    assert!(skipped.starts_with("f: passed over 3 damaged places (before the first packet, at byte 24; "), "{skipped}");
    let mut file = good.clone();
    for place in [0, 3, 5, 7] {
        file[places[place] + 11] = 0xff;
    }
    let (found, skipped) = numbers(&file);
    assert_eq!(found, [1, 2, 4, 6]);
    let skipped = skipped.unwrap();
    assert!(skipped.starts_with("f: passed over 4 damaged places (before"), "{skipped}");
    assert!(skipped.ends_with("; and 1 more)"), "{skipped}");
}

#[test]
fn damaged_blocks() {
    let packets: Vec<Vec<u8>> = (0..8).map(|number| packet(number, 60)).collect();
    let blocks: Vec<Vec<u8>> =
        packets.iter().map(|packet| enhanced(LITTLE, 0, 1_700_000_000_000_000, packet, 60, 0)).collect();
    let head = [section(LITTLE), named(LITTLE, "p1")].concat();
    for at in 0..blocks[3].len() {
        for value in [0, 7, 0x7f, 0xff] {
            let mut damaged = blocks.clone();
            if std::mem::replace(&mut damaged[3][at], value) == value {
                continue;
            }
            let (found, skipped) = read(&[&head[..], &damaged.concat()].concat()).unwrap();
            let right = |number: usize| found.iter().filter(|found| found.3 == packets[number]).count();
            for number in [0, 1, 2, 4, 5, 6, 7] {
                assert_eq!(right(number), 1, "packet {number}, byte {at} = {value:#x}: {skipped:?}");
            }
            // Its bytes and its time may be anything, and an unknown type is passed over.
            let is_anything = (0..4).contains(&at) || (12..20).contains(&at) || (28..88).contains(&at);
            assert!(is_anything || (right(3) == 1) == skipped.is_none(), "byte {at} = {value:#x}: {skipped:?}");
        }
    }
    // An interface of which nothing is known keeps its number.
    let bad = interface(LITTLE, 1, 0, &[option(LITTLE, 9, &[0x7f])]);
    let file = [section(LITTLE), bad, named(LITTLE, "p2"), enhanced(LITTLE, 1, 5, &packets[0], 60, 0)].concat();
    let (found, skipped) = read(&file).unwrap();
    assert_eq!(found[0].1.as_deref(), Some("p2"));
    assert!(skipped.unwrap().contains("1 damaged place (before the first packet, at byte 28)"));
}

#[test]
fn what_is_no_capture() {
    let error = |file: &[u8]| read(file).unwrap_err();
    assert_eq!(error(b""), "f: neither a pcap nor a pcapng file: it is empty");
    assert_eq!(error(b"hello, this is text"), "f: neither a pcap nor a pcapng file: it begins with 68 65 6c 6c");
    assert_eq!(error(&pcap(1).0[..20]), "f: neither a pcap nor a pcapng file: its header has 20 of 24 bytes");
    assert_eq!(error(&section(LITTLE)[..20]), "f: not a pcapng file: its first block is damaged");
    let other = "f: link type 113: only Ethernet (1) is supported";
    assert_eq!(error(&pcap_header(LITTLE, NANOSECONDS, 113)), other);
    let unused = [section(LITTLE), interface(LITTLE, 113, 0, &[])].concat();
    assert_eq!(read(&unused), Ok((Vec::new(), None)));
    assert_eq!(error(&[unused, enhanced(LITTLE, 0, 1, &packet(1, 60), 60, 0)].concat()), other);
    assert!(CaptureInput::open("/no/such/file".as_ref()).is_err_and(|error| error.0.contains("cannot be opened")));
}

/// Whatever a file holds, reading it ends, and says so.
#[test]
fn random_damage() {
    let mut numbers = SplitMix64(5);
    let (pcap, _) = pcap(20);
    let blocks = (0..20).map(|number| enhanced(LITTLE, number % 2, 1 << 50, &packet(number as u8, 60), 60, number % 3));
    let pcapng =
        [section(LITTLE), named(LITTLE, "a"), named(LITTLE, "b"), blocks.collect::<Vec<_>>().concat()].concat();
    let (mut whole, mut told) = (0, 0);
    for good in [pcap, pcapng] {
        for _ in 0..3000 {
            let mut file = good.clone();
            for _ in 0..1 + numbers.below(6) {
                let at = numbers.below(file.len() as u64) as usize;
                match numbers.below(3) {
                    0 => file[at] = numbers.next() as u8,
                    1 => drop(file.drain(at..(at + numbers.below(40) as usize).min(file.len()))),
                    _ => drop(file.splice(at..at, (0..numbers.below(40)).map(|byte| byte as u8))),
                }
            }
            match read(&file) {
                Ok((packets, skipped)) => {
                    assert!(packets.len() <= 20 + 6, "{}", packets.len());
                    whole += packets.len();
                    told += usize::from(skipped.is_some());
                }
                Err(error) => assert!(!error.contains('\n'), "{error}"),
            }
        }
    }
    assert!(whole > 6000 * 12 && told > 3000, "{whole} packets, {told} files with something to tell");
}

/// A file that comes in pieces, as through a pipe.
struct Pieces(Vec<u8>, SplitMix64);

impl Read for Pieces {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = (1 + self.1.below(100) as usize).min(self.0.len()).min(to.len());
        to[..count].copy_from_slice(&self.0[..count]);
        self.0.drain(..count);
        Ok(count)
    }
}

#[test]
fn files_in_pieces() {
    let (mut file, places) = pcap(30);
    file[places[7] + 10] = 0xff;
    let mut input = CaptureInput::new("f".into(), Box::new(Pieces(file.clone(), SplitMix64(3)))).unwrap();
    let mut frames = Vec::new();
    while let Some(packet) = input.next_packet() {
        frames.push(packet.unwrap().frame.to_vec());
    }
    let (whole, skipped) = read(&file).unwrap();
    assert_eq!(frames, whole.into_iter().map(|packet| packet.3).collect::<Vec<_>>());
    assert_eq!((frames.len(), input.skipped()), (29, skipped));
}

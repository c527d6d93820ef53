//! Recordings as files of other programs, while the cache that records them is open: every byte of these files is
//! looked at by what knows their formats from their own documents.

#[path = "../../cache/tests/support/mod.rs"]
mod support;

use media::export::{Format, Range, Written, write};
use media_cache::{Archive, Cache, Kind, Recording};
use support::{Directory, arrival, packet, payload, settings, source};

/// Packets of a test, of which some never came.
const PACKETS: u64 = 4000;

fn came(number: u64) -> bool {
    !(1000..1003).contains(&number) && number != 2500
}

/// A recording, and the cache that has it.
fn recorded(directory: &Directory, kind: Kind) -> (Cache, Archive, Recording) {
    let cache = Cache::open(&directory.0, settings()).unwrap();
    let mut recorder = cache.record(source(kind));
    for number in (0..PACKETS).filter(|own| came(*own)) {
        support::put(&cache, &mut recorder, kind, number);
    }
    recorder.finish();
    support::until("it is written", || cache.status().recordings == 0);
    let archive = Archive::open(&directory.0).unwrap();
    let id = archive.all().unwrap()[0];
    let recording = archive.recording(id).unwrap();
    (cache, archive, recording)
}

fn exported(archive: &Archive, recording: &Recording, format: Format, range: Range) -> (Vec<u8>, Written) {
    let mut bytes = Vec::new();
    let written = write(archive, recording, format, range, &mut bytes).unwrap();
    (bytes, written)
}

const ALL: Range = Range { from: 0, to: None };

/// Numbers of packets that came, from one to before another.
fn numbers(from: u64, to: u64) -> impl Iterator<Item = u64> {
    (from..to).filter(|own| came(*own))
}

#[test]
fn mpeg_ts_is_as_it_came() {
    let directory = Directory::new();
    let (_cache, archive, recording) = recorded(&directory, Kind::Mp2t);
    let (bytes, written) = exported(&archive, &recording, Format::Ts, ALL);
    let expected: Vec<u8> = numbers(0, PACKETS).flat_map(|own| payload(Kind::Mp2t, own)).collect();
    assert!(bytes == expected, "{} of {} bytes", bytes.len(), expected.len());
    assert_eq!((written.packets, written.gaps, written.missing, written.damaged), (PACKETS - 4, 2, 4, 0));
    // Packets are a millisecond apart.
    let part = Range { from: 500_000, to: Some(1_500_000) };
    let (bytes, written) = exported(&archive, &recording, Format::Ts, part);
    let expected: Vec<u8> = numbers(500, 1500).flat_map(|own| payload(Kind::Mp2t, own)).collect();
    assert!(bytes == expected, "{} of {} bytes", bytes.len(), expected.len());
    assert_eq!((written.gaps, written.missing), (1, 3));
    let none = Range { from: 60_000_000, to: None };
    assert_eq!(exported(&archive, &recording, Format::Ts, none).1, Written::default());
}

/// The one's complement sum of words.
fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|own| u64::from(own[0]) << 8 | u64::from(*own.get(1).unwrap_or(&0)));
    let mut sum: u64 = words.sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

/// What RTP must be, by the packets that were recorded: the same of a log, with another source of MPEG-TS.
fn check_rtp(rtp: &[u8], kind: Kind, number: u64, ssrc: u32) {
    let mut expected = packet(kind, number);
    if kind == Kind::Mp2t {
        expected[8..12].copy_from_slice(&ssrc.to_be_bytes());
    }
    assert!(rtp == expected, "{number}: {:02x?}, not {:02x?}", &rtp[..12], &expected[..12]);
}

#[test]
fn captures_have_valid_headers_and_the_times_of_arrival() {
    for kind in [Kind::Mp2t, Kind::Rtp] {
        let directory = Directory::new();
        let (_cache, archive, recording) = recorded(&directory, kind);
        let (bytes, written) = exported(&archive, &recording, Format::Pcap, ALL);
        assert_eq!(written.packets, PACKETS - 4);
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        let is_big = bytes[..4] == [0xa1, 0xb2, 0xc3, 0xd4];
        let read =
            |at: usize| if is_big { u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) } else { word(at) };
        // Microseconds, and LINKTYPE_RAW.
        assert_eq!((read(0), read(20)), (0xa1b2_c3d4, 101));
        let mut at = 24;
        for number in numbers(0, PACKETS) {
            let time = u64::from(read(at)) * 1_000_000 + u64::from(read(at + 4));
            assert_eq!(time, arrival(number).clock, "{kind:?}, {number}");
            let length = read(at + 8) as usize;
            assert_eq!(read(at + 12) as usize, length);
            let own = &bytes[at + 16..at + 16 + length];
            assert_eq!((own[0], own[9], sum(&own[..20])), (0x45, 17, 0xffff));
            assert_eq!(usize::from(u16::from_be_bytes([own[2], own[3]])), length);
            assert_eq!(usize::from(u16::from_be_bytes([own[24], own[25]])), length - 20);
            let pseudo = [&own[12..20], &[0, 17], &own[24..26], &own[20..]].concat();
            assert_eq!(sum(&pseudo), 0xffff, "{kind:?}, {number}: UDP's checksum");
            check_rtp(&own[28..], kind, number, recording.id as u32);
            at += 16 + length;
        }
        assert_eq!(at, bytes.len());
    }
}

#[test]
fn rtpdump_is_what_rtptools_document() {
    for kind in [Kind::Mp2t, Kind::Rtp] {
        let directory = Directory::new();
        let (_cache, archive, recording) = recorded(&directory, kind);
        let (bytes, _) = exported(&archive, &recording, Format::Rtpdump, ALL);
        let line = bytes.iter().position(|own| *own == b'\n').unwrap();
        assert!(bytes.starts_with(b"#!rtpplay1.0 "));
        let mut at = line + 1 + 16;
        for number in numbers(0, PACKETS) {
            let short = |at: usize| usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
            let offset = u32::from_be_bytes(bytes[at + 4..at + 8].try_into().unwrap());
            assert_eq!(u64::from(offset), number);
            assert_eq!(short(at), short(at + 2) + 8);
            check_rtp(&bytes[at + 8..at + short(at)], kind, number, recording.id as u32);
            at += short(at);
        }
        assert_eq!(at, bytes.len());
    }
}

#[test]
fn damage_is_a_gap_and_what_is_recorded_now_ends_with_its_last_block() {
    let directory = Directory::new();
    let cache = Cache::open(&directory.0, settings()).unwrap();
    let mut recorder = cache.record(source(Kind::Mp2t));
    for number in 0..PACKETS {
        support::put(&cache, &mut recorder, Kind::Mp2t, number);
    }
    // Blocks of 64 KiB have 49 packets.
    let archive = Archive::open(&directory.0).unwrap();
    let recording = archive.recording(archive.all().unwrap()[0]).unwrap();
    support::until("most is written", || exported(&archive, &recording, Format::Ts, ALL).1.packets > PACKETS - 200);
    let (bytes, written) = exported(&archive, &recording, Format::Ts, ALL);
    let expected: Vec<u8> = (0..written.packets).flat_map(|own| payload(Kind::Mp2t, own)).collect();
    assert!(bytes == expected);
    recorder.finish();
    support::until("it is written", || cache.status().recordings == 0);
    drop(cache);
    let segment = directory.0.join(format!("recordings/{:016x}/00000001.ts", recording.id));
    let mut damaged = std::fs::read(&segment).unwrap();
    damaged[5] ^= 1;
    std::fs::write(&segment, damaged).unwrap();
    let (bytes, written) = exported(&archive, &recording, Format::Ts, ALL);
    assert!(written.damaged > 20 && written.packets + written.damaged == PACKETS, "{written:?}");
    assert_eq!((written.gaps, bytes.len() as u64), (1, written.packets * 1316));
}

//! Streams whose every byte is known, directories that vanish, and what is read back.

#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use media_cache::{Arrival, Cache, Item, Kind, Missing, Reader, Settings, Source};

/// A directory of a test.
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new() -> Directory {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("millrace-test-{}-cache{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Small segments, and blocks that are soon full.
pub fn settings() -> Settings {
    Settings {
        block: 64 << 10,
        buffers: 32,
        // What the writer has done counts a little later than blocks are free.
        queue: 64,
        segment_bytes: 256 << 10,
        segment_seconds: 2,
        sync: media_cache::Durability::Never,
        quota: 1 << 40,
        free_space: 0,
        ..Settings::default()
    }
}

pub fn source(kind: Kind) -> Source {
    let encoding = if kind == Kind::Rtp { "H264" } else { "MP2T" };
    Source {
        key: "rtsp://origin/film".to_owned(),
        track: 0,
        kind,
        encoding: encoding.to_owned(),
        clock_rate: 90_000,
        format: "H264/90000".to_owned(),
        film: None,
        sdp: "v=0\r\n".to_owned(),
    }
}

/// Packets are a millisecond apart.
pub fn arrival(number: u64) -> Arrival {
    Arrival { monotonic: 5_000_000 + 1000 * number, clock: 1_700_000_000_000_000 + 1000 * number }
}

fn noise(number: u64) -> impl Iterator<Item = u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    })
}

/// Each so many packets a decoder can begin.
pub const ACCESS: u64 = 50;

pub fn is_access_point(number: u64) -> bool {
    number.is_multiple_of(ACCESS)
}

/// Seven packets of MPEG-TS. At access points the first begins a random-access picture; each tenth has a PCR of its
/// time.
pub fn transport(number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut noise = noise(number);
    for part in 0..7u64 {
        let begin = bytes.len();
        bytes.extend([0x47, 0x01, 0x00, 0x10 | ((number * 7 + part) & 15) as u8]);
        if part == 0 && (is_access_point(number) || number.is_multiple_of(10)) {
            bytes[begin + 1] |= if is_access_point(number) { 0x40 } else { 0 };
            bytes[begin + 3] |= 0x20;
            let base = number * 90;
            bytes.extend([7, 0x10 | if is_access_point(number) { 0x40 } else { 0 }]);
            bytes.extend(((base >> 1) as u32).to_be_bytes());
            bytes.extend([((base & 1) << 7) as u8 | 0x7e, 0]);
            if is_access_point(number) {
                bytes.extend([0, 0, 1, 0xe0]);
            }
        }
        let rest = 188 - (bytes.len() - begin);
        bytes.extend(noise.by_ref().take(rest));
    }
    bytes
}

/// The payload of a packet.
pub fn payload(kind: Kind, number: u64) -> Vec<u8> {
    if kind != Kind::Rtp {
        return transport(number);
    }
    let mut noise = noise(number);
    let length = usize::from(noise.next().unwrap()) * 5 + 1;
    let unit = if is_access_point(number) { 0x65 } else { 0x41 };
    [unit].into_iter().chain(noise.take(length)).collect()
}

/// A packet as it comes.
pub fn packet(kind: Kind, number: u64) -> Vec<u8> {
    let payload = payload(kind, number);
    if kind == Kind::Ts {
        return payload;
    }
    let mut bytes = vec![0x80, if number.is_multiple_of(3) { 0xa1 } else { 0x21 }];
    bytes.extend((number as u16).to_be_bytes());
    bytes.extend((number as u32 * 90).to_be_bytes());
    bytes.extend([1, 2, 3, 4]);
    bytes.extend(payload);
    bytes
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub sequence: u64,
    pub timestamp: u32,
    pub npt: u64,
    pub clock: u64,
    pub access_point: bool,
    pub marker: bool,
    pub estimated: bool,
    pub bytes: Vec<u8>,
}

/// What a packet is to be read as, in a recording whose first one was `first`.
pub fn expected(kind: Kind, number: u64, first: u64) -> Found {
    Found {
        sequence: number,
        timestamp: if kind == Kind::Ts { 0 } else { number as u32 * 90 },
        npt: 1000 * (number - first),
        clock: arrival(number).clock,
        access_point: is_access_point(number),
        marker: kind != Kind::Ts && number.is_multiple_of(3),
        estimated: false,
        bytes: if kind == Kind::Rtp { packet(kind, number) } else { payload(kind, number) },
    }
}

/// Reads all that there is, and what is missing in between.
pub fn read_all(reader: &mut Reader) -> (Vec<Found>, Vec<(Missing, Option<u64>)>) {
    let (mut found, mut gaps) = (Vec::new(), Vec::new());
    loop {
        match reader.next_item().unwrap() {
            Item::Packet(packet) => found.push(Found {
                sequence: packet.about.sequence,
                timestamp: packet.about.timestamp,
                npt: packet.about.npt,
                clock: packet.about.clock,
                access_point: packet.about.access_point,
                marker: packet.about.marker,
                estimated: packet.about.estimated,
                bytes: packet.bytes.to_vec(),
            }),
            Item::Gap(missing, count) => gaps.push((missing, count)),
            Item::Pending | Item::End(_) => return (found, gaps),
        }
    }
}

/// Records packets without a gap; the recording's number.
pub fn record(cache: &Cache, kind: Kind, numbers: std::ops::Range<u64>) -> u64 {
    let mut recorder = cache.record(source(kind));
    let id = recorder.recording().id;
    for number in numbers {
        put(cache, &mut recorder, kind, number);
    }
    recorder.finish();
    settle(cache);
    id
}

/// Puts a packet, slowly enough for the disk.
pub fn put(cache: &Cache, recorder: &mut media_cache::Recorder, kind: Kind, number: u64) {
    until("the disk is slow", || cache.status().free_blocks > 16);
    recorder.put(arrival(number), &packet(kind, number)).unwrap();
}

/// Waits until nothing is written.
pub fn settle(cache: &Cache) {
    until("recordings go on", || cache.status().recordings == 0);
}

pub fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// All files of segments, with this ending.
pub fn files(root: &Path, extension: &str) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for directory in fs::read_dir(root.join("recordings")).unwrap() {
        for file in fs::read_dir(directory.unwrap().path()).unwrap() {
            all.push(file.unwrap().path());
        }
    }
    all.retain(|path| path.extension().is_some_and(|own| own == extension));
    all.sort();
    all
}

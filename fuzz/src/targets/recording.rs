//! A segment of a recording and its index, as somebody else has left them: they are read, or refused; what is made of
//! them by the mending that a crash needs is as it should be, and stays so.

use std::path::PathBuf;

use media_cache::Kind;
use media_cache::format::entry::{Encoder, Entry, First};
use media_cache::format::index::{Chunk, Header, Index};
use media_cache::format::log;
use media_cache::hostile::{ID, mended, seal};

/// Pieces of both.
pub const WORDS: &[&str] = &["CHNK", "LAST", "RP", "MRINDEX\u{1}", "MRRTPLG\u{1}", "\0\0\0\0", "G"];

/// Bytes in front: what it is, and how long the index is.
const HEAD: usize = 3;

/// An input of its parts.
fn input(is_ts: bool, index: &[u8], data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(index.len()).unwrap_or(u16::MAX);
    [&[u8::from(is_ts)][..], &length.to_le_bytes(), index, data].concat()
}

/// A packet of H.264, and one of MPEG-TS.
fn packet(number: u16) -> Vec<u8> {
    let mut packet = vec![0x80, 0x60];
    packet.extend(number.to_be_bytes());
    packet.extend((u32::from(number) * 3000).to_be_bytes());
    packet.extend([1, 2, 3, 4, if number.is_multiple_of(5) { 0x65 } else { 0x41 }, number as u8]);
    packet
}

fn transport(number: u16) -> Vec<u8> {
    let mut packet = vec![0x47, 0x41, 0, 0x30, 7, 0x10, 0, 0, number as u8, 0, 0x7e, 0, 0, 0, 1, 0xe0];
    packet.resize(188, number as u8);
    packet
}

/// Whole ones, one without an index, one with an index alone, and one that was cut off.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for is_ts in [false, true] {
        let mut data = if is_ts { Vec::new() } else { log::header(ID).to_vec() };
        let mut index = Header { recording: ID, segment: 0, is_ts, expected: None }.encode().to_vec();
        for block in 0..3u16 {
            let first =
                First { sequence: u64::from(4 * block), timestamp: 0, npt: u64::from(block) << 12, clock: 1 << 50 };
            let (mut encoder, offset) = (Encoder::new(first), data.len());
            for number in 4 * block..4 * block + 4 {
                let bytes = if is_ts { transport(number) } else { packet(number) };
                let npt = u64::from(number) << 10;
                encoder.put(&Entry {
                    sequence: number.into(),
                    npt,
                    clock: (1 << 50) + npt,
                    length: bytes.len() as u32,
                    ..Entry::default()
                });
                if !is_ts {
                    data.extend(log::record(npt, 0, &bytes));
                }
                data.extend(bytes);
            }
            let own = &data[offset..];
            let chunk = Chunk {
                offset: offset as u64,
                length: own.len() as u32,
                checksum: media_cache::hostile::checksum(own),
                count: 4,
                first,
                last_sequence: u64::from(4 * block + 3),
                entries: encoder.bytes,
                ..Chunk::default()
            };
            chunk.encode(&mut index);
        }
        let open = index.clone();
        Chunk::encode_end(data.len() as u64, &mut index);
        seeds.extend([
            input(is_ts, &index, &data),
            input(is_ts, &open, &data),
            input(is_ts, &[], &data),
            input(is_ts, &index, &[]),
            input(is_ts, &open, &data[..data.len() / 2]),
        ]);
    }
    seeds
}

/// A directory of this process, in memory where that is possible: what is mended is synced.
fn directory() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let root = if memory.is_dir() { memory } else { std::env::temp_dir() };
    root.join(format!("millrace-fuzz-recording-{}", std::process::id()))
}

/// Takes what it is, how long the index is, the index, and the segment.
pub fn run(data: &[u8]) {
    let Some((head, rest)) = data.split_at_checked(HEAD) else { return };
    let (index, segment) = rest.split_at(usize::from(u16::from_le_bytes([head[1], head[2]])).min(rest.len()));
    let kind = if head[0] & 1 == 1 { Kind::Mp2t } else { Kind::Rtp };
    let mut index = index.to_vec();
    // Somebody who knows the format.
    if head[0] & 2 != 0 {
        seal(&mut index);
    }
    let read = Index::decode(&index);
    assert!(read.length <= index.len() && read.chunks.len() * 96 <= index.len());
    for chunk in &read.chunks {
        for overhead in [0, log::RECORD as u32] {
            let packets = chunk.packets(overhead);
            assert!(packets.is_none_or(|own| own.len() == chunk.count as usize));
        }
    }
    let mut log = segment;
    while let Some(record) = log::read(log) {
        assert!(record.length > record.packet.len() && record.length <= log.len());
        log = &log[record.length..];
    }
    let root = directory();
    let once = mended(&root, kind, segment, &index).expect("files can be written");
    if let Some(once) = &once {
        let index = Index::decode(&once.index);
        assert_eq!((index.end, index.length), (Some(once.data.len() as u64), once.index.len()), "it is whole");
        assert!(once.data.len() <= segment.len() && segment.starts_with(&once.data), "nothing is made up");
        let packets: u64 = index.chunks.iter().map(|own| u64::from(own.count)).sum();
        assert_eq!((packets, once.segment.bytes), (once.segment.packets, once.data.len() as u64));
        // Once more it is as it was.
        let again = mended(&root, kind, &once.data, &once.index).expect("files can be written");
        let again = again.expect("what was there is there");
        assert_eq!((&again.data, &again.index, &again.segment), (&once.data, &once.index, &once.segment));
    }
    let _ = std::fs::remove_dir_all(root);
}

//! The index of a segment: a header, and a chunk for each block that was written; the last chunk says that the segment
//! is whole.

use super::codec::Input;
use super::entry::{self, Entry, First};

/// Bytes of the header in front.
pub const HEADER: usize = 48;
/// Bytes in front of a chunk's entries.
pub const CHUNK: usize = 96;
/// With which a header begins; the last byte is the version.
const MAGIC: [u8; 8] = *b"MRINDEX\x01";
/// With which a chunk begins,
const MARK: u32 = u32::from_le_bytes(*b"CHNK");
/// and the last one.
const END: u32 = u32::from_le_bytes(*b"LAST");
/// No chunk's entries are longer.
const LONGEST: u32 = 64 << 20;

/// What a segment is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The recording.
    pub recording: u64,
    /// The number of the segment.
    pub segment: u32,
    /// Whether the segment is MPEG-TS, not a log.
    pub is_ts: bool,
    /// The sequence number that would follow the segment before; none for the first.
    pub expected: Option<u64>,
}

/// A chunk, with its entries as they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// Where its bytes begin in the segment,
    pub offset: u64,
    /// how many they are,
    pub length: u32,
    /// and their CRC-32.
    pub checksum: u32,
    /// Packets.
    pub count: u32,
    /// Packets that are missing among them, and before the first.
    pub lost: u32,
    /// At how many a decoder can begin.
    pub access_points: u32,
    /// The first packet.
    pub first: First,
    /// The sequence number of the last one.
    pub last_sequence: u64,
    /// The latest arrival since the recording's start, in microseconds.
    pub latest_npt: u64,
    /// The latest by the wall clock, in microseconds.
    pub latest_clock: u64,
    /// The entries.
    pub entries: Vec<u8>,
}

/// What was found in an index.
#[derive(Clone, Debug, Default)]
pub struct Index {
    /// Its header, if it is whole.
    pub header: Option<Header>,
    /// Its chunks, up to the first that is not whole.
    pub chunks: Vec<Chunk>,
    /// Whether it says that the segment is whole, and how long it is then.
    pub end: Option<u64>,
    /// How many bytes were understood.
    pub length: usize,
}

impl Header {
    /// As it is written.
    pub fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.recording.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.segment.to_le_bytes());
        bytes[20] = u8::from(self.is_ts);
        bytes[21] = u8::from(self.expected.is_some());
        bytes[24..32].copy_from_slice(&self.expected.unwrap_or_default().to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..HEADER - 4]);
        bytes[HEADER - 4..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Header> {
        let (own, checksum) = bytes.first_chunk::<HEADER>()?.split_at(HEADER - 4);
        if own[..8] != MAGIC || Input(checksum).word()? != crc32fast::hash(own) {
            return None;
        }
        let mut input = Input(&own[8..]);
        let (recording, segment) = (input.long()?, input.word()?);
        let (is_ts, follows) = (input.byte()? != 0, input.byte()? != 0);
        let _reserved = input.half()?;
        let expected = input.long()?;
        Some(Header { recording, segment, is_ts, expected: follows.then_some(expected) })
    }
}

impl Chunk {
    fn write(&self, mark: u32, bytes: &mut Vec<u8>) {
        let begin = bytes.len();
        bytes.extend(mark.to_le_bytes());
        bytes.extend((self.entries.len() as u32).to_le_bytes());
        bytes.extend([0; 4]);
        let halves = [self.length, self.checksum, self.count, self.lost, self.access_points, self.first.timestamp];
        halves.iter().for_each(|own| bytes.extend(own.to_le_bytes()));
        bytes.extend([0; 4]);
        let longs = [
            self.offset,
            self.first.sequence,
            self.last_sequence,
            self.first.npt,
            self.latest_npt,
            self.first.clock,
            self.latest_clock,
        ];
        longs.iter().for_each(|own| bytes.extend(own.to_le_bytes()));
        debug_assert_eq!(bytes.len() - begin, CHUNK);
        bytes.extend(&self.entries);
        let checksum = crc32fast::hash(&bytes[begin + 12..]);
        bytes[begin + 8..begin + 12].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Appends it as it is written.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        self.write(MARK, bytes);
    }

    /// Appends the mark that a segment is whole.
    pub fn encode_end(length: u64, bytes: &mut Vec<u8>) {
        Chunk { offset: length, ..Chunk::default() }.write(END, bytes);
    }

    /// The chunk that begins here, whether it is the last, and what is behind it.
    fn decode(bytes: &[u8]) -> Option<(Chunk, bool, &[u8])> {
        let mut input = Input(bytes);
        let (mark, own, checksum) = (input.word()?, input.word()?, input.word()?);
        if !matches!(mark, MARK | END) || own > LONGEST {
            return None;
        }
        let (whole, rest) = bytes.split_at_checked(CHUNK + own as usize)?;
        if crc32fast::hash(&whole[12..]) != checksum {
            return None;
        }
        let (length, data, count) = (input.word()?, input.word()?, input.word()?);
        let (lost, access_points, timestamp) = (input.word()?, input.word()?, input.word()?);
        let _reserved = input.word()?;
        let (offset, sequence, last_sequence) = (input.long()?, input.long()?, input.long()?);
        let (npt, latest_npt) = (input.long()?, input.long()?);
        let (clock, latest_clock) = (input.long()?, input.long()?);
        let chunk = Chunk {
            offset,
            length,
            checksum: data,
            count,
            lost,
            access_points,
            first: First { sequence, timestamp, npt, clock },
            last_sequence,
            latest_npt,
            latest_clock,
            entries: input.0.get(..own as usize)?.to_vec(),
        };
        Some((chunk, mark == END, rest))
    }

    /// Its packets; none where they do not add up to its bytes.
    pub fn packets(&self, overhead: u32) -> Option<Vec<Entry>> {
        let entries = entry::decode(self.first, self.count, &self.entries)?;
        let length: u64 = entries.iter().map(|own| u64::from(own.length) + u64::from(overhead)).sum();
        (length == u64::from(self.length)).then_some(entries)
    }
}

impl Index {
    /// Reads as much as is whole. Chunks follow each other in the segment, or are not believed.
    pub fn decode(bytes: &[u8]) -> Index {
        let mut index = Index::default();
        let Some(header) = Header::decode(bytes) else { return index };
        index.header = Some(header);
        index.length = HEADER;
        let mut rest = &bytes[HEADER..];
        while let Some((chunk, is_end, behind)) = Chunk::decode(rest) {
            let begin = index.chunks.last().map(|own| own.offset.saturating_add(own.length.into()));
            if begin.is_some_and(|begin| begin != chunk.offset) {
                break;
            }
            index.length += rest.len() - behind.len();
            rest = behind;
            if is_end {
                index.end = Some(chunk.offset);
                break;
            }
            index.chunks.push(chunk);
        }
        index
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::entry::Encoder;
    use super::*;

    fn packet() -> impl Strategy<Value = Entry> {
        let numbers = (any::<u64>(), any::<u32>(), any::<u64>(), any::<u64>(), 0u32..70_000);
        let flags = (any::<[bool; 4]>(), any::<Option<u64>>());
        (numbers, flags).prop_map(|((sequence, timestamp, npt, clock, length), (flags, pcr))| Entry {
            sequence,
            timestamp,
            npt,
            clock,
            length,
            access_point: flags[0],
            marker: flags[1],
            restart: flags[2],
            estimated: flags[3],
            pcr,
        })
    }

    /// A chunk of packets, and these as they will be read: the wall clock is exact to a millisecond.
    fn chunk(packets: &[Entry], offset: u64) -> (Chunk, Vec<Entry>) {
        let own = packets[0];
        let first = First { sequence: own.sequence, timestamp: own.timestamp, npt: own.npt, clock: own.clock };
        let mut encoder = Encoder::new(first);
        let kept = packets.iter().map(|own| Entry { clock: encoder.put(own), ..*own }).collect();
        let length = packets.iter().map(|own| own.length).sum();
        let count = packets.len() as u32;
        (Chunk { offset, length, count, first, entries: encoder.bytes, ..Chunk::default() }, kept)
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(all in prop::collection::vec(prop::collection::vec(packet(), 1..20), 0..5)) {
            let header = Header { recording: 7, segment: 3, is_ts: true, expected: Some(9) };
            let (mut bytes, mut offset, mut expected) = (header.encode().to_vec(), 0, Vec::new());
            for packets in &all {
                let (own, kept) = chunk(packets, offset);
                offset += u64::from(own.length);
                own.encode(&mut bytes);
                for (before, after) in packets.iter().zip(&kept) {
                    prop_assert!(before.clock.abs_diff(after.clock) < 1000);
                }
                expected.push((own, kept));
            }
            let whole = bytes.len();
            Chunk::encode_end(offset, &mut bytes);
            let index = Index::decode(&bytes);
            prop_assert_eq!(index.header, Some(header));
            prop_assert_eq!((index.end, index.length), (Some(offset), bytes.len()));
            prop_assert_eq!(index.chunks.len(), expected.len());
            for (found, (own, kept)) in index.chunks.iter().zip(&expected) {
                prop_assert_eq!(found, own);
                prop_assert_eq!(found.packets(0), Some(kept.clone()));
            }
            // Cut anywhere, it has what is whole before that.
            for cut in (0..whole).step_by(7) {
                let index = Index::decode(&bytes[..cut]);
                prop_assert!(index.length <= cut && index.end.is_none());
                prop_assert_eq!(&index.chunks[..], &Index::decode(&bytes).chunks[..index.chunks.len()]);
            }
        }

        /// Somebody else's index, with the right checksums.
        #[test]
        fn anything_can_be_read(packets in prop::collection::vec(packet(), 1..20), flips in
                                prop::collection::vec((any::<usize>(), any::<u8>()), 1..20), cut in any::<usize>()) {
            let mut bytes = Header { recording: 7, segment: 3, is_ts: true, expected: None }.encode().to_vec();
            chunk(&packets, 0).0.encode(&mut bytes);
            for (at, byte) in flips {
                let at = HEADER + 12 + at % (bytes.len() - HEADER - 12);
                bytes[at] = byte;
            }
            let checksum = crc32fast::hash(&bytes[HEADER + 12..]);
            bytes[HEADER + 8..HEADER + 12].copy_from_slice(&checksum.to_le_bytes());
            let index = Index::decode(&bytes);
            prop_assert_eq!(index.chunks.len(), 1);
            let own = index.chunks[0].packets(20);
            prop_assert!(own.is_none_or(|own| own.len() == index.chunks[0].count as usize));
            let _ = Index::decode(&bytes[cut % bytes.len()..]);
        }

        #[test]
        fn a_flipped_bit_is_found(packets in prop::collection::vec(packet(), 1..20), at in any::<usize>()) {
            let mut bytes = Header { recording: 7, segment: 3, is_ts: true, expected: None }.encode().to_vec();
            chunk(&packets, 0).0.encode(&mut bytes);
            let at = at % (bytes.len() * 8);
            bytes[at / 8] ^= 1 << (at % 8);
            prop_assert!(Index::decode(&bytes).chunks.is_empty());
        }
    }
}

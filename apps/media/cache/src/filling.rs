//! Packets into blocks, with an entry of the index for each, and blocks to the writer.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::blocks::{ALIGNMENT, Block};
use crate::core::Core;
use crate::format::entry::{Encoder, Entry, First};
use crate::format::index::{Chunk, Header};
use crate::format::log;
use crate::info::{End, Kind, Recording};
use crate::live::Live;
use crate::settings::Settings;
use crate::writer::{Queue, Work};

/// The segment and the block that packets go to.
#[derive(Debug)]
pub struct Blocks {
    settings: Arc<Settings>,
    recording: Arc<Recording>,
    queue: Queue,
    live: Arc<Live>,
    /// The sequence number that is due.
    due: Option<u64>,
    segment: Segment,
    block: Option<Filling>,
    /// What the last block had behind the last multiple of the alignment.
    tail: Option<Vec<u8>>,
    /// Packets that went into blocks,
    pub recorded: u64,
    /// that are missing among them,
    pub lost: u64,
    /// and for which a block has no room.
    pub too_long: u64,
}

/// The segment that packets go to.
#[derive(Clone, Copy, Debug, Default)]
struct Segment {
    number: u32,
    length: u64,
    /// Arrival of its first packet.
    began: Option<u64>,
    /// What the index's header is to say.
    expected: Option<u64>,
}

/// A block that is filled.
#[derive(Debug)]
struct Filling {
    block: Block,
    /// Where it begins in the segment; the bytes up to where the chunk begins are written already.
    offset: u64,
    used: usize,
    encoder: Encoder,
    chunk: Chunk,
    checksum: crc32fast::Hasher,
}

impl Blocks {
    /// Those of a recording that has nothing yet.
    pub fn new(core: &Core, recording: &Arc<Recording>, live: &Arc<Live>) -> Blocks {
        Blocks {
            settings: core.inner.settings.clone(),
            recording: recording.clone(),
            queue: core.queue.clone(),
            live: live.clone(),
            due: None,
            segment: Segment::default(),
            block: None,
            tail: None,
            recorded: 0,
            lost: 0,
            too_long: 0,
        }
    }

    /// Nothing more comes.
    pub fn end(&self) {
        self.queue.end(&self.live);
    }

    /// When the first packet of the block that is filled came, since the recording's start.
    pub fn first(&self) -> Option<u64> {
        self.block.as_ref().map(|own| own.chunk.first.npt)
    }

    /// Whether the segment is as long with a packet as so many quarters of what it is to be.
    pub fn is_as_long(&self, entry: &Entry, quarters: u64) -> bool {
        let length = self.segment.began.map_or(0, |began| entry.npt.saturating_sub(began));
        length >= quarters * self.settings.segment_seconds * 250_000
            || self.segment.length + u64::from(entry.length) > quarters * self.settings.segment_bytes / 4
    }

    /// A packet goes to the segment.
    pub fn append(&mut self, entry: &Entry, bytes: &[u8]) {
        let is_log = self.recording.source.kind == Kind::Rtp;
        let overhead = if is_log { log::RECORD } else { 0 };
        let needed = overhead + bytes.len();
        if needed > self.settings.block - ALIGNMENT - log::HEADER {
            self.too_long += 1;
            return;
        }
        if self.block.as_ref().is_some_and(|own| own.used + needed > self.settings.block) {
            self.write(false);
        }
        if self.block.is_none() && !self.begin_block(entry) {
            return;
        }
        let expected = self.due.filter(|_| !entry.restart).unwrap_or(entry.sequence);
        let lost = u32::try_from(entry.sequence.saturating_sub(expected)).unwrap_or(u32::MAX);
        let Some(own) = &mut self.block else { return };
        if is_log {
            own.append(&log::record(entry.npt, (entry.sequence >> 16) as u16, bytes));
        }
        own.append(bytes);
        let clock = own.encoder.put(entry);
        own.chunk.count += 1;
        own.chunk.lost += lost;
        own.chunk.access_points += u32::from(entry.access_point);
        own.chunk.last_sequence = entry.sequence;
        own.chunk.latest_npt = own.chunk.latest_npt.max(entry.npt);
        own.chunk.latest_clock = own.chunk.latest_clock.max(clock);
        self.segment.length += needed as u64;
        self.segment.began.get_or_insert(entry.npt);
        self.due = Some(entry.sequence + 1);
        self.recorded += 1;
        self.lost += u64::from(lost);
    }

    /// Takes a block for packets from this one on, where the recording goes on.
    fn begin_block(&mut self, entry: &Entry) -> bool {
        if self.live.ended().is_some() {
            return false;
        }
        if self.segment.length == 0 {
            self.segment.expected = self.due;
        }
        let is_behind = self.live.under_way.load(Ordering::Acquire) >= self.settings.queue;
        let Some(block) = self.queue.pool.take().filter(|_| !is_behind) else {
            let is_slow = is_behind || self.queue.pool.is_behind();
            self.live.stop(if is_slow { End::DiskSlow } else { End::NoMemory });
            return false;
        };
        let first = First { sequence: entry.sequence, timestamp: entry.timestamp, npt: entry.npt, clock: entry.clock };
        let length = self.segment.length;
        let mut own = Filling {
            block,
            offset: length,
            used: 0,
            encoder: Encoder::new(first),
            chunk: Chunk { offset: length, first, ..Chunk::default() },
            checksum: crc32fast::Hasher::new(),
        };
        if length == 0 && self.recording.source.kind == Kind::Rtp {
            own.block.bytes_mut()[..log::HEADER].copy_from_slice(&log::header(self.recording.id));
            own.used = log::HEADER;
            own.chunk.offset = log::HEADER as u64;
            self.segment.length = log::HEADER as u64;
        }
        // Direct writes begin at a multiple of the alignment: the bytes before are written once more.
        if let Some(tail) = self.tail.take().filter(|_| length != 0) {
            own.block.bytes_mut()[..tail.len()].copy_from_slice(&tail);
            own.used = tail.len();
            own.offset = length - tail.len() as u64;
        }
        self.block = Some(own);
        true
    }

    /// The segment ends before the next packet.
    pub fn end_segment(&mut self) {
        if self.segment.length == 0 {
            return;
        }
        self.write(true);
        self.tail = None;
        self.segment = Segment { number: self.segment.number + 1, ..Segment::default() };
    }

    /// Hands the block to the writer.
    pub fn write(&mut self, is_last: bool) {
        let block = self.block.take();
        // The writer may have failed since the packet was taken: the block goes back.
        if self.live.ended().is_some() {
            return;
        }
        let Some(mut own) = block else {
            if is_last {
                self.queue.put(&self.live, Work::close(self.segment.number, self.segment.length));
            }
            return;
        };
        own.chunk.length = (self.segment.length - own.chunk.offset) as u32;
        own.chunk.checksum = own.checksum.finalize();
        own.chunk.entries = own.encoder.bytes;
        let keep = (self.segment.length % ALIGNMENT as u64) as usize;
        self.tail = (!is_last).then(|| own.block.bytes()[own.used - keep..own.used].to_vec());
        // Up to the alignment, zeros; the next block, or the end of the segment, takes them away.
        let padded = own.used.next_multiple_of(ALIGNMENT);
        own.block.bytes_mut()[own.used..padded].fill(0);
        own.block.fill();
        let header = Header {
            recording: self.recording.id,
            segment: self.segment.number,
            is_ts: self.recording.source.kind.is_ts(),
            expected: self.segment.expected,
        };
        self.queue.put(
            &self.live,
            Work {
                segment: self.segment.number,
                header,
                block: Some((own.block, own.offset, padded)),
                chunk: own.chunk,
                end: is_last.then_some(self.segment.length),
            },
        );
    }
}

impl Filling {
    fn append(&mut self, bytes: &[u8]) {
        self.block.bytes_mut()[self.used..self.used + bytes.len()].copy_from_slice(bytes);
        self.checksum.update(bytes);
        self.used += bytes.len();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::Cache;
    use crate::catalogue::tests::recording;

    /// A disk that fails while packets are put into a block is noticed when the block is full: it goes back, and the
    /// packets behind it go nowhere.
    #[test]
    fn a_recording_ends_within_a_block() {
        let root = std::env::temp_dir().join(format!("millrace-filling-{}", std::process::id()));
        let cache = Cache::open(&root, Settings { block: 64 << 10, ..Settings::default() }).unwrap();
        let live = Arc::new(Live::new(1));
        let mut blocks = Blocks::new(&cache.core, &Arc::new(recording(1)), &live);
        let free = cache.status().free_blocks;
        let packet = [0; 200];
        let put = |blocks: &mut Blocks, sequence| {
            blocks.append(&Entry { sequence, length: 200, ..Entry::default() }, &packet);
        };
        put(&mut blocks, 0);
        assert_eq!(cache.status().free_blocks, free - 1);
        live.stop(End::DiskFailed);
        for sequence in 1..1000 {
            put(&mut blocks, sequence);
        }
        assert_eq!(cache.status().free_blocks, free);
        assert!(blocks.recorded < 400, "{}", blocks.recorded);
        drop(cache);
        fs::remove_dir_all(&root).unwrap();
    }
}

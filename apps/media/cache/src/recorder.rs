//! The caller's side of a recording: packets in order, into blocks, to the writer. It never waits for the disk.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use wire::picture::{Coding, Reader};
use wire::rtp;

use crate::blocks::{ALIGNMENT, Block};
use crate::core::Core;
use crate::format::entry::{Encoder, Entry, First};
use crate::format::index::{Chunk, Header};
use crate::format::{log, ts};
use crate::info::{End, Kind, Recording};
use crate::live::Live;
use crate::reorder::{Arrival, Dropped, Place, Window};
use crate::settings::Settings;
use crate::writer::{Queue, Work};

/// So many packets at most lie between the tables of MPEG-TS and the access point that they belong to.
const TABLES_AHEAD: usize = 64;

/// A recording ended; nothing more is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the recording has ended: {}", .0.name())]
pub struct Ended(pub End);

/// Counts of a recorder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that went into blocks.
    pub recorded: u64,
    /// Packets that never came.
    pub lost: u64,
    /// Packets that were left out, in the order of [`Dropped::ALL`].
    pub dropped: [u64; 6],
}

/// Records a stream.
#[derive(Debug)]
pub struct Recorder {
    window: Window,
    blocks: Blocks,
    /// For datagrams without RTP.
    next: u16,
    counts: Counts,
    /// The threads live as long as somebody records.
    _core: Arc<Core>,
}

/// What comes behind the window.
#[derive(Debug)]
struct Blocks {
    settings: Arc<Settings>,
    recording: Arc<Recording>,
    queue: Queue,
    live: Arc<Live>,
    pictures: Option<Reader>,
    /// The first packet's arrival.
    began: Option<Arrival>,
    /// The sequence number that is due.
    due: Option<u64>,
    segment: Segment,
    block: Option<Filling>,
    /// What the last block had behind the last multiple of the alignment.
    tail: Option<Vec<u8>>,
    /// Tables of MPEG-TS, and what came behind them, when a segment is to end: they go into the next one.
    held: Vec<(Entry, Vec<u8>)>,
    recorded: u64,
    lost: u64,
    too_long: u64,
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

impl Recorder {
    pub(crate) fn new(core: &Arc<Core>, recording: &Arc<Recording>, live: &Arc<Live>) -> Recorder {
        let settings = &core.inner.settings;
        let coding = match recording.source.kind {
            Kind::Rtp => Coding::named(&recording.source.encoding),
            Kind::Mp2t | Kind::Ts => Some(Coding::TransportStream),
        };
        let blocks = Blocks {
            settings: settings.clone(),
            recording: recording.clone(),
            queue: core.queue.clone(),
            live: live.clone(),
            pictures: coding.map(Reader::new),
            began: None,
            due: None,
            segment: Segment::default(),
            block: None,
            tail: None,
            held: Vec::new(),
            recorded: 0,
            lost: 0,
            too_long: 0,
        };
        let window = Window::new(settings.window, settings.window_ms * 1000);
        Recorder { window, blocks, next: 0, counts: Counts::default(), _core: core.clone() }
    }

    /// The recording.
    pub fn recording(&self) -> &Recording {
        &self.blocks.recording
    }

    /// What it has recorded, and left out.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts { recorded: self.blocks.recorded, lost: self.blocks.lost, ..self.counts };
        counts.dropped[Dropped::Stray as usize] += self.window.strays;
        counts.dropped[Dropped::TooLong as usize] += self.blocks.too_long;
        counts
    }

    /// Records an RTP packet, or a datagram of MPEG-TS. Packets that are left out are counted.
    ///
    /// # Errors
    ///
    /// The recording has ended, for this reason.
    pub fn put(&mut self, arrival: Arrival, packet: &[u8]) -> Result<(), Ended> {
        self.going()?;
        if let Err(dropped) = self.sort(arrival, packet) {
            self.counts.dropped[dropped as usize] += 1;
        }
        self.blocks.linger(arrival.monotonic);
        self.going()
    }

    fn going(&self) -> Result<(), Ended> {
        self.blocks.live.ended().map_or(Ok(()), |end| Err(Ended(end)))
    }

    fn sort(&mut self, arrival: Arrival, packet: &[u8]) -> Result<(), Dropped> {
        let kind = self.blocks.recording.source.kind;
        let blocks = &mut self.blocks;
        let mut next = |place: Place, packet: &[u8]| blocks.put(place, packet);
        if kind == Kind::Ts {
            if !ts::is_ts(packet) {
                return Err(Dropped::NotTs);
            }
            let number = self.next;
            self.next = number.wrapping_add(1);
            return self.window.put(number, 0, arrival, packet, &mut next);
        }
        let header = rtp::Header::read(packet).ok_or(Dropped::NotRtp)?;
        let payload = rtp::payload(packet).ok_or(Dropped::NotRtp)?;
        if kind == Kind::Mp2t && !ts::is_ts(payload) {
            return Err(Dropped::NotTs);
        }
        if packet.len() > usize::from(u16::MAX) {
            return Err(Dropped::TooLong);
        }
        self.window.put(header.sequence, header.ssrc, arrival, packet, &mut next)
    }

    /// What time does: nobody waits longer than the settings say. To be called when no packet has come for a while.
    ///
    /// # Errors
    ///
    /// The recording has ended, for this reason.
    pub fn poll(&mut self, now: u64) -> Result<(), Ended> {
        self.going()?;
        let blocks = &mut self.blocks;
        self.window.expire(now, &mut |place, packet| blocks.put(place, packet));
        self.blocks.linger(now);
        self.going()
    }

    /// Hands all that is in order to the writer, so that readers see it soon.
    ///
    /// # Errors
    ///
    /// The recording has ended, for this reason.
    pub fn flush(&mut self) -> Result<(), Ended> {
        self.going()?;
        self.blocks.release();
        self.blocks.write(false);
        self.going()
    }

    /// Ends the recording. Dropping it does the same.
    pub fn finish(self) {}
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let blocks = &mut self.blocks;
        if blocks.live.ended().is_none() {
            self.window.flush(&mut |place, packet| blocks.put(place, packet));
            blocks.release();
            blocks.end_segment();
        }
        blocks.live.stop(End::Finished);
        blocks.queue.end(&blocks.live);
    }
}

impl Blocks {
    /// A packet, in order.
    fn put(&mut self, place: Place, packet: &[u8]) {
        if self.live.ended().is_some() {
            return;
        }
        let began = *self.began.get_or_insert(place.arrival);
        let kind = self.recording.source.kind;
        let (timestamp, marker, bytes) = match kind {
            Kind::Ts => (0, false, packet),
            _ => {
                let timestamp = rtp::Header::read(packet).map_or(0, |header| header.timestamp);
                let payload = rtp::payload(packet).unwrap_or_default();
                (timestamp, rtp::is_marked(packet), if kind == Kind::Mp2t { payload } else { packet })
            }
        };
        let pictures = self.pictures.as_mut();
        let contents = pictures.map(|own| match kind {
            Kind::Rtp => own.read(packet),
            _ => own.read_payload(timestamp, bytes),
        });
        let contents = contents.unwrap_or_default();
        let entry = Entry {
            sequence: place.sequence,
            timestamp,
            npt: place.arrival.monotonic.saturating_sub(began.monotonic),
            clock: place.arrival.clock,
            length: bytes.len() as u32,
            access_point: contents.access_point,
            marker,
            restart: place.restart,
            estimated: false,
            pcr: kind.is_ts().then(|| ts::pcr(bytes)).flatten(),
        };
        if self.is_due(&entry) {
            if entry.access_point || self.is_overdue(&entry) {
                self.end_segment();
                self.release();
            } else if contents.tables {
                self.release();
                self.held.push((entry, bytes.to_vec()));
                return;
            }
        }
        if self.held.is_empty() {
            self.append(&entry, bytes);
        } else {
            self.held.push((entry, bytes.to_vec()));
            if self.held.len() > TABLES_AHEAD {
                self.release();
            }
        }
    }

    /// Whether the segment is to end at the next access point,
    fn is_due(&self, entry: &Entry) -> bool {
        self.is_as_long(entry, 1)
    }

    /// or anywhere.
    fn is_overdue(&self, entry: &Entry) -> bool {
        self.is_as_long(entry, if self.pictures.is_some() { 2 } else { 1 })
    }

    fn is_as_long(&self, entry: &Entry, times: u64) -> bool {
        let length = self.segment.began.map_or(0, |began| entry.npt.saturating_sub(began));
        length >= times * self.settings.segment_seconds * 1_000_000
            || self.segment.length + u64::from(entry.length) > times * self.settings.segment_bytes
    }

    /// What was held goes to the segment.
    fn release(&mut self) {
        for (entry, bytes) in std::mem::take(&mut self.held) {
            self.append(&entry, &bytes);
        }
    }

    fn append(&mut self, entry: &Entry, bytes: &[u8]) {
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

    /// Takes a block for packets from this one on.
    fn begin_block(&mut self, entry: &Entry) -> bool {
        if self.segment.length == 0 {
            self.segment.expected = self.due;
        }
        let is_behind = self.live.under_way.load(Ordering::Acquire) >= self.settings.queue;
        let Some(block) = self.queue.pool.take().filter(|_| !is_behind) else {
            self.live.stop(End::DiskSlow);
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

    /// A block that is too old is written.
    fn linger(&mut self, now: u64) {
        let (began, longest) = (self.began.unwrap_or_default().monotonic, self.settings.linger_ms * 1000);
        let is_old = |npt: u64| now.saturating_sub(began) >= npt.saturating_add(longest);
        if self.held.first().is_some_and(|(entry, _)| is_old(entry.npt)) {
            self.release();
        }
        if self.block.as_ref().is_some_and(|own| is_old(own.chunk.first.npt)) {
            self.write(false);
        }
    }

    /// The segment ends before the next packet.
    fn end_segment(&mut self) {
        if self.segment.length == 0 {
            return;
        }
        self.write(true);
        self.tail = None;
        self.segment = Segment { number: self.segment.number + 1, ..Segment::default() };
    }

    /// Hands the block to the writer.
    fn write(&mut self, is_last: bool) {
        if self.live.ended().is_some() {
            return;
        }
        let Some(mut own) = self.block.take() else {
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

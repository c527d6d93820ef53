//! What is known of a recorded packet, and how a chunk of the index has it: as differences to the packet before.

use super::codec::{Input, put_following, put_variable};

/// A decoder can begin here.
const ACCESS_POINT: u8 = 1;
/// The packet had RTP's marker.
const MARKER: u8 = 2;
/// The sender has begun anew: what is missing before it is not known.
const RESTART: u8 = 4;
/// A clock reference is in it.
const PCR: u8 = 8;
/// The wall clock was set since the packet before.
const CLOCK: u8 = 16;
/// Times and numbers are estimates: the index was lost.
const ESTIMATED: u8 = 32;

/// A packet of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Its sequence number, which does not wrap around; the lower 16 bits are RTP's.
    pub sequence: u64,
    /// Its RTP timestamp.
    pub timestamp: u32,
    /// When it came, in microseconds since the recording's start, by a clock that is never set.
    pub npt: u64,
    /// When it came, in microseconds since 1970, by the wall clock as it was then (exact to a millisecond).
    pub clock: u64,
    /// Bytes: of the payload in a segment of MPEG-TS, of the whole packet in a log.
    pub length: u32,
    /// A decoder can begin here.
    pub access_point: bool,
    /// RTP's marker.
    pub marker: bool,
    /// The sender has begun anew: what is missing before it is not known.
    pub restart: bool,
    /// Times and numbers are estimates, because the index was lost.
    pub estimated: bool,
    /// The first program clock reference in it, in units of 27 MHz.
    pub pcr: Option<u64>,
}

/// What the next entry is a difference to.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    entry: Entry,
    pcr: u64,
}

impl Before {
    /// The numbers that a chunk's header says of its first packet.
    fn new(first: First) -> Before {
        let entry = Entry {
            sequence: first.sequence.wrapping_sub(1),
            timestamp: first.timestamp,
            npt: first.npt,
            clock: first.clock,
            ..Entry::default()
        };
        Before { entry, pcr: 0 }
    }

    /// The wall clock of a packet, if it was not set meanwhile.
    fn clock(&self, npt: u64) -> u64 {
        self.entry.clock.wrapping_add(npt.wrapping_sub(self.entry.npt))
    }
}

/// The first packet of a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct First {
    /// Its sequence number.
    pub sequence: u64,
    /// Its timestamp.
    pub timestamp: u32,
    /// Its arrival since the start, in microseconds.
    pub npt: u64,
    /// Its arrival by the wall clock, in microseconds.
    pub clock: u64,
}

/// Appends entries.
#[derive(Clone, Debug, Default)]
pub struct Encoder {
    before: Before,
    /// The entries.
    pub bytes: Vec<u8>,
}

impl Encoder {
    /// For entries that begin with this one.
    pub fn new(first: First) -> Encoder {
        Encoder { before: Before::new(first), bytes: Vec::new() }
    }

    /// Appends one; its wall clock as it will be read.
    pub fn put(&mut self, entry: &Entry) -> u64 {
        let due = self.before.clock(entry.npt);
        let was_set = due.abs_diff(entry.clock) >= 1000;
        let flags = [
            (entry.access_point, ACCESS_POINT),
            (entry.marker, MARKER),
            (entry.restart, RESTART),
            (entry.pcr.is_some(), PCR),
            (was_set, CLOCK),
            (entry.estimated, ESTIMATED),
        ];
        self.bytes.push(flags.iter().map(|(is, flag)| if *is { *flag } else { 0 }).sum());
        put_variable(&mut self.bytes, entry.length.into());
        put_following(&mut self.bytes, self.before.entry.sequence.wrapping_add(1), entry.sequence);
        let timestamp = entry.timestamp.wrapping_sub(self.before.entry.timestamp) as i32;
        put_following(&mut self.bytes, 0, i64::from(timestamp) as u64);
        put_following(&mut self.bytes, self.before.entry.npt, entry.npt);
        if was_set {
            put_following(&mut self.bytes, due, entry.clock);
        }
        if let Some(pcr) = entry.pcr {
            put_following(&mut self.bytes, self.before.pcr, pcr);
            self.before.pcr = pcr;
        }
        self.before.entry = Entry { clock: if was_set { entry.clock } else { due }, ..*entry };
        self.before.entry.clock
    }
}

/// Reads so many entries; none where they are not all there, or something is behind them.
pub fn decode(first: First, count: u32, bytes: &[u8]) -> Option<Vec<Entry>> {
    // The shortest entry has five bytes.
    let mut entries = Vec::with_capacity((count as usize).min(bytes.len() / 5 + 1));
    let (mut before, mut input) = (Before::new(first), Input(bytes));
    for _ in 0..count {
        let flags = input.byte()?;
        let has = |flag: u8| flags & flag != 0;
        let length = u32::try_from(input.variable()?).ok()?;
        let sequence = input.follows(before.entry.sequence.wrapping_add(1))?;
        let timestamp = before.entry.timestamp.wrapping_add(input.follows(0)? as u32);
        let npt = input.follows(before.entry.npt)?;
        let due = before.clock(npt);
        let clock = if has(CLOCK) { input.follows(due)? } else { due };
        if has(PCR) {
            before.pcr = input.follows(before.pcr)?;
        }
        before.entry = Entry {
            sequence,
            timestamp,
            npt,
            clock,
            length,
            access_point: has(ACCESS_POINT),
            marker: has(MARKER),
            restart: has(RESTART),
            estimated: has(ESTIMATED),
            pcr: has(PCR).then_some(before.pcr),
        };
        entries.push(before.entry);
    }
    input.0.is_empty().then_some(entries)
}

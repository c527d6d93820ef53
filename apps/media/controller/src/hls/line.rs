//! The segments of a stream, whatever recordings they are of, in the order and with the numbers that playlists give
//! them. Numbers are kept while the process lives, so all playlists of a stream agree, and none goes back.

use std::collections::BTreeSet;
use std::collections::VecDeque;

use media_cache::{Cache, Error, LONGEST, Segment, Summary};

use crate::cache::timeline::{MOST_TRACKS, of_track};

/// Nothing for so long is a gap, in microseconds.
const GAP: u64 = 2_000_000;
/// Numbers of interruptions begin below this.
const MOST_FIRST: u64 = 1 << 16;
/// Segments that are gone are remembered, so many at most.
const MOST_GONE: usize = 4096;

/// A segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Its media sequence number.
    pub sequence: u64,
    /// How many times the stream was interrupted before it,
    pub discontinuity: u64,
    /// the last time just before it.
    pub begins: bool,
    /// The recording,
    pub id: u64,
    /// and its number in that.
    pub number: u32,
    /// How long it is,
    pub duration: u64,
    /// and when it began by the wall clock, both in microseconds.
    pub clock: u64,
    /// It was removed.
    pub is_gone: bool,
}

/// Why there is no line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The stream is recorded as packets of this coding.
    Coding(String),
    /// The catalogue can't be read.
    Cache(String),
}

impl From<Error> for Wrong {
    fn from(error: Error) -> Wrong {
        Wrong::Cache(error.to_string())
    }
}

/// See the module.
#[derive(Debug)]
pub struct Line {
    /// In order.
    pub entries: VecDeque<Entry>,
    /// As long as one may be, in seconds, which does not change (RFC 8216 section 6.2.1).
    pub target: u64,
    /// Something is recorded now.
    pub grows: bool,
    track: Option<u16>,
    sequence: u64,
    discontinuity: u64,
    /// The recording that the last entry is of, where it ended.
    end: Option<(u64, u32, u64)>,
    /// First segments of recordings that are left out, as nothing can be decoded in them: recording and number.
    left_out: BTreeSet<(u64, u32)>,
}

impl Line {
    /// One that has nothing yet, of segments of about so many seconds. Numbers begin at the time, in seconds since
    /// 1970, so they are beyond those that an earlier process has given. Those of interruptions begin at the minute,
    /// and anew each 45 days: players have a loop over all that there were (hls.js 1.7), and 10^9 of them stop it.
    pub fn new(now: u64, segment: u64) -> Line {
        Line {
            entries: VecDeque::new(),
            target: (segment * LONGEST).div_ceil(4),
            grows: false,
            track: None,
            sequence: now,
            discontinuity: now / 60 % MOST_FIRST,
            end: None,
            left_out: BTreeSet::new(),
        }
    }

    /// Takes what was recorded, and removed, meanwhile.
    ///
    /// # Errors
    /// There is nothing that can be served.
    pub fn refresh(&mut self, cache: &Cache, name: &str) -> Result<(), Wrong> {
        let all = match self.track {
            Some(track) => of_track(cache, name, track, 0)?,
            None => self.choose(cache, name)?,
        };
        let all: Vec<Summary> = all.into_iter().filter(|own| own.recording.source.kind.is_ts()).collect();
        self.remove(cache, &all)?;
        let first = self.entries.back().map_or(0, |own| own.id);
        let is_new = self.entries.is_empty();
        self.grows = false;
        for own in all.iter().filter(|own| own.recording.id >= first) {
            let id = own.recording.id;
            let from = self.entries.back().filter(|last| last.id == id).map_or(0, |last| last.number + 1);
            let is_over = own.recording.end.is_some();
            let segments = cache.segments_from(id, from, usize::MAX)?;
            if is_new {
                // Some may be from when segments were to be longer.
                let longest = segments.iter().map(|own| own.latest_npt.saturating_sub(own.first_npt)).max();
                self.target = self.target.max(longest.unwrap_or_default().div_ceil(1_000_000));
            }
            self.append(&segments, is_over);
            if !is_over {
                // Later ones follow when this one is over.
                self.grows = true;
                break;
            }
        }
        let gone = self.entries.iter().take_while(|own| own.is_gone).count();
        self.entries.drain(..gone.saturating_sub(MOST_GONE));
        Ok(())
    }

    /// The recordings of the first track that is MPEG-TS.
    fn choose(&mut self, cache: &Cache, name: &str) -> Result<Vec<Summary>, Wrong> {
        let mut other = None;
        for track in 0..MOST_TRACKS {
            let all = of_track(cache, name, track, 0)?;
            if all.iter().any(|own| own.recording.source.kind.is_ts()) {
                self.track = Some(track);
                return Ok(all);
            }
            other = other.or_else(|| all.last().map(|own| own.recording.source.encoding.clone()));
        }
        other.map_or(Ok(Vec::new()), |coding| Err(Wrong::Coding(coding)))
    }

    /// Notes which segments were removed.
    fn remove(&mut self, cache: &Cache, all: &[Summary]) -> Result<(), Error> {
        let mut at = 0;
        while let Some(id) = self.entries.get(at).map(|own| own.id) {
            let end = self.entries.partition_point(|own| own.id <= id);
            let found = all.binary_search_by_key(&id, |own| own.recording.id).ok().map(|found| &all[found]);
            if self.lacks(at, end, found) {
                let there = found.map_or(Ok(Vec::new()), |_| cache.segments_from(id, 0, usize::MAX))?;
                let there: BTreeSet<u32> = there.iter().map(|own| own.number).collect();
                self.entries.range_mut(at..end).for_each(|own| own.is_gone |= !there.contains(&own.number));
                self.left_out.retain(|own| own.0 != id || there.contains(&own.1));
            }
            at = end;
        }
        Ok(())
    }

    /// Whether segments of a recording that are known may have been removed.
    fn lacks(&self, at: usize, end: usize, found: Option<&Summary>) -> bool {
        let known = self.entries.range(at..end).filter(|own| !own.is_gone).count() as u64;
        let id = self.entries.get(at).map_or(0, |own| own.id);
        let known = known + self.left_out.range((id, 0)..=(id, u32::MAX)).count() as u64;
        let last = self.entries.range(at..end).next_back().map_or(0, |own| own.number);
        let Some((sums, (_, newest))) = found.and_then(|own| Some((&own.sums, own.ends.as_ref()?))) else {
            return known > 0;
        };
        known > 0 && sums.segments < known + u64::from(newest.number.saturating_sub(last))
    }

    /// Adds segments of a recording; the last one is not whole unless it is over.
    fn append(&mut self, segments: &[Segment], is_over: bool) {
        let whole = if is_over { segments.len() } else { segments.len().saturating_sub(1) };
        for (at, own) in segments[..whole].iter().enumerate() {
            let is_first = self.entries.back().is_none_or(|last| last.id != own.recording);
            if is_first && own.access_points == 0 && segments.get(at + 1).is_some_and(|next| next.access_points != 0) {
                self.left_out.insert((own.recording, own.number));
                continue;
            }
            let next = segments.get(at + 1).filter(|next| next.number == own.number + 1);
            let length = own.latest_npt.saturating_sub(own.first_npt);
            let duration = next.map(|next| next.first_npt.saturating_sub(own.first_npt));
            let duration = duration.filter(|own| *own <= length + GAP).unwrap_or(length);
            let duration = duration.min(self.target * 1_000_000);
            let follows = self.end.is_some_and(|(id, number, npt)| {
                id == own.recording && number + 1 == own.number && own.first_npt <= npt + GAP
            });
            let begins = !follows && !self.entries.is_empty();
            self.discontinuity += u64::from(begins);
            self.entries.push_back(Entry {
                sequence: self.sequence,
                discontinuity: self.discontinuity,
                begins,
                id: own.recording,
                number: own.number,
                duration,
                clock: own.first_clock,
                is_gone: false,
            });
            self.sequence += 1;
            self.end = Some((own.recording, own.number, own.latest_npt));
        }
    }

    /// The first entry that has something from a time of the wall clock on, or behind it.
    pub fn at_clock(&self, clock: u64) -> usize {
        let found = self.entries.iter().position(|own| own.clock.saturating_add(own.duration) > clock);
        found.unwrap_or(self.entries.len())
    }

    /// The first of the last entries that are at least so long together, in microseconds.
    pub fn window(&self, length: u64) -> usize {
        let mut left = length;
        for (at, own) in self.entries.iter().enumerate().rev() {
            left = left.saturating_sub(own.duration.max(1));
            if left == 0 {
                return at;
            }
        }
        // What is gone is no live stream's.
        self.entries.iter().position(|own| !own.is_gone).unwrap_or(self.entries.len())
    }

    /// When the last one ended, by the wall clock.
    pub fn end(&self) -> u64 {
        self.entries.back().map_or(0, |own| own.clock.saturating_add(own.duration))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A segment that begins at a second, so many seconds long.
    pub(super) fn segment(recording: u64, number: u32, begin: u64, length: u64) -> Segment {
        let mut own = Segment::default();
        (own.recording, own.number) = (recording, number);
        (own.first_npt, own.latest_npt) = (begin * 1_000_000, (begin + length) * 1_000_000 - 40_000);
        own.first_clock = (1000 + begin) * 1_000_000;
        own
    }

    #[test]
    fn segments_are_numbered_once() {
        let mut line = Line::new(500, 10);
        let all: Vec<Segment> = (0..4).map(|own| segment(1, own, u64::from(own) * 10, 10)).collect();
        line.append(&all[..2], false);
        assert_eq!(line.entries.len(), 1, "the last one is written");
        line.append(&all[1..4], false);
        let sequences: Vec<u64> = line.entries.iter().map(|own| own.sequence).collect();
        assert_eq!(sequences, [500, 501, 502]);
        assert!(line.entries.iter().all(|own| own.duration == 10_000_000 && !own.begins && own.discontinuity == 8));
        line.append(&all[3..], true);
        assert_eq!(line.entries[3].duration, 9_960_000, "up to its own last packet");
        // Another recording; a segment that is missing; and a pause.
        line.append(&[segment(2, 0, 50, 10), segment(2, 2, 70, 10), segment(2, 3, 90, 14)], true);
        let begins: Vec<bool> = line.entries.iter().map(|own| own.begins).collect();
        assert_eq!(begins, [false, false, false, false, true, true, true]);
        assert_eq!(line.entries[6].discontinuity, 11);
        assert_eq!((line.entries[4].duration, line.target), (9_960_000, 15));
        // What begins in the middle of a group of pictures begins with the next one.
        let mut begun = line.entries.len();
        let mut all = [segment(3, 0, 200, 5), segment(3, 1, 205, 10), segment(3, 2, 215, 10)];
        all[1].access_points = 1;
        line.append(&all, false);
        assert_eq!((line.entries[begun].number, line.entries.len(), line.left_out.len()), (1, begun + 1, 1));
        begun = line.entries.len() - 1;
        line.entries.truncate(begun);
        line.sequence -= 1;
        // One that is as long as it may be, and a pause behind it.
        line.append(&[segment(2, 4, 104, 15), segment(2, 5, 120, 10)], true);
        assert_eq!((line.entries[7].duration, line.entries[8].begins, line.target), (15_000_000, false, 15));
        line.entries.truncate(7);
        assert_eq!([0, 1009, 1010, 1055, 1085, 9999].map(|own| line.at_clock(own * 1_000_000)), [0, 0, 1, 4, 6, 7]);
        assert_eq!([1, 20, 24, 1000].map(|own| line.window(own * 1_000_000)), [6, 5, 4, 0]);
    }
}

//! The recordings of a stream in time. Those of its tracks that were made at the same time are a take; takes whose
//! descriptions say the same follow each other, as if they were one recording with gaps.

use std::collections::BTreeMap;
use std::time::Duration;

use media_cache::{Cache, Error, Summary};

use super::copies;
use super::start::Start;

/// Tracks of a description at most.
pub const MOST_TRACKS: u16 = 64;
/// Recordings that the catalogue is asked for at a time.
const PAGE: usize = 256;
/// A recording that nothing is written of may have its first packets for so long, in microseconds.
const FIRST: u64 = 10_000_000;

/// A recording in a take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its number.
    pub id: u64,
    /// What is to be added to its packets' npt, in microseconds; none where nothing is written yet.
    pub shift: Option<i64>,
}

/// Recordings of a stream's tracks that were made at the same time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Take {
    /// By the track's place in the description.
    pub tracks: BTreeMap<usize, Piece>,
    /// Where it begins in the timeline, in microseconds,
    pub offset: u64,
    /// how long it is,
    pub length: u64,
    /// and when it began by the wall clock, in microseconds since 1970.
    pub clock: u64,
    /// What of its beginning was removed.
    lead: u64,
    /// Whether nothing of it was removed behind that.
    is_whole: bool,
    /// What a decoder must know.
    format: String,
    /// Whether it is written.
    pub grows: bool,
}

impl Take {
    /// Where it ends.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }

    /// Recordings that belong together. None where nothing of them is written.
    fn new(all: &[&Summary]) -> Option<Take> {
        let spans = || all.iter().filter_map(|own| own.span());
        let clock = spans().map(|(first, _)| first).min()?;
        let length = spans().map(|(_, last)| last.saturating_sub(clock)).max()?;
        let piece = |own: &&Summary| {
            let shift = own.ends.as_ref().map(|(first, _)| (first.first_clock - clock) as i64 - first.first_npt as i64);
            (usize::from(own.recording.source.track), Piece { id: own.recording.id, shift })
        };
        // A recording's npt begins with its first packet, also where that was removed.
        let began =
            |own: &&Summary| own.ends.as_ref().map(|(first, _)| first.first_clock.saturating_sub(first.first_npt));
        let began = all.iter().filter_map(began).min()?;
        let is_whole = |own: &&Summary| {
            let count = own.ends.as_ref().map_or(0, |(first, last)| u64::from(last.number - first.number) + 1);
            own.recording.end.is_none() || own.sums.segments == count
        };
        Some(Take {
            lead: clock.saturating_sub(began),
            is_whole: all.iter().all(is_whole),
            tracks: all.iter().map(piece).collect(),
            offset: 0,
            length,
            clock,
            format: all.first()?.recording.source.format.clone(),
            grows: all.iter().any(|own| own.recording.end.is_none()),
        })
    }

    /// The same at a place in the timeline.
    fn at(mut self, offset: u64) -> Take {
        self.offset = offset;
        let shift = |own: &mut Piece| own.shift = own.shift.map(|shift| shift.saturating_add_unsigned(offset));
        self.tracks.values_mut().for_each(shift);
        self
    }
}

/// When a recording was made: where nothing is written yet, it may begin.
fn made(own: &Summary) -> (u64, u64) {
    let began = own.recording.began;
    (began, own.span().map_or(began + FIRST, |(_, last)| last.max(began)))
}

/// Takes of recordings, in order.
fn takes(mut all: Vec<Summary>) -> Vec<Take> {
    all.retain(|own| own.ends.is_some() || own.recording.end.is_none());
    all.sort_by_key(|own| (own.recording.began, own.recording.id));
    let mut groups: Vec<(u64, Vec<&Summary>)> = Vec::new();
    for own in &all {
        let ((began, end), source) = (made(own), &own.recording.source);
        let fits = |group: &&mut (u64, Vec<&Summary>)| {
            let other = |of: &&Summary| {
                let of = &of.recording.source;
                of.track != source.track && of.format == source.format && of.film == source.film
            };
            began <= group.0 && group.1.iter().all(other)
        };
        match groups.last_mut().filter(fits) {
            Some((last, group)) => {
                *last = end.max(*last);
                group.push(own);
            }
            None => groups.push((end, vec![own])),
        }
    }
    let mut takes: Vec<Take> = groups.iter().filter_map(|(_, group)| Take::new(group)).collect();
    takes.sort_by_key(|own| own.clock);
    takes
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Timeline {
    name: String,
    /// In order; there is one at least.
    pub takes: Vec<Take>,
    /// They lie where they are of a film, and not as the wall clock says; each has something that no other has.
    pub is_film: bool,
}

/// Takes of a film so close together follow each other, in microseconds.
const CLOSE: u64 = 200_000;

impl Timeline {
    /// That of a stream in which a time is, and where this is in it; none where nothing of it is written yet.
    ///
    /// # Errors
    /// There are no recordings, or the catalogue can't be read.
    pub fn open(cache: &Cache, name: &str, start: Start, now: Duration) -> Result<Option<(Timeline, u64)>, String> {
        let all = summaries(cache, name, 0).map_err(|error| error.to_string())?;
        if all.is_empty() {
            return Err("there is no recording".into());
        }
        let mut takes = takes(all);
        let micros = |time: Duration| time.as_micros() as u64;
        let wanted = match start {
            Start::Ago(ago) => Some(micros(now.saturating_sub(ago))),
            Start::At(at) => Some(micros(at)),
            Start::Beginning => None,
        };
        // The one that has this time, or the next one; else the last.
        let found = wanted.and_then(|wanted| takes.iter().position(|own| own.clock + own.length >= wanted));
        let Some(at) = found.or(takes.len().checked_sub(1)) else { return Ok(None) };
        let same = |own: &Take| own.format == takes[at].format;
        let first = takes[..at].iter().rposition(|own| !same(own)).map_or(0, |other| other + 1);
        let end = takes[at..].iter().position(|own| !same(own)).map_or(takes.len(), |other| at + other);
        let takes: Vec<Take> = takes.drain(first..end).collect();
        let mut timeline = Timeline { name: name.to_owned(), takes: Vec::new(), is_film: false };
        takes.into_iter().for_each(|own| timeline.push(own));
        let start = wanted.map_or(0, |wanted| timeline.place(wanted));
        Ok(Some((timeline, start)))
    }

    /// That of a film, whose recordings these are; none where nothing of them is written yet.
    pub fn of_film(name: &str, all: Vec<Summary>) -> Option<Timeline> {
        let position = |own: &Summary| Some((own.recording.id, own.recording.source.film.as_ref()?.position));
        let positions: BTreeMap<u64, u64> = all.iter().filter_map(position).collect();
        let mut all: Vec<Take> = takes(all)
            .into_iter()
            .map(|own| {
                let at = own.tracks.values().filter_map(|piece| positions.get(&piece.id)).min().copied();
                let at = at.unwrap_or_default().saturating_add(own.lead);
                own.at(at)
            })
            .collect();
        // What was removed in between, the origin has.
        all.retain(|own| own.is_whole);
        all.sort_by_key(|own| (own.offset, std::cmp::Reverse(own.end())));
        let mut takes: Vec<Take> = Vec::new();
        for own in all {
            if takes.last().is_none_or(|last| own.end() > last.end()) {
                takes.push(own);
            }
        }
        (!takes.is_empty()).then(|| Timeline { name: name.to_owned(), takes, is_film: true })
    }

    /// Whether the take behind one goes on where it ends, or before that.
    pub fn is_followed(&self, at: usize) -> bool {
        let next = self.takes.get(at + 1);
        next.is_some_and(|next| !self.is_film || next.offset <= self.takes[at].end().saturating_add(CLOSE))
    }

    /// From when to when all of it is there around a time, and whether more is recorded at its end.
    pub fn span_at(&self, time: u64) -> (u64, u64, bool) {
        let mut at = self.take_at(time);
        let begin = self.takes[at].offset;
        while self.is_followed(at) {
            at += 1;
        }
        (begin, self.takes[at].end(), self.takes[at].grows)
    }

    /// Adds a take behind the others: as long behind the first one as the wall clock says, and never before the last.
    fn push(&mut self, take: Take) {
        let offset = match (self.takes.first(), self.takes.last()) {
            (Some(first), Some(last)) => take.clock.saturating_sub(first.clock - first.offset).max(last.end()),
            _ => 0,
        };
        self.takes.push(take.at(offset));
    }

    /// Takes what has been recorded meanwhile.
    ///
    /// # Errors
    /// The catalogue can't be read.
    pub fn refresh(&mut self, cache: &Cache) -> Result<(), Error> {
        if self.is_film {
            let newer = Timeline::of_film(&self.name, copies::newest(summaries(cache, &self.name, 0)?));
            newer.into_iter().for_each(|own| *self = own);
            return Ok(());
        }
        let Some(last) = self.takes.pop() else { return Ok(()) };
        let from = last.tracks.values().map(|own| own.id).min().unwrap_or_default();
        let newer = summaries(cache, &self.name, from.saturating_sub(1));
        let newer = newer.inspect_err(|_| self.takes.push(last.clone()))?;
        let mut newer = takes(newer).into_iter().peekable();
        match newer.peek() {
            // Its place stays, also where its beginning was removed.
            Some(own) if own.tracks.values().any(|own| last.tracks.values().any(|of| of.id == own.id)) => {
                let passed = own.clock.saturating_sub(last.clock);
                let own = newer.next().unwrap_or_default();
                self.takes.push(own.at(last.offset.saturating_add(passed)));
            }
            _ => self.takes.push(Take { grows: false, ..last.clone() }),
        }
        newer.take_while(|own| own.format == last.format).for_each(|own| self.push(own));
        Ok(())
    }

    /// The take in which a time is, or the last one before it.
    pub fn take_at(&self, time: u64) -> usize {
        self.takes.partition_point(|own| own.offset <= time).saturating_sub(1)
    }

    /// Where a time of the wall clock is, or what is recorded next.
    pub fn place(&self, clock: u64) -> u64 {
        match self.takes.iter().find(|own| own.clock.saturating_add(own.length) >= clock) {
            Some(own) => own.offset + clock.saturating_sub(own.clock),
            None => self.end(),
        }
    }

    /// The wall clock at a time.
    pub fn clock(&self, time: u64) -> u64 {
        let own = self.takes.get(self.take_at(time));
        own.map_or(0, |own| own.clock.saturating_add(time.saturating_sub(own.offset)))
    }

    /// Where it ends by now.
    pub fn end(&self) -> u64 {
        self.takes.last().map_or(0, Take::end)
    }
}

/// Recordings of a stream, or a film, behind one.
///
/// # Errors
/// The catalogue can't be read.
pub fn summaries(cache: &Cache, name: &str, behind: u64) -> Result<Vec<Summary>, Error> {
    let mut all = Vec::new();
    for track in 0..MOST_TRACKS {
        all.extend(of_track(cache, name, track, behind)?);
    }
    Ok(all)
}

/// Those of one track.
///
/// # Errors
/// The catalogue can't be read.
pub fn of_track(cache: &Cache, name: &str, track: u16, behind: u64) -> Result<Vec<Summary>, Error> {
    let mut all: Vec<Summary> = Vec::new();
    loop {
        let last = all.last().map_or(behind, |own| own.recording.id);
        let page = cache.summaries_of(name, track, last, PAGE)?;
        let is_last = page.len() < PAGE;
        all.extend(page);
        if is_last {
            return Ok(all);
        }
    }
}

#[cfg(test)]
mod tests {
    use media_cache::{End, Kind, Recording, Segment, Source};
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000;

    /// A recording of a track that began at a second, its first packet some milliseconds later, so many seconds long.
    fn recording(track: u16, began: u64, late: u64, length: Option<u64>, format: &str) -> Summary {
        let source = Source {
            key: "door".into(),
            track,
            kind: Kind::Rtp,
            encoding: String::new(),
            clock_rate: 90_000,
            format: format.into(),
            film: None,
            sdp: String::new(),
        };
        let end = length.map(|_| End::Finished);
        let recording =
            Recording { id: began * SECOND + u64::from(track), source, began: began * SECOND, end, pinned: false };
        let mut first = Segment::default();
        first.first_clock = began * SECOND + late * 1000;
        let last = length.map(|length| {
            let mut last = first.clone();
            last.latest_npt = length * SECOND;
            last
        });
        let sums = media_cache::Sums { segments: 1, ..Default::default() };
        Summary { recording, sums, ends: last.map(|last| (first, last)) }
    }

    fn line(all: Vec<Summary>) -> Timeline {
        let mut line = Timeline { name: "door".into(), takes: Vec::new(), is_film: false };
        takes(all).into_iter().for_each(|own| line.push(own));
        line
    }

    #[test]
    fn tracks_of_a_time_are_a_take() {
        let all = vec![
            recording(1, 100, 40, Some(50), "a"),
            recording(0, 100, 10, Some(60), "a"),
            recording(0, 200, 0, Some(10), "a"),
            // Somebody wants the other track later.
            recording(1, 205, 0, Some(9), "a"),
            recording(0, 300, 0, Some(10), "b"),
            // It is written, and has nothing yet.
            recording(0, 400, 5, Some(1), "b"),
            recording(1, 400, 5, None, "b"),
        ];
        let all = takes(all);
        let ids: Vec<Vec<u64>> =
            all.iter().map(|own| own.tracks.values().map(|own| own.id / SECOND).collect()).collect();
        assert_eq!(ids, [vec![100, 100], vec![200, 205], vec![300], vec![400, 400]]);
        assert_eq!((all[0].clock, all[0].length), (100_010_000, 60_000_000));
        assert_eq!(all[0].tracks[&1].shift, Some(30_000));
        assert_eq!((all[3].tracks[&1].shift, all[3].grows, all[2].grows), (None, true, false));
    }

    #[test]
    fn takes_lie_as_the_clock_says() {
        let line = line(vec![
            recording(0, 1000, 0, Some(10), ""),
            recording(0, 1100, 0, Some(10), ""),
            // The clock was set back before the last one.
            recording(0, 1105, 0, Some(30), ""),
        ]);
        let offsets: Vec<u64> = line.takes.iter().map(|own| own.offset / SECOND).collect();
        assert_eq!(offsets, [0, 100, 110]);
        for (time, clock, back) in [(0, 1000, 0), (5, 1005, 5), (105, 1105, 105), (139, 1134, 110 + 29)] {
            assert_eq!(line.clock(time * SECOND), clock * SECOND, "{time}");
            assert_eq!(line.place(clock * SECOND) / SECOND, back, "{clock}");
        }
        // In a gap it is what comes next; behind all, the end.
        assert_eq!((line.place(1050 * SECOND), line.place(9999 * SECOND)), (100 * SECOND, line.end()));
        assert_eq!([0, 99, 100, 110, 999].map(|time| line.take_at(time * SECOND)), [0, 0, 1, 2, 2]);
    }

    #[test]
    fn parts_of_films_lie_where_they_are() {
        let part = |began: u64, position: u64, length| {
            let mut own = recording(0, began, 0, length, "");
            own.recording.source.film =
                Some(media_cache::FilmSource { position: position * SECOND, ..Default::default() });
            own
        };
        let all =
            vec![part(100, 40, Some(60)), part(200, 0, Some(50)), part(300, 10, Some(20)), part(400, 200, Some(9))];
        let line = Timeline::of_film("f", all).unwrap();
        let places: Vec<_> = line.takes.iter().map(|own| (own.offset / SECOND, own.end() / SECOND)).collect();
        // One that is in another one is left out.
        assert_eq!(places, [(0, 50), (40, 100), (200, 209)]);
        let span = |time: u64| (line.span_at(time * SECOND).0 / SECOND, line.span_at(time * SECOND).1 / SECOND);
        assert_eq!([5, 45, 99, 205].map(span), [(0, 100), (40, 100), (40, 100), (200, 209)]);
        assert_eq!([0, 1, 2].map(|at| line.is_followed(at)), [true, false, false]);
        // Its beginning was removed; and something in its middle.
        let mut own = part(100, 40, Some(60));
        own.ends.iter_mut().for_each(|(first, _)| {
            (first.first_npt, first.first_clock, first.number) = (15 * SECOND, 115 * SECOND, 2);
        });
        own.ends.iter_mut().for_each(|(_, last)| (last.latest_npt, last.number) = (60 * SECOND, 2));
        let line = Timeline::of_film("f", vec![own.clone()]).unwrap();
        assert_eq!((line.takes[0].offset, line.takes[0].end()), (55 * SECOND, 100 * SECOND));
        assert_eq!(line.takes[0].tracks[&0].shift, Some(40 * SECOND as i64));
        own.ends.iter_mut().for_each(|(_, last)| last.number = 9);
        assert!(Timeline::of_film("f", vec![own]).is_none());
    }

    proptest! {
        /// Whatever there is, takes follow each other, and each recording is in one of them at most.
        #[test]
        fn takes_follow_each_other(all in prop::collection::vec((0u16..3, 1u64..200, 0u64..2000, prop::option::of(0u64..50)), 0..40)) {
            let mut seen = std::collections::BTreeSet::new();
            let all: Vec<_> = all.into_iter().filter(|own| seen.insert((own.0, own.1))).collect();
            let line = line(all.iter().map(|(track, began, late, length)| recording(*track, *began, *late, *length, "")).collect());
            for two in line.takes.windows(2) {
                prop_assert!(two[0].end() <= two[1].offset);
            }
            let ids: Vec<u64> = line.takes.iter().flat_map(|own| own.tracks.values().map(|own| own.id)).collect();
            let mut unique = ids.clone();
            unique.sort_unstable();
            unique.dedup();
            prop_assert_eq!(unique.len(), ids.len());
            let written = all.iter().filter(|own| own.3.is_some()).count();
            prop_assert!(ids.len() >= written);
            for time in 0..300 {
                let clock = line.clock(time * SECOND);
                prop_assert!(line.takes.is_empty() || line.place(clock) <= line.end());
            }
        }
    }
}

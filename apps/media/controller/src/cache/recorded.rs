//! A recorded stream as a film: its takes, one after the other.

use std::io;
use std::time::{Duration, Instant};

use media_cache::{Cache, Error};
use wire::rtp::Header;
use wire::sdp::Description;

use super::film::{Begin, Film, Reading};
use super::start::Start;
use super::timeline::{Take, Timeline};
use super::track::Track;

/// Behind the end of a take that was written a moment ago another one may begin for so long.
const NEXT: Duration = Duration::from_secs(10);
/// Between two looks whether it does.
const LOOK: Duration = Duration::from_millis(200);

/// See the module.
#[derive(Debug)]
pub struct RecordedFilm {
    cache: Cache,
    description: Description,
    timeline: Timeline,
    /// The take that is read,
    at: usize,
    /// those of its tracks that are wanted,
    tracks: Vec<Track>,
    /// which these are,
    wanted: Vec<usize>,
    /// and whether only pictures at which a decoder can begin are.
    keys: bool,
    /// The take was written while it was read.
    was_live: bool,
    /// When there was nothing more in the last take, and when it was looked for another one.
    ended: Option<Instant>,
    looked: Option<Instant>,
    /// Where it begins unless told otherwise, since its beginning.
    pub start: Duration,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl RecordedFilm {
    /// The recordings of a stream at a time, with those before and behind; none where nothing of them is written yet.
    ///
    /// # Errors
    /// There are none, or they can't be read.
    pub fn open(cache: &Cache, name: &str, start: Start, now: Duration) -> Result<Option<RecordedFilm>, String> {
        let opened = Timeline::open(cache, name, start, now)?;
        opened.map(|(timeline, start)| RecordedFilm::of(cache, timeline, start)).transpose()
    }

    /// The same of these takes.
    ///
    /// # Errors
    /// They can't be read.
    pub fn of(cache: &Cache, timeline: Timeline, start: u64) -> Result<RecordedFilm, String> {
        // Its description is that of where it begins.
        let at = timeline.take_at(start);
        let first = timeline.takes[at].tracks.values().next().ok_or("there is no recording")?;
        let reader = cache.read(first.id).map_err(text)?;
        let sdp = reader.recording().source.sdp.as_bytes();
        let description = Description::parse(sdp).map_err(|_| "its description is lost")?;
        Ok(RecordedFilm {
            cache: cache.clone(),
            description,
            timeline,
            at,
            tracks: Vec::new(),
            wanted: Vec::new(),
            keys: false,
            was_live: false,
            ended: None,
            looked: None,
            start: Duration::from_micros(start),
        })
    }

    /// Another reader of the same, which has not begun.
    ///
    /// # Errors
    /// It can't be read any more.
    pub fn again(&self) -> Result<RecordedFilm, String> {
        RecordedFilm::of(&self.cache, self.timeline.clone(), micros(self.start))
    }

    /// Reads a take from its beginning on.
    fn enter(&mut self, at: usize) -> Result<(), String> {
        (self.at, self.ended, self.was_live) = (at, None, false);
        self.tracks.clear();
        let take = self.timeline.takes.get(at).ok_or("there is no recording")?;
        let is_strict = self.timeline.is_film;
        for (track, piece) in take.tracks.iter().filter(|(track, _)| self.wanted.contains(track)) {
            match self.cache.read(piece.id) {
                Ok(reader) => self.tracks.extend(Track::new(*track, reader, *piece, take, self.keys, is_strict)),
                // It was removed meanwhile.
                Err(Error::Unknown(_)) => {}
                Err(error) => return Err(text(error)),
            }
        }
        self.was_live = self.tracks.iter().any(Track::is_live);
        Ok(())
    }

    /// Goes on with the next take; whether there is one.
    fn enter_next(&mut self) -> Result<bool, String> {
        if !self.timeline.is_followed(self.at) {
            // Of a film nobody waits for more.
            if !self.timeline.is_film && self.looked.is_some_and(|then| then.elapsed() < LOOK) {
                return Ok(false);
            }
            self.looked = Some(Instant::now());
            self.look().map_err(text)?;
        }
        let is_there = self.timeline.is_followed(self.at);
        if is_there {
            self.enter(self.at + 1)?;
        }
        Ok(is_there)
    }

    /// Takes what was recorded meanwhile; the take that is read stays.
    fn look(&mut self) -> Result<(), Error> {
        let mut newer = self.timeline.clone();
        newer.refresh(&self.cache)?;
        let own = self.timeline.takes.get(self.at).and_then(|own| own.tracks.values().next()).map(|own| own.id);
        let is_own = |take: &Take| take.tracks.values().any(|piece| Some(piece.id) == own);
        match (newer.is_film, newer.takes.iter().position(is_own)) {
            (false, _) => self.timeline = newer,
            (true, Some(at)) => (self.timeline, self.at) = (newer, at),
            // It is in another one now.
            (true, None) if self.tracks.is_empty() => (self.timeline, self.at) = (newer, 0),
            (true, None) => {}
        }
        Ok(())
    }

    /// From when to when all of it is there around a time, and whether more is recorded at its end.
    pub fn span_at(&self, npt: Duration) -> (Duration, Duration, bool) {
        let (begin, end, grows) = self.timeline.span_at(micros(npt));
        (Duration::from_micros(begin), Duration::from_micros(end), grows)
    }

    /// Where the take ends that is read, or what can be read of it.
    pub fn reached(&self) -> Duration {
        let end = self.timeline.takes.get(self.at).map_or(0, Take::end);
        let broken = self.tracks.iter().filter_map(|own| own.broken).min();
        Duration::from_micros(broken.map_or(end, |own| own.min(end)))
    }

    /// Where the take begins that is read.
    pub fn begins(&self) -> Duration {
        Duration::from_micros(self.timeline.takes.get(self.at).map_or(0, |own| own.offset))
    }

    /// Where the next take takes the place of the one that is read.
    fn limit(&self) -> Option<Duration> {
        let next = self.timeline.takes.get(self.at + 1).filter(|_| self.timeline.is_film);
        next.filter(|_| self.timeline.is_followed(self.at)).map(|own| Duration::from_micros(own.offset))
    }

    /// Whether another take may begin.
    fn may_go_on(&mut self) -> bool {
        !self.timeline.is_film && self.was_live && self.ended.get_or_insert_with(Instant::now).elapsed() < NEXT
    }

    /// Goes to a place in the take that is read; where it begins there.
    fn go_to(&mut self, to: u64) -> io::Result<Duration> {
        // A decoder begins at an access point; what has none begins at the same time.
        let mut npt = Duration::from_micros(to);
        for own in &mut self.tracks {
            if own.seek_access_point(to)? {
                own.fill()?;
                npt = own.next.as_ref().map_or(npt, |next| next.npt.min(npt));
            }
        }
        for own in self.tracks.iter_mut().filter(|own| own.next.is_none()) {
            own.seek(micros(npt))?;
            own.fill()?;
        }
        Ok(npt)
    }
}

impl Film for RecordedFilm {
    fn description(&self) -> &Description {
        &self.description
    }

    fn length(&self) -> Duration {
        Duration::from_micros(self.timeline.end())
    }

    fn grows(&self) -> bool {
        self.timeline.takes.last().is_some_and(|own| own.grows)
    }

    fn refresh(&mut self) {
        // What is known of it is true all the same.
        if let Err(error) = self.look() {
            tracing::warn!(%error, "it can't be seen what was recorded meanwhile");
        }
    }

    fn may_have_more(&self) -> bool {
        self.tracks.iter().any(Track::may_have_more)
    }

    fn clock_at(&self, npt: Duration) -> Option<Duration> {
        Some(Duration::from_micros(self.timeline.clock(micros(npt))))
    }

    fn npt_at(&self, clock: Duration) -> Option<Duration> {
        Some(Duration::from_micros(self.timeline.place(micros(clock))))
    }

    fn seek(&mut self, to: Duration, tracks: &[usize], keys: bool) -> Result<Begin, String> {
        (self.wanted, self.keys) = (tracks.to_vec(), keys);
        let takes = &self.timeline.takes;
        let (mut to, mut at) = (micros(to), self.timeline.take_at(micros(to)));
        // In a gap it is what comes next.
        if let Some(next) = takes.get(at + 1).filter(|_| to > takes[at].end() && !self.timeline.is_film) {
            (to, at) = (next.offset, at + 1);
        }
        self.enter(at)?;
        let npt = self.go_to(to).map_err(text)?;
        let first = self.tracks.iter().filter_map(|own| Some((own.track, Header::read(&own.next.as_ref()?.packet)?)));
        Ok(Begin { npt, first: first.collect() })
    }

    fn read(&mut self) -> Result<Reading, String> {
        loop {
            for own in &mut self.tracks {
                own.fill().map_err(text)?;
            }
            let times = self.tracks.iter().enumerate().filter_map(|(at, own)| Some((own.next.as_ref()?.npt, at)));
            let first = times.min();
            if let (Some((npt, _)), Some(limit)) = (first, self.limit())
                && npt >= limit
            {
                self.enter(self.at + 1)?;
                continue;
            }
            if let Some(next) = first.and_then(|(_, at)| self.tracks[at].next.take()) {
                return Ok(Reading::Packet(next));
            }
            if self.tracks.iter().any(|own| own.broken.is_some()) {
                return Ok(Reading::End);
            }
            if self.tracks.iter().any(|own| !own.has_ended) {
                return Ok(Reading::Wait);
            }
            if !self.enter_next()? {
                return Ok(if self.may_go_on() { Reading::Wait } else { Reading::End });
            }
        }
    }
}

#[cfg(test)]
mod tests;

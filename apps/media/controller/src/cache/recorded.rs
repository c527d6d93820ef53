//! A recorded stream as a film: the recordings of its tracks, which were made at the same time.

use std::time::Duration;

use media_cache::{Cache, Item, Kind, Reader, Segment};
use wire::rtp::{self, Header};
use wire::sdp::Description;

use super::film::{Begin, Film, Next, Reading};
use super::start::Start;

/// The payload type of MPEG-TS (RFC 3551 table 5).
const MP2T: u8 = 33;

/// A track of a film.
#[derive(Debug)]
struct Track {
    /// Its place in the description.
    track: usize,
    reader: Reader,
    /// When its first packet came in the film, less that in the recording, in microseconds.
    offset: u64,
    /// What was read, and is not taken yet.
    next: Option<Next>,
    /// Whether it is read.
    is_wanted: bool,
    has_ended: bool,
}

/// See the module.
#[derive(Debug)]
pub struct RecordedFilm {
    description: Description,
    tracks: Vec<Track>,
    /// Where it begins unless told otherwise, since its beginning.
    pub start: Duration,
}

/// When a recording's first and last packets came, in microseconds since 1970.
fn span(segments: &[Segment]) -> Option<(u64, u64)> {
    let first = segments.first()?;
    // The wall clock may have been set meanwhile; the other one never is.
    let length = segments.iter().map(|own| own.latest_npt).max()?.saturating_sub(first.first_npt);
    Some((first.first_clock, first.first_clock + length))
}

/// A recording, and from when to when it is.
type Spanned = (Reader, (u64, u64));

impl RecordedFilm {
    /// The recordings of a stream at a time; none where nothing of the first one is written yet.
    ///
    /// # Errors
    /// There are none, or they can't be read.
    pub fn open(cache: &Cache, name: &str, start: Start, now: Duration) -> Result<Option<RecordedFilm>, String> {
        let text = |error: media_cache::Error| error.to_string();
        let wanted = match start {
            Start::Ago(ago) => Some(now.saturating_sub(ago)),
            Start::At(at) => Some(at),
            Start::Beginning => None,
        };
        let wanted = wanted.map(|own| own.as_micros() as u64);
        // Recordings of a track that have something, and whether there are others.
        let all = |track: u16| -> Result<(Vec<Spanned>, bool), String> {
            let mut found = Vec::new();
            let known = cache.find(name, track).map_err(text)?;
            let count = known.len();
            for recording in known {
                let reader = cache.read(recording.id).map_err(text)?;
                if let Some(span) = span(&reader.all_segments()) {
                    found.push((reader, span));
                }
            }
            let others = found.len() < count;
            Ok((found, others))
        };
        // The first track decides which one it is: the one that has this time, or the next one; else the last.
        let (mut first, mut found, mut is_begun) = (0, Vec::new(), false);
        for track in 0..MOST_TRACKS {
            let (of_track, others) = all(track)?;
            (first, found, is_begun) = (track, of_track, is_begun || others);
            if !found.is_empty() {
                break;
            }
        }
        if found.is_empty() && is_begun {
            return Ok(None);
        }
        let at = wanted.and_then(|wanted| found.iter().position(|(.., (_, last))| *last >= wanted));
        let at = at.unwrap_or(found.len().saturating_sub(1));
        let (reader, span) = found.into_iter().nth(at).ok_or("there is no recording")?;
        let sdp = reader.recording().source.sdp.as_bytes();
        let description = Description::parse(sdp).map_err(|_| "its description is lost")?;
        let mut tracks = vec![(usize::from(first), reader, span)];
        for track in first + 1..description.media() as u16 {
            // That of the same time.
            let shared = |(_, own): &Spanned| own.1.min(span.1).saturating_sub(own.0.max(span.0));
            let best = all(track)?.0.into_iter().max_by_key(shared);
            let best = best.filter(|own| own.1.0 <= span.1 && span.0 <= own.1.1);
            tracks.extend(best.map(|(reader, span)| (usize::from(track), reader, span)));
        }
        let began = tracks.iter().map(|(.., (first, _))| *first).min().unwrap_or_default();
        let start = wanted.map_or(0, |wanted| wanted.saturating_sub(began));
        let track = |(track, reader, (first, _)): (usize, Reader, (u64, u64))| {
            let npt = reader.all_segments().first().map_or(0, |own| own.first_npt);
            let offset = (first - began).saturating_sub(npt);
            Track { track, reader, offset, next: None, is_wanted: false, has_ended: false }
        };
        let tracks = tracks.into_iter().map(track).collect();
        Ok(Some(RecordedFilm { description, tracks, start: Duration::from_micros(start) }))
    }
}

/// Tracks of a description at most.
const MOST_TRACKS: u16 = 64;

impl Track {
    /// Reads the next packet, if there is one.
    fn fill(&mut self) -> Result<(), String> {
        while self.next.is_none() && !self.has_ended {
            let (kind, ssrc) = (self.reader.recording().source.kind, self.reader.recording().id as u32);
            match self.reader.next_item().map_err(|error| error.to_string())? {
                Item::Packet(own) => {
                    let packet = match kind {
                        Kind::Rtp => own.bytes.to_vec(),
                        Kind::Mp2t | Kind::Ts => {
                            let about = own.about;
                            let header = Header { sequence: about.sequence as u16, timestamp: about.timestamp, ssrc };
                            with_header(header, about.marker, own.bytes)
                        }
                    };
                    let npt = Duration::from_micros(own.about.npt + self.offset);
                    self.next = Some(Next { track: self.track, npt, packet });
                }
                Item::Gap(..) => {}
                Item::Pending => return Ok(()),
                Item::End(_) => self.has_ended = true,
            }
        }
        Ok(())
    }

    fn latest(&self) -> u64 {
        self.reader.all_segments().iter().map(|own| own.latest_npt).max().unwrap_or_default() + self.offset
    }
}

/// The RTP packet whose payload was recorded.
fn with_header(header: Header, marker: bool, payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::with_capacity(rtp::HEADER + payload.len());
    packet.extend([0x80, MP2T | u8::from(marker) << 7]);
    packet.resize(rtp::HEADER, 0);
    header.write(&mut packet);
    packet.extend_from_slice(payload);
    packet
}

impl Film for RecordedFilm {
    fn description(&self) -> &Description {
        &self.description
    }

    fn length(&self) -> Duration {
        Duration::from_micros(self.tracks.iter().map(Track::latest).max().unwrap_or_default())
    }

    fn grows(&self) -> bool {
        self.tracks.iter().any(|own| own.reader.recording().end.is_none() && !own.has_ended)
    }

    fn seek(&mut self, to: Duration, tracks: &[usize]) -> Result<Begin, String> {
        let text = |error: std::io::Error| error.to_string();
        let wanted = |own: &&mut Track| tracks.contains(&own.track);
        self.tracks.iter_mut().for_each(|own| {
            (own.is_wanted, own.next, own.has_ended) = (tracks.contains(&own.track), None, false);
        });
        // A decoder begins at an access point; what has none begins at the same time.
        let mut npt = to;
        for own in self.tracks.iter_mut().filter(wanted) {
            let at = (to.as_micros() as u64).saturating_sub(own.offset);
            if own.reader.seek_access_point(at).map_err(text)? {
                own.fill()?;
                npt = own.next.as_ref().map_or(npt, |next| next.npt.min(npt));
            }
        }
        for own in self.tracks.iter_mut().filter(wanted).filter(|own| own.next.is_none()) {
            own.reader.seek_npt((npt.as_micros() as u64).saturating_sub(own.offset)).map_err(text)?;
            own.fill()?;
        }
        let first = |own: &Track| Some((own.track, Header::read(&own.next.as_ref()?.packet)?));
        Ok(Begin { npt, first: self.tracks.iter().filter(|own| own.is_wanted).filter_map(first).collect() })
    }

    fn read(&mut self) -> Result<Reading, String> {
        let mut earliest: Option<usize> = None;
        for at in 0..self.tracks.len() {
            let own = &mut self.tracks[at];
            if !own.is_wanted {
                continue;
            }
            own.fill()?;
            let npt = own.next.as_ref().map(|own| own.npt);
            let best = earliest.and_then(|own| self.tracks[own].next.as_ref()).map(|own| own.npt);
            if npt.is_some_and(|own| best.is_none_or(|best| own < best)) {
                earliest = Some(at);
            }
        }
        let next = earliest.and_then(|at| self.tracks[at].next.take());
        let is_over = self.tracks.iter().filter(|own| own.is_wanted).all(|own| own.has_ended);
        Ok(match next {
            Some(next) => Reading::Packet(next),
            None if is_over => Reading::End,
            None => Reading::Wait,
        })
    }
}

//! Copies of origins' films: what was recorded of them while somebody played them, as films of their own. What there is
//! of one ends where nobody has played on; the origin has the rest. That begins where a decoder can, so a copy is left
//! at its last access point.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use media_cache::{Cache, Summary};
use wire::rtp::Header;
use wire::rtsp::range::Range;
use wire::sdp::Description;

use super::film::{Begin, Film, Next, Reading};
use super::recorded::RecordedFilm;
use super::timeline::{Timeline, summaries};

/// The host of copies in URLs, of which those are meant that may be served without a question to their origin,
pub const HOST: &str = "films.invalid";
/// and that of all of them (RFC 6761 section 6.4).
pub const ANY: &str = "any.films.invalid";
/// In front of films' keys: no name of a stream has a space.
const KEY: &str = "film ";
/// A film that lacks so little at its end is whole; one that has so little behind a place has nothing there.
const SLACK: Duration = Duration::from_secs(1);
/// Sound may come so long behind the picture that it belongs to: so much of it is taken from the copy where pictures
/// are the origin's already.
const BEHIND: Duration = Duration::from_millis(500);
/// Between two looks how far one is that is being recorded.
const LOOK: Duration = Duration::from_secs(3);
/// Origins may begin so long before the place that they are asked for, or at the access point before that.
const BEFORE: Duration = Duration::from_secs(1);
/// Packets around a copy's end that are compared with the origin's at most.
const MOST_AROUND: usize = 100_000;

/// By what a film is found, given its URL at its origin, or in its pool.
pub fn key(url: &str, pool: Option<&str>) -> String {
    pool.map_or_else(|| format!("{KEY}{url}"), |pool| format!("{KEY}{pool} {url}"))
}

/// The URL of a copy of a film at one of these hosts.
pub fn url(host: &str, key: &str) -> String {
    // A URL has no spaces.
    format!("rtsp://{host}/{}", key.strip_prefix(KEY).unwrap_or(key).replacen(' ', "|", 1))
}

/// The key in such a URL's path.
pub fn key_of(path: &str) -> String {
    let path = path.strip_prefix('/').unwrap_or(path);
    format!("{KEY}{}", path.replacen('|', " ", 1))
}

/// By what it is seen whether a film is still the one that was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validators {
    /// When it was changed last (`Last-Modified`); empty where its origin does not say it.
    pub modified: String,
    /// What its description says of its streams and its length.
    pub description: String,
}

impl Validators {
    /// Those of a description, and of what its origin says of its last change.
    pub fn new(description: &Description, modified: Option<&str>) -> Validators {
        let length = length(description).map_or(0, |own| own.as_millis());
        let description = format!("{} {length}", description.formats());
        Validators { modified: modified.unwrap_or_default().trim().to_owned(), description }
    }

    /// Whether both are of the same film.
    pub fn fits(&self, other: &Validators) -> bool {
        self.modified == other.modified && (!self.modified.is_empty() || self.description == other.description)
    }
}

/// How long a film is, as its description says.
pub fn length(description: &Description) -> Option<Duration> {
    match description.range()? {
        Range::Npt { end: Some(end), .. } => Duration::try_from_secs_f64(end).ok(),
        _ => None,
    }
}

/// Until when films may be served without a question to their origins, where that is later than their recordings say:
/// by key, in microseconds since 1970.
#[derive(Clone, Debug, Default)]
pub struct Confirmed(Arc<Mutex<HashMap<String, u64>>>);

/// Films that are remembered.
const MOST: usize = 65_536;

impl Confirmed {
    /// The origin says that what was recorded is still its film.
    pub fn note(&self, key: &str, expires: u64) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST {
            all.clear();
        }
        all.insert(key.to_owned(), expires);
    }

    fn get(&self, key: &str) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).copied().unwrap_or_default()
    }
}

/// What there is of a film.
#[derive(Debug)]
pub enum Found {
    /// What may be served.
    Film(Box<CopiedFilm>),
    /// The origin is to be asked first whether this is still its film.
    Old(Validators),
    /// Nothing.
    Nothing,
}

/// Where a copy is left.
#[derive(Clone, Copy, Debug)]
struct Leaves {
    /// When the first packet that the origin is to send came,
    at: Duration,
    /// whose track this is,
    track: usize,
    /// and where the film is there, by its timestamp: the origin is asked for that, and an instant less would be the
    /// access point before.
    npt: Duration,
}

/// See the module.
#[derive(Debug)]
pub struct CopiedFilm {
    film: RecordedFilm,
    length: Duration,
    /// The tracks that are read, and how far they are.
    tracks: Vec<usize>,
    at: Duration,
    leaves: Option<Leaves>,
    /// Whether that is known, or when it was looked for.
    is_known: bool,
    looked: Option<Instant>,
    /// Where it was, when that was reached: it may have grown meanwhile.
    reached: Option<Duration>,
}

impl CopiedFilm {
    /// Looks for a film, also for one that its origin is to be asked about, where `any` says so.
    ///
    /// # Errors
    /// The catalogue, or the recording, can't be read.
    pub fn open(cache: &Cache, key: &str, confirmed: &Confirmed, any: bool, now: Duration) -> Result<Found, String> {
        let text = |error: media_cache::Error| error.to_string();
        let all = newest(summaries(cache, key, 0).map_err(text)?);
        let Some(film) = all.iter().filter_map(|own| own.recording.source.film.as_ref()).max_by_key(|own| own.expires)
        else {
            return Ok(Found::Nothing);
        };
        let (expires, modified) = (film.expires.max(confirmed.get(key)), film.modified.clone());
        let Some(timeline) = Timeline::of_film(key, all) else { return Ok(Found::Nothing) };
        let film = RecordedFilm::of(cache, timeline, 0)?;
        let Some(length) = length(film.description()) else { return Ok(Found::Nothing) };
        if !any && expires < now.as_micros() as u64 {
            return Ok(Found::Old(Validators::new(film.description(), Some(&modified))));
        }
        let (tracks, at, leaves, is_known, looked, reached) = (Vec::new(), Duration::ZERO, None, false, None, None);
        Ok(Found::Film(Box::new(CopiedFilm { film, length, tracks, at, leaves, is_known, looked, reached })))
    }

    /// Looks for the place where it is left, unless it is known or there is none yet.
    fn look(&mut self) -> Result<(), String> {
        if self.is_known || self.looked.is_some_and(|then| then.elapsed() < LOOK) {
            return Ok(());
        }
        if self.looked.replace(Instant::now()).is_some() {
            self.film.refresh();
        }
        let (_, end, grows) = self.film.span_at(self.at);
        self.is_known = !grows;
        if grows || end + SLACK >= self.length {
            return Ok(());
        }
        let mut other = self.film.again()?;
        other.seek(end, &self.tracks, false)?;
        let Reading::Packet(found) = other.read()? else { return Ok(()) };
        let begins = other.begins();
        // The access point may be one of several packets of its picture, and is the last of them then.
        let timestamp = |own: &Next| Header::read(&own.packet).map(|own| own.timestamp);
        other.seek(found.npt.saturating_sub(BEFORE), &[found.track], false)?;
        let mut first = None;
        while let Reading::Packet(next) = other.read()? {
            if next.npt >= found.npt || timestamp(&next) == timestamp(&found) {
                first = Some(next);
                break;
            }
        }
        if let Some(first) = first.filter(|own| own.npt > self.at) {
            let npt = self.npt_of(&mut other, &first, begins)?.unwrap_or(first.npt);
            self.leaves = Some(Leaves { at: first.npt, track: first.track, npt });
        }
        Ok(())
    }

    /// A packet is reached that the origin is to send: it is looked whether the copy has grown meanwhile.
    fn look_again(&mut self, at: Duration) -> Result<(), String> {
        if self.reached.replace(at) == Some(at) {
            return Ok(());
        }
        self.film.refresh();
        (self.leaves, self.is_known, self.looked) = (None, false, None);
        self.look()
    }

    /// Where the film is at a packet, by its timestamp and that of its track's first packet, which came at a time and
    /// which another reader looks for; none where they do not say it.
    fn npt_of(&self, other: &mut RecordedFilm, packet: &Next, begins: Duration) -> Result<Option<Duration>, String> {
        other.seek(begins, &[packet.track], false)?;
        let Reading::Packet(first) = other.read()? else { return Ok(None) };
        let rate = self.film.description().clock_rate(packet.track).filter(|rate| *rate != 0);
        let both = rate.zip(Header::read(&first.packet)).zip(Header::read(&packet.packet));
        let npt = both.map(|((rate, first), last)| {
            let passed = u64::from(last.timestamp.wrapping_sub(first.timestamp)) * 1_000_000 / u64::from(rate);
            // Origins are asked in milliseconds.
            begins + Duration::from_millis(passed.div_ceil(1000))
        });
        Ok(npt.filter(|npt| npt.abs_diff(packet.npt) < SLACK))
    }
}

/// Those of the film as it was recorded last: its origin may have had another one before.
pub fn newest(mut all: Vec<Summary>) -> Vec<Summary> {
    let same = |own: &Summary| {
        let source = &own.recording.source;
        source.film.as_ref().map(|film| (source.format.clone(), film.modified.clone()))
    };
    let last = all.iter().max_by_key(|own| own.recording.id).and_then(same);
    all.retain(|own| last.is_some() && same(own) == last);
    all
}

impl Film for CopiedFilm {
    fn description(&self) -> &Description {
        self.film.description()
    }

    fn length(&self) -> Duration {
        self.length
    }

    fn grows(&self) -> bool {
        false
    }

    // Its origin may have others.
    fn elsewhere(&self) -> u16 {
        302
    }

    fn refresh(&mut self) {
        self.film.refresh();
    }

    fn may_have_more(&self) -> bool {
        self.film.may_have_more()
    }

    fn clock_at(&self, _: Duration) -> Option<Duration> {
        None
    }

    fn npt_at(&self, _: Duration) -> Option<Duration> {
        None
    }

    fn has(&self, npt: Duration) -> bool {
        let (begin, end, grows) = self.film.span_at(npt);
        let is_rest = end + SLACK >= self.length;
        begin <= npt + Duration::from_millis(1) && (npt + SLACK <= end || (npt <= end && (grows || is_rest)))
    }

    fn around(&self, npt: Duration, tracks: &[usize], give: &mut dyn FnMut(&Next)) -> Result<(), String> {
        let mut other = self.film.again()?;
        let at = self.leaves.map_or(npt, |own| own.at);
        other.seek(at.saturating_sub(BEFORE), tracks, false)?;
        for _ in 0..MOST_AROUND {
            let Reading::Packet(next) = other.read()? else { break };
            give(&next);
        }
        Ok(())
    }

    fn seek(&mut self, to: Duration, tracks: &[usize], keys: bool) -> Result<Begin, String> {
        let begin = self.film.seek(to, tracks, keys)?;
        (self.tracks, self.at) = (tracks.to_vec(), begin.npt);
        (self.leaves, self.is_known, self.looked, self.reached) = (None, false, None, None);
        Ok(begin)
    }

    fn read(&mut self) -> Result<Reading, String> {
        self.look()?;
        loop {
            let reading = self.film.read()?;
            if let (Reading::Packet(next), Some(leaves)) = (&reading, self.leaves)
                && next.npt >= leaves.at
            {
                self.look_again(leaves.at)?;
            }
            return Ok(match (reading, self.leaves) {
                (Reading::Packet(next), Some(leaves)) if next.npt > leaves.at + BEHIND => {
                    Reading::Elsewhere(leaves.npt)
                }
                (Reading::Packet(next), Some(leaves)) if next.npt >= leaves.at => {
                    if next.track == leaves.track {
                        continue;
                    }
                    Reading::Packet(Next { npt: leaves.at, ..next })
                }
                (Reading::Packet(next), _) => {
                    self.at = next.npt;
                    Reading::Packet(next)
                }
                // What is damaged ends where it is.
                (Reading::End, leaves) => match (self.film.reached(), leaves) {
                    (end, Some(leaves)) if end >= leaves.at => Reading::Elsewhere(leaves.npt),
                    (end, _) if end + SLACK < self.length => Reading::Elsewhere(end),
                    _ => Reading::End,
                },
                (other, _) => other,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_films() {
        for (of, pool) in [("rtsp://10.0.2.11:8554/a/b?c=d", None), ("/vod/1", Some("films"))] {
            let key = key(of, pool);
            for host in [HOST, ANY] {
                let url = url(host, &key);
                let read = wire::rtsp::url::Url::parse(&url).unwrap();
                assert_eq!((read.host, key_of(read.path)), (host, key.clone()), "{url}");
            }
        }
    }

    #[test]
    fn films_change() {
        let text = |length: &str| format!("v=0\r\na=range:npt=0-{length}\r\nm=video 0 RTP/AVP 33\r\n");
        let of =
            |length: &str, modified| Validators::new(&Description::parse(text(length).as_bytes()).unwrap(), modified);
        let (monday, tuesday) = (Some("Mon, 23 Nov 2026 10:00:00 GMT"), Some("Tue, 24 Nov 2026 10:00:00 GMT"));
        for (one, other, same) in [
            (of("12.5", monday), of("12.5", monday), true),
            (of("12.5", monday), of("12.5", tuesday), false),
            (of("12.5", monday), of("12.5", None), false),
            (of("12.5", None), of("12.5", None), true),
            (of("12.5", None), of("12.6", None), false),
        ] {
            assert_eq!(one.fits(&other), same, "{one:?} {other:?}");
        }
    }
}

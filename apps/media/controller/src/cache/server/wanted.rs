//! What PLAY asks of a film, and what is said of it.

use std::time::Duration;

use wire::rtsp::message::Request;
use wire::rtsp::range::{self, Npt, Range};

use super::{Film, Server};

/// How many times as fast a film is played at most.
const FASTEST: u32 = 64;

/// What PLAY asks for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Where it is to begin,
    pub from: Option<Duration>,
    /// and to end.
    pub until: Option<Duration>,
    /// How many times as fast it is to be; none where nothing is said of it.
    pub scale: Option<u32>,
    /// Times are those of the wall clock.
    pub is_clock: bool,
}

impl<F: Film> Server<F> {
    /// What a request wants of the film.
    pub(super) fn wanted(&self, request: &Request) -> Result<Wanted, u16> {
        let time = |own: f64| Duration::try_from_secs_f64(own).map_err(|_| 457u16);
        let range = request.headers.get("range").map(range::parse);
        let (from, until) = match range {
            None => (None, None),
            Some(Some(Range::Npt { start, end })) => {
                let from = match start {
                    Npt::At(start) => Some(time(start)?),
                    Npt::Open => None,
                    Npt::Now => Some(self.film.length()),
                };
                (from, end.map(time).transpose()?)
            }
            Some(Some(Range::Clock { start, end })) => {
                let place = |own: f64| self.film.npt_at(time(own)?).ok_or(self.film.elsewhere());
                // What is not there yet can't be played.
                let is_beyond = self.film.clock_at(self.film.length()).is_none_or(|last| start > last.as_secs_f64());
                if is_beyond && !self.film.grows() {
                    return Err(self.film.elsewhere());
                }
                (Some(place(start)?), end.map(place).transpose()?)
            }
            Some(Some(Range::Other)) => return Err(self.film.elsewhere()),
            Some(None) => return Err(457),
        };
        if from.is_some_and(|own| own > self.film.length()) && !self.film.grows() {
            return Err(457);
        }
        // Fast forward has the pictures that there are an index of (RFC 2326 section 12.34); all else is as recorded.
        let scale = request.headers.get("scale").and_then(|text| text.trim().parse::<f64>().ok());
        let scale = scale.map(|own| if own >= 2.0 { own.min(f64::from(FASTEST)) as u32 } else { 1 });
        Ok(Wanted { from, until, scale, is_clock: matches!(range, Some(Some(Range::Clock { .. }))) })
    }

    /// What an answer says of what is played: as times of the film, or of the wall clock.
    pub(super) fn range(&self, from: Duration, until: Option<Duration>, is_clock: bool) -> String {
        let end = until.or((!self.film.grows()).then(|| self.film.length()));
        // To the nearest millisecond.
        let rounded = |own: Duration| range::clock_text(own + Duration::from_micros(500));
        let clock = |npt: Duration| self.film.clock_at(npt).map(rounded).unwrap_or_default();
        match is_clock {
            true => format!("clock={}-{}", clock(from), end.map(clock).unwrap_or_default()),
            false => {
                let end = end.map(|own| format!("{:.3}", own.as_secs_f64())).unwrap_or_default();
                format!("npt={:.3}-{end}", from.as_secs_f64())
            }
        }
    }
}

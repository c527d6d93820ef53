//! Films of origins in the cache: a copy is asked first, and the origin for what it lacks. What an origin plays is
//! recorded, where it may be, so that others get it from the cache.
//!
//! The cache is asked as an origin is. It sends on what it has not (302), and says where it has no more of it.

use std::time::Duration;

use media_cache::FilmSource;
use wire::rtsp::message::{Request, Response};
use wire::rtsp::range::{self, Npt, Range};
use wire::rtsp::rtp_info;
use wire::sdp::Description;

use super::recovery::Recovery;
use super::request::Job;
use super::target::Target;
use super::track::{Track, TrackState};
use super::upstream::Upstream;
use super::world::World;
use super::{OriginId, Proxy, UpstreamId};
use crate::cache::copies::{self, ANY, HOST, Validators};
use crate::cache::recordings::{FilmPart, Recorded};
use crate::cache::seam::Rest;

/// Header fields with which the cache says what it has of a film.
pub const MODIFIED: &str = "Last-Modified";
/// (what its description says of its streams and length).
pub const DESCRIBED: &str = "X-Description";
/// Films that are counted before they are recorded.
const MOST_COUNTED: usize = 65_536;

/// A film of which there may be a copy.
#[derive(Debug)]
pub(super) struct Film {
    pub(super) key: String,
    /// Whether the copy is asked, or is played.
    pub(super) is_copy: bool,
    /// How much of it was served from the copy, as the log says it.
    pub(super) served: &'static str,
    /// Whether it has begun to be.
    is_counted: bool,
    /// What the origin is asked whether it is still true.
    asks: Option<Validators>,
    /// What recordings of it say; none where it may not be recorded.
    pub(super) source: Option<FilmSource>,
    /// Whether it was asked for often enough; none before it was counted.
    is_wanted: Option<bool>,
    /// It would be recorded, and another one is that plays the same part.
    pub(super) yields: bool,
    /// Whether tracks are asked for on the connection of the origin, and whether they may be.
    carried: (bool, bool),
}

impl Upstream {
    /// Whether it comes from a copy.
    pub(super) fn is_copy(&self) -> bool {
        self.film.as_ref().is_some_and(|own| own.is_copy)
    }

    /// What the origin is asked of the last change of what was recorded.
    pub(super) fn asks_since(&self) -> Option<&str> {
        let asks = self.film.as_ref().filter(|own| !own.is_copy)?.asks.as_ref()?;
        Some(asks.modified.as_str()).filter(|own| !own.is_empty())
    }

    /// It is asked for at the cache.
    pub(super) fn begin_copy(&mut self, target: &Target) {
        self.film = target.film.as_ref().map(|key| Film {
            key: key.clone(),
            is_copy: true,
            served: "hit",
            is_counted: false,
            asks: None,
            source: None,
            is_wanted: None,
            yields: false,
            carried: (self.carried, self.may_be_carried),
        });
        self.set_copy(true);
    }

    /// It comes from a copy, or from its origin, from now on.
    pub(super) fn set_copy(&mut self, is_copy: bool) {
        let Some(film) = &mut self.film else { return };
        film.is_copy = is_copy;
        (self.carried, self.may_be_carried) = if is_copy { (true, true) } else { film.carried };
    }
}

impl<W: World> Proxy<W> {
    /// Where a film is asked for first: its copy, where there may be one.
    pub(super) fn copy_of(&self, target: &Target) -> Option<String> {
        let key = target.film.as_ref().filter(|_| self.world.keeps_films())?;
        Some(copies::url(HOST, key))
    }

    /// Takes an answer that decides between the copy and the origin; else it is given back.
    pub(super) fn film_answered(&mut self, id: UpstreamId, job: Job, response: &Response) -> Option<Job> {
        let Some((film, had)) = self.upstreams.get_mut(&id).and_then(|own| {
            let described = own.description.is_some();
            Some((own.film.as_mut()?, described))
        }) else {
            return Some(job);
        };
        match (film.is_copy, &job, response.status) {
            (true, Job::Describe, 302) => {
                let asked = response.headers.get(DESCRIBED).map(|description| Validators {
                    modified: response.headers.get(MODIFIED).unwrap_or_default().to_owned(),
                    description: description.to_owned(),
                });
                self.ask_origin(id, asked);
                None
            }
            (true, Job::Play { waiter: Some((client, request, _)), .. }, 302) => {
                let waiter = (*client, request.clone());
                self.leave_copy(id, false, None, Some(waiter));
                None
            }
            (true, Job::Play { .. }, 200) => {
                if !std::mem::replace(&mut film.is_counted, true) {
                    self.counts.film_hits += 1;
                }
                Some(job)
            }
            // It is not there any more, or not for us.
            (false, Job::Describe, 400..=499) if film.asks.is_some() && response.status != 401 => {
                film.asks = None;
                let key = film.key.clone();
                self.world.forget_film(&key);
                Some(job)
            }
            (false, Job::Describe, 200 | 304) if film.asks.is_some() && !had => {
                let said = Description::parse(&response.body).ok();
                let said = said.map(|own| Validators::new(&own, response.headers.get(MODIFIED)));
                let asks = film.asks.take().unwrap_or_default();
                let (is_same, key) =
                    (response.status == 304 || said.is_some_and(|own| own.fits(&asks)), film.key.clone());
                if !is_same {
                    self.world.forget_film(&key);
                    return Some(job);
                }
                let expires = self.expires(response).unwrap_or_default();
                self.world.confirm_film(&key, expires);
                self.counts.film_revalidated += 1;
                self.ask_copy(id, "revalidated");
                None
            }
            _ => Some(job),
        }
    }

    /// The origin can't say whether what was recorded is still its film: that is served; false: there is none.
    pub(super) fn serve_unasked(&mut self, id: UpstreamId) -> bool {
        let Some(own) = self.upstreams.get_mut(&id).filter(|own| own.viewers.is_empty()) else { return false };
        let film = own.film.as_mut().filter(|own| !own.is_copy);
        if film.and_then(|own| own.asks.take()).is_none() {
            return false;
        }
        self.ask_copy(id, "hit");
        true
    }

    /// The cache has nothing of a film, or what its origin is to be asked about.
    fn ask_origin(&mut self, id: UpstreamId, asks: Option<Validators>) {
        let Some(presentation) = self.upstreams.get(&id).map(|own| own.presentation.clone()) else { return };
        let Some((server, url)) = self.place(&presentation, &[]) else {
            self.upstreams.get_mut(&id).into_iter().for_each(|own| own.set_copy(false));
            return self.fail_upstream(id, 503, "no server of its pool works");
        };
        self.counts.film_misses += u64::from(asks.is_none());
        self.counts_of(server, &url).asked += 1;
        if let Some(own) = self.upstreams.get_mut(&id) {
            own.set_copy(false);
            if let Some(film) = &mut own.film {
                (film.asks, film.served) = (asks, "miss");
            }
        }
        self.comes_from(id, server);
        self.ask_instead(id, url);
    }

    /// Its origin says that the copy is still true, or nothing at all.
    fn ask_copy(&mut self, id: UpstreamId, served: &'static str) {
        let Some(own) = self.upstreams.get_mut(&id) else { return };
        let Some(film) = &mut own.film else { return };
        film.served = served;
        let url = copies::url(ANY, &film.key);
        own.set_copy(true);
        self.comes_from(id, None);
        self.ask_instead(id, url);
    }

    /// The copy has no more of a film: it comes from its origin from now on, where it plays from there on, or with a
    /// request of its client's.
    fn leave_copy(
        &mut self,
        id: UpstreamId,
        plays: bool,
        rest: Option<&Rest>,
        waiter: Option<(super::ClientId, Request)>,
    ) {
        let now = self.now;
        let Some(own) = self.upstreams.get_mut(&id).filter(|own| own.is_copy()) else { return };
        own.waiting.extend(waiter);
        let (tracks, presentation) = (own.wanted_tracks(), own.presentation.clone());
        let Some((server, url)) = self.place(&presentation, &[]) else {
            self.upstreams.get_mut(&id).into_iter().for_each(|own| own.set_copy(false));
            return self.fail_upstream(id, 503, "no server of its pool works");
        };
        self.counts.film_partial += u64::from(plays);
        self.lose_origin(id);
        let Some(own) = self.upstreams.get_mut(&id) else { return };
        own.set_copy(false);
        rest.into_iter().for_each(|rest| own.go_on_with(rest));
        own.film.iter_mut().for_each(|film| {
            film.served = if film.is_counted { "partial" } else { "miss" };
        });
        own.recovery = Some(Recovery::moved(now, url.clone(), plays, tracks));
        self.ask_at(id, server, url);
    }

    /// A copy ends before its film does: its origin has the rest.
    pub fn copy_ended(&mut self, connection: OriginId, mut rest: Rest) {
        let Some(id) = self.connections.get(&connection).copied() else { return };
        if let Some(own) = self.upstreams.get_mut(&id).filter(|own| own.is_copy()) {
            for (track, tail) in std::mem::take(&mut rest.seam) {
                if let Some(of) = own.tracks.get_mut(track) {
                    of.tail = Some(tail);
                }
            }
            self.leave_copy(id, true, Some(&rest), None);
        }
    }

    /// A copy can't be had, or played on: its origin is asked; false: it is none.
    pub(super) fn copy_failed(&mut self, id: UpstreamId) -> bool {
        let Some(own) = self.upstreams.get(&id).filter(|own| own.is_copy()) else { return false };
        match own.viewers.is_empty() {
            true => self.ask_origin(id, None),
            false => self.leave_copy(id, own.is_to_play(), None, None),
        }
        true
    }

    /// Until when an answer says that a film may be served without a question (RFC 2326 sections 12.8 and 12.19), in
    /// microseconds since 1970; none where it may not be kept.
    fn expires(&mut self, response: &Response) -> Option<u64> {
        let settings = self.settings.cache.as_ref()?;
        let now = self.world.wall();
        let mut age = None;
        for own in response.headers.list("cache-control") {
            let (name, value) = own.split_once('=').unwrap_or((own, ""));
            match name.trim().to_ascii_lowercase().as_str() {
                "no-store" | "private" => return None,
                "no-cache" => age = Some(Duration::ZERO),
                "max-age" => age = age.or(value.trim().trim_matches('"').parse().ok().map(Duration::from_secs)),
                _ => {}
            }
        }
        let until = match (age, response.headers.get("expires")) {
            (Some(age), _) => now.saturating_add(age),
            // What is no time is one that is over.
            (None, Some(text)) => time(text).unwrap_or_default(),
            (None, None) => now.saturating_add(settings.films.fresh),
        };
        Some(u64::try_from(until.as_micros()).unwrap_or(u64::MAX))
    }

    /// An origin has described a film.
    pub(super) fn film_described(&mut self, id: UpstreamId, response: &Response, description: &Description) {
        let is_film = |own: &Upstream| !own.is_copy() && !own.is_proved() && !description.is_live();
        if !self.upstreams.get(&id).is_some_and(|own| own.film.is_some() && is_film(own)) {
            return;
        }
        let length = copies::length(description);
        let expires = self.expires(response).filter(|_| length.is_some());
        let modified = response.headers.get(MODIFIED).unwrap_or_default().trim().to_owned();
        let film = self.upstreams.get_mut(&id).and_then(|own| own.film.as_mut());
        film.into_iter().for_each(|own| {
            own.source = expires.map(|expires| FilmSource { position: 0, modified: modified.clone(), expires });
        });
    }

    /// An origin is asked to play a film: what comes is kept until it says from where on.
    pub(super) fn record_film(&mut self, id: UpstreamId, headers: &[(String, String)]) {
        self.end_film(id);
        let after = self.settings.cache.as_ref().map_or(1, |own| own.films.after);
        let Some(own) = self.upstreams.get_mut(&id).filter(|own| !own.live && !own.is_copy()) else { return };
        // Who has it records it.
        if own.is_of_sibling() {
            return;
        }
        let Some(film) = own.film.as_mut().filter(|own| own.source.is_some()) else { return };
        film.yields = false;
        let is_as_it_is = |(name, value): &(String, String)| match name.to_ascii_lowercase().as_str() {
            "scale" | "speed" => value.trim().parse() == Ok(1.0),
            _ => true,
        };
        if !headers.iter().all(is_as_it_is) {
            return;
        }
        let wanted = film.is_wanted.unwrap_or_else(|| {
            if self.film_counts.len() >= MOST_COUNTED {
                self.film_counts.clear();
            }
            let count = self.film_counts.entry(film.key.clone()).or_default();
            *count = count.saturating_add(1);
            *count >= after
        });
        film.is_wanted = Some(wanted);
        let is_there = |(_, track): &(usize, &mut Track)| wanted && track.state == TrackState::Ready;
        let mut recorded = Vec::new();
        for (at, track) in own.tracks.iter_mut().enumerate().filter(is_there) {
            track.audience.is_recorded = true;
            self.world.expect_recording(track.number);
            recorded.push(at);
        }
        recorded.into_iter().for_each(|track| self.update_flow(id, track));
    }

    /// It plays from a place on: that is recorded.
    pub(super) fn film_played(&mut self, id: UpstreamId, response: &Response) {
        let Some(own) = self.upstreams.get(&id).filter(|own| !own.live && own.is_recorded()) else { return };
        let said = response.headers.get("range").and_then(range::parse);
        let scale = response.headers.get("scale").map_or(Ok(1.0), |text| text.trim().parse());
        let (Some(Range::Npt { start: Npt::At(start), .. }), Ok(1.0)) = (said, scale) else { return self.end_film(id) };
        let infos = response.headers.get("rtp-info").map(rtp_info::parse).unwrap_or_default();
        let firsts: Vec<_> =
            infos.iter().enumerate().map(|(at, own)| (self.track_of(id, &own.url, at), own.seq)).collect();
        let Some((film, description)) = own.film.as_ref().zip(own.description.as_ref()) else { return };
        let Some(source) = &film.source else { return };
        if self.is_being_recorded(id, &film.key, start) {
            return self.yield_film(id);
        }
        let source = FilmSource { position: (start * 1e6) as u64, ..source.clone() };
        for (track, of) in own.tracks.iter().enumerate().filter(|(_, of)| of.audience.is_recorded) {
            let first = firsts.iter().find(|(own, _)| *own == Some(track)).and_then(|(_, seq)| *seq);
            let part = FilmPart { source: source.clone(), first };
            self.world.begin_recording(of.number, &Recorded { name: &film.key, description, track, film: Some(part) });
        }
    }

    /// Nothing more of a film is recorded.
    pub(super) fn end_film(&mut self, id: UpstreamId) {
        let Some(own) = self.upstreams.get_mut(&id).filter(|own| !own.live) else { return };
        let mut ended = Vec::new();
        for (at, track) in own.tracks.iter_mut().enumerate().filter(|(_, track)| track.audience.is_recorded) {
            track.audience.is_recorded = false;
            self.world.end_recording(track.number);
            ended.push(at);
        }
        ended.into_iter().for_each(|track| self.update_flow(id, track));
    }
}

/// A time since 1970 as HTTP has it (RFC 2326 section 12.19: `Tue, 15 Nov 1994 08:12:31 GMT`).
fn time(text: &str) -> Option<Duration> {
    let time = jiff::fmt::rfc2822::parse(text.trim()).ok()?.timestamp();
    Duration::try_from(time.as_duration()).ok()
}

//! Which parts of a film are recorded, where several play it at a time: each part once. Who begins where another one is
//! recorded yields to that; when it leaves, whoever comes next to where it has left is recorded from there on.

use std::collections::HashMap;
use std::time::Duration;

use media_cache::FilmSource;

use super::track::TrackState;
use super::upstream::Upstream;
use super::world::World;
use super::{Proxy, UpstreamId};
use crate::cache::recordings::{FilmPart, Recorded};

/// Seconds that the recording of a film may be behind the place where another viewer begins, who yields then.
const AHEAD: f64 = 5.0;
/// Seconds that two parts have in common at least, as where a film is in mid-stream is known by the clock alone.
const SEAM: f64 = 2.0;
/// Parts of a film that are remembered after those who recorded them have left.
const MOST_ENDED: usize = 64;

/// From where on a film is recorded, and how far, in seconds of its play time.
type Part = (f64, f64);

/// Those of a film.
#[derive(Debug)]
pub(super) struct Parts {
    /// What is being recorded,
    growing: HashMap<UpstreamId, Part>,
    /// and what was, since somebody began to play the film.
    ended: Vec<Part>,
}

impl Parts {
    /// What is recorded now.
    fn update(&mut self, growing: HashMap<UpstreamId, Part>) {
        let before = std::mem::replace(&mut self.growing, growing);
        let is_over = |(id, own): &(UpstreamId, Part)| self.growing.get(id).is_none_or(|now| now.0 != own.0);
        self.ended.extend(before.into_iter().filter(is_over).map(|(_, own)| own));
        let most = self.ended.len().saturating_sub(MOST_ENDED);
        self.ended.drain(..most);
    }

    /// Whether a place is in what another one records, or soon will, or in what was recorded.
    fn has(&self, id: UpstreamId, at: f64) -> bool {
        let mut growing = self.growing.iter().filter(|(other, _)| **other != id);
        growing.any(|(_, own)| is_near(*own, at)) || self.ended.iter().any(|own| own.0 <= at && at < own.1 - SEAM)
    }
}

/// Whether a part that is being recorded has a place, or soon will.
fn is_near(part: Part, at: f64) -> bool {
    part.0 <= at && at <= part.1 + AHEAD
}

impl<W: World> Proxy<W> {
    /// Whether another presentation is recorded that has passed a place of a film, or soon will.
    pub(super) fn is_being_recorded(&self, id: UpstreamId, key: &str, at: f64) -> bool {
        let others = self.upstreams.iter().filter(|(other, _)| **other != id);
        let of_film = others.filter(|(_, own)| own.film.as_ref().is_some_and(|own| own.key == key));
        let mut parts = of_film.filter_map(|(_, own)| own.recorded_part(self.now));
        parts.any(|part| is_near(part, at))
    }

    /// Another one is recorded in its place.
    pub(super) fn yield_film(&mut self, id: UpstreamId) {
        self.end_film(id);
        let film = self.upstreams.get_mut(&id).and_then(|own| own.film.as_mut());
        film.into_iter().for_each(|own| own.yields = true);
    }

    /// Ends recordings of films that have come to where others began, which have what follows; and begins those of who
    /// has come to where others have left.
    pub(super) fn films_tick(&mut self) {
        let mut growing: HashMap<&str, HashMap<UpstreamId, Part>> = HashMap::new();
        for (id, own) in self.upstreams.iter().filter(|(_, own)| !own.live) {
            let Some(film) = &own.film else { continue };
            let all = growing.entry(&film.key).or_default();
            own.recorded_part(self.now).into_iter().for_each(|part| _ = all.insert(*id, part));
        }
        self.film_parts.retain(|key, _| growing.contains_key(key.as_str()));
        let mut over = Vec::new();
        for (key, parts) in growing {
            let mut sorted: Vec<(UpstreamId, Part)> = parts.iter().map(|(id, part)| (*id, *part)).collect();
            sorted.sort_by(|a, b| a.1.0.total_cmp(&b.1.0));
            over.extend(sorted.windows(2).filter(|two| two[0].1.1 >= two[1].1.0).map(|two| two[0].0));
            match self.film_parts.get_mut(key) {
                Some(own) => own.update(parts),
                // There is nothing to remember.
                None if parts.is_empty() => {}
                None => _ = self.film_parts.insert(key.to_owned(), Parts { growing: parts, ended: Vec::new() }),
            }
        }
        over.into_iter().for_each(|id| self.yield_film(id));
        let begins = |(id, own): (&UpstreamId, &Upstream)| {
            let film = own.film.as_ref().filter(|film| film.yields && own.playing && !own.is_copy())?;
            let at = own.played(self.now).1;
            let has = self.film_parts.get(&film.key).is_some_and(|parts| parts.has(*id, at));
            (!has).then_some((*id, at))
        };
        let mut begin: Vec<(UpstreamId, f64)> = self.upstreams.iter().filter_map(begins).collect();
        // Of several the one that is ahead.
        begin.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        begin.into_iter().for_each(|(id, at)| self.record_from(id, at));
    }

    /// Records a film that plays, from where it is on. Nobody else is recorded there.
    fn record_from(&mut self, id: UpstreamId, at: f64) {
        // Another one may just have begun.
        let key = self.upstreams.get(&id).and_then(|own| own.film.as_ref()).map(|own| own.key.clone());
        if key.is_none_or(|key| self.is_being_recorded(id, &key, at)) {
            return;
        }
        let Some(own) = self.upstreams.get_mut(&id) else { return };
        let (Some(film), Some(description)) = (&mut own.film, &own.description) else { return };
        let Some(source) = &film.source else { return };
        film.yields = false;
        let source = FilmSource { position: (at * 1e6) as u64, ..source.clone() };
        let mut recorded = Vec::new();
        for (track, of) in own.tracks.iter_mut().enumerate().filter(|(_, of)| of.state == TrackState::Ready) {
            let part = FilmPart { source: source.clone(), first: None };
            let what = Recorded { name: &film.key, description, track, film: Some(part) };
            of.audience.is_recorded = self.world.begin_recording(of.number, &what);
            recorded.push(track);
        }
        recorded.into_iter().for_each(|track| self.update_flow(id, track));
    }
}

impl Upstream {
    /// Whether a track of it is recorded.
    pub(super) fn is_recorded(&self) -> bool {
        self.tracks.iter().any(|track| track.audience.is_recorded)
    }

    /// The part of a film that is recorded of it.
    fn recorded_part(&self, now: Duration) -> Option<Part> {
        let is_played = !self.live && self.playing && !self.is_copy() && self.is_recorded();
        is_played.then(|| self.played(now))
    }
}

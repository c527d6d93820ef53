//! A failed origin is replaced in mid-stream: by another one of its pool, or by itself when it is there again. Sessions
//! stay, and their sources and numbers go on where they ended (RFC 2326 appendix B).

use std::time::Duration;

use serde::{Deserialize, Serialize};
use wire::rtp;
use wire::rtsp::message::{Request, Response};
use wire::rtsp::range::{self, Npt, Range};
use wire::sdp::Description;

use super::request::Job;
use super::track::{Track, TrackState};
use super::upstream::Upstream;
use super::world::World;
use super::{ClientId, Proxy, UpstreamId, ordered, pause};
use crate::cache::seam::{Place, Rest};
use crate::pools::ServerId;

/// Until all origins are tried again, after the first time; each further time it is twice as long,
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// up to this. Of each pause up to half is left out at random, so that not all streams come back at once.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
/// Streams that have their origins replaced at a time: when a server with many of them fails, others are not flooded.
const MOST_UNDER_WAY: usize = 64;
/// An origin that is lost so soon is one more try, and no new beginning: else two bad ones would be tried by turns.
const STABLE: Duration = Duration::from_secs(10);

/// How a presentation gets another origin.
#[derive(Debug)]
pub(super) struct Recovery {
    /// When it lost the first one.
    since: Duration,
    /// Servers that were tried since the last pause.
    tried: Vec<ServerId>,
    /// Pauses so far.
    pauses: u32,
    step: Step,
    /// Where the origin has sent it: it is asked for there first.
    to: Option<String>,
    /// Whether it is to play again.
    plays: bool,
    /// The tracks that there were.
    tracks: Vec<usize>,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It is asked for from then on.
    Waits(Duration),
    /// It is asked for.
    Asks,
    /// It has come to its end, then.
    Done(Duration),
}

impl Recovery {
    /// One that begins with the place where the origin has sent it.
    pub(super) fn moved(now: Duration, to: String, plays: bool, tracks: Vec<usize>) -> Recovery {
        let (tried, step, to) = (Vec::new(), Step::Waits(now), Some(to));
        Recovery { since: now, tried, pauses: 0, step, to, plays, tracks }
    }

    /// Whether it is over, and its origin was not lost at once.
    pub(super) fn is_stable(&self, now: Duration) -> bool {
        matches!(self.step, Step::Done(then) if now.saturating_sub(then) > STABLE)
    }

    /// Whether it is to play again, and the tracks that there were, as long as it is under way.
    pub(super) fn wanted(&self) -> Option<(bool, &[usize])> {
        (!matches!(self.step, Step::Done(_))).then_some((self.plays, &self.tracks))
    }

    /// Whether nothing is asked at the moment.
    pub(super) fn waits(&self) -> bool {
        matches!(self.step, Step::Waits(_))
    }
}

/// How far a presentation with an end was when the origin began to play it, or had paused it.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Position {
    /// Seconds of its normal play time.
    npt: f64,
    /// Seconds of it in a second.
    scale: f64,
    /// The origin does not know it: it is another one than that which paused.
    is_lost: bool,
    /// Where it is to end, where it goes on elsewhere.
    #[serde(default)]
    until: Option<f64>,
}

impl Upstream {
    /// Whether it has no origin at the moment, and gets another one.
    pub(super) fn is_recovering(&self) -> bool {
        self.recovery.as_ref().is_some_and(|own| !matches!(own.step, Step::Done(_)))
    }

    /// Whether an origin that takes the place of this one is to play it.
    pub(super) fn is_to_play(&self) -> bool {
        let recovery = self.recovery.as_ref().filter(|_| self.is_recovering());
        self.playing || recovery.is_some_and(|own| own.plays)
    }

    /// The tracks that one must give: those that this one gives, or is asked for.
    pub(super) fn wanted_tracks(&self) -> Vec<usize> {
        let is_there = |(_, track): &(usize, &Track)| matches!(track.state, TrackState::Asked | TrackState::Ready);
        let mut tracks: Vec<usize> = self.tracks.iter().enumerate().filter(is_there).map(|(at, _)| at).collect();
        tracks.extend(self.recovery.iter().filter(|_| self.is_recovering()).flat_map(|own| &own.tracks));
        tracks.sort_unstable();
        tracks.dedup();
        tracks
    }

    /// The origin plays it from now on.
    pub(super) fn begin_to_play(&mut self, answer: &Response, now: Duration) {
        self.note_position(answer, now);
        (self.playing, self.played_at, self.position.is_lost) = (true, now, false);
        self.position.until = None;
        let scale = answer.headers.get("scale").and_then(|text| text.trim().parse().ok());
        self.position.scale = scale.filter(|own: &f64| own.is_finite()).unwrap_or(1.0);
    }

    /// The origin has paused it.
    pub(super) fn pause(&mut self, answer: &Response, now: Duration) {
        self.note_position(answer, now);
        self.playing = false;
    }

    fn note_position(&mut self, answer: &Response, now: Duration) {
        if self.playing {
            self.position.npt += now.saturating_sub(self.played_at).as_secs_f64() * self.position.scale;
            self.played_at = now;
        }
        if let Some(Range::Npt { start: Npt::At(start), .. }) = answer.headers.get("range").and_then(range::parse) {
            self.position.npt = start;
        }
    }

    /// Where it began to play, and where it is by now, in seconds of its play time.
    pub(super) fn played(&self, now: Duration) -> (f64, f64) {
        let Position { npt, scale, .. } = self.position;
        (npt, npt + now.saturating_sub(self.played_at).as_secs_f64() * scale)
    }

    /// It goes on elsewhere with what a copy has not.
    pub(super) fn go_on_with(&mut self, rest: &Rest) {
        let position = &mut self.position;
        (position.npt, position.scale) = (rest.from.as_secs_f64(), rest.scale.into());
        position.until = rest.until.map(|own| own.as_secs_f64());
    }

    /// Where it is to be played from, where the origin does not know that.
    pub(super) fn lost_position(&self) -> Option<(String, String)> {
        let until = self.position.until.map_or(String::new(), |until| format!("{until:.3}"));
        (self.position.is_lost && !self.live).then(|| ("Range".into(), format!("npt={:.3}-{until}", self.position.npt)))
    }
}

impl<W: World> Proxy<W> {
    /// Has a presentation come from another origin; false: there is none, or nobody wants it.
    pub(super) fn replace_origin(&mut self, id: UpstreamId) -> bool {
        let (now, retry) = (self.now, self.settings.timeouts.retry);
        let Some(own) = self.upstreams.get(&id) else { return false };
        // Who is not asked can't be asked again.
        if !own.is_wanted() || own.source.is_some() {
            return false;
        }
        let recovery = own.recovery.as_ref();
        let (plays, tracks) = (own.is_to_play(), own.wanted_tracks());
        let more = recovery.filter(|own| !own.is_stable(now));
        let (since, mut tried, mut pauses) =
            more.map_or((now, Vec::new(), 0), |own| (own.since, own.tried.clone(), own.pauses));
        tried.extend(own.server);
        let presentation = own.presentation.clone();
        // What nobody has got anything of yet may be asked for again by who wants it. What has an end is at a place
        // that only a pool's configuration says others have, too.
        let again = match &presentation.pool {
            Some(_) => !tracks.is_empty(),
            // That the origin has forgotten a session need not be its fault.
            None => (own.live && plays) || own.taken_up.is_some_and(|then| now.saturating_sub(then) < STABLE),
        };
        // There is one origin alone where there is no pool: others are asked behind peers.
        let has_more = presentation.pool.is_some() || own.peer.is_some();
        let place = if has_more { self.place(&presentation, &tried) } else { None };
        if place.is_none() {
            if !again || now.saturating_sub(since) >= retry {
                return false;
            }
            tried.clear();
        }
        let step = match place {
            Some(_) if self.may_ask() => Step::Asks,
            Some(_) => Step::Waits(now),
            None => {
                let pause = pause::after(pauses, FIRST_PAUSE, LONGEST_PAUSE);
                pauses += 1;
                Step::Waits(
                    now + pause / 2 + (pause / 2).mul_f64((self.world.random() >> 11) as f64 / (1u64 << 53) as f64),
                )
            }
        };
        self.lose_origin(id);
        if let Some(own) = self.upstreams.get_mut(&id) {
            own.recovery = Some(Recovery { since, tried, pauses, step, to: None, plays, tracks });
        }
        if let (Step::Asks, Some((server, url))) = (step, place) {
            self.ask_at(id, server, url);
        }
        true
    }

    /// Whether one more may be asked for.
    pub(super) fn may_ask(&self) -> bool {
        self.under_way() < MOST_UNDER_WAY
    }

    fn under_way(&self) -> usize {
        let asks = |own: &&Upstream| own.recovery.as_ref().is_some_and(|own| own.step == Step::Asks);
        self.upstreams.values().filter(asks).count()
    }

    /// A presentation has lost its origin: what is left is what its clients have.
    pub(super) fn lose_origin(&mut self, id: UpstreamId) {
        let now = self.now;
        let clock = self.world.clock();
        let Some(mut own) = self.upstreams.remove(&id) else { return };
        // Without a connection the origin can't be told.
        if !self.connections.contains_key(&own.connection) {
            own.session = None;
        }
        self.close_accounts(&own);
        self.leave_origin(&mut own);
        let mut quiet: Option<u64> = None;
        for track in own.tracks.iter_mut().filter(|track| track.state != TrackState::New) {
            let progress = self.world.progress(track.number);
            self.scatter(track.number, &mut track.audience);
            track.state = TrackState::New;
            if track.before.is_none() && progress.seen != 0 {
                let since = clock.saturating_sub(progress.heard);
                quiet = Some(quiet.map_or(since, |own| own.min(since)));
                track.before = Some(track.number);
            } else {
                self.free_tracks.push_back(track.number);
            }
        }
        if own.playing {
            let played = now.saturating_sub(own.played_at).saturating_sub(Duration::from_nanos(quiet.unwrap_or(0)));
            own.position.npt += played.as_secs_f64() * own.position.scale;
        }
        own.position.is_lost = true;
        own.playing = false;
        (own.addresses, own.connected) = (None, false);
        own.session = None;
        own.auth = None;
        own.redirects = 0;
        // Clients' requests are served once more when there is an origin.
        let jobs = own.asked.take().map(|(_, _, job, _)| job).into_iter().chain(std::mem::take(&mut own.queue));
        let requests = jobs.filter_map(Job::into_waiter).map(|(client, request, _)| (client, request));
        own.waiting.extend(requests.collect::<Vec<_>>());
        self.upstreams.insert(id, own);
        self.touch_stream(id);
    }

    /// Asks for a presentation that has lost its origin.
    pub(super) fn ask_at(&mut self, id: UpstreamId, server: Option<ServerId>, url: String) {
        let connection = self.new_id();
        self.counts_of(server, &url).asked += 1;
        let Some(own) = self.upstreams.get_mut(&id) else { return };
        tracing::warn!(origin = %url, lost = %own.url, "a stream is asked for once more");
        own.recovery.iter_mut().for_each(|own| (own.step, own.to) = (Step::Asks, None));
        // What a copy has not, its origin has.
        own.set_copy(false);
        own.base.clone_from(&url);
        own.url = url;
        own.timeout = Duration::from_secs(60);
        own.knows_parameter = false;
        own.queue.extend([Job::Options, Job::Describe]);
        self.comes_from(id, server);
        self.connect(id, connection);
    }

    /// Asks for it when its pause is over.
    pub(super) fn recovery_tick(&mut self, id: UpstreamId) {
        let Some(own) = self.upstreams.get(&id) else { return };
        let Some(recovery) = &own.recovery else { return };
        if !own.is_wanted() {
            return self.end_upstream(id);
        }
        if matches!(recovery.step, Step::Waits(until) if until > self.now) || !self.may_ask() {
            return;
        }
        let (presentation, tried) = (own.presentation.clone(), recovery.tried.clone());
        if let Some(url) = recovery.to.clone() {
            return self.ask_at(id, None, url);
        }
        match self.place(&presentation, &tried) {
            Some((server, url)) => self.ask_at(id, server, url),
            // None of its pool works: it is seen again after the next pause.
            None if !self.replace_origin(id) => self.give_up(id, 503),
            None => {}
        }
    }

    /// The description that another origin gives: what clients have must go on to be true.
    pub(super) fn described_again(
        &mut self,
        id: UpstreamId,
        before: &Description,
        description: Description,
        tracks: Vec<Track>,
    ) {
        let Some(own) = self.upstreams.get_mut(&id) else { return };
        let Some(recovery) = &own.recovery else { return };
        let (plays, wanted) = (recovery.plays, recovery.tracks.clone());
        let fits = description.media() == before.media()
            && wanted.iter().all(|track| description.has_format_of(before, *track));
        if !fits {
            own.description = Some(before.clone());
            return self.fail_upstream(id, 502, "its description is that of another stream");
        }
        for (track, new) in own.tracks.iter_mut().zip(tracks) {
            let (before, tail) = (track.before, track.tail.take());
            *track = Track { before, tail, audience: std::mem::take(&mut track.audience), ..new };
        }
        own.description = Some(description);
        let scale = own.position.scale;
        for track in wanted {
            if let Err(status) = self.setup_at_origin(id, track) {
                return self.fail_upstream(id, status, "there are no own ports for its tracks");
            }
        }
        if plays {
            let mut headers: Vec<_> = self.upstreams.get(&id).and_then(Upstream::lost_position).into_iter().collect();
            if !headers.is_empty() && scale != 1.0 {
                headers.push(("Scale".into(), scale.to_string()));
            }
            return self.ask(id, Job::Play { headers, waiter: None });
        }
        self.ask_next(id);
    }

    /// Nothing more is to be asked: where a presentation had lost its origin, it has another one.
    pub(super) fn recovered(&mut self, id: UpstreamId) {
        let now = self.now;
        let Some(own) = self.upstreams.get_mut(&id).filter(|own| own.is_recovering()) else { return };
        let Some(recovery) = &mut own.recovery else { return };
        recovery.step = Step::Done(now);
        self.records.streams.insert(id);
        if !recovery.tracks.is_empty() {
            tracing::warn!(origin = %own.url, "the stream goes on");
            self.counts.replaced += 1;
        }
        self.open_accounts(id);
        self.update_flows(id);
        self.serve_waiting(id);
    }

    /// Whether the first packet of a track's present origin has not come yet.
    pub(super) fn is_pending(&self, id: UpstreamId, track: usize) -> bool {
        self.upstreams.get(&id).and_then(|own| own.tracks.get(track)).is_some_and(|own| own.before.is_some())
    }

    /// A packet of a track has come, which may be the first from another origin. False: that sends again what was sent
    /// before.
    pub(super) fn resume(&mut self, id: UpstreamId, track: usize, packet: &[u8], header: rtp::Header) -> bool {
        let of = self.upstreams.get_mut(&id).and_then(|own| own.tracks.get_mut(track));
        let Some(of) = of.filter(|own| own.before.is_some()) else { return true };
        let place = of.tail.as_mut().map_or(Place::Unknown, |tail| tail.place(packet));
        match place {
            Place::Sent => self.counts.film_repeated += 1,
            _ => self.resume_at(id, track, header, place),
        }
        place != Place::Sent
    }

    /// The first packet of a track has come from another origin: its numbers become those that follow.
    pub(super) fn resume_at(&mut self, id: UpstreamId, track: usize, first: rtp::Header, place: Place) {
        let Some(own) = self.upstreams.get_mut(&id) else { return };
        let Some(of) = own.tracks.get_mut(track) else { return };
        let Some(before) = of.before.take() else { return };
        of.tail = None;
        of.audience.late.generation += 1;
        of.known_since = of.audience.late.generation;
        self.records.streams.insert(id);
        let (progress, clock) = (self.world.progress(before), self.world.clock());
        let gap = u128::from(clock.saturating_sub(progress.heard)) * u128::from(of.rate) / 1_000_000_000;
        let next = (progress.highest as u16).wrapping_add(1);
        let sequence = next.wrapping_sub(first.sequence);
        let timestamp = match place {
            Place::Next(offset) => offset,
            _ => progress.timestamp.wrapping_add(gap as u32).wrapping_sub(first.timestamp),
        };
        let sessions = ordered(&own.viewers);
        for session in &sessions {
            let viewer = self.sessions.get_mut(session).and_then(|own| own.viewers.get_mut(track));
            let Some(viewer) = viewer else { continue };
            viewer.rewrite.sequence = viewer.rewrite.sequence.wrapping_add(sequence);
            viewer.rewrite.timestamp = viewer.rewrite.timestamp.wrapping_add(timestamp);
        }
        self.free_tracks.push_back(before);
        // Before the flow leads to somebody, its numbers are known.
        sessions.into_iter().for_each(|session| self.update_viewer(id, session, track));
        self.update_flow(id, track);
    }

    /// Has a request about a session wait where its origin has none; false: it need not.
    pub(super) fn waits_for_origin(&mut self, id: ClientId, request: &Request) -> bool {
        let of_origin = match request.method.as_str() {
            "PLAY" | "PAUSE" => true,
            "GET_PARAMETER" | "SET_PARAMETER" => !request.body.is_empty(),
            _ => false,
        };
        if !of_origin {
            return false;
        }
        let Ok(session) = self.session_of(id, request) else { return false };
        let upstream = self.sessions.get(&session).and_then(|own| self.upstreams.get_mut(&own.upstream));
        // What is shared goes on without the one that pauses.
        let Some(own) = upstream.filter(|own| own.is_recovering() && !own.live) else { return false };
        own.waiting.push((id, request.clone()));
        true
    }

    /// A live stream of which nothing comes any more has lost its origin. One that has not begun may be one that has
    /// nothing to send yet, unless others are there to be asked.
    pub(super) fn notice_silence(&mut self, id: UpstreamId) {
        let limit = self.settings.timeouts.silence;
        let clock = self.world.clock();
        let Some(own) = self.upstreams.get(&id).filter(|own| own.live && own.playing && !limit.is_zero()) else {
            return;
        };
        // What was taken up has its time from then on: nobody has counted its packets meanwhile.
        let since = own.played_at.max(own.taken_up.unwrap_or_default());
        let (mut quiet, mut begun) = (self.now.saturating_sub(since), own.presentation.pool.is_some());
        for track in own.tracks.iter().filter(|track| track.state == TrackState::Ready) {
            let progress = self.world.progress(track.number);
            if progress.seen != 0 {
                (quiet, begun) = (quiet.min(Duration::from_nanos(clock.saturating_sub(progress.heard))), true);
            }
            if let Some((_, at)) = track.report {
                (quiet, begun) = (quiet.min(self.now.saturating_sub(at)), true);
            }
        }
        if begun && quiet >= limit {
            self.fail_upstream(id, 504, &format!("nothing has come for {} s", limit.as_secs()));
        }
    }
}

//! A presentation at its origin: one connection, requests one after the other, one session.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use http_auth::PasswordClient;
use wire::rtsp::message::Request;
use wire::rtsp::url::{self, Url};
use wire::sdp::Description;

use super::film::Film;
use super::forward::Proofs;
use super::peers::Peer;
use super::recovery::{Position, Recovery};
use super::request::Job;
use super::session::Ending;
use super::source::Source;
use super::target::{Presentation, Target};
use super::track::{Track, TrackState};
use super::world::{Effect, World};
use super::{ClientId, OriginId, Proxy, SessionId, UpstreamId};
use crate::pools::ServerId;

/// How long a description is kept that nobody has asked a stream of.
pub(super) const UNUSED: Duration = Duration::from_secs(10);

/// A presentation at its origin.
pub(super) struct Upstream {
    pub(super) presentation: Presentation,
    /// The name by which it is recorded, where it is to be.
    pub(super) recorded_as: Option<String>,
    /// What is known of its copy in the cache, where it may have one.
    pub(super) film: Option<Film>,
    /// Whether it is recorded without viewers, too.
    pub(super) always: bool,
    /// The server of its pool that it comes from.
    pub(super) server: Option<ServerId>,
    /// What that is, where it is a peer.
    pub(super) peer: Option<Peer>,
    /// Its URL, after redirections.
    pub(super) url: String,
    /// Whether it has no end, as the configuration or its description says.
    pub(super) live: bool,
    pub(super) forced_live: Option<bool>,
    pub(super) connection: OriginId,
    /// Own address and the origin's, once connected.
    pub(super) addresses: Option<(SocketAddr, SocketAddr)>,
    /// Whether the connection is there.
    pub(super) connected: bool,
    pub(super) cseq: u32,
    /// What is asked: its number, when it was sent, and how often a password was tried.
    pub(super) asked: Option<(u32, Duration, Job, u32)>,
    pub(super) queue: VecDeque<Job>,
    /// The session's id there.
    pub(super) session: Option<String>,
    /// The session's timeout there.
    pub(super) timeout: Duration,
    /// Whether the origin says that it knows GET_PARAMETER.
    pub(super) knows_parameter: bool,
    pub(super) auth: Option<PasswordClient>,
    /// What its client says to the origin of who it is.
    pub(super) proofs: Proofs,
    pub(super) redirects: u32,
    /// The proxies through which it was asked for first, as `Via` has them.
    pub(super) via: Option<String>,
    /// What relative URLs of the description are seen from.
    pub(super) base: String,
    pub(super) description: Option<Description>,
    pub(super) tracks: Vec<Track>,
    /// Its sessions.
    pub(super) viewers: BTreeSet<SessionId>,
    /// Requests of clients that are served when it has got further.
    pub(super) waiting: Vec<(ClientId, Request)>,
    /// Whether tracks are asked for on the connection, and whether they may be.
    pub(super) carried: bool,
    pub(super) may_be_carried: bool,
    /// Its source, where that has no RTSP.
    pub(super) source: Option<Source>,
    /// Whether its origin is to send it to a group.
    pub(super) multicast: bool,
    /// The client that publishes it, in place of an origin.
    pub(super) publisher: Option<ClientId>,
    /// Whether the origin plays it,
    pub(super) playing: bool,
    /// since when,
    pub(super) played_at: Duration,
    /// and how far it was then, where it has an end.
    pub(super) position: Position,
    /// What is under way, or was last, to have another origin for it.
    pub(super) recovery: Option<Recovery>,
    /// When it was used or asked last.
    pub(super) used: Duration,
    pub(super) since: Duration,
    /// When it was taken up from a process before, if it was.
    pub(super) taken_up: Option<Duration>,
}

impl Upstream {
    /// One of which nothing is known yet but where it comes from: a server of its pool, or none, and the URL there.
    pub(super) fn new(
        target: &Target,
        (server, url): (Option<ServerId>, String),
        connection: OriginId,
        now: Duration,
    ) -> Upstream {
        Upstream {
            presentation: target.presentation.clone(),
            recorded_as: target.recorded_as.clone(),
            film: None,
            always: false,
            server,
            peer: None,
            base: url.clone(),
            url,
            live: target.live.unwrap_or(true),
            forced_live: target.live,
            connection,
            addresses: None,
            connected: false,
            cseq: 0,
            asked: None,
            queue: VecDeque::from([Job::Options, Job::Describe]),
            session: None,
            timeout: Duration::from_secs(60),
            knows_parameter: false,
            auth: None,
            proofs: Proofs::default(),
            redirects: 0,
            via: target.via.clone(),
            description: None,
            tracks: Vec::new(),
            viewers: BTreeSet::new(),
            waiting: Vec::new(),
            playing: false,
            carried: target.carried == Some(true),
            may_be_carried: target.carried != Some(false),
            source: None,
            multicast: target.multicast,
            publisher: None,
            played_at: Duration::ZERO,
            position: Position::default(),
            recovery: None,
            used: now,
            since: now,
            taken_up: None,
        }
    }

    /// Whether anybody wants it: sessions, those who wait for some, or a recording.
    pub(super) fn is_wanted(&self) -> bool {
        self.always || !self.viewers.is_empty() || !self.waiting.is_empty()
    }

    /// Whether PLAY is on its way.
    pub(super) fn is_asked_to_play(&self) -> bool {
        let asked = self.asked.iter().map(|(_, _, job, _)| job);
        self.is_recovering() || asked.chain(&self.queue).any(|job| matches!(job, Job::Play { .. }))
    }
}

impl<W: World> Proxy<W> {
    /// Begins to ask an origin for a presentation; `Err` with the status where its pool has none that works.
    pub(super) fn new_upstream(&mut self, target: &Target) -> Result<UpstreamId, u16> {
        if let Some(plain) = &target.plain {
            return self.open_source(target, plain);
        }
        let copy = self.copy_of(target);
        let is_copy = copy.is_some();
        let place = copy.map(|url| (None, url)).or_else(|| self.place(&target.presentation, &[]));
        let (server, url) = place.ok_or(503u16)?;
        let (id, connection) = (self.new_id(), self.new_id());
        let mut upstream = Upstream::new(target, (server, url), connection, self.now);
        self.counts.upstreams += 1;
        if is_copy {
            upstream.begin_copy(target);
        } else {
            self.counts_of(server, &upstream.url).asked += 1;
        }
        self.upstreams.insert(id, upstream);
        self.comes_from(id, server);
        self.connect(id, connection);
        Ok(id)
    }

    /// Connects to the host of a presentation's URL.
    pub(super) fn connect(&mut self, id: UpstreamId, connection: OriginId) {
        if let Some(own) = self.upstreams.get_mut(&id) {
            own.addresses = None;
        }
        self.connect_again(id, connection);
    }

    /// The same where its own ports stay.
    pub(super) fn connect_again(&mut self, id: UpstreamId, connection: OriginId) {
        let Some(own) = self.upstreams.get_mut(&id) else { return };
        (own.connection, own.connected) = (connection, false);
        own.used = self.now;
        // The URL was read before it came here.
        let Some((host, port)) = Url::parse(&own.url).map(|url| (url.host.to_owned(), url.port())) else { return };
        self.connections.insert(connection, id);
        self.effect(Effect::Connect { id: connection, host, port });
    }

    /// Asks an origin for something, behind what was asked before.
    pub(super) fn ask(&mut self, id: UpstreamId, job: Job) {
        if let Some(own) = self.upstreams.get_mut(&id) {
            own.queue.push_back(job);
        }
        self.ask_next(id);
    }

    /// Sends the next request, unless one is on its way.
    pub(super) fn ask_next(&mut self, id: UpstreamId) {
        let Some(own) = self.upstreams.get_mut(&id) else { return };
        if own.asked.is_some() || !own.connected {
            return;
        }
        match own.queue.pop_front() {
            Some(job) => self.send(id, job, 0),
            None => self.recovered(id),
        }
    }

    /// Sends a request, with a password for the `tries`-th time.
    pub(super) fn send(&mut self, id: UpstreamId, job: Job, tries: u32) {
        if let Job::Play { headers, .. } = &job {
            self.record_film(id, headers);
        }
        let Some(own) = self.upstreams.get_mut(&id) else { return };
        let request = own.request(&job, &self.pseudonym);
        own.asked = Some((own.cseq, self.now, job, tries));
        own.used = self.now;
        let connection = own.connection;
        self.effect(Effect::ToOrigin(connection, request.to_bytes()));
    }

    /// Serves the requests once more that wait for a presentation.
    pub(super) fn serve_waiting(&mut self, id: UpstreamId) {
        let Some(own) = self.upstreams.get_mut(&id).filter(|own| !own.is_recovering()) else { return };
        for (client, request) in std::mem::take(&mut own.waiting) {
            self.serve(client, request);
        }
    }

    /// The origin can't be had, or does not do what it must: another one takes its place, if there is one.
    pub(super) fn fail_upstream(&mut self, id: UpstreamId, status: u16, why: &str) {
        let Some(own) = self.upstreams.get_mut(&id) else { return };
        tracing::warn!(origin = %url::shown(&own.url), "{why}");
        if self.copy_failed(id) || (status >= 500 && self.serve_unasked(id)) {
            return;
        }
        let Some(own) = self.upstreams.get_mut(&id) else { return };
        self.counts.failed += 1;
        let (server, url) = (own.server, own.url.clone());
        let origin = self.counts_of(server, &url);
        origin.failed += 1;
        origin.last_error = why.to_owned();
        // A client that publishes comes back as another one.
        let publisher = self.upstreams.get(&id).and_then(|own| own.publisher);
        if publisher.is_some() || !self.replace_origin(id) {
            self.give_up(id, status);
        }
    }

    /// A presentation that has no origin ends: whoever waits is told, and sessions end.
    pub(super) fn give_up(&mut self, id: UpstreamId, status: u16) {
        let Some(own) = self.upstreams.get_mut(&id) else { return };
        // It is said nothing more, and nobody joins it.
        own.session = None;
        let mut waiting = std::mem::take(&mut own.waiting);
        let jobs = own.asked.take().map(|(_, _, job, _)| job).into_iter().chain(std::mem::take(&mut own.queue));
        waiting.extend(jobs.filter_map(Job::into_waiter).map(|(client, request, _)| (client, request)));
        let sessions = super::ordered(&own.viewers);
        self.forget_joinable(id);
        sessions.into_iter().for_each(|session| self.cut_session(session, Ending::OriginLost));
        self.end_upstream(id);
        for (client, request) in waiting {
            self.refuse(client, &request, status);
        }
    }

    /// Nobody joins it any more.
    pub(super) fn forget_joinable(&mut self, id: UpstreamId) {
        if let Some(own) = self.upstreams.get(&id)
            && self.joinable.get(&own.presentation) == Some(&id)
        {
            self.joinable.remove(&own.presentation);
        }
    }

    /// Ends a presentation: at the origin, and its flows and ports here.
    pub(super) fn end_upstream(&mut self, id: UpstreamId) {
        self.forget_joinable(id);
        let Some(mut own) = self.upstreams.remove(&id) else { return };
        self.touch_stream(id);
        self.leave_origin(&mut own);
        for track in &mut own.tracks {
            self.dismiss(track.number, &mut track.audience);
            self.free_tracks.extend(track.before);
            if track.state != TrackState::New {
                self.free_tracks.push_back(track.number);
            }
        }
        for (client, request) in own.waiting {
            self.refuse(client, &request, 503);
        }
    }

    /// Leaves the origin of a presentation: its flows and ports end, and it is told, if it is still known there.
    pub(super) fn leave_origin(&mut self, own: &mut Upstream) {
        self.connections.remove(&own.connection);
        if own.session.is_some() && own.addresses.is_some() {
            self.say_bye_upstream(own);
            let control = own.description.as_ref().map_or(own.url.clone(), |all| all.control(&own.base));
            let mut request = Request::new("TEARDOWN", &own.proved_url("TEARDOWN").unwrap_or(control));
            own.finish(&mut request, &self.pseudonym);
            self.effect(Effect::ToOrigin(own.connection, request.to_bytes()));
        }
        for track in own.tracks.iter_mut().filter(|track| track.state != TrackState::New) {
            track.key.take().into_iter().for_each(|key| self.effects.push_back(Effect::RemoveFlow(key)));
            self.tracks.remove(&track.number);
            let address = track.listens.take().or(own.addresses.map(|(local, _)| local.ip()));
            match address {
                // Whoever waits may be the next one that wants it, and nothing is sent from there.
                Some(address) if own.source.is_some() => {
                    self.pairs.remove(&(address, track.port));
                    self.world.leave(address, track.port);
                }
                Some(address) => self.release_pair(address, track.port),
                None => {}
            }
        }
        self.effect(Effect::CloseOrigin(own.connection));
    }

    pub(super) fn upstream_tick(&mut self, id: UpstreamId) {
        self.pass_endings(id);
        self.record_again(id);
        let Some(own) = self.upstreams.get(&id) else { return };
        if let Some(publisher) = own.publisher {
            return self.publisher_tick(publisher, id);
        }
        if own.source.is_some() {
            return self.source_tick(id);
        }
        let timeouts = &self.settings.timeouts;
        let since = |then: Duration| self.now.saturating_sub(then);
        if own.recovery.as_ref().is_some_and(|own| own.waits()) {
            return self.recovery_tick(id);
        }
        if !own.connected && since(own.used) > timeouts.connect {
            return self.unreachable(id, 504, "no connection in time");
        }
        if own.asked.as_ref().is_some_and(|(_, sent, ..)| since(*sent) > timeouts.answer) {
            return self.fail_upstream(id, 504, "no answer in time");
        }
        let unused = !own.is_wanted() && own.asked.is_none();
        // Whoever is asked for a password may have to think about it.
        let kept = if own.proofs.wanted { timeouts.idle.max(UNUSED) } else { UNUSED };
        if unused && since(own.used) > kept {
            return self.end_upstream(id);
        }
        if own.session.is_some() && own.asked.is_none() && since(own.used) >= own.timeout / 2 {
            self.ask(id, Job::KeepAlive);
        }
        self.measure(id);
        self.flows_tick(id);
        self.report_upstream(id);
        self.notice_silence(id);
        self.notice_forgotten(id);
    }
}

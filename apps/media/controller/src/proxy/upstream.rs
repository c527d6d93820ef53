//! A presentation at its origin: one connection, requests one after the other, one session.

use std::collections::{HashSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use http_auth::{PasswordClient, PasswordParams};
use wire::rtcp::SenderReport;
use wire::rtsp::message::Request;
use wire::rtsp::transport::Transport;
use wire::rtsp::url::{self, Url};
use wire::sdp::Description;

use super::flows::Audience;
use super::recovery::{Position, Recovery};
use super::session::Ending;
use super::target::{Presentation, Target};
use super::world::{Effect, World};
use super::{ClientId, OriginId, Proxy, SessionId, UpstreamId};
use crate::pools::ServerId;
use crate::tables::FlowKey;

/// How long a description is kept that nobody has asked a stream of.
const UNUSED: Duration = Duration::from_secs(10);

/// A request of a client that an answer of the origin answers: connection, request, session.
pub(super) type Waiter = (ClientId, Request, SessionId);

/// What is asked of an origin.
#[derive(Clone, Debug)]
pub(super) enum Job {
    /// What it can.
    Options,
    /// The description.
    Describe,
    /// A track.
    Setup {
        /// Its place in the description.
        track: usize,
    },
    /// To play.
    Play {
        /// Header fields of the client's.
        headers: Vec<(String, String)>,
        /// Who asked, where the presentation is one session's alone.
        waiter: Option<Waiter>,
    },
    /// To pause.
    Pause {
        /// Who asked.
        waiter: Waiter,
    },
    /// Parameters.
    Parameter {
        /// Who asked.
        waiter: Waiter,
    },
    /// To keep the session.
    KeepAlive,
}

impl Job {
    pub(super) fn into_waiter(self) -> Option<Waiter> {
        match self {
            Job::Play { waiter, .. } => waiter,
            Job::Pause { waiter } | Job::Parameter { waiter } => Some(waiter),
            _ => None,
        }
    }
}

/// How far a track is at its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TrackState {
    /// Not asked for.
    New,
    /// Asked for.
    Asked,
    /// There.
    Ready,
    /// The origin does not give it; the status of the answer.
    Refused(u16),
}

/// A track of a presentation.
pub(super) struct Track {
    pub(super) state: TrackState,
    /// Its URL at the origin.
    pub(super) control: String,
    /// What it is: `video`, `audio`.
    pub(super) kind: String,
    /// The rate of its clock, in hertz; 0 where it is not known.
    pub(super) rate: u32,
    /// The channels that it comes on, where it comes on the connection.
    pub(super) channels: Option<(u8, u8)>,
    /// The first of its own ports; 0: none yet.
    pub(super) port: u16,
    /// Its place in `streams.progress`.
    pub(super) number: u32,
    /// Where its RTCP comes from, as far as the origin says.
    pub(super) rtcp: Option<SocketAddr>,
    /// Where its packets may come from.
    pub(super) source: Option<IpAddr>,
    /// What its packets come with, once that is known.
    pub(super) key: Option<FlowKey>,
    /// The place in `streams.progress` of the flow from the origin before, whose numbers are to go on: until the first
    /// packet of this one has come.
    pub(super) before: Option<u32>,
    /// When that was.
    pub(super) resumed: Option<Duration>,
    /// When its rate was measured last, and the bits that had come by then.
    pub(super) measured: (Duration, u64),
    /// Its rate then, in bits per second.
    pub(super) rate_now: u64,
    /// Who gets its packets.
    pub(super) audience: Audience,
    /// The last sender report, and when it came.
    pub(super) report: Option<(SenderReport, Duration)>,
    /// The last report of a sender that has said BYE, and when receivers are told so.
    pub(super) ending: Option<(SenderReport, Duration)>,
    /// Own source in reports to the origin.
    pub(super) own_ssrc: u32,
    /// What the last report to the origin said was received, and lost.
    pub(super) reported: (u64, u32),
    /// When that was.
    pub(super) reported_at: Duration,
}

/// The channels that a track is asked for on. A description has 64 tracks at most.
fn channels_of(track: usize) -> (u8, u8) {
    (2 * track as u8, 2 * track as u8 + 1)
}

/// The tracks of a description, whose URLs are seen from a base.
pub(super) fn tracks_of(description: &Description, base: &str) -> Vec<Track> {
    (0..description.media())
        .map(|track| Track {
            state: TrackState::New,
            control: description.media_control(track, base),
            kind: description.media_kind(track).to_owned(),
            rate: description.clock_rate(track).unwrap_or(0),
            channels: None,
            port: 0,
            number: 0,
            rtcp: None,
            source: None,
            key: None,
            before: None,
            resumed: None,
            measured: (Duration::ZERO, 0),
            rate_now: 0,
            audience: Audience::default(),
            report: None,
            ending: None,
            own_ssrc: 0,
            reported: (0, 0),
            reported_at: Duration::ZERO,
        })
        .collect()
}

/// A presentation at its origin.
pub(super) struct Upstream {
    pub(super) presentation: Presentation,
    /// The server of its pool that it comes from.
    pub(super) server: Option<ServerId>,
    /// Its URL, after redirections.
    pub(super) url: String,
    /// Whether it has no end, as the configuration or its description says.
    pub(super) live: bool,
    pub(super) forced_live: Option<bool>,
    pub(super) connection: OriginId,
    /// Own address and the origin's, once connected.
    pub(super) addresses: Option<(SocketAddr, SocketAddr)>,
    cseq: u32,
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
    pub(super) redirects: u32,
    /// What relative URLs of the description are seen from.
    pub(super) base: String,
    pub(super) description: Option<Description>,
    pub(super) tracks: Vec<Track>,
    /// Its sessions.
    pub(super) viewers: HashSet<SessionId>,
    /// Requests of clients that are served when it has got further.
    pub(super) waiting: Vec<(ClientId, Request)>,
    /// Whether tracks are asked for on the connection, and whether they may be.
    pub(super) carried: bool,
    pub(super) may_be_carried: bool,
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
            server,
            base: url.clone(),
            url,
            live: target.live.unwrap_or(true),
            forced_live: target.live,
            connection,
            addresses: None,
            cseq: 0,
            asked: None,
            queue: VecDeque::from([Job::Options, Job::Describe]),
            session: None,
            timeout: Duration::from_secs(60),
            knows_parameter: false,
            auth: None,
            redirects: 0,
            description: None,
            tracks: Vec::new(),
            viewers: HashSet::new(),
            waiting: Vec::new(),
            playing: false,
            carried: target.carried == Some(true),
            may_be_carried: target.carried != Some(false),
            publisher: None,
            played_at: Duration::ZERO,
            position: Position::default(),
            recovery: None,
            used: now,
            since: now,
        }
    }

    /// Whether PLAY is on its way.
    pub(super) fn is_asked_to_play(&self) -> bool {
        let asked = self.asked.iter().map(|(_, _, job, _)| job);
        self.is_recovering() || asked.chain(&self.queue).any(|job| matches!(job, Job::Play { .. }))
    }

    /// The method, URL and header fields of a request.
    fn request(&mut self, job: &Job, via: &str) -> Request {
        let control = || self.description.as_ref().map_or(self.url.clone(), |own| own.control(&self.base));
        let mut request = match job {
            Job::Options => Request::new("OPTIONS", &self.url),
            Job::Describe => {
                let mut request = Request::new("DESCRIBE", &self.url);
                request.headers.push("Accept", "application/sdp");
                request
            }
            Job::Setup { track } => {
                let own = &self.tracks[*track];
                let wanted = match own.channels {
                    Some(channels) => Transport::tcp(channels),
                    None => Transport::udp((own.port, own.port + 1)),
                };
                let mut request = Request::new("SETUP", &own.control);
                request.headers.push("Transport", wanted.to_string());
                request
            }
            Job::Play { headers, .. } => {
                let mut request = Request::new("PLAY", &control());
                headers.iter().for_each(|(name, value)| request.headers.push(name, value.clone()));
                request
            }
            Job::Pause { .. } => Request::new("PAUSE", &control()),
            Job::Parameter { waiter: (_, own, _) } => {
                let mut request = Request::new(&own.method, &control());
                own.headers.get("content-type").into_iter().for_each(|kind| request.headers.push("Content-Type", kind));
                request.body.clone_from(&own.body);
                request
            }
            Job::KeepAlive if self.knows_parameter => Request::new("GET_PARAMETER", &control()),
            Job::KeepAlive => Request::new("OPTIONS", &control()),
        };
        self.finish(&mut request, via);
        request
    }

    /// Adds what all requests have.
    fn finish(&mut self, request: &mut Request, via: &str) {
        self.cseq = self.cseq.wrapping_add(1);
        request.headers.push("CSeq", self.cseq.to_string());
        request.headers.push("User-Agent", "Millrace");
        request.headers.push("Via", format!("RTSP/1.0 {via}"));
        self.session.iter().for_each(|session| request.headers.push("Session", session.clone()));
        if let (Some(auth), Some(credentials)) = (&mut self.auth, &self.presentation.credentials) {
            let answer = auth.respond(&PasswordParams {
                username: &credentials.user,
                password: &credentials.password,
                uri: &request.url,
                method: &request.method,
                body: Some(&request.body),
            });
            // What can't be answered is sent without: the origin says what it thinks of that.
            answer.into_iter().for_each(|answer| request.headers.push("Authorization", answer));
        }
    }
}

impl<W: World> Proxy<W> {
    /// Begins to ask an origin for a presentation; `Err` with the status where its pool has none that works.
    pub(super) fn new_upstream(&mut self, target: &Target) -> Result<UpstreamId, u16> {
        let (server, url) = self.place(&target.presentation, &[]).ok_or(503u16)?;
        let (id, connection) = (self.new_id(), self.new_id());
        let upstream = Upstream::new(target, (server, url), connection, self.now);
        self.counts.upstreams += 1;
        self.counts_of(server, &upstream.url).asked += 1;
        self.upstreams.insert(id, upstream);
        self.connect(id, connection);
        Ok(id)
    }

    /// Connects to the host of a presentation's URL.
    pub(super) fn connect(&mut self, id: UpstreamId, connection: OriginId) {
        let Some(own) = self.upstreams.get_mut(&id) else { return };
        own.connection = connection;
        own.addresses = None;
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
        if own.asked.is_some() || own.addresses.is_none() {
            return;
        }
        match own.queue.pop_front() {
            Some(job) => self.send(id, job, 0),
            None => self.recovered(id),
        }
    }

    /// Sends a request, with a password for the `tries`-th time.
    pub(super) fn send(&mut self, id: UpstreamId, job: Job, tries: u32) {
        let Some(own) = self.upstreams.get_mut(&id) else { return };
        let request = own.request(&job, &self.pseudonym);
        own.asked = Some((own.cseq, self.now, job, tries));
        own.used = self.now;
        let connection = own.connection;
        self.effect(Effect::ToOrigin(connection, request.to_bytes()));
    }

    /// Asks the origin for a track, on ports of its own; `Err` with the status where there are none.
    pub(super) fn setup_at_origin(&mut self, id: UpstreamId, track: usize) -> Result<(), u16> {
        let carried = self.upstreams.get(&id).is_some_and(|own| own.carried);
        self.take_place(id, track, !carried)?;
        if let Some(own) = self.upstreams.get_mut(&id).and_then(|own| own.tracks.get_mut(track)) {
            own.channels = carried.then_some(channels_of(track));
        }
        self.ask(id, Job::Setup { track });
        Ok(())
    }

    /// Takes a place in `streams.progress`, and own ports where packets are to come to some; `Err` with the status
    /// where there are none.
    pub(super) fn take_place(&mut self, id: UpstreamId, track: usize, ports: bool) -> Result<(), u16> {
        let Some(own) = self.upstreams.get(&id) else { return Err(454) };
        let Some((local, _)) = own.addresses else { return Err(502) };
        let port = if ports { self.world.bind_pair(local.ip()).ok_or(503u16)? } else { 0 };
        let Some(number) = self.new_track((id, track)) else {
            self.release_pair(local.ip(), port);
            return Err(503);
        };
        self.world.reset_progress(number);
        if ports {
            self.pairs.insert((local.ip(), port), (id, track));
        }
        let own_ssrc = self.world.random() as u32;
        if let Some(own) = self.upstreams.get_mut(&id).and_then(|own| own.tracks.get_mut(track)) {
            (own.state, own.port, own.number, own.own_ssrc) = (TrackState::Asked, port, number, own_ssrc);
        }
        Ok(())
    }

    /// The origin does not send a track over UDP: it is asked for on the connection, if it may be; whether it is.
    pub(super) fn setup_carried(&mut self, id: UpstreamId, track: usize) -> bool {
        let Some(own) = self.upstreams.get_mut(&id) else { return false };
        let of = &mut own.tracks[track];
        if !own.may_be_carried || of.channels.is_some() {
            return false;
        }
        own.carried = true;
        let (port, addresses) = (std::mem::take(&mut of.port), own.addresses);
        of.channels = Some(channels_of(track));
        // In front of PLAY, which may wait behind it.
        own.queue.push_front(Job::Setup { track });
        addresses.into_iter().for_each(|(local, _)| self.release_pair(local.ip(), port));
        true
    }

    /// Gives own ports back, where there are some.
    fn release_pair(&mut self, address: IpAddr, port: u16) {
        if port != 0 {
            self.pairs.remove(&(address, port));
            self.effect(Effect::ReleasePair(address, port));
        }
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

    fn forget_joinable(&mut self, id: UpstreamId) {
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
            let mut request = Request::new("TEARDOWN", &control);
            own.finish(&mut request, &self.pseudonym);
            self.effect(Effect::ToOrigin(own.connection, request.to_bytes()));
        }
        for track in own.tracks.iter_mut().filter(|track| track.state != TrackState::New) {
            track.key.take().into_iter().for_each(|key| self.effects.push_back(Effect::RemoveFlow(key)));
            self.tracks.remove(&track.number);
            if let Some((local, _)) = own.addresses {
                self.release_pair(local.ip(), track.port);
            }
        }
        self.effect(Effect::CloseOrigin(own.connection));
    }

    pub(super) fn upstream_tick(&mut self, id: UpstreamId) {
        self.pass_endings(id);
        let Some(own) = self.upstreams.get(&id) else { return };
        if let Some(publisher) = own.publisher {
            return self.publisher_tick(publisher, id);
        }
        let timeouts = &self.settings.timeouts;
        let since = |then: Duration| self.now.saturating_sub(then);
        if own.recovery.as_ref().is_some_and(|own| own.waits()) {
            return self.recovery_tick(id);
        }
        if own.addresses.is_none() && since(own.used) > timeouts.connect {
            return self.unreachable(id, 504, "no connection in time");
        }
        if own.asked.as_ref().is_some_and(|(_, sent, ..)| since(*sent) > timeouts.answer) {
            return self.fail_upstream(id, 504, "no answer in time");
        }
        let unused = own.viewers.is_empty() && own.waiting.is_empty() && own.asked.is_none();
        if unused && since(own.used) > UNUSED {
            return self.end_upstream(id);
        }
        if own.session.is_some() && own.asked.is_none() && since(own.used) >= own.timeout / 2 {
            self.ask(id, Job::KeepAlive);
        }
        self.measure(id);
        self.flows_tick(id);
        self.report_upstream(id);
        self.notice_silence(id);
    }
}

//! A presentation at its origin: one connection, requests one after the other, one session.

use std::collections::{HashSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use http_auth::{PasswordClient, PasswordParams};
use wire::rtcp::SenderReport;
use wire::rtsp::message::Request;
use wire::rtsp::transport::Transport;
use wire::rtsp::url::Url;
use wire::sdp::Description;

use super::flows::Audience;
use super::target::{Presentation, Target};
use super::world::{Effect, World};
use super::{ClientId, OriginId, Proxy, SessionId, UpstreamId};
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
    /// Who gets its packets.
    pub(super) audience: Audience,
    /// The last sender report, and when it came.
    pub(super) report: Option<(SenderReport, Duration)>,
    /// Own source in reports to the origin.
    pub(super) own_ssrc: u32,
    /// What the last report to the origin said was received, and lost.
    pub(super) reported: (u64, u32),
    /// When that was.
    pub(super) reported_at: Duration,
}

/// A presentation at its origin.
pub(super) struct Upstream {
    pub(super) presentation: Presentation,
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
    /// Whether the origin plays it.
    pub(super) playing: bool,
    /// When it was used or asked last.
    pub(super) used: Duration,
    pub(super) since: Duration,
}

impl Upstream {
    /// Whether PLAY is on its way.
    pub(super) fn is_asked_to_play(&self) -> bool {
        let asked = self.asked.iter().map(|(_, _, job, _)| job);
        asked.chain(&self.queue).any(|job| matches!(job, Job::Play { .. }))
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
                let track = &self.tracks[*track];
                let mut request = Request::new("SETUP", &track.control);
                request.headers.push("Transport", Transport::udp((track.port, track.port + 1)).to_string());
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
    /// Begins to ask an origin for a presentation.
    pub(super) fn new_upstream(&mut self, target: &Target) -> UpstreamId {
        let (id, connection) = (self.new_id(), self.new_id());
        let url = target.presentation.url.clone();
        let upstream = Upstream {
            presentation: target.presentation.clone(),
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
            used: self.now,
            since: self.now,
        };
        self.counts.upstreams += 1;
        self.origin_of(&upstream.url).asked += 1;
        self.upstreams.insert(id, upstream);
        self.connect(id, connection);
        id
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
        let Some(job) = own.queue.pop_front() else { return };
        self.send(id, job, 0);
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
        let Some(own) = self.upstreams.get(&id) else { return Err(454) };
        let Some((local, _)) = own.addresses else { return Err(502) };
        let Some(port) = self.world.bind_pair(local.ip()) else { return Err(503) };
        let Some(number) = self.new_track((id, track)) else {
            self.world.release_pair(local.ip(), port);
            return Err(503);
        };
        self.world.reset_progress(number);
        self.pairs.insert((local.ip(), port), (id, track));
        let own_ssrc = self.world.random() as u32;
        if let Some(own) = self.upstreams.get_mut(&id).and_then(|own| own.tracks.get_mut(track)) {
            (own.state, own.port, own.number, own.own_ssrc) = (TrackState::Asked, port, number, own_ssrc);
        }
        self.ask(id, Job::Setup { track });
        Ok(())
    }

    /// Serves the requests once more that wait for a presentation.
    pub(super) fn serve_waiting(&mut self, id: UpstreamId) {
        let Some(own) = self.upstreams.get_mut(&id) else { return };
        for (client, request) in std::mem::take(&mut own.waiting) {
            self.serve(client, request);
        }
    }

    /// The origin can't be had, or does not do what it must: whoever waits is told, sessions end.
    pub(super) fn fail_upstream(&mut self, id: UpstreamId, status: u16, why: &str) {
        let Some(own) = self.upstreams.get_mut(&id) else { return };
        tracing::warn!(origin = %own.url, "{why}");
        self.counts.failed += 1;
        let url = own.url.clone();
        let origin = self.origin_of(&url);
        origin.failed += 1;
        origin.last_error = why.to_owned();
        let Some(own) = self.upstreams.get_mut(&id) else { return };
        // It is said nothing more, and nobody joins it.
        own.session = None;
        let mut waiting = std::mem::take(&mut own.waiting);
        let jobs = own.asked.take().map(|(_, _, job, _)| job).into_iter().chain(std::mem::take(&mut own.queue));
        waiting.extend(jobs.filter_map(Job::into_waiter).map(|(client, request, _)| (client, request)));
        let sessions = super::ordered(&own.viewers);
        self.forget_joinable(id);
        sessions.into_iter().for_each(|session| self.cut_session(session));
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
        self.connections.remove(&own.connection);
        for track in own.tracks.iter().filter(|track| track.state != TrackState::New) {
            track.key.into_iter().for_each(|key| self.effect(Effect::RemoveFlow(key)));
            self.dismiss(track.number, &track.audience);
            self.tracks.remove(&track.number);
            self.free_tracks.push_back(track.number);
            if let Some((local, _)) = own.addresses {
                self.pairs.remove(&(local.ip(), track.port));
                self.world.release_pair(local.ip(), track.port);
            }
        }
        if own.session.is_some() && own.addresses.is_some() {
            self.say_bye_upstream(&own);
            let control = own.description.as_ref().map_or(own.url.clone(), |all| all.control(&own.base));
            let mut request = Request::new("TEARDOWN", &control);
            own.finish(&mut request, &self.pseudonym);
            self.effect(Effect::ToOrigin(own.connection, request.to_bytes()));
        }
        self.effect(Effect::CloseOrigin(own.connection));
        for (client, request) in own.waiting {
            self.refuse(client, &request, 503);
        }
    }

    pub(super) fn upstream_tick(&mut self, id: UpstreamId) {
        let Some(own) = self.upstreams.get(&id) else { return };
        let timeouts = &self.settings.timeouts;
        let since = |then: Duration| self.now.saturating_sub(then);
        if own.addresses.is_none() && since(own.used) > timeouts.connect {
            return self.fail_upstream(id, 504, "no connection in time");
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
        self.flows_tick(id);
        self.report_upstream(id);
    }
}

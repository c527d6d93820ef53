//! Plain forward proxying: a client sends the origin's own URL to the proxy. Its URLs are the origin's in all that
//! follows, so proofs of passwords, which cover them, can pass: a challenge of the origin to the client, and the
//! client's answer to the origin. Who proves something has the presentation, and a connection there, for itself.

use wire::rtsp::message::{Request, Response};
use wire::rtsp::session;
use wire::rtsp::url::Url;

use super::request::Job;
use super::session::Name;
use super::target::Target;
use super::track::TrackState;
use super::upstream::Upstream;
use super::world::World;
use super::{ClientId, Proxy, UpstreamId};

/// What a client says to the origin of who it is, and with which request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Proof {
    method: String,
    url: String,
    /// `Authorization`, as it came.
    field: String,
}

impl Proof {
    /// Whether it goes with a request: that which it came with, or any where it is a password (Basic).
    fn fits(&self, request: &Request) -> bool {
        let is_password = self.field.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("basic "));
        is_password || (&self.method, &self.url) == (&request.method, &request.url)
    }
}

/// Proofs at the origin of a presentation.
#[derive(Debug, Default)]
pub(super) struct Proofs {
    /// That of the request which is being answered.
    last: Option<Proof>,
    /// Whether one was sent.
    sent: bool,
    /// The origin wants one before it describes the presentation.
    pub(super) wanted: bool,
}

impl Upstream {
    /// Adds the client's proof to a request that it came with.
    pub(super) fn prove(&mut self, request: &mut Request) {
        if let Some(proof) = self.proofs.last.as_ref().filter(|own| own.fits(request)) {
            request.headers.push("Authorization", proof.field.clone());
            self.proofs.sent = true;
        }
    }

    /// The URL that a client proves a method for, if it does.
    pub(super) fn proved_url(&self, method: &str) -> Option<String> {
        self.proofs.last.as_ref().filter(|own| own.method == method).map(|own| own.url.clone())
    }

    /// Whether a client proves who it is, and so has the presentation for itself.
    pub(super) fn is_proved(&self) -> bool {
        self.presentation.prover.is_some() && self.proofs.sent
    }
}

impl<W: World> Proxy<W> {
    /// What an origin's own URL means: the presentation of the session that is named, or which the client has asked for
    /// last, a track of it, or another presentation.
    pub(super) fn forwarded(&self, id: ClientId, request: &Request, mut target: Target) -> Target {
        let named = request.headers.get("session").and_then(session::parse);
        let session = named.and_then(|named| self.sessions.get(self.names.get(&Name::parse(&named.id)?)?));
        let described = self.clients.get(&id).and_then(|client| client.described);
        let own = session.map(|own| own.upstream).or(described).and_then(|id| self.upstreams.get(&id));
        let same = |one: &str, other: &str| one.trim_end_matches('/') == other.trim_end_matches('/');
        if let Some(own) = own {
            let base = session.map_or(&own.presentation.url, |session| &session.base);
            let whole = own.description.as_ref().map(|all| all.control(&own.base));
            let track = own.tracks.iter().position(|track| same(&track.control, &target.base));
            let is_whole = same(base, &target.base) || whole.is_some_and(|whole| same(&whole, &target.base));
            if is_whole || track.is_some() {
                target.base.clone_from(base);
                target.track = track.filter(|_| !is_whole);
                target.presentation = own.presentation.clone();
                return target;
            }
        }
        // Whether its origin asks for a password is not known; it is nobody else's before that.
        if !self.joinable.contains_key(&target.presentation) {
            target.presentation.prover = Some(id);
        }
        target
    }

    /// Notes what a client says of who it is, for the request that follows from this one.
    pub(super) fn note_proof(&mut self, id: UpstreamId, request: &Request) {
        let Some(own) = self.upstreams.get_mut(&id).filter(|own| own.presentation.prover.is_some()) else { return };
        own.proofs.last = request.headers.get("authorization").map(|field| Proof {
            method: request.method.clone(),
            url: request.url.clone(),
            field: field.to_owned(),
        });
    }

    /// A client that is to prove who it is asks for a description once more.
    pub(super) fn describe_again(&mut self, id: UpstreamId) {
        let wanted = self.upstreams.get_mut(&id).is_some_and(|own| std::mem::take(&mut own.proofs.wanted));
        if wanted {
            self.ask(id, Job::Describe);
        }
    }

    /// An origin has described a presentation: where nobody had to prove anything, others may have it, too.
    pub(super) fn share_unproved(&mut self, id: UpstreamId) {
        let Some(own) = self.upstreams.get_mut(&id) else { return };
        if own.presentation.prover.is_none() || own.proofs.sent {
            return;
        }
        let before = own.presentation.clone();
        own.presentation.prover = None;
        let presentation = own.presentation.clone();
        if self.joinable.get(&before) == Some(&id) {
            self.joinable.remove(&before);
        }
        self.joinable.entry(presentation).or_insert(id);
    }

    /// The origin wants its client to prove who it is: the client is told what the origin has said.
    pub(super) fn pass_challenge(&mut self, id: UpstreamId, job: Job, challenge: &Response) {
        let Some(own) = self.upstreams.get_mut(&id) else { return };
        let mut asked: Vec<(ClientId, Request)> = Vec::new();
        match job {
            Job::Describe => {
                own.proofs.wanted = true;
                asked = std::mem::take(&mut own.waiting);
            }
            Job::Setup { track } => {
                asked = std::mem::take(&mut own.waiting);
                self.forget_track(id, track);
            }
            Job::Play { waiter: Some((client, request, session)), .. } => {
                self.not_played(session);
                self.update_flows(id);
                asked.push((client, request));
            }
            Job::Pause { waiter: (client, request, _) } | Job::Parameter { waiter: (client, request, _) } => {
                asked.push((client, request));
            }
            // It has heard of its client by that.
            Job::Options | Job::KeepAlive | Job::Play { waiter: None, .. } => {}
        }
        for (client, request) in asked {
            let mut response = Response::new(401, request.cseq());
            challenge.headers.all("www-authenticate").for_each(|own| response.headers.push("WWW-Authenticate", own));
            self.respond(client, response);
        }
        self.ask_next(id);
    }

    /// A track that was asked for is not there, and may be asked for again.
    fn forget_track(&mut self, id: UpstreamId, track: usize) {
        let Some(own) = self.upstreams.get_mut(&id) else { return };
        let address = own.addresses.map(|(local, _)| local.ip());
        let of = &mut own.tracks[track];
        of.state = TrackState::New;
        let (number, port) = (of.number, std::mem::take(&mut of.port));
        of.channels = None;
        self.tracks.remove(&number);
        self.free_tracks.push_back(number);
        address.into_iter().for_each(|address| self.release_pair(address, port));
    }

    /// Whoever waits for a presentation of which the origin wants a password that nobody has given is told so.
    pub(super) fn refuse_unproved(&mut self, id: UpstreamId) {
        let waiting = self.upstreams.get_mut(&id).map(|own| std::mem::take(&mut own.waiting)).unwrap_or_default();
        for (client, request) in waiting {
            let mut response = Response::new(502, request.cseq());
            response.reason = "The Server Asks For A Password".into();
            self.respond(client, response);
        }
    }
}

impl Target {
    /// The target of a request that names an origin itself.
    pub(super) fn of_origin(url: &Url, target: Target) -> Target {
        Target { base: url.without_user(), track: None, forwarded: true, ..target }
    }
}

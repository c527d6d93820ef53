//! Sessions of clients, and their end.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wire::rtcp::Report;
use wire::rtp::Rewrite;
use wire::rtsp::message::{Request, Response};

use super::accounts::{Account, Total};
use super::viewers::Viewers;
use super::world::{Effect, World};
use super::{ClientId, Proxy, SessionId, UpstreamId};

/// Where a client gets the packets of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    /// Over UDP.
    Udp {
        /// Its address for RTP,
        rtp: SocketAddr,
        /// and for RTCP.
        rtcp: SocketAddr,
    },
    /// On its connection.
    Interleaved {
        /// The connection.
        client: ClientId,
        /// The channel of RTP,
        rtp: u8,
        /// and of RTCP.
        rtcp: u8,
    },
}

/// Why a session has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its client has ended it.
    Teardown,
    /// The connection that carried its streams has ended.
    Closed,
    /// Nothing was heard of its client.
    Vanished,
    /// Its origin was lost, and there is no other.
    OriginLost,
    /// Its publisher has ended it.
    StreamEnded,
    /// It never had a track: there was no room.
    Refused,
    /// An operator has ended it.
    Killed,
    /// The proxy has ended.
    Stopped,
}

impl Ending {
    /// Its name, in the access log and in what clients are told (BYE).
    pub fn name(self) -> &'static str {
        match self {
            Ending::Teardown => "teardown",
            Ending::Closed => "connection_closed",
            Ending::Vanished => "vanished",
            Ending::OriginLost => "origin_lost",
            Ending::StreamEnded => "stream_ended",
            Ending::Refused => "refused",
            Ending::Killed => "killed",
            Ending::Stopped => "stopped",
        }
    }
}

/// What clients know a session by: nobody can guess it. As text it is 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(super) struct Name([u64; 2]);

impl Name {
    /// The name of this text, which must be as it was given out.
    pub(super) fn parse(text: &str) -> Option<Name> {
        let half = |digits: Option<&str>| u64::from_str_radix(digits?, 16).ok();
        let name = Name([half(text.get(..16))?, half(text.get(16..))?]);
        (name.to_string() == text).then_some(name)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.0[0], self.0[1])
    }
}

impl From<Name> for String {
    fn from(name: Name) -> String {
        name.to_string()
    }
}

impl TryFrom<String> for Name {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Name, &'static str> {
        Name::parse(&text).ok_or("no name of a session")
    }
}

/// One track of a session.
#[derive(Clone, Debug)]
pub(super) struct Viewer {
    /// Where its packets go.
    pub(super) delivery: Delivery,
    /// Source and numbers that the client knows.
    pub(super) rewrite: Rewrite,
    /// What the client said last of how it receives, and when.
    pub(super) report: Option<(Report, Duration)>,
    /// The round trip that followed from it.
    pub(super) round_trip: Option<Duration>,
    /// What it has had.
    pub(super) account: Account,
}

impl Viewer {
    /// The connection that carries it, if one does.
    pub(super) fn carrier(&self) -> Option<ClientId> {
        match self.delivery {
            Delivery::Interleaved { client, .. } => Some(client),
            Delivery::Udp { .. } => None,
        }
    }
}

/// A session of a client.
pub(super) struct Session {
    /// What clients know it by.
    pub(super) name: Name,
    /// The client's address: nobody else may use the session, and media goes nowhere else.
    pub(super) client: IpAddr,
    /// The own address that the client knows.
    pub(super) local: IpAddr,
    /// The client's port and the own one, of the connection by which it was set up; 0 where that is not known.
    pub(super) ports: [u16; 2],
    /// The presentation's URL as the client has it, without a `/` at its end.
    pub(super) base: String,
    /// Whether its client has the origin's own URLs.
    pub(super) forwarded: bool,
    /// The stream's name in the configuration, if it has one.
    pub(super) stream: Option<String>,
    /// The presentation at its origin.
    pub(super) upstream: UpstreamId,
    /// Its tracks.
    pub(super) viewers: Viewers,
    /// Whether it plays.
    pub(super) playing: bool,
    /// Whether it has played before, so that its numbers must go on.
    pub(super) has_played: bool,
    /// Packets for its connection that wait for the answer to PLAY, while that is awaited.
    pub(super) early: Option<Vec<Effect>>,
    /// When its client was heard of last.
    pub(super) heard: Duration,
    /// When it began.
    pub(super) since: Duration,
    /// The client's program, as it says.
    pub(super) agent: Option<Arc<str>>,
    /// What it has had in all.
    pub(super) total: Total,
}

impl<W: World> Proxy<W> {
    /// Names the session in an answer.
    pub(super) fn name_session(&self, response: &mut Response, session: SessionId) {
        if let Some(own) = self.sessions.get(&session) {
            let timeout = self.settings.timeouts.session.as_secs();
            response.headers.push("Session", format!("{};timeout={timeout}", own.name));
        }
    }

    /// A session of a client without tracks; `Err` with the status where there may be none.
    pub(super) fn new_session(
        &mut self,
        client: ClientId,
        upstream: UpstreamId,
        base: String,
        stream: Option<String>,
    ) -> Result<SessionId, u16> {
        let Some(own) = self.clients.get(&client) else { return Err(454) };
        let (address, local, agent) = (own.peer.ip(), own.local.ip(), own.agent.clone());
        let ports = [own.peer.port(), own.local.port()];
        if self.sessions.len() >= self.settings.limits.sessions {
            return Err(503);
        }
        if self.addresses.of(address).sessions >= self.settings.limits.per_client && !self.is_peer(address) {
            return Err(453);
        }
        let id = self.new_id();
        let name = Name([self.world.random(), self.world.random()]);
        self.names.insert(name, id);
        let session = Session {
            name,
            client: address,
            local,
            ports,
            base,
            forwarded: false,
            stream,
            upstream,
            viewers: Viewers::default(),
            playing: false,
            has_played: false,
            early: None,
            heard: self.now,
            since: self.now,
            agent,
            total: Total::default(),
        };
        self.sessions.insert(id, Box::new(session));
        self.addresses.change(address, |had| had.sessions += 1);
        self.touch_session(id);
        self.touch_stream(upstream);
        self.counts.sessions += 1;
        if let Some(own) = self.clients.get_mut(&client) {
            own.had_session = true;
        }
        if let Some(own) = self.upstreams.get_mut(&upstream) {
            own.viewers.insert(id);
        }
        Ok(id)
    }

    pub(super) fn teardown(&mut self, id: ClientId, request: &Request) {
        let session = match self.session_of(id, request) {
            Ok(session) => session,
            Err(status) => return self.refuse(id, request, status),
        };
        // One track of several: the others go on.
        let track = self.target_of(id, request).map(|target| target.track);
        let Some(track) = track else { return };
        let Some(own) = self.sessions.get(&session) else { return };
        match track.filter(|track| own.viewers.contains(*track) && own.viewers.len() > 1) {
            Some(track) => {
                self.drop_viewer(session, track);
                let mut response = Response::new(200, request.cseq());
                self.name_session(&mut response, session);
                self.respond(id, response);
            }
            None => {
                self.end_session(session, Ending::Teardown);
                self.respond(id, Response::new(200, request.cseq()));
            }
        }
    }

    /// Forgets one track of a session.
    pub(super) fn drop_viewer(&mut self, session: SessionId, track: usize) {
        let Some(own) = self.sessions.get_mut(&session) else { return };
        let upstream = own.upstream;
        if let Some(viewer) = own.viewers.remove(track) {
            self.sources.remove(&viewer.rewrite.ssrc);
            own.keep_account(viewer.account, |place| self.world.progress(place));
            self.uncarry(session, &viewer);
            self.unreserve(upstream, session, track);
            self.update_viewer(upstream, session, track);
        }
    }

    /// A track of a session has ended: the connection that carried it carries the session no more, unless it has
    /// another track of it.
    pub(super) fn uncarry(&mut self, session: SessionId, ended: &Viewer) {
        let Some(carrier) = ended.carrier() else { return };
        let mut left = self.sessions.get(&session).into_iter().flat_map(|own| own.viewers.values());
        if !left.any(|viewer| viewer.carrier() == Some(carrier))
            && let Some(client) = self.clients.get_mut(&carrier)
        {
            client.carries.retain(|own| *own != session);
        }
    }

    /// Ends a session; the last of a presentation ends that at the origin, too.
    pub(super) fn end_session(&mut self, id: SessionId, why: Ending) {
        let ended = self.ended(id, why);
        let Some(session) = self.sessions.remove(&id) else { return };
        self.touch_session(id);
        ended.into_iter().for_each(|own| self.effect(Effect::Log(Box::new(own))));
        self.names.remove(&session.name);
        self.addresses.change(session.client, |had| had.sessions -= 1);
        for viewer in session.viewers.values() {
            self.sources.remove(&viewer.rewrite.ssrc);
            self.uncarry(id, viewer);
        }
        let Some(upstream) = self.upstreams.get_mut(&session.upstream) else { return };
        upstream.viewers.remove(&id);
        if upstream.viewers.is_empty() && upstream.publisher.is_none() && !upstream.always {
            return self.end_upstream(session.upstream);
        }
        for track in session.viewers.tracks() {
            self.unreserve(session.upstream, id, track);
            self.update_viewer(session.upstream, id, track);
        }
    }

    /// The session ends, and not by its client: receivers are told. A connection that carried it is closed, so that its
    /// client notices.
    pub(super) fn cut_session(&mut self, id: SessionId, why: Ending) {
        let Some(session) = self.sessions.get(&id) else { return };
        let carriers: BTreeSet<ClientId> = session.viewers.values().filter_map(|own| own.carrier()).collect();
        if session.playing {
            self.say_bye(id, why);
        }
        self.end_session(id, why);
        for client in carriers {
            self.effect(Effect::CloseClient(client));
            self.client_closed(client);
        }
    }

    pub(super) fn session_tick(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get(&id) else { return };
        // A connection that carries streams is a sign of life itself.
        let carried = session.viewers.values().any(|own| matches!(own.delivery, Delivery::Interleaved { .. }));
        if !carried && self.now.saturating_sub(session.heard) > self.settings.timeouts.session {
            self.counts.vanished += 1;
            self.cut_session(id, Ending::Vanished);
        }
    }
}

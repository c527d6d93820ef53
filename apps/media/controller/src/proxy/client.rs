//! Connections of clients: their requests are answered in order, one after the other.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use wire::refused::Refused;
use wire::rtsp::framing::Item;
use wire::rtsp::message::{Request, Response};
use wire::rtsp::session;

use super::admission::Nonce;
use super::session::{Ending, Name};
use super::target::{Target, target};
use super::via;
use super::world::{Effect, World};
use super::{ClientId, Proxy, SessionId, UpstreamId};

/// Requests of a client that wait for the one before at most.
const MOST_WAITING: usize = 32;
/// Characters of a client's program's name that are kept.
const MOST_AGENT: usize = 256;
/// The methods that are there.
pub(super) const METHODS: &str = "OPTIONS, DESCRIBE, SETUP, PLAY, PAUSE, TEARDOWN, GET_PARAMETER, SET_PARAMETER, \
    ANNOUNCE, RECORD";

/// A connection of a client.
pub(super) struct Client {
    /// The client.
    pub(super) peer: SocketAddr,
    /// The own address that it knows.
    pub(super) local: SocketAddr,
    /// The request that is being answered waits for an origin.
    busy: bool,
    waiting: VecDeque<Request>,
    /// Sessions whose streams it carries: they end with it.
    pub(super) carries: Vec<SessionId>,
    /// Whether it may have what the request is about that is being answered.
    pub(super) admitted: bool,
    /// What its proofs of passwords are for.
    pub(super) nonce: Option<Box<Nonce>>,
    /// What it has asked for last by the origin's own URL.
    pub(super) described: Option<UpstreamId>,
    /// Its program, as it says.
    pub(super) agent: Option<Arc<str>>,
    /// Whether it has had a session.
    pub(super) had_session: bool,
    heard: Duration,
}

impl<W: World> Proxy<W> {
    /// A client has connected; its number, if there may be another one.
    pub fn client_opened(&mut self, peer: SocketAddr, local: SocketAddr) -> Option<ClientId> {
        let (limits, had) = (&self.settings.limits, self.addresses.of(peer.ip()));
        if self.clients.len() >= limits.connections || had.connections >= limits.per_client && !self.is_peer(peer.ip())
        {
            return None;
        }
        let id = self.new_id();
        let client = Client {
            peer,
            local,
            busy: false,
            waiting: VecDeque::new(),
            carries: Vec::new(),
            admitted: false,
            nonce: None,
            described: None,
            agent: None,
            had_session: false,
            heard: self.now,
        };
        self.clients.insert(id, Box::new(client));
        self.addresses.change(peer.ip(), |had| had.connections += 1);
        Some(id)
    }

    /// Something came from a client.
    pub fn client_item(&mut self, id: ClientId, item: Item) {
        let now = self.now;
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.heard = now;
        match item {
            Item::Request(request) => {
                if client.waiting.len() >= MOST_WAITING {
                    return self.client_failed(id, Refused(400));
                }
                client.waiting.push_back(request);
                self.next_request(id);
            }
            // Nothing is asked of clients.
            Item::Response(_) => {}
            Item::Data { channel, packet } => self.client_data(id, channel, &packet),
        }
    }

    /// A client's bytes can't be read: it is told, and its connection ends.
    pub fn client_failed(&mut self, id: ClientId, refused: Refused) {
        if self.clients.contains_key(&id) {
            self.counts.refused += 1;
            self.effect(Effect::ToClient(id, Response::new(refused.0, None).to_bytes()));
            self.effect(Effect::CloseClient(id));
            self.client_closed(id);
        }
    }

    /// The connection of a client has ended. Its sessions over UDP go on until they time out (RFC 2326 section 1.1).
    pub fn client_closed(&mut self, id: ClientId) {
        let Some(client) = self.clients.remove(&id) else { return };
        self.addresses.change(client.peer.ip(), |had| had.connections -= 1);
        self.end_tunnel(id);
        self.end_publisher(id, Some("the connection of its publisher has ended"));
        client.carries.into_iter().for_each(|session| self.end_session(session, Ending::Closed));
        if client.busy {
            let waiting = self.upstreams.values_mut().map(|own| &mut own.waiting).chain(self.sought.values_mut());
            waiting.for_each(|own| own.retain(|(client, _)| *client != id));
        }
    }

    pub(super) fn client_tick(&mut self, id: ClientId) {
        let Some(client) = self.clients.get(&id) else { return };
        let idle = client.waiting.is_empty() && !client.busy && client.carries.is_empty();
        // Whoever has a session keeps it by its connection, and is heard of there.
        let limit = self.settings.timeouts.idle.max(self.settings.timeouts.session);
        let limit = if client.had_session { limit * 2 } else { self.settings.timeouts.idle };
        let lives_on = self.publishers.contains_key(&id) || self.tunnels.is_post(id);
        if idle && !lives_on && self.now.saturating_sub(client.heard) > limit {
            self.close_client(id);
        }
    }

    /// Ends the connection of a client.
    pub(super) fn close_client(&mut self, id: ClientId) {
        self.effect(Effect::CloseClient(id));
        self.client_closed(id);
    }

    /// Takes the next request, unless one is being answered.
    fn next_request(&mut self, id: ClientId) {
        loop {
            let Some(client) = self.clients.get_mut(&id) else { return };
            if client.busy {
                return;
            }
            let Some(request) = client.waiting.pop_front() else { return };
            if client.waiting.is_empty() {
                // A connection that says nothing keeps no memory.
                client.waiting = VecDeque::new();
            }
            (client.busy, client.admitted) = (true, false);
            if let Some(agent) = request.headers.get("user-agent") {
                let agent: String = agent.chars().take(MOST_AGENT).collect();
                if client.agent.as_deref() != Some(&agent) {
                    client.agent = Some(agent.into());
                }
            }
            self.counts.requests += 1;
            self.serve(id, request);
        }
    }

    /// Answers a request, or has it wait for an origin.
    pub(super) fn serve(&mut self, id: ClientId, request: Request) {
        let cseq = request.cseq();
        if request.version.0 != 1 {
            return self.refuse(id, &request, 505);
        }
        if cseq.is_none() {
            return self.refuse(id, &request, 400);
        }
        let required: Vec<&str> =
            ["require", "proxy-require"].iter().flat_map(|name| request.headers.list(name)).collect();
        if !required.is_empty() {
            let mut response = Response::new(551, cseq);
            response.headers.push("Unsupported", required.join(", "));
            return self.respond(id, response);
        }
        if via::passed(&request.headers, &self.pseudonym).is_err() {
            self.counts.loops += 1;
            return self.refuse(id, &request, 502);
        }
        let publishes = self.publishers.contains_key(&id) && request.method != "OPTIONS";
        if self.waits_for_origin(id, &request) {
            return;
        }
        match request.method.as_str() {
            _ if publishes => self.publish(id, &request),
            "ANNOUNCE" | "RECORD" => self.publish(id, &request),
            "OPTIONS" => self.options(id, &request),
            "DESCRIBE" => self.describe(id, request),
            "SETUP" => self.setup(id, request),
            "PLAY" => self.play(id, request),
            "PAUSE" => self.pause(id, request),
            "TEARDOWN" => self.teardown(id, &request),
            "GET_PARAMETER" | "SET_PARAMETER" => self.parameter(id, request),
            "REDIRECT" => {
                let mut response = Response::new(405, cseq);
                response.headers.push("Allow", METHODS);
                self.respond(id, response);
            }
            _ => self.refuse(id, &request, 501),
        }
    }

    fn options(&mut self, id: ClientId, request: &Request) {
        let mut response = Response::new(200, request.cseq());
        response.headers.push("Public", METHODS);
        if self.publishers.contains_key(&id) {
            self.name_publisher(id, &mut response);
        } else if request.headers.get("session").is_some() {
            match self.session_of(id, request) {
                Ok(session) => self.name_session(&mut response, session),
                Err(status) => return self.refuse(id, request, status),
            }
        }
        self.respond(id, response);
    }

    /// The presentation that a request is about; where its URL means none, the client is told.
    pub(super) fn target_of(&mut self, id: ClientId, request: &Request) -> Option<Target> {
        let local = self.clients.get(&id)?.local.ip();
        match target(&request.url, &self.settings, local) {
            Ok(mut target) => {
                target.via = via::passed(&request.headers, &self.pseudonym).ok().flatten();
                target.presentation.peers = self.peered(&target);
                Some(if target.forwarded { self.forwarded(id, request, target) } else { target })
            }
            Err(status) => {
                self.refuse(id, request, status);
                None
            }
        }
    }

    /// The session that a request names. A session is its client's address alone.
    pub(super) fn session_of(&mut self, id: ClientId, request: &Request) -> Result<SessionId, u16> {
        let named = request.headers.get("session").and_then(session::parse).ok_or(454u16)?;
        let session = Name::parse(&named.id).and_then(|name| self.names.get(&name).copied()).ok_or(454u16)?;
        let address = self.clients.get(&id).map(|client| client.peer.ip());
        let (Some(own), now) = (self.sessions.get_mut(&session), self.now) else { return Err(454) };
        if address != Some(own.client) {
            return Err(454);
        }
        own.heard = now;
        let upstream = own.upstream;
        // It may have begun on another connection.
        self.clients.get_mut(&id).into_iter().for_each(|client| client.had_session = true);
        self.note_proof(upstream, request);
        Ok(session)
    }

    /// Answers a request with a status and nothing else.
    pub(super) fn refuse(&mut self, id: ClientId, request: &Request, status: u16) {
        self.respond(id, Response::new(status, request.cseq()));
    }

    /// Answers the request that is being answered, and takes the next.
    pub(super) fn respond(&mut self, id: ClientId, mut response: Response) {
        if response.status >= 400 {
            self.counts.refused += 1;
        }
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.busy = false;
        response.headers.push("Server", "Millrace");
        self.effect(Effect::ToClient(id, response.to_bytes()));
        // A request that was answered at once has its caller go on.
        if self.clients.get(&id).is_some_and(|client| !client.waiting.is_empty()) {
            self.next_request(id);
        }
    }
}

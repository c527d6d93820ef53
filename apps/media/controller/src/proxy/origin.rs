//! What origins answer.

use std::net::SocketAddr;
use std::time::Duration;

use http_auth::PasswordClient;
use wire::rtsp::framing::Item;
use wire::rtsp::message::{Request, Response};
use wire::rtsp::session;
use wire::rtsp::transport::{self, Lower};
use wire::rtsp::url::{self, Url};
use wire::sdp::{self, Description};

use super::request::Job;
use super::track::{TrackState, tracks_of};
use super::upstream::Upstream;
use super::world::{Effect, World};
use super::{OriginId, Proxy, UpstreamId};
use crate::tables::FlowKey;

/// Clients are told what is theirs to know; who the proxy is at the origin is not.
fn status_for_client(status: u16) -> u16 {
    if [404, 453].contains(&status) { status } else { 502 }
}

/// Answers to challenges of one request at most: the second may be that the nonce is stale.
const MOST_TRIES: u32 = 2;

impl<W: World> Proxy<W> {
    /// A connection to an origin is there: own address, and the origin's.
    pub fn origin_opened(&mut self, connection: OriginId, local: SocketAddr, peer: SocketAddr) {
        if self.check_opened(connection) {
            return;
        }
        let Some(id) = self.connections.get(&connection).copied() else {
            return self.effect(Effect::CloseOrigin(connection));
        };
        if let Some(own) = self.upstreams.get_mut(&id) {
            own.connected = true;
            // Its own ports may be those of a connection before, on another address.
            if own.addresses.is_none_or(|(known, _)| known.ip() == local.ip()) {
                own.addresses = Some((local, peer));
            }
        }
        self.ask_next(id);
    }

    /// A connection to an origin has ended, or could not be made.
    pub fn origin_closed(&mut self, connection: OriginId, why: &str) {
        self.check_closed(connection, why);
        if let Some(id) = self.connections.remove(&connection) {
            match self.upstreams.get(&id).is_some_and(|own| !own.connected) {
                true => self.unreachable(id, 502, why),
                false => self.fail_upstream(id, 502, why),
            }
        }
    }

    /// An origin can't be connected to, which checks would find out, too.
    pub(super) fn unreachable(&mut self, id: UpstreamId, status: u16, why: &str) {
        if let Some(server) = self.upstreams.get(&id).and_then(|own| own.server) {
            self.pools.checked(server, Err(why), self.now);
        }
        self.fail_upstream(id, status, why);
    }

    /// Something came from an origin.
    pub fn origin_item(&mut self, connection: OriginId, item: Item) {
        self.check_item(connection, &item);
        let Some(id) = self.connections.get(&connection).copied() else { return };
        match item {
            Item::Response(response) => self.answered(id, response),
            Item::Request(request) => self.asked_by_origin(id, connection, &request),
            Item::Data { channel, packet } => self.connection_data(id, channel, &packet),
        }
    }

    /// Some servers ask whether their clients are there, or send them elsewhere.
    fn asked_by_origin(&mut self, id: UpstreamId, connection: OriginId, request: &Request) {
        let known = ["OPTIONS", "GET_PARAMETER", "SET_PARAMETER", "REDIRECT", "TEARDOWN"];
        let known = known.contains(&request.method.as_str());
        let response = Response::new(if known { 200 } else { 501 }, request.cseq());
        self.effect(Effect::ToOrigin(connection, response.to_bytes()));
        match request.method.as_str() {
            "REDIRECT" => {
                let location = request.headers.get("location").unwrap_or("");
                // Nothing was set up there that would be lost.
                match self.upstreams.get(&id).is_some_and(|own| own.session.is_none()) {
                    true => self.redirected(id, location),
                    false => self.moved(id, location),
                }
            }
            "TEARDOWN" => self.fail_upstream(id, 502, "it has ended the session (TEARDOWN)"),
            _ => {}
        }
    }

    fn answered(&mut self, id: UpstreamId, response: Response) {
        let Some(own) = self.upstreams.get_mut(&id) else { return };
        // Servers that leave the number out mean the only request that there is; others may be late.
        let matches = own.asked.as_ref().is_some_and(|(cseq, ..)| response.cseq().is_none_or(|own| own == *cseq));
        if !matches || response.status < 200 {
            return;
        }
        let Some((_, _, job, tries)) = own.asked.take() else { return };
        self.records.streams.insert(id);
        let Some(job) = self.film_answered(id, job, &response) else { return };
        let Some(own) = self.upstreams.get_mut(&id) else { return };
        if response.status == 401 && own.credentials().is_some() && tries < MOST_TRIES {
            let challenge = response.headers.all("www-authenticate").collect::<Vec<_>>().join(", ");
            if let Ok(auth) = PasswordClient::try_from(challenge.as_str()) {
                own.auth = Some(auth);
                return self.send(id, job, tries + 1);
            }
        }
        if response.status == 401 && own.presentation.prover.is_some() {
            return self.pass_challenge(id, job, &response);
        }
        let is_only = own.presentation.pool.is_none() && own.peer.is_none();
        let unproved = own.presentation.credentials.is_none() && is_only;
        if response.status == 401 && unproved && matches!(job, Job::Describe) {
            self.refuse_unproved(id);
            return self.fail_upstream(id, 502, "it asks for a password, and none is configured");
        }
        if (300..400).contains(&response.status) && matches!(job, Job::Describe | Job::Options) {
            return self.redirected(id, response.headers.get("location").unwrap_or(""));
        }
        let good = response.status < 300;
        match job {
            Job::Options => {
                own.knows_parameter = response.headers.list("public").any(|method| method == "GET_PARAMETER");
            }
            Job::Describe if good => return self.described(id, &response),
            Job::Setup { track } if good => return self.set_up(id, track, &response),
            Job::Play { waiter: None, .. } if good => {
                own.begin_to_play(&response, self.now);
                self.film_played(id, &response);
                self.serve_waiting(id);
            }
            Job::Play { waiter: Some((client, request, session)), .. } if good => {
                own.begin_to_play(&response, self.now);
                self.film_played(id, &response);
                self.played(client, &request, session, &response);
            }
            Job::Pause { waiter: (client, request, session) } if good => {
                own.pause(&response, self.now);
                self.end_film(id);
                self.paused(client, &request, session, &response);
            }
            Job::Parameter { waiter: (client, request, session) } => {
                self.parameters(client, &request, session, response);
            }
            // One that has forgotten the session says so; one that does not know the method is still there.
            Job::KeepAlive if response.status != 454 => {}
            // A command of one client that the origin refuses, such as a range beyond the end: the client is told.
            Job::Play { waiter: Some((client, request, session)), .. } => {
                self.not_played(session);
                self.end_film(id);
                self.update_flows(id);
                self.refuse(client, &request, response.status);
            }
            Job::Pause { waiter: (client, request, _) } => self.refuse(client, &request, response.status),
            // UDP is refused, and the connection may do.
            Job::Setup { track } if response.status == 461 && self.setup_carried(id, track) => {}
            // What it does not give is missing; what it gives goes on. One in the place of another must give it.
            Job::Setup { track } if !self.upstreams.get(&id).is_some_and(Upstream::is_recovering) => {
                let Some(own) = self.upstreams.get_mut(&id) else { return };
                own.tracks[track].state = TrackState::Refused(status_for_client(response.status));
                self.serve_waiting(id);
            }
            Job::Describe | Job::Setup { .. } | Job::Play { .. } | Job::KeepAlive => {
                let status = status_for_client(response.status);
                let why = format!("the answer was {} {}", response.status, response.reason);
                return self.fail_upstream(id, status, &why);
            }
        }
        self.ask_next(id);
    }

    fn described(&mut self, id: UpstreamId, response: &Response) {
        let Ok(description) = Description::parse(&response.body) else {
            return self.fail_upstream(id, 502, "the description can't be read");
        };
        self.film_described(id, response, &description);
        let Some(own) = self.upstreams.get_mut(&id) else { return };
        let header = |name: &str| response.headers.get(name);
        own.base = sdp::base(header("content-base"), header("content-location"), &own.url).to_owned();
        let before = own.description.take();
        if before.is_none() {
            own.live = !own.is_proved() && own.forced_live.unwrap_or(description.is_live());
        }
        let mut tracks = tracks_of(&description, &own.base);
        // A control URL at another host would have the proxy's session leave its connection.
        let here = Url::parse(&own.url).map(|url| url.host.to_owned());
        for track in &mut tracks {
            let there = Url::parse(&track.control).map(|url| (url.host.to_owned(), url.path.to_owned()));
            if let (Some(here), Some((host, path)), Some(base)) = (&here, there, Url::parse(&own.url))
                && host != *here
            {
                // Behind address translation servers name addresses that only they know.
                track.control = format!("rtsp://{}{path}", url::authority(base.host, base.port));
            }
        }
        match before {
            Some(before) => return self.described_again(id, &before, description, tracks),
            None => (own.description, own.tracks) = (Some(description), tracks),
        }
        self.share_unproved(id);
        self.play_always(id);
        self.serve_waiting(id);
        self.ask_next(id);
    }

    fn set_up(&mut self, id: UpstreamId, track: usize, response: &Response) {
        let Some(own) = self.upstreams.get_mut(&id) else { return };
        let said = response.headers.get("session").and_then(session::parse);
        let chosen = transport::parse(response.headers.get("transport").unwrap_or("")).into_iter().next();
        let (Some(said), Some(chosen), Some((local, peer))) = (
            said.or_else(|| own.session.clone().map(|id| session::Session { id, timeout: None })),
            chosen,
            own.addresses,
        ) else {
            return self.fail_upstream(id, 502, "the answer to SETUP has no session or no transport");
        };
        let asked = own.tracks[track].channels;
        let same = chosen.lower == if asked.is_some() { Lower::Tcp } else { Lower::Udp };
        if !same || chosen.multicast != own.is_multicast() {
            return self.fail_upstream(id, 502, "the origin sends by another transport than it was asked for");
        }
        own.session = Some(said.id);
        if let Some(timeout) = said.timeout {
            own.timeout = Duration::from_secs(u64::from(timeout.max(2)));
        }
        let source = chosen.source.as_deref().and_then(|source| source.parse().ok());
        let source = source.filter(|source: &std::net::IpAddr| !source.is_unspecified() && !source.is_multicast());
        let source = source.unwrap_or(peer.ip());
        let grouped = own.is_multicast();
        if grouped && let Err(why) = self.join_group(id, track, &chosen, local.ip()) {
            return self.fail_upstream(id, 502, &why);
        }
        let Some(own) = self.upstreams.get_mut(&id).map(|own| &mut own.tracks[track]) else { return };
        own.channels = asked.map(|asked| chosen.interleaved.unwrap_or(asked));
        own.source = Some(source).filter(|_| asked.is_none());
        if let Some((rtp, rtcp)) = chosen.server_port.filter(|(rtp, _)| asked.is_none() && *rtp != 0) {
            let src = SocketAddr::new(source, rtp);
            own.key = Some(FlowKey { src, dst: SocketAddr::new(own.listens.unwrap_or(local.ip()), own.port) });
            own.rtcp = Some(SocketAddr::new(source, rtcp));
        }
        own.state = TrackState::Ready;
        self.update_flow(id, track);
        self.serve_waiting(id);
        self.ask_next(id);
    }
}

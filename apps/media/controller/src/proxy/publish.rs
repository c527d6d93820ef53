//! Streams that clients publish (ANNOUNCE and RECORD, RFC 2326 sections 10.3 and 10.11): such a client is the origin of
//! a presentation, on the connection that it has made. Its session ends with that.

use std::net::SocketAddr;
use std::time::Duration;

use wire::rtsp::message::{Request, Response};
use wire::rtsp::session;
use wire::rtsp::transport::{self, Lower, Transport};
use wire::rtsp::url::Url;
use wire::sdp::Description;

use super::session::Ending;
use super::track::{TrackState, tracks_of};
use super::upstream::Upstream;
use super::world::World;
use super::{ClientId, Proxy, UpstreamId};
use crate::tables::FlowKey;

/// A client that publishes.
pub(super) struct Publisher {
    /// What it knows its session by.
    session: String,
    /// What it has announced.
    upstream: UpstreamId,
    /// When something came on its connection last.
    heard: Duration,
}

impl<W: World> Proxy<W> {
    /// A request of a client that publishes, or wants to.
    pub(super) fn publish(&mut self, id: ClientId, request: &Request) {
        let now = self.now;
        let Some(own) = self.publishers.get_mut(&id) else {
            return match request.method.as_str() {
                "ANNOUNCE" => self.announce(id, request),
                _ => self.refuse(id, request, 455),
            };
        };
        own.heard = now;
        let named = request.headers.get("session").map(|said| session::parse(said).map(|said| said.id));
        if named.is_some_and(|named| named.as_ref() != Some(&own.session)) {
            return self.refuse(id, request, 454);
        }
        match request.method.as_str() {
            "SETUP" => self.setup_published(id, request),
            "RECORD" => self.record(id, request),
            "GET_PARAMETER" | "SET_PARAMETER" if !request.body.is_empty() => self.refuse(id, request, 451),
            "GET_PARAMETER" | "SET_PARAMETER" => self.answer_publisher(id, request),
            "TEARDOWN" => {
                self.end_publisher(id, None);
                self.respond(id, Response::new(200, request.cseq()));
            }
            _ => self.refuse(id, request, 455),
        }
    }

    fn answer_publisher(&mut self, id: ClientId, request: &Request) {
        let mut response = Response::new(200, request.cseq());
        self.name_publisher(id, &mut response);
        self.respond(id, response);
    }

    /// Names the session of a publisher in an answer.
    pub(super) fn name_publisher(&self, id: ClientId, response: &mut Response) {
        if let Some(own) = self.publishers.get(&id) {
            let timeout = self.settings.timeouts.session.as_secs();
            response.headers.push("Session", format!("{};timeout={timeout}", own.session));
        }
    }

    fn announce(&mut self, id: ClientId, request: &Request) {
        let Some(target) = self.target_of(id, request) else { return };
        let Some(access) = target.publish.clone().filter(|_| target.track.is_none()) else {
            return self.refuse(id, request, 403);
        };
        if !self.admits_to(id, request, &target, &access) {
            return;
        }
        let kind = request.headers.get("content-type").and_then(|kind| kind.split(';').next()).unwrap_or("");
        if !kind.trim().eq_ignore_ascii_case("application/sdp") {
            return self.refuse(id, request, 415);
        }
        let description = match Description::parse(&request.body) {
            Ok(description) if is_whole(&description, &request.url) => description,
            _ => return self.refuse(id, request, 400),
        };
        let there = |own: &Publisher| {
            self.upstreams.get(&own.upstream).is_some_and(|own| own.presentation == target.presentation)
        };
        if self.publishers.values().any(there) {
            return self.refuse(id, request, 455);
        }
        if self.upstreams.len() >= self.settings.limits.sessions {
            return self.refuse(id, request, 503);
        }
        let Some((local, peer)) = self.clients.get(&id).map(|client| (client.local, client.peer)) else { return };
        let (upstream, connection) = (self.new_id(), self.new_id());
        let place = (None, target.presentation.url.clone());
        let mut own = Upstream::new(&target, place, connection, self.now);
        own.queue.clear();
        own.base.clone_from(&request.url);
        own.live = true;
        (own.addresses, own.connected) = (Some((local, peer)), true);
        own.tracks = tracks_of(&description, &request.url);
        own.description = Some(description);
        own.publisher = Some(id);
        tracing::info!(stream = %own.url, client = %peer.ip(), "a client publishes");
        self.counts.published += 1;
        self.counts_of(None, &own.url).asked += 1;
        self.upstreams.insert(upstream, own);
        let session = format!("{:016x}{:016x}", self.world.random(), self.world.random());
        self.publishers.insert(id, Publisher { session, upstream, heard: self.now });
        self.answer_publisher(id, request);
    }

    fn setup_published(&mut self, id: ClientId, request: &Request) {
        let Some(upstream) = self.publishers.get(&id).map(|own| own.upstream) else { return };
        let Some(own) = self.upstreams.get(&upstream) else { return };
        let Some((local, peer)) = own.addresses else { return };
        let Some(track) = own.tracks.iter().position(|track| same_path(&track.control, &request.url)) else {
            return self.refuse(id, request, 404);
        };
        if own.playing || own.tracks[track].state != TrackState::New {
            return self.refuse(id, request, 455);
        }
        let taken: Vec<_> = own.tracks.iter().filter_map(|track| track.channels).collect();
        let taken = |channel: u8| taken.iter().any(|(rtp, rtcp)| *rtp == channel || *rtcp == channel);
        let free = (0..=254u8).step_by(2).find(|first| !taken(*first)).map(|first| (first, first + 1));
        let Some(mut chosen) = choose(request.headers.get("transport").unwrap_or(""), free, taken) else {
            return self.refuse(id, request, 461);
        };
        if let Err(status) = self.take_place(upstream, track, chosen.lower == Lower::Udp) {
            return self.refuse(id, request, status);
        }
        let Some(own) = self.upstreams.get_mut(&upstream).map(|own| &mut own.tracks[track]) else { return };
        own.state = TrackState::Ready;
        if let Some((rtp, rtcp)) = chosen.client_port {
            own.source = Some(peer.ip());
            let src = SocketAddr::new(peer.ip(), rtp);
            own.key = Some(FlowKey { src, dst: SocketAddr::new(local.ip(), own.port) });
            own.rtcp = Some(SocketAddr::new(peer.ip(), rtcp));
            (chosen.server_port, chosen.source) = (Some((own.port, own.port + 1)), Some(local.ip().to_string()));
        }
        own.channels = chosen.interleaved;
        self.update_flow(upstream, track);
        let mut response = Response::new(200, request.cseq());
        response.headers.push("Transport", chosen.to_string());
        self.name_publisher(id, &mut response);
        self.respond(id, response);
    }

    /// From now on it can be viewed.
    fn record(&mut self, id: ClientId, request: &Request) {
        let Some(upstream) = self.publishers.get(&id).map(|own| own.upstream) else { return };
        let Some(own) = self.upstreams.get_mut(&upstream) else { return };
        if own.tracks.iter().all(|track| track.state != TrackState::Ready) {
            return self.refuse(id, request, 455);
        }
        own.playing = true;
        let presentation = own.presentation.clone();
        self.joinable.insert(presentation, upstream);
        self.answer_publisher(id, request);
    }

    /// A packet on the connection of a publisher.
    pub(super) fn published_data(&mut self, id: ClientId, channel: u8, packet: &[u8]) {
        let now = self.now;
        let Some(own) = self.publishers.get_mut(&id) else { return };
        own.heard = now;
        let upstream = own.upstream;
        self.connection_data(upstream, channel, packet);
    }

    /// A publisher has ended its stream, or it is over for a reason: viewers are told.
    pub(super) fn end_publisher(&mut self, id: ClientId, why: Option<&str>) {
        let Some(own) = self.publishers.remove(&id) else { return };
        match why {
            Some(why) => self.fail_upstream(own.upstream, 404, why),
            None => {
                let sessions = self.upstreams.get(&own.upstream).map(|own| super::ordered(&own.viewers));
                sessions.into_iter().flatten().for_each(|session| self.cut_session(session, Ending::StreamEnded));
                self.end_upstream(own.upstream);
            }
        }
    }

    /// A publisher of which nothing is heard any more is gone, though its connection may be there.
    pub(super) fn publisher_tick(&mut self, id: ClientId, upstream: UpstreamId) {
        let Some(heard) = self.publishers.get(&id).map(|own| own.heard) else { return };
        let (clock, now) = (self.world.clock(), self.now);
        let timeout = self.settings.timeouts.session;
        let numbers: Vec<u32> = self.upstreams.get(&upstream).map_or_else(Vec::new, |own| {
            own.tracks.iter().filter(|track| track.state == TrackState::Ready).map(|track| track.number).collect()
        });
        let recent = |heard: u64| heard != 0 && u128::from(clock.saturating_sub(heard)) < timeout.as_nanos();
        let media = numbers.into_iter().any(|number| recent(self.world.progress(number).heard));
        if !media && now.saturating_sub(heard) > timeout {
            self.end_publisher(id, Some("its publisher is not heard of any more"));
            self.close_client(id);
        } else {
            self.measure(upstream);
            self.flows_tick(upstream);
            self.report_upstream(upstream);
        }
    }
}

/// Whether a description says what viewers must know: streams of RTP with payload types, each with a URL of its own.
fn is_whole(description: &Description, base: &str) -> bool {
    let controls: Vec<String> = (0..description.media()).map(|track| description.media_control(track, base)).collect();
    let alone = |(at, own): (usize, &String)| !controls[..at].contains(own);
    (0..description.media()).all(|track| description.is_rtp(track)) && controls.iter().enumerate().all(alone)
}

/// Whether two URLs have the same path: some clients write the host in another way than before.
fn same_path(one: &str, other: &str) -> bool {
    let path = |text| Url::parse(text).map_or("", |url| url.path).trim_end_matches('/').to_owned();
    path(one) == path(other)
}

/// The first transport of a header by which a stream can come.
fn choose(header: &str, free: Option<(u8, u8)>, taken: impl Fn(u8) -> bool) -> Option<Transport> {
    transport::parse(header).into_iter().find_map(|wanted| {
        let mode = wanted.mode.as_deref().is_none_or(|mode| ["RECORD", "RECEIVE"].contains(&mode));
        if wanted.profile != "RTP/AVP" || wanted.multicast || !mode {
            return None;
        }
        let own = match wanted.lower {
            Lower::Udp => Transport::udp(wanted.client_port.filter(|(rtp, rtcp)| *rtp >= 1024 && *rtcp >= 1024)?),
            Lower::Tcp => {
                let (rtp, rtcp) = wanted.interleaved.or(free)?;
                Transport::tcp(Some((rtp, rtcp)).filter(|_| rtp != rtcp && !taken(rtp) && !taken(rtcp))?)
            }
        };
        Some(Transport { mode: Some("RECORD".to_owned()), ..own })
    })
}

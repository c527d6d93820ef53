//! SETUP: a track of a presentation, from its origin and to a client.

use std::net::{IpAddr, SocketAddr};

use wire::rtp::Rewrite;
use wire::rtsp::message::{Request, Response};
use wire::rtsp::transport::{self, Lower, Transport};

use super::accounts::Account;
use super::session::{Delivery, Ending, Viewer};
use super::target::Target;
use super::track::TrackState;
use super::world::World;
use super::{ClientId, Proxy, SessionId, UpstreamId};

impl<W: World> Proxy<W> {
    pub(super) fn setup(&mut self, id: ClientId, request: Request) {
        let Some(target) = self.target_of(id, &request) else { return };
        let session = match request.headers.get("session") {
            None => None,
            Some(_) => match self.session_of(id, &request) {
                Ok(session) => Some(session),
                Err(status) => return self.refuse(id, &request, status),
            },
        };
        // Who has a session was admitted when it began.
        if session.is_none() && !self.admits(id, &request, &target) {
            return;
        }
        let Some(client) = self.clients.get(&id) else { return };
        let address = client.peer.ip();
        let (wanted, channels) = (request.headers.get("transport").unwrap_or(""), self.free_channels(id));
        let Some((transport, delivery)) = choose(wanted, address, id, channels) else {
            return self.refuse(id, &request, 461);
        };
        // The presentation must have been described, and its track set up at the origin: else the request waits for
        // that, and is served once more.
        let upstream = match session.and_then(|session| self.sessions.get(&session)) {
            Some(own) if own.base != target.base => return self.refuse(id, &request, 459),
            Some(own) if own.playing => return self.refuse(id, &request, 455),
            Some(own) => own.upstream,
            None => match self.upstream_for(&target) {
                Ok(upstream) => upstream,
                Err(status) => return self.refuse(id, &request, status),
            },
        };
        self.note_proof(upstream, &request);
        let Some(own) = self.upstreams.get_mut(&upstream) else { return self.refuse(id, &request, 454) };
        let Some(description) = own.description.clone().filter(|_| !own.is_recovering()) else {
            return own.waiting.push((id, request));
        };
        let track = match target.track {
            Some(track) if track < description.media() => track,
            Some(_) => return self.refuse(id, &request, 404),
            None if description.media() == 1 => 0,
            None => return self.refuse(id, &request, 459),
        };
        match own.tracks[track].state {
            TrackState::Ready => {}
            TrackState::Refused(status) => return self.refuse(id, &request, status),
            TrackState::Asked => return own.waiting.push((id, request)),
            // It was announced, and does not come.
            TrackState::New if own.publisher.is_some() => return self.refuse(id, &request, 404),
            TrackState::New => {
                if let Err(status) = self.setup_at_origin(upstream, track) {
                    return self.refuse(id, &request, status);
                }
                if let Some(own) = self.upstreams.get_mut(&upstream) {
                    own.waiting.push((id, request));
                }
                return;
            }
        }
        self.setup_viewer(id, &request, &target, upstream, session, track, (transport, delivery));
    }

    /// The track is there at the origin: the client gets it.
    #[allow(clippy::too_many_arguments)]
    fn setup_viewer(
        &mut self,
        id: ClientId,
        request: &Request,
        target: &Target,
        upstream: UpstreamId,
        session: Option<SessionId>,
        track: usize,
        (mut transport, delivery): (Transport, Delivery),
    ) {
        let Some(client) = self.clients.get(&id) else { return };
        let (address, local) = (client.peer.ip(), client.local.ip());
        if self.lacks_bandwidth(address, upstream, track, session) {
            return self.refuse(id, request, 453);
        }
        if matches!(delivery, Delivery::Udp { .. }) && !self.world.bind_media(local) {
            return self.refuse(id, request, 503);
        }
        let session = match session.map_or_else(|| self.begin_session(id, target, upstream), Ok) {
            Ok(session) => session,
            Err(status) => return self.refuse(id, request, status),
        };
        if matches!(delivery, Delivery::Udp { .. }) {
            if let Err(status) = self.reserve(upstream, session, track) {
                if self.sessions.get(&session).is_some_and(|own| own.viewers.is_empty()) {
                    self.end_session(session, Ending::Refused);
                }
                return self.refuse(id, request, status);
            }
        } else {
            self.unreserve(upstream, session, track);
        }
        let rewrite = self.new_source(session, track);
        let Some(own) = self.sessions.get_mut(&session) else { return };
        let viewer = Viewer { delivery, rewrite, report: None, round_trip: None, account: Account::default() };
        let before = own.viewers.insert(track, viewer);
        if let Some(before) = before {
            own.keep_account(before.account, |place| self.world.progress(place));
            self.sources.remove(&before.rewrite.ssrc);
            self.uncarry(session, &before);
        }
        self.records.sessions.insert(session);
        if let (Delivery::Interleaved { .. }, Some(client)) = (delivery, self.clients.get_mut(&id))
            && !client.carries.contains(&session)
        {
            client.carries.push(session);
        }
        let mut response = Response::new(200, request.cseq());
        if transport.lower == Lower::Udp {
            let port = self.settings.media_port;
            (transport.server_port, transport.source) = (Some((port, port + 1)), Some(local.to_string()));
        }
        transport.ssrc = Some(rewrite.ssrc);
        response.headers.push("Transport", transport.to_string());
        self.name_session(&mut response, session);
        self.push_via(&mut response);
        self.respond(id, response);
    }

    /// A session for a presentation. One without end is shared; any other is this session's alone from now on.
    fn begin_session(&mut self, id: ClientId, target: &Target, upstream: UpstreamId) -> Result<SessionId, u16> {
        let session = self.new_session(id, upstream, target.base.clone(), target.name.clone())?;
        self.sessions.get_mut(&session).into_iter().for_each(|own| own.forwarded = target.forwarded);
        if self.upstreams.get(&upstream).is_some_and(|own| !own.live) {
            self.forget_joinable(upstream);
        }
        Ok(session)
    }

    /// A source that no receiver knows yet, and where its numbers begin.
    fn new_source(&mut self, session: SessionId, track: usize) -> Rewrite {
        loop {
            let (ssrc, other) = (self.world.random() as u32, self.world.random());
            if ssrc != 0 && !self.sources.contains_key(&ssrc) {
                self.sources.insert(ssrc, (session, track));
                return Rewrite { ssrc, sequence: other as u16, timestamp: (other >> 32) as u32 };
            }
        }
    }

    /// A pair of channels that no track of the connection has.
    fn free_channels(&self, id: ClientId) -> Option<(u8, u8)> {
        let taken: Vec<u8> = self.channels(id).map(|(rtp, _)| rtp).collect();
        (0..=254u8).step_by(2).find(|first| !taken.contains(first)).map(|first| (first, first + 1))
    }

    fn channels(&self, id: ClientId) -> impl Iterator<Item = (u8, u8)> {
        let sessions = self.clients.get(&id).into_iter().flat_map(|client| &client.carries);
        let viewers = sessions.filter_map(|session| self.sessions.get(session)).flat_map(|own| own.viewers.values());
        viewers.filter_map(move |viewer| match viewer.delivery {
            Delivery::Interleaved { client, rtp, rtcp } if client == id => Some((rtp, rtcp)),
            _ => None,
        })
    }
}

/// The first transport of a header that there is, with where its packets go. Media goes to the address that the command
/// comes from and to no other (RFC 2326 section 16).
fn choose(header: &str, address: IpAddr, client: ClientId, free: Option<(u8, u8)>) -> Option<(Transport, Delivery)> {
    transport::parse(header).into_iter().find_map(|wanted| {
        let elsewhere = wanted.destination.as_ref().is_some_and(|own| own.parse() != Ok(address));
        let mode = wanted.mode.as_deref().is_none_or(|mode| mode == "PLAY");
        if wanted.profile != "RTP/AVP" || wanted.multicast || elsewhere || !mode {
            return None;
        }
        match wanted.lower {
            Lower::Udp => {
                let (rtp, rtcp) = wanted.client_port.filter(|(rtp, rtcp)| *rtp >= 1024 && *rtcp >= 1024)?;
                let to = |port| SocketAddr::new(address, port);
                Some((Transport::udp((rtp, rtcp)), Delivery::Udp { rtp: to(rtp), rtcp: to(rtcp) }))
            }
            Lower::Tcp => {
                let (rtp, rtcp) = wanted.interleaved.or(free)?;
                Some((Transport::tcp((rtp, rtcp)), Delivery::Interleaved { client, rtp, rtcp }))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_goes_to_who_asks_and_nowhere_else() {
        let address: IpAddr = "10.0.1.5".parse().unwrap();
        let chosen =
            |header: &str| choose(header, address, 1, Some((4, 5))).map(|(transport, _)| transport.to_string());
        assert_eq!(
            chosen("RTP/AVP;unicast;client_port=5000-5001").as_deref(),
            Some("RTP/AVP;unicast;client_port=5000-5001")
        );
        let both = "RTP/AVP;multicast,RTP/SAVP;unicast;client_port=5000-5001,RTP/AVP/TCP;unicast";
        assert_eq!(chosen(both).as_deref(), Some("RTP/AVP/TCP;unicast;interleaved=4-5"));
        for refused in [
            "",
            "RTP/AVP;unicast",
            "RTP/AVP;unicast;client_port=0-1",
            "RTP/AVP;unicast;client_port=53-54",
            "RTP/AVP;unicast;destination=10.0.1.6;client_port=5000-5001",
            "RTP/AVP;multicast",
            "RTP/AVP;unicast;client_port=5000-5001;mode=RECORD",
        ] {
            assert_eq!(chosen(refused), None, "{refused}");
        }
    }
}

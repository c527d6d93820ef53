//! What becomes of a stream's packets: nobody's while nobody plays, one receiver's in the fast path, and where there
//! are several, or one on a connection, the controller's, which delivers them.

use std::net::{IpAddr, SocketAddr};

use wire::rtp;
use wire::rtsp::framing::interleaved;
use wire::rtsp::url::{self, Url};

use super::session::Delivery;
use super::upstream::TrackState;
use super::world::{Effect, From, World};
use super::{Proxy, UpstreamId, ordered};
use crate::tables::{Flow, FlowKey, Leads};

impl<W: World> Proxy<W> {
    /// Sets the flow entries of a presentation anew.
    pub(super) fn update_flows(&mut self, id: UpstreamId) {
        let tracks = self.upstreams.get(&id).map_or(0, |own| own.tracks.len());
        (0..tracks).for_each(|track| self.update_flow(id, track));
    }

    /// Sets the flow entry of a track anew, once it is known what its packets come with.
    pub(super) fn update_flow(&mut self, id: UpstreamId, track: usize) {
        let Some(own) = self.upstreams.get(&id) else { return };
        let Some(of) = own.tracks.get(track) else { return };
        let Some(key) = of.key.filter(|_| of.state == TrackState::Ready) else { return };
        let (rate, number, pending) = (of.rate, of.number, of.before.is_some());
        let receivers = own.viewers.iter().filter_map(|session| {
            let session = self.sessions.get(session).filter(|session| session.playing)?;
            Some((session, session.viewers.get(&track)?))
        });
        let mut receivers = receivers.take(2);
        let leads = match (receivers.next(), receivers.next()) {
            // The first packet says how numbers go on.
            _ if pending => Leads::Controller,
            (None, _) => Leads::Nobody,
            (Some((session, viewer)), None) => match viewer.delivery {
                Delivery::Udp { rtp, .. } => Leads::Receiver {
                    to: rtp,
                    from: SocketAddr::new(session.local, self.settings.media_port),
                    rewrite: viewer.rewrite,
                },
                Delivery::Interleaved { .. } => Leads::Controller,
            },
            (Some(_), Some(_)) => Leads::Controller,
        };
        self.effect(Effect::SetFlow(key, Flow { leads, rate, track: number }));
    }

    /// An RTP packet of a track has come to the controller: it is delivered to all who play.
    pub fn deliver(&mut self, track: u32, packet: &[u8]) {
        self.counts.tapped += 1;
        let Some((upstream, track)) = self.tracks.get(&track).copied() else { return };
        let Some(header) = rtp::Header::read(packet) else { return };
        self.resume(upstream, track, header);
        let Some(own) = self.upstreams.get(&upstream) else { return };
        for session in ordered(&own.viewers) {
            let Some(session) = self.sessions.get(&session).filter(|session| session.playing) else { continue };
            let Some(viewer) = session.viewers.get(&track) else { continue };
            let mut copy = packet.to_vec();
            viewer.rewrite.apply(header).write(&mut copy);
            let effect = match viewer.delivery {
                Delivery::Udp { rtp, .. } => Effect::Datagram(From::Media(session.local), rtp, copy),
                Delivery::Interleaved { client, rtp, .. } => match interleaved(rtp, &copy) {
                    Some(framed) => Effect::MediaToClient(client, framed),
                    None => continue,
                },
            };
            self.counts.delivered += 1;
            self.effects.push_back(effect);
        }
    }

    /// An RTP packet has come to the socket of a pair: its flow is not known yet, as servers leave out their port or
    /// send from another one than they say. The first one from the origin's own address says it.
    pub fn media_at_socket(&mut self, address: IpAddr, port: u16, from: SocketAddr, packet: &[u8]) {
        self.counts.at_sockets += 1;
        if rtp::Header::read(packet).is_none() {
            return;
        }
        let found = self.pairs.get(&(address, port)).copied();
        let Some((id, track)) = found else { return };
        let Some(own) = self.upstreams.get_mut(&id).map(|own| &mut own.tracks[track]) else { return };
        if own.state != TrackState::Ready {
            return;
        }
        let key = FlowKey { src: from, dst: SocketAddr::new(address, port) };
        // Once a packet was counted, the flow is known.
        let known = own.key.is_some() && self.world.progress(own.number).seen != 0;
        if own.source != Some(from.ip()) || own.key == Some(key) || known {
            return;
        }
        if let Some(before) = own.key.replace(key) {
            self.effects.push_back(Effect::RemoveFlow(before));
        }
        self.update_flow(id, track);
    }

    /// The track that a URL of an origin's `RTP-Info` names; where none is, that at the same place among those that
    /// were set up.
    pub(super) fn track_of(&self, id: UpstreamId, named: &str, at: usize) -> Option<usize> {
        let own = self.upstreams.get(&id)?;
        let full = url::join(&own.base, named);
        let path = |text: &str| Url::parse(text).map(|url| url.path.to_owned());
        let wanted = path(&full)?;
        let ready = || own.tracks.iter().enumerate().filter(|(_, track)| track.state == TrackState::Ready);
        let named = ready().find(|(_, track)| path(&track.control).as_ref() == Some(&wanted));
        named.or_else(|| ready().nth(at)).map(|(track, _)| track)
    }
}

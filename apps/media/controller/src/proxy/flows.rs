//! What becomes of a stream's packets: nobody's while nobody plays, one receiver's in the kernel, several receivers' by
//! a worker. The controller gets copies where somebody plays on a connection, and delivers them.
//!
//! Receivers are members of their track's group as long as they play, also the only one. So it goes from one to several
//! and back by one change of the flow entry, and nobody is without packets in between.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use wire::rtp;
use wire::rtsp::framing::interleaved;
use wire::rtsp::url::{self, Url};

use super::late::Late;
use super::recording::Breaks;
use super::session::Delivery;
use super::track::TrackState;
use super::world::{Effect, From, Piece, World};
use super::{Proxy, SessionId, UpstreamId, ordered};
use crate::cache::seam::Place;
use crate::tables::{Flow, FlowKey, Leads, Receiver};

/// Receivers over UDP of all streams at most: members of the program's group `streams.receivers`.
pub const MOST_RECEIVERS: usize = 65536;
/// Since a worker got a packet of the group, it has sent what it had.
const EMPTY: Duration = Duration::from_secs(1);
/// A stream without a pause in which a worker sends all that it has goes to its only receiver after that long.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who gets the packets of a track.
#[derive(Debug, Default)]
pub(super) struct Audience {
    /// Sessions that have set it up over UDP: there is room in the group for all of them.
    reserved: BTreeSet<SessionId>,
    /// Those of them that play, with their numbers in the group.
    receivers: BTreeMap<SessionId, (u32, Receiver)>,
    /// Those that play on their connections.
    carried: BTreeSet<SessionId>,
    /// A worker may still have packets of the group.
    grouped: bool,
    /// Since when packets go to one receiver again.
    again: Option<Duration>,
    /// What is kept for those who come late.
    pub(super) late: Late,
    /// Whether it is recorded.
    pub(super) is_recorded: bool,
    /// How its recordings have gone.
    pub(super) breaks: Breaks,
}

impl Audience {
    /// Entries about sessions.
    pub(super) fn len(&self) -> usize {
        self.reserved.len() + self.receivers.len() + self.carried.len() + self.late.len()
    }

    /// The address of one of those that the program sends it to, if there are any.
    pub(super) fn member(&self) -> Option<IpAddr> {
        self.receivers.values().next().map(|(_, own)| own.to.ip())
    }

    /// Whether the program sends it to a session, where packets come to the program.
    pub(super) fn has_member(&self, session: SessionId) -> bool {
        self.receivers.contains_key(&session)
    }

    /// Whether the controller has nothing to do with its packets.
    pub(super) fn is_of_receivers_alone(&self) -> bool {
        self.carried.is_empty() && !self.late.is_on() && !self.is_recorded
    }
}

impl<W: World> Proxy<W> {
    /// Sees to it that all sessions of a presentation get what they play.
    pub(super) fn update_flows(&mut self, id: UpstreamId) {
        let sessions = self.upstreams.get(&id).map(|own| ordered(&own.viewers)).unwrap_or_default();
        for session in sessions {
            let Some(own) = self.sessions.get(&session) else { continue };
            let tracks: Vec<usize> = own.viewers.tracks().collect();
            tracks.into_iter().for_each(|track| self.update_viewer(id, session, track));
        }
    }

    /// The audience of a track, and its number.
    fn audience(&mut self, id: UpstreamId, track: usize) -> Option<(&mut Audience, u32)> {
        let of = self.upstreams.get_mut(&id)?.tracks.get_mut(track)?;
        Some((&mut of.audience, of.number))
    }

    /// Takes a place in the group of a track for a session that wants it over UDP; `Err` with the status where there is
    /// none.
    pub(super) fn reserve(&mut self, id: UpstreamId, session: SessionId, track: usize) -> Result<(), u16> {
        let (full, most) = (self.reserved >= self.most_receivers, self.settings.limits.receivers);
        let Some((audience, _)) = self.audience(id, track) else { return Err(454) };
        if audience.reserved.contains(&session) {
            return Ok(());
        }
        if full || audience.reserved.len() >= most {
            self.counts.group_full += 1;
            return Err(if full { 503 } else { 453 });
        }
        audience.reserved.insert(session);
        self.reserved += 1;
        Ok(())
    }

    /// Gives the place back.
    pub(super) fn unreserve(&mut self, id: UpstreamId, session: SessionId, track: usize) {
        let found = self.audience(id, track).is_some_and(|(audience, _)| audience.reserved.remove(&session));
        self.reserved -= usize::from(found);
    }

    /// Sees to it that a session gets what it plays of a track, and nothing else.
    pub(super) fn update_viewer(&mut self, id: UpstreamId, session: SessionId, track: usize) {
        let port = self.settings.media_port;
        let own = self.sessions.get(&session).filter(|own| own.playing && own.upstream == id);
        let plays = own.and_then(|own| {
            let viewer = own.viewers.get(track)?;
            let from = SocketAddr::new(own.local, port);
            Some(match viewer.delivery {
                Delivery::Udp { rtp, .. } => Some(Receiver { to: rtp, from, rewrite: viewer.rewrite, since: 0 }),
                Delivery::Interleaved { .. } => None,
            })
        });
        // A track that has lost its origin has no group: all join that of the next one.
        let plays = plays.filter(|_| {
            let of = self.upstreams.get(&id).and_then(|own| own.tracks.get(track));
            of.is_some_and(|of| of.state == TrackState::Ready)
        });
        self.touch_session(session);
        let is_relayed = self.upstreams.get(&id).is_some_and(|own| own.is_relayed(track));
        let to = plays.flatten().map(|own| own.to.ip()).filter(|_| is_relayed);
        let is_beyond = to.is_some_and(|to| !self.world.has_way(to));
        let Some((audience, number)) = self.audience(id, track) else { return };
        if plays == Some(None) {
            audience.carried.insert(session);
        } else {
            audience.carried.remove(&session);
        }
        if plays.is_none() {
            audience.late.forget(session);
        }
        // Who can't be reached by the program gets what comes to the controller by its sockets.
        let plays = plays.flatten().filter(|_| !audience.late.catches_up(session) && !is_beyond);
        let since = audience.late.since(session);
        let before = audience.receivers.remove(&session);
        let member = match (plays, before) {
            (Some(receiver), Some((member, known))) => {
                let receiver = Receiver { since: known.since, ..receiver };
                if receiver != known {
                    self.world.set_member(number, member, &receiver);
                }
                Some((member, receiver))
            }
            (Some(receiver), None) => {
                let receiver = Receiver { since, ..receiver };
                let joined = self.world.join(number, &receiver);
                // There was room when it was set up, so this is a program that others have changed.
                self.counts.group_full += u64::from(joined.is_none());
                joined.map(|member| (member, receiver))
            }
            (None, _) => None,
        };
        if let (Some(member), Some((audience, _))) = (member, self.audience(id, track)) {
            audience.receivers.insert(session, member);
        }
        self.update_flow(id, track);
        if let (None, Some((left, _))) = (member, before) {
            self.effect(Effect::Leave(number, left));
        }
    }

    /// Sets the flow entry of a track anew, once it is known what its packets come with.
    pub(super) fn update_flow(&mut self, id: UpstreamId, track: usize) {
        self.update_recording(id, track);
        let (now, late) = (self.now, self.late_bytes(id, track));
        let Some(of) = self.upstreams.get_mut(&id).and_then(|own| own.tracks.get_mut(track)) else { return };
        of.audience.late.keep(late);
        let Some(key) = of.key.filter(|_| of.state == TrackState::Ready) else { return };
        let (audience, pending) = (&mut of.audience, of.before.is_some());
        let leads = match (audience.receivers.len(), audience.receivers.values().next()) {
            // The first packet says how numbers go on: the controller gets it.
            _ if pending => Leads::Nobody,
            (1, Some((_, Receiver { to, from, rewrite, .. }))) => {
                Leads::Receiver { to: *to, from: *from, rewrite: *rewrite }
            }
            (0, _) | (_, None) => Leads::Nobody,
            _ => Leads::Group,
        };
        audience.grouped |= leads == Leads::Group;
        let again = audience.grouped && matches!(leads, Leads::Receiver { .. });
        audience.again = again.then(|| audience.again.unwrap_or(now));
        let tapped = pending || !audience.is_of_receivers_alone();
        let generation = audience.late.generation;
        let flow = Flow { leads, again, tapped, rate: of.rate, track: of.number, generation };
        self.effect(Effect::SetFlow(key, flow));
    }

    /// Viewers that the program can reach, or can reach no more, since it was looked at last.
    fn ways_tick(&mut self, id: UpstreamId, track: usize) {
        let Some(own) = self.upstreams.get(&id).filter(|own| own.is_relayed(track)) else { return };
        let audience = &own.tracks[track].audience;
        let mut changed = Vec::new();
        for session in &audience.reserved {
            let Some(of) = self.sessions.get(session).filter(|of| of.playing) else { continue };
            if let Some(Delivery::Udp { rtp, .. }) = of.viewers.get(track).map(|own| own.delivery)
                && self.world.has_way(rtp.ip()) != audience.has_member(*session)
            {
                changed.push(*session);
            }
        }
        changed.into_iter().for_each(|session| self.update_viewer(id, session, track));
    }

    /// Streams that go to one receiver again do so without a detour when a worker has nothing of them any more.
    pub(super) fn flows_tick(&mut self, id: UpstreamId) {
        let clock = self.world.clock();
        let tracks = self.upstreams.get(&id).map_or(0, |own| own.tracks.len());
        for track in 0..tracks {
            self.ways_tick(id, track);
            let now = self.now;
            let Some((audience, number)) = self.audience(id, track) else { return };
            let Some(since) = audience.again else { continue };
            let handed = self.world.progress(number).handed;
            let empty = clock.saturating_sub(handed) >= EMPTY.as_nanos() as u64;
            if !empty && now.saturating_sub(since) < PATIENCE {
                continue;
            }
            self.counts.hasty += u64::from(!empty);
            if let Some((audience, _)) = self.audience(id, track) {
                audience.grouped = false;
            }
            self.update_flow(id, track);
        }
    }

    /// A process before had a receiver in the group of a track: it is one of a session's. False where it can't be.
    pub(super) fn adopt(
        &mut self,
        id: UpstreamId,
        session: SessionId,
        track: usize,
        (group, member): (u32, u32),
        receiver: Receiver,
    ) -> bool {
        let Some((audience, number)) = self.audience(id, track) else { return false };
        let fits = number == group && audience.reserved.contains(&session);
        fits && audience.receivers.insert(session, (member, receiver)).is_none()
    }

    /// A process before had the flow entry of a track so: packets may have gone to its group.
    pub(super) fn adopt_flow(&mut self, id: UpstreamId, track: usize, flow: &Flow) {
        if let Some((audience, _)) = self.audience(id, track) {
            audience.grouped = flow.again || flow.leads == Leads::Group;
            audience.late.generation = flow.generation;
        }
    }

    /// A track ends: its group is empty from now on.
    pub(super) fn dismiss(&mut self, number: u32, audience: &mut Audience) {
        self.reserved -= std::mem::take(&mut audience.reserved).len();
        self.scatter(number, audience);
    }

    /// The flow of a track ends: its group is empty, and those who had set it up keep their places.
    pub(super) fn scatter(&mut self, number: u32, audience: &mut Audience) {
        if audience.is_recorded {
            self.world.end_recording(number);
        }
        for (member, _) in std::mem::take(&mut audience.receivers).into_values() {
            self.effect(Effect::Leave(number, member));
        }
        let (reserved, late) = (std::mem::take(&mut audience.reserved), audience.late.anew());
        *audience = Audience { reserved, late, ..Audience::default() };
    }

    /// An RTP packet of a track has come to the controller: it is delivered to all who play on their connections, and
    /// those that the program left to the controller, behind the first of another origin, to all.
    ///
    /// `generation` is the number that its flow entry had.
    pub fn deliver(&mut self, track: u32, generation: u32, packet: &[u8]) {
        self.counts.tapped += 1;
        let Some((upstream, track)) = self.tracks.get(&track).copied() else {
            // Its track has ended meanwhile.
            return self.world.record(track, packet);
        };
        let Some(header) = rtp::Header::read(packet) else { return };
        let is_new = self.resume(upstream, track, packet, header);
        self.record_packet(upstream, track, packet);
        if !is_new {
            return;
        }
        let read = self.read_packet(upstream, track, packet);
        let Some(own) = self.upstreams.get(&upstream) else { return };
        let audience = &own.tracks[track].audience;
        let with = |session: &&SessionId| !audience.late.is_behind(**session);
        let carried: Vec<SessionId> = audience.carried.iter().filter(with).copied().collect();
        for session in carried {
            let Some(viewer) = self.sessions.get(&session).and_then(|own| own.viewers.get(track)) else { continue };
            let Delivery::Interleaved { client, rtp, .. } = viewer.delivery else { continue };
            let mut copy = packet.to_vec();
            viewer.rewrite.apply(header).write(&mut copy);
            let Some(framed) = interleaved(rtp, &copy) else { continue };
            self.counts.delivered += 1;
            let piece = read.map(|(contents, coding)| Piece::new(rtp, contents, coding));
            self.send_carried(session, Effect::MediaToClient(client, framed, piece));
        }
        let Some(own) = self.upstreams.get(&upstream) else { return };
        // They came before the program knew where to, when the first one of another origin did.
        if generation < own.tracks[track].known_since {
            for session in ordered(&own.viewers) {
                let Some(session) = self.sessions.get(&session).filter(|own| own.playing) else { continue };
                let Some(viewer) = session.viewers.get(track) else { continue };
                let Delivery::Udp { rtp, .. } = viewer.delivery else { continue };
                let mut copy = packet.to_vec();
                viewer.rewrite.apply(header).write(&mut copy);
                self.counts.delivered += 1;
                self.effects.push_back(Effect::Datagram(From::Media(session.local), rtp, copy));
            }
        }
        self.feed(upstream, track, Some(generation));
    }

    /// The first packet of a track whose origin is another one than before has come, and the program has seen to it.
    pub fn resumed(&mut self, track: u32, first: rtp::Header) {
        if let Some((upstream, track)) = self.tracks.get(&track).copied() {
            self.resume_at(upstream, track, first, Place::Unknown);
        }
    }

    /// An RTP packet has come to the socket of a pair: its flow is not known yet, as servers leave out their port or
    /// send from another one than they say. The first one from the origin's own address says it.
    pub fn media_at_socket(&mut self, address: IpAddr, port: u16, from: SocketAddr, packet: &[u8]) {
        let found = self.pairs.get(&(address, port)).copied();
        if let Some((id, track)) =
            found.filter(|(id, _)| self.upstreams.get(id).is_some_and(|own| own.source.is_some()))
        {
            return self.datagram_of_source(id, track, from, packet);
        }
        self.counts.at_sockets += 1;
        if rtp::Header::read(packet).is_none() {
            return;
        }
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
        self.touch_stream(id);
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

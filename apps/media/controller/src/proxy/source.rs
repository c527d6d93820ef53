//! Sources without RTSP: RTP, or a bare MPEG transport stream, that comes to an address and a port. Nobody is asked for
//! it, so all that it needs is there at once, and its sender is whoever is heard first.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use wire::rtp;
use wire::rtsp::transport::Transport;

use super::records::{StreamRecord, TrackRecord};
use super::target::Target;
use super::track::{TrackState, tracks_of};
use super::upstream::{UNUSED, Upstream};
use super::world::{Effect, Interface, Listening, World};
use super::{Proxy, UpstreamId};
use crate::settings::plain::{Plain, is_place};
use crate::tables::FlowKey;

/// A sender that is not heard for so long may be replaced by another one.
const GONE: Duration = Duration::from_secs(2);
/// Bytes of a packet of a transport stream, and the one that each begins with (ISO/IEC 13818-1 section 2.4.3).
const TS: usize = 188;
const SYNC: u8 = 0x47;
/// The payload type of transport streams, and the rate of its clock (RFC 3551 table 5).
const MP2T: (u8, u64) = (33, 90_000);

/// What is known of the source of a presentation.
pub(super) struct Source {
    plain: Arc<Plain>,
    /// Of each track.
    senders: Vec<Sender>,
    /// Nothing has come of late, and that was noticed.
    silent: bool,
}

/// Who sends a track.
#[derive(Clone, Copy, Default)]
struct Sender {
    from: Option<SocketAddr>,
    since: Duration,
    /// Numbers that packets without RTP get: the next one, and their source.
    sequence: u16,
    ssrc: u32,
}

impl Source {
    /// Whether packets may come without RTP.
    pub(super) fn is_bare(&self) -> bool {
        self.plain.bare
    }

    /// Who sends a track.
    pub(super) fn sender(&self, track: usize) -> Option<SocketAddr> {
        self.senders.get(track)?.from
    }
}

impl Plain {
    /// Where a track comes to.
    fn listening(&self, track: usize) -> Option<Listening> {
        let (address, port) = *self.places.get(track)?;
        let interface = self.interface.clone().map_or(Interface::Any, Interface::Named);
        Some(Listening { address, port, source: self.source, interface, reports: !self.bare })
    }
}

impl<W: World> Proxy<W> {
    /// Begins to listen to a source; `Err` with the status where that can't be.
    pub(super) fn open_source(&mut self, target: &Target, plain: &Arc<Plain>) -> Result<UpstreamId, u16> {
        let (id, connection) = (self.new_id(), self.new_id());
        let url = target.presentation.url.clone();
        let mut own = Upstream::new(target, (None, url.clone()), connection, self.now);
        own.queue.clear();
        own.live = true;
        (own.playing, own.played_at) = (true, self.now);
        own.tracks = tracks_of(&plain.description, &url);
        own.description = Some(plain.description.clone());
        let senders = plain.places.iter().map(|_| self.new_sender(None)).collect();
        own.source = Some(Source { plain: plain.clone(), senders, silent: false });
        self.counts.upstreams += 1;
        self.counts_of(None, &url).asked += 1;
        self.upstreams.insert(id, own);
        for (track, listening) in (0..plain.places.len()).filter_map(|at| Some((at, plain.listening(at)?))) {
            if let Err(why) = self.listen(id, track, &listening) {
                tracing::warn!(source = %url, "{why}");
                self.counts.failed += 1;
                let counts = self.counts_of(None, &url);
                (counts.failed, counts.last_error) = (counts.failed + 1, why);
                self.end_upstream(id);
                return Err(503);
            }
        }
        Ok(id)
    }

    fn new_sender(&mut self, from: Option<SocketAddr>) -> Sender {
        let (sequence, ssrc) = (self.world.random() as u16, self.world.random() as u32);
        Sender { from, since: self.now, sequence, ssrc }
    }

    /// The source of a presentation that a process before had; none where the configuration has it no more, or
    /// otherwise.
    pub(super) fn source_again(&mut self, record: &StreamRecord) -> Option<Source> {
        let named = self.settings.streams.iter().find(|own| own.url == record.asked.0 && own.plain.is_some());
        let plain = named?.plain.clone()?;
        let same_place = |(own, place): (&TrackRecord, &(IpAddr, u16))| own.is_place(*place);
        let is_same = plain.description.text() == record.description
            && plain.places.len() == record.tracks.len()
            && record.tracks.iter().zip(&plain.places).all(same_place);
        if !is_same {
            return None;
        }
        let again = |own: &TrackRecord| {
            let mut sender = self.new_sender(own.sender);
            let progress = self.world.progress(own.number);
            // Numbers of packets without RTP, which the process before has counted, go on.
            if progress.seen != 0 {
                (sender.sequence, sender.ssrc) = ((progress.highest as u16).wrapping_add(1), progress.ssrc);
            }
            sender
        };
        let senders = record.tracks.iter().map(again).collect();
        Some(Source { plain, senders, silent: false })
    }

    /// Has a track come again where it came to for a process before: to a source's place without RTSP, or to a group
    /// that is joined where its origin is reached. Whether it does.
    pub(super) fn listen_again(
        &mut self,
        source: Option<&Source>,
        track: usize,
        (address, port): (IpAddr, u16),
        local: Option<IpAddr>,
    ) -> bool {
        let listening = match (source, local) {
            (Some(source), _) => source.plain.listening(track),
            (None, Some(local)) => Some(Listening::of_group(address, port, local)),
            (None, None) => None,
        };
        let listens = listening.map(|own| self.world.listen(&own));
        listens.is_some_and(|own| own.inspect_err(|why| tracing::warn!("{why}")).is_ok())
    }

    /// Has a track come to a group, or to an own address, where nothing is said by RTSP of the sender's port.
    ///
    /// # Errors
    /// Why it can't.
    pub(super) fn listen(&mut self, id: UpstreamId, track: usize, at: &Listening) -> Result<(), String> {
        let place = (at.address, at.port);
        if self.pairs.contains_key(&place) {
            return Err(format!("port {} of {} is another stream's", at.port, at.address));
        }
        let known = self.upstreams.get(&id).and_then(|own| own.tracks.get(track)).map(|of| (of.state, of.number));
        let number = match known {
            // It has been asked for, so it has a place already.
            Some((TrackState::Asked, number)) => number,
            _ => self.new_track((id, track)).ok_or("there are too many streams")?,
        };
        let listens = self.world.listen(at);
        if listens.is_ok() {
            self.pairs.insert(place, (id, track));
        }
        self.world.reset_progress(number);
        let own_ssrc = self.world.random() as u32;
        if let Some(of) = self.upstreams.get_mut(&id).and_then(|own| own.tracks.get_mut(track)) {
            (of.state, of.number, of.own_ssrc) = (TrackState::Ready, number, own_ssrc);
            if listens.is_ok() {
                (of.listens, of.port) = (Some(at.address), at.port);
            }
        }
        listens
    }

    /// A datagram of a source without RTSP has come to a socket: its flow is not known yet, it is another sender's, or
    /// it is of a kind that the program does not know.
    pub(super) fn datagram_of_source(&mut self, id: UpstreamId, track: usize, from: SocketAddr, datagram: &[u8]) {
        let Some(own) = self.upstreams.get(&id) else { return };
        let Some((source, of)) = own.source.as_ref().zip(own.tracks.get(track)) else { return };
        let (sender, number) = (source.senders[track], of.number);
        let bare = source.plain.bare && is_transport_stream(datagram);
        if !bare && rtp::Header::read(datagram).is_none() {
            self.counts.malformed += 1;
            return;
        }
        if source.plain.source.is_some_and(|own| own != from.ip()) {
            self.counts.strangers += 1;
            return;
        }
        if let Some(current) = sender.from.filter(|current| *current != from) {
            let clock = self.world.clock();
            let heard = self.world.progress(number).heard;
            let recent = self.now.saturating_sub(sender.since) < GONE;
            if recent || clock.saturating_sub(heard) < GONE.as_nanos() as u64 {
                self.counts.strangers += 1;
                return;
            }
            tracing::info!(source = %own.url, %from, before = %current, "another one sends");
            self.counts.senders += 1;
            self.leave_sender(id, track);
        }
        let now = self.now;
        let Some(own) = self.upstreams.get_mut(&id) else { return };
        let (Some(source), Some(of)) = (&mut own.source, own.tracks.get_mut(track)) else { return };
        let sender = &mut source.senders[track];
        if sender.from.replace(from) != Some(from) {
            sender.since = now;
            self.records.streams.insert(id);
        }
        of.source = Some(from.ip());
        if bare && !self.world.takes_bare() {
            return self.relay_bare(id, track, datagram);
        }
        self.counts.at_sockets += 1;
        let key = of.listens.map(|address| FlowKey { src: from, dst: SocketAddr::new(address, of.port) });
        if of.key != key {
            let before = std::mem::replace(&mut of.key, key);
            before.into_iter().for_each(|before| self.effect(Effect::RemoveFlow(before)));
            self.update_flow(id, track);
        }
    }

    /// Packets of a transport stream without RTP get a header of their own, and go the slow way.
    fn relay_bare(&mut self, id: UpstreamId, track: usize, datagram: &[u8]) {
        let ticks = u128::from(self.world.clock()) * u128::from(MP2T.1) / 1_000_000_000;
        let Some(source) = self.upstreams.get_mut(&id).and_then(|own| own.source.as_mut()) else { return };
        let sender = &mut source.senders[track];
        let header = rtp::Header { sequence: sender.sequence, timestamp: ticks as u32, ssrc: sender.ssrc };
        sender.sequence = sender.sequence.wrapping_add(1);
        let mut packet = Vec::with_capacity(rtp::HEADER + datagram.len());
        packet.extend([0x80, MP2T.0]);
        packet.resize(rtp::HEADER, 0);
        header.write(&mut packet);
        packet.extend_from_slice(datagram);
        self.relay(id, track, &packet);
    }

    /// The sender of a track is gone, or says so: the numbers of the next one go on where its own ended.
    pub(super) fn leave_sender(&mut self, id: UpstreamId, track: usize) {
        let Some(mut own) = self.upstreams.remove(&id) else { return };
        if let Some(source) = &mut own.source {
            source.senders[track].from = None;
        }
        let of = &mut own.tracks[track];
        (of.source, of.rtcp, of.report) = (None, None, None);
        // Bare packets have numbers that go on by themselves.
        let Some(key) = of.key.take() else {
            self.upstreams.insert(id, own);
            return;
        };
        self.effect(Effect::RemoveFlow(key));
        let (number, heard) = (of.number, self.world.progress(of.number).seen != 0);
        if let Some(next) = self.new_track((id, track)) {
            self.world.reset_progress(next);
            self.close_accounts(&own);
            let of = &mut own.tracks[track];
            self.scatter(number, &mut of.audience);
            self.tracks.remove(&number);
            if heard && of.before.is_none() {
                of.before = Some(number);
            } else {
                self.free_tracks.push_back(number);
            }
            of.number = next;
        }
        self.upstreams.insert(id, own);
        self.touch_stream(id);
        self.open_accounts(id);
        self.update_flows(id);
    }

    /// What is due for a source: it ends when nobody wants it, and is given up when nothing has come for too long.
    pub(super) fn source_tick(&mut self, id: UpstreamId) {
        let Some(own) = self.upstreams.get(&id) else { return };
        if !own.is_wanted() && self.now.saturating_sub(own.used) > UNUSED {
            return self.end_upstream(id);
        }
        self.measure(id);
        self.flows_tick(id);
        self.notice_silent_source(id);
    }

    fn notice_silent_source(&mut self, id: UpstreamId) {
        let (limit, retry) = (self.settings.timeouts.silence, self.settings.timeouts.retry);
        let clock = self.world.clock();
        let Some(own) = self.upstreams.get(&id).filter(|_| !limit.is_zero()) else { return };
        // As in `notice_silence`.
        let mut quiet = self.now.saturating_sub(own.played_at.max(own.taken_up.unwrap_or_default()));
        for place in own.tracks.iter().flat_map(|of| of.before.into_iter().chain([of.number])) {
            let progress = self.world.progress(place);
            if progress.seen != 0 {
                quiet = quiet.min(Duration::from_nanos(clock.saturating_sub(progress.heard)));
            }
        }
        let (is_silent, tracks) = (quiet >= limit, own.tracks.len());
        let Some(own) = self.upstreams.get_mut(&id) else { return };
        let Some(source) = &mut own.source else { return };
        let was = std::mem::replace(&mut source.silent, is_silent);
        if is_silent && !was {
            let (url, why) = (own.url.clone(), format!("nothing has come for {} s", limit.as_secs()));
            tracing::warn!(source = %url, "{why}");
            self.counts.silences += 1;
            let counts = self.counts_of(None, &url);
            (counts.failed, counts.last_error) = (counts.failed + 1, why);
            (0..tracks).for_each(|track| self.leave_sender(id, track));
        }
        if quiet >= limit.saturating_add(retry) {
            self.counts.failed += 1;
            self.give_up(id, 504);
        }
    }
}

impl<W: World> Proxy<W> {
    /// The origin sends a track to a group, as it was asked to: the group is joined where the origin is reached.
    ///
    /// # Errors
    /// Why it is not.
    pub(super) fn join_group(
        &mut self,
        id: UpstreamId,
        track: usize,
        chosen: &Transport,
        local: IpAddr,
    ) -> Result<(), String> {
        let group = chosen.destination.as_deref().and_then(|own| own.parse().ok());
        let group = group.filter(|own: &IpAddr| own.is_multicast() && is_place(*own));
        let (Some(address), Some((port, _))) = (group, chosen.port.filter(|(port, _)| *port >= 1024)) else {
            return Err("the answer to SETUP names no group, or no port of it".into());
        };
        self.listen(id, track, &Listening::of_group(address, port, local))
    }
}

/// Whether all of a datagram is packets of a transport stream.
fn is_transport_stream(datagram: &[u8]) -> bool {
    !datagram.is_empty() && datagram.len().is_multiple_of(TS) && datagram.chunks(TS).all(|packet| packet[0] == SYNC)
}

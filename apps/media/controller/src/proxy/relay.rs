//! Packets of streams that come on connections, or without RTP: the slow way. They are counted as the program counts
//! those of flows. Viewers over UDP get them from the program, which has one copy for all of them, viewers on
//! connections from the controller; so do those over UDP to whom the program knows no way.

use wire::rtcp;
use wire::rtp;
use wire::rtsp::framing::interleaved;

use super::session::Delivery;
use super::source::Source;
use super::track::TrackState;
use super::upstream::Upstream;
use super::world::{Effect, From, Piece, World};
use super::{Proxy, UpstreamId, ordered};
use crate::tables::Progress;

/// Bytes of a packet that a worker sends on at most: it does not make fragments of what is larger, as a socket does,
/// and with headers of IPv6 and UDP a frame of Ethernet has room for that.
const MOST_BY_GROUP: usize = 1452;
/// Numbers that are remembered behind the highest one.
const SEEN: u16 = u64::BITS as u16;

impl Upstream {
    /// Whether packets of a track come to the controller alone.
    pub(super) fn is_relayed(&self, track: usize) -> bool {
        let Some(of) = self.tracks.get(track) else { return false };
        of.channels.is_some() || (of.key.is_none() && self.source.as_ref().is_some_and(Source::is_bare))
    }
}

impl<W: World> Proxy<W> {
    /// A packet has come on a channel of the connection of an origin, or of a publisher.
    pub(super) fn connection_data(&mut self, upstream: UpstreamId, channel: u8, packet: &[u8]) {
        let tracks = self.upstreams.get(&upstream).into_iter().flat_map(|own| own.tracks.iter().enumerate());
        let ready = tracks.filter(|(_, own)| own.state == TrackState::Ready);
        let mut channels = ready.filter_map(|(track, own)| own.channels.map(|(rtp, rtcp)| (track, rtp, rtcp)));
        let found = channels.find(|(_, rtp, rtcp)| *rtp == channel || *rtcp == channel);
        let Some((track, rtp, _)) = found else { return };
        // As on ports, both may come on the first channel (RFC 5761).
        if rtp == channel && !rtp::is_rtcp(packet) {
            self.relay(upstream, track, packet);
        } else if let Some(received) = rtcp::parse(packet) {
            self.pass_reports(upstream, track, &received);
        }
    }

    /// An RTP packet of a track has come to the controller alone: it is delivered to all who play.
    pub(super) fn relay(&mut self, upstream: UpstreamId, track: usize, packet: &[u8]) {
        let Some(header) = rtp::Header::read(packet) else { return };
        self.counts.relayed += 1;
        if self.upstreams.get(&upstream).is_some_and(Upstream::is_copy) {
            self.counts.film_bytes += packet.len() as u64;
        }
        // Where its origin is another one than before, and this is the first packet.
        let is_new = self.resume(upstream, track, packet, header);
        self.record_packet(upstream, track, packet);
        if !is_new {
            return;
        }
        let Some(own) = self.upstreams.get(&upstream) else { return };
        let (number, viewers) = (own.tracks[track].number, ordered(&own.viewers));
        let (mut progress, clock) = (self.world.progress(number), self.world.clock());
        count(&mut progress, header, packet.len(), clock);
        self.world.set_progress(number, &progress);
        let read = self.read_packet(upstream, track, packet);
        let Some(audience) = self.upstreams.get(&upstream).map(|own| &own.tracks[track].audience) else { return };
        let by_group = audience.member().filter(|_| packet.len() <= MOST_BY_GROUP);
        let mut effects = Vec::new();
        for id in viewers {
            if audience.late.is_behind(id) || (by_group.is_some() && audience.has_member(id)) {
                continue;
            }
            let Some(session) = self.sessions.get(&id).filter(|own| own.playing) else { continue };
            let Some(viewer) = session.viewers.get(track) else { continue };
            let mut copy = packet.to_vec();
            viewer.rewrite.apply(header).write(&mut copy);
            effects.extend(match viewer.delivery {
                Delivery::Udp { rtp, .. } => Some(Effect::Datagram(From::Media(session.local), rtp, copy)),
                Delivery::Interleaved { client, rtp, .. } => interleaved(rtp, &copy).map(|framed| {
                    let piece = read.map(|(contents, coding)| Piece::new(rtp, contents, coding));
                    Effect::MediaToClient(client, framed, piece)
                }),
            });
        }
        self.counts.delivered += effects.len() as u64;
        self.effects.extend(effects);
        // One copy for all others.
        if let Some(member) = by_group {
            self.effect(Effect::ToGroup(number, member, packet.to_vec()));
        }
        self.feed(upstream, track, None);
    }
}

/// Counts a packet (RFC 3550 appendix A.1). Connections keep the order, so a number that is left out was lost, and one
/// that is late was overtaken, before it came to the sender.
fn count(own: &mut Progress, header: rtp::Header, length: usize, clock: u64) {
    own.packets += 1;
    own.bytes += length as u64;
    own.heard = clock.max(1);
    let ahead = header.sequence.wrapping_sub(own.highest as u16);
    if own.seen == 0 || header.ssrc != own.ssrc {
        own.restarts += u32::from(own.seen != 0);
        (own.highest, own.seen) = (u32::from(header.sequence), 1);
    } else if ahead == 0 {
        own.duplicate += 1;
        return;
    } else if ahead < 0x8000 {
        own.lost = own.lost.wrapping_add(u32::from(ahead) - 1);
        own.highest = own.highest.wrapping_add(u32::from(ahead));
        own.seen = if ahead < SEEN { (own.seen << ahead) | 1 } else { 1 };
    } else {
        let bit = 1u64.checked_shl(u32::from(ahead.wrapping_neg())).unwrap_or(0);
        if own.seen & bit != 0 {
            own.duplicate += 1;
        } else {
            own.late += 1;
            own.lost = own.lost.wrapping_sub(1);
            own.seen |= bit;
        }
        return;
    }
    (own.timestamp, own.ssrc) = (header.timestamp, header.ssrc);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_counted() {
        let mut own = Progress::default();
        let mut come = |sequence: u16, ssrc| {
            count(&mut own, rtp::Header { sequence, timestamp: u32::from(sequence), ssrc }, 100, 5);
            (own.highest, own.lost, own.late, own.duplicate, own.restarts)
        };
        assert_eq!(come(65534, 1), (65534, 0, 0, 0, 0));
        // Numbers begin anew in the upper half; two are left out, and one of them comes late, twice.
        assert_eq!(come(1, 1), (65537, 2, 0, 0, 0));
        assert_eq!(come(0, 1), (65537, 1, 1, 0, 0));
        assert_eq!(come(0, 1), (65537, 1, 1, 1, 0));
        assert_eq!(come(1, 1), (65537, 1, 1, 2, 0));
        assert_eq!(come(7, 2), (7, 1, 1, 2, 1));
        assert_eq!((own.packets, own.bytes, own.timestamp, own.ssrc), (6, 600, 7, 2));
    }
}

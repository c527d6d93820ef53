//! RTCP: what senders say is passed on as receivers know the stream, what receivers say ends here, and the origin gets
//! one report of how the proxy receives.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use wire::rtcp::{self, Report, SenderReport};
use wire::rtsp::framing::interleaved;

use super::session::{Delivery, Ending};
use super::track::{Track, TrackState};
use super::upstream::Upstream;
use super::world::{Effect, From, World};
use super::{ClientId, Proxy, SessionId, UpstreamId, ordered};

/// Between two reports to an origin (RFC 3550 section 6.2).
const PERIOD: Duration = Duration::from_secs(5);
/// The last packets of a stream take no longer through workers and the controller; BYE must not overtake them.
const LINGER: Duration = Duration::from_millis(100);
/// The name of the proxy's own source, and of streams: it names no host.
pub(super) const NAME: &str = "millrace";

impl<W: World> Proxy<W> {
    /// RTCP has come to a pair of own ports towards an origin.
    pub fn report_from_origin(&mut self, address: IpAddr, port: u16, from: SocketAddr, datagram: &[u8]) {
        let found = self.pairs.get(&(address, port)).copied().filter(|(id, track)| {
            let own = self.upstreams.get(id).map(|own| &own.tracks[*track]);
            own.is_some_and(|own| own.state == TrackState::Ready && own.source == Some(from.ip()))
        });
        let (Some((id, track)), Some(received)) = (found, rtcp::parse(datagram)) else { return };
        let Some(own) = self.upstreams.get_mut(&id) else { return };
        own.tracks[track].rtcp.get_or_insert(from);
        self.pass_reports(id, track, &received);
    }

    /// Passes what the sender of a track reports on to all who play it.
    pub(super) fn pass_reports(&mut self, id: UpstreamId, track: usize, received: &rtcp::Received) {
        let now = self.now;
        let Some(own) = self.upstreams.get_mut(&id) else { return };
        let replaced = own.live && own.playing && own.publisher.is_none();
        let sessions = ordered(&own.viewers);
        let of = &mut own.tracks[track];
        let number = of.number;
        if let Some(report) = received.senders.first() {
            of.report = Some((*report, now));
            // Numbers that go on are not known before the first packet.
            let goes_on = of.before.is_some();
            // A stream without end goes on, from elsewhere.
            if received.ended.contains(&report.ssrc) && !replaced {
                of.ending = Some((*report, now + LINGER));
            } else if !goes_on {
                sessions.into_iter().for_each(|session| self.pass_report(session, track, report, false));
            }
        }
        let source = self.world.progress(number).ssrc;
        let plain = self.upstreams.get(&id).is_some_and(|own| own.source.is_some());
        if plain && received.ended.contains(&source) {
            // Another one may send from now on.
            self.leave_sender(id, track);
        } else if replaced && received.ended.contains(&source) {
            self.fail_upstream(id, 502, "its stream has ended (BYE)");
        }
    }

    /// Receivers of tracks that have ended at their origin are told so.
    pub(super) fn pass_endings(&mut self, id: UpstreamId) {
        let now = self.now;
        let Some(own) = self.upstreams.get_mut(&id) else { return };
        let sessions = ordered(&own.viewers);
        let due = |track: &mut Track| track.ending.take_if(|(_, at)| *at <= now).map(|(report, _)| report);
        let ended: Vec<_> = own.tracks.iter_mut().map(due).enumerate().collect();
        for (track, report) in ended.into_iter().filter_map(|(track, report)| Some((track, report?))) {
            sessions.iter().for_each(|session| self.pass_report(*session, track, &report, true));
        }
    }

    /// Passes a sender's report on to a session that plays.
    fn pass_report(&mut self, session: SessionId, track: usize, report: &SenderReport, ends: bool) {
        let Some(own) = self.sessions.get(&session).filter(|own| own.playing) else { return };
        let Some(viewer) = own.viewers.get(track) else { return };
        let bytes = report.rewritten(&viewer.rewrite).to_bytes(NAME, ends);
        self.report_to(own.local, viewer.delivery, bytes);
    }

    fn report_to(&mut self, local: IpAddr, delivery: Delivery, bytes: Vec<u8>) {
        match delivery {
            Delivery::Udp { rtcp, .. } => self.effect(Effect::Datagram(From::Reports(local), rtcp, bytes)),
            Delivery::Interleaved { client, rtcp, .. } => {
                interleaved(rtcp, &bytes)
                    .into_iter()
                    .for_each(|own| self.effect(Effect::MediaToClient(client, own, None)));
            }
        }
    }

    /// Receivers of a session are told that its streams end, and why.
    pub(super) fn say_bye(&mut self, session: SessionId, why: Ending) {
        let Some(own) = self.sessions.get(&session) else { return };
        let local = own.local;
        let all: Vec<_> = own.viewers.values().map(|viewer| (viewer.delivery, viewer.rewrite.ssrc)).collect();
        for (delivery, ssrc) in all {
            self.report_to(local, delivery, rtcp::bye(ssrc, NAME, why.name()));
        }
    }

    /// The origin is told that the proxy goes.
    pub(super) fn say_bye_upstream(&mut self, own: &Upstream) {
        let Some((local, _)) = own.addresses else { return };
        for track in own.tracks.iter().filter(|track| track.state == TrackState::Ready) {
            if let Some(to) = track.rtcp {
                self.effect(Effect::Datagram(
                    From::Pair(track.listens.unwrap_or(local.ip()), track.port),
                    to,
                    rtcp::bye(track.own_ssrc, NAME, ""),
                ));
            }
        }
    }

    /// RTCP has come to the ports of receivers, or on a connection.
    pub fn report_from_client(&mut self, from: IpAddr, datagram: &[u8]) {
        let (Some(received), now) = (rtcp::parse(datagram), self.now) else { return };
        for report in received.reports {
            let Some((session, track)) = self.sources.get(&report.ssrc).copied() else { continue };
            let Some(own) = self.sessions.get_mut(&session).filter(|own| own.client == from) else { continue };
            own.heard = now;
            let upstream = own.upstream;
            let sent = self.upstreams.get(&upstream).and_then(|own| own.tracks[track].report);
            let Some(viewer) = self.sessions.get_mut(&session).and_then(|own| own.viewers.get_mut(track)) else {
                continue;
            };
            // The time since the report that the receiver means, less the time that it took over it.
            let about = sent.filter(|(sent, _)| (sent.ntp >> 16) as u32 == report.last_sender_report);
            viewer.round_trip = about.map_or(viewer.round_trip, |(_, at)| {
                let delay = Duration::from_nanos(u64::from(report.delay) * 1_000_000_000 / 65536);
                Some(now.saturating_sub(at).saturating_sub(delay))
            });
            viewer.report = Some((report, now));
        }
    }

    /// Interleaved data of a client: reports, on channels of RTCP.
    pub(super) fn client_data(&mut self, id: ClientId, channel: u8, packet: &[u8]) {
        if self.publishers.contains_key(&id) {
            return self.published_data(id, channel, packet);
        }
        let Some(client) = self.clients.get(&id) else { return };
        let is_report = |session: &SessionId| {
            let viewers = self.sessions.get(session).into_iter().flat_map(|own| own.viewers.values());
            viewers.into_iter().any(|own| matches!(own.delivery, Delivery::Interleaved { rtcp, .. } if rtcp == channel))
        };
        if client.carries.iter().any(is_report) {
            self.report_from_client(client.peer.ip(), packet);
        }
    }

    /// Reports how the tracks of a presentation are received, where that is due.
    pub(super) fn report_upstream(&mut self, id: UpstreamId) {
        let Some(own) = self.upstreams.get(&id).filter(|own| own.playing) else { return };
        let Some((local, _)) = own.addresses else { return };
        for at in 0..own.tracks.len() {
            let Some(track) = self.upstreams.get(&id).and_then(|own| own.tracks.get(at)) else { return };
            let due = self.now.saturating_sub(track.reported_at) >= PERIOD;
            if !due || track.state != TrackState::Ready || (track.rtcp.is_none() && track.channels.is_none()) {
                continue;
            }
            let (to, channels) = (track.rtcp, track.channels);
            let progress = self.world.progress(track.number);
            let (packets, lost) = track.reported;
            // Expected since the last report are those that came and those that did not (RFC 3550 appendix A.3).
            let received = progress.packets.saturating_sub(packets);
            let missing = progress.lost.wrapping_sub(lost) as i32;
            let expected = (received as i64 + i64::from(missing)).max(1);
            let fraction = (i64::from(missing.max(0)) * 256 / expected).clamp(0, 255) as u8;
            let said = track.report.map(|(report, when)| {
                let delay = self.now.saturating_sub(when).as_nanos() * 65536 / 1_000_000_000;
                ((report.ntp >> 16) as u32, u32::try_from(delay).unwrap_or(u32::MAX))
            });
            let (last_sender_report, delay) = said.unwrap_or((0, 0));
            let report = Report {
                ssrc: progress.ssrc,
                fraction_lost: fraction,
                lost: progress.lost as i32,
                highest: progress.highest,
                jitter: progress.jitter >> 4,
                last_sender_report,
                delay,
            };
            let about = (progress.seen != 0).then_some(&report);
            let bytes = rtcp::receiver_report(track.own_ssrc, NAME, about);
            let (address, port) = (track.listens.unwrap_or(local.ip()), track.port);
            let now = self.now;
            if let Some(track) = self.upstreams.get_mut(&id).and_then(|own| own.tracks.get_mut(at)) {
                (track.reported, track.reported_at) = ((progress.packets, progress.lost), now);
            }
            let framed = channels.and_then(|(_, rtcp)| interleaved(rtcp, &bytes));
            let Some((connection, publisher)) = self.upstreams.get(&id).map(|own| (own.connection, own.publisher))
            else {
                return;
            };
            match (to, framed, publisher) {
                (Some(to), ..) => self.effect(Effect::Datagram(From::Pair(address, port), to, bytes)),
                (None, Some(framed), Some(publisher)) => self.effect(Effect::MediaToClient(publisher, framed, None)),
                (None, Some(framed), None) => self.effect(Effect::ToOrigin(connection, framed)),
                (None, None, _) => {}
            }
        }
    }
}

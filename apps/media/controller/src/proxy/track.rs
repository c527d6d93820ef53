//! A track of a presentation, and how it is asked for: on own ports, or on the connection to the origin.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use wire::picture::Reader;
use wire::rtcp::SenderReport;
use wire::sdp::Description;

use super::flows::Audience;
use super::request::Job;
use super::world::{Effect, World};
use super::{Proxy, UpstreamId};
use crate::cache::seam::Tail;
use crate::tables::FlowKey;

/// How far a track is at its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TrackState {
    /// Not asked for.
    New,
    /// Asked for.
    Asked,
    /// There.
    Ready,
    /// The origin does not give it; the status of the answer.
    Refused(u16),
}

/// A track of a presentation.
pub(super) struct Track {
    pub(super) state: TrackState,
    /// Its URL at the origin.
    pub(super) control: String,
    /// What it is: `video`, `audio`.
    pub(super) kind: String,
    /// The rate of its clock, in hertz; 0 where it is not known.
    pub(super) rate: u32,
    /// What its packets tell of pictures, where they tell something.
    pub(super) reader: Option<Reader>,
    /// The channels that it comes on, where it comes on the connection.
    pub(super) channels: Option<(u8, u8)>,
    /// The first of its own ports; 0: none yet.
    pub(super) port: u16,
    /// Its place in `streams.progress`.
    pub(super) number: u32,
    /// The address of its port, where that is a group or another one than the connection's.
    pub(super) listens: Option<IpAddr>,
    /// Where its RTCP comes from, as far as the origin says.
    pub(super) rtcp: Option<SocketAddr>,
    /// Where its packets may come from.
    pub(super) source: Option<IpAddr>,
    /// What its packets come with, once that is known.
    pub(super) key: Option<FlowKey>,
    /// The place in `streams.progress` of the flow from the origin before, whose numbers are to go on: until the first
    /// packet of this one has come.
    pub(super) before: Option<u32>,
    /// What of its packets was sent from a copy, until then.
    pub(super) tail: Option<Tail>,
    /// Packets with a smaller number in their flow entry are the controller's to send, also to receivers over UDP: the
    /// program did not know yet where to.
    pub(super) known_since: u32,
    /// When its rate was measured last, and the bits that had come by then.
    pub(super) measured: (Duration, u64),
    /// Its rate then, in bits per second.
    pub(super) rate_now: u64,
    /// Who gets its packets.
    pub(super) audience: Audience,
    /// The last sender report, and when it came.
    pub(super) report: Option<(SenderReport, Duration)>,
    /// The last report of a sender that has said BYE, and when receivers are told so.
    pub(super) ending: Option<(SenderReport, Duration)>,
    /// Own source in reports to the origin.
    pub(super) own_ssrc: u32,
    /// What the last report to the origin said was received, and lost.
    pub(super) reported: (u64, u32),
    /// When that was.
    pub(super) reported_at: Duration,
}

/// The channels that a track is asked for on. A description has 64 tracks at most.
fn channels_of(track: usize) -> (u8, u8) {
    (2 * track as u8, 2 * track as u8 + 1)
}

/// The tracks of a description, whose URLs are seen from a base.
pub(super) fn tracks_of(description: &Description, base: &str) -> Vec<Track> {
    (0..description.media())
        .map(|track| Track {
            state: TrackState::New,
            control: description.media_control(track, base),
            kind: description.media_kind(track).to_owned(),
            rate: description.clock_rate(track).unwrap_or(0),
            reader: description.coding(track).map(Reader::new),
            channels: None,
            port: 0,
            number: 0,
            listens: None,
            rtcp: None,
            source: None,
            key: None,
            before: None,
            tail: None,
            known_since: 0,
            measured: (Duration::ZERO, 0),
            rate_now: 0,
            audience: Audience::default(),
            report: None,
            ending: None,
            own_ssrc: 0,
            reported: (0, 0),
            reported_at: Duration::ZERO,
        })
        .collect()
}

impl<W: World> Proxy<W> {
    /// Asks the origin for a track, on ports of its own; `Err` with the status where there are none.
    pub(super) fn setup_at_origin(&mut self, id: UpstreamId, track: usize) -> Result<(), u16> {
        let (carried, grouped) =
            self.upstreams.get(&id).map_or((false, false), |own| (own.carried, own.is_multicast()));
        // The ports of a group are the origin's to choose.
        self.take_place(id, track, !carried && !grouped)?;
        if let Some(own) = self.upstreams.get_mut(&id).and_then(|own| own.tracks.get_mut(track)) {
            own.channels = carried.then_some(channels_of(track));
        }
        self.ask(id, Job::Setup { track });
        Ok(())
    }

    /// Takes a place in `streams.progress`, and own ports where packets are to come to some; `Err` with the status
    /// where there are none.
    pub(super) fn take_place(&mut self, id: UpstreamId, track: usize, ports: bool) -> Result<(), u16> {
        let Some(own) = self.upstreams.get(&id) else { return Err(454) };
        let Some((local, _)) = own.addresses else { return Err(502) };
        let port = if ports { self.world.bind_pair(local.ip()).ok_or(503u16)? } else { 0 };
        let Some(number) = self.new_track((id, track)) else {
            self.release_pair(local.ip(), port);
            return Err(503);
        };
        self.world.reset_progress(number);
        if ports {
            self.pairs.insert((local.ip(), port), (id, track));
        }
        let own_ssrc = self.world.random() as u32;
        if let Some(own) = self.upstreams.get_mut(&id).and_then(|own| own.tracks.get_mut(track)) {
            (own.state, own.port, own.number, own.own_ssrc) = (TrackState::Asked, port, number, own_ssrc);
        }
        Ok(())
    }

    /// The origin does not send a track over UDP: it is asked for on the connection, if it may be; whether it is.
    pub(super) fn setup_carried(&mut self, id: UpstreamId, track: usize) -> bool {
        let Some(own) = self.upstreams.get_mut(&id) else { return false };
        let of = &mut own.tracks[track];
        if !own.may_be_carried || of.channels.is_some() {
            return false;
        }
        own.carried = true;
        let (port, addresses) = (std::mem::take(&mut of.port), own.addresses);
        of.channels = Some(channels_of(track));
        // In front of PLAY, which may wait behind it.
        own.queue.push_front(Job::Setup { track });
        addresses.into_iter().for_each(|(local, _)| self.release_pair(local.ip(), port));
        true
    }

    /// Gives own ports back, where there are some.
    pub(super) fn release_pair(&mut self, address: IpAddr, port: u16) {
        if port != 0 {
            self.pairs.remove(&(address, port));
            self.effect(Effect::ReleasePair(address, port));
        }
    }
}

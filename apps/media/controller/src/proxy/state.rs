//! What is shown to operators: sessions and streams.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wire::rtsp::url;

use super::session::{Delivery, Ending};
use super::track::TrackState;
use super::world::World;
use super::{Proxy, SessionId};

/// A session of a client, as it is shown. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionState {
    /// Its number; what the client knows it by is a secret of both.
    pub id: SessionId,
    /// The client's address.
    pub client: String,
    /// What it asks for.
    pub url: String,
    /// The stream's name in the configuration, if it has one.
    pub stream: Option<String>,
    /// The URL at the origin.
    pub origin: String,
    /// Whether it plays.
    pub playing: bool,
    /// Since it began.
    pub age_ms: u64,
    /// Since its client was heard of.
    pub heard_ms: u64,
    /// Its tracks.
    pub tracks: Vec<ViewerState>,
}

/// A track of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ViewerState {
    /// What it is: `video`, `audio`.
    pub kind: String,
    /// Where its packets go: an address, `interleaved`, or `tunnelled`.
    pub to: String,
    /// The source that the client knows.
    pub ssrc: u32,
    /// What the client said last: lost of the last packets, in percent;
    pub loss_percent: Option<f64>,
    /// lost since the beginning,
    pub lost: Option<i32>,
    /// the jitter in milliseconds,
    pub jitter_ms: Option<f64>,
    /// and the round trip that follows.
    pub round_trip_ms: Option<f64>,
}

/// A presentation that comes from an origin, as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamState {
    /// Its URL there.
    pub url: String,
    /// Whether it has no end, and is shared.
    pub live: bool,
    /// Whether the origin plays it.
    pub playing: bool,
    /// Its sessions.
    pub sessions: usize,
    /// Since it was asked for, in milliseconds.
    pub age_ms: u64,
    /// Its tracks that clients have asked for.
    pub tracks: Vec<TrackShown>,
}

/// A track of a presentation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrackShown {
    /// What it is: `video`, `audio`.
    pub kind: String,
    /// Where its packets come from; empty where that is not known yet.
    pub from: String,
    /// Packets.
    pub packets: u64,
    /// Bytes of RTP packets.
    pub bytes: u64,
    /// Packets that did not come.
    pub lost: i32,
    /// Packets behind others that were sent later.
    pub late: u32,
    /// Packets that came twice.
    pub duplicate: u32,
    /// Jumps of numbers, and other sources.
    pub restarts: u32,
    /// The jitter in milliseconds; none where the clock's rate is not known.
    pub jitter_ms: Option<f64>,
    /// What it takes, measured of late, in bits per second.
    pub rate: u64,
}

pub(super) fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn in_ms(ticks: u32, rate: u32) -> Option<f64> {
    (rate != 0).then(|| f64::from(ticks) * 1000.0 / f64::from(rate))
}

impl<W: World> Proxy<W> {
    /// Sessions, in order.
    pub fn session_states(&self) -> Vec<SessionState> {
        self.sessions.keys().filter_map(|id| self.session_state(*id)).collect()
    }

    fn session_state(&self, id: SessionId) -> Option<SessionState> {
        let own = self.sessions.get(&id)?;
        let upstream = self.upstreams.get(&own.upstream)?;
        let tracks = own.viewers.iter().map(|(track, viewer)| {
            let of = &upstream.tracks[track];
            let report = viewer.report.map(|(report, _)| report);
            ViewerState {
                kind: of.kind.clone(),
                to: match viewer.delivery {
                    Delivery::Udp { rtp, .. } => rtp.to_string(),
                    Delivery::Interleaved { client, .. } if self.tunnels.is_client(client) => "tunnelled".into(),
                    Delivery::Interleaved { .. } => "interleaved".into(),
                },
                ssrc: viewer.rewrite.ssrc,
                loss_percent: report.map(|report| f64::from(report.fraction_lost) * 100.0 / 256.0),
                lost: report.map(|report| report.lost),
                jitter_ms: report.and_then(|report| in_ms(report.jitter, of.rate)),
                round_trip_ms: viewer.round_trip.map(|time| time.as_secs_f64() * 1000.0),
            }
        });
        Some(SessionState {
            id,
            client: own.client.to_string(),
            url: url::shown(&own.base),
            stream: own.stream.clone(),
            origin: url::shown(&upstream.url),
            playing: own.playing,
            age_ms: ms(self.now.saturating_sub(own.since)),
            heard_ms: ms(self.now.saturating_sub(own.heard)),
            tracks: tracks.collect(),
        })
    }

    /// Presentations, in the order in which they were asked for.
    pub fn stream_states(&mut self) -> Vec<StreamState> {
        let mut ids: Vec<_> = self.upstreams.keys().copied().collect();
        ids.sort_unstable();
        let mut states = Vec::new();
        for id in ids {
            let Some(own) = self.upstreams.get(&id) else { continue };
            let ready = own.tracks.iter().filter(|track| track.state == TrackState::Ready);
            let tracks = ready.map(|track| {
                let progress = self.world.progress(track.number);
                TrackShown {
                    kind: track.kind.clone(),
                    from: track.key.map_or_else(String::new, |key| key.src.to_string()),
                    packets: progress.packets,
                    bytes: progress.bytes,
                    lost: progress.lost as i32,
                    late: progress.late,
                    duplicate: progress.duplicate,
                    restarts: progress.restarts,
                    jitter_ms: in_ms(progress.jitter >> 4, track.rate),
                    rate: track.rate_now,
                }
            });
            states.push(StreamState {
                url: url::shown(&own.url),
                live: own.live,
                playing: own.playing,
                sessions: own.viewers.len(),
                age_ms: ms(self.now.saturating_sub(own.since)),
                tracks: tracks.collect(),
            });
        }
        states
    }

    /// Clients that are connected, sessions, presentations.
    pub fn sizes(&self) -> (usize, usize, usize) {
        (self.clients.len(), self.sessions.len(), self.upstreams.len())
    }

    /// What there is because of clients, by what it is: none of it is left when they have gone.
    pub fn held(&self) -> BTreeMap<&'static str, usize> {
        let tracks = || self.upstreams.values().flat_map(|own| &own.tracks);
        BTreeMap::from([
            ("clients", self.clients.len()),
            ("addresses of clients", self.addresses.len()),
            ("halves of tunnels", self.tunnels.len()),
            ("publishers", self.publishers.len()),
            ("sessions", self.sessions.len()),
            ("names of sessions", self.names.len()),
            ("sources of viewers", self.sources.len()),
            ("places in groups", self.reserved + tracks().map(|track| track.audience.len()).sum::<usize>()),
            ("presentations", self.upstreams.len()),
            ("presentations that may be joined", self.joinable.len()),
            ("viewers that are sought", self.sought.len()),
            ("connections to origins", self.connections.len()),
            ("tracks", self.tracks.len()),
            ("own ports", self.pairs.len()),
            ("places of tracks", self.next_track as usize - self.free_tracks.len()),
            ("effects", self.effects.len()),
            ("records", self.records.sessions.len() + self.records.streams.len()),
        ])
    }

    /// Ends a session for an operator; whether there is one of this number.
    pub fn kill(&mut self, id: SessionId) -> bool {
        let there = self.sessions.contains_key(&id);
        self.cut_session(id, Ending::Killed);
        there
    }
}

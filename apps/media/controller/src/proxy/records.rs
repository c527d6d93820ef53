//! What of sessions and presentations outlasts the process: a record of each, made anew when it has changed. Nothing is
//! made for packets: numbers that packets change are in the program's tables.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wire::rtp::Rewrite;

use super::accounts::{Account, Total};
use super::peers::Peered;
use super::recovery::{Position, Recovery};
use super::session::{Delivery, Name, Session};
use super::source::Source;
use super::track::{Track, TrackState};
use super::world::World;
use super::{Proxy, SessionId, UpstreamId};
use crate::settings::Credentials;
use crate::tables::FlowKey;

/// In front of the numbers of sessions and of presentations, in keys of records.
pub(super) const SESSION: &str = "session ";
pub(super) const STREAM: &str = "stream ";
/// In front of the names of pools whose members are found.
pub(super) const MEMBERS: &str = "members ";
/// The key of the time at which the process was there.
pub(super) const ALIVE: &str = "alive";
/// Between two times that this is kept.
const EVERY: Duration = Duration::from_secs(10);

/// What has changed.
#[derive(Debug, Default)]
pub(super) struct Touched {
    pub(super) sessions: BTreeSet<SessionId>,
    pub(super) streams: BTreeSet<UpstreamId>,
    /// Pools whose members are found.
    pub(super) members: BTreeSet<String>,
    /// When it was kept last that the process is there.
    alive: Option<Duration>,
}

/// A session. Times are those of the clock of the world. There is one in memory for each session, so what is as in most
/// of them is left out.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SessionRecord {
    pub(super) name: Name,
    pub(super) client: IpAddr,
    pub(super) local: IpAddr,
    pub(super) base: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) stream: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) forwarded: bool,
    pub(super) upstream: UpstreamId,
    pub(super) viewers: Vec<ViewerRecord>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) playing: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) has_played: bool,
    pub(super) since: Duration,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) agent: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) total: Total,
}

/// A track of a session.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ViewerRecord {
    pub(super) track: usize,
    /// Where RTP and RTCP go; none: on the connection.
    pub(super) to: Option<(SocketAddr, SocketAddr)>,
    /// Source, and what is added to sequence numbers and timestamps.
    pub(super) numbers: (u32, u16, u32),
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) account: Account,
}

/// A presentation at its origin.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StreamRecord {
    /// What clients ask for: URL, pool, user and password.
    pub(super) asked: (String, Option<String>, Option<(String, String)>),
    /// and how peers are asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) peers: Option<Peered>,
    /// Host and port of the server of the pool.
    pub(super) server: Option<(String, Option<u16>)>,
    pub(super) url: String,
    pub(super) live: bool,
    pub(super) forced_live: Option<bool>,
    pub(super) joinable: bool,
    pub(super) addresses: Option<(SocketAddr, SocketAddr)>,
    pub(super) session: Option<String>,
    /// In seconds.
    pub(super) timeout: u64,
    pub(super) knows_parameter: bool,
    pub(super) base: String,
    pub(super) description: String,
    pub(super) carried: bool,
    pub(super) may_be_carried: bool,
    /// Whether its origin sends it to a group, and whether its source has no RTSP.
    #[serde(default)]
    pub(super) multicast: bool,
    #[serde(default)]
    pub(super) plain: bool,
    pub(super) playing: bool,
    pub(super) played_at: Duration,
    pub(super) position: Position,
    pub(super) since: Duration,
    /// Whether it had lost its origin.
    pub(super) is_recovering: bool,
    pub(super) tracks: Vec<TrackRecord>,
}

/// A track of a presentation.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TrackRecord {
    pub(super) control: String,
    /// Whether it is there, or is to be there again.
    pub(super) is_there: bool,
    /// The status with which the origin has refused it.
    pub(super) refused: Option<u16>,
    pub(super) port: u16,
    /// The address of the port, where that is a group or a source's without RTSP,
    #[serde(default)]
    pub(super) listens: Option<IpAddr>,
    /// and who sends there, where that source is one without RTSP.
    #[serde(default)]
    pub(super) sender: Option<SocketAddr>,
    pub(super) number: u32,
    pub(super) before: Option<u32>,
    pub(super) rtcp: Option<SocketAddr>,
    pub(super) source: Option<IpAddr>,
    /// Where its packets come from, and the own address.
    pub(super) key: Option<(SocketAddr, SocketAddr)>,
    pub(super) own_ssrc: u32,
}

/// The key of a record; numbers sort as they count.
fn key(kind: &str, id: u64) -> String {
    format!("{kind}{id:016x}")
}

impl SessionRecord {
    fn new(own: &Session) -> SessionRecord {
        let viewers = own.viewers.iter().map(|(track, viewer)| {
            let Rewrite { ssrc, sequence, timestamp } = viewer.rewrite;
            let to = match viewer.delivery {
                Delivery::Udp { rtp, rtcp } => Some((rtp, rtcp)),
                Delivery::Interleaved { .. } => None,
            };
            ViewerRecord { track, to, numbers: (ssrc, sequence, timestamp), account: viewer.account }
        });
        SessionRecord {
            name: own.name,
            client: own.client,
            local: own.local,
            base: own.base.clone(),
            stream: own.stream.clone(),
            forwarded: own.forwarded,
            upstream: own.upstream,
            viewers: viewers.collect(),
            playing: own.playing,
            has_played: own.has_played,
            since: own.since,
            agent: own.agent.as_deref().map(str::to_owned),
            total: own.total,
        }
    }
}

impl TrackRecord {
    fn new(at: usize, own: &Track, wanted: &[usize], source: Option<&Source>) -> TrackRecord {
        TrackRecord {
            control: own.control.clone(),
            is_there: own.state == TrackState::Ready || wanted.contains(&at),
            refused: match own.state {
                TrackState::Refused(status) => Some(status),
                _ => None,
            },
            port: own.port,
            listens: own.listens,
            sender: source.and_then(|own| own.sender(at)),
            number: own.number,
            before: own.before,
            rtcp: own.rtcp,
            source: own.source,
            key: own.key.map(|FlowKey { src, dst }| (src, dst)),
            own_ssrc: own.own_ssrc,
        }
    }
}

impl<W: World> Proxy<W> {
    /// The record of a session is to be made anew.
    pub(super) fn touch_session(&mut self, id: SessionId) {
        self.records.sessions.insert(id);
    }

    /// The record of a presentation is to be made anew.
    pub(super) fn touch_stream(&mut self, id: UpstreamId) {
        self.records.streams.insert(id);
    }

    /// Records that have changed since this was asked last, by key; without a value where there is none any more.
    pub fn take_records(&mut self) -> Vec<(String, Option<Vec<u8>>)> {
        let Touched { sessions, streams, members, .. } = &self.records;
        if sessions.is_empty() && streams.is_empty() && members.is_empty() {
            return Vec::new();
        }
        let (sessions, streams) =
            (std::mem::take(&mut self.records.sessions), std::mem::take(&mut self.records.streams));
        let mut all = Vec::with_capacity(sessions.len() + streams.len() + 1);
        for id in sessions {
            all.push((key(SESSION, id), self.sessions.get(&id).and_then(|own| bytes(&SessionRecord::new(own)))));
        }
        for id in streams {
            all.push((key(STREAM, id), self.stream_record(id).and_then(|own| bytes(&own))));
        }
        for pool in std::mem::take(&mut self.records.members) {
            all.push((format!("{MEMBERS}{pool}"), self.members_record(&pool).and_then(|own| bytes(&own))));
        }
        if self.records.alive.is_none() {
            all.push(self.alive());
        }
        all
    }

    /// That the process is there, so that the next one knows how long there was none.
    fn alive(&mut self) -> (String, Option<Vec<u8>>) {
        self.records.alive = Some(self.now);
        (ALIVE.to_owned(), bytes(&self.now))
    }

    /// The same now and then, as long as there are sessions.
    pub fn take_alive(&mut self) -> Option<(String, Option<Vec<u8>>)> {
        let due = self.records.alive.is_none_or(|then| self.now.saturating_sub(then) >= EVERY);
        (due && !self.sessions.is_empty()).then(|| self.alive())
    }

    /// A presentation has a record as soon as it has a session. One that is published ends with its publisher's
    /// connection. So does one for which a client proves something: its origin wants a proof of the client's, who alone
    /// has the password, with each request that would keep the session there.
    fn stream_record(&self, id: UpstreamId) -> Option<StreamRecord> {
        let own = self.upstreams.get(&id)?;
        let described = own.description.as_ref().filter(|_| own.publisher.is_none())?;
        if own.presentation.prover.is_some() || own.viewers.is_empty() && own.session.is_none() {
            return None;
        }
        let wanted = own.recovery.as_ref().and_then(Recovery::wanted);
        let (plays, tracks) = wanted.unwrap_or((own.playing, &[]));
        let track = |(at, of): (usize, &Track)| TrackRecord::new(at, of, tracks, own.source.as_ref());
        let asked = &own.presentation;
        let credentials = |own: &Credentials| (own.user.clone(), own.password.clone());
        Some(StreamRecord {
            asked: (asked.url.clone(), asked.pool.clone(), asked.credentials.as_ref().map(credentials)),
            peers: asked.peers.clone(),
            server: own.server.and_then(|id| self.pools.get(id)).map(|own| (own.server.host.clone(), own.server.port)),
            url: own.url.clone(),
            live: own.live,
            forced_live: own.forced_live,
            joinable: self.joinable.get(asked) == Some(&id),
            addresses: own.addresses,
            session: own.session.clone(),
            timeout: own.timeout.as_secs(),
            knows_parameter: own.knows_parameter,
            base: own.base.clone(),
            description: described.text(),
            carried: own.carried,
            may_be_carried: own.may_be_carried,
            multicast: own.multicast,
            plain: own.source.is_some(),
            playing: plays,
            played_at: own.played_at,
            position: own.position,
            since: own.since,
            is_recovering: own.is_recovering(),
            tracks: own.tracks.iter().enumerate().map(track).collect(),
        })
    }
}

pub(super) fn is_default<T: Default + PartialEq>(own: &T) -> bool {
    *own == T::default()
}

fn bytes(record: &impl Serialize) -> Option<Vec<u8>> {
    let made = serde_json::to_vec(record);
    made.inspect_err(|error| tracing::warn!("a session, or members, are not kept: {error}")).ok()
}

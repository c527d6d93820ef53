//! What sessions have had, for the access log, and what tracks take, for the limits of bandwidth.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::records::is_default;
use super::session::{Delivery, Ending, Session, Viewer};
use super::track::TrackState;
use super::upstream::Upstream;
use super::world::World;
use super::{Proxy, SessionId, UpstreamId, ordered};
use crate::tables::Progress;

/// Over how long the rate of a track is measured.
const MEASURED: Duration = Duration::from_secs(2);
/// Bits of the headers of IPv4 and UDP in front of each packet, which descriptions count, too (RFC 8866 section 5.8).
const HEADERS: u64 = 8 * 28;

/// A session that is over, for the access log. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ended {
    /// Its number.
    pub id: SessionId,
    /// The client's address.
    pub client: String,
    /// What it asked for.
    pub url: String,
    /// The stream's name in the configuration, if it has one.
    pub stream: Option<String>,
    /// The URL at the origin that it came from last.
    pub origin: String,
    /// That origin in its pool, POOL/NAME.
    pub server: Option<String>,
    /// How much of a film that may be in the cache came from there: `hit`, `partial`, `miss`, or `revalidated`, where
    /// the origin was asked first.
    pub cache: Option<&'static str>,
    /// How its packets went: `udp`, `interleaved`, `both`.
    pub transport: &'static str,
    /// From its beginning to its end.
    pub duration_ms: u64,
    /// How long of that it played.
    pub playing_ms: u64,
    /// Packets of its streams that came from the origin meanwhile,
    pub packets: u64,
    /// and their bytes, with the headers of RTP.
    pub bytes: u64,
    /// Packets that its client missed, as it said last.
    pub lost: Option<i64>,
    /// Why it ended.
    pub ended: &'static str,
    /// The client's program, as it says.
    pub user_agent: Option<String>,
    /// Why it ended, once more.
    #[serde(skip)]
    pub why: Ending,
    /// By which ways its client got its packets.
    #[serde(skip)]
    pub carried: Vec<Carried>,
}

/// What went to the client of a session by one way. A track that the client has ended before the others is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// Over UDP the client's address for a track's RTP; otherwise its end of the connection by which the session was
    /// set up, with port 0 where a process before had that.
    pub client: SocketAddr,
    /// The own end.
    pub local: SocketAddr,
    /// Whether it went over UDP.
    pub over_udp: bool,
    /// Packets,
    pub packets: u64,
    /// and their bytes behind the headers of UDP or TCP.
    pub bytes: u64,
}

/// What of a stream a viewer has had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Account {
    #[serde(default, skip_serializing_if = "is_default")]
    packets: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    bytes: u64,
    /// The track's place in `streams.progress` while it plays, and what was counted there when that began.
    #[serde(default, skip_serializing_if = "is_default")]
    open: Option<(u32, u64, u64)>,
}

impl Account {
    /// It plays from now on what is counted at a place, or does not.
    fn settle(&mut self, plays: Option<u32>, mut progress: impl FnMut(u32) -> Progress) {
        if self.open.map(|(place, ..)| place) == plays {
            return;
        }
        if let Some((place, packets, bytes)) = self.open.take() {
            let now = progress(place);
            self.packets += now.packets.saturating_sub(packets);
            self.bytes += now.bytes.saturating_sub(bytes);
        }
        self.open = plays.map(|place| {
            let now = progress(place);
            (place, now.packets, now.bytes)
        });
    }

    fn add(&mut self, other: Account) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// What a session has had in all: of tracks that it has given up, and the time that it played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Total {
    #[serde(default, skip_serializing_if = "is_default")]
    past: Account,
    #[serde(default, skip_serializing_if = "is_default")]
    played: Duration,
    #[serde(default, skip_serializing_if = "is_default")]
    since: Option<Duration>,
}

impl<W: World> Proxy<W> {
    /// A session plays from now on, or does not.
    pub(super) fn set_playing(&mut self, id: SessionId, playing: bool) {
        let now = self.now;
        self.touch_session(id);
        let Some(own) = self.sessions.get_mut(&id) else { return };
        own.playing = playing;
        match (own.total.since, playing) {
            (None, true) => own.total.since = Some(now),
            (Some(since), false) => {
                own.total.played += now.saturating_sub(since);
                own.total.since = None;
            }
            _ => {}
        }
        self.settle(id);
    }

    /// Brings a session's accounts up to date: with what plays now.
    pub(super) fn settle(&mut self, id: SessionId) {
        let Some(own) = self.sessions.get_mut(&id) else { return };
        let Some(upstream) = self.upstreams.get(&own.upstream) else { return };
        for (track, viewer) in own.viewers.iter_mut() {
            let of = upstream.tracks.get(track).filter(|of| own.playing && of.state == TrackState::Ready);
            viewer.account.settle(of.map(|of| of.number), |place| self.world.progress(place));
        }
    }

    /// The flows of a presentation end: what its sessions have had is known by then.
    pub(super) fn close_accounts(&mut self, upstream: &Upstream) {
        for session in &upstream.viewers {
            let viewers = self.sessions.get_mut(session).into_iter().flat_map(|own| own.viewers.iter_mut());
            viewers.for_each(|(_, own)| own.account.settle(None, |place| self.world.progress(place)));
        }
    }

    /// What is known of a session that ends.
    pub(super) fn ended(&mut self, id: SessionId, why: Ending) -> Option<Ended> {
        self.set_playing(id, false);
        let own = self.sessions.get(&id)?;
        let upstream = self.upstreams.get(&own.upstream);
        let mut account = own.total.past;
        own.viewers.values().for_each(|viewer| account.add(viewer.account));
        let lost: Vec<i64> =
            own.viewers.values().filter_map(|own| Some(i64::from(own.report.as_ref()?.0.lost))).collect();
        Some(Ended {
            id,
            client: own.client.to_string(),
            url: own.base.clone(),
            stream: own.stream.clone(),
            origin: upstream.map_or_else(String::new, |own| own.url.clone()),
            server: upstream.and_then(|own| self.pools.get(own.server?)).map(|own| own.name()),
            cache: upstream.and_then(|own| own.film.as_ref()).map(|own| own.served),
            transport: transport(own),
            duration_ms: super::state::ms(self.now.saturating_sub(own.since)),
            playing_ms: super::state::ms(own.total.played),
            packets: account.packets,
            bytes: account.bytes,
            lost: (!lost.is_empty()).then(|| lost.iter().sum()),
            ended: why.name(),
            user_agent: own.agent.as_deref().map(str::to_owned),
            why,
            carried: self.carried(own),
        })
    }

    fn carried(&self, session: &Session) -> Vec<Carried> {
        /// What is in front of a packet on a connection (RFC 2326 section 10.12).
        const INTERLEAVED: u64 = 4;
        let (mut all, mut connection) = (Vec::new(), None);
        for Viewer { delivery, account, .. } in session.viewers.values() {
            match delivery {
                Delivery::Udp { rtp, .. } => all.push(Carried {
                    client: *rtp,
                    local: SocketAddr::new(session.local, self.settings.media_port),
                    over_udp: true,
                    packets: account.packets,
                    bytes: account.bytes,
                }),
                Delivery::Interleaved { .. } => connection.get_or_insert(Account::default()).add(*account),
            }
        }
        let [client, local] = session.ports;
        all.extend(connection.map(|own| Carried {
            client: SocketAddr::new(session.client, client),
            local: SocketAddr::new(session.local, local),
            over_udp: false,
            packets: own.packets,
            bytes: own.bytes + INTERLEAVED * own.packets,
        }));
        all
    }

    /// Measures the rates of a presentation's tracks, where that is due.
    pub(super) fn measure(&mut self, id: UpstreamId) {
        let now = self.now;
        let Some(own) = self.upstreams.get_mut(&id) else { return };
        for track in own.tracks.iter_mut().filter(|track| track.state == TrackState::Ready) {
            let (then, bits) = track.measured;
            let time = now.saturating_sub(then);
            if time < MEASURED {
                continue;
            }
            let progress = self.world.progress(track.number);
            let all = progress.bytes * 8 + progress.packets * HEADERS;
            if then.is_zero() {
                track.measured = (now, all);
                continue;
            }
            track.rate_now = (all.saturating_sub(bits) as f64 / time.as_secs_f64()) as u64;
            track.measured = (now, all);
        }
    }

    /// What a track takes, in bits per second: as it is measured, or as its description says, if that is more.
    fn bandwidth(&self, upstream: UpstreamId, track: usize) -> u64 {
        let Some(own) = self.upstreams.get(&upstream) else { return 0 };
        let said = own.description.as_ref().and_then(|all| {
            all.bandwidth(Some(track)).or_else(|| Some(all.bandwidth(None)? / all.media().max(1) as u64))
        });
        said.unwrap_or(0).max(own.tracks.get(track).map_or(0, |track| track.rate_now))
    }

    /// Whether there is no bandwidth for another viewer of a track, but that which is to be replaced.
    pub(super) fn lacks_bandwidth(
        &self,
        client: std::net::IpAddr,
        upstream: UpstreamId,
        track: usize,
        but: Option<SessionId>,
    ) -> bool {
        let limits = &self.settings.limits;
        if limits.bandwidth.is_none() && limits.client_bandwidth.is_none() {
            return false;
        }
        let (mut all, mut of_client) = (0, 0);
        for (id, own) in &self.sessions {
            let others = own.viewers.tracks().filter(|at| but != Some(*id) || *at != track);
            let used: u64 = others.map(|at| self.bandwidth(own.upstream, at)).sum();
            all += used;
            of_client += if own.client == client { used } else { 0 };
        }
        let wanted = self.bandwidth(upstream, track).max(1);
        let over = |used: u64, limit: Option<u64>| limit.is_some_and(|limit| used + wanted > limit);
        over(all, limits.bandwidth) || over(of_client, limits.client_bandwidth)
    }

    /// A presentation has another origin: its sessions' accounts go on there.
    pub(super) fn open_accounts(&mut self, id: UpstreamId) {
        let sessions = self.upstreams.get(&id).map_or_else(Vec::new, |own| ordered(&own.viewers));
        sessions.into_iter().for_each(|session| self.settle(session));
    }
}

impl Session {
    /// A track is given up: what it had is had.
    pub(super) fn keep_account(&mut self, mut account: Account, progress: impl FnMut(u32) -> Progress) {
        account.settle(None, progress);
        self.total.past.add(account);
    }
}

fn transport(own: &Session) -> &'static str {
    let mut over_udp = own.viewers.values().map(|own| matches!(own.delivery, Delivery::Udp { .. }));
    match (over_udp.clone().any(|is| is), over_udp.all(|is| is)) {
        (true, true) => "udp",
        (true, false) => "both",
        (false, _) => "interleaved",
    }
}

//! What a process before has left: its sessions go on, and what belongs to nobody any more is removed.
//!
//! Packets over UDP go on by the flow entries that there are. Connections have ended with the process: viewers come
//! back on others, or are ended by their timeout, and origins are asked on others whether they know their sessions.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use wire::rtp::Rewrite;
use wire::sdp::Description;

use super::records::{ALIVE, MEMBERS, SESSION, STREAM, SessionRecord, StreamRecord, TrackRecord};
use super::request::Job;
use super::session::{Delivery, Ending, Session, Viewer};
use super::target::{Presentation, Target};
use super::track::{Track, TrackState, tracks_of};
use super::upstream::Upstream;
use super::viewers::Viewers;
use super::world::{Effect, World};
use super::{MOST_TRACKS, Proxy, SessionId, UpstreamId};
use crate::pools::ServerId;
use crate::settings::access::Access;
use crate::settings::pools::Kind;
use crate::settings::{Credentials, Named};
use crate::tables::{Flow, FlowKey, Receiver};

/// How long a process may be gone beyond the timeout of a session: so seldom it is kept that it is there.
const SLACK: Duration = Duration::from_secs(10);

/// After so long, what goes on has shown that it does; what does not is noticed for so long.
const SHOWS: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(10)];

/// What a process before has left.
#[derive(Clone, Debug, Default)]
pub struct Left {
    /// Records, by key.
    pub records: Vec<(String, Vec<u8>)>,
    /// Flow entries of the program.
    pub flows: Vec<(FlowKey, Flow)>,
    /// Members of its groups: group, number, receiver.
    pub members: Vec<(u32, u32, Receiver)>,
}

/// Records, as far as they can be read.
#[derive(Default)]
struct Known {
    sessions: BTreeMap<SessionId, SessionRecord>,
    streams: BTreeMap<UpstreamId, StreamRecord>,
    alive: Option<Duration>,
    /// Sessions whose records can't be read.
    unreadable: u64,
}

impl<W: World> Proxy<W> {
    /// Goes on with the sessions of a process before. To be called before anything else.
    pub fn take_up(&mut self, left: Left) {
        let mut known = self.known(&left.records);
        // For longer a client had nobody to tell that it is there. A clock that was set back is another run of the
        // machine's.
        let most = self.settings.timeouts.session + SLACK;
        let gone = !known.alive.is_some_and(|then| then <= self.now && self.now - then <= most);
        if gone {
            known.streams.clear();
        }
        let flows: HashMap<FlowKey, Flow> = left.flows.into_iter().collect();
        let broken = self.streams_again(known.streams, &flows);
        let (all, ends) = self.sessions_again(known.sessions, gone);
        self.adopt_members(left.members);
        self.adopt_flows(&flows, &broken);
        let (lost, on) = (ends.len() as u64 + known.unreadable, all - ends.len() as u64);
        self.counts.taken_up += on;
        self.counts.not_taken_up += lost;
        if on + lost > 0 {
            let streams = self.upstreams.len();
            tracing::warn!(sessions = on, streams, lost, "sessions of the process before go on");
        }
        let streams: BTreeSet<UpstreamId> = self.upstreams.keys().copied().collect();
        for id in streams.iter().filter(|id| !broken.contains_key(id)) {
            let connection = self.new_id();
            match self.upstreams.get_mut(id) {
                // Nobody is to be asked.
                Some(own) if own.source.is_some() => own.connection = connection,
                Some(own) => {
                    own.queue = [Job::KeepAlive].into();
                    self.connect_again(*id, connection);
                }
                None => {}
            }
        }
        ends.into_iter().for_each(|(id, why)| self.end_session(id, why));
        for id in streams.iter().filter(|id| !broken.contains_key(id)) {
            let tracks = self.upstreams.get(id).map_or(0, |own| own.tracks.len());
            (0..tracks).for_each(|track| self.update_flow(*id, track));
            self.update_flows(*id);
        }
        // What is recorded always goes on without viewers, too.
        self.always_tick();
        for (id, why) in broken {
            self.fail_upstream(id, 502, why);
        }
        for id in streams {
            if self.upstreams.get(&id).is_some_and(|own| own.viewers.is_empty() && !own.always) {
                self.end_upstream(id);
            }
        }
    }

    /// Some origins know a session still whose streams they have ended with its connection: nothing comes of what came
    /// before.
    pub(super) fn notice_forgotten(&mut self, id: UpstreamId) {
        let Some(own) = self.upstreams.get(&id).filter(|own| own.playing && own.connected) else { return };
        let Some(then) = own.taken_up else { return };
        if !(SHOWS[0]..SHOWS[1]).contains(&self.now.saturating_sub(then)) {
            return;
        }
        let ready = own.tracks.iter().filter(|track| track.state == TrackState::Ready);
        let heard = ready.map(|track| self.world.progress(track.number)).filter(|own| own.seen != 0);
        let last = heard.map(|own| own.heard).max();
        if last.is_some_and(|last| Duration::from_nanos(last) < then) {
            self.fail_upstream(id, 504, "nothing has come since the process before ended");
        }
    }

    /// Reads records. What becomes of each is recorded anew.
    fn known(&mut self, records: &[(String, Vec<u8>)]) -> Known {
        let mut known = Known::default();
        let (mut damaged, mut why) = (0u64, None);
        for (key, value) in records {
            let number = |kind: &str| u64::from_str_radix(key.strip_prefix(kind)?, 16).ok();
            if key == ALIVE {
                known.alive = read(value).ok();
            } else if let Some(pool) = key.strip_prefix(MEMBERS) {
                match read(value) {
                    Ok(record) => self.recall_members(pool, record),
                    // They are found again.
                    Err(_) => _ = self.records.members.insert(pool.to_owned()),
                }
            } else if let Some(id) = number(SESSION) {
                self.touch_session(id);
                self.next_id = self.next_id.max(id);
                match read(value) {
                    Ok(record) => _ = known.sessions.insert(id, record),
                    Err(error) => {
                        known.unreadable += 1;
                        (damaged, why) = (damaged + 1, Some(error));
                    }
                }
            } else if let Some(id) = number(STREAM) {
                self.touch_stream(id);
                self.next_id = self.next_id.max(id);
                match read(value) {
                    Ok(record) => _ = known.streams.insert(id, record),
                    Err(error) => (damaged, why) = (damaged + 1, Some(error)),
                }
            }
        }
        if let Some(error) = why {
            tracing::warn!(records = damaged, "what was kept of sessions can't be read, so they end: {error}");
        }
        known
    }

    /// Presentations, with their own ports; those that need their origin anew, and why.
    fn streams_again(
        &mut self,
        records: BTreeMap<UpstreamId, StreamRecord>,
        flows: &HashMap<FlowKey, Flow>,
    ) -> BTreeMap<UpstreamId, &'static str> {
        let mut used = HashSet::new();
        let mut broken = BTreeMap::new();
        for (id, record) in records {
            let Some((upstream, why)) = self.stream_again(id, record, flows, &mut used) else { continue };
            why.into_iter().for_each(|why| _ = broken.insert(id, why));
            self.upstreams.insert(id, upstream);
        }
        self.next_track = used.iter().max().map_or(0, |highest| highest + 1);
        self.free_tracks.extend((0..self.next_track).filter(|number| !used.contains(number)));
        // Tracks that had no place, as they had no origin.
        for id in broken.keys() {
            let places = self.upstreams.get(id).map_or(0, |own| own.tracks.len());
            for at in 0..places {
                let own = |proxy: &Proxy<W>| proxy.upstreams.get(id).map(|own| own.tracks[at].state);
                if own(self) == Some(TrackState::Asked) {
                    let number = self.new_track((*id, at));
                    number.into_iter().for_each(|number| self.world.reset_progress(number));
                    let Some(own) = self.upstreams.get_mut(id) else { continue };
                    own.tracks[at].number = number.unwrap_or_default();
                    own.tracks[at].state = if number.is_some() { TrackState::Ready } else { TrackState::New };
                }
            }
        }
        broken
    }

    /// A presentation of a record, and why it needs its origin anew, if it does; none where the record is damaged.
    fn stream_again(
        &mut self,
        id: UpstreamId,
        record: StreamRecord,
        flows: &HashMap<FlowKey, Flow>,
        used: &mut HashSet<u32>,
    ) -> Option<(Upstream, Option<&'static str>)> {
        let description = Description::parse(record.description.as_bytes()).ok()?;
        let source = if record.plain { Some(self.source_again(&record)?) } else { None };
        let mut tracks = tracks_of(&description, &record.base);
        let numbers = record.tracks.iter().filter(|own| own.is_there).flat_map(|own| own.places(record.is_recovering));
        let numbers: Vec<u32> = numbers.collect();
        let free = |number: &u32| *number < MOST_TRACKS && !used.contains(number);
        if tracks.len() != record.tracks.len() || !numbers.iter().all(free) {
            return None;
        }
        used.extend(numbers);
        let (url, pool, credentials) = record.asked;
        let credentials = credentials.map(|(user, password)| Credentials { user, password });
        let presentation = Presentation { url, pool, credentials, prover: None, peers: record.peers };
        let mut why = match (&record.session, record.addresses) {
            _ if record.plain => None,
            (Some(_), Some(_)) if record.carried => Some("its packets came on a connection of the process before"),
            (Some(_), Some(_)) if !record.is_recovering => None,
            _ => Some("it had no origin when the process before ended"),
        };
        for (at, (track, own)) in tracks.iter_mut().zip(record.tracks).enumerate() {
            track.control.clone_from(&own.control);
            if let Some(status) = own.refused {
                track.state = TrackState::Refused(status);
            }
            if !own.is_there {
                continue;
            }
            let local = record.addresses.map(|(local, _)| local.ip());
            let address = own.listens.or(local).filter(|_| why.is_none() && own.port != 0);
            let bound = address.is_none_or(|address| match own.listens {
                Some(_) => self.listen_again(source.as_ref(), at, (address, own.port), local),
                None => self.world.bind_pair_again(address, own.port),
            });
            if !bound {
                why = Some("its own ports can't be had");
            }
            let place = address.filter(|_| bound);
            self.track_again((id, at), track, &own, place.map_or(0, |_| own.port), record.is_recovering);
            track.listens = own.listens.filter(|_| place.is_some());
            place.into_iter().for_each(|address| _ = self.pairs.insert((address, own.port), (id, at)));
            // Where the origin is asked anew the entry goes, if it is there.
            let key = own.key.map(|(src, dst)| FlowKey { src, dst });
            track.key = key.filter(|key| (why.is_none() && !record.is_recovering) || flows.contains_key(key));
        }
        let server = record.server.and_then(|(host, port)| self.server_again(&presentation, &host, port));
        if record.joinable && server.is_none_or(|id| self.pools.get(id).is_some_and(|own| own.is_wanted())) {
            self.joinable.insert(presentation.clone(), id);
        }
        let named = |own: &&Named| own.record.is_on() && own.url == presentation.url && own.pool == presentation.pool;
        let target = Target {
            recorded_as: self.settings.streams.iter().find(named).map(|own| own.name.clone()),
            presentation,
            film: None,
            base: String::new(),
            track: None,
            name: None,
            live: record.forced_live,
            carried: None,
            viewers: Arc::new(Access::default()),
            publish: None,
            via: None,
            forwarded: false,
            multicast: record.multicast,
            plain: None,
        };
        let mut own = Upstream::new(&target, (server, record.url), 0, self.now);
        own.peer = self.peer_of(server);
        own.queue.clear();
        own.live = record.live;
        own.addresses = record.addresses;
        own.session = record.session;
        own.timeout = Duration::from_secs(record.timeout);
        own.knows_parameter = record.knows_parameter;
        own.base = record.base;
        own.description = Some(description);
        (own.carried, own.may_be_carried) = (record.carried, record.may_be_carried);
        (own.playing, own.played_at, own.position) = (record.playing, record.played_at, record.position);
        own.since = record.since;
        own.taken_up = Some(self.now);
        own.source = source;
        own.tracks = tracks;
        Some((own, why))
    }

    fn track_again(
        &mut self,
        (id, at): (UpstreamId, usize),
        track: &mut Track,
        own: &TrackRecord,
        port: u16,
        is_recovering: bool,
    ) {
        (track.rtcp, track.source, track.own_ssrc, track.port) = (own.rtcp, own.source, own.own_ssrc, port);
        // Without an origin what is left of a track is the place whose numbers go on, if there is one.
        (track.number, track.before, track.state) = match (is_recovering, own.before) {
            (true, Some(before)) => (before, None, TrackState::Ready),
            (true, None) => (0, None, TrackState::Asked),
            (false, before) => (own.number, before, TrackState::Ready),
        };
        if track.state == TrackState::Ready {
            self.tracks.insert(track.number, (id, at));
            let progress = self.world.progress(track.number);
            (track.reported, track.reported_at) = ((progress.packets, progress.lost), self.now);
        }
    }

    /// A server of a pool, as far as the configuration has it still.
    fn server_again(&self, asked: &Presentation, host: &str, port: Option<u16>) -> Option<ServerId> {
        let same = |(_, own): &(ServerId, &crate::pools::ServerState)| {
            let is_peer = own.pool.kind != Kind::Origins && asked.peers.is_some();
            let is_asked = is_peer || Some(&own.pool.name) == asked.pool.as_ref();
            is_asked && own.server.host == host && own.server.port == port
        };
        self.pools.iter().find(same).map(|(id, _)| id)
    }

    /// Sessions: how many there were, and which of them end, and why.
    fn sessions_again(
        &mut self,
        records: BTreeMap<SessionId, SessionRecord>,
        gone: bool,
    ) -> (u64, Vec<(SessionId, Ending)>) {
        let all = records.len() as u64;
        let mut ends = Vec::new();
        for (id, record) in records {
            let (upstream, local) = (record.upstream, record.local);
            let carried = record.viewers.iter().any(|own| own.to.is_none());
            let highest = record.viewers.iter().map(|own| own.track).max();
            let tracks = self.upstreams.get(&upstream).map_or(0, |own| own.tracks.len());
            let viewers = self.session_again(id, record);
            let end = if gone {
                Some(Ending::Vanished)
            } else if carried {
                Some(Ending::Closed)
            } else if highest.is_none_or(|highest| highest >= tracks) {
                // It was published, or its record is damaged.
                Some(Ending::OriginLost)
            } else if !self.world.bind_media(local) {
                Some(Ending::Stopped)
            } else {
                let refused = viewers.into_iter().any(|track| self.reserve(upstream, id, track).is_err());
                refused.then_some(Ending::Refused)
            };
            if let Some(own) = self.upstreams.get_mut(&upstream) {
                own.viewers.insert(id);
            }
            ends.extend(end.map(|end| (id, end)));
        }
        (all, ends)
    }

    /// A session of a record; its tracks.
    fn session_again(&mut self, id: SessionId, record: SessionRecord) -> Vec<usize> {
        let viewers: Viewers = record
            .viewers
            .into_iter()
            .map(|own| {
                let (ssrc, sequence, timestamp) = own.numbers;
                // One whose connection has ended gets nothing more: there is no client of number 0.
                let delivery = own.to.map_or(Delivery::Interleaved { client: 0, rtp: 0, rtcp: 1 }, |(rtp, rtcp)| {
                    Delivery::Udp { rtp, rtcp }
                });
                let rewrite = Rewrite { ssrc, sequence, timestamp };
                let viewer = Viewer { delivery, rewrite, report: None, round_trip: None, account: own.account };
                (own.track, viewer)
            })
            .collect();
        for (track, viewer) in viewers.iter() {
            self.sources.insert(viewer.rewrite.ssrc, (id, track));
        }
        self.names.insert(record.name, id);
        let tracks = viewers.tracks().collect();
        let session = Session {
            name: record.name,
            client: record.client,
            local: record.local,
            ports: [0; 2],
            base: record.base,
            stream: record.stream,
            forwarded: record.forwarded,
            early: None,
            upstream: record.upstream,
            viewers,
            playing: record.playing,
            has_played: record.has_played,
            heard: self.now,
            since: record.since,
            agent: record.agent.map(Arc::from),
            total: record.total,
        };
        self.addresses.change(session.client, |had| had.sessions += 1);
        self.sessions.insert(id, Box::new(session));
        tracks
    }

    /// Members of groups are receivers of sessions, or leave. What the program has of their numbers is newer than the
    /// records.
    fn adopt_members(&mut self, members: Vec<(u32, u32, Receiver)>) {
        for (group, member, receiver) in members {
            let found = self.sources.get(&receiver.rewrite.ssrc).copied();
            let own = found.and_then(|(session, track)| Some((session, track, self.sessions.get(&session)?.upstream)));
            let adopted = own.is_some_and(|(session, track, upstream)| {
                self.adopt(upstream, session, track, (group, member), receiver)
            });
            match own.filter(|_| adopted) {
                Some((session, track, _)) => {
                    let viewer = self.sessions.get_mut(&session).and_then(|own| own.viewers.get_mut(track));
                    viewer.into_iter().for_each(|own| own.rewrite = receiver.rewrite);
                }
                None => self.effect(Effect::Leave(group, member)),
            }
        }
    }

    /// Flow entries are tracks', or are removed.
    fn adopt_flows(&mut self, flows: &HashMap<FlowKey, Flow>, broken: &BTreeMap<UpstreamId, &str>) {
        let mut keys: HashMap<FlowKey, (UpstreamId, usize)> = HashMap::new();
        for (id, own) in &self.upstreams {
            let found = own.tracks.iter().enumerate().filter_map(|(at, track)| Some((track.key?, (*id, at))));
            keys.extend(found);
        }
        for (key, flow) in flows {
            match keys.get(key) {
                Some((id, track)) if !broken.contains_key(id) => self.adopt_flow(*id, *track, flow),
                Some(_) => {}
                None => self.effect(Effect::RemoveFlow(*key)),
            }
        }
    }
}

impl TrackRecord {
    /// Whether it came to a place.
    pub(super) fn is_place(&self, place: (IpAddr, u16)) -> bool {
        self.listens.map(|address| (address, self.port)) == Some(place)
    }

    /// The places that it has.
    fn places(&self, is_recovering: bool) -> impl Iterator<Item = u32> {
        (!is_recovering).then_some(self.number).into_iter().chain(self.before)
    }
}

fn read<T: DeserializeOwned>(value: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(value)
}

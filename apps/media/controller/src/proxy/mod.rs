//! The proxy's state machine: RTSP with clients and origins, and what becomes of streams. It takes events and gives
//! effects, and knows neither sockets nor clocks, so that tests run it between models of both sides.
//!
//! | file | what |
//! |---|---|
//! | `world` | what it asks for, and what it has done: effects |
//! | `target` | which presentation a URL of a client means |
//! | `client` | connections of clients: requests in order, answers |
//! | `forward` | origins' own URLs, and what clients prove at origins |
//! | `tunnel` | clients that speak RTSP over HTTP |
//! | `admission`, `proof` | who may have what: addresses, passwords, tokens |
//! | `guesses` | how often clients were wrong |
//! | `addresses` | how much each client has |
//! | `http` | who may view a stream by HTTP, and which streams are recorded for that |
//! | `describe`, `setup`, `play` | the methods |
//! | `session`, `viewers` | sessions of clients with their tracks, and their end |
//! | `way` | viewers over UDP whose neighbour is not resolved yet |
//! | `early` | packets that come before the answer to PLAY |
//! | `upstream` | a presentation at its origin: requests, one after the other |
//! | `track`, `request` | its tracks, and what its origin is asked |
//! | `recovery` | another origin in the place of one that has failed |
//! | `origin` | what origins answer |
//! | `redirection` | origins that send their clients elsewhere |
//! | `checks` | whether the origins of pools, and peers, work |
//! | `peers` | other proxies, which are asked before origins |
//! | `members` | servers of pools, and peers, that are found |
//! | `flows` | who gets a stream's packets: one receiver in the kernel, a group by a worker, connections |
//! | `late` | viewers that come late begin at the last access point |
//! | `publish` | clients that publish: ANNOUNCE, RECORD |
//! | `source` | sources without RTSP |
//! | `recording`, `always` | which streams are recorded, and which of them also without viewers |
//! | `pause` | pauses between attempts |
//! | `film` | films of origins from the cache, and into it |
//! | `relay` | packets of streams that come on connections |
//! | `reports` | RTCP, on both sides |
//! | `accounts` | what sessions have had, what tracks take |
//! | `origins` | what is known of origins, and what operators say about them |
//! | `state` | what is shown to operators |
//! | `records`, `take_up` | what of it outlasts the process, and how the next one goes on |

pub mod accounts;
mod addresses;
mod admission;
mod always;
mod checks;
mod client;
mod describe;
mod early;
mod film;
mod film_parts;
mod flows;
mod forward;
pub mod guesses;
pub mod http;
mod late;
pub mod members;
mod origin;
pub mod origins;
pub(crate) mod pause;
pub mod peers;
mod play;
pub mod proof;
mod publish;
mod recording;
mod records;
mod recovery;
mod redirection;
mod relay;
mod reports;
mod request;
pub mod session;
mod setup;
mod source;
pub mod state;
mod take_up;
mod target;
mod track;
mod tunnel;
mod upstream;
mod via;
mod viewers;
mod way;
pub mod world;

pub use self::film::{DESCRIBED, MODIFIED};
pub use self::flows::MOST_RECEIVERS;
pub use self::take_up::Left;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use wire::rtsp::message::Request;

use self::addresses::Addresses;
use self::always::Always;
use self::client::Client;
use self::guesses::Guesses;
use self::http::Numbers;
use self::publish::Publisher;
use self::records::Touched;
use self::session::{Ending, Name, Session};
use self::target::Presentation;
use self::tunnel::Tunnels;
use self::upstream::Upstream;
use self::world::{Effect, World};
use crate::pools::{OriginCounts, Pools, ServerId};
use crate::settings::Settings;

/// A connection of a client; numbers are not given twice.
pub type ClientId = u64;
/// A connection to an origin; numbers are not given twice.
pub type OriginId = u64;
/// A session, by its number in the proxy (and not by the text that clients know).
pub type SessionId = u64;
/// A presentation at its origin.
pub type UpstreamId = u64;

/// Tracks at most: places of the program's table `streams.progress`.
pub const MOST_TRACKS: u32 = 65536;
/// Places that are not given again at once: a worker may have packets for the group of a track that has ended.
const RESTING: usize = 64;
/// Effects of one event that there is room for at any time; some events have thousands.
const FEW: usize = 256;

/// What was counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests of clients.
    pub requests: u64,
    /// Answers with a status of 400 or more.
    pub refused: u64,
    /// Of these, to requests that had been here before, or had come through too many proxies.
    pub loops: u64,
    /// Sessions that began.
    pub sessions: u64,
    /// Sessions that ended because nothing was heard of their client.
    pub vanished: u64,
    /// Presentations that were asked for at origins.
    pub upstreams: u64,
    /// Presentations that clients have published.
    pub published: u64,
    /// Tunnels over HTTP that clients have begun.
    pub tunnels: u64,
    /// Passwords and tokens that were wrong.
    pub wrong: u64,
    /// Requests that were refused unread, after too many of these.
    pub locked: u64,
    /// Presentations that ended, or lost their origin, by a fault of the origin.
    pub failed: u64,
    /// Those that went on from another origin, or from the same one again.
    pub replaced: u64,
    /// RTP packets that came to a socket: before the flow was known, or on ports that are no stream's.
    pub at_sockets: u64,
    /// Sources without RTSP of which nothing came any more.
    pub silences: u64,
    /// Senders that took the place of others.
    pub senders: u64,
    /// Datagrams of others than the sender of a stream,
    pub strangers: u64,
    /// and those that are neither RTP nor what else was to come.
    pub malformed: u64,
    /// Packets of streams that came on connections, or without RTP.
    pub relayed: u64,
    /// Packets that the controller got to deliver,
    pub tapped: u64,
    /// and deliveries of them.
    pub delivered: u64,
    /// Deliveries that a slow client had no room for.
    pub slow: u64,
    /// Those that were left out before, as nothing refers to their pictures.
    pub thinned: u64,
    /// Tracks that began at the last access point,
    pub late: u64,
    /// and times that packets since then were dropped before a viewer had them.
    pub late_lost: u64,
    /// Flow entries that the program's table had no room for.
    pub no_flow: u64,
    /// Lines of the access log that were written,
    pub log_written: u64,
    /// and that were lost.
    pub log_lost: u64,
    /// Tracks that were refused as they, or all of them, have as many receivers as they may.
    pub group_full: u64,
    /// Streams that went to one receiver again although a worker may have had packets of them.
    pub hasty: u64,
    /// Times that the way to a viewer was not known when it was to play.
    pub sought: u64,
    /// Sessions of a process before that went on,
    pub taken_up: u64,
    /// and that could not.
    pub not_taken_up: u64,
    /// Films that began from the cache,
    pub film_hits: u64,
    /// that went on at their origins, as the cache had no more of them,
    pub film_partial: u64,
    /// and of which it had nothing.
    pub film_misses: u64,
    /// Packets that origins sent again behind the end of a copy, which viewers had from there.
    pub film_repeated: u64,
    /// Films of which their origins said that they are as they were recorded.
    pub film_revalidated: u64,
    /// Bytes of films from the cache.
    pub film_bytes: u64,
    /// Attempts to keep records on disk that failed.
    pub unwritten: u64,
    /// Viewers by HTTP, where there may be some.
    pub http: Option<Numbers>,
}

/// The proxy. What there is thousands of is in trees, which take room for what they have alone, and give it back.
pub struct Proxy<W> {
    /// What it asks.
    pub world: W,
    settings: Arc<Settings>,
    /// The time, by the clock of the world.
    now: Duration,
    clients: BTreeMap<ClientId, Box<Client>>,
    /// Those that speak over HTTP.
    tunnels: Tunnels,
    /// Those that publish.
    publishers: HashMap<ClientId, Publisher>,
    sessions: BTreeMap<SessionId, Box<Session>>,
    addresses: Addresses,
    /// By what clients know.
    names: BTreeMap<Name, SessionId>,
    /// By the source that a receiver knows: session and track.
    sources: BTreeMap<u32, (SessionId, usize)>,
    upstreams: HashMap<UpstreamId, Upstream>,
    /// Those that others may join, or take over when they have been described.
    joinable: HashMap<Presentation, UpstreamId>,
    /// Requests to play that wait until the way to an address is known.
    sought: BTreeMap<IpAddr, Vec<(ClientId, Request)>>,
    /// Streams that are recorded without viewers, too, by name.
    always: BTreeMap<String, Always>,
    /// How often films were asked for that may be recorded.
    film_counts: HashMap<String, u32>,
    /// What is recorded of films that are played, by their keys.
    film_parts: HashMap<String, film_parts::Parts>,
    /// Streams that are recorded for viewers by HTTP, and how long.
    demanded: BTreeMap<String, Duration>,
    /// Connections to origins.
    connections: HashMap<OriginId, UpstreamId>,
    /// Connections by which origins are checked.
    checks: HashMap<OriginId, ServerId>,
    /// By the place in `streams.progress`: whose track it is.
    tracks: HashMap<u32, (UpstreamId, usize)>,
    /// By own address and the first port of a pair: whose track it is.
    pairs: HashMap<(IpAddr, u16), (UpstreamId, usize)>,
    /// Origins of pools.
    pools: Pools,
    /// What is known of others, by host and port.
    origins: BTreeMap<String, OriginCounts>,
    guesses: Guesses,
    /// What is to be kept anew of it.
    records: Touched,
    /// Places of tracks that have ended, in that order.
    free_tracks: VecDeque<u32>,
    /// Receivers of all streams together at most.
    pub most_receivers: usize,
    /// Places of all groups together that receivers have, or may have when they play.
    reserved: usize,
    next_track: u32,
    next_id: u64,
    /// Own name in `Via`, by which loops are found.
    pseudonym: String,
    effects: VecDeque<Effect>,
    /// What was counted.
    pub counts: Counts,
}

impl<W: World> Proxy<W> {
    /// One that has nothing yet.
    pub fn new(mut world: W, settings: Arc<Settings>) -> Proxy<W> {
        let mut pools = Pools::default();
        let now = Duration::from_nanos(world.clock());
        pools.configure(&settings, now, |_| false);
        let random = world.random() >> 16;
        let pseudonym = own_name(&settings).unwrap_or_else(|| format!("millrace-{random:012x}"));
        Proxy {
            world,
            settings,
            now,
            clients: BTreeMap::new(),
            tunnels: Tunnels::default(),
            publishers: HashMap::new(),
            sessions: BTreeMap::new(),
            addresses: Addresses::default(),
            names: BTreeMap::new(),
            sources: BTreeMap::new(),
            upstreams: HashMap::new(),
            joinable: HashMap::new(),
            sought: BTreeMap::new(),
            always: BTreeMap::new(),
            film_counts: HashMap::new(),
            film_parts: HashMap::new(),
            demanded: BTreeMap::new(),
            connections: HashMap::new(),
            checks: HashMap::new(),
            tracks: HashMap::new(),
            pairs: HashMap::new(),
            pools,
            origins: BTreeMap::new(),
            guesses: Guesses::default(),
            records: Touched::default(),
            free_tracks: VecDeque::new(),
            most_receivers: MOST_RECEIVERS,
            reserved: 0,
            next_track: 0,
            next_id: 1,
            pseudonym,
            effects: VecDeque::new(),
            counts: Counts::default(),
        }
    }

    /// Other settings from now on. Sessions that there are go on, also of streams that are no longer allowed.
    pub fn set_settings(&mut self, settings: Arc<Settings>) {
        let used = |id: ServerId| self.upstreams.values().any(|own| own.server == Some(id));
        let known: Vec<_> = self.pools.learnt().map(|(pool, own)| (pool.clone(), own.source.clone())).collect();
        self.pools.configure(&settings, self.now, used);
        let is_known = |(pool, source): &(String, Arc<_>)| {
            self.pools.learnt().any(|(name, own)| name == pool && own.source == *source)
        };
        let forgotten = known.into_iter().filter(|own| !is_known(own));
        self.records.members.extend(forgotten.map(|own| own.0));
        own_name(&settings).into_iter().for_each(|name| self.pseudonym = name);
        self.settings = settings;
        self.leave_unwanted();
    }

    /// The settings in force.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// The next effect, in order.
    pub fn next_effect(&mut self) -> Option<Effect> {
        let next = self.effects.pop_front();
        if next.is_none() {
            self.effects.shrink_to(FEW);
        }
        next
    }

    /// The time of all that follows.
    pub fn set_now(&mut self, now: Duration) {
        self.now = self.now.max(now);
    }

    /// What is due: to be called about twice a second.
    pub fn tick(&mut self) {
        self.check_tick();
        self.always_tick();
        self.films_tick();
        self.recordings_tick();
        let origins: Vec<UpstreamId> = self.upstreams.keys().copied().collect();
        origins.into_iter().for_each(|id| self.upstream_tick(id));
        let sessions: Vec<SessionId> = self.sessions.keys().copied().collect();
        sessions.into_iter().for_each(|id| self.session_tick(id));
        let clients: Vec<ClientId> = self.clients.keys().copied().collect();
        clients.into_iter().for_each(|id| self.client_tick(id));
    }

    /// Ends all sessions, here and at origins.
    pub fn end(&mut self) {
        let sessions: Vec<SessionId> = self.sessions.keys().copied().collect();
        let publishers: Vec<ClientId> = self.publishers.keys().copied().collect();
        sessions.into_iter().for_each(|id| self.end_session(id, Ending::Stopped));
        publishers.into_iter().for_each(|id| self.close_client(id));
        let origins: Vec<UpstreamId> = self.upstreams.keys().copied().collect();
        origins.into_iter().for_each(|id| self.end_upstream(id));
        self.end_checks();
    }

    fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn effect(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    /// A place in `streams.progress` for a track.
    fn new_track(&mut self, owner: (UpstreamId, usize)) -> Option<u32> {
        let number = if self.next_track < MOST_TRACKS && self.free_tracks.len() < RESTING {
            self.next_track += 1;
            self.next_track - 1
        } else {
            self.free_tracks.pop_front()?
        };
        self.tracks.insert(number, owner);
        Some(number)
    }
}

/// The name in `Via` that the configuration gives.
fn own_name(settings: &Settings) -> Option<String> {
    settings.peers.as_ref().and_then(|own| own.name.clone())
}

/// Numbers of sessions, of which some may leave meanwhile; in the same order in each run.
fn ordered(ids: &BTreeSet<u64>) -> Vec<u64> {
    ids.iter().copied().collect()
}

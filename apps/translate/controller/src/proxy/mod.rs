//! The state machine: segments of clients and notices of the program in, effects out. It knows no socket.
//!
//! | file | what |
//! |---|---|
//! | `world` | what it asks for, and what it has done: effects |
//! | `input` | what clients send: requests, one behind the other |
//! | `outgoing` | what waits to be sent exactly: documents |
//! | `requests` | requests are read and decided about |
//! | `admission` | who may have what |
//! | `connections` | connections from their first answer to their end |
//! | `accounts` | what the log has of them |
//! | `streams` | streams: asked for by the first viewer, given up some seconds after the last |
//! | `relaying` | answers of the host's own HTTP server |
//! | `tunnels` | connections that pass byte by byte: TLS, WebSocket |
//! | `pages` | lists of streams, and what passes, as clients see them |
//! | `records`, `take_up` | what of connections outlasts the process, and how the next one goes on |
//! | `state` | what is shown to operators |

mod accounts;
mod admission;
mod connections;
mod input;
mod outgoing;
mod pages;
mod records;
mod relaying;
pub mod requests;
pub mod state;
mod streams;
pub mod take_up;
mod tunnels;
pub mod world;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use media::proxy::guesses::Guesses;
use wire::flow_key::FlowKey;
use wire::keyed_map::KeyedMap;
use wire::nonces::Nonces;

use self::connections::Connection;
use self::requests::Reading;
use self::streams::Stream;
use self::take_up::Taken;
use self::world::{Effect, World};
use crate::http::target::Source;
use crate::settings::{MOST_CONNECTIONS, MOST_STREAMS, Settings};

/// What was counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests of clients.
    pub requests: u64,
    /// Answers with a status of 400 or more.
    pub refused: u64,
    /// Connections that were reset, as there was no room for an answer.
    pub reset: u64,
    /// Streams that viewers were given.
    pub viewers: u64,
    /// Requests for the host's own HTTP server.
    pub relayed: u64,
    /// Connections with a server of the host that passed byte by byte: TLS, WebSocket.
    pub tunnels: u64,
    /// Streams that were asked for at their sources.
    pub streams: u64,
    /// Streams that ended by a fault of their source.
    pub failed: u64,
    /// Passwords and tokens that were wrong.
    pub wrong: u64,
    /// Requests that were refused unread, after too many of these.
    pub locked: u64,
    /// Connections of a process before that go on,
    pub taken_up: u64,
    /// and that do not.
    pub not_taken_up: u64,
    /// Packets of streams that came by the controller.
    pub relayed_packets: u64,
    /// Those of them that had no MPEG transport stream in them.
    pub malformed: u64,
    /// Lines of the access log that were written,
    pub log_written: u64,
    /// and that were lost.
    pub log_lost: u64,
}

/// The proxy.
pub struct Proxy<W> {
    /// What it asks.
    pub world: W,
    settings: Arc<Settings>,
    /// The time, by the monotonic clock.
    now: Duration,
    /// Connections whose request is not whole yet.
    reading: KeyedMap<FlowKey, Reading>,
    /// Those that are opened, by their numbers.
    connections: BTreeMap<u32, Connection>,
    /// By what their clients send.
    by_key: KeyedMap<FlowKey, u32>,
    /// Of each address, those of both kinds.
    by_client: HashMap<IpAddr, usize>,
    streams: BTreeMap<u32, Stream>,
    by_source: HashMap<Source, u32>,
    guesses: Guesses,
    nonces: Nonces,
    /// Numbers of connections that have ended, in that order, and the first that none has had yet.
    free_connections: VecDeque<u32>,
    next_connection: u32,
    /// Those that a process before has left and that are reset, with their generations, until they have ended,
    left: BTreeMap<u32, u32>,
    /// and what else is to be done about those that it has left.
    taken: Taken,
    /// Connections whose records are to be made anew.
    touched: BTreeSet<u32>,
    /// The same of streams.
    free_streams: VecDeque<u32>,
    next_stream: u32,
    generation: u32,
    effects: VecDeque<Effect>,
    /// What was counted.
    pub counts: Counts,
}

impl<W: World> Proxy<W> {
    /// One that has nothing yet.
    pub fn new(mut world: W, settings: Arc<Settings>) -> Proxy<W> {
        let nonces = Nonces::new(world.secret());
        Proxy {
            world,
            settings,
            now: Duration::ZERO,
            reading: KeyedMap::default(),
            connections: BTreeMap::new(),
            by_key: KeyedMap::default(),
            by_client: HashMap::new(),
            streams: BTreeMap::new(),
            by_source: HashMap::new(),
            guesses: Guesses::default(),
            nonces,
            free_connections: VecDeque::new(),
            next_connection: 1,
            left: BTreeMap::new(),
            taken: Taken::default(),
            touched: BTreeSet::new(),
            free_streams: VecDeque::new(),
            next_stream: 0,
            generation: 0,
            effects: VecDeque::new(),
            counts: Counts::default(),
        }
    }

    /// The settings in force.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// The next effect, in order.
    pub fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// The time of all that follows.
    pub fn set_now(&mut self, now: Duration) {
        self.now = self.now.max(now);
    }

    /// What is due: to be called often while [`Proxy::is_awaiting`], else some times in a second.
    pub fn tick(&mut self) {
        self.readings_tick();
        self.streams_tick();
        self.relays_tick();
        self.taken_tick();
    }

    /// Other settings from now on. Streams that there are go on for those who view them.
    pub fn set_settings(&mut self, settings: Arc<Settings>) {
        let before = std::mem::replace(&mut self.settings, settings);
        self.forget_changed(&before);
    }

    /// Ends all connections.
    pub fn end(&mut self) {
        let all: Vec<u32> = self.connections.keys().copied().collect();
        all.into_iter().for_each(|number| self.close(number, world::Ending::Stopped));
        let keys: Vec<FlowKey> = self.reading.keys().copied().collect();
        keys.into_iter().for_each(|key| self.reset(&key));
    }

    /// Forgets connections whose end was said, but of which the program does not say that they are over.
    pub fn forget_all(&mut self) {
        for (number, own) in std::mem::take(&mut self.connections) {
            self.log_ended(number, own, world::Ending::Stopped);
        }
    }

    /// Numbers of connections.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        self.connections.keys().copied()
    }

    /// Connections, requests that are not whole, streams.
    pub fn sizes(&self) -> (usize, usize, usize) {
        (self.connections.len(), self.reading.len(), self.streams.len())
    }

    fn effect(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    fn new_connection(&mut self) -> Option<u32> {
        // A number is not given again as long as there are others: notices of the one before may be under way.
        if self.next_connection as usize <= MOST_CONNECTIONS {
            self.next_connection += 1;
            return Some(self.next_connection - 1);
        }
        self.free_connections.pop_front()
    }

    fn new_stream(&mut self) -> Option<u32> {
        if (self.next_stream as usize) < MOST_STREAMS {
            self.next_stream += 1;
            return Some(self.next_stream - 1);
        }
        self.free_streams.pop_front()
    }

    fn count_client(&mut self, client: IpAddr) {
        *self.by_client.entry(client).or_default() += 1;
    }

    fn uncount_client(&mut self, client: IpAddr) {
        if let Some(count) = self.by_client.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                self.by_client.remove(&client);
            }
        }
    }
}

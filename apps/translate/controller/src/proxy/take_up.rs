//! What a process before has left: connections that have a stream go on, others are reset.
//!
//! Their packets go on by the program's tables. What was under way is not there any more: the program fills it with
//! null packets.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use wire::flow_key::FlowKey;
use wire::keyed_map::KeyedMap;

use super::Proxy;
use super::connections::{Connection, State};
use super::input::Input;
use super::outgoing::Outgoing;
use super::records::{CONNECTION, ConnectionRecord, Said};
use super::requests::client_of;
use super::streams::Stream;
use super::world::{Effect, Ending, World};
use crate::http::target::Source;
use crate::tables::{LeftConnection, Order, Totals};

/// After so long a timer that a process before had set counts as none: connections are looked at once more then.
const FORGOTTEN: Duration = Duration::from_millis(1500);

/// What clients are asked with: no number that any of them is likely to await.
const PROBE: u32 = 1;

/// How often they are asked: one answer in eight has a number that looks like a cookie's, and nobody is reset by that
/// until the cookies' period of 64 s has ended.
const PROBES: u32 = 8;
/// Between two times.
const BETWEEN: Duration = Duration::from_secs(20);

/// What a process before has left.
#[derive(Clone, Debug, Default)]
pub struct Left {
    /// Records of connections, by key.
    pub records: Vec<(String, Vec<u8>)>,
    /// Streams, by number, that are asked for still.
    pub streams: Vec<(u32, Source)>,
    /// Connections of the program.
    pub connections: Vec<LeftConnection>,
    /// Flows of the program whose requests nobody has any more.
    pub held: Vec<FlowKey>,
    /// Whether the program's tables are as they were when the process ended, not as they were some time before.
    pub is_exact: bool,
}

/// What is to be done yet about connections of a process before.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// Flows that are reset, unless they are others by then.
    pub(super) held: KeyedMap<FlowKey, ()>,
    /// Connections that are looked at once more.
    again: Vec<(u32, u32)>,
    /// Clients that are asked where they are, so that they are reset by exact numbers; how often that was done,
    probes: Vec<FlowKey>,
    probed: u32,
    /// and when it is done again.
    probes_at: Duration,
    at: Duration,
}

impl<W: World> Proxy<W> {
    /// Goes on with what a process before has left. To be called before anything else.
    pub fn take_up(&mut self, left: Left) {
        let mut records = self.known(&left.records);
        let generations = left.connections.iter().map(|own| own.generation);
        self.generation = generations.chain(records.values().map(|own| own.generation)).max().unwrap_or_default();
        self.streams_again(left.streams);
        let mut used = BTreeSet::new();
        for own in left.connections {
            used.insert(own.number);
            let record = records.remove(&own.number);
            let record = record.filter(|record| record.generation == own.generation && record.key() == own.key);
            match self.why_not(&own, record.as_ref(), left.is_exact) {
                None => self.connection_again(&own, record),
                Some(why) => self.not_taken_up(&own, record, why),
            }
        }
        // The program has nothing of them: they have ended meanwhile, or its tables are older than they.
        for (number, record) in records {
            let own = LeftConnection { number, generation: record.generation, key: record.key(), ..Default::default() };
            self.log_not_taken_up(&own, Some(record), "the program has it no more");
        }
        self.next_connection = used.last().map_or(1, |last| last + 1);
        self.free_connections.extend((1..self.next_connection).filter(|number| !used.contains(number)));
        self.taken.held = left.held.into_iter().map(|key| (key, ())).collect();
        self.taken.at = self.now + FORGOTTEN;
        let (on, lost) = (self.counts.taken_up, self.counts.not_taken_up);
        if on + lost > 0 {
            tracing::warn!(connections = on, lost, "connections of the process before go on");
        }
    }

    /// Connections that have a stream.
    pub fn playing(&self) -> BTreeSet<u32> {
        let plays = |own: &Connection| matches!(own.state, State::Plays(_));
        self.connections.iter().filter(|(_, own)| plays(own)).map(|(number, _)| *number).collect()
    }

    /// What has to wait after another process.
    pub(super) fn taken_tick(&mut self) {
        if self.taken.at > self.now {
            return;
        }
        for (number, generation) in std::mem::take(&mut self.taken.again) {
            if self.connections.get(&number).is_some_and(|own| own.generation == generation) {
                self.effect(Effect::Order(number, generation, Order::Credit(0)));
            }
        }
        if self.taken.probed < PROBES && self.taken.probes_at <= self.now {
            self.taken.probed += 1;
            self.taken.probes_at = self.now + BETWEEN;
            let probes = self.taken.probes.clone();
            probes.into_iter().for_each(|key| self.probe(key));
        } else if self.taken.probed == PROBES {
            self.taken.probes.clear();
        }
        let held: Vec<FlowKey> = self.taken.held.drain().map(|(key, ())| key).collect();
        for key in held {
            self.counts.reset += 1;
            self.effect(Effect::Order(0, 0, Order::Refuse(key)));
        }
    }

    fn known(&mut self, records: &[(String, Vec<u8>)]) -> BTreeMap<u32, ConnectionRecord> {
        let mut known = BTreeMap::new();
        for (key, value) in records {
            let number = key.strip_prefix(CONNECTION).and_then(|own| u32::from_str_radix(own, 16).ok());
            let Some(number) = number else { continue };
            self.touch(number);
            match serde_json::from_slice(value) {
                Ok(record) => _ = known.insert(number, record),
                Err(error) => tracing::warn!("what was kept of a connection can't be read: {error}"),
            }
        }
        known
    }

    fn streams_again(&mut self, streams: Vec<(u32, Source)>) {
        let mut used = BTreeSet::new();
        for (number, source) in streams {
            used.insert(number);
            let delivery = self.settings.delivery(source.name()).clone();
            let (before, since) = (self.world.stream(number).packets, self.now);
            let (viewers, unused) = (BTreeSet::new(), Some(since));
            let own = Stream { source: source.clone(), delivery, viewers, since, unused, before, came: false };
            self.streams.insert(number, own);
            self.by_source.insert(source, number);
        }
        self.next_stream = used.last().map_or(0, |last| last + 1);
        self.free_streams.extend((0..self.next_stream).filter(|number| !used.contains(number)));
    }

    /// Why a connection can't go on, if it can't.
    fn why_not(&self, own: &LeftConnection, record: Option<&ConnectionRecord>, is_exact: bool) -> Option<&'static str> {
        if !is_exact {
            return Some("what packets have changed last went with the process");
        }
        if own.heard > self.now {
            return Some("the machine was started anew");
        }
        if !own.is_sound {
            return Some("the process before was in the middle of a change");
        }
        let fits = |record: &ConnectionRecord| self.streams.contains_key(&record.stream) && record.stream == own.stream;
        match record {
            // Its answer was given, and it ends by itself; or it has all answers, and may ask more.
            _ if own.ends => None,
            None if own.is_idle => None,
            None => Some("its request is not known any more"),
            Some(record) if !fits(record) => Some("its stream is not there any more"),
            Some(_) => None,
        }
    }

    fn connection_again(&mut self, own: &LeftConnection, record: Option<ConnectionRecord>) {
        let LeftConnection { number, generation, key, plays, .. } = *own;
        self.counts.taken_up += 1;
        let mut connection = of(own, record, self.now);
        let client = connection.client;
        if !own.ends && connection.stream.is_none() {
            (connection.state, connection.asked, connection.since) = (State::Reads, false, self.now);
        } else if !own.ends {
            // What was decided before the head of its answer is decided anew.
            connection.state = if plays { State::Plays(own.stream) } else { State::Waits(own.stream) };
            if !plays {
                connection.since = self.now;
            }
            if let Some(stream) = self.streams.get_mut(&own.stream) {
                stream.viewers.insert(number);
                stream.unused = None;
            }
            if plays {
                self.effect(Effect::Join(own.stream, number));
            }
        }
        self.connections.insert(number, connection);
        self.by_key.insert(key, number);
        self.count_client(client);
        self.taken.again.push((number, generation));
        // It sends what it has to, though nothing comes for it.
        self.effect(Effect::Order(number, generation, Order::Credit(0)));
    }

    /// Resets a connection; its number is not used before it has ended.
    fn not_taken_up(&mut self, own: &LeftConnection, record: Option<ConnectionRecord>, why: &str) {
        self.left.insert(own.number, own.generation);
        self.effect(Effect::Order(own.number, own.generation, Order::Abort));
        self.log_not_taken_up(own, record, why);
    }

    /// Has a client say where it is.
    fn probe(&mut self, key: FlowKey) {
        if !self.by_key.contains_key(&key) && !self.reading.contains_key(&key) {
            self.effect(Effect::Order(0, 0, Order::Probe(key, PROBE)));
        }
    }

    fn log_not_taken_up(&mut self, own: &LeftConnection, record: Option<ConnectionRecord>, why: &str) {
        self.counts.not_taken_up += 1;
        // One may be lost; and the program must have forgotten the connection by then.
        self.taken.probes.push(own.key);
        let connection = of(own, record, self.now);
        tracing::warn!(client = %connection.client, "a connection of the process before is reset: {why}");
        let ended = self.logged(own.number, &connection, Ending::NotTakenUp);
        self.effect(Effect::Log(Box::new(ended)));
    }
}

/// A connection as a process before had it.
fn of(own: &LeftConnection, record: Option<ConnectionRecord>, now: Duration) -> Connection {
    let client: IpAddr = client_of(&own.key);
    let (since, stream, said) = match record {
        Some(record) => (record.since, Some(record.shown), record.said),
        None => (now, None, Said::default()),
    };
    Connection {
        key: own.key,
        generation: own.generation,
        client,
        since,
        input: Input::default(),
        outgoing: Outgoing::taken_up(own.documents, own.delivered, own.ends || own.plays),
        state: State::Answers,
        requests: 0,
        keeps: false,
        half_closed: None,
        asked: true,
        said,
        status: 200,
        ending: None,
        stream,
        answered: VecDeque::new(),
        logged: Totals::default(),
    }
}

//! The state machine alone: events in, effects out, and nothing else.

use std::collections::HashMap;
use std::net::Ipv6Addr;
use std::sync::Arc;

use proptest::prelude::*;
use wire::flow_key::FlowKey;
use wire::segment::{ACK, FIN, PSH, RST, SYN, Segment, TcpOptions};

use super::client::{Client, Persistence};
use super::clock::ClientClock;
use super::context::Context;
use super::effect::{Effect, LetGo, Metric, Policy, Selection};
use super::event::Event;
use super::exchange::{Account, Ending};
use super::out_of_order::OutOfOrder;
use super::state::{Connection, Reading, State};
use super::stream::Stream;
use super::upstream::{Hop, IdleUpstream, Offered, Peer, ServerConn};
use crate::cluster::idle_pool::IdlePool;
use crate::cluster::{Cluster, NegotiatedOptions};
use crate::data_path::FlowReader;
use crate::settings::{
    Addressing, Balance, Check, Interface, PathMatch, Pool, Reuse, Route, Server, Service, Settings, Timeouts, WhenFull,
};
use crate::tables::flow_entry::{FlowEntry, Mode};

const SECOND: u64 = 1_000_000_000;
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
/// Where the client's and the server's streams begin.
const FIRST: [u32; 2] = [1000, 5_000_000];

/// Flow entries, and nothing that passes by them.
#[derive(Default)]
struct Entries(HashMap<FlowKey, FlowEntry>);

impl FlowReader for Entries {
    fn read_entry(&mut self, key: &FlowKey) -> Option<FlowEntry> {
        self.0.get(key).cloned()
    }

    fn end_awaiting(&mut self, key: &FlowKey) -> Option<FlowEntry> {
        let entry = self.0.get_mut(key)?;
        if entry.mode == Mode::Awaiting {
            (entry.mode, entry.framing) = (Mode::Held, 0);
        }
        Some(entry.clone())
    }
}

fn address(last: u16) -> Ipv6Addr {
    format!("::ffff:10.0.2.{last}").parse().unwrap()
}

/// One server that has everything.
fn settings() -> Settings {
    let mac = [2, 0, 0, 0, 0, 1];
    let server = Server {
        name: "a".into(),
        address: address(11),
        port: 80,
        weight: 1,
        interface: 0,
        next_hop: address(11),
        is_routed: false,
        sources: vec![address(254)],
    };
    let check = Check { http: None, interval: SECOND, timeout: SECOND, rise: 1, fall: 1 };
    let (balance, addressing, reuse) = (Balance::RoundRobin, Addressing::FullNat, Reuse::Safe);
    let pool = Pool { name: "p".into(), balance, servers: vec![server], check, addressing, reuse, preconnect: 0 };
    let route = Route { host: None, path: PathMatch::Any, methods: Vec::new(), pool: 0 };
    let service = Service { name: "s".into(), endpoints: vec![(address(80), 80)], routes: vec![route] };
    let addresses = vec![(address(254), 120)];
    let interface = Interface { port: 2, mac, is_shared: false, addresses, gateways: Vec::new(), ports: (1024, 65535) };
    Settings {
        interfaces: vec![Arc::new(interface)],
        pools: vec![Arc::new(pool)],
        services: vec![service],
        timeouts: Timeouts {
            request: 10 * SECOND,
            connect: SECOND,
            response: 60 * SECOND,
            keep_alive: 60 * SECOND,
            idle: 3600 * SECOND,
            idle_pool: 30 * SECOND,
        },
        request_head: 16384,
        request_body: u64::MAX,
        connections: 10,
        when_full: WhenFull::Refuse,
        log: None,
    }
}

/// A connection with what surrounds it.
struct World {
    entries: Entries,
    cluster: Cluster,
    idle: IdlePool,
    connection: Connection,
    now: u64,
    /// Connections to servers that the connection has.
    bound: usize,
}

impl World {
    fn new() -> World {
        let key = FlowKey { src: address(1), dst: address(80), src_port: 4000, dst_port: 80 };
        let client = Client {
            key,
            service: 0,
            hop: Hop { port: 1, mac: [2; 6], own_mac: [4; 6] },
            options: NegotiatedOptions { mss: 1460, scale: None, sack: false, times: false },
            requests: Stream::new(FIRST[0], 20480),
            out_of_order: OutOfOrder::default(),
            acknowledged: FIRST[0],
            next: 77,
            acked: 77,
            window: 60000,
            clock: ClientClock::default(),
            done: false,
            persistence: Persistence::KeepAlive,
            connects: 0,
            account: Account::new(0),
        };
        let mut cluster = Cluster::new(Arc::new(settings()), 0);
        (cluster.servers[0].up, cluster.servers[0].mac) = (true, Some([6; 6]));
        let connection = Connection::new(client, State::Reading(Reading::until(10 * SECOND, None)));
        let (entries, idle) = (Entries::default(), IdlePool::default());
        World { entries, cluster, idle, connection, now: SECOND, bound: 0 }
    }

    fn server(&self) -> FlowKey {
        FlowKey { src: address(11), dst: address(254), src_port: 80, dst_port: 2000 }
    }

    fn segment<'f>(&self, of_client: bool, (seq, ack): (u32, u32), flags: u8, payload: &'f [u8]) -> Segment<'f> {
        Segment {
            dst_mac: [0; 6],
            src_mac: [0; 6],
            flow_key: if of_client { self.connection.client.key } else { self.server() },
            seq,
            ack,
            flags,
            window: 60000,
            options: TcpOptions::default(),
            payload,
        }
    }

    /// Handles an event, and writes the flow entries as its effects say.
    fn handle(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        let parts = (&self.cluster, &self.idle, false);
        self.connection.handle(event, &mut Context::new((7, self.now), &mut self.entries, parts, &mut effects));
        for (at, effect) in effects.iter().enumerate() {
            match effect {
                Effect::Set { key, entry } => _ = self.entries.0.insert(*key, entry.clone()),
                Effect::Update { key, entry } => {
                    let entry = entry.clone().keep_noted(self.entries.0.get(key));
                    self.entries.0.insert(*key, entry);
                }
                Effect::Remove(key) => _ = self.entries.0.remove(key),
                Effect::LetGo(LetGo { key, entry, .. }) => {
                    self.entries.0.remove(key);
                    self.entries.0.extend(entry.clone().map(|entry| (*key, entry)));
                }
                Effect::Unbind { .. } | Effect::Keep(_) => self.bound -= 1,
                Effect::Select(_) | Effect::ReportRelayed { .. } => assert_eq!(at + 1, effects.len(), "{effects:?}"),
                _ => {}
            }
        }
        effects
    }

    fn client(&mut self, numbers: (u32, u32), flags: u8, payload: &[u8]) -> Vec<Effect> {
        let segment = self.segment(true, numbers, flags, payload);
        self.handle(Event::Client(&segment))
    }

    fn server_says(&mut self, numbers: (u32, u32), flags: u8, payload: &[u8]) -> Vec<Effect> {
        let segment = self.segment(false, numbers, flags, payload);
        self.handle(Event::Server(&segment))
    }

    fn peer(&self) -> Peer {
        let offered = Offered { mss: 1460, sack: false, times: false };
        let hop = Hop { port: 2, mac: [6; 6], own_mac: [8; 6] };
        Peer { server: 0, key: self.server(), hop, mss: 1460, offered, is_nat: true }
    }

    /// A server is chosen.
    fn selected(&mut self) -> Vec<Effect> {
        let peer = self.peer();
        self.bound += 1;
        self.handle(Event::Selected(Selection::New { peer, first: 9, has_entry: true }, Vec::new()))
    }

    /// One that was there before is chosen.
    fn selected_idle(&mut self) -> Vec<Effect> {
        let conn = ServerConn {
            peer: self.peer(),
            scale: 0,
            advertised_scale: 0,
            edge: 60000,
            tsval: 0,
            recent: Default::default(),
            responses: Stream::new(FIRST[1], 65536),
        };
        let idle = IdleUpstream {
            conn,
            next: 9,
            clock: (0, 0),
            window: 60000,
            connected: true,
            owes_ack: false,
            due: u64::MAX,
        };
        self.bound += 1;
        self.handle(Event::Selected(Selection::Idle(Box::new(idle)), Vec::new()))
    }

    /// What is added to the client's numbers.
    fn shift(&self) -> u32 {
        self.connection.state.upstream().unwrap().offsets.shift
    }

    fn has_server(&self) -> bool {
        self.connection.state.server().is_some()
    }
}

/// A connection whose request a server has.
fn joined() -> World {
    let mut world = World::new();
    world.client((FIRST[0], 77), ACK | PSH, REQUEST);
    world.selected();
    world.server_says((FIRST[1], FIRST[0]), SYN | ACK, b"");
    world
}

/// What an own segment says.
fn sent(effect: &Effect) -> Option<(u8, Segment<'_>)> {
    match effect {
        Effect::Send { port, frame } => Some((*port, Segment::parse(frame).unwrap())),
        _ => None,
    }
}

#[test]
fn what_is_acknowledged_is_noted_first() {
    let mut world = World::new();
    let effects = world.client((FIRST[0], 77), ACK, &REQUEST[..9]);
    let [Effect::Set { entry, .. }, ack] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!((entry.mode, entry.limit), (Mode::Held, FIRST[0]));
    assert_eq!(sent(ack).unwrap().1.ack, FIRST[0] + 9);
}

#[test]
fn a_request_finds_a_server_and_its_response_the_client() {
    let mut world = World::new();
    let effects = world.client((FIRST[0], 77), ACK | PSH, REQUEST);
    let [Effect::Select(select)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!((select.pool, select.policy), (0, Policy::Reuse { may: true }));

    let effects = world.selected();
    let [Effect::Count(Metric::Request { server: 0, connects: true }), Effect::Set { .. }, syn] = &effects[..] else {
        panic!("{effects:?}")
    };
    let (port, syn) = sent(syn).unwrap();
    assert_eq!((port, syn.seq, syn.flags), (2, FIRST[0] - 1, SYN));

    let effects = world.server_says((FIRST[1], FIRST[0]), SYN | ACK, b"");
    // The server's flow entry first.
    let [Effect::Count(_), Effect::Update { key, entry }, Effect::Update { .. }, request] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!((*key, entry.mode), (world.server(), Mode::Held));
    assert_eq!(sent(request).unwrap().1.payload, REQUEST);

    let end = FIRST[0] + REQUEST.len() as u32;
    let effects = world.server_says((FIRST[1] + 1, end), ACK | PSH, RESPONSE);
    let [Effect::Update { entry, .. }, Effect::Update { .. }, Effect::Relay, Effect::Finish(finished)] = &effects[..]
    else {
        panic!("{effects:?}")
    };
    assert_eq!((entry.mode, entry.limit), (Mode::Limited, end));
    assert_eq!((finished.ending, finished.exchange.status), (Ending::Complete, Some(200)));
}

/// A segment with a FIN of Millrace's own is none that the data path rewrites: when it comes there, the flow entry may
/// be another client's, whose stream begins where that FIN is.
#[test]
fn the_end_of_a_response_behind_which_millrace_closes_is_sent_as_it_is() {
    let request = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    let (mut world, end) = (World::new(), FIRST[0] + request.len() as u32);
    world.client((FIRST[0], 77), ACK | PSH, request);
    world.selected();
    world.server_says((FIRST[1], FIRST[0]), SYN | ACK, b"");
    // It may come again.
    for _ in 0..2 {
        let effects = world.server_says((FIRST[1] + 1, end), ACK | PSH, RESPONSE);
        assert!(!effects.iter().any(|own| matches!(own, Effect::Relay | Effect::RelayPart(_))), "{effects:?}");
        let (port, last) = effects.iter().find_map(sent).expect("it is sent");
        assert_eq!((port, last.flow_key), (1, world.connection.client.key.reversed()));
        assert_eq!((last.seq, last.ack, last.flags), (77, end, ACK | PSH | FIN));
        assert_eq!(last.payload, RESPONSE);
    }
}

/// The data path reads the response and closes with the client, and the controller finds out when it looks.
#[test]
fn a_connection_that_the_data_path_has_closed_is_found() {
    let request = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    let (mut world, end) = (World::new(), FIRST[0] + request.len() as u32);
    world.client((FIRST[0], 77), ACK | PSH, request);
    let effects = world.selected_idle();
    let Some(Effect::Update { entry, .. }) = effects.iter().find(|own| matches!(own, Effect::Update { .. })) else {
        panic!("{effects:?}")
    };
    assert_eq!(entry.mode, Mode::Awaiting);
    let due = world.connection.due(world.now);
    assert_eq!(due, world.now + 4_000_000);

    // No response yet; then one, of which the client has acknowledged all but the FIN behind it.
    world.now = due;
    assert!(world.handle(Event::Due).is_empty());
    let (length, shift) = (RESPONSE.len() as u32, world.shift());
    let (client, server) = (world.connection.client.key, world.server());
    let entry = world.entries.0.get_mut(&server).unwrap();
    let (status, whole, head) = (200u64 << 49, 1 << 59, (length as u64 - 2) << 38);
    (entry.mode, entry.framing) = (Mode::Answered, 13 << 60 | whole | status | head);
    entry.limit = entry.limit.wrapping_add(length - 1);
    entry.acked = end.wrapping_add(shift);
    let entry = world.entries.0.get_mut(&client).unwrap();
    (entry.mode, entry.limit, entry.acked) = (Mode::Finishing, 77 + length, 77 + length);
    world.now += 4_000_000;
    assert!(world.handle(Event::Due).is_empty());

    // Its own FIN has been answered, so nothing is sent.
    let entry = world.entries.0.get_mut(&client).unwrap();
    (entry.acked, entry.ended) = (77 + length + 1, 1);
    let effects = world.handle(Event::Due);
    let [Effect::Finish(finished), Effect::LetGo(_), Effect::Keep(idle), Effect::Remove(key)] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!((finished.ending, finished.exchange.status, finished.exchange.body()), (Ending::Complete, Some(200), 2));
    assert!(idle.owes_ack && *key == client);
    assert!(matches!(world.connection.state, State::Over));
}

#[test]
fn without_a_server_the_client_gets_an_answer() {
    let mut world = World::new();
    world.client((FIRST[0], 77), ACK | PSH, REQUEST);
    let effects = world.handle(Event::Selected(Selection::None(503), vec![0]));
    let [Effect::Finish(finished), Effect::Set { .. }, answer] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!((finished.ending, finished.exchange.status), (Ending::Answered, Some(503)));
    let (port, answer) = sent(answer).unwrap();
    assert!(port == 1 && answer.has(FIN) && answer.payload.starts_with(b"HTTP/1.1 503 "));
    assert!(matches!(world.connection.state, State::Answering(_)));
}

#[test]
fn a_server_that_refuses_gives_the_request_back() {
    let mut world = World::new();
    world.client((FIRST[0], 77), ACK | PSH, REQUEST);
    world.selected();
    let effects = world.server_says((0, FIRST[0]), RST | ACK, b"");
    let [
        Effect::LetGo(LetGo { key, entry: None, word: None }),
        Effect::Unbind { .. },
        Effect::Count(Metric::Failed { server: 0 }),
        Effect::Select(select),
    ] = &effects[..]
    else {
        panic!("{effects:?}")
    };
    assert_eq!((*key, world.bound), (world.server(), 0));
    assert_eq!((select.policy, &select.tried[..]), (Policy::Elsewhere { status: 503 }, &[0][..]));
}

#[test]
fn a_reset_ends_a_connection_once_the_data_path_has_taken_it() {
    let mut world = joined();
    let end = FIRST[0] + REQUEST.len() as u32;
    let effects = world.client((end, 77), RST, b"");
    assert!(matches!(effects[..], [Effect::Relay, Effect::ReportRelayed { of_client: true }]), "{effects:?}");
    assert!(world.handle(Event::Relayed { of_client: true }).is_empty());
    let key = world.connection.client.key;
    world.entries.0.get_mut(&key).unwrap().ended = 2;
    world.handle(Event::Relayed { of_client: true });
    assert!(matches!(world.connection.state, State::Over) && world.bound == 0 && world.entries.0.is_empty());
}

#[test]
fn what_was_pushed_counts_as_written() {
    let mut world = World::new();
    let (key, mut effects) = (world.server(), Vec::new());
    let noted = FlowEntry { mode: Mode::Open, acked: 5, edge: 9, ended: 1, ..FlowEntry::held(key.reversed(), 3) };
    world.entries.0.insert(key, noted.clone());
    let parts = (&world.cluster, &world.idle, false);
    let mut cx = Context::new((7, SECOND), &mut world.entries, parts, &mut effects);
    assert_eq!(cx.entry(&key), Some(noted.clone()));
    let entry = FlowEntry { mode: Mode::Limited, limit: 8, acked: 1, ..FlowEntry::held(key.reversed(), 4) };
    cx.push(Effect::Update { key, entry });
    assert_eq!(cx.entry(&key), Some(FlowEntry { mode: Mode::Limited, limit: 8, ..noted }));
    let held = FlowEntry::held(key.reversed(), 6);
    cx.push(Effect::Set { key, entry: held.clone() });
    assert_eq!((cx.entry(&key), cx.entry(&key.reversed())), (Some(held), None));
    cx.push(Effect::Remove(key));
    assert_eq!(cx.entry(&key), None);
}

/// A segment of one side: how far its numbers are from those that are expected, its flags, and which bytes it has.
fn step() -> impl Strategy<Value = (u8, i8, i8, u8, u8)> {
    let near = prop_oneof![4 => Just(0i8), 1 => any::<i8>()];
    let flags = prop_oneof![
        6 => Just(ACK),
        2 => Just(ACK | FIN),
        1 => Just(ACK | RST),
        1 => Just(RST),
        1 => Just(SYN | ACK),
        1 => any::<u8>(),
    ];
    (0..9u8, near.clone(), near, flags, 0..6u8)
}

proptest! {
    /// Whatever comes in whatever state: the connection has a server's exactly where one was taken and not given back,
    /// and effects that are answered come last.
    #[test]
    fn no_connection_to_a_server_is_lost(steps in prop::collection::vec(step(), 0..40), pause in 0..3 * SECOND) {
        let mut world = World::new();
        for (kind, seq, ack, flags, bytes) in steps {
            let payload = [b"", REQUEST, RESPONSE, &REQUEST[..5], &RESPONSE[..20], b"\r\n"][usize::from(bytes)];
            let c = &world.connection.client;
            let (came, acked) = (c.requests.bytes.next(), c.acked);
            let server = world.connection.state.upstream().map(|u| u.conn.responses.bytes.next());
            let away = |number: u32, by: i8| number.wrapping_add_signed(by.into());
            let mut effects = match kind {
                0..=2 => world.client((away(came, seq), away(acked, ack)), flags, payload),
                3..=5 => world.server_says((away(server.unwrap_or(FIRST[1]), seq), away(came, ack)), flags, payload),
                6 => {
                    world.now = (world.now + pause).max(world.connection.due(world.now).min(1 << 50));
                    world.handle(Event::Due)
                }
                7 => world.handle(if seq > 0 { Event::Kill } else { Event::ServerDown }),
                _ if matches!(world.connection.state, State::Over) => return Ok(()),
                _ => world.handle(Event::Relayed { of_client: seq > 0 }),
            };
            while let Some(Effect::Select(_)) = effects.last() {
                prop_assert_eq!(world.bound, 0);
                effects = match ack > 60 {
                    true => world.handle(Event::Selected(Selection::None(503), Vec::new())),
                    false => world.selected(),
                };
            }
            prop_assert_eq!(world.bound, usize::from(world.has_server()), "{:?}", world.connection.state);
            prop_assert!(!matches!(world.connection.state, State::Choosing(_)));
        }
        world.handle(Event::TableFull);
        prop_assert_eq!(world.bound, 0);
    }
}

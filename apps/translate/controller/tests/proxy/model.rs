//! A program and its clients, as far as the state machine sees them: what it orders is done at once, or when a test
//! says so.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use media::settings::access::{Access, Secret};
use media::settings::{Allowed, Credentials, Named};
use translate::http::target::Source;
use translate::proxy::Proxy;
use translate::proxy::requests::Segment;
use translate::proxy::take_up::Left;
use translate::proxy::world::{Effect, Ended, World};
use translate::settings::Settings;
use translate::tables::{DOCUMENTS, LeftConnection, Next, Notice, Order, Over, StreamCounts, Totals};
use wire::flow_key::FlowKey;
use wire::rtsp::auth::Scheme;

#[derive(Clone, Default)]
pub struct Counted(pub Rc<RefCell<BTreeMap<u32, StreamCounts>>>);

impl World for Counted {
    fn stream(&mut self, stream: u32) -> StreamCounts {
        self.0.borrow().get(&stream).copied().unwrap_or_default()
    }

    fn totals(&mut self, connection: u32) -> Totals {
        Totals { packets: connection.into(), ..Totals::default() }
    }

    fn secret(&mut self) -> (u64, u64) {
        (1, 2)
    }
}

/// A connection as the program has it.
#[derive(Debug, Default)]
pub struct Open {
    pub key: Option<FlowKey>,
    pub generation: u32,
    pub stream: u32,
    /// What was sent exactly.
    pub bytes: Vec<u8>,
    pub documents: u32,
    pub acked: u32,
    /// What follows the documents.
    pub next: Option<Next>,
    /// The stream's group that it is in.
    pub member: Option<u32>,
    pub closed: bool,
    pub aborted: bool,
    /// Bytes of its client, and those that it may send again.
    pub sent: u32,
    pub credit: u32,
}

impl Open {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

pub struct Model {
    pub proxy: Proxy<Counted>,
    pub counted: Counted,
    pub now: Duration,
    pub open: BTreeMap<u32, Open>,
    pub refused: Vec<FlowKey>,
    pub probed: Vec<FlowKey>,
    /// What the state machine has kept, by key.
    pub kept: BTreeMap<String, Vec<u8>>,
    pub streams: BTreeMap<u32, Source>,
    /// What servers of the host have got, and readings that may be done; those that get nothing more.
    pub server: BTreeMap<u32, (Vec<u8>, u32)>,
    pub half_closed: BTreeSet<u32>,
    pub credit: u32,
    /// Bytes of clients whose connections are not open.
    pub sent: HashMap<FlowKey, u32>,
    pub log: Vec<Ended>,
}

pub fn key(client: &str, port: u16) -> FlowKey {
    let v6 = |text: &str| match text.parse().unwrap() {
        std::net::IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        std::net::IpAddr::V6(v6) => v6,
    };
    FlowKey { src: v6(client), dst: v6("10.0.1.1"), src_port: port, dst_port: 8080 }
}

pub fn settings() -> Settings {
    let viewers =
        Access { users: vec!["alice".into()], tokens: vec![Secret("a-token-of-alice".into())], ..Access::default() };
    let named = |name: &str| Named { name: name.into(), url: format!("rtsp://10.0.2.11/{name}"), ..Named::default() };
    let sources = media::settings::Settings {
        origins: vec![Allowed::Prefix { address: "10.0.2.0".parse().unwrap(), length: 24 }],
        streams: vec![named("hall"), Named { viewers: Some(Arc::new(viewers)), ..named("vault") }],
        schemes: vec![Scheme::Sha256, Scheme::Md5, Scheme::Basic],
        users: vec![Credentials { user: "alice".into(), password: "her password".into() }],
        ..media::settings::Settings::default()
    };
    let groups = vec![("239.0.0.0".parse().unwrap(), 8)];
    Settings { sources: Arc::new(sources), groups, ..Settings::default() }
}

impl Model {
    pub fn new(settings: Settings) -> Model {
        let counted = Counted::default();
        Model {
            proxy: Proxy::new(counted.clone(), Arc::new(settings)),
            counted,
            now: Duration::from_secs(1000),
            open: BTreeMap::new(),
            refused: Vec::new(),
            probed: Vec::new(),
            kept: BTreeMap::new(),
            streams: BTreeMap::new(),
            server: BTreeMap::new(),
            half_closed: BTreeSet::new(),
            credit: 0,
            sent: HashMap::new(),
            log: Vec::new(),
        }
    }

    /// Gives the state machine an event, and does what it orders.
    pub fn event<T>(&mut self, event: impl FnOnce(&mut Proxy<Counted>) -> T) -> T {
        self.proxy.set_now(self.now);
        let result = event(&mut self.proxy);
        while let Some(effect) = self.proxy.next_effect() {
            self.carry_out(effect);
        }
        for (key, value) in self.proxy.take_records() {
            match value {
                Some(value) => _ = self.kept.insert(key, value),
                None => _ = self.kept.remove(&key),
            }
        }
        result
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Order(number, generation, order) => match order {
                Order::Open { key, stream, .. } => {
                    let sent = self.sent.remove(&key).unwrap_or_default();
                    let own = Open { key: Some(key), generation, stream, sent, ..Open::default() };
                    assert!(self.open.insert(number, own).is_none(), "connection {number} is opened twice");
                }
                Order::Refuse(key) => self.refused.push(key),
                Order::Probe(key, _) => self.probed.push(key),
                Order::Close | Order::Abort | Order::Credit(_) | Order::Stream { .. } => {
                    let own = self.open.get_mut(&number).expect("an order for a connection that is open");
                    assert_eq!(own.generation, generation);
                    match order {
                        Order::Close => own.closed = true,
                        Order::Abort => own.aborted = true,
                        Order::Credit(bytes) => {
                            (self.credit, own.credit) = (self.credit + bytes, own.credit + bytes);
                            assert!(own.credit <= own.sent, "{} of {} bytes", own.credit, own.sent);
                        }
                        Order::Stream { stream, .. } => own.stream = stream,
                        _ => unreachable!(),
                    }
                }
            },
            Effect::Document { connection, index, next, bytes } => {
                let own = self.open.get_mut(&connection).expect("a document for a connection that is open");
                assert_eq!(index, own.documents, "documents are in order");
                assert!(own.next.is_none() && !own.closed, "nothing follows the last document");
                assert!(!bytes.is_empty() && bytes.len() <= 1460 && own.documents - own.acked < DOCUMENTS);
                own.bytes.extend(bytes);
                own.documents += 1;
                own.next = Some(next).filter(|next| *next != Next::Document);
            }
            Effect::Join(stream, connection) => {
                let own = self.open.get_mut(&connection).unwrap();
                assert_eq!((own.stream, own.member.replace(stream)), (stream, None));
            }
            Effect::Leave(_, connection) => {
                self.open.get_mut(&connection).into_iter().for_each(|own| own.member = None);
            }
            Effect::OpenStream { stream, source, .. } => {
                assert!(self.streams.insert(stream, source).is_none(), "stream {stream} is asked for twice");
            }
            Effect::CloseStream(stream) => assert!(self.streams.remove(&stream).is_some()),
            Effect::Connect { connection, bytes, .. } => {
                assert!(self.server.insert(connection, (bytes, 0)).is_none());
                self.half_closed.remove(&connection);
            }
            Effect::EndServer(connection) => _ = self.half_closed.insert(connection),
            Effect::ToServer(connection, bytes) => {
                self.server.get_mut(&connection).into_iter().for_each(|own| own.0.extend(&bytes));
            }
            Effect::ReadServer(connection) => self.server.get_mut(&connection).into_iter().for_each(|own| own.1 += 1),
            Effect::Disconnect(connection) => _ = self.server.remove(&connection),
            Effect::Log(ended) => self.log.push(*ended),
        }
    }

    /// The process is killed, and another one goes on; what it logs is all that there is from then on.
    pub fn again(&mut self, is_exact: bool, settings: Settings) {
        let of = |(number, own): (&u32, &Open)| LeftConnection {
            number: *number,
            generation: own.generation,
            key: own.key.unwrap_or(FlowKey::UNSPECIFIED),
            stream: own.stream,
            documents: own.documents,
            delivered: own.acked,
            ends: own.closed || own.next == Some(Next::Close),
            plays: own.next == Some(Next::Stream),
            is_idle: own.documents == own.acked && own.credit == own.sent,
            heard: self.now,
            is_sound: true,
        };
        let left = Left {
            records: self.kept.clone().into_iter().collect(),
            streams: self.streams.clone().into_iter().collect(),
            connections: self.open.iter().map(of).collect(),
            held: Vec::new(),
            is_exact,
        };
        self.proxy = Proxy::new(self.counted.clone(), Arc::new(settings));
        self.log.clear();
        self.server.clear();
        self.open.values_mut().for_each(|own| own.member = None);
        self.event(|proxy| proxy.take_up(left));
    }

    /// A client connects and sends something; the number of its connection, if it has one by then.
    pub fn ask(&mut self, key: FlowKey, text: &str) -> Option<u32> {
        self.sent.insert(key, text.len() as u32);
        self.event(|proxy| proxy.segment(Segment { key, first: true, mss: 1460, payload: text.as_bytes() }));
        self.number(key)
    }

    pub fn more(&mut self, key: FlowKey, text: &str) -> Option<u32> {
        match self.number(key).and_then(|number| self.open.get_mut(&number)) {
            Some(own) => own.sent += text.len() as u32,
            None => *self.sent.entry(key).or_default() += text.len() as u32,
        }
        self.event(|proxy| proxy.segment(Segment { key, first: false, mss: 1460, payload: text.as_bytes() }));
        self.number(key)
    }

    pub fn number(&self, key: FlowKey) -> Option<u32> {
        self.open.iter().rev().find(|(_, own)| own.key == Some(key)).map(|(number, _)| *number)
    }

    pub fn get(&mut self, port: u16, target: &str) -> u32 {
        let fields = "Host: proxy:8080\r\nUser-Agent: test\r\nConnection: close";
        let text = format!("GET {target} HTTP/1.1\r\n{fields}\r\n\r\n");
        self.ask(key("10.0.1.11", port), &text).expect("an answer, or a stream that is awaited")
    }

    /// Packets of a stream come.
    pub fn packets(&mut self, stream: u32, count: u64) {
        self.counted.0.borrow_mut().entry(stream).or_default().packets += count;
        self.event(Proxy::tick);
    }

    pub fn wait(&mut self, time: Duration) {
        self.now += time;
        self.event(Proxy::tick);
    }

    pub fn notice(&mut self, number: u32, notice: Notice) {
        let Some(own) = self.open.get_mut(&number) else { return };
        if let Notice::Acked(documents) = notice {
            own.acked = documents;
        }
        let generation = own.generation;
        if matches!(notice, Notice::Ended(_)) {
            self.open.remove(&number);
        }
        self.event(|proxy| proxy.notice(number, generation, notice));
    }

    /// The client takes all that there is, and then the connection ends, if it is to.
    pub fn finish(&mut self, number: u32) -> Open {
        while self.open[&number].acked != self.open[&number].documents {
            self.notice(number, Notice::Acked(self.open[&number].documents));
        }
        let own = std::mem::take(self.open.get_mut(&number).unwrap());
        *self.open.get_mut(&number).unwrap() = Open { generation: own.generation, ..Open::default() };
        let over = if own.aborted { Over::Aborted } else { Over::Closed };
        assert!(own.closed || own.aborted || own.next == Some(Next::Close), "it is not to end: {}", own.text());
        self.notice(number, Notice::Ended(over));
        own
    }

    /// The status of the answer, and its body.
    pub fn answered(&mut self, number: u32) -> (u16, String) {
        let text = self.finish(number).text();
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        (head[9..12].parse().unwrap(), body.to_owned())
    }

    /// What a client has got since the last time, all of which it acknowledges.
    pub fn taken(&mut self, number: u32) -> String {
        while self.open[&number].acked != self.open[&number].documents {
            self.notice(number, Notice::Acked(self.open[&number].documents));
        }
        let own = self.open.get_mut(&number).unwrap();
        String::from_utf8(std::mem::take(&mut own.bytes)).unwrap()
    }
}

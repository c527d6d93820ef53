//! A client, two servers, the program of the splicer on the interpreter and its controller, and a network that does
//! what it is told to.

mod delivery;

use std::cell::RefCell;
use std::collections::{HashSet, VecDeque};
use std::net::Ipv4Addr;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use baker::ir::Program;
use control::applications::Applications;
use control::config::Config;
use dataplane::EngineKind;
use dataplane::step::Stepper;
use indexmap::IndexMap;
use splice::SpliceApplication;
use splice::settings::Settings;
use splice::splicer::Splicer;
use wire::flow_key::FlowKey;
use wire::segment::{ACK, Segment, TcpOptions};

use super::path::{PATHS, Shared, TestPath};
use super::plan::{Exchange, Hosts};
use super::tcp::{Listener, Tcp};
use crate::common;

/// What the program needs.
pub const SPLICE: Applications = Applications::new(&[&SpliceApplication]);

const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 1, 0x11];
const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 2, 0x11];
const OWN_MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 1, 0xfe], [2, 0, 0, 0, 2, 0xfe]];

/// Whether the program is in the form that traffic control takes, in which hosts may leave checksums to devices
/// (`SPLICE_DRIVER=tc`).
fn is_at_tc() -> bool {
    std::env::var("SPLICE_DRIVER").is_ok_and(|driver| driver == "tc")
}

pub fn program() -> Arc<Program> {
    static PROGRAM: OnceLock<Arc<Program>> = OnceLock::new();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../splice.baker");
    let compile = if is_at_tc() { common::compile_with_operations } else { common::compile };
    PROGRAM.get_or_init(|| compile(&path)).clone()
}

/// With a window scale that says something of so many bytes.
fn fitting(options: TcpOptions, room: u32) -> TcpOptions {
    TcpOptions { scale: options.scale.map(|scale| if room >> scale < 64 { 2 } else { scale }), ..options }
}

pub struct World {
    shared: Rc<RefCell<Shared>>,
    pub splicer: Splicer<TestPath>,
    /// Whether the controller's process is gone: the data path goes on.
    down: bool,
    pub trace: bool,
    /// Whether all was done before the last choice.
    pub finished_early: bool,
    /// Connections that were reset when it came back.
    pub lost: usize,
    /// Times that the process died.
    pub crashes: usize,
    /// Those whose requests are not routed any more, of processes that are gone.
    passthrough: u64,
    hosts: Hosts,
    exchanges: Vec<Exchange>,
    pub client: Tcp,
    written: usize,
    /// Connections to the servers, in the order in which they came, with the number of bytes of requests that were
    /// answered.
    servers: IndexMap<FlowKey, (Tcp, usize)>,
    /// Whether the servers close instead of answering.
    pub mute: bool,
    /// Whether they answer.
    pub answered: usize,
    /// How many requests told a server to close.
    pub closes_told: usize,
    /// Connections that the servers have closed without being asked to.
    closed: HashSet<FlowKey>,
    clients: u16,
    /// SYNs that came to servers: their flow keys, numbers, and when.
    pub syns: Vec<(FlowKey, u32, u64)>,
    /// Packets that came to Millrace in fragments.
    pub fragmented: u16,
    /// How many packets arrive until the controller is there again for what is for it: others pass meanwhile.
    pub busy: usize,
    /// Whether the client asks one thing, and waits.
    pub patient: bool,
    /// Whether packets have kept their order until now.
    ordered: bool,
    /// Segments that were damaged on their way.
    damaged: usize,
    /// The servers that may serve each route, by each configuration that there was: other requests, and those for the
    /// images.
    serving: Vec<[Vec<Ipv4Addr>; 2]>,
    /// How many configurations there were when each request was sent.
    asked: Vec<usize>,
    /// Servers that refuse connections, and those that do not answer to SYNs.
    pub refusing: Vec<Ipv4Addr>,
    pub silent: Vec<Ipv4Addr>,
    /// The server that has answered last.
    pub last_served: Option<Ipv4Addr>,
    /// How servers take the connections to come.
    pub listener: Listener,
}

impl World {
    pub fn new(hosts: Hosts, exchanges: Vec<Exchange>) -> World {
        let program = program();
        let text = include_str!("../../../splice.toml");
        // One server for each route, and no IPv6 ones, which no host here is.
        let text: String = text
            .lines()
            .filter(|line| !line.contains("\"a6\"") && !line.contains("name = \"b\", address = \"10.0.2.12:80\" },"))
            .map(|line| format!("{line}\n"))
            .collect();
        let text = text.replace("connect = \"1s\"", "connect = \"60s\"").replace("check = {", "check = { interval = \"1s\", timeout = \"300ms\", fall = 100 } #").replace(
            "[controllers.splice.pools.images]\n",
            "[controllers.splice.pools.images]\ncheck = { interval = \"1s\", timeout = \"300ms\", fall = 100 }\nservers = [{ name = \"b\", address = \"10.0.2.12:80\" }]\n#",
        );
        let text = text.replace("servers = [\n", &format!("{}\nservers = [\n", hosts.settings));
        let text =
            text.replace("servers = [{ name = \"b\"", &format!("{}\nservers = [{{ name = \"b\"", hosts.settings));
        let config =
            Config::parse("t.toml", &text, &program, SPLICE).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
        let mut stepper = Stepper::new(program.clone(), EngineKind::Interp).unwrap();
        config.fill(&program, &mut stepper).unwrap();
        let settings: Arc<Settings> = config.settings::<SpliceApplication>().unwrap();
        let shared = Shared {
            program,
            stepper,
            now: 1_000_000_000,
            punted: VecDeque::new(),
            punts: 0,
            port: 0,
            left: None,
            paths: Default::default(),
        };
        let shared = Rc::new(RefCell::new(shared));
        let splicer = Splicer::new(settings, TestPath::new(&shared));
        let flow_key = FlowKey {
            src: Ipv4Addr::new(10, 0, 1, 11).to_ipv6_mapped(),
            dst: Ipv4Addr::new(10, 0, 1, 80).to_ipv6_mapped(),
            src_port: 40000,
            dst_port: 80,
        };
        let mut client =
            Tcp::new(flow_key, (CLIENT_MAC, OWN_MACS[0]), hosts.client_first, fitting(hosts.client, hosts.room.0));
        (client.buffer, client.read) = (hosts.room.0, hosts.room.1.map(|_| 0));
        let mut world = World {
            shared,
            splicer,
            down: false,
            trace: std::env::var_os("SPLICE_TRACE").is_some(),
            finished_early: false,
            lost: 0,
            crashes: 0,
            passthrough: 0,
            hosts,
            exchanges,
            client,
            written: 0,
            servers: IndexMap::new(),
            mute: false,
            answered: 0,
            closes_told: 0,
            closed: HashSet::new(),
            clients: 1,
            syns: Vec::new(),
            fragmented: 0,
            busy: 0,
            patient: false,
            ordered: true,
            damaged: 0,
            serving: vec![[11, 12].map(|last| vec![Ipv4Addr::new(10, 0, 2, last)])],
            asked: Vec::new(),
            refusing: Vec::new(),
            silent: Vec::new(),
            last_served: None,
            listener: Listener::default(),
        };
        // The servers are found to work first.
        let are_up = |world: &World| {
            let servers = world.splicer.cluster.servers.iter();
            servers.filter(|known| known.server.address.to_ipv4_mapped().is_some()).all(|known| known.up)
        };
        // And for a while longer, for connections that are made ahead.
        let mut left = 200;
        while left > 0 {
            world.settle();
            world.wait(20_000_000);
            left = if are_up(&world) { left.min(30) } else { left } - 1;
        }
        assert!(are_up(&world), "{:?}", world.splicer.cluster.servers);
        world
    }

    /// Another client comes, after the one before has gone.
    pub fn next_client(&mut self, options: TcpOptions, first: u32, exchanges: Vec<Exchange>) {
        let flow_key = FlowKey { src_port: 40000 + self.clients, ..self.client.flow_key };
        self.client = Tcp::new(flow_key, (CLIENT_MAC, OWN_MACS[0]), first, fitting(options, self.hosts.room.0));
        (self.client.buffer, self.client.read) = (self.hosts.room.0, self.hosts.room.1.map(|_| 0));
        self.client.ordered = self.ordered;
        (self.clients, self.exchanges, self.written, self.answered) = (self.clients + 1, exchanges, 0, 0);
        self.asked.clear();
    }

    /// Another configuration comes into force, with the same program or, where `takes_over`, with another run of the
    /// controller.
    pub fn reconfigure(&mut self, text: &str, serving: [Vec<Ipv4Addr>; 2], takes_over: bool) {
        let program = program();
        let config =
            Config::parse("t.toml", text, &program, SPLICE).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
        let settings: Arc<Settings> = config.settings::<SpliceApplication>().unwrap();
        if self.trace {
            println!("--- {text}");
        }
        self.serving.push(serving);
        let result = match takes_over {
            true => self.splicer.go_on(TestPath::new(&self.shared), settings),
            false => self.splicer.configure(settings),
        };
        assert_eq!(result, Ok(()));
    }

    /// The time, in milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.shared.borrow().now / 1_000_000
    }

    /// Bytes that the clients from now on have room for, and how many they read at a time.
    pub fn set_room(&mut self, room: (u32, Option<usize>)) {
        self.hosts.room = room;
    }

    /// Something that the client has sent so many milliseconds ago arrives again, and seems to be what it sends next.
    pub fn old_duplicate(&mut self, payload: &[u8], age: u32) {
        let now = self.shared.borrow().now;
        let frame = self.client.old(payload, age, now);
        self.shared.borrow_mut().paths[0].push_back(frame);
    }

    /// The servers close connections that had no request for long: a client that asks then is told that they are gone.
    /// With `stray` they say something first.
    pub fn close_servers(&mut self, stray: bool) {
        let now = self.shared.borrow().now;
        for (flow_key, (server, answered)) in &mut self.servers {
            if !server.peer_closed && server.received.len() == *answered && server.is_acknowledged() {
                if stray {
                    server.write(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n");
                }
                server.close();
                let frames = server.pump(now);
                self.shared.borrow_mut().paths[1].extend(frames);
                self.closed.insert(*flow_key);
            }
        }
    }

    /// The servers end the connections that they have, whatever comes.
    pub fn close_all(&mut self) {
        let now = self.now();
        for (server, _) in self.servers.values_mut() {
            server.close();
            let frames = server.pump(now);
            self.shared.borrow_mut().paths[1].extend(frames);
        }
    }

    /// Connections to servers that there ever were.
    pub fn connections(&self) -> usize {
        self.servers.len()
    }

    /// Selective acknowledgements that the servers got.
    pub fn sacked(&self) -> usize {
        self.servers.values().map(|(tcp, _)| tcp.sacked).sum()
    }

    /// The time, in nanoseconds.
    pub fn now(&self) -> u64 {
        self.shared.borrow().now
    }

    /// Packets are delivered until there are none.
    pub fn settle(&mut self) {
        for _ in 0..10_000 {
            let Some(path) = (0..PATHS).find(|path| !self.shared.borrow().paths[*path].is_empty()) else { return };
            self.deliver(path);
        }
        panic!("packets go round for ever");
    }

    /// A packet that is none of theirs arrives on a path.
    pub fn arrives(&mut self, path: usize, frame: Vec<u8>) {
        self.shared.borrow_mut().paths[path].push_back(frame);
        self.settle();
    }

    /// Whether the first packet of a path acknowledges something, and does nothing else.
    pub fn is_bare(&self, path: usize) -> bool {
        let shared = self.shared.borrow();
        let segment = shared.paths[path].front().and_then(|frame| Segment::parse(frame));
        segment.is_some_and(|segment| segment.flags == ACK && segment.payload.is_empty())
    }

    /// Packets that there have been for the controller.
    pub fn punts(&self) -> usize {
        self.shared.borrow().punts
    }

    pub fn queued(&self, path: usize) -> usize {
        self.shared.borrow().paths[path].len()
    }

    /// The network does something to the first packet of a path.
    pub fn drop_one(&mut self, path: usize) {
        if self.trace {
            println!("drop on path {path}");
        }
        self.shared.borrow_mut().paths[path].pop_front();
    }

    /// Another loses the last one.
    pub fn drop_last(&mut self, path: usize) {
        self.shared.borrow_mut().paths[path].pop_back();
    }

    /// From now on packets may come in another order than they were sent in.
    fn disorder(&mut self) {
        self.ordered = false;
        self.client.ordered = false;
        self.servers.values_mut().for_each(|(server, _)| server.ordered = false);
    }

    /// A bit of a segment becomes another one.
    pub fn damage(&mut self, path: usize) {
        let mut shared = self.shared.borrow_mut();
        // What routers quote of one is right.
        let shortest = *self.hosts.routers.mtu.iter().min().unwrap();
        let is_sound = |own: &&mut Vec<u8>| own.len() - 14 <= shortest && Segment::parse(own).is_some();
        let Some(frame) = shared.paths[path].front_mut().filter(is_sound) else { return };
        // Of the TCP header behind its ports, or of the data.
        let at = 38 + (self.damaged * 7) % (frame.len() - 38);
        if self.trace {
            println!("byte {at} is damaged on path {path}");
        }
        frame[at] ^= 1 << (self.damaged % 8);
        self.damaged += 1;
    }

    pub fn double(&mut self, path: usize) {
        self.disorder();
        let mut shared = self.shared.borrow_mut();
        let copy = shared.paths[path].front().cloned();
        shared.paths[path].extend(copy);
    }

    pub fn put_back(&mut self, path: usize) {
        self.disorder();
        let mut shared = self.shared.borrow_mut();
        let first = shared.paths[path].pop_front();
        shared.paths[path].extend(first);
    }

    /// Time passes.
    pub fn wait(&mut self, time: u64) {
        self.busy = 0;
        self.shared.borrow_mut().now += time;
        let now = self.shared.borrow().now;
        if !self.down && self.splicer.next_wake() <= now {
            self.splicer.tick();
            self.look();
        }
        self.receive_punted();
        if self.written > 0 {
            let mut frames = self.client.read_more(self.hosts.room.1.unwrap_or(0), now);
            frames.extend(self.client.pump(now));
            self.shared.borrow_mut().paths[0].extend(frames);
        }
        for (server, _) in self.servers.values_mut() {
            let frames = server.pump(now);
            self.shared.borrow_mut().paths[1].extend(frames);
        }
    }

    /// The client says what it has to say.
    pub fn speak(&mut self) {
        let expected: Vec<usize> =
            (0..self.exchanges.len()).map(|number| self.exchanges[number].response(number).len()).collect();
        while self.written < self.exchanges.len() {
            let before: usize = expected[..self.written].iter().sum();
            let waits = self.patient && self.written > 0;
            if waits || (!self.hosts.pipelined && self.client.received.len() < before) {
                break;
            }
            let exchange = &self.exchanges[self.written];
            self.client.write(&exchange.request(self.written));
            if self.hosts.blank && !exchange.last {
                self.client.write(b"\r\n");
            }
            self.asked.push(self.serving.len() - 1);
            self.written += 1;
        }
        let all: usize = expected.iter().sum();
        // A client that has asked for the end waits for it. Where it is not known any more what that was the server
        // closes when it likes.
        let last = self.exchanges.last().is_some_and(|own| own.last) && self.passthrough() == 0;
        if self.client.received.len() >= all && (!last || self.client.peer_closed) {
            self.client.close();
        }
        let now = self.shared.borrow().now;
        let frames = self.client.pump(now);
        self.shared.borrow_mut().paths[0].extend(frames);
    }

    /// The controller's process is to die when it has changed a flow entry or sent something so many times more.
    pub fn die_after(&mut self, times: usize) {
        self.shared.borrow_mut().left = (!self.down).then_some(times);
    }

    /// Notices that it has died so.
    pub fn look(&mut self) {
        let is_dead = self.shared.borrow().left == Some(0);
        if is_dead && !self.down {
            self.kill_or_start();
        }
    }

    /// The controller's process dies, or another one takes up what the last has left.
    pub fn kill_or_start(&mut self) {
        self.shared.borrow_mut().punted.clear();
        self.shared.borrow_mut().left = None;
        self.down = !self.down;
        self.crashes += usize::from(self.down);
        self.servers.values_mut().for_each(|(server, _)| server.handshake_matters = false);
        if self.trace {
            println!("down: {}", self.down);
        }
        if !self.down {
            let settings = self.splicer.cluster.settings.clone();
            self.passthrough = self.passthrough();
            self.splicer = Splicer::new(settings, TestPath::new(&self.shared));
            let restored = self.splicer.restore();
            self.lost += restored.lost;
        }
    }

    /// Connections whose requests are not routed any more.
    pub fn passthrough(&self) -> u64 {
        self.passthrough + self.splicer.metrics.all_passthrough()
    }

    /// Whether a server may end a client's connection whose requests are not routed any more.
    pub fn closes_early(&self) -> bool {
        self.hosts.curt && self.passthrough() > 0
    }

    /// Whether it is gone.
    pub fn is_down(&self) -> bool {
        self.down
    }

    /// All responses, as the client must see them.
    pub fn expected(&self) -> Vec<u8> {
        let all = self.exchanges.iter().enumerate();
        all.flat_map(|(number, exchange)| exchange.response(number)).collect()
    }
}

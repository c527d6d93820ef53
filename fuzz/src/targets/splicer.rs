//! The splicer's controller between clients, servers and strangers that send what they like: it goes on, what it sends
//! can be read, and what it keeps has a bound.

use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use baker::ir::Program;
use baker::library::Beside;
use baker::{check, diag, ir};
use control::applications::Applications;
use control::config::Config;
use serde_json::{Value as Json, json};
use splice::SpliceApplication;
use splice::cluster::NegotiatedOptions;
use splice::data_path::{DataPath, Found, Offer};
use splice::settings::Settings;
use splice::splicer::{Accepted, Splicer};
use splice::tables::flow_entry::FlowEntry;
use splice::tables::local_addresses::LocalAddresses;
use wire::flow_key::FlowKey;
use wire::segment::{ACK, FIN, PSH, RST, SYN, Segment, TcpOptions};

use super::unstructured::{Unstructured, set_checksum};

/// What the program needs.
pub const APPLICATIONS: Applications = Applications::new(&[&SpliceApplication]);
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../apps/splice/splice.baker");
const CONFIG: &str = include_str!("../../../apps/splice/splice.toml");

/// Pieces of what clients and servers say.
pub const WORDS: &[&str] = &[
    "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST /images/x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "Connection: close\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.1 101 x\r\n\r\n",
    "\r\n",
    "\r\n\r\n",
];

/// The splicer's program, made once.
pub fn program() -> &'static Arc<Program> {
    static MADE: OnceLock<Arc<Program>> = OnceLock::new();
    MADE.get_or_init(|| {
        let text = fs::read_to_string(PROGRAM).unwrap_or_else(|error| panic!("{PROGRAM}: {error}"));
        let compilation = check::check(PROGRAM, &text, &Beside(|path: &Path| fs::read_to_string(path).ok()));
        let Some(program) = compilation.program else {
            panic!("{}", diag::render(&compilation.diagnostics, &compilation.sources, false));
        };
        Arc::new(Program { name: "splice".into(), ..ir::lower(&program) })
    })
}

/// The controller's settings, made once.
fn settings() -> Arc<Settings> {
    static SETTINGS: OnceLock<Arc<Settings>> = OnceLock::new();
    let make = || {
        // So that limits are met.
        let text = CONFIG
            .replace("connections = 65536", "connections = 3\nrequest_body = 1000")
            .replace("name = \"a6\"", "name = \"six\"");
        let text = text.replace("balance = \"round_robin\"", "balance = \"source\"\npreconnect = 1");
        let config =
            Config::parse("splice.toml", &text, program(), APPLICATIONS).unwrap_or_else(|errors| panic!("{errors:?}"));
        config.settings::<SpliceApplication>().unwrap_or_else(|| panic!("settings of the splicer"))
    };
    SETTINGS.get_or_init(make).clone()
}

/// What a side of a connection expects of the other, as far as frames have shown.
#[derive(Clone, Copy, Default)]
struct Side {
    /// The next number of Millrace's own.
    expected: u32,
    /// The next number that it says itself.
    next: u32,
}

/// A data path that lets nothing pass by itself.
#[derive(Default)]
struct Fake {
    now: u64,
    flows: HashMap<FlowKey, FlowEntry>,
    admin_states: HashMap<u64, u8>,
    own: LocalAddresses,
    /// What came from Millrace last on each connection, by the flow key of its receiver.
    sides: HashMap<FlowKey, Side>,
    /// Connections to servers in the order in which they began.
    servers: Vec<FlowKey>,
    /// What servers have not answered: the flow key of the answer, whether it is a SYN, and whether something was
    /// asked.
    waiting: Vec<(FlowKey, bool, bool)>,
    /// Frames that are received next, since they were put together.
    entered: Vec<Vec<u8>>,
    /// Questions after addresses, which are answered.
    questions: Vec<(u8, Vec<u8>)>,
}

impl DataPath for Fake {
    fn now(&self) -> u64 {
        self.now
    }

    fn secret(&self) -> (u64, u64) {
        (1, 2)
    }

    fn send(&mut self, port: u8, frame: &[u8]) {
        assert!((1..=2).contains(&port) && frame.len() <= 1514, "{} bytes by port {port}", frame.len());
        let Some(segment) = Segment::parse(frame) else {
            assert!(frame[12..14] == [8, 6] || frame[20] == 58, "neither TCP nor a question");
            self.questions.push((port, frame.to_vec()));
            return;
        };
        let own = self.sides.entry(segment.flow_key.reversed()).or_default();
        own.expected = segment.end();
        if segment.has(ACK) {
            own.next = segment.ack;
        }
        if port == 2 && segment.has(SYN) && !self.servers.contains(&segment.flow_key.reversed()) {
            self.servers.push(segment.flow_key.reversed());
        }
        if port == 2 && !segment.has(RST | FIN) {
            self.waiting.push((segment.flow_key.reversed(), segment.has(SYN), !segment.payload.is_empty()));
        }
    }

    fn relay(&mut self, frame: &[u8]) {
        assert!(Segment::parse(frame).is_some(), "a segment that can't be read");
    }

    fn relay_error(&mut self, _: &[u8]) {}

    fn enter(&mut self, frame: &[u8]) -> bool {
        self.entered.push(frame.to_vec());
        true
    }

    fn entry(&mut self, flow_key: &FlowKey) -> Option<FlowEntry> {
        self.flows.get(flow_key).cloned()
    }

    fn set_entry(&mut self, flow_key: &FlowKey, flow: &FlowEntry) -> bool {
        let there_is_room = self.flows.len() < 60 || self.flows.contains_key(flow_key);
        if there_is_room {
            self.flows.insert(*flow_key, flow.clone());
        }
        there_is_room
    }

    fn update_entry(&mut self, flow_key: &FlowKey, flow: &FlowEntry) -> bool {
        self.set_entry(flow_key, flow)
    }

    fn remove_entry(&mut self, flow_key: &FlowKey) {
        self.flows.remove(flow_key);
    }

    fn own(&mut self) -> LocalAddresses {
        self.own.clone()
    }

    fn set_local(&mut self, own: &LocalAddresses) -> Result<(), String> {
        self.own = own.clone();
        Ok(())
    }

    fn entries(&mut self) -> Vec<(FlowKey, FlowEntry)> {
        let mut flows: Vec<_> = self.flows.iter().map(|(flow_key, flow)| (*flow_key, flow.clone())).collect();
        flows.sort_by_key(|(flow_key, _)| (flow_key.src, flow_key.src_port, flow_key.dst_port));
        flows
    }

    fn ways(&mut self, _: Vec<IpAddr>) -> Arc<Found> {
        Arc::default()
    }

    fn admin_states(&mut self) -> Vec<(u64, u8)> {
        self.admin_states.iter().map(|(server, state)| (*server, *state)).collect()
    }

    fn set_admin_state(&mut self, server: u64, state: u8) -> bool {
        self.admin_states.insert(server, state);
        true
    }

    fn offer(&mut self, _: &[((Ipv6Addr, u16), Offer)]) {}
}

/// The controller and what is around it.
struct World {
    splicer: Splicer<Fake>,
}

impl World {
    fn new() -> World {
        let mut world = World { splicer: Splicer::new(settings(), Fake { now: 1_000_000_000, ..Fake::default() }) };
        // Servers are found, and found to work.
        for _ in 0..10 {
            world.splicer.path.now += 250_000_000;
            world.splicer.tick();
            world.answer_questions();
            world.serve();
        }
        world
    }

    /// Servers do what they are asked to.
    fn serve(&mut self) {
        for _ in 0..4 {
            for (flow_key, is_syn, asks) in std::mem::take(&mut self.splicer.path.waiting) {
                let known = self.splicer.path.sides.get(&flow_key).copied().unwrap_or_default();
                let (flags, payload): (u8, &[u8]) = match (is_syn, asks) {
                    (true, _) => (SYN | ACK, b""),
                    (_, true) => (ACK, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"),
                    _ => continue,
                };
                let seq = if is_syn { 1000 } else { known.next };
                self.say(flow_key, (flags, seq, known.expected, 65535), is_syn, payload);
            }
        }
    }

    /// A segment comes, with flags, sequence number, acknowledgement and window.
    fn say(&mut self, flow_key: FlowKey, (flags, seq, ack, window): (u8, u32, u32, u16), times: bool, payload: &[u8]) {
        let is_syn = flags & SYN != 0;
        let times = times.then_some((seq, 0));
        let options = TcpOptions { mss: is_syn.then_some(1460), sack: is_syn, times, ..TcpOptions::default() };
        let (dst_mac, src_mac) = ([2, 0, 0, 0, 1, 0xfe], [2, 0, 0, 0, 1, 0x11]);
        let segment = Segment { dst_mac, src_mac, flow_key, seq, ack, flags, window, options, payload };
        let own = self.splicer.path.sides.entry(flow_key).or_default();
        own.next = if seq == own.next || is_syn { segment.end() } else { own.next };
        self.receive(&segment.frame());
    }

    /// All on the link give their own addresses.
    fn answer_questions(&mut self) {
        for (port, question) in std::mem::take(&mut self.splicer.path.questions) {
            if question[12..14] == [8, 6] {
                let station = [2, 0, 0, 0, 2, question[41]];
                let own = &question[22..32];
                let answer =
                    [&question[6..12], &station, &question[12..21], &[2], &station, &question[38..42], own].concat();
                self.splicer.neighbour(port, &answer);
            }
        }
    }

    /// A segment comes from a client or a server: as these would send it next, but for what the input says.
    fn segment(&mut self, flow_key: FlowKey, pieces: &mut Unstructured) {
        let known = self.splicer.path.sides.get(&flow_key).copied().unwrap_or_default();
        let (kind, seq, ack) = (pieces.byte(), pieces.byte() as i8, pieces.byte() as i8);
        let length = usize::from(pieces.byte()) * if kind & 64 == 0 { 1 } else { 5 };
        let flags = [ACK, ACK, ACK | PSH, ACK | FIN, RST, ACK | RST, SYN | ACK, SYN][usize::from(kind & 7)];
        let (seq, ack) = (known.next.wrapping_add_signed(seq.into()), known.expected.wrapping_add_signed(ack.into()));
        let window = if kind & 16 == 0 { 65535 } else { 3 };
        self.say(flow_key, (flags, seq, ack, window), kind & 8 != 0, pieces.bytes(length));
    }

    /// A frame is received: as the data path would have it.
    fn receive(&mut self, frame: &[u8]) {
        let Some(segment) = Segment::parse(frame) else { return };
        let known = self.splicer.path.flows.contains_key(&segment.flow_key);
        if known {
            return self.splicer.held(frame);
        }
        let to = (segment.flow_key.dst, segment.flow_key.dst_port);
        if to == (Ipv4Addr::new(10, 0, 1, 80).to_ipv6_mapped(), 80) && segment.has(ACK) && !segment.payload.is_empty() {
            let held = FlowEntry::held(segment.flow_key.reversed(), 1);
            if self.splicer.path.set_entry(&segment.flow_key, &held) {
                let negotiated = NegotiatedOptions { mss: 1460, scale: Some(7), sack: true, times: false };
                self.splicer.request(Accepted { port: 1, number: 1, negotiated }, frame);
            }
        }
    }

    fn step(&mut self, pieces: &mut Unstructured) {
        let kind = pieces.byte();
        match kind & 15 {
            0..=5 => {
                let (src, dst) = (Ipv4Addr::new(10, 0, 1, 11), Ipv4Addr::new(10, 0, 1, 80));
                let src_port = 40_000 + u16::from(kind >> 4 & 7);
                self.segment(
                    FlowKey { src: src.to_ipv6_mapped(), dst: dst.to_ipv6_mapped(), src_port, dst_port: 80 },
                    pieces,
                );
            }
            6..=9 => {
                let servers = &self.splicer.path.servers;
                let back = usize::from(kind >> 4);
                if let Some(flow_key) = servers.len().checked_sub(1 + back).map(|at| servers[at]) {
                    self.segment(flow_key, pieces);
                }
            }
            10 => {
                self.splicer.path.now += u64::from(pieces.byte()) * 20_000_000;
                self.splicer.tick();
                self.answer_questions();
            }
            11 => self.serve(),
            12 | 13 => {
                // Anything at all.
                let length = usize::from(pieces.byte());
                let mut frame = pieces.bytes(length).to_vec();
                set_checksum(&mut frame);
                match kind >> 4 & 3 {
                    0 => self.splicer.held(&frame),
                    1 => self.splicer.error(&frame),
                    2 => self.splicer.neighbour(kind >> 6 & 3, &frame),
                    _ => self.splicer.fragment(kind >> 6 & 3, &frame),
                }
                for frame in std::mem::take(&mut self.splicer.path.entered) {
                    self.receive(&frame);
                }
            }
            14 => {
                let names = ["metrics", "servers", "sessions", "kill", "server"];
                let name = names[usize::from(kind >> 4) % names.len()];
                let with = match name {
                    "kill" => json!({ "service": "www" }),
                    "server" => json!({ "server": "web/a", "state": "down" }),
                    _ => Json::Null,
                };
                self.splicer.query(name, &with).unwrap_or_else(|error| panic!("{name}: {error:?}"));
            }
            _ => {
                // The process dies, and another takes up what it has left.
                let path = std::mem::take(&mut self.splicer.path);
                self.splicer = Splicer::new(settings(), path);
                self.splicer.restore();
                self.splicer.tick();
                self.answer_questions();
            }
        }
    }
}

/// Takes steps.
pub fn run(data: &[u8]) {
    let mut world = converse(data);
    // When all is late nothing is left.
    for _ in 0..200 {
        world.splicer.path.now += 60_000_000_000;
        world.splicer.tick();
        world.splicer.path.questions.clear();
    }
    assert!(world.splicer.is_empty(), "{} connections", world.splicer.len());
}

fn converse(data: &[u8]) -> World {
    let mut pieces = Unstructured(data);
    let mut world = World::new();
    for _ in 0..500 {
        if pieces.is_empty() {
            break;
        }
        world.step(&mut pieces);
        assert!(world.splicer.len() <= 8, "{} connections", world.splicer.len());
    }
    world
}

#[cfg(test)]
mod tests {
    use control::application::metrics::{Family, MetricValue};

    use super::*;

    /// What the seeds do is worth mutating: servers are up, requests are answered by them, by Millrace, and go on after
    /// a restart.
    #[test]
    fn seeds_reach_what_is_to_be_tried() {
        let mut counted = HashMap::<String, u64>::new();
        for seed in crate::seeds::conversations() {
            let mut world = converse(&seed);
            let families = world.splicer.query("metrics", &Json::Null).unwrap();
            for family in serde_json::from_value::<Vec<Family>>(families).unwrap() {
                for sample in &family.samples {
                    let MetricValue::Number(number) = sample.value else { continue };
                    *counted.entry(family.name.clone()).or_default() += number;
                }
            }
        }
        for name in [
            "service_requests",
            "service_responses",
            "service_answers",
            "service_retries",
            "server_connections",
            "server_up",
        ] {
            assert!(counted[name] > 0, "{name}: {counted:?}");
        }
    }
}

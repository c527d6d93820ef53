//! The program between a source, a controller that answers every request alike, and a client behind a link.

use std::collections::BTreeMap;

use baker::ir::{CounterId, CounterSlots, Program, TableEntry, TableId, TableStore, interp::End};
use control::applications::Applications;
use control::config::Config;
use dataplane::EngineKind;
use dataplane::step::{Compiled, StepOutput, Stepper};
use std::sync::{Arc, Mutex, PoisonError};

use crate::client::{ACK, Client, FIN, Options, SYN, fold, frame, is_whole, parse, pseudo, sum};
use crate::link::Link;
use crate::stream::payload_of;
use crate::watch::Watch;

pub const MS: u64 = 1_000_000;
pub const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: video/mp2t\r\nConnection: close\r\n\r\n";
const CONFIG: &str = include_str!("world.toml");

/// What becomes of a program's stream on the way, and what the order says.
#[derive(Clone, Debug)]
pub struct Scene {
    pub client: Options,
    /// When it begins.
    pub start: u64,
    /// Of the link, one way, in milliseconds.
    pub delay: u64,
    /// Of 1000 packets, each way.
    pub loss: u64,
    pub reordered: u64,
    pub duplicated: u64,
    /// Of 1000 packets from the source.
    pub source_loss: u64,
    pub source_reordered: u64,
    pub source_duplicated: u64,
    /// Of 1000 packets from the source wait for the next one.
    pub source_late: u64,
    /// Of 1000 packets from the source, before which its viewer is the only one, or is so no more.
    pub switches: u64,
    /// The first RTP sequence number.
    pub sequence: u16,
    /// Whether packets have contributing sources, extensions and padding by turns.
    pub forms: bool,
    /// Whether they have one to seven packets of MPEG-TS; else seven.
    pub sizes: bool,
    /// Without RTP.
    pub bare: bool,
    /// What the configuration says of it: RTP, MPEG-TS, either.
    pub form: u8,
    /// Of 10000 packets of the link one way, behind which nothing passes for so many milliseconds.
    pub outages: (u64, u64),
    /// `ring.settings`: reorder_ms, playout_ms, lag_ms.
    pub settings: [u16; 3],
    /// And of it: start_ms, marked, rate.
    pub start_ms: u16,
    pub pictures: bool,
    pub rate_bytes: u32,
    pub policy: u8,
    pub fill: u8,
    pub rate: u8,
    /// Milliseconds between packets of the source.
    pub period: u64,
    pub seed: u64,
    pub engine: EngineKind,
    /// Bytes that the client reads in a millisecond.
    pub reads: usize,
}

pub struct World {
    pub scene: Scene,
    program: Arc<Program>,
    pub stepper: Stepper,
    pub client: Client,
    pub now: u64,
    random: u64,
    /// What is on its way, by time: to the client or to the program.
    way: BTreeMap<(u64, u64), (bool, Vec<u8>)>,
    number: u64,
    pub source: u32,
    ssrc: u32,
    held_back: Option<Vec<u8>>,
    late: Vec<Vec<u8>>,
    /// Until when nothing passes: to the program, and to the client.
    outages: [u64; 2],
    pub watch: Watch,
    /// Whether the stream's packets are for one viewer.
    is_single: bool,
    /// Whether `watch` is told; it keeps all that was ever sent.
    pub watched: bool,
    /// When the client sends its FIN again; 0: it has not closed.
    closing: u64,
    /// What the program has acknowledged.
    pub acknowledged: u32,
    /// Of all that the program has sent.
    pub hash: u64,
    pub notices: Vec<[u8; 16]>,
    pub requests: Vec<Vec<u8>>,
    /// What is sent when the request has come.
    pub documents: Vec<(Vec<u8>, u8)>,
    pub sent: u64,
    /// Of them routers may cut so many.
    pub in_parts: u64,
    pub running: bool,
    pub deaf: bool,
    /// Every so many packets of the source are damaged on their way; 0: none.
    pub damaged: u32,
    /// Segments that the client has dropped because of their checksum.
    pub wrong: u64,
    /// The link to the client.
    pub link: Link,
    /// Whether the controller opens the connection when the request has come, and with this stream.
    pub opens: Option<u32>,
}

/// Programs that are compiled already, by their address and engine.
type Made = Vec<(usize, EngineKind, Arc<Compiled>)>;

/// A stepper with empty tables. Compiling takes longer than most scenes.
fn stepper(program: &Arc<Program>, engine: EngineKind) -> Stepper {
    static MADE: Mutex<Made> = Mutex::new(Vec::new());
    let key = Arc::as_ptr(program).addr();
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let found = made.iter().find(|own| own.0 == key && own.1 == engine).map(|own| own.2.clone());
    let compiled = found.unwrap_or_else(|| {
        let compiled = Arc::new(Compiled::new(program.clone(), engine).unwrap());
        made.push((key, engine, compiled.clone()));
        compiled
    });
    drop(made);
    compiled.stepper(None).unwrap()
}

impl World {
    pub fn new(program: &Arc<Program>, scene: Scene) -> World {
        let mut stepper = stepper(program, scene.engine);
        let [reorder, playout, lag] = scene.settings;
        let (start, marked, rate) = (scene.start_ms, scene.pictures, scene.rate_bytes);
        let settings = format!(
            "reorder_ms = {reorder}, playout_ms = {playout}, lag_ms = {lag}, rate = {rate}, start_ms = {start}, \
             marked = {marked}"
        );
        let text = CONFIG.replace("reorder_ms = 20", &settings);
        let text = text.replace("form = 0", &format!("form = {}", scene.form));
        let config = Config::parse("t.toml", &text, program, Applications::NONE);
        config.unwrap_or_else(|errors| panic!("{errors:?}")).fill(program, &mut stepper).unwrap();
        let documents = vec![(HEAD.to_vec(), 1)];
        let watch = Watch::new(&scene);
        World {
            client: Client::new(scene.client.clone()),
            random: scene.seed * 2 + 1,
            now: scene.start,
            scene,
            program: program.clone(),
            stepper,
            way: BTreeMap::new(),
            number: 0,
            source: 0,
            ssrc: 9,
            held_back: None,
            late: Vec::new(),
            outages: [0; 2],
            watch,
            is_single: true,
            watched: true,
            closing: 0,
            acknowledged: 0,
            hash: 0,
            notices: Vec::new(),
            requests: Vec::new(),
            documents,
            sent: 0,
            in_parts: 0,
            running: true,
            deaf: false,
            damaged: 0,
            wrong: 0,
            link: Link::default(),
            opens: Some(3),
        }
    }

    fn chance(&mut self, of_1000: u64) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 20) % 1000 < of_1000
    }

    /// Sends a frame over the link.
    fn send(&mut self, to_client: bool, frame: Vec<u8>) {
        let out = self.outages[usize::from(to_client)] > self.now;
        let (chance, ms) = self.scene.outages;
        if self.chance(self.scene.loss) || out {
            return;
        }
        if chance != 0 && self.chance(1000) && self.random % 10_000 < chance {
            self.outages[usize::from(to_client)] = self.now + ms * MS;
        }
        let copies = 1 + u64::from(self.chance(self.scene.duplicated));
        for _ in 0..copies {
            let late = if self.chance(self.scene.reordered) { 7 * MS } else { 0 };
            self.number += 1;
            let at = self.now + self.scene.delay * MS + late;
            self.way.insert((at, self.number), (to_client, frame.clone()));
        }
    }

    pub fn client_sends(&mut self, frames: Vec<Vec<u8>>) {
        for frame in frames {
            self.send(false, frame);
        }
    }

    fn metadata(&self, given: &[(&str, u128)]) -> Vec<u128> {
        let value = |name: &str| given.iter().find(|(given, _)| *given == name).map_or(0, |(_, value)| *value);
        self.program.metadata.iter().map(|field| value(&field.name)).collect()
    }

    pub fn inject(&mut self, name: &str, packet: &[u8], given: &[(&str, u128)]) {
        let channel = self.program.entries().find(|id| self.program.channels[id.0 as usize].name.ends_with(name));
        let metadata = self.metadata(given);
        let out = self.stepper.inject(channel.expect(name), packet, &metadata);
        self.collect(out);
    }

    pub fn order(&mut self, kind: u8, stream: u32) {
        let mut order = vec![kind, self.scene.fill, self.scene.rate, self.scene.policy];
        order.extend(1u32.to_be_bytes());
        order.extend(77u32.to_be_bytes());
        order.extend(stream.to_be_bytes());
        order.extend(self.link.addresses());
        order.extend([50000u16, 80].map(u16::to_be_bytes).concat());
        order.extend([0; 4]);
        self.inject("orders.input", &order, &[]);
    }

    pub fn document(&mut self, index: usize, bytes: &[u8], next: u8) {
        let mut packet = vec![0; 20];
        packet[12] = 0x50;
        packet.extend(bytes);
        self.inject("documents.input", &packet, &[("connection", 1), ("index", index as u128), ("next", next.into())]);
    }

    fn collect(&mut self, out: Vec<StepOutput>) {
        for output in out {
            match output.end {
                End::Tx => {
                    self.sent += 1;
                    let bytes = self.link.sends(output.bytes);
                    self.in_parts += u64::from(bytes[20] & 0x40 == 0);
                    self.hash = bytes.iter().fold(self.hash, |hash, byte| {
                        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(1)
                    });
                    // What a damaged packet of the source has become fits to no checksum.
                    if self.damaged == 0 {
                        let segment = parse(&bytes);
                        self.acknowledged = segment.ack;
                        if self.watched {
                            self.watch.segment(&segment, self.now);
                        }
                    }
                    match self.link.too_long(&bytes) {
                        Some(error) => self.send(false, error),
                        None => self.send(true, bytes),
                    }
                }
                End::Host => panic!("a packet for the host"),
                End::Controller(_) if output.bytes.len() == 16 => {
                    self.watch.over |= output.bytes[0] == 3;
                    self.notices.push(output.bytes.try_into().unwrap());
                }
                End::Controller(_) => {
                    let skip = self.program.metadata.iter().position(|field| field.name == "skip").unwrap();
                    let header = usize::from(output.bytes[12] >> 4) * 4 + output.metadata[skip] as usize;
                    self.requests.push(output.bytes[header..].to_vec());
                    if self.requests.len() == 1
                        && let Some(stream) = self.opens
                    {
                        self.order(1, stream);
                        for (index, (bytes, next)) in self.documents.clone().iter().enumerate() {
                            self.document(index, bytes, *next);
                        }
                    }
                }
            }
        }
    }

    fn source_packet(&mut self) -> Vec<u8> {
        let mut rtp = vec![0x80, 33];
        rtp.extend((self.source as u16).wrapping_add(self.scene.sequence).to_be_bytes());
        rtp.extend((self.source.wrapping_mul(900)).to_be_bytes());
        rtp.extend(self.ssrc.to_be_bytes());
        if self.scene.bare {
            rtp.clear();
        }
        let form = if self.scene.forms { self.source % 4 } else { 0 };
        if form & 1 == 1 {
            rtp[0] |= 2 | 0x10;
            rtp.extend([1, 2, 3, 4, 5, 6, 7, 8]);
            rtp.extend([0xbe, 0xde, 0, 1, 9, 9, 9, 9]);
        }
        let parts = if self.scene.sizes { 1 + (self.source.wrapping_mul(0x9e37_79b9) >> 16) % 7 } else { 7 };
        rtp.extend(payload_of(self.source, parts as u8));
        if form & 2 == 2 {
            rtp[0] |= 0x20;
            rtp.extend([0, 0, 0, 4]);
        }
        self.source += 1;
        let mut udp = vec![0x13, 0x88, 0x13, 0x89];
        udp.extend((8 + rtp.len() as u16).to_be_bytes());
        udp.extend([0, 0]);
        udp.extend(rtp);
        let checksum = !fold(sum(&udp) + pseudo([10, 0, 2, 11], [10, 0, 2, 1], 17, udp.len()));
        udp[6..8].copy_from_slice(&checksum.to_be_bytes());
        if self.damaged != 0 && self.source.is_multiple_of(self.damaged) {
            udp[300] ^= 0x10;
        }
        frame([10, 0, 2, 11], [10, 0, 2, 1], 17, &udp)
    }

    /// Half a millisecond goes by.
    pub fn step(&mut self) {
        self.now += MS / 2;
        let out = self.stepper.advance(self.now);
        self.collect(out);
        while let Some((&(at, number), _)) = self.way.first_key_value() {
            if at > self.now {
                break;
            }
            let (to_client, frame) = self.way.remove(&(at, number)).unwrap();
            if !to_client {
                if self.watched {
                    self.watch.acknowledged(&frame);
                }
                let out = self.stepper.receive(1, &self.link.receives(frame));
                self.collect(out);
            } else {
                if self.damaged != 0 && !is_whole(&frame) {
                    self.wrong += 1;
                    continue;
                }
                let segment = parse(&frame);
                if self.deaf {
                    continue;
                }
                let answers = self.client.take(&segment, self.now);
                self.client_sends(answers);
            }
        }
        if self.client.delayed_until.is_some_and(|at| at <= self.now) && !self.deaf {
            let ack = self.client.acknowledge();
            self.client_sends(vec![ack]);
        }
        self.send_fin();
        if self.now.is_multiple_of(MS) && !self.deaf {
            let update = self.client.read(self.scene.reads);
            self.client_sends(update.into_iter().collect());
        }
        if self.running && self.now.is_multiple_of(self.scene.period * MS) {
            let packet = self.source_packet();
            if self.chance(self.scene.source_loss) {
                return;
            }
            if self.held_back.is_none() && self.chance(self.scene.source_reordered) {
                self.held_back = Some(packet);
                return;
            }
            let packets = std::iter::once(packet).chain(self.held_back.take());
            self.late.extend(packets);
            if self.chance(self.scene.source_late) && self.late.len() < 20 {
                return;
            }
            self.source_sends();
        }
    }

    /// What the source has sent so far comes.
    fn source_sends(&mut self) {
        for frame in std::mem::take(&mut self.late) {
            let copies = 1 + usize::from(!self.scene.bare && self.chance(self.scene.source_duplicated));
            if self.scene.switches != 0 && self.chance(self.scene.switches) {
                self.set_single(!self.is_single);
            }
            for _ in 0..copies {
                if self.watched {
                    self.watch.came(&frame, self.now);
                }
                let out = self.stepper.receive(2, &frame);
                self.collect(out);
            }
        }
    }

    /// A packet of the source comes at once.
    pub fn skip_source(&mut self) {
        let frame = self.source_packet();
        self.watch.came(&frame, self.now);
        self.receive_source(&frame);
    }

    /// A frame of the source comes.
    pub fn receive_source(&mut self, frame: &[u8]) {
        let out = self.stepper.receive(2, frame);
        self.collect(out);
    }

    /// The source begins anew, with another number, and as another one where `ssrc` says so.
    pub fn restart_source(&mut self, sequence: u16, ssrc: bool) {
        self.late.extend(self.held_back.take());
        self.source_sends();
        self.scene.sequence = sequence;
        self.ssrc = self.ssrc.wrapping_add(u32::from(ssrc));
    }

    /// Some time goes by, more where nothing is to happen; how many milliseconds.
    pub fn pass(&mut self) -> u64 {
        let is_quiet = self.way.is_empty() && !self.running && self.client.delayed_until.is_none();
        if is_quiet && self.client.unread == 0 && self.closing == 0 {
            self.now += 20 * MS - MS / 2;
            let before = self.sent;
            let out = self.stepper.advance(self.now);
            self.collect(out);
            if self.sent == before {
                self.now += MS / 2;
                return 20;
            }
        }
        self.step();
        self.step();
        1
    }

    /// The client closes its side: it sends a FIN until that is acknowledged.
    pub fn close_client(&mut self) {
        if self.closing == 0 {
            self.closing = self.now;
            self.client.sent = self.client.sent.wrapping_add(1);
        }
    }

    fn send_fin(&mut self) {
        let has_to = self.closing != 0 && !self.deaf && !self.client.reset;
        if has_to && self.acknowledged != self.client.sent && self.now >= self.closing {
            self.closing = self.now + 300 * MS;
            let mut fin = self.client.clone();
            fin.sent = fin.sent.wrapping_sub(1);
            let fin = fin.segment(FIN | ACK, &[]);
            self.client_sends(vec![fin]);
        }
    }

    /// Whether the viewer is its stream's only one.
    pub fn set_single(&mut self, is_single: bool) {
        self.is_single = is_single;
        let table = self.program.tables.iter().position(|table| table.name == "ring.single").expect("a table");
        let entry = TableEntry { key: vec![3], prefix_len: None, value: vec![is_single.into()] };
        self.stepper.insert(TableId(table as u32), &entry).expect("an entry");
    }

    /// A counter of the program's.
    pub fn counter(&self, name: &str) -> u64 {
        let program = self.stepper.program();
        let at = program.counters.iter().position(|counter| counter.name == name).expect("a counter");
        self.stepper.counters()[CounterSlots::new(program).user(CounterId(at as u32))]
    }

    /// Entries of a table.
    pub fn entries(&self, name: &str) -> usize {
        let at = self.program.tables.iter().position(|table| table.name == name).expect("a table");
        self.stepper.dump(TableId(at as u32)).len()
    }

    pub fn run(&mut self, ms: u64) {
        for _ in 0..ms * 2 {
            self.step();
        }
    }

    /// The handshake and a request, sent again until they are answered.
    pub fn connect(&mut self) {
        for tries in 0.. {
            assert!(tries < 20, "no answer to a SYN");
            if self.client.open {
                break;
            }
            let syn = self.client.segment(SYN, &[]);
            self.client_sends(vec![syn]);
            self.run(self.scene.delay * 2 + 10);
        }
        let request = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n";
        for tries in 0.. {
            assert!(tries < 20, "no request came");
            if !self.requests.is_empty() {
                break;
            }
            let get = self.client.segment(ACK, request);
            self.client_sends(vec![get]);
            self.run(self.scene.delay * 2 + 10);
        }
        assert_eq!(self.requests[0], request);
        self.client.sent = self.client.sent.wrapping_add(request.len() as u32);
    }

    /// The number of the first byte for a client that begins with this one.
    pub fn base_for(&mut self, first: u32) -> u32 {
        self.stepper.set_now(self.scene.start);
        let client = Client::new(Options { first, ..self.scene.client.clone() });
        let out = self.stepper.receive(1, &client.segment(SYN, &[]));
        parse(&out[0].bytes).seq.wrapping_add(1)
    }
}

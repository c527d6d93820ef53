//! The program between a source, a controller that answers every request alike, and a client behind a link.

use std::collections::BTreeMap;

use baker::ir::{Program, interp::End};
use control::applications::Applications;
use control::config::Config;
use dataplane::EngineKind;
use dataplane::step::{StepOutput, Stepper};
use std::sync::Arc;

use crate::client::{ACK, Client, Options, SYN, fold, frame, is_whole, parse, pseudo, sum};
use crate::link::Link;

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
    /// Whether packets have contributing sources, extensions and padding by turns.
    pub forms: bool,
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
    held_back: Option<Vec<u8>>,
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
}

/// A packet of the source: 7 of MPEG-TS that say which they are.
pub fn payload(number: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in 0..7u8 {
        let mut packet = vec![0x47, 0x01, 0x00, 0x10, part];
        packet.extend(number.to_be_bytes());
        let mut state = u64::from(number) << 8 | u64::from(part);
        while packet.len() < 188 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            packet.push((state >> 56) as u8);
        }
        bytes.extend(packet);
    }
    bytes
}

impl World {
    pub fn new(program: &Arc<Program>, scene: Scene) -> World {
        let mut stepper = Stepper::new(program.clone(), scene.engine).unwrap();
        let config = Config::parse("t.toml", CONFIG, program, Applications::NONE);
        config.unwrap_or_else(|errors| panic!("{errors:?}")).fill(program, &mut stepper).unwrap();
        let documents = vec![(HEAD.to_vec(), 1)];
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
            held_back: None,
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
        if self.chance(self.scene.loss) {
            return;
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
        let mut order = vec![kind, self.scene.fill, self.scene.rate, 0];
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
                    match self.link.too_long(&bytes) {
                        Some(error) => self.send(false, error),
                        None => self.send(true, bytes),
                    }
                }
                End::Host => panic!("a packet for the host"),
                End::Controller(_) if output.bytes.len() == 16 => {
                    self.notices.push(output.bytes.try_into().unwrap());
                }
                End::Controller(_) => {
                    let skip = self.program.metadata.iter().position(|field| field.name == "skip").unwrap();
                    let header = usize::from(output.bytes[12] >> 4) * 4 + output.metadata[skip] as usize;
                    self.requests.push(output.bytes[header..].to_vec());
                    if self.requests.len() == 1 {
                        self.order(1, 3);
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
        rtp.extend((self.source as u16).wrapping_add(65500).to_be_bytes());
        rtp.extend((self.source * 900).to_be_bytes());
        rtp.extend([0, 0, 0, 9]);
        let form = if self.scene.forms { self.source % 4 } else { 0 };
        if form & 1 == 1 {
            rtp[0] |= 2 | 0x10;
            rtp.extend([1, 2, 3, 4, 5, 6, 7, 8]);
            rtp.extend([0xbe, 0xde, 0, 1, 9, 9, 9, 9]);
        }
        rtp.extend(payload(self.source));
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
        if self.now.is_multiple_of(MS) {
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
            for frame in std::iter::once(packet).chain(self.held_back.take()) {
                let out = self.stepper.receive(2, &frame);
                self.collect(out);
            }
        }
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

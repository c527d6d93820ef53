//! The controller alone, in memory: what a request on a connection of its own takes it, with tables as they are and
//! packets that go nowhere.

use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use dataplane::EngineKind;
use dataplane::bench::Rig;
use dataplane::controller::NamedTables;
use nix::time::{ClockId, clock_gettime};
use splice::SpliceApplication;
use splice::cluster::NegotiatedOptions;
use splice::data_path::{DataPath, Found, Offer};
use splice::splicer::{Accepted, Splicer};
use splice::tables::flow_entry::FlowEntry;
use splice::tables::live::LiveTables;
use splice::tables::local_addresses::LocalAddresses;
use splice::tables::packed::FlowTable;
use wire::flow_key::FlowKey;
use wire::segment::{ACK, FIN, PSH, RST, SYN, Segment, TcpOptions};

use crate::apps::case::App;
use crate::results::Results;
use crate::{Effort, race, text};

/// Connections that are at the same step at a time.
const AT_A_TIME: u16 = 64;
/// What the controller sees of a request, in order: on a connection to a server that was there before.
const STEPS: [&str; 4] = ["request", "response", "ACK of it", "FIN"];
/// The number of the port that servers are at.
const SERVER_PORT: u8 = 2;
const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 1, 0x11];
const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 2, 0x11];
const OWN_MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 1, 0xfe], [2, 0, 0, 0, 2, 0xfe]];
const REQUEST: &[u8] =
    b"GET /1024 HTTP/1.1\r\nHost: www.example\r\nUser-Agent: bench\r\nAccept: */*\r\nConnection: close\r\n\r\n";

/// Tables of the program, and frames that are kept until they are looked at.
struct Path {
    now: Cell<u64>,
    flows: FlowTable<LiveTables>,
    bytes: Vec<u8>,
    /// Where each frame ends.
    frame_ends: Vec<usize>,
}

impl Path {
    fn frames(&mut self) -> Vec<Vec<u8>> {
        let (mut start, mut frames) = (0, Vec::new());
        for end in self.frame_ends.drain(..) {
            frames.push(self.bytes[start..end].to_vec());
            start = end;
        }
        self.bytes.clear();
        frames
    }
}

impl DataPath for Path {
    fn now(&self) -> u64 {
        self.now.get()
    }

    fn secret(&self) -> (u64, u64) {
        (1, 2)
    }

    fn send(&mut self, _: u8, frame: &[u8]) {
        self.relay(frame);
    }

    fn enter(&mut self, _: &[u8]) -> bool {
        false
    }

    fn relay(&mut self, frame: &[u8]) {
        self.bytes.extend_from_slice(frame);
        self.frame_ends.push(self.bytes.len());
    }

    fn relay_error(&mut self, _: &[u8]) {}

    fn entry(&mut self, flow_key: &FlowKey) -> Option<FlowEntry> {
        self.flows.get(flow_key)
    }

    fn set_entry(&mut self, flow_key: &FlowKey, flow: &FlowEntry) -> bool {
        self.flows.set(flow_key, flow)
    }

    fn update_entry(&mut self, flow_key: &FlowKey, flow: &FlowEntry) -> bool {
        self.flows.update(flow_key, flow)
    }

    fn remove_entry(&mut self, flow_key: &FlowKey) {
        self.flows.remove(flow_key);
    }

    fn entries(&mut self) -> Vec<(FlowKey, FlowEntry)> {
        self.flows.entries()
    }

    fn own(&mut self) -> LocalAddresses {
        LocalAddresses::default()
    }

    fn set_local(&mut self, _: &LocalAddresses) -> Result<(), String> {
        Ok(())
    }

    fn ways(&mut self, _: Vec<IpAddr>) -> Arc<Found> {
        Arc::default()
    }

    fn admin_states(&mut self) -> Vec<(u64, u8)> {
        Vec::new()
    }

    fn set_admin_state(&mut self, _: u64, _: u8) -> bool {
        true
    }

    fn offer(&mut self, _: &[((Ipv6Addr, u16), Offer)]) {}
}

/// The splicer with its servers.
struct World {
    splicer: Splicer<Path>,
    // Has the tables.
    _rig: Rig,
    /// The port of the next client.
    next: u16,
}

/// A moment of this thread's CPU time, which others on the same CPU do not change.
struct Start(Duration);

impl Start {
    fn now() -> Start {
        Start(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from).unwrap_or_default())
    }

    fn elapsed(&self) -> Duration {
        Start::now().0.saturating_sub(self.0)
    }
}

fn v4(last: [u8; 4]) -> Ipv6Addr {
    Ipv4Addr::from(last).to_ipv6_mapped()
}

/// What a server says to a segment: nothing to acknowledgements.
fn answers(frame: &[u8]) -> Vec<Vec<u8>> {
    if frame[12..14] == [8, 6] {
        let mut answer = frame.to_vec();
        answer[..6].copy_from_slice(&frame[6..12]);
        answer[21] = 2;
        answer[22..28].copy_from_slice(&SERVER_MAC);
        answer[28..32].copy_from_slice(&frame[38..42]);
        answer[32..42].copy_from_slice(&frame[22..32]);
        return vec![answer];
    }
    let Some(asked) = Segment::parse(frame).filter(|own| own.dst_mac == SERVER_MAC && !own.has(RST)) else {
        return Vec::new();
    };
    let flow_key = asked.flow_key.reversed();
    let times = asked.options.times.map(|(value, _)| (7_000_000, value));
    let answer = |flags, seq, options, payload: &[u8]| {
        let (dst_mac, src_mac, ack) = (OWN_MACS[1], SERVER_MAC, asked.end());
        Segment { dst_mac, src_mac, flow_key, seq, ack, flags, window: 500, options, payload }.frame()
    };
    let options = TcpOptions { times, ..TcpOptions::default() };
    if asked.has(SYN) {
        return vec![answer(
            SYN | ACK,
            99,
            TcpOptions { mss: Some(1460), scale: Some(7), sack: true, times, ..TcpOptions::default() },
            &[],
        )];
    }
    if asked.payload.is_empty() {
        return Vec::new();
    }
    vec![answer(ACK | PSH, asked.ack, options, &response(asked.payload.starts_with(b"GET /1024 ")))]
}

/// Of a server that goes on, to a request or to a check.
fn response(is_request: bool) -> Vec<u8> {
    let length = if is_request { 1024 } else { 0 };
    let mut response = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").into_bytes();
    response.resize(response.len() + length, b'x');
    response
}

impl World {
    fn new() -> Result<World, String> {
        let app = App::new("splice")?;
        let config = app.configured(&app.example)?;
        let settings = config.settings::<SpliceApplication>().ok_or("there are no settings")?;
        let mut tables = None;
        let rig = Rig::new(&app.program, EngineKind::NATIVE, |own| {
            tables = Some(NamedTables::new(app.program.clone(), own.clone()));
            config.fill(&app.program, own).map_err(text)
        });
        let rig = rig.map_err(text)?;
        let flows = FlowTable::new(LiveTables::of(&tables.ok_or("there are no tables")?).map_err(text)?);
        let path = Path { now: Cell::new(1_000_000_000), flows, bytes: Vec::new(), frame_ends: Vec::new() };
        let mut world = World { splicer: Splicer::new(settings, path), _rig: rig, next: 1024 };
        for _ in 0..100 {
            world.later(100_000_000);
            world.settle();
        }
        let servers = || world.splicer.cluster.servers.iter();
        let all_up = servers().filter(|own| own.server.address.to_ipv4_mapped().is_some()).all(|own| own.up);
        all_up.then_some(world).ok_or_else(|| "the servers are not found to work".into())
    }

    /// Servers answer what they are asked for their health.
    fn settle(&mut self) {
        while !self.splicer.path.frame_ends.is_empty() {
            for answer in self.splicer.path.frames().iter().flat_map(|frame| answers(frame)) {
                if answer[12..14] == [8, 6] {
                    self.splicer.neighbour(SERVER_PORT, &answer);
                } else {
                    self.splicer.held(&answer);
                }
            }
        }
    }

    fn later(&mut self, time: u64) {
        let now = &self.splicer.path.now;
        now.set(now.get() + time);
        self.splicer.tick();
    }

    /// So many requests from their beginning to their end: the time of each step for all of them.
    fn exchanges(&mut self) -> Result<[Duration; STEPS.len()], String> {
        let mut times = [Duration::ZERO; STEPS.len()];
        let options = TcpOptions { times: Some((1000, 2000)), ..TcpOptions::default() };
        let client = |src_port| FlowKey { src: v4([10, 0, 1, 11]), dst: v4([10, 0, 1, 80]), src_port, dst_port: 80 };
        let clients: Vec<FlowKey> = (0..AT_A_TIME).map(|number| client(self.next + number)).collect();
        self.next = if self.next > 60_000 { 1024 } else { self.next + AT_A_TIME };
        let own = |flow_key: &FlowKey, flags, (seq, ack), payload: &[u8]| {
            let (dst_mac, src_mac) = (OWN_MACS[0], CLIENT_MAC);
            Segment { dst_mac, src_mac, flow_key: *flow_key, seq, ack, flags, window: 500, options, payload }.frame()
        };
        let all = |flags, numbers, payload: &[u8]| -> Vec<_> {
            clients.iter().map(|flow_key| own(flow_key, flags, numbers, payload)).collect()
        };
        let requests = all(ACK | PSH, (5000, 100_000), REQUEST);
        let negotiated = NegotiatedOptions { mss: 1460, scale: Some(7), sack: true, times: false };
        let start = Start::now();
        for frame in &requests {
            self.splicer.request(Accepted { port: 1, number: 1, negotiated }, frame);
        }
        times[0] = start.elapsed();
        let mut responses = Vec::new();
        while !self.splicer.path.frame_ends.is_empty() {
            let said: Vec<_> = self.splicer.path.frames().iter().flat_map(|frame| answers(frame)).collect();
            // The connections of the first ones are made first.
            let (own, made): (Vec<_>, Vec<_>) = said.into_iter().partition(|frame| frame.len() > 1024);
            self.held(&made);
            responses.extend(own);
        }
        times[1] = self.held(&responses);
        // The data path would have noted what they acknowledge.
        for segment in responses.iter().filter_map(|frame| Segment::parse(frame)) {
            if let Some(flow) = self.splicer.path.flows.get(&segment.flow_key) {
                self.splicer.path.flows.set(&segment.flow_key, &FlowEntry { acked: segment.ack, ..flow });
            }
        }
        // The FIN that came with the response has a number, too.
        let numbers = (5000 + REQUEST.len() as u32, 100_000 + response(true).len() as u32 + 1);
        times[2] = self.held(&all(ACK, numbers, &[]));
        times[3] = self.held(&all(ACK | FIN, numbers, &[]));
        self.splicer.path.frames();
        let done = responses.len() == usize::from(AT_A_TIME) && self.splicer.is_empty();
        done.then_some(times)
            .ok_or_else(|| format!("{} responses, {} connections left", responses.len(), self.splicer.len()))
    }

    fn held(&mut self, frames: &[Vec<u8>]) -> Duration {
        let start = Start::now();
        frames.iter().for_each(|frame| self.splicer.held(frame));
        start.elapsed()
    }
}

/// Time per request, by step.
pub fn measure(effort: Effort, results: &mut Results) -> Result<(), String> {
    let (runs, rounds) = if effort.quick { (1, 200) } else { (7, 2000) };
    let case = "1024 bytes, new connections";
    race::pinned(|| {
        let mut world = World::new()?;
        let mut values = vec![Vec::new(); STEPS.len() + 1];
        for run in 0..=runs {
            let mut times = [Duration::ZERO; STEPS.len()];
            for _ in 0..rounds {
                let one = world.exchanges()?;
                times.iter_mut().zip(one).for_each(|(all, one)| *all += one);
            }
            let each = |time: Duration| time.as_secs_f64() * 1e9 / f64::from(rounds) / f64::from(AT_A_TIME);
            // The first is to warm up.
            if run > 0 {
                let all = times.iter().sum();
                times.into_iter().chain([all]).zip(&mut values).for_each(|(time, own)| own.push(each(time)));
            }
        }
        for (step, values) in STEPS.into_iter().chain(["all"]).zip(values) {
            results.add(&format!("{case}, controller: {step}"), "millrace", "ns_per_request", "ns", values);
        }
        Ok(())
    })
}

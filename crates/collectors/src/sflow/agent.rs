//! Takes samples, looks at counters, and sends.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dataplane::sampling::Sample;
use dataplane::xdp::Copies;
use dataplane::{LinkMode, Observer, PortSnapshot};

use super::datagram::{CounterSample, Datagrams, FlowSample, Output};
use super::interfaces::{self, Links};
use super::samples::Source;
use super::settings::Settings;
use super::way::{Follow, Way, Ways};
use crate::exporter::Agent;
use crate::rounds::Rounds;
use crate::sockets::{Sent, Sockets, local};

/// Between two looks whether there are samples.
const LOOK: Duration = Duration::from_millis(50);
/// For how long packets are followed in a round: of more samples it is not told where they go.
const FOLLOWING: Duration = Duration::from_millis(10);
/// No sample waits longer: the specification allows a second.
const FLUSH: Duration = Duration::from_millis(500);

/// What an agent has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// By which address collectors know this machine.
    pub agent: IpAddr,
    /// Packets that were sampled.
    pub samples: u64,
    /// Samples for which there was no room.
    pub lost: u64,
    /// Why none come from the kernel's part of the program, where they should.
    pub error: Option<String>,
    /// Datagrams.
    pub sent: Sent,
}

/// What samples are drawn from.
#[derive(Debug)]
pub struct Sampled {
    /// The instance.
    pub observer: Observer,
    /// What becomes of its packets.
    pub ways: Arc<dyn Ways>,
}

/// An agent, until it is dropped.
#[derive(Debug)]
pub struct SflowAgent {
    settings: Settings,
    state: Arc<Mutex<State>>,
    _rounds: Rounds,
}

impl Agent for SflowAgent {
    type Settings = Settings;
    type Source = Sampled;
    type State = State;

    fn start(settings: Settings, Sampled { observer, ways }: &Sampled) -> io::Result<SflowAgent> {
        let sockets = Sockets::open(&settings.collectors)?;
        let agent = settings.agent.unwrap_or_else(|| local(&settings.collectors));
        let state = State { agent, samples: 0, lost: 0, error: None, sent: Sent::default() };
        let state = Arc::new(Mutex::new(state));
        let copies = Copies { one_in: settings.one_in, bytes: settings.header };
        let mut running = Running {
            settings: settings.clone(),
            source: Source::new(observer, copies),
            observer: observer.clone(),
            follow: ways.follow(),
            begun: Instant::now(),
            sockets,
            datagrams: Datagrams::new(agent),
            ports: HashMap::new(),
            flushed: Instant::now(),
            polled: None,
            state: state.clone(),
        };
        let rounds = Rounds::start("sflow", LOOK, move |is_last| running.round(is_last))?;
        Ok(SflowAgent { settings, state, _rounds: rounds })
    }

    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn state(&self) -> State {
        lock(&self.state).clone()
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is counted for a port.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers {
    samples: u32,
    counters: u32,
}

struct Running {
    settings: Settings,
    source: Source,
    observer: Observer,
    follow: Follow,
    begun: Instant,
    sockets: Sockets,
    datagrams: Datagrams,
    /// By port.
    ports: HashMap<u8, Numbers>,
    flushed: Instant,
    /// When counters were looked at last.
    polled: Option<Instant>,
    state: Arc<Mutex<State>>,
}

impl Running {
    fn uptime(&self) -> u32 {
        // It goes around after 49 days.
        self.begun.elapsed().as_millis() as u32
    }

    fn round(&mut self, is_last: bool) {
        self.sample();
        self.poll();
        if is_last || self.flushed.elapsed() >= FLUSH {
            self.flushed = Instant::now();
            self.find_agent();
            if !self.datagrams.is_empty() {
                self.sockets.send(&self.datagrams.take(self.uptime()));
            }
        }
        lock(&self.state).sent.clone_from(self.sockets.sent());
    }

    /// At the machine's start there may be no way to a collector yet, by which the own address would be known.
    fn find_agent(&mut self) {
        if self.settings.agent.is_none() && self.datagrams.agent().is_unspecified() {
            let agent = local(&self.settings.collectors);
            self.datagrams.set_agent(agent);
            lock(&self.state).agent = agent;
        }
    }

    /// Sends what was sampled, as far as it fills datagrams.
    fn sample(&mut self) {
        let mut samples = Vec::new();
        self.source.take(|sample| samples.push(sample));
        let (lost, uptime) = (self.source.lost(), self.uptime());
        {
            let mut state = lock(&self.state);
            state.samples += samples.len() as u64;
            state.lost = lost;
            state.error.clone_from(&self.source.error);
        }
        if samples.is_empty() {
            return;
        }
        let ports: HashMap<u8, (u32, u32)> = self
            .observer
            .snapshot()
            .ports
            .iter()
            .map(|port| (port.number, (interfaces::index(port), port.rx_packets as u32)))
            .collect();
        let (until, mut packet, mut interfaces) = (Instant::now() + FOLLOWING, Vec::new(), Vec::new());
        for sample in &samples {
            let Some(&(interface, pool)) = ports.get(&sample.port) else { continue };
            let is_followed = Instant::now() < until;
            let way = if is_followed { way(&mut self.follow, sample, &mut packet) } else { Way::Unknown };
            let output = output(&way, &ports, &mut interfaces);
            let numbers = self.ports.entry(sample.port).or_default();
            numbers.samples = numbers.samples.wrapping_add(1);
            let flow = FlowSample {
                number: numbers.samples,
                interface,
                output,
                one_in: self.settings.one_in,
                pool,
                drops: lost as u32,
                length: sample.length,
                header: &sample.bytes()[..sample.bytes().len().min(self.settings.header as usize)],
            };
            if let Some(full) = self.datagrams.flow(&flow, uptime) {
                self.sockets.send(&full);
            }
        }
    }

    /// Sends counters of ports, where it is time.
    fn poll(&mut self) {
        let Some(every) = self.settings.poll else { return };
        if self.polled.is_some_and(|at| at.elapsed() < every) {
            return;
        }
        self.polled = Some(Instant::now());
        let (links, uptime) = (Links::now(), self.uptime());
        for port in self.observer.snapshot().ports {
            let numbers = self.ports.entry(port.number).or_default();
            numbers.counters = numbers.counters.wrapping_add(1);
            if let Some(full) = self.datagrams.counters(&counters(&port, &links, numbers.counters), uptime) {
                self.sockets.send(&full);
            }
        }
    }
}

/// Where a sampled packet goes; `packet` is room for it.
fn way(follow: &mut Follow, sample: &Sample, packet: &mut Vec<u8>) -> Way {
    let (first, length) = (sample.bytes(), sample.length as usize);
    packet.clear();
    packet.extend(first);
    packet.resize(length, 0);
    match follow(sample.port, packet) {
        // The program may have taken zeros that stand for the rest for a mistake.
        Way::Dropped if first.len() != length => Way::Unknown,
        way => way,
    }
}

/// Where a packet goes, by the indexes of ports' interfaces.
fn output<'i>(way: &Way, ports: &HashMap<u8, (u32, u32)>, interfaces: &'i mut Vec<u32>) -> Output<'i> {
    match way {
        Way::Unknown => Output::Unknown,
        Way::Own => Output::Own,
        Way::Dropped => Output::Dropped,
        Way::Ports(numbers) => {
            interfaces.clear();
            interfaces.extend(numbers.iter().filter_map(|number| ports.get(number)).map(|(interface, _)| interface));
            // What leaves by ports that are not there is dropped, too.
            if interfaces.is_empty() { Output::Dropped } else { Output::Interfaces(interfaces) }
        }
    }
}

fn counters(port: &PortSnapshot, links: &Links, number: u32) -> CounterSample {
    let LinkMode { speed, full_duplex } = interfaces::mode(port);
    let unfinished: u64 = port.unfinished.iter().map(|(_, count)| count).sum();
    CounterSample {
        number,
        interface: interfaces::index(port),
        speed,
        full_duplex,
        status: links.of(port),
        received: [port.rx_bytes, port.rx_packets],
        not_received: [port.rx_dropped, port.oversize + unfinished],
        sent: [port.tx_bytes, port.tx_packets],
        not_sent: port.tx_failed,
    }
}

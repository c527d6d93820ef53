//! The thread that takes samples, looks at counters, and sends.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use dataplane::xdp::Copies;
use dataplane::{LinkMode, Observer, PortSnapshot};

use crate::datagram::{CounterSample, Datagrams, FlowSample};
use crate::interfaces::{self, Links};
use crate::samples::Source;
use crate::settings::Settings;

/// Between two looks whether there are samples.
const LOOK: Duration = Duration::from_millis(50);
/// No sample waits longer: the specification allows a second.
const FLUSH: Duration = Duration::from_millis(500);

/// What an agent has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// By which address collectors know this machine.
    pub agent: IpAddr,
    /// Where they are.
    pub collectors: Vec<SocketAddr>,
    /// One of so many packets is sampled.
    pub one_in: u32,
    /// Packets that were sampled.
    pub samples: u64,
    /// Samples for which there was no room.
    pub lost: u64,
    /// Datagrams that were sent, to all collectors,
    pub datagrams: u64,
    /// and that could not be.
    pub failed: u64,
    /// What is wrong now.
    pub error: Option<String>,
}

/// An agent, until it is dropped.
#[derive(Debug)]
pub struct Agent {
    settings: Settings,
    state: Arc<Mutex<State>>,
    /// Nothing is sent: its end is what is noticed.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    /// Samples what an instance takes in, from now on.
    ///
    /// # Errors
    /// There is no thread, or no socket.
    pub fn start(settings: Settings, observer: &Observer) -> io::Result<Agent> {
        let sockets = Sockets::open(&settings.collectors)?;
        let agent = settings.agent.unwrap_or_else(|| local(&settings.collectors));
        let (collectors, one_in) = (settings.collectors.clone(), settings.one_in);
        let state = State { agent, collectors, one_in, samples: 0, lost: 0, datagrams: 0, failed: 0, error: None };
        let state = Arc::new(Mutex::new(state));
        let (stop, stopped) = channel::<()>();
        let mut running = Running {
            settings: settings.clone(),
            observer: observer.clone(),
            begun: Instant::now(),
            sockets,
            datagrams: Datagrams::new(agent),
            ports: HashMap::new(),
            state: state.clone(),
        };
        let run = move || {
            dataplane::give_way();
            let copies = Copies { one_in: running.settings.one_in, bytes: running.settings.header };
            let mut source = Source::new(&running.observer, copies);
            let (mut flushed, mut polled) = (Instant::now(), None);
            while stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                running.sample(&mut source);
                running.poll(&mut polled);
                if flushed.elapsed() >= FLUSH {
                    flushed = Instant::now();
                    running.flush();
                }
            }
            running.sample(&mut source);
            running.flush();
        };
        let thread = thread::Builder::new().name("sflow".into()).spawn(run)?;
        Ok(Agent { settings, state, stop: Some(stop), thread: Some(thread) })
    }

    /// What it was started with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What it has done.
    pub fn state(&self) -> State {
        lock(&self.state).clone()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // One that has panicked has said so.
            let _ = thread.join();
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The address by which this machine reaches the first collector that it has a way to.
fn local(collectors: &[SocketAddr]) -> IpAddr {
    let address = |to: &SocketAddr| {
        let socket = UdpSocket::bind(any(to)).ok()?;
        // Nothing is sent.
        socket.connect(to).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    collectors.iter().find_map(address).unwrap_or(Ipv4Addr::UNSPECIFIED.into())
}

fn any(to: &SocketAddr) -> SocketAddr {
    let address: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    SocketAddr::from((address, 0))
}

/// A socket for each collector.
struct Sockets(Vec<(SocketAddr, UdpSocket)>);

impl Sockets {
    fn open(collectors: &[SocketAddr]) -> io::Result<Sockets> {
        let open = |to: &SocketAddr| {
            let socket = UdpSocket::bind(any(to))?;
            socket.set_nonblocking(true)?;
            Ok((*to, socket))
        };
        collectors.iter().map(open).collect::<io::Result<_>>().map(Sockets)
    }

    /// Sends it to each; to how many it was, and why it could not be sent to another one.
    fn send(&self, datagram: &[u8]) -> (u64, Option<String>) {
        let (mut sent, mut failed) = (0, None);
        for (to, socket) in &self.0 {
            match socket.send_to(datagram, to) {
                Ok(_) => sent += 1,
                Err(error) => failed = Some(format!("{to}: {error}")),
            }
        }
        (sent, failed)
    }
}

/// What is counted for a port.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers {
    samples: u32,
    counters: u32,
}

struct Running {
    settings: Settings,
    observer: Observer,
    begun: Instant,
    sockets: Sockets,
    datagrams: Datagrams,
    /// By port.
    ports: HashMap<u8, Numbers>,
    state: Arc<Mutex<State>>,
}

impl Running {
    fn uptime(&self) -> u32 {
        // It goes around after 49 days.
        self.begun.elapsed().as_millis() as u32
    }

    fn send(&self, datagram: &[u8]) {
        let (sent, failed) = self.sockets.send(datagram);
        let mut state = lock(&self.state);
        state.datagrams += sent;
        state.failed += self.sockets.0.len() as u64 - sent;
        if failed.is_some() && state.error.is_none() {
            tracing::warn!(why = failed, "samples can't be sent");
        }
        state.error = failed;
    }

    fn flush(&mut self) {
        if !self.datagrams.is_empty() {
            let datagram = self.datagrams.take(self.uptime());
            self.send(&datagram);
        }
    }

    /// Sends what was sampled, as far as it fills datagrams.
    fn sample(&mut self, source: &mut Source) {
        let mut samples = Vec::new();
        source.take(|sample| samples.push(sample));
        let (lost, uptime) = (source.lost(), self.uptime());
        {
            let mut state = lock(&self.state);
            state.samples += samples.len() as u64;
            state.lost = lost;
            if source.error.is_some() {
                state.error.clone_from(&source.error);
            }
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
        for sample in &samples {
            let Some(&(interface, pool)) = ports.get(&sample.port) else { continue };
            let numbers = self.ports.entry(sample.port).or_default();
            numbers.samples = numbers.samples.wrapping_add(1);
            let flow = FlowSample {
                number: numbers.samples,
                interface,
                one_in: self.settings.one_in,
                pool,
                drops: lost as u32,
                length: sample.length,
                header: &sample.bytes()[..sample.bytes().len().min(self.settings.header as usize)],
            };
            if let Some(full) = self.datagrams.flow(&flow, uptime) {
                self.send(&full);
            }
        }
    }

    /// Sends counters of ports, where it is time.
    fn poll(&mut self, polled: &mut Option<Instant>) {
        let Some(every) = self.settings.poll else { return };
        if polled.is_some_and(|at| at.elapsed() < every) {
            return;
        }
        *polled = Some(Instant::now());
        let (links, uptime) = (Links::now(), self.uptime());
        for port in self.observer.snapshot().ports {
            let numbers = self.ports.entry(port.number).or_default();
            numbers.counters = numbers.counters.wrapping_add(1);
            if let Some(full) = self.datagrams.counters(&counters(&port, &links, numbers.counters), uptime) {
                self.send(&full);
            }
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

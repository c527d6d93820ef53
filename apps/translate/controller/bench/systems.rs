//! What delivers a stream to clients.

use std::io::Write;
use std::net::{SocketAddrV4, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};

use super::millrace::{Millrace, Start};
use super::relay::{self, HEAD, Relay};
use super::sites::{PROXY, PROXY_AT_SERVERS, SERVER, Site};
use super::source::{Clock, PORT, Source, payload};
use crate::text;

/// Until a system serves.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often threads look whether they are to end.
const LOOK: Duration = Duration::from_millis(50);

/// A system that takes part.
#[derive(Clone, Copy)]
pub enum System {
    Millrace,
    /// HTTP from the server, forwarded unchanged, with this congestion control.
    EndToEnd(&'static str),
    /// A proxy over sockets: one read and one write for each packet.
    Relay,
}

/// All of them, by their names in the results.
pub const SYSTEMS: [(&str, System); 5] = [
    ("millrace", System::Millrace),
    ("cubic", System::EndToEnd("cubic")),
    ("reno", System::EndToEnd("reno")),
    ("bbr", System::EndToEnd("bbr")),
    ("relay", System::Relay),
];

impl System {
    /// Why it cannot take part.
    pub fn missing(self) -> Option<String> {
        let System::EndToEnd(name) = self else { return None };
        let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
        (!known.split_whitespace().any(|own| own == name)).then(|| format!("the kernel does not have {name}"))
    }

    /// Where its clients ask, and for what.
    pub fn place(self) -> (SocketAddrV4, String) {
        match self {
            System::Millrace => (Millrace::place(), Millrace::path(PORT)),
            System::EndToEnd(_) => (SocketAddrV4::new(SERVER, 80), "/".into()),
            System::Relay => (SocketAddrV4::new(PROXY, relay::PORT), "/0".into()),
        }
    }
}

/// A running system with its stream.
pub struct Line {
    _source: Option<Source>,
    threads: Threads,
    relay: Option<Relay>,
    millrace: Option<Millrace>,
}

impl Line {
    /// Delivers a stream of so many bit/s. See [`Line::wait`].
    pub fn start(site: &Site, system: System, rate: u64, start: Start) -> Result<Line, String> {
        let mut line = Line { _source: None, threads: Threads::default(), relay: None, millrace: None };
        let stop = line.threads.stop.clone();
        match system {
            System::Millrace => line.millrace = Some(Millrace::start(&site.proxy, start)?),
            System::EndToEnd(control) => {
                let listen = || TcpListener::bind(SocketAddrV4::new(SERVER, 80));
                let listener = site.servers.enter(listen).map_err(text)?.map_err(text)?;
                line.threads.spawn(move || serve(&listener, &stop, control, rate));
            }
            System::Relay => {
                let at = SocketAddrV4::new(PROXY, relay::PORT);
                line.relay = Some(Relay::start(&site.proxy, PROXY_AT_SERVERS, at, &[PORT], None)?);
            }
        }
        if !matches!(system, System::EndToEnd(_)) {
            line._source = Some(site.servers.enter(|| Source::start(rate)).map_err(text)??);
        }
        Ok(line)
    }

    /// It takes connections.
    pub fn wait(&mut self) -> Result<(), String> {
        self.millrace.as_mut().map_or(Ok(()), Millrace::wait)
    }

    /// The translation, where it is one.
    pub fn millrace(&self) -> Option<&Millrace> {
        self.millrace.as_ref()
    }

    /// Ends it, and says what went wrong.
    pub fn end(mut self) -> Result<(), String> {
        self.threads.end()?;
        self.relay.take().map_or(Ok(()), Relay::end)?;
        self.millrace.take().map_or(Ok(()), Millrace::end)
    }
}

/// Threads that end when they are told.
#[derive(Default)]
struct Threads {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<(), String>>>,
}

impl Threads {
    fn spawn(&mut self, work: impl FnOnce() -> Result<(), String> + Send + 'static) {
        self.threads.push(std::thread::spawn(work));
    }

    fn end(&mut self) -> Result<(), String> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).try_for_each(|own| own.join().map_err(|_| "a thread has panicked")?)
    }
}

/// A server that writes a stream to each client at the stream's rate. What a client is late with it gets as soon as it
/// takes it.
fn serve(listener: &TcpListener, stop: &AtomicBool, control: &str, rate: u64) -> Result<(), String> {
    listener.set_nonblocking(true).map_err(text)?;
    while !stop.load(Ordering::Relaxed) {
        let Ok((mut client, _)) = listener.accept() else {
            std::thread::sleep(LOOK);
            continue;
        };
        client.set_nonblocking(false).map_err(text)?;
        client.set_nodelay(true).map_err(text)?;
        client.set_write_timeout(Some(PATIENCE)).map_err(text)?;
        setsockopt(&client, sockopt::TcpCongestion, &control.to_owned().into()).map_err(text)?;
        // It ends when the client goes.
        std::thread::spawn(move || {
            let mut clock = Clock::new(rate);
            let mut number = 0;
            let mut result = client.write_all(HEAD);
            while result.is_ok() {
                clock.wait();
                result = client.write_all(&payload(number));
                number += 1;
            }
        });
    }
    Ok(())
}

//! Counts the packets that its program taps, and serves the counts over HTTP: an example of a controller that is a
//! server, on one current-thread runtime of tokio beside its packets.
//!
//! Its program is `examples/collector`. The one await of its loop is that for the link's descriptor: packets, timers,
//! and what its tasks want come by that. Everything else are tasks of the runtime, which run whenever the loop waits,
//! or yields after a batch.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cli::Linked;
use control::application::{Application, CompiledSettings, Queries, Reloads, Section, SettingsUse};
use control::document::{self, Errors};
use dataplane::controller::{Controller, Event, Events, Field, Link, Punted, Stop, Waker};
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// Where it listens unless the configuration says otherwise.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9180);
/// Packets that are counted before tasks have their turn.
const BATCH: usize = 64;
/// Between two lines of `/live`.
const PERIOD: Duration = Duration::from_millis(100);
/// Lines that wait for a client that is slow; what comes then is left out.
const LINES: usize = 4;
/// Connections at a time; more are closed at once.
const CONNECTIONS: usize = 64;
/// Bytes of a request at most.
const REQUEST: usize = 4096;
/// How long clients may take at the end.
const DRAIN: Duration = Duration::from_secs(10);

/// What `[controllers.collector]` says.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Where it listens.
    pub listen: SocketAddr,
}

/// What the settings make.
fn read(section: &Section, errors: &mut Errors) -> CompiledSettings<Settings> {
    const ACCEPTED: &str = "an address and a port, such as \"127.0.0.1:9180\"";
    let mut settings = Settings { listen: LISTEN };
    if let Some(table) = document::table(section.value, &section.path, errors) {
        document::only(table, &section.path, &["listen"], errors);
        if let Some(value) = table.get("listen") {
            let path = section.path.key("listen");
            match document::string(value, &path, ACCEPTED, errors).map(|text| (text, text.parse())) {
                Some((_, Ok(listen))) => settings.listen = listen,
                Some((text, Err(_))) => {
                    errors.add(value.span().start, &path, format!("{text:?} is no such address"), ACCEPTED)
                }
                None => {}
            }
        }
    }
    CompiledSettings { entries: Vec::new(), own: Some(Arc::new(settings)) }
}

fn settings_of(compiled: &CompiledSettings<Settings>) -> Settings {
    compiled.own.as_deref().copied().unwrap_or(Settings { listen: LISTEN })
}

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Counts {
    packets: u64,
    bytes: u64,
    /// By EtherType, in hexadecimal digits.
    types: BTreeMap<String, u64>,
    /// By the number of the port that they came in by.
    ports: BTreeMap<u8, u64>,
}

/// What the loop and the tasks share. Both are on one thread: nothing ever waits for the lock.
#[derive(Debug, Default)]
struct State {
    types: BTreeMap<u16, u64>,
    ports: BTreeMap<u8, u64>,
    packets: u64,
    bytes: u64,
    /// Open connections.
    open: usize,
    /// Clients of `/live`, by the key of their timer.
    live: BTreeMap<u64, mpsc::Sender<String>>,
    /// Those of them that have no timer yet.
    new: Vec<u64>,
    next: u64,
    /// Why no connection is accepted any more.
    failed: Option<io::Error>,
    is_ending: bool,
    waker: Option<Waker>,
}

impl State {
    fn count(&mut self, packet: &Punted, rx_port: Field) {
        let bytes = packet.bytes();
        self.packets += 1;
        self.bytes += bytes.len() as u64;
        *self.types.entry(u16::from_be_bytes([bytes[12], bytes[13]])).or_default() += 1;
        *self.ports.entry(packet.metadata(rx_port) as u8).or_default() += 1;
    }

    fn counts(&self) -> Counts {
        let types = self.types.iter().map(|(kind, count)| (format!("{kind:04x}"), *count)).collect();
        Counts { packets: self.packets, bytes: self.bytes, types, ports: self.ports.clone() }
    }

    /// The counts as a line of JSON.
    fn line(&self) -> String {
        let mut line = serde_json::to_string(&self.counts()).unwrap_or_default();
        line.push('\n');
        line
    }

    /// Sends a line to a client of `/live`; whether it is still there.
    fn tell(&mut self, id: u64) -> bool {
        let line = self.line();
        let Some(client) = self.live.get(&id) else { return false };
        let is_there = !matches!(client.try_send(line), Err(mpsc::error::TrySendError::Closed(_)));
        if !is_there {
            self.live.remove(&id);
        }
        is_there
    }

    fn wake(&self) {
        self.waker.iter().for_each(Waker::wake);
    }
}

#[derive(Clone, Debug, Default)]
struct Shared(Arc<Mutex<State>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection, as long as it is open.
struct Open(Shared);

impl Open {
    fn new(shared: &Shared) -> Option<Open> {
        let mut state = shared.lock();
        if state.open >= CONNECTIONS || state.is_ending {
            return None;
        }
        state.open += 1;
        Some(Open(shared.clone()))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.open -= 1;
        state.wake();
    }
}

/// What outlasts runs of the controller: the runtime with its tasks, which are the connections and what accepts them.
struct Server {
    runtime: Runtime,
    tasks: Tasks,
}

impl Server {
    fn new() -> io::Result<Server> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        Ok(Server { runtime, tasks: Tasks::default() })
    }
}

/// What it is to Millrace.
pub struct CollectorApplication;

/// How a binary is linked with it.
pub const LINKED: Linked = Linked::new(&CollectorApplication);

impl Application for CollectorApplication {
    const NAME: &'static str = "collector";
    type Settings = Settings;
    const SETTINGS: SettingsUse = SettingsUse::Optional;

    fn controller(&self, reloads: Reloads<Settings>, _: Queries) -> Box<dyn Controller> {
        Box::new(Collector::new(reloads))
    }

    fn read(&self, section: &Section, errors: &mut Errors, _: &mut Errors) -> CompiledSettings<Settings> {
        read(section, errors)
    }
}

/// The controller.
pub struct Collector {
    reloads: Reloads<Settings>,
    server: Option<Server>,
}

impl Collector {
    /// With where configurations come from.
    fn new(reloads: Reloads<Settings>) -> Collector {
        Collector { reloads, server: None }
    }
}

impl Controller for Collector {
    fn run(&mut self, link: &mut Link) -> Result<(), String> {
        let server = self.server.take().map_or_else(Server::new, Ok);
        let Server { runtime, mut tasks } = server.map_err(|error| error.to_string())?;
        runtime.block_on(tasks.run(link, &self.reloads))?;
        self.server = Some(Server { runtime, tasks });
        Ok(())
    }
}

#[derive(Default)]
struct Tasks {
    shared: Shared,
    accepting: Option<(SocketAddr, AbortHandle)>,
}

impl Tasks {
    /// Listens there from now on.
    fn listen(&mut self, address: SocketAddr) -> Result<(), String> {
        if self.accepting.as_ref().is_some_and(|(own, _)| *own == address) {
            return Ok(());
        }
        let bind = || -> io::Result<TcpListener> {
            let listener = std::net::TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            TcpListener::from_std(listener)
        };
        let listener = bind().map_err(|error| format!("cannot listen on {address}: {error}"))?;
        let task = tokio::spawn(accept(listener, self.shared.clone()));
        self.stop_listening();
        self.accepting = Some((address, task.abort_handle()));
        Ok(())
    }

    fn stop_listening(&mut self) {
        self.accepting.take().into_iter().for_each(|(_, task)| task.abort());
    }

    /// Runs until the link stops.
    async fn run(&mut self, link: &mut Link, reloads: &Reloads<Settings>) -> Result<(), String> {
        let text = |error: io::Error| error.to_string();
        let rx_port = link.field("rx.port").map_err(|error| error.to_string())?;
        let events = Events::new(link).map_err(text)?;
        reloads.wakes(link.waker());
        self.listen(settings_of(&reloads.begun()).listen)?;
        {
            // Timers are the link's: clients of the one before get new ones.
            let mut state = self.shared.lock();
            state.waker = Some(link.waker());
            state.new = state.live.keys().copied().collect();
        }
        self.set_timers(link);
        let mut packets = Vec::with_capacity(BATCH);
        loop {
            match events.next(link).await.map_err(text)? {
                Event::Packet(packet) => {
                    packets.push(packet);
                    link.receive_many(&mut packets, BATCH - 1);
                    {
                        let mut state = self.shared.lock();
                        packets.drain(..).for_each(|packet| state.count(&packet, rx_port));
                    }
                    // Where packets come without end, clients are served all the same.
                    tokio::task::yield_now().await;
                }
                Event::Timer(id) => {
                    if self.shared.lock().tell(id) {
                        link.set_timer(id, Instant::now() + PERIOD);
                    }
                }
                Event::Room => {}
                Event::Idle => {
                    reloads.apply(|compiled| self.listen(settings_of(compiled).listen));
                    self.set_timers(link);
                    if let Some(error) = self.shared.lock().failed.take() {
                        return Err(format!("cannot accept connections: {error}"));
                    }
                    if self.has_ended() {
                        return Ok(());
                    }
                }
                Event::Stop => {
                    if link.stopping() == Some(Stop::TakeOver) || !self.end() || !link.drain(DRAIN) {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Sets a timer for each client of `/live` that has none.
    fn set_timers(&self, link: &mut Link) {
        let new = std::mem::take(&mut self.shared.lock().new);
        new.into_iter().for_each(|id| link.set_timer(id, Instant::now() + PERIOD));
    }

    /// Accepts no more, and has clients of `/live` told that there is no more; whether there is any connection to wait
    /// for. True once.
    fn end(&mut self) -> bool {
        self.stop_listening();
        let mut state = self.shared.lock();
        state.live.clear();
        !std::mem::replace(&mut state.is_ending, true) && state.open > 0
    }

    fn has_ended(&self) -> bool {
        let state = self.shared.lock();
        state.is_ending && state.open == 0
    }
}

async fn accept(listener: TcpListener, shared: Shared) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if let Some(open) = Open::new(&shared) {
                    // One that fails is the client's to try again.
                    tokio::spawn(async move { serve(stream, &open.0).await });
                }
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                let mut state = shared.lock();
                state.failed = Some(error);
                return state.wake();
            }
        }
    }
}

/// Answers one request (RFC 9112).
async fn serve(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    let (mut request, mut len) = ([0; REQUEST], 0);
    let target = loop {
        let read = stream.read(&mut request[len..]).await?;
        len += read;
        match target(&request[..len]) {
            Some(target) => break target,
            None if read == 0 => break Err("400 Bad Request"),
            None => {}
        }
    };
    let head = |status: &str, kind: &str| {
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n")
    };
    const JSON: &str = "application/json";
    match target.as_deref() {
        Ok("/") => {
            let line = shared.lock().line();
            stream.write_all((head("200 OK", JSON) + &line).as_bytes()).await?;
        }
        Ok("/live") => {
            stream.write_all(head("200 OK", "application/x-ndjson").as_bytes()).await?;
            let (client, mut lines) = mpsc::channel(LINES);
            {
                let mut state = shared.lock();
                let id = state.next;
                state.next += 1;
                if !state.is_ending {
                    state.live.insert(id, client);
                    state.new.push(id);
                    state.wake();
                }
            }
            while let Some(line) = lines.recv().await {
                stream.write_all(line.as_bytes()).await?;
            }
        }
        Ok(_) => stream.write_all((head("404 Not Found", "text/plain") + "try / and /live\n").as_bytes()).await?,
        Err(status) => stream.write_all((head(status, "text/plain")).as_bytes()).await?,
    }
    stream.shutdown().await
}

/// The target of a request, once it is whole; or what is wrong with it.
fn target(request: &[u8]) -> Option<Result<String, &'static str>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(request) {
        Ok(httparse::Status::Complete(_)) => Some(match (parsed.method, parsed.path) {
            (Some("GET"), Some(path)) => Ok(path.to_owned()),
            _ => Err("405 Method Not Allowed"),
        }),
        Ok(httparse::Status::Partial) if request.len() < REQUEST => None,
        _ => Some(Err("400 Bad Request")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart() {
        assert_eq!(target(b"GET /live HTTP/1.1\r\nHost: x\r\n"), None);
        assert_eq!(target(b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n"), Some(Ok("/live".into())));
        assert_eq!(target(b"PUT / HTTP/1.1\r\n\r\n"), Some(Err("405 Method Not Allowed")));
        assert_eq!(target(b"\x16\x03\x01"), Some(Err("400 Bad Request")));
        assert_eq!(target(&[b'G'; REQUEST]), Some(Err("400 Bad Request")));
    }

    #[test]
    fn counts_are_shown_by_type_and_port() {
        let state = State {
            packets: 3,
            bytes: 180,
            types: [(0x0800, 2), (0x86dd, 1)].into(),
            ports: [(1, 3)].into(),
            ..State::default()
        };
        assert_eq!(
            state.line(),
            "{\"packets\":3,\"bytes\":180,\"types\":{\"0800\":2,\"86dd\":1},\"ports\":{\"1\":3}}\n"
        );
    }
}

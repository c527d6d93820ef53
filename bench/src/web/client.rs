//! The client that makes the load: one thread, so many connections at a time, each with one request after the other.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, connect, socket};

use super::server::body;
use crate::text;

/// A request that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(10);
/// What may fail of all requests, one in so many: a proxy that resets a connection once is no reason to have no figure.
const FORGIVEN: u64 = 1000;

/// What is asked for.
#[derive(Clone, Copy)]
pub struct Load {
    pub address: SocketAddrV4,
    /// Bytes of each body.
    pub bytes: usize,
    pub connections: usize,
    /// Requests follow each other on a connection; else each has one of its own.
    pub keeps_alive: bool,
    /// Time before what counts, and the time that counts.
    pub warm: Duration,
    pub window: Duration,
}

/// What came of it.
#[derive(Default)]
pub struct Served {
    /// Requests whose response ended in the window.
    pub requests: u64,
    /// The window, as it was.
    pub time: Duration,
    /// From the first packet of the connection, or of the request on one that is there, to the body's last byte; from
    /// the least on.
    pub latencies: Vec<Duration>,
    /// Requests that failed, and why the first of them did.
    pub failed: u64,
    pub failure: Option<String>,
}

impl Served {
    /// A percentile of the latencies, in microseconds.
    pub fn latency(&self, percent: usize) -> f64 {
        let last = self.latencies.len().saturating_sub(1);
        self.latencies.get(last * percent / 100).map_or(0.0, |time| time.as_secs_f64() * 1e6)
    }
}

/// One response is the right one, byte by byte.
pub fn check(address: SocketAddrV4, bytes: usize) -> Result<(), String> {
    let mut stream = TcpStream::connect_timeout(&address.into(), PATIENCE).map_err(text)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(text)?;
    stream.write_all(&request(bytes, false)).map_err(text)?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response).map_err(text)?;
    let head = response.windows(4).position(|four| four == b"\r\n\r\n").ok_or("a response without a head")?;
    if response[head + 4..] != body(bytes) {
        let first = String::from_utf8_lossy(&response[..head.min(80)]).into_owned();
        return Err(format!("wrong body of {} instead of {bytes} bytes: {first}", response.len() - head - 4));
    }
    Ok(())
}

/// Makes the load, in the namespace of the calling thread. `begin` and `end` are called where the window begins and
/// ends.
pub fn run<T>(load: Load, mut look_up: impl FnMut() -> Result<T, String>) -> Result<(Served, [T; 2]), String> {
    let mut client = Client::new(load)?;
    client.run(load.warm)?;
    client.served = Served::default();
    let (first, start) = (look_up()?, Instant::now());
    client.run(load.window)?;
    let (time, last) = (start.elapsed(), look_up()?);
    let mut served = client.served;
    served.time = time;
    served.latencies.sort_unstable();
    if served.failed * FORGIVEN > served.requests {
        let why = served.failure.unwrap_or_default();
        return Err(format!("{} of {} requests failed: {why}", served.failed, served.requests + served.failed));
    }
    Ok((served, [first, last]))
}

/// A request for so many bytes.
fn request(bytes: usize, keeps_alive: bool) -> Vec<u8> {
    let connection = if keeps_alive { "" } else { "Connection: close\r\n" };
    format!("GET /{bytes} HTTP/1.1\r\nHost: www.example\r\nUser-Agent: bench\r\nAccept: */*\r\n{connection}\r\n").into()
}

struct Client {
    load: Load,
    request: Vec<u8>,
    epoll: Epoll,
    slots: Vec<Slot>,
    buffer: Vec<u8>,
    served: Served,
}

/// A connection, and what it is doing.
struct Slot {
    stream: TcpStream,
    since: Instant,
    asked: bool,
    /// The head as far as it is here.
    head: Vec<u8>,
    /// Bytes of the body that are to come, when the head is known.
    left: Option<usize>,
    /// The body is here; the other side closes.
    done: bool,
}

impl Client {
    fn new(load: Load) -> Result<Self, String> {
        let epoll = Epoll::new(EpollCreateFlags::empty()).map_err(text)?;
        let request = request(load.bytes, load.keeps_alive);
        let (slots, buffer) = (Vec::new(), vec![0; 1 << 18]);
        let mut client = Client { load, request, epoll, slots, buffer, served: Served::default() };
        for number in 0..load.connections {
            let slot = client.connect(number)?;
            client.slots.push(slot);
        }
        Ok(client)
    }

    fn connect(&self, number: usize) -> Result<Slot, String> {
        let since = Instant::now();
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Inet, SockType::Stream, flags, None).map_err(text)?;
        match connect(socket.as_raw_fd(), &SockaddrIn::from(self.load.address)) {
            Ok(()) | Err(Errno::EINPROGRESS) => {}
            Err(error) => return Err(format!("connect: {error}")),
        }
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET;
        self.epoll.add(socket.as_fd(), EpollEvent::new(flags, number as u64)).map_err(text)?;
        let stream = TcpStream::from(socket);
        Ok(Slot { stream, since, asked: false, head: Vec::new(), left: None, done: false })
    }

    fn run(&mut self, time: Duration) -> Result<(), String> {
        let end = Instant::now() + time;
        let mut events = [EpollEvent::empty(); 256];
        loop {
            let now = Instant::now();
            if now >= end {
                break;
            }
            let wait = (end - now).as_millis().clamp(1, 100) as u8;
            let count = match self.epoll.wait(&mut events, EpollTimeout::from(wait)) {
                Err(Errno::EINTR) => 0,
                count => count.map_err(text)?,
            };
            for event in &events[..count] {
                self.go_on(event.data() as usize)?;
            }
        }
        for number in 0..self.slots.len() {
            if self.slots[number].since.elapsed() > PATIENCE {
                self.fail(number, "no response in time")?;
            }
        }
        Ok(())
    }

    /// Writes and reads what can be at a connection.
    fn go_on(&mut self, number: usize) -> Result<(), String> {
        let slot = &mut self.slots[number];
        if !slot.asked {
            match slot.stream.write(&self.request) {
                Ok(count) if count == self.request.len() => slot.asked = true,
                Ok(_) => return self.fail(number, "a request that does not fit"),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return self.fail(number, &error.to_string()),
            }
        }
        loop {
            let slot = &mut self.slots[number];
            match slot.stream.read(&mut self.buffer) {
                Ok(0) if slot.done => return self.again(number),
                Ok(0) => return self.fail(number, "an early end"),
                Ok(count) => {
                    if let Err(error) = slot.take(&self.buffer[..count], self.load.bytes) {
                        return self.fail(number, error);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return self.fail(number, &error.to_string()),
            }
            if slot.left == Some(0) && !slot.done {
                self.served.requests += 1;
                self.served.latencies.push(slot.since.elapsed());
                slot.done = true;
                if self.load.keeps_alive {
                    (slot.since, slot.left, slot.done) = (Instant::now(), None, false);
                    // As many bytes as the first one, which fitted, and nothing else is on its way.
                    match slot.stream.write(&self.request) {
                        Ok(count) if count == self.request.len() => {}
                        _ => return self.fail(number, "a request was not taken"),
                    }
                }
            }
        }
    }

    /// Begins anew.
    fn again(&mut self, number: usize) -> Result<(), String> {
        self.slots[number] = self.connect(number)?;
        Ok(())
    }

    fn fail(&mut self, number: usize, why: &str) -> Result<(), String> {
        self.served.failed += 1;
        self.served.failure.get_or_insert_with(|| why.to_owned());
        self.again(number)
    }
}

impl Slot {
    /// Bytes of the response.
    fn take(&mut self, mut bytes: &[u8], expected: usize) -> Result<(), &'static str> {
        if self.left.is_none() {
            let before = self.head.len();
            self.head.extend(&bytes[..bytes.len().min(4096)]);
            let Some(end) = self.head.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(()) };
            let head = std::str::from_utf8(&self.head[..end]).map_err(|_| "a head that is no text")?;
            if !head.starts_with("HTTP/1.1 200") {
                return Err("another status than 200");
            }
            let field = |line: &str| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
            };
            if head.lines().find_map(field) != Some(expected) {
                return Err("another length");
            }
            bytes = &bytes[end + 4 - before..];
            self.left = Some(expected);
            self.head.clear();
        }
        self.left = Some(self.left.and_then(|left| left.checked_sub(bytes.len())).ok_or("too many bytes")?);
        Ok(())
    }
}

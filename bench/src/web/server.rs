//! The web servers: one thread, the same for all systems. `GET /N` is answered with N bytes, `GET /` with none.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lab::Namespace;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{setsockopt, sockopt::TcpRepair};

use crate::{numbers::SplitMix64, text};

/// A request's head is never longer.
const LONGEST_HEAD: usize = 8192;
/// How often it is looked whether it is to end.
const PAUSE: u8 = 50;
/// Until it has forgotten connections.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running server; it ends when dropped.
pub struct Server {
    stop: Arc<AtomicBool>,
    leave: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), String>>>,
}

impl Server {
    /// Listens at these addresses of a namespace, on one CPU.
    pub fn start(namespace: &Namespace, addresses: &[SocketAddrV4], cpu: usize) -> Result<Self, String> {
        let bind = || addresses.iter().map(TcpListener::bind).collect::<Result<Vec<_>, _>>();
        let listeners = namespace.enter(bind).map_err(text)?.map_err(text)?;
        let (stop, leave) = <(Arc<AtomicBool>, Arc<AtomicBool>)>::default();
        let (stopped, left) = (stop.clone(), leave.clone());
        let serve = move || {
            super::pin(0, cpu)?;
            Serving::new(listeners)?.run(&stopped, &left)
        };
        let thread = std::thread::Builder::new().name("server".into()).spawn(serve).map_err(text)?;
        Ok(Server { stop, leave, thread: Some(thread) })
    }

    /// Forgets the connections that there are, and the other sides hear nothing of it: see [`forget`].
    pub fn leave(&self) -> Result<(), String> {
        self.leave.store(true, Ordering::Relaxed);
        let end = Instant::now() + PATIENCE;
        while self.leave.load(Ordering::Relaxed) {
            if Instant::now() > end {
                return Err("the web server does not forget its connections".into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(Ok(Err(error))) = self.thread.take().map(JoinHandle::join) {
            eprintln!("the web server ended: {error}");
        }
    }
}

/// Closes a connection that is idle without a packet (TCP_REPAIR, tcp(7)): the other side takes it to be there. So
/// there can be more of them than a process may have files.
pub fn forget(stream: TcpStream) -> Result<(), String> {
    setsockopt(&stream, TcpRepair, &1).map_err(text)
}

/// The bytes of a response's body: those of a length are always the same.
pub fn body(length: usize) -> Vec<u8> {
    let mut numbers = SplitMix64::new(length as u64);
    let mut bytes: Vec<u8> = (0..length.div_ceil(8)).flat_map(|_| numbers.next().to_le_bytes()).collect();
    bytes.truncate(length);
    bytes
}

struct Serving {
    listeners: Vec<TcpListener>,
    epoll: Epoll,
    connections: HashMap<u64, Connection>,
    /// Whole responses by length: those that close and those that do not.
    responses: HashMap<(usize, bool), Arc<Vec<u8>>>,
}

struct Connection {
    stream: TcpStream,
    asked: Vec<u8>,
    /// What is being sent, how much of it was, and whether that is the end.
    sending: Option<(Arc<Vec<u8>>, usize, bool)>,
}

/// What an event is of, beside connections, which are named by their descriptors.
const LISTENER: u64 = 1 << 32;

impl Serving {
    fn new(listeners: Vec<TcpListener>) -> Result<Self, String> {
        let epoll = Epoll::new(EpollCreateFlags::empty()).map_err(text)?;
        for (number, listener) in (LISTENER..).zip(&listeners) {
            listener.set_nonblocking(true).map_err(text)?;
            epoll.add(listener, EpollEvent::new(EpollFlags::EPOLLIN, number)).map_err(text)?;
        }
        Ok(Serving { listeners, epoll, connections: HashMap::new(), responses: HashMap::new() })
    }

    fn run(&mut self, stop: &AtomicBool, leave: &AtomicBool) -> Result<(), String> {
        let mut events = [EpollEvent::empty(); 256];
        let mut buffer = vec![0; 65536];
        while !stop.load(Ordering::Relaxed) {
            if leave.load(Ordering::Relaxed) {
                self.connections.drain().try_for_each(|(_, connection)| forget(connection.stream))?;
                leave.store(false, Ordering::Relaxed);
            }
            let count = match self.epoll.wait(&mut events, EpollTimeout::from(PAUSE)) {
                Err(nix::errno::Errno::EINTR) => 0,
                count => count.map_err(text)?,
            };
            for event in &events[..count] {
                let number = event.data();
                if number >= LISTENER {
                    self.accept((number - LISTENER) as usize)?;
                    continue;
                }
                let Some(connection) = self.connections.get_mut(&number) else { continue };
                // Whatever a client does ends its connection only.
                if !connection.go_on(&mut buffer, &mut self.responses).unwrap_or(false) {
                    self.connections.remove(&number);
                }
            }
        }
        Ok(())
    }

    fn accept(&mut self, listener: usize) -> Result<(), String> {
        while let Ok((stream, _)) = self.listeners[listener].accept() {
            stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true)).map_err(text)?;
            let number = stream.as_raw_fd() as u64;
            let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLET;
            self.epoll.add(stream.as_fd(), EpollEvent::new(flags, number)).map_err(text)?;
            self.connections.insert(number, Connection { stream, asked: Vec::new(), sending: None });
        }
        Ok(())
    }
}

impl Connection {
    /// Reads and writes until the socket has enough. False: the connection is over.
    fn go_on(
        &mut self,
        buffer: &mut [u8],
        responses: &mut HashMap<(usize, bool), Arc<Vec<u8>>>,
    ) -> std::io::Result<bool> {
        loop {
            while let Some((response, at, ends)) = &mut self.sending {
                match self.stream.write(&response[*at..]) {
                    Ok(count) => *at += count,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                    Err(error) => return Err(error),
                }
                if *at == response.len() {
                    if *ends {
                        return Ok(false);
                    }
                    self.sending = None;
                }
            }
            if let Some(end) = self.asked.windows(4).position(|four| four == b"\r\n\r\n") {
                let head: Vec<u8> = self.asked.drain(..end + 4).collect();
                let (length, closes) = request(&head).ok_or(ErrorKind::InvalidData)?;
                let response = responses.entry((length, closes)).or_insert_with(|| Arc::new(response(length, closes)));
                self.sending = Some((response.clone(), 0, closes));
                continue;
            }
            match self.stream.read(buffer) {
                Ok(0) => return Ok(false),
                Ok(count) => self.asked.extend(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            }
            if self.asked.len() > LONGEST_HEAD {
                return Err(ErrorKind::InvalidData.into());
            }
        }
    }
}

/// The length that a request asks for, and whether its connection is to close.
fn request(head: &[u8]) -> Option<(usize, bool)> {
    let head = std::str::from_utf8(head).ok()?.to_ascii_lowercase();
    let length = head.strip_prefix("get /")?.split(' ').next()?;
    let length = if length.is_empty() { 0 } else { length.parse().ok()? };
    Some((length, head.contains("\r\nconnection: close\r\n")))
}

fn response(length: usize, closes: bool) -> Vec<u8> {
    let connection = if closes { "Connection: close\r\n" } else { "" };
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n{connection}\r\n");
    [head.as_bytes(), &body(length)].concat()
}

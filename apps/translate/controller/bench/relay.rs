//! A relay over sockets, as udpxy and rtp2httpd are: it waits by epoll, and has a read for each packet and a write for
//! each of its clients.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use lab::Namespace;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::socket::{setsockopt, sockopt};

use crate::stream::stay;
use crate::text;

/// Of HTTP; a client asks for a stream by its place: `GET /0`.
pub const PORT: u16 = 8081;
/// Bytes that are kept for a client that is slow; what does not fit is not for it.
const MOST_KEPT: usize = 1 << 20;
pub const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: video/mp2t\r\nConnection: close\r\n\r\n";
/// Of a packet: more than any has.
const ROOM: usize = 2048;
/// Of RTP.
const HEADER: usize = 12;
/// How often it looks whether it is to end, in ms.
const LOOK: u16 = 50;
const LISTENER: u64 = 0;

/// The relay's thread.
pub struct Relay {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), String>>,
}

impl Relay {
    /// Serves the streams that come to these ports. On a CPU of its own, where it gives way to others, or on any.
    pub fn start(
        host: &Namespace,
        own: Ipv4Addr,
        at: SocketAddrV4,
        ports: &[u16],
        cpu: Option<usize>,
    ) -> Result<Relay, String> {
        let open = || {
            let sockets = ports.iter().map(|port| UdpSocket::bind(SocketAddrV4::new(own, *port)));
            Ok::<_, std::io::Error>((TcpListener::bind(at)?, sockets.collect::<Result<Vec<_>, _>>()?))
        };
        let (listener, sockets) = host.enter(open).map_err(text)?.map_err(text)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stops = stop.clone();
        let thread = std::thread::spawn(move || {
            cpu.map_or(Ok(()), |cpu| stay(cpu, true))?;
            Work::new(listener, sockets)?.run(&stops)
        });
        Ok(Relay { stop, thread })
    }

    /// Ends it, and says what went wrong.
    pub fn end(self) -> Result<(), String> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| "the relay has panicked")?
    }
}

/// A client, and what it has not taken yet.
struct Client {
    stream: TcpStream,
    request: Vec<u8>,
    kept: Vec<u8>,
    waits: bool,
}

struct Work {
    epoll: Epoll,
    listener: TcpListener,
    sockets: Vec<UdpSocket>,
    /// By their places, which are not used twice.
    clients: Vec<Option<Client>>,
    /// Of each stream.
    viewers: Vec<Vec<usize>>,
}

impl Work {
    fn new(listener: TcpListener, sockets: Vec<UdpSocket>) -> Result<Work, String> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(text)?;
        listener.set_nonblocking(true).map_err(text)?;
        epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER)).map_err(text)?;
        for (socket, number) in sockets.iter().zip(1..) {
            socket.set_nonblocking(true).map_err(text)?;
            epoll.add(socket, EpollEvent::new(EpollFlags::EPOLLIN, number)).map_err(text)?;
        }
        let viewers = vec![Vec::new(); sockets.len()];
        Ok(Work { epoll, listener, sockets, clients: Vec::new(), viewers })
    }

    fn run(mut self, stop: &AtomicBool) -> Result<(), String> {
        let mut events = [EpollEvent::empty(); 64];
        while !stop.load(Ordering::Relaxed) {
            let count = match self.epoll.wait(&mut events, LOOK) {
                Ok(count) => count,
                Err(nix::Error::EINTR) => continue,
                Err(error) => return Err(error.to_string()),
            };
            for event in &events[..count] {
                let number = event.data() as usize;
                if event.data() == LISTENER {
                    self.accept()?;
                } else if number <= self.sockets.len() {
                    self.relay(number - 1);
                } else {
                    self.client(number - 1 - self.sockets.len(), event.events());
                }
            }
        }
        Ok(())
    }

    fn accept(&mut self) -> Result<(), String> {
        // Who has gone meanwhile is no client.
        let Ok((stream, _)) = self.listener.accept() else { return Ok(()) };
        stream.set_nonblocking(true).map_err(text)?;
        stream.set_nodelay(true).map_err(text)?;
        // Whatever the machine's default is.
        setsockopt(&stream, sockopt::TcpCongestion, &"cubic".into()).map_err(text)?;
        let number = (1 + self.sockets.len() + self.clients.len()) as u64;
        self.epoll.add(&stream, EpollEvent::new(EpollFlags::EPOLLIN, number)).map_err(text)?;
        self.clients.push(Some(Client { stream, request: Vec::new(), kept: HEAD.to_vec(), waits: false }));
        Ok(())
    }

    /// Hands a packet to all viewers of its stream, without its header.
    fn relay(&mut self, stream: usize) {
        let mut buffer = [0; ROOM];
        let Ok(length) = self.sockets[stream].recv(&mut buffer) else { return };
        let Some(payload) = buffer.get(HEADER..length) else { return };
        let mut viewers = std::mem::take(&mut self.viewers[stream]);
        viewers.retain(|place| self.write(*place, payload));
        self.viewers[stream] = viewers;
    }

    /// A client says something, takes what is kept for it, or goes.
    fn client(&mut self, place: usize, events: EpollFlags) {
        if events.contains(EpollFlags::EPOLLIN) && !self.read(place) {
            self.clients[place] = None;
        } else if events.contains(EpollFlags::EPOLLOUT) {
            self.write(place, &[]);
        }
    }

    /// Reads of a request, whose end puts its client among the viewers of its stream; false where the client is gone.
    fn read(&mut self, place: usize) -> bool {
        let Some(client) = &mut self.clients[place] else { return false };
        let mut buffer = [0; ROOM];
        match client.stream.read(&mut buffer) {
            Ok(0) => return false,
            Ok(count) => client.request.extend(&buffer[..count]),
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
        let request = String::from_utf8_lossy(&client.request);
        if !request.ends_with("\r\n\r\n") {
            return client.request.len() < ROOM;
        }
        let path = request.split_whitespace().nth(1).and_then(|path| path.strip_prefix('/'));
        let stream = path.and_then(|path| self.viewers.get_mut(path.parse::<usize>().ok()?));
        client.request.clear();
        stream.map(|viewers| viewers.push(place)).is_some()
    }

    /// Writes what is kept for a client and then these bytes; false where the client is gone.
    fn write(&mut self, place: usize, bytes: &[u8]) -> bool {
        let Some(client) = &mut self.clients[place] else { return false };
        let written = if client.kept.is_empty() {
            client.stream.write(bytes).inspect(|written| client.kept.extend(&bytes[*written..]))
        } else {
            if client.kept.len() + bytes.len() <= MOST_KEPT {
                client.kept.extend(bytes);
            }
            client.stream.write(&client.kept).inspect(|written| drop(client.kept.drain(..*written)))
        };
        if let Err(error) = written {
            if error.kind() != ErrorKind::WouldBlock {
                self.clients[place] = None;
                return false;
            }
            if client.kept.is_empty() {
                client.kept.extend(bytes);
            }
        }
        let waits = !client.kept.is_empty();
        if waits != client.waits {
            client.waits = waits;
            let also = if waits { EpollFlags::EPOLLOUT } else { EpollFlags::empty() };
            let number = (1 + self.sockets.len() + place) as u64;
            // What is no descriptor of ours any more is told by the next write.
            let _ = self.epoll.modify(&client.stream, &mut EpollEvent::new(EpollFlags::EPOLLIN | also, number));
        }
        true
    }
}

//! A web server for very many connections at once: few threads look after all of them.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use lab::Namespace;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, sockopt};

use crate::files::{own_table, room};
use crate::network::SERVERS;

/// All servers of the example. They answer each request, which must have no body, with its target.
pub struct Servers {
    stopping: Arc<AtomicBool>,
}

impl Servers {
    /// Servers for so many connections at once, shared evenly.
    pub fn start(host: &Namespace, connections: usize) -> Servers {
        let stopping = Arc::new(AtomicBool::new(false));
        let threads = (connections / SERVERS.len()).div_ceil(room()).max(1);
        for address in SERVERS {
            for _ in 0..threads {
                let listener = host.enter(|| listen(address.parse().unwrap())).unwrap().unwrap();
                let stopped = stopping.clone();
                thread::spawn(move || {
                    own_table(Some(listener.as_raw_fd()));
                    serve(&listener, &stopped).unwrap();
                });
            }
        }
        Servers { stopping }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
    }
}

/// Listens where others may, too: the kernel deals connections to all.
fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let socket = socket::socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    socket::setsockopt(&socket, sockopt::ReuseAddr, &true)?;
    socket::setsockopt(&socket, sockopt::ReusePort, &true)?;
    socket::bind(socket.as_raw_fd(), &SockaddrStorage::from(address))?;
    socket::listen(&socket, Backlog::MAXCONN)?;
    Ok(TcpListener::from(socket))
}

fn serve(listener: &TcpListener, stopped: &AtomicBool) -> std::io::Result<()> {
    listener.set_nonblocking(true)?;
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    epoll.add(listener, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
    let mut connections: HashMap<u64, (TcpStream, Vec<u8>)> = HashMap::new();
    let mut events = [EpollEvent::empty(); 256];
    while !stopped.load(Ordering::Relaxed) {
        let count = epoll.wait(&mut events, EpollTimeout::from(100u8))?;
        for event in &events[..count] {
            if event.data() == 0 {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    stream.set_nodelay(true)?;
                    let id = stream.as_raw_fd() as u64;
                    epoll.add(&stream, EpollEvent::new(EpollFlags::EPOLLIN, id))?;
                    connections.insert(id, (stream, Vec::new()));
                }
                continue;
            }
            let Some((stream, head)) = connections.get_mut(&event.data()) else { continue };
            // Whatever a client does ends its connection only.
            if !answer(stream, head).unwrap_or(false) {
                connections.remove(&event.data());
            }
        }
    }
    Ok(())
}

/// Answers what has come. False where the connection is over.
fn answer(stream: &mut TcpStream, head: &mut Vec<u8>) -> std::io::Result<bool> {
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return Ok(false),
            Ok(count) => head.extend(&bytes[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
            Err(error) => return Err(error),
        }
        while let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            let request = String::from_utf8_lossy(&head[..end]).into_owned();
            head.drain(..end + 4);
            let target = request.split(' ').nth(1).unwrap_or_default();
            let closes = request.contains("Connection: close");
            let close = if closes { "Connection: close\r\n" } else { "" };
            let length = target.len();
            stream
                .write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n{close}\r\n{target}").as_bytes())?;
            if closes {
                return Ok(false);
            }
        }
    }
}

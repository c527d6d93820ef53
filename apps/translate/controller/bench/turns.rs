//! A source, a system and the ends of its streams, all on one CPU by turns.
//!
//! Clients are connections of the kernel. Behind the head of its answer each one's stream goes to a program at its
//! link, which counts and acknowledges: an end that costs little, and as much with every system.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, setsockopt, socket, sockopt};

use super::source;
use crate::media::network::{ENDS_CPU, HOST, Network, RECEIVER, SOURCE};
use crate::stream::sinks::Sinks;
use crate::stream::{Source, frame};
use crate::text;

/// The streams' ports at the host, and the clients' at the other end; by UDP these are two apart, too.
pub const FIRST_PORT: u16 = 5004;
pub const APART: u16 = 2;
const FIRST_CLIENT: u16 = 4000;
/// Of an answer's head.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two packets of each stream while clients connect.
const PAUSE: Duration = Duration::from_millis(20);
/// The clients' ends.
const SINK: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/translate-sink.bpf.o"));
/// The sources of the packets that clients connect by, and of those that are measured.
const SLOW: u32 = 7;
const FAST: u32 = 8;

/// The port of a stream.
pub fn port(stream: usize) -> u16 {
    FIRST_PORT + APART * stream as u16
}

/// The end of the streams, as long as it is there.
pub fn sinks(network: &Network) -> Result<Sinks, String> {
    Sinks::attach(SINK, &network.viewers, &["eth0".into(), "eth1".into()])
}

/// An RTP packet.
pub fn packet(number: u16, ssrc: u32) -> Vec<u8> {
    // Version 2, payload type 33 (RFC 2250), a clock of 90 kHz.
    let mut packet = vec![0x80, 33];
    packet.extend(number.to_be_bytes());
    packet.extend((u32::from(number) * 900).to_be_bytes());
    packet.extend(ssrc.to_be_bytes());
    packet.extend(source::payload(number.into()));
    packet
}

/// Connects clients that ask for streams; each has the head of its answer then. `places` are those of the answers.
pub fn connect_all(
    network: &Network,
    to: SocketAddrV4,
    streams: usize,
    places: &[String],
) -> Result<Vec<TcpStream>, String> {
    let stop = Arc::new(AtomicBool::new(false));
    let stops = stop.clone();
    let open = || UdpSocket::bind((SOURCE, source::PORT)).map_err(text);
    let socket = network.servers.enter(open).map_err(text)??;
    let sender = std::thread::spawn(move || {
        for number in 0.. {
            for stream in 0..streams {
                // Where nobody listens yet the kernel says so: that is no end of the stream.
                let _ = socket.send_to(&packet(number, SLOW), (HOST, port(stream)));
            }
            std::thread::sleep(PAUSE);
            if stops.load(Ordering::Relaxed) {
                return;
            }
        }
    });
    let ask = || places.iter().enumerate().map(|(number, path)| client(number, to, path)).collect();
    let clients: Result<Result<Vec<_>, String>, _> = network.viewers.enter(ask).map_err(text);
    // Senders learn round trips, and so what they may send.
    std::thread::sleep(Duration::from_secs(1));
    stop.store(true, Ordering::Relaxed);
    sender.join().map_err(|_| "the sender has panicked")?;
    // What is under way has come.
    std::thread::sleep(Duration::from_millis(300));
    clients?
}

/// A connection from the port of a client, behind the head of its answer.
fn client(number: usize, to: SocketAddrV4, path: &str) -> Result<TcpStream, String> {
    let fails = |error: &dyn std::fmt::Display| format!("client {number}: {error}");
    let new = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None);
    let new = new.map_err(|error| fails(&error))?;
    setsockopt(&new, sockopt::ReuseAddr, &true).map_err(|error| fails(&error))?;
    use std::os::fd::AsRawFd;
    let own = SockaddrIn::from(SocketAddrV4::new(RECEIVER, FIRST_CLIENT + number as u16));
    bind(new.as_raw_fd(), &own).map_err(|error| fails(&error))?;
    connect(new.as_raw_fd(), &SockaddrIn::from(to)).map_err(|error| fails(&error))?;
    // It ends by a reset: what the program has acknowledged is unknown to the kernel.
    let end = nix::libc::linger { l_onoff: 1, l_linger: 0 };
    setsockopt(&new, sockopt::Linger, &end).map_err(|error| fails(&error))?;
    let mut stream = TcpStream::from(new);
    stream.set_read_timeout(Some(PATIENCE)).map_err(text)?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: stream\r\n\r\n").as_bytes()).map_err(text)?;
    let mut head = Vec::new();
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        let mut byte = [0; 512];
        match stream.read(&mut byte).map_err(|error| fails(&error))? {
            0 => return Err(fails(&"the connection has ended")),
            count => head.extend(&byte[..count]),
        }
    }
    match head.starts_with(b"HTTP/1.1 200") {
        true => Ok(stream),
        false => Err(fails(&String::from_utf8_lossy(&head))),
    }
}

/// What has passed, and what it has cost.
pub struct Passed {
    /// Packets that came to clients, and those of which the source had to give up waiting.
    pub arrived: u64,
    pub lost: u64,
    /// Seconds of the CPU, which is never idle.
    pub seconds: f64,
}

/// The source of streams: a packet of each by turns, each of which goes to so many clients.
pub struct Turns<'a> {
    pub network: &'a Network,
    pub sinks: &'a Sinks,
    pub streams: usize,
    pub clients_of_each: usize,
    /// Straight to the clients' link.
    pub is_direct: bool,
}

impl Turns<'_> {
    /// Sends for a while, and behind a while that does not count.
    pub fn run(&self, window: Duration) -> Result<Passed, String> {
        let to = if self.is_direct { crate::media::network::DIRECT } else { HOST };
        let first = if self.is_direct { FIRST_CLIENT } else { FIRST_PORT };
        let addresses: [Ipv4Addr; 2] = [SOURCE, to];
        let link = self.network.link(self.is_direct)?;
        let frame = frame::udp(link, addresses.map(|own| own.octets()), [source::PORT, first], &packet(0, FAST));
        let source = Source {
            namespace: &self.network.servers,
            interface: if self.is_direct { "eth1" } else { "eth0" },
            frame: &frame,
            numbered: frame::HEADERS as u32 + 2,
            apart: APART.into(),
            burst: self.streams as u32,
            copies: self.clients_of_each as u32,
            counts: self.sinks.descriptor()?,
            cpu: ENDS_CPU,
        };
        let all = self.streams * self.clients_of_each;
        let counted = || self.sinks.counted(0..all as u32);
        source.run(window / 4)?;
        let (before, start) = (counted()?, Instant::now());
        let streamed = source.run(window)?;
        let (after, seconds) = (counted()?, start.elapsed().as_secs_f64());
        if after.1 > before.1 {
            return Err(format!("{} packets are not as they must be", after.1 - before.1));
        }
        let each = after.0.iter().zip(&before.0).map(|(after, before)| after - before);
        let (least, most) = (each.clone().min().unwrap_or(0), each.max().unwrap_or(0));
        if most - least > streamed.lost + 1 {
            return Err(format!("{} copies were lost, clients have got {least} to {most}", streamed.lost));
        }
        Ok(Passed { arrived: streamed.arrived, lost: streamed.lost, seconds })
    }
}

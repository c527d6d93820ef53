//! From the sending of a packet to the return of the client's read that has the whole of it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::chosen;
use super::millrace::{Millrace, Start};
use super::relay::{self, HEAD, Relay};
use super::source::{self, BYTES, Clock};
use super::turns;
use crate::media::network::{ENDS_CPU, HOST, HOST_CPU, Network, SOURCE};
use crate::results::Results;
use crate::stream::stay;
use crate::{Effort, text};

const CASE: &str = "1 stream, 1 client";
/// The server's end of the link without a host between.
const DIRECT: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 3, 1), 80);
/// bit/s.
const RATE: u64 = 4_000_000;
/// Where the time of sending is in a payload: behind the number, in its first packet.
const STAMP: std::ops::Range<usize> = 8..16;
const PATIENCE: Duration = Duration::from_secs(20);
/// Parts of the packets, of which the latest one's time is told.
const PARTS: [(&str, f64); 2] = [("p50", 0.5), ("p99", 0.99)];
const UNIT: &str = "µs more than the median of HTTP by one link";

#[derive(Clone, Copy, PartialEq)]
enum System {
    /// HTTP by one link, without a host between.
    Direct,
    Relay,
    Millrace,
}

const SYSTEMS: [(&str, System); 2] = [("relay", System::Relay), ("millrace", System::Millrace)];

/// All systems by turns.
pub fn measure(effort: Effort, results: &mut Results) -> Result<(), String> {
    let network = Network::new()?;
    let (runs, window) = if effort.quick { (1, 500) } else { (5, 5000) };
    let window = Duration::from_millis(window);
    let mut found: Vec<(&str, [f64; 2])> = Vec::new();
    for _ in 0..runs {
        let base = one(&network, System::Direct, window)?[0];
        for (name, system) in SYSTEMS.into_iter().filter(|(name, _)| chosen("SYSTEM", name)) {
            let times = one(&network, system, window).map_err(|error| format!("{name}: {error}"))?;
            found.push((name, times.map(|time| time - base)));
        }
    }
    for (name, _) in SYSTEMS {
        for (index, (part, _)) in PARTS.iter().enumerate() {
            let own = found.iter().filter(|(own, _)| *own == name).map(|(_, times)| times[index]).collect();
            results.add(CASE, name, &format!("added_latency_{part}_us"), UNIT, own);
        }
    }
    Ok(())
}

/// One system for a while: times in µs, in the order of [`PARTS`].
fn one(network: &Network, system: System, window: Duration) -> Result<[f64; 2], String> {
    let (begin, stop) = (Instant::now(), Arc::new(AtomicBool::new(false)));
    let (mut relay, mut millrace) = (None, None);
    let place = Millrace::place();
    let (to, path) = match system {
        System::Direct => (DIRECT, "/".into()),
        System::Relay => {
            let to = SocketAddrV4::new(*place.ip(), relay::PORT);
            relay = Some(Relay::start(&network.proxy, HOST, to, &[turns::port(0)], Some(HOST_CPU))?);
            (to, "/0".into())
        }
        System::Millrace => {
            let mut own = Millrace::start(&network.proxy, Start { cpu: Some(HOST_CPU), ..Start::default() })?;
            own.wait()?;
            millrace = Some(own);
            (place, Millrace::path(turns::port(0)))
        }
    };
    let source = send(network, system == System::Direct, begin, stop.clone())?;
    let read = || read(to, &path, begin, window);
    let times = network.viewers.enter(read).map_err(text)?;
    stop.store(true, Ordering::Relaxed);
    source.join().map_err(|_| "the source has panicked")??;
    relay.map_or(Ok(()), Relay::end)?;
    millrace.map_or(Ok(()), Millrace::end)?;
    let mut times = times?;
    times.sort_unstable();
    match times.len() {
        0 => Err("no packet has come".into()),
        all => Ok(PARTS.map(|(_, part)| times[((all - 1) as f64 * part) as usize] as f64 / 1e3)),
    }
}

/// Nanoseconds since the measurement began.
fn since(begin: Instant) -> u64 {
    begin.elapsed().as_nanos() as u64
}

/// Sends RTP to the host, or is a server of HTTP, until it is told.
fn send(
    network: &Network,
    is_direct: bool,
    begin: Instant,
    stop: Arc<AtomicBool>,
) -> Result<JoinHandle<Result<(), String>>, String> {
    let open = || Ok::<_, std::io::Error>((TcpListener::bind(DIRECT)?, UdpSocket::bind((SOURCE, source::PORT))?));
    let (listener, socket) = network.servers.enter(open).map_err(text)?.map_err(text)?;
    Ok(std::thread::spawn(move || {
        stay(ENDS_CPU, false)?;
        let mut client = None;
        if is_direct {
            let mut stream = listener.accept().map_err(text)?.0;
            stream.set_nodelay(true).map_err(text)?;
            stream.write_all(HEAD).map_err(text)?;
            client = Some(stream);
        }
        let mut clock = Clock::new(RATE);
        for number in 0u16.. {
            clock.wait();
            let mut packet = turns::packet(number, 7);
            let from = packet.len() - BYTES;
            packet[from..][STAMP].copy_from_slice(&since(begin).to_be_bytes());
            match &mut client {
                Some(client) => {
                    if client.write_all(&packet[from..]).is_err() {
                        break;
                    }
                }
                // Where nobody listens the kernel says so: that is no end of the stream.
                None => drop(socket.send_to(&packet, (HOST, turns::port(0)))),
            }
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(())
    }))
}

/// Times of the packets that a client reads, in ns.
fn read(to: SocketAddrV4, path: &str, begin: Instant, window: Duration) -> Result<Vec<u64>, String> {
    stay(ENDS_CPU, false)?;
    let mut stream = TcpStream::connect(to).map_err(text)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(text)?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: stream\r\n\r\n").as_bytes()).map_err(text)?;
    let (mut kept, mut times, mut buffer) = (Vec::new(), Vec::new(), vec![0; 65536]);
    let (mut head, mut last) = (true, None::<u32>);
    let start = Instant::now();
    while start.elapsed() < window + window / 4 {
        let count = stream.read(&mut buffer).map_err(text)?;
        let now = since(begin);
        if count == 0 {
            return Err("the stream has ended".into());
        }
        kept.extend(&buffer[..count]);
        if head {
            let Some(end) = kept.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
            if !kept.starts_with(b"HTTP/1.1 200") {
                return Err(String::from_utf8_lossy(&kept).into_owned());
            }
            kept.drain(..end + 4);
            head = false;
        }
        while kept.len() >= BYTES {
            let mut packet: Vec<u8> = kept.drain(..BYTES).collect();
            let stamp = u64::from_be_bytes(packet[STAMP].try_into().map_err(text)?);
            packet[STAMP].fill(0xff);
            let number = u32::from_be_bytes(packet[4..8].try_into().map_err(text)?);
            if packet != source::payload(number) || last.is_some_and(|last| number <= last) {
                return Err(format!("behind packet {last:?} there is {:02x?}", &packet[..32]));
            }
            last = Some(number);
            // The first ones find caches empty.
            if start.elapsed() > window / 4 {
                times.push(now.saturating_sub(stamp));
            }
        }
    }
    Ok(times)
}

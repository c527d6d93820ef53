//! An origin with sockets: the model's answers, and streams whose every byte is known.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use lab::Namespace;
use wire::rtsp::framing::{Framer, Item};
use wire::rtsp::message::Request;

use crate::origin::{Options, Origin};

/// Between two packets of a stream: fewer are under way at once than the smallest queue holds.
const PAUSE: Duration = Duration::from_millis(5);
/// The source of all streams.
pub const SSRC: u32 = 0x0a0b_0c0d;

/// A packet that was sent: sequence number, timestamp, payload.
pub type Sent = HashMap<u16, (u32, Vec<u8>)>;

/// What a server has done.
#[derive(Debug, Default)]
pub struct Log {
    /// Packets by track.
    pub sent: HashMap<usize, Sent>,
    /// The number of the last one, by track.
    pub last: HashMap<usize, u16>,
    /// Requests.
    pub asked: Vec<Request>,
    /// RTCP that came, by track.
    pub reports: Vec<(usize, Vec<u8>)>,
}

/// A running server; its threads end with it.
#[derive(Debug)]
pub struct Server {
    pub log: Arc<Mutex<Log>>,
    ends: Arc<AtomicBool>,
    connections: Arc<Mutex<Vec<TcpStream>>>,
    /// Whether streams go on where their connections end, as long as this says so.
    outlasts: Option<Arc<AtomicBool>>,
    forgets: Arc<AtomicBool>,
    next_port: Arc<AtomicU16>,
}

impl Server {
    /// One that listens at these addresses.
    pub fn start(host: &Namespace, addresses: &[&str], options: &Options) -> Server {
        Server::paced(host, addresses, options, PAUSE)
    }

    /// One whose streams go on where their connections end, until it is told their end.
    pub fn outlasting(host: &Namespace, addresses: &[&str], options: &Options) -> Server {
        Server::begin(host, addresses, options, PAUSE, Some(Arc::default()))
    }

    /// One with so much time between two packets of a stream.
    pub fn paced(host: &Namespace, addresses: &[&str], options: &Options, pause: Duration) -> Server {
        Server::begin(host, addresses, options, pause, None)
    }

    fn begin(
        host: &Namespace,
        addresses: &[&str],
        options: &Options,
        pause: Duration,
        outlasts: Option<Arc<AtomicBool>>,
    ) -> Server {
        let server = Server {
            log: Arc::default(),
            ends: Arc::default(),
            connections: Arc::default(),
            outlasts,
            forgets: Arc::default(),
            next_port: Arc::new(AtomicU16::new(7000)),
        };
        for address in addresses {
            let address: SocketAddr = address.parse().unwrap();
            let listener = host.enter(|| TcpListener::bind(address)).unwrap().unwrap();
            listener.set_nonblocking(true).unwrap();
            let (log, ends, next, all) =
                (server.log.clone(), server.ends.clone(), server.next_port.clone(), server.connections.clone());
            let (options, path, outlasts, forgets) =
                (options.clone(), host.path(), server.outlasts.clone(), server.forgets.clone());
            thread::spawn(move || {
                // Sockets of this thread are those of the host.
                let file = std::fs::File::open(path).unwrap();
                nix::sched::setns(&file, nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
                while !ends.load(Ordering::Relaxed) {
                    let Ok((stream, _)) = listener.accept() else {
                        thread::sleep(Duration::from_millis(5));
                        continue;
                    };
                    stream.set_nonblocking(false).unwrap();
                    all.lock().unwrap().push(stream.try_clone().unwrap());
                    let mut origin = Origin::new(options.clone());
                    origin.first_port = next.fetch_add(20, Ordering::Relaxed);
                    let (log, ends, outlasts) = (log.clone(), ends.clone(), outlasts.clone());
                    origin.knows_no_session = forgets.load(Ordering::Relaxed);
                    thread::spawn(move || serve(stream, origin, pause, &log, &ends, outlasts));
                }
            });
        }
        server
    }

    /// From now on what new connections say of sessions that others have set up is refused (454), once for each.
    pub fn forget_sessions(&self) {
        self.forgets.store(true, Ordering::Relaxed);
    }

    /// Ends all connections, as a server that is killed does.
    pub fn kill(&self) {
        self.ends.store(true, Ordering::Relaxed);
        for stream in self.connections.lock().unwrap().drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }

    /// How often a method was asked for.
    pub fn count(&self, method: &str) -> usize {
        self.log.lock().unwrap().asked.iter().filter(|request| request.method == method).count()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn serve(
    mut stream: TcpStream,
    mut origin: Origin,
    pause: Duration,
    log: &Arc<Mutex<Log>>,
    ends: &Arc<AtomicBool>,
    outlasts: Option<Arc<AtomicBool>>,
) {
    let (mut framer, mut buffer) = (Framer::default(), [0; 4096]);
    let (client, own) = (stream.peer_addr().unwrap().ip(), stream.local_addr().unwrap().ip());
    // It sends to a group where it is asked to.
    let client = origin.options.group.as_ref().map_or(client, |group| group.parse().unwrap());
    // Streams of this connection go on while this says so.
    let goes_on = outlasts.is_some();
    let playing = outlasts.unwrap_or_default();
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        framer.push(&buffer[..count]);
        while let Ok(Some(item)) = framer.next_item() {
            let Item::Request(request) = item else { continue };
            let answer = origin.answer(&request);
            log.lock().unwrap().asked.push(request.clone());
            // The answer comes first, as players expect it; packets at once behind it.
            if let Some(answer) = answer
                && stream.write_all(&answer.to_bytes()).is_err()
            {
                break;
            }
            match request.method.as_str() {
                "PLAY" if !playing.swap(true, Ordering::Relaxed) => {
                    for track in 0..origin.ports.len() {
                        let (to, from) = (origin.ports[track], origin.first_port + 2 * track as u16);
                        let begin = origin.begin(track);
                        let coded = origin.options.coding.is_some();
                        let (log, ends, playing) = (log.clone(), ends.clone(), playing.clone());
                        thread::spawn(move || {
                            play((track, coded), (own, from), (client, to), begin, pause, &log, &|| {
                                playing.load(Ordering::Relaxed) && !ends.load(Ordering::Relaxed)
                            });
                        });
                    }
                }
                "PAUSE" | "TEARDOWN" => playing.store(false, Ordering::Relaxed),
                _ => {}
            }
        }
    }
    if !goes_on {
        playing.store(false, Ordering::Relaxed);
    }
}

/// Between two access points.
pub const ACCESS: u32 = 100;

/// Sends a stream, and notes what comes back. One that is `coded` has units of H.264, each a picture of its own.
fn play(
    (track, coded): (usize, bool),
    (own, from): (IpAddr, u16),
    (client, to): (IpAddr, (u16, u16)),
    (mut sequence, mut timestamp): (u16, u32),
    pause: Duration,
    log: &Mutex<Log>,
    goes_on: &dyn Fn() -> bool,
) {
    // The ports may be those of a stream that ends this moment.
    let bind = |port| loop {
        if let Ok(socket) = UdpSocket::bind((own, port)) {
            return socket;
        }
        thread::sleep(PAUSE);
    };
    let (media, reports) = (bind(from), bind(from + 1));
    reports.set_nonblocking(true).unwrap();
    let mut state = (u64::from(sequence) << 32) | (track as u64 + 1);
    let mut count = 0u32;
    while goes_on() {
        let mut packet = vec![0x80, 33];
        packet.extend(sequence.to_be_bytes());
        packet.extend(timestamp.to_be_bytes());
        packet.extend(SSRC.to_be_bytes());
        let mut payload: Vec<u8> = (0..1316)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state as u8
            })
            .collect();
        if coded {
            payload[0] = if count.is_multiple_of(ACCESS) { 0x65 } else { 0x41 };
        }
        packet.extend(&payload);
        // Receivers that are gone are no error.
        // A packet that is noted is under way.
        let mut noted = log.lock().unwrap();
        noted.sent.entry(track).or_default().insert(sequence, (timestamp, payload));
        noted.last.insert(track, sequence);
        let _ = media.send_to(&packet, (client, to.0));
        drop(noted);
        count += 1;
        if count % 50 == 1 {
            let report = wire::rtcp::SenderReport {
                ssrc: SSRC,
                ntp: u64::from(count) << 32 | 5,
                rtp: timestamp,
                packets: count,
                octets: count * 1316,
            };
            let _ = reports.send_to(&report.to_bytes("camera", false), (client, to.1));
        }
        let mut buffer = [0; 2048];
        while let Ok((length, _)) = reports.recv_from(&mut buffer) {
            log.lock().unwrap().reports.push((track, buffer[..length].to_vec()));
        }
        (sequence, timestamp) = (sequence.wrapping_add(1), timestamp.wrapping_add(180));
        thread::sleep(pause);
    }
}

//! The origin: it answers RTSP, and sends one stream to where it was asked to.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};
use wire::rtsp::framing::{Framer, Item};
use wire::rtsp::message::{Request, Response};
use wire::rtsp::transport;

use super::network::{ENDS_CPU, Network, ORIGIN, SOURCE};
use crate::stream::stay;
use crate::text;

/// RTP with seven packets of MPEG-TS.
pub const BYTES: usize = 1328;
/// The port that the stream is sent from.
pub const PORT: u16 = 6970;
const DESCRIPTION: &str = "v=0\r\no=- 1 1 IN IP4 10.0.2.11\r\ns=x\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\na=range:npt=now-\r\n\
                           m=video 0 RTP/AVP 33\r\na=control:trackID=0\r\n";
/// Where the source puts when a packet was sent, in ns since [`Clock`].
pub const STAMP: std::ops::Range<usize> = 12..20;

/// A clock of this process.
#[derive(Clone, Copy)]
pub struct Clock(Instant);

impl Clock {
    pub fn new() -> Clock {
        Clock(Instant::now())
    }

    /// Nanoseconds since it was made.
    pub fn now(self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

/// RTSP at the origin; it ends with the process, or when it is dropped.
pub struct Origin {
    asked: Arc<Mutex<Option<SocketAddr>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Origin {
    /// It listens.
    pub fn start(network: &Network) -> Result<Origin, String> {
        let (asked, stop) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(false)));
        let (noted, stops) = (asked.clone(), stop.clone());
        let listen = || {
            let listener = TcpListener::bind(ORIGIN).map_err(text)?;
            // So that it looks whether it is to end.
            setsockopt(&listener, sockopt::ReceiveTimeout, &TimeVal::milliseconds(50)).map_err(text)?;
            Ok::<_, String>(std::thread::spawn(move || {
                while !stops.load(Ordering::Relaxed) {
                    if let Ok((stream, from)) = listener.accept() {
                        let noted = noted.clone();
                        std::thread::spawn(move || serve(stream, from.ip(), &noted));
                    }
                }
            }))
        };
        let thread = network.servers.enter(listen).map_err(text)??;
        Ok(Origin { asked, stop, thread: Some(thread) })
    }

    /// Where it was asked to send the stream to.
    pub fn asked(&self) -> Result<SocketAddr, String> {
        let asked = self.asked.lock().map_err(text)?;
        asked.ok_or_else(|| "nobody has asked the origin for the stream".into())
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A thread that panicked has said so.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn serve(mut stream: TcpStream, client: IpAddr, asked: &Mutex<Option<SocketAddr>>) {
    let (mut framer, mut buffer) = (Framer::default(), [0; 4096]);
    // It has the listener's.
    if stream.set_read_timeout(None).is_err() {
        return;
    }
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        framer.push(&buffer[..count]);
        while let Ok(Some(item)) = framer.next_item() {
            let Item::Request(request) = item else { continue };
            if stream.write_all(&answer(&request, client, asked).to_bytes()).is_err() {
                return;
            }
        }
    }
}

fn answer(request: &Request, client: IpAddr, asked: &Mutex<Option<SocketAddr>>) -> Response {
    let mut response = Response::new(200, request.cseq());
    match request.method.as_str() {
        "OPTIONS" => {
            response.headers.push("Public", "OPTIONS, DESCRIBE, SETUP, TEARDOWN, PLAY, GET_PARAMETER");
        }
        "DESCRIBE" => {
            response.headers.push("Content-Type", "application/sdp");
            response.headers.push("Content-Base", format!("{}/", request.url));
            response.body = DESCRIPTION.into();
        }
        "SETUP" => {
            let wanted = transport::parse(request.headers.get("transport").unwrap_or(""));
            let Some((first, second)) = wanted.first().and_then(|own| own.client_port) else {
                return Response::new(461, request.cseq());
            };
            if let Ok(mut asked) = asked.lock() {
                *asked = Some(SocketAddr::new(client, first));
            }
            let ports = format!("client_port={first}-{second};server_port={PORT}-{}", PORT + 1);
            response.headers.push("Transport", format!("RTP/AVP/UDP;unicast;{ports};ssrc=0A0B0C0D"));
            response.headers.push("Session", "1;timeout=600");
        }
        "PLAY" => response.headers.push("RTP-Info", "url=trackID=0;seq=1;rtptime=1"),
        _ => {}
    }
    response
}

/// Sends packets until it is dropped.
pub struct Source {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), String>>>,
}

impl Source {
    /// So many packets a second, each with the time at which it was sent.
    pub fn start(network: &Network, to: SocketAddrV4, rate: u64, clock: Clock) -> Result<Source, String> {
        let stop = Arc::new(AtomicBool::new(false));
        let stops = stop.clone();
        let begin = || {
            let socket = UdpSocket::bind(SocketAddr::from((SOURCE, PORT))).map_err(text)?;
            socket.connect(to).map_err(text)?;
            Ok::<_, String>(std::thread::spawn(move || {
                stay(ENDS_CPU, false)?;
                send(&socket, rate, clock, &stops);
                Ok(())
            }))
        };
        let thread = network.servers.enter(begin).map_err(text)??;
        Ok(Source { stop, thread: Some(thread) })
    }

    /// Ends it.
    pub fn end(mut self) -> Result<(), String> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join).and_then(Result::ok).ok_or("the source has failed")?
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The payload of a datagram: RTP with this number.
pub fn packet(number: u16) -> [u8; BYTES] {
    let mut packet = [0u8; BYTES];
    packet[..2].copy_from_slice(&[0x80, 33]);
    packet[2..4].copy_from_slice(&number.to_be_bytes());
    packet[8..12].copy_from_slice(&0x0a0b_0c0du32.to_be_bytes());
    packet
}

fn send(socket: &UdpSocket, rate: u64, clock: Clock, stop: &AtomicBool) {
    let (begin, mut count) = (clock.now(), 0u64);
    while !stop.load(Ordering::Relaxed) {
        let due = begin + count * 1_000_000_000 / rate;
        let now = clock.now();
        if now < due {
            std::thread::sleep(Duration::from_nanos(due - now));
            continue;
        }
        count += 1;
        let mut packet = packet(count as u16);
        packet[4..8].copy_from_slice(&((clock.now() / 11_111) as u32).to_be_bytes());
        packet[STAMP].copy_from_slice(&clock.now().to_be_bytes());
        // Where nobody receives, the kernel says so at the next packet.
        let _ = socket.send(&packet);
    }
}

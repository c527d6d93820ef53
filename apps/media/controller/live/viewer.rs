//! A viewer that knows nothing of the proxy's code but the framing: what it gets is compared with what was sent.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use lab::Namespace;
use md5::{Digest, Md5};
use nix::sys::socket::{setsockopt, sockopt};
use wire::rtsp::framing::{Framer, Item};
use wire::rtsp::message::{Request, Response};
use wire::rtsp::rtp_info;
use wire::rtsp::transport;

use crate::network::PATIENCE;
use crate::server::Sent;

/// Bytes that may wait in a socket.
const ROOM: usize = 8 << 20;

/// Sequence number, timestamp, payload, as they came.
pub type Packet = (u16, u32, Vec<u8>);

/// A connection, and the sockets of its tracks.
pub struct Viewer {
    stream: TcpStream,
    /// Where requests go by a tunnel over HTTP, as base64.
    post: Option<TcpStream>,
    framer: Framer,
    /// User, password, and the nonce that it is proven for.
    pub password: Option<[String; 3]>,
    cseq: u32,
    pub session: String,
    pub url: String,
    tracks: Vec<Track>,
    /// Interleaved packets that have come.
    data: Vec<(u8, Vec<u8>)>,
}

struct Track {
    sockets: Option<(UdpSocket, UdpSocket)>,
    channel: u8,
    ssrc: u32,
    /// Where the answer to PLAY says that it begins.
    begin: Option<(u16, u32)>,
}

impl Viewer {
    /// Connects to the proxy.
    pub fn connect(host: &Namespace, proxy: &str, path: &str) -> Viewer {
        let proxy: SocketAddr = proxy.parse().unwrap();
        let stream = host.enter(|| TcpStream::connect(proxy)).unwrap().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let url = format!("rtsp://{proxy}/{path}");
        let (framer, session, tracks, data) = (Framer::default(), String::new(), Vec::new(), Vec::new());
        Viewer { stream, post: None, framer, password: None, cseq: 0, session, url, tracks, data }
    }

    /// Connects to the proxy by a tunnel over HTTP.
    pub fn tunnel(host: &Namespace, proxy: &str, path: &str) -> Viewer {
        let mut own = Viewer::connect(host, proxy, path);
        let head = |method| format!("{method} /{path} HTTP/1.0\r\nX-SessionCookie: a-cookie\r\n\r\n");
        own.stream.write_all(head("GET").as_bytes()).unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            own.stream.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.0 200 OK\r\n"), "{answer}");
        assert!(answer.contains("Content-Type: application/x-rtsp-tunnelled\r\n"), "{answer}");
        own.post(host, proxy);
        own
    }

    /// Has requests go by another POST from now on.
    pub fn post(&mut self, host: &Namespace, proxy: &str) {
        let proxy: SocketAddr = proxy.parse().unwrap();
        let mut post = host.enter(|| TcpStream::connect(proxy)).unwrap().unwrap();
        let head = "POST / HTTP/1.0\r\nContent-Length: 32767\r\nx-sessioncookie: a-cookie\r\n\r\n";
        post.write_all(head.as_bytes()).unwrap();
        self.post = Some(post);
    }

    /// Sends bytes, by the tunnel in two pieces that are cut anywhere.
    fn write(&mut self, bytes: &[u8]) {
        let Some(post) = &mut self.post else { return self.stream.write_all(bytes).unwrap() };
        let text = base64(bytes);
        let (first, second) = text.split_at(text.len() * 2 / 5 + 1);
        post.set_nodelay(true).unwrap();
        post.write_all(first.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(5));
        post.write_all(second.as_bytes()).unwrap();
    }

    /// Connects anew, as the connection has ended: its session and sockets stay.
    pub fn connect_again(&mut self, host: &Namespace) {
        let proxy = self.stream.peer_addr().unwrap();
        self.stream = host.enter(|| TcpStream::connect(proxy)).unwrap().unwrap();
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        self.framer = Framer::default();
    }

    pub fn ask(&mut self, method: &str, url: &str, headers: &[(&str, &str)]) -> Response {
        self.ask_with(method, url, headers, &[])
    }

    /// The same with a body.
    pub fn ask_with(&mut self, method: &str, url: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        let mut request = Request::new(method, url);
        request.body = body.to_vec();
        self.cseq += 1;
        request.headers.push("CSeq", self.cseq.to_string());
        if !self.session.is_empty() {
            request.headers.push("Session", self.session.clone());
        }
        headers.iter().for_each(|(name, value)| request.headers.push(name, *value));
        if let Some(own) = &self.password {
            request.headers.push("Authorization", proof(own, method, url));
        }
        self.write(&request.to_bytes());
        loop {
            match self.item() {
                Some(Item::Response(response)) => {
                    assert_eq!(response.cseq(), Some(self.cseq));
                    return response;
                }
                Some(Item::Data { channel, packet }) => self.data.push((channel, packet)),
                other => panic!("{method}: {other:?}"),
            }
        }
    }

    #[track_caller]
    pub fn good(&mut self, method: &str, url: &str, headers: &[(&str, &str)]) -> Response {
        let response = self.ask(method, url, headers);
        assert_eq!(response.status, 200, "{method} {url}: {response:?}");
        response
    }

    /// Sends a packet on the connection.
    pub fn send(&mut self, channel: u8, packet: &[u8]) {
        self.write(&wire::rtsp::framing::interleaved(channel, packet).unwrap());
    }

    /// The next item; none where the connection has ended.
    fn item(&mut self) -> Option<Item> {
        let mut buffer = [0; 8192];
        loop {
            if let Some(item) = self.framer.next_item().unwrap() {
                return Some(item);
            }
            match self.stream.read(&mut buffer).unwrap() {
                0 => return None,
                count => self.framer.push(&buffer[..count]),
            }
        }
    }

    /// Whether the connection is ended by the other side.
    pub fn is_closed(&mut self) -> bool {
        loop {
            match self.item() {
                None => return true,
                Some(Item::Data { .. }) => {}
                Some(_) => return false,
            }
        }
    }

    /// Sets up a track over UDP, with sockets on this host.
    pub fn set_up(&mut self, host: &Namespace, own: IpAddr, track: usize) {
        let pair = || {
            let media = UdpSocket::bind((own, 0)).ok()?;
            let port = media.local_addr().ok()?.port();
            let reports = UdpSocket::bind((own, port.checked_add(1)?)).ok()?;
            (port % 2 == 0).then_some((media, reports))
        };
        let (media, reports) = host.enter(|| (0..1000).find_map(|_| pair())).unwrap().unwrap();
        // On a busy machine the viewer has its turn seldom. Without the right to, the usual room must do.
        let _ = setsockopt(&media, sockopt::RcvBufForce, &ROOM);
        let port = media.local_addr().unwrap().port();
        let header = format!("RTP/AVP;unicast;client_port={port}-{}", port + 1);
        let ssrc = self.set_up_with(track, &header).ssrc.unwrap();
        self.tracks.push(Track { sockets: Some((media, reports)), channel: 0, ssrc, begin: None });
    }

    /// Sets up a track on the connection.
    pub fn set_up_interleaved(&mut self, track: usize) {
        let channel = 2 * track as u8;
        let said = self.set_up_with(track, &format!("RTP/AVP/TCP;unicast;interleaved={channel}-{}", channel + 1));
        assert_eq!(said.interleaved, Some((channel, channel + 1)));
        self.tracks.push(Track { sockets: None, channel, ssrc: said.ssrc.unwrap(), begin: None });
    }

    fn set_up_with(&mut self, track: usize, header: &str) -> transport::Transport {
        let url = format!("{}/trackID={track}", self.url);
        let answer = self.good("SETUP", &url, &[("Transport", header)]);
        self.session = answer.headers.get("session").unwrap().split(';').next().unwrap().to_owned();
        transport::parse(answer.headers.get("transport").unwrap()).remove(0)
    }

    pub fn play(&mut self) {
        let answer = self.good("PLAY", &self.url.clone(), &[("Range", "npt=0.000-")]);
        for (at, info) in answer.headers.get("rtp-info").map(rtp_info::parse).unwrap_or_default().iter().enumerate() {
            assert_eq!(info.url, format!("{}/trackID={at}", self.url));
            self.tracks[at].begin = Some((info.seq.unwrap(), info.rtptime.unwrap()));
        }
    }

    /// Receives so many packets of a track: sequence numbers, timestamps, payloads as they came.
    pub fn receive(&mut self, track: usize, count: usize) -> Vec<Packet> {
        let mut found = Vec::new();
        let start = Instant::now();
        while found.len() < count {
            assert!(start.elapsed() < PATIENCE, "{} of {count} packets", found.len());
            let own = &self.tracks[track];
            let (channel, ssrc) = (own.channel, own.ssrc);
            let packet = match &own.sockets {
                Some((media, _)) => {
                    media.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
                    let mut buffer = [0; 2048];
                    let Ok(length) = media.recv(&mut buffer) else { continue };
                    buffer[..length].to_vec()
                }
                None => match self.data.iter().position(|(own, _)| *own == channel) {
                    Some(at) => self.data.remove(at).1,
                    None => match self.item() {
                        Some(Item::Data { channel, packet }) => {
                            self.data.push((channel, packet));
                            continue;
                        }
                        other => panic!("{other:?}"),
                    },
                },
            };
            found.push(read(&packet, ssrc));
        }
        found
    }

    /// What has come of a track over UDP.
    pub fn come(&mut self, track: usize) -> Vec<Packet> {
        let own = &self.tracks[track];
        let (media, _) = own.sockets.as_ref().unwrap();
        media.set_nonblocking(true).unwrap();
        let mut buffer = [0; 2048];
        std::iter::from_fn(|| media.recv(&mut buffer).ok().map(|length| read(&buffer[..length], own.ssrc))).collect()
    }

    /// A report of the sender, as it came, or the end of its stream. Before it has sent it may have said something as a
    /// receiver.
    pub fn report(&mut self, track: usize) -> Vec<u8> {
        let (_, reports) = self.tracks[track].sockets.as_ref().unwrap();
        reports.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut buffer = [0; 2048];
        loop {
            let length = reports.recv(&mut buffer).unwrap();
            let said = wire::rtcp::parse(&buffer[..length]).unwrap();
            if !said.senders.is_empty() || !said.ended.is_empty() {
                return buffer[..length].to_vec();
            }
        }
    }

    /// Reads reports of the sender until one says that its stream has ended; why.
    pub fn reports_until_bye(&mut self, track: usize) -> Option<String> {
        loop {
            let report = wire::rtcp::parse(&self.report(track)).unwrap();
            if report.ended.contains(&self.ssrc(track)) {
                return report.reason;
            }
        }
    }

    /// Sends a receiver's report about a track.
    pub fn send_report(&self, track: usize, proxy: SocketAddr, bytes: &[u8]) {
        self.tracks[track].sockets.as_ref().unwrap().1.send_to(bytes, proxy).unwrap();
    }

    /// The own end of its connection.
    pub fn address(&self) -> SocketAddr {
        self.stream.local_addr().unwrap()
    }

    /// Where packets of a track over UDP come to.
    pub fn media_address(&self, track: usize) -> SocketAddr {
        self.tracks[track].sockets.as_ref().unwrap().0.local_addr().unwrap()
    }

    pub fn ssrc(&self, track: usize) -> u32 {
        self.tracks[track].ssrc
    }

    pub fn begin(&self, track: usize) -> Option<(u16, u32)> {
        self.tracks[track].begin
    }
}

/// RFC 2069 section 2.1.2, for the realm of the model.
fn proof([user, password, nonce]: &[String; 3], method: &str, url: &str) -> String {
    let md5 = |text: String| Md5::digest(text).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let secret = md5(format!("{user}:cameras:{password}"));
    let response = md5(format!("{secret}:{nonce}:{}", md5(format!("{method}:{url}"))));
    let of = format!("username=\"{user}\", realm=\"cameras\", nonce=\"{nonce}\"");
    format!("Digest {of}, uri=\"{url}\", response=\"{response}\"")
}

/// RFC 4648 section 4.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let quad = |three: &[u8]| {
        let bits = (0..3).fold(0, |bits, at| bits << 8 | u32::from(three.get(at).copied().unwrap_or(0)));
        let letter = |at| if at > three.len() { '=' } else { LETTERS[(bits >> (18 - 6 * at)) as usize & 63].into() };
        (0..4).map(letter).collect::<String>()
    };
    bytes.chunks(3).map(quad).collect()
}

/// A packet with the source that SETUP named.
#[track_caller]
fn read(packet: &[u8], ssrc: u32) -> Packet {
    assert_eq!(packet[..2], [0x80, 33]);
    assert_eq!(packet[8..12], ssrc.to_be_bytes(), "the source that SETUP named");
    let sequence = u16::from_be_bytes([packet[2], packet[3]]);
    let timestamp = u32::from_be_bytes([packet[4], packet[5], packet[6], packet[7]]);
    (sequence, timestamp, packet[12..].to_vec())
}

/// Every packet is one that was sent, with numbers that differ from those there by the same in each; how many are
/// missing between them.
#[track_caller]
pub fn compare(received: &[(u16, u32, Vec<u8>)], sent: &Sent) -> usize {
    let by_payload: std::collections::HashMap<&[u8], (u16, u32)> =
        sent.iter().map(|(sequence, (timestamp, payload))| (&payload[..], (*sequence, *timestamp))).collect();
    let offsets = |(sequence, timestamp, payload): &(u16, u32, Vec<u8>)| {
        let (own, time) = by_payload.get(&payload[..]).expect("a payload that was sent, byte by byte");
        (sequence.wrapping_sub(*own), timestamp.wrapping_sub(*time))
    };
    let first = offsets(&received[0]);
    assert!(received.iter().all(|packet| offsets(packet) == first));
    let places: Vec<u16> = received.iter().map(|packet| packet.0.wrapping_sub(received[0].0)).collect();
    assert!(places.windows(2).all(|two| two[0] < two[1]), "none twice, none overtaken");
    places.windows(2).map(|two| usize::from(two[1] - two[0]) - 1).sum()
}

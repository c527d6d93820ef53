//! A client that publishes a stream whose every byte is known.

use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use lab::Namespace;
use wire::rtsp::transport;

use crate::server::Sent;
use crate::viewer::Viewer;

const SDP: &str = "v=0\r\no=- 0 0 IN IP4 10.0.2.11\r\ns=x\r\nt=0 0\r\nm=video 0 RTP/AVP 33\r\na=control:streamid=0\r\n";

/// Its connection, and where it sends packets if not there.
pub struct Publisher {
    pub connection: Viewer,
    socket: Option<(UdpSocket, SocketAddr)>,
    /// Whether each packet is a picture of H.264, of which each second one is referred to by no other.
    of_pictures: bool,
    pub sent: Sent,
}

impl Publisher {
    /// Announces a stream of pictures and begins it, on the connection and as fast as it takes them.
    pub fn of_pictures(host: &Namespace, proxy: &str, name: &str) -> Publisher {
        let description = format!("{SDP}a=rtpmap:33 H264/90000\r\n");
        Publisher { of_pictures: true, ..Publisher::announce(host, proxy, name, false, &description) }
    }

    /// Announces a stream and begins it.
    pub fn start(host: &Namespace, proxy: &str, name: &str, udp: bool) -> Publisher {
        Publisher::announce(host, proxy, name, udp, SDP)
    }

    /// The same of a stream that is no MPEG-TS.
    pub fn of_video(host: &Namespace, proxy: &str, name: &str, udp: bool) -> Publisher {
        Publisher::announce(host, proxy, name, udp, &format!("{SDP}a=rtpmap:33 VP8/90000\r\n"))
    }

    fn announce(host: &Namespace, proxy: &str, name: &str, udp: bool, description: &str) -> Publisher {
        let mut connection = Viewer::connect(host, proxy, name);
        let url = connection.url.clone();
        let answer =
            connection.ask_with("ANNOUNCE", &url, &[("Content-Type", "application/sdp")], description.as_bytes());
        assert_eq!(answer.status, 200, "{answer:?}");
        let proxy: SocketAddr = proxy.parse().unwrap();
        let socket = udp.then(|| host.enter(|| UdpSocket::bind(("0.0.0.0", 0))).unwrap().unwrap());
        let port = socket.as_ref().map_or(0, |socket| socket.local_addr().unwrap().port());
        let wanted = match udp {
            true => format!("RTP/AVP;unicast;client_port={port}-{};mode=record", port.wrapping_add(1).max(1024)),
            false => "RTP/AVP/TCP;unicast;interleaved=0-1;mode=record".to_owned(),
        };
        let answer = connection.good("SETUP", &format!("{url}/streamid=0"), &[("Transport", &wanted)]);
        connection.session = answer.headers.get("session").unwrap().split(';').next().unwrap().to_owned();
        let said = transport::parse(answer.headers.get("transport").unwrap()).remove(0);
        let socket = socket.map(|socket| (socket, SocketAddr::new(proxy.ip(), said.server_port.unwrap().0)));
        connection.good("RECORD", &url, &[("Range", "npt=0.000-")]);
        Publisher { connection, socket, of_pictures: false, sent: Sent::new() }
    }

    /// Sends so many packets.
    pub fn send(&mut self, count: u16) {
        for _ in 0..count {
            let sequence = (self.sent.len() as u16).wrapping_add(65500);
            let timestamp = u32::from(sequence) * 90;
            let mut payload: Vec<u8> = (0..1316).map(|at: u32| ((at * u32::from(sequence)) >> 3) as u8).collect();
            if self.of_pictures {
                payload[0] = if sequence.is_multiple_of(2) { 0x41 } else { 0x01 };
                payload[1..3].copy_from_slice(&sequence.to_be_bytes());
            }
            let mut packet = vec![0x80, 33];
            packet.extend(sequence.to_be_bytes());
            packet.extend(timestamp.to_be_bytes());
            packet.extend([7; 4]);
            packet.extend(&payload);
            self.sent.insert(sequence, (timestamp, payload));
            match &self.socket {
                Some((socket, to)) => _ = socket.send_to(&packet, to).unwrap(),
                None => self.connection.send(0, &packet),
            }
            if !self.of_pictures {
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

//! Viewers: their RTSP, and the sockets that their packets come to.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use wire::rtsp::framing::{Framer, Item};
use wire::rtsp::message::{Request, Response};
use wire::sdp::{self, Description};

use super::network::{self, ORIGIN};
use crate::text;

/// Until something is answered.
const PATIENCE: Duration = Duration::from_secs(30);
/// The first of the receivers' ports; each has two.
const FIRST_PORT: u16 = 4000;
/// Bytes that may wait for a receiver that reads.
const ROOM: usize = 8 << 20;

/// The port that a receiver's packets come to.
pub fn port(number: usize) -> u16 {
    FIRST_PORT + 2 * (number % 30_000) as u16
}

/// A socket at a receiver's port.
pub fn socket(number: usize) -> Result<UdpSocket, String> {
    let socket =
        UdpSocket::bind(("0.0.0.0", port(number))).map_err(|error| format!("port {}: {error}", port(number)))?;
    setsockopt(&socket, sockopt::RcvBufForce, &ROOM).map_err(text)?;
    Ok(socket)
}

/// A connection with a session.
pub struct Viewer {
    stream: TcpStream,
    framer: Framer,
    cseq: u32,
    session: String,
    url: String,
}

impl Viewer {
    /// Sets a session of the origin's stream up, of the thread's network namespace.
    pub fn set_up(number: usize) -> Result<Viewer, String> {
        Viewer::of(number, &format!("{ORIGIN}/live"))
    }

    /// The same of a stream that the proxy has by a path.
    pub fn of(number: usize, path: &str) -> Result<Viewer, String> {
        Viewer::at(network::proxy(), number, path)
    }

    /// The same at any server: of the first track of what it has by a path.
    pub fn at(server: SocketAddr, number: usize, path: &str) -> Result<Viewer, String> {
        let stream = TcpStream::connect(server).map_err(|error| format!("viewer {number}: {error}"))?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(text)?;
        stream.set_nodelay(true).map_err(text)?;
        let url = format!("rtsp://{server}/{path}");
        let mut own = Viewer { stream, framer: Framer::default(), cseq: 0, session: String::new(), url };
        let url = own.url.clone();
        let answer = own.ask("DESCRIBE", &url, &[("Accept", "application/sdp")])?;
        let description = Description::parse(&answer.body).map_err(|error| format!("{url}: {error:?}"))?;
        let base = sdp::base(answer.headers.get("content-base"), answer.headers.get("content-location"), &url);
        let (track, all) = (description.media_control(0, base), description.control(base));
        let ports = format!("RTP/AVP;unicast;client_port={}-{}", port(number), port(number) + 1);
        let answer = own.ask("SETUP", &track, &[("Transport", &ports)])?;
        let session = answer.headers.get("session").ok_or("SETUP named no session")?;
        own.session = session.split(';').next().unwrap_or_default().to_owned();
        own.url = all;
        Ok(own)
    }

    pub fn play(&mut self) -> Result<(), String> {
        self.ask_all("PLAY", &[("Range", "npt=0.000-")]).map(drop)
    }

    pub fn keep_alive(&mut self) -> Result<(), String> {
        self.ask_all("GET_PARAMETER", &[]).map(drop)
    }

    pub fn tear_down(mut self) -> Result<(), String> {
        self.ask_all("TEARDOWN", &[]).map(drop)
    }

    /// Asks for something of the whole presentation.
    fn ask_all(&mut self, method: &str, headers: &[(&str, &str)]) -> Result<Response, String> {
        let url = self.url.clone();
        self.ask(method, &url, headers)
    }

    fn ask(&mut self, method: &str, url: &str, headers: &[(&str, &str)]) -> Result<Response, String> {
        let mut request = Request::new(method, url);
        self.cseq += 1;
        request.headers.push("CSeq", self.cseq.to_string());
        if !self.session.is_empty() {
            request.headers.push("Session", self.session.clone());
        }
        headers.iter().for_each(|(name, value)| request.headers.push(name, *value));
        self.stream.write_all(&request.to_bytes()).map_err(text)?;
        let mut buffer = [0; 4096];
        loop {
            match self.framer.next_item() {
                Ok(Some(Item::Response(response))) if response.status == 200 => return Ok(response),
                Ok(Some(Item::Response(response))) => return Err(format!("{method}: {}", response.status)),
                Ok(Some(_)) => {}
                Ok(None) => match self.stream.read(&mut buffer).map_err(|error| format!("{method}: {error}"))? {
                    0 => return Err(format!("{method}: the connection was closed")),
                    count => self.framer.push(&buffer[..count]),
                },
                Err(error) => return Err(format!("{method}: {error:?}")),
            }
        }
    }
}

//! A model of an origin: a server of RTSP that answers requests, with the oddities that real ones have.

use std::sync::{Arc, Mutex};

use md5::{Digest, Md5};
use wire::rtsp::message::{Request, Response};
use wire::rtsp::transport;

/// How it is.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether it has an end.
    pub live: bool,
    /// User and password, asked for by Digest.
    pub password: Option<(String, String)>,
    /// Where DESCRIBE is sent on to.
    pub redirect: Option<String>,
    /// The status of a method, in place of 200.
    pub status: Vec<(String, u16)>,
    /// Methods that are not answered.
    pub silent: Vec<String>,
    /// What `Content-Base` says.
    pub content_base: Option<String>,
    /// Whether it says which ports it sends from.
    pub says_ports: bool,
    /// Another address that streams come from.
    pub source: Option<String>,
    /// Seconds after which it forgets a session.
    pub timeout: u32,
    /// Whether answers repeat the number of the request.
    pub says_cseq: bool,
    /// What stands in front of the numbers of tracks in the description.
    pub control: String,
    /// The group that it sends to where it is asked to; ports from 6100 on.
    pub group: Option<String>,
    /// Whether it refuses UDP.
    pub tcp_only: bool,
    /// Number of tracks,
    pub tracks: usize,
    /// and how many it gives.
    pub most_setups: usize,
    /// What each track takes as its description says, in kbit/s.
    pub bandwidth: Option<u32>,
    /// The sequence number of its first packet.
    pub first: u16,
    /// What is added to sequence number and timestamp by each PLAY.
    pub jump: u16,
    /// The methods that it says it has.
    pub public: String,
    /// Header fields of the answer to DESCRIBE.
    pub said: Vec<(&'static str, &'static str)>,
    /// How long it is, in seconds.
    pub length: f64,
    /// When it was changed last, where that is said.
    pub modified: Arc<Mutex<Option<String>>>,
    /// The name of the first track's encoding, and the payload type.
    pub coding: Option<(&'static str, u8)>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            live: false,
            password: None,
            redirect: None,
            status: Vec::new(),
            silent: Vec::new(),
            content_base: None,
            says_ports: true,
            source: None,
            timeout: 60,
            says_cseq: true,
            control: "trackID=".into(),
            group: None,
            tcp_only: false,
            tracks: 2,
            most_setups: 99,
            bandwidth: None,
            first: 100,
            jump: 0,
            public: "OPTIONS, DESCRIBE, SETUP, TEARDOWN, PLAY, PAUSE, GET_PARAMETER".into(),
            said: Vec::new(),
            length: 12.5,
            modified: Arc::default(),
            coding: None,
        }
    }
}

/// A server for one connection.
#[derive(Debug)]
pub struct Origin {
    /// How it is.
    pub options: Options,
    /// What it was asked, in order.
    pub asked: Vec<Request>,
    /// The ports that clients have asked streams to, by track.
    pub ports: Vec<(u16, u16)>,
    /// Their channels, where they go on the connection.
    pub channels: Vec<u8>,
    /// How often it was asked to play.
    pub plays: u16,
    /// The port that the first track is sent from.
    pub first_port: u16,
    /// Whether it refuses what is asked about sessions, as long as none was set up here.
    pub knows_no_session: bool,
}

impl Origin {
    pub fn new(options: Options) -> Origin {
        Origin {
            options,
            asked: Vec::new(),
            ports: Vec::new(),
            channels: Vec::new(),
            plays: 0,
            first_port: Origin::server_port(0),
            knows_no_session: false,
        }
    }

    /// The ports that a track is sent from.
    pub fn server_port(track: usize) -> u16 {
        6970 + 2 * track as u16
    }

    /// Sequence number and timestamp at which a track begins.
    pub fn begin(&self, track: usize) -> (u16, u32) {
        let jump = self.options.jump.wrapping_mul(self.plays.saturating_sub(1));
        ((1000 * track as u16).wrapping_add(self.options.first).wrapping_add(jump), 5000 + 100_000 * u32::from(jump))
    }

    /// Its answer, unless it is silent.
    pub fn answer(&mut self, request: &Request) -> Option<Response> {
        self.asked.push(request.clone());
        if self.options.silent.contains(&request.method) {
            return None;
        }
        if self.knows_no_session && self.ports.is_empty() && request.headers.get("session").is_some() {
            return Some(Response::new(454, request.cseq()));
        }
        let mut response = Response::new(200, request.cseq().filter(|_| self.options.says_cseq));
        if let Some((user, password)) = &self.options.password
            && !authorized(request, user, password)
        {
            let mut response = Response::new(401, request.cseq());
            let challenge = "Digest realm=\"cameras\", nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c0\"";
            response.headers.push("WWW-Authenticate", challenge);
            return Some(response);
        }
        if let Some((_, status)) = self.options.status.iter().find(|(method, _)| *method == request.method) {
            return Some(Response::new(*status, request.cseq()));
        }
        match request.method.as_str() {
            "OPTIONS" => {
                response.headers.push("Public", self.options.public.clone());
                // Some servers name a session that there is not.
                response.headers.push("Session", "00000000");
            }
            "DESCRIBE" => {
                if let Some(to) = &self.options.redirect {
                    let mut response = Response::new(302, request.cseq());
                    response.headers.push("Location", to.clone());
                    return Some(response);
                }
                if let Some(modified) = &*self.options.modified.lock().unwrap() {
                    if request.headers.get("if-modified-since") == Some(modified) {
                        return Some(Response::new(304, request.cseq()));
                    }
                    response.headers.push("Last-Modified", modified.clone());
                }
                self.options.said.iter().for_each(|(name, value)| response.headers.push(name, *value));
                if request.url.contains("/kept") {
                    response.headers.push("Cache-Control", "public, max-age=600");
                }
                response.headers.push("Content-Type", "application/sdp");
                let base = self.options.content_base.clone();
                response.headers.push("Content-Base", base.unwrap_or(format!("{}/", request.url)));
                response.body = self.description(&request.url).into_bytes();
            }
            "SETUP" if self.ports.len() >= self.options.most_setups => return Some(Response::new(453, request.cseq())),
            "SETUP" => {
                let wanted = transport::parse(request.headers.get("transport").unwrap_or(""));
                if let Some((rtp, rtcp)) = wanted[0].interleaved {
                    self.ports.push((0, 0));
                    self.channels.push(rtp);
                    response.headers.push("Transport", format!("RTP/AVP/TCP;unicast;interleaved={rtp}-{rtcp}"));
                    response.headers.push("Session", format!("a$b.{};timeout={}", 17, self.options.timeout));
                    return Some(response);
                }
                if let Some(group) = self.options.group.as_ref().filter(|_| wanted[0].multicast) {
                    let port = 6100 + 2 * self.ports.len() as u16;
                    self.ports.push((port, port + 1));
                    let said = format!("RTP/AVP;multicast;destination={group};port={port}-{};ttl=4", port + 1);
                    response.headers.push("Transport", said);
                    response.headers.push("Session", format!("a$b.{};timeout={}", 17, self.options.timeout));
                    return Some(response);
                }
                if self.options.tcp_only {
                    return Some(Response::new(461, request.cseq()));
                }
                let client = wanted[0].client_port.unwrap();
                let track = self.ports.len();
                self.ports.push(client);
                let (first, second) = client;
                let mut said = format!("RTP/AVP/UDP;unicast;client_port={first}-{second}");
                if self.options.says_ports {
                    let port = self.first_port + 2 * track as u16;
                    said += &format!(";server_port={port}-{}", port + 1);
                }
                self.options.source.iter().for_each(|source| said += &format!(";source={source}"));
                response.headers.push("Transport", said + ";ssrc=0A0B0C0D");
                response.headers.push("Session", format!("a$b.{};timeout={}", 17, self.options.timeout));
            }
            "PLAY" => {
                self.plays += 1;
                let infos: Vec<String> = (0..self.ports.len())
                    .map(|track| {
                        let (seq, time) = self.begin(track);
                        format!("url={}{track};seq={seq};rtptime={time}", self.options.control)
                    })
                    .collect();
                response.headers.push("RTP-Info", infos.join(","));
                response.headers.push("Range", request.headers.get("range").unwrap_or("npt=0-"));
            }
            "PAUSE" => response.headers.push("Range", "npt=3.5-12.5"),
            "GET_PARAMETER" if !request.body.is_empty() => response.body = b"jitter: 0.5\r\n".to_vec(),
            _ => {}
        }
        Some(response)
    }

    fn description(&self, url: &str) -> String {
        let length = if url.contains("/part") { 60.0 } else { self.options.length };
        let range = if self.options.live { "npt=now-".to_owned() } else { format!("npt=0-{length}") };
        let mut text =
            format!("v=0\r\no=- 1 1 IN IP4 10.0.2.11\r\ns=x\r\nc=IN IP4 10.0.2.11\r\nt=0 0\r\na=range:{range}\r\n");
        for track in 0..self.options.tracks {
            let kind = match self.options.coding {
                Some((name, kind)) if track == 0 => format!("video 0 RTP/AVP {kind}\r\na=rtpmap:{kind} {name}/90000"),
                _ if track == 0 => "video 0 RTP/AVP 33".into(),
                _ => "audio 0 RTP/AVP 0".into(),
            };
            text += &format!("m={kind}\r\n");
            self.options.bandwidth.iter().for_each(|own| text += &format!("b=AS:{own}\r\n"));
            text += &format!("a=control:{}{track}\r\n", self.options.control);
        }
        text
    }
}

/// Whether a request proves the password (RFC 2617 section 3.2.2, without qop), computed here by MD5 alone.
fn authorized(request: &Request, user: &str, password: &str) -> bool {
    let Some(said) = request.headers.get("authorization").and_then(|said| said.strip_prefix("Digest ")) else {
        return false;
    };
    let field = |name: &str| {
        said.split(',').find_map(|part| {
            let (own, value) = part.trim().split_once('=')?;
            (own == name).then(|| value.trim_matches('"').to_owned())
        })
    };
    let md5 = |text: String| Md5::digest(text).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let secret = md5(format!("{user}:cameras:{password}"));
    let asked = md5(format!("{}:{}", request.method, request.url));
    let expected = md5(format!("{secret}:dcd98b7102dd2f0e8b11d0f600bfb0c0:{asked}"));
    field("uri").as_deref() == Some(&request.url) && field("response") == Some(expected)
}

//! What `[controllers.translate]` says. `read` reads it.

pub mod read;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use control::access_log::LogSettings;
use media::settings::Settings as Sources;
use media::settings::plain::Plain;

use crate::http::place::Place;

/// The settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where HTTP is served: own addresses.
    pub listen: Vec<SocketAddr>,
    /// Where streams come from, and who may view them.
    pub sources: Arc<Sources>,
    /// What else is said of streams with names of their own.
    pub streams: BTreeMap<String, Delivery>,
    /// How others are delivered.
    pub delivery: Delivery,
    /// Groups and own addresses that clients may name by `/rtp/` and `/udp/`.
    pub groups: Vec<(IpAddr, u8)>,
    /// Where the groups of such URLs are joined; none: on the interface of the kernel's route.
    pub interface: Option<String>,
    /// The host's own HTTP server, which has all other paths.
    pub http_server: Option<SocketAddr>,
    /// The host's own TLS server, which has all connections that begin with TLS.
    pub https_server: Option<SocketAddr>,
    /// Whether the page and the list of streams are served.
    pub pages: bool,
    /// Limits.
    pub limits: Limits,
    /// Timeouts.
    pub timeouts: Timeouts,
    /// Whether connections go on with the next start after an orderly end.
    pub outlast: bool,
    /// Where connections are logged.
    pub log: Option<LogSettings>,
}

/// How a stream is delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Its name for people, in lists of streams.
    pub title: Option<String>,
    /// What lost segments are filled with.
    pub fill: Fill,
    /// How fast it is sent.
    pub rate: Rate,
    /// What is left out where the rate does not suffice.
    pub policy: Policy,
    /// So long an original is sent again; whoever is further behind than twice that loses packets.
    pub playout: Duration,
    /// How long packets that are early wait for those in front of them; zero: not at all.
    pub reorder: Duration,
    /// What the stream takes, in bits per second, for [`Rate::Playout`].
    pub bandwidth: Option<u64>,
    /// With what viewers begin.
    pub start: Start,
    /// So long ago an access point came at most that they begin with.
    pub start_within: Duration,
}

/// With what a viewer begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The newest packet.
    Newest,
    /// The last access point, where that is not too old; else the newest packet.
    AccessPoint,
}

/// What a lost segment is filled with when it is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Its own bytes up to the playout time, then null packets.
    Buffered,
    /// Null packets.
    Empty,
    /// The newest packet, where nothing behind it was received.
    Fresh,
}

/// How fast a stream is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// As RFC 5348 allows.
    Tfrc,
    /// As it is to be played.
    Playout,
    /// As it comes.
    None,
}

/// Which packets are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The oldest ones that wait.
    Oldest,
    /// The newest ones.
    Newest,
    /// Those of pictures that no other refers to, before anything else.
    Pictures,
}

/// Limits; what is beyond is refused with 503.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections of clients.
    pub connections: usize,
    /// Those of one address.
    pub per_client: usize,
    /// Those of one stream.
    pub per_stream: usize,
    /// Streams at once.
    pub streams: usize,
    /// Bytes of a request's head.
    pub head: usize,
    /// Requests of one connection.
    pub requests: u32,
    /// Wrong passwords and tokens of one address in a minute.
    pub guesses: u32,
}

/// Timeouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For a request, from its first byte on.
    pub request: Duration,
    /// For the next request of a connection to begin.
    pub idle: Duration,
    /// How long a connection that passes byte by byte (TLS, WebSocket) may be silent.
    pub tunnel: Duration,
    /// For the first packet of a stream.
    pub first: Duration,
    /// How long a stream is kept that nobody views any more.
    pub linger: Duration,
    /// For an answer of the host's own HTTP server, and between two parts of it.
    pub server: Duration,
}

/// Streams of the program at most: places of its table `ring.streams`.
pub const MOST_STREAMS: usize = 128;
/// Connections of the program at most; numbers begin at 1.
pub const MOST_CONNECTIONS: usize = 24575;
/// Members of a stream's group at most.
pub const MOST_VIEWERS: usize = 16384;

impl Default for Delivery {
    fn default() -> Self {
        Delivery {
            title: None,
            fill: Fill::Buffered,
            rate: Rate::Tfrc,
            policy: Policy::Oldest,
            playout: Duration::from_secs(1),
            reorder: Duration::ZERO,
            bandwidth: None,
            start: Start::Newest,
            start_within: Duration::from_secs(2),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            listen: Vec::new(),
            sources: Arc::default(),
            streams: BTreeMap::new(),
            delivery: Delivery::default(),
            groups: Vec::new(),
            interface: None,
            http_server: None,
            https_server: None,
            pages: true,
            limits: Limits {
                connections: 4096,
                per_client: 64,
                per_stream: 4096,
                streams: MOST_STREAMS,
                head: 8192,
                requests: 1000,
                guesses: 10,
            },
            timeouts: Timeouts {
                request: Duration::from_secs(10),
                idle: Duration::from_secs(15),
                tunnel: Duration::from_secs(600),
                first: Duration::from_secs(10),
                linger: Duration::from_secs(5),
                server: Duration::from_secs(30),
            },
            outlast: false,
            log: None,
        }
    }
}

impl Settings {
    /// Whether clients may name a group, or an own address, by `/rtp/` and `/udp/`.
    pub fn permits_group(&self, address: IpAddr) -> bool {
        self.groups.iter().any(|(prefix, length)| media::settings::is_in(*prefix, *length, address))
    }

    /// The stream of the configuration that comes to a place.
    pub fn named(&self, place: &Place) -> Option<&str> {
        let is_it = |plain: &Plain| {
            plain.places.first() == Some(&(place.address, place.port))
                && (place.source.is_none() || place.source == plain.source)
        };
        let found = self.sources.streams.iter().find(|own| own.plain.as_deref().is_some_and(is_it));
        found.map(|own| own.name.as_str())
    }

    /// How a stream is delivered.
    pub fn delivery(&self, name: Option<&str>) -> &Delivery {
        name.and_then(|name| self.streams.get(name)).unwrap_or(&self.delivery)
    }
}

//! What `[controllers.media]` says. `read` reads it.

pub mod access;
pub mod cache;
pub mod http;
pub mod members;
pub mod peers;
pub mod plain;
pub mod pools;
pub mod read;

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use control::access_log::LogSettings;
use wire::rtsp::auth::Scheme;

use self::access::Access;
use self::cache::{CacheSettings, Record};
use self::http::HttpSettings;
use self::peers::Peers;
use self::plain::Plain;
use self::pools::Pool;

/// The settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where RTSP connections are accepted.
    pub listen: Vec<SocketAddr>,
    /// The own port of RTP to receivers, an even number; RTCP has the next one.
    pub media_port: u16,
    /// Own ports of streams from origins, taken in pairs.
    pub ports: RangeInclusive<u16>,
    /// Origins that clients may ask for by `rtsp://proxy/host[:port]/path`.
    pub origins: Vec<Allowed>,
    /// Streams with names of their own.
    pub streams: Vec<Named>,
    /// Who proves a password of their own.
    pub users: Vec<Credentials>,
    /// How they may prove it.
    pub schemes: Vec<Scheme>,
    /// Who may view streams that do not say it themselves.
    pub viewers: Arc<Access>,
    /// Origins that have the same streams, and peers.
    pub pools: Vec<Pool>,
    /// What this proxy is among peers, where it has some.
    pub peers: Option<Peers>,
    /// Limits.
    pub limits: Limits,
    /// Timeouts.
    pub timeouts: Timeouts,
    /// Where sessions are logged.
    pub log: Option<LogSettings>,
    /// Where streams are recorded.
    pub cache: Option<CacheSettings>,
    /// Where recordings are served by HTTP.
    pub http: Option<HttpSettings>,
    /// Whether sessions go on in the next process where this one is told to end.
    pub outlast: bool,
}

/// An origin, or several, that clients may ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// Addresses with a prefix in common.
    Prefix {
        /// The prefix.
        address: IpAddr,
        /// Its length in bits.
        length: u8,
    },
    /// A host by its name, on one port or on any.
    Host {
        /// The name in small letters, or an address.
        name: String,
        /// The port; none: any.
        port: Option<u16>,
    },
}

impl Allowed {
    /// Whether a host, as a client writes it, is one of these.
    pub fn permits(&self, host: &str, port: u16) -> bool {
        match self {
            Allowed::Prefix { address, length } => host.parse().is_ok_and(|own| is_in(*address, *length, own)),
            Allowed::Host { name, port: own } => name.eq_ignore_ascii_case(host) && own.is_none_or(|own| own == port),
        }
    }
}

/// Whether an address has a prefix.
pub fn is_in(prefix: IpAddr, length: u8, address: IpAddr) -> bool {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    };
    let differ = bits(prefix) ^ bits(address);
    prefix.is_ipv4() == address.is_ipv4() && differ.checked_shr(128 - u32::from(length)).unwrap_or(0) == 0
}

/// A stream with a name of its own: `rtsp://proxy/NAME`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// The name.
    pub name: String,
    /// The URL at its origin, without user and password; where it comes from a pool, that is in the place of the host.
    /// `publish:NAME` where it is published; `rtp://` or `udp://` where its source has no RTSP.
    pub url: String,
    /// The pool that it comes from.
    pub pool: Option<String>,
    /// Who asks for it there.
    pub credentials: Option<Credentials>,
    /// Whether it has no end, so that its viewers share one stream; where nothing is said its description decides.
    pub live: Option<bool>,
    /// Whether it comes on the connection to its origin; where nothing is said, where it does not come over UDP.
    pub carried: Option<bool>,
    /// Whether the origin is to send it to a group.
    pub multicast: bool,
    /// Its source, where that has no RTSP.
    pub plain: Option<Arc<Plain>>,
    /// When it is recorded.
    pub record: Record,
    /// Whether it is a film that is recorded while it is viewed, and served from what was recorded; where nothing is
    /// said, its URL decides.
    pub cache: Option<bool>,
    /// Who may view it; where nothing is said, whoever may view any.
    pub viewers: Option<Arc<Access>>,
    /// Who may publish it, where it does not come from an origin.
    pub publish: Option<Arc<Access>>,
}

/// Who somebody is: the proxy at an origin or in etcd, a client here.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Credentials {
    /// The user.
    pub user: String,
    /// The password.
    pub password: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Limits; what is beyond is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections of clients.
    pub connections: usize,
    /// Sessions of clients.
    pub sessions: usize,
    /// Connections, and sessions, of one address.
    pub per_client: usize,
    /// Receivers over UDP of one track of a stream.
    pub receivers: usize,
    /// Bytes that wait for a client that reads slowly; packets of streams that find no room are dropped.
    pub backlog: usize,
    /// Bytes of a live track that are kept for viewers that come late; 0: none.
    pub late_join: usize,
    /// Wrong passwords and tokens of one address in a minute.
    pub guesses: u32,
    /// Bits per second of all streams to clients together; none: any.
    pub bandwidth: Option<u64>,
    /// Those to one address.
    pub client_bandwidth: Option<u64>,
}

/// Timeouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Of a session without a sign of its client.
    pub session: Duration,
    /// Of a connection that has no session, and asks nothing.
    pub idle: Duration,
    /// For a connection to an origin.
    pub connect: Duration,
    /// For an answer of an origin.
    pub answer: Duration,
    /// Without a packet or a report of a live stream that plays; zero: for ever.
    pub silence: Duration,
    /// How long a stream that has lost its origin is tried again; zero: not at all.
    pub retry: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            listen: vec![SocketAddr::new(IpAddr::from([0u16; 8]), 554)],
            media_port: 8000,
            ports: 20000..=29999,
            origins: Vec::new(),
            streams: Vec::new(),
            users: Vec::new(),
            schemes: vec![Scheme::Sha256, Scheme::Md5],
            viewers: Arc::default(),
            pools: Vec::new(),
            peers: None,
            limits: Limits {
                connections: 4096,
                sessions: 4096,
                per_client: 64,
                receivers: 4096,
                backlog: 256 << 10,
                late_join: 0,
                guesses: 10,
                bandwidth: None,
                client_bandwidth: None,
            },
            timeouts: Timeouts {
                session: Duration::from_secs(60),
                idle: Duration::from_secs(60),
                connect: Duration::from_secs(5),
                answer: Duration::from_secs(10),
                silence: Duration::from_secs(10),
                retry: Duration::from_secs(30),
            },
            log: None,
            cache: None,
            http: None,
            outlast: false,
        }
    }
}

impl Settings {
    /// The stream of this name.
    pub fn stream(&self, name: &str) -> Option<&Named> {
        self.streams.iter().find(|own| own.name == name)
    }

    /// The password of a user.
    pub fn password(&self, user: &str) -> Option<&str> {
        self.users.iter().find(|own| own.user == user).map(|own| own.password.as_str())
    }

    /// Whether clients may ask for an origin by its name.
    pub fn permits(&self, host: &str, port: u16) -> bool {
        self.origins.iter().any(|own| own.permits(host, port))
    }

    /// Whether the proxy may connect to an address that a name stands for: no name leads to the proxy's own host, or to
    /// what is no host, unless the address itself is allowed.
    pub fn permits_address(&self, address: IpAddr) -> bool {
        let text = address.to_string();
        let special = match address.to_canonical() {
            IpAddr::V4(v4) => v4.is_loopback() || v4.is_link_local() || v4.is_broadcast() || v4.octets()[0] == 0,
            IpAddr::V6(v6) => v6.is_loopback() || v6.is_unicast_link_local() || v6.is_unspecified(),
        };
        let own = |own: &Allowed| match own {
            Allowed::Prefix { .. } => own.permits(&text, 0),
            Allowed::Host { name, .. } => name == &text,
        };
        !address.is_multicast()
            && (!special
                || self.origins.iter().any(own)
                || self.pools.iter().flat_map(|pool| &pool.servers).any(|server| server.host == text)
                || self
                    .streams
                    .iter()
                    .any(|stream| wire::rtsp::url::Url::parse(&stream.url).is_some_and(|url| url.host == text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_allowed_by_prefix_and_by_name() {
        let mut settings = Settings::default();
        assert!(!settings.permits("10.0.2.11", 554));
        settings.origins = vec![
            Allowed::Prefix { address: "10.0.2.0".parse().unwrap(), length: 24 },
            Allowed::Prefix { address: "2001:db8::".parse().unwrap(), length: 32 },
            Allowed::Host { name: "camera.example".into(), port: Some(8554) },
            Allowed::Host { name: "any.example".into(), port: None },
        ];
        for (host, port, permitted) in [
            ("10.0.2.11", 1, true),
            ("10.0.3.11", 1, false),
            ("2001:db8:1::1", 1, true),
            ("::ffff:10.0.2.11", 1, false),
            ("CAMERA.example", 8554, true),
            ("camera.example", 554, false),
            ("any.example", 1, true),
            ("x.any.example", 1, false),
        ] {
            assert_eq!(settings.permits(host, port), permitted, "{host}:{port}");
        }
        for (address, permitted) in [("127.0.0.1", false), ("::1", false), ("10.9.9.9", true), ("239.0.0.1", false)] {
            assert_eq!(settings.permits_address(address.parse().unwrap()), permitted, "{address}");
        }
    }
}

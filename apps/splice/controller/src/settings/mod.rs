//! What the configuration says: `[controllers.splice]`, read by `read`.

pub mod address;
pub mod read;

use std::net::Ipv6Addr;
use std::sync::Arc;

use control::access_log::LogSettings;

/// Connections to a server that no client has, at most.
pub const MOST_IDLE: usize = 256;

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Ports with addresses of their own.
    pub interfaces: Vec<Arc<Interface>>,
    /// Groups of servers. A server of one of these, or of an interface, has it still when another configuration has it
    /// no more.
    pub pools: Vec<Arc<Pool>>,
    /// Virtual addresses.
    pub services: Vec<Service>,
    /// How long what may take.
    pub timeouts: Timeouts,
    /// Bytes of a request's head at most, and of what is kept of a request.
    pub request_head: usize,
    /// Bytes of a request's body at most.
    pub request_body: u64,
    /// Connections at most.
    pub connections: usize,
    /// What becomes of more.
    pub when_full: WhenFull,
    /// Where requests are logged.
    pub log: Option<LogSettings>,
}

/// What becomes of a client when there are as many connections as may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// It is refused.
    Refuse,
    /// The connection that has waited longest for its next request makes room.
    OldestIdle,
}

/// The client that servers see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressing {
    /// An own address.
    FullNat,
    /// The client, to whom they answer by way of Millrace.
    Transparent,
}

/// Whose requests may come to a server on a connection that others have used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// No client's.
    Never,
    /// Those that can be sent once more, when the server closes at that moment.
    Safe,
    /// All.
    Always,
}

/// A port with its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The port's number.
    pub port: u8,
    /// Its Ethernet address; zero as long as only the kernel knows it.
    pub mac: [u8; 6],
    /// The kernel has it, too: Ethernet address, addresses, routes and neighbours are the kernel's.
    pub is_shared: bool,
    /// Its own addresses with the lengths of their prefixes, as of IPv6. Servers see them.
    pub addresses: Vec<(Ipv6Addr, u8)>,
    /// Routers to servers that are on no link, one for each version.
    pub gateways: Vec<Ipv6Addr>,
    /// The first and the last own port towards servers.
    pub ports: (u16, u16),
}

/// How a server is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    /// One after the other, in proportion to their weights.
    RoundRobin,
    /// The one with the fewest connections for its weight.
    LeastConnections,
    /// By the client's address, so that it comes to the same one as long as that is there (Maglev).
    Source,
}

/// Servers that hold the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// How one is chosen.
    pub balance: Balance,
    /// The servers.
    pub servers: Vec<Server>,
    /// How it is found out whether they work.
    pub check: Check,
    /// The client that they see.
    pub addressing: Addressing,
    /// Whose requests may follow others' on a connection.
    pub reuse: Reuse,
    /// Connections to each server that are made before a client asks.
    pub preconnect: usize,
}

/// A server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its name.
    pub name: String,
    /// Its address; those of IPv4 are mapped.
    pub address: Ipv6Addr,
    /// Its port.
    pub port: u16,
    /// Its share; 0: no new requests.
    pub weight: u32,
    /// The interface that leads to it, by index.
    pub interface: usize,
    /// The receiver of the frames: itself, or a router.
    pub next_hop: Ipv6Addr,
    /// The kernel says which interface leads to the next hop, and which address the server sees.
    pub is_routed: bool,
    /// The addresses that it sees, by turns; at least one, but for those that the kernel has not told yet.
    pub sources: Vec<Ipv6Addr>,
}

/// A health check. Times are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The request and the status that is expected; without, a connection suffices.
    pub http: Option<HttpCheck>,
    /// From one to the next.
    pub interval: u64,
    /// How long one may take.
    pub timeout: u64,
    /// So many in a row that succeed make it up.
    pub rise: u32,
    /// So many in a row that fail make it down.
    pub fall: u32,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpCheck {
    /// The path.
    pub path: String,
    /// The host.
    pub host: String,
    /// The status expected.
    pub status: u16,
}

/// A virtual address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// Addresses and ports.
    pub endpoints: Vec<(Ipv6Addr, u16)>,
    /// What goes where: the first that matches.
    pub routes: Vec<Route>,
}

/// Which requests go to which pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The host in small letters; `*.` in front stands for one label or more.
    pub host: Option<String>,
    /// The path.
    pub path: PathMatch,
    /// Methods; none: all.
    pub methods: Vec<String>,
    /// The pool, by index.
    pub pool: usize,
}

/// Which paths match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathMatch {
    /// All.
    Any,
    /// This one.
    Exact(String),
    /// Those that begin with it.
    Prefix(String),
}

/// How long what may take, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From a request's first byte to the end of its head.
    pub request: u64,
    /// One attempt to connect to a server.
    pub connect: u64,
    /// From a request to the head of its response.
    pub response: u64,
    /// Between requests.
    pub keep_alive: u64,
    /// A connection on which nothing passes.
    pub idle: u64,
    /// A connection to a server that no client uses.
    pub idle_pool: u64,
}

impl Route {
    /// Whether a request takes this route.
    pub fn matches(&self, method: &str, host: &str, path: &str) -> bool {
        let host_matches = self.host.as_ref().is_none_or(|own| match own.strip_prefix('*') {
            Some(domain) => host.len() > domain.len() && host.ends_with(domain),
            None => own == host,
        });
        let path_matches = match &self.path {
            PathMatch::Any => true,
            PathMatch::Exact(own) => own == path,
            PathMatch::Prefix(own) => path.starts_with(own),
        };
        host_matches && path_matches && (self.methods.is_empty() || self.methods.iter().any(|own| own == method))
    }
}

impl Settings {
    /// The addresses and ports of all services, each with the number of its service.
    pub fn endpoints(&self) -> impl Iterator<Item = (usize, (Ipv6Addr, u16))> {
        let services = self.services.iter().enumerate();
        services.flat_map(|(at, own)| own.endpoints.iter().map(move |endpoint| (at, *endpoint)))
    }
}

impl Service {
    /// The pool of a request.
    pub fn pool(&self, method: &str, host: &str, path: &str) -> Option<usize> {
        self.routes.iter().find(|route| route.matches(method, host, path)).map(|route| route.pool)
    }
}

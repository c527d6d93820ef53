//! The servers: which of them work, and which one gets the next request.

pub mod checks;
pub mod idle_pool;
mod maglev;
pub mod neighbours;

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::Ipv6Addr;
use std::sync::Arc;

use control::admin_state::AdminState;
use wire::flow_key::FlowKey;
use wire::http::Request;
use wire::segment::TcpOptions;

use crate::data_path::{MARGIN, Offer, SCALE};
use crate::settings::address::holds;
use crate::settings::{Addressing, Balance, Interface, Pool, Reuse, Server, Settings};

/// A server with its state.
#[derive(Debug)]
pub struct ServerState {
    /// What the configuration says.
    pub server: Server,
    /// Its pool and the interface that leads to it, as in the configuration that had it last.
    pub pool: Arc<Pool>,
    /// See `pool`.
    pub interface: Arc<Interface>,
    /// Whether it is in the configuration still.
    pub configured: bool,
    /// Whether checks find it working.
    pub up: bool,
    /// Checks that have failed since the process began, as long as none has succeeded.
    pub failed: u32,
    /// When that changed last, in nanoseconds, and why.
    pub since: u64,
    /// See `since`.
    pub why: String,
    /// What an operator has said about it.
    pub admin: AdminState,
    /// Checks in a row that said otherwise than `up`.
    pub contrary: u32,
    /// What it can do: the options of its SYN and ACK.
    pub learned: Option<TcpOptions>,
    /// Connections to it.
    pub active: u32,
    /// The Ethernet address of the next hop.
    pub mac: Option<[u8; 6]>,
    /// Why the kernel says no way to it, where that is asked.
    pub no_way: Option<String>,
    /// Its credit in the weighted round.
    credit: i64,
}

/// Negotiated options of a client: its server must know them, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NegotiatedOptions {
    /// The greatest segment that the client takes.
    pub mss: u16,
    /// The client's window scale.
    pub scale: Option<u8>,
    /// Selective acknowledgements.
    pub sack: bool,
    /// Timestamps.
    pub times: bool,
}

/// All servers.
#[derive(Debug)]
pub struct Cluster {
    /// The configuration.
    pub settings: Arc<Settings>,
    /// Servers by number; those of earlier configurations stay.
    pub servers: Vec<ServerState>,
    /// Servers of each pool, by number.
    members: Vec<Vec<usize>>,
    /// The look-up table of each pool that needs one, for its present servers.
    maglev: Vec<Option<Vec<u16>>>,
    /// Which of the own addresses and ports was used last towards a server: pools may share servers. The first is any,
    /// since it is not known which ones a process before has used.
    last: HashMap<(Ipv6Addr, u16), usize>,
    /// Until when servers that were not found working yet are waited for, since the configuration came: no longer than
    /// clients may take for a request.
    undecided_until: u64,
}

/// Own ports that are tried at most: those that were used longest ago come first, so the others would not be free
/// either.
const MOST_TRIED: usize = 1024;

impl Cluster {
    /// From a configuration.
    pub fn new(settings: Arc<Settings>, now: u64) -> Cluster {
        let mut cluster = Cluster {
            settings: settings.clone(),
            servers: Vec::new(),
            members: Vec::new(),
            maglev: Vec::new(),
            last: HashMap::new(),
            undecided_until: 0,
        };
        cluster.configure(settings, now);
        cluster
    }

    /// Takes over another configuration. What is known of servers that are in both stays.
    pub fn configure(&mut self, settings: Arc<Settings>, now: u64) {
        let mut before: Vec<bool> =
            self.servers.iter_mut().map(|known| std::mem::take(&mut known.configured)).collect();
        self.members = Vec::new();
        for pool in &settings.pools {
            let mut members = Vec::new();
            for server in &pool.servers {
                let interface = &settings.interfaces[server.interface];
                let same = |known: &ServerState| {
                    let flow_key = (known.server.address, known.server.port) == (server.address, server.port);
                    flow_key && known.pool.name == pool.name && !known.configured
                };
                let found = self.servers.iter().position(same);
                let number = found.unwrap_or(self.servers.len());
                if found.is_none() {
                    self.servers.push(ServerState {
                        server: server.clone(),
                        pool: pool.clone(),
                        interface: interface.clone(),
                        configured: false,
                        up: false,
                        failed: 0,
                        since: now,
                        why: String::new(),
                        admin: AdminState::Ready,
                        contrary: 0,
                        learned: None,
                        active: 0,
                        mac: None,
                        no_way: None,
                        credit: 0,
                    });
                    before.push(false);
                }
                let known = &mut self.servers[number];
                if !before[number] {
                    // As long as it was in no configuration its health was not checked.
                    (known.up, known.failed, known.contrary) = (false, 0, 0);
                    (known.since, known.why) = (now, "not checked yet".into());
                }
                if (known.server.next_hop, known.interface.port) != (server.next_hop, interface.port) {
                    known.mac = None;
                }
                (known.server, known.pool, known.interface) = (server.clone(), pool.clone(), interface.clone());
                known.configured = true;
                members.push(number);
            }
            self.members.push(members);
        }
        self.maglev = vec![None; settings.pools.len()];
        self.undecided_until = now + settings.timeouts.request;
        self.settings = settings;
    }

    /// Says what a check of a server found: that it works, or why not. True where that changed whether it is up.
    pub fn checked(&mut self, number: usize, found: Result<(), String>, now: u64) -> bool {
        let works = found.is_ok();
        let known = &mut self.servers[number];
        let check = &known.pool.check;
        known.failed = if works { check.fall } else { known.failed.saturating_add(1) };
        known.contrary = if works == known.up { 0 } else { known.contrary + 1 };
        let changes = known.contrary >= if works { check.rise } else { check.fall };
        if changes && works != known.up {
            (known.up, known.contrary, known.since) = (works, 0, now);
            known.why = found.err().unwrap_or_else(|| "checks succeed".into());
            let pool = self.pool_of(number);
            pool.into_iter().for_each(|pool| self.maglev[pool] = None);
            return true;
        }
        false
    }

    /// Flow key of the segments that a server sends on a connection to come. `client` is the client that it is to see,
    /// by its own port where that is free; otherwise it sees the own addresses. Ports are used by turns, so that the
    /// server has forgotten the last connection by the time they come again. `free` says which are not in use.
    pub fn flow_key(
        &mut self,
        number: usize,
        client: Option<(Ipv6Addr, u16)>,
        mut free: impl FnMut(&FlowKey) -> bool,
    ) -> Option<FlowKey> {
        let ServerState { server, interface, .. } = &self.servers[number];
        let flow_key = |dst, dst_port| FlowKey { src: server.address, dst, src_port: server.port, dst_port };
        if let Some(own) = client.map(|(address, port)| flow_key(address, port)).filter(&mut free) {
            return Some(own);
        }
        let (first, last) = interface.ports;
        let sources = client.map_or(&server.sources[..], |_| &server.sources[..1]);
        let ports = usize::from(last - first) + 1;
        let all = ports * sources.len();
        if all == 0 {
            return None;
        }
        let any = || RandomState::new().build_hasher().finish() as usize % all;
        let used = self.last.entry((server.address, server.port)).or_insert_with(any);
        for _ in 0..all.min(MOST_TRIED) {
            *used = if *used == 0 { all } else { *used } - 1;
            let (source, port) = (*used / ports % sources.len(), first + (*used % ports) as u16);
            let found = flow_key(client.map_or(sources[source], |(address, _)| address), port);
            if free(&found) {
                return Some(found);
            }
        }
        None
    }

    /// The place of a server's pool in the configuration; none where the configuration has the server no more.
    fn pool_of(&self, number: usize) -> Option<usize> {
        let known = &self.servers[number];
        let found = || self.settings.pools.iter().position(|pool| Arc::ptr_eq(pool, &known.pool));
        known.configured.then(found).flatten()
    }

    /// The pool of a request to a service.
    pub fn route(&self, service: usize, request: &Request) -> Option<usize> {
        self.settings.services.get(service)?.pool(&request.method, &request.host, &request.path)
    }

    /// The server that sends segments with such a flow key.
    pub fn find(&self, flow_key: &FlowKey) -> Option<usize> {
        let is = |own: &ServerState| {
            own.configured && (own.server.address, own.server.port) == (flow_key.src, flow_key.src_port)
        };
        self.servers.iter().position(is)
    }

    /// Whether it is not known yet whether a pool has a server that works and that this client can have.
    pub fn is_undecided(&self, pool: usize, client: Ipv6Addr, now: u64) -> bool {
        let fits = |own: &usize| self.has_version_of(*own, client) && self.servers[*own].server.weight > 0;
        let members = || self.members[pool].iter().copied().filter(fits);
        let waits = now < self.undecided_until
            && members().any(|own| self.awaits_checks(own) || self.servers[own].mac.is_none());
        waits && !members().any(|own| self.is_usable(own))
    }

    /// Whether checks have not decided yet whether a server works: none has succeeded, and fewer have failed than it
    /// takes.
    pub fn awaits_checks(&self, number: usize) -> bool {
        let known = &self.servers[number];
        known.failed < known.pool.check.fall
    }

    /// Whether a server's address is of the same version of IP as a client's: there is no translation from one to the
    /// other.
    fn has_version_of(&self, number: usize, client: Ipv6Addr) -> bool {
        let v4 = |address: Ipv6Addr| address.to_ipv4_mapped().is_some();
        v4(self.servers[number].server.address) == v4(client)
    }

    /// The client that a server sees instead of an own address, if that is so. Clients of its own network it would
    /// answer directly: there it sees an own address, too.
    pub fn seen(&self, number: usize, client: &FlowKey) -> Option<(Ipv6Addr, u16)> {
        let known = &self.servers[number];
        let transparent = known.pool.addressing == Addressing::Transparent;
        let direct = known.interface.addresses.iter().any(|prefix| holds(*prefix, client.src));
        (transparent && !direct).then_some((client.src, client.src_port))
    }

    /// Whether connections to a pool's servers may outlast a client's use of them.
    pub fn outlasts(&self, pool: usize) -> bool {
        let pool = &self.settings.pools[pool];
        pool.reuse != Reuse::Never && pool.addressing == Addressing::FullNat
    }

    /// Pool and name of a server.
    pub fn name(&self, number: usize) -> String {
        let known = &self.servers[number];
        format!("{}/{}", known.pool.name, known.server.name)
    }

    /// One connection to a server is over.
    pub fn left(&mut self, number: usize) {
        let known = &mut self.servers[number];
        known.active = known.active.saturating_sub(1);
    }

    /// Whether a server is asked anything.
    pub fn is_usable(&self, number: usize) -> bool {
        let known = &self.servers[number];
        let wanted = known.configured && known.admin == AdminState::Ready && known.server.weight > 0;
        wanted && known.up && known.mac.is_some()
    }

    /// Whether a server can take a request of such a client.
    pub fn serves(&self, number: usize, pool: usize, negotiated: &NegotiatedOptions) -> bool {
        let known = &self.servers[number];
        let can = known
            .learned
            .is_none_or(|own| (own.sack || !negotiated.sack) && (own.times.is_some() || !negotiated.times));
        self.is_usable(number) && self.pool_of(number) == Some(pool) && can
    }

    /// The server for a request of a client, other than those that were tried.
    pub fn choose(
        &mut self,
        pool: usize,
        client: Ipv6Addr,
        negotiated: &NegotiatedOptions,
        tried: &[usize],
    ) -> Option<usize> {
        let fit = |own: &&usize| {
            !tried.contains(own) && self.has_version_of(**own, client) && self.serves(**own, pool, negotiated)
        };
        let able: Vec<usize> = self.members[pool].iter().filter(fit).copied().collect();
        match self.settings.pools[pool].balance {
            Balance::RoundRobin => self.in_turn(&able),
            Balance::LeastConnections => {
                // Connections for its weight, compared without a division; the earlier one of equals.
                let load =
                    |own: usize| (u64::from(self.servers[own].active), u64::from(self.servers[own].server.weight));
                able.into_iter().reduce(|best, own| {
                    let ((a, wa), (b, wb)) = (load(best), load(own));
                    if (b + 1) * wa < (a + 1) * wb { own } else { best }
                })
            }
            Balance::Source => {
                if self.maglev[pool].is_none() {
                    self.maglev[pool] = Some(self.table(pool));
                }
                let table = self.maglev[pool].as_deref()?;
                let start = maglev::start(client);
                // Those that this client can't have, or has tried, are passed over.
                let places = (0..table.len().min(able.len() * 100)).map(|at| table[(start + at) % table.len()]);
                let members = &self.members[pool];
                places.map(|place| members[usize::from(place)]).find(|own| able.contains(own)).or(able.first().copied())
            }
        }
    }

    /// Smooth weighted round robin: all get their weight as credit, the one with most pays for all.
    fn in_turn(&mut self, able: &[usize]) -> Option<usize> {
        let total: i64 = able.iter().map(|own| i64::from(self.servers[*own].server.weight)).sum();
        for own in able {
            let known = &mut self.servers[*own];
            known.credit += i64::from(known.server.weight);
        }
        let best = able
            .iter()
            .copied()
            .reduce(|best, own| if self.servers[own].credit > self.servers[best].credit { own } else { best })?;
        self.servers[best].credit -= total;
        Some(best)
    }

    /// The look-up table for the servers of a pool that are up.
    fn table(&self, pool: usize) -> Vec<u16> {
        let members = self.members[pool].iter().zip(0..);
        let up = members.filter(|(own, _)| self.servers[**own].up && self.servers[**own].server.weight > 0);
        let server = |own: usize| &self.servers[own].server;
        maglev::table(up.map(|(own, index)| (index, server(*own).address, server(*own).port, server(*own).weight)))
    }

    /// What the clients of a virtual address are offered: what all its servers that are known can do.
    pub fn offer(&self, number: u16, service: usize, endpoint: Ipv6Addr) -> Offer {
        let v4 = |address: Ipv6Addr| address.to_ipv4_mapped().is_some();
        let routes = &self.settings.services[service].routes;
        let own = |known: &&ServerState| {
            known.configured
                && routes.iter().any(|route| Arc::ptr_eq(&self.settings.pools[route.pool], &known.pool))
                && v4(known.server.address) == v4(endpoint)
        };
        let learned: Vec<TcpOptions> = self.servers.iter().filter(own).filter_map(|known| known.learned).collect();
        let known = !learned.is_empty();
        // What was not told is what every host must know (RFC 9293 section 3.7.1, RFC 8200 section 8.3).
        let least = if v4(endpoint) { 536 } else { 1220 };
        Offer {
            number,
            mss: learned.iter().map(|own| own.mss.unwrap_or(least)).min().unwrap_or(least),
            scale: if known { SCALE } else { 15 },
            sack: known && learned.iter().all(|own| own.sack),
            times: known && learned.iter().all(|own| own.times.is_some()),
            window: (self.settings.request_head + MARGIN).min(65535) as u16,
            learned: known,
        }
    }
}

//! The splicer: all connections, with the maps that find them, their timers, and the effects of their state machines
//! carried out.
//!
//! | file | what |
//! |---|---|
//! | `receive` | frames, and the connections that they belong to |
//! | `drive`, `select` | a state machine's events and effects; the choice of a server |
//! | `restore` | connections of a process before are taken up |
//! | `preconnect`, `checks`, `neighbours` | servers: the idle pool, health checks, Ethernet addresses |
//! | `eviction`, `candidates` | idle connections make room for new ones |
//! | `shared_interfaces` | interfaces that the kernel has, too: its routes are followed |
//! | `admin`, `own` | operators' states of servers, own addresses in the program's tables |

mod admin;
mod candidates;
mod checks;
mod drive;
mod eviction;
mod local_addresses;
mod neighbours;
mod preconnect;
mod receive;
pub mod restore;
mod select;
mod shared_interfaces;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::Ipv6Addr;
use std::sync::Arc;

use wire::flow_key::FlowKey;
use wire::fragments::Fragments;
use wire::keyed_map::KeyedMap;

use self::candidates::Candidates;
use crate::admin::metrics::Metrics;
use crate::cluster::checks::Check;
use crate::cluster::idle_pool::IdlePool;
use crate::cluster::neighbours::Neighbours;
use crate::cluster::{Cluster, NegotiatedOptions};
use crate::connection::client::Client;
use crate::connection::effect::{Effect, LetGo};
use crate::connection::event::Event;
use crate::connection::state::Connection;
use crate::data_path::DataPath;
use crate::settings::Settings;
use shared_interfaces::SharedInterfaces;

/// What a cookie says about the client, with where its request came in.
#[derive(Clone, Copy, Debug)]
pub struct Accepted {
    /// The port.
    pub port: u8,
    /// The number of the virtual address; see [`crate::data_path::Offer`].
    pub number: u16,
    /// Negotiated options, but for timestamps, which the segment itself shows.
    pub negotiated: NegotiatedOptions,
}

/// Which part of the splicer has a connection to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// A client's connection, by its number.
    Connection(u64),
    /// A health check of a server.
    Check(usize),
    /// The idle pool, by the server.
    Idle(usize),
}

/// The splicer.
pub struct Splicer<P> {
    /// The data path.
    pub path: P,
    /// The servers.
    pub cluster: Cluster,
    /// What is counted.
    pub metrics: Metrics,
    pub(crate) connections: KeyedMap<u64, Box<Connection>>,
    /// How many of them each service has, by its number.
    pub(crate) by_service: Vec<u64>,
    by_client: KeyedMap<FlowKey, u64>,
    by_server: KeyedMap<FlowKey, Owner>,
    pub(crate) idle: IdlePool,
    candidates: Candidates,
    wakes: BinaryHeap<Reverse<(u64, u64)>>,
    last_id: u64,
    checks: Vec<Check>,
    pub(crate) neighbours: Neighbours,
    pub(crate) fragments: Fragments,
    /// When it is looked again whether addresses are in use still that the configuration has no more.
    local_due: u64,
    shared: SharedInterfaces,
    /// Of the event at hand; here so that its memory is used again.
    effects: Vec<Effect>,
    /// Connections to servers that the event at hand lets go.
    let_go: Vec<LetGo>,
}

impl<P: DataPath> Splicer<P> {
    /// Without connections.
    pub fn new(settings: Arc<Settings>, path: P) -> Splicer<P> {
        let mut metrics = Metrics::default();
        metrics.configure(&settings);
        let services = settings.services.len();
        let cluster = Cluster::new(settings, path.now());
        let mut splicer = Splicer {
            path,
            cluster,
            metrics,
            connections: KeyedMap::default(),
            by_service: vec![0; services],
            by_client: KeyedMap::default(),
            by_server: KeyedMap::default(),
            idle: IdlePool::default(),
            candidates: Candidates::default(),
            wakes: BinaryHeap::new(),
            last_id: 0,
            checks: Vec::new(),
            neighbours: Neighbours::default(),
            fragments: Fragments::default(),
            local_due: u64::MAX,
            shared: SharedInterfaces::default(),
            effects: Vec::new(),
            let_go: Vec::new(),
        };
        splicer.offer_all();
        splicer
    }

    /// Takes over another configuration. Connections stay with the servers that they have.
    ///
    /// # Errors
    /// Where a table has no room. All is as it was then.
    pub fn configure(&mut self, settings: Arc<Settings>) -> Result<(), String> {
        let before = std::mem::replace(&mut self.cluster.settings, settings.clone());
        let put = self.put_local();
        self.cluster.settings = before;
        if put.is_err() {
            // There was room for what was there.
            let _ = self.put_local();
            return put;
        }
        self.metrics.configure(&settings);
        // Services are numbers to connections, and these may be others now. A connection belongs to the service that
        // has its address now, or where none has it to the one that had it.
        let place = |name: &str| settings.services.iter().position(|own| own.name == name);
        let old = self.cluster.settings.services.iter().map(|own| place(&own.name)).collect::<Vec<_>>();
        let new: HashMap<_, _> = settings.endpoints().map(|(service, endpoint)| (endpoint, service)).collect();
        for Client { key, service, .. } in self.connections.values_mut().map(|own| &mut own.client) {
            let now = new.get(&(key.dst, key.dst_port)).copied().or_else(|| old.get(*service).copied().flatten());
            *service = now.unwrap_or(usize::MAX);
        }
        self.count_by_service(settings.services.len());
        self.cluster.configure(settings, self.path.now());
        self.recall_admin();
        self.apply_ways();
        self.shared.due = 0;
        self.neighbours.reconsider();
        self.offer_all();
        self.check_soon();
        Ok(())
    }

    /// Goes on with another program's data path, and the settings that came with it.
    ///
    /// # Errors
    /// As of [`Splicer::configure`].
    pub fn go_on(&mut self, path: P, settings: Arc<Settings>) -> Result<(), String> {
        self.path = path;
        // Where the program's table of flow entries is not the one that they were in, no connection can go on.
        for id in self.ids() {
            let key = self.connections.get(&id).map(|own| own.client.key);
            if key.is_some_and(|key| self.path.entry(&key).is_none()) {
                self.handle(id, Event::Reset, &[]);
            }
        }
        self.configure(settings)
    }

    /// Says what clients are offered from now on.
    fn offer_all(&mut self) {
        let settings = self.cluster.settings.clone();
        let offer = |(number, (service, endpoint)): (u16, (usize, (Ipv6Addr, u16)))| {
            (endpoint, self.cluster.offer(number, service, endpoint.0))
        };
        let offers: Vec<_> = (1..).zip(settings.endpoints()).map(offer).collect();
        self.path.offer(&offers);
    }

    /// Connections that there are.
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// The numbers of all of them.
    fn ids(&self) -> Vec<u64> {
        self.connections.keys().copied().collect()
    }

    /// Whether there are as many as may be.
    pub fn is_full(&self) -> bool {
        self.connections.len() >= self.cluster.settings.connections
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// When [`Splicer::tick`] has something to do.
    pub fn next_wake(&self) -> u64 {
        let own = self.wakes.peek().map_or(u64::MAX, |Reverse((time, _))| *time);
        own.min(self.next_check())
            .min(self.next_question())
            .min(self.next_preconnect())
            .min(self.fragments.due())
            .min(self.local_due)
            .min(self.shared.due)
    }

    /// Does what is due.
    pub fn tick(&mut self) {
        let now = self.path.now();
        while let Some(Reverse((time, id))) = self.wakes.peek().copied().filter(|Reverse((time, _))| *time <= now) {
            self.wakes.pop();
            let Some(own) = self.connections.get_mut(&id).filter(|own| own.queued == time) else { continue };
            own.queued = u64::MAX;
            if own.wake <= now {
                self.handle(id, Event::Due, &[]);
            } else {
                // It was put off meanwhile.
                own.queued = own.wake;
                self.wakes.push(Reverse((own.wake, id)));
            }
        }
        self.follow_kernel();
        self.run_checks();
        self.preconnect();
        self.ask_neighbours();
        self.fragments.expire(now);
        self.expire_local();
    }
}

//! All connections: who a segment belongs to, and when something must be done.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::Ipv6Addr;
use std::sync::Arc;

use super::block::{Ends, Mode};
use super::books::Books;
use super::checks::Check;
use super::cluster::{Agreed, Cluster};
use super::connection::{Connection, Recent, State, Stream, Upstream};
use super::exchange::Ending;
use super::fragments::Fragments;
use super::icmp::IcmpError;
use super::idle::Idlers;
use super::maps::KeyedMap;
use super::neighbours::Neighbours;
use super::path::{DataPath, MARGIN};
use super::segment::{RST, Segment, TcpOptions};
use super::settings::{Settings, WhenFull};
use super::turn::{Owner, Turn};
use super::warm::Warm;

/// What a cookie says about the client, with where its request came in.
#[derive(Clone, Copy, Debug)]
pub struct Accepted {
    /// The port.
    pub port: u8,
    /// The number of the virtual address; see [`super::path::Offer`].
    pub number: u16,
    /// What was agreed on, but for timestamps, which the segment itself shows.
    pub agreed: Agreed,
}

/// The splicer.
pub struct Splicer<P> {
    /// The data path.
    pub path: P,
    /// The servers.
    pub cluster: Cluster,
    /// What is counted.
    pub books: Books,
    pub(super) connections: KeyedMap<u64, Box<Connection>>,
    by_client: KeyedMap<Ends, u64>,
    pub(super) by_server: KeyedMap<Ends, Owner>,
    pub(super) warm: Warm,
    pub(super) idlers: Idlers,
    wakes: BinaryHeap<Reverse<(u64, u64)>>,
    last_id: u64,
    pub(super) checks: Vec<Check>,
    pub(super) neighbours: Neighbours,
    pub(super) fragments: Fragments,
    /// When it is looked again whether addresses are in use still that the configuration has no more.
    pub(super) own_due: u64,
}

impl<P: DataPath> Splicer<P> {
    /// Without connections.
    pub fn new(settings: Arc<Settings>, path: P) -> Splicer<P> {
        let mut books = Books::default();
        books.configure(&settings);
        let cluster = Cluster::new(settings, path.now());
        let mut splicer = Splicer {
            path,
            cluster,
            books,
            connections: KeyedMap::default(),
            by_client: KeyedMap::default(),
            by_server: KeyedMap::default(),
            warm: Warm::default(),
            idlers: Idlers::default(),
            wakes: BinaryHeap::new(),
            last_id: 0,
            checks: Vec::new(),
            neighbours: Neighbours::default(),
            fragments: Fragments::default(),
            own_due: u64::MAX,
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
        let put = self.put_own();
        self.cluster.settings = before;
        if put.is_err() {
            // There was room for what was there.
            let _ = self.put_own();
            return put;
        }
        self.books.configure(&settings);
        // Services are numbers to connections, and these may be others now. A connection belongs to the service that has its address
        // now, or where none has it to the one that had it.
        let place = |name: &str| settings.services.iter().position(|own| own.name == name);
        let old = self.cluster.settings.services.iter().map(|own| place(&own.name)).collect::<Vec<_>>();
        let new: HashMap<_, _> = settings.endpoints().map(|(service, endpoint)| (endpoint, service)).collect();
        for connection in self.connections.values_mut() {
            let asked = (connection.client.dst, connection.client.dst_port);
            let service = new.get(&asked).copied().or_else(|| old.get(connection.service).copied().flatten());
            connection.service = service.unwrap_or(usize::MAX);
        }
        self.cluster.configure(settings, self.path.now());
        self.recall_admin();
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
        // Where the program's table of blocks is not the one that they were in, nobody can go on.
        for id in self.ids() {
            self.with(id, |turn| {
                if turn.path.block(&turn.c.client).is_none() {
                    turn.reset_client();
                }
            });
        }
        self.configure(settings)
    }

    /// Says what clients are offered from now on.
    pub(super) fn offer_all(&mut self) {
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
    pub(super) fn ids(&self) -> Vec<u64> {
        self.connections.keys().copied().collect()
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
            .min(self.next_warm())
            .min(self.fragments.due())
            .min(self.own_due)
    }

    /// The first segment of a request, with its valid cookie.
    pub fn request(&mut self, accepted: Accepted, frame: &[u8]) {
        let Some(segment) = Segment::parse(frame) else { return };
        let now = self.path.now();
        if let Some(old) = self.by_client.get(&segment.ends).copied() {
            // Its ends begin anew.
            self.with(old, |turn| turn.over());
        }
        let settings = self.cluster.settings.clone();
        // The number may be of the configuration before: the segment was on its way here.
        let asked = (segment.ends.dst, segment.ends.dst_port);
        let is_it = |(_, endpoint): &(usize, (Ipv6Addr, u16))| *endpoint == asked;
        let endpoint = settings.endpoints().nth(usize::from(accepted.number).wrapping_sub(1)).filter(is_it);
        let Some((service, _)) = endpoint.or_else(|| settings.endpoints().find(is_it)) else {
            // It has the service no more.
            return self.path.remove_block(&segment.ends);
        };
        let full = self.connections.len() >= settings.connections;
        if full && !(settings.when_full == WhenFull::OldestIdle && self.make_room()) {
            self.path.remove_block(&segment.ends);
            let reset = Segment {
                dst_mac: segment.src_mac,
                src_mac: segment.dst_mac,
                ends: segment.ends.turned(),
                seq: segment.ack,
                ack: 0,
                flags: RST,
                window: 0,
                options: TcpOptions::default(),
                payload: &[],
            };
            return self.path.send(accepted.port, &reset.frame());
        }
        let agreed = Agreed { times: segment.options.times.is_some(), ..accepted.agreed };
        let id = self.new_id();
        let connection = Connection {
            client: segment.ends,
            service,
            port: accepted.port,
            mac: segment.src_mac,
            own_mac: segment.dst_mac,
            agreed,
            state: State::Asking,
            requests: Stream::new(segment.seq, settings.request_head + MARGIN),
            request: None,
            start: segment.seq,
            acknowledged: segment.seq,
            next: segment.ack,
            acked: segment.ack,
            window: segment.window,
            times: segment.options.times.unwrap_or_default(),
            recent: Recent::default(),
            ahead: 0,
            heard: true,
            clock_at: now,
            upstream: None,
            connects: 0,
            tried: Vec::new(),
            answer: None,
            wake: u64::MAX,
            queued: u64::MAX,
            deadline: now + settings.timeouts.request,
            retry: u64::MAX,
            client_done: false,
            keeps_alive: true,
            closes: false,
            opened: now,
            asking: Some(now),
            exchange: None,
            exchanges: 0,
            up: 0,
            down: 0,
        };
        self.books.connected(&settings, service);
        self.add(id, connection);
        self.with(id, |turn| {
            turn.on_client(&segment, frame);
            // Mostly that has written the block; where not, the next process must know of it, too.
            if !turn.noted && !turn.gone {
                turn.hold_client();
            }
        });
    }

    /// A number that no connection has.
    pub(super) fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub(super) fn add(&mut self, id: u64, connection: Connection) {
        self.by_client.insert(connection.client, id);
        self.connections.insert(id, Box::new(connection));
    }

    /// A segment that a control block holds.
    pub fn held(&mut self, frame: &[u8]) {
        let Some(segment) = Segment::parse(frame) else { return };
        if let Some(id) = self.by_client.get(&segment.ends).copied() {
            return self.with(id, |turn| turn.on_client(&segment, frame));
        }
        match self.by_server.get(&segment.ends).copied() {
            Some(Owner::Connection(id)) => self.with(id, |turn| turn.on_server(&segment, frame)),
            Some(Owner::Check(server)) => self.on_check(server, &segment),
            Some(Owner::Warm(server)) => self.on_warm(server, &segment),
            // Nobody knows it any more.
            None => {
                let held = self.path.block(&segment.ends).is_some_and(|block| block.mode == Mode::Held);
                if held {
                    self.path.remove_block(&segment.ends);
                }
            }
        }
    }

    /// An ICMP error about a segment of Millrace's own, or one that a control block holds.
    pub fn error(&mut self, frame: &[u8]) {
        let Some(error) = IcmpError::parse(frame) else { return };
        let ends = error.ends.turned();
        if let Some(id) = self.by_client.get(&ends).copied() {
            return self.with(id, |turn| turn.on_client_error(frame));
        }
        match self.by_server.get(&ends).copied() {
            Some(Owner::Connection(id)) => self.with(id, |turn| turn.on_server_error(&error, frame)),
            Some(Owner::Check(server)) => self.on_check_error(server, &error),
            Some(Owner::Warm(server)) => self.on_warm_error(server, &error),
            None => {}
        }
    }

    /// Does what is due.
    pub fn tick(&mut self) {
        let now = self.path.now();
        while let Some(Reverse((time, id))) = self.wakes.peek().copied().filter(|Reverse((time, _))| *time <= now) {
            self.wakes.pop();
            let Some(own) = self.connections.get_mut(&id).filter(|own| own.queued == time) else { continue };
            own.queued = u64::MAX;
            if own.wake <= now {
                self.with(id, |turn| turn.on_time());
            } else {
                // It was put off meanwhile.
                own.queued = own.wake;
                self.wakes.push(Reverse((own.wake, id)));
            }
        }
        self.run_checks();
        self.keep_warm();
        self.ask_neighbours();
        self.fragments.expire(now);
        self.look_at_own();
    }

    /// Works on a connection.
    pub(super) fn with(&mut self, id: u64, work: impl FnOnce(&mut Turn<P>)) {
        self.turn(id, true, work);
    }

    /// Reads what is known of a connection. What is due stays due: whoever asks often must not put it off.
    pub(super) fn read(&mut self, id: u64, work: impl FnOnce(&mut Turn<P>)) {
        self.turn(id, false, work);
    }

    fn turn(&mut self, id: u64, changes: bool, work: impl FnOnce(&mut Turn<P>)) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let now = self.path.now();
        let mut turn = Turn {
            path: &mut self.path,
            cluster: &mut self.cluster,
            books: &mut self.books,
            by_server: &mut self.by_server,
            warm: &mut self.warm,
            id,
            c: connection,
            now,
            noted: false,
            gone: false,
        };
        work(&mut turn);
        if turn.gone {
            turn.break_exchange(Ending::Client);
            if let Some(Upstream { ends, server, .. }) = connection.upstream.take() {
                self.by_server.remove(&ends);
                self.cluster.left(server);
            }
            if self.by_client.get(&connection.client) == Some(&id) {
                self.by_client.remove(&connection.client);
            }
            self.connections.remove(&id);
            return;
        }
        if changes {
            connection.wake = connection.due(now);
        }
        // What is put off is looked at when it would have been due, so that a connection is rarely here more than once.
        if connection.wake < connection.queued {
            connection.queued = connection.wake;
            self.wakes.push(Reverse((connection.wake, id)));
        }
    }
}

//! Frames of the data path, and the connections that they belong to.

use std::net::Ipv6Addr;

use wire::icmp::IcmpError;
use wire::segment::{RST, Segment, TcpOptions};

use super::{Accepted, Owner, Splicer};
use crate::cluster::NegotiatedOptions;
use crate::connection::client::{Client, Persistence};
use crate::connection::clock::ClientClock;
use crate::connection::event::Event;
use crate::connection::exchange::Account;
use crate::connection::out_of_order::OutOfOrder;
use crate::connection::state::{Connection, Reading, State};
use crate::connection::stream::Stream;
use crate::connection::upstream::Hop;
use crate::data_path::{DataPath, MARGIN};
use crate::settings::WhenFull;
use crate::tables::flow_entry::Mode;

impl<P: DataPath> Splicer<P> {
    /// The first segment of a request, with its valid cookie.
    pub fn request(&mut self, accepted: Accepted, frame: &[u8]) {
        let Some(segment) = Segment::parse(frame) else { return };
        let now = self.path.now();
        if let Some(old) = self.by_client.get(&segment.flow_key).copied() {
            // Its flow key begins anew.
            self.handle(old, Event::Replaced, &[]);
        }
        let settings = self.cluster.settings.clone();
        // The number may be of the configuration before: the segment was on its way here.
        let asked = (segment.flow_key.dst, segment.flow_key.dst_port);
        let is_it = |(_, endpoint): &(usize, (Ipv6Addr, u16))| *endpoint == asked;
        let endpoint = settings.endpoints().nth(usize::from(accepted.number).wrapping_sub(1)).filter(is_it);
        let Some((service, _)) = endpoint.or_else(|| settings.endpoints().find(is_it)) else {
            // It has the service no more.
            return self.path.remove_entry(&segment.flow_key);
        };
        if self.is_full() && !(settings.when_full == WhenFull::OldestIdle && self.make_room()) {
            self.path.remove_entry(&segment.flow_key);
            let reset = Segment {
                dst_mac: segment.src_mac,
                src_mac: segment.dst_mac,
                flow_key: segment.flow_key.reversed(),
                seq: segment.ack,
                ack: 0,
                flags: RST,
                window: 0,
                options: TcpOptions::default(),
                payload: &[],
            };
            return self.path.send(accepted.port, &reset.frame());
        }
        let options = NegotiatedOptions { times: segment.options.times.is_some(), ..accepted.negotiated };
        let times = segment.options.times.unwrap_or_default();
        let client = Client {
            key: segment.flow_key,
            service,
            hop: Hop { port: accepted.port, mac: segment.src_mac, own_mac: segment.dst_mac },
            options,
            requests: Stream::new(segment.seq, settings.request_head + MARGIN),
            out_of_order: OutOfOrder::default(),
            acknowledged: segment.seq,
            next: segment.ack,
            acked: segment.ack,
            window: segment.window,
            clock: ClientClock { times, heard: true, at: now, ..ClientClock::default() },
            done: false,
            persistence: Persistence::KeepAlive,
            connects: 0,
            account: Account::new(now),
        };
        let reading = Reading { began: Some(now), ..Reading::until(now + settings.timeouts.request, None) };
        self.metrics.connected(&settings, service);
        let id = self.new_id();
        self.add(id, Connection::new(client, State::Reading(reading)));
        // Mostly that writes the client's flow entry; where not, the next process must know of the connection, too.
        if !self.handle(id, Event::Client(&segment), frame) {
            self.handle(id, Event::Note, &[]);
        }
    }

    /// A number that no connection has.
    pub(super) fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub(super) fn add(&mut self, id: u64, connection: Connection) {
        self.by_service.get_mut(connection.client.service).into_iter().for_each(|own| *own += 1);
        self.by_client.insert(connection.client.key, id);
        self.connections.insert(id, Box::new(connection));
    }

    /// Counts the connections of each service anew, of so many.
    pub(super) fn count_by_service(&mut self, services: usize) {
        self.by_service = vec![0; services];
        for connection in self.connections.values() {
            self.by_service.get_mut(connection.client.service).into_iter().for_each(|own| *own += 1);
        }
    }

    /// A segment that a flow entry holds.
    pub fn held(&mut self, frame: &[u8]) {
        let Some(segment) = Segment::parse(frame) else { return };
        if let Some(id) = self.by_client.get(&segment.flow_key).copied() {
            self.handle(id, Event::Client(&segment), frame);
            return;
        }
        match self.by_server.get(&segment.flow_key).copied() {
            Some(Owner::Connection(id)) => _ = self.handle(id, Event::Server(&segment), frame),
            Some(Owner::Check(server)) => self.on_check(server, &segment),
            Some(Owner::Idle(server)) => self.on_idle(server, &segment),
            // It is not known any more.
            None => {
                let held = self.path.entry(&segment.flow_key).is_some_and(|entry| entry.mode == Mode::Held);
                if held {
                    self.path.remove_entry(&segment.flow_key);
                }
            }
        }
    }

    /// An ICMP error about a segment of Millrace's own, or one that a flow entry holds.
    pub fn error(&mut self, frame: &[u8]) {
        let Some(error) = IcmpError::parse(frame) else { return };
        let key = error.flow_key.reversed();
        if let Some(id) = self.by_client.get(&key).copied() {
            self.handle(id, Event::ClientError, frame);
            return;
        }
        match self.by_server.get(&key).copied() {
            Some(Owner::Connection(id)) => _ = self.handle(id, Event::ServerError(&error), frame),
            Some(Owner::Check(server)) => self.on_check_error(server, &error),
            Some(Owner::Idle(server)) => self.on_idle_error(server, &error),
            None => {}
        }
    }
}

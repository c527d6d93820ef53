//! Connections' state machines at work: each event is handled, and its effects are carried out in order.

use std::cmp::Reverse;

use wire::flow_key::FlowKey;
use wire::keyed_map::KeyedMap;
use wire::segment::{ACK, RST, SYN, Segment};

use super::{Owner, Splicer};
use crate::admin::metrics::Metrics;
use crate::cluster::Cluster;
use crate::cluster::idle_pool::IdlePool;
use crate::connection::client::Client;
use crate::connection::context::Context;
use crate::connection::effect::{Effect, LetGo};
use crate::connection::event::Event;
use crate::connection::state::{Connection, State};
use crate::data_path::DataPath;
use crate::tables::flow_entry::FlowEntry;

/// What effects change: everything but the connections.
pub(super) struct Surroundings<'s, P> {
    pub(super) path: &'s mut P,
    pub(super) cluster: &'s mut Cluster,
    pub(super) metrics: &'s mut Metrics,
    pub(super) by_server: &'s mut KeyedMap<FlowKey, Owner>,
    pub(super) idle: &'s mut IdlePool,
    /// The connection's number, and the time.
    pub(super) id: u64,
    pub(super) now: u64,
    /// Whether the client's flow entry was written, and whether there was no room for one.
    noted: bool,
    full: bool,
    let_go: &'s mut Vec<LetGo>,
}

impl<P: DataPath> Splicer<P> {
    /// Has a connection handle an event that came with a frame. Whether that wrote the client's flow entry, or ended
    /// the connection.
    pub(crate) fn handle(&mut self, id: u64, event: Event, frame: &[u8]) -> bool {
        let last = match event {
            Event::Client(segment) if segment.has(ACK) && !segment.has(SYN | RST) => Some(segment),
            _ => None,
        };
        let mut noted = self.handle_one(id, event, frame);
        // It may have filled a gap.
        while let Some(last) = last
            && let Some(frame) = self.connections.get_mut(&id).and_then(|own| own.next_in_order(last))
            && let Some(segment) = Segment::parse(&frame)
        {
            noted |= self.handle_one(id, Event::Client(&segment), &frame);
        }
        noted
    }

    fn handle_one(&mut self, id: u64, event: Event, frame: &[u8]) -> bool {
        let Some(connection) = self.connections.get_mut(&id) else { return true };
        let now = self.path.now();
        let mut effects = std::mem::take(&mut self.effects);
        let mut around = Surroundings {
            path: &mut self.path,
            cluster: &mut self.cluster,
            metrics: &mut self.metrics,
            by_server: &mut self.by_server,
            idle: &mut self.idle,
            id,
            now,
            noted: false,
            full: false,
            let_go: &mut self.let_go,
        };
        let mut next = Some(event);
        while let Some(event) = next.take() {
            let parts = (&*around.cluster, &*around.idle, around.metrics.logs());
            connection.handle(event, &mut Context::new((id, now), around.path, parts, &mut effects));
            for effect in effects.drain(..) {
                let follows = around.carry_out(effect, &connection.client, frame);
                next = next.or(follows);
            }
            if next.is_none() && std::mem::take(&mut around.full) {
                next = Some(Event::TableFull);
            }
        }
        around.let_go();
        let noted = around.noted;
        self.effects = effects;
        if matches!(connection.state, State::Over) {
            let key = connection.client.key;
            if self.by_client.get(&key) == Some(&id) {
                self.by_client.remove(&key);
            }
            self.by_service.get_mut(connection.client.service).into_iter().for_each(|own| *own -= 1);
            self.connections.remove(&id);
            return true;
        }
        connection.wake = connection.due(now);
        // What is put off is looked at when it would have been due, so that a connection is rarely here more than once.
        if connection.wake < connection.queued {
            connection.queued = connection.wake;
            self.wakes.push(Reverse((connection.wake, id)));
        }
        noted
    }

    /// Reads what is known of a connection. What is due stays due: frequent queries must not put it off.
    pub(crate) fn read<T>(&mut self, id: u64, work: impl FnOnce(&mut Connection, &mut Context) -> T) -> Option<T> {
        let connection = self.connections.get_mut(&id)?;
        let now = self.path.now();
        let parts = (&self.cluster, &self.idle, self.metrics.logs());
        let mut cx = Context::new((id, now), &mut self.path, parts, &mut self.effects);
        Some(work(connection, &mut cx))
    }
}

impl<P: DataPath> Surroundings<'_, P> {
    /// Carries out an effect of a connection, whose event came with a frame. The event that follows, if one does.
    fn carry_out(&mut self, effect: Effect, client: &Client, frame: &[u8]) -> Option<Event<'static>> {
        match effect {
            Effect::Send { port, frame } => self.path.send(port, &frame),
            Effect::Relay => self.path.relay(frame),
            Effect::RelayPart(part) => self.path.relay(&part),
            Effect::RelayError => self.path.relay_error(frame),
            Effect::Set { key, entry } => {
                self.noted |= key == client.key;
                self.full |= !self.path.set_entry(&key, &entry);
            }
            Effect::Update { key, entry } => {
                self.noted |= key == client.key;
                self.update(&key, entry);
            }
            Effect::Remove(key) => self.path.remove_entry(&key),
            Effect::LetGo(own) => self.let_go.push(own),
            Effect::Unbind { key, server } => {
                self.by_server.remove(&key);
                self.cluster.left(server);
            }
            Effect::Keep(idle) => {
                let peer = idle.conn.peer;
                self.cluster.left(peer.server);
                self.idle.keep(idle, self.now);
                self.by_server.insert(peer.key, Owner::Idle(peer.server));
            }
            Effect::Select(select) => return Some(self.select(select)),
            Effect::ReportRelayed { of_client } => return Some(Event::Relayed { of_client }),
            Effect::Count(metric) => self.metrics.count(&self.cluster.settings, client.service, metric),
            Effect::Finish(finished) => {
                self.metrics.finish(&self.cluster.settings, client.service, &finished);
                self.metrics.log(self.cluster, &client.key, client.service, &finished);
            }
            Effect::Learn { server, options } => self.cluster.servers[server].learned = Some(options),
        }
        None
    }

    /// Lets connections to servers go, unless they were taken up since.
    fn let_go(&mut self) {
        for LetGo { key, entry, word } in self.let_go.drain(..) {
            match (entry, self.by_server.get(&key)) {
                (Some(entry), Some(Owner::Idle(_))) => _ = self.path.set_entry(&key, &entry),
                (None, None) => self.path.remove_entry(&key),
                _ => {}
            }
            word.into_iter().for_each(|(port, frame)| self.path.send(port, &frame));
        }
    }

    /// Writes a flow entry where it differs from what is there, and keeps what the data path has noted.
    fn update(&mut self, key: &FlowKey, entry: FlowEntry) {
        let before = self.path.entry(key);
        let entry = entry.keep_noted(before.as_ref());
        if before.as_ref() != Some(&entry) {
            self.full |= !self.path.update_entry(key, &entry);
        }
    }
}

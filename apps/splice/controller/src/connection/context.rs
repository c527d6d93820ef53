//! What a state machine sees of the rest of the splicer while it handles an event. It changes nothing of it.

use wire::flow_key::FlowKey;

use super::effect::{Effect, Metric};
use crate::cluster::Cluster;
use crate::cluster::idle_pool::IdlePool;
use crate::data_path::FlowReader;
use crate::settings::Timeouts;
use crate::tables::flow_entry::{FlowEntry, second};

/// The context of one event.
pub struct Context<'c> {
    /// The time, in nanoseconds.
    pub now: u64,
    /// The connection's number.
    pub id: u64,
    /// The servers.
    pub cluster: &'c Cluster,
    /// Connections to them that no client has.
    pub idle: &'c IdlePool,
    /// Whether requests are logged.
    pub logs: bool,
    /// Where flow entries are read.
    flows: &'c mut dyn FlowReader,
    /// What is to be done, in order.
    effects: &'c mut Vec<Effect>,
}

impl<'c> Context<'c> {
    /// Of one event of a connection, at a time.
    pub fn new(
        (id, now): (u64, u64),
        flows: &'c mut dyn FlowReader,
        (cluster, idle, logs): (&'c Cluster, &'c IdlePool, bool),
        effects: &'c mut Vec<Effect>,
    ) -> Context<'c> {
        Context { now, id, cluster, idle, logs, flows, effects }
    }

    /// Has something done behind all that was pushed before.
    pub fn push(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Has something counted.
    pub fn count(&mut self, metric: Metric) {
        self.push(Effect::Count(metric));
    }

    /// Has a frame sent.
    pub fn send(&mut self, port: u8, frame: Vec<u8>) {
        self.push(Effect::Send { port, frame });
    }

    /// A flow entry as it will be when what was pushed is done.
    pub fn entry(&mut self, key: &FlowKey) -> Option<FlowEntry> {
        let mut found = self.flows.read_entry(key);
        for effect in self.effects.iter() {
            match effect {
                Effect::Set { key: own, entry } if own == key => found = Some(entry.clone()),
                Effect::Update { key: own, entry } if own == key => {
                    found = Some(entry.clone().keep_noted(found.as_ref()))
                }
                Effect::Remove(own) if own == key => found = None,
                Effect::LetGo(own) if own.key == *key => found = own.entry.clone(),
                _ => {}
            }
        }
        found
    }

    /// Has the data path read no head of a response any more: the flow entry of the server's segments as it is then. To
    /// be called before anything about that entry is pushed.
    pub fn end_awaiting(&mut self, key: &FlowKey) -> Option<FlowEntry> {
        self.flows.end_awaiting(key)
    }

    /// The time as flow entries have it.
    pub fn seconds(&self) -> u32 {
        second(self.now)
    }

    /// How long what may take.
    pub fn timeouts(&self) -> Timeouts {
        self.cluster.settings.timeouts
    }
}

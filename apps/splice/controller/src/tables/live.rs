//! The tables of a running instance that flow entries are in.

use baker::ir::TableError;
use dataplane::controller::{NameError, NamedTables, Table};
use wire::flow_key::FlowKey;

use crate::key::{Key, key, of_key};
use crate::tables::next_hops::NextHop;
use crate::tables::packed::{Packed, Tables};

/// The tables that flow entries are in.
#[derive(Debug)]
pub struct LiveTables {
    flows: Table<Key, Packed>,
    next_hops: Table<u32, NextHop>,
    all: NamedTables,
}

impl LiveTables {
    /// Those of a program that has them.
    pub fn of(tables: &NamedTables) -> Result<LiveTables, NameError> {
        let (flows, next_hops) = (tables.table("spliced.flows")?, tables.table("spliced.next_hops")?);
        Ok(LiveTables { flows, next_hops, all: tables.clone() })
    }

    /// Number of flow entries.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Tables for LiveTables {
    fn entry(&self, flow_key: &FlowKey) -> Option<Packed> {
        self.flows.get(&key(flow_key))
    }

    fn set_entry(&mut self, flow_key: &FlowKey, flow: &Packed) -> Result<Option<Packed>, TableError> {
        self.flows.exchange(&key(flow_key), flow)
    }

    fn remove_entry(&mut self, flow_key: &FlowKey) {
        self.flows.remove(&key(flow_key));
    }

    fn entries(&self) -> Vec<(FlowKey, Packed)> {
        self.flows.entries().into_iter().map(|(own, entry)| (of_key(own), entry)).collect()
    }

    fn next_hops(&self) -> Vec<(u32, NextHop)> {
        self.next_hops.entries()
    }

    fn add_next_hop(&mut self, number: u32, next_hop: &NextHop) -> bool {
        self.next_hops.prepare(&number, next_hop).is_ok()
    }

    fn clear_next_hops(&mut self, numbers: &[u32]) -> bool {
        let none: Vec<_> = numbers.iter().map(|number| (*number, NextHop::default())).collect();
        self.next_hops.set_all(&none).is_ok() && self.all.settle()
    }
}

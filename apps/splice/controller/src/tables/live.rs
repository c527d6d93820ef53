//! The tables of a running instance that control blocks are in.

use baker::ir::TableError;
use dataplane::controller::{NameError, NamedTables, Table};
use wire::flow_key::FlowKey;

use crate::key::{Key, key, of_key};
use crate::tables::next_hops::NextHop;
use crate::tables::packed::{Packed, Tables};

/// The tables that control blocks are in.
#[derive(Debug)]
pub struct LiveTables {
    blocks: Table<Key, Packed>,
    ways: Table<u32, NextHop>,
}

impl LiveTables {
    /// Those of a program that has them.
    pub fn of(tables: &NamedTables) -> Result<LiveTables, NameError> {
        Ok(LiveTables { blocks: tables.table("spliced.blocks")?, ways: tables.table("spliced.ways")? })
    }

    /// Number of blocks.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Tables for LiveTables {
    fn entry(&self, ends: &FlowKey) -> Option<Packed> {
        self.blocks.get(&key(ends))
    }

    fn set_entry(&mut self, ends: &FlowKey, block: &Packed) -> Result<Option<Packed>, TableError> {
        self.blocks.exchange(&key(ends), block)
    }

    fn remove_entry(&mut self, ends: &FlowKey) {
        self.blocks.remove(&key(ends));
    }

    fn entries(&self) -> Vec<(FlowKey, Packed)> {
        self.blocks.entries().into_iter().map(|(own, entry)| (of_key(own), entry)).collect()
    }

    fn next_hops(&self) -> Vec<(u32, NextHop)> {
        self.ways.entries()
    }

    fn set_next_hops(&mut self, ways: &[(u32, NextHop)]) -> bool {
        self.ways.set_all(ways).is_ok()
    }
}

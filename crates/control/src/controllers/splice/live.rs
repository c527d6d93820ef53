//! The tables of a running instance that control blocks are in.

use baker::ir::TableError;
use dataplane::controller::{NameError, NamedTables, Table};

use super::block::Ends;
use super::packed::{Packed, Tables};
use super::ways::Way;

/// The tables that control blocks are in.
#[derive(Debug)]
pub struct LiveTables {
    blocks: Table<Ends, Packed>,
    ways: Table<u32, Way>,
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
    fn block(&self, ends: &Ends) -> Option<Packed> {
        self.blocks.get(ends)
    }

    fn set_block(&mut self, ends: &Ends, block: &Packed) -> Result<Option<Packed>, TableError> {
        self.blocks.exchange(ends, block)
    }

    fn remove_block(&mut self, ends: &Ends) {
        self.blocks.remove(ends);
    }

    fn blocks(&self) -> Vec<(Ends, Packed)> {
        self.blocks.entries()
    }

    fn ways(&self) -> Vec<(u32, Way)> {
        self.ways.entries()
    }

    fn set_ways(&mut self, ways: &[(u32, Way)]) -> bool {
        self.ways.set_all(ways).is_ok()
    }
}

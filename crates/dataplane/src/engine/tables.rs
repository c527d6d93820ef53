//! The tables of a running program, whatever engine holds them.

use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};

use baker::ir::interp::{Machine, TableSource};
use baker::ir::{TableEntry, TableError, TableId, TableStore};

use super::interp::lock;
use crate::externs::refuse_inside;
use crate::tables::{NextMember, TableChange, Tables};

/// The tables of a running program, whatever engine holds them. May be used while packets are processed: native tables
/// without stopping them, the interpreter's between two batches.
#[derive(Clone, Debug)]
pub enum TableAccess {
    /// Shared native tables.
    Native(Arc<Tables>),
    /// The interpreter's own.
    Interp(Arc<Mutex<Machine>>),
}

impl TableAccess {
    /// Removes the entries that have not been used for longer than their table's idle time.
    pub fn expire(&self, now: u64) {
        match self {
            TableAccess::Native(tables) => tables.expire(now),
            TableAccess::Interp(machine) => lock(machine).expire(now),
        }
    }

    /// The time of the first deadline in a table of the interpreter. Those of native code are the workers'.
    pub(crate) fn next_deadline(&self, table: TableId) -> Option<u64> {
        match self {
            TableAccess::Native(_) => None,
            TableAccess::Interp(machine) => lock(machine).next_deadline(table),
        }
    }

    /// The keys of at most `most` entries of the interpreter whose deadlines have come, by time and key.
    pub(crate) fn due(&self, table: TableId, now: u64, most: usize) -> Vec<Box<[u128]>> {
        match self {
            TableAccess::Native(_) => Vec::new(),
            TableAccess::Interp(machine) => {
                let mut machine = lock(machine);
                std::iter::from_fn(|| machine.due(table, now)).take(most).collect()
            }
        }
    }

    /// How many deadlines of a table of the interpreter timers have taken.
    pub(crate) fn deadlines_taken(&self, table: TableId) -> u64 {
        match self {
            TableAccess::Native(_) => 0,
            TableAccess::Interp(machine) => lock(machine).deadlines_taken(table),
        }
    }

    /// See [`Tables::tell`]; the interpreter's tables tell nothing.
    pub fn tell(&self, changes: SyncSender<TableChange>) -> bool {
        match self {
            TableAccess::Native(tables) => tables.tell(changes),
            TableAccess::Interp(_) => return false,
        }
        true
    }

    /// See [`Tables::is_told`].
    pub(crate) fn is_told(&self) -> bool {
        self.native().is_some_and(|tables| tables.is_told())
    }

    /// See [`Tables::visit`].
    pub fn visit(&self, table: TableId, mut entry_is: impl FnMut(&[u128], Option<u32>, &[u128])) {
        match self {
            TableAccess::Native(tables) => tables.visit(table, entry_is),
            TableAccess::Interp(machine) => {
                let entries = lock(machine).dump(table);
                entries.iter().for_each(|entry| entry_is(&entry.key, entry.prefix_len, &entry.value));
            }
        }
    }

    /// See [`Tables::dump_kept`].
    pub fn dump_kept(&self, table: TableId) -> Vec<TableEntry> {
        match self {
            TableAccess::Native(tables) => tables.dump_kept(table),
            TableAccess::Interp(machine) => lock(machine).dump(table),
        }
    }

    /// See [`Tables::insert_kept`].
    pub fn insert_kept(&mut self, table: TableId, entry: &TableEntry) -> Result<(), TableError> {
        match self {
            TableAccess::Native(tables) => tables.insert_kept(table, entry),
            TableAccess::Interp(machine) => lock(machine).insert(table, entry),
        }
    }

    /// As [`TableStore::insert`], of numbers that the caller has anywhere: native tables allocate nothing for them.
    pub fn set(&self, table: TableId, key: &[u128], prefix_len: Option<u32>, value: &[u128]) -> Result<(), TableError> {
        refuse_inside();
        match self {
            TableAccess::Native(tables) => tables.set(table, key, prefix_len, value),
            TableAccess::Interp(machine) => {
                let entry = TableEntry { key: key.to_vec(), prefix_len, value: value.to_vec() };
                lock(machine).insert(table, &entry)
            }
        }
    }

    /// See [`Tables::prepare`].
    pub fn prepare(&self, table: TableId, key: &[u128], value: &[u128]) -> Result<(), TableError> {
        refuse_inside();
        match self {
            TableAccess::Native(tables) => tables.prepare(table, key, value),
            TableAccess::Interp(_) => self.set(table, key, None, value),
        }
    }

    /// See [`Tables::change_if`].
    pub fn change_if(
        &self,
        table: TableId,
        key: &[u128],
        prefix_len: Option<u32>,
        value: Option<&[u128]>,
        wanted: &mut dyn FnMut(Option<&[u128]>) -> bool,
    ) -> Result<bool, TableError> {
        refuse_inside();
        match self {
            TableAccess::Native(tables) => tables.change_if(table, key, prefix_len, value, wanted),
            TableAccess::Interp(machine) => {
                let mut machine = lock(machine);
                if !wanted(machine.get(table, key, prefix_len).ok().as_deref()) {
                    return Ok(false);
                }
                match value {
                    Some(value) => {
                        let entry = TableEntry { key: key.to_vec(), prefix_len, value: value.to_vec() };
                        machine.insert(table, &entry)?;
                    }
                    None => machine.remove(table, key, prefix_len)?,
                }
                Ok(true)
            }
        }
    }

    /// What a packet's look-up finds.
    pub fn lookup(&self, table: TableId, key: &[u128]) -> Option<Vec<u128>> {
        refuse_inside();
        match self {
            TableAccess::Native(tables) => tables.lookup(table, key),
            TableAccess::Interp(machine) => lock(machine).find(table, key),
        }
    }

    /// The value of the longest prefix that holds a number, in an `lpm` table.
    pub fn find(&self, table: TableId, number: u128) -> Option<Vec<u128>> {
        self.lookup(table, &[number])
    }

    /// See [`Tables::settle`]; with the interpreter no look-up is under way where tables can be reached.
    pub fn settle(&self) -> bool {
        refuse_inside();
        self.native().is_none_or(|tables| tables.settle())
    }

    /// Sets an entry of a hash table; what it was until that could not be found any more goes to `before`, which has
    /// room for one number per field. Whether there was one.
    pub fn exchange(
        &self,
        table: TableId,
        key: &[u128],
        value: &[u128],
        before: &mut [u128],
    ) -> Result<bool, TableError> {
        refuse_inside();
        match self {
            TableAccess::Native(tables) => tables.exchange(table, key, value, before),
            TableAccess::Interp(machine) => {
                let mut machine = lock(machine);
                let found = machine.get(table, key, None);
                let entry = TableEntry { key: key.to_vec(), prefix_len: None, value: value.to_vec() };
                machine.insert(table, &entry)?;
                let found = found.ok().inspect(|values| before.copy_from_slice(values));
                Ok(found.is_some())
            }
        }
    }

    /// Adds a member with this value to a group of a table, under the least number that is free there; which.
    pub fn join(&self, table: TableId, group: u32, value: &[u128]) -> Result<u32, TableError> {
        refuse_inside();
        match self {
            TableAccess::Native(tables) => tables.join(table, group, value),
            TableAccess::Interp(machine) => lock(machine).join(table, group, value),
        }
    }

    /// The members of a group of a table as they are now, by number.
    pub fn members(&self, table: TableId, group: u32) -> Vec<u32> {
        refuse_inside();
        match self {
            TableAccess::Native(tables) => tables.members(table, group),
            TableAccess::Interp(machine) => {
                let machine = lock(machine);
                std::iter::successors(machine.next_member(table, group, 0), |member| {
                    machine.next_member(table, group, member + 1)
                })
                .collect()
            }
        }
    }

    /// The next member of a group from a number on, after at most so many words of 64 numbers, which are taken off. For
    /// workers.
    pub(crate) fn next_member(&self, table: TableId, group: u32, from: u32, words: &mut u32) -> NextMember {
        match self {
            TableAccess::Native(tables) => tables.next_member(table, group, from, words),
            TableAccess::Interp(machine) => {
                lock(machine).next_member(table, group, from).map_or(NextMember::End, NextMember::Member)
            }
        }
    }

    /// As [`TableStore::get`], into `values`, which has room for one number per field: native tables allocate nothing
    /// for them.
    pub fn get_to(
        &self,
        table: TableId,
        key: &[u128],
        prefix_len: Option<u32>,
        values: &mut [u128],
    ) -> Result<(), TableError> {
        refuse_inside();
        match self {
            TableAccess::Native(tables) => tables.get_to(table, key, prefix_len, values),
            TableAccess::Interp(machine) => {
                values.copy_from_slice(&lock(machine).get(table, key, prefix_len)?);
                Ok(())
            }
        }
    }

    /// The native tables, where that is the kind.
    pub(crate) fn native(&self) -> Option<&Arc<Tables>> {
        match self {
            TableAccess::Native(tables) => Some(tables),
            TableAccess::Interp(_) => None,
        }
    }
}

impl TableStore for TableAccess {
    fn insert(&mut self, table: TableId, entry: &TableEntry) -> Result<(), TableError> {
        refuse_inside();
        match self {
            TableAccess::Native(tables) => tables.insert(table, entry),
            TableAccess::Interp(machine) => lock(machine).insert(table, entry),
        }
    }

    fn insert_all(&mut self, table: TableId, entries: &mut dyn Iterator<Item = &TableEntry>) -> Result<(), TableError> {
        refuse_inside();
        match self {
            TableAccess::Native(tables) => tables.insert_all(table, entries),
            TableAccess::Interp(machine) => lock(machine).insert_all(table, entries),
        }
    }

    fn remove(&mut self, table: TableId, key: &[u128], prefix_len: Option<u32>) -> Result<(), TableError> {
        refuse_inside();
        match self {
            TableAccess::Native(tables) => tables.remove(table, key, prefix_len),
            TableAccess::Interp(machine) => lock(machine).remove(table, key, prefix_len),
        }
    }

    fn get(&self, table: TableId, key: &[u128], prefix_len: Option<u32>) -> Result<Vec<u128>, TableError> {
        refuse_inside();
        match self {
            TableAccess::Native(tables) => tables.get(table, key, prefix_len),
            TableAccess::Interp(machine) => lock(machine).get(table, key, prefix_len),
        }
    }

    fn count(&self, table: TableId) -> usize {
        refuse_inside();
        match self {
            TableAccess::Native(tables) => tables.count(table),
            TableAccess::Interp(machine) => lock(machine).count(table),
        }
    }

    fn dump(&self, table: TableId) -> Vec<TableEntry> {
        refuse_inside();
        match self {
            TableAccess::Native(tables) => tables.dump(table),
            TableAccess::Interp(machine) => lock(machine).dump(table),
        }
    }
}

impl TableSource for TableAccess {
    fn find(&self, table: TableId, key: &[u128]) -> Option<Vec<u128>> {
        self.lookup(table, key)
    }
}

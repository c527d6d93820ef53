//! All tables of a program, by number.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use baker::ir::{Program, TableEntry, TableError, TableId, TableStore};
use codegen::kernel::TableLocation;

use super::carry::Carried;
use super::epoch::Epochs;
use super::hold::HoldTable;
use super::journal::{Journal, TableChange};
use super::members::NextMember;
use super::slots::patiently;
use super::space::Space;
use super::table::{Kind, Table, TablesError};

/// All tables of one instance.
#[derive(Debug)]
pub struct Tables {
    pub(super) tables: Vec<Table>,
    control_blocks: Box<[*mut u8]>,
    /// By number, those that hold packets. Nothing else of these tables is used.
    holds: Vec<Option<Arc<HoldTable>>>,
    epochs: Arc<Epochs>,
    /// Of a program and of those that take over from it.
    journal: Arc<Journal>,
}

// SAFETY: the pointers lead to the tables' own control blocks; every access to shared memory behind them is atomic or
// under the table's lock, or is generated code's read or write of an entry.
unsafe impl Send for Tables {}
// SAFETY: as above.
unsafe impl Sync for Tables {}

impl Tables {
    /// Allocates a program's tables, empty, with a random key for the hash functions.
    pub fn new(program: &Program) -> Result<Self, TablesError> {
        Self::with_hasher(program, &ahash::RandomState::new(), &Space::Private)
    }

    /// Like [`Tables::new`] with a given key for the hash functions, for repeatable tests.
    pub fn with_seed(program: &Program, seed: u64) -> Result<Self, TablesError> {
        let mix = |n: u64| seed.wrapping_add(n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self::with_hasher(program, &ahash::RandomState::with_seeds(mix(1), mix(2), mix(3), mix(4)), &Space::Private)
    }

    /// As [`Tables::new`], in this memory, which holds zeros, and with these keys for the hash functions.
    pub(crate) fn with_hasher(
        program: &Program,
        hasher: &ahash::RandomState,
        space: &Space,
    ) -> Result<Self, TablesError> {
        let no_clock = |error| TablesError { table: "clock".into(), capacity: 1, error };
        let epochs = Arc::new(Epochs::new(space).map_err(no_clock)?);
        Self::made(program, hasher, space, (epochs, Arc::default()), (|_| None, |_| None))
    }

    /// Those of a program that has none.
    pub(crate) fn none() -> std::io::Result<Self> {
        Ok(Tables {
            tables: Vec::new(),
            control_blocks: Box::new([]),
            holds: Vec::new(),
            epochs: Arc::new(Epochs::new(&Space::Private)?),
            journal: Arc::default(),
        })
    }

    /// The tables of a program that takes over from the one that these are of: see [`super::carried`]. New ones are
    /// empty.
    pub(crate) fn next(&self, program: &Program, carried: &[Carried], space: &Space) -> Result<Self, TablesError> {
        let kept = |index: usize| match carried[index] {
            Carried::Kept(table) => Some(self.tables[table.0 as usize].kind.clone()),
            _ => None,
        };
        let held = |index: usize| match carried[index] {
            Carried::Kept(table) => self.holds[table.0 as usize].clone(),
            _ => None,
        };
        let shared = (self.epochs.clone(), self.journal.clone());
        Self::made(program, &ahash::RandomState::new(), space, shared, (kept, held))
    }

    /// As [`Tables::next`], new ones in memory of their own.
    pub(crate) fn next_of_own(&self, program: &Program, carried: &[Carried]) -> Result<Self, TablesError> {
        self.next(program, carried, &Space::Private)
    }

    fn made(
        program: &Program,
        hasher: &ahash::RandomState,
        space: &Space,
        (epochs, journal): (Arc<Epochs>, Arc<Journal>),
        (kept, held): (impl Fn(usize) -> Option<Arc<Kind>>, impl Fn(usize) -> Option<Arc<HoldTable>>),
    ) -> Result<Self, TablesError> {
        let written = program.written_tables().into_iter().enumerate();
        let tables = written.map(|(index, written)| {
            Table::new((program, TableId(index as u32), written), hasher, space, &epochs, kept(index))
        });
        let tables: Vec<_> = tables.collect::<Result<_, _>>()?;
        let hold = |(index, table): (usize, &baker::ir::Table)| {
            let new = |hold: baker::ir::Hold| {
                Arc::new(HoldTable::new(table.capacity, hold.packets, program.metadata_size as usize))
            };
            held(index).or_else(|| table.hold.map(new))
        };
        let holds: Vec<_> = program.tables.iter().enumerate().map(hold).collect();
        let block = |(table, hold): (&Table, &Option<Arc<HoldTable>>)| {
            hold.as_ref().map_or_else(|| table.control_block(), |hold| hold.control_block())
        };
        let control_blocks = tables.iter().zip(&holds).map(block).collect();
        Ok(Tables { tables, control_blocks, holds, epochs, journal })
    }

    /// One control block per table, in the program's order. Workers have some of their own: see [`super::View`].
    pub fn control_blocks(&self) -> &[*mut u8] {
        &self.control_blocks
    }

    /// Lets go of all packets that are held.
    pub(crate) fn clear_holds(&self) {
        self.holds().for_each(|hold| hold.clear());
    }

    /// Those that hold packets.
    pub(crate) fn holds(&self) -> impl Iterator<Item = &Arc<HoldTable>> {
        self.holds.iter().flatten()
    }

    /// Frees the places of removed entries, for code in the kernel, which cannot.
    pub(crate) fn reclaim(&self) {
        self.tables.iter().for_each(Table::reclaim);
    }

    /// Where each table lies in the memory that begins at `base`, to code in the kernel.
    pub(crate) fn places(&self, base: u64) -> Vec<TableLocation> {
        self.tables.iter().map(|table| table.kernel_location(base)).collect()
    }

    /// As [`Tables::places`]: where the deadlines of each table's entries lie, where they have any.
    pub(crate) fn deadline_places(&self, base: u64) -> Vec<Option<u64>> {
        self.tables.iter().map(|table| table.kind.due().map(|due| due.ptr() as u64 - base)).collect()
    }

    /// Where workers register, so that entries that they may hold are not reused.
    pub fn epochs(&self) -> &Arc<Epochs> {
        &self.epochs
    }

    fn table(&self, table: TableId) -> Result<&Table, TableError> {
        self.tables.get(table.0 as usize).ok_or(TableError::NotFound)
    }

    /// The value that a packet's look-up finds; for tests and tools.
    pub fn lookup(&self, table: TableId, key: &[u128]) -> Option<Vec<u128>> {
        self.table(table).ok()?.lookup(key)
    }

    /// From now on the control plane's changes are told there, each after it was made; it waits where no thread takes
    /// them. Only once.
    pub fn tell(&self, changes: SyncSender<TableChange>) {
        self.journal.tell(changes);
    }

    /// Whether a change may wait for the thread that takes changes.
    pub fn is_told(&self) -> bool {
        self.journal.is_told()
    }

    /// Notes a change that was made.
    fn note(&self, table: TableId, key: &[u128], prefix_len: Option<u32>, value: Option<&[u128]>) {
        if let Ok(table) = self.table(table) {
            let kept = value.map(|value| value.iter().copied().chain(table.idle.map(|_| 0)));
            self.journal.note(&table.name, key, prefix_len, kept);
        }
    }

    /// See [`TableStore::insert`]; any thread may call it while packets are processed.
    pub fn insert(&self, table: TableId, entry: &TableEntry) -> Result<(), TableError> {
        self.set(table, &entry.key, entry.prefix_len, &entry.value)
    }

    /// As [`Tables::insert`], of numbers that the caller has anywhere: nothing is allocated for them.
    pub fn set(&self, table: TableId, key: &[u128], prefix_len: Option<u32>, value: &[u128]) -> Result<(), TableError> {
        let own = self.table(table)?;
        let _changing = own.changing();
        own.put(key, prefix_len, value)?;
        self.note(table, key, prefix_len, Some(value));
        Ok(())
    }

    /// As [`Tables::set`], of an entry of an array that no packet can find yet: without waiting for any.
    pub fn prepare(&self, table: TableId, key: &[u128], value: &[u128]) -> Result<(), TableError> {
        let own = self.table(table)?;
        let _changing = own.changing();
        own.prepare(key, value)?;
        self.note(table, key, None, Some(value));
        Ok(())
    }

    /// Changes a route, or removes it where there is no value, if what it is now is as wanted, of which no other change
    /// comes between; whether it was. Any thread may call it while packets are processed.
    pub fn change_if(
        &self,
        table: TableId,
        key: &[u128],
        prefix_len: Option<u32>,
        value: Option<&[u128]>,
        wanted: &mut dyn FnMut(Option<&[u128]>) -> bool,
    ) -> Result<bool, TableError> {
        let own = self.table(table)?;
        let _changing = own.changing().ok_or(TableError::OutOfRange)?;
        let mut before = vec![0; own.value.fields()];
        let found = own.get_to(key, prefix_len, &mut before);
        if !wanted(found.is_ok().then_some(&before)) {
            return Ok(false);
        }
        match value {
            Some(value) => own.put(key, prefix_len, value)?,
            None => own.take_out(key, prefix_len)?,
        }
        self.note(table, key, prefix_len, value);
        Ok(true)
    }

    /// Waits until no look-up that began before is under way, at workers and in the kernel; whether that came to pass
    /// in time.
    pub fn settle(&self) -> bool {
        let stamp = self.epochs.retire();
        patiently(|| (stamp <= self.epochs.safe()).then_some(())).is_some()
    }

    /// Sets an entry of a hash table, and writes to `before`, which has room for one number per field, what it was
    /// until that could not be found any more; whether there was one. Any thread may call it while packets are
    /// processed.
    pub fn exchange(
        &self,
        table: TableId,
        key: &[u128],
        value: &[u128],
        before: &mut [u128],
    ) -> Result<bool, TableError> {
        let found = self.table(table)?.exchange(key, value, before)?;
        self.note(table, key, None, Some(value));
        Ok(found)
    }

    /// Adds a member with this value to a group of a table, under the least number that is free there; which. Any
    /// thread may call it while packets are processed.
    pub fn join(&self, table: TableId, group: u32, value: &[u128]) -> Result<u32, TableError> {
        let member = self.table(table)?.join(group, value)?;
        self.note(table, &[group.into(), member.into()], None, Some(value));
        Ok(member)
    }

    /// The members of a group of a table as they are now, by number.
    pub fn members(&self, table: TableId, group: u32) -> Vec<u32> {
        self.table(table).map_or_else(|_| Vec::new(), |table| table.members(group))
    }

    /// The next member of a group from a number on, after at most so many words of 64 numbers, which are taken off. For
    /// workers.
    pub(crate) fn next_member(&self, table: TableId, group: u32, from: u32, words: &mut u32) -> NextMember {
        self.table(table).map_or(NextMember::End, |table| table.next_member(group, from, words))
    }

    /// See [`TableStore::insert_all`]; any thread may call it while packets are processed. The entries of an array up
    /// to one that is refused change together.
    pub fn insert_all(&self, id: TableId, entries: &mut dyn Iterator<Item = &TableEntry>) -> Result<(), TableError> {
        let Some((written, result)) = self.table(id)?.put_together(entries) else {
            for entry in entries {
                self.insert(id, entry)?;
            }
            return Ok(());
        };
        written.iter().for_each(|entry| self.note(id, &entry.key, entry.prefix_len, Some(&entry.value)));
        result
    }

    /// See [`TableStore::remove`]; any thread may call it while packets are processed.
    pub fn remove(&self, table: TableId, key: &[u128], prefix_len: Option<u32>) -> Result<(), TableError> {
        let own = self.table(table)?;
        let _changing = own.changing();
        own.take_out(key, prefix_len)?;
        self.note(table, key, prefix_len, None);
        Ok(())
    }

    /// See [`TableStore::get`].
    pub fn get(&self, table: TableId, key: &[u128], prefix_len: Option<u32>) -> Result<Vec<u128>, TableError> {
        let found = self.table(table)?;
        let mut values = vec![0; found.value.fields()];
        found.get_to(key, prefix_len, &mut values)?;
        Ok(values)
    }

    /// As [`Tables::get`], into `values`, which has room for one number per field and may be on the stack: nothing is
    /// allocated for them.
    pub fn get_to(
        &self,
        table: TableId,
        key: &[u128],
        prefix_len: Option<u32>,
        values: &mut [u128],
    ) -> Result<(), TableError> {
        self.table(table)?.get_to(key, prefix_len, values)
    }

    /// Removes the entries of all tables that have not been used for longer than their idle time; `now` as in
    /// `codegen::abi::Context::now`. Any thread may call it while packets are processed.
    pub fn expire(&self, now: u64) {
        self.tables.iter().for_each(|table| table.expire(now));
    }

    /// Appends packed keys of an array or hash table from `*from` on, at most `most`, and moves `*from` behind them;
    /// whether that was the end. Each key that is there until the end is found exactly once. For workers: see
    /// `hash::Hash::keys_from`.
    pub(crate) fn keys_from(&self, table: TableId, from: &mut u32, keys: &mut Vec<u64>, most: usize) -> bool {
        self.table(table).map_or(true, |table| table.keys_from(from, keys, most))
    }

    /// See [`TableStore::count`].
    pub fn count(&self, table: TableId) -> usize {
        match self.holds.get(table.0 as usize) {
            Some(Some(hold)) => hold.count(),
            _ => self.table(table).map_or(0, Table::count),
        }
    }

    /// See [`TableStore::dump`].
    pub fn dump(&self, table: TableId) -> Vec<TableEntry> {
        self.table(table).map_or_else(|_| Vec::new(), Table::dump)
    }

    /// See [`Table::visit`].
    pub fn visit(&self, table: TableId, entry_is: impl FnMut(&[u128], Option<u32>, &[u128])) {
        if let Ok(table) = self.table(table) {
            table.visit(entry_is);
        }
    }

    /// As [`Tables::dump`], to be kept.
    pub fn dump_kept(&self, table: TableId) -> Vec<TableEntry> {
        self.table(table).map_or_else(|_| Vec::new(), Table::dump_kept)
    }

    /// Inserts an entry that was kept.
    pub fn insert_kept(&self, table: TableId, entry: &TableEntry) -> Result<(), TableError> {
        self.table(table)?.insert_kept(entry)
    }
}

impl TableStore for Tables {
    fn insert(&mut self, table: TableId, entry: &TableEntry) -> Result<(), TableError> {
        Tables::insert(self, table, entry)
    }

    fn insert_all(&mut self, table: TableId, entries: &mut dyn Iterator<Item = &TableEntry>) -> Result<(), TableError> {
        Tables::insert_all(self, table, entries)
    }

    fn remove(&mut self, table: TableId, key: &[u128], prefix_len: Option<u32>) -> Result<(), TableError> {
        Tables::remove(self, table, key, prefix_len)
    }

    fn get(&self, table: TableId, key: &[u128], prefix_len: Option<u32>) -> Result<Vec<u128>, TableError> {
        Tables::get(self, table, key, prefix_len)
    }

    fn count(&self, table: TableId) -> usize {
        Tables::count(self, table)
    }

    fn dump(&self, table: TableId) -> Vec<TableEntry> {
        Tables::dump(self, table)
    }
}

//! Tables as generated code reaches them: shared by all workers and the control plane, look-ups without a lock.
//!
//! Writers take the table's lock and publish with one aligned atomic store, so that a look-up sees either the old slot
//! or the new one. The control plane replaces the value of an entry as a whole, where it is more than one word: by a new entry
//! of a hash or lpm table, by a new copy of an array ([`array`]). What a program writes, through a pointer or by inserting a key
//! that is there, is written in place, and so are all entries of an array that a program writes: each field of up to 8 bytes
//! changes at once, but another worker's look-up at that moment may see some fields old and others new.

mod array;
mod bucket;
mod carry;
mod entries;
mod hash;
mod journal;
mod kept;
pub(crate) mod layout;
mod lock;
mod lpm;
mod meter;
mod nodes;
mod shared;
mod slots;
mod space;
mod trie;
mod values;
mod view;

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use baker::ir::{Layout, Program, TableEntry, TableError, TableId, TableKind, TableStore, prefix_mask};
use codegen::abi::{Runtime, is_dir_24_8, unpack_key};
use codegen::kernel::TablePlace;

use crate::epoch::Epochs;
use array::{Array, Change};
pub use bucket::bytes_of_entry;
pub use carry::{Carried, carried};
use hash::{Hash, Idle};
use journal::Journal;
pub use journal::TableChange;
use layout::{Bytes, Codec};
use lpm::Lpm;
use shared::at_once;
pub(crate) use space::{Block, Shared, Space, Use};
use trie::Trie;
pub use view::View;

/// A table could not be made.
#[derive(Debug, thiserror::Error)]
#[error("table {table} with {capacity} entries: {error}; declare it smaller")]
pub struct TablesError {
    /// Its full name.
    pub table: String,
    /// Its declared number of entries.
    pub capacity: u32,
    /// What the system said.
    pub error: std::io::Error,
}

#[derive(Debug)]
enum Kind {
    Array(Array),
    Hash(Hash),
    /// With keys of 32 bits.
    Lpm(Lpm),
    /// With keys of other widths.
    Trie(Trie),
}

#[derive(Debug)]
struct Table {
    name: Arc<str>,
    /// Programs that take over from each other share it.
    kind: Arc<Kind>,
    key: Layout,
    key_codec: Codec,
    /// What the control plane sees of a value.
    value: Codec,
    idle: Option<Idle>,
}

/// All tables of one instance.
#[derive(Debug)]
pub struct Tables {
    tables: Vec<Table>,
    control_blocks: Box<[*mut u8]>,
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
        Self::made(program, hasher, space, (epochs, Arc::default()), |_| None)
    }

    /// Those of a program that has none.
    pub(crate) fn none() -> std::io::Result<Self> {
        Ok(Tables {
            tables: Vec::new(),
            control_blocks: Box::new([]),
            epochs: Arc::new(Epochs::new(&Space::Private)?),
            journal: Arc::default(),
        })
    }

    /// The tables of a program that takes over from the one that these are of: see [`carried`]. New ones are empty.
    pub(crate) fn next(&self, program: &Program, carried: &[Carried], space: &Space) -> Result<Self, TablesError> {
        let kept = |index: usize| match carried[index] {
            Carried::Kept(table) => Some(self.tables[table.0 as usize].kind.clone()),
            _ => None,
        };
        let shared = (self.epochs.clone(), self.journal.clone());
        Self::made(program, &ahash::RandomState::new(), space, shared, kept)
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
        kept: impl Fn(usize) -> Option<Arc<Kind>>,
    ) -> Result<Self, TablesError> {
        let make = |(index, (table, written)): (usize, (&baker::ir::Table, bool))| {
            let layout = |id: baker::ir::LayoutId| program.layouts[id.0 as usize].clone();
            let (key, value, capacity) = (layout(table.key), program.shown_value(table).into_owned(), table.capacity);
            let last = program.layouts[table.value.0 as usize].fields.last();
            let lock = last.filter(|_| table.locked).map(|field| field.offset as usize);
            let new = || match table.kind {
                TableKind::Array => {
                    let in_place = written || at_once(&value);
                    let change = if in_place { Change::InPlace(lock) } else { Change::Whole };
                    Array::new(capacity, &value, change, first(table, &value), epochs.clone(), space).map(Kind::Array)
                }
                TableKind::Hash => {
                    Hash::new(capacity, &key, (&value, lock), hasher, epochs.clone(), space).map(Kind::Hash)
                }
                TableKind::Lpm if !is_dir_24_8(program, table) => {
                    Trie::new(capacity, key.fields[0].width, (&value, lock), epochs.clone(), space).map(Kind::Trie)
                }
                TableKind::Lpm => Lpm::new(capacity, (&value, lock), !written, epochs.clone(), space).map(Kind::Lpm),
            };
            let kind = kept(index).map_or_else(|| new().map(Arc::new), Ok);
            let kind = kind.map_err(|error| TablesError { table: table.name.clone(), capacity, error })?;
            let hidden = program.layouts[table.value.0 as usize].fields.get(value.fields.len());
            let idle = table.idle.zip(hidden).map(|(ns, field)| Idle { ns, offset: field.offset as usize });
            let (key_codec, value) = (Codec::new(&key), Codec::new(&value));
            Ok(Table { name: table.name.as_str().into(), kind, key, key_codec, value, idle })
        };
        let tables = program.tables.iter().zip(program.written_tables()).enumerate().map(make);
        let tables: Vec<_> = tables.collect::<Result<_, _>>()?;
        let block = |table: &Table| match &*table.kind {
            Kind::Array(array) => array.control_block(),
            Kind::Hash(hash) => hash.control_block(),
            Kind::Lpm(lpm) => lpm.control_block(),
            Kind::Trie(trie) => trie.control_block(),
        };
        let control_blocks = tables.iter().map(block).collect();
        Ok(Tables { tables, control_blocks, epochs, journal })
    }

    /// One control block per table, in the program's order. Workers have some of their own: see [`View`].
    pub fn control_blocks(&self) -> &[*mut u8] {
        &self.control_blocks
    }

    /// Frees the places of removed entries, for code in the kernel, which cannot.
    pub(crate) fn reclaim(&self) {
        for table in &self.tables {
            if let Kind::Hash(hash) = &*table.kind {
                hash.reclaim();
            }
        }
    }

    /// Where each table lies in the memory that begins at `base`, to code in the kernel.
    pub(crate) fn places(&self, base: u64) -> Vec<TablePlace> {
        let place = |table: &Table| match &*table.kind {
            Kind::Array(array) => array.kernel_place(base),
            Kind::Hash(hash) => hash.kernel_place(base),
            Kind::Lpm(lpm) => lpm.kernel_place(base),
            Kind::Trie(trie) => trie.kernel_place(base),
        };
        self.tables.iter().map(place).collect()
    }

    /// Where workers register, so that entries that they may hold are not reused.
    pub fn epochs(&self) -> &Arc<Epochs> {
        &self.epochs
    }

    /// The functions that generated code calls.
    pub fn runtime() -> Runtime {
        Runtime {
            hash_lookup: hash::lookup,
            hash_insert: hash::insert,
            hash_remove: hash::remove,
            lpm_lookup: trie::lookup,
            meter_take: meter::take,
        }
    }

    fn table(&self, table: TableId) -> Result<&Table, TableError> {
        self.tables.get(table.0 as usize).ok_or(TableError::NotFound)
    }

    /// The value that a packet's look-up finds; for tests and tools.
    pub fn lookup(&self, table: TableId, key: &[u128]) -> Option<Vec<u128>> {
        let Table { kind, key_codec, value, .. } = self.table(table).ok()?;
        let number = key.first().copied().unwrap_or(0);
        let bytes = match &**kind {
            Kind::Array(array) => array.read(u32::try_from(number).ok()?)?,
            Kind::Lpm(lpm) => lpm.read(u32::try_from(number).ok()?)?,
            Kind::Trie(trie) => trie.read(number)?,
            Kind::Hash(hash) => hash.read(&key_codec.pack(key)?)?,
        };
        Some(value.decode(&bytes))
    }

    /// From now on the control plane's changes are told there, each after it was made; it waits where nobody takes them. Only once.
    pub fn tell(&self, changes: SyncSender<TableChange>) {
        self.journal.tell(changes);
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
        self.put(table, key, prefix_len, value)?;
        self.note(table, key, prefix_len, Some(value));
        Ok(())
    }

    /// Sets an entry of a hash table, and says what it was until nobody could find that any more, behind what `before` has; whether there
    /// was one. Any thread may call it while packets are processed.
    pub fn exchange(
        &self,
        table: TableId,
        key: &[u128],
        value: &[u128],
        before: &mut impl Extend<u128>,
    ) -> Result<bool, TableError> {
        let Table { kind, key_codec, value: codec, .. } = self.table(table)?;
        let Kind::Hash(hash) = &**kind else { return Err(TableError::OutOfRange) };
        let bytes = codec.encode(value).ok_or(TableError::OutOfRange)?;
        let packed = key_codec.pack(key).ok_or(TableError::OutOfRange)?;
        let found = hash.exchange(&packed, &bytes).ok_or(TableError::Full)?;
        self.note(table, key, None, Some(value));
        found.iter().for_each(|found| codec.decode_to(found, before));
        Ok(found.is_some())
    }

    fn put(&self, table: TableId, key: &[u128], prefix_len: Option<u32>, value: &[u128]) -> Result<(), TableError> {
        let Table { kind, key: key_layout, key_codec, value: codec, .. } = self.table(table)?;
        let bytes = codec.encode(value).ok_or(TableError::OutOfRange)?;
        match &**kind {
            Kind::Array(array) => array.write(&mut std::iter::once((index(key, prefix_len)?, bytes))),
            Kind::Lpm(lpm) => {
                let (prefix, len) = prefix(key_layout, key, prefix_len)?;
                lpm.insert(prefix as u32, len, &bytes)
            }
            Kind::Trie(trie) => {
                let (prefix, len) = prefix(key_layout, key, prefix_len)?;
                trie.insert(prefix, len, &bytes)
            }
            Kind::Hash(hash) => {
                no_prefix(prefix_len)?;
                let key = key_codec.pack(key).ok_or(TableError::OutOfRange)?;
                hash.set(&key, &bytes).then_some(()).ok_or(TableError::Full)
            }
        }
    }

    /// See [`TableStore::insert_all`]; any thread may call it while packets are processed. The entries of an array up to one that
    /// is refused change together.
    pub fn insert_all(&self, id: TableId, entries: &mut dyn Iterator<Item = &TableEntry>) -> Result<(), TableError> {
        let Table { kind, value, .. } = self.table(id)?;
        let Kind::Array(array) = &**kind else {
            for entry in entries {
                self.insert(id, entry)?;
            }
            return Ok(());
        };
        let (mut refused, mut written) = (Ok(()), Vec::new());
        let mut changes = entries.map_while(|entry| {
            let bytes = value.encode(&entry.value).ok_or(TableError::OutOfRange);
            let change = index(&entry.key, entry.prefix_len).and_then(|index| Ok((index, bytes?)));
            let change = change.map_err(|error| refused = Err(error)).ok()?;
            written.push(entry);
            Some(change)
        });
        array.write(&mut changes)?;
        written.iter().for_each(|entry| self.note(id, &entry.key, entry.prefix_len, Some(&entry.value)));
        refused
    }

    /// See [`TableStore::remove`]; any thread may call it while packets are processed.
    pub fn remove(&self, table: TableId, key: &[u128], prefix_len: Option<u32>) -> Result<(), TableError> {
        self.take_out(table, key, prefix_len)?;
        self.note(table, key, prefix_len, None);
        Ok(())
    }

    fn take_out(&self, table: TableId, key: &[u128], prefix_len: Option<u32>) -> Result<(), TableError> {
        let Table { kind, key: key_layout, key_codec, .. } = self.table(table)?;
        match &**kind {
            Kind::Array(array) => array.clear(index(key, prefix_len)?),
            Kind::Lpm(lpm) => {
                let (prefix, len) = prefix(key_layout, key, prefix_len)?;
                lpm.remove(prefix as u32, len)
            }
            Kind::Trie(trie) => {
                let (prefix, len) = prefix(key_layout, key, prefix_len)?;
                trie.remove(prefix, len)
            }
            Kind::Hash(hash) => {
                no_prefix(prefix_len)?;
                let key = key_codec.pack(key).ok_or(TableError::OutOfRange)?;
                hash.delete(&key).then_some(()).ok_or(TableError::NotFound)
            }
        }
    }

    /// See [`TableStore::get`].
    pub fn get(&self, table: TableId, key: &[u128], prefix_len: Option<u32>) -> Result<Vec<u128>, TableError> {
        let mut values = Vec::new();
        self.get_to(table, key, prefix_len, &mut values)?;
        Ok(values)
    }

    /// As [`Tables::get`], behind what `values` has already, which may be on the stack: nothing is allocated for them.
    pub fn get_to(
        &self,
        table: TableId,
        key: &[u128],
        prefix_len: Option<u32>,
        values: &mut impl Extend<u128>,
    ) -> Result<(), TableError> {
        let Table { kind, key: key_layout, key_codec, value, .. } = self.table(table)?;
        let bytes = match &**kind {
            Kind::Array(array) => Some(array.read(index(key, prefix_len)?).ok_or(TableError::OutOfRange)?),
            Kind::Lpm(lpm) => {
                let (prefix, len) = prefix(key_layout, key, prefix_len)?;
                lpm.get(prefix as u32, len)
            }
            Kind::Trie(trie) => {
                let (prefix, len) = prefix(key_layout, key, prefix_len)?;
                trie.get(prefix, len)
            }
            Kind::Hash(hash) => {
                no_prefix(prefix_len)?;
                hash.read(&key_codec.pack(key).ok_or(TableError::OutOfRange)?)
            }
        };
        value.decode_to(&bytes.ok_or(TableError::NotFound)?, values);
        Ok(())
    }

    /// Removes the entries of all tables that have not been used for longer than their idle time; `now` as in
    /// `codegen::abi::Context::now`. Any thread may call it while packets are processed.
    pub fn expire(&self, now: u64) {
        for table in &self.tables {
            if let (Kind::Hash(hash), Some(idle)) = (&*table.kind, table.idle) {
                hash.expire(now, idle);
            }
        }
    }

    /// Appends packed keys of an array or hash table from `*from` on, at most `most`, and moves `*from` behind them; whether
    /// that was the end. Each key that is there until the end is found exactly once. For workers: see [`Hash::keys_from`].
    pub(crate) fn keys_from(&self, table: TableId, from: &mut u32, keys: &mut Vec<u64>, most: usize) -> bool {
        match self.table(table).map(|table| &*table.kind) {
            Ok(Kind::Array(array)) => {
                let end = array.capacity().min(from.saturating_add(most as u32));
                keys.extend((*from..end).map(u64::from));
                *from = end;
                end == array.capacity()
            }
            Ok(Kind::Hash(hash)) => hash.keys_from(from, keys, most),
            _ => true,
        }
    }

    /// See [`TableStore::count`].
    pub fn count(&self, table: TableId) -> usize {
        match self.table(table).map(|table| &*table.kind) {
            Ok(Kind::Array(array)) => array.used().count(),
            Ok(Kind::Lpm(lpm)) => lpm.count(),
            Ok(Kind::Trie(trie)) => trie.count(),
            Ok(Kind::Hash(hash)) => hash.count(),
            Err(_) => 0,
        }
    }

    /// See [`TableStore::dump`].
    pub fn dump(&self, table: TableId) -> Vec<TableEntry> {
        let Ok(Table { kind, key, value, .. }) = self.table(table) else { return Vec::new() };
        let value = |bytes: &[u8]| value.decode(bytes);
        let mut entries: Vec<TableEntry> = match &**kind {
            Kind::Array(array) => array
                .used()
                .map(|(index, bytes)| TableEntry { key: vec![index.into()], prefix_len: None, value: value(&bytes) })
                .collect(),
            Kind::Lpm(lpm) => {
                lpm.dump().into_iter().map(|(prefix, len, bytes)| route(prefix.into(), len, value(&bytes))).collect()
            }
            Kind::Trie(trie) => {
                trie.dump().into_iter().map(|(prefix, len, bytes)| route(prefix, len, value(&bytes))).collect()
            }
            Kind::Hash(hash) => hash
                .dump()
                .into_iter()
                .map(|(k, bytes)| TableEntry { key: unpack_key(key, &k), prefix_len: None, value: value(&bytes) })
                .collect(),
        };
        entries.sort_by(|a, b| (&a.key, a.prefix_len).cmp(&(&b.key, b.prefix_len)));
        entries
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

/// What the entries of an array are at first.
fn first(table: &baker::ir::Table, value: &Layout) -> Bytes {
    let meter = table.meter.map(|meter| Codec::new(value).encode(&[meter.rate.into(), meter.burst.into()]));
    meter.flatten().unwrap_or_else(|| Bytes::from_elem(0, value.size as usize))
}

fn no_prefix(prefix_len: Option<u32>) -> Result<(), TableError> {
    if prefix_len.is_some() { Err(TableError::BadPrefix) } else { Ok(()) }
}

fn index(key: &[u128], prefix_len: Option<u32>) -> Result<u32, TableError> {
    no_prefix(prefix_len)?;
    let [index] = *key else { return Err(TableError::OutOfRange) };
    u32::try_from(index).map_err(|_| TableError::OutOfRange)
}

/// The prefix of a route for keys of this layout, its bits beyond the length zero.
fn prefix(layout: &Layout, key: &[u128], prefix_len: Option<u32>) -> Result<(u128, u8), TableError> {
    let width = layout.fields[0].width;
    let (&[prefix], Some(len)) = (key, prefix_len) else { return Err(TableError::BadPrefix) };
    let inside = prefix_mask(width, len).ok_or(TableError::BadPrefix)?;
    if prefix & !inside == 0 { Ok((prefix, len as u8)) } else { Err(TableError::BadPrefix) }
}

fn route(prefix: u128, len: u8, value: Vec<u128>) -> TableEntry {
    TableEntry { key: vec![prefix], prefix_len: Some(len.into()), value }
}

/// The bit of a table's `large` where look-ups of different packets spread over more than `far` bytes, so that it is worth
/// fetching them ahead.
fn large(bytes: usize, far: usize, bit: u32) -> u32 {
    if bytes > far { bit } else { 0 }
}

#[cfg(test)]
mod concurrent_tests;
#[cfg(test)]
mod tests;

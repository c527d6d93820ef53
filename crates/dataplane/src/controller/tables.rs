//! The program's tables by name, with keys and values of Rust types.

use std::collections::{HashMap, HashSet};
use std::marker::PhantomData;
use std::sync::Arc;

use baker::ir::{Program, TableEntry, TableError, TableId, TableKind, TableStore};

use super::error::NameError;
use super::record::{Fields, Key, Prefix, Record, fields_of, key_of};
use crate::engine::TableAccess;

/// All tables of an instance. May be used from any thread, but not in a function that the program calls.
#[derive(Clone, Debug)]
pub struct NamedTables {
    program: Arc<Program>,
    tables: TableAccess,
}

impl NamedTables {
    /// Those of this program.
    pub fn new(program: Arc<Program>, tables: TableAccess) -> Self {
        NamedTables { program, tables }
    }

    /// The program that they are of.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Whether their changes are kept on disk.
    pub(super) fn is_told(&self) -> bool {
        self.tables.is_told()
    }

    /// All of them, by number.
    pub fn access(&self) -> TableAccess {
        self.tables.clone()
    }

    /// The table `module.table`. Its key and value must have as many fields as the types say; those of an array's key
    /// and a set's value are one `u32` and one `bool`.
    pub fn table<K: Key, V: Record>(&self, name: &str) -> Result<Table<K, V>, NameError> {
        let tables = &self.program.tables;
        let Some(index) = tables.iter().position(|table| table.name == name) else {
            let known = tables.iter().map(|table| table.name.clone()).collect();
            return Err(NameError::Unknown { what: "table", name: name.to_owned(), known });
        };
        let table = &tables[index];
        let key = self.program.layouts[table.key.0 as usize].fields.len();
        let value = self.program.shown_value(table).fields.len();
        let prefix = table.kind == TableKind::Lpm;
        if (key, value, prefix) != (K::FIELDS, V::FIELDS, K::PREFIX) {
            return Err(NameError::Shape { table: name.to_owned(), key, value, prefix });
        }
        let id = TableId(index as u32);
        Ok(Table { id, tables: self.tables.clone(), types: PhantomData })
    }

    /// Waits until no look-up that began before is under way, at workers and in the kernel: entries that were set are
    /// then seen by all that follow. Whether that came to pass in a second.
    pub fn settle(&self) -> bool {
        self.tables.settle()
    }

    /// Makes a table hold these entries and no others. What it has already is not touched; what must go goes first, so
    /// that there is room.
    pub fn replace(&self, id: TableId, entries: &[&TableEntry]) -> Result<(), TableError> {
        replace(&mut self.tables.clone(), id, entries)
    }
}

/// See [`NamedTables::replace`].
fn replace(tables: &mut TableAccess, id: TableId, entries: &[&TableEntry]) -> Result<(), TableError> {
    let wanted: HashMap<_, _> =
        entries.iter().map(|entry| ((&entry.key[..], entry.prefix_len), &entry.value)).collect();
    let there = tables.dump(id);
    let mut kept = HashSet::new();
    for entry in &there {
        let key = (&entry.key[..], entry.prefix_len);
        match wanted.get(&key) {
            Some(value) if **value == entry.value => _ = kept.insert(key),
            Some(_) => {}
            // It is there: nothing else changes this table.
            None => tables.remove(id, key.0, key.1)?,
        }
    }
    let missing = entries.iter().filter(|entry| !kept.contains(&(&entry.key[..], entry.prefix_len)));
    missing.into_iter().try_for_each(|entry| tables.insert(id, entry))
}

/// A table. What is read and set one entry at a time lies on the stack meanwhile.
#[derive(Clone, Debug)]
pub struct Table<K, V> {
    id: TableId,
    tables: TableAccess,
    types: PhantomData<fn(K) -> V>,
}

impl<K: Key, V: Record> Table<K, V> {
    /// The value of exactly this entry. `None` where there is none, or where its numbers do not fit the type.
    pub fn get(&self, key: &K) -> Option<V> {
        let (key, prefix_len) = key_of(key);
        let mut value = Fields::from_elem(0, V::FIELDS);
        self.tables.get_to(self.id, &key, prefix_len, &mut value).ok()?;
        V::from_fields(&value)
    }

    /// Inserts an entry, or replaces its value as a whole.
    pub fn set(&mut self, key: &K, value: &V) -> Result<(), TableError> {
        let (key, prefix_len) = key_of(key);
        self.tables.set(self.id, &key, prefix_len, &fields_of(value))
    }

    /// Sets an entry of an array that no packet can find yet, such as one whose index no other table has: at once.
    /// [`Table::set`] of an entry of several numbers waits for all packets that may see what it was before, some
    /// milliseconds where a program runs in the kernel. A packet that finds the entry all the same may find half of it.
    pub fn prepare(&mut self, key: &K, value: &V) -> Result<(), TableError> {
        let (key, _) = key_of(key);
        self.tables.prepare(self.id, &key, &fields_of(value))
    }

    /// Sets a route, or removes it where there is no value, if what it is now is as wanted: no other change comes
    /// between. Whether it was.
    pub fn change_if(
        &mut self,
        key: &K,
        value: Option<&V>,
        mut wanted: impl FnMut(Option<V>) -> bool,
    ) -> Result<bool, TableError> {
        let (key, prefix_len) = key_of(key);
        let value = value.map(fields_of);
        let mut seen = |now: Option<&[u128]>| wanted(now.and_then(V::from_fields));
        self.tables.change_if(self.id, &key, prefix_len, value.as_deref(), &mut seen)
    }

    /// Sets an entry of a hash table, and says what was there: the old value as it was when it could not be found any
    /// more, so that what packets changed of it before is in it. A thread that has found it earlier may still change
    /// it.
    pub fn exchange(&mut self, key: &K, value: &V) -> Result<Option<V>, TableError> {
        let (key, _) = key_of(key);
        let mut before = Fields::from_elem(0, V::FIELDS);
        let found = self.tables.exchange(self.id, &key, &fields_of(value), &mut before)?;
        Ok(if found { V::from_fields(&before) } else { None })
    }

    /// Sets many entries, in order, up to the first that is refused. Those of an array that the program does not write
    /// take less time than one by one, and packets see all of them from the same moment on.
    pub fn set_all(&mut self, entries: &[(K, V)]) -> Result<(), TableError> {
        let entries: Vec<TableEntry> = entries.iter().map(|(key, value)| entry(key, value)).collect();
        self.tables.insert_all(self.id, &mut entries.iter())
    }

    /// Makes it hold these entries and no others, as [`NamedTables::replace`] does.
    pub fn replace(&mut self, entries: &[(K, V)]) -> Result<(), TableError> {
        let entries: Vec<TableEntry> = entries.iter().map(|(key, value)| entry(key, value)).collect();
        replace(&mut self.tables, self.id, &entries.iter().collect::<Vec<_>>())
    }

    /// Removes an entry; sets that of an array to zero. Whether it was there.
    pub fn remove(&mut self, key: &K) -> bool {
        let (key, prefix_len) = key_of(key);
        self.tables.remove(self.id, &key, prefix_len).is_ok()
    }

    /// Number of entries; of an array, those that are not all zero.
    pub fn len(&self) -> usize {
        self.tables.count(self.id)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls a function with each entry as it is now, in no order; of an array, those that are not all zero. Entries
    /// that come or go meanwhile may be there or not, and one that goes and comes back twice. Of a large table this
    /// takes a fraction of the time of [`Table::entries`]. Removed entries wait for it: the function should be quick.
    pub fn for_each(&self, mut entry_is: impl FnMut(K, V)) {
        self.tables.visit(self.id, |key, prefix_len, value| {
            if let (Some(key), Some(value)) = (K::from_key(key, prefix_len), V::from_fields(value)) {
                entry_is(key, value);
            }
        });
    }

    /// The entries as they are now, sorted by key; of an array, those that are not all zero. Entries that come or go
    /// meanwhile may be there or not.
    pub fn entries(&self) -> Vec<(K, V)> {
        let entries = self.tables.dump(self.id).into_iter();
        entries.filter_map(|e| Some((K::from_key(&e.key, e.prefix_len)?, V::from_fields(&e.value)?))).collect()
    }
}

impl<K: Record, V: Record> Table<Prefix<K>, V> {
    /// The value of the longest prefix that holds an address.
    pub fn find(&self, address: &K) -> Option<V> {
        V::from_fields(&self.tables.find(self.id, fields_of(address)[0])?)
    }
}

fn entry(key: &impl Key, value: &impl Record) -> TableEntry {
    let (key, prefix_len) = key_of(key);
    TableEntry { key: key.into_vec(), prefix_len, value: fields_of(value).into_vec() }
}

//! One table, of whichever kind: entries as numbers outside, bytes inside.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baker::ir::{Layout, Program, TableEntry, TableError, TableId, TableKind, prefix_mask};
use codegen::abi::{is_dir_24_8, unpack_key, unpacked};
use codegen::kernel::TableLocation;

use super::array::{Array, Change};
use super::due::Due;
use super::epoch::Epochs;
use super::hash::{Hash, Idle};
use super::layout::{Bytes, Codec};
use super::lpm::Lpm;
use super::members::{Members, NextMember};
use super::shared::at_once;
use super::space::Space;
use super::trie::Trie;

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

/// A table as it lies in memory.
#[derive(Debug)]
pub enum Kind {
    Array(Array),
    Hash(Hash),
    /// With keys of 32 bits.
    Lpm(Lpm),
    /// With keys of other widths.
    Trie(Trie),
}

impl Kind {
    /// The deadlines of its entries, where they have any.
    pub fn due(&self) -> Option<&Due> {
        match self {
            Kind::Array(array) => array.due.as_ref(),
            Kind::Hash(hash) => hash.due.as_ref(),
            Kind::Lpm(_) | Kind::Trie(_) => None,
        }
    }

    /// The number of the entry under a packed key of an array or hash table.
    pub fn entry_of(&self, key: &[u64]) -> Option<u32> {
        match self {
            Kind::Array(array) => u32::try_from(key[0]).ok().filter(|index| *index < array.capacity()),
            Kind::Hash(hash) => hash.entry_of(key),
            Kind::Lpm(_) | Kind::Trie(_) => None,
        }
    }

    /// Appends the packed key of an entry of an array or hash table, as it is or was. Any number where it is written at
    /// this moment.
    pub fn key_of(&self, entry: u32, keys: &mut Vec<u64>) {
        match self {
            Kind::Array(_) => keys.push(entry.into()),
            Kind::Hash(hash) => hash.key_of(entry, keys),
            Kind::Lpm(_) | Kind::Trie(_) => {}
        }
    }
}

/// One table of a program.
#[derive(Debug)]
pub struct Table {
    /// Its full name.
    pub name: Arc<str>,
    /// Programs that take over from each other share it.
    pub kind: Arc<Kind>,
    pub key: Layout,
    pub key_codec: Codec,
    /// What the control plane sees of a value.
    pub value: Codec,
    /// Where its entries age.
    pub idle: Option<Idle>,
    /// Held while routes change, so that no change comes between a look at a route and a change that depends on it.
    changing: Mutex<()>,
}

impl Table {
    /// A program's table with this number, which its code writes or not. Where there is a `kept` one it has its
    /// entries; otherwise it is empty.
    pub fn new(
        (program, id, written): (&Program, TableId, bool),
        hasher: &ahash::RandomState,
        space: &Space,
        epochs: &Arc<Epochs>,
        kept: Option<Arc<Kind>>,
    ) -> Result<Self, TablesError> {
        let table = &program.tables[id.0 as usize];
        let layout = |id: baker::ir::LayoutId| program.layouts[id.0 as usize].clone();
        let (key, value, capacity) = (layout(table.key), program.shown_value(table).into_owned(), table.capacity);
        let last = program.layouts[table.value.0 as usize].fields.last();
        let lock = last.filter(|_| table.locked).map(|field| field.offset as usize);
        let epochs = || epochs.clone();
        let has_deadlines = program.deadline_timer(id).is_some();
        let new = || match table.kind {
            TableKind::Array => {
                let in_place = written || at_once(&value);
                let change = if in_place { Change::InPlace(lock) } else { Change::Whole };
                let mut array = Array::new(capacity, &value, change, first(table, &value), epochs(), space)?;
                array.due = has_deadlines.then(|| Due::new(capacity, space)).transpose()?;
                Ok(Kind::Array(array))
            }
            TableKind::Hash => {
                let mut hash = Hash::new(capacity, &key, (&value, lock), hasher, epochs(), space)?;
                hash.due = has_deadlines.then(|| Due::new(hash.limit(), space)).transpose()?;
                hash.members = table.group.map(|group| Members::new(group.groups, capacity, epochs()));
                Ok(Kind::Hash(hash))
            }
            TableKind::Lpm if !is_dir_24_8(program, table) => {
                Trie::new(capacity, key.fields[0].width, (&value, lock), epochs(), space).map(Kind::Trie)
            }
            TableKind::Lpm => Lpm::new(capacity, (&value, lock), !written, epochs(), space).map(Kind::Lpm),
        };
        let kind = kept.map_or_else(|| new().map(Arc::new), Ok);
        let kind = kind.map_err(|error| TablesError { table: table.name.clone(), capacity, error })?;
        let hidden = program.layouts[table.value.0 as usize].fields.get(value.fields.len());
        let idle = table.idle.zip(hidden).map(|(ns, field)| Idle { ns, offset: field.offset as usize });
        let (key_codec, value) = (Codec::new(&key), Codec::new(&value));
        let changing = Mutex::default();
        Ok(Table { name: table.name.as_str().into(), kind, key, key_codec, value, idle, changing })
    }

    /// See [`Table::changing`], in tables of routes. Other tables change too often, and it is not needed there.
    pub fn changing(&self) -> Option<MutexGuard<'_, ()>> {
        let is_lpm = matches!(&*self.kind, Kind::Lpm(_) | Kind::Trie(_));
        is_lpm.then(|| self.changing.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What generated code reaches it by.
    pub fn control_block(&self) -> *mut u8 {
        match &*self.kind {
            Kind::Array(array) => array.control_block(),
            Kind::Hash(hash) => hash.control_block(),
            Kind::Lpm(lpm) => lpm.control_block(),
            Kind::Trie(trie) => trie.control_block(),
        }
    }

    /// Where it lies in the memory that begins at `base`, to code in the kernel.
    pub fn kernel_location(&self, base: u64) -> TableLocation {
        match &*self.kind {
            Kind::Array(array) => array.kernel_location(base),
            Kind::Hash(hash) => hash.kernel_location(base),
            Kind::Lpm(lpm) => lpm.kernel_location(base),
            Kind::Trie(trie) => trie.kernel_location(base),
        }
    }

    /// Frees the places of removed entries, for code in the kernel, which cannot.
    pub fn reclaim(&self) {
        if let Kind::Hash(hash) = &*self.kind {
            hash.reclaim();
        }
    }

    /// The value that a packet's look-up finds.
    pub fn lookup(&self, key: &[u128]) -> Option<Vec<u128>> {
        let number = key.first().copied().unwrap_or(0);
        let bytes = match &*self.kind {
            Kind::Array(array) => array.read(u32::try_from(number).ok()?)?,
            Kind::Lpm(lpm) => lpm.read(u32::try_from(number).ok()?)?,
            Kind::Trie(trie) => trie.read(number)?,
            Kind::Hash(hash) => hash.read(&self.key_codec.pack(key)?)?,
        };
        Some(self.value.decode(&bytes))
    }

    /// Sets an entry.
    pub fn put(&self, key: &[u128], prefix_len: Option<u32>, value: &[u128]) -> Result<(), TableError> {
        let bytes = self.value.encode(value).ok_or(TableError::OutOfRange)?;
        match &*self.kind {
            Kind::Array(array) => array.write(&mut std::iter::once((index(key, prefix_len)?, bytes))),
            Kind::Lpm(lpm) => {
                let (prefix, len) = prefix(&self.key, key, prefix_len)?;
                lpm.insert(prefix as u32, len, &bytes)
            }
            Kind::Trie(trie) => {
                let (prefix, len) = prefix(&self.key, key, prefix_len)?;
                trie.insert(prefix, len, &bytes)
            }
            Kind::Hash(hash) => {
                no_prefix(prefix_len)?;
                let packed = self.key_codec.pack(key).ok_or(TableError::OutOfRange)?;
                set_entry(hash, key, || hash.set(&packed, &bytes).then_some(()).ok_or(TableError::Full))
            }
        }
    }

    /// As [`Table::put`], of an entry of an array that no packet can find yet.
    pub fn prepare(&self, key: &[u128], value: &[u128]) -> Result<(), TableError> {
        match &*self.kind {
            Kind::Array(array) => {
                array.prepare(index(key, None)?, &self.value.encode(value).ok_or(TableError::OutOfRange)?)
            }
            _ => self.put(key, None, value),
        }
    }

    /// Sets the entries of an array together, up to one that is refused. Gives those that it has set. Another kind of
    /// table gives `None` and stays as it is.
    pub fn put_together<'e>(
        &self,
        entries: &mut dyn Iterator<Item = &'e TableEntry>,
    ) -> Option<(Vec<&'e TableEntry>, Result<(), TableError>)> {
        let Kind::Array(array) = &*self.kind else { return None };
        let (mut refused, mut written) = (Ok(()), Vec::new());
        let mut changes = entries.map_while(|entry| {
            let bytes = self.value.encode(&entry.value).ok_or(TableError::OutOfRange);
            let change = index(&entry.key, entry.prefix_len).and_then(|index| Ok((index, bytes?)));
            let change = change.map_err(|error| refused = Err(error)).ok()?;
            written.push(entry);
            Some(change)
        });
        match array.write(&mut changes) {
            Ok(()) => Some((written, refused)),
            Err(error) => Some((Vec::new(), Err(error))),
        }
    }

    /// Sets an entry of a hash table, and writes to `before`, which has room for one number per field, what it was
    /// until that could not be found any more; whether there was one.
    pub fn exchange(&self, key: &[u128], value: &[u128], before: &mut [u128]) -> Result<bool, TableError> {
        let Kind::Hash(hash) = &*self.kind else { return Err(TableError::OutOfRange) };
        let bytes = self.value.encode(value).ok_or(TableError::OutOfRange)?;
        let packed = self.key_codec.pack(key).ok_or(TableError::OutOfRange)?;
        let found = set_entry(hash, key, || hash.exchange(&packed, &bytes).ok_or(TableError::Full))?;
        found.iter().for_each(|found| self.value.decode_to(found, before));
        Ok(found.is_some())
    }

    /// Sets the entry of a new member of a group, under the least number that is free; which.
    pub fn join(&self, group: u32, value: &[u128]) -> Result<u32, TableError> {
        let Kind::Hash(hash) = &*self.kind else { return Err(TableError::OutOfRange) };
        let members = hash.members.as_ref().ok_or(TableError::OutOfRange)?;
        let bytes = self.value.encode(value).ok_or(TableError::OutOfRange)?;
        let mut change = members.change();
        let member = change.free(group)?;
        let key = self.key_codec.pack(&[group.into(), member.into()]).ok_or(TableError::OutOfRange)?;
        hash.set(&key, &bytes).then_some(()).ok_or(TableError::Full)?;
        change.joined(group, member);
        Ok(member)
    }

    /// The members of a group, by number.
    pub fn members(&self, group: u32) -> Vec<u32> {
        let Kind::Hash(hash) = &*self.kind else { return Vec::new() };
        hash.members.as_ref().map_or_else(Vec::new, |members| members.change().all(group))
    }

    /// See [`Members::next`].
    pub fn next_member(&self, group: u32, from: u32, words: &mut u32) -> NextMember {
        match &*self.kind {
            Kind::Hash(hash) => {
                hash.members.as_ref().map_or(NextMember::End, |members| members.next(group, from, words))
            }
            _ => NextMember::End,
        }
    }

    /// Takes an entry out.
    pub fn take_out(&self, key: &[u128], prefix_len: Option<u32>) -> Result<(), TableError> {
        match &*self.kind {
            Kind::Array(array) => array.clear(index(key, prefix_len)?),
            Kind::Lpm(lpm) => {
                let (prefix, len) = prefix(&self.key, key, prefix_len)?;
                lpm.remove(prefix as u32, len)
            }
            Kind::Trie(trie) => {
                let (prefix, len) = prefix(&self.key, key, prefix_len)?;
                trie.remove(prefix, len)
            }
            Kind::Hash(hash) => {
                no_prefix(prefix_len)?;
                let packed = self.key_codec.pack(key).ok_or(TableError::OutOfRange)?;
                let mut change = hash.members.as_ref().map(|members| members.change());
                if let (Some(change), Some((group, member))) = (&mut change, member_of(key)) {
                    change.left(group, member);
                }
                hash.delete(&packed).then_some(()).ok_or(TableError::NotFound)
            }
        }
    }

    /// The value of exactly this entry, into `values`, which has room for one number per field.
    pub fn get_to(&self, key: &[u128], prefix_len: Option<u32>, values: &mut [u128]) -> Result<(), TableError> {
        let bytes = match &*self.kind {
            Kind::Array(array) => Some(array.read(index(key, prefix_len)?).ok_or(TableError::OutOfRange)?),
            Kind::Lpm(lpm) => {
                let (prefix, len) = prefix(&self.key, key, prefix_len)?;
                lpm.get(prefix as u32, len)
            }
            Kind::Trie(trie) => {
                let (prefix, len) = prefix(&self.key, key, prefix_len)?;
                trie.get(prefix, len)
            }
            Kind::Hash(hash) => {
                no_prefix(prefix_len)?;
                hash.read(&self.key_codec.pack(key).ok_or(TableError::OutOfRange)?)
            }
        };
        self.value.decode_to(&bytes.ok_or(TableError::NotFound)?, values);
        Ok(())
    }

    /// Removes the entries that have not been used for longer than the idle time.
    pub fn expire(&self, now: u64) {
        if let (Kind::Hash(hash), Some(idle)) = (&*self.kind, self.idle) {
            hash.expire(now, idle);
        }
    }

    /// See [`super::Tables::keys_from`].
    pub fn keys_from(&self, from: &mut u32, keys: &mut Vec<u64>, most: usize) -> bool {
        match &*self.kind {
            Kind::Array(array) => {
                let end = array.capacity().min(from.saturating_add(most as u32));
                keys.extend((*from..end).map(u64::from));
                *from = end;
                end == array.capacity()
            }
            Kind::Hash(hash) => hash.keys_from(from, keys, most),
            Kind::Lpm(_) | Kind::Trie(_) => true,
        }
    }

    /// Number of entries; of an array, those that are not all zero.
    pub fn count(&self) -> usize {
        match &*self.kind {
            Kind::Array(array) => array.used().count(),
            Kind::Lpm(lpm) => lpm.count(),
            Kind::Trie(trie) => trie.count(),
            Kind::Hash(hash) => hash.count(),
        }
    }

    /// The entries, sorted by key; of an array, those that are not all zero.
    pub fn dump(&self) -> Vec<TableEntry> {
        let value = |bytes: &[u8]| self.value.decode(bytes);
        let mut entries: Vec<TableEntry> = match &*self.kind {
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
                .map(|(k, bytes)| TableEntry { key: unpack_key(&self.key, &k), prefix_len: None, value: value(&bytes) })
                .collect(),
        };
        entries.sort_by(|a, b| (&a.key, a.prefix_len).cmp(&(&b.key, b.prefix_len)));
        entries
    }

    /// Calls a function with the key, the prefix length and the value of each entry, in no order; of an array, of those
    /// that are not all zero. Nothing is kept of them, so it takes no memory and less time than [`Table::dump`].
    pub fn visit(&self, mut entry_is: impl FnMut(&[u128], Option<u32>, &[u128])) {
        let Kind::Hash(hash) = &*self.kind else {
            return self.dump().iter().for_each(|entry| entry_is(&entry.key, entry.prefix_len, &entry.value));
        };
        let mut key = vec![0; self.key.fields.len()];
        let mut value = vec![0; self.value.fields()];
        hash.visit(|words, bytes| {
            key.iter_mut().zip(unpacked(&self.key, words)).for_each(|(field, number)| *field = number);
            self.value.decode_to(bytes, &mut value);
            entry_is(&key, None, &value);
        });
    }
}

/// Sets an entry of a hash table. Where that is a member of a group, nobody else changes members meanwhile.
fn set_entry<T>(hash: &Hash, key: &[u128], set: impl FnOnce() -> Result<T, TableError>) -> Result<T, TableError> {
    let Some(members) = &hash.members else { return set() };
    let place = member_of(key).filter(|(group, member)| members.has_place(*group, *member));
    let (group, member) = place.ok_or(TableError::OutOfRange)?;
    let mut change = members.change();
    let done = set()?;
    change.joined(group, member);
    Ok(done)
}

/// The group and the number that the key of a member says.
fn member_of(key: &[u128]) -> Option<(u32, u32)> {
    let [group, member] = *key else { return None };
    Some((u32::try_from(group).ok()?, u32::try_from(member).ok()?))
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

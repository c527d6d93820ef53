//! Tables of the interpreter: simple and obviously right rather than compact.
//!
//! An entry has a number (its slot) for as long as it lives, and a pointer to an entry is table and slot. A hash entry
//! that was removed keeps its slot until the packet under way is done: pointers to it still read and write its value,
//! which no look-up finds any more.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::ir::arith::mask;
use crate::ir::meter::MeterRate;
use crate::ir::{Group, Program, Table, TableEntry, TableError, TableKind, is_expired, prefix_mask};

/// One table.
#[derive(Clone, Debug)]
pub(super) struct Store {
    capacity: usize,
    key_widths: Vec<u32>,
    value_widths: Vec<u32>,
    /// How many of them the control plane sees.
    shown: usize,
    /// `value_widths.len()` numbers per slot.
    values: Vec<u128>,
    index: Index,
    /// Slots that no entry uses.
    free: Vec<u32>,
    /// Where entries are members of groups.
    group: Option<Group>,
    /// Of an array: what its entries are at first, and again when they are removed.
    first: Vec<u128>,
    /// Entries with a deadline, by key.
    deadlines: BTreeMap<Box<[u128]>, u64>,
    /// Those of them for which no timer was called yet, by time and key.
    waiting: BTreeSet<(u64, Box<[u128]>)>,
    /// Deadlines that timers have taken.
    taken: u64,
}

#[derive(Clone, Debug)]
enum Index {
    Array,
    Hash {
        slots: HashMap<Box<[u128]>, u32>,
        /// Slots of entries removed while the packet under way may still point to them.
        removed: Vec<u32>,
    },
    /// Slots by prefix, one map per prefix length, from 0 to the width of the key.
    Lpm(Vec<HashMap<u128, u32>>),
}

impl Store {
    pub fn new(program: &Program, table: &Table) -> Store {
        Self::of_kind(program, table, table.kind)
    }

    /// One in which an array has only the entries that are set, and takes no memory for others.
    pub fn sparse(program: &Program, table: &Table) -> Store {
        let kind = if table.kind == TableKind::Array { TableKind::Hash } else { table.kind };
        Self::of_kind(program, table, kind)
    }

    fn of_kind(program: &Program, table: &Table, kind: TableKind) -> Store {
        let widths = |layout: u32| program.layouts[layout as usize].fields.iter().map(|f| f.width).collect::<Vec<_>>();
        let value_widths = widths(table.value.0);
        let capacity = table.capacity as usize;
        let mut first = vec![0; value_widths.len()];
        if let Some(MeterRate { rate, burst }) = table.meter {
            first[..2].copy_from_slice(&[rate.into(), burst.into()]);
        }
        let (index, values) = match kind {
            TableKind::Array => (Index::Array, first.repeat(capacity)),
            TableKind::Hash => (Index::Hash { slots: HashMap::new(), removed: Vec::new() }, Vec::new()),
            TableKind::Lpm => {
                let width = widths(table.key.0)[0];
                (Index::Lpm(vec![HashMap::new(); width as usize + 1]), Vec::new())
            }
        };
        let shown = program.shown_fields(table);
        let key_widths = widths(table.key.0);
        let (free, deadlines, waiting, taken) = Default::default();
        let group = table.group;
        Store {
            capacity,
            key_widths,
            value_widths,
            shown,
            values,
            index,
            free,
            group,
            first,
            deadlines,
            waiting,
            taken,
        }
    }

    /// Gives the slots of removed entries back. No pointer to an entry may live.
    pub fn release_removed(&mut self) {
        if let Index::Hash { removed, .. } = &mut self.index {
            self.free.append(removed);
        }
    }

    /// The slot that a key leads to, and how many bits of it matched; 0 in a table without prefixes.
    pub fn lookup(&self, key: &[u128]) -> Option<(u32, u8)> {
        match &self.index {
            Index::Array => (key[0] < self.capacity as u128).then_some((key[0] as u32, 0)),
            Index::Hash { slots, .. } => slots.get(key).map(|slot| (*slot, 0)),
            Index::Lpm(lengths) => {
                let width = self.key_widths[0];
                let by_length = |len: u32| {
                    let slot = lengths[len as usize].get(&(key[0] & prefix_mask(width, len)?))?;
                    Some((*slot, len as u8))
                };
                (0..=width).rev().find_map(by_length)
            }
        }
    }

    /// Field of an entry; `None` where there is no such slot or field.
    pub fn load(&self, slot: u32, field: u32) -> Option<u128> {
        self.values.get(slot as usize * self.value_widths.len() + field as usize).copied()
    }

    /// The fields of an entry that the control plane sees.
    pub fn shown_values(&self, slot: u32) -> Option<Vec<u128>> {
        (0..self.shown as u32).map(|field| self.load(slot, field)).collect()
    }

    /// The prefix length of a whole key, in a table of prefixes.
    pub fn prefix_width(&self) -> Option<u32> {
        matches!(self.index, Index::Lpm(_)).then_some(self.key_widths[0])
    }

    /// Sets a field of an entry.
    pub fn store(&mut self, slot: u32, field: u32, value: u128) {
        if let Some(cell) = self.values.get_mut(slot as usize * self.value_widths.len() + field as usize) {
            *cell = value;
        }
    }

    /// Inserts or replaces for the control plane, which leaves out what it does not see: that is 0.
    pub fn set(&mut self, key: &[u128], prefix_len: Option<u32>, value: &[u128]) -> Result<(), TableError> {
        fits(&self.value_widths[..self.shown], value)?;
        self.insert(key, prefix_len, value)?;
        self.forget_deadline(key);
        Ok(())
    }

    /// The first member of a group from a number on.
    pub fn next_member(&self, group: u32, from: u32) -> Option<u32> {
        let Index::Hash { slots, .. } = &self.index else { return None };
        let member = |key: &[u128]| matches!(key, [of, _] if *of == group.into()).then(|| key[1] as u32);
        slots.keys().filter_map(|key| member(key)).filter(|member| *member >= from).min()
    }

    /// Adds a member to a group, under the least number that is free there; which.
    pub fn join(&mut self, group: u32, value: &[u128]) -> Result<u32, TableError> {
        let is_free = |member: &u32| self.find(&[group.into(), (*member).into()], None).is_none();
        let member = (0..self.capacity as u32).find(is_free).ok_or(TableError::Full)?;
        self.set(&[group.into(), member.into()], None, value)?;
        Ok(member)
    }

    /// Sets or takes away (0) the deadline of an entry; whether there is such an entry.
    pub fn set_deadline(&mut self, key: &[u128], at: u64) -> bool {
        if self.lookup(key).is_none() {
            return false;
        }
        self.forget_deadline(key);
        if at != 0 {
            self.deadlines.insert(key.into(), at);
            self.waiting.insert((at, key.into()));
        }
        true
    }

    /// Whether an entry's deadline has come; it then has none any more.
    pub fn take_deadline(&mut self, key: &[u128], now: u64) -> bool {
        let has_come = self.deadlines.get(key).is_some_and(|at| *at <= now);
        if has_come {
            self.forget_deadline(key);
            self.taken += 1;
        }
        has_come
    }

    /// How many deadlines of its entries timers have taken.
    pub fn deadlines_taken(&self) -> u64 {
        self.taken
    }

    /// The time of the first deadline for which no timer was called.
    pub fn next_deadline(&self) -> Option<u64> {
        self.waiting.first().map(|(at, _)| *at)
    }

    /// The key of an entry whose deadline has come, for its timer to be called: the first one by time and key.
    pub fn due(&mut self, now: u64) -> Option<Box<[u128]>> {
        let (at, _) = self.waiting.first()?;
        if *at <= now { self.waiting.pop_first().map(|(_, key)| key) } else { None }
    }

    fn forget_deadline(&mut self, key: &[u128]) {
        if let Some((key, at)) = self.deadlines.remove_entry(key) {
            self.waiting.remove(&(at, key));
        }
    }

    /// Inserts or replaces; fields that are left out are 0.
    pub fn insert(&mut self, key: &[u128], prefix_len: Option<u32>, value: &[u128]) -> Result<(), TableError> {
        self.check_key(key, prefix_len)?;
        if self.group.is_some_and(|group| !group.has(self.capacity as u32, key)) {
            return Err(TableError::OutOfRange);
        }
        let slot = match self.find(key, prefix_len) {
            Some(slot) => slot,
            None => self.add(key, prefix_len)?,
        };
        let first = slot as usize * self.value_widths.len();
        self.values[first..first + value.len()].copy_from_slice(value);
        self.values[first + value.len()..first + self.value_widths.len()].fill(0);
        Ok(())
    }

    /// Takes tokens from a meter; whether they were there.
    pub fn take(&mut self, slot: u32, now: u64, tokens: u64) -> bool {
        let fields = self.value_widths.len();
        let [rate, burst, .., full_at] = &mut self.values[slot as usize * fields..][..fields] else { return false };
        let full = MeterRate { rate: *rate as u64, burst: *burst as u64 }.take(*full_at as u64, now, tokens);
        *full_at = full.map_or(*full_at, u128::from);
        full.is_some()
    }

    /// Removes an entry; for an array, sets it to what it was at first.
    pub fn remove(&mut self, key: &[u128], prefix_len: Option<u32>) -> Result<(), TableError> {
        self.check_key(key, prefix_len)?;
        let slot = self.find(key, prefix_len).ok_or(TableError::NotFound)?;
        self.forget_deadline(key);
        match &mut self.index {
            Index::Array => {
                let first = slot as usize * self.value_widths.len();
                self.values[first..first + self.first.len()].copy_from_slice(&self.first);
            }
            Index::Hash { slots, removed } => {
                slots.remove(key);
                removed.push(slot);
            }
            Index::Lpm(lengths) => {
                lengths[prefix_len.unwrap_or(0) as usize].remove(&key[0]);
                self.free.push(slot);
            }
        }
        Ok(())
    }

    /// The value of exactly this entry.
    pub fn get(&self, key: &[u128], prefix_len: Option<u32>) -> Result<Vec<u128>, TableError> {
        self.check_key(key, prefix_len)?;
        self.find(key, prefix_len).map(|slot| self.value(slot).to_vec()).ok_or(TableError::NotFound)
    }

    /// Number of entries that [`Store::dump`] gives.
    pub fn count(&self) -> usize {
        match &self.index {
            Index::Array => (0..self.capacity as u32).filter(|slot| is_set(self.value(*slot))).count(),
            Index::Hash { slots, .. } => slots.len(),
            Index::Lpm(lengths) => lengths.iter().map(HashMap::len).sum(),
        }
    }

    fn value(&self, slot: u32) -> &[u128] {
        let first = slot as usize * self.value_widths.len();
        &self.values[first..first + self.shown]
    }

    /// Removes the entries of a hash table that were not used for longer than `idle` (see [`Table::idle`]).
    pub fn expire(&mut self, now: u64, idle: u64) {
        let (width, shown, values) = (self.value_widths.len(), self.shown, &self.values);
        let mut forgotten = Vec::new();
        if let Index::Hash { slots, removed } = &mut self.index {
            slots.retain(|key, slot| {
                let used = values[*slot as usize * width + shown] as u64;
                let gone = is_expired(now, used, idle);
                removed.extend(gone.then_some(*slot));
                forgotten.extend(gone.then(|| key.clone()));
                !gone
            });
        }
        forgotten.iter().for_each(|key| self.forget_deadline(key));
    }

    /// All entries, sorted by key and prefix length; of an array, only those that are not all zero.
    pub fn dump(&self) -> Vec<TableEntry> {
        let entry =
            |key: Vec<u128>, prefix_len, slot: u32| TableEntry { key, prefix_len, value: self.value(slot).to_vec() };
        let mut entries: Vec<TableEntry> = match &self.index {
            Index::Array => (0..self.capacity as u32)
                .map(|i| entry(vec![i as u128], None, i))
                .filter(|e| is_set(&e.value))
                .collect(),
            Index::Hash { slots, .. } => slots.iter().map(|(key, slot)| entry(key.to_vec(), None, *slot)).collect(),
            Index::Lpm(lengths) => (0..lengths.len())
                .flat_map(|len| lengths[len].iter().map(move |(prefix, slot)| (len, *prefix, *slot)))
                .map(|(len, prefix, slot)| entry(vec![prefix], Some(len as u32), slot))
                .collect(),
        };
        entries.sort_by(|a, b| (&a.key, a.prefix_len).cmp(&(&b.key, b.prefix_len)));
        entries
    }

    /// Whether this can be a key of this table.
    fn check_key(&self, key: &[u128], prefix_len: Option<u32>) -> Result<(), TableError> {
        match (&self.index, prefix_len) {
            (Index::Array, None) if key.len() == 1 && key[0] < self.capacity as u128 => Ok(()),
            (Index::Array, None) => Err(TableError::OutOfRange),
            (Index::Hash { .. }, None) => fits(&self.key_widths, key),
            (Index::Lpm(_), Some(len)) if key.len() == 1 => match prefix_mask(self.key_widths[0], len) {
                Some(inside) if key[0] & !inside == 0 => Ok(()),
                _ => Err(TableError::BadPrefix),
            },
            _ => Err(TableError::BadPrefix),
        }
    }

    /// Slot of exactly this entry. The key was checked.
    pub fn find(&self, key: &[u128], prefix_len: Option<u32>) -> Option<u32> {
        match &self.index {
            Index::Array => Some(key[0] as u32),
            Index::Hash { slots, .. } => slots.get(key).copied(),
            Index::Lpm(lengths) => lengths[prefix_len? as usize].get(&key[0]).copied(),
        }
    }

    /// A slot for a new entry, entered in the index. The key was checked and is not there.
    fn add(&mut self, key: &[u128], prefix_len: Option<u32>) -> Result<u32, TableError> {
        if self.count() >= self.capacity {
            return Err(TableError::Full);
        }
        let width = self.value_widths.len();
        let slot = self.free.pop().unwrap_or_else(|| {
            let slot = self.values.len() / width;
            self.values.resize(self.values.len() + width, 0);
            slot as u32
        });
        match &mut self.index {
            Index::Array => {}
            Index::Hash { slots, .. } => {
                slots.insert(key.into(), slot);
            }
            Index::Lpm(lengths) => {
                lengths[prefix_len.unwrap_or(0) as usize].insert(key[0], slot);
            }
        }
        Ok(slot)
    }
}

/// Whether an entry of an array counts as one.
fn is_set(value: &[u128]) -> bool {
    value.iter().any(|number| *number != 0)
}

/// One number per field, none wider than its field.
fn fits(widths: &[u32], numbers: &[u128]) -> Result<(), TableError> {
    let in_range = widths.len() == numbers.len() && widths.iter().zip(numbers).all(|(w, n)| *n <= mask(*w));
    if in_range { Ok(()) } else { Err(TableError::OutOfRange) }
}

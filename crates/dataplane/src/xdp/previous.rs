//! The previous instance: the program that an ended process left in the kernel, and the tables that its packets still
//! change.
//!
//! Arrays and hash tables lie in the memory as they are; routes are the control plane's and come from the disk.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use baker::ir::{Program, Table, TableEntry, TableId};
use codegen::abi::{HashBucket, HashEntry, unpack_key};
use codegen::kernel::{Memory, TableLocation};

use super::pins::Pins;
use super::sys;
use crate::sys::Mapping;
use crate::tables::Tables;
use crate::tables::layout::Codec;

/// Values by table and key.
type Values = HashMap<(TableId, Vec<u128>), Vec<u128>>;

/// What was left.
#[derive(Debug)]
pub struct PreviousInstance {
    memory: Mapping,
    size: usize,
    /// Where the process had the memory: what its addresses count from.
    base: u64,
    /// Name, what it was declared as, and where it lies.
    tables: Vec<(String, String, EntryLayout)>,
    /// What was handed on; none: nothing is to be.
    given: Option<Values>,
}

/// Where entries lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryLayout {
    Array {
        entries: usize,
    },
    /// Where the word at `control` says.
    Published {
        control: usize,
    },
    Hash {
        buckets: usize,
        count: usize,
        entries: usize,
    },
}

/// What lies where, in lines: the memory's size and address, then for each table its place, name and declaration.
pub fn describe(program: &Program, memory: &Memory) -> String {
    let mut text = format!("{} {}\n", memory.size, memory.base);
    for (table, layout) in program.tables.iter().zip(&memory.tables) {
        let layout = match layout {
            TableLocation::Array { entries } => format!("array {entries}"),
            TableLocation::Hash { buckets, count, entries, .. } => format!("hash {buckets} {count} {entries}"),
            TableLocation::Published { control } => format!("published {control}"),
            TableLocation::Lpm { .. } | TableLocation::Trie { .. } => continue,
        };
        text += &format!("{layout}\t{}\t{}\n", table.name, declared(program, table));
    }
    text
}

/// A value that was `before`, with what has changed in `there`; in other fields, and where both changed, as `here`.
fn merged(before: &[u128], there: &[u128], here: &[u128]) -> Vec<u128> {
    let field = |((before, there), here): ((&u128, &u128), &u128)| if here == before { *there } else { *here };
    before.iter().zip(there).zip(here).map(field).collect()
}

/// All that decides how the entries of a table lie.
fn declared(program: &Program, table: &Table) -> String {
    let layout = |id: baker::ir::LayoutId| {
        let layout = &program.layouts[id.0 as usize];
        let field = |f: &baker::ir::LayoutField| format!("{}:{}@{}", f.name, f.width, f.offset);
        let fields: Vec<_> = layout.fields.iter().map(field).collect();
        format!("{},{} {}", layout.size, layout.align, fields.join(","))
    };
    let meter = table.meter.map(|meter| (meter.rate, meter.burst));
    format!("{:?} {} {meter:?} {} -> {}", table.kind, table.capacity, layout(table.key), layout(table.value))
}

fn layout(text: &str) -> Option<EntryLayout> {
    let mut words = text.split(' ');
    let kind = words.next()?;
    let mut number = || words.next()?.parse().ok();
    match kind {
        "array" => Some(EntryLayout::Array { entries: number()? }),
        "published" => Some(EntryLayout::Published { control: number()? }),
        "hash" => Some(EntryLayout::Hash { buckets: number()?, count: number()?, entries: number()? }),
        _ => None,
    }
}

impl PreviousInstance {
    /// The program that named links run, if there is one.
    pub fn find(pins: &Pins) -> io::Result<Option<PreviousInstance>> {
        let links = pins
            .interfaces()?
            .into_iter()
            .filter_map(|interface| pins.link(interface).transpose())
            .collect::<io::Result<Vec<_>>>()?;
        let running =
            links.iter().map(|link| sys::link_info(link).map(|info| info.program)).collect::<io::Result<Vec<_>>>()?;
        for number in pins.programs()? {
            let object = |name| pins.object(number, name);
            let (Some(program), Some(memory), Some(tables)) =
                (object("program")?, object("memory")?, pins.tables(number)?)
            else {
                continue;
            };
            if running.contains(&sys::object_id(&program)?) {
                return Self::open(&memory, &tables).map(Some);
            }
        }
        Ok(None)
    }

    fn open(memory: &OwnedFd, described: &str) -> io::Result<PreviousInstance> {
        let damaged =
            || io::Error::new(io::ErrorKind::InvalidData, "what describes the tables of the program is damaged");
        let mut lines = described.lines();
        let mut numbers = lines.next().unwrap_or_default().split(' ').map(str::parse::<u64>);
        let size = numbers.next().and_then(Result::ok).and_then(|size| size.try_into().ok()).ok_or_else(damaged)?;
        // Versions before this one have no address, and no table that needs it.
        let base = numbers.next().transpose().map_err(|_| damaged())?.unwrap_or_default();
        let table = |line: &str| {
            let mut parts = line.split('\t');
            let layout = layout(parts.next()?)?;
            Some((parts.next()?.to_owned(), parts.next()?.to_owned(), layout))
        };
        let tables = lines.map(|line| table(line).ok_or_else(damaged)).collect::<io::Result<Vec<_>>>()?;
        let memory = Mapping::of_fd(memory.as_raw_fd(), size)?;
        Ok(PreviousInstance { memory, size, base, tables, given: None })
    }

    /// The entries of a table that is declared as it was, as they are kept ([`Tables::dump_kept`]). `None` where there
    /// is none.
    fn entries(&self, program: &Program, id: TableId) -> Option<Vec<TableEntry>> {
        let table = &program.tables[id.0 as usize];
        let declared = declared(program, table);
        let (.., layout) = self.tables.iter().find(|(name, was, _)| (name, was) == (&table.name, &declared))?;
        let (key, value) = (&program.layouts[table.key.0 as usize], program.shown_value(table).into_owned());
        let stored = &program.layouts[table.value.0 as usize];
        let ages = table.idle.and_then(|_| stored.fields.get(value.fields.len())).map(|field| field.offset as usize);
        let codec = Codec::new(&value);
        let numbers = |bytes: &[u8]| {
            let mut numbers = codec.decode(bytes);
            numbers.extend(ages.map(|at| u128::from(bytes[at..at + 8] != [0; 8])));
            numbers
        };
        let size = value.size as usize;
        let array = |entries: usize| {
            let entry = |index: u32| {
                let bytes = self.bytes(entries.checked_add(index as usize * size)?, size)?;
                let value = numbers(&bytes);
                let is_set = value.iter().any(|n| *n != 0);
                is_set.then(|| TableEntry { key: vec![index.into()], prefix_len: None, value })
            };
            (0..table.capacity).filter_map(entry).collect()
        };
        Some(match *layout {
            EntryLayout::Array { entries } => array(entries),
            EntryLayout::Published { control } => {
                array(usize::try_from(self.word64(control)?.checked_sub(self.base)?).ok()?)
            }
            EntryLayout::Hash { buckets, count, entries } => {
                let entry = HashEntry::new(key, &value);
                let slots = (0..count).flat_map(|bucket| {
                    let at = buckets + bucket * size_of::<HashBucket>() + std::mem::offset_of!(HashBucket, entries);
                    (0..8).map(move |slot| at + slot * 4)
                });
                let found = |slot: usize| {
                    // In a slot the entry has one more as its number, which is where it lies.
                    let number = self.word32(slot).filter(|number| *number != 0)?;
                    let at = entries + number as usize * entry.stride;
                    let words =
                        (0..entry.key_words).map(|word| self.word64(at + word * 8)).collect::<Option<Vec<_>>>()?;
                    let bytes = self.bytes(at + entry.value_offset, size)?;
                    Some(TableEntry { key: unpack_key(key, &words), prefix_len: None, value: numbers(&bytes) })
                };
                slots.filter_map(found).collect()
            }
        })
    }

    /// All entries of tables that are declared as they were.
    fn all(&self, program: &Program) -> Values {
        let of = |id: TableId| self.entries(program, id).map(|entries| (id, entries));
        let tables = (0..program.tables.len() as u32).filter_map(|id| of(TableId(id)));
        tables.flat_map(|(id, entries)| entries.into_iter().map(move |entry| ((id, entry.key), entry.value))).collect()
    }

    /// Lets a program's tables hold what these have, where they are declared the same. How many entries.
    pub fn bequeath(&mut self, program: &Program, tables: &Tables) -> usize {
        let given = self.all(program);
        for id in (0..program.tables.len() as u32).map(TableId) {
            if !self.has(program, id) {
                continue;
            }
            for there in tables.dump(id) {
                if !given.contains_key(&(id, there.key.clone())) {
                    // What a packet has removed meanwhile is gone.
                    let _ = tables.remove(id, &there.key, there.prefix_len);
                }
            }
        }
        let insert = |((id, key), value): (&(TableId, Vec<u128>), &Vec<u128>)| {
            let entry = TableEntry { key: key.clone(), prefix_len: None, value: value.clone() };
            tables.insert_kept(*id, &entry).is_ok()
        };
        let count = given.iter().filter(|entry| insert(*entry)).count();
        self.given = Some(given);
        count
    }

    /// Hands on what packets have changed here since the last time, field by field. Where packets of both programs
    /// change a field at that time, the new one's change counts; what either has removed is gone. Nothing where nothing
    /// was handed on before, as whoever starts has begun without a state.
    ///
    /// Controllers must not run yet: this would undo what they change at the same time.
    pub fn catch_up(&mut self, program: &Program, tables: &Tables) {
        let Some(given) = self.given.take() else { return };
        let now = self.all(program);
        self.given = Some(now.clone());
        let current: Values = (0..program.tables.len() as u32)
            .map(TableId)
            .filter(|id| self.has(program, *id))
            .flat_map(|id| tables.dump_kept(id).into_iter().map(move |entry| ((id, entry.key), entry.value)))
            .collect();
        for (at, value) in &now {
            let value = match (given.get(at), current.get(at)) {
                (None, None) => value.clone(),
                (Some(before), Some(here)) if before != value => merged(before, value, here),
                _ => continue,
            };
            let entry = TableEntry { key: at.1.clone(), prefix_len: None, value };
            // A table that is full by now has newer entries.
            let _ = tables.insert_kept(at.0, &entry);
        }
        for (at, value) in given.iter().filter(|(at, _)| !now.contains_key(*at)) {
            if current.get(at) == Some(value) {
                // It may have been removed meanwhile.
                let _ = tables.remove(at.0, &at.1, None);
            }
        }
    }

    /// Whether it has a table as it is declared.
    fn has(&self, program: &Program, id: TableId) -> bool {
        let table = &program.tables[id.0 as usize];
        self.tables.iter().any(|(name, was, _)| *name == table.name && *was == declared(program, table))
    }

    fn word32(&self, at: usize) -> Option<u32> {
        let inside = at.is_multiple_of(4) && at + 4 <= self.size;
        // SAFETY: inside of the mapping and aligned; programs in the kernel write it as words.
        inside.then(|| unsafe { AtomicU32::from_ptr(self.memory.ptr().add(at).cast()) }.load(Ordering::Acquire))
    }

    fn word64(&self, at: usize) -> Option<u64> {
        let inside = at.is_multiple_of(8) && at.checked_add(8).is_some_and(|end| end <= self.size);
        // SAFETY: as above.
        inside.then(|| unsafe { AtomicU64::from_ptr(self.memory.ptr().add(at).cast()) }.load(Ordering::Relaxed))
    }

    /// Bytes, by words where they lie as words.
    fn bytes(&self, at: usize, len: usize) -> Option<Vec<u8>> {
        if at.is_multiple_of(8) && len.is_multiple_of(8) {
            let words = (0..len / 8).map(|word| self.word64(at + word * 8)).collect::<Option<Vec<_>>>()?;
            return Some(words.into_iter().flat_map(u64::to_ne_bytes).collect());
        }
        let byte = |at: usize| {
            // SAFETY: inside of the mapping.
            (at < self.size).then(|| unsafe { AtomicU8::from_ptr(self.memory.ptr().add(at)) }.load(Ordering::Relaxed))
        };
        (at..at.checked_add(len)?).map(byte).collect()
    }
}

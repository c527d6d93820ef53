//! Longest prefix match: DIR-24-8 (Gupta, Lin, McKeown, "Routing lookups in hardware at memory access speeds", 1998).
//!
//! Two array look-ups at most. The default route is one slot and not 2^24 of them. Routes of one length with equal
//! values share an entry where the program only reads it, so that the values of a million routes to a few neighbours
//! stay in the nearest cache. Beside the arrays the writer keeps the set of routes, to find the covering route when one
//! is removed, and each entry's prefix length, to know which of two nested routes a slot belongs to.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use baker::ir::{Layout, TableError};
use codegen::abi::{LARGE_FIRST, LARGE_SECOND, LPM_GROUP, LpmTable};
use codegen::kernel::TableLocation;

use super::entries::Entries;
use super::epoch::Epochs;
use super::layout::Bytes;
use super::slots::{SPARE, Slots};
use super::space::{Block, Space, Use};
use super::staging::large;
use super::values::Values;

/// Bytes of `tbl24` that make staging worth it: measured, see docs/benchmarks.md. A packet's other look-ups wait for
/// this one.
const FAR_FIRST: usize = 128 << 10;
/// Bytes of groups and values.
const FAR_SECOND: usize = 512 << 10;
/// Tables for more routes than this get large pages: their routes lie all over the arrays, and a look-up would miss the
/// translation of its address, too.
const FEW: u32 = 4096;

/// Where memory costs something before it is touched, there are groups for one of so many routes (or [`FEW`]).
const GROUPED: u32 = 16;

/// The bits of a prefix of this length, 0 to 32.
pub fn mask(len: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)
}

#[derive(Debug)]
struct Writer {
    /// Entry by prefix and length.
    routes: HashMap<(u32, u8), u32, ahash::RandomState>,
    entries: Entries,
    groups: Slots,
    /// Groups in use.
    grouped: usize,
    /// Number of routes longer than 24 in each group.
    long_routes: Vec<u16>,
    lines: Lines,
}

/// Cache lines of `tbl24` in which routes begin.
#[derive(Debug)]
struct Lines {
    /// Number of routes that begin in each.
    routes: Vec<u16>,
    used: usize,
}

impl Lines {
    fn new() -> Self {
        Lines { routes: vec![0; 1 << 20], used: 0 }
    }

    /// The routes of the line of a prefix. There are less than 2^13 prefixes with the same 20 bits.
    fn of(&mut self, prefix: u32) -> &mut u16 {
        &mut self.routes[prefix as usize >> 12]
    }

    fn add(&mut self, prefix: u32) {
        *self.of(prefix) += 1;
        self.used += usize::from(*self.of(prefix) == 1);
    }

    fn remove(&mut self, prefix: u32) {
        *self.of(prefix) -= 1;
        self.used -= usize::from(*self.of(prefix) == 0);
    }

    fn bytes(&self) -> usize {
        self.used * 64
    }
}

/// An lpm table.
#[derive(Debug)]
pub struct Lpm {
    /// Holds the control block.
    control: Block,
    tbl24: Block,
    tbl8: Block,
    groups: u32,
    values: Values,
    capacity: u32,
    epochs: Arc<Epochs>,
    writer: Mutex<Writer>,
}

impl Lpm {
    /// An empty table for `capacity` routes. `read_only`: the program changes no entry.
    pub fn new(
        capacity: u32,
        value: (&Layout, Option<usize>),
        read_only: bool,
        epochs: Arc<Epochs>,
        space: &Space,
    ) -> io::Result<Self> {
        let limit = capacity.saturating_add(SPARE);
        if limit >= LPM_GROUP {
            return Err(io::Error::from(io::ErrorKind::OutOfMemory));
        }
        // A group is there only for a route longer than 24, and there are 2^24 places for one.
        let groups = if space.is_dense() {
            (capacity.min((capacity / GROUPED).max(FEW)) + SPARE).next_power_of_two()
        } else {
            capacity.min(1 << 24) + SPARE
        };
        let what = if capacity > FEW { Use::Index } else { Use::SparseIndex };
        let (tbl24, tbl8) = (space.take(4 << 24, what)?, space.take(groups as usize * 1024, what)?);
        let values = Values::new(limit, value, space)?;
        let control = space.take(size_of::<LpmTable>(), Use::Index)?;
        let table = LpmTable {
            tbl24: tbl24.ptr().cast(),
            tbl8: tbl8.ptr().cast(),
            entries: values.start(),
            default_slot: 0,
            large: 0,
        };
        // SAFETY: the block has room for it and is aligned to a page.
        unsafe { control.ptr().cast::<LpmTable>().write(table) };
        let writer = Writer {
            routes: HashMap::default(),
            entries: Entries::new(limit, read_only)?,
            groups: Slots::new(groups, &Space::Private)?,
            grouped: 0,
            long_routes: vec![0; groups as usize],
            lines: Lines::new(),
        };
        Ok(Lpm { control, tbl24, tbl8, groups, values, capacity, epochs, writer: Mutex::new(writer) })
    }

    /// Where it lies, to code in the kernel.
    pub fn kernel_location(&self, base: u64) -> TableLocation {
        let at = |ptr: *mut u8| ptr as u64 - base;
        TableLocation::Lpm {
            control: at(self.control.ptr()),
            tbl24: at(self.tbl24.ptr()),
            tbl8: at(self.tbl8.ptr()),
            groups: self.groups,
            entries: at(self.values.start()),
        }
    }

    pub fn control_block(&self) -> *mut u8 {
        self.control.ptr()
    }

    /// Bytes of the entry that a packet's look-up of this key finds.
    pub fn read(&self, key: u32) -> Option<Bytes> {
        // The lock keeps the entry from being reused while its value is copied: this thread is not a worker.
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut slot = self.tbl24(key >> 8).load(Ordering::Acquire);
        if slot & LPM_GROUP != 0 {
            slot = self.tbl8(slot & !LPM_GROUP, key & 255).load(Ordering::Acquire);
        }
        if slot == 0 {
            slot = self.default_slot().load(Ordering::Acquire);
        }
        slot.checked_sub(1).map(|entry| self.values.read(entry))
    }

    /// Inserts a route or replaces the value of one, as a whole.
    pub fn insert(&self, prefix: u32, len: u8, value: &[u8]) -> Result<(), TableError> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let writer = &mut *writer;
        let old = writer.routes.get(&(prefix, len)).copied();
        match old {
            Some(entry) if writer.entries.are_shared() && self.values.read(entry)[..] == *value => return Ok(()),
            Some(entry) if !writer.entries.are_shared() && self.values.change_at_once(entry, value) => return Ok(()),
            None if writer.routes.len() >= self.capacity as usize => return Err(TableError::Full),
            _ => {}
        }
        let entry = writer.entries.take(len, value, &self.values, &self.epochs)?;
        let new = entry + 1;
        let entries = &writer.entries;
        // Of the same length is only the route that is replaced, if there is one.
        let shorter = |slot: u32| slot == 0 || entries.length(slot - 1) <= len;
        match len {
            0 => self.default_slot().store(new, Ordering::Release),
            1..=24 => {
                for index in prefix >> 8..=(prefix | !mask(len)) >> 8 {
                    let slot = self.tbl24(index);
                    match slot.load(Ordering::Relaxed) {
                        old if old & LPM_GROUP != 0 => {
                            self.replace(old & !LPM_GROUP, 0, 255, new, shorter);
                        }
                        old if shorter(old) => slot.store(new, Ordering::Release),
                        _ => {}
                    }
                }
            }
            _ => {
                let slot = self.tbl24(prefix >> 8);
                let before = slot.load(Ordering::Relaxed);
                let (first, last) = (prefix & 255, (prefix | !mask(len)) & 255);
                let group = if before & LPM_GROUP != 0 {
                    let group = before & !LPM_GROUP;
                    self.replace(group, first, last, new, shorter);
                    group
                } else {
                    // The group is complete before look-ups can reach it.
                    let group = match writer.groups.lock().take_patiently(&self.epochs) {
                        Ok(group) => group,
                        Err(error) => {
                            writer.entries.release(entry, &self.values, &self.epochs);
                            return Err(error);
                        }
                    };
                    writer.grouped += 1;
                    self.replace(group, 0, 255, before, |_| true);
                    self.replace(group, first, last, new, |_| true);
                    slot.store(LPM_GROUP | group, Ordering::Release);
                    group
                };
                writer.long_routes[group as usize] += u16::from(old.is_none());
            }
        }
        writer.routes.insert((prefix, len), entry);
        match old {
            Some(old) => writer.entries.release(old, &self.values, &self.epochs),
            None => writer.lines.add(prefix),
        }
        self.note_size(writer);
        Ok(())
    }

    /// Removes a route; its addresses fall to the next shorter one.
    pub fn remove(&self, prefix: u32, len: u8) -> Result<(), TableError> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let writer = &mut *writer;
        let entry = writer.routes.remove(&(prefix, len)).ok_or(TableError::NotFound)?;
        writer.lines.remove(prefix);
        // The default route is in no slot of the arrays, so it covers nothing there.
        let covering = (1..len).rev().find_map(|len| writer.routes.get(&(prefix & mask(len), len)));
        let covering = covering.map_or(0, |entry| entry + 1);
        let gone = entry + 1;
        match len {
            0 => self.default_slot().store(0, Ordering::Release),
            1..=24 => {
                for index in prefix >> 8..=(prefix | !mask(len)) >> 8 {
                    let slot = self.tbl24(index);
                    match slot.load(Ordering::Relaxed) {
                        old if old & LPM_GROUP != 0 => {
                            self.replace(old & !LPM_GROUP, 0, 255, covering, |old| old == gone);
                        }
                        old if old == gone => slot.store(covering, Ordering::Release),
                        _ => {}
                    }
                }
            }
            _ => {
                let slot = self.tbl24(prefix >> 8);
                let group = slot.load(Ordering::Relaxed) & !LPM_GROUP;
                let (first, last) = (prefix & 255, (prefix | !mask(len)) & 255);
                self.replace(group, first, last, covering, |old| old == gone);
                writer.long_routes[group as usize] -= 1;
                if writer.long_routes[group as usize] == 0 {
                    // Only routes of up to 24 bits are left, so all 256 slots are alike.
                    slot.store(self.tbl8(group, 0).load(Ordering::Relaxed), Ordering::Release);
                    writer.groups.lock().retire(group, &self.epochs);
                    writer.grouped -= 1;
                }
            }
        }
        writer.entries.release(entry, &self.values, &self.epochs);
        self.note_size(writer);
        Ok(())
    }

    /// Bytes of exactly this route's value.
    pub fn get(&self, prefix: u32, len: u8) -> Option<Bytes> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.routes.get(&(prefix, len)).map(|&entry| self.values.read(entry))
    }

    /// Number of routes.
    pub fn count(&self) -> usize {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner).routes.len()
    }

    /// All routes, in no order.
    pub fn dump(&self) -> Vec<(u32, u8, Vec<u8>)> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.routes.iter().map(|(&(prefix, len), &entry)| (prefix, len, self.values.read(entry).into_vec())).collect()
    }

    /// Puts `new` into the slots `first` to `last` of a group where the old slot is as asked.
    fn replace(&self, group: u32, first: u32, last: u32, new: u32, which: impl Fn(u32) -> bool) {
        for index in first..=last {
            let slot = self.tbl8(group, index);
            if which(slot.load(Ordering::Relaxed)) {
                slot.store(new, Ordering::Release);
            }
        }
    }

    fn tbl24(&self, index: u32) -> &AtomicU32 {
        debug_assert!(index < 1 << 24);
        // SAFETY: the mapping holds 2^24 slots, and slots are only accessed atomically or read by generated code.
        unsafe { AtomicU32::from_ptr(self.tbl24.ptr().cast::<u32>().add(index as usize)) }
    }

    fn tbl8(&self, group: u32, index: u32) -> &AtomicU32 {
        // SAFETY: groups come from `Writer::groups`, for all of which the mapping has room; as above.
        unsafe { AtomicU32::from_ptr(self.tbl8.ptr().cast::<u32>().add(group as usize * 256 + index as usize)) }
    }

    /// Tells generated code whether look-ups are worth fetching ahead.
    fn note_size(&self, writer: &Writer) {
        let first = large(writer.lines.bytes(), FAR_FIRST, LARGE_FIRST);
        // A group may be looked into at one line.
        let behind = writer.entries.used() * self.values.size() + writer.grouped * 64;
        let second = large(behind, FAR_SECOND, LARGE_SECOND);
        // SAFETY: the field lives as long as the table and is only accessed atomically or read by generated code.
        let flags = unsafe { AtomicU32::from_ptr(&raw mut (*self.control.ptr().cast::<LpmTable>()).large) };
        flags.store(first | second, Ordering::Relaxed);
    }

    fn default_slot(&self) -> &AtomicU32 {
        // SAFETY: the field lives as long as the table and is only accessed atomically or read by generated code.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.control.ptr().cast::<LpmTable>()).default_slot) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_side_by_side_take_few_lines() {
        let mut lines = Lines::new();
        (0..16).for_each(|index| lines.add(0x0a00_0000 | index << 8));
        lines.add(0x0a00_0000);
        assert_eq!(lines.bytes(), 64);
        lines.add(0x0a00_1000);
        assert_eq!(lines.bytes(), 128);
        (0..16).for_each(|index| lines.remove(0x0a00_0000 | index << 8));
        assert_eq!(lines.bytes(), 128);
        lines.remove(0x0a00_0000);
        assert_eq!(lines.bytes(), 64);
    }
}

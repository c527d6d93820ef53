//! Arrays: entries side by side, all of them there from the start.
//!
//! Where a program does not write the entries itself, the control plane's changes are seen as a whole: there are two
//! copies of the array, of which look-ups read one. A change is made in the other, which is then published by one
//! store, and the first one follows with the next change, when no worker reads it any more (as in Ramalhete and
//! Correia, "Left-Right", 2013, with the workers' batches in place of read indicators). A worker takes over what is
//! published between two batches ([`super::View`]), so look-ups cost nothing more.

use std::io;
use std::sync::atomic::{AtomicPtr, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baker::ir::{Layout, LayoutField, TableError, storage_size};
use codegen::abi::ArrayTable;
use codegen::kernel::TableLocation;

use super::due::Due;
use super::epoch::Epochs;
use super::layout::Bytes;
use super::lock::locked;
use super::shared::{load_shared, store_shared};
use super::slots::patiently;
use super::space::{Block, Space, Use};

/// The control block of an array, or a worker's own in its place: where the entries begin.
pub type Entries = AtomicPtr<u8>;

const _: () = assert!(size_of::<Entries>() == size_of::<ArrayTable>());

/// How an array's entries change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Where they lie, field by field; with the lock that lies at this offset, if there is one.
    InPlace(Option<usize>),
    /// As a whole.
    Whole,
}

/// The copy that no new batch reads.
#[derive(Debug)]
struct Spare {
    entries: *mut u8,
    /// The stamp from which on no worker reads it.
    unused_from: u64,
    /// Entries that are newer in the published copy.
    behind: Vec<u32>,
}

// SAFETY: the pointer leads into the array's mapping, which any thread may access.
unsafe impl Send for Spare {}

/// An array table.
#[derive(Debug)]
pub struct Array {
    /// Holds the control block.
    control: Block,
    memory: Block,
    capacity: u32,
    size: usize,
    align: usize,
    /// Bytes of an entry in which the fields lie that the control plane sees.
    shown: usize,
    /// Where the lock of an entry lies, if it has one.
    lock: Option<usize>,
    /// What an entry is at first.
    first: Bytes,
    /// Where entries change as a whole. Its lock is the writer's.
    spare: Option<Mutex<Spare>>,
    epochs: Arc<Epochs>,
    /// Where entries have deadlines.
    pub due: Option<Due>,
}

impl Array {
    /// `capacity` entries with the value `first`.
    pub fn new(
        capacity: u32,
        value: &Layout,
        change: Change,
        first: Bytes,
        epochs: Arc<Epochs>,
        space: &Space,
    ) -> io::Result<Self> {
        let size = value.size as usize;
        let bytes = (capacity as usize * size).next_multiple_of(64);
        let copies = if change == Change::Whole { 2 } else { 1 };
        let memory = space.take(copies * bytes, Use::Entries)?;
        // SAFETY: within the mapping where there are two copies, else at its end.
        let second = unsafe { memory.ptr().add(bytes) };
        let spare = Spare { entries: second, unused_from: 0, behind: Vec::new() };
        let end = |field: &LayoutField| (field.offset + storage_size(field.width)) as usize;
        let array = Array {
            control: space.take(size_of::<Entries>(), Use::Index)?,
            memory,
            capacity,
            size,
            align: value.align as usize,
            shown: value.fields.iter().map(end).max().unwrap_or(size),
            lock: if let Change::InPlace(lock) = change { lock } else { None },
            first,
            spare: (change == Change::Whole).then(|| Mutex::new(spare)),
            epochs,
            due: None,
        };
        array.entries().store(array.memory.ptr(), Ordering::Release);
        // Memory that is zero anyway is not touched.
        if is_set(&array.first) {
            let all = &mut (0..capacity).map(|index| (index, array.first.clone()));
            array.write(all).map_err(io::Error::other)?;
        }
        Ok(array)
    }

    /// Where it lies, to code in the kernel.
    pub fn kernel_location(&self, base: u64) -> TableLocation {
        let at = |ptr: *mut u8| ptr as u64 - base;
        match &self.spare {
            None => TableLocation::Array { entries: at(self.memory.ptr()) },
            Some(_) => TableLocation::Published { control: at(self.control.ptr()) },
        }
    }

    pub fn control_block(&self) -> *mut u8 {
        self.control.ptr()
    }

    /// Where the entries lie that a batch which begins now reads, where these may be others for the next one.
    pub fn published(&self) -> Option<*mut u8> {
        self.spare.as_ref().map(|_| self.entries().load(Ordering::Acquire))
    }

    /// Number of entries.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Entries that are not all zero, with their index.
    pub fn used(&self) -> impl Iterator<Item = (u32, Bytes)> {
        // Only where something is set the entry is locked, so that memory that is zero is not touched.
        let set = (0..self.capacity).filter(|index| is_set(&self.load(self.current(), *index)[..self.shown]));
        let entries = set.filter_map(|index| Some((index, self.read(index)?)));
        entries.filter(|(_, bytes)| is_set(&bytes[..self.shown]))
    }

    /// Bytes of an entry.
    pub fn read(&self, index: u32) -> Option<Bytes> {
        if index >= self.capacity {
            return None;
        }
        let _writer = self.spare.as_ref().map(lock);
        let at = self.at(self.current(), index);
        // SAFETY: an entry, and its own lock.
        Some(unsafe { locked(at, self.lock, || self.load(self.current(), index)) })
    }

    /// Sets entries, in order, up to the first index that there is not.
    pub fn write(&self, changes: &mut dyn Iterator<Item = (u32, Bytes)>) -> Result<(), TableError> {
        let mut refused = Ok(());
        let mut inside = changes.map_while(|(index, value)| {
            if index >= self.capacity {
                refused = Err(TableError::OutOfRange);
                return None;
            }
            Some((index, value))
        });
        match &self.spare {
            Some(spare) => self.publish(&mut lock(spare), &mut inside)?,
            None => inside.for_each(|(index, value)| {
                let (at, stored) = (self.at(self.current(), index), self.lock.unwrap_or(self.size));
                // SAFETY: an entry, and its own lock, which lies behind all else.
                unsafe { locked(at, self.lock, || store_shared(at, &value[..stored], self.align)) };
                self.due.iter().for_each(|due| due.clear(index));
            }),
        }
        refused
    }

    /// Sets an entry that no packet can find yet, such as one whose index no other table has: in both copies, at once.
    pub fn prepare(&self, index: u32, value: &Bytes) -> Result<(), TableError> {
        let Some(spare) = self.spare.as_ref().filter(|_| index < self.capacity) else {
            return self.write(&mut std::iter::once((index, value.clone())));
        };
        let spare = lock(spare);
        for copy in [self.current(), spare.entries] {
            // SAFETY: an entry of the copy, and a value that is as long; the lock keeps other writers out.
            unsafe { store_shared(self.at(copy, index), value, self.align) };
        }
        // A packet that finds the index finds the entry, too.
        fence(Ordering::Release);
        Ok(())
    }

    /// Makes an entry what it was at first.
    pub fn clear(&self, index: u32) -> Result<(), TableError> {
        self.write(&mut std::iter::once((index, self.first.clone())))
    }

    /// Makes the changes in the spare copy and publishes that.
    fn publish(&self, spare: &mut Spare, changes: &mut dyn Iterator<Item = (u32, Bytes)>) -> Result<(), TableError> {
        let published = self.current();
        let mut changes = changes.skip_while(|(index, value)| self.load(published, *index) == *value).peekable();
        if changes.peek().is_none() {
            return Ok(());
        }
        // A batch that reads it takes microseconds.
        patiently(|| (spare.unused_from <= self.epochs.safe()).then_some(())).ok_or(TableError::Busy)?;
        let store = |index: u32, value: &[u8]| {
            // SAFETY: an entry of the copy, and a value that is as long; it is not read, but that is not needed.
            unsafe { store_shared(self.at(spare.entries, index), value, self.align) };
        };
        spare.behind.drain(..).for_each(|index| store(index, &self.load(published, index)));
        for (index, value) in changes {
            store(index, &value);
            spare.behind.push(index);
        }
        self.entries().store(spare.entries, Ordering::Release);
        spare.entries = published;
        spare.unused_from = self.epochs.retire();
        Ok(())
    }

    fn entries(&self) -> &Entries {
        // SAFETY: the block holds the control block, which is only accessed atomically or read by generated code.
        unsafe { Entries::from_ptr(self.control.ptr().cast()) }
    }

    fn current(&self) -> *mut u8 {
        self.entries().load(Ordering::Acquire)
    }

    fn load(&self, entries: *mut u8, index: u32) -> Bytes {
        // SAFETY: the callers checked the index; entries follow each other at the layout's size, a multiple of its
        // alignment.
        unsafe { load_shared(self.at(entries, index), self.size, self.align) }
    }

    fn at(&self, entries: *mut u8, index: u32) -> *mut u8 {
        // SAFETY: one of the copies, and the callers checked the index.
        unsafe { entries.add(index as usize * self.size) }
    }
}

/// Whether an entry of an array counts as one.
fn is_set(bytes: &[u8]) -> bool {
    bytes.iter().any(|&byte| byte != 0)
}

fn lock(spare: &Mutex<Spare>) -> MutexGuard<'_, Spare> {
    spare.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Arrays: entries side by side, all of them there from the start.

use std::io;

use baker::ir::{Layout, LayoutField, TableError, storage_size};
use codegen::abi::ArrayTable;

use super::lock::locked;
use super::{load_shared, store_shared};
use crate::sys::Mapping;

/// Whether an entry of an array counts as one.
fn is_set(bytes: &[u8]) -> bool {
    bytes.iter().any(|&byte| byte != 0)
}

/// An array table.
#[derive(Debug)]
pub struct Array {
    control: Box<ArrayTable>,
    _entries: Mapping,
    capacity: u32,
    size: usize,
    align: usize,
    /// Bytes of an entry in which the fields lie that the control plane sees.
    shown: usize,
    /// Where the lock of an entry lies, if it has one.
    lock: Option<usize>,
    /// What an entry is at first.
    first: Vec<u8>,
}

impl Array {
    /// `capacity` entries with the value `first`.
    pub fn new(capacity: u32, value: &Layout, lock: Option<usize>, first: Vec<u8>) -> io::Result<Self> {
        let size = value.size as usize;
        let entries = Mapping::anonymous(capacity as usize * size)?;
        let control = Box::new(ArrayTable { entries: entries.ptr() });
        let end = |field: &LayoutField| (field.offset + storage_size(field.width)) as usize;
        let shown = value.fields.iter().map(end).max().unwrap_or(size);
        let array =
            Array { control, _entries: entries, capacity, size, align: value.align as usize, shown, lock, first };
        // Memory that is zero anyway is not touched.
        if is_set(&array.first) {
            (0..capacity).for_each(|index| array.store(index, &array.first));
        }
        Ok(array)
    }

    pub fn control_block(&self) -> *mut u8 {
        (&raw const *self.control).cast_mut().cast()
    }

    /// Number of entries.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Entries that are not all zero, with their index.
    pub fn used(&self) -> impl Iterator<Item = (u32, Vec<u8>)> {
        // Only where something is set the entry is locked, so that memory that is zero is not touched.
        let set = (0..self.capacity).filter(|index| is_set(&self.load(*index)[..self.shown]));
        let entries = set.filter_map(|index| Some((index, self.read(index)?)));
        entries.filter(|(_, bytes)| is_set(&bytes[..self.shown]))
    }

    /// Bytes of an entry.
    pub fn read(&self, index: u32) -> Option<Vec<u8>> {
        // SAFETY: the index is checked.
        (index < self.capacity).then(|| unsafe { locked(self.at(index), self.lock, || self.load(index)) })
    }

    fn load(&self, index: u32) -> Vec<u8> {
        // SAFETY: the callers checked the index; entries follow each other at the layout's size, a multiple of its
        // alignment.
        unsafe { load_shared(self.at(index), self.size, self.align) }
    }

    /// Sets an entry.
    pub fn write(&self, index: u32, value: &[u8]) -> Result<(), TableError> {
        if index >= self.capacity {
            return Err(TableError::OutOfRange);
        }
        self.store(index, value);
        Ok(())
    }

    /// Makes an entry what it was at first.
    pub fn clear(&self, index: u32) -> Result<(), TableError> {
        self.write(index, &self.first)
    }

    fn store(&self, index: u32, value: &[u8]) {
        let (at, stored) = (self.at(index), self.lock.unwrap_or(self.size));
        // SAFETY: as for `load`. The lock lies behind all else.
        unsafe { locked(at, self.lock, || store_shared(at, &value[..stored], self.align)) };
    }

    fn at(&self, index: u32) -> *mut u8 {
        // SAFETY: the callers checked the index.
        unsafe { self.control.entries.add(index as usize * self.size) }
    }
}

//! Arrays: entries side by side, all of them there from the start.

use std::io;

use baker::ir::{Layout, TableError};
use codegen::abi::ArrayTable;

use super::{load_shared, store_shared};
use crate::sys::Mapping;

/// An array table.
#[derive(Debug)]
pub struct Array {
    control: Box<ArrayTable>,
    _entries: Mapping,
    capacity: u32,
    size: usize,
    align: usize,
}

impl Array {
    /// `capacity` zero entries.
    pub fn new(capacity: u32, value: &Layout) -> io::Result<Self> {
        let size = value.size as usize;
        let entries = Mapping::anonymous(capacity as usize * size)?;
        let control = Box::new(ArrayTable { entries: entries.ptr() });
        Ok(Array { control, _entries: entries, capacity, size, align: value.align as usize })
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
        let entries = (0..self.capacity).filter_map(|index| Some((index, self.read(index)?)));
        entries.filter(|(_, bytes)| bytes.iter().any(|&byte| byte != 0))
    }

    /// Bytes of an entry.
    pub fn read(&self, index: u32) -> Option<Vec<u8>> {
        // SAFETY: the index is checked; entries follow each other at the layout's size, a multiple of its alignment.
        (index < self.capacity).then(|| unsafe { load_shared(self.at(index), self.size, self.align) })
    }

    /// Sets an entry.
    pub fn write(&self, index: u32, value: &[u8]) -> Result<(), TableError> {
        if index >= self.capacity {
            return Err(TableError::OutOfRange);
        }
        // SAFETY: as for `read`.
        unsafe { store_shared(self.at(index), value, self.align) };
        Ok(())
    }

    fn at(&self, index: u32) -> *mut u8 {
        // SAFETY: the callers checked the index.
        unsafe { self.control.entries.add(index as usize * self.size) }
    }
}

//! The values of a table's entries, by number.

use std::io;

use baker::ir::Layout;

use super::{at_once, load_shared, store_shared};
use crate::sys::Mapping;

/// Memory for the values of a fixed number of entries.
#[derive(Debug)]
pub struct Values {
    memory: Mapping,
    limit: u32,
    size: usize,
    align: usize,
}

impl Values {
    /// All zero.
    pub fn new(limit: u32, layout: &Layout) -> io::Result<Self> {
        let (size, align) = (layout.size as usize, layout.align as usize);
        Ok(Values { memory: Mapping::anonymous(limit as usize * size)?, limit, size, align })
    }

    /// Where the first value lies; value `n` lies `n` times the layout's size behind it.
    pub fn start(&self) -> *mut u8 {
        self.memory.ptr()
    }

    /// Where a value lies.
    pub fn at(&self, number: u32) -> *mut u8 {
        assert!(number < self.limit);
        // SAFETY: the mapping has room for `limit` values.
        unsafe { self.memory.ptr().add(number as usize * self.size) }
    }

    /// A value's bytes.
    pub fn read(&self, number: u32) -> Vec<u8> {
        // SAFETY: a value of this table; values are aligned as the layout's size is a multiple of its alignment.
        unsafe { load_shared(self.at(number), self.size, self.align) }
    }

    /// Whether [`Values::write`] makes this the value of an entry at once, as a look-up sees it.
    pub fn change_at_once(&self, number: u32, value: &[u8]) -> bool {
        at_once(self.size, self.align) || self.read(number) == value
    }

    /// Replaces a value, each field of up to 8 bytes at once.
    pub fn write(&self, number: u32, value: &[u8]) {
        assert_eq!(value.len(), self.size);
        // SAFETY: as for `read`, and the bytes are as many as the value has.
        unsafe { store_shared(self.at(number), value, self.align) };
    }
}

//! The values of a table's entries, by number.

use std::io;

use baker::ir::Layout;

use super::layout::Bytes;
use super::lock::locked;
use super::shared::{at_once, load_shared, store_shared};
use super::space::{Block, Space, Use};

/// Memory for the values of a fixed number of entries.
#[derive(Debug)]
pub struct Values {
    memory: Block,
    limit: u32,
    size: usize,
    align: usize,
    /// One store changes a value.
    at_once: bool,
    /// Where the lock of a value lies, if it has one.
    lock: Option<usize>,
}

impl Values {
    /// All zero.
    pub fn new(limit: u32, (layout, lock): (&Layout, Option<usize>), space: &Space) -> io::Result<Self> {
        let (size, align) = (layout.size as usize, layout.align as usize);
        let memory = space.take(limit as usize * size, Use::Entries)?;
        Ok(Values { memory, limit, size, align, at_once: at_once(layout), lock })
    }

    /// Where the first value lies; value `n` lies `n` times the layout's size behind it.
    pub fn start(&self) -> *mut u8 {
        self.memory.ptr()
    }

    /// Bytes of a value.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Where a value lies.
    pub fn at(&self, number: u32) -> *mut u8 {
        assert!(number < self.limit);
        // SAFETY: the mapping has room for `limit` values.
        unsafe { self.memory.ptr().add(number as usize * self.size) }
    }

    /// A value's bytes.
    pub fn read(&self, number: u32) -> Bytes {
        let at = self.at(number);
        // SAFETY: a value of this table; values are aligned as the layout's size is a multiple of its alignment.
        unsafe { locked(at, self.lock, || load_shared(at, self.size, self.align)) }
    }

    /// Makes this the value of an entry where that is possible at once, as a look-up sees it; whether it is its value
    /// now.
    pub fn change_at_once(&self, number: u32, value: &[u8]) -> bool {
        if self.at_once {
            self.write(number, value);
        }
        self.at_once || {
            // What stays the same is not written: a worker may hold the lock.
            let end = self.lock.unwrap_or(self.size);
            self.read(number)[..end] == value[..end]
        }
    }

    /// Replaces a value, each field of up to 8 bytes at once. Where it has a lock, it can't be reached yet.
    pub fn write(&self, number: u32, value: &[u8]) {
        assert_eq!(value.len(), self.size);
        // SAFETY: as for `read`, and the bytes are as many as the value has.
        unsafe { store_shared(self.at(number), value, self.align) };
    }
}

//! Where tables lie: in memory of their own, or in one that programs in the kernel see, too (see `codegen::kernel`).
//!
//! Entries come first there and what leads to them behind, so that an entry's place is a small number.

use std::cell::Cell;
use std::io;
use std::sync::Arc;

use crate::sys::Mapping;

/// Blocks begin at multiples of this.
const PAGE: usize = 4096;

/// What a block of memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Values, which programs reach by pointers.
    Entries,
    /// What leads to them.
    Index,
    /// As above, of which little is touched.
    SparseIndex,
}

/// Hands out memory.
#[derive(Debug, Default)]
pub struct Space {
    /// Bytes handed out of each part.
    entries: Cell<usize>,
    index: Cell<usize>,
    /// Whether memory costs something before it is touched.
    dense: bool,
    shared: Option<Shared>,
}

/// The two parts of a memory.
#[derive(Debug)]
struct Shared {
    memory: Arc<Mapping>,
    entries: usize,
    index: usize,
    end: usize,
}

/// A block of zero bytes.
#[derive(Debug)]
pub struct Block {
    memory: Arc<Mapping>,
    at: usize,
}

impl Block {
    /// First byte.
    pub fn ptr(&self) -> *mut u8 {
        // SAFETY: within the mapping, or at its end.
        unsafe { self.memory.ptr().add(self.at) }
    }
}

impl Space {
    /// Memory of each block's own.
    pub fn private() -> Self {
        Space::default()
    }

    /// As [`Space::private`], but as blocks of a shared memory will be: to find out how much is needed.
    pub fn measuring() -> Self {
        Space { dense: true, ..Space::default() }
    }

    /// A memory whose entries begin at `entries`, and the rest at `index`; it ends at `end`.
    pub fn shared(memory: Arc<Mapping>, entries: usize, index: usize, end: usize) -> Self {
        Space { dense: true, shared: Some(Shared { memory, entries, index, end }), ..Space::default() }
    }

    /// Whether untouched memory costs as much as any.
    pub fn is_dense(&self) -> bool {
        self.dense
    }

    /// Bytes handed out: for entries, and for the rest.
    pub fn taken(&self) -> (usize, usize) {
        (self.entries.get(), self.index.get())
    }

    /// A block of at least so many bytes.
    pub fn take(&self, bytes: usize, what: Use) -> io::Result<Block> {
        let part = if what == Use::Entries { &self.entries } else { &self.index };
        let out_of_memory = || io::Error::from(io::ErrorKind::OutOfMemory);
        let before = part.get();
        let rounded = bytes.max(1).checked_next_multiple_of(PAGE).ok_or_else(out_of_memory)?;
        part.set(before.checked_add(rounded).ok_or_else(out_of_memory)?);
        let Some(shared) = &self.shared else {
            let map = if what == Use::SparseIndex { Mapping::sparse } else { Mapping::anonymous };
            return Ok(Block { memory: Arc::new(map(bytes)?), at: 0 });
        };
        let (start, end) = match what {
            Use::Entries => (shared.entries, shared.index),
            _ => (shared.index, shared.end),
        };
        let at = start + before;
        if at + rounded > end {
            return Err(out_of_memory());
        }
        Ok(Block { memory: shared.memory.clone(), at })
    }
}

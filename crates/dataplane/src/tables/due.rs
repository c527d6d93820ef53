//! When table entries are due, by their numbers: see `deadlines.rs`.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use super::space::{Block, Space, Use};

/// The deadline of each entry of a table by its number; 0 is none.
#[derive(Debug)]
pub struct Due {
    block: Block,
    count: u32,
}

impl Due {
    /// For so many entries. The kernel has nothing to do with it, so it is the process's own memory.
    pub fn new(count: u32) -> io::Result<Self> {
        Ok(Due { block: Space::Private.take(count as usize * size_of::<u64>(), Use::Index)?, count })
    }

    /// Number of entries.
    pub fn count(&self) -> u32 {
        self.count
    }

    fn of(&self, entry: u32) -> &AtomicU64 {
        assert!(entry < self.count, "there is no entry {entry}");
        // SAFETY: the block has room for a number per entry, aligned to a page, which are only accessed atomically.
        unsafe { AtomicU64::from_ptr(self.block.ptr().cast::<u64>().add(entry as usize)) }
    }

    /// When an entry is due; 0: never.
    pub fn get(&self, entry: u32) -> u64 {
        self.of(entry).load(Ordering::Relaxed)
    }

    pub fn set(&self, entry: u32, at: u64) {
        self.of(entry).store(at, Ordering::Relaxed);
    }

    /// Takes the deadline away, and touches no memory where there is none.
    pub fn clear(&self, entry: u32) {
        if self.get(entry) != 0 {
            self.set(entry, 0);
        }
    }

    /// Takes the deadline of an entry where it has come; one of those that try gets it.
    pub fn take(&self, entry: u32, now: u64) -> bool {
        let due = |at: u64| (at != 0 && at <= now).then_some(0);
        self.of(entry).fetch_update(Ordering::AcqRel, Ordering::Relaxed, due).is_ok()
    }
}

//! When table entries are due, by their numbers: see `deadlines.rs`.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use codegen::kernel::DueTimes;

use super::space::{Block, Space, Use};

/// The deadline of each entry of a table by its number; 0 is none. Laid out as [`DueTimes`] says.
#[derive(Debug)]
pub struct Due {
    block: Block,
    count: u32,
    /// Code in the kernel may set them, too.
    pub by_kernel: bool,
}

impl Due {
    /// For so many entries.
    pub fn new(count: u32, space: &Space) -> io::Result<Self> {
        let bytes = DueTimes::FIRST as usize + count as usize * size_of::<u64>();
        Ok(Due { block: space.take(bytes, Use::Entries)?, count, by_kernel: matches!(space, Space::Shared(_)) })
    }

    /// Where they lie.
    pub fn ptr(&self) -> *mut u8 {
        self.block.ptr()
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: the callers know that the block has room for the word. It is aligned to a page, and its words are
        // only accessed atomically.
        unsafe { AtomicU64::from_ptr(self.block.ptr().add(at).cast()) }
    }

    /// Whether the kernel has set a deadline that it could not tell a worker of.
    pub fn has_missed(&self) -> bool {
        self.by_kernel && self.word(DueTimes::MISSED as usize).load(Ordering::Relaxed) != 0
    }

    /// As [`Due::has_missed`]; one of those that ask is told so.
    pub fn take_missed(&self) -> bool {
        self.has_missed() && self.word(DueTimes::MISSED as usize).swap(0, Ordering::AcqRel) != 0
    }

    /// Number of entries.
    pub fn count(&self) -> u32 {
        self.count
    }

    fn of(&self, entry: u32) -> &AtomicU64 {
        assert!(entry < self.count, "there is no entry {entry}");
        self.word(DueTimes::FIRST as usize + entry as usize * size_of::<u64>())
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

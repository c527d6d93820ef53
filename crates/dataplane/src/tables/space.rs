//! Where tables lie: in memory of their own, or in one that programs in the kernel see, too (see `codegen::kernel`).
//!
//! Entries come first there and what leads to them behind, so that an entry's place is a small number. What is given
//! back is handed out again, so that programs can take over from each other in one memory.

use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
#[derive(Clone, Debug)]
pub enum Space {
    /// Memory of each block's own.
    Private,
    /// As [`Space::Private`], but as blocks of a shared memory will be: to find out how much is needed.
    Measuring(Cell<[usize; 2]>),
    /// Of one that is shared.
    Shared(Arc<Shared>),
}

/// A memory in two parts, entries and the rest.
#[derive(Debug)]
pub struct Shared {
    memory: Arc<Mapping>,
    /// What is free of each, in order, no two of them next to each other; it holds zeros.
    free: [Mutex<Vec<Range<usize>>>; 2],
}

/// A block of zero bytes. It is given back when this is dropped.
#[derive(Debug)]
pub struct Block {
    memory: Arc<Mapping>,
    place: Range<usize>,
    of: Option<(Arc<Shared>, usize)>,
}

impl Block {
    /// First byte.
    pub fn ptr(&self) -> *mut u8 {
        // SAFETY: within the mapping, or at its end.
        unsafe { self.memory.ptr().add(self.place.start) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let Some((shared, part)) = &self.of else { return };
        // SAFETY: the block lies within the mapping, and its last owner is gone.
        unsafe { self.ptr().write_bytes(0, self.place.len()) };
        shared.give_back(*part, self.place.clone());
    }
}

impl Shared {
    /// The entries of a memory of zeros begin at `entries`, and the rest at `index`; it ends at `end`.
    pub fn new(memory: Arc<Mapping>, entries: usize, index: usize, end: usize) -> Arc<Self> {
        Arc::new(Shared { memory, free: [entries..index, index..end].map(|all| Mutex::new(vec![all])) })
    }

    /// The first place that is large enough.
    fn take(self: &Arc<Self>, part: usize, bytes: usize) -> Option<Block> {
        let mut free = self.free(part);
        let index = free.iter().position(|range| range.len() >= bytes)?;
        let range = &mut free[index];
        let place = range.start..range.start + bytes;
        range.start = place.end;
        if range.start == range.end {
            free.remove(index);
        }
        Some(Block { memory: self.memory.clone(), place, of: Some((self.clone(), part)) })
    }

    fn give_back(&self, part: usize, mut place: Range<usize>) {
        let mut free = self.free(part);
        let index = free.partition_point(|range| range.start < place.start);
        if free.get(index).is_some_and(|next| next.start == place.end) {
            place.end = free.remove(index).end;
        }
        match index.checked_sub(1).map(|before| &mut free[before]) {
            Some(before) if before.end == place.start => before.end = place.end,
            _ => free.insert(index, place),
        }
    }

    fn free(&self, part: usize) -> MutexGuard<'_, Vec<Range<usize>>> {
        self.free[part].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Space {
    /// To find out how much is needed.
    pub fn measuring() -> Self {
        Space::Measuring(Cell::new([0; 2]))
    }

    /// Whether untouched memory costs as much as any.
    pub fn is_dense(&self) -> bool {
        !matches!(self, Space::Private)
    }

    /// Bytes that were measured: for entries, and for the rest.
    pub fn measured(&self) -> [usize; 2] {
        if let Space::Measuring(bytes) = self { bytes.get() } else { [0; 2] }
    }

    /// A block of at least so many bytes.
    pub fn take(&self, bytes: usize, what: Use) -> io::Result<Block> {
        let out_of_memory = || io::Error::from(io::ErrorKind::OutOfMemory);
        let part = usize::from(what != Use::Entries);
        let rounded = bytes.max(1).checked_next_multiple_of(PAGE).ok_or_else(out_of_memory)?;
        match self {
            Space::Shared(shared) => return shared.take(part, rounded).ok_or_else(out_of_memory),
            Space::Measuring(measured) => {
                let mut sums = measured.get();
                sums[part] = sums[part].checked_add(rounded).ok_or_else(out_of_memory)?;
                measured.set(sums);
            }
            Space::Private => {}
        }
        let map = if what == Use::SparseIndex { Mapping::sparse } else { Mapping::anonymous };
        Ok(Block { memory: Arc::new(map(bytes)?), place: 0..bytes, of: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_handed_out_again_and_holds_zeros() {
        let memory = Arc::new(Mapping::anonymous(16 * PAGE).unwrap());
        let shared = Shared::new(memory, 2 * PAGE, 10 * PAGE, 16 * PAGE);
        let space = Space::Shared(shared.clone());
        let free = |part: usize| -> Vec<(usize, usize)> {
            shared.free(part).iter().map(|range| (range.start / PAGE, range.end / PAGE)).collect()
        };
        let take = |bytes: usize| space.take(bytes, Use::Entries);
        let [a, b, c] = [1, 4 * PAGE, PAGE + 1].map(|bytes| take(bytes).unwrap());
        assert_eq!([&a, &b, &c].map(|block| block.place.start / PAGE), [2, 3, 7]);
        assert_eq!(take(2 * PAGE).unwrap_err().kind(), io::ErrorKind::OutOfMemory);
        // SAFETY: the block is ours and has 4 pages.
        unsafe { b.ptr().write_bytes(7, 4 * PAGE) };
        drop(b);
        assert_eq!(free(0), [(3, 7), (9, 10)]);
        drop(c);
        assert_eq!(free(0), [(3, 10)]);
        let all = take(7 * PAGE).unwrap();
        // SAFETY: as above, 7 pages.
        let bytes = unsafe { std::slice::from_raw_parts(all.ptr(), 7 * PAGE) };
        assert!(bytes.iter().all(|byte| *byte == 0));
        drop((a, all));
        assert_eq!(free(0), [(2, 10)]);
        assert_eq!(space.take(5, Use::Index).unwrap().place, 10 * PAGE..11 * PAGE);
        assert_eq!(free(1), [(10, 16)]);
    }
}

//! A bucket of a hash table: one cache line with the tags and entry numbers of eight slots.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use baker::ir::{LayoutId, Program, Table};
use codegen::abi::{HashBucket, HashEntry};

/// Slots of a bucket.
pub const SLOTS: usize = 8;

/// Buckets of a table for so many entries: see `hash`.
pub fn count(capacity: u32) -> u32 {
    if capacity as usize <= SLOTS { 1 } else { capacity.div_ceil(3).max(64).next_power_of_two() }
}

/// Bytes that an entry of a hash table takes where all are in use: key and value, and its share of the buckets. (The
/// list of free numbers has none then.)
pub fn bytes_of_entry(program: &Program, table: &Table) -> f64 {
    let layout = |id: LayoutId| &program.layouts[id.0 as usize];
    let buckets = count(table.capacity) as usize * size_of::<Bucket>();
    HashEntry::new(layout(table.key), layout(table.value)).stride as f64 + buckets as f64 / f64::from(table.capacity)
}

/// [`HashBucket`] as it is shared.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Bucket {
    tags: [AtomicU64; 2],
    pub entries: [AtomicU32; SLOTS],
    pub spilled: AtomicU32,
}

const _: () = {
    assert!(size_of::<Bucket>() == size_of::<HashBucket>());
    assert!(offset_of!(Bucket, entries) == offset_of!(HashBucket, entries));
    assert!(offset_of!(Bucket, spilled) == offset_of!(HashBucket, spilled));
};

impl Bucket {
    /// Slots in use.
    pub fn len(&self) -> usize {
        self.entries.iter().filter(|entry| entry.load(Ordering::Relaxed) != 0).count()
    }

    /// Sets a slot's tag; under the table's lock.
    pub fn set_tag(&self, slot: usize, tag: u16) {
        let (word, shift) = (&self.tags[slot / 4], slot % 4 * 16);
        let others = word.load(Ordering::Relaxed) & !(0xffff << shift);
        word.store(others | u64::from(tag) << shift, Ordering::Relaxed);
    }

    /// Slots whose tag may match: all that do, and rarely one beside them that does not.
    pub fn candidates(&self, tag: u16) -> impl Iterator<Item = usize> {
        const ONES: u64 = 0x0001_0001_0001_0001;
        let pattern = u64::from(tag) * ONES;
        // A lane of `difference` is zero where the tag matches; the classic test for a zero lane then sets its top bit
        // (it may also set that of the lane above a match).
        let zero_lanes = |word: &AtomicU64| {
            let difference = word.load(Ordering::Relaxed) ^ pattern;
            difference.wrapping_sub(ONES) & !difference & (ONES << 15)
        };
        let mut words = [zero_lanes(&self.tags[0]), zero_lanes(&self.tags[1])];
        std::iter::from_fn(move || {
            let index = words.iter().position(|&word| word != 0)?;
            let bit = words[index].trailing_zeros() as usize;
            words[index] &= words[index] - 1;
            Some(index * 4 + bit / 16)
        })
    }
}

//! Exact match: two-choice hashing into buckets of one cache line each.
//!
//! A bucket holds eight tags (16 bits of the hash) and eight entry numbers; keys and values lie in entries that never
//! move. A look-up reads one bucket, or two where a key of the first had to go to its second choice, and compares whole
//! keys. It takes no lock: an entry's key does not change while a look-up can reach it (see `epoch.rs`), and a key does
//! not move from slot to slot.
//!
//! `codegen::abi` has the layout and the hash function, which is keyed at random per process: generated code looks into
//! the first bucket itself.
//!
//! Capacity is exact: an insertion is refused when the table holds that many entries. Up to 8 there is one bucket.
//! Beyond that there are at least 64 buckets (a power of two) and one for every three entries; a key goes to its first
//! bucket while that holds fewer than four, else to the emptier of its two. An insertion into a table with one entry
//! missing then finds both buckets full with a probability of about 10^-28: the fluid limit of Mitzenmacher, "The power
//! of two choices in randomized load balancing" (1996), ds_i/dt = s_(i-1)^2 - s_i^2 above the threshold, at a load of 3
//! per bucket.

mod walk;
pub mod write;

use std::cell::UnsafeCell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use baker::ir::Layout;
use codegen::abi::{HashEntry, HashTable, first_bucket, hash_key, hash_tag};
use codegen::kernel::TableLocation;

use super::epoch::Epochs;
use crate::tables::bucket::{self, Bucket};
use crate::tables::due::Due;
use crate::tables::layout::Bytes;
use crate::tables::lock::locked;
use crate::tables::members::Members;
use crate::tables::shared::{at_once, load_shared};
use crate::tables::slots::{Locked, SPARE, Slots};
use crate::tables::space::{Block, Space, Use};

/// A hash table. Its control block comes first, so that a pointer to the one is a pointer to the other.
#[repr(C)]
#[derive(Debug)]
pub struct Hash {
    control: UnsafeCell<HashTable>,
    seed: [u64; 2],
    buckets: Block,
    bucket_count: u32,
    entries: Block,
    entry: HashEntry,
    value_size: usize,
    value_align: usize,
    /// One store changes a value.
    at_once: bool,
    /// Where the lock of a value lies, if it has one.
    lock: Option<usize>,
    capacity: u32,
    epochs: Arc<Epochs>,
    numbers: Slots,
    limit: u32,
    /// Where entries have deadlines.
    pub due: Option<Due>,
    /// Where entries are members of groups: which each group has.
    pub members: Option<Members>,
}

/// How the entries of a table age.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    /// After how many nanoseconds without use an entry is gone.
    pub ns: u64,
    /// Where in a value the time of its last use lies.
    pub offset: usize,
}

/// Where a key may lie.
struct Place {
    tag: u16,
    first: u32,
    second: u32,
}

impl Hash {
    /// An empty table for `capacity` entries.
    pub fn new(
        capacity: u32,
        key: &Layout,
        (value, lock): (&Layout, Option<usize>),
        hasher: &ahash::RandomState,
        epochs: Arc<Epochs>,
        space: &Space,
    ) -> io::Result<Self> {
        let entry = HashEntry::new(key, value);
        let limit = capacity.checked_add(SPARE).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let bucket_count = bucket::count(capacity);
        let buckets = space.take(bucket_count as usize * size_of::<Bucket>(), Use::Index)?;
        let entries = space.take((limit as usize + 1) * entry.stride, Use::Entries)?;
        // An even multiplier would lose a bit.
        let seed = [hasher.hash_one(0u64), hasher.hash_one(1u64) | 1];
        let control = HashTable {
            buckets: buckets.ptr(),
            entries: entries.ptr(),
            seed,
            bucket_mask: (u64::from(bucket_count) - 1) * size_of::<Bucket>() as u64,
            large: 0,
        };
        Ok(Hash {
            control: UnsafeCell::new(control),
            seed,
            buckets,
            bucket_count,
            entries,
            entry,
            value_size: value.size as usize,
            value_align: value.align as usize,
            at_once: at_once(value),
            lock,
            capacity,
            epochs,
            numbers: Slots::new(limit, space)?,
            limit,
            due: None,
            members: None,
        })
    }

    /// Where it lies, to code in the kernel.
    pub fn kernel_location(&self, base: u64) -> TableLocation {
        let at = |ptr: *mut u8| ptr as u64 - base;
        TableLocation::Hash {
            buckets: at(self.buckets.ptr()),
            count: self.bucket_count,
            entries: at(self.entries.ptr()),
            seed: self.seed,
            numbers: at(self.numbers.ptr()),
            ring: self.numbers.ring(),
        }
    }

    /// The first number that no entry has.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// The number of the entry under a key. For workers.
    pub fn entry_of(&self, key: &[u64]) -> Option<u32> {
        self.find(key, &self.place(key)).map(|(_, _, entry)| entry)
    }

    /// Appends the key of an entry, as it is or was; any number where it is written at this moment.
    pub fn key_of(&self, entry: u32, keys: &mut Vec<u64>) {
        let at = self.entry(entry).cast::<u64>();
        for word in 0..self.entry.key_words {
            // SAFETY: an entry has room for a key, aligned to 8 bytes. Where another worker fills it meanwhile, a word
            // is read as it was or will be: once.
            keys.push(unsafe { at.add(word).read_volatile() });
        }
    }

    /// An entry has no deadline any more.
    fn clear_deadline(&self, entry: u32) {
        self.due.iter().for_each(|due| due.clear(entry));
    }

    pub fn control_block(&self) -> *mut u8 {
        (&raw const *self).cast_mut().cast()
    }

    /// The value of an entry.
    ///
    /// # Safety
    /// The entry is one of the table's, and not reused meanwhile.
    unsafe fn load(&self, entry: u32) -> Bytes {
        let at = self.value(entry);
        // SAFETY: promised by the caller.
        unsafe { locked(at, self.lock, || load_shared(at, self.value_size, self.value_align)) }
    }

    /// Bytes of the value that a packet's look-up finds.
    pub fn read(&self, key: &[u64]) -> Option<Bytes> {
        self.reading(|_| {
            let (_, _, entry) = self.find(key, &self.place(key))?;
            // SAFETY: the entry is one of the table's, and not reused meanwhile.
            Some(unsafe { self.load(entry) })
        })
    }

    /// Number of entries. No writer waits for who counts.
    pub fn count(&self) -> usize {
        self.numbers.live() as usize
    }

    /// Looks at entries as a worker does, so that no writer waits and no entry is reused meanwhile. What it is given is
    /// to be called between entries when there are many, while none is held.
    fn reading<T>(&self, look: impl FnOnce(&dyn Fn()) -> T) -> T {
        match self.epochs.register() {
            Some(reader) => {
                reader.quiescent();
                look(&|| {
                    reader.quiescent();
                })
            }
            // There are too many others: keep the writers out.
            None => {
                let _writer = self.lock();
                look(&|| {})
            }
        }
    }

    fn lock(&self) -> Locked<'_> {
        self.numbers.lock()
    }

    #[inline]
    fn place(&self, key: &[u64]) -> Place {
        let hash = hash_key(self.seed, key);
        let first = first_bucket(hash, self.bucket_count);
        // One of the others, by the upper half.
        let step = ((hash >> 32) * (u64::from(self.bucket_count) - 1)) >> 32;
        let second = (first + 1 + step as u32) & (self.bucket_count - 1);
        Place { tag: hash_tag(hash), first, second }
    }

    /// Bucket, slot and entry of a key.
    #[inline]
    fn find(&self, key: &[u64], place: &Place) -> Option<(u32, usize, u32)> {
        let in_bucket = |index: u32| {
            let bucket = self.bucket(index);
            bucket.candidates(place.tag).find_map(|slot| {
                let entry = bucket.entries[slot].load(Ordering::Acquire).checked_sub(1)?;
                // SAFETY: the entry was published with its key, and it keeps the key while this look-up may hold it.
                (unsafe { self.key(entry) } == key).then_some((index, slot, entry))
            })
        };
        in_bucket(place.first).or_else(|| {
            let spilled = self.bucket(place.first).spilled.load(Ordering::Acquire) != 0;
            if spilled { in_bucket(place.second) } else { None }
        })
    }

    /// # Safety
    /// The entry holds a key, and keeps it while the result is used.
    #[inline]
    unsafe fn key(&self, entry: u32) -> &[u64] {
        // SAFETY: an entry has room for a key, and entries are aligned to 8 bytes.
        unsafe { std::slice::from_raw_parts(self.entry(entry).cast(), self.entry.key_words) }
    }

    #[inline]
    fn bucket(&self, index: u32) -> &Bucket {
        &self.all_buckets()[index as usize]
    }

    #[inline]
    fn all_buckets(&self) -> &[Bucket] {
        // SAFETY: the mapping holds `bucket_count` buckets, for which zero bytes are valid, page-aligned.
        unsafe { std::slice::from_raw_parts(self.buckets.ptr().cast(), self.bucket_count as usize) }
    }

    /// In a slot the entry has one more as its number, which is where it lies: entry 0 of the published table is
    /// unused.
    #[inline]
    fn entry(&self, entry: u32) -> *mut u8 {
        // SAFETY: entries come from `Writer::entries`, for all of which the mapping has room.
        unsafe { self.entries.ptr().add((entry as usize + 1) * self.entry.stride) }
    }

    #[inline]
    fn value(&self, entry: u32) -> *mut u8 {
        // SAFETY: within the entry.
        unsafe { self.entry(entry).add(self.entry.value_offset) }
    }
}

/// `abi::Runtime::hash_lookup`.
///
/// # Safety
/// `table` is a hash table's control block, `key` points to a packed key, and the caller is a registered worker.
pub unsafe extern "C" fn lookup(table: *const u8, key: *const u64) -> *mut u8 {
    // SAFETY: promised by the caller.
    let (table, key) = unsafe {
        let table = &*table.cast::<Hash>();
        (table, std::slice::from_raw_parts(key, table.entry.key_words))
    };
    match table.find(key, &table.place(key)) {
        Some((_, _, entry)) => table.value(entry),
        None => std::ptr::null_mut(),
    }
}

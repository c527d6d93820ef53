//! Exact match: two-choice hashing into buckets of one cache line each.
//!
//! A bucket holds eight tags (16 bits of the hash) and eight entry numbers; keys and values lie in entries that never
//! move. A look-up reads one bucket, or two where a key of the first had to go to its second choice, and compares whole
//! keys. It takes no lock: an entry's key does not change while a look-up can reach it (see `epoch.rs`), and a key does
//! not move from slot to slot.
//!
//! The hash is keyed at random per process, so that a peer cannot choose keys that collide.
//!
//! Capacity is exact: an insertion is refused when the table holds that many entries. Up to 8 there is one bucket. Beyond
//! that there are at least 64 buckets and one for every three entries; a key goes to its first bucket while that holds
//! fewer than four, else to the emptier of its two. An insertion into a table with one entry missing then finds both
//! buckets full with a probability of about 10^-28: the fluid limit of Mitzenmacher, "The power of two choices in
//! randomized load balancing" (1996), ds_i/dt = s_(i-1)^2 - s_i^2 above the threshold, at a load of 3 per bucket.

use std::hash::{BuildHasher, Hasher};
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use baker::ir::Layout;

use super::slots::{SPARE, Slots};
use super::{load_shared, store_shared};
use crate::epoch::Epochs;
use crate::sys::Mapping;

const SLOTS: usize = 8;
/// A key stays in its first bucket while that holds fewer than this.
const PREFER_FIRST: usize = 4;

#[repr(C, align(64))]
#[derive(Debug)]
struct Bucket {
    /// Tags of slots 0 to 3 and 4 to 7, 16 bits each.
    tags: [AtomicU64; 2],
    /// Entry number + 1, or 0 for an empty slot.
    entries: [AtomicU32; SLOTS],
    /// Keys that have this as their first bucket and lie in their second.
    spilled: AtomicU32,
}

#[derive(Debug)]
struct Writer {
    live: u32,
    entries: Slots,
}

/// A hash table; also its own control block.
#[derive(Debug)]
pub struct Hash {
    hasher: ahash::RandomState,
    buckets: Mapping,
    bucket_count: u32,
    entries: Mapping,
    stride: usize,
    key_size: usize,
    value_offset: usize,
    value_size: usize,
    value_align: usize,
    capacity: u32,
    epochs: Arc<Epochs>,
    writer: Mutex<Writer>,
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
        value: &Layout,
        hasher: ahash::RandomState,
        epochs: Arc<Epochs>,
    ) -> io::Result<Self> {
        let (key_size, value_size) = (key.size as usize, value.size as usize);
        let value_offset = key_size.next_multiple_of(value.align.max(1) as usize);
        let size = (value_offset + value_size).max(16);
        // An entry of up to a cache line does not cross two.
        let stride = if size <= 64 { size.next_power_of_two() } else { size.next_multiple_of(16) };
        let limit = capacity.checked_add(SPARE).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let bucket_count = if capacity as usize <= SLOTS { 1 } else { capacity.div_ceil(3).max(64) };
        Ok(Hash {
            hasher,
            buckets: Mapping::anonymous(bucket_count as usize * size_of::<Bucket>())?,
            bucket_count,
            entries: Mapping::anonymous(limit as usize * stride)?,
            stride,
            key_size,
            value_offset,
            value_size,
            value_align: value.align as usize,
            capacity,
            epochs,
            writer: Mutex::new(Writer { live: 0, entries: Slots::new(limit)? }),
        })
    }

    pub fn control_block(&self) -> *mut u8 {
        (&raw const *self).cast_mut().cast()
    }

    /// Inserts a key or replaces its value; false where the table is full.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> bool {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let place = self.place(key);
        if let Some((_, _, entry)) = self.find(key, &place) {
            // SAFETY: the entry is one of the table's, and the value is as long as its layout.
            unsafe { store_shared(self.value(entry), value, self.value_align) };
            return true;
        }
        if writer.live >= self.capacity {
            return false;
        }
        let (first, second) = (self.bucket(place.first), self.bucket(place.second));
        let bucket = if first.len() < PREFER_FIRST || first.len() <= second.len() { first } else { second };
        let Some(slot) = bucket.entries.iter().position(|entry| entry.load(Ordering::Relaxed) == 0) else {
            return false;
        };
        let Some(entry) = writer.entries.take(&self.epochs) else { return false };
        // SAFETY: nobody can reach the entry yet; the table's entries have room for a key and a value.
        unsafe {
            self.entry(entry).copy_from_nonoverlapping(key.as_ptr(), self.key_size);
            store_shared(self.value(entry), value, self.value_align);
        }
        if place.first != place.second && std::ptr::eq(bucket, second) {
            first.spilled.fetch_add(1, Ordering::Release);
        }
        bucket.set_tag(slot, place.tag);
        bucket.entries[slot].store(entry + 1, Ordering::Release);
        writer.live += 1;
        true
    }

    /// Removes a key; false where it was not there.
    pub fn remove(&self, key: &[u8]) -> bool {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let place = self.place(key);
        let Some((bucket, slot, entry)) = self.find(key, &place) else { return false };
        self.bucket(bucket).entries[slot].store(0, Ordering::Release);
        if bucket != place.first {
            self.bucket(place.first).spilled.fetch_sub(1, Ordering::Release);
        }
        writer.live -= 1;
        writer.entries.retire(entry, &self.epochs);
        true
    }

    /// Bytes of the value that a packet's look-up finds.
    pub fn read(&self, key: &[u8]) -> Option<Vec<u8>> {
        // The lock keeps the entry from being reused while its value is copied: this thread is not a worker.
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, _, entry) = self.find(key, &self.place(key))?;
        // SAFETY: the entry is one of the table's.
        Some(unsafe { load_shared(self.value(entry), self.value_size, self.value_align) })
    }

    /// Number of entries.
    pub fn count(&self) -> usize {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner).live as usize
    }

    /// All keys and values, in no order.
    pub fn dump(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let slots = (0..self.bucket_count).flat_map(|bucket| &self.bucket(bucket).entries);
        let entries = slots.filter_map(|slot| slot.load(Ordering::Acquire).checked_sub(1));
        // SAFETY: the entry is in use, so it holds a key, which does not change, and a value.
        let read = |entry| unsafe {
            let key = std::slice::from_raw_parts(self.entry(entry), self.key_size).to_vec();
            (key, load_shared(self.value(entry), self.value_size, self.value_align))
        };
        entries.map(read).collect()
    }

    fn place(&self, key: &[u8]) -> Place {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key);
        let hash = hasher.finish();
        // The upper bits of each half choose a bucket, the lower ones make the tag, so that it says something new.
        let range = |half: u64, n: u32| (((half & 0xffff_ffff) * u64::from(n)) >> 32) as u32;
        let first = range(hash, self.bucket_count);
        let step = range(hash >> 32, self.bucket_count - 1);
        let second = if self.bucket_count == 1 { 0 } else { (first + 1 + step) % self.bucket_count };
        Place { tag: (hash as u16 & 0xff) | ((hash >> 32) as u16) << 8, first, second }
    }

    /// Bucket, slot and entry of a key.
    fn find(&self, key: &[u8], place: &Place) -> Option<(u32, usize, u32)> {
        let in_bucket = |index: u32| {
            let bucket = self.bucket(index);
            bucket.candidates(place.tag).find_map(|slot| {
                let entry = bucket.entries[slot].load(Ordering::Acquire).checked_sub(1)?;
                // SAFETY: the entry was published with its key, and it keeps the key while this look-up may hold it.
                unsafe { self.same_key(entry, key) }.then_some((index, slot, entry))
            })
        };
        in_bucket(place.first).or_else(|| {
            let spilled = self.bucket(place.first).spilled.load(Ordering::Acquire) != 0;
            if spilled { in_bucket(place.second) } else { None }
        })
    }

    /// # Safety
    /// The entry holds a key.
    unsafe fn same_key(&self, entry: u32, key: &[u8]) -> bool {
        // SAFETY: an entry has room for a key.
        let stored = unsafe { std::slice::from_raw_parts(self.entry(entry), self.key_size) };
        // Common sizes as constants, so that the comparison is a few instructions and not a call.
        match self.key_size {
            4 => stored[..4] == key[..4],
            8 => stored[..8] == key[..8],
            16 => stored[..16] == key[..16],
            _ => stored == key,
        }
    }

    fn bucket(&self, index: u32) -> &Bucket {
        debug_assert!(index < self.bucket_count);
        // SAFETY: the mapping holds `bucket_count` buckets, for which zero bytes are valid, page-aligned.
        unsafe { &*self.buckets.ptr().cast::<Bucket>().add(index as usize) }
    }

    fn entry(&self, entry: u32) -> *mut u8 {
        // SAFETY: entries come from `Writer::entries`, for all of which the mapping has room.
        unsafe { self.entries.ptr().add(entry as usize * self.stride) }
    }

    fn value(&self, entry: u32) -> *mut u8 {
        // SAFETY: within the entry.
        unsafe { self.entry(entry).add(self.value_offset) }
    }
}

impl Bucket {
    fn len(&self) -> usize {
        self.entries.iter().filter(|entry| entry.load(Ordering::Relaxed) != 0).count()
    }

    fn set_tag(&self, slot: usize, tag: u16) {
        let (word, shift) = (&self.tags[slot / 4], slot % 4 * 16);
        let others = word.load(Ordering::Relaxed) & !(0xffff << shift);
        word.store(others | u64::from(tag) << shift, Ordering::Relaxed);
    }

    /// Slots whose tag may match: all that do, and rarely one beside them that does not.
    fn candidates(&self, tag: u16) -> impl Iterator<Item = usize> {
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

/// `abi::Runtime::hash_lookup`.
///
/// # Safety
/// `table` is a hash table's control block, `key` points to a key of its layout, and the caller is a registered worker.
pub unsafe extern "C" fn lookup(table: *const u8, key: *const u8) -> *mut u8 {
    // SAFETY: promised by the caller.
    let (table, key) = unsafe {
        let table = &*table.cast::<Hash>();
        (table, std::slice::from_raw_parts(key, table.key_size))
    };
    match table.find(key, &table.place(key)) {
        Some((_, _, entry)) => table.value(entry),
        None => std::ptr::null_mut(),
    }
}

/// `abi::Runtime::hash_insert`.
///
/// # Safety
/// As for [`lookup`]; `value` points to a value of the table's layout.
pub unsafe extern "C" fn insert(table: *mut u8, key: *const u8, value: *const u8) -> u8 {
    // SAFETY: promised by the caller.
    unsafe {
        let table = &*table.cast::<Hash>();
        let key = std::slice::from_raw_parts(key, table.key_size);
        table.insert(key, std::slice::from_raw_parts(value, table.value_size)).into()
    }
}

/// `abi::Runtime::hash_remove`.
///
/// # Safety
/// As for [`lookup`].
pub unsafe extern "C" fn remove(table: *mut u8, key: *const u8) -> u8 {
    // SAFETY: promised by the caller.
    unsafe {
        let table = &*table.cast::<Hash>();
        table.remove(std::slice::from_raw_parts(key, table.key_size)).into()
    }
}

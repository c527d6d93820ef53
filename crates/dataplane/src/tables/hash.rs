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
//! Capacity is exact: an insertion is refused when the table holds that many entries. Up to 8 there is one bucket. Beyond
//! that there are at least 64 buckets (a power of two) and one for every three entries; a key goes to its first bucket while that holds
//! fewer than four, else to the emptier of its two. An insertion into a table with one entry missing then finds both
//! buckets full with a probability of about 10^-28: the fluid limit of Mitzenmacher, "The power of two choices in
//! randomized load balancing" (1996), ds_i/dt = s_(i-1)^2 - s_i^2 above the threshold, at a load of 3 per bucket.

use std::cell::UnsafeCell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

use baker::ir::{Layout, is_expired};
use codegen::abi::{HashEntry, HashTable, LARGE_FIRST, LARGE_SECOND, first_bucket, hash_key, hash_tag};

use codegen::kernel::TablePlace;

use super::bucket::{self, Bucket, SLOTS};
use super::large;
use super::layout::Bytes;
use super::lock::locked;
use super::shared::{at_once, load_shared, store_shared};
use super::slots::{Locked, PATIENCE, SPARE, Slots};
use super::space::{Block, Space, Use};
use crate::epoch::Epochs;

/// Buckets that are looked through under one lock for entries that nobody uses.
const BUCKETS_AT_ONCE: usize = 256;
/// Bytes of buckets, or of entries, that make staging worth it: measured, see docs/benchmarks.md.
const FAR: usize = 4 << 20;
/// A key stays in its first bucket while that holds fewer than this.
const PREFER_FIRST: usize = 4;
/// Between two looks whether the workers have finished their batches.
const PAUSE: Duration = Duration::from_micros(50);
/// Slots that [`Hash::keys_from`] goes over at a time.
const SCANNED: u32 = 4096;
/// Buckets that are read between two quiescent states.
const READ_AT_ONCE: usize = 64;

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
        })
    }

    /// Where it lies, to code in the kernel.
    pub fn kernel_place(&self, base: u64) -> TablePlace {
        let at = |ptr: *mut u8| ptr as u64 - base;
        TablePlace::Hash {
            buckets: at(self.buckets.ptr()),
            count: self.bucket_count,
            entries: at(self.entries.ptr()),
            seed: self.seed,
            numbers: at(self.numbers.ptr()),
            ring: self.numbers.ring(),
        }
    }

    pub fn control_block(&self) -> *mut u8 {
        (&raw const *self).cast_mut().cast()
    }

    /// Inserts a key or replaces its value where it lies: packets under way that hold the entry see the new value, field
    /// by field. False where the table is full. For workers.
    pub fn insert(&self, key: &[u64], value: &[u8]) -> bool {
        let mut writer = self.lock();
        let place = self.place(key);
        if let Some((_, _, entry)) = self.find(key, &place) {
            let (at, stored) = (self.value(entry), self.lock.unwrap_or(self.value_size));
            // SAFETY: the entry is one of the table's, and the value is as long as its layout. The lock lies behind all else.
            unsafe { locked(at, self.lock, || store_shared(at, &value[..stored], self.value_align)) };
            return true;
        }
        self.add(&mut writer, &place, key, value)
    }

    /// Inserts a key or replaces its value as a whole: a look-up sees the old value or the new one. False where the table
    /// is full. For the control plane, which may wait for the workers to finish their batches.
    pub fn set(&self, key: &[u64], value: &[u8]) -> bool {
        if self.at_once {
            return self.insert(key, value);
        }
        self.exchange(key, value).is_some()
    }

    /// As [`Hash::set`], with what was there: the old value as it was when nobody could find it any more, so that what others
    /// changed of it before is in it. Who has found it earlier may still change it. None where the table is full.
    pub fn exchange(&self, key: &[u64], value: &[u8]) -> Option<Option<Bytes>> {
        let mut writer = self.lock_patiently();
        let place = self.place(key);
        let Some((bucket, slot, old)) = self.find(key, &place) else {
            return self.add(&mut writer, &place, key, value).then_some(None);
        };
        let stored = self.lock.unwrap_or(self.value_size);
        // SAFETY: the entry is one of the table's, and the writer's lock keeps it from being reused.
        let before = unsafe { self.load(old) };
        if before[..stored] == value[..stored] {
            return Some(Some(before));
        }
        let new = writer.take(&self.epochs)?;
        // SAFETY: nobody can reach the new entry yet.
        unsafe { self.fill(new, key, value) };
        self.bucket(bucket).entries[slot].store(new + 1, Ordering::Release);
        // Either we see what a packet has written, or it finds the new entry when it looks again.
        fence(Ordering::SeqCst);
        // SAFETY: as before.
        let before = unsafe { self.load(old) };
        writer.retire(old, &self.epochs);
        Some(Some(before))
    }

    /// Adds a key that is not there.
    fn add(&self, writer: &mut Locked<'_>, place: &Place, key: &[u64], value: &[u8]) -> bool {
        if writer.live() >= self.capacity {
            return false;
        }
        let (first, second) = (self.bucket(place.first), self.bucket(place.second));
        let bucket = if first.len() < PREFER_FIRST || first.len() <= second.len() { first } else { second };
        let Some(slot) = bucket.entries.iter().position(|entry| entry.load(Ordering::Relaxed) == 0) else {
            return false;
        };
        let Some(entry) = writer.take(&self.epochs) else { return false };
        // SAFETY: nobody can reach the entry yet.
        unsafe { self.fill(entry, key, value) };
        if place.first != place.second && std::ptr::eq(bucket, second) {
            first.spilled.fetch_add(1, Ordering::Release);
        }
        bucket.set_tag(slot, place.tag);
        bucket.entries[slot].store(entry + 1, Ordering::Release);
        self.set_live(writer, writer.live() + 1);
        true
    }

    /// # Safety
    /// The entry is one of the table's, and nobody can reach it.
    unsafe fn fill(&self, entry: u32, key: &[u64], value: &[u8]) {
        // SAFETY: the table's entries have room for a key and a value.
        unsafe {
            self.entry(entry).cast::<u64>().copy_from_nonoverlapping(key.as_ptr(), self.entry.key_words);
            store_shared(self.value(entry), value, self.value_align);
        }
    }

    /// # Safety
    /// The entry is one of the table's, and not reused meanwhile.
    unsafe fn load(&self, entry: u32) -> Bytes {
        let at = self.value(entry);
        // SAFETY: promised by the caller.
        unsafe { locked(at, self.lock, || load_shared(at, self.value_size, self.value_align)) }
    }

    /// Removes a key; false where it was not there. For workers.
    pub fn remove(&self, key: &[u64]) -> bool {
        self.take_out(self.lock(), key)
    }

    /// As [`Hash::remove`] for the control plane, which may wait for the workers to finish their batches.
    pub fn delete(&self, key: &[u64]) -> bool {
        self.take_out(self.lock_patiently(), key)
    }

    fn take_out(&self, mut writer: Locked<'_>, key: &[u64]) -> bool {
        let place = self.place(key);
        let Some((bucket, slot, entry)) = self.find(key, &place) else { return false };
        self.bucket(bucket).entries[slot].store(0, Ordering::Release);
        if bucket != place.first {
            self.bucket(place.first).spilled.fetch_sub(1, Ordering::Release);
        }
        self.set_live(&writer, writer.live() - 1);
        writer.retire(entry, &self.epochs);
        true
    }

    /// Removes the entries that were not used for longer than their idle time (see `baker::ir::Table::idle`), a few buckets at a
    /// time, so that insertions in between wait for microseconds only.
    pub fn expire(&self, now: u64, Idle { ns: idle, offset }: Idle) {
        for first in (0..self.bucket_count).step_by(BUCKETS_AT_ONCE) {
            let mut writer = self.lock_patiently();
            for index in first..self.bucket_count.min(first + BUCKETS_AT_ONCE as u32) {
                for slot in &self.bucket(index).entries {
                    let Some(entry) = slot.load(Ordering::Acquire).checked_sub(1) else { continue };
                    // SAFETY: the time lies in the value, aligned to 8 bytes, and is only accessed as a whole.
                    let used = unsafe { AtomicU64::from_ptr(self.value(entry).add(offset).cast()) };
                    if !is_expired(now, used.load(Ordering::Relaxed), idle) {
                        continue;
                    }
                    // SAFETY: the entry is in use, so it holds a key.
                    let place = self.place(unsafe { self.key(entry) });
                    slot.store(0, Ordering::Release);
                    if index != place.first {
                        self.bucket(place.first).spilled.fetch_sub(1, Ordering::Release);
                    }
                    self.set_live(&writer, writer.live() - 1);
                    writer.retire(entry, &self.epochs);
                }
            }
        }
    }

    /// Bytes of the value that a packet's look-up finds.
    pub fn read(&self, key: &[u64]) -> Option<Bytes> {
        self.reading(|_| {
            let (_, _, entry) = self.find(key, &self.place(key))?;
            // SAFETY: the entry is one of the table's, and not reused meanwhile.
            Some(unsafe { self.load(entry) })
        })
    }

    /// Number of entries.
    pub fn count(&self) -> usize {
        self.lock().live() as usize
    }

    /// Appends the keys that lie in slots from `*from` on, at most as many as `most`, and goes over no more than [`SCANNED`]
    /// slots. Whether it came to the end. A key stays in its slot for as long as it is in the table, so whoever goes on until
    /// the end finds each key that was there all the time exactly once. To be called by a worker, between whose quiescent
    /// states no entry is reused.
    pub fn keys_from(&self, from: &mut u32, keys: &mut Vec<u64>, most: usize) -> bool {
        let (slots, mut found) = (self.bucket_count * SLOTS as u32, 0);
        let end = slots.min(from.saturating_add(SCANNED));
        while *from < end && found < most {
            let slot = &self.bucket(*from / SLOTS as u32).entries[*from as usize % SLOTS];
            *from += 1;
            if let Some(entry) = slot.load(Ordering::Acquire).checked_sub(1) {
                // SAFETY: the entry was published with its key, which does not change, and is not reused meanwhile.
                keys.extend_from_slice(unsafe { self.key(entry) });
                found += 1;
            }
        }
        *from == slots
    }

    /// All keys and values, in no order. A key that goes and comes back meanwhile may be there twice.
    pub fn dump(&self) -> Vec<(Vec<u64>, Vec<u8>)> {
        let mut all = Vec::new();
        // A large table is not looked through for nothing.
        if self.count() == 0 {
            return all;
        }
        self.reading(|rest| {
            for part in self.all_buckets().chunks(READ_AT_ONCE) {
                // Removed entries are not kept from their reuse for longer than this.
                rest();
                for slot in part.iter().flat_map(|bucket| &bucket.entries) {
                    let Some(entry) = slot.load(Ordering::Acquire).checked_sub(1) else { continue };
                    // SAFETY: the entry was published with its key, which does not change, and is not reused meanwhile.
                    all.push(unsafe { (self.key(entry).to_vec(), self.load(entry).into_vec()) });
                }
            }
        });
        all
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

    /// The lock for the control plane: where many removed entries wait for a worker that the system holds up, it waits
    /// too, so that they do not use up what the workers need to learn. Not with the lock in its hands.
    fn lock_patiently(&self) -> Locked<'_> {
        // Mostly nobody waits, and then the clock is not asked.
        let mut since = None;
        loop {
            let mut writer = self.lock();
            if !writer.is_crowded(&self.epochs) || since.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                return writer;
            }
            drop(writer);
            std::thread::sleep(PAUSE);
        }
    }

    fn lock(&self) -> Locked<'_> {
        self.numbers.lock()
    }

    fn place(&self, key: &[u64]) -> Place {
        let hash = hash_key(self.seed, key);
        let first = first_bucket(hash, self.bucket_count);
        // One of the others, by the upper half.
        let step = ((hash >> 32) * (u64::from(self.bucket_count) - 1)) >> 32;
        let second = (first + 1 + step as u32) & (self.bucket_count - 1);
        Place { tag: hash_tag(hash), first, second }
    }

    /// Bucket, slot and entry of a key.
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
    unsafe fn key(&self, entry: u32) -> &[u64] {
        // SAFETY: an entry has room for a key, and entries are aligned to 8 bytes.
        unsafe { std::slice::from_raw_parts(self.entry(entry).cast(), self.entry.key_words) }
    }

    fn set_live(&self, writer: &Locked<'_>, live: u32) {
        writer.set_live(live);
        self.note_size(live);
    }

    /// Frees the places of removed entries that nobody can hold any more, for whoever cannot do it.
    pub fn reclaim(&self) {
        self.lock().reclaim(&self.epochs);
    }

    /// Tells generated code whether look-ups are worth fetching ahead.
    fn note_size(&self, live: u32) {
        // SAFETY: the field lives as long as the table and is only accessed atomically or read by generated code.
        let flags = unsafe { AtomicU32::from_ptr(&raw mut (*self.control.get()).large) };
        let buckets = live.min(self.bucket_count) as usize * size_of::<Bucket>();
        let entries = live as usize * self.entry.stride;
        let bits = large(buckets, FAR, LARGE_FIRST) | large(entries, FAR, LARGE_SECOND);
        flags.store(bits, Ordering::Relaxed);
    }

    fn bucket(&self, index: u32) -> &Bucket {
        &self.all_buckets()[index as usize]
    }

    fn all_buckets(&self) -> &[Bucket] {
        // SAFETY: the mapping holds `bucket_count` buckets, for which zero bytes are valid, page-aligned.
        unsafe { std::slice::from_raw_parts(self.buckets.ptr().cast(), self.bucket_count as usize) }
    }

    /// In a slot the entry has one more as its number, which is where it lies: entry 0 of the published table is unused.
    fn entry(&self, entry: u32) -> *mut u8 {
        // SAFETY: entries come from `Writer::entries`, for all of which the mapping has room.
        unsafe { self.entries.ptr().add((entry as usize + 1) * self.entry.stride) }
    }

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

/// `abi::Runtime::hash_insert`.
///
/// # Safety
/// As for [`lookup`]; `value` points to a value of the table's layout.
pub unsafe extern "C" fn insert(table: *mut u8, key: *const u64, value: *const u8) -> u8 {
    // SAFETY: promised by the caller.
    unsafe {
        let table = &*table.cast::<Hash>();
        let key = std::slice::from_raw_parts(key, table.entry.key_words);
        table.insert(key, std::slice::from_raw_parts(value, table.value_size)).into()
    }
}

/// `abi::Runtime::hash_remove`.
///
/// # Safety
/// As for [`lookup`].
pub unsafe extern "C" fn remove(table: *mut u8, key: *const u64) -> u8 {
    // SAFETY: promised by the caller.
    unsafe {
        let table = &*table.cast::<Hash>();
        table.remove(std::slice::from_raw_parts(key, table.entry.key_words)).into()
    }
}

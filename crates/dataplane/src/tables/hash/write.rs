//! Changes: workers' where values lie, and the control plane's, which replace a value as a whole.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

use baker::ir::is_expired;
use codegen::abi::{Inserted, LARGE_FIRST, LARGE_SECOND};

use super::{Hash, Idle, Place};
use crate::tables::bucket::Bucket;
use crate::tables::layout::Bytes;
use crate::tables::lock::locked;
use crate::tables::shared::store_shared;
use crate::tables::slots::{Locked, PATIENCE};
use crate::tables::staging::large;

/// Buckets that are looked through under one lock for entries that are not used.
const BUCKETS_AT_ONCE: usize = 256;
/// Bytes of buckets, or of entries, that make staging worth it: measured, see docs/benchmarks.md.
const FAR: usize = 4 << 20;
/// A key stays in its first bucket while that holds fewer than this.
const PREFER_FIRST: usize = 4;
/// Between two looks whether the workers have finished their batches.
const PAUSE: Duration = Duration::from_micros(50);

impl Hash {
    /// Inserts a key or replaces its value where it lies: packets under way that hold the entry see the new value,
    /// field by field. Where it is to be `new` an entry that is there stays as it is. For workers.
    fn insert(&self, key: &[u64], value: &[u8], new: bool) -> Inserted {
        let mut writer = self.lock();
        let place = self.place(key);
        if let Some((_, _, entry)) = self.find(key, &place) {
            if new {
                return Inserted::Stays;
            }
            let (at, stored) = (self.value(entry), self.lock.unwrap_or(self.value_size));
            // SAFETY: the entry is one of the table's, and the value is as long as its layout. The lock lies behind all
            // else.
            unsafe { locked(at, self.lock, || store_shared(at, &value[..stored], self.value_align)) };
            return Inserted::Done;
        }
        if self.add(&mut writer, &place, key, value) { Inserted::Done } else { Inserted::Full }
    }

    /// Inserts a key or replaces its value as a whole: a look-up sees the old value or the new one. False where the
    /// table is full. For the control plane, which may wait for the workers to finish their batches.
    pub fn set(&self, key: &[u64], value: &[u8]) -> bool {
        // A new entry has no deadline.
        if self.at_once && self.due.is_none() {
            return self.insert(key, value, false) == Inserted::Done;
        }
        self.exchange(key, value).is_some()
    }

    /// As [`Hash::set`], with what was there: the old value as it was when it could not be found any more, so that what
    /// others changed of it before is in it. A thread that has found it earlier may still change it. None where the
    /// table is full.
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
            self.clear_deadline(old);
            return Some(Some(before));
        }
        let new = writer.take(&self.epochs)?;
        // SAFETY: the new entry can't be reached yet.
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
        // SAFETY: the entry can't be reached yet.
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
    /// The entry is one of the table's, and can't be reached.
    unsafe fn fill(&self, entry: u32, key: &[u64], value: &[u8]) {
        self.clear_deadline(entry);
        // SAFETY: the table's entries have room for a key and a value.
        unsafe {
            self.entry(entry).cast::<u64>().copy_from_nonoverlapping(key.as_ptr(), self.entry.key_words);
            store_shared(self.value(entry), value, self.value_align);
        }
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
        self.clear_deadline(entry);
        writer.retire(entry, &self.epochs);
        true
    }

    /// Removes the entries that were not used for longer than their idle time (see `baker::ir::Table::idle`), a few
    /// buckets at a time, so that insertions in between wait for microseconds only.
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

    /// The lock for the control plane: where many removed entries wait for a worker that the system holds up, it waits
    /// too, so that they do not use up what the workers need to learn. Not with the lock in its hands.
    fn lock_patiently(&self) -> Locked<'_> {
        // Mostly no thread waits, and then the clock is not asked.
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

    fn set_live(&self, writer: &Locked<'_>, live: u32) {
        writer.set_live(live);
        self.note_size(live);
    }

    /// Frees the places of removed entries that no reader can hold any more, for code that cannot do it.
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
}

/// `abi::Runtime::hash_insert`.
///
/// # Safety
/// As for [`super::lookup`]; `value` points to a value of the table's layout.
pub unsafe extern "C" fn insert(table: *mut u8, key: *const u64, value: *const u8, new: u8) -> u8 {
    // SAFETY: promised by the caller.
    unsafe {
        let table = &*table.cast::<Hash>();
        let key = std::slice::from_raw_parts(key, table.entry.key_words);
        table.insert(key, std::slice::from_raw_parts(value, table.value_size), new != 0) as u8
    }
}

/// `abi::Runtime::hash_remove`.
///
/// # Safety
/// As for [`super::lookup`].
pub unsafe extern "C" fn remove(table: *mut u8, key: *const u64) -> u8 {
    // SAFETY: promised by the caller.
    unsafe {
        let table = &*table.cast::<Hash>();
        table.remove(std::slice::from_raw_parts(key, table.entry.key_words)).into()
    }
}

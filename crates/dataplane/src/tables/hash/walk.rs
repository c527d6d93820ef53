//! Going over all entries.

use std::sync::atomic::Ordering;

use super::Hash;
use crate::tables::bucket::SLOTS;

/// Slots that [`Hash::keys_from`] goes over at a time.
const SCANNED: u32 = 4096;
/// Buckets that are read between two quiescent states.
const READ_AT_ONCE: usize = 64;

impl Hash {
    /// Appends the keys that lie in slots from `*from` on, at most as many as `most`, and goes over no more than
    /// [`SCANNED`] slots. Whether it came to the end. A key stays in its slot for as long as it is in the table, so
    /// a walk that goes on until the end finds each key that was there all the time exactly once. To be called by a
    /// worker, between whose quiescent states no entry is reused.
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
        self.visit(|key, value| all.push((key.to_vec(), value.to_vec())));
        all
    }

    /// Calls a function with what [`Hash::dump`] returns, entry by entry. Removed entries are not reused meanwhile, so
    /// it should not take long.
    pub fn visit(&self, mut entry_is: impl FnMut(&[u64], &[u8])) {
        // A large table is not looked through for nothing.
        if self.count() == 0 {
            return;
        }
        self.reading(|rest| {
            for part in self.all_buckets().chunks(READ_AT_ONCE) {
                // Removed entries are not kept from their reuse for longer than this.
                rest();
                for slot in part.iter().flat_map(|bucket| &bucket.entries) {
                    let Some(entry) = slot.load(Ordering::Acquire).checked_sub(1) else { continue };
                    // SAFETY: the entry was published with its key, which does not change, and is not reused meanwhile.
                    let (key, value) = unsafe { (self.key(entry), self.load(entry)) };
                    entry_is(key, &value);
                }
            }
        });
    }
}

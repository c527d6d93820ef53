//! Numbers of table entries: fresh, in use, or waiting until no look-up can hold them.

use std::io;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use baker::ir::TableError;
use codegen::abi::{Retired, SlotNumbers};

use super::epoch::Epochs;
use super::lock::wait_for;
use super::space::{Block, Space, Use};

/// Numbers beyond a table's capacity, for removed entries that may still be held: what one batch of every worker can
/// remove before they all pass a quiescent state. Untouched, they cost address space only.
pub const SPARE: u32 = 4096;

/// How long the control plane waits for the workers to finish their batches, which takes microseconds.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// What comes of an attempt that fails until the workers have finished their batches. `None` where they do not.
pub fn patiently<T>(mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        let done = attempt();
        if done.is_some() || start.elapsed() > PATIENCE {
            return done;
        }
        std::thread::yield_now();
    }
}

/// Hands out numbers from 0 to `limit` − 1, under the lock that lies beside them: [`SlotNumbers`]. Does not allocate
/// after it was made.
#[derive(Debug)]
pub struct Slots {
    block: Block,
    ring: u32,
}

/// The lists, while the lock is held.
#[derive(Debug)]
pub struct Locked<'a> {
    slots: &'a Slots,
}

impl Slots {
    /// All numbers are fresh.
    pub fn new(limit: u32, space: &Space) -> io::Result<Self> {
        let ring = SlotNumbers::ring(limit);
        let block = space.take(SlotNumbers::bytes(ring), Use::Index)?;
        let numbers = SlotNumbers { lock: 0, live: 0, fresh: 0, free: 0, limit, ring, first: 0, last: 0 };
        // SAFETY: the block has room for it and is aligned to a page; nothing else has it yet.
        unsafe { block.ptr().cast::<SlotNumbers>().write(numbers) };
        Ok(Slots { block, ring })
    }

    /// Where they lie.
    pub fn ptr(&self) -> *mut u8 {
        self.block.ptr()
    }

    /// Places of each list.
    pub fn ring(&self) -> u32 {
        self.ring
    }

    /// Takes the lock, for which one waits microseconds.
    pub fn lock(&self) -> Locked<'_> {
        wait_for(self.word(offset_of!(SlotNumbers, lock)));
        Locked { slots: self }
    }

    /// Entries in the table, as of some moment.
    pub fn live(&self) -> u32 {
        self.word(offset_of!(SlotNumbers, live)).load(Ordering::Relaxed)
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: the callers' offsets are those of words within the block, which are only accessed atomically or by
        // code in the kernel that holds the lock.
        unsafe { AtomicU32::from_ptr(self.block.ptr().add(at).cast()) }
    }

    fn free_place(&self, index: u32) -> &AtomicU32 {
        self.word(SlotNumbers::FREE + (index & (self.ring - 1)) as usize * size_of::<u32>())
    }

    fn retired_place(&self, index: u32) -> *mut Retired {
        let at = SlotNumbers::retired(self.ring) + (index & (self.ring - 1)) as usize * size_of::<Retired>();
        // SAFETY: within the block.
        unsafe { self.block.ptr().add(at).cast() }
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.slots.word(offset_of!(SlotNumbers, lock)).store(0, Ordering::Release);
    }
}

impl Locked<'_> {
    fn get(&self, at: usize) -> u32 {
        self.slots.word(at).load(Ordering::Relaxed)
    }

    fn set(&self, at: usize, value: u32) {
        self.slots.word(at).store(value, Ordering::Relaxed);
    }

    /// Entries in the table.
    pub fn live(&self) -> u32 {
        self.slots.live()
    }

    /// Sets their number.
    pub fn set_live(&self, live: u32) {
        self.set(offset_of!(SlotNumbers, live), live);
    }

    /// Numbers that wait.
    fn waiting(&self) -> u32 {
        self.get(offset_of!(SlotNumbers, last)).wrapping_sub(self.get(offset_of!(SlotNumbers, first)))
    }

    /// A number that nothing refers to; `None` where all are in use or waiting.
    pub fn take(&mut self, epochs: &Epochs) -> Option<u32> {
        if self.get(offset_of!(SlotNumbers, free)) == 0 {
            self.reclaim(epochs);
        }
        if let Some(free) = self.get(offset_of!(SlotNumbers, free)).checked_sub(1) {
            self.set(offset_of!(SlotNumbers, free), free);
            return Some(self.slots.free_place(free).load(Ordering::Relaxed));
        }
        let fresh = self.get(offset_of!(SlotNumbers, fresh));
        (fresh < self.get(offset_of!(SlotNumbers, limit))).then(|| {
            self.set(offset_of!(SlotNumbers, fresh), fresh + 1);
            fresh
        })
    }

    /// Whether so many numbers wait that the control plane must not add to them: more than are left, which the workers
    /// need. A few never matter.
    pub fn is_crowded(&mut self, epochs: &Epochs) -> bool {
        let is_crowded = |numbers: &Self| numbers.waiting() >= (SPARE / 2).max(numbers.left());
        is_crowded(self) && {
            self.reclaim(epochs);
            is_crowded(self)
        }
    }

    /// Numbers that can be taken at once.
    fn left(&self) -> u32 {
        let fresh = self.get(offset_of!(SlotNumbers, limit)) - self.get(offset_of!(SlotNumbers, fresh));
        self.get(offset_of!(SlotNumbers, free)) + fresh
    }

    /// Frees the numbers that no look-up can hold any more.
    pub fn reclaim(&mut self, epochs: &Epochs) {
        let (mut first, last) = (self.get(offset_of!(SlotNumbers, first)), self.get(offset_of!(SlotNumbers, last)));
        if first == last {
            return;
        }
        let safe = epochs.safe();
        let mut free = self.get(offset_of!(SlotNumbers, free));
        while first != last {
            // SAFETY: a place of the ring between first and last, which was written under the lock.
            let Retired { stamp, number, .. } = unsafe { self.slots.retired_place(first).read() };
            if stamp > safe {
                break;
            }
            self.slots.free_place(free).store(number, Ordering::Relaxed);
            free += 1;
            first = first.wrapping_add(1);
        }
        self.set(offset_of!(SlotNumbers, free), free);
        // From its beginning again, so that not all of the ring's memory is touched.
        let (first, last) = if first == last { (0, 0) } else { (first, last) };
        self.set(offset_of!(SlotNumbers, first), first);
        self.set(offset_of!(SlotNumbers, last), last);
    }

    /// As [`Locked::take`] for the control plane, which may wait for the workers to finish their batches.
    pub fn take_patiently(&mut self, epochs: &Epochs) -> Result<u32, TableError> {
        patiently(|| self.take(epochs)).ok_or(TableError::Full)
    }

    /// Takes a number back that new look-ups cannot find any more.
    pub fn retire(&mut self, number: u32, epochs: &Epochs) {
        // There is room for every number once.
        let last = self.get(offset_of!(SlotNumbers, last));
        let retired = Retired { stamp: epochs.retire(), number, unused: 0 };
        // SAFETY: a place of the ring; the lock is held.
        unsafe { self.slots.retired_place(last).write(retired) };
        self.set(offset_of!(SlotNumbers, last), last.wrapping_add(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_come_and_go_take_little_memory_and_none_is_lost() {
        let epochs = std::sync::Arc::new(Epochs::new(&Space::Private).unwrap());
        let slots = Slots::new(100_000, &Space::Private).unwrap();
        let mut slots = slots.lock();
        let mut used = std::collections::VecDeque::new();
        for round in 0..50_000u32 {
            used.push_back(slots.take(&epochs).unwrap());
            if round >= 10 {
                slots.retire(used.pop_front().unwrap(), &epochs);
                slots.is_crowded(&epochs);
            }
            assert!(slots.get(offset_of!(SlotNumbers, last)) <= 2 * SPARE, "{slots:?}");
        }
        let fresh = slots.get(offset_of!(SlotNumbers, fresh));
        assert!(fresh <= SPARE + 20, "{fresh} numbers were used for 10 at a time");
        slots.reclaim(&epochs);
        let free = slots.get(offset_of!(SlotNumbers, free));
        let free = (0..free).map(|index| slots.slots.free_place(index).load(Ordering::Relaxed));
        let mut all: Vec<u32> = used.into_iter().chain(free).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..fresh), "each number is in one place");
    }

    #[test]
    fn the_control_plane_waits_where_the_workers_need_the_numbers_that_are_left() {
        let epochs = std::sync::Arc::new(Epochs::new(&Space::Private).unwrap());
        let held = epochs.register().unwrap();
        // A table that is nearly empty, and a full one.
        for (limit, used, crowded_at) in [(100_000, 10, 50_000), (SPARE + 10, 10, SPARE / 2)] {
            held.quiescent();
            let slots = Slots::new(limit, &Space::Private).unwrap();
            let mut slots = slots.lock();
            let mut used: std::collections::VecDeque<u32> = (0..used).map(|_| slots.take(&epochs).unwrap()).collect();
            let mut waiting = 0;
            while !slots.is_crowded(&epochs) {
                used.push_back(slots.take(&epochs).unwrap());
                slots.retire(used.pop_front().unwrap(), &epochs);
                waiting += 1;
            }
            assert!((crowded_at - 20..=crowded_at).contains(&waiting), "{waiting} of {limit}");
            held.quiescent();
            assert!(!slots.is_crowded(&epochs), "none is held any more");
        }
    }

    #[test]
    fn all_numbers_can_wait_at_once() {
        let epochs = std::sync::Arc::new(Epochs::new(&Space::Private).unwrap());
        let held = epochs.register().unwrap();
        held.quiescent();
        let slots = Slots::new(1000, &Space::Private).unwrap();
        let mut slots = slots.lock();
        for round in 0..10 {
            let numbers: Vec<u32> = std::iter::from_fn(|| slots.take(&epochs)).collect();
            assert_eq!(numbers.len(), 1000, "round {round}");
            numbers.into_iter().for_each(|number| slots.retire(number, &epochs));
            assert_eq!(slots.take(&epochs), None, "the worker may hold all of them");
            held.quiescent();
        }
    }
}

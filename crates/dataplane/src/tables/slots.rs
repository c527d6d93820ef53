//! Numbers of table entries: fresh, in use, or waiting until no look-up can hold them.

use std::io;
use std::time::{Duration, Instant};

use baker::ir::TableError;

use crate::epoch::Epochs;

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

/// Hands out numbers from 0 to `limit` − 1. Does not allocate after it was made.
#[derive(Debug)]
pub struct Slots {
    fresh: u32,
    limit: u32,
    free: Vec<u32>,
    /// Numbers with their stamps; those before `reclaimed` are free already. Kept at the beginning of its memory, which a
    /// ring would go through from end to end.
    retired: Vec<(u32, u64)>,
    reclaimed: usize,
}

impl Slots {
    /// All numbers are fresh.
    pub fn new(limit: u32) -> io::Result<Self> {
        let (mut free, mut retired) = (Vec::new(), Vec::new());
        let out_of_memory = |_| io::Error::from(io::ErrorKind::OutOfMemory);
        free.try_reserve_exact(limit as usize).map_err(out_of_memory)?;
        retired.try_reserve_exact(limit as usize).map_err(out_of_memory)?;
        Ok(Slots { fresh: 0, limit, free, retired, reclaimed: 0 })
    }

    /// A number that nothing refers to; `None` where all are in use or waiting.
    pub fn take(&mut self, epochs: &Epochs) -> Option<u32> {
        if self.free.is_empty() {
            self.reclaim(epochs);
        }
        self.free.pop().or_else(|| {
            let number = self.fresh;
            (number < self.limit).then(|| {
                self.fresh += 1;
                number
            })
        })
    }

    /// Whether so many numbers wait that the control plane must not add to them: the workers need the rest.
    pub fn is_crowded(&mut self, epochs: &Epochs) -> bool {
        let crowded = |slots: &Self| slots.retired.len() - slots.reclaimed >= SPARE as usize / 2;
        if crowded(self) {
            self.reclaim(epochs);
        }
        crowded(self)
    }

    /// Frees the numbers that no look-up can hold any more.
    fn reclaim(&mut self, epochs: &Epochs) {
        if self.reclaimed == self.retired.len() {
            return;
        }
        let safe = epochs.safe();
        while let Some(&(number, stamp)) = self.retired.get(self.reclaimed)
            && stamp <= safe
        {
            self.free.push(number);
            self.reclaimed += 1;
        }
        // So that each number is moved once at most, on average.
        if self.reclaimed * 2 >= self.retired.len() {
            self.compact();
        }
    }

    /// Forgets what is free already.
    fn compact(&mut self) {
        self.retired.drain(..self.reclaimed);
        self.reclaimed = 0;
    }

    /// As [`Slots::take`] for the control plane, which may wait for the workers to finish their batches.
    pub fn take_patiently(&mut self, epochs: &Epochs) -> Result<u32, TableError> {
        patiently(|| self.take(epochs)).ok_or(TableError::Full)
    }

    /// Takes a number back that new look-ups cannot find any more.
    pub fn retire(&mut self, number: u32, epochs: &Epochs) {
        // There is room for every number once.
        if self.retired.len() == self.retired.capacity() {
            self.compact();
        }
        self.retired.push((number, epochs.retire()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_come_and_go_take_little_memory_and_none_is_lost() {
        let epochs = std::sync::Arc::new(Epochs::default());
        let mut slots = Slots::new(100_000).unwrap();
        let capacity = slots.retired.capacity();
        let mut used = std::collections::VecDeque::new();
        for round in 0..50_000u32 {
            used.push_back(slots.take(&epochs).unwrap());
            if round >= 10 {
                slots.retire(used.pop_front().unwrap(), &epochs);
                slots.is_crowded(&epochs);
            }
            assert!(slots.retired.len() <= 2 * SPARE as usize, "{}", slots.retired.len());
        }
        assert!(slots.fresh <= SPARE + 20, "{} numbers were used for 10 at a time", slots.fresh);
        assert_eq!(slots.retired.capacity(), capacity);
        slots.reclaim(&epochs);
        let mut all: Vec<u32> = used.into_iter().chain(slots.free).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..slots.fresh), "each number is in one place");
    }

    #[test]
    fn all_numbers_can_wait_at_once() {
        let epochs = std::sync::Arc::new(Epochs::default());
        let held = epochs.register().unwrap();
        held.quiescent();
        let mut slots = Slots::new(1000).unwrap();
        let capacity = slots.retired.capacity();
        for round in 0..10 {
            let numbers: Vec<u32> = std::iter::from_fn(|| slots.take(&epochs)).collect();
            assert_eq!(numbers.len(), 1000, "round {round}");
            numbers.into_iter().for_each(|number| slots.retire(number, &epochs));
            assert_eq!(slots.take(&epochs), None, "the worker may hold all of them");
            held.quiescent();
        }
        assert_eq!(slots.retired.capacity(), capacity);
    }
}

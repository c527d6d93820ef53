//! Numbers of table entries: fresh, in use, or waiting until no look-up can hold them.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use baker::ir::TableError;

use crate::epoch::Epochs;

/// Numbers beyond a table's capacity, for removed entries that may still be held: what one batch of every worker can
/// remove before they all pass a quiescent state. Untouched, they cost address space only.
pub const SPARE: u32 = 4096;

/// How long the control plane waits for the workers to finish their batches, which takes microseconds.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// Hands out numbers from 0 to `limit` − 1. Does not allocate after it was made.
#[derive(Debug)]
pub struct Slots {
    fresh: u32,
    limit: u32,
    free: Vec<u32>,
    retired: VecDeque<(u32, u64)>,
}

impl Slots {
    /// All numbers are fresh.
    pub fn new(limit: u32) -> io::Result<Self> {
        let (mut free, mut retired) = (Vec::new(), VecDeque::new());
        let out_of_memory = |_| io::Error::from(io::ErrorKind::OutOfMemory);
        free.try_reserve_exact(limit as usize).map_err(out_of_memory)?;
        retired.try_reserve_exact(limit as usize).map_err(out_of_memory)?;
        Ok(Slots { fresh: 0, limit, free, retired })
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
        let crowded = |slots: &Self| slots.retired.len() >= SPARE as usize / 2;
        if crowded(self) {
            self.reclaim(epochs);
        }
        crowded(self)
    }

    /// Frees the numbers that no look-up can hold any more.
    fn reclaim(&mut self, epochs: &Epochs) {
        if self.retired.is_empty() {
            return;
        }
        let safe = epochs.safe();
        while let Some(&(number, stamp)) = self.retired.front()
            && stamp <= safe
        {
            self.free.push(number);
            self.retired.pop_front();
        }
    }

    /// As [`Slots::take`] for the control plane, which may wait for the workers to finish their batches.
    pub fn take_patiently(&mut self, epochs: &Epochs) -> Result<u32, TableError> {
        let start = Instant::now();
        loop {
            if let Some(number) = self.take(epochs) {
                return Ok(number);
            }
            if start.elapsed() > PATIENCE {
                return Err(TableError::Full);
            }
            std::thread::yield_now();
        }
    }

    /// Takes a number back that new look-ups cannot find any more.
    pub fn retire(&mut self, number: u32, epochs: &Epochs) {
        self.retired.push_back((number, epochs.retire()));
    }

    /// Takes a number back that was never published.
    pub fn untake(&mut self, number: u32) {
        self.free.push(number);
    }
}

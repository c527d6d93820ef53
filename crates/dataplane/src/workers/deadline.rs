//! Timers at deadlines of table entries, on a worker: each runs those whose deadlines it has set last.
//!
//! A slice is a bounded number of calls and of steps of the timing wheel. What is left is done after the next batch, so
//! that neither packets nor deadlines wait for long. (The interpreter has its deadlines in one place, and one worker
//! runs them all.)

use std::sync::Arc;

use baker::ir::{CounterSlots, Program, TableId, TimerId};
use codegen::abi::{MAX_BATCH, key_words, pack_key};

use crate::engine::{Engine, TableAccess};
use crate::packets::WorkerContext;

/// Steps of a timing wheel between two batches.
const STEPS: u32 = 256;

/// The timers of a program that run at deadlines.
pub(crate) struct DeadlineTimers {
    program: Arc<Program>,
    slots: CounterSlots,
    timers: Box<[(TimerId, TableId)]>,
    /// The timer that is looked at first, so that each gets its turn.
    next: usize,
    /// Each begins with the first timer, and takes the earliest deadline.
    sorted: bool,
    /// Packed keys of a slice; made once.
    keys: Vec<u64>,
}

impl DeadlineTimers {
    /// Those of a program that has any.
    pub fn new(program: &Arc<Program>) -> Option<Self> {
        let timers: Box<[_]> = program.deadline_timers().collect();
        let words = |table: &TableId| key_words(&program.layouts[program.tables[table.0 as usize].key.0 as usize]);
        let words = timers.iter().map(|(_, table)| words(table)).max()?;
        let keys = Vec::with_capacity(words * MAX_BATCH);
        Some(DeadlineTimers {
            program: program.clone(),
            slots: CounterSlots::new(program),
            timers,
            next: 0,
            sorted: false,
            keys,
        })
    }

    /// As [`DeadlineTimers::new`]: the earliest one first, and at one time the program's first one.
    pub fn sorted(program: &Arc<Program>) -> Option<Self> {
        Some(DeadlineTimers { sorted: true, ..Self::new(program)? })
    }

    /// When to run the next slice, in nanoseconds: not later than the next deadline. The past where there is one.
    pub fn next_due(&self, context: &WorkerContext, tables: &TableAccess) -> Option<u64> {
        self.timers.iter().filter_map(|(_, table)| next(context, tables, *table)).min()
    }

    /// Runs timers whose deadlines have come by the context's time, at most as many as may hold up packets; whether
    /// anything was done.
    ///
    /// # Safety
    /// The context was made for the engine's program and tables, and its outputs are empty.
    pub unsafe fn slice(&mut self, context: &mut WorkerContext, engine: &mut dyn Engine, tables: &TableAccess) -> bool {
        let now = context.now();
        let count = self.timers.len();
        let turns = (0..count).map(|step| (self.next + step) % count);
        let due = |index: usize| next(context, tables, self.timers[index].1).filter(|due| *due <= now);
        let index = match self.sorted {
            true => (0..count).filter_map(|index| Some((due(index)?, index))).min().map(|(_, index)| index),
            false => turns.clone().find(|index| due(*index).is_some()),
        };
        let Some(index) = index else { return false };
        self.next = (index + 1) % count;
        let (id, table) = self.timers[index];
        let timer = &self.program.timers[id.0 as usize];
        // Each call may make packets.
        let room = if self.program.limits.copies == 0 { MAX_BATCH } else { context.capacity() };
        let most = room.min(timer.slice as usize).min(MAX_BATCH);
        if most == 0 {
            return false;
        }
        let key = &self.program.layouts[self.program.tables[table.0 as usize].key.0 as usize];
        self.keys.clear();
        let worked = match tables {
            TableAccess::Native(_) => {
                context.deadlines().is_some_and(|deadlines| deadlines.due(table, now, most, STEPS, &mut self.keys))
            }
            TableAccess::Interp(_) => {
                let found = tables.due(table, now, most);
                found.iter().for_each(|fields| self.keys.extend(pack_key(key, fields)));
                !found.is_empty()
            }
        };
        let calls = self.keys.len() / key_words(key);
        if calls > 0 {
            let before = taken(context, tables, table);
            // SAFETY: there are as many keys as calls, no more than there are frames for; the rest is the caller's
            // promise.
            unsafe { engine.timer(id, context, &self.keys, calls as u32) };
            // An entry may be gone, too old, or have another deadline by now: then nothing has run for it.
            let runs = taken(context, tables, table) - before;
            context.counters().add(self.slots.timer_runs(id), runs);
            context.counters().add(self.slots.timer_entries(id), runs);
        }
        worked
    }
}

/// Deadlines that timers have taken so far.
fn taken(context: &mut WorkerContext, tables: &TableAccess, table: TableId) -> u64 {
    match tables {
        TableAccess::Native(_) => context.deadlines().map_or(0, |deadlines| deadlines.taken()),
        TableAccess::Interp(_) => tables.deadlines_taken(table),
    }
}

/// When to look for deadlines in a table.
fn next(context: &WorkerContext, tables: &TableAccess, table: TableId) -> Option<u64> {
    match tables {
        TableAccess::Native(_) => context.next_deadline(table),
        TableAccess::Interp(_) => tables.next_deadline(table),
    }
}

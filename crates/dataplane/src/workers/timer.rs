//! When periodic timers run, and what they are called with.
//!
//! One worker runs the timers of an instance, between its batches, in slices of a bounded number of calls, so that no
//! packet waits for a whole sweep. The period counts from start to start. A sweep that takes longer delays the next
//! one; one that is late by more than a period is not made up for.
//!
//! A sweep of a table goes over places that keys keep for as long as they are in it. So a key that is there all the
//! time gets exactly one call, however the table changes meanwhile.

use std::sync::Arc;

use baker::ir::{CounterSlots, Program, TimerId};
use codegen::abi::{MAX_BATCH, key_words, pack_key};

use crate::engine::{Engine, TableAccess};
use crate::packets::WorkerContext;

/// How often a timer runs in one go where time moves by leaps, as between two packets of a capture file.
const LEAP: u64 = 1024;

/// When those are due that run at deadlines of table entries ([`super::deadline`]).
const NEVER: u64 = u64::MAX;

/// What is left of a sweep.
enum Sweep {
    /// One call without a key.
    Once,
    /// The keys of a native table from this place on.
    From(u32),
    /// These keys.
    Keys(Box<dyn Iterator<Item = Vec<u128>> + Send>),
}

struct State {
    /// When it is to run next.
    due: u64,
    sweep: Option<Sweep>,
}

/// The timers of a program.
pub(crate) struct Schedule {
    program: Arc<Program>,
    slots: CounterSlots,
    timers: Vec<State>,
    /// The timer that is looked at first, so that each gets its turn.
    next: usize,
    /// Packed keys of a slice; made once.
    keys: Vec<u64>,
    /// Sweeps go by the order of keys, so that they are the same on every engine.
    sorted: bool,
}

impl Schedule {
    /// The timers of a program that starts now.
    pub fn new(program: &Arc<Program>, now: u64) -> Self {
        let words = |timer: &baker::ir::Timer| {
            let table = timer.table.map(|table| &program.tables[table.0 as usize]);
            table.map_or(0, |table| key_words(&program.layouts[table.key.0 as usize]))
        };
        let most = program.timers.iter().map(words).max().unwrap_or(0);
        let due = |timer: &baker::ir::Timer| match timer.is_at_deadline() {
            true => NEVER,
            false => now.saturating_add(timer.period),
        };
        let state = |timer: &baker::ir::Timer| State { due: due(timer), sweep: None };
        Schedule {
            timers: program.timers.iter().map(state).collect(),
            program: program.clone(),
            slots: CounterSlots::new(program),
            next: 0,
            keys: Vec::with_capacity(most * MAX_BATCH),
            sorted: false,
        }
    }

    /// As [`Schedule::new`], with sweeps by the order of keys. The tables must not be changed by others in between.
    pub fn sorted(program: &Arc<Program>, now: u64) -> Self {
        Schedule { sorted: true, ..Self::new(program, now) }
    }

    /// Timers that another schedule has, too, are due when they are there. Their sweeps begin anew.
    pub fn go_on(&mut self, from: &Schedule) {
        for (state, timer) in self.timers.iter_mut().zip(&self.program.timers) {
            let mut known = from.timers.iter().zip(&from.program.timers);
            let known = known.find(|(_, other)| (&other.name, other.period) == (&timer.name, timer.period));
            state.due = known.map_or(state.due, |(before, _)| before.due);
        }
    }

    /// Whether a sweep is under way.
    pub fn is_sweeping(&self) -> bool {
        self.timers.iter().any(|timer| timer.sweep.is_some())
    }

    /// When the next timer is due.
    pub fn next_due(&self) -> Option<u64> {
        self.timers.iter().map(|timer| timer.due).min().filter(|due| *due != NEVER)
    }

    /// Leaves out what is too much where time is about to move to `now`.
    pub fn leap(&mut self, now: u64) {
        let periodic = self.timers.iter_mut().zip(&self.program.timers).filter(|(_, timer)| !timer.is_at_deadline());
        for (state, timer) in periodic {
            let periods = now.saturating_sub(state.due) / timer.period;
            state.due += periods.saturating_sub(LEAP) * timer.period;
        }
    }

    /// Runs the next slice of a sweep that is under way or due; whether there was one. The context has the time.
    ///
    /// # Safety
    /// The context was made for the engine's program and tables, and its outputs are empty.
    pub unsafe fn slice(&mut self, context: &mut WorkerContext, engine: &mut dyn Engine, tables: &TableAccess) -> bool {
        let now = context.now();
        let count = self.timers.len();
        let order = (0..count).map(|step| (self.next + step) % count);
        let ready = |index: &usize| self.timers[*index].sweep.is_some() || self.timers[*index].due <= now;
        let Some(index) = order.clone().find(ready) else { return false };
        let program = self.program.clone();
        let (state, timer) = (&mut self.timers[index], &program.timers[index]);
        // Each call may make packets.
        let room = if program.limits.copies == 0 { MAX_BATCH } else { context.capacity() };
        let most = room.min(timer.slice as usize).min(MAX_BATCH);
        if most == 0 {
            return false;
        }
        let id = TimerId(index as u32);
        if state.sweep.is_none() {
            context.counters().add(self.slots.timer_runs(id), 1);
            let on_time = state.due.saturating_add(timer.period);
            state.due = if on_time > now { on_time } else { now.saturating_add(timer.period) };
        }
        let sweep = state.sweep.get_or_insert_with(|| match (timer.table, tables) {
            (None, _) => Sweep::Once,
            (Some(_), TableAccess::Native(_)) if !self.sorted => Sweep::From(0),
            _ => Sweep::Keys(timer.keys(&program, tables)),
        });
        self.keys.clear();
        let (calls, done) = match (sweep, timer.table, tables) {
            (Sweep::From(from), Some(table), TableAccess::Native(tables)) => {
                let done = tables.keys_from(table, from, &mut self.keys, most);
                let words = key_words(&program.layouts[program.tables[table.0 as usize].key.0 as usize]);
                (self.keys.len() / words, done)
            }
            (Sweep::Keys(keys), Some(table), _) => {
                let layout = &program.layouts[program.tables[table.0 as usize].key.0 as usize];
                let mut calls = 0;
                for key in keys.take(most) {
                    self.keys.extend(pack_key(layout, &key));
                    calls += 1;
                }
                (calls, calls < most)
            }
            _ => (1, true),
        };
        if done {
            state.sweep = None;
            self.next = (index + 1) % count;
        }
        if timer.table.is_some() {
            context.counters().add(self.slots.timer_entries(id), calls as u64);
        }
        // SAFETY: there are as many keys as calls, no more than there are frames for; the rest is the caller's promise.
        unsafe { engine.timer(id, context, &self.keys, calls as u32) };
        true
    }
}

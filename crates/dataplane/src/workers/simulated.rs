//! Timers by simulated time, without a worker: the same on every engine.
//!
//! The earliest one first; at one time periodic ones before those at deadlines, each kind in the program's order, and
//! keys in theirs.

use std::sync::Arc;

use baker::ir::Program;

use super::deadline::DeadlineTimers;
use super::timer::Schedule;
use crate::engine::{Engine, TableAccess};
use crate::packets::WorkerContext;

/// All timers of a program.
pub(crate) struct SimulatedTimers {
    periodic: Schedule,
    deadlines: Option<DeadlineTimers>,
}

impl SimulatedTimers {
    /// Of a program that starts now. Nothing else changes the tables while timers run.
    pub fn new(program: &Arc<Program>, now: u64) -> Self {
        SimulatedTimers { periodic: Schedule::sorted(program, now), deadlines: DeadlineTimers::sorted(program) }
    }

    /// Leaves out what is too much of periodic timers where time is about to move to `to`.
    pub fn leap(&mut self, to: u64) {
        self.periodic.leap(to);
    }

    /// Runs the first timers that are due by `to`, a slice of them, and moves the context's time to theirs; whether
    /// there were any.
    ///
    /// # Safety
    /// The context was made for the engine's program and tables, its deadlines are sorted, and its outputs are empty.
    pub unsafe fn step(
        &mut self,
        context: &mut WorkerContext,
        engine: &mut dyn Engine,
        tables: &TableAccess,
        to: u64,
    ) -> bool {
        let is_sweeping = self.periodic.is_sweeping();
        let periodic = self.periodic.next_due().filter(|due| *due <= to);
        let deadline = self.deadlines.as_ref().and_then(|own| own.next_due(context, tables));
        let deadline = deadline.filter(|due| !is_sweeping && *due <= to && periodic.is_none_or(|first| *due < first));
        match deadline.or(periodic) {
            _ if is_sweeping => {}
            Some(due) => context.set_now(due.max(context.now())),
            None => return false,
        }
        context.quiescent();
        // SAFETY: promised by the caller.
        unsafe {
            match self.deadlines.as_mut().filter(|_| deadline.is_some()) {
                Some(own) => own.slice(context, engine, tables),
                None => self.periodic.slice(context, engine, tables),
            }
        };
        true
    }
}

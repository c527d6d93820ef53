//! Timers and queues by simulated time, without a worker: the same on every engine.
//!
//! The earliest one first; at one time periodic timers before those at deadlines, each kind in the program's order, and
//! keys in theirs, then packets of queues, by lines.

use std::sync::Arc;

use baker::ir::{ChannelId, Program};
use codegen::abi::MAX_BATCH;

use super::deadline::DeadlineTimers;
use super::queues::Queues;
use super::timer::Schedule;
use crate::engine::{Engine, TableAccess};
use crate::packets::{FramePool, WorkerContext};

/// All timers and queues of a program.
pub(crate) struct SimulatedTimers {
    periodic: Schedule,
    deadlines: Option<DeadlineTimers>,
    queues: Option<Queues>,
}

impl SimulatedTimers {
    /// Of a program that starts now. Nothing else changes the tables while timers run.
    pub fn new(program: &Arc<Program>, pool: &FramePool, now: u64) -> Self {
        SimulatedTimers {
            periodic: Schedule::sorted(program, now),
            deadlines: DeadlineTimers::sorted(program),
            queues: Queues::sorted(program, pool),
        }
    }

    /// Takes those of the outputs of the program that wait in queues. After each run of the engine.
    pub fn hold(&mut self, context: &mut WorkerContext) {
        if let Some(queues) = &mut self.queues {
            queues.take_outputs(context);
        }
    }

    /// Packets that wait in queues.
    pub fn held(&self) -> u32 {
        self.queues.as_ref().map_or(0, Queues::held)
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
        let timer = deadline.or(periodic);
        let queue = self.queues.as_ref().and_then(Queues::next_due);
        let queue = queue.filter(|due| !is_sweeping && *due <= to && timer.is_none_or(|first| *due < first));
        match queue.or(timer) {
            _ if is_sweeping => {}
            Some(due) => context.set_now(due.max(context.now())),
            None => return false,
        }
        context.quiescent();
        // SAFETY: promised by the caller.
        unsafe {
            if let Some(queues) = self.queues.as_mut().filter(|_| queue.is_some()) {
                release(queues, context, engine);
            } else if let Some(own) = self.deadlines.as_mut().filter(|_| deadline.is_some()) {
                own.slice(context, engine, tables);
            } else {
                self.periodic.slice(context, engine, tables);
            }
        }
        self.hold(context);
        true
    }
}

/// The next packet of a queue whose time has come goes on.
///
/// # Safety
/// As for [`SimulatedTimers::step`].
unsafe fn release(queues: &mut Queues, context: &mut WorkerContext, engine: &mut dyn Engine) {
    let (pool, now) = (context.pool().clone(), context.now());
    let mut released = [(0, ChannelId(0)); MAX_BATCH];
    let most = context.capacity().min(1);
    let (count, _) = queues.release(&pool, now, most, &mut released);
    for &(frame, channel) in &released[..count] {
        if !queues.leaves(context, frame, channel) {
            // SAFETY: the frame is the context owner's and holds a packet for this channel, with its metadata; there
            // are frames for its copies.
            unsafe { engine.inject(channel, context, &[frame]) };
        }
    }
}

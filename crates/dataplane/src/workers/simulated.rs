//! Timers, queues and groups by simulated time, without a worker: the same on every engine.
//!
//! The earliest one first; at one time periodic timers before those at deadlines, each kind in the program's order, and
//! keys in theirs, then packets of queues, by lines. Copies for the members of groups take no time: they come before
//! all that follows, packet by packet, in the order of the members' numbers.

use std::sync::Arc;

use baker::ir::{ChannelId, Program};
use codegen::abi::{END_CHANNEL, Output};

use super::deadline::DeadlineTimers;
use super::groups::Groups;
use super::onward::NOBODY;
use super::queues::Queues;
use super::timer::Schedule;
use crate::engine::{Engine, TableAccess};
use crate::packets::{FramePool, WorkerContext};

/// All timers, queues and groups of a program.
pub(crate) struct SimulatedTimers {
    periodic: Schedule,
    deadlines: Option<DeadlineTimers>,
    queues: Option<Queues>,
    groups: Option<Groups>,
}

impl SimulatedTimers {
    /// Of a program that starts now. Nothing else changes the tables while timers run.
    pub fn new(
        program: &Arc<Program>,
        pool: &FramePool,
        (engine, tables): (&dyn Engine, &TableAccess),
        now: u64,
    ) -> Self {
        SimulatedTimers {
            periodic: Schedule::sorted(program, now),
            deadlines: DeadlineTimers::sorted(program),
            queues: Queues::sorted(program, pool),
            groups: Groups::new(program, pool, tables, |entry| engine.of_member(entry)).map(Groups::in_order),
        }
    }

    /// Takes those of the outputs of the program that wait in queues, or for the members of groups. After each run of
    /// the engine.
    pub fn hold(&mut self, context: &mut WorkerContext) {
        if self.queues.is_none() && self.groups.is_none() {
            return;
        }
        let mut kept = 0;
        for index in 0..context.outputs().len() {
            let Output { frame, end } = context.outputs()[index];
            let channel = end.checked_sub(END_CHANNEL).map(ChannelId);
            if let Some((queues, to)) = self.queues.as_mut().zip(channel).filter(|(queues, to)| queues.is_queue(*to)) {
                queues.put(context, frame, to);
            } else if let Some((groups, to)) =
                self.groups.as_mut().zip(channel).filter(|(groups, to)| groups.is_group(*to))
            {
                groups.put(context, frame, to);
            } else {
                context.move_output(index, kept);
                kept += 1;
            }
        }
        context.truncate_outputs(kept);
    }

    /// Packets that wait in queues, or for the members of groups.
    pub fn held(&self) -> u32 {
        self.queues.as_ref().map_or(0, Queues::held) + self.groups.as_ref().map_or(0, Groups::held)
    }

    /// Runs a batch of copies for the members of groups; whether there were any.
    ///
    /// # Safety
    /// As for [`SimulatedTimers::step`].
    pub unsafe fn fan_out(&mut self, context: &mut WorkerContext, engine: &mut dyn Engine) -> bool {
        let Some(groups) = self.groups.as_mut().filter(|groups| groups.held() > 0) else { return false };
        context.quiescent();
        let (mut copies, most) = (NOBODY, context.capacity());
        let (count, _) = groups.fan_out(context, most, &mut copies);
        for &(frame, channel) in &copies[..count] {
            if !groups.leaves(context, frame, channel) {
                // SAFETY: the frame is the context owner's and holds a packet for this channel, with its metadata;
                // there are frames for the copies of all.
                unsafe { engine.inject(channel, context, &[frame]) };
            }
        }
        self.hold(context);
        true
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
        // SAFETY: promised by the caller.
        if unsafe { self.fan_out(context, engine) } {
            return true;
        }
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
    let mut released = NOBODY;
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

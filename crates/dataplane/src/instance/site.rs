//! What stays of an instance whatever program runs there, and what each program needs of it.

use std::io;
use std::sync::{Arc, Mutex};

use baker::ir::{CounterSlots, Program};

use super::error::StartError;
use crate::context::WorkerContext;
use crate::controller::{Controller, Exchange, ExternTable, Named, Rings, Waiting};
use crate::counters::CounterBlock;
use crate::engine::{EngineKind, Engines, TableAccess};
use crate::frames::{FrameError, FramePool};
use crate::handover::Handover;
use crate::mtus::Asked;
use crate::observer::Observed;
use crate::running::{Equipment, Running, Timers};
use crate::sys::{Doorbell, monotonic_ns};
use crate::timer::Schedule;
use crate::xdp::{FastPath, KernelPart};

/// What stays.
pub(super) struct Site {
    pub engine: EngineKind,
    pub pool: Arc<FramePool>,
    /// Frames that ports do not need for themselves.
    pub frames: u32,
    /// One per worker.
    pub doorbells: Vec<Arc<Doorbell>>,
    /// One per worker.
    pub handovers: Vec<Arc<Handover>>,
    /// Number of ports of each worker.
    pub ports: Vec<usize>,
    pub fast_path: Option<Arc<FastPath>>,
    /// For programs that ask what ports send at most.
    pub asked: Asked,
}

impl std::fmt::Debug for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Site").field("engine", &self.engine).field("ports", &self.ports).finish_non_exhaustive()
    }
}

/// A program as it is to run on workers.
pub(super) struct Parts<'p> {
    pub program: &'p Arc<Program>,
    pub engines: &'p Engines,
    pub tables: &'p TableAccess,
    pub externs: Option<&'p Arc<ExternTable>>,
    pub kernel: Option<Arc<KernelPart>>,
}

/// What was made for a program.
pub(super) struct Built {
    /// One per worker.
    pub running: Vec<Running>,
    pub waiting: Vec<Waiting>,
    pub observed: Observed,
    /// Counts what is dropped when workers and controllers have ended.
    pub end_counters: Arc<CounterBlock>,
}

impl Site {
    /// Makes what the workers and controllers of a program need.
    pub fn build(&self, parts: Parts<'_>, controllers: Vec<Named>) -> Result<Built, StartError> {
        let Parts { program, engines, tables, externs, kernel } = parts;
        let (share, each) = shares(program, self.frames, self.doorbells.len())?;
        let waiting = chosen(program, controllers, || Arc::new(Rings::new(self.pool.clone(), each, &self.doorbells)))?;
        let slots = CounterSlots::new(program).len();
        let end_counters = Arc::new(CounterBlock::new(slots));
        // Where nobody can drop packets at the end there is nothing to sum up.
        let mut blocks = if waiting.is_empty() { Vec::new() } else { vec![end_counters.clone()] };
        let worker = |(index, ports): (usize, &usize)| -> io::Result<Running> {
            let counters = Arc::new(CounterBlock::new(slots));
            blocks.push(counters.clone());
            let (pool, native) = (self.pool.clone(), tables.native().cloned());
            let mut context = WorkerContext::with_share(program, pool, native, counters, share)?;
            if let Some(externs) = externs {
                context.set_externs(externs.clone());
            }
            let exchange = (!program.controllers.is_empty()).then(|| {
                let rings = waiting.iter().map(|controller| controller.rings.clone()).collect();
                Exchange::new(program, index, rings)
            });
            let has_timers = index == 0 && !program.timers.is_empty();
            let timers =
                has_timers.then(|| Timers { schedule: Schedule::new(program, monotonic_ns()), tables: tables.clone() });
            let resume = kernel.as_ref().map(|part| part.resume().clone());
            let generation = kernel.as_ref().map_or(0, |part| part.generation());
            let equipment = Equipment { exchange, timers, resume, generation };
            Ok(Running::new(program, context, engines.engine(), *ports, equipment))
        };
        let running = self.ports.iter().enumerate().map(worker).collect::<Result<Vec<_>, _>>()?;
        let (program, externs) = (program.clone(), externs.cloned());
        let observed = Observed { program, blocks, kernel, externs, before: Mutex::default() };
        Ok(Built { running, waiting, observed, end_counters })
    }
}

/// The part of the frames that controllers may have: one in four.
const CONTROLLERS_PART: u32 = 4;

/// The frames that each worker may take, and those that each controller may have, which no worker counts on.
fn shares(program: &Program, count: u32, workers: usize) -> Result<(u32, u32), FrameError> {
    let (controllers, workers) = (program.controllers.len() as u32, workers as u32);
    let needed = program.limits.copies.saturating_add(1).saturating_mul(workers);
    let least = Rings::least(workers as usize);
    let part = match controllers {
        0 => 0,
        _ => (count / CONTROLLERS_PART).max(least.saturating_mul(controllers)),
    };
    match count.checked_sub(part).map(|left| left / workers) {
        Some(share) if share.saturating_mul(workers) >= needed => {
            Ok((share, part.checked_div(controllers).unwrap_or(0)))
        }
        _ => Err(FrameError::TooFew { count, least: needed.saturating_add(least.saturating_mul(controllers)) }),
    }
}

/// The controllers of a program in its order, then the others, each with rings.
fn chosen(
    program: &Program,
    mut given: Vec<Named>,
    rings: impl Fn() -> Arc<Rings>,
) -> Result<Vec<Waiting>, StartError> {
    let mut take = |name: &String| -> Option<Box<dyn Controller>> {
        let index = given.iter().position(|(given, _)| given == name)?;
        Some(given.swap_remove(index).1)
    };
    let one = |wired: &baker::ir::Controller| match take(&wired.name) {
        Some(controller) => Ok(Waiting { name: wired.name.clone(), controller, rings: rings() }),
        None => Err(StartError::Controller(wired.name.clone())),
    };
    let mut chosen = program.controllers.iter().map(one).collect::<Result<Vec<_>, _>>()?;
    chosen.extend(given.into_iter().map(|(name, controller)| Waiting { name, controller, rings: rings() }));
    Ok(chosen)
}

//! What stays of an instance whatever program runs there, and what each program needs of it.

use std::io;
use std::sync::{Arc, Mutex};

use baker::ir::{CounterSlots, Program};

use super::error::StartError;
use super::mtus::MtuPorts;
use crate::controller::{Controller, Exchange, Links, Named, Pinning, PortInfo, Rings, Waiting};
use crate::counters::CounterBlock;
use crate::engine::{EngineKind, Engines, TableAccess};
use crate::externs::ExternTable;
use crate::observer::Observed;
use crate::packets::{FrameError, FramePool, Holder, WorkerContext, group_frames, queue_frames};
use crate::sys::{Doorbell, monotonic_ns};
use crate::workers::{DeadlineTimers, Deadlines, Equipment, Groups, Handover, Running, Schedule, Timers};
use crate::xdp::{FastPath, KernelPart};

/// What stays.
pub(super) struct Site {
    pub engine: EngineKind,
    pub pool: Arc<FramePool>,
    /// Frames that ports do not need for themselves.
    pub frames: u32,
    /// One per worker.
    pub doorbells: Vec<Arc<Doorbell>>,
    /// One per worker, where they are pinned.
    pub cpus: Vec<Option<usize>>,
    /// See [`super::Options::controller_frames`].
    pub controller_frames: Vec<(String, u32)>,
    /// One per worker.
    pub handovers: Vec<Arc<Handover>>,
    /// Number of ports of each worker.
    pub ports: Vec<usize>,
    pub fast_path: Option<Arc<FastPath>>,
    /// For controllers that ask which ports there are.
    pub port_infos: Arc<[PortInfo]>,
    /// For programs that ask what ports send at most.
    pub mtu_ports: MtuPorts,
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
        let shares = Shares::new(program, self.frames, self.doorbells.len(), &self.controller_frames)?;
        let share = shares.worker;
        // One that the program is not wired to has no packets.
        let wired = |name: &str| program.controllers.iter().any(|one| one.name == name);
        let frames = |name: &str| if wired(name) { shares.of(name) } else { 0 };
        let waiting = chosen(program, controllers, |name, links| self.rings(program, frames(name), links))?;
        let rings: Vec<_> = waiting.iter().map(|controller| controller.rings.clone()).collect();
        let slots = CounterSlots::new(program).len();
        let end_counters = Arc::new(CounterBlock::new(slots));
        // Where no packets can be dropped at the end there is nothing to sum up.
        let mut blocks = if waiting.is_empty() { Vec::new() } else { vec![end_counters.clone()] };
        let by_kernel = kernel.as_ref().zip(self.fast_path.as_ref());
        let taps = by_kernel.map(|(part, path)| path.tap_rings(part, self.ports.len())).transpose()?;
        let worker = |(index, ports): (usize, &usize)| -> io::Result<Running> {
            let counters = Arc::new(CounterBlock::new(slots));
            blocks.push(counters.clone());
            let (pool, native) = (self.pool.clone(), tables.native().cloned());
            let mut context = WorkerContext::with_share(program, pool, native, counters, share)?;
            if let Some(externs) = externs {
                context.set_externs(externs.clone());
            }
            let exchange = (!program.controllers.is_empty()).then(|| Exchange::new(program, index, &rings));
            let has_timers = index == 0 && program.timers.iter().any(|timer| !timer.is_at_deadline());
            // The interpreter has its deadlines in one place.
            let timers = DeadlineTimers::new(program).filter(|_| index == 0 || tables.native().is_some());
            let deadlines = timers.map(|timers| Deadlines { timers, tables: tables.clone() });
            let timers =
                has_timers.then(|| Timers { schedule: Schedule::new(program, monotonic_ns()), tables: tables.clone() });
            let resume = kernel.as_ref().map(|part| part.resume().clone());
            let generation = kernel.as_ref().map_or(0, |part| part.generation());
            let ring = taps.as_ref().and_then(|rings| rings.get(index)).cloned();
            let engine = engines.engine();
            let groups = Groups::new(program, &self.pool, tables, |entry| engine.of_member(entry));
            let equipment = Equipment { exchange, timers, deadlines, groups, resume, generation, ring };
            Ok(Running::new(program, context, engine, *ports, equipment))
        };
        let running = self.ports.iter().enumerate().map(worker).collect::<Result<Vec<_>, _>>()?;
        let (program, externs) = (program.clone(), externs.cloned());
        let observed = Observed { program, blocks, kernel, externs, before: Mutex::default() };
        Ok(Built { running, waiting, observed, end_counters })
    }
}

/// The part of the frames that controllers may have where nothing else is said: one in four.
const CONTROLLERS_PART: u32 = 4;

/// How many frames each holder may have.
#[derive(Debug)]
struct Shares<'n> {
    /// Each worker.
    worker: u32,
    /// Each controller that is not named.
    usual: u32,
    named: &'n [(String, u32)],
}

impl<'n> Shares<'n> {
    /// Of so many frames that ports do not need. No worker counts on those of controllers.
    fn new(program: &Program, count: u32, workers: usize, named: &'n [(String, u32)]) -> Result<Self, FrameError> {
        let least = Rings::least(workers);
        let wired = program.controllers.len() as u32;
        // In frames that no worker counts on.
        let grouped = group_frames(program).saturating_mul(workers as u32);
        let queued = queue_frames(program).saturating_add(grouped);
        let usual =
            (count.saturating_sub(queued) / CONTROLLERS_PART).checked_div(wired).map_or(0, |part| part.max(least));
        let mut shares = Shares { worker: 0, usual, named };
        let own = |name: &str| named.iter().find(|(own, _)| own == name);
        if let Some((name, given)) =
            program.controllers.iter().filter_map(|one| own(&one.name)).find(|(_, given)| *given < least)
        {
            return Err(FrameError::FewForController { name: name.clone(), given: *given, least });
        }
        let of = |one: &baker::ir::Controller| (one.name.clone(), shares.of(&one.name));
        let all: Vec<(String, u32)> = program.controllers.iter().map(of).collect();
        let controllers = all.iter().fold(0u32, |sum, (_, frames)| sum.saturating_add(*frames));
        let workers = workers as u32;
        let needed = program.limits.copies.saturating_add(1).saturating_mul(workers);
        if queued > 0 && count.checked_sub(queued).is_none_or(|left| left / workers * workers < needed) {
            let queues = program.queues.iter().map(|queue| (queue.name.clone(), queue.most()));
            let queues = queues.chain((grouped > 0).then(|| ("groups".to_string(), grouped))).collect();
            return Err(FrameError::Queues { count, queues, workers, needed });
        }
        match count.checked_sub(controllers.saturating_add(queued)) {
            Some(left) if left / workers * workers >= needed => {
                shares.worker = left / workers;
                Ok(shares)
            }
            // What is given is too much; otherwise there are too few at all.
            _ if all.iter().any(|(name, _)| own(name).is_some()) => {
                Err(FrameError::Controllers { count, controllers: all, workers, needed })
            }
            _ => Err(FrameError::TooFew { count, least: needed.saturating_add(least.saturating_mul(wired)) }),
        }
    }

    /// Those of a controller.
    fn of(&self, name: &str) -> u32 {
        self.named.iter().find(|(own, _)| own == name).map_or(self.usual, |(_, frames)| *frames)
    }
}

impl Site {
    /// The rings of a controller with these links and so many frames.
    fn rings(&self, program: &Arc<Program>, frames: u32, links: Links) -> io::Result<Vec<Arc<Rings>>> {
        let new = |frames, pinning| -> io::Result<Arc<Rings>> {
            let rings = Rings::new(program.clone(), self.pool.clone(), frames, &self.doorbells, pinning)?;
            let rings = Arc::new(rings.with_ports(self.port_infos.clone()));
            self.pool.holders.register(Holder::Controller, &rings);
            Ok(rings)
        };
        match links {
            Links::One => Ok(vec![new(frames, Pinning::default())?]),
            Links::PerWorker => {
                let each = frames / self.doorbells.len() as u32;
                let pinning = |(worker, cpu): (usize, &Option<usize>)| Pinning { worker: Some(worker), cpu: *cpu };
                self.cpus.iter().enumerate().map(|at| new(each, pinning(at))).collect()
            }
        }
    }
}

/// The controllers of a program in its order, then the others, each with rings.
fn chosen(
    program: &Program,
    mut given: Vec<Named>,
    rings: impl Fn(&str, Links) -> io::Result<Vec<Arc<Rings>>>,
) -> Result<Vec<Waiting>, StartError> {
    let waiting = |name: String, controller: Box<dyn Controller>| -> Result<Waiting, StartError> {
        let rings = rings(&name, controller.links())?;
        Ok(Waiting { name, controller, rings })
    };
    let mut chosen = Vec::new();
    for wired in &program.controllers {
        let index = given.iter().position(|(given, _)| *given == wired.name);
        let index = index.ok_or_else(|| StartError::Controller(wired.name.clone()))?;
        let (name, controller) = given.swap_remove(index);
        chosen.push(waiting(name, controller)?);
    }
    for (name, controller) in given {
        chosen.push(waiting(name, controller)?);
    }
    Ok(chosen)
}

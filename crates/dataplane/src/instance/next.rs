//! Another program takes over from the one that runs: with its tables and counters, and without losing, doubling or
//! reordering a packet.
//!
//! [`Instance::next`] compiles it and makes all that it needs, beside the program that runs; until then nothing
//! changes, and all that can go wrong goes wrong there. [`Instance::take_over`] then
//!
//! 1. gives it to the workers, each between two batches,
//! 2. puts its part in the kernel in the place of the old one's, at each port between two packets, and waits until the
//!    old one runs nowhere,
//! 3. lets workers empty their rings of what the old one handed over before,
//! 4. moves the controllers, which finish what they have,
//! 5. and takes the old one apart.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use baker::ir::{CounterSlots, DropId, Program, TableEntry, TableError, TableId, TableStore};
use baker::opt::Level;

use super::error::StartError;
use super::mtus::Mtus;
use super::run::Instance;
use super::site::{Built, Parts};
use super::sweep::Sweeper;
use crate::controller::{Named, NamedTables, Waiting};
use crate::counters::CounterBlock;
use crate::engine::{EngineError, EngineKind, Engines, TableAccess};
use crate::externs::{ExternTable, MissingExterns};
use crate::observer::Observed;
use crate::packets::FrameError;
use crate::tables::{Carried, Tables, TablesError, carried};
use crate::workers::{Order, Running};
use crate::xdp::{KernelPart, NextPart, PartitionError, Partitioned};

/// How long a worker may take to do what it is told, which takes it a batch, or as many as its rings hold.
const WORKER_PATIENCE: Duration = Duration::from_secs(10);
/// How long packets of the old program that controllers have or have injected are waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks at them.
const PAUSE: Duration = Duration::from_millis(1);

/// Why a program cannot take over. The one that runs goes on.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// Of the reference interpreter.
    #[error("the interpreter cannot take over another program: it takes a restart")]
    Interpreter,
    /// It has nothing for the kernel.
    #[error("nothing of the new program can run in the kernel, as that of the old one does: {0}; it takes a restart")]
    Nothing(String),
    /// In the kernel.
    #[error("the kernel's part of it cannot be loaded: {0}")]
    Partition(#[from] PartitionError),
    /// On workers.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A table.
    #[error(transparent)]
    Tables(#[from] TablesError),
    /// A function of a controller.
    #[error(transparent)]
    Externs(#[from] MissingExterns),
    /// It needs other frames.
    #[error("{0}: it takes a restart")]
    Frames(#[from] FrameError),
    /// Entries do not go into the new form of a table.
    #[error("table {0}: its entries cannot be copied: {1}")]
    Copy(String, TableError),
    /// Anything else that also keeps instances from starting.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// A program that is ready to take over.
pub struct Next {
    /// What workers run.
    program: Arc<Program>,
    partitioned: Option<Partitioned<Arc<KernelPart>>>,
    carried: Vec<Carried>,
    tables: TableAccess,
    externs: Option<Arc<ExternTable>>,
    running: Vec<Running>,
    waiting: Vec<Waiting>,
    observed: Observed,
    end_counters: Arc<CounterBlock>,
}

impl Next {
    /// The program, as its workers run it.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// For each of its tables, what it has of those of the old program.
    pub fn carried(&self) -> &[Carried] {
        &self.carried
    }

    /// Its tables. Those that are kept are the old program's, too.
    pub fn tables(&self) -> TableAccess {
        self.tables.clone()
    }

    /// Its tables, by name.
    pub fn named_tables(&self) -> NamedTables {
        NamedTables::new(self.program.clone(), self.tables())
    }

    /// How it is placed, where a part of it runs in the kernel.
    pub fn partitioned(&self) -> Option<&Partitioned<Arc<KernelPart>>> {
        self.partitioned.as_ref()
    }
}

impl Instance {
    /// Makes a program ready to take over from the one that runs; [`Instance::copy`] fills its tables. `controllers`
    /// are all that it is wired to or whose functions it calls; those of them that run already go on in place of the
    /// ones given here.
    pub fn next(&self, program: &Program, mut controllers: Vec<Named>) -> Result<Next, ReloadError> {
        let EngineKind::Native(opt, packets) = self.site.engine else { return Err(ReloadError::Interpreter) };
        let program = self.site.pool.accommodate(program)?;
        let mut new: Vec<Named> =
            controllers.extract_if(.., |(name, _)| !self.controllers.names().any(|own| own == name)).collect();
        let offered = new.iter_mut().flat_map(|(_, controller)| controller.externs());
        let externs = ExternTable::of_offered(&program, offered, self.externs.as_ref())?;
        controllers.append(&mut new);
        let Split { program, partitioned, carried, tables } = self.split(program, packets)?;
        let (engines, tables) =
            Engines::new(&program, EngineKind::Native(opt, packets), externs.as_ref(), Some(&tables))?;
        let kernel = partitioned.as_ref().and_then(|partitioned| partitioned.made.clone());
        let parts = Parts { program: &program, engines: &engines, tables: &tables, externs: externs.as_ref(), kernel };
        let Built { running, waiting, observed, end_counters } = self.site.build(parts, controllers)?;
        Ok(Next { program, partitioned, carried, tables, externs, running, waiting, observed, end_counters })
    }

    /// Copies the entries of tables that have another form now, those of them that are `wanted` in the new ones.
    pub fn copy(&self, next: &Next, wanted: impl Fn(TableId, &TableEntry) -> bool) -> Result<(), ReloadError> {
        let mut to = next.tables();
        for (id, (table, carried)) in (0..).map(TableId).zip(next.program.tables.iter().zip(&next.carried)) {
            let Carried::Copied(before, _) = carried else { continue };
            let mut entries = self.tables.dump(*before);
            entries.retain(|entry| wanted(id, entry));
            let copied = to.insert_all(id, &mut entries.iter());
            copied.map_err(|error| ReloadError::Copy(table.name.clone(), error))?;
        }
        Ok(())
    }

    /// The program for workers, with its tables.
    fn split(&self, program: Program, packets: Level) -> Result<Split, ReloadError> {
        let Some(path) = &self.site.fast_path else {
            let TableAccess::Native(before) = &self.tables else { return Err(ReloadError::Interpreter) };
            let carried = carried(&self.program, &program);
            let tables = Arc::new(before.next_of_own(&program, &carried)?);
            return Ok(Split { program: Arc::new(program), partitioned: None, carried, tables });
        };
        let NextPart { partitioned, carried } = path.next(&program, packets)?;
        let nothing = || ReloadError::Nothing(partitioned.why_nothing(&program));
        let part = partitioned.made.as_ref().ok_or_else(nothing)?;
        let (program, tables) = (part.program().clone(), part.tables().clone());
        Ok(Split { program, partitioned: Some(partitioned), carried, tables })
    }

    /// Lets a program take over. The errors are of what goes on without it, such as the kernel at an interface that is
    /// gone, one line each.
    pub fn take_over(&mut self, next: Next) -> Vec<String> {
        let Next { program, partitioned, tables, externs, running, waiting, observed, end_counters, .. } = next;
        let mut errors = Vec::new();
        let handovers = self.site.handovers.clone();
        let mut tell_all = |orders: Vec<Order>| -> Vec<Option<Box<Running>>> {
            let told: Vec<_> =
                handovers.iter().zip(orders).map(|(handover, order)| handover.orders.tell(order)).collect();
            let answers = told.into_iter().map(|told| told.wait(WORKER_PATIENCE));
            answers
                .map(|answer| {
                    answer.unwrap_or_else(|_| {
                        errors.push("a worker does not answer".into());
                        None
                    })
                })
                .collect()
        };
        let all = |order: fn() -> Order| handovers.iter().map(|_| order()).collect();
        let timers = Sweeper::start(&program, tables.clone());
        let mtus = Mtus::start(&program, tables.clone(), &self.site.mtu_ports);
        tell_all(running.into_iter().map(|running| Order::TakeOver(Box::new(running))).collect());
        self.observer.take_over(observed);
        let kernel = partitioned.and_then(|partitioned| partitioned.made).zip(self.site.fast_path.as_ref());
        let replaced = kernel.map(|(part, path)| path.replace(part));
        tell_all(all(|| Order::Drain));
        let named = NamedTables::new(program.clone(), tables.clone());
        let moved = self.controllers.take_over(waiting, &named);
        let rings = moved.as_ref().map_or(&[][..], |rings| &rings[..]);
        let deadline = Instant::now() + PATIENCE;
        while !rings.iter().all(|rings| rings.is_quiet()) && Instant::now() < deadline {
            thread::sleep(PAUSE);
        }
        rings.iter().for_each(|rings| rings.close());
        drop(tell_all(all(|| Order::Release)));
        let dropped: u64 = rings.iter().map(|rings| rings.drain()).sum();
        self.end_counters.add(CounterSlots::new(&self.program).drop(DropId::CONTROLLER_GONE), dropped);
        self.observer.finished();
        (self.program, self.tables, self.externs, self.end_counters) = (program, tables, externs, end_counters);
        errors.extend(replaced.and_then(|replaced| replaced.err()).map(|error| format!("the kernel's part: {error}")));
        errors.extend(moved.err().map(|error| format!("controllers: {error}")));
        match timers {
            Ok(sweeper) => self.sweeper = sweeper,
            Err(error) => errors.push(format!("what removes old entries: {error}")),
        }
        match mtus {
            Ok(mtus) => self.mtus = mtus,
            Err(error) => errors.push(format!("what looks at the ports' MTUs: {error}")),
        }
        errors
    }
}

/// A program for workers.
struct Split {
    program: Arc<Program>,
    partitioned: Option<Partitioned<Arc<KernelPart>>>,
    carried: Vec<Carried>,
    tables: Arc<Tables>,
}

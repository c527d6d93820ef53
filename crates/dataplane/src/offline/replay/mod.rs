//! Capture files in, capture files out: a program over recorded packets, one at a time, in order.
//!
//! | file | idea |
//! |---|---|
//! | `inputs` | several files as one sequence |
//! | `outputs` | one file of all that leaves, and one for each port |
//! | `error` | why a replay failed |

mod error;
mod inputs;
mod outputs;

use std::sync::Arc;
use std::time::Duration;

use baker::ir::{CounterSlots, Program, Target, storage_size};
use codegen::abi::{END_CHANNEL, END_HOST, END_TX, Output, read_field};

use crate::counters::CounterBlock;
use crate::engine::{EngineKind, TableAccess, engine};
use crate::externs::ExternTable;
use crate::observer::{Observer, Snapshot};
use crate::packets::{
    FrameConfig, FramePool, Received, RxBatch, WorkerContext, group_frames, hold_frames, queue_frames,
};
use crate::ports::PortError;
use crate::workers::SimulatedTimers;

pub use error::ReplayError;
pub use inputs::{Entries, ReplayInput};
pub use outputs::ReplayOutputs;

use inputs::{Arrival, Inputs};
use outputs::{End, Outputs};

/// What a replay did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayReport {
    /// Packets that came in.
    pub received: u64,
    /// Packets of the files that are none that came in, as [`Entries`] says.
    pub others: u64,
    /// What of the files could not be read, a line for each: see [`crate::ports::CaptureInput::skipped`].
    pub skipped: Vec<String>,
    /// Packets longer than a frame, which were dropped.
    pub oversize: u64,
    /// Packets that left by `tx`.
    pub tx: u64,
    /// Packets that left to the host.
    pub host: u64,
    /// Packets that left to controllers.
    pub controllers: u64,
    /// The program's counters.
    pub snapshot: Snapshot,
}

/// Runs a program over the packets of capture files, in the order of their times, and writes every packet that leaves
/// by `tx`, to the host or to a controller, in order, with the time of the packet it came from, which is also the time
/// that the program sees. Its timers run by that time, too, before the packet that comes at or after theirs; a pause is
/// no longer than the last 1024 times that they run. There are no ports, so none is dropped as `no_port` or `no_host`.
/// `fill` gets the tables first. Controllers do not run, but `externs` are their functions.
pub fn replay(
    program: &Arc<Program>,
    kind: EngineKind,
    inputs: Vec<ReplayInput<'_>>,
    externs: Option<Arc<ExternTable>>,
    fill: impl FnOnce(&mut TableAccess) -> Result<(), String>,
    outputs: ReplayOutputs<'_>,
) -> Result<ReplayReport, ReplayError> {
    let mut inputs = Inputs::open(inputs)?;
    let mut outputs = Outputs::create(outputs)?;
    let (mut engine, mut tables) = engine(program, kind, externs.as_ref())?;
    fill(&mut tables).map_err(ReplayError::Tables)?;
    let copies = program.limits.copies;
    // Frames of the largest size: a recorded packet may be one that offloads merged.
    let waiting = hold_frames(program).saturating_add(queue_frames(program)).saturating_add(group_frames(program));
    let frames = FrameConfig {
        count: copies.saturating_add(2).saturating_add(waiting),
        frame_size: 65536,
        ..FrameConfig::default()
    };
    let pool = Arc::new(FramePool::new(program, frames)?);
    let counters = Arc::new(CounterBlock::new(CounterSlots::new(program).len()));
    let mut context = WorkerContext::new(program, pool.clone(), tables.native().cloned(), counters.clone())?;
    context.sort_deadlines(program);
    if let Some(externs) = externs {
        context.set_externs(externs);
    }
    let (mut received, mut oversize) = (0, 0);
    let mut leaving = Leaving { program, pool: pool.clone(), outputs: &mut outputs, tx: 0, host: 0, controllers: 0 };
    let mut timers: Option<SimulatedTimers> = None;
    let mut packet = Arrival::default();
    while inputs.next(&mut packet)? {
        let Arrival { time, port, ref frame } = packet;
        received += 1;
        context.quiescent();
        let now = context.now().max(time.as_nanos() as u64);
        let timers = timers.get_or_insert_with(|| SimulatedTimers::new(program, &pool, (&*engine, &tables), now));
        timers.leap(now);
        // SAFETY: the context was made for the engine's program and tables, and its outputs were taken.
        while unsafe { timers.step(&mut context, &mut *engine, &tables, now) } {
            let time = Duration::from_nanos(context.now());
            leaving.take(&mut context, time)?;
            context.quiescent();
        }
        let mut one = Received::default();
        let mut batch = RxBatch::new(&mut context, &mut one, port);
        batch.push(&[frame]);
        oversize += batch.totals().2;
        context.set_now(now);
        // SAFETY: the batch was made by `RxBatch` over this context, which was made for the engine's program and
        // tables.
        unsafe { engine.run(&mut context, one.frames()) };
        timers.hold(&mut context);
        leaving.take(&mut context, time)?;
        // SAFETY: as above, and the outputs were taken.
        while unsafe { timers.fan_out(&mut context, &mut *engine) } {
            leaving.take(&mut context, time)?;
        }
    }
    let Leaving { tx, host, controllers, .. } = leaving;
    outputs.finish()?;
    let snapshot = Observer::of_block(program, counters).snapshot();
    let (others, skipped) = (inputs.others, inputs.skipped());
    Ok(ReplayReport { received, others, skipped, oversize, tx, host, controllers, snapshot })
}

/// Counts and writes what leaves.
struct Leaving<'a> {
    program: &'a Program,
    pool: Arc<FramePool>,
    outputs: &'a mut Outputs,
    tx: u64,
    host: u64,
    controllers: u64,
}

impl Leaving<'_> {
    fn take(&mut self, context: &mut WorkerContext, time: Duration) -> Result<(), PortError> {
        for index in 0..context.outputs().len() {
            let leaving = context.outputs()[index];
            match leaving.end {
                END_TX => self.tx += 1,
                END_HOST => self.host += 1,
                _ => self.controllers += 1,
            }
            if self.outputs.are_any() {
                // The file's writer takes a packet in one piece.
                context.join(leaving.frame, usize::MAX);
                let end = self.end(&leaving);
                // SAFETY: an output's frame is the context owner's and holds a packet.
                self.outputs.write(&end, time, unsafe { self.pool.packet(leaving.frame) })?;
            }
        }
        context.free_outputs();
        Ok(())
    }

    fn end(&self, leaving: &Output) -> End {
        match leaving.end {
            END_HOST => End::Host,
            END_TX => {
                let field = &self.program.metadata[Program::TX_PORT.0 as usize];
                // SAFETY: an output's frame is the context owner's and has metadata, in which the field lies.
                let stored = unsafe {
                    let at = self.pool.metadata(leaving.frame).add(field.offset as usize);
                    std::slice::from_raw_parts(at, storage_size(field.width) as usize)
                };
                // It is as wide as a port number.
                End::Port(read_field(stored, field.width) as u8)
            }
            channel => match self.program.channels[(channel - END_CHANNEL) as usize].target {
                Target::Controller(id) => End::Controller(self.program.controllers[id.0 as usize].name.clone()),
                // Not outputs: packets of queues wait in them.
                Target::Ppf(_) | Target::Tx | Target::Host | Target::Queue(..) | Target::Group(..) => End::Host,
            },
        }
    }
}

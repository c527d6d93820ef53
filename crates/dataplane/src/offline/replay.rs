//! Capture file in, capture file out: a program over recorded packets, one at a time, in order.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use baker::ir::{CounterSlots, Program};
use codegen::abi::{END_HOST, END_TX};

use crate::counters::CounterBlock;
use crate::engine::{EngineError, EngineKind, TableAccess, engine};
use crate::externs::ExternTable;
use crate::observer::{Observer, Snapshot};
use crate::packets::{FrameConfig, FrameError, FramePool, Received, RxBatch, WorkerContext};
use crate::ports::{CaptureInput, Captured, PcapOutput, PortError};
use crate::workers::SimulatedTimers;

/// Why a replay failed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A capture file.
    #[error(transparent)]
    File(#[from] PortError),
    /// The engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The frames.
    #[error(transparent)]
    Frames(#[from] FrameError),
    /// No memory.
    #[error("the system refused memory for a worker: {0}")]
    Memory(#[from] std::io::Error),
    /// A packet came in on no port.
    #[error("{0}")]
    Entry(String),
    /// Filling the tables failed.
    #[error("{0}")]
    Tables(String),
}

/// What a replay did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayReport {
    /// Packets that came in.
    pub received: u64,
    /// Packets of the file that are none that came in, as [`Entries`] says.
    pub others: u64,
    /// What of the file could not be read: see [`CaptureInput::skipped`].
    pub skipped: Option<String>,
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

/// Says on which port a packet of a capture file comes in; `None`: on none, for a port has sent it. The error: it can't
/// be said.
pub type Entries<'e> = dyn FnMut(&Captured<'_>) -> Result<Option<u8>, String> + 'e;

/// Runs a program over the packets of `input`, received on the ports that `entries` says, and writes every packet that
/// leaves by `tx`, to the host or to a controller to `output`, in order, with the time of the packet it came from,
/// which is also the time that the program sees. Its timers run by that time, too, before the packet that comes at or
/// after theirs; a pause is no longer than the last 1024 times that they run. There are no ports, so none is dropped as
/// `no_port` or `no_host`. `fill` gets the tables first. Controllers do not run, but `externs` are their functions.
pub fn replay(
    program: &Arc<Program>,
    kind: EngineKind,
    entries: &mut Entries<'_>,
    externs: Option<Arc<ExternTable>>,
    fill: impl FnOnce(&mut TableAccess) -> Result<(), String>,
    input: &Path,
    output: Option<&Path>,
) -> Result<ReplayReport, ReplayError> {
    let mut input = CaptureInput::open(input)?;
    let mut output = output.map(PcapOutput::create).transpose()?;
    let (mut engine, mut tables) = engine(program, kind, externs.as_ref())?;
    fill(&mut tables).map_err(ReplayError::Tables)?;
    let copies = program.limits.copies;
    // Frames of the largest size: a recorded packet may be one that offloads merged.
    let queued = program.queues.iter().fold(0u32, |sum, queue| sum.saturating_add(queue.most()));
    let frames = FrameConfig {
        count: copies.saturating_add(2).saturating_add(queued),
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
    let (mut received, mut others, mut oversize) = (0, 0, 0);
    let mut leaving = Leaving { pool: pool.clone(), output: &mut output, tx: 0, host: 0, controllers: 0 };
    let mut timers: Option<SimulatedTimers> = None;
    while let Some(packet) = input.next_packet() {
        let packet = packet?;
        let Some(rx_port) = entries(&packet).map_err(ReplayError::Entry)? else {
            others += 1;
            continue;
        };
        let Captured { time, frame, .. } = packet;
        received += 1;
        context.quiescent();
        let now = context.now().max(time.as_nanos() as u64);
        let timers = timers.get_or_insert_with(|| SimulatedTimers::new(program, &pool, now));
        timers.leap(now);
        // SAFETY: the context was made for the engine's program and tables, and its outputs were taken.
        while unsafe { timers.step(&mut context, &mut *engine, &tables, now) } {
            let time = Duration::from_nanos(context.now());
            leaving.take(&mut context, time)?;
            context.quiescent();
        }
        let mut one = Received::default();
        let mut batch = RxBatch::new(&mut context, &mut one, rx_port);
        batch.push(&[frame]);
        oversize += batch.totals().2;
        context.set_now(now);
        // SAFETY: the batch was made by `RxBatch` over this context, which was made for the engine's program and
        // tables.
        unsafe { engine.run(&mut context, one.frames()) };
        timers.hold(&mut context);
        leaving.take(&mut context, time)?;
    }
    let Leaving { tx, host, controllers, .. } = leaving;
    output.map_or(Ok(()), PcapOutput::finish)?;
    let snapshot = Observer::of_block(program, counters).snapshot();
    let skipped = input.skipped();
    Ok(ReplayReport { received, others, skipped, oversize, tx, host, controllers, snapshot })
}

/// Counts and writes what leaves.
struct Leaving<'a> {
    pool: Arc<FramePool>,
    output: &'a mut Option<PcapOutput>,
    tx: u64,
    host: u64,
    controllers: u64,
}

impl Leaving<'_> {
    fn take(&mut self, context: &mut WorkerContext, time: Duration) -> Result<(), PortError> {
        for leaving in context.outputs() {
            match leaving.end {
                END_TX => self.tx += 1,
                END_HOST => self.host += 1,
                _ => self.controllers += 1,
            }
            if let Some(output) = self.output.as_mut() {
                // SAFETY: an output's frame is the context owner's and holds a packet.
                output.write(time, unsafe { self.pool.packet(leaving.frame) })?;
            }
        }
        context.free_outputs();
        Ok(())
    }
}

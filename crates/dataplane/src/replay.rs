//! Capture file in, capture file out: a program over recorded packets, one at a time, in order.

use std::path::Path;
use std::sync::Arc;

use baker::ir::{CounterSlots, Program};
use codegen::abi::END_TX;

use crate::context::{Received, RxBatch, WorkerContext};
use crate::counters::{CounterBlock, Observer, Snapshot};
use crate::engine::{EngineError, EngineKind, TableAccess, engine};
use crate::frames::{FrameConfig, FrameError, FramePool};
use crate::ports::{PcapInput, PcapOutput, PortError};

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
    /// Filling the tables failed.
    #[error("{0}")]
    Tables(String),
}

/// What a replay did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayReport {
    /// Packets read.
    pub received: u64,
    /// Packets longer than a frame, which were dropped.
    pub oversize: u64,
    /// Packets that left by `tx`.
    pub tx: u64,
    /// Packets that left to the host.
    pub host: u64,
    /// The program's counters.
    pub snapshot: Snapshot,
}

/// Runs a program over the packets of `input`, all received on port `rx_port`, and writes every packet that leaves by `tx`
/// or to the host to `output`, in order, with the time of the packet it came from, which is also the time that the
/// program sees. There are no ports, so none is
/// dropped as `no_port` or `no_host`. `fill` gets the tables first.
pub fn replay(
    program: &Arc<Program>,
    kind: EngineKind,
    rx_port: u8,
    fill: impl FnOnce(&mut TableAccess) -> Result<(), String>,
    input: &Path,
    output: Option<&Path>,
) -> Result<ReplayReport, ReplayError> {
    let mut input = PcapInput::open(input)?;
    let mut output = output.map(PcapOutput::create).transpose()?;
    let (mut engine, mut tables) = engine(program, kind)?;
    fill(&mut tables).map_err(ReplayError::Tables)?;
    let copies = program.limits.copies;
    // Frames of the largest size: a recorded packet may be one that offloads merged.
    let frames = FrameConfig { count: copies.saturating_add(2), frame_size: 65536, ..FrameConfig::default() };
    let pool = Arc::new(FramePool::new(program, frames)?);
    let counters = Arc::new(CounterBlock::new(CounterSlots::new(program).len()));
    let mut context = WorkerContext::new(program, pool.clone(), tables.native().cloned(), counters.clone())?;
    let registration = tables.native().and_then(|tables| tables.epochs().register());
    let (mut received, mut oversize, mut tx, mut host) = (0, 0, 0, 0);
    while let Some(packet) = input.next() {
        let (time, packet) = packet?;
        received += 1;
        if let Some(registration) = &registration {
            registration.quiescent();
        }
        let mut one = Received::default();
        let mut batch = RxBatch::new(&mut context, &mut one, rx_port);
        batch.push(&[&packet]);
        oversize += batch.totals().2;
        context.set_now(context.now().max(time.as_nanos() as u64));
        // SAFETY: the batch was made by `RxBatch` over this context, which was made for the engine's program and tables.
        unsafe { engine.run(&mut context, one.frames()) };
        for leaving in context.outputs() {
            if leaving.end == END_TX {
                tx += 1;
            } else {
                host += 1;
            }
            if let Some(output) = &mut output {
                // SAFETY: an output's frame is the context owner's and holds a packet.
                output.write(time, unsafe { pool.packet(leaving.frame) })?;
            }
        }
        context.free_outputs();
    }
    output.map_or(Ok(()), PcapOutput::finish)?;
    let observer = Observer { program: program.clone(), blocks: vec![counters], ports: Vec::new() };
    Ok(ReplayReport { received, oversize, tx, host, snapshot: observer.snapshot() })
}

//! Measures an engine alone, in memory: no port, no thread, no system call.

use std::sync::Arc;
use std::time::{Duration, Instant};

use baker::ir::{CounterSlots, Program};
use codegen::abi::MAX_BATCH;

use crate::context::{Received, RxBatch, WorkerContext};
use crate::counters::{CounterBlock, Observer, Snapshot};
use crate::engine::{EngineError, EngineKind, TableAccess, engine};
use crate::frames::{FrameConfig, FrameError, FramePool};

/// Why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
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

/// A measurement.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Time per packet in the engine.
    pub per_packet: Duration,
    /// The same in nanoseconds, with fractions.
    pub ns_per_packet: f64,
    /// Packets processed.
    pub packets: u64,
    /// Packets that left the program.
    pub outputs: u64,
    /// The program's counters, to see that it did what it should.
    pub snapshot: Snapshot,
}

/// Runs all packets `rounds` times, in batches of [`MAX_BATCH`], received on port `rx_port`.
///
/// Before each batch its packets are written afresh into frames, with fresh descriptors and metadata, as a driver does:
/// outside of the measured time, and with the same code for every engine. So each round sees the same packets (no TTL
/// runs out), and their headers are in the cache as after a driver's copy. Measured is [`crate::Engine::run`] alone; two
/// reads of the clock per batch are in it, less than a nanosecond per packet. `fill` gets the tables first.
pub fn in_memory(
    program: &Arc<Program>,
    kind: EngineKind,
    rx_port: u8,
    fill: impl FnOnce(&mut TableAccess) -> Result<(), String>,
    packets: &[Vec<u8>],
    rounds: u32,
) -> Result<Measured, BenchError> {
    let (mut engine, mut tables) = engine(program, kind)?;
    fill(&mut tables).map_err(BenchError::Tables)?;
    let count = (MAX_BATCH as u32).saturating_mul(program.limits.copies.saturating_add(1)).max(4096);
    let pool = Arc::new(FramePool::new(program, FrameConfig { count, ..FrameConfig::default() })?);
    let counters = Arc::new(CounterBlock::new(CounterSlots::new(program).len()));
    let mut context = WorkerContext::new(program, pool, tables.native().cloned(), counters.clone())?;
    let registration = tables.native().and_then(|tables| tables.epochs().register());
    let (mut total, mut processed, mut outputs) = (Duration::ZERO, 0, 0);
    for _ in 0..rounds {
        for batch in packets.chunks(MAX_BATCH) {
            if let Some(registration) = &registration {
                registration.quiescent();
            }
            let mut received = Received::default();
            let mut rx = RxBatch::new(&mut context, &mut received, rx_port);
            batch.iter().for_each(|packet| rx.push(&[packet]));
            processed += rx.totals().0;
            let start = Instant::now();
            // SAFETY: the batch was made by `RxBatch` over this context, which was made for the engine's program and
            // tables.
            unsafe { engine.run(&mut context, received.frames()) };
            total += start.elapsed();
            outputs += context.outputs().len() as u64;
            context.free_outputs();
        }
    }
    let ns_per_packet = total.as_nanos() as f64 / processed.max(1) as f64;
    let observer = Observer { program: program.clone(), blocks: vec![counters], ports: Vec::new() };
    Ok(Measured {
        per_packet: Duration::from_nanos(ns_per_packet as u64),
        ns_per_packet,
        packets: processed,
        outputs,
        snapshot: observer.snapshot(),
    })
}

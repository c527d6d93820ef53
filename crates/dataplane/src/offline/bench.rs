//! Measures an engine alone, in memory: no port, no thread, no system call.

use std::sync::Arc;
use std::time::{Duration, Instant};

use baker::ir::{CounterSlots, Program};
use codegen::abi::{MAX_BATCH, Staging};

use crate::counters::CounterBlock;
use crate::engine::{Engine, EngineError, EngineKind, Engines, TableAccess};
use crate::observer::{Observer, Snapshot};
use crate::packets::{
    Access, FrameConfig, FrameError, FramePool, LocalMemory, Received, RxBatch, WorkerContext, hold_frames,
};
use crate::tables::Tables;

/// Frames that packets can be spread over at most: see [`Rig::run_spread`].
pub const MAX_SPREAD: usize = 4096;

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

/// Runs all packets `rounds` times on a fresh engine with tables that `fill` filled: see [`Rig`].
pub fn in_memory(
    program: &Arc<Program>,
    kind: EngineKind,
    rx_port: u8,
    fill: impl FnOnce(&mut TableAccess) -> Result<(), String>,
    packets: &[Vec<u8>],
    rounds: u32,
) -> Result<Measured, BenchError> {
    Ok(Rig::new(program, kind, fill)?.run(rx_port, packets, rounds))
}

/// An engine with frames and counters, for several measurements.
pub struct Rig {
    program: Arc<Program>,
    engine: Box<dyn Engine>,
    context: WorkerContext,
    counters: Arc<CounterBlock>,
    access: Access,
    local: LocalMemory,
}

impl Rig {
    /// A fresh engine; `fill` gets its tables.
    pub fn new(
        program: &Arc<Program>,
        kind: EngineKind,
        fill: impl FnOnce(&mut TableAccess) -> Result<(), String>,
    ) -> Result<Self, BenchError> {
        Self::with_frames(program, kind, FrameConfig::default(), fill)
    }

    /// As [`Rig::new`], with frames of this size and headroom.
    pub fn with_frames(
        program: &Arc<Program>,
        kind: EngineKind,
        frames: FrameConfig,
        fill: impl FnOnce(&mut TableAccess) -> Result<(), String>,
    ) -> Result<Self, BenchError> {
        let (engines, mut tables) = Engines::new(program, kind, None, None)?;
        fill(&mut tables).map_err(BenchError::Tables)?;
        Self::assemble(program, engines.engine(), tables.native(), frames)
    }

    /// Workers over the same tables, each with frames and counters of its own.
    pub fn several(
        program: &Arc<Program>,
        kind: EngineKind,
        fill: impl FnOnce(&mut TableAccess) -> Result<(), String>,
        workers: usize,
    ) -> Result<Vec<Self>, BenchError> {
        let (engines, mut tables) = Engines::new(program, kind, None, None)?;
        fill(&mut tables).map_err(BenchError::Tables)?;
        let assemble = |_| Self::assemble(program, engines.engine(), tables.native(), FrameConfig::default());
        (0..workers).map(assemble).collect()
    }

    /// An engine that brings its own tables, to be measured by the same rules. `program` says how metadata is laid out.
    pub fn with_engine(program: &Arc<Program>, engine: Box<dyn Engine>) -> Result<Self, BenchError> {
        Self::assemble(program, engine, None, FrameConfig::default())
    }

    fn assemble(
        program: &Arc<Program>,
        engine: Box<dyn Engine>,
        tables: Option<&Arc<Tables>>,
        frames: FrameConfig,
    ) -> Result<Self, BenchError> {
        let count = (MAX_BATCH as u32).saturating_mul(program.limits.copies.saturating_add(1));
        let count = count.saturating_add(MAX_SPREAD as u32).saturating_add(hold_frames(program));
        let pool = Arc::new(FramePool::with_local(program, FrameConfig { count, ..frames }, 1)?);
        let counters = Arc::new(CounterBlock::new(CounterSlots::new(program).len()));
        let local = LocalMemory::new(&pool, 0)?;
        let context = WorkerContext::new(program, pool, tables.cloned(), counters.clone())?;
        let access = Access::default();
        Ok(Rig { program: program.clone(), engine, context, counters, access, local })
    }

    /// Says how the engine gets at packets.
    pub fn set_access(&mut self, access: Access) {
        self.access = access;
    }

    /// Says which batches are staged.
    pub fn set_staging(&mut self, staging: Staging) {
        self.context.set_staging(staging);
    }

    /// Runs all packets `rounds` times, in batches of [`MAX_BATCH`], received on port `rx_port`: as [`Rig::run_spread`]
    /// over the frames of one batch, whose headers are in the nearest cache as after a driver's copy.
    pub fn run(&mut self, rx_port: u8, packets: &[Vec<u8>], rounds: u32) -> Measured {
        self.run_spread(rx_port, packets, rounds, MAX_BATCH)
    }

    /// Runs all packets `rounds` times, in batches of [`MAX_BATCH`], received on port `rx_port` into a pool of so many
    /// `frames`, at most [`MAX_SPREAD`].
    ///
    /// Before the first batch of as many packets as there are frames, these are written afresh into frames, with fresh
    /// descriptors and metadata, as a driver does: outside of the measured time, and with the same code for every
    /// engine. So each round sees the same packets (no TTL runs out), and where there are many frames the headers of a
    /// batch have left the nearest caches for those that were written later. Measured is [`crate::Engine::run`] alone;
    /// two reads of the clock per batch are in it, less than a nanosecond per packet.
    ///
    /// # Panics
    /// On more frames than [`MAX_SPREAD`].
    pub fn run_spread(&mut self, rx_port: u8, packets: &[Vec<u8>], rounds: u32, frames: usize) -> Measured {
        let packets: Vec<(u8, &[u8])> = packets.iter().map(|packet| (rx_port, &packet[..])).collect();
        self.run_packets(&packets, rounds, frames)
    }

    /// As [`Rig::run`], for packets of several ports. A batch holds packets of all of them, in the order given.
    pub fn run_trace(&mut self, trace: &[(u8, Vec<u8>)], rounds: u32) -> Measured {
        let packets: Vec<(u8, &[u8])> = trace.iter().map(|(port, packet)| (*port, &packet[..])).collect();
        self.run_packets(&packets, rounds, MAX_BATCH)
    }

    fn run_packets(&mut self, packets: &[(u8, &[u8])], rounds: u32, frames: usize) -> Measured {
        assert!(frames <= MAX_SPREAD, "{frames} frames are more than there are");
        let (mut total, mut processed, mut outputs) = (Duration::ZERO, 0, 0);
        let mut batches: Vec<Received> = std::iter::repeat_with(Received::default).take(frames / MAX_BATCH).collect();
        for _ in 0..rounds {
            for packets in packets.chunks(batches.len() * MAX_BATCH) {
                for (batch, received) in packets.chunks(MAX_BATCH).zip(&mut batches) {
                    let mut rx = RxBatch::new(&mut self.context, received, 0);
                    for (port, packet) in batch {
                        rx.set_port(*port);
                        rx.push(&[packet]);
                    }
                    processed += rx.totals().0;
                }
                for received in &batches[..packets.len().div_ceil(MAX_BATCH)] {
                    self.context.quiescent();
                    total += self.measured_batch(received);
                    outputs += self.context.outputs().len() as u64;
                    self.context.free_outputs();
                }
            }
        }
        self.context.offline();
        let ns_per_packet = total.as_nanos() as f64 / processed.max(1) as f64;
        let observer = Observer::of_block(&self.program, self.counters.clone());
        Measured {
            per_packet: Duration::from_nanos(ns_per_packet as u64),
            ns_per_packet,
            packets: processed,
            outputs,
            snapshot: observer.snapshot(),
        }
    }

    /// The engine's work on one batch. Not inlined, so that a profiler can be told to count here only.
    #[inline(never)]
    fn measured_batch(&mut self, received: &Received) -> Duration {
        let start = Instant::now();
        let reach = self.engine.reach();
        let engine = &mut self.engine;
        // SAFETY: the batch was made by `RxBatch` over this context, which was made for the engine's program and
        // tables; local frames are here in its frames' place.
        let run = |context: &mut WorkerContext, frames: &[u32]| unsafe { engine.run(context, frames) };
        // SAFETY: as above, and the reach is the engine's.
        unsafe { self.local.run((self.access, reach), &mut self.context, received.frames(), run) };
        start.elapsed()
    }
}

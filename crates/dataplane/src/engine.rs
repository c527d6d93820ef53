//! Engines: what runs a program over a batch of packets. Native code, or the reference interpreter.

use std::sync::{Arc, Mutex, PoisonError};

use baker::ir::interp::{End, FrameLayout, Machine};
use baker::ir::{Program, TableEntry, TableError, TableId, TableStore, storage_size};
use baker::opt::Level;
use codegen::abi::{END_HOST, END_TX, MAX_BATCH, Output, RunFn, write_field};
use codegen::{CodegenError, Native, OptLevel};

use crate::context::WorkerContext;
use crate::tables::{Tables, TablesError};

/// Which engine runs the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// Machine code through LLVM, with packet accesses optimised so far.
    Native(OptLevel, Level),
    /// The reference interpreter.
    Interp,
}

impl EngineKind {
    /// Machine code with all optimisations.
    pub const NATIVE: EngineKind = EngineKind::Native(OptLevel::O3, Level::Cgpc);
}

/// Why there is no engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// No code.
    #[error(transparent)]
    Codegen(#[from] CodegenError),
    /// No tables.
    #[error(transparent)]
    Tables(#[from] TablesError),
}

/// Runs a program over batches.
pub trait Engine: Send {
    /// Processes the packets in `frames`, in order: each leaves as an output of the context, or is dropped and its frame
    /// freed. Counts in the context's counter block.
    ///
    /// # Safety
    /// The frames are at most [`MAX_BATCH`], belong to the caller, hold packets with metadata set as at `rx`, and
    /// `Limits::copies` free frames per packet are in the context (as [`crate::RxBatch`] sees to). The context was made
    /// for the same program and for the tables that the engine uses.
    unsafe fn run(&mut self, context: &mut WorkerContext, frames: &[u32]);
}

/// An engine with the tables it uses, for one worker.
pub(crate) fn engine(program: &Arc<Program>, kind: EngineKind) -> Result<(Box<dyn Engine>, TableAccess), EngineError> {
    let (engines, tables) = Engines::new(program, kind)?;
    Ok((engines.engine(), tables))
}

/// Engines for any number of workers, all over the same tables.
pub(crate) enum Engines {
    Native(NativeEngine),
    Interp(Arc<Mutex<Machine>>),
}

impl Engines {
    /// Compiles the program, and allocates its tables.
    pub fn new(program: &Arc<Program>, kind: EngineKind) -> Result<(Self, TableAccess), EngineError> {
        Ok(match kind {
            EngineKind::Native(opt, packets) => {
                let tables = Arc::new(Tables::new(program)?);
                (Engines::Native(NativeEngine::compile(program, opt, packets)?), TableAccess::Native(tables))
            }
            EngineKind::Interp => {
                let machine = Arc::new(Mutex::new(Machine::new(program.clone())));
                (Engines::Interp(machine.clone()), TableAccess::Interp(machine))
            }
        })
    }

    /// One worker's.
    pub fn engine(&self) -> Box<dyn Engine> {
        match self {
            Engines::Native(engine) => Box::new(engine.clone()),
            Engines::Interp(machine) => Box::new(InterpEngine::new(machine.clone())),
        }
    }
}

/// The tables of a running program, whatever engine holds them. May be used while packets are processed: native tables
/// without stopping them, the interpreter's between two batches.
#[derive(Clone, Debug)]
pub enum TableAccess {
    /// Shared native tables.
    Native(Arc<Tables>),
    /// The interpreter's own.
    Interp(Arc<Mutex<Machine>>),
}

impl TableAccess {
    /// Removes the entries that have not been used for longer than their table's idle time.
    pub fn expire(&self, now: u64) {
        match self {
            TableAccess::Native(tables) => tables.expire(now),
            TableAccess::Interp(machine) => lock(machine).expire(now),
        }
    }

    /// The native tables, where that is the kind.
    pub(crate) fn native(&self) -> Option<&Arc<Tables>> {
        match self {
            TableAccess::Native(tables) => Some(tables),
            TableAccess::Interp(_) => None,
        }
    }
}

impl TableStore for TableAccess {
    fn insert(&mut self, table: TableId, entry: &TableEntry) -> Result<(), TableError> {
        match self {
            TableAccess::Native(tables) => tables.insert(table, entry),
            TableAccess::Interp(machine) => lock(machine).insert(table, entry),
        }
    }

    fn remove(&mut self, table: TableId, key: &[u128], prefix_len: Option<u32>) -> Result<(), TableError> {
        match self {
            TableAccess::Native(tables) => tables.remove(table, key, prefix_len),
            TableAccess::Interp(machine) => lock(machine).remove(table, key, prefix_len),
        }
    }

    fn get(&self, table: TableId, key: &[u128], prefix_len: Option<u32>) -> Result<Vec<u128>, TableError> {
        match self {
            TableAccess::Native(tables) => tables.get(table, key, prefix_len),
            TableAccess::Interp(machine) => lock(machine).get(table, key, prefix_len),
        }
    }

    fn count(&self, table: TableId) -> usize {
        match self {
            TableAccess::Native(tables) => tables.count(table),
            TableAccess::Interp(machine) => lock(machine).count(table),
        }
    }

    fn dump(&self, table: TableId) -> Vec<TableEntry> {
        match self {
            TableAccess::Native(tables) => tables.dump(table),
            TableAccess::Interp(machine) => lock(machine).dump(table),
        }
    }
}

fn lock(machine: &Mutex<Machine>) -> std::sync::MutexGuard<'_, Machine> {
    machine.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Machine code, which several workers share.
#[derive(Clone)]
pub struct NativeEngine {
    native: Arc<Native>,
}

impl NativeEngine {
    /// Compiles a program. The contexts that it runs over need [`Tables`] of the same program.
    pub fn compile(program: &Program, opt: OptLevel, packets: Level) -> Result<Self, CodegenError> {
        Ok(NativeEngine { native: Arc::new(Native::compile(program, opt, packets, &Tables::runtime())?) })
    }
}

impl Engine for NativeEngine {
    unsafe fn run(&mut self, context: &mut WorkerContext, frames: &[u32]) {
        debug_assert!(frames.len() <= MAX_BATCH);
        // SAFETY: promised by the caller; the code lives as long as `native`.
        unsafe { self.native.run_fn()(context.raw(), frames.as_ptr(), frames.len() as u32) }
    }
}

/// Any function with the generated code's interface.
#[derive(Debug)]
pub struct RunFnEngine(RunFn);

impl RunFnEngine {
    /// # Safety
    /// The function obeys the rules of `codegen::abi` for the program that it will be used for.
    pub unsafe fn new(run: RunFn) -> Self {
        RunFnEngine(run)
    }
}

impl Engine for RunFnEngine {
    unsafe fn run(&mut self, context: &mut WorkerContext, frames: &[u32]) {
        // SAFETY: promised by the caller and by whoever made the engine.
        unsafe { (self.0)(context.raw(), frames.as_ptr(), frames.len() as u32) }
    }
}

/// The reference interpreter, with tables of its own. It is an oracle and a baseline: it allocates per packet.
#[derive(Debug)]
pub struct InterpEngine {
    machine: Arc<Mutex<Machine>>,
    /// The machine's counters before the batch; the difference goes into the worker's block.
    counted: Vec<u64>,
}

impl InterpEngine {
    /// An engine over a machine, which the control plane may share to reach its tables.
    pub fn new(machine: Arc<Mutex<Machine>>) -> Self {
        let counted = lock(&machine).counters().to_vec();
        InterpEngine { machine, counted }
    }
}

impl Engine for InterpEngine {
    unsafe fn run(&mut self, context: &mut WorkerContext, frames: &[u32]) {
        let mut machine = lock(&self.machine);
        machine.set_now(context.now());
        // Other workers may have run since the last batch.
        self.counted.copy_from_slice(machine.counters());
        let pool = context.pool().clone();
        machine.set_frame_layout(FrameLayout { headroom: pool.headroom(), frame_size: pool.frame_size() });
        for &frame in frames {
            let port = context.rx_port(frame);
            // SAFETY: the frame is the caller's and holds a packet. The borrow ends before the frame is written.
            let outputs = unsafe { machine.receive(port, pool.packet(frame)) };
            context.push(frame);
            for output in outputs {
                let frame = context.pop().expect("frames for limits.copies are reserved");
                let end = match output.end {
                    End::Tx => END_TX,
                    End::Host => END_HOST,
                };
                // No packet outgrows its frame; where it lies there no longer matters.
                let room = (pool.frame_size() as usize).checked_sub(output.packet.len());
                let offset = room.expect("no more than limits.headroom is pushed").min(pool.headroom() as usize);
                // SAFETY: the frame was just taken, so it is ours. The packet ends within the frame. Metadata fields lie
                // within the metadata.
                unsafe {
                    pool.place(frame, offset, output.packet.len()).copy_from_slice(&output.packet);
                    for (field, &value) in machine.program().metadata.iter().zip(&output.metadata) {
                        let at = pool.metadata(frame).add(field.offset as usize);
                        let bytes = std::slice::from_raw_parts_mut(at, storage_size(field.width) as usize);
                        write_field(bytes, field.width, value);
                    }
                }
                context.output(Output { frame, end });
            }
        }
        for (slot, (&now, &before)) in machine.counters().iter().zip(&self.counted).enumerate() {
            if now != before {
                context.counters().add(slot, now.wrapping_sub(before));
            }
        }
    }
}

//! Engines: what runs a program over a batch of packets. Native code, or the reference interpreter.

use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};

use baker::ir::interp::{self, End, FrameLayout, Machine};
use baker::ir::{ChannelId, Program, TableEntry, TableError, TableId, TableStore, TimerId, storage_size};
use baker::opt::Level;
use baker::opt::reach::Reach;
use codegen::abi::{self, END_CHANNEL, END_HOST, END_TX, MAX_BATCH, Output, RunFn, read_field, write_field};
use codegen::{CodegenError, Native, OptLevel};

use crate::context::WorkerContext;
use crate::controller::{ExternTable, MissingExterns, refuse_inside};
use crate::tables::{TableChange, Tables, TablesError};

/// Which engine runs the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// Machine code through LLVM, with packet accesses optimised so far.
    Native(OptLevel, Level),
    /// The reference interpreter.
    Interp,
    /// In the kernel, each packet by itself through its test run, with packet accesses optimised so far: for tests. Timers and
    /// controllers' packets are native code's, on the same tables.
    Kernel(Level),
}

impl EngineKind {
    /// Machine code with all optimisations.
    pub const NATIVE: EngineKind = EngineKind::Native(OptLevel::O3, Level::Cgpc);

    /// Its name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            EngineKind::Native(..) => "worker",
            EngineKind::Interp => "interp",
            EngineKind::Kernel(_) => "kernel",
        }
    }
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
    /// Workers do not run what the kernel runs.
    #[error("the kernel's test run takes one packet at a time, so it is for tests only")]
    OneByOne,
    /// Its tables are not the kernel's.
    #[error("the interpreter has tables of its own, so it cannot go on with packets of the kernel")]
    Unshared,
    /// A function that no controller has.
    #[error(transparent)]
    Externs(#[from] MissingExterns),
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

    /// As [`Engine::run`] for packets that a controller injects into a channel. Engines of programs without such channels need
    /// not have it.
    ///
    /// # Safety
    /// As for [`Engine::run`], but for the metadata, which may be anything that fits; the channel is one of
    /// [`Program::entries`].
    unsafe fn inject(&mut self, channel: ChannelId, _context: &mut WorkerContext, _frames: &[u32]) {
        unreachable!("packets are injected into channel {} of an engine without injection", channel.0)
    }

    /// How far it reaches into packets that were received. What it may not be known to be held to is the whole packet.
    fn reach(&self) -> Reach {
        Reach::WHOLE
    }

    /// Runs a timer for each of `calls` packed keys (see [`codegen::abi::TimerFn`]). Engines of programs without timers need not
    /// have it.
    ///
    /// # Safety
    /// `keys` has that many keys, at most [`MAX_BATCH`]; the context is as for [`Engine::run`], with `Limits::copies` free
    /// frames per call.
    unsafe fn timer(&mut self, timer: TimerId, _context: &mut WorkerContext, _keys: &[u64], _calls: u32) {
        unreachable!("timer {} runs on an engine without timers", timer.0)
    }
}

/// An engine with the tables it uses, for one worker.
pub(crate) fn engine(
    program: &Arc<Program>,
    kind: EngineKind,
    externs: Option<&Arc<ExternTable>>,
) -> Result<(Box<dyn Engine>, TableAccess), EngineError> {
    let (engines, tables) = Engines::new(program, kind, externs, None)?;
    Ok((engines.engine(), tables))
}

/// Engines for any number of workers, all over the same tables.
pub(crate) enum Engines {
    Native(NativeEngine),
    Interp(Arc<Mutex<Machine>>),
}

impl Engines {
    /// Compiles the program, and allocates its tables unless there are some.
    /// Without `externs` the program calls none.
    pub fn new(
        program: &Arc<Program>,
        kind: EngineKind,
        externs: Option<&Arc<ExternTable>>,
        tables: Option<&Arc<Tables>>,
    ) -> Result<(Self, TableAccess), EngineError> {
        if tables.is_some() && !matches!(kind, EngineKind::Native(..)) {
            return Err(EngineError::Unshared);
        }
        Ok(match kind {
            EngineKind::Native(opt, packets) => {
                let tables = match tables {
                    Some(tables) => tables.clone(),
                    None => Arc::new(Tables::new(program)?),
                };
                (Engines::Native(NativeEngine::compile(program, opt, packets)?), TableAccess::Native(tables))
            }
            EngineKind::Interp => {
                let mut machine = Machine::new(program.clone());
                if let Some(externs) = externs {
                    let externs: Arc<dyn interp::Externs> = externs.clone();
                    machine.set_externs(externs);
                }
                let machine = Arc::new(Mutex::new(machine));
                (Engines::Interp(machine.clone()), TableAccess::Interp(machine))
            }
            EngineKind::Kernel(_) => return Err(EngineError::OneByOne),
        })
    }

    /// How far they reach.
    pub fn reach(&self) -> Reach {
        match self {
            Engines::Native(engine) => engine.reach(),
            Engines::Interp(_) => Reach::WHOLE,
        }
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

    /// See [`Tables::tell`]; the interpreter's tables tell nothing.
    pub fn tell(&self, changes: SyncSender<TableChange>) -> bool {
        match self {
            TableAccess::Native(tables) => tables.tell(changes),
            TableAccess::Interp(_) => return false,
        }
        true
    }

    /// See [`Tables::dump_kept`].
    pub fn dump_kept(&self, table: TableId) -> Vec<TableEntry> {
        match self {
            TableAccess::Native(tables) => tables.dump_kept(table),
            TableAccess::Interp(machine) => lock(machine).dump(table),
        }
    }

    /// See [`Tables::insert_kept`].
    pub fn insert_kept(&mut self, table: TableId, entry: &TableEntry) -> Result<(), TableError> {
        match self {
            TableAccess::Native(tables) => tables.insert_kept(table, entry),
            TableAccess::Interp(machine) => lock(machine).insert(table, entry),
        }
    }

    /// As [`TableStore::insert`], of numbers that the caller has anywhere: native tables allocate nothing for them.
    pub fn set(&self, table: TableId, key: &[u128], prefix_len: Option<u32>, value: &[u128]) -> Result<(), TableError> {
        refuse_inside();
        match self {
            TableAccess::Native(tables) => tables.set(table, key, prefix_len, value),
            TableAccess::Interp(machine) => {
                let entry = TableEntry { key: key.to_vec(), prefix_len, value: value.to_vec() };
                lock(machine).insert(table, &entry)
            }
        }
    }

    /// Sets an entry of a hash table; what it was until nobody could find that any more goes behind what `before` has. Whether there was
    /// one.
    pub fn exchange(
        &self,
        table: TableId,
        key: &[u128],
        value: &[u128],
        before: &mut impl Extend<u128>,
    ) -> Result<bool, TableError> {
        refuse_inside();
        match self {
            TableAccess::Native(tables) => tables.exchange(table, key, value, before),
            TableAccess::Interp(machine) => {
                let mut machine = lock(machine);
                let found = machine.get(table, key, None);
                let entry = TableEntry { key: key.to_vec(), prefix_len: None, value: value.to_vec() };
                machine.insert(table, &entry)?;
                let is_found = found.is_ok();
                before.extend(found.into_iter().flatten());
                Ok(is_found)
            }
        }
    }

    /// As [`TableStore::get`], behind what `values` has already: native tables allocate nothing for them.
    pub fn get_to(
        &self,
        table: TableId,
        key: &[u128],
        prefix_len: Option<u32>,
        values: &mut impl Extend<u128>,
    ) -> Result<(), TableError> {
        refuse_inside();
        match self {
            TableAccess::Native(tables) => tables.get_to(table, key, prefix_len, values),
            TableAccess::Interp(machine) => {
                values.extend(lock(machine).get(table, key, prefix_len)?);
                Ok(())
            }
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
        refuse_inside();
        match self {
            TableAccess::Native(tables) => tables.insert(table, entry),
            TableAccess::Interp(machine) => lock(machine).insert(table, entry),
        }
    }

    fn insert_all(&mut self, table: TableId, entries: &mut dyn Iterator<Item = &TableEntry>) -> Result<(), TableError> {
        refuse_inside();
        match self {
            TableAccess::Native(tables) => tables.insert_all(table, entries),
            TableAccess::Interp(machine) => lock(machine).insert_all(table, entries),
        }
    }

    fn remove(&mut self, table: TableId, key: &[u128], prefix_len: Option<u32>) -> Result<(), TableError> {
        refuse_inside();
        match self {
            TableAccess::Native(tables) => tables.remove(table, key, prefix_len),
            TableAccess::Interp(machine) => lock(machine).remove(table, key, prefix_len),
        }
    }

    fn get(&self, table: TableId, key: &[u128], prefix_len: Option<u32>) -> Result<Vec<u128>, TableError> {
        refuse_inside();
        match self {
            TableAccess::Native(tables) => tables.get(table, key, prefix_len),
            TableAccess::Interp(machine) => lock(machine).get(table, key, prefix_len),
        }
    }

    fn count(&self, table: TableId) -> usize {
        refuse_inside();
        match self {
            TableAccess::Native(tables) => tables.count(table),
            TableAccess::Interp(machine) => lock(machine).count(table),
        }
    }

    fn dump(&self, table: TableId) -> Vec<TableEntry> {
        refuse_inside();
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
        // SAFETY: promised by the caller.
        unsafe { self.inject(Program::RX, context, frames) }
    }

    unsafe fn inject(&mut self, channel: ChannelId, context: &mut WorkerContext, frames: &[u32]) {
        let run = self.native.run_fn(channel).expect("packets enter by this channel");
        // SAFETY: promised by the caller; the code lives as long as `native`.
        unsafe { run(context.raw(), frames.as_ptr(), frames.len() as u32) }
    }

    fn reach(&self) -> Reach {
        self.native.reach()
    }

    unsafe fn timer(&mut self, timer: TimerId, context: &mut WorkerContext, keys: &[u64], calls: u32) {
        let run = self.native.timer_fn(timer).expect("the program has this timer");
        // SAFETY: promised by the caller; the code lives as long as `native`.
        unsafe { run(context.raw(), keys.as_ptr(), calls) }
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
    /// Where packets lie in frames, if not as in the context's.
    layout: Option<FrameLayout>,
}

impl InterpEngine {
    /// An engine over a machine, which the control plane may share to reach its tables.
    pub fn new(machine: Arc<Mutex<Machine>>) -> Self {
        let counted = lock(&machine).counters().to_vec();
        InterpEngine { machine, counted, layout: None }
    }

    /// With room in front of packets and behind them as in another engine's frames.
    pub fn with_layout(mut self, layout: FrameLayout) -> Self {
        self.layout = Some(layout);
        self
    }
}

impl InterpEngine {
    /// Runs something on the machine and counts what it counted.
    fn counting(&mut self, context: &mut WorkerContext, run: impl FnOnce(&mut Machine, &mut WorkerContext)) {
        let mut machine = lock(&self.machine);
        machine.set_now(context.now());
        // Other workers may have run since the last batch.
        self.counted.copy_from_slice(machine.counters());
        let pool = context.pool();
        let layout = FrameLayout { headroom: pool.headroom(), frame_size: pool.frame_size() };
        machine.set_frame_layout(self.layout.unwrap_or(layout));
        run(&mut machine, context);
        for (slot, (&now, &before)) in machine.counters().iter().zip(&self.counted).enumerate() {
            if now != before {
                context.counters().add(slot, now.wrapping_sub(before));
            }
        }
    }
}

/// Puts what left the machine into frames and lists it.
fn list(machine: &Machine, context: &mut WorkerContext, outputs: Vec<interp::Output>) {
    let pool = context.pool().clone();
    for output in outputs {
        let frame = context.pop().expect("frames for limits.copies are reserved");
        let end = match output.end {
            End::Tx => END_TX,
            End::Host => END_HOST,
            End::Controller(channel) => END_CHANNEL + channel.0,
        };
        // No packet outgrows its frame; where it lies there no longer matters.
        let room = (pool.frame_size() as usize).checked_sub(output.packet.len());
        let offset = room.expect("no more than limits.headroom is pushed").min(pool.headroom() as usize);
        // SAFETY: the frame was just taken, so it is ours. The packet ends within the frame. Metadata fields lie within
        // the metadata.
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

impl Engine for InterpEngine {
    unsafe fn run(&mut self, context: &mut WorkerContext, frames: &[u32]) {
        // SAFETY: promised by the caller.
        unsafe { self.inject(Program::RX, context, frames) }
    }

    unsafe fn inject(&mut self, channel: ChannelId, context: &mut WorkerContext, frames: &[u32]) {
        self.counting(context, |machine, context| {
            let pool = context.pool().clone();
            for &frame in frames {
                // SAFETY: the frame is the caller's and holds a packet with metadata. The borrow ends before the frame is
                // written.
                let outputs = unsafe {
                    let stored = |field: &baker::ir::MetaField| {
                        let at = pool.metadata(frame).add(field.offset as usize);
                        read_field(std::slice::from_raw_parts(at, storage_size(field.width) as usize), field.width)
                    };
                    let metadata: Vec<u128> = machine.program().metadata.iter().map(stored).collect();
                    machine.inject(channel, pool.packet(frame), &metadata)
                };
                context.push(frame);
                list(machine, context, outputs);
            }
        });
    }

    unsafe fn timer(&mut self, timer: TimerId, context: &mut WorkerContext, keys: &[u64], calls: u32) {
        self.counting(context, |machine, context| {
            let program = machine.program();
            let table = program.timers[timer.0 as usize].table;
            let key = table.map(|table| program.layouts[program.tables[table.0 as usize].key.0 as usize].clone());
            let words = key.as_ref().map_or(0, abi::key_words);
            for call in 0..calls as usize {
                let packed = &keys[call * words..(call + 1) * words];
                let fields = key.as_ref().map(|key| abi::unpack_key(key, packed)).unwrap_or_default();
                let outputs = machine.timer(timer, &fields);
                list(machine, context, outputs);
            }
        });
    }
}

//! A program that runs when it is told to.

use std::sync::Arc;

use baker::ir::interp::End;
use baker::ir::{ChannelId, CounterSlots, Program, TableEntry, TableError, TableId, TableStore, storage_size};
use codegen::abi::{END_CHANNEL, END_HOST, END_TX, MAX_BATCH, Output, Staging, read_field, write_field};

use super::error::StepError;
use crate::counters::CounterBlock;
use crate::engine::{Engine, TableAccess};
use crate::externs::ExternTable;
use crate::packets::{
    Access, FrameConfig, FramePool, LocalMemory, Received, RxBatch, WorkerContext, group_frames, hold_frames,
    queue_frames,
};
use crate::workers::SimulatedTimers;

/// Bytes of the longest packet that must fit into a frame.
const LONGEST_PACKET: u32 = 1600;
/// Bytes of a frame behind the headroom that are filled with [`POISON`].
const POISONED: usize = 256;
/// Local frames that are filled with [`POISON`] before each batch.
const POISONED_LOCAL: u32 = 4;
/// What a fresh frame and its metadata hold, so that code which reads what was not written gives itself away.
const POISON: u8 = 0xa5;

/// The least possible frame size with room for the longest packet.
fn frame_size(headroom: u32) -> u32 {
    let headroom = headroom.max(FrameConfig::default().headroom).saturating_add(63);
    headroom.saturating_add(LONGEST_PACKET).min(65536).next_power_of_two()
}

/// A packet that left the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepOutput {
    /// Where to.
    pub end: End,
    /// Its bytes, from the head to the end.
    pub bytes: Vec<u8>,
    /// One number per field of [`Program::metadata`].
    pub metadata: Vec<u128>,
}

/// A program that runs when it is told to. As a [`TableStore`] it is the control plane's way to the program's tables.
pub struct Stepper {
    program: Arc<Program>,
    pool: Arc<FramePool>,
    context: WorkerContext,
    counters: Arc<CounterBlock>,
    engine: Box<dyn Engine>,
    tables: TableAccess,
    timers: SimulatedTimers,
    access: Access,
    local: LocalMemory,
}

impl Stepper {
    /// Runs this engine: one made by hand, to be compared with the program. `tables` are those of the engine, or empty
    /// ones where it brings its own.
    pub fn with_engine(
        program: Arc<Program>,
        engine: Box<dyn Engine>,
        tables: TableAccess,
    ) -> Result<Stepper, StepError> {
        let size = frame_size(program.limits.headroom);
        Self::with_frames(program, engine, tables, size)
    }

    /// As [`Stepper::with_engine`], in frames of this size.
    pub fn with_frames(
        program: Arc<Program>,
        engine: Box<dyn Engine>,
        tables: TableAccess,
        frame_size: u32,
    ) -> Result<Stepper, StepError> {
        let limits = program.limits;
        let count = limits.copies.saturating_add(1).saturating_mul(MAX_BATCH as u32);
        let waiting =
            hold_frames(&program).saturating_add(queue_frames(&program)).saturating_add(group_frames(&program));
        let config = FrameConfig { count: count.saturating_add(waiting), frame_size, ..FrameConfig::default() };
        let pool = Arc::new(FramePool::with_local(&program, config, 1)?);
        let counters = Arc::new(CounterBlock::new(CounterSlots::new(&program).len()));
        let mut context = WorkerContext::new(&program, pool.clone(), tables.native().cloned(), counters.clone())?;
        // Whatever its length, so that engines are compared where bytes are shared.
        context.set_share_least(Some(1));
        // Of those for packets that wait, which may never be, no memory is touched.
        for frame in 0..count.min(pool.count()) {
            // SAFETY: no frame was taken from the pool yet. The poisoned part lies in the frame, the metadata behind
            // the descriptor.
            unsafe {
                pool.place(frame, 0, (pool.headroom() as usize + POISONED).min(pool.frame_size() as usize))
                    .fill(POISON);
                pool.metadata(frame).write_bytes(POISON, program.metadata_size as usize);
            }
        }
        context.sort_deadlines(&program);
        let timers = SimulatedTimers::new(&program, &pool, (&*engine, &tables), 0);
        let local = LocalMemory::new(&pool, 0)?;
        let access = Access::default();
        Ok(Stepper { program, pool, context, counters, engine, tables, timers, access, local })
    }

    /// Gives it the functions of controllers.
    pub(super) fn set_externs(&mut self, externs: Arc<ExternTable>) {
        self.context.set_externs(externs);
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Bytes of the longest packet that is taken; a longer one is dropped before the program sees it, as at a port.
    pub fn max_packet(&self) -> usize {
        self.pool.max_packet()
    }

    /// Moves the time that the program sees, in nanoseconds, on to this, and runs what its timers do until then, each
    /// at its time; those that are due at once in the program's order, and each over the keys of its table in their
    /// order; then those at deadlines, over keys in their order. Gives what left the program. Time begins at 0. Where
    /// it moves by very many periods, the last 1024 are run.
    pub fn advance(&mut self, to: u64) -> Vec<StepOutput> {
        self.timers.leap(to);
        let mut outputs = Vec::new();
        loop {
            // SAFETY: the context was made for the engine's program and tables, and its outputs were taken.
            if !unsafe { self.timers.step(&mut self.context, &mut *self.engine, &self.tables, to) } {
                break;
            }
            self.take_outputs(&mut outputs);
        }
        self.context.set_now(to.max(self.context.now()));
        outputs
    }

    /// Runs a packet that a controller injects into a channel, one of [`Program::entries`], with one number per field
    /// of the metadata; those left out are 0. Gives what left the program, in order.
    pub fn inject(&mut self, channel: ChannelId, packet: &[u8], metadata: &[u128]) -> Vec<StepOutput> {
        self.context.quiescent();
        let mut one = Received::default();
        RxBatch::new(&mut self.context, &mut one, 0).push(&[packet]);
        for &frame in one.frames() {
            for (field, &number) in self.program.metadata.iter().zip(metadata) {
                // SAFETY: the frame is the context owner's; the field lies within the metadata.
                unsafe {
                    let at = self.pool.metadata(frame).add(field.offset as usize);
                    let bytes = std::slice::from_raw_parts_mut(at, storage_size(field.width) as usize);
                    write_field(bytes, field.width, number & (u128::MAX >> (128 - field.width)));
                }
            }
        }
        // SAFETY: as for a batch; packets enter by the channel.
        unsafe { self.engine.inject(channel, &mut self.context, one.frames()) };
        self.ran()
    }

    /// Sets the time that the program sees, in nanoseconds; it stands still otherwise. No timer runs.
    pub fn set_now(&mut self, now: u64) {
        self.context.set_now(now);
    }

    /// Says how the engine gets at packets that are received; what comes out is the same.
    pub fn set_access(&mut self, access: Access) {
        self.access = access;
    }

    /// Says which batches are staged; what comes out is the same.
    pub fn set_staging(&mut self, staging: Staging) {
        self.context.set_staging(staging);
    }

    /// Removes the entries that have not been used for longer than their table's idle time.
    pub fn expire(&mut self) {
        self.tables.expire(self.context.now());
    }

    /// Runs a frame that came in on a port through the program. Gives what left it, in order. There are no ports, so
    /// nothing is dropped as `no_port` or `no_host`.
    pub fn receive(&mut self, port: u8, frame: &[u8]) -> Vec<StepOutput> {
        self.batch([(port, frame)].into_iter())
    }

    /// Runs frames with their ports through the program, up to [`MAX_BATCH`] at once as a worker does, or one by one
    /// where it has groups. Gives what left it, in order.
    pub fn receive_batch(&mut self, packets: &[(u8, Vec<u8>)]) -> Vec<StepOutput> {
        let has_groups = self.program.group_fields().is_some();
        let batches = packets.chunks(if has_groups { 1 } else { MAX_BATCH });
        batches.flat_map(|batch| self.batch(batch.iter().map(|(port, frame)| (*port, &frame[..])))).collect()
    }

    /// At most [`MAX_BATCH`] packets.
    fn batch<'a>(&mut self, packets: impl Iterator<Item = (u8, &'a [u8])>) -> Vec<StepOutput> {
        self.context.quiescent();
        let mut frames = Vec::with_capacity(MAX_BATCH);
        for (port, packet) in packets {
            // Each packet in a batch of its own, for each has its own port; the engine gets them all at once.
            let mut one = Received::default();
            RxBatch::new(&mut self.context, &mut one, port).push(&[packet]);
            frames.extend_from_slice(one.frames());
        }
        // SAFETY: the frames are at most `MAX_BATCH` and came from `RxBatch` over this context, which was made for the
        // engine's program and tables; the pool has frames for all copies of a whole batch.
        unsafe {
            self.local.poison(POISONED_LOCAL, POISON);
            self.local.run((self.access, self.engine.reach()), &mut self.context, &frames, |context, frames| {
                self.engine.run(context, frames)
            });
        }
        self.ran()
    }

    /// What left the program when the engine has run, and of all copies for members of groups.
    fn ran(&mut self) -> Vec<StepOutput> {
        self.timers.hold(&mut self.context);
        let mut outputs = Vec::new();
        self.take_outputs(&mut outputs);
        // SAFETY: the context was made for the engine's program and tables, and its outputs were taken.
        while unsafe { self.timers.fan_out(&mut self.context, &mut *self.engine) } {
            self.take_outputs(&mut outputs);
        }
        outputs
    }

    fn take_outputs(&mut self, outputs: &mut Vec<StepOutput>) {
        outputs.extend(self.context.outputs().iter().map(|output| self.output(output)));
        self.context.free_outputs();
        // There is no wait for the next packet.
        self.context.offline();
    }

    fn output(&self, output: &Output) -> StepOutput {
        let end = match output.end {
            END_TX => End::Tx,
            END_HOST => End::Host,
            channel => End::Controller(ChannelId(channel - END_CHANNEL)),
        };
        let size = self.program.metadata_size as usize;
        // SAFETY: an output's frame is the context owner's and holds a packet with metadata, and nothing writes it now.
        let (bytes, metadata) = unsafe {
            let metadata = std::slice::from_raw_parts(self.pool.metadata(output.frame), size);
            (self.pool.bytes(output.frame).to_vec(), metadata)
        };
        let field = |field: &baker::ir::MetaField| {
            let stored = &metadata[field.offset as usize..][..storage_size(field.width) as usize];
            read_field(stored, field.width)
        };
        StepOutput { end, bytes, metadata: self.program.metadata.iter().map(field).collect() }
    }

    /// All counters, in the order of [`CounterSlots`].
    pub fn counters(&self) -> Vec<u64> {
        (0..CounterSlots::new(&self.program).len()).map(|slot| self.counters.get(slot)).collect()
    }

    /// The program's tables, also for another thread.
    pub fn tables(&self) -> TableAccess {
        self.tables.clone()
    }

    /// Lets go of the packets that are held, and says whether every frame is free again: none lost, none returned
    /// twice. The error says what the engine did wrong.
    pub fn check_frames(&mut self) -> Result<(), String> {
        self.tables.native().iter().for_each(|tables| tables.clear_holds());
        // SAFETY: the context outlives the borrow of its raw part, and no engine runs.
        let held = unsafe { (*self.context.raw()).free_len };
        let (free, count) = (held + self.pool.free_frames(), self.pool.count());
        // Those that wait are no others': what is checked is what is left.
        if self.timers.held() > 0 {
            let held = self.timers.held();
            return if free + held == count { Ok(()) } else { Err(format!("{free} frames are free and {held} wait")) };
        }
        if free != count {
            return Err(format!("{free} frames are free of {count}"));
        }
        if !self.local.is_complete() {
            return Err("a local frame is lost".into());
        }
        if !self.pool.is_unshared() {
            return Err("a frame is free and counts as held".into());
        }
        self.context.release();
        let mut all = vec![0; count as usize];
        let taken = self.pool.take(&mut all);
        self.pool.put_back(&all[..taken]);
        all.sort_unstable();
        match (0..count).zip(&all).find(|(number, frame)| number != *frame) {
            None => Ok(()),
            Some((number, _)) => Err(format!("frame {number} is lost, or one before it was returned twice")),
        }
    }
}

impl TableStore for Stepper {
    fn insert(&mut self, table: TableId, entry: &TableEntry) -> Result<(), TableError> {
        self.tables.insert(table, entry)
    }

    fn remove(&mut self, table: TableId, key: &[u128], prefix_len: Option<u32>) -> Result<(), TableError> {
        self.tables.remove(table, key, prefix_len)
    }

    fn get(&self, table: TableId, key: &[u128], prefix_len: Option<u32>) -> Result<Vec<u128>, TableError> {
        self.tables.get(table, key, prefix_len)
    }

    fn count(&self, table: TableId) -> usize {
        self.tables.count(table)
    }

    fn dump(&self, table: TableId) -> Vec<TableEntry> {
        self.tables.dump(table)
    }
}

//! What one worker lends its engine: free frames, the output list, the counter block.

use std::cell::UnsafeCell;
use std::mem::size_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use baker::ir::{Program, TableId};
use codegen::abi::{Context, MAX_BATCH, Output, SHARE_NONE, Staging, read_field};

use super::frames::FramePool;
use super::holders::{Holder, Holds};
use crate::counters::CounterBlock;
use crate::externs::ExternTable;
use crate::sys::{Mapping, monotonic_ns, nanoseconds_of_tick};
use crate::tables::{Deadlines, Tables, View};

/// Frames that a worker takes from the pool beyond what it needs, so that the pool's lock is rare.
const REFILL: usize = 512;

/// Bytes that a copy shares at least: below, a second piece costs a port more than the bytes that are copied.
const SHARE_LEAST: u32 = 256;

/// Numbers of free frames, with room for all that there are.
#[derive(Debug)]
pub(crate) struct FreeStack {
    pub start: *mut u32,
    pub len: u32,
}

/// How many free frames a worker has, as it last said.
#[derive(Debug, Default)]
struct FreeFrames(AtomicU32);

impl Holds for FreeFrames {
    fn frames(&self, _: &mut [bool]) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A worker's side of the binary interface: owns everything that its [`Context`] points to.
#[derive(Debug)]
pub struct WorkerContext {
    // Boxed: generated code gets its address.
    raw: Box<Context>,
    pool: Arc<FramePool>,
    counters: Arc<CounterBlock>,
    tables: Option<View>,
    /// Where the program has deadlines in tables of native code. Generated code gets the address.
    deadlines: Option<Box<UnsafeCell<Deadlines>>>,
    // These are held only so that the pointers in `raw` stay valid.
    externs: Option<Arc<ExternTable>>,
    _memory: [Mapping; 2],
    /// Its free frames as of its last batch, for reports.
    free: Arc<FreeFrames>,
    /// Frames that it may have at a time without being given any.
    share: usize,
    per_packet: usize,
    /// The program holds packets.
    holds: bool,
    rx_port: usize,
    tx_port: usize,
}

// SAFETY: the raw pointers lead to memory that the context owns or shares by `Arc`, not to anything of one thread.
unsafe impl Send for WorkerContext {}

impl WorkerContext {
    /// The context of the only worker. `tables` is `None` for an engine with tables of its own.
    pub fn new(
        program: &Program,
        pool: Arc<FramePool>,
        tables: Option<Arc<Tables>>,
        counters: Arc<CounterBlock>,
    ) -> std::io::Result<Self> {
        let share = pool.count();
        Self::with_share(program, pool, tables, counters, share)
    }

    /// The context of one of several workers, which takes at most `share` frames from the pool, so that the others have
    /// theirs. Fails where no memory is to be had, and where there are as many workers as there can be.
    pub fn with_share(
        program: &Program,
        pool: Arc<FramePool>,
        tables: Option<Arc<Tables>>,
        counters: Arc<CounterBlock>,
        share: u32,
    ) -> std::io::Result<Self> {
        let per_packet = program.limits.copies as usize + 1;
        let too_many = || std::io::Error::other("the tables have as many workers as they can have");
        let deadlines = tables.as_ref().and_then(|tables| Deadlines::new(program, tables, monotonic_ns()));
        let tables = tables.map(|tables| View::new(tables).ok_or_else(too_many)).transpose()?;
        // The stack has room for every frame there is, so that returning one never overflows it.
        let free = Mapping::anonymous(pool.all() as usize * size_of::<u32>())?;
        let outputs = Mapping::anonymous(MAX_BATCH * per_packet * size_of::<Output>())?;
        let raw = Context {
            region: pool.region(),
            descriptors: pool.descriptors(),
            counters: counters.as_ptr(),
            tables: tables.as_ref().map_or(std::ptr::null(), View::control_blocks),
            free: free.ptr().cast(),
            outputs: outputs.ptr().cast(),
            free_len: 0,
            output_len: 0,
            frame_size: u64::from(pool.frame_size()),
            now: 0,
            written: 0,
            staging: Staging::default(),
            rest: 0,
            externs: std::ptr::null(),
            deadlines: std::ptr::null_mut(),
            shares: pool.counts(),
            share_least: SHARE_LEAST,
            tick: if program.timed { nanoseconds_of_tick() } else { 0 },
        };
        if program.limits.copies > 0 {
            pool.share();
        }
        for hold in tables.iter().flat_map(|view| view.tables().holds()) {
            hold.set_frames(&pool);
            pool.holders.register(Holder::Hold, hold);
        }
        let counted: Arc<FreeFrames> = Arc::default();
        pool.holders.register(Holder::Worker, &counted);
        let mut context = WorkerContext {
            raw: Box::new(raw),
            pool,
            counters,
            tables,
            deadlines: None,
            externs: None,
            _memory: [free, outputs],
            free: counted,
            share: share as usize,
            per_packet,
            holds: program.tables.iter().any(|table| table.hold.is_some()),
            rx_port: program.metadata[Program::RX_PORT.0 as usize].offset as usize,
            tx_port: program.metadata[Program::TX_PORT.0 as usize].offset as usize,
        };
        context.set_deadlines(deadlines);
        Ok(context)
    }

    fn set_deadlines(&mut self, deadlines: Option<Deadlines>) {
        self.deadlines = deadlines.map(UnsafeCell::new).map(Box::new);
        self.raw.deadlines = self.deadlines.as_ref().map_or(std::ptr::null_mut(), |cell| cell.get().cast());
    }

    /// From now on entries of the program's tables are found by the order of their deadlines and keys; none has one.
    /// Nothing else changes the tables.
    pub(crate) fn sort_deadlines(&mut self, program: &Program) {
        let sorted = self.tables.as_ref().and_then(|view| Deadlines::sorted(program, view.tables()));
        self.set_deadlines(sorted);
    }

    /// The deadlines of entries of native code's tables, where the program has any.
    pub(crate) fn deadlines(&mut self) -> Option<&mut Deadlines> {
        // SAFETY: generated code reaches them only while it runs, and it has the context for as long.
        self.deadlines.as_ref().map(|cell| unsafe { &mut *cell.get() })
    }

    /// When to look for deadlines in a table.
    pub(crate) fn next_deadline(&self, table: TableId) -> Option<u64> {
        // SAFETY: as for [`WorkerContext::deadlines`].
        self.deadlines.as_ref().and_then(|cell| unsafe { &*cell.get() }.next(table))
    }

    /// The context that generated code gets.
    pub fn raw(&mut self) -> *mut Context {
        &mut *self.raw
    }

    /// Gives it the functions of controllers, which a program that declares any needs before it runs.
    pub fn set_externs(&mut self, externs: Arc<ExternTable>) {
        self.raw.externs = externs.calls();
        self.externs = Some(externs);
    }

    /// Announces that nothing is held of what look-ups found, and takes over what the control plane has changed. To be
    /// called before each batch.
    pub(crate) fn quiescent(&self) {
        self.free.0.store(self.raw.free_len, Ordering::Relaxed);
        self.tables.iter().for_each(View::quiescent);
    }

    /// Announces that no look-up comes before [`WorkerContext::quiescent`], so that no writer waits for one.
    pub(crate) fn offline(&self) {
        self.free.0.store(self.raw.free_len, Ordering::Relaxed);
        self.tables.iter().for_each(View::offline);
    }

    /// Sets the time that the program sees, in nanoseconds.
    pub fn set_now(&mut self, now: u64) {
        self.raw.now = now;
    }

    /// Says which batches are staged.
    pub(crate) fn set_staging(&mut self, staging: Staging) {
        self.raw.staging = staging;
        self.raw.rest = 0;
    }

    /// How many bytes a copy shares at least; `None`: copies share nothing. Gives what it was before.
    pub(crate) fn set_share_least(&mut self, least: Option<u32>) -> Option<u32> {
        let before = std::mem::replace(&mut self.raw.share_least, least.unwrap_or(SHARE_NONE));
        (before != SHARE_NONE).then_some(before)
    }

    /// How many bytes a copy shares at least; `None`: copies share nothing.
    pub(crate) fn share_least(&self) -> Option<u32> {
        Some(self.raw.share_least).filter(|least| *least != SHARE_NONE)
    }

    /// The time that the program sees.
    pub fn now(&self) -> u64 {
        self.raw.now
    }

    /// Whether the program holds packets, which then lie in frames of the ports.
    pub(crate) fn holds(&self) -> bool {
        self.holds
    }

    /// The frame pool.
    #[inline]
    pub fn pool(&self) -> &Arc<FramePool> {
        &self.pool
    }

    /// The worker's counters.
    pub fn counters(&self) -> &Arc<CounterBlock> {
        &self.counters
    }

    /// How many packets may be received now, at most [`MAX_BATCH`]: each with frames for its copies. Takes frames from
    /// the pool where the worker's own do not suffice.
    pub fn capacity(&mut self) -> usize {
        let need = MAX_BATCH * self.per_packet;
        if (self.raw.free_len as usize) < need {
            self.refill(need + REFILL);
        }
        (self.raw.free_len as usize / self.per_packet).min(MAX_BATCH)
    }

    fn refill(&mut self, upto: usize) {
        let len = self.raw.free_len as usize;
        let room = upto.min(self.share).saturating_sub(len);
        // SAFETY: the stack has room for every frame; the slice is its unused part.
        let into = unsafe { std::slice::from_raw_parts_mut(self.raw.free.add(len), room) };
        self.raw.free_len += self.pool.take(into) as u32;
    }

    /// Whether there is a free frame besides those that so many packets may need for their copies.
    #[inline]
    pub(crate) fn has_spare(&self, packets: usize) -> bool {
        self.raw.free_len as usize > packets * (self.per_packet - 1)
    }

    /// Takes a free frame.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<u32> {
        self.raw.free_len = self.raw.free_len.checked_sub(1)?;
        // SAFETY: below the old length, so written before.
        Some(unsafe { *self.raw.free.add(self.raw.free_len as usize) })
    }

    /// Takes a free frame, from the pool where the worker has none.
    pub(crate) fn pop_or_refill(&mut self) -> Option<u32> {
        if self.raw.free_len == 0 {
            self.refill(REFILL);
        }
        self.pop()
    }

    /// Takes a frame back that was a packet's, and that has no other holder.
    #[inline]
    pub(crate) fn push(&mut self, frame: u32) {
        debug_assert!(self.raw.free_len < self.pool.all());
        // SAFETY: the stack has room for every frame, and each is in one place only.
        unsafe { self.raw.free.add(self.raw.free_len as usize).write(frame) };
        self.raw.free_len += 1;
    }

    /// Adds a packet that leaves the program.
    pub(crate) fn output(&mut self, output: Output) {
        assert!((self.raw.output_len as usize) < MAX_BATCH * self.per_packet, "more outputs than limits.copies allows");
        // SAFETY: the index was checked.
        unsafe { self.raw.outputs.add(self.raw.output_len as usize).write(output) };
        self.raw.output_len += 1;
    }

    /// Packets that left the program, in order. The worker owns their frames.
    pub(crate) fn outputs(&self) -> &[Output] {
        // SAFETY: the engine wrote the first `output_len` outputs.
        unsafe { std::slice::from_raw_parts(self.raw.outputs, self.raw.output_len as usize) }
    }

    /// Puts another frame in the place of an output's.
    pub(crate) fn replace_output(&mut self, index: usize, frame: u32) {
        assert!(index < self.raw.output_len as usize, "there is no output {index}");
        // SAFETY: the index was checked.
        unsafe { (*self.raw.outputs.add(index)).frame = frame };
    }

    /// Puts an output in the place of one in front of it.
    pub(crate) fn move_output(&mut self, from: usize, to: usize) {
        assert!(to <= from && from < self.raw.output_len as usize, "there is no output {from}");
        // SAFETY: both are within the list.
        unsafe { *self.raw.outputs.add(to) = *self.raw.outputs.add(from) };
    }

    /// Takes all outputs but the first ones off the list.
    pub(crate) fn truncate_outputs(&mut self, len: usize) {
        self.raw.output_len = self.raw.output_len.min(len as u32);
    }

    /// Works with another stack of free frames, or with its own again: `other` and its length become those that it had.
    pub(crate) fn exchange_free(&mut self, other: &mut FreeStack) {
        std::mem::swap(&mut self.raw.free, &mut other.start);
        std::mem::swap(&mut self.raw.free_len, &mut other.len);
    }

    /// Empties the list of outputs.
    pub(crate) fn clear_outputs(&mut self) {
        self.raw.output_len = 0;
    }

    /// Lets go of all outputs and empties the list.
    pub(crate) fn free_outputs(&mut self) {
        for index in 0..self.raw.output_len as usize {
            let frame = self.outputs()[index].frame;
            self.let_go(frame);
        }
        self.clear_outputs();
    }

    /// Zeroes the metadata of a frame but for `rx.port`.
    ///
    /// # Safety
    /// The caller owns the frame.
    #[inline]
    pub(crate) unsafe fn reset_metadata(&self, frame: u32, rx_port: u8) {
        // SAFETY: by the caller's promise; the field lies within the metadata.
        unsafe { self.pool.reset_metadata(frame, self.rx_port, rx_port) }
    }

    /// `rx.port` of a packet that this worker owns.
    pub(crate) fn rx_port(&self, frame: u32) -> u8 {
        self.metadata_byte(frame, self.rx_port)
    }

    /// `tx.port` of a packet that this worker owns.
    pub(crate) fn tx_port(&self, frame: u32) -> u8 {
        self.metadata_byte(frame, self.tx_port)
    }

    fn metadata_byte(&self, frame: u32, offset: usize) -> u8 {
        // SAFETY: crate-internal callers pass frames of their own packets; the field is one byte of the metadata.
        unsafe { read_field(std::slice::from_raw_parts(self.pool.metadata(frame).add(offset), 1), 8) as u8 }
    }

    /// Returns to the pool what it has beyond its share, where it got frames that it did not take from there.
    pub(crate) fn give_back(&mut self) {
        let len = self.raw.free_len as usize;
        if let Some(more) = len.checked_sub(self.share).filter(|more| *more > 0) {
            // SAFETY: the first `free_len` numbers of the stack were written and are the worker's.
            self.pool.put_back(unsafe { std::slice::from_raw_parts(self.raw.free.add(self.share), more) });
            self.raw.free_len = self.share as u32;
        }
    }

    /// From now on it has no more frames than a batch may need.
    pub(crate) fn keep_to_least(&mut self) {
        self.share = self.share.min(MAX_BATCH * self.per_packet);
        self.give_back();
    }

    /// Returns every free frame to the pool.
    pub(crate) fn release(&mut self) {
        // SAFETY: the first `free_len` numbers of the stack were written and are the worker's.
        let all = unsafe { std::slice::from_raw_parts(self.raw.free, self.raw.free_len as usize) };
        self.pool.put_back(all);
        self.raw.free_len = 0;
    }
}

impl Drop for WorkerContext {
    fn drop(&mut self) {
        self.free_outputs();
        self.release();
    }
}

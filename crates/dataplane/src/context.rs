//! What one worker lends its engine: free frames, the output list, the counter block; and batches over it for drivers.

use std::mem::size_of;
use std::sync::Arc;

use baker::ir::Program;
use codegen::abi::{Context, MAX_BATCH, Output, Staging, read_field};

use crate::controller::ExternTable;
use crate::counters::CounterBlock;
use crate::frames::FramePool;
use crate::sys::Mapping;
use crate::tables::{Tables, View};

/// Frames that a worker takes from the pool beyond what it needs, so that the pool's lock is rare.
const REFILL: usize = 512;

/// Numbers of free frames, with room for all that there are.
#[derive(Debug)]
pub(crate) struct FreeStack {
    pub start: *mut u32,
    pub len: u32,
}

/// A worker's side of the binary interface: owns everything that its [`Context`] points to.
#[derive(Debug)]
pub struct WorkerContext {
    // Boxed: generated code gets its address.
    raw: Box<Context>,
    pool: Arc<FramePool>,
    counters: Arc<CounterBlock>,
    tables: Option<View>,
    // These are held only so that the pointers in `raw` stay valid.
    externs: Option<Arc<ExternTable>>,
    _memory: [Mapping; 2],
    /// Frames that it may have at a time without being given any.
    share: usize,
    per_packet: usize,
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
        };
        Ok(WorkerContext {
            raw: Box::new(raw),
            pool,
            counters,
            tables,
            externs: None,
            _memory: [free, outputs],
            share: share as usize,
            per_packet,
            rx_port: program.metadata[Program::RX_PORT.0 as usize].offset as usize,
            tx_port: program.metadata[Program::TX_PORT.0 as usize].offset as usize,
        })
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

    /// Announces that nothing is held of what look-ups found, and takes over what the control plane has changed. To be called before
    /// each batch.
    pub(crate) fn quiescent(&self) {
        self.tables.iter().for_each(View::quiescent);
    }

    /// Announces that no look-up comes before [`WorkerContext::quiescent`], so that nobody waits for one.
    pub(crate) fn offline(&self) {
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

    /// The time that the program sees.
    pub fn now(&self) -> u64 {
        self.raw.now
    }

    /// The frame pool.
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

    /// Takes a free frame.
    pub(crate) fn pop(&mut self) -> Option<u32> {
        self.raw.free_len = self.raw.free_len.checked_sub(1)?;
        // SAFETY: below the old length, so written before.
        Some(unsafe { *self.raw.free.add(self.raw.free_len as usize) })
    }

    /// Takes a frame back that was a packet's.
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

    /// Works with another stack of free frames, or with its own again: `other` and its length become those that it had.
    pub(crate) fn exchange_free(&mut self, other: &mut FreeStack) {
        std::mem::swap(&mut self.raw.free, &mut other.start);
        std::mem::swap(&mut self.raw.free_len, &mut other.len);
    }

    /// Empties the list of outputs.
    pub(crate) fn clear_outputs(&mut self) {
        self.raw.output_len = 0;
    }

    /// Frees the frames of all outputs and empties the list.
    pub(crate) fn free_outputs(&mut self) {
        for index in 0..self.raw.output_len as usize {
            let frame = self.outputs()[index].frame;
            self.push(frame);
        }
        self.clear_outputs();
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

/// Packets received in one batch.
#[derive(Debug)]
pub struct Received {
    frames: [u32; MAX_BATCH],
    len: usize,
}

impl Default for Received {
    fn default() -> Self {
        Received { frames: [0; MAX_BATCH], len: 0 }
    }
}

impl Received {
    /// Their frames, in order of arrival. They belong to the caller until an engine runs over them.
    pub fn frames(&self) -> &[u32] {
        &self.frames[..self.len]
    }
}

/// Where a driver puts the packets that it received.
#[derive(Debug)]
pub struct RxBatch<'a> {
    context: &'a mut WorkerContext,
    received: &'a mut Received,
    limit: usize,
    port: u8,
    bytes: u64,
    oversize: u64,
}

impl<'a> RxBatch<'a> {
    /// An empty batch with the room that the worker's free frames allow, for packets of a port.
    pub fn new(context: &'a mut WorkerContext, received: &'a mut Received, port: u8) -> Self {
        let limit = context.capacity();
        received.len = 0;
        RxBatch { context, received, limit, port, bytes: 0, oversize: 0 }
    }

    /// Packets that are pushed from now on come from this port.
    pub(crate) fn set_port(&mut self, port: u8) {
        self.port = port;
    }

    /// Packets that still fit. Where it is 0 the driver leaves the rest for the next batch.
    pub fn room(&self) -> usize {
        self.limit - self.received.len
    }

    /// Bytes of the longest packet that can be taken.
    pub fn max_packet(&self) -> usize {
        self.context.pool.max_packet()
    }

    /// Copies a packet, given in parts, into a frame. A packet longer than [`RxBatch::max_packet`] is counted as
    /// oversize and dropped. To be called only while there is room.
    pub fn push(&mut self, parts: &[&[u8]]) {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if len > self.max_packet() {
            self.oversize += 1;
            return;
        }
        assert!(self.room() > 0, "a driver pushed into a full batch");
        let Some(frame) = self.context.pop() else { return };
        let pool = &self.context.pool;
        // SAFETY: the frame was just taken, so it is ours; the length was checked against the room after the headroom.
        let mut bytes = unsafe {
            pool.reset_metadata(frame, self.context.rx_port, self.port);
            pool.place(frame, pool.headroom() as usize, len)
        };
        for part in parts {
            let (head, rest) = bytes.split_at_mut(part.len());
            head.copy_from_slice(part);
            bytes = rest;
        }
        self.received.frames[self.received.len] = frame;
        self.received.len += 1;
        self.bytes += len as u64;
    }

    /// Takes a packet that lies in a frame already, `len` bytes from `offset` on. To be called only while there is room.
    ///
    /// # Safety
    /// The caller owns the frame, which is the worker's from here on, and the packet lies within it.
    pub(crate) unsafe fn take(&mut self, frame: u32, offset: usize, len: usize) {
        assert!(self.room() > 0, "a driver pushed into a full batch");
        // SAFETY: by the caller's promise.
        unsafe {
            self.context.pool.reset_metadata(frame, self.context.rx_port, self.port);
            self.context.pool.place(frame, offset, len);
        }
        self.received.frames[self.received.len] = frame;
        self.received.len += 1;
        self.bytes += len as u64;
    }

    /// A free frame for packets to come, unless those of this batch may need it for their copies.
    pub(crate) fn supply(&mut self) -> Option<u32> {
        let needed = self.received.len * (self.context.per_packet - 1);
        if self.context.raw.free_len as usize > needed { self.context.pop() } else { None }
    }

    /// Takes a frame back that the driver had.
    pub(crate) fn give_back(&mut self, frame: u32) {
        self.context.push(frame);
    }

    /// To be called where frames that came back may have been another worker's: what is beyond this worker's share is for all.
    pub(crate) fn keep_to_share(&mut self) {
        self.context.give_back();
    }

    /// Counts a packet that the driver could not take because it is longer than a frame.
    pub fn skip_oversize(&mut self) {
        self.oversize += 1;
    }

    /// Packets, bytes, and packets dropped as oversize.
    pub fn totals(&self) -> (u64, u64, u64) {
        (self.received.len as u64, self.bytes, self.oversize)
    }
}

/// In the place of a frame that the driver keeps.
const KEPT: u32 = u32::MAX;

/// Packets for a driver to send, in order.
#[derive(Debug)]
pub struct TxBatch<'a> {
    pool: &'a FramePool,
    frames: &'a mut [u32],
}

impl<'a> TxBatch<'a> {
    /// # Safety
    /// The caller owns the frames, each holds a packet, and none changes while the batch is there.
    pub(crate) unsafe fn new(pool: &'a FramePool, frames: &'a mut [u32]) -> Self {
        TxBatch { pool, frames }
    }

    /// Number of packets.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Their bytes.
    pub fn packets(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|index| self.packet(index))
    }

    /// The bytes of one, which the driver has not kept.
    pub(crate) fn packet(&self, index: usize) -> &[u8] {
        // SAFETY: promised by whoever made the batch; a kept frame is no frame's number.
        unsafe { self.pool.packet(self.frames[index]) }
    }

    /// Takes the frame of a packet out of the batch: it is the driver's until a later [`RxBatch::give_back`].
    pub(crate) fn keep(&mut self, index: usize) -> u32 {
        std::mem::replace(&mut self.frames[index], KEPT)
    }

    /// The frames that the driver has not kept.
    pub(crate) fn left(&self) -> impl Iterator<Item = u32> {
        self.frames.iter().copied().filter(|&frame| frame != KEPT)
    }
}

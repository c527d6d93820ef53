//! Batches: what a driver puts the packets into that it received, and what it takes those from that it sends.

use codegen::abi::MAX_BATCH;

use super::context::WorkerContext;
use super::frames::FramePool;
use super::segments::Segments;
use super::shared::Bytes;
use crate::tables::Deadlines;

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

    /// The deadlines of the worker, where its program has any.
    pub(crate) fn deadlines(&mut self) -> Option<&mut Deadlines> {
        self.context.deadlines()
    }

    /// Packets that still fit. Where it is 0 the driver leaves the rest for the next batch.
    pub fn room(&self) -> usize {
        self.limit - self.received.len
    }

    /// Bytes of the longest packet that can be taken.
    pub fn max_packet(&self) -> usize {
        self.context.pool().max_packet()
    }

    /// Copies a packet, given in parts, into a frame. A packet longer than [`RxBatch::max_packet`] is counted as
    /// oversize and dropped. To be called only while there is room.
    pub fn push(&mut self, parts: &[&[u8]]) {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if len > self.max_packet() {
            self.oversize += 1;
            return;
        }
        let Some(mut bytes) = self.add(len) else { return };
        for part in parts {
            let (head, rest) = bytes.split_at_mut(part.len());
            head.copy_from_slice(part);
            bytes = rest;
        }
    }

    /// Writes the segments of a packet into frames; those longer than [`RxBatch::max_packet`] are counted as oversize
    /// and left out. Whether all are done: where the batch has no room for the rest, the driver comes back with the
    /// same packet.
    pub fn push_segments(&mut self, packet: &[u8], segments: &mut Segments) -> bool {
        self.push_segments_behind(&[], packet, segments)
    }

    /// As [`RxBatch::push_segments`], with these bytes in front of each.
    pub(crate) fn push_segments_behind(&mut self, front: &[u8], packet: &[u8], segments: &mut Segments) -> bool {
        while let Some(len) = segments.next_len() {
            let len = front.len() + len;
            if len > self.max_packet() {
                self.oversize += 1;
                segments.skip();
                continue;
            }
            let Some(bytes) = (self.room() > 0).then(|| self.add(len)).flatten() else { return false };
            let (before, segment) = bytes.split_at_mut(front.len());
            before.copy_from_slice(front);
            segments.write(packet, segment);
        }
        true
    }

    /// Adds a packet of so many bytes, at most [`RxBatch::max_packet`], which are to be written. `None` where no frame
    /// is free.
    fn add(&mut self, len: usize) -> Option<&mut [u8]> {
        assert!(self.room() > 0, "a driver pushed into a full batch");
        let frame = self.context.pop()?;
        self.received.frames[self.received.len] = frame;
        self.received.len += 1;
        self.bytes += len as u64;
        let pool = self.context.pool();
        // SAFETY: the frame was just taken, so it is ours; the length was checked against the room after the headroom.
        unsafe {
            self.context.reset_metadata(frame, self.port);
            Some(pool.place(frame, pool.headroom() as usize, len))
        }
    }

    /// Takes a packet that lies in a frame already, `len` bytes from `offset` on. To be called only while there is
    /// room.
    ///
    /// # Safety
    /// The caller owns the frame, which is the worker's from here on, and the packet lies within it.
    pub(crate) unsafe fn take(&mut self, frame: u32, offset: usize, len: usize) {
        assert!(self.room() > 0, "a driver pushed into a full batch");
        // SAFETY: by the caller's promise.
        unsafe {
            self.context.reset_metadata(frame, self.port);
            self.context.pool().place(frame, offset, len);
        }
        self.received.frames[self.received.len] = frame;
        self.received.len += 1;
        self.bytes += len as u64;
    }

    /// A free frame for packets to come, unless those of this batch may need it for their copies.
    pub(crate) fn supply(&mut self) -> Option<u32> {
        if self.context.has_spare(self.received.len) { self.context.pop() } else { None }
    }

    /// Takes a frame back that the driver had.
    pub(crate) fn give_back(&mut self, frame: u32) {
        self.context.push(frame);
    }

    /// To be called where frames that came back may have been another worker's: what is beyond this worker's share is
    /// for all.
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
    pub fn packets(&self) -> impl Iterator<Item = Bytes<'_>> {
        (0..self.len()).map(|index| self.packet(index))
    }

    /// The bytes of one, which the driver has not kept.
    pub(crate) fn packet(&self, index: usize) -> Bytes<'_> {
        // SAFETY: promised at the making of the batch; a kept frame is no frame's number.
        unsafe { self.pool.bytes(self.frames[index]) }
    }

    /// Puts the bytes of a packet into one piece, and gives the frame that some of them were in, which the driver holds
    /// in the packet's place.
    pub(crate) fn gather(&mut self, index: usize) -> Option<u32> {
        // SAFETY: as for `packet`; no bytes of it are borrowed.
        unsafe { self.pool.gather(self.frames[index]) }
    }

    /// Takes what lies in another frame off a packet: the driver holds that frame in the packet's place.
    pub(crate) fn keep_rest(&mut self, index: usize) -> Option<u32> {
        // SAFETY: as for `gather`.
        unsafe { self.pool.take_rest(self.frames[index]) }
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

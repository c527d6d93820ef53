//! Packets that share bytes: a frame is free when the last of its holders lets go of it.
//!
//! ```text
//! frame 7  [ headers | payload            ]   the original: all of it is here
//! frame 3  [ headers |                        a copy: `held` bytes of frame 3, `rest` = 7
//! frame 9  [ headers |                        another one: frame 7 has the count 2
//! ```
//!
//! A frame's holders are the packet that lies in it, also in a hold table, packets whose `rest` it is, descriptors of
//! it that the kernel has to send, and nothing else. Its count says how many there are besides the first. Bytes that
//! are shared are not written: see `baker::opt::share`. What goes to a controller has its bytes for itself
//! ([`WorkerContext::make_own`]), so counts are the workers' alone.
//!
//! A frame's holders may be on several workers, for any of them may take back what one of them sent. So counts change
//! by atomic operations. A holder that finds the count 0 is the only one: no other one can get the frame meanwhile, and
//! it takes no more than a load to let go of it. That is how all frames go that are never shared.

use std::sync::atomic::{AtomicU32, Ordering};

use codegen::abi::WHOLE;

use super::context::WorkerContext;
use super::frames::FramePool;
use super::holders::Holds;
use crate::tables::{Frames, HoldTable};

/// The bytes of a packet: those in its own frame, and those in another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes<'a> {
    /// From its head on.
    pub head: &'a [u8],
    /// What follows, to its end; empty where all is in one piece.
    pub rest: &'a [u8],
}

impl Bytes<'_> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.head.len() + self.rest.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them, in memory of their own.
    pub fn to_vec(&self) -> Vec<u8> {
        [self.head, self.rest].concat()
    }
}

impl FramePool {
    /// The counts, by frame.
    pub(super) fn counts(&self) -> *mut u32 {
        self.shares.ptr().cast()
    }

    fn count_of(&self, frame: u32) -> &AtomicU32 {
        debug_assert!(frame < self.all());
        // SAFETY: within the mapping, aligned, and only accessed atomically.
        unsafe { AtomicU32::from_ptr(self.counts().add(frame as usize)) }
    }

    /// From now on packets may share frames.
    pub(super) fn share(&self) {
        self.sharing.store(true, Ordering::Relaxed);
    }

    /// Whether packets may share frames. A holder of a frame that is shared finds that they do.
    #[inline]
    pub(crate) fn is_sharing(&self) -> bool {
        self.sharing.load(Ordering::Relaxed)
    }

    /// Whether others hold a frame that the caller holds, too. If not, none can before the caller lets them.
    #[inline]
    pub(crate) fn is_shared(&self, frame: u32) -> bool {
        self.count_of(frame).load(Ordering::Acquire) != 0
    }

    /// Holds a frame, which the caller holds, so many times more.
    #[inline]
    pub(crate) fn hold(&self, frame: u32, more: u32) {
        if more > 0 {
            self.count_of(frame).fetch_add(more, Ordering::Relaxed);
        }
    }

    /// Lets go of a frame once; whether it is the caller's alone now, as it was the last one that held it.
    #[inline]
    pub(crate) fn let_go(&self, frame: u32) -> bool {
        // What others have done with the frame comes before what is done with it when it is free.
        if !self.is_shared(frame) {
            return true;
        }
        let was_last = self.count_of(frame).fetch_sub(1, Ordering::AcqRel) == 0;
        if was_last {
            self.count_of(frame).store(0, Ordering::Relaxed);
        }
        was_last
    }

    /// Lets go of a packet, and gives the frames that are free then.
    ///
    /// # Safety
    /// The packet is the caller's, which forgets it.
    #[inline]
    pub(crate) unsafe fn release(&self, frame: u32, mut give: impl FnMut(u32)) {
        if self.is_sharing() {
            if !self.let_go(frame) {
                return;
            }
            // SAFETY: the frame has no other holder. One that was shared held the whole of its packet.
            if let Some(rest) = unsafe { self.take_rest(frame) }.filter(|rest| self.let_go(*rest)) {
                give(rest);
            }
        }
        give(frame);
    }

    /// Cuts off a packet what lies in another frame; the caller holds that frame in its place.
    ///
    /// # Safety
    /// The packet is the caller's.
    pub(crate) unsafe fn take_rest(&self, frame: u32) -> Option<u32> {
        // SAFETY: by the caller's promise.
        unsafe {
            let descriptor = self.descriptor(frame);
            let rest = (*descriptor).rest;
            if rest == WHOLE {
                return None;
            }
            (*descriptor).len = self.here(frame) as u32;
            ((*descriptor).rest, (*descriptor).held) = (WHOLE, WHOLE);
            Some(rest)
        }
    }

    /// How many bytes of a packet lie in its own frame.
    unsafe fn here(&self, frame: u32) -> usize {
        // SAFETY: by the caller's promise, the packet is its own.
        unsafe {
            let descriptor = *self.descriptor(frame);
            (descriptor.len as usize).min((descriptor.held as usize).saturating_sub(self.offset(frame)))
        }
    }

    /// The bytes of a packet.
    ///
    /// # Safety
    /// The packet is the caller's for as long as the result is used.
    pub(crate) unsafe fn bytes(&self, frame: u32) -> Bytes<'_> {
        // SAFETY: what descriptors say lies in their frames, as every writer of them ensures. Bytes of the rest lie at
        // the same place of their frame, which is held and in which they are not written.
        unsafe {
            let descriptor = *self.descriptor(frame);
            let slice = |at: usize, len: usize| {
                debug_assert!(at + len <= self.all() as usize * self.frame_size() as usize);
                std::slice::from_raw_parts(self.region().add(at), len)
            };
            let (here, len) = (self.here(frame), descriptor.len as usize);
            let head = slice(descriptor.addr as usize, here);
            if here == len {
                return Bytes { head, rest: &[] };
            }
            let from = descriptor.rest as usize * self.frame_size() as usize + self.offset(frame) + here;
            Bytes { head, rest: slice(from, len - here) }
        }
    }

    /// Copies into a packet's own frame what it has elsewhere, and gives the frame that it had that in, which the
    /// caller holds then.
    ///
    /// # Safety
    /// The packet is the caller's.
    pub(crate) unsafe fn gather(&self, frame: u32) -> Option<u32> {
        // SAFETY: by the caller's promise. The place behind the bytes that are here is the packet's own: it is the same
        // place as in the frame of the rest, so it ends within the frame.
        unsafe {
            let (descriptor, offset) = (*self.descriptor(frame), self.offset(frame));
            let here = self.here(frame);
            let rest = self.take_rest(frame)?;
            self.copy((frame, offset + here), (rest, offset + here), descriptor.len as usize - here);
            self.place(frame, offset, descriptor.len as usize);
            Some(rest)
        }
    }

    /// Whether no frame is held more than once.
    pub(crate) fn is_unshared(&self) -> bool {
        (0..self.all()).all(|frame| !self.is_shared(frame))
    }
}

impl Frames for FramePool {
    fn stride(&self) -> usize {
        self.stride()
    }

    fn headroom(&self) -> u32 {
        self.headroom()
    }

    fn hold(&self, frame: u32) {
        self.hold(frame, 1);
    }

    unsafe fn release(&self, frame: u32, give: &mut dyn FnMut(u32)) {
        // SAFETY: by the caller's promise.
        unsafe { self.release(frame, give) }
    }

    fn put_back(&self, frame: u32) {
        self.put_back(&[frame]);
    }
}

impl Holds for HoldTable {
    fn frames(&self, seen: &mut [bool]) -> u32 {
        let mut count = 0;
        self.each(|frame| {
            count += u32::from(!std::mem::replace(&mut seen[frame as usize], true));
        });
        count
    }
}

impl WorkerContext {
    /// Lets go of a packet of this worker's: what has no other holder is free.
    #[inline]
    pub(crate) fn let_go(&mut self, frame: u32) {
        let (mut free, mut count) = ([0; 2], 0);
        let mut give = |frame| {
            free[count] = frame;
            count += 1;
        };
        // SAFETY: the packet is the worker's, and it forgets it.
        unsafe { self.pool().release(frame, &mut give) };
        free[..count].iter().for_each(|&frame| self.push(frame));
    }

    /// Puts the bytes of a packet into its own frame.
    fn gather(&mut self, frame: u32) {
        // SAFETY: the packet is the worker's.
        if let Some(rest) = unsafe { self.pool().gather(frame) }
            && self.pool().let_go(rest)
        {
            self.push(rest);
        }
    }

    /// Has so many bytes of a packet at least in one piece, where it is that long.
    #[inline]
    pub(crate) fn join(&mut self, frame: u32, least: usize) {
        // SAFETY: the packet is the worker's.
        if self.pool().is_sharing() && unsafe { self.pool().here(frame) } < least {
            self.gather(frame);
        }
    }

    /// A copy of a packet which lies in its frame as a whole and is written by nobody: `own` of its bytes are in the
    /// copy's own frame, or all of them where there is no such bound or too little would be shared. Whether any are
    /// shared: then the caller has the packet's frame held once more, before the copy is let go of. `None` where no
    /// frame is free.
    pub(crate) fn share(&mut self, frame: u32, own: Option<u32>) -> Option<(u32, bool)> {
        let least = self.share_least();
        let copy = self.pop()?;
        let pool = self.pool();
        // SAFETY: both are the worker's, and the packet is whole, so at the same place of the other frame there is
        // room.
        unsafe {
            let (offset, len) = (pool.offset(frame), pool.bytes(frame).len());
            let shares = own.zip(least).map(|(own, least)| (own as usize, least as usize));
            let shares = shares.filter(|(own, least)| len.checked_sub(*own).is_some_and(|rest| rest >= *least));
            let here = shares.map_or(len, |(own, _)| own);
            pool.copy((copy, offset), (frame, offset), here);
            pool.place(copy, offset, len);
            pool.copy_metadata(copy, frame);
            if shares.is_some() {
                let descriptor = pool.descriptor(copy);
                ((*descriptor).rest, (*descriptor).held) = (frame, (offset + here) as u32);
            }
            Some((copy, shares.is_some()))
        }
    }

    /// The same packet in a frame without another holder, all of it; `None` where none is free, and nothing is done.
    pub(crate) fn make_own(&mut self, frame: u32) -> Option<u32> {
        if !self.pool().is_sharing() {
            return Some(frame);
        }
        self.gather(frame);
        if !self.pool().is_shared(frame) {
            return Some(frame);
        }
        let own = self.pop_or_refill()?;
        let pool = self.pool().clone();
        // SAFETY: both are the worker's. A packet that others share is whole, and lies in the same place of its frame.
        unsafe {
            let (offset, len) = (pool.offset(frame), pool.bytes(frame).len());
            pool.place(own, offset, len);
            pool.copy((own, offset), (frame, offset), len);
            pool.copy_metadata(own, frame);
        }
        self.let_go(frame);
        Some(own)
    }
}

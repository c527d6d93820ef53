//! How workers get at packets: where they lie, or in memory of their own. Host-interface peering and what it is
//! measured against.
//!
//! | mode | into the program | out of it |
//! |---|---|---|
//! | [`Access::Copy`] | the packet is copied into a local frame, and its frame is free | it is copied into a frame of the ports |
//! | [`Access::InPlace`] | – | – |
//! | [`Access::HeaderCopy`] | what the program can reach of it ([`baker::opt::reach`]) is copied into a local frame | what it may have changed is copied back |
//!
//! Local frames are numbered behind those of the ports, and no device knows them. While a batch is processed they are
//! all that the engine has: the batch, the free frames for its copies, the outputs. So engines know nothing of modes,
//! and neither do ports, for what leaves is in frames of the ports again.
//!
//! With [`Access::HeaderCopy`] the descriptor of a local frame says where the rest of the packet is, and each copy that
//! a program makes says it, too. The first output of a packet gets the frame back; the others get frames of their own
//! with that rest. Everything stays at its place within the frame, so headers may be taken off and put on. Copies share
//! nothing else, and rests are not counted, while the engine works on local frames.

use std::fmt;
use std::mem::size_of;
use std::sync::Arc;

use baker::opt::reach::Reach;
use codegen::abi::{MAX_BATCH, WHOLE};

use super::context::{FreeStack, WorkerContext};
use super::frames::FramePool;
use crate::sys::Mapping;

/// How workers get at the packets of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Access {
    /// The conventional way: into host memory and out again.
    Copy,
    /// Where they lie: what is forwarded is the frame's number.
    #[default]
    InPlace,
    /// What the program reaches of them is copied, worked on there, and what is dirty written back once.
    HeaderCopy,
}

impl Access {
    /// All of them.
    pub const ALL: [Access; 3] = [Access::Copy, Access::InPlace, Access::HeaderCopy];

    /// Its name in configurations and reports.
    pub fn name(self) -> &'static str {
        match self {
            Access::Copy => "copy",
            Access::InPlace => "in-place",
            Access::HeaderCopy => "header-copy",
        }
    }

    /// What it means for a program with this reach, where it is not the usual mode.
    pub(crate) fn about(self, reach: Reach) -> Option<String> {
        match (self, reach.touched) {
            (Access::InPlace, _) => None,
            (Access::Copy, _) => Some("packets are copied into host memory and out again (access = \"copy\")".into()),
            (Access::HeaderCopy, Some(bytes)) => {
                Some(format!("the first {bytes} bytes of packets are copied (access = \"header-copy\")"))
            }
            (Access::HeaderCopy, None) => Some(
                "packets are copied whole (access = \"header-copy\"), because the program's reach into them has no bound"
                    .into(),
            ),
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Access {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Access::ALL.into_iter().find(|access| access.name() == name).ok_or_else(|| {
            let names = Access::ALL.map(Access::name).join(", ");
            format!("{name:?} is not an access mode; use one of {names}")
        })
    }
}

/// The local frames of a worker. Between batches all of them are free.
#[derive(Debug)]
pub(crate) struct LocalMemory {
    pool: Arc<FramePool>,
    /// Numbers of the free ones; those of the worker's context while a batch is processed.
    free: FreeStack,
    /// Held only so that the pointer stays valid.
    _memory: Mapping,
}

// SAFETY: the stack is plain memory of the worker's own.
unsafe impl Send for LocalMemory {}

impl LocalMemory {
    /// Of the worker with this index. The pool was made with local frames for it.
    pub fn new(pool: &Arc<FramePool>, worker: usize) -> std::io::Result<Self> {
        let each = pool.local_frames();
        let first = pool.count() + worker as u32 * each;
        assert!(first + each <= pool.all(), "the pool has no local frames for worker {worker}");
        let memory = Mapping::anonymous(pool.all() as usize * size_of::<u32>())?;
        let free = FreeStack { start: memory.ptr().cast(), len: 0 };
        let mut local = LocalMemory { pool: pool.clone(), free, _memory: memory };
        (first..first + each).rev().for_each(|frame| local.push(frame));
        Ok(local)
    }

    /// Whether all of its frames are free.
    pub fn is_complete(&self) -> bool {
        self.free.len == self.pool.local_frames()
    }

    /// Fills so many of the frames that are used next with a byte, so that what reads what was not copied gives itself
    /// away.
    pub fn poison(&mut self, frames: u32, byte: u8) {
        for ahead in 1..=frames.min(self.free.len) {
            // SAFETY: the places below `len` hold numbers of free frames, which are this worker's.
            unsafe {
                let frame = *self.free.start.add((self.free.len - ahead) as usize);
                self.pool.place(frame, 0, self.pool.frame_size() as usize).fill(byte);
            }
        }
    }

    /// Takes a local frame back.
    fn push(&mut self, frame: u32) {
        debug_assert!(self.free.len < self.pool.all());
        // SAFETY: the stack has room for every frame, and each is in one place only.
        unsafe { self.free.start.add(self.free.len as usize).write(frame) };
        self.free.len += 1;
    }

    /// Runs an engine over a batch with this access and the engine's reach. What it puts out is in frames of the ports,
    /// as for [`Access::InPlace`].
    ///
    /// # Safety
    /// As for [`crate::Engine::run`]; `run` runs an engine with this reach over the frames that it gets. The pool has
    /// local frames for its program.
    pub unsafe fn run(
        &mut self,
        (access, reach): (Access, Reach),
        context: &mut WorkerContext,
        frames: &[u32],
        run: impl FnOnce(&mut WorkerContext, &[u32]),
    ) {
        // A packet that is held stays where it is.
        if access == Access::InPlace || context.holds() {
            return run(context, frames);
        }
        let mut local = [0; MAX_BATCH];
        context.exchange_free(&mut self.free);
        for (local, &frame) in local.iter_mut().zip(frames) {
            *local = context.pop().expect("there are local frames for a whole batch");
            // SAFETY: both frames are this worker's, and the first holds a packet.
            unsafe { self.stage((access, reach), frame, *local) };
        }
        let before = context.outputs().len();
        let share_least = context.set_share_least(None);
        run(context, &local[..frames.len()]);
        context.set_share_least(share_least);
        context.exchange_free(&mut self.free);
        if access == Access::Copy {
            frames.iter().for_each(|&frame| context.push(frame));
        }
        for index in before..context.outputs().len() {
            let frame = context.outputs()[index].frame;
            // SAFETY: an output's frame is the worker's and holds a packet; that of its rest is not given back yet.
            let landed = unsafe { self.land(reach, frame, context) };
            context.replace_output(index, landed);
            self.push(frame);
        }
        if access == Access::HeaderCopy {
            for &frame in frames {
                // SAFETY: frames of outputs are still the worker's, the others are its anyway.
                if unsafe { self.claim(frame) } {
                    context.push(frame);
                }
            }
        }
    }

    /// Copies what the engine works on.
    ///
    /// # Safety
    /// Both frames are the caller's; `frame` holds a packet.
    unsafe fn stage(&self, (access, reach): (Access, Reach), frame: u32, local: u32) {
        let pool = &*self.pool;
        // SAFETY: by the caller's promise; the packet lies within its frame, so at the same place of the other one
        // there is room.
        unsafe {
            let (from, to) = (pool.descriptor(frame), pool.descriptor(local));
            let len = (*from).len;
            let offset = pool.offset(frame);
            let reach = if access == Access::HeaderCopy { reach.touched } else { None };
            let bytes = reach.map_or(len, |reach| reach.min(len));
            pool.copy((local, offset), (frame, offset), bytes as usize);
            pool.copy_metadata(local, frame);
            pool.place(local, offset, len as usize);
            if access == Access::HeaderCopy {
                (*to).rest = frame;
                (*to).held = reach.map_or(WHOLE, |_| offset as u32 + bytes);
                // The frame was not taken back yet.
                (*from).rest = frame;
            }
        }
    }

    /// Brings a packet from a local frame into one of the ports; which.
    ///
    /// # Safety
    /// The frame is the caller's and holds a packet, as does that of its rest.
    unsafe fn land(&self, reach: Reach, local: u32, context: &mut WorkerContext) -> u32 {
        let pool = &*self.pool;
        // SAFETY: by the caller's promise. What a descriptor says lies in its frame, and all stays at its place.
        unsafe {
            let descriptor = *pool.descriptor(local);
            let (offset, len) = (pool.offset(local), descriptor.len as usize);
            let (rest, end) = (descriptor.rest, offset + len);
            let held = end.min(descriptor.held as usize).max(offset);
            let to = if rest != WHOLE && self.claim(rest) {
                let began = pool.offset(rest);
                let dirty = reach.written.map_or(held, |written| held.min(began + written as usize));
                pool.copy((rest, offset), (local, offset), dirty.saturating_sub(offset));
                rest
            } else {
                let frame = context.pop().expect("there are frames for limits.copies");
                pool.copy((frame, offset), (local, offset), held - offset);
                if rest != WHOLE {
                    pool.copy((frame, held), (rest, held), end - held);
                }
                frame
            };
            pool.copy_metadata(to, local);
            pool.place(to, offset, len);
            to
        }
    }

    /// Takes the frame of a packet whose header was copied; whether this was not done before.
    ///
    /// # Safety
    /// The frame is the caller's.
    unsafe fn claim(&self, frame: u32) -> bool {
        // SAFETY: by the caller's promise.
        let rest = unsafe { &mut (*self.pool.descriptor(frame)).rest };
        std::mem::replace(rest, WHOLE) == frame
    }
}

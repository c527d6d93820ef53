//! Frames: slots of one memory region that hold packets, with a descriptor beside each.
//!
//! A frame number belongs to exactly one place at a time: the pool, one worker's free stack, or one packet. Forwarding
//! moves the number, never the packet. Workers take and return frames in bulk, so the pool's lock is rare. Packets that
//! share bytes hold a frame together: see [`super::shared`].

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use baker::ir::{Group, Program};
use codegen::abi::{Descriptor, MAX_BATCH, METADATA_OFFSET, WHOLE, descriptor_stride};

use super::holders::{FrameHolders, Holders};
use crate::sys::Mapping;

/// Number and size of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameConfig {
    /// Number of frames.
    pub count: u32,
    /// Bytes per frame: a power of two, 512 to 65536.
    pub frame_size: u32,
    /// Bytes in front of a received packet; raised to what the program pushes, and to a multiple of 64, so that
    /// Ethernet headers start 64-aligned and IP headers 2-aligned, as at XDP.
    pub headroom: u32,
}

impl Default for FrameConfig {
    fn default() -> Self {
        FrameConfig { count: 8192, frame_size: 2048, headroom: 256 }
    }
}

/// Why there is no frame pool.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// Not a possible frame size.
    #[error("frame size {0}: use a power of two from 512 to 65536")]
    Size(u32),
    /// No room for a packet after the headroom.
    #[error(
        "frame size {frame_size} leaves no room for packets after a headroom of {headroom} bytes: use larger frames"
    )]
    Headroom {
        /// Bytes per frame.
        frame_size: u32,
        /// Bytes before the packet.
        headroom: u32,
    },
    /// Too few frames to process one packet.
    #[error("{count} frames: at least {least} are needed, for each worker as many as one packet may become")]
    TooFew {
        /// Number of frames asked for.
        count: u32,
        /// The least number.
        least: u32,
    },
    /// What queues may hold leaves too few for the workers.
    #[error(
        "{count} frames, without those that ports need: {queued} are for packets that wait ({list}), and {workers} workers \
         need at least {needed}: use more frames, or declare smaller queues",
        queued = .queues.iter().map(|(_, frames)| u64::from(*frames)).sum::<u64>(),
        list = .queues.iter().map(|(name, frames)| format!("{name}: {frames}")).collect::<Vec<_>>().join(", "),
    )]
    Queues {
        /// Number of frames that ports do not need.
        count: u32,
        /// What each queue may hold.
        queues: Vec<(String, u32)>,
        /// Number of workers.
        workers: u32,
        /// The least that they need.
        needed: u32,
    },
    /// What controllers are given leaves too few for the workers.
    #[error(
        "{count} frames, without those that ports need: {given} are for controllers ({list}), and {workers} workers need at least \
         {needed}: use more frames, or give controllers fewer",
        given = .controllers.iter().map(|(_, frames)| u64::from(*frames)).sum::<u64>(),
        list = .controllers.iter().map(|(name, frames)| format!("{name}: {frames}")).collect::<Vec<_>>().join(", "),
    )]
    Controllers {
        /// Number of frames that ports do not need.
        count: u32,
        /// Those of each controller, by name.
        controllers: Vec<(String, u32)>,
        /// Number of workers.
        workers: u32,
        /// What they need together.
        needed: u32,
    },
    /// A controller is given too few.
    #[error("controller {name}: {given} frames: at least {least} are needed, one from each worker and one to it")]
    FewForController {
        /// Its name.
        name: String,
        /// Those that it is given.
        given: u32,
        /// The least number.
        least: u32,
    },
    /// Hold tables take more frames than there are besides those that workers need.
    #[error(
        "{count} frames: hold tables take {holds} ({list}), two for each packet, and workers at least {least}: use more \
         frames, or declare them `of` fewer packets",
        list = .tables.iter().map(|(name, packets)| format!("{name}: {packets} packets")).collect::<Vec<_>>().join(", "),
    )]
    Holds {
        /// Number of frames.
        count: u32,
        /// Those for hold tables.
        holds: u32,
        /// Their packets, by name.
        tables: Vec<(String, u32)>,
        /// What others need.
        least: u32,
    },
    /// A program that takes over has larger metadata.
    #[error("its metadata takes {bytes} bytes, and frames have room for {most}")]
    Metadata {
        /// Bytes for each packet.
        bytes: u32,
        /// What there is room for.
        most: u32,
    },
    /// A program that takes over pushes more, or creates longer headers.
    #[error("it needs {needed} bytes of a frame in front of packets, and there are {headroom}")]
    Front {
        /// Bytes in front of packets.
        needed: u32,
        /// What there is.
        headroom: u32,
    },
    /// A program that takes over makes more packets of one.
    #[error("it needs {needed} frames of host memory for its access mode, and there are {local}")]
    Local {
        /// Frames that each worker needs.
        needed: u32,
        /// What it has.
        local: u32,
    },
    /// A program that takes over holds more packets.
    #[error("its hold tables take {needed} frames, and there are {holds} for them")]
    Held {
        /// Frames that they take.
        needed: u32,
        /// Those that there are.
        holds: u32,
    },
    /// The system has no memory left.
    #[error("no memory for {count} frames of {frame_size} bytes: {error}; use fewer")]
    Memory {
        /// Number of frames.
        count: u32,
        /// Bytes per frame.
        frame_size: u32,
        /// What the system said.
        error: std::io::Error,
    },
}

/// Frames that a program's hold tables take: each packet has one, and may share another.
pub(crate) fn hold_frames(program: &Program) -> u32 {
    let packets = program.tables.iter().filter_map(|table| Some(table.hold?.packets));
    packets.fold(0, |sum, packets| sum.saturating_add(packets.saturating_mul(2)))
}

/// Frames that packets in a program's queues take.
pub(crate) fn queue_frames(program: &Program) -> u32 {
    program.queues.iter().fold(0, |sum, queue| sum.saturating_add(queue.most()))
}

/// Frames that packets take which wait for the members of groups, on each worker.
pub(crate) fn group_frames(program: &Program) -> u32 {
    if program.tables.iter().any(|table| table.group.is_some()) { Group::WAITING } else { 0 }
}

/// Copies of a packet that there are local frames for at least, so that programs that take over may make more.
const LEAST_COPIES: u32 = 15;

/// Local frames that a worker needs: for a batch and all that may be made of it.
fn local_frames(program: &Program) -> u32 {
    (MAX_BATCH as u32).saturating_mul(program.limits.copies.max(LEAST_COPIES).saturating_add(1))
}

/// All frames of an instance. Shared by its workers.
#[derive(Debug)]
pub struct FramePool {
    region: Mapping,
    descriptors: Mapping,
    stride: usize,
    /// Grows with programs that take over.
    metadata_size: AtomicUsize,
    count: u32,
    /// Frames behind those of the pool that each worker has for itself, and how many workers do.
    local: (u32, u32),
    frame_size: u32,
    headroom: u32,
    free: Mutex<Vec<u32>>,
    /// By frame, how many hold it besides the first.
    pub(super) shares: Mapping,
    /// A program makes copies, which may share.
    pub(super) sharing: AtomicBool,
    /// Holders of frames, for reports.
    pub(crate) holders: Holders,
    /// Those for hold tables.
    holds: u32,
}

impl FramePool {
    /// Allocates the frames for a program. All are free.
    pub fn new(program: &Program, config: FrameConfig) -> Result<Self, FrameError> {
        Self::with_local(program, config, 0)
    }

    /// As [`FramePool::new`] with local frames behind them for so many workers, which are never in the pool.
    pub(crate) fn with_local(program: &Program, config: FrameConfig, workers: usize) -> Result<Self, FrameError> {
        let FrameConfig { count, frame_size, headroom } = config;
        if !frame_size.is_power_of_two() || !(512..=65536).contains(&frame_size) {
            return Err(FrameError::Size(frame_size));
        }
        let headroom = headroom.max(program.limits.headroom).saturating_add(63) & !63;
        // Most packets without a payload are below 64 bytes; less room than that, or less than a created packet needs,
        // is a configuration mistake.
        if headroom.saturating_add(program.limits.created.max(64)) > frame_size {
            return Err(FrameError::Headroom { frame_size, headroom });
        }
        let least = program.limits.copies.saturating_add(1);
        if count < least {
            return Err(FrameError::TooFew { count, least });
        }
        let holds = hold_frames(program);
        if count < least.saturating_add(holds) {
            let held = |table: &baker::ir::Table| Some((table.name.clone(), table.hold?.packets));
            let tables = program.tables.iter().filter_map(held).collect();
            return Err(FrameError::Holds { count, holds, tables, least });
        }
        let stride = descriptor_stride(program);
        let map = |len| Mapping::anonymous(len).map_err(|error| FrameError::Memory { count, frame_size, error });
        let local = (if workers == 0 { 0 } else { local_frames(program) }, workers as u32);
        let all = local
            .0
            .checked_mul(local.1)
            .and_then(|local| count.checked_add(local))
            .ok_or(FrameError::Memory { count, frame_size, error: std::io::ErrorKind::OutOfMemory.into() })?;
        let region = map(all as usize * frame_size as usize)?;
        let descriptors = map(all as usize * stride)?;
        let shares = map(all as usize * size_of::<u32>())?;
        let pool = FramePool {
            region,
            descriptors,
            stride,
            metadata_size: AtomicUsize::new(program.metadata_size as usize),
            count,
            local,
            frame_size,
            headroom,
            // Reversed, so that frame 0 is taken first.
            free: Mutex::new((0..count).rev().collect()),
            shares,
            sharing: AtomicBool::new(false),
            holders: Holders::default(),
            holds,
        };
        for frame in 0..all {
            // SAFETY: the pool was just made, nothing else has it, and the frame exists.
            unsafe { (*pool.descriptor(frame)).frame = frame };
        }
        Ok(pool)
    }

    /// A program that is to take over, as it is with these frames.
    pub(crate) fn accommodate(&self, program: &Program) -> Result<Program, FrameError> {
        let mut program = program.clone();
        let most = (self.stride - METADATA_OFFSET) as u32;
        if program.metadata_size > most {
            return Err(FrameError::Metadata { bytes: program.metadata_size, most });
        }
        // Machine code knows the distance between descriptors.
        if descriptor_stride(&program) < self.stride {
            program.metadata_size = most;
        }
        let needed =
            program.limits.headroom.max(program.limits.created.saturating_sub(self.frame_size - self.headroom));
        if needed > self.headroom {
            return Err(FrameError::Front { needed, headroom: self.headroom });
        }
        if self.local.1 > 0 && local_frames(&program) > self.local.0 {
            return Err(FrameError::Local { needed: local_frames(&program), local: self.local.0 });
        }
        let holds = hold_frames(&program);
        if holds > self.holds {
            return Err(FrameError::Held { needed: holds, holds: self.holds });
        }
        self.metadata_size.fetch_max(program.metadata_size as usize, Ordering::Relaxed);
        Ok(program)
    }

    /// Number of frames.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Frames for hold tables, which workers do not count on.
    pub(crate) fn hold_frames(&self) -> u32 {
        self.holds
    }

    /// Bytes from one descriptor to the next.
    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// Number of frames with the local ones.
    pub(crate) fn all(&self) -> u32 {
        self.count + self.local.0 * self.local.1
    }

    /// Local frames of each worker.
    pub(crate) fn local_frames(&self) -> u32 {
        self.local.0
    }

    /// Bytes per frame.
    pub fn frame_size(&self) -> u32 {
        self.frame_size
    }

    /// Bytes in front of a received packet.
    pub fn headroom(&self) -> u32 {
        self.headroom
    }

    /// Bytes of the longest packet that can be received.
    pub fn max_packet(&self) -> usize {
        (self.frame_size - self.headroom) as usize
    }

    /// Number of frames that are in the pool: neither in a packet nor in a worker's stack.
    pub fn free_frames(&self) -> u32 {
        self.free.lock().expect("no panic under this lock").len() as u32
    }

    /// How many frames each holder has now.
    pub fn held(&self) -> FrameHolders {
        self.holders.count(self.count, self.free_frames())
    }

    /// First byte of the region.
    pub(crate) fn region(&self) -> *mut u8 {
        self.region.ptr()
    }

    /// First byte of the descriptors.
    pub(crate) fn descriptors(&self) -> *mut u8 {
        self.descriptors.ptr()
    }

    /// Moves up to `into.len()` free frames there; returns how many.
    pub(crate) fn take(&self, into: &mut [u32]) -> usize {
        let mut free = self.free.lock().expect("no panic under this lock");
        let n = into.len().min(free.len());
        let rest = free.len() - n;
        for (to, from) in into.iter_mut().zip(free.drain(rest..).rev()) {
            *to = from;
        }
        n
    }

    /// Takes frames back. They are the caller's and it forgets them.
    pub(crate) fn put_back(&self, frames: &[u32]) {
        // The vector was made with room for every frame, so this never allocates.
        self.free.lock().expect("no panic under this lock").extend_from_slice(frames);
    }

    /// The frame's descriptor.
    ///
    /// # Safety
    /// There is this frame. The result may be used only while the caller owns the frame.
    pub(crate) unsafe fn descriptor(&self, frame: u32) -> *mut Descriptor {
        debug_assert!(frame < self.all());
        // SAFETY: within the mapping, by the caller's promise.
        unsafe { self.descriptors.ptr().add(frame as usize * self.stride).cast() }
    }

    /// The frame's metadata, `Program::metadata_size` bytes.
    ///
    /// # Safety
    /// As for [`FramePool::descriptor`].
    pub(crate) unsafe fn metadata(&self, frame: u32) -> *mut u8 {
        // SAFETY: the stride covers the descriptor and the metadata.
        unsafe { self.descriptor(frame).cast::<u8>().add(METADATA_OFFSET) }
    }

    /// The packet in a frame, from its head to its end, which shares no bytes of another frame.
    ///
    /// # Safety
    /// The caller owns the frame, and it holds a packet, for as long as the result is used.
    pub(crate) unsafe fn packet(&self, frame: u32) -> &[u8] {
        // SAFETY: the descriptor is the caller's; what it says lies in the frame, as every writer of it ensures.
        unsafe {
            let Descriptor { addr, len, held, .. } = *self.descriptor(frame);
            debug_assert!(addr + u64::from(len) <= u64::from(frame) * u64::from(self.frame_size) + u64::from(held));
            debug_assert!(addr >= u64::from(frame) * u64::from(self.frame_size));
            debug_assert!(addr + u64::from(len) <= (u64::from(frame) + 1) * u64::from(self.frame_size));
            std::slice::from_raw_parts(self.region.ptr().add(addr as usize), len as usize)
        }
    }

    /// Makes the frame hold a packet of `len` bytes that starts `offset` bytes into the frame. Returns its bytes.
    ///
    /// # Safety
    /// The caller owns the frame for as long as the result is used. `offset + len` is at most the frame size.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn place(&self, frame: u32, offset: usize, len: usize) -> &mut [u8] {
        debug_assert!(offset + len <= self.frame_size as usize);
        // SAFETY: the frame's bytes and descriptor are the caller's, and the range lies in the frame.
        unsafe {
            let start = frame as usize * self.frame_size as usize + offset;
            let descriptor = self.descriptor(frame);
            (*descriptor).addr = start as u64;
            (*descriptor).len = len as u32;
            ((*descriptor).rest, (*descriptor).held) = (WHOLE, WHOLE);
            std::slice::from_raw_parts_mut(self.region.ptr().add(start), len)
        }
    }

    /// Lets the packet in a frame begin `front` bytes later, with `len` bytes.
    ///
    /// # Safety
    /// The caller owns the frame, which holds a packet of at least `front + len` bytes.
    pub(crate) unsafe fn trim_front(&self, frame: u32, front: usize, len: usize) {
        // SAFETY: the descriptor is the caller's.
        unsafe {
            let descriptor = self.descriptor(frame);
            debug_assert!(front + len <= (*descriptor).len as usize);
            (*descriptor).addr += front as u64;
            (*descriptor).len = len as u32;
        }
    }

    /// Copies `len` bytes from one frame to another, each given by its number and how far in it. Nothing where they do
    /// not lie within their frames.
    ///
    /// # Safety
    /// The caller owns both frames, which are not the same.
    pub(crate) unsafe fn copy(&self, to: (u32, usize), from: (u32, usize), len: usize) {
        let size = self.frame_size as usize;
        if to.1 + len > size || from.1 + len > size || to.0 == from.0 {
            return;
        }
        debug_assert!(to.0 < self.all() && from.0 < self.all());
        let at = |(frame, offset): (u32, usize)| frame as usize * size + offset;
        // SAFETY: both ranges lie in frames of the caller, and the frames are different.
        unsafe {
            let (to, from) = (self.region.ptr().add(at(to)), self.region.ptr().add(at(from)));
            to.copy_from_nonoverlapping(from, len);
        }
    }

    /// How far in its frame a packet begins.
    ///
    /// # Safety
    /// The caller owns the frame, and it holds a packet.
    pub(crate) unsafe fn offset(&self, frame: u32) -> usize {
        // SAFETY: the descriptor is the caller's.
        let address = unsafe { (*self.descriptor(frame)).addr };
        (address - u64::from(frame) * u64::from(self.frame_size)) as usize
    }

    /// Copies the metadata of one frame to another.
    ///
    /// # Safety
    /// The caller owns both frames, which are not the same.
    pub(crate) unsafe fn copy_metadata(&self, to: u32, from: u32) {
        debug_assert!(to != from);
        // SAFETY: both are the caller's, and the metadata of different frames does not overlap.
        unsafe {
            self.metadata(to).copy_from_nonoverlapping(self.metadata(from), self.metadata_size.load(Ordering::Relaxed))
        };
    }

    /// Zeroes the frame's metadata but for `rx.port`.
    ///
    /// # Safety
    /// The caller owns the frame.
    pub(crate) unsafe fn reset_metadata(&self, frame: u32, rx_port_offset: usize, rx_port: u8) {
        let size = self.metadata_size.load(Ordering::Relaxed);
        debug_assert!(rx_port_offset < size);
        // SAFETY: the metadata is `metadata_size` bytes and the caller's.
        unsafe {
            let metadata = self.metadata(frame);
            metadata.write_bytes(0, size);
            metadata.add(rx_port_offset).write(rx_port);
        }
    }
}

//! What workers and one controller exchange: packets on their way to it and packets that it injects.
//!
//! A frame moves as a number and is in one place only. Each worker has a ring of its own in either direction, with a place for
//! every frame that may be under way, so a push never fails once a frame is granted:
//!
//! * A worker's packet counts against [`Rings::punts`] from the worker's push until the controller lets go of it; where that
//!   is used up the packet is dropped as `controller_busy`.
//! * A packet to be injected counts against [`Rings::spare`] until a worker takes it.
//!
//! Both come out of frames that the workers do not count on, so a controller that is slow, or keeps packets, can't starve
//! forwarding. Frames that the controller has no use for just now lie at hand ([`Spare`]), so that the pool's lock is taken once
//! for many packets.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;

use baker::ir::{ChannelId, DropId};
use crossbeam_queue::ArrayQueue;

use super::spare::Spare;
use crate::frames::FramePool;
use crate::sys::Doorbell;

/// A frame with the channel that its packet was put to, or is to enter by.
#[derive(Clone, Copy, Debug)]
pub struct Carried {
    /// The frame.
    pub frame: u32,
    /// The channel.
    pub channel: ChannelId,
}

/// One worker's side.
#[derive(Debug)]
struct Lane {
    punted: ArrayQueue<Carried>,
    /// Packets of this worker that are in `punted` or with the controller.
    held: AtomicU32,
    injected: ArrayQueue<Carried>,
    doorbell: Arc<Doorbell>,
    /// Packets that were injected since the doorbell was rung.
    unrung: AtomicU32,
}

/// Packets at most that wait for the doorbell while the controller works on others.
const UNRUNG: u32 = 16;

/// The rings between all workers and one controller.
#[derive(Debug)]
pub struct Rings {
    pool: Arc<FramePool>,
    lanes: Vec<Lane>,
    /// Packets of one worker that may be with the controller.
    punts: u32,
    /// Frames for packets that the controller injects.
    spare: Spare,
    /// Packets that the controller has on their way to workers.
    injecting: AtomicU32,
    /// The controller's thread, once it runs.
    reader: OnceLock<Thread>,
    gone: AtomicBool,
    stopping: AtomicBool,
    /// Whether [`Rings::ring`] follows what is injected.
    rings_late: AtomicBool,
}

impl Rings {
    /// Rings for workers with these doorbells, over `frames` frames of the pool.
    pub fn new(pool: Arc<FramePool>, frames: u32, doorbells: &[Arc<Doorbell>]) -> Self {
        let injections = (frames / 2).max(1);
        let punts = ((frames - injections.min(frames)) / doorbells.len().max(1) as u32).max(1);
        let lane = |doorbell: &Arc<Doorbell>| Lane {
            punted: ArrayQueue::new(punts as usize),
            held: AtomicU32::new(0),
            injected: ArrayQueue::new(injections as usize),
            doorbell: doorbell.clone(),
            unrung: AtomicU32::new(0),
        };
        Rings {
            lanes: doorbells.iter().map(lane).collect(),
            pool,
            punts,
            spare: Spare::new(injections),
            injecting: AtomicU32::new(0),
            reader: OnceLock::new(),
            gone: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            rings_late: AtomicBool::new(false),
        }
    }

    /// The frames that `new` needs at least for so many workers: one in either direction.
    pub fn least(workers: usize) -> u32 {
        workers as u32 + 1
    }

    /// The frames.
    pub fn pool(&self) -> &Arc<FramePool> {
        &self.pool
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.lanes.len()
    }

    // The worker's side.

    /// Hands a packet of a worker to the controller, or says why it is dropped. [`Rings::wake`] must follow.
    pub fn punt(&self, worker: usize, packet: Carried) -> Result<(), DropId> {
        if self.gone.load(Ordering::Relaxed) {
            return Err(DropId::CONTROLLER_GONE);
        }
        let lane = &self.lanes[worker];
        // Only this worker adds, so nothing is added in between.
        if lane.held.load(Ordering::Relaxed) >= self.punts {
            return Err(DropId::CONTROLLER_BUSY);
        }
        lane.held.fetch_add(1, Ordering::Relaxed);
        // There is a place for every packet that may be held.
        lane.punted.push(packet).map_err(|_| {
            lane.held.fetch_sub(1, Ordering::Relaxed);
            DropId::CONTROLLER_BUSY
        })
    }

    /// Wakes the controller.
    pub fn wake(&self) {
        if let Some(reader) = self.reader.get() {
            reader.unpark();
        }
    }

    /// The next packet to be run on this worker, which it then owns.
    pub fn take_injected(&self, worker: usize) -> Option<Carried> {
        let packet = self.lanes[worker].injected.pop()?;
        self.spare.leave(1);
        self.injecting.fetch_sub(1, Ordering::Release);
        Some(packet)
    }

    /// Whether a packet waits to be run on this worker.
    pub fn has_injected(&self, worker: usize) -> bool {
        !self.lanes[worker].injected.is_empty()
    }

    /// Whether nothing is under way in either direction.
    pub fn is_quiet(&self) -> bool {
        self.injecting.load(Ordering::Acquire) == 0
            && self.lanes.iter().all(|lane| lane.held.load(Ordering::Acquire) == 0)
    }

    // The controller's side.

    /// Says which thread is to be woken.
    pub fn set_reader(&self, thread: Thread) {
        // Set once, when the thread starts.
        let _ = self.reader.set(thread);
    }

    /// The next packet of a worker, which the controller then holds.
    pub fn take_punted(&self, worker: usize) -> Option<Carried> {
        self.lanes[worker].punted.pop()
    }

    /// Takes back a packet that the controller held.
    pub fn release(&self, worker: usize, frame: u32) {
        self.spare.put_back(&self.pool, frame);
        self.lanes[worker].held.fetch_sub(1, Ordering::Release);
    }

    /// A frame for a packet to be injected; none where too many are under way.
    pub fn frame(&self) -> Option<u32> {
        if self.gone.load(Ordering::Relaxed) {
            return None;
        }
        let frame = self.spare.take(&self.pool)?;
        self.injecting.fetch_add(1, Ordering::Relaxed);
        Some(frame)
    }

    /// Hands a packet in a frame of [`Rings::frame`] to a worker.
    pub fn inject(&self, worker: usize, packet: Carried) {
        let lane = &self.lanes[worker];
        if lane.injected.push(packet).is_err() {
            // There is a place for every packet that may be under way.
            self.spare.leave(1);
            self.spare.put_back(&self.pool, packet.frame);
            self.injecting.fetch_sub(1, Ordering::Release);
            return;
        }
        let waits = self.rings_late.load(Ordering::Relaxed) && lane.unrung.fetch_add(1, Ordering::Relaxed) + 1 < UNRUNG;
        if !waits {
            lane.unrung.store(0, Ordering::Relaxed);
            lane.doorbell.ring();
        }
    }

    /// From now on workers are woken for what is injected where many packets wait, or by [`Rings::ring`].
    pub fn ring_late(&self) {
        self.rings_late.store(true, Ordering::Relaxed);
    }

    /// Wakes the workers that have something to run.
    pub fn ring(&self) {
        for lane in &self.lanes {
            if lane.unrung.swap(0, Ordering::Relaxed) > 0 {
                lane.doorbell.ring();
            }
        }
    }

    // Beginning and end.

    /// Tells the controller to end.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake();
    }

    /// Whether it is to end.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Says that one of the two sides has ended: packets for the controller are dropped from now on, and it injects none.
    pub fn close(&self) {
        self.gone.store(true, Ordering::Release);
    }

    /// Says that the controller is there again.
    pub fn open(&self) {
        self.gone.store(false, Ordering::Release);
    }

    /// Gives back the spare frames and those of all packets in the rings, when the workers and the controller have ended; how many.
    pub fn drain(&self) -> u64 {
        let mut packets = 0;
        for worker in 0..self.workers() {
            while let Some(Carried { frame, .. }) = self.take_punted(worker) {
                self.release(worker, frame);
                packets += 1;
            }
            while let Some(Carried { frame, .. }) = self.take_injected(worker) {
                self.spare.put_back(&self.pool, frame);
                packets += 1;
            }
        }
        self.spare.empty(&self.pool);
        packets
    }
}

//! What workers and one link of a controller exchange: packets on their way to it and packets that it injects.
//!
//! A frame moves as a number and is in one place only. Each worker has a ring of its own in either direction, with a
//! place for every frame that may be under way, so a push never fails once a frame is granted:
//!
//! * A worker's packet counts against [`Rings::punts`] from the worker's push until the controller lets go of it; where
//!   that is used up the packet is dropped as `controller_busy`.
//! * A packet to be injected counts against [`Rings::spare`] until a worker takes it.
//!
//! * A packet that the controller hands on as it is moves from the first count to the second: its frame stays.
//!
//! Both come out of frames that the workers do not count on, so a controller that is slow, or keeps packets, can't
//! starve forwarding. Frames that the controller has no use for just now lie at hand ([`Spare`]), so that the pool's
//! lock is taken once for many packets.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use baker::ir::{ChannelId, DropId, Program};
use crossbeam_queue::ArrayQueue;

use super::loan::{Loan, Worked};
use super::punted::Punted;
use super::signal::Signal;
use super::spare::Spare;
use crate::packets::{FramePool, Holds};
use crate::sys::Doorbell;

/// A frame with the channel that its packet was put to, or is to enter by.
#[derive(Clone, Copy, Debug)]
pub struct Carried {
    /// The frame.
    pub frame: u32,
    /// The channel.
    pub channel: ChannelId,
}

/// The queues between one worker and the controller.
#[derive(Debug)]
struct WorkerQueues {
    punted: ArrayQueue<Carried>,
    /// Packets of this worker that are in `punted` or with the controller.
    held: AtomicU32,
    injected: ArrayQueue<Carried>,
    doorbell: Arc<Doorbell>,
    /// Packets that were injected since the doorbell was rung.
    unrung: AtomicU32,
}

impl Holds for Rings {
    fn frames(&self, _: &mut [bool]) -> u32 {
        let held = self.per_worker.iter().map(|queues| queues.held.load(Ordering::Relaxed));
        held.sum::<u32>() + self.spare.reserved()
    }
}

/// Packets at most that wait for the doorbell while the controller works on others.
const UNRUNG: u32 = 16;
/// How long a worker has the controller work on packets between two batches of its own; the packet that it has is done.
const AT_ONCE: Duration = Duration::from_micros(300);

/// Why a link stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Another program takes over, and [`Controller::run`](super::Controller::run) is called again with a link to that
    /// one.
    TakeOver = 1,
    /// Another program takes over that does not have this controller.
    Removed = 2,
    /// The instance ends.
    End = 3,
}

/// Which link of a controller it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pinning {
    /// The worker whose packets come by it, where each has a link of its own.
    pub worker: Option<usize>,
    /// The CPU that its worker is pinned to.
    pub cpu: Option<usize>,
}

/// A port of the instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// What `rx.port` and `tx.port` say.
    pub number: u8,
    /// Its name.
    pub name: String,
    /// The network interface behind it, where there is one.
    pub interface: Option<String>,
    /// That is an interface of the kernel that leads nowhere else.
    pub is_tap: bool,
    /// Its packets are processed in the kernel as far as the program can run there, so what they change outlasts the
    /// process, where the instance has a state.
    pub in_kernel: bool,
    /// The port that leads to the kernel's stack.
    pub host: Option<u8>,
}

/// The rings between all workers and one link of a controller.
#[derive(Debug)]
pub struct Rings {
    pool: Arc<FramePool>,
    program: Arc<Program>,
    ports: Arc<[PortInfo]>,
    pinning: Pinning,
    per_worker: Vec<WorkerQueues>,
    /// Packets of one worker that may be with the controller.
    punts: u32,
    /// Frames for packets that the controller injects.
    spare: Spare,
    /// Packets that the controller has on their way to workers.
    injecting: AtomicU32,
    /// Wakes the controller.
    signal: Arc<Signal>,
    /// The controller's work, while it waits and workers may do it.
    loan: Loan,
    /// A packet was not injected since there was room last.
    wants_room: AtomicBool,
    /// There is room again, and the controller was not told yet.
    has_room: AtomicBool,
    /// The controller was called for.
    is_called: AtomicBool,
    gone: AtomicBool,
    /// Why it stops; 0: it does not.
    stopping: AtomicU8,
    /// Another link of the same run has failed.
    is_halted: AtomicBool,
    /// Whether [`Rings::ring`] follows what is injected.
    rings_late: AtomicBool,
}

impl Rings {
    /// Rings for workers with these doorbells, over `frames` frames of the pool.
    pub fn new(
        program: Arc<Program>,
        pool: Arc<FramePool>,
        frames: u32,
        doorbells: &[Arc<Doorbell>],
        pinning: Pinning,
    ) -> io::Result<Self> {
        let injections = (frames / 2).max(1);
        let served = if pinning.worker.is_some() { 1 } else { doorbells.len().max(1) };
        let punts = ((frames - injections.min(frames)) / served as u32).max(1);
        let queues = |(worker, doorbell): (usize, &Arc<Doorbell>)| WorkerQueues {
            punted: ArrayQueue::new(if pinning.worker.is_none_or(|own| own == worker) { punts as usize } else { 1 }),
            held: AtomicU32::new(0),
            injected: ArrayQueue::new(injections as usize),
            doorbell: doorbell.clone(),
            unrung: AtomicU32::new(0),
        };
        Ok(Rings {
            per_worker: doorbells.iter().enumerate().map(queues).collect(),
            pool,
            program,
            ports: Arc::default(),
            pinning,
            punts,
            spare: Spare::new(injections),
            injecting: AtomicU32::new(0),
            signal: Signal::new()?,
            loan: Loan::default(),
            wants_room: AtomicBool::new(false),
            has_room: AtomicBool::new(false),
            is_called: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            stopping: AtomicU8::new(0),
            is_halted: AtomicBool::new(false),
            rings_late: AtomicBool::new(false),
        })
    }

    /// The same in an instance with these ports.
    pub fn with_ports(self, ports: Arc<[PortInfo]>) -> Self {
        Rings { ports, ..self }
    }

    /// The ports of the instance.
    pub fn ports(&self) -> &[PortInfo] {
        &self.ports
    }

    /// The frames that a controller needs at least with so many workers: one in either direction, also where each has a
    /// link of its own.
    pub fn least(workers: usize) -> u32 {
        2 * workers as u32
    }

    /// The frames.
    pub fn pool(&self) -> &Arc<FramePool> {
        &self.pool
    }

    /// The program that they are of.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Which link it is.
    pub fn pinning(&self) -> Pinning {
        self.pinning
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.per_worker.len()
    }

    // The worker's side.

    /// Hands a packet of a worker to the controller, or says why it is dropped. [`Rings::wake`] must follow.
    pub fn punt(&self, worker: usize, packet: Carried) -> Result<(), DropId> {
        if self.gone.load(Ordering::Relaxed) {
            return Err(DropId::CONTROLLER_GONE);
        }
        let queues = &self.per_worker[worker];
        // Only this worker adds, so nothing is added in between.
        if queues.held.load(Ordering::Relaxed) >= self.punts {
            return Err(DropId::CONTROLLER_BUSY);
        }
        queues.held.fetch_add(1, Ordering::Relaxed);
        // There is a place for every packet that may be held.
        queues.punted.push(packet).map_err(|_| {
            queues.held.fetch_sub(1, Ordering::Relaxed);
            DropId::CONTROLLER_BUSY
        })
    }

    /// Whether so many packets of a worker lie there that the controller is to be woken for them, where it wants to be
    /// for so many. Where that is more than half of those that can be under way, it is woken for that half: while it
    /// wakes there is a place for others.
    pub fn is_called_for(&self, worker: usize, packets: u32) -> bool {
        self.per_worker[worker].punted.len() >= packets.min(self.punts / 2).max(1) as usize
    }

    /// Whether a packet of a worker waits for the controller.
    pub fn has_punted_of(&self, worker: usize) -> bool {
        !self.per_worker[worker].punted.is_empty()
    }

    /// Wakes the controller, if it waits.
    pub fn wake(&self) {
        self.signal.ring();
    }

    /// Has the controller work on packets of this worker on this thread, where it is lent, for a while; whether it has
    /// on all of them. Else it is to be woken: what is left then is for its own thread.
    pub fn work(self: &Arc<Self>, worker: usize) -> bool {
        let begin = Instant::now();
        let next = || (begin.elapsed() < AT_ONCE).then(|| self.next_punted(worker)).flatten();
        match self.loan.work(&mut std::iter::from_fn(next)) {
            Worked::No => return false,
            Worked::Call => self.call(),
            Worked::Done => {}
        }
        self.ring();
        !self.has_punted_of(worker)
    }

    /// The next packet to be run on this worker, which it then owns.
    pub fn take_injected(&self, worker: usize) -> Option<Carried> {
        let packet = self.per_worker[worker].injected.pop()?;
        self.spare.leave(1);
        self.injecting.fetch_sub(1, Ordering::Release);
        // Either this sees that room is wanted, or the side that wants it sees the frame that has just left: see
        // `frame`.
        if self.wants_room.load(Ordering::SeqCst)
            && self.spare.has_room()
            && self.wants_room.swap(false, Ordering::SeqCst)
        {
            self.has_room.store(true, Ordering::Release);
            self.signal.ring();
        }
        Some(packet)
    }

    /// Whether a packet waits to be run on this worker.
    pub fn has_injected(&self, worker: usize) -> bool {
        !self.per_worker[worker].injected.is_empty()
    }

    /// Whether nothing is under way in either direction.
    pub fn is_quiet(&self) -> bool {
        self.injecting.load(Ordering::Acquire) == 0
            && self.per_worker.iter().all(|queues| queues.held.load(Ordering::Acquire) == 0)
    }

    // The controller's side.

    /// Its work, while it waits.
    pub fn loan(&self) -> &Loan {
        &self.loan
    }

    /// What wakes it.
    pub fn signal(&self) -> &Arc<Signal> {
        &self.signal
    }

    /// Packets that wait for the controller.
    pub fn waiting(&self) -> usize {
        self.per_worker.iter().map(|queues| queues.punted.len()).sum()
    }

    /// Whether a packet of any worker waits for the controller.
    pub fn has_punted(&self) -> bool {
        self.per_worker.iter().any(|queues| !queues.punted.is_empty())
    }

    /// The controller begins: what one before it waited for does not matter.
    pub fn begin(&self) {
        self.wants_room.store(false, Ordering::SeqCst);
        self.has_room.store(false, Ordering::Release);
    }

    /// Has the controller woken, by another of its threads.
    pub fn call(&self) {
        self.is_called.store(true, Ordering::Release);
        self.signal.ring();
    }

    /// Whether it was called, once for all calls.
    pub fn take_call(&self) -> bool {
        self.is_called.load(Ordering::Relaxed) && self.is_called.swap(false, Ordering::Acquire)
    }

    /// Whether it waits for room.
    pub fn wants_room(&self) -> bool {
        self.wants_room.load(Ordering::Relaxed)
    }

    /// Has it try again, whether there is room or not.
    pub fn give_room(&self) {
        self.wants_room.store(false, Ordering::SeqCst);
        self.has_room.store(true, Ordering::Release);
    }

    /// Whether there is room again, once.
    pub fn take_room(&self) -> bool {
        self.has_room.load(Ordering::Relaxed) && self.has_room.swap(false, Ordering::Acquire)
    }

    /// Whether the controller would find something.
    pub fn is_ready(&self) -> bool {
        self.has_punted() || self.has_room.load(Ordering::Relaxed) || self.is_called.load(Ordering::Relaxed)
    }

    /// The next packet of a worker, for the controller, which holds it until it is dropped.
    pub fn next_punted(self: &Arc<Self>, worker: usize) -> Option<Punted> {
        Some(Punted::new(self.clone(), worker, self.take_punted(worker)?))
    }

    /// The next packet of a worker, which the controller then holds.
    pub fn take_punted(&self, worker: usize) -> Option<Carried> {
        self.per_worker[worker].punted.pop()
    }

    /// Takes back a packet that the controller held.
    pub fn release(&self, worker: usize, frame: u32) {
        self.spare.put_back(&self.pool, frame);
        self.per_worker[worker].held.fetch_sub(1, Ordering::Release);
    }

    /// A frame for a packet to be injected; none where too many are under way. Then the controller is told when there
    /// is room.
    pub fn frame(&self) -> Option<u32> {
        let frame = self.or_wants_room(|| self.spare.take(&self.pool))?;
        self.injecting.fetch_add(1, Ordering::Relaxed);
        Some(frame)
    }

    /// Makes the frame of a packet that the controller has from these rings or others of the same pool one to be
    /// injected; whether there was room.
    pub fn hand_on(&self, from: &Rings, worker: usize) -> bool {
        if self.or_wants_room(|| self.spare.reserve_own(&self.pool).then_some(())).is_none() {
            return false;
        }
        self.injecting.fetch_add(1, Ordering::Relaxed);
        from.per_worker[worker].held.fetch_sub(1, Ordering::Release);
        true
    }

    /// Tries twice, the second time when it is known that room is wanted: what leaves before is found then, and what
    /// leaves later finds that. All of it is sequentially consistent, with the count of frames.
    fn or_wants_room<T>(&self, attempt: impl Fn() -> Option<T>) -> Option<T> {
        if self.is_gone() {
            return None;
        }
        attempt().or_else(|| {
            self.wants_room.store(true, Ordering::SeqCst);
            attempt()
        })
    }

    /// Hands a packet in a frame of [`Rings::frame`] or [`Rings::hand_on`] to a worker.
    pub fn inject(&self, worker: usize, packet: Carried) {
        let queues = &self.per_worker[worker];
        if !self.push(queues, packet) {
            return;
        }
        let waits =
            self.rings_late.load(Ordering::Relaxed) && queues.unrung.fetch_add(1, Ordering::Relaxed) + 1 < UNRUNG;
        if !waits {
            queues.unrung.store(0, Ordering::Relaxed);
            queues.doorbell.ring();
        }
    }

    /// As [`Rings::inject`] where more follow: the worker is woken for some of them at once. [`Rings::injected`] must
    /// follow.
    pub fn inject_more(&self, worker: usize, packet: Carried) {
        let queues = &self.per_worker[worker];
        if self.push(queues, packet) && queues.unrung.fetch_add(1, Ordering::Relaxed) + 1 >= UNRUNG {
            queues.unrung.store(0, Ordering::Relaxed);
            queues.doorbell.ring();
        }
    }

    /// Wakes a worker for the last packets of [`Rings::inject_more`].
    pub fn injected(&self, worker: usize) {
        if !self.rings_late.load(Ordering::Relaxed) {
            self.ring_lane(&self.per_worker[worker]);
        }
    }

    /// There is a place for every packet that may be under way.
    fn push(&self, queues: &WorkerQueues, packet: Carried) -> bool {
        let pushed = queues.injected.push(packet).is_ok();
        if !pushed {
            self.spare.leave(1);
            self.spare.put_back(&self.pool, packet.frame);
            self.injecting.fetch_sub(1, Ordering::Release);
        }
        pushed
    }

    /// From now on workers are woken for what is injected where many packets wait, or by [`Rings::ring`].
    pub fn ring_late(&self) {
        self.rings_late.store(true, Ordering::Relaxed);
    }

    /// Wakes the workers that have something to run.
    pub fn ring(&self) {
        self.per_worker.iter().for_each(|queues| self.ring_lane(queues));
    }

    fn ring_lane(&self, queues: &WorkerQueues) {
        if queues.unrung.swap(0, Ordering::Relaxed) > 0 {
            queues.doorbell.ring();
        }
    }

    // Beginning and end.

    /// Tells the controller to end.
    pub fn stop(&self, why: Stop) {
        self.stopping.store(why as u8, Ordering::Release);
        self.wake();
    }

    /// Why it is to end, if it is.
    pub fn stopping(&self) -> Option<Stop> {
        match self.stopping.load(Ordering::Acquire) {
            0 => None,
            1 => Some(Stop::TakeOver),
            2 => Some(Stop::Removed),
            _ => Some(Stop::End),
        }
    }

    /// Ends this run of the controller, because another link of it has failed.
    pub fn halt(&self) {
        self.is_halted.store(true, Ordering::Release);
        self.wake();
    }

    /// Whether it is to return because of that.
    pub fn is_halted(&self) -> bool {
        self.is_halted.load(Ordering::Acquire)
    }

    /// Whether [`Rings::close`] was called.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// Says that one of the two sides has ended: packets for the controller are dropped from now on, and it injects
    /// none.
    pub fn close(&self) {
        self.gone.store(true, Ordering::Release);
    }

    /// Says that the controller is there again.
    pub fn open(&self) {
        self.is_halted.store(false, Ordering::Release);
        self.gone.store(false, Ordering::Release);
    }

    /// Gives back the spare frames and those of all packets in the rings, when the workers and the controller have
    /// ended; how many.
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

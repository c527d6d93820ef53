//! A worker: a pinned thread that runs to completion.
//!
//! For one port after the other: receive a batch, run the engine over it, hand each packet that left the program to the
//! port it goes to, send. So everything that was received is sent or counted as dropped before the next batch, and the
//! packets of a port stay in order. The loop neither allocates nor locks.

mod ring;

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use codegen::kernel::ARMED_SOON;

use super::handover::{DoneReply, Handover, Order};
use super::running::{Ports, Running, WorkerPort, add};
use crate::controller::Exchange;
use crate::counters::WorkerCounters;
use crate::packets::{Access, Received, RxBatch, Segments};
use crate::sys::{self, Doorbell};
use crate::xdp::{Resume, TapRing};

/// What a worker does when no port has a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollMode {
    /// Asks again at once: least latency, one CPU fully used.
    Busy,
    /// Sleeps until a port has a packet.
    Interrupt,
}

/// Between two looks at the stop request and the kernel's counters.
const TICK: Duration = Duration::from_millis(100);
/// Longest sleep, so that a stop request is seen soon.
const SLEEP: Duration = Duration::from_millis(10);
/// Longest sleep of a worker that has a ring of the kernel's, which wakes it for many copies at a time, and for
/// deadlines only where they are nearer than [`ARMED_SOON`].
const RING_SLEEP: Duration = Duration::from_millis(5);
const _: () = assert!(RING_SLEEP.as_nanos() < ARMED_SOON as u128);
/// Sleep where waiting does not work because of an error at a port.
const ERROR_PAUSE: Duration = Duration::from_millis(1);
/// Loops between two looks at the clock.
const LOOPS_PER_CLOCK: u32 = 256;
/// Batches per port that are still taken from the ports' rings on a stop request.
const DRAIN_BATCHES: usize = 128;
/// How long a worker whose ports have finished waits for controllers that hold packets.
const CONTROLLERS_PATIENCE: Duration = Duration::from_secs(2);

/// Keep running.
pub const RUN: u8 = 0;
/// Stop when every port is finished.
pub const FINISH: u8 = 1;
/// Stop now.
pub const STOP: u8 = 2;

fn readable(fd: RawFd) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}

/// Everything that one worker thread owns.
pub struct Worker {
    ports: Ports,
    now: Box<Running>,
    /// The program before, while it has packets to finish.
    old: Option<Box<Running>>,
    /// By which copies come that the kernel has made, and deadlines that it has set.
    ring: Option<Arc<TapRing>>,
    /// What is still to be done with the first packet there.
    segments: Option<Segments>,
    to_drain: Option<Draining>,
    handover: Arc<Handover>,
    doorbell: Arc<Doorbell>,
    mode: PollMode,
    /// What to wait for, made once.
    wait: Vec<libc::pollfd>,
    counters: Arc<WorkerCounters>,
}

/// What a worker empties its rings of.
struct Draining {
    /// Packets that may still be there of what they held when the worker was told to.
    left: u32,
    /// Where in the ring of copies they end.
    copies: u64,
    reply: DoneReply,
}

impl Worker {
    /// A worker with its first program.
    pub fn new(
        ports: Ports,
        mut program: Running,
        handover: Arc<Handover>,
        doorbell: Arc<Doorbell>,
        mode: PollMode,
        counters: Arc<WorkerCounters>,
    ) -> Self {
        let ring = program.ring.take();
        let wait = ports.wait_fds().chain([doorbell.fd()]).map(readable).collect();
        let mut worker = Worker {
            ports,
            now: Box::new(program),
            old: None,
            ring: None,
            segments: None,
            to_drain: None,
            handover,
            doorbell,
            mode,
            wait,
            counters,
        };
        worker.use_ring(ring);
        worker
    }

    /// The kernel tells something by this ring, from now on and for good.
    fn use_ring(&mut self, ring: Option<Arc<TapRing>>) {
        if let (None, Some(ring)) = (&self.ring, ring) {
            self.wait.push(readable(ring.fd()));
            self.ring = Some(ring);
        }
    }

    /// Runs until it is told to stop, then takes what the ports hold already, closes them and returns all frames.
    /// The result lists what went wrong at the ports.
    pub fn run(mut self, control: &AtomicU8) -> Vec<String> {
        sys::wake_on_time();
        let mut last_tick = Instant::now();
        let mut finished_since = None;
        let mut loops = 0;
        loop {
            let stop = control.load(Ordering::Relaxed);
            if stop == STOP {
                break;
            }
            if let Some((order, reply)) = self.handover.orders.take() {
                self.obey(order, reply);
            }
            let mut worked = self.round();
            if self.now.timers.as_ref().is_some_and(|timers| timers.schedule.is_sweeping()) {
                worked |= self.now.run_timers(&mut self.ports);
            }
            worked |= self.now.run_deadlines(&mut self.ports);
            worked |= self.now.run_queues(&mut self.ports);
            worked |= self.now.run_groups(&mut self.ports);
            if self.serve_controllers() {
                worked = true;
                // That took longer than a loop does.
                loops = LOOPS_PER_CLOCK;
            }
            worked |= self.now.wake_controllers();
            self.old.iter_mut().for_each(|old| worked |= old.wake_controllers());
            WorkerCounters::add(&self.counters.rounds, 1);
            if !worked {
                WorkerCounters::add(&self.counters.idle, 1);
                let is_over = |port: &WorkerPort| port.queue.finished();
                if stop == FINISH && self.now.held() == 0 && self.ports.all.iter().all(is_over) {
                    let since = *finished_since.get_or_insert_with(Instant::now);
                    if self.exchanges().all(Exchange::is_quiet) || since.elapsed() >= CONTROLLERS_PATIENCE {
                        break;
                    }
                }
                self.idle();
            }
            loops += 1;
            // A sleeping worker loops rarely, a busy one so often that even the clock would cost.
            if loops >= LOOPS_PER_CLOCK || (!worked && self.mode == PollMode::Interrupt) {
                loops = 0;
                self.now.run_timers(&mut self.ports);
                if last_tick.elapsed() >= TICK {
                    last_tick = Instant::now();
                    self.tick();
                }
            }
        }
        for _ in 0..DRAIN_BATCHES {
            if !(self.round() | self.now.run_groups(&mut self.ports)) {
                break;
            }
        }
        self.tick();
        let close = |port: &mut WorkerPort| {
            let result = port.queue.close();
            result.err().map(|error| {
                port.counters.set_error(Some(&error));
                format!("port {}: {error}", port.name)
            })
        };
        self.ports.all.iter_mut().filter_map(close).collect()
    }

    /// What it has of the controllers of its programs.
    fn exchanges(&self) -> impl Iterator<Item = &Exchange> {
        [Some(&self.now), self.old.as_ref()].into_iter().flatten().filter_map(|running| running.exchange.as_ref())
    }

    /// Has controllers that are lent work on the packets that they got; whether there was one.
    fn serve_controllers(&mut self) -> bool {
        if !self.exchanges().any(Exchange::has_work) {
            return false;
        }
        // What they change in tables may have to wait for look-ups to end.
        self.now.context.offline();
        self.old.iter().for_each(|old| old.context.offline());
        [Some(&mut self.now), self.old.as_mut()].into_iter().flatten().for_each(|running| running.serve_controllers());
        true
    }

    fn obey(&mut self, order: Order, reply: DoneReply) {
        match order {
            Order::TakeOver(mut new) => {
                new.take_over(&mut self.now);
                self.use_ring(new.ring.take());
                self.old = Some(std::mem::replace(&mut self.now, new));
                reply.answer(None);
            }
            Order::Drain => {
                self.ports.all.iter_mut().for_each(|port| port.is_drained = !port.fast);
                let copies = self.ring.as_ref().map_or(0, |ring| ring.written());
                self.to_drain = Some(Draining { left: self.ports.pool.count(), copies, reply });
                self.note_drained();
            }
            Order::Release => {
                self.old.iter_mut().for_each(|old| self.now.take_grouped(old));
                reply.answer(self.old.take());
            }
        }
    }

    /// Answers where the rings were emptied.
    fn note_drained(&mut self) {
        let are_drained = self.ports.all.iter().all(|port| port.is_drained);
        let read = self.ring.as_ref().map_or(0, |ring| ring.read());
        let is_drained = |rest: &mut Draining| (rest.left == 0 || are_drained) && read >= rest.copies;
        if let Some(drained) = self.to_drain.take_if(is_drained) {
            drained.reply.answer(None);
        }
    }

    /// One batch from the controllers, one of copies from the kernel, and one from every port. Whether there was any
    /// packet.
    fn round(&mut self) -> bool {
        let mut worked = false;
        // A controller injects for the old program before it does for the new one: so what is there for the new one now
        // comes behind all that is there for the old one afterwards.
        let injected = self.now.has_injected();
        if let Some(old) = &mut self.old {
            worked |= old.run_injected(&mut self.ports);
            // Nothing is left there for when the old program ends.
            self.now.take_grouped(old);
        }
        if injected && !self.old.as_ref().is_some_and(|old| old.has_injected()) {
            worked |= self.now.run_injected(&mut self.ports);
        }
        worked |= self.run_ring();
        for index in 0..self.ports.all.len() {
            self.now.context.quiescent();
            self.old.iter().for_each(|old| old.context.quiescent());
            let port = &mut self.ports.all[index];
            let mut received = Received::default();
            let mut batch = RxBatch::new(&mut self.now.context, &mut received, port.number);
            let room = batch.room();
            port.queue.receive(&mut batch);
            let (packets, bytes, oversize) = batch.totals();
            add(&port.counters.oversize, oversize);
            if packets == 0 {
                port.is_drained |= room > 0 && oversize == 0;
                continue;
            }
            worked = true;
            WorkerCounters::add(&self.counters.packets, packets);
            let access = port.access;
            if port.fast {
                if let Some(draining) = &mut self.to_drain {
                    draining.left = draining.left.saturating_sub(packets as u32);
                }
                self.resume(received.frames(), access);
            } else {
                add(&port.counters.rx_packets, packets);
                add(&port.counters.rx_bytes, bytes);
                let number = port.number;
                // SAFETY: the batch has just been received.
                unsafe { self.ports.capture(number, received.frames()) };
                self.now.run(&mut self.ports, received.frames(), access);
            }
        }
        if self.to_drain.is_some() {
            self.note_drained();
        }
        worked
    }

    /// Goes on with a batch that the kernel handed over, each packet by the program whose part in the kernel did so.
    fn resume(&mut self, frames: &[u32], access: Access) {
        let Some(old) = &mut self.old else { return self.now.go_on(&mut self.ports, frames, access) };
        let (pool, generation) = (self.ports.pool.clone(), old.generation);
        let is_old = |frame: &u32| Resume::generation(&pool, *frame) == Some(generation);
        for run in frames.chunk_by(|a, b| is_old(a) == is_old(b)) {
            if run.first().is_some_and(is_old) {
                old.resume_late(&mut self.ports, run, access);
            } else {
                self.now.go_on(&mut self.ports, run, access);
            }
        }
    }

    /// No port had a packet.
    fn idle(&mut self) {
        match self.mode {
            PollMode::Busy => std::hint::spin_loop(),
            PollMode::Interrupt => {
                let ready = |port: &WorkerPort| port.queue.wait_fd().is_none() && !port.queue.finished();
                if self.ports.all.iter().any(ready) {
                    return;
                }
                let left = |due: u64| Duration::from_nanos(due.saturating_sub(sys::monotonic_ns()));
                let most = if self.ring.is_some() { RING_SLEEP } else { SLEEP };
                let controllers = self.exchanges().filter_map(Exchange::next_due);
                let due = self.now.next_due().into_iter().chain(controllers).min();
                let time = due.map_or(most, |due| left(due).min(most));
                self.now.context.offline();
                self.old.iter().for_each(|old| old.context.offline());
                // Only controllers are in a hurry.
                let rings = self.exchanges().next().is_some();
                WorkerCounters::add(&self.counters.sleeps, 1);
                if rings {
                    self.doorbell.sleep();
                }
                let injected = self.exchanges().any(Exchange::has_injected);
                if sys::poll(&mut self.wait, if injected { Duration::ZERO } else { time }) {
                    // Such as a device that was removed: the others go on, and that must not take a CPU.
                    std::thread::sleep(ERROR_PAUSE);
                }
                if rings {
                    self.doorbell.wake_up();
                }
            }
        }
    }

    fn tick(&mut self) {
        self.handover.see();
        self.counters.cpu_ns.store(sys::thread_cpu_ns(), Ordering::Relaxed);
        if let Some(ring) = &self.ring {
            self.counters.ring_bytes.store(ring.waiting(), Ordering::Relaxed);
            self.counters.ring_size.store(ring.size(), Ordering::Relaxed);
        }
        for port in &mut self.ports.all {
            port.queue.tick(&port.counters);
            port.counters.set_depth(port.queue.depth());
        }
    }
}

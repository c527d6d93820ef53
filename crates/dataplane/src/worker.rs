//! A worker: a pinned thread that runs to completion.
//!
//! For one port after the other: receive a batch, run the engine over it, hand each packet that left the program to the
//! port it goes to, send. So everything that was received is sent or counted as dropped before the next batch, and the
//! packets of a port stay in order. The loop neither allocates nor locks.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use baker::ir::{ChannelId, CounterSlots, DropId, Program};
use codegen::abi::{END_CHANNEL, END_HOST, END_TX, MAX_BATCH, Output};

use crate::access::{Access, LocalMemory};
use crate::context::{Received, RxBatch, TxBatch, WorkerContext};
use crate::controller::Exchange;
use crate::counters::PortCounters;
use crate::engine::{Engine, TableAccess};
use crate::frames::FramePool;
use crate::ports::Queue;
use crate::sys;
use crate::timer::Schedule;
use crate::xdp::{FastPath, Onward};

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
const SLEEP_MS: i32 = 10;
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

/// Port number of no port.
const NO_PORT: u16 = u16::MAX;

/// A port as its worker sees it.
pub struct WorkerPort {
    pub name: String,
    pub number: u8,
    /// How its packets are got at.
    pub access: Access,
    pub queue: Box<dyn Queue>,
    pub counters: Arc<PortCounters>,
    /// The interface counts its packets, and what comes in was handed over by the kernel's part of the program.
    fast: bool,
    /// Frames to send, with room for a whole batch's outputs.
    tx: Vec<u32>,
}

impl WorkerPort {
    pub fn new(
        name: String,
        number: u8,
        access: Access,
        queue: Box<dyn Queue>,
        counters: Arc<PortCounters>,
    ) -> Self {
        let fast = queue.count().is_some();
        WorkerPort { name, number, access, queue, counters, fast, tx: Vec::new() }
    }
}

/// Everything that one worker thread owns.
pub struct Worker {
    context: WorkerContext,
    /// That of the context.
    pool: Arc<FramePool>,
    engine: Box<dyn Engine>,
    ports: Vec<WorkerPort>,
    /// Index into `ports` by port number.
    by_number: [u16; 256],
    /// Number of the host port by the number of the port of entry.
    host_of: [Option<u8>; 256],
    slots: CounterSlots,
    /// The program reads the clock.
    uses_time: bool,
    mode: PollMode,
    /// What to wait for, made once.
    wait: Vec<libc::pollfd>,
    /// Where the program has controllers.
    exchange: Option<Exchange>,
    /// Where this worker runs the program's timers.
    timers: Option<Timers>,
    /// Where the kernel runs a part of the program.
    fast_path: Option<Arc<FastPath>>,
    /// Where packets of a port are not worked on where they lie.
    local: Option<LocalMemory>,
}

/// What runs timers.
pub struct Timers {
    pub schedule: Schedule,
    pub tables: TableAccess,
}

/// What a worker has besides its ports.
pub struct Equipment {
    pub exchange: Option<Exchange>,
    pub timers: Option<Timers>,
    pub fast_path: Option<Arc<FastPath>>,
    pub local: Option<LocalMemory>,
}

impl Worker {
    pub fn new(
        program: &Program,
        context: WorkerContext,
        engine: Box<dyn Engine>,
        mut ports: Vec<WorkerPort>,
        host_of: [Option<u8>; 256],
        mode: PollMode,
        equipment: Equipment,
    ) -> Self {
        let Equipment { exchange, timers, fast_path, local } = equipment;
        let mut by_number = [NO_PORT; 256];
        for (index, port) in ports.iter_mut().enumerate() {
            by_number[port.number as usize] = index as u16;
            port.tx.reserve_exact(MAX_BATCH * (program.limits.copies as usize + 1));
        }
        let wait = |fd: RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let doorbell = exchange.as_ref().map(|exchange| exchange.doorbell().fd());
        let wait = ports.iter().filter_map(|port| port.queue.wait_fd()).chain(doorbell).map(wait).collect();
        let slots = CounterSlots::new(program);
        let uses_time = program.uses_time();
        let pool = context.pool().clone();
        Worker {
            context,
            pool,
            engine,
            ports,
            by_number,
            host_of,
            slots,
            uses_time,
            mode,
            wait,
            exchange,
            timers,
            fast_path,
            local,
        }
    }

    /// Runs until it is told to stop, then takes what the ports hold already, closes them and returns all frames.
    /// The result lists what went wrong at the ports.
    pub fn run(mut self, control: &AtomicU8) -> Vec<String> {
        let mut last_tick = Instant::now();
        let mut finished_since = None;
        let mut loops = 0;
        loop {
            let stop = control.load(Ordering::Relaxed);
            if stop == STOP {
                break;
            }
            let mut worked = self.round();
            if self.timers.as_ref().is_some_and(|timers| timers.schedule.is_sweeping()) {
                worked |= self.run_timers();
            }
            if !worked {
                if stop == FINISH && self.ports.iter().all(|port| port.queue.finished()) {
                    let since = *finished_since.get_or_insert_with(Instant::now);
                    let quiet = self.exchange.as_ref().is_none_or(Exchange::is_quiet);
                    if quiet || since.elapsed() >= CONTROLLERS_PATIENCE {
                        break;
                    }
                }
                self.idle();
            }
            loops += 1;
            // A sleeping worker loops rarely, a busy one so often that even the clock would cost.
            if loops >= LOOPS_PER_CLOCK || (!worked && self.mode == PollMode::Interrupt) {
                loops = 0;
                self.run_timers();
                if last_tick.elapsed() >= TICK {
                    last_tick = Instant::now();
                    self.tick();
                }
            }
        }
        for _ in 0..DRAIN_BATCHES {
            if !self.round() {
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
        self.ports.iter_mut().filter_map(close).collect()
    }

    /// One batch from the controllers and one from every port. Whether there was any packet.
    fn round(&mut self) -> bool {
        let mut worked = self.exchange.as_ref().is_some_and(Exchange::has_injected) && self.run_injected();
        for index in 0..self.ports.len() {
            self.context.quiescent();
            let port = &mut self.ports[index];
            let mut received = Received::default();
            let mut batch = RxBatch::new(&mut self.context, &mut received, port.number);
            port.queue.receive(&mut batch);
            let (packets, bytes, oversize) = batch.totals();
            add(&port.counters.oversize, oversize);
            if packets == 0 {
                continue;
            }
            worked = true;
            let (fast, access) = (port.fast, port.access);
            if !fast {
                add(&port.counters.rx_packets, packets);
                add(&port.counters.rx_bytes, bytes);
            }
            if self.uses_time {
                self.context.set_now(sys::monotonic_ns());
            }
            if fast {
                self.resume(received.frames(), access);
            } else {
                self.process(Program::RX, received.frames(), access);
            }
            self.dispatch();
            self.flush();
        }
        worked
    }

    /// Goes on with a batch that the kernel handed over, in its order.
    fn resume(&mut self, frames: &[u32], access: Access) {
        let Some(path) = self.fast_path.clone() else { return };
        let (mut ready, mut count, mut by) = ([0; MAX_BATCH], 0, None);
        for &frame in frames {
            let onward = path.resume().take(&self.pool, frame);
            let channel = if let Some(Onward::GoesOn(channel)) = onward { Some(channel) } else { None };
            if let Some(before) = by.filter(|_| by != channel) {
                self.process(before, &ready[..count], access);
                count = 0;
            }
            by = channel;
            match onward {
                Some(Onward::GoesOn(_)) => {
                    ready[count] = frame;
                    count += 1;
                }
                Some(Onward::Leaves(end)) => self.context.output(Output { frame, end }),
                None => self.drop_output(frame, DropId::NO_WORKER),
            }
        }
        if let Some(channel) = by {
            self.process(channel, &ready[..count], access);
        }
    }

    /// A batch of what controllers inject, for which there are frames for all copies; whether there was a packet.
    fn run_injected(&mut self) -> bool {
        self.context.quiescent();
        if self.uses_time {
            self.context.set_now(sys::monotonic_ns());
        }
        let (mut frames, mut count, mut entry) = ([0; MAX_BATCH], 0, None);
        let mut worked = false;
        for _ in 0..self.context.capacity() {
            let Some(carried) = self.exchange.as_mut().and_then(Exchange::take_injected) else { break };
            worked = true;
            if let Some(channel) = entry.filter(|entry| *entry != carried.channel) {
                self.process(channel, &frames[..count], Access::InPlace);
                count = 0;
            }
            entry = Some(carried.channel);
            frames[count] = carried.frame;
            count += 1;
        }
        if let Some(channel) = entry {
            self.process(channel, &frames[..count], Access::InPlace);
        }
        self.dispatch();
        self.flush();
        self.context.give_back();
        worked
    }

    /// Packets enter by a channel.
    fn process(&mut self, channel: ChannelId, frames: &[u32], access: Access) {
        let engine = &mut self.engine;
        let mut enter = |context: &mut WorkerContext, frames: &[u32]| {
            // SAFETY: as below; either the frames are those, or local ones in their place.
            unsafe {
                match channel {
                    Program::RX => engine.run(context, frames),
                    channel => engine.inject(channel, context, frames),
                }
            }
        };
        // SAFETY: the frames are at most as many as the context has frames for their copies. Of a port they were made by `RxBatch`
        // over this context; else they are this worker's since it took them from its ring, and whoever put them there gave
        // them a packet and metadata for this channel, by which packets enter. The local memory was made for this engine.
        match &mut self.local {
            Some(local) => unsafe { local.run(access, &mut self.context, frames, enter) },
            None => enter(&mut self.context, frames),
        }
    }

    /// A slice of a timer that is due; whether there was one.
    fn run_timers(&mut self) -> bool {
        let Some(timers) = &mut self.timers else { return false };
        let now = sys::monotonic_ns();
        if !timers.schedule.is_sweeping() && timers.schedule.next_due().is_none_or(|due| due > now) {
            return false;
        }
        self.context.quiescent();
        self.context.set_now(now);
        // SAFETY: the context is that of the engine, and what left the program before was sent.
        let worked = unsafe { timers.schedule.slice(&mut self.context, &mut *self.engine, &timers.tables) };
        self.dispatch();
        self.flush();
        worked
    }

    /// Sorts the packets that left the program by port, and hands those for controllers over.
    fn dispatch(&mut self) {
        let mut punted = false;
        for index in 0..self.context.outputs().len() {
            let Output { frame, end } = self.context.outputs()[index];
            let (number, reason) = match end {
                END_TX => (Some(self.context.tx_port(frame)), DropId::NO_PORT),
                END_HOST => (self.host_of[self.context.rx_port(frame) as usize], DropId::NO_HOST),
                _ => {
                    let channel = ChannelId(end - END_CHANNEL);
                    let punt = self.exchange.as_mut().map(|exchange| exchange.punt(frame, channel));
                    match punt.unwrap_or(Err(DropId::CONTROLLER_GONE)) {
                        Ok(()) => punted = true,
                        Err(reason) => self.drop_output(frame, reason),
                    }
                    continue;
                }
            };
            let port = number.map_or(NO_PORT, |number| self.by_number[number as usize]);
            match self.ports.get_mut(port as usize) {
                Some(port) => port.tx.push(frame),
                None => self.drop_output(frame, reason),
            }
        }
        self.context.clear_outputs();
        if let Some(exchange) = self.exchange.as_mut().filter(|_| punted) {
            exchange.wake();
        }
    }

    fn drop_output(&mut self, frame: u32, reason: DropId) {
        self.context.push(frame);
        self.context.counters().add(self.slots.drop(reason), 1);
    }

    /// Sends what `dispatch` sorted.
    fn flush(&mut self) {
        for port in &mut self.ports {
            if port.tx.is_empty() {
                continue;
            }
            // SAFETY: the frames are outputs of the program, so the worker's, and hold packets.
            let mut batch = unsafe { TxBatch::new(&self.pool, &mut port.tx) };
            let (packets, sent) = (batch.len(), port.queue.transmit(&mut batch));
            if !port.fast {
                add(&port.counters.tx_packets, sent.packets as u64);
                add(&port.counters.tx_bytes, sent.bytes);
            }
            let failed = (packets - sent.packets) as u64;
            if failed > 0 {
                add(&port.counters.tx_failed, failed);
                self.context.counters().add(self.slots.drop(DropId::TX_FAILED), failed);
            }
            batch.left().for_each(|frame| self.context.push(frame));
            port.tx.clear();
        }
    }

    /// No port had a packet.
    fn idle(&mut self) {
        match self.mode {
            PollMode::Busy => std::hint::spin_loop(),
            PollMode::Interrupt => {
                let ready = |port: &WorkerPort| port.queue.wait_fd().is_none() && !port.queue.finished();
                if self.ports.iter().any(ready) {
                    return;
                }
                let time = self.timers.as_ref().and_then(|timers| timers.schedule.next_due());
                let time = time.map_or(SLEEP_MS, |due| {
                    let left = due.saturating_sub(sys::monotonic_ns()).div_ceil(1_000_000);
                    left.min(SLEEP_MS as u64) as i32
                });
                self.context.offline();
                let exchange = self.exchange.as_ref();
                if let Some(exchange) = exchange {
                    exchange.doorbell().sleep();
                }
                let injected = exchange.is_some_and(Exchange::has_injected);
                if sys::poll(&mut self.wait, if injected { 0 } else { time }) {
                    // Such as a device that was removed: the others go on, and that must not take a CPU.
                    std::thread::sleep(ERROR_PAUSE);
                }
                if let Some(exchange) = exchange {
                    exchange.doorbell().wake_up();
                }
            }
        }
    }

    fn tick(&mut self) {
        for port in &mut self.ports {
            port.queue.tick(&port.counters);
        }
    }
}

fn add(counter: &AtomicU64, amount: u64) {
    if amount != 0 {
        counter.fetch_add(amount, Ordering::Relaxed);
    }
}

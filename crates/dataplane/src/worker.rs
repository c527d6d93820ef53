//! A worker: a pinned thread that runs to completion.
//!
//! For one port after the other: receive a batch, run the engine over it, hand each packet that left the program to the
//! port it goes to, send. So everything that was received is sent or counted as dropped before the next batch, and the
//! packets of a port stay in order. The loop neither allocates nor locks.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use baker::ir::{CounterSlots, DropId, Program};
use codegen::abi::{END_TX, MAX_BATCH, Output};

use crate::context::{Received, RxBatch, TxBatch, WorkerContext};
use crate::counters::PortCounters;
use crate::engine::Engine;
use crate::epoch::Registration;

use crate::ports::Queue;
use crate::sys;

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
    pub queue: Box<dyn Queue>,
    pub counters: Arc<PortCounters>,
    /// Frames to send, with room for a whole batch's outputs.
    tx: Vec<u32>,
}

impl WorkerPort {
    pub fn new(name: String, number: u8, queue: Box<dyn Queue>, counters: Arc<PortCounters>) -> Self {
        WorkerPort { name, number, queue, counters, tx: Vec::new() }
    }
}

/// Everything that one worker thread owns.
pub struct Worker {
    context: WorkerContext,
    engine: Box<dyn Engine>,
    ports: Vec<WorkerPort>,
    /// Index into `ports` by port number.
    by_number: [u16; 256],
    /// Number of the host port by the number of the port of entry.
    host_of: [Option<u8>; 256],
    /// Counter slots of `no_port`, `no_host` and `tx_failed`.
    drop_slots: [usize; 3],
    /// The program reads the clock.
    uses_time: bool,
    mode: PollMode,
    /// What to wait for, made once.
    wait: Vec<libc::pollfd>,
    registration: Option<Registration>,
}

impl Worker {
    pub fn new(
        program: &Program,
        context: WorkerContext,
        engine: Box<dyn Engine>,
        mut ports: Vec<WorkerPort>,
        host_of: [Option<u8>; 256],
        mode: PollMode,
        registration: Option<Registration>,
    ) -> Self {
        let mut by_number = [NO_PORT; 256];
        for (index, port) in ports.iter_mut().enumerate() {
            by_number[port.number as usize] = index as u16;
            port.tx.reserve_exact(MAX_BATCH * (program.limits.copies as usize + 1));
        }
        let wait = |fd: RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let wait = ports.iter().filter_map(|port| port.queue.wait_fd()).map(wait).collect();
        let slots = CounterSlots::new(program);
        let drop_slots = [DropId::NO_PORT, DropId::NO_HOST, DropId::TX_FAILED].map(|reason| slots.drop(reason));
        let uses_time = program.uses_time();
        Worker { context, engine, ports, by_number, host_of, drop_slots, uses_time, mode, wait, registration }
    }

    /// Runs until it is told to stop, then takes what the ports hold already, closes them and returns all frames.
    /// The result lists what went wrong at the ports.
    pub fn run(mut self, control: &AtomicU8) -> Vec<String> {
        let mut last_tick = Instant::now();
        let mut loops = 0;
        loop {
            let stop = control.load(Ordering::Relaxed);
            if stop == STOP {
                break;
            }
            let worked = self.round();
            if !worked {
                if stop == FINISH && self.ports.iter().all(|port| port.queue.finished()) {
                    break;
                }
                self.idle();
            }
            loops += 1;
            // A sleeping worker loops rarely, a busy one so often that even the clock would cost.
            if loops >= LOOPS_PER_CLOCK || (!worked && self.mode == PollMode::Interrupt) {
                loops = 0;
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

    /// One batch from every port. Whether there was any packet.
    fn round(&mut self) -> bool {
        let mut worked = false;
        for index in 0..self.ports.len() {
            if let Some(registration) = &self.registration {
                registration.quiescent();
            }
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
            add(&port.counters.rx_packets, packets);
            add(&port.counters.rx_bytes, bytes);
            if self.uses_time {
                self.context.set_now(sys::monotonic_ns());
            }
            // SAFETY: the batch was made by `RxBatch` over this worker's own context.
            unsafe { self.engine.run(&mut self.context, received.frames()) };
            self.dispatch();
            self.flush();
        }
        worked
    }

    /// Sorts the packets that left the program by port.
    fn dispatch(&mut self) {
        for index in 0..self.context.outputs().len() {
            let Output { frame, end } = self.context.outputs()[index];
            let (number, slot) = if end == END_TX {
                (Some(self.context.tx_port(frame)), self.drop_slots[0])
            } else {
                (self.host_of[self.context.rx_port(frame) as usize], self.drop_slots[1])
            };
            let port = number.map_or(NO_PORT, |number| self.by_number[number as usize]);
            match self.ports.get_mut(port as usize) {
                Some(port) => port.tx.push(frame),
                None => {
                    self.context.push(frame);
                    self.context.counters().add(slot, 1);
                }
            }
        }
        self.context.clear_outputs();
    }

    /// Sends what `dispatch` sorted.
    fn flush(&mut self) {
        for port in &mut self.ports {
            if port.tx.is_empty() {
                continue;
            }
            // SAFETY: the frames are outputs of the program, so the worker's, and hold packets.
            let batch = unsafe { TxBatch::new(self.context.pool(), &port.tx) };
            let sent = port.queue.transmit(&batch);
            add(&port.counters.tx_packets, sent.packets as u64);
            add(&port.counters.tx_bytes, sent.bytes);
            let failed = (port.tx.len() - sent.packets) as u64;
            if failed > 0 {
                add(&port.counters.tx_failed, failed);
                self.context.counters().add(self.drop_slots[2], failed);
            }
            for &frame in &port.tx {
                self.context.push(frame);
            }
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
                if let Some(registration) = &self.registration {
                    registration.offline();
                }
                if sys::poll(&mut self.wait, SLEEP_MS) {
                    // Such as a device that was removed: the others go on, and that must not take a CPU.
                    std::thread::sleep(ERROR_PAUSE);
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

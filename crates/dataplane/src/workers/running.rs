//! A program on one worker: the engine and what it works on. A worker has one, and for as long as one program takes
//! over from another two.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use baker::ir::{ChannelId, CounterSlots, DropId, Program};
use baker::opt::reach::Reach;
use codegen::abi::{END_CHANNEL, END_HOST, END_TX, MAX_BATCH, Output};

use super::deadline::DeadlineTimers;
use super::groups::Groups;
use super::onward::{Entering, NOBODY};
use super::queues::Queues;
use super::timer::Schedule;
use crate::capture::Capture;
use crate::controller::Exchange;
use crate::counters::PortCounters;
use crate::engine::{Engine, TableAccess};
use crate::packets::{Access, FramePool, LocalMemory, TxBatch, WorkerContext};
use crate::ports::Queue;
use crate::sampling::{Draw, Sample, Samples};
use crate::sys::{self, ETHERNET};
use crate::xdp::{Onward, Resume, TapRing};

/// Batches of copies for the members of groups between two batches of received packets: some ten microseconds.
const COPIES_AT_ONCE: usize = 4;

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
    pub fast: bool,
    /// Nothing is left of what the ring held when the worker was told to empty it.
    pub is_drained: bool,
}

impl WorkerPort {
    pub fn new(name: String, number: u8, access: Access, queue: Box<dyn Queue>, counters: Arc<PortCounters>) -> Self {
        let fast = queue.count().is_some();
        WorkerPort { name, number, access, queue, counters, fast, is_drained: false }
    }
}

/// A worker's ports, whatever program it runs.
pub struct Ports {
    pub pool: Arc<FramePool>,
    pub all: Vec<WorkerPort>,
    /// Index into `all` by port number.
    by_number: [u16; 256],
    /// Number of the host port by the number of the port of entry.
    host_of: [Option<u8>; 256],
    /// Where packets of one of them are not worked on where they lie.
    local: Option<LocalMemory>,
    /// Where copies go of what comes in,
    capture: Arc<Capture>,
    /// and samples of it.
    samples: Arc<Samples>,
    draw: Draw,
}

impl Ports {
    pub fn new(
        pool: Arc<FramePool>,
        all: Vec<WorkerPort>,
        host_of: [Option<u8>; 256],
        local: Option<LocalMemory>,
        (capture, samples): (Arc<Capture>, Arc<Samples>),
    ) -> Self {
        let mut by_number = [NO_PORT; 256];
        for (index, port) in all.iter().enumerate() {
            by_number[port.number as usize] = index as u16;
        }
        Ports { pool, all, by_number, host_of, local, capture, samples, draw: Draw::default() }
    }

    /// Copies packets that came in on a port, if somebody wants any.
    ///
    /// # Safety
    /// The frames are the caller's and hold packets.
    #[inline]
    pub unsafe fn capture(&mut self, port: u8, frames: &[u32]) {
        let one_in = self.samples.one_in();
        if one_in > 0 {
            for at in self.draw.of_batch(frames.len(), one_in) {
                // SAFETY: promised by the caller.
                let packet = unsafe { self.pool.packet(frames[at]) };
                self.samples.offer(Sample::new(port, packet.len(), packet));
            }
        }
        if self.capture.is_wanted() {
            for &frame in frames {
                // SAFETY: promised by the caller.
                self.capture.offer(port, SystemTime::now(), unsafe { self.pool.packet(frame) });
            }
        }
    }

    /// What to wait for.
    pub fn wait_fds(&self) -> impl Iterator<Item = RawFd> {
        self.all.iter().filter_map(|port| port.queue.wait_fd())
    }
}

/// What runs timers.
pub struct Timers {
    pub schedule: Schedule,
    pub tables: TableAccess,
}

/// What runs timers at deadlines of table entries.
pub struct Deadlines {
    pub timers: DeadlineTimers,
    pub tables: TableAccess,
}

/// What a program has on a worker besides the engine and its context.
#[derive(Default)]
pub struct Equipment {
    pub exchange: Option<Exchange>,
    pub timers: Option<Timers>,
    pub deadlines: Option<Deadlines>,
    /// Where packets wait for the members of groups.
    pub groups: Option<Groups>,
    /// Where the kernel runs a part of the program.
    pub resume: Option<Arc<Resume>>,
    /// See [`crate::xdp::KernelPart::generation`].
    pub generation: u16,
    /// Where the kernel makes copies for this worker.
    pub ring: Option<Arc<TapRing>>,
}

/// A program on a worker.
pub struct Running {
    pub context: WorkerContext,
    engine: Box<dyn Engine>,
    /// How far the engine reaches into packets.
    reach: Reach,
    slots: CounterSlots,
    /// The program reads the clock.
    uses_time: bool,
    /// Where the program has controllers.
    pub exchange: Option<Exchange>,
    /// Where this worker runs the program's timers.
    pub timers: Option<Timers>,
    /// Where table entries have deadlines.
    deadlines: Option<Deadlines>,
    /// Where packets wait for their time.
    queues: Option<Queues>,
    /// Where packets wait for the members of groups.
    groups: Option<Groups>,
    pub resume: Option<Arc<Resume>>,
    pub generation: u16,
    /// The worker's, until the worker takes it.
    pub ring: Option<Arc<TapRing>>,
    /// Frames to send, by port, with room for a whole batch's outputs.
    tx: Vec<Vec<u32>>,
}

impl Running {
    /// A program on a worker with so many ports.
    pub fn new(
        program: &Arc<Program>,
        context: WorkerContext,
        engine: Box<dyn Engine>,
        ports: usize,
        equipment: Equipment,
    ) -> Self {
        let Equipment { exchange, timers, deadlines, groups, resume, generation, ring } = equipment;
        let room = MAX_BATCH * (program.limits.copies as usize + 1);
        Running {
            queues: Queues::new(program, context.pool(), sys::monotonic_ns()),
            context,
            reach: engine.reach(),
            engine,
            slots: CounterSlots::new(program),
            uses_time: program.uses_time(),
            exchange,
            timers,
            deadlines,
            groups,
            resume,
            generation,
            ring,
            tx: (0..ports).map(|_| Vec::with_capacity(room)).collect(),
        }
    }

    /// Goes on from a program that ends on this worker, with the frames that it does not need to finish.
    pub fn take_over(&mut self, from: &mut Running) {
        from.context.keep_to_least();
        if let (Some(mine), Some(others)) = (&mut self.timers, &from.timers) {
            mine.schedule.go_on(&others.schedule);
        }
        from.timers = None;
        if let (Some(mine), Some(others)) = (self.context.deadlines(), from.context.deadlines()) {
            mine.go_on(others);
        }
        from.deadlines = None;
        match (&mut self.queues, &mut from.queues) {
            (Some(mine), Some(others)) => mine.go_on(&mut self.context, others),
            (None, Some(others)) => others.clear(&mut from.context),
            _ => {}
        }
        self.take_grouped(from);
    }

    /// Takes the packets that wait for the members of groups from a program that ends on this worker, where this one
    /// has the groups, too.
    pub fn take_grouped(&mut self, from: &mut Running) {
        match (&mut self.groups, &mut from.groups) {
            (Some(mine), Some(others)) if others.held() > 0 => mine.go_on(&mut self.context, others),
            (None, Some(others)) => others.clear(&mut from.context),
            _ => {}
        }
    }

    /// Processes a batch that was received, with this access.
    pub fn run(&mut self, ports: &mut Ports, frames: &[u32], access: Access) {
        self.set_time();
        self.enter(&mut ports.local, Program::RX, frames, access);
        self.send(ports);
    }

    /// Goes on with a batch that the kernel's part of this program handed over, in its order.
    pub fn go_on(&mut self, ports: &mut Ports, frames: &[u32], access: Access) {
        let Some(resume) = self.resume.clone() else {
            return frames.iter().for_each(|&frame| self.drop_output(frame, DropId::NO_WORKER));
        };
        self.set_time();
        let (mut ready, mut count, mut by) = ([0; MAX_BATCH], 0, None);
        for &frame in frames {
            let onward = resume.take(&ports.pool, frame);
            let channel = match onward {
                Some(Onward::GoesOn(channel)) => Some(channel),
                Some(Onward::Begins) => Some(Program::RX),
                _ => None,
            };
            if let Some(before) = by.filter(|_| by != channel) {
                self.enter(&mut ports.local, before, &ready[..count], access);
                count = 0;
            }
            by = channel;
            match onward {
                Some(Onward::GoesOn(_) | Onward::Begins) => {
                    ready[count] = frame;
                    count += 1;
                }
                Some(Onward::Leaves(end)) => self.context.output(Output { frame, end }),
                None => self.drop_output(frame, DropId::NO_WORKER),
            }
        }
        if let Some(channel) = by {
            self.enter(&mut ports.local, channel, &ready[..count], access);
        }
        self.send(ports);
    }

    /// As [`Running::go_on`] where the batch was received by the program that takes over from this one.
    pub fn resume_late(&mut self, ports: &mut Ports, mut frames: &[u32], access: Access) {
        while !frames.is_empty() {
            let (now, later) = frames.split_at(self.context.capacity().min(frames.len()));
            if now.is_empty() {
                return frames.iter().for_each(|&frame| self.drop_output(frame, DropId::NO_WORKER));
            }
            self.go_on(ports, now, access);
            self.context.give_back();
            frames = later;
        }
    }

    /// Whether controllers have injected something for it.
    pub fn has_injected(&self) -> bool {
        self.exchange.as_ref().is_some_and(Exchange::has_injected)
    }

    /// A batch of what controllers inject, for which there are frames for all copies; whether there was a packet.
    pub fn run_injected(&mut self, ports: &mut Ports) -> bool {
        if !self.has_injected() {
            return false;
        }
        self.context.quiescent();
        self.set_time();
        let (mut frames, mut count, mut entry) = ([0; MAX_BATCH], 0, None);
        let mut worked = false;
        for _ in 0..self.context.capacity() {
            let Some(carried) = self.exchange.as_mut().and_then(Exchange::take_injected) else { break };
            worked = true;
            if let Some(channel) = entry.filter(|entry| *entry != carried.channel) {
                self.enter(&mut ports.local, channel, &frames[..count], Access::InPlace);
                count = 0;
            }
            entry = Some(carried.channel);
            frames[count] = carried.frame;
            count += 1;
        }
        if let Some(channel) = entry {
            self.enter(&mut ports.local, channel, &frames[..count], Access::InPlace);
        }
        self.send(ports);
        self.context.give_back();
        worked
    }

    /// Packets enter by a channel.
    fn enter(&mut self, local: &mut Option<LocalMemory>, channel: ChannelId, frames: &[u32], access: Access) {
        let engine = &mut self.engine;
        let mut enter = |context: &mut WorkerContext, frames: &[u32]| {
            // SAFETY: the frames, or those that local ones are here in place of, are at most as many as the context has
            // frames for their copies. The worker received them into this context, or they are its since it took them
            // from its ring, and the controller that put them there gave them a packet and metadata for this channel,
            // by which packets enter.
            unsafe {
                match channel {
                    Program::RX => engine.run(context, frames),
                    channel => engine.inject(channel, context, frames),
                }
            }
        };
        match local {
            // SAFETY: as above; the reach is the engine's.
            Some(local) => unsafe { local.run((access, self.reach), &mut self.context, frames, enter) },
            None => enter(&mut self.context, frames),
        }
    }

    /// A slice of a timer that is due; whether there was one.
    pub fn run_timers(&mut self, ports: &mut Ports) -> bool {
        let Some(timers) = &mut self.timers else { return false };
        let now = sys::monotonic_ns();
        if !timers.schedule.is_sweeping() && timers.schedule.next_due().is_none_or(|due| due > now) {
            return false;
        }
        self.context.quiescent();
        self.context.set_now(now);
        // SAFETY: the context is that of the engine, and what left the program before was sent.
        let worked = unsafe { timers.schedule.slice(&mut self.context, &mut *self.engine, &timers.tables) };
        self.send(ports);
        worked
    }

    /// Timers of a slice of table entries that are due; whether anything was done.
    pub fn run_deadlines(&mut self, ports: &mut Ports) -> bool {
        let Some(Deadlines { timers, tables }) = &mut self.deadlines else { return false };
        let now = sys::monotonic_ns();
        if timers.next_due(&self.context, tables).is_none_or(|due| due > now) {
            return false;
        }
        self.context.quiescent();
        self.context.set_now(now);
        // SAFETY: the context is that of the engine, and what left the program before was sent.
        let worked = unsafe { timers.slice(&mut self.context, &mut *self.engine, tables) };
        self.send(ports);
        worked
    }

    /// Packets whose time in a queue has come, as a batch; whether anything was done.
    pub fn run_queues(&mut self, ports: &mut Ports) -> bool {
        let now = match self.queues.as_ref().and_then(Queues::next_due) {
            Some(due) => Some(sys::monotonic_ns()).filter(|now| due <= *now),
            None => None,
        };
        let Some(now) = now else { return false };
        self.context.quiescent();
        self.context.set_now(now);
        let most = self.context.capacity();
        let mut released = NOBODY;
        let Some(queues) = &mut self.queues else { return false };
        let (count, worked) = queues.release(&ports.pool, now, most, &mut released);
        self.enter_again(ports, &released[..count], |running, frame, channel| {
            running.queues.as_ref().is_some_and(|queues| queues.leaves(&mut running.context, frame, channel))
        });
        worked
    }

    /// A few batches of copies for the members of groups; whether anything was done.
    pub fn run_groups(&mut self, ports: &mut Ports) -> bool {
        let mut worked = false;
        for _ in 0..COPIES_AT_ONCE {
            if self.groups.as_ref().is_none_or(|groups| groups.held() == 0) {
                break;
            }
            self.context.quiescent();
            self.set_time();
            let most = self.context.capacity();
            let mut copies: Entering = NOBODY;
            let Some(groups) = &mut self.groups else { break };
            let (count, done) = groups.fan_out(&mut self.context, most, &mut copies);
            worked |= done;
            self.enter_again(ports, &copies[..count], |running, frame, channel| {
                running.groups.as_ref().is_some_and(|groups| groups.leaves(&mut running.context, frame, channel))
            });
        }
        worked
    }

    /// Packets go on by the channels behind queues and groups; those leave at once that `leaves` tells.
    fn enter_again(
        &mut self,
        ports: &mut Ports,
        entering: &[(u32, ChannelId)],
        leaves: impl Fn(&mut Running, u32, ChannelId) -> bool,
    ) {
        for run in entering.chunk_by(|a, b| a.1 == b.1) {
            let channel = run[0].1;
            let (mut frames, mut entering) = ([0; MAX_BATCH], 0);
            for &(frame, _) in run {
                if !leaves(self, frame, channel) {
                    frames[entering] = frame;
                    entering += 1;
                }
            }
            if entering > 0 {
                self.enter(&mut ports.local, channel, &frames[..entering], Access::InPlace);
            }
        }
        self.send(ports);
        self.context.give_back();
    }

    /// Has controllers that are lent work on packets of this worker. No look-up is under way.
    pub fn serve_controllers(&mut self) {
        self.exchange.iter_mut().for_each(Exchange::work);
    }

    /// Wakes controllers whose packets have waited for others as long as they may; whether there was one.
    pub fn wake_controllers(&mut self) -> bool {
        let Some(exchange) = &mut self.exchange else { return false };
        exchange.next_due().is_some() && exchange.wake_due(sys::monotonic_ns())
    }

    /// Packets that wait for their time, or for the members of groups.
    pub fn held(&self) -> u32 {
        let grouped = self.groups.as_ref().map_or(0, Groups::held);
        self.queues.as_ref().map_or(0, Queues::held) + grouped
    }

    /// When a timer runs or a packet's time comes next, in nanoseconds.
    pub fn next_due(&self) -> Option<u64> {
        let timers = self.timers.as_ref().and_then(|timers| timers.schedule.next_due());
        let deadline = self.deadlines.as_ref().and_then(|own| own.timers.next_due(&self.context, &own.tables));
        let queue = self.queues.as_ref().and_then(Queues::next_due);
        // Copies for members are made at once.
        let group = self.groups.as_ref().and_then(|groups| (groups.held() > 0).then_some(0));
        [timers, deadline, queue, group].into_iter().flatten().min()
    }

    fn set_time(&mut self) {
        if self.uses_time {
            self.context.set_now(sys::monotonic_ns());
        }
    }

    /// Sends what left the program.
    fn send(&mut self, ports: &mut Ports) {
        self.dispatch(ports);
        self.flush(ports);
    }

    /// Sorts the packets that left the program by port, and hands those for controllers over.
    fn dispatch(&mut self, ports: &Ports) {
        let mut punted = false;
        for index in 0..self.context.outputs().len() {
            let Output { frame, end } = self.context.outputs()[index];
            let (number, reason) = match end {
                END_TX => (Some(self.context.tx_port(frame)), DropId::NO_PORT),
                END_HOST => (ports.host_of[self.context.rx_port(frame) as usize], DropId::NO_HOST),
                _ => {
                    let channel = ChannelId(end - END_CHANNEL);
                    if let Some(queues) = self.queues.as_mut().filter(|queues| queues.is_queue(channel)) {
                        queues.put(&mut self.context, frame, channel);
                        continue;
                    }
                    if let Some(groups) = self.groups.as_mut().filter(|groups| groups.is_group(channel)) {
                        groups.put(&mut self.context, frame, channel);
                        continue;
                    }
                    punted = true;
                    self.punt(frame, channel);
                    continue;
                }
            };
            let port = number.map_or(NO_PORT, |number| ports.by_number[number as usize]);
            match self.tx.get_mut(port as usize) {
                Some(tx) => {
                    // Drivers read the Ethernet header.
                    self.context.join(frame, ETHERNET);
                    tx.push(frame);
                }
                None => self.drop_output(frame, reason),
            }
        }
        self.context.clear_outputs();
        if let Some(exchange) = self.exchange.as_mut().filter(|_| punted) {
            exchange.wake();
        }
    }

    /// Hands a packet to the controller that its channel leads to.
    fn punt(&mut self, frame: u32, channel: ChannelId) {
        let Some(exchange) = &mut self.exchange else {
            return self.drop_output(frame, DropId::CONTROLLER_GONE);
        };
        // The controller may change it, and keeps no count of its holders.
        let Some(frame) = self.context.make_own(frame) else {
            return self.drop_output(frame, DropId::CONTROLLER_BUSY);
        };
        if let Err(reason) = exchange.punt(frame, channel) {
            self.drop_output(frame, reason);
        }
    }

    /// Counts what the kernel has put into the ring and that can't go on.
    pub fn count_drops(&mut self, reason: DropId, count: u64) {
        self.context.counters().add(self.slots.drop(reason), count);
    }

    fn drop_output(&mut self, frame: u32, reason: DropId) {
        self.context.let_go(frame);
        self.context.counters().add(self.slots.drop(reason), 1);
    }

    /// Sends what `dispatch` sorted.
    fn flush(&mut self, ports: &mut Ports) {
        for (port, tx) in ports.all.iter_mut().zip(&mut self.tx) {
            if tx.is_empty() {
                continue;
            }
            // SAFETY: the frames are outputs of the program, so the worker's, and hold packets.
            let mut batch = unsafe { TxBatch::new(&ports.pool, tx) };
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
            batch.left().for_each(|frame| self.context.let_go(frame));
            tx.clear();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(queues) = &mut self.queues {
            queues.clear(&mut self.context);
        }
        if let Some(groups) = &mut self.groups {
            groups.clear(&mut self.context);
        }
    }
}

pub fn add(counter: &AtomicU64, amount: u64) {
    if amount != 0 {
        counter.fetch_add(amount, Ordering::Relaxed);
    }
}

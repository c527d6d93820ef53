//! How a run goes from event to event. When a command will be done is known as soon as it is issued, so memories have
//! no events of their own: an engine whose threads all wait sleeps until the first of them goes on.

use std::collections::VecDeque;

use super::agenda::{Agenda, NEVER};
use super::memory::{Memory, ports};
use super::{CYCLE, Hardware, Job, Outcome, Stage, StageUse, Step};

/// Threads of an engine at most: one bit each.
const THREADS: usize = 32;

/// Why an engine that had nothing to run goes on, where it is not a memory's answer.
#[derive(Clone, Copy)]
enum Cause {
    Room,
    Packet,
}

/// A step in as few bytes as it can be, for there are thousands and each event looks at one.
#[derive(Clone, Copy)]
struct Prepared {
    cycles: u32,
    bytes: u32,
    /// Index of the memory; [`NO_ACCESS`] if none is asked.
    memory: u8,
    ports: u8,
    wait: bool,
    last: bool,
}

const NO_ACCESS: u8 = u8::MAX;

#[derive(Clone, Copy, Default)]
struct Thread {
    job: u32,
    /// Index of the step.
    step: u32,
    /// Memory that it waits for.
    memory: u8,
}

struct Engine {
    stage: usize,
    threads: Vec<Thread>,
    /// When each waiting thread's access is done. 0 where it has no packet: it could go on with one at any time.
    ready_at: [u64; THREADS],
    /// Threads that wait for a memory, and threads that have no packet. Others run, or their packet finds no room.
    waiting: u32,
    free: u32,
    /// The thread that runs, or did last.
    running: usize,
    runs: bool,
    /// Where none runs: the waiting thread that goes on first.
    first: usize,
    idle_since: u64,
}

impl Engine {
    fn new(stage: usize, threads: usize) -> Engine {
        Engine {
            stage,
            threads: vec![Thread::default(); threads],
            ready_at: [0; THREADS],
            waiting: 0,
            free: all(threads),
            running: 0,
            runs: false,
            first: 0,
            idle_since: 0,
        }
    }

    /// Of these threads the first that can go on, in turn behind the one that ran last; else the one that is the first
    /// to. With the time from which it can.
    #[inline(always)]
    fn next(&self, threads: u32, now: u64) -> (u64, usize) {
        // Turned so that the one behind is the lowest bit.
        let turn = self.running as u32 + 1;
        let mut left = threads.rotate_right(turn);
        let mut found = (NEVER, 0);
        while left != 0 {
            let thread = (left.trailing_zeros() + turn) as usize % THREADS;
            let at = self.ready_at[thread];
            if at <= now {
                return (now, thread);
            }
            found = if at < found.0 { (at, thread) } else { found };
            left &= left - 1;
        }
        found
    }
}

fn all(threads: usize) -> u32 {
    ((1u64 << threads) - 1) as u32
}

#[derive(Default)]
struct Ring {
    packets: VecDeque<u32>,
    /// Threads whose packet found no room.
    blocked: VecDeque<(usize, usize, u32)>,
}

struct Model<'a> {
    hardware: &'a Hardware,
    jobs: &'a [Job],
    /// All steps; those of a job in a stage begin where `first` says, at index job × stages + stage.
    steps: Vec<Prepared>,
    first: Vec<u32>,
    /// For each packet its job, again from the start where more packets are to run.
    packets: &'a [u32],
    next_packet: usize,
    total: u64,
    arrived: u64,
    /// For each engine when its step ends or the first of its threads goes on; behind them, when the next packet
    /// arrives.
    events: Agenda,
    engines: Vec<Engine>,
    memories: Vec<Memory>,
    rings: Vec<Ring>,
    now: u64,
    spent: Outcome,
}

/// Runs so many packets, whose jobs `packets` says, over and over. The first tenth warms up.
///
/// # Panics
/// Where a stage has no engine or no thread, or more than 32 of these, or a job names a memory or stage that is not
/// there, or has no steps in the first stage.
pub fn run(hardware: &Hardware, jobs: &[Job], packets: &[u32], total: u64) -> Outcome {
    assert!(hardware.stages.iter().all(|stage| stage.engines > 0 && (1..=THREADS).contains(&stage.threads)));
    let engine = |(index, &stage): (usize, &Stage)| (0..stage.engines).map(move |_| Engine::new(index, stage.threads));
    let engines: Vec<Engine> = hardware.stages.iter().enumerate().flat_map(engine).collect();
    let stage_use = StageUse { waiting: vec![0; hardware.memories.len()], ..StageUse::default() };
    let (steps, first) = prepare(hardware, jobs);
    let mut model = Model {
        hardware,
        jobs,
        steps,
        first,
        packets,
        next_packet: 0,
        total: if packets.is_empty() { 0 } else { total },
        arrived: 0,
        events: Agenda::new(engines.len() + 1),
        engines,
        memories: hardware.memories.iter().map(|timing| Memory::new(*timing)).collect(),
        rings: hardware.stages.iter().map(|_| Ring::default()).collect(),
        now: 0,
        spent: Outcome { stages: vec![stage_use; hardware.stages.len()], ..Outcome::default() },
    };
    model.run()
}

fn prepare(hardware: &Hardware, jobs: &[Job]) -> (Vec<Prepared>, Vec<u32>) {
    assert!(hardware.memories.len() <= usize::from(NO_ACCESS));
    let prepared = |step: &Step, last: bool| {
        let alone = Prepared { cycles: step.cycles, bytes: 0, memory: NO_ACCESS, ports: 0, wait: false, last };
        step.access.map_or(alone, |access| Prepared {
            bytes: access.bytes,
            memory: access.memory as u8,
            ports: ports(access.direction, &hardware.memories[access.memory]),
            wait: access.wait && !last,
            ..alone
        })
    };
    let (mut steps, mut first) = (Vec::new(), Vec::new());
    for task in jobs.iter().flat_map(|job| &job.tasks) {
        first.push(steps.len() as u32);
        steps.extend(task.iter().enumerate().map(|(index, step)| prepared(step, index + 1 == task.len())));
    }
    (steps, first)
}

impl Model<'_> {
    fn run(&mut self) -> Outcome {
        if self.hardware.offered.is_some() && self.total > 0 {
            self.events.set(self.engines.len(), 0);
        }
        for engine in 0..self.engines.len() {
            self.dispatch(engine, Cause::Packet);
        }
        let warm_up = self.total / 10;
        let mut before = None;
        loop {
            if before.is_none() && self.arrived >= warm_up {
                before = Some(self.begin_measuring());
            }
            let arrivals = self.events.get(self.engines.len()) != NEVER;
            if self.arrived >= self.total && !arrivals || !self.event() {
                break;
            }
        }
        let before = before.unwrap_or_else(|| self.begin_measuring());
        self.so_far().since(&before)
    }

    /// What was done so far. What idle engines are waiting for is known at its end only, so that it counts from here.
    fn begin_measuring(&mut self) -> Outcome {
        for engine in &mut self.engines {
            engine.idle_since = self.now;
        }
        self.so_far()
    }

    fn so_far(&self) -> Outcome {
        let memories = self.memories.iter().map(|memory| memory.spent).collect();
        Outcome { time: self.now, memories, ..self.spent.clone() }
    }

    /// The next thing that happens; whether there was one.
    fn event(&mut self) -> bool {
        let Some((at, what)) = self.events.first() else { return false };
        self.now = at;
        match self.engines.get(what) {
            None => self.arrival(),
            Some(engine) if engine.runs => self.step_ends(what),
            Some(engine) => self.go_on(what, engine.first, at),
        }
        true
    }

    /// The job of the packet that comes next.
    fn next_job(&mut self) -> u32 {
        let job = self.packets[self.next_packet];
        self.next_packet = if self.next_packet + 1 == self.packets.len() { 0 } else { self.next_packet + 1 };
        self.arrived += 1;
        job
    }

    fn arrival(&mut self) {
        let job = self.next_job();
        let bits = self.jobs[job as usize].bits;
        let rate = self.hardware.offered.unwrap_or(1.0);
        let next = self.now + (bits as f64 * CYCLE as f64 / rate) as u64;
        self.events.set(self.engines.len(), if self.arrived < self.total { next } else { NEVER });
        if self.rings[0].packets.len() >= self.hardware.ring {
            self.spent.lost += 1;
            return;
        }
        self.rings[0].packets.push_back(job);
        self.wake(0);
    }

    /// Lets an engine of the stage that has nothing to run take a packet.
    fn wake(&mut self, stage: usize) {
        let idle = |engine: &Engine| engine.stage == stage && !engine.runs && engine.free != 0;
        if let Some(engine) = self.engines.iter().position(idle) {
            self.dispatch(engine, Cause::Packet);
        }
    }

    /// A packet for the stage, if there is one.
    fn take(&mut self, stage: usize) -> Option<u32> {
        if stage == 0 && self.hardware.offered.is_none() {
            return (self.arrived < self.total).then(|| self.next_job());
        }
        let job = self.rings[stage].packets.pop_front()?;
        if let Some((engine, thread, waiting)) = self.rings[stage].blocked.pop_front() {
            self.rings[stage].packets.push_back(waiting);
            self.release(engine, thread);
            self.dispatch(engine, Cause::Room);
        }
        Some(job)
    }

    fn has_packet(&self, stage: usize) -> bool {
        match stage {
            0 if self.hardware.offered.is_none() => self.arrived < self.total,
            _ => !self.rings[stage].packets.is_empty(),
        }
    }

    /// Lets the next thread run, if the engine runs none and one can; else it sleeps until one can.
    #[inline(always)]
    fn dispatch(&mut self, index: usize, cause: Cause) {
        let engine = &self.engines[index];
        if engine.runs {
            return;
        }
        let stage = engine.stage;
        let packets = engine.free != 0 && self.has_packet(stage);
        let (at, thread) = engine.next(engine.waiting | if packets { engine.free } else { 0 }, self.now);
        if at > self.now {
            if engine.waiting == all(engine.threads.len()) {
                // All threads wait for memories, so nothing else can come in between.
                return self.go_on(index, thread, at);
            }
            self.engines[index].first = thread;
            return self.events.set(index, at);
        }
        let idle = self.now - engine.idle_since;
        match cause {
            Cause::Room => self.spent.stages[stage].blocked += idle,
            Cause::Packet => self.spent.stages[stage].idle += idle,
        }
        if engine.waiting >> thread & 1 == 1 {
            return self.start(index, thread, self.now);
        }
        let engine = &mut self.engines[index];
        engine.free &= !(1 << thread);
        // Marks it as running while a packet is taken.
        engine.runs = true;
        if let Some(job) = self.take(stage) {
            let step = self.first[job as usize * self.hardware.stages.len() + stage];
            self.engines[index].threads[thread] = Thread { job, step, memory: 0 };
        }
        self.start(index, thread, self.now);
    }

    /// Lets a thread go on whose memory is the first to answer.
    #[inline(always)]
    fn go_on(&mut self, index: usize, thread: usize, at: u64) {
        let engine = &self.engines[index];
        let memory = usize::from(engine.threads[thread].memory);
        self.spent.stages[engine.stage].waiting[memory] += at - engine.idle_since;
        self.start(index, thread, at);
    }

    /// The engine switches to a thread.
    #[inline(always)]
    fn start(&mut self, index: usize, thread: usize, at: u64) {
        let engine = &mut self.engines[index];
        engine.running = thread;
        engine.waiting &= !(1 << thread);
        engine.runs = true;
        self.begin_step(index, at, self.hardware.swap);
    }

    /// The running thread executes its next step.
    #[inline(always)]
    fn begin_step(&mut self, index: usize, at: u64, swap: u32) {
        let engine = &self.engines[index];
        let cycles = self.steps[engine.threads[engine.running].step as usize].cycles + swap;
        let time = u64::from(cycles) * CYCLE;
        self.spent.stages[engine.stage].busy += time;
        self.events.set(index, at + time);
    }

    /// A thread is done with its packet.
    fn release(&mut self, engine: usize, thread: usize) {
        let engine = &mut self.engines[engine];
        engine.free |= 1 << thread;
        engine.ready_at[thread] = 0;
    }

    fn step_ends(&mut self, index: usize) {
        let engine = &mut self.engines[index];
        let running = engine.running;
        let thread = &mut engine.threads[running];
        let step = self.steps[thread.step as usize];
        thread.step += 1;
        if step.memory != NO_ACCESS {
            let done = self.memories[usize::from(step.memory)].issue(step.ports, step.bytes, self.now);
            if step.wait {
                thread.memory = step.memory;
                engine.ready_at[running] = done;
                engine.waiting |= 1 << running;
            }
        }
        if !step.wait && !step.last {
            return self.begin_step(index, self.now, 0);
        }
        let (job, over) = (thread.job, step.last);
        engine.runs = false;
        engine.idle_since = self.now;
        if over {
            self.hand_over(index, running, job);
        }
        self.dispatch(index, Cause::Packet);
    }

    /// The packet goes to the next stage that does something for it, or is done.
    fn hand_over(&mut self, index: usize, thread: usize, job: u32) {
        let tasks = &self.jobs[job as usize].tasks;
        let next = (self.engines[index].stage + 1..tasks.len()).find(|stage| !tasks[*stage].is_empty());
        let Some(next) = next else {
            self.spent.packets += 1;
            self.spent.bits += self.jobs[job as usize].bits;
            return self.release(index, thread);
        };
        if self.rings[next].packets.len() >= self.hardware.ring {
            self.rings[next].blocked.push_back((index, thread, job));
            return;
        }
        self.rings[next].packets.push_back(job);
        self.release(index, thread);
        self.wake(next);
    }
}

//! How a run goes from event to event. When a command will be done is known as soon as it is issued, so memories have no events of
//! their own: an engine whose threads all wait sleeps until the first of them goes on.

use std::collections::VecDeque;

use super::memory::{Command, Memory};
use super::{CYCLE, Hardware, Job, Outcome, Stage, StageUse, Step};

const NEVER: u64 = u64::MAX;

/// Threads of an engine at most: one bit each.
const THREADS: usize = 32;

/// Bits of an event that say what happens; the others say when. So the least is the next, and of two at the same time the one
/// with the lower number.
const WHAT: u32 = 10;

/// Why an engine that had nothing to run goes on.
#[derive(Clone, Copy)]
enum Cause {
    Memory(usize),
    Room,
    Packet,
}

/// A step, with what the machine makes of it.
struct Prepared {
    time: u64,
    /// The memory, the command, and whether the thread waits.
    access: Option<(u8, bool, Command)>,
    last: bool,
}

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
    /// When each thread's access is done; [`NEVER`] where none is under way.
    ready_at: [u64; THREADS],
    /// Threads that have no packet.
    free: u32,
    /// The thread that runs, or did last.
    running: usize,
    runs: bool,
    idle_since: u64,
}

impl Engine {
    fn new(stage: usize, threads: usize) -> Engine {
        Engine {
            stage,
            threads: vec![Thread::default(); threads],
            ready_at: [NEVER; THREADS],
            free: ((1u64 << threads) - 1) as u32,
            running: 0,
            runs: false,
            idle_since: 0,
        }
    }

    /// Threads that could go on.
    fn ready(&self, now: u64) -> u32 {
        let ready_at = &self.ready_at[..self.threads.len()];
        ready_at.iter().enumerate().fold(0, |ready, (thread, at)| ready | u32::from(*at <= now) << thread)
    }
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
    /// For each engine when its step ends or the first of its threads goes on; behind them, when the next packet arrives.
    events: Vec<u64>,
    engines: Vec<Engine>,
    memories: Vec<Memory>,
    rings: Vec<Ring>,
    now: u64,
    spent: Outcome,
}

/// Runs so many packets, whose jobs `packets` says, over and over. The first tenth warms up.
///
/// # Panics
/// Where a stage has no engine or no thread, or more than 32 of these, where there are more than 1000 engines, or a job names a
/// memory or stage that is not there, or has no steps in the first stage.
pub fn run(hardware: &Hardware, jobs: &[Job], packets: &[u32], total: u64) -> Outcome {
    assert!(hardware.stages.iter().all(|stage| stage.engines > 0 && (1..=THREADS).contains(&stage.threads)));
    let engine = |(index, &stage): (usize, &Stage)| (0..stage.engines).map(move |_| Engine::new(index, stage.threads));
    let engines: Vec<Engine> = hardware.stages.iter().enumerate().flat_map(engine).collect();
    assert!(engines.len() < 1 << WHAT);
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
        events: vec![NEVER; engines.len() + 1],
        engines,
        memories: hardware.memories.iter().map(|timing| Memory::new(*timing)).collect(),
        rings: hardware.stages.iter().map(|_| Ring::default()).collect(),
        now: 0,
        spent: Outcome { stages: vec![stage_use; hardware.stages.len()], ..Outcome::default() },
    };
    model.run()
}

fn prepare(hardware: &Hardware, jobs: &[Job]) -> (Vec<Prepared>, Vec<u32>) {
    let (mut steps, mut first) = (Vec::new(), Vec::new());
    for task in jobs.iter().flat_map(|job| &job.tasks) {
        first.push(steps.len() as u32);
        steps.extend(task.iter().enumerate().map(|(index, step): (usize, &Step)| Prepared {
            time: u64::from(step.cycles) * CYCLE,
            access: step.access.map(|access| {
                (access.memory as u8, access.wait, Command::new(&access, &hardware.memories[access.memory]))
            }),
            last: index + 1 == task.len(),
        }));
    }
    (steps, first)
}

impl Model<'_> {
    fn run(&mut self) -> Outcome {
        if self.hardware.offered.is_some() && self.total > 0 {
            self.schedule(self.engines.len(), 0);
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
            let arrivals = self.events[self.engines.len()] != NEVER;
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

    fn schedule(&mut self, what: usize, at: u64) {
        self.events[what] = if at == NEVER { NEVER } else { at << WHAT | what as u64 };
    }

    /// The next thing that happens; whether there was one.
    fn event(&mut self) -> bool {
        let next = self.events.iter().fold(NEVER, |least, event| least.min(*event));
        if next == NEVER {
            return false;
        }
        self.now = next >> WHAT;
        let what = (next & ((1 << WHAT) - 1)) as usize;
        match self.engines.get(what) {
            None => self.arrival(),
            Some(engine) if engine.runs => self.step_ends(what),
            Some(engine) => {
                let first = (0..engine.threads.len()).min_by_key(|thread| engine.ready_at[*thread]).unwrap_or(0);
                self.dispatch(what, Cause::Memory(engine.threads[first].memory.into()));
            }
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
        self.schedule(self.engines.len(), if self.arrived < self.total { next } else { NEVER });
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
            self.engines[engine].free |= 1 << thread;
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
    fn dispatch(&mut self, index: usize, cause: Cause) {
        let engine = &self.engines[index];
        if engine.runs {
            return;
        }
        let stage = engine.stage;
        let ready = engine.ready(self.now);
        let can = ready | if engine.free != 0 && self.has_packet(stage) { engine.free } else { 0 };
        if can == 0 {
            let first = engine.ready_at[..engine.threads.len()].iter().fold(NEVER, |least, at| least.min(*at));
            return self.schedule(index, first);
        }
        // In turn: the first one behind the one that ran last.
        let behind = can & (u32::MAX << engine.running << 1);
        let thread = if behind != 0 { behind.trailing_zeros() } else { can.trailing_zeros() } as usize;
        let idle = self.now - engine.idle_since;
        let spent = &mut self.spent.stages[stage];
        match cause {
            Cause::Memory(memory) => spent.waiting[memory] += idle,
            Cause::Room => spent.blocked += idle,
            Cause::Packet => spent.idle += idle,
        }
        let engine = &mut self.engines[index];
        engine.running = thread;
        engine.ready_at[thread] = NEVER;
        engine.free &= !(1 << thread);
        engine.runs = true;
        if ready >> thread & 1 == 0
            && let Some(job) = self.take(stage)
        {
            let step = self.first[job as usize * self.hardware.stages.len() + stage];
            self.engines[index].threads[thread] = Thread { job, step, memory: 0 };
        }
        self.begin_step(index, u64::from(self.hardware.swap) * CYCLE);
    }

    /// The running thread executes its next step.
    fn begin_step(&mut self, index: usize, swap: u64) {
        let engine = &self.engines[index];
        let time = self.steps[engine.threads[engine.running].step as usize].time + swap;
        self.spent.stages[engine.stage].busy += time;
        self.schedule(index, self.now + time);
    }

    fn step_ends(&mut self, index: usize) {
        let engine = &mut self.engines[index];
        let running = engine.running;
        let thread = &mut engine.threads[running];
        let step = &self.steps[thread.step as usize];
        thread.step += 1;
        let mut waits = false;
        if let Some((memory, wait, command)) = &step.access {
            let done = self.memories[*memory as usize].issue(command, self.now);
            if *wait && !step.last {
                waits = true;
                thread.memory = *memory;
                engine.ready_at[running] = done;
            }
        }
        if !waits && !step.last {
            return self.begin_step(index, 0);
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
            self.engines[index].free |= 1 << thread;
            return;
        };
        if self.rings[next].packets.len() >= self.hardware.ring {
            self.rings[next].blocked.push_back((index, thread, job));
            return;
        }
        self.rings[next].packets.push_back(job);
        self.engines[index].free |= 1 << thread;
        self.wake(next);
    }
}

//! The discrete-event model: engines, threads, memories, rings.
//!
//! A stage is some engines that run the same code; packets pass from stage to stage through rings. A thread takes a packet
//! from its stage's ring, executes the packet's steps, and hands it to the next stage's ring. An engine runs one thread at a
//! time; a thread that waits for a memory gives way to the next one that is ready, in turn, and no thread is ever interrupted.
//! A memory serves commands in the order they come: each occupies it for the time that its bytes take, or the least time
//! between two commands, and is done a latency after it began to be served. Nothing is random, so each run gives the same.
//!
//! Times are in thousandths of a cycle ([`CYCLE`]).

use std::collections::VecDeque;

/// A cycle of the engines.
pub const CYCLE: u64 = 1000;

const NEVER: u64 = u64::MAX;

/// How a memory behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// From the moment a command is served to its end.
    pub latency: u64,
    /// Least time between two commands.
    pub command: u64,
    /// Time that a byte occupies it.
    pub byte: u64,
}

/// Engines that run the same code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// How many.
    pub engines: usize,
    /// Threads of each; 1 to 32.
    pub threads: usize,
}

/// An access at the end of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Index of the memory.
    pub memory: usize,
    /// Bytes moved.
    pub bytes: u32,
    /// Whether the thread waits for its end.
    pub wait: bool,
}

/// Instructions without a break, then an access; at the end of a task there may be none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Cycles.
    pub cycles: u32,
    /// The access.
    pub access: Option<Access>,
}

/// What is done for a packet that takes a certain way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// For each stage the steps; a stage without steps is passed over, but the first has some. A last step's access is not waited
    /// for.
    pub tasks: Vec<Vec<Step>>,
    /// Bits of the received packet on the line.
    pub bits: u64,
}

/// The machine.
#[derive(Clone, Debug)]
pub struct Hardware {
    /// Memories.
    pub memories: Vec<Timing>,
    /// Stages, in order.
    pub stages: Vec<Stage>,
    /// Cycles of a switch to another thread.
    pub swap: u32,
    /// Packets in a ring at most.
    pub ring: usize,
    /// Bits per cycle at which packets arrive; `None`: as fast as they are taken.
    pub offered: Option<f64>,
}

/// What a memory did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Time in which it was occupied.
    pub busy: u64,
    /// Commands.
    pub accesses: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What a stage's engines did, added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StageUse {
    /// Executing, with switches.
    pub busy: u64,
    /// Nothing to run: all threads that had a packet waited, and this memory was the first to answer.
    pub waiting: Vec<u64>,
    /// Nothing to run until the next ring had room.
    pub blocked: u64,
    /// No packet.
    pub idle: u64,
}

/// What was measured: from the end of the warming up to the moment that the last packet arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Packets that were done.
    pub packets: u64,
    /// Their bits on the line.
    pub bits: u64,
    /// Packets that arrived and found no room.
    pub lost: u64,
    /// How long that took.
    pub time: u64,
    /// Per memory.
    pub memories: Vec<MemoryUse>,
    /// Per stage.
    pub stages: Vec<StageUse>,
}

impl Outcome {
    /// Bits per cycle.
    pub fn rate(&self) -> f64 {
        self.bits as f64 * CYCLE as f64 / self.time.max(1) as f64
    }

    fn since(mut self, before: &Outcome) -> Outcome {
        self.packets -= before.packets;
        self.bits -= before.bits;
        self.lost -= before.lost;
        self.time -= before.time;
        for (now, before) in self.memories.iter_mut().zip(&before.memories) {
            now.busy -= before.busy;
            now.accesses -= before.accesses;
            now.bytes -= before.bytes;
        }
        for (now, before) in self.stages.iter_mut().zip(&before.stages) {
            now.busy -= before.busy;
            now.blocked -= before.blocked;
            now.idle -= before.idle;
            now.waiting.iter_mut().zip(&before.waiting).for_each(|(now, before)| *now -= before);
        }
        self
    }
}

/// Why an engine that had nothing to run goes on.
#[derive(Clone, Copy)]
enum Cause {
    Memory(usize),
    Room,
    Packet,
}

#[derive(Clone, Copy, Default)]
struct Thread {
    job: u32,
    step: u32,
}

struct Engine {
    stage: usize,
    threads: Vec<Thread>,
    /// Threads that could run, that have no packet.
    ready: u32,
    free: u32,
    running: usize,
    idle_since: u64,
}

struct Memory {
    timing: Timing,
    free_at: u64,
    last_done: u64,
    /// Threads that wait, in the order in which they go on.
    waiting: VecDeque<(u64, u16, u8)>,
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
    /// For each packet its job, again from the start where more packets are to run.
    packets: &'a [u32],
    total: u64,
    arrived: u64,
    next_arrival: u64,
    engines: Vec<Engine>,
    /// When the step of each engine's running thread ends; [`NEVER`] where none runs. Asked for every event, so close together.
    until: Vec<u64>,
    memories: Vec<Memory>,
    rings: Vec<Ring>,
    now: u64,
    use_: Outcome,
}

/// Runs so many packets, whose jobs `packets` says, over and over. The first tenth warms up.
///
/// # Panics
/// Where a stage has no engine or no thread, or more than 32 of these, or a job names a memory or stage that is not there, or has
/// no steps in the first stage.
pub fn run(hardware: &Hardware, jobs: &[Job], packets: &[u32], total: u64) -> Outcome {
    assert!(hardware.stages.iter().all(|stage| stage.engines > 0 && (1..=32).contains(&stage.threads)));
    let engine = |(index, &stage): (usize, &Stage)| {
        let new = move |_| Engine {
            stage: index,
            threads: vec![Thread::default(); stage.threads],
            ready: 0,
            free: (((1u64 << stage.threads) - 1) & u64::from(u32::MAX)) as u32,
            running: 0,
            idle_since: 0,
        };
        (0..stage.engines).map(new)
    };
    let memory = |timing: &Timing| Memory { timing: *timing, free_at: 0, last_done: 0, waiting: VecDeque::new() };
    let memories: Vec<Memory> = hardware.memories.iter().map(memory).collect();
    let stage_use = StageUse { waiting: vec![0; memories.len()], ..StageUse::default() };
    let mut model = Model {
        hardware,
        jobs,
        packets,
        total: if packets.is_empty() { 0 } else { total },
        arrived: 0,
        next_arrival: NEVER,
        engines: hardware.stages.iter().enumerate().flat_map(engine).collect(),
        until: vec![NEVER; hardware.stages.iter().map(|stage| stage.engines).sum()],
        rings: hardware.stages.iter().map(|_| Ring::default()).collect(),
        now: 0,
        use_: Outcome {
            memories: vec![MemoryUse::default(); memories.len()],
            stages: vec![stage_use; hardware.stages.len()],
            ..Outcome::default()
        },
        memories,
    };
    model.run()
}

impl Model<'_> {
    fn run(&mut self) -> Outcome {
        if self.hardware.offered.is_some() && self.total > 0 {
            self.next_arrival = 0;
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
            if self.arrived >= self.total && self.next_arrival == NEVER {
                break;
            }
            if !self.event() {
                break;
            }
        }
        let before = before.unwrap_or_else(|| self.begin_measuring());
        self.use_.time = self.now;
        std::mem::take(&mut self.use_).since(&before)
    }

    /// What was done so far. What idle engines are waiting for is known at its end only, so that it counts from here.
    fn begin_measuring(&mut self) -> Outcome {
        for engine in &mut self.engines {
            engine.idle_since = self.now;
        }
        Outcome { time: self.now, ..self.use_.clone() }
    }

    /// The next thing that happens; whether there was one. Of two at the same time the one with the lower index is first, an
    /// engine before a memory.
    fn event(&mut self) -> bool {
        let mut at = self.next_arrival;
        let mut what = usize::MAX;
        for (index, memory) in self.memories.iter().enumerate() {
            if let Some(&(time, ..)) = memory.waiting.front()
                && time < at
            {
                (at, what) = (time, self.engines.len() + index);
            }
        }
        let is_engine = |what: usize| what < self.until.len();
        for (index, &until) in self.until.iter().enumerate() {
            if until < at || until == at && until != NEVER && !is_engine(what) {
                (at, what) = (until, index);
            }
        }
        if at == NEVER {
            return false;
        }
        self.now = at;
        match what {
            usize::MAX => self.arrival(),
            engine if engine < self.engines.len() => self.step_ends(engine),
            memory => {
                let memory = memory - self.engines.len();
                if let Some((_, engine, thread)) = self.memories[memory].waiting.pop_front() {
                    self.engines[engine as usize].ready |= 1 << thread;
                    self.dispatch(engine as usize, Cause::Memory(memory));
                }
            }
        }
        true
    }

    fn job_of(&self, packet: u64) -> u32 {
        self.packets[(packet % self.packets.len() as u64) as usize]
    }

    fn arrival(&mut self) {
        let job = self.job_of(self.arrived);
        self.arrived += 1;
        let bits = self.jobs[job as usize].bits;
        let rate = self.hardware.offered.unwrap_or(1.0);
        self.next_arrival =
            if self.arrived < self.total { self.now + (bits as f64 * CYCLE as f64 / rate) as u64 } else { NEVER };
        if self.rings[0].packets.len() >= self.hardware.ring {
            self.use_.lost += 1;
            return;
        }
        self.rings[0].packets.push_back(job);
        self.wake(0);
    }

    /// Lets an engine of the stage that has nothing to run take a packet.
    fn wake(&mut self, stage: usize) {
        let idle = |(engine, until): (&Engine, &u64)| engine.stage == stage && *until == NEVER && engine.free != 0;
        if let Some(engine) = self.engines.iter().zip(&self.until).position(idle) {
            self.dispatch(engine, Cause::Packet);
        }
    }

    /// A packet for the stage, if there is one.
    fn take(&mut self, stage: usize) -> Option<u32> {
        if stage == 0 && self.hardware.offered.is_none() {
            let more = self.arrived < self.total;
            self.arrived += u64::from(more);
            return more.then(|| self.job_of(self.arrived - 1));
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

    /// Lets the next thread run, if the engine runs none and one can.
    fn dispatch(&mut self, index: usize, cause: Cause) {
        let engine = &self.engines[index];
        if self.until[index] != NEVER {
            return;
        }
        let stage = engine.stage;
        let can = engine.ready | if self.has_packet(stage) { engine.free } else { 0 };
        if can == 0 {
            return;
        }
        // In turn: the first one behind the one that ran last.
        let behind = can & (u32::MAX << engine.running << 1);
        let thread = if behind != 0 { behind.trailing_zeros() } else { can.trailing_zeros() } as usize;
        let idle = self.now - engine.idle_since;
        let spent = &mut self.use_.stages[stage];
        match cause {
            Cause::Memory(memory) => spent.waiting[memory] += idle,
            Cause::Room => spent.blocked += idle,
            Cause::Packet => spent.idle += idle,
        }
        let is_ready = engine.ready >> thread & 1 == 1;
        let engine = &mut self.engines[index];
        engine.running = thread;
        engine.ready &= !(1 << thread);
        engine.free &= !(1 << thread);
        // Marks it as running while a packet is taken.
        self.until[index] = self.now;
        if !is_ready && let Some(job) = self.take(stage) {
            self.engines[index].threads[thread] = Thread { job, step: 0 };
        }
        self.begin_step(index, self.hardware.swap);
    }

    /// The running thread executes its next step.
    fn begin_step(&mut self, index: usize, swap: u32) {
        let engine = &mut self.engines[index];
        let thread = engine.threads[engine.running];
        let step = &self.jobs[thread.job as usize].tasks[engine.stage][thread.step as usize];
        let time = u64::from(step.cycles + swap) * CYCLE;
        self.until[index] = self.now + time;
        self.use_.stages[engine.stage].busy += time;
    }

    fn step_ends(&mut self, index: usize) {
        let engine = &mut self.engines[index];
        let (stage, running) = (engine.stage, engine.running);
        let thread = &mut engine.threads[running];
        let task = &self.jobs[thread.job as usize].tasks[stage];
        let access = task[thread.step as usize].access;
        thread.step += 1;
        let (job, over) = (thread.job, thread.step as usize == task.len());
        let wait = access.is_some_and(|access| access.wait);
        if let Some(access) = access {
            let done = self.issue(access);
            if wait && !over {
                self.memories[access.memory].waiting.push_back((done, index as u16, running as u8));
            }
        }
        if over {
            self.until[index] = NEVER;
            self.engines[index].idle_since = self.now;
            self.hand_over(index, running, stage, job);
            self.dispatch(index, Cause::Packet);
        } else if wait {
            self.until[index] = NEVER;
            self.engines[index].idle_since = self.now;
            self.dispatch(index, Cause::Packet);
        } else {
            self.begin_step(index, 0);
        }
    }

    /// Occupies a memory; when the command will be done.
    fn issue(&mut self, access: Access) -> u64 {
        let memory = &mut self.memories[access.memory];
        let occupied = memory.timing.command.max(u64::from(access.bytes) * memory.timing.byte);
        let begin = memory.free_at.max(self.now);
        memory.free_at = begin + occupied;
        let spent = &mut self.use_.memories[access.memory];
        spent.busy += occupied;
        spent.accesses += 1;
        spent.bytes += u64::from(access.bytes);
        // Commands end in the order they came.
        memory.last_done = memory.last_done.max(begin + memory.timing.latency.max(occupied));
        memory.last_done
    }

    /// The packet goes to the next stage that does something for it, or is done.
    fn hand_over(&mut self, index: usize, thread: usize, stage: usize, job: u32) {
        let tasks = &self.jobs[job as usize].tasks;
        let next = (stage + 1..tasks.len()).find(|stage| !tasks[*stage].is_empty());
        let Some(next) = next else {
            self.use_.packets += 1;
            self.use_.bits += self.jobs[job as usize].bits;
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

#[cfg(test)]
mod tests;

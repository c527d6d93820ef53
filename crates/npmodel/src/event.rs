//! The discrete-event model: engines, threads, memories, rings.
//!
//! A stage is some engines that run the same code; packets pass from stage to stage through rings. A thread takes a
//! packet from its stage's ring, executes the packet's steps, and hands it to the next stage's ring. An engine runs one
//! thread at a time; a thread that waits for a memory gives way to the next one that is ready, in turn, and no thread
//! is ever interrupted. A memory serves commands in the order they come: each occupies it for the time that its bytes
//! take, or the least time between two commands, and is done a latency after it began to be served. A memory with ports
//! of their own for reading and writing has each occupied by itself. Nothing is random, so each run gives the same.
//!
//! Times are in thousandths of a cycle ([`CYCLE`]).

mod agenda;
mod memory;
mod model;

pub use model::run;

/// A cycle of the engines.
pub const CYCLE: u64 = 1000;

/// How a memory behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// From the moment a command is served to its end.
    pub latency: u64,
    /// Least time between two commands.
    pub command: u64,
    /// Time that a byte occupies it.
    pub byte: u64,
    /// Whether reading and writing have ports of their own, each as fast as that.
    pub duplex: bool,
}

/// Engines that run the same code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// How many.
    pub engines: usize,
    /// Threads of each; 1 to 32.
    pub threads: usize,
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Out of the memory.
    Read,
    /// Into it.
    Write,
    /// Out and into: what the memory changes by itself.
    Both,
}

/// An access at the end of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Index of the memory.
    pub memory: usize,
    /// Which way.
    pub direction: Direction,
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

/// What is done for a packet that takes a certain execution path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// For each stage the steps; a stage without steps is passed over, but the first has some. A last step's access is
    /// not waited for.
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
    /// Time in which no other command could begin, for those before.
    pub commands: u64,
    /// Time in which its port, or those for reading and for writing, was occupied.
    pub ports: [u64; 2],
    /// Commands.
    pub accesses: u64,
    /// Bytes.
    pub bytes: u64,
}

impl MemoryUse {
    /// Time in which what is busiest of it was occupied.
    pub fn busy(&self) -> u64 {
        self.commands.max(self.ports[0]).max(self.ports[1])
    }
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
            now.commands -= before.commands;
            now.ports.iter_mut().zip(&before.ports).for_each(|(now, before)| *now -= before);
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

#[cfg(test)]
mod tests;

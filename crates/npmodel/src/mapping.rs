//! Which engine runs which code: all run all (replication), or groups of PPFs run on engines of their own, joined by
//! rings (pipelining).

use baker::ir::interp::Code;
use baker::ir::{PpfId, Program, Target};

use crate::event::{Access, CYCLE, Direction, Hardware, Job, Stage, Step, Timing};
use crate::micro::{Command, MicroOp, Unit};
use crate::paths::{ExecutionPath, Traced};
use crate::platform::{Memory, Platform};
use crate::sequence::{DESCRIPTOR, Micro, RING_ENTRY};

/// A group of PPFs and the engines that run it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The PPFs.
    pub ppfs: Vec<PpfId>,
    /// How many engines.
    pub engines: usize,
}

/// One group is replication, several are a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// In the order in which packets pass them.
    pub groups: Vec<Group>,
}

impl Mapping {
    /// What it is called.
    pub fn name(&self) -> &'static str {
        if self.groups.len() == 1 { "replicated" } else { "pipelined" }
    }

    /// Instructions of the largest group's code.
    pub fn code(&self, traced: &Traced) -> u32 {
        let size = |group: &Group| group.ppfs.iter().map(|ppf| traced.code[ppf.0 as usize]).sum();
        self.groups.iter().map(size).max().unwrap_or(0)
    }
}

/// The PPFs that packets come to, in an order in which each is behind those that put packets into it.
fn order(program: &Program) -> Vec<PpfId> {
    fn visit(program: &Program, ppf: PpfId, seen: &mut Vec<bool>, out: &mut Vec<PpfId>) {
        if std::mem::replace(&mut seen[ppf.0 as usize], true) {
            return;
        }
        for channel in program.ppfs[ppf.0 as usize].body.puts() {
            if let Target::Ppf(next) = program.channels[channel.0 as usize].target {
                visit(program, next, seen, out);
            }
        }
        out.push(ppf);
    }
    let (mut seen, mut out) = (vec![false; program.ppfs.len()], Vec::new());
    if let Target::Ppf(first) = program.channels[Program::RX.0 as usize].target {
        visit(program, first, &mut seen, &mut out);
    }
    out.reverse();
    out
}

/// The mappings worth a try on so many engines: replication, and for each number of stages the pipeline whose stages
/// have the most even work, with engines dealt out by work.
pub fn candidates(traced: &Traced, engines: usize) -> Vec<Mapping> {
    let ppfs = order(&traced.program);
    let mut mappings = vec![Mapping { groups: vec![Group { ppfs: ppfs.clone(), engines }] }];
    let work: Vec<f64> = ppfs.iter().map(|ppf| work(traced, *ppf)).collect();
    let used = work.iter().filter(|work| **work > 0.0).count();
    for stages in 2..=engines.min(used) {
        mappings.push(pipeline(&ppfs, &work, stages, engines));
    }
    mappings
}

/// Instructions per packet in a PPF's own code.
fn work(traced: &Traced, ppf: PpfId) -> f64 {
    let own = |micro: &&Micro| micro.code == Code::Ppf(ppf);
    traced.mean(|path| path.sequence.iter().filter(own).map(|micro| f64::from(micro.op.instructions())).sum())
}

fn pipeline(ppfs: &[PpfId], work: &[f64], stages: usize, engines: usize) -> Mapping {
    let total: f64 = work.iter().sum();
    let mut groups: Vec<(Vec<PpfId>, f64)> = vec![(Vec::new(), 0.0)];
    let mut done = 0.0;
    for (index, (ppf, own)) in ppfs.iter().zip(work).enumerate() {
        // A PPF begins a group where its middle is behind the group's share, or where no more PPFs than groups are
        // left.
        let share = total * groups.len() as f64 / stages as f64;
        let must = work[index..].iter().filter(|work| **work > 0.0).count() < stages - groups.len() + 1;
        let last = groups.len() == stages;
        if !last && groups.last().is_some_and(|group| group.1 > 0.0) && (done + own / 2.0 > share || must) && *own > 0.0
        {
            groups.push((Vec::new(), 0.0));
        }
        if let Some(group) = groups.last_mut() {
            group.0.push(*ppf);
            group.1 += own;
        }
        done += own;
    }
    let mut dealt = vec![1; groups.len()];
    for _ in groups.len()..engines {
        // To the stage with the most work per engine.
        let load = |index: &usize| groups[*index].1 / dealt[*index] as f64;
        let most = (0..groups.len()).max_by(|a, b| load(a).total_cmp(&load(b)).then(b.cmp(a))).unwrap_or(0);
        dealt[most] += 1;
    }
    let group = |((ppfs, _), engines)| Group { ppfs, engines };
    Mapping { groups: groups.into_iter().zip(dealt).map(group).collect() }
}

/// The machine and its work for a mapping: a stage that receives, the groups, a stage that sends.
pub fn build(traced: &Traced, mapping: &Mapping, platform: &Platform, offered: Option<f64>) -> (Hardware, Vec<Job>) {
    let clock = platform.engines.clock_hz.get();
    let timing = |memory: Memory| {
        let of = platform.memory(memory);
        let ticks = |cycles: f64| (cycles * CYCLE as f64).round() as u64;
        let (command, byte) = (ticks(clock / of.commands.get()), ticks(clock / of.bandwidth.get()));
        Timing { latency: ticks(of.latency.get()), command, byte, duplex: of.duplex.whole() == 1 }
    };
    let threads = platform.engines.threads.whole() as usize;
    let stage = |engines: usize| Stage { engines, threads };
    let mut stages = vec![stage(platform.receive.engines.whole() as usize)];
    stages.extend(mapping.groups.iter().map(|group| stage(group.engines)));
    stages.push(stage(platform.transmit.engines.whole() as usize));
    let hardware = Hardware {
        memories: Memory::ALL.map(timing).to_vec(),
        stages,
        swap: platform.engines.swap.whole(),
        ring: platform.rings.capacity.whole() as usize,
        offered: offered.map(|bits| bits / clock),
    };
    let jobs = traced.paths.iter().map(|path| job(path, mapping, platform)).collect();
    (hardware, jobs)
}

fn job(path: &ExecutionPath, mapping: &Mapping, platform: &Platform) -> Job {
    let mut tasks = vec![steps(&receive(path, platform))];
    let own = |group: &Group| -> Vec<MicroOp> {
        let of_group = |micro: &&Micro| matches!(micro.code, Code::Ppf(ppf) if group.ppfs.contains(&ppf));
        path.sequence.iter().filter(of_group).map(|micro| micro.op).collect()
    };
    let mut groups: Vec<Vec<MicroOp>> = mapping.groups.iter().map(own).collect();
    let busy: Vec<usize> = (0..groups.len()).filter(|index| !groups[*index].is_empty()).collect();
    for (position, index) in busy.iter().enumerate() {
        // Between two single neighbours the ring of registers between them is enough.
        let near = |a: usize, b: usize| a + 1 == b && mapping.groups[a].engines == 1 && mapping.groups[b].engines == 1;
        let from = position.checked_sub(1).map(|before| busy[before]);
        let take = match from {
            Some(from) if near(from, *index) => vec![MicroOp::Run(Unit::NextNeighbour, RING_ENTRY / 4)],
            _ => ring(Command::Get),
        };
        groups[*index].splice(0..0, take);
        match busy.get(position + 1) {
            Some(to) if near(*index, *to) => groups[*index].push(MicroOp::Run(Unit::NextNeighbour, RING_ENTRY / 4)),
            Some(_) => groups[*index].extend(ring(Command::Put)),
            None => {}
        }
    }
    tasks.extend(groups.iter().map(|ops| steps(ops)));
    tasks.push(steps(&transmit(path, platform)));
    Job { tasks, bits: path.bits() }
}

fn ring(command: Command) -> Vec<MicroOp> {
    let wait = command == Command::Get;
    vec![MicroOp::Run(Unit::Alu, 2), MicroOp::Access { memory: Memory::Scratch, command, bytes: RING_ENTRY, wait }]
}

/// The packet goes to DRAM, its descriptor is made, the ring gets it.
fn receive(path: &ExecutionPath, platform: &Platform) -> Vec<MicroOp> {
    let mut ops = vec![MicroOp::Run(Unit::Alu, platform.receive.instructions.whole())];
    ops.push(MicroOp::Access { memory: platform.place.descriptors, command: Command::Get, bytes: 4, wait: true });
    ops.extend(packet(path.received, Command::Write, platform));
    let bytes = DESCRIPTOR;
    ops.push(MicroOp::Access { memory: platform.place.descriptors, command: Command::Write, bytes, wait: true });
    ops.extend(ring(Command::Put));
    ops
}

/// For each packet sent: from the ring, descriptor, packet, and the buffer is free again.
fn transmit(path: &ExecutionPath, platform: &Platform) -> Vec<MicroOp> {
    let mut ops = Vec::new();
    for bytes in &path.sent {
        ops.extend(ring(Command::Get));
        let descriptor = MicroOp::Access {
            memory: platform.place.descriptors,
            command: Command::Read,
            bytes: DESCRIPTOR,
            wait: true,
        };
        ops.push(descriptor);
        ops.push(MicroOp::Run(Unit::Alu, platform.transmit.instructions.whole()));
        ops.extend(packet(*bytes, Command::Read, platform));
        ops.push(MicroOp::Access { memory: platform.place.descriptors, command: Command::Put, bytes: 4, wait: false });
    }
    ops
}

/// All bytes of a packet, between DRAM and the buffers of the line.
fn packet(bytes: u32, command: Command, platform: &Platform) -> Vec<MicroOp> {
    let dram = platform.memory(Memory::Dram);
    let bytes = bytes.next_multiple_of(dram.unit.whole());
    let part = |from: u32| MicroOp::Access {
        memory: Memory::Dram,
        command,
        bytes: dram.burst.whole().min(bytes - from),
        wait: true,
    };
    (0..bytes).step_by(dram.burst.whole() as usize).map(part).collect()
}

/// Instructions between accesses become one step.
fn steps(ops: &[MicroOp]) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut cycles = 0;
    for op in ops {
        cycles += op.instructions();
        if let MicroOp::Access { memory, command, bytes, wait } = *op {
            let direction = match command {
                Command::Read | Command::Get => Direction::Read,
                Command::Write | Command::Put => Direction::Write,
                Command::Add | Command::TestAndSet | Command::Hash => Direction::Both,
            };
            steps.push(Step { cycles, access: Some(Access { memory: memory as usize, direction, bytes, wait }) });
            cycles = 0;
        }
    }
    let waits = steps.last().is_some_and(|step: &Step| step.access.is_some_and(|access| access.wait));
    if cycles > 0 || waits {
        steps.push(Step { cycles, access: None });
    }
    steps
}

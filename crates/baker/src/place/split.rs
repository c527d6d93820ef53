//! A placed program as two: what the kernel runs, and what workers run.
//!
//! Both have the same channels. For each PPF that packets are handed over to there is one channel more,
//! `kernel -> PPF`: by it workers get what the kernel does not finish, so that a packet is counted once on each channel
//! of the program.

use super::{Limits, Placement, Stage, taps};
use crate::ir::{
    Block, Channel, ChannelId, Controller, ControllerId, DropId, Inst, Op, Ppf, PpfId, Program, Source, Target,
    Terminator, Value,
};

/// The two programs.
#[derive(Clone, Debug)]
pub struct Split {
    /// What the kernel runs: a channel that leaves it leads to a controller of this name ([`Split::WORKER`]).
    pub kernel: Program,
    /// What workers run: all of the program, with channels that packets are handed over by.
    pub workers: Program,
    /// For each channel that leaves the kernel, the one by which workers go on.
    pub resume: Vec<Option<ChannelId>>,
}

impl Split {
    /// The controller that stands for workers in [`Split::kernel`].
    pub const WORKER: &str = "worker";

    /// What stands in for [`Split::kernel`] until the kernel has verified that: it hands every packet over as it was
    /// received.
    pub fn stand_in(&self) -> Program {
        let mut program = self.kernel.clone();
        // It is the last one.
        let worker = ControllerId(program.controllers.len() as u32 - 1);
        program.channels[Program::RX.0 as usize].target = Target::Controller(worker);
        // No packet comes to them.
        for ppf in &mut program.ppfs {
            let block = &mut ppf.body.blocks[0];
            let drop =
                |&packet: &Value| Inst { result: None, op: Op::Drop { packet, reason: DropId::MALFORMED }, span: None };
            (block.insts, block.term) = (block.params.iter().take(1).map(drop).collect(), Terminator::Return);
            ppf.body.blocks.truncate(1);
        }
        program.timers.clear();
        program
    }
}

/// Cuts a program as it was placed with the same limits.
pub fn split(program: &Program, placement: &Placement, limits: &Limits) -> Split {
    let (mut kernel, mut workers) = (program.clone(), program.clone());
    let worker = Target::Controller(ControllerId(kernel.controllers.len() as u32));
    kernel.controllers.push(Controller { name: Split::WORKER.into() });
    // What controllers inject, workers run, and queues and groups are theirs.
    for channel in &mut kernel.channels {
        channel.from = None;
        if let Target::Queue(..) | Target::Group(..) = channel.target {
            channel.target = worker;
        }
    }

    let mut resume = vec![None; program.channels.len()];
    let mut handed_over = |ppf: PpfId, resume: &mut Vec<Option<ChannelId>>| {
        let Ppf { name, protocol, .. } = &program.ppfs[ppf.0 as usize];
        let name = format!("kernel -> {name}");
        if let Some(known) = workers.channels.iter().position(|channel| channel.name == name) {
            return ChannelId(known as u32);
        }
        let id = ChannelId(workers.channels.len() as u32);
        let (from, protocol, target) = (Some(Source::Kernel), *protocol, Target::Ppf(ppf));
        let channel = Channel { name, from, protocol, target, batch: None };
        kernel.channels.push(Channel { from: None, target: worker, ..channel.clone() });
        workers.channels.push(channel);
        resume.push(Some(id));
        id
    };
    for &cut in &placement.cuts {
        if let Target::Ppf(ppf) = program.channels[cut.0 as usize].target {
            resume[cut.0 as usize] = Some(handed_over(ppf, &mut resume));
        }
    }
    let mut starts = vec![None; program.ppfs.len()];
    for (stage, index) in placement.stages.iter().zip(0..) {
        if matches!(stage, Stage::Kernel(punts) if !punts.is_empty()) {
            starts[index] = Some(handed_over(PpfId(index as u32), &mut resume));
        }
    }
    for cut in &placement.cuts {
        kernel.channels[cut.0 as usize].target = worker;
    }
    let leads_out = |channel: ChannelId| {
        let target = kernel.channels[channel.0 as usize].target;
        matches!(target, Target::Controller(_) | Target::Queue(..) | Target::Group(..))
    };
    let runs = placement.stages.iter().map(|stage| matches!(stage, Stage::Kernel(_)));
    for (ppf, _) in kernel.ppfs.iter_mut().zip(runs).filter(|(_, runs)| *runs) {
        taps::make(&mut ppf.body, leads_out);
    }
    for (ppf, start) in kernel.ppfs.iter_mut().zip(starts) {
        if let Some(channel) = start {
            hand_over(ppf, channel, limits);
        }
    }
    Split { kernel, workers, resume }
}

/// Ends a PPF in front of each operation that the kernel cannot do: there the packet goes on outside, from the start.
fn hand_over(ppf: &mut Ppf, channel: ChannelId, limits: &Limits) {
    let Some(&packet) = ppf.body.blocks[0].params.first() else { return };
    let refused = |block: &Block| block.insts.iter().position(|inst| limits.refusal(ppf, inst).is_some());
    let ends: Vec<_> = ppf.body.blocks.iter().map(refused).collect();
    for (block, at) in ppf.body.blocks.iter_mut().zip(ends) {
        let Some(at) = at else { continue };
        let span = block.insts[at].span;
        block.insts.truncate(at);
        block.insts.push(Inst { result: None, op: Op::Put { packet, channel }, span });
        block.term = Terminator::Return;
    }
}

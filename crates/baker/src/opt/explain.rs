//! What the optimiser does to a program, in figures: per packet of a trace, per way through the program, per aggregate.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cache::{self, Fallback, Scope};
use super::{Level, NUMBER, aggregate, optimise};
use crate::ir::interp::{Costs, Machine, Recording, Step, costs as costs_of};
use crate::ir::{Op, PpfId, Program};

/// All that is known about what was optimised.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// Packets of the trace.
    pub packets: u64,
    /// Sums over all packets, for each of [`Level::ALL`].
    pub costs: [Costs; 3],
    /// Ways that packets took, the most frequent first.
    pub ways: Vec<Way>,
    /// One per PPF of the program.
    pub ppfs: Vec<PpfShape>,
    /// Bodies that packets enter at level cgpc.
    pub aggregates: Vec<AggregateShape>,
}

/// A way through the program.
#[derive(Clone, Debug)]
pub struct Way {
    /// Channels and drops, in order.
    pub steps: Vec<Step>,
    /// Packets that took it.
    pub packets: u64,
    /// Sums over them, for each level.
    pub costs: [Costs; 3],
}

/// What a PPF consists of.
#[derive(Clone, Debug)]
pub struct PpfShape {
    /// The PPF.
    pub ppf: PpfId,
    /// Operations that access packet bytes, at levels base and pac.
    pub accesses: [usize; 2],
    /// Instructions, at levels base and pac.
    pub instructions: [usize; 2],
}

/// What an aggregate consists of.
#[derive(Clone, Debug)]
pub struct AggregateShape {
    /// The PPF that packets enter it by.
    pub root: PpfId,
    /// The PPFs in it.
    pub ppfs: Vec<PpfId>,
    /// Bytes from the packet's head that are loaded at once.
    pub ahead: u32,
    /// Operations that access packet bytes.
    pub accesses: usize,
    /// Instructions.
    pub instructions: usize,
    /// Where it goes back to memory.
    pub fallbacks: Vec<Fallback>,
}

/// Runs the trace, port numbers and frames, through each level. `fill` sets up tables; its error is the result.
pub fn explain<E>(
    program: &Program,
    trace: &[(u8, Vec<u8>)],
    fill: impl Fn(&mut Machine) -> Result<(), E>,
) -> Result<Explanation, E> {
    let mut costs = [Costs::default(); 3];
    let mut ways: BTreeMap<Vec<Step>, Way> = BTreeMap::new();
    for (index, level) in Level::ALL.into_iter().enumerate() {
        let optimised = Arc::new(optimise(program, level));
        let mut machine = Machine::new(Arc::clone(&optimised));
        let mut recording = Recording::default();
        fill(&mut machine)?;
        for (port, frame) in trace {
            machine.receive_recorded(*port, frame, &mut recording);
            let (cost, steps) = costs_of(&optimised, &recording, level != Level::Base);
            costs[index] += cost;
            let way = ways.entry(steps.clone()).or_insert_with(|| Way { steps, packets: 0, costs: Default::default() });
            way.packets += u64::from(index == 0);
            way.costs[index] += cost;
        }
    }
    let mut ways: Vec<Way> = ways.into_values().collect();
    ways.sort_by_key(|way| std::cmp::Reverse(way.packets));
    let (ppfs, aggregates) = (ppfs(program), aggregates(program));
    Ok(Explanation { packets: trace.len() as u64, costs, ways, ppfs, aggregates })
}

fn ppfs(program: &Program) -> Vec<PpfShape> {
    let pac = optimise(program, Level::Pac);
    let shape = |(index, (base, pac)): (usize, (&crate::ir::Ppf, &crate::ir::Ppf))| {
        let [base, pac] = [base, pac].map(|ppf| size(&ppf.body));
        PpfShape { ppf: PpfId(index as u32), accesses: [base.0, pac.0], instructions: [base.1, pac.1] }
    };
    program.ppfs.iter().zip(&pac.ppfs).enumerate().map(shape).collect()
}

fn aggregates(program: &Program) -> Vec<AggregateShape> {
    let aggregated = aggregate::aggregate(program);
    let (cached, report) = cache::cache(&aggregated, &Scope::aggregate(&aggregated));
    let optimised = (NUMBER.run)(&cached);
    let shape = |root: PpfId| {
        let (accesses, instructions) = size(&optimised.ppfs[root.0 as usize].body);
        AggregateShape {
            root,
            ppfs: aggregate::members(program, root),
            ahead: report.ahead.get(&root).copied().unwrap_or(0),
            accesses,
            instructions,
            fallbacks: report.fallbacks.iter().filter(|fallback| fallback.ppf == root).cloned().collect(),
        }
    };
    aggregate::roots(program).into_iter().map(shape).collect()
}

/// Operations on packet bytes, and instructions without constants.
fn size(body: &crate::ir::Body) -> (usize, usize) {
    let ops = || body.blocks.iter().flat_map(|block| &block.insts).map(|inst| &inst.op);
    let access = |op: &&Op| {
        matches!(
            op,
            Op::Load { .. }
                | Op::Store { .. }
                | Op::LoadAt { .. }
                | Op::StoreAt { .. }
                | Op::Sum { .. }
                | Op::Push { .. }
        )
    };
    (ops().filter(access).count(), ops().filter(|op| !matches!(op, Op::Const(_))).count())
}

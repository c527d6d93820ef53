//! What the optimiser does to a program, in figures, before and after each pass: per packet of a trace, per execution
//! path, per PPF, per aggregate.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cache::{self, CacheOptions, Fallback};
use super::division::Division;
use super::{AGGREGATE, CACHE, COMBINE, Level};
use crate::ir::interp::{Costs, Machine, Metered, Step};
use crate::ir::{Body, Op, PpfId, Program};

/// All that is known about what was optimised.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The program before and after each pass of each level.
    pub stages: Vec<Stage>,
    /// Packets of the trace.
    pub packets: u64,
    /// Sums over all packets, for each stage.
    pub costs: Vec<Costs>,
    /// Execution paths that packets took, the most frequent first.
    pub paths: Vec<ExecutionPath>,
    /// One per PPF of the program.
    pub ppfs: Vec<PpfShape>,
    /// Bodies that packets enter at level cgpc.
    pub aggregates: Vec<AggregateShape>,
}

/// A state of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The level that is on the way.
    pub level: Level,
    /// The last pass that was done; `None`: none was.
    pub pass: Option<&'static str>,
}

/// An execution path.
#[derive(Clone, Debug)]
pub struct ExecutionPath {
    /// Channels and drops, in order.
    pub steps: Vec<Step>,
    /// Packets that took it.
    pub packets: u64,
    /// Sums over them, for each stage.
    pub costs: Vec<Costs>,
}

/// What code consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Operations that access packet bytes.
    pub accesses: usize,
    /// Instructions without constants.
    pub instructions: usize,
}

/// A PPF.
#[derive(Clone, Debug)]
pub struct PpfShape {
    /// The PPF.
    pub ppf: PpfId,
    /// Sums over all packets of what they cost in it, for each stage.
    pub costs: Vec<Costs>,
    /// Its code at each stage; `None` from where on it is in aggregates only.
    pub code: Vec<Option<Size>>,
    /// Where it goes back to memory at level pac.
    pub fallbacks: Vec<Fallback>,
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
    /// Its code after the last pass.
    pub code: Size,
    /// Where it goes back to memory.
    pub fallbacks: Vec<Fallback>,
}

impl Explanation {
    /// The stage that a level ends with.
    pub fn last_stage(&self, level: Level) -> usize {
        self.stages.iter().rposition(|stage| stage.level == level).unwrap_or(0)
    }
}

/// A stage's program, and whether accesses were combined on the way to it: then bursts count as one.
type Staged = (Stage, Program, bool);

/// The program as it is, then after each pass of each level.
fn stages(program: &Program) -> Vec<Staged> {
    let mut stages = vec![(Stage { level: Level::Base, pass: None }, program.clone(), false)];
    for level in Level::ALL {
        let (mut now, mut combined) = (program.clone(), false);
        for pass in level.passes() {
            now = (pass.run)(&now);
            combined |= [COMBINE.name, CACHE.name].contains(&pass.name);
            stages.push((Stage { level, pass: Some(pass.name) }, now.clone(), combined));
        }
    }
    stages
}

/// Runs the trace, port numbers and frames, through each stage, on a machine with tables that are set up; where there
/// is none, that error is the result.
pub fn explain<E>(
    program: &Program,
    trace: &[(u8, Vec<u8>)],
    machine: impl Fn(Arc<Program>) -> Result<Machine, E>,
) -> Result<Explanation, E> {
    let stages = stages(program);
    let nothing = vec![Costs::default(); stages.len()];
    let mut costs = nothing.clone();
    let mut paths: BTreeMap<Vec<Step>, ExecutionPath> = BTreeMap::new();
    let mut ppfs: Vec<PpfShape> = (0..program.ppfs.len() as u32)
        .map(|ppf| PpfShape { ppf: PpfId(ppf), costs: nothing.clone(), code: Vec::new(), fallbacks: Vec::new() })
        .collect();
    for (index, (_, program, combined)) in stages.iter().enumerate() {
        let reached = program.reached_ppfs();
        for ((shape, ppf), reached) in ppfs.iter_mut().zip(&program.ppfs).zip(reached) {
            shape.code.push(reached.then(|| size(&ppf.body)));
        }
        let mut machine = machine(Arc::new(program.clone()))?;
        for (port, frame) in trace {
            let Metered { costs: cost, ppfs: in_ppfs, steps } = machine.receive_metered(*port, frame, *combined);
            costs[index] += cost;
            ppfs.iter_mut().zip(in_ppfs).for_each(|(shape, cost)| shape.costs[index] += cost);
            let new = |steps| ExecutionPath { steps, packets: 0, costs: nothing.clone() };
            let path = paths.entry(steps).or_insert_with_key(|steps| new(steps.clone()));
            path.packets += u64::from(index == 0);
            path.costs[index] += cost;
        }
    }
    let mut paths: Vec<ExecutionPath> = paths.into_values().collect();
    paths.sort_by_key(|path| std::cmp::Reverse(path.packets));
    for fallback in cache::cache(program, &CacheOptions::ppf()).1.fallbacks {
        ppfs[fallback.ppf.0 as usize].fallbacks.push(fallback);
    }
    let optimised = stages.last().map_or(program, |(_, program, _)| program);
    let aggregates = aggregates(program, optimised);
    let stages = stages.iter().map(|(stage, ..)| *stage).collect();
    Ok(Explanation { stages, packets: trace.len() as u64, costs, paths, ppfs, aggregates })
}

fn aggregates(program: &Program, optimised: &Program) -> Vec<AggregateShape> {
    let division = Division::of(program);
    let aggregated = (AGGREGATE.run)(program);
    let (_, report) = cache::cache(&aggregated, &CacheOptions::aggregate(&aggregated));
    let shape = |root: PpfId| AggregateShape {
        root,
        ppfs: division.members(root),
        ahead: report.ahead.get(&root).copied().unwrap_or(0),
        code: size(&optimised.ppfs[root.0 as usize].body),
        fallbacks: report.fallbacks.iter().filter(|fallback| fallback.ppf == root).cloned().collect(),
    };
    division.roots.iter().copied().map(shape).collect()
}

fn size(body: &Body) -> Size {
    let ops = || body.blocks.iter().flat_map(|block| &block.insts).map(|inst| &inst.op);
    Size {
        accesses: ops().filter(|op| op.accesses_packet()).count(),
        instructions: ops().filter(|op| !matches!(op, Op::Const(_))).count(),
    }
}

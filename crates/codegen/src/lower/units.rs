//! What is compiled by which thread.
//!
//! ```text
//! unit 0: run(context, frames, n)  timers  ppf.a (in line)  ppf.b    →  calls ppf.c through the pointer at ppf_at.c
//! unit 1: stage(context, frames, n, …)     ppf.c
//! ```
//!
//! LLVM works on one module in one thread. So the function that takes a batch up to its first effects, and PPFs that
//! are functions of their own, are dealt out between two modules, by size. A PPF that is inlined is in each module that
//! calls it.

use baker::ir::{Program, Target};
use baker::opt::stage::Plan;

use super::Res;
use super::inline::inlined;

/// Modules that a program becomes at most.
const UNITS: usize = 2;

/// How a program is dealt out.
pub(crate) struct Units {
    /// For each PPF, whether it is inlined where it is called.
    pub inlined: Vec<bool>,
    /// For each PPF that is a function of its own, its unit; `None` for the others.
    pub home: Vec<Option<usize>>,
    /// How many there are.
    pub count: usize,
}

impl Units {
    /// Deals a program out.
    pub fn new(program: &Program, plan: Option<&Plan>) -> Res<Units> {
        let reached = program.reached_ppfs();
        let inlined = inlined(program, &reached)?;
        let mut units = Units { home: vec![None; program.ppfs.len()], count: 1, inlined };
        let root = plan.map(|plan| &program.ppfs[plan.root.0 as usize].body);
        let ahead = plan
            .zip(root)
            .map_or(0, |(plan, body)| plan.ahead.iter().map(|block| body.blocks[block.0 as usize].insts.len()).sum());
        let mut sizes = [units.size(program, &units.roots(program, 0)), ahead];
        let mut alone: Vec<(usize, usize)> = (0..program.ppfs.len())
            .filter(|ppf| reached[*ppf] && !units.inlined[*ppf])
            .map(|ppf| (units.size(program, &[ppf]), ppf))
            .collect();
        // The largest first.
        alone.sort_by_key(|(size, ppf)| (std::cmp::Reverse(*size), *ppf));
        for (size, ppf) in alone {
            let unit = (0..UNITS).min_by_key(|unit| sizes[*unit]).unwrap_or(0);
            sizes[unit] += size;
            units.home[ppf] = Some(unit);
        }
        let second = plan.is_some() || units.home.contains(&Some(1));
        units.count += usize::from(second);
        Ok(units)
    }

    /// The PPFs whose bodies a unit has, those that are inlined among them.
    pub fn members(&self, program: &Program, unit: usize) -> Vec<usize> {
        let alone = (0..program.ppfs.len()).filter(|ppf| self.home[*ppf] == Some(unit));
        self.with_inlined(program, &[self.roots(program, unit), alone.collect()].concat())
    }

    /// The PPFs that a unit's functions call which are no PPFs: those for batches and timers, all in the first.
    fn roots(&self, program: &Program, unit: usize) -> Vec<usize> {
        if unit > 0 {
            return Vec::new();
        }
        let entries = program.entries().map(|entry| entry.0 as usize);
        let timers = program.timers.iter().flat_map(|timer| timer.body.puts()).map(|channel| channel.0 as usize);
        let called = entries.chain(timers).filter_map(|channel| ppf_behind(program, channel));
        called.filter(|ppf| self.inlined[*ppf]).collect()
    }

    /// These and what is inlined into them.
    fn with_inlined(&self, program: &Program, ppfs: &[usize]) -> Vec<usize> {
        let mut seen = vec![false; program.ppfs.len()];
        let mut members = Vec::new();
        let mut work = ppfs.to_vec();
        while let Some(ppf) = work.pop() {
            if !std::mem::replace(&mut seen[ppf], true) {
                members.push(ppf);
                let called =
                    program.ppfs[ppf].body.puts().filter_map(|channel| ppf_behind(program, channel.0 as usize));
                work.extend(called.filter(|ppf| self.inlined[*ppf]));
            }
        }
        members.sort_unstable();
        members
    }

    fn size(&self, program: &Program, ppfs: &[usize]) -> usize {
        self.with_inlined(program, ppfs).into_iter().map(|ppf| program.ppfs[ppf].body.size()).sum()
    }
}

fn ppf_behind(program: &Program, channel: usize) -> Option<usize> {
    match program.channels.get(channel)?.target {
        Target::Ppf(ppf) => Some(ppf.0 as usize),
        _ => None,
    }
}

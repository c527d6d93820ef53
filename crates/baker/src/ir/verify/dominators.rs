//! Dominators, and that each definition dominates its uses.
//!
//! Cooper, Harvey, Kennedy: "A Simple, Fast Dominance Algorithm" (2001).

use super::{Definition, Definitions, Errors, blocks};
use crate::ir::*;

/// The dominator tree of a body.
pub(crate) struct Dominators {
    /// Reachable blocks, each before those it dominates: reverse postorder.
    pub order: Vec<BlockId>,
    /// First and last number of each block's subtree in the tree; `None` for unreachable blocks.
    range: Vec<Option<(u32, u32)>>,
}

impl Dominators {
    pub fn new(body: &Body) -> Self {
        let order = body.reverse_postorder();
        let rank = body.ranks(&order);
        let mut predecessors = vec![Vec::new(); order.len()];
        for (i, block) in order.iter().enumerate() {
            for dest in body.blocks[block.0 as usize].term.dests() {
                predecessors[rank[dest.block.0 as usize]].push(i);
            }
        }
        // Immediate dominators by rank; a block's is always of lower rank.
        let mut idom: Vec<Option<usize>> = vec![None; order.len()];
        idom[0] = Some(0);
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for i in 1..order.len() {
                let mut new = None;
                for &from in predecessors[i].iter().filter(|&&from| idom[from].is_some()) {
                    new = Some(new.map_or(from, |other| meet(&idom, from, other)));
                }
                changed |= idom[i] != new;
                idom[i] = new;
            }
        }
        Dominators { range: ranges(&order, &idom, body.blocks.len()), order }
    }

    pub fn is_reachable(&self, block: BlockId) -> bool {
        self.range[block.0 as usize].is_some()
    }

    /// Whether every path to `b` leads through `a`; a block dominates itself.
    pub fn dominates(&self, a: BlockId, b: BlockId) -> bool {
        match (self.range[a.0 as usize], self.range[b.0 as usize]) {
            (Some((first, last)), Some((b, _))) => (first..=last).contains(&b),
            _ => false,
        }
    }
}

/// Nearest common dominator of two blocks, by rank.
fn meet(idom: &[Option<usize>], mut a: usize, mut b: usize) -> usize {
    while a != b {
        let later = if a > b { &mut a } else { &mut b };
        *later = idom[*later].unwrap_or(0);
    }
    a
}

/// Numbers the tree's blocks so that every subtree has a range of numbers of its own.
fn ranges(order: &[BlockId], idom: &[Option<usize>], blocks: usize) -> Vec<Option<(u32, u32)>> {
    let mut size = vec![1u32; order.len()];
    for i in (1..order.len()).rev() {
        size[idom[i].unwrap_or(0)] += size[i];
    }
    let mut first = vec![0u32; order.len()];
    // Where the next child of each block begins.
    let mut next = vec![1u32; order.len()];
    for i in 1..order.len() {
        let parent = idom[i].unwrap_or(0);
        first[i] = first[parent] + next[parent];
        next[parent] += size[i];
    }
    let mut ranges = vec![None; blocks];
    for (i, block) in order.iter().enumerate() {
        ranges[block.0 as usize] = Some((first[i], first[i] + size[i] - 1));
    }
    ranges
}

/// Every use in a reachable block lies behind its definition on every path.
pub(super) fn check(body: &Body, definitions: &Definitions, dominators: &Dominators, errors: &mut Errors) {
    for (id, block) in blocks(body).filter(|(id, _)| dominators.is_reachable(*id)) {
        let mut use_at = |value: Value, position: usize| {
            let reaches = |definition: Definition| {
                if definition.block == id {
                    definition.position < position
                } else {
                    dominators.dominates(definition.block, id)
                }
            };
            match definitions.definition(value) {
                None => errors.at(id, format!("v{} is used but nothing defines it", value.0)),
                Some(definition) if !reaches(definition) => {
                    errors.at(id, format!("v{} is used where its definition may not have been passed", value.0))
                }
                Some(_) => {}
            }
        };
        for (i, inst) in block.insts.iter().enumerate() {
            inst.op.operands().into_iter().for_each(|value| use_at(value, i + 1));
        }
        let end = block.insts.len() + 1;
        if let Terminator::Branch(condition, ..) = &block.term {
            use_at(*condition, end);
        }
        block.term.dests().iter().flat_map(|dest| &dest.args).for_each(|value| use_at(*value, end));
    }
}

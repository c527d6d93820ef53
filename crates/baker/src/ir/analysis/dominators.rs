//! Dominators: the blocks that every path to a block passes.
//!
//! Cooper, Harvey, Kennedy: "A Simple, Fast Dominance Algorithm" (2001).

use super::Cfg;
use crate::ir::BlockId;

/// The dominator tree of a body.
#[derive(Clone, Debug)]
pub struct Dominators {
    /// First and last number of each block's subtree in the tree; `None` for unreachable blocks.
    range: Vec<Option<(u32, u32)>>,
}

impl Dominators {
    /// Of a body with this control flow.
    pub fn new(cfg: &Cfg) -> Self {
        let (order, ranks) = (&cfg.order, cfg.ranks());
        // Immediate dominators by rank; a block's is always of lower rank.
        let mut idom: Vec<Option<usize>> = vec![None; order.len()];
        idom[0] = Some(0);
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for i in 1..order.len() {
                let mut new = None;
                let predecessors = cfg.predecessors(order[i]).iter().map(|from| ranks[from.0 as usize]);
                for from in predecessors.filter(|&from| idom[from].is_some()) {
                    new = Some(new.map_or(from, |other| meet(&idom, from, other)));
                }
                changed |= idom[i] != new;
                idom[i] = new;
            }
        }
        Dominators { range: ranges(order, &idom, ranks.len()) }
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

//! The control flow graph of a body: the order in which passes and code generators visit blocks, edges backwards,
//! loops.

use std::collections::BTreeSet;

use crate::ir::{BlockId, Body};

impl Body {
    /// The blocks that the entry reaches, each before its successors but for loops: reverse postorder. Blocks that are
    /// not there are left out.
    pub fn reverse_postorder(&self) -> Vec<BlockId> {
        let mut seen = vec![false; self.blocks.len()];
        let mut order = Vec::new();
        let mut is_new = |id: BlockId| seen.get_mut(id.0 as usize).is_some_and(|seen| !std::mem::replace(seen, true));
        // A block, and how many of its successors were followed.
        let mut path: Vec<(BlockId, usize)> =
            Some(BlockId(0)).filter(|id| is_new(*id)).map(|id| (id, 0)).into_iter().collect();
        while let Some((block, followed)) = path.last_mut() {
            let Some(next) = self.blocks[block.0 as usize].term.dests().get(*followed).map(|dest| dest.block) else {
                order.push(*block);
                path.pop();
                continue;
            };
            *followed += 1;
            if is_new(next) {
                path.push((next, 0));
            }
        }
        order.reverse();
        order
    }
}

/// The control flow graph of a body.
#[derive(Clone, Debug)]
pub struct Cfg {
    /// The blocks that the entry reaches, in [`Body::reverse_postorder`].
    pub order: Vec<BlockId>,
    /// Place of each block in the order; `usize::MAX` for those that the entry does not reach.
    ranks: Vec<usize>,
    /// Edges into each block from blocks that the entry reaches, in the order of these blocks' numbers.
    predecessors: Vec<Vec<BlockId>>,
}

impl Cfg {
    /// Of a body whose destinations are there.
    pub fn new(body: &Body) -> Cfg {
        let order = body.reverse_postorder();
        let mut ranks = vec![usize::MAX; body.blocks.len()];
        for (rank, block) in order.iter().enumerate() {
            ranks[block.0 as usize] = rank;
        }
        let mut predecessors = vec![Vec::new(); body.blocks.len()];
        for (from, block) in (0..).map(BlockId).zip(&body.blocks).filter(|(id, _)| ranks[id.0 as usize] != usize::MAX) {
            for dest in block.term.dests() {
                predecessors[dest.block.0 as usize].push(from);
            }
        }
        Cfg { order, ranks, predecessors }
    }

    /// Each block's place in the order, by its number; `usize::MAX` for blocks that the entry does not reach.
    pub fn ranks(&self) -> &[usize] {
        &self.ranks
    }

    /// Whether the entry reaches a block.
    pub fn is_reachable(&self, block: BlockId) -> bool {
        self.ranks[block.0 as usize] != usize::MAX
    }

    /// Where edges into a block come from: twice the same block where both edges of its branch lead here.
    pub fn predecessors(&self, block: BlockId) -> &[BlockId] {
        &self.predecessors[block.0 as usize]
    }

    /// Whether an edge closes a loop: it leads to a block that does not lie later in the order.
    pub fn is_back(&self, from: BlockId, to: BlockId) -> bool {
        self.ranks[to.0 as usize] <= self.ranks[from.0 as usize]
    }

    /// The edges that close loops, in the order of the blocks that they lead back to.
    pub fn back_edges(&self) -> impl Iterator<Item = (BlockId, BlockId)> {
        let into = |to: &BlockId| self.predecessors(*to).iter().map(move |from| (*from, *to)).collect::<Vec<_>>();
        self.order.iter().flat_map(into).filter(|(from, to)| self.is_back(*from, *to))
    }

    /// The blocks of each loop: those that lead to an edge back without passing the block that it goes to.
    pub fn loops(&self) -> Vec<BTreeSet<BlockId>> {
        let inside = |(from, head)| {
            let (mut inside, mut work) = (BTreeSet::from([head]), vec![from]);
            while let Some(block) = work.pop() {
                if inside.insert(block) {
                    work.extend(self.predecessors(block));
                }
            }
            inside
        };
        self.back_edges().map(inside).collect()
    }
}

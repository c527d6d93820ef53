//! The order in which passes and code generators visit blocks.

use super::inst::{BlockId, Body};

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

    /// Each block's place in an order, which is [`Body::reverse_postorder`]; `usize::MAX` for blocks that the entry
    /// does not reach. An edge to a block that does not lie later closes a loop.
    pub fn ranks(&self, order: &[BlockId]) -> Vec<usize> {
        let mut ranks = vec![usize::MAX; self.blocks.len()];
        for (rank, block) in order.iter().enumerate() {
            ranks[block.0 as usize] = rank;
        }
        ranks
    }
}

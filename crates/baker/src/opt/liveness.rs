//! Which values are still needed where a block begins.

use std::collections::BTreeSet;

use crate::ir::*;

/// For each block the values that it or a later block uses and does not define itself, its parameters excluded.
pub(super) fn live_in(body: &Body) -> Vec<BTreeSet<Value>> {
    let mut live: Vec<BTreeSet<Value>> = vec![BTreeSet::new(); body.blocks.len()];
    let mut predecessors: Vec<Vec<usize>> = vec![Vec::new(); body.blocks.len()];
    for (b, block) in body.blocks.iter().enumerate() {
        for dest in block.term.dests() {
            predecessors[dest.block.0 as usize].push(b);
        }
    }
    let mut queued = vec![true; body.blocks.len()];
    let mut work: Vec<usize> = (0..body.blocks.len()).collect();
    while let Some(b) = work.pop() {
        queued[b] = false;
        let mut now = live_at(body, &live, BlockId(b as u32), 0);
        for param in &body.blocks[b].params {
            now.remove(param);
        }
        if now != live[b] {
            live[b] = now;
            for &from in &predecessors[b] {
                if !std::mem::replace(&mut queued[from], true) {
                    work.push(from);
                }
            }
        }
    }
    live
}

/// What is used from a place on, in front of an instruction of a block, where `live` says what is where blocks begin.
pub(super) fn live_at(body: &Body, live: &[BTreeSet<Value>], block: BlockId, inst: usize) -> BTreeSet<Value> {
    let block = &body.blocks[block.0 as usize];
    let mut now = BTreeSet::new();
    for dest in block.term.dests() {
        now.extend(&live[dest.block.0 as usize]);
        now.extend(&dest.args);
    }
    if let Terminator::Branch(condition, ..) = block.term {
        now.insert(condition);
    }
    for inst in block.insts[inst..].iter().rev() {
        if let Some(result) = inst.result {
            now.remove(&result);
        }
        now.extend(inst.op.operands());
    }
    now
}

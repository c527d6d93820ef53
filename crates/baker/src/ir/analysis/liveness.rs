//! Which values are still needed at a place of a body.

use std::collections::BTreeSet;

use super::Cfg;
use crate::ir::{BlockId, Body, Value};

/// For each place of a body the values that are used from there on.
#[derive(Clone, Debug)]
pub struct Liveness<'b> {
    body: &'b Body,
    starts: Vec<BTreeSet<Value>>,
}

impl<'b> Liveness<'b> {
    /// Of a body.
    pub fn new(body: &'b Body, cfg: &Cfg) -> Self {
        let mut live = Liveness { body, starts: vec![BTreeSet::new(); body.blocks.len()] };
        let mut queued = vec![true; body.blocks.len()];
        let mut work = cfg.order.clone();
        while let Some(block) = work.pop() {
            queued[block.0 as usize] = false;
            let mut now = live.at(block, 0);
            for param in &body.blocks[block.0 as usize].params {
                now.remove(param);
            }
            if now != live.starts[block.0 as usize] {
                live.starts[block.0 as usize] = now;
                for &from in cfg.predecessors(block) {
                    if !std::mem::replace(&mut queued[from.0 as usize], true) {
                        work.push(from);
                    }
                }
            }
        }
        live
    }

    /// The values that a block or a later one uses and that the block does not define itself, its parameters excluded.
    pub fn at_start(&self, block: BlockId) -> &BTreeSet<Value> {
        &self.starts[block.0 as usize]
    }

    /// What is used from a place on: in front of an instruction of a block.
    pub fn at(&self, block: BlockId, inst: usize) -> BTreeSet<Value> {
        let block = &self.body.blocks[block.0 as usize];
        let mut now: BTreeSet<Value> = block.term.uses().collect();
        for dest in block.term.dests() {
            now.extend(self.at_start(dest.block));
        }
        for inst in block.insts[inst..].iter().rev() {
            if let Some(result) = inst.result {
                now.remove(&result);
            }
            now.extend(inst.op.operands());
        }
        now
    }
}

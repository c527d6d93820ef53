//! The values that blocks use and pass on.

use crate::ir::{Block, Body, Dest, Terminator, Value};

impl Terminator {
    /// The values that it uses: a branch's condition, and what is passed to blocks.
    pub fn uses(&self) -> impl Iterator<Item = Value> {
        let condition = match self {
            Terminator::Branch(condition, ..) => Some(*condition),
            Terminator::Jump(_) | Terminator::Return => None,
        };
        condition.into_iter().chain(self.dests().into_iter().flat_map(|dest| dest.args.iter().copied()))
    }
}

impl Block {
    /// The values that its instructions and its end use, each as often as it is used.
    pub fn uses(&self) -> impl Iterator<Item = Value> {
        self.insts.iter().flat_map(|inst| inst.op.operands()).chain(self.term.uses())
    }

    /// Visits the values that its instructions and its end use, to change them.
    pub(crate) fn uses_mut(&mut self, mut visit: impl FnMut(&mut Value)) {
        for inst in &mut self.insts {
            inst.op.operands_mut(&mut visit);
        }
        if let Terminator::Branch(condition, ..) = &mut self.term {
            visit(condition);
        }
        self.term.dests_mut().into_iter().flat_map(|dest| &mut dest.args).for_each(visit);
    }
}

impl Body {
    /// What an edge passes: each parameter of the block that it leads to, and its value.
    pub fn passed<'b>(&'b self, dest: &'b Dest) -> impl Iterator<Item = (Value, Value)> + 'b {
        self.blocks[dest.block.0 as usize].params.iter().copied().zip(dest.args.iter().copied())
    }

    /// What all edges pass.
    pub fn all_passed(&self) -> impl Iterator<Item = (Value, Value)> {
        self.blocks.iter().flat_map(|block| block.term.dests()).flat_map(|dest| self.passed(dest))
    }
}

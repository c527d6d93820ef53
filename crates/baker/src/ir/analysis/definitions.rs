//! Where the values of a body come from.

use crate::ir::{BlockId, Body, Inst, Op, Value};

/// What makes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Definition {
    /// A block takes it as the parameter with this index.
    Param(BlockId, usize),
    /// The instruction of a block with this index.
    Inst(BlockId, usize),
}

impl Definition {
    /// The block that it lies in.
    pub fn block(self) -> BlockId {
        let (Definition::Param(block, _) | Definition::Inst(block, _)) = self;
        block
    }
}

/// What makes each value of a body.
#[derive(Clone, Debug)]
pub struct Definitions<'b> {
    body: &'b Body,
    of: Vec<Option<Definition>>,
}

impl<'b> Definitions<'b> {
    /// Of a body.
    pub fn new(body: &'b Body) -> Self {
        let mut of = vec![None; body.values.len()];
        for (id, block) in (0..).map(BlockId).zip(&body.blocks) {
            for (index, param) in block.params.iter().enumerate() {
                of[param.0 as usize] = Some(Definition::Param(id, index));
            }
            for (index, inst) in block.insts.iter().enumerate() {
                if let Some(result) = inst.result {
                    of[result.0 as usize] = Some(Definition::Inst(id, index));
                }
            }
        }
        Definitions { body, of }
    }

    /// What makes a value; `None` where nothing does.
    pub fn of(&self, value: Value) -> Option<Definition> {
        self.of[value.0 as usize]
    }

    /// The instruction that makes a value, where one does.
    pub fn inst(&self, value: Value) -> Option<&'b Inst> {
        match self.of(value)? {
            Definition::Inst(block, index) => Some(&self.body.blocks[block.0 as usize].insts[index]),
            Definition::Param(..) => None,
        }
    }

    /// The operation that makes a value, where one does.
    pub fn op(&self, value: Value) -> Option<&'b Op> {
        Some(&self.inst(value)?.op)
    }

    /// The number that a value is, where it is a constant.
    pub fn constant(&self, value: Value) -> Option<u128> {
        match self.op(value)? {
            Op::Const(number) => Some(*number),
            _ => None,
        }
    }
}

/// What edges pass to the parameters of blocks.
#[derive(Clone, Debug)]
pub struct Passed(Vec<Vec<Value>>);

impl Passed {
    /// Of a body.
    pub fn new(body: &Body) -> Self {
        let mut passed = vec![Vec::new(); body.values.len()];
        body.all_passed().for_each(|(param, value)| passed[param.0 as usize].push(value));
        Passed(passed)
    }

    /// What a parameter may be: a value for each edge. Nothing where the value is no parameter, or one of the entry's.
    pub fn to(&self, param: Value) -> &[Value] {
        &self.0[param.0 as usize]
    }
}

//! The body of a PPF or timer, for any processor: blocks, values, and what is lowered in the same way everywhere.
//!
//! Block parameters become phis. Blocks that the entry does not reach are left out. The order is reverse postorder, in
//! which a value's definition comes before its uses.

use std::collections::HashMap;

use baker::ir::{BlockId, Body, Dest, Inst, Op, Terminator, Ty, Value};
use inkwell::basic_block::BasicBlock;
use inkwell::types::BasicTypeEnum;
use inkwell::values::{BasicValueEnum, FunctionValue, IntValue, PhiValue, PointerValue};

use super::{Core, Res};
use crate::internal;

/// A block on the way.
pub(crate) struct Target<'c> {
    pub block: BasicBlock<'c>,
    /// One per parameter.
    phis: Vec<PhiValue<'c>>,
}

/// A body on the way into a function.
pub(crate) struct Walk<'a, 'c> {
    pub body: &'a Body,
    pub function: FunctionValue<'c>,
    /// Before block 0; holds the stack slots.
    pub prologue: BasicBlock<'c>,
    values: Vec<Option<BasicValueEnum<'c>>>,
    blocks: HashMap<BlockId, Target<'c>>,
}

impl<'a, 'c> Walk<'a, 'c> {
    /// Of which nothing is lowered yet.
    pub fn new(core: &Core<'c, '_>, body: &'a Body, function: FunctionValue<'c>) -> Self {
        let prologue = core.context.append_basic_block(function, "prologue");
        Walk { body, function, prologue, values: vec![None; body.values.len()], blocks: HashMap::new() }
    }
}

/// Where control goes behind an instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ControlFlow {
    Continue,
    /// The instruction is put off.
    Skip,
    /// The function has returned.
    Return,
}

/// How a body is lowered: what differs between processors, and behind that what does not.
pub(crate) trait Lowering<'a, 'c, 'p: 'a>
where
    'c: 'a,
{
    fn core(&self) -> &'a Core<'c, 'p>;
    fn walk(&self) -> &Walk<'a, 'c>;
    fn walk_mut(&mut self) -> &mut Walk<'a, 'c>;

    /// Lowers an operation other than arithmetic; gives its value.
    fn operation(&mut self, inst: &Inst) -> Res<Option<BasicValueEnum<'c>>>;

    /// Null, of a type of entries.
    fn null_entry(&self) -> BasicValueEnum<'c>;

    /// Whether a block is part of the function.
    fn has_block(&self, _block: BlockId) -> bool {
        true
    }

    /// From the prologue into the body.
    fn start(&mut self, block: BlockId, arguments: &[BasicValueEnum<'c>]) -> Res<()> {
        self.jump(block, arguments)
    }

    /// What there is to do at the beginning of a block.
    fn begin(&mut self, _block: BlockId) -> Res<()> {
        Ok(())
    }

    /// What there is to do in front of an instruction, or of the block's end.
    fn pass(&mut self, _block: BlockId, _inst: usize) -> Res<ControlFlow> {
        Ok(ControlFlow::Continue)
    }

    /// Keeps a value where it has another place than its definition.
    fn keep(&self, _value: Value, _result: BasicValueEnum<'c>) -> Res<()> {
        Ok(())
    }

    /// What [`Lowering::keep`] kept.
    fn kept(&self, _value: Value) -> Res<Option<BasicValueEnum<'c>>> {
        Ok(None)
    }

    /// Lowers the body. `arguments` are what the entry block takes; the prologue is being built.
    fn run(&mut self, arguments: &[BasicValueEnum<'c>]) -> Res<()> {
        let core = self.core();
        let builder = &core.builder;
        let before = core.block()?;
        let body = self.walk().body;
        let mut order = body.reverse_postorder();
        order.retain(|id| self.has_block(*id));
        for &id in &order {
            let block = core.context.append_basic_block(self.walk().function, &format!("b{}", id.0));
            builder.position_at_end(block);
            let mut phis = Vec::new();
            let params = &body.blocks[id.0 as usize].params;
            for &param in params {
                phis.push(builder.build_phi(self.ty(param)?, "")?);
            }
            for (&param, phi) in params.iter().zip(&phis) {
                self.define(param, phi.as_basic_value())?;
            }
            self.walk_mut().blocks.insert(id, Target { block, phis });
        }
        builder.position_at_end(before);
        self.start(BlockId(0), arguments)?;
        'blocks: for &id in &order {
            builder.position_at_end(self.walk().blocks[&id].block);
            self.begin(id)?;
            let block = &body.blocks[id.0 as usize];
            for (index, inst) in block.insts.iter().enumerate() {
                match self.pass(id, index)? {
                    ControlFlow::Continue => {}
                    ControlFlow::Skip => continue,
                    ControlFlow::Return => continue 'blocks,
                }
                let result = self.inst(inst)?;
                match (inst.result, result) {
                    (Some(value), Some(result)) => self.define(value, result)?,
                    (None, None) => {}
                    (Some(_), None) => return internal(format!("{:?} gives no value", inst.op)),
                    (None, Some(_)) => return internal(format!("the value of {:?} has no name", inst.op)),
                }
            }
            if self.pass(id, block.insts.len())? == ControlFlow::Return {
                continue;
            }
            self.terminator(&block.term)?;
            if let Some(counts) = block.counts {
                core.weigh(counts)?;
            }
        }
        Ok(())
    }

    fn terminator(&self, term: &Terminator) -> Res<()> {
        let builder = &self.core().builder;
        match term {
            Terminator::Return => {
                builder.build_return(None)?;
                Ok(())
            }
            Terminator::Jump(dest) => self.jump(dest.block, &self.args(dest)?),
            Terminator::Branch(condition, then, other) => {
                let condition = self.int_of(*condition, 1)?;
                let (then_args, other_args) = (self.args(then)?, self.args(other)?);
                if then.block == other.block {
                    // A phi has one value per predecessor, so the choice is made here.
                    if then_args.len() != other_args.len() {
                        return internal("a branch with different numbers of arguments to one block");
                    }
                    let mut args = Vec::new();
                    for (a, b) in then_args.into_iter().zip(other_args) {
                        if a.get_type() != b.get_type() {
                            return internal("a branch with arguments of different types to one block");
                        }
                        args.push(builder.build_select(condition, a, b, "")?);
                    }
                    return self.jump(then.block, &args);
                }
                let then = self.enter(then.block, &then_args)?;
                let other = self.enter(other.block, &other_args)?;
                builder.build_conditional_branch(condition, then, other)?;
                Ok(())
            }
        }
    }

    fn jump(&self, block: BlockId, args: &[BasicValueEnum<'c>]) -> Res<()> {
        let target = self.enter(block, args)?;
        self.core().builder.build_unconditional_branch(target)?;
        Ok(())
    }

    /// Passes the block's arguments from the block that is being built.
    fn enter(&self, block: BlockId, args: &[BasicValueEnum<'c>]) -> Res<BasicBlock<'c>> {
        let Some(target) = self.walk().blocks.get(&block) else {
            return internal(format!("a jump to block {}, which is not there", block.0));
        };
        let from = self.here()?;
        if target.phis.len() != args.len() {
            return internal(format!("block {} takes {} values, not {}", block.0, target.phis.len(), args.len()));
        }
        for (phi, arg) in target.phis.iter().zip(args) {
            if phi.as_basic_value().get_type() != arg.get_type() {
                return internal(format!("block {} gets a value of another type", block.0));
            }
            phi.add_incoming(&[(arg, from)]);
        }
        Ok(target.block)
    }

    fn args(&self, dest: &Dest) -> Res<Vec<BasicValueEnum<'c>>> {
        dest.args.iter().map(|&arg| self.value(arg)).collect()
    }

    /// Lowers an instruction; gives its value.
    fn inst(&mut self, inst: &Inst) -> Res<Option<BasicValueEnum<'c>>> {
        let core = self.core();
        Ok(match &inst.op {
            Op::Const(0) if self.is_entry(inst)? => Some(self.null_entry()),
            Op::Const(value) => Some(core.constant(self.result_width(inst)?, *value)?.into()),
            Op::Bin(op, a, b) => Some(core.binary(*op, self.int(*a)?, self.int(*b)?)?.into()),
            Op::Cmp(op, a, b) => Some(core.compare(*op, self.int(*a)?, self.int(*b)?)?.into()),
            Op::Cast(op, value) => Some(core.cast(*op, self.int(*value)?, self.result_width(inst)?)?.into()),
            Op::Select(condition, a, b) => {
                let (a, b) = (self.value(*a)?, self.value(*b)?);
                if a.get_type() != b.get_type() {
                    return internal("a select between different types");
                }
                Some(core.builder.build_select(self.int_of(*condition, 1)?, a, b, "")?)
            }
            _ => self.operation(inst)?,
        })
    }

    /// Type that holds a value.
    fn ty(&self, value: Value) -> Res<BasicTypeEnum<'c>> {
        Ok(match self.ir_ty(value)? {
            Ty::Int(width) if (1..=128).contains(&width) => self.core().int(width)?.into(),
            Ty::Int(width) => return internal(format!("value {} has {width} bits", value.0)),
            Ty::Entry(_) => self.null_entry().get_type(),
            Ty::Packet(_) => self.core().ptr.into(),
        })
    }

    fn ir_ty(&self, value: Value) -> Res<Ty> {
        match self.walk().body.values.get(value.0 as usize) {
            Some(&ty) => Ok(ty),
            None => internal(format!("there is no value {}", value.0)),
        }
    }

    fn define(&mut self, value: Value, result: BasicValueEnum<'c>) -> Res<()> {
        if result.get_type() != self.ty(value)? {
            return internal(format!("value {} is {}, not {:?}", value.0, result.get_type(), self.ir_ty(value)?));
        }
        if self.walk_mut().values[value.0 as usize].replace(result).is_some() {
            return internal(format!("value {} is defined twice", value.0));
        }
        self.keep(value, result)
    }

    fn is_entry(&self, inst: &Inst) -> Res<bool> {
        Ok(matches!(inst.result.map(|value| self.ir_ty(value)).transpose()?, Some(Ty::Entry(_))))
    }

    fn result_width(&self, inst: &Inst) -> Res<u32> {
        match inst.result.map(|value| self.ir_ty(value)).transpose()? {
            Some(Ty::Int(width)) if (1..=128).contains(&width) => Ok(width),
            _ => internal(format!("{:?} needs a result of 1 to 128 bits", inst.op)),
        }
    }

    fn value(&self, value: Value) -> Res<BasicValueEnum<'c>> {
        if let Some(kept) = self.kept(value)? {
            return Ok(kept);
        }
        match self.walk().values.get(value.0 as usize) {
            Some(Some(result)) => Ok(*result),
            _ => internal(format!("value {} is used before its definition", value.0)),
        }
    }

    fn int(&self, value: Value) -> Res<IntValue<'c>> {
        match self.value(value)? {
            BasicValueEnum::IntValue(result) => Ok(result),
            _ => internal(format!("value {} is not an integer", value.0)),
        }
    }

    fn int_of(&self, value: Value, width: u32) -> Res<IntValue<'c>> {
        let result = self.int(value)?;
        if result.get_type().get_bit_width() != width {
            return internal(format!("value {} has not {width} bits", value.0));
        }
        Ok(result)
    }

    /// The block that is being built.
    fn here(&self) -> Res<BasicBlock<'c>> {
        self.core().block()
    }

    /// A new block.
    fn new_block(&self, name: &str) -> BasicBlock<'c> {
        self.core().context.append_basic_block(self.walk().function, name)
    }
}

/// A pointer parameter.
pub(crate) fn pointer_param<'c>(function: FunctionValue<'c>, index: u32) -> Res<PointerValue<'c>> {
    match function.get_nth_param(index) {
        Some(BasicValueEnum::PointerValue(param)) => Ok(param),
        _ => internal(format!("parameter {index} is not a pointer")),
    }
}

/// An integer parameter.
pub(crate) fn int_param<'c>(function: FunctionValue<'c>, index: u32) -> Res<IntValue<'c>> {
    match function.get_nth_param(index) {
        Some(BasicValueEnum::IntValue(param)) => Ok(param),
        _ => internal(format!("parameter {index} is not an integer")),
    }
}

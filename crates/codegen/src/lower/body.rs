//! The body of a PPF or timer: blocks, values, and each operation to its lowering.
//!
//! Block parameters become phis. Blocks that the entry does not reach are left out. The order is reverse postorder, in
//! which a value's definition comes before its uses.

use baker::ir::{BlockId, Body, Dest, Inst, LayoutId, Op, ProtocolId, Terminator, Ty, Value};
use inkwell::basic_block::BasicBlock;
use inkwell::types::BasicTypeEnum;
use inkwell::values::{BasicValueEnum, FunctionValue, IntValue, PhiValue, PointerValue};
use std::collections::HashMap;

use super::stage::{Part, Staged, Way};
use super::{Module, Res};
use crate::{CodegenError, internal};

/// Lowers the body of a PPF into its function. With a part of it the function has more parameters: see [`Part`].
pub(super) fn lower_ppf<'c, 'p>(
    module: &Module<'c, 'p>,
    ppf: &'p baker::ir::Ppf,
    function: FunctionValue<'c>,
    part: Option<Part<'p>>,
) -> Res<()> {
    let packet = pointer_param(function, 1)?;
    let lowered = Ppf::new(module, &ppf.body, function)
        .and_then(|lowering| lowering.part(part))
        .and_then(|mut lowering| lowering.run(|_, _| Ok(vec![packet.into()])));
    named(&ppf.name, lowered)
}

/// Lowers a body into a function. `arguments` gives what the entry block takes, in the function's first block.
pub(super) fn lower_body<'c, 'p>(
    module: &Module<'c, 'p>,
    name: &str,
    body: &Body,
    function: FunctionValue<'c>,
    arguments: impl FnOnce(&Module<'c, 'p>, FunctionValue<'c>) -> Res<Vec<BasicValueEnum<'c>>>,
) -> Res<()> {
    named(name, Ppf::new(module, body, function).and_then(|mut lowering| lowering.run(arguments)))
}

/// Says in whose body something went wrong.
fn named(name: &str, lowered: Res<()>) -> Res<()> {
    lowered.map_err(|error| match error {
        CodegenError::Internal(message) => CodegenError::Internal(format!("`{name}`: {message}")),
        other => other,
    })
}

/// What memory in a function's frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scratch {
    /// A key of this layout.
    Key(LayoutId),
    /// A value of this layout.
    Value(LayoutId),
    /// Arguments of functions of controllers.
    Arguments,
}

/// A block on the way.
struct Target<'c> {
    block: BasicBlock<'c>,
    /// One per parameter.
    phis: Vec<PhiValue<'c>>,
}

/// A PPF or timer on the way.
pub(super) struct Ppf<'a, 'c, 'p> {
    pub module: &'a Module<'c, 'p>,
    pub body: &'a Body,
    pub function: FunctionValue<'c>,
    /// The context.
    pub ctx: PointerValue<'c>,
    /// Before block 0; holds the stack slots.
    pub prologue: BasicBlock<'c>,
    /// Stack slots for what is handed to functions outside.
    pub slots: HashMap<Scratch, PointerValue<'c>>,
    /// Which part of the body runs, where the batch is staged.
    pub staged: Option<Staged<'c, 'p>>,
    values: Vec<Option<BasicValueEnum<'c>>>,
    blocks: HashMap<BlockId, Target<'c>>,
}

impl<'a, 'c, 'p> Ppf<'a, 'c, 'p> {
    fn new(module: &'a Module<'c, 'p>, body: &'a Body, function: FunctionValue<'c>) -> Res<Self> {
        Ok(Ppf {
            module,
            body,
            function,
            ctx: pointer_param(function, 0)?,
            prologue: module.context.append_basic_block(function, "prologue"),
            slots: HashMap::new(),
            staged: None,
            values: vec![None; body.values.len()],
            blocks: HashMap::new(),
        })
    }

    fn run(
        &mut self,
        arguments: impl FnOnce(&Module<'c, 'p>, FunctionValue<'c>) -> Res<Vec<BasicValueEnum<'c>>>,
    ) -> Res<()> {
        let builder = &self.module.builder;
        let mut order = self.body.reverse_postorder();
        order.retain(|id| self.has_block(*id));
        for &id in &order {
            let block = self.module.context.append_basic_block(self.function, &format!("b{}", id.0));
            builder.position_at_end(block);
            let mut phis = Vec::new();
            let params = &self.body.blocks[id.0 as usize].params;
            for &param in params {
                phis.push(builder.build_phi(self.ty(param)?, "")?);
            }
            for (&param, phi) in params.iter().zip(&phis) {
                self.define(param, phi.as_basic_value())?;
            }
            self.blocks.insert(id, Target { block, phis });
        }
        builder.position_at_end(self.prologue);
        let arguments = arguments(self.module, self.function)?;
        self.start(BlockId(0), &arguments)?;
        'blocks: for &id in &order {
            builder.position_at_end(self.blocks[&id].block);
            let block = &self.body.blocks[id.0 as usize];
            for (index, inst) in block.insts.iter().enumerate() {
                match self.pass(id, index)? {
                    Way::GoesOn => {}
                    Way::Skips => continue,
                    Way::Ends => continue 'blocks,
                }
                let result = self.inst(inst)?;
                match (inst.result, result) {
                    (Some(value), Some(result)) => self.define(value, result)?,
                    (None, None) => {}
                    (Some(_), None) => return internal(format!("{:?} gives no value", inst.op)),
                    (None, Some(_)) => return internal(format!("the value of {:?} has no name", inst.op)),
                }
            }
            if self.pass(id, block.insts.len())? == Way::Ends {
                continue;
            }
            self.terminator(&block.term)?;
            if let Some(counts) = block.counts {
                self.module.weigh(counts)?;
            }
        }
        Ok(())
    }

    fn terminator(&self, term: &Terminator) -> Res<()> {
        let builder = &self.module.builder;
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

    pub(super) fn jump(&self, block: BlockId, args: &[BasicValueEnum<'c>]) -> Res<()> {
        let target = self.enter(block, args)?;
        self.module.builder.build_unconditional_branch(target)?;
        Ok(())
    }

    /// Passes the block's arguments from the block that is being built.
    fn enter(&self, block: BlockId, args: &[BasicValueEnum<'c>]) -> Res<BasicBlock<'c>> {
        let Some(target) = self.blocks.get(&block) else {
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

    /// The instruction at a place.
    pub(super) fn inst_at(&self, (block, index): (BlockId, usize)) -> &'a Inst {
        &self.body.blocks[block.0 as usize].insts[index]
    }

    /// Lowers an instruction; gives its value.
    pub(super) fn inst(&mut self, inst: &Inst) -> Res<Option<BasicValueEnum<'c>>> {
        let module = self.module;
        let ctx = self.ctx;
        Ok(match &inst.op {
            Op::Const(0) if self.is_entry(inst)? => Some(module.ptr.const_null().into()),
            Op::Const(value) => Some(module.constant(self.result_width(inst)?, *value)?.into()),
            Op::Bin(op, a, b) => Some(module.binary(*op, self.int(*a)?, self.int(*b)?)?.into()),
            Op::Cmp(op, a, b) => Some(module.compare(*op, self.int(*a)?, self.int(*b)?)?.into()),
            Op::Cast(op, value) => Some(module.cast(*op, self.int(*value)?, self.result_width(inst)?)?.into()),
            Op::Select(condition, a, b) => {
                let (a, b) = (self.value(*a)?, self.value(*b)?);
                if a.get_type() != b.get_type() {
                    return internal("a select between different types");
                }
                Some(module.builder.build_select(self.int_of(*condition, 1)?, a, b, "")?)
            }

            Op::Load { packet, bits } => {
                let head = module.head(ctx, self.packet(*packet)?)?;
                Some(module.load_bits(head, *bits)?.into())
            }
            Op::Store { packet, bits, value } => {
                let head = module.head(ctx, self.packet(*packet)?)?;
                module.store_bits(head, *bits, self.int(*value)?)?;
                None
            }
            Op::Has { packet, bytes } => Some(module.has(self.packet(*packet)?, self.int_of(*bytes, 32)?)?.into()),
            Op::Now => Some(module.now(ctx)?.into()),
            Op::Len { packet } => Some(module.packet_len(self.packet(*packet)?)?.into()),
            Op::Pull { packet, bytes } => {
                let packet = self.packet(*packet)?;
                module.pull(packet, self.int_of(*bytes, 32)?)?;
                Some(packet.into())
            }
            Op::Push { packet, bytes } => {
                let packet = self.packet(*packet)?;
                module.push(ctx, packet, *bytes)?;
                Some(packet.into())
            }
            Op::Move { packet, by } => {
                let packet = self.packet(*packet)?;
                module.move_head(packet, *by)?;
                Some(packet.into())
            }
            Op::Copy { packet } => {
                let call = module.call_out(module.packet_copy, &[ctx.into(), self.packet(*packet)?.into()])?;
                call.try_as_basic_value().basic()
            }
            Op::LoadAt { packet, offset, bits } => {
                let offset = self.int_of(*offset, 32)?;
                Some(module.load_at(ctx, self.packet(*packet)?, offset, *bits)?.into())
            }
            Op::StoreAt { packet, offset, bits, value } => {
                let offset = self.int_of(*offset, 32)?;
                module.store_at(ctx, self.packet(*packet)?, offset, *bits, self.int(*value)?)?;
                None
            }
            Op::Sum { packet, offset, bytes } => {
                let (offset, bytes) = (self.int_of(*offset, 32)?, self.int_of(*bytes, 32)?);
                // Most headers are as short as can be.
                let usual = match self.ir_ty(*packet)? {
                    Ty::Packet(protocol) => module.program.protocols.get(protocol.0 as usize).map_or(0, |p| p.size),
                    _ => 0,
                };
                Some(module.sum(ctx, self.packet(*packet)?, offset, bytes, usual)?.into())
            }
            Op::Trim { packet, bytes } => {
                module.trim(self.packet(*packet)?, self.int_of(*bytes, 32)?)?;
                None
            }
            Op::Grow { packet, bytes, end } => {
                Some(self.grow(self.packet(*packet)?, self.int_of(*bytes, 32)?, *end)?.into())
            }
            Op::Create => match inst.result.map(|made| self.ir_ty(made)).transpose()? {
                Some(Ty::Packet(protocol)) => Some(module.create(ctx, protocol)?.into()),
                made => return internal(format!("a created packet is {made:?}")),
            },
            Op::MetaLoad { packet, field } => Some(module.meta_load(self.packet(*packet)?, *field)?.into()),
            Op::MetaStore { packet, field, value } => {
                module.meta_store(self.packet(*packet)?, *field, self.int(*value)?)?;
                None
            }
            Op::Put { packet, channel } => {
                module.put(ctx, self.packet(*packet)?, *channel)?;
                None
            }
            Op::Pass { channel } => {
                if channel.0 as usize >= module.program.channels.len() {
                    return internal(format!("there is no channel {}", channel.0));
                }
                module.count_slot(ctx, module.slots.channel(*channel))?;
                None
            }
            Op::Drop { packet, reason } => {
                module.drop_packet(ctx, self.packet(*packet)?, *reason)?;
                None
            }

            Op::Lookup { table, key } => {
                let layout = inst.result.map(|value| self.ir_ty(value)).transpose()?;
                if layout != Some(Ty::Entry(module.table(*table)?.value)) {
                    return internal(format!("a look-up in table {} gives {layout:?}", table.0));
                }
                let entry = self.lookup(*table, key)?;
                self.note_read(*table, key, entry)?;
                Some(entry.into())
            }
            Op::IsNull(entry) => Some(module.builder.build_is_null(self.entry(*entry)?.0, "")?.into()),
            Op::EntryLoad { entry, field } => Some(self.entry_load(*entry, *field)?.into()),
            Op::EntryStore { entry, field, value } => {
                self.note_store(*entry, *field)?;
                self.entry_store(*entry, *field, *value)?;
                None
            }
            Op::Lock { entry } => {
                self.lock(*entry)?;
                None
            }
            Op::Unlock { entry } => {
                self.unlock(*entry)?;
                None
            }
            Op::Insert { table, key, value } => {
                self.note_change(*table, key)?;
                Some(self.insert(*table, key, value)?.into())
            }
            Op::Remove { table, key } => {
                self.note_change(*table, key)?;
                Some(self.remove(*table, key)?.into())
            }
            Op::Extern { function, args } => self.call_extern(*function, args)?.map(Into::into),
            Op::Take { table, index, amount } => Some(self.meter_take(*table, *index, *amount)?.into()),
            Op::Count { counter, index, amount } => {
                self.count(*counter, *index, *amount)?;
                None
            }
        })
    }

    /// Type that holds a value.
    pub(super) fn ty(&self, value: Value) -> Res<BasicTypeEnum<'c>> {
        Ok(match self.ir_ty(value)? {
            Ty::Int(width) if (1..=128).contains(&width) => self.module.int(width)?.into(),
            Ty::Int(width) => return internal(format!("value {} has {width} bits", value.0)),
            Ty::Entry(_) | Ty::Packet(_) => self.module.ptr.into(),
        })
    }

    pub(super) fn ir_ty(&self, value: Value) -> Res<Ty> {
        match self.body.values.get(value.0 as usize) {
            Some(&ty) => Ok(ty),
            None => internal(format!("there is no value {}", value.0)),
        }
    }

    pub(super) fn define(&mut self, value: Value, result: BasicValueEnum<'c>) -> Res<()> {
        if result.get_type() != self.ty(value)? {
            return internal(format!("value {} is {}, not {:?}", value.0, result.get_type(), self.ir_ty(value)?));
        }
        if self.values[value.0 as usize].replace(result).is_some() {
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

    pub(super) fn value(&self, value: Value) -> Res<BasicValueEnum<'c>> {
        if let Some(kept) = self.kept(value)? {
            return Ok(kept);
        }
        match self.values.get(value.0 as usize) {
            Some(Some(result)) => Ok(*result),
            _ => internal(format!("value {} is used before its definition", value.0)),
        }
    }

    pub fn int(&self, value: Value) -> Res<IntValue<'c>> {
        match self.value(value)? {
            BasicValueEnum::IntValue(result) => Ok(result),
            _ => internal(format!("value {} is not an integer", value.0)),
        }
    }

    pub fn int_of(&self, value: Value, width: u32) -> Res<IntValue<'c>> {
        let result = self.int(value)?;
        if result.get_type().get_bit_width() != width {
            return internal(format!("value {} has not {width} bits", value.0));
        }
        Ok(result)
    }

    fn packet(&self, value: Value) -> Res<PointerValue<'c>> {
        match (self.ir_ty(value)?, self.value(value)?) {
            (Ty::Packet(ProtocolId(_)), BasicValueEnum::PointerValue(packet)) => Ok(packet),
            _ => internal(format!("value {} is not a packet", value.0)),
        }
    }

    /// An entry and its layout.
    pub fn entry(&self, value: Value) -> Res<(PointerValue<'c>, LayoutId)> {
        match (self.ir_ty(value)?, self.value(value)?) {
            (Ty::Entry(layout), BasicValueEnum::PointerValue(entry)) => Ok((entry, layout)),
            _ => internal(format!("value {} is not a table entry", value.0)),
        }
    }

    /// The block that is being built.
    pub fn here(&self) -> Res<BasicBlock<'c>> {
        self.module.block()
    }

    /// A new block.
    pub fn new_block(&self, name: &str) -> BasicBlock<'c> {
        self.module.context.append_basic_block(self.function, name)
    }
}

/// A pointer parameter.
pub(super) fn pointer_param<'c>(function: FunctionValue<'c>, index: u32) -> Res<PointerValue<'c>> {
    match function.get_nth_param(index) {
        Some(BasicValueEnum::PointerValue(param)) => Ok(param),
        _ => internal(format!("parameter {index} is not a pointer")),
    }
}

/// An integer parameter.
pub(super) fn int_param<'c>(function: FunctionValue<'c>, index: u32) -> Res<IntValue<'c>> {
    match function.get_nth_param(index) {
        Some(BasicValueEnum::IntValue(param)) => Ok(param),
        _ => internal(format!("parameter {index} is not an integer")),
    }
}

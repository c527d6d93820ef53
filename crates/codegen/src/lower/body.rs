//! The bodies of PPFs and timers as native code: each operation to its lowering.

use baker::ir::{BitRange, BlockId, Inst, LayoutId, Op, ProtocolId, Ty, Value};
use inkwell::values::{BasicValueEnum, FunctionValue, PointerValue};
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};

use super::stage::{Part, Staged};
use super::walk::{ControlFlow, Lowering, Walk, pointer_param};
use super::{Core, Module, Res};
use crate::{CodegenError, abi, internal};

/// Lowers the body of the PPF with this number into its function. With a part of it the function has more parameters:
/// see [`Part`].
pub(super) fn lower_ppf<'c, 'p>(
    module: &Module<'c, 'p>,
    index: usize,
    function: FunctionValue<'c>,
    part: Option<Part<'p>>,
) -> Res<()> {
    let packet = pointer_param(function, 1)?;
    let (ppf, own) = (&module.program.ppfs[index], module.copies.of_ppf(index));
    lower_body(module, &ppf.name, (&ppf.body, own), function, part, |_, _| Ok(vec![packet.into()]))
}

/// Lowers a body, with what its copies need for themselves, into a function. `arguments` gives what the entry block
/// takes, in the function's first block.
pub(super) fn lower_body<'c, 'p>(
    module: &Module<'c, 'p>,
    name: &str,
    body: (&baker::ir::Body, &HashMap<Value, u32>),
    function: FunctionValue<'c>,
    part: Option<Part<'p>>,
    arguments: impl FnOnce(&Module<'c, 'p>, FunctionValue<'c>) -> Res<Vec<BasicValueEnum<'c>>>,
) -> Res<()> {
    let lowered = Ppf::new(module, body, function).and_then(|lowering| lowering.part(part)).and_then(|mut lowering| {
        module.builder.position_at_end(lowering.prologue);
        lowering.run(&arguments(module, function)?)
    });
    named(name, lowered)
}

/// Says in whose body something went wrong.
pub(crate) fn named<T>(name: &str, lowered: Res<T>) -> Res<T> {
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

/// A PPF or timer on the way.
pub(super) struct Ppf<'a, 'c, 'p> {
    pub module: &'a Module<'c, 'p>,
    /// The context.
    pub ctx: PointerValue<'c>,
    /// Stack slots for what is handed to functions outside.
    pub slots: HashMap<Scratch, PointerValue<'c>>,
    /// Bytes that its copies need for themselves, where they are not whole.
    own: &'a HashMap<Value, u32>,
    /// Which part of the body runs, where the batch is staged.
    pub staged: Option<Staged<'c, 'p>>,
    walk: Walk<'a, 'c>,
}

impl<'a, 'c> Deref for Ppf<'a, 'c, '_> {
    type Target = Walk<'a, 'c>;

    fn deref(&self) -> &Walk<'a, 'c> {
        &self.walk
    }
}

impl DerefMut for Ppf<'_, '_, '_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.walk
    }
}

impl<'a, 'c, 'p> Lowering<'a, 'c, 'p> for Ppf<'a, 'c, 'p> {
    fn core(&self) -> &'a Core<'c, 'p> {
        &self.module.core
    }

    fn walk(&self) -> &Walk<'a, 'c> {
        self
    }

    fn walk_mut(&mut self) -> &mut Walk<'a, 'c> {
        self
    }

    fn operation(&mut self, inst: &Inst) -> Res<Option<BasicValueEnum<'c>>> {
        self.native(inst)
    }

    fn null_entry(&self) -> BasicValueEnum<'c> {
        self.module.ptr.const_null().into()
    }

    fn has_block(&self, block: BlockId) -> bool {
        Ppf::has_block(self, block)
    }

    fn start(&mut self, block: BlockId, arguments: &[BasicValueEnum<'c>]) -> Res<()> {
        Ppf::start(self, block, arguments)
    }

    fn pass(&mut self, block: BlockId, inst: usize) -> Res<ControlFlow> {
        Ppf::pass(self, block, inst)
    }

    fn keep(&self, value: Value, result: BasicValueEnum<'c>) -> Res<()> {
        Ppf::keep(self, value, result)
    }

    fn kept(&self, value: Value) -> Res<Option<BasicValueEnum<'c>>> {
        Ppf::kept(self, value)
    }
}

impl<'a, 'c, 'p> Ppf<'a, 'c, 'p> {
    fn new(
        module: &'a Module<'c, 'p>,
        (body, own): (&'a baker::ir::Body, &'a HashMap<Value, u32>),
        function: FunctionValue<'c>,
    ) -> Res<Self> {
        Ok(Ppf {
            module,
            ctx: pointer_param(function, 0)?,
            slots: HashMap::new(),
            own,
            staged: None,
            walk: Walk::new(module, body, function),
        })
    }

    /// The instruction at a place.
    pub(super) fn inst_at(&self, (block, index): (BlockId, usize)) -> &'a Inst {
        &self.body.blocks[block.0 as usize].insts[index]
    }

    /// Lowers an operation other than arithmetic; gives its value.
    fn native(&mut self, inst: &Inst) -> Res<Option<BasicValueEnum<'c>>> {
        let module = self.module;
        let ctx = self.ctx;
        Ok(match &inst.op {
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
                let own = inst.result.and_then(|copy| self.own.get(&copy)).copied().unwrap_or(abi::WHOLE);
                let own = module.i32.const_int(own.into(), false);
                let call =
                    module.call_out(module.packet_copy, &[ctx.into(), self.packet(*packet)?.into(), own.into()])?;
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
                let expected = match self.ir_ty(*packet)? {
                    Ty::Packet(protocol) => module.program.protocols.get(protocol.0 as usize).map_or(0, |p| p.size),
                    _ => 0,
                };
                Some(module.sum(ctx, self.packet(*packet)?, offset, bytes, expected)?.into())
            }
            Op::Checksum { packet, at, covered, pseudo, optional } => {
                let (packet, at) = (self.packet(*packet)?, self.int_of(*at, 32)?);
                let changes = [self.int_of(*covered, 32)?, self.int_of(*pseudo, 32)?];
                let bits = BitRange { offset: 0, width: 16 };
                let old = module.load_at(ctx, packet, at, bits)?;
                let new = module.changed_checksum(old, changes, *optional)?;
                module.store_at(ctx, packet, at, bits, new)?;
                None
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
            Op::Tap { .. } => return internal("a tap is the kernel's"),
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
            Op::Time { ppf } => {
                module.time(ctx, Some(*ppf))?;
                None
            }
            Op::Found { table, entry } => {
                let null = module.builder.build_is_null(self.entry(*entry)?.0, "")?;
                module.looked_up(ctx, *table, null)?;
                None
            }
            Op::Drop { packet, reason } => {
                module.drop_packet(ctx, self.packet(*packet)?, *reason)?;
                None
            }

            Op::Discard { packet } => {
                module.release_packet(ctx, self.packet(*packet)?)?;
                None
            }
            Op::HoldPut { packet, table, key } => {
                module.hold_put(ctx, *table, self.packet(*packet)?, self.int_of(*key, 64)?)?;
                None
            }
            Op::HoldGet { table, key } => {
                let own = inst.result.and_then(|copy| self.own.get(&copy)).copied().unwrap_or(abi::WHOLE);
                Some(module.hold_get(ctx, *table, self.int_of(*key, 64)?, own)?.into())
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
            Op::Fence => {
                self.fence()?;
                None
            }
            Op::Insert { table, key, value, new } => {
                self.note_change(*table, key)?;
                Some(self.insert(*table, key, value, *new)?.into())
            }
            Op::Remove { table, key } => {
                self.note_change(*table, key)?;
                Some(self.remove(*table, key)?.into())
            }
            Op::SetDeadline { table, key, at } => Some(self.deadline(*table, key, Some(*at))?.into()),
            Op::TakeDeadline { table, key } => Some(self.deadline(*table, key, None)?.into()),
            Op::Extern { function, args } => self.call_extern(*function, args)?.map(Into::into),
            Op::Take { entry, amount } => Some(self.meter_take(*entry, *amount)?.into()),
            Op::Count { counter, index, amount } => {
                self.count(*counter, *index, *amount)?;
                None
            }
            Op::Const(_) | Op::Bin(..) | Op::Cmp(..) | Op::Cast(..) | Op::Select(..) => {
                return internal(format!("{:?} is lowered elsewhere", inst.op));
            }
        })
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
}

//! The bodies of PPFs as BPF: each operation to its lowering.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

use baker::ir::analysis::Cfg;
use baker::ir::{BlockId, Inst, LayoutId, MetaId, Op, Ppf as IrPpf, Terminator, Ty, Value, storage_size};
use baker::opt::division::is_last;
use inkwell::IntPredicate;
use inkwell::values::{BasicValueEnum, FunctionValue, IntValue, PointerValue};

use super::Kernel;
use super::packet::OFFSETS;
use super::spill::SpillSlots;
use super::state::Field;
use super::tap::Copy;
use crate::internal;
use crate::kernel::{Memory as Shared, ROOM, SCRATCH};
use crate::lower::{ControlFlow, Core, Lowering, Res, Walk, named, pointer_param};

/// Lowers the body of a PPF into its function.
pub(super) fn lower_ppf<'c>(kernel: &Kernel<'c, '_>, ppf: &IrPpf, function: FunctionValue<'c>) -> Res<()> {
    let lower = || {
        let mut lowering = Ppf {
            kernel,
            ctx: pointer_param(function, 0)?,
            state: pointer_param(function, 1)?,
            name: &ppf.name,
            walk: Walk::new(kernel, &ppf.body, function),
            cfg: Cfg::new(&ppf.body),
            verified: VerifiedRange::default(),
            tests: HashMap::new(),
            left: HashMap::new(),
            heads: 0,
            spill_slots: SpillSlots::default(),
            hands_on: kernel.part.is_some_and(|part| std::ptr::eq(ppf, &kernel.program.ppfs[part.0 as usize])),
            at: (BlockId(0), 0),
            fresh: RefCell::default(),
        };
        if kernel.options.spill {
            let mut used = kernel.kept.get();
            lowering.spill_slots = SpillSlots::new(&ppf.body, &mut used);
            kernel.kept.set(used);
        }
        kernel.at_location(function, &ppf.name, ppf.span)?;
        kernel.builder.position_at_end(lowering.walk.prologue);
        let own = kernel.pointer(lowering.state, Field::Counters)?;
        kernel.scratch.set(Some(kernel.at(own, Shared::counters(kernel.program) + ROOM)?));
        lowering.run(&[kernel.ptr.const_null().into()])
    };
    named(&ppf.name, lower())
}

/// The range of the packet that the verifier knows to be there, on all paths to here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct VerifiedRange {
    /// Bytes from the head on.
    pub bytes: u64,
    /// A number that changes whenever the head does, so that a test of another head is told apart.
    pub head: u32,
}

/// A PPF on the way.
pub(super) struct Ppf<'a, 'c, 'p> {
    pub kernel: &'a Kernel<'c, 'p>,
    /// The kernel's `struct xdp_md`, or `struct __sk_buff`.
    pub ctx: PointerValue<'c>,
    pub state: PointerValue<'c>,
    name: &'a str,
    walk: Walk<'a, 'c>,
    /// The blocks that lead to each.
    cfg: Cfg,
    pub verified: VerifiedRange,
    /// What a truth value says, where it is 1, of the packet with this head.
    tests: HashMap<Value, VerifiedRange>,
    /// What was known at the end of each block.
    left: HashMap<BlockId, VerifiedRange>,
    /// Numbers of heads so far.
    heads: u32,
    /// Values that lie in memory.
    spill_slots: SpillSlots,
    /// Whether a packet that leaves it at its end goes on in another part of the program.
    hands_on: bool,
    /// The instruction that is being lowered.
    at: (BlockId, usize),
    /// Those of them that were made in this block, and are in registers still.
    fresh: RefCell<BTreeSet<Value>>,
}

impl<'a, 'c, 'p> Lowering<'a, 'c, 'p> for Ppf<'a, 'c, 'p> {
    fn core(&self) -> &'a Core<'c, 'p> {
        &self.kernel.core
    }

    fn walk(&self) -> &Walk<'a, 'c> {
        &self.walk
    }

    fn walk_mut(&mut self) -> &mut Walk<'a, 'c> {
        &mut self.walk
    }

    fn null_entry(&self) -> BasicValueEnum<'c> {
        self.kernel.i64.const_zero().into()
    }

    fn keep(&self, value: Value, result: BasicValueEnum<'c>) -> Res<()> {
        let Some(slot) = self.kept_at(value)? else { return Ok(()) };
        self.fresh.borrow_mut().insert(value);
        let result = super::main::as_int(result)?;
        let size = storage_size(result.get_type().get_bit_width());
        let result = self.kernel.resize(result, size * 8)?;
        self.kernel.store_once(slot, result)
    }

    fn kept(&self, value: Value) -> Res<Option<BasicValueEnum<'c>>> {
        if self.fresh.borrow().contains(&value) {
            return Ok(None);
        }
        let Some(slot) = self.kept_at(value)? else { return Ok(None) };
        let width = match self.ir_ty(value)? {
            Ty::Int(width) => width,
            _ => 64,
        };
        let stored = self.kernel.load_once(slot, storage_size(width) * 8)?;
        Ok(Some(self.kernel.resize(stored, width)?.into()))
    }

    fn begin(&mut self, block: BlockId) -> Res<()> {
        self.fresh.borrow_mut().clear();
        let before = self.cfg.predecessors(block);
        let on_the_way = |from: &BlockId| {
            let left = self.left.get(from)?;
            let tested = match &self.walk.body.blocks[from.0 as usize].term {
                Terminator::Branch(condition, then, other) if then.block == block && other.block != block => {
                    self.tests.get(condition).filter(|test| test.head == left.head).map_or(0, |test| test.bytes)
                }
                _ => 0,
            };
            Some(left.bytes.max(tested))
        };
        let known: Option<Vec<u64>> = before.iter().map(on_the_way).collect();
        let bytes = known.and_then(|known| known.into_iter().min()).unwrap_or(0);
        let same = match before {
            [one] => self.left.get(one).map(|left| left.head),
            _ => None,
        };
        let head = same.unwrap_or_else(|| self.new_head());
        self.verified = VerifiedRange { bytes, head };
        Ok(())
    }

    fn pass(&mut self, block: BlockId, inst: usize) -> Res<ControlFlow> {
        self.at = (block, inst);
        if inst == self.walk.body.blocks[block.0 as usize].insts.len() {
            self.left.insert(block, self.verified);
        }
        Ok(ControlFlow::Continue)
    }

    fn operation(&mut self, inst: &Inst) -> Res<Option<BasicValueEnum<'c>>> {
        let kernel = self.kernel;
        kernel.at_location(self.walk.function, self.name, inst.span)?;
        let state = self.state;
        let handle = || Some(kernel.ptr.const_null().into());
        Ok(match &inst.op {
            Op::Load { packet, bits } => self.access(*packet, None, *bits, None)?.map(Into::into),
            Op::Store { packet, bits, value } => {
                self.access(*packet, None, *bits, Some(self.int(*value)?))?;
                None
            }
            Op::LoadAt { packet, offset, bits } => self.access(*packet, Some(*offset), *bits, None)?.map(Into::into),
            Op::StoreAt { packet, offset, bits, value } => {
                self.access(*packet, Some(*offset), *bits, Some(self.int(*value)?))?;
                None
            }
            Op::Has { bytes, .. } => {
                let bytes = self.int_of(*bytes, 32)?;
                let has = self.has(bytes)?;
                if let (Some(result), Some(bytes)) = (inst.result, super::main::constant(bytes))
                    && bytes <= OFFSETS
                    && !kernel.options.frags
                {
                    self.tests.insert(result, VerifiedRange { bytes, ..self.verified });
                }
                Some(has.into())
            }
            Op::Len { .. } => Some(kernel.len(state)?.into()),
            Op::Pull { bytes, .. } => {
                let bytes = self.int_of(*bytes, 32)?;
                self.pull(bytes)?;
                handle()
            }
            Op::Push { bytes, .. } => {
                self.push(*bytes)?;
                self.zero(u64::from(*bytes))?;
                handle()
            }
            Op::Move { by, .. } => {
                match u32::try_from(*by) {
                    Ok(bytes) => self.pull(kernel.i32.const_int(bytes.into(), false))?,
                    Err(_) => self.push(by.unsigned_abs())?,
                }
                handle()
            }
            Op::Sum { packet, offset, bytes } => {
                let (offset, bytes) = (self.int_of(*offset, 32)?, self.int_of(*bytes, 32)?);
                Some(self.sum(*packet, offset, bytes)?.into())
            }
            Op::Checksum { packet, at, covered, pseudo, optional } => {
                self.change_checksum(*packet, *at, [*covered, *pseudo], *optional)?;
                None
            }
            Op::Trim { bytes, .. } => {
                let bytes = self.int_of(*bytes, 32)?;
                self.trim(bytes)?;
                None
            }
            Op::Grow { bytes, end, .. } => {
                let bytes = self.int_of(*bytes, 32)?;
                Some(self.grow(bytes, *end)?.into())
            }
            Op::Now => Some(kernel.number(state, Field::Now)?.into()),
            Op::MetaLoad { field, .. } => Some(kernel.meta_load(state, *field)?.into()),
            Op::MetaStore { field, value, .. } => {
                kernel.meta_store(state, *field, self.int(*value)?)?;
                None
            }
            Op::Put { channel, .. } => {
                let (block, inst) = self.at;
                let hands_on = self.hands_on && is_last(self.walk.body, block.0 as usize, inst);
                kernel.put(self.ctx, state, *channel, hands_on)?;
                self.moved();
                None
            }
            Op::Tap { skip, metadata, channel, .. } => {
                let own = |(field, value): &(MetaId, Value)| Ok((*field, self.int(*value)?));
                let metadata = metadata.iter().map(own).collect::<Res<Vec<_>>>()?;
                let copy = Copy { skip: self.int_of(*skip, 32)?, metadata: &metadata, channel: *channel };
                kernel.tap(self.ctx, state, &copy)?;
                None
            }
            Op::Pass { channel } => {
                if channel.0 as usize >= kernel.program.channels.len() {
                    return internal(format!("there is no channel {}", channel.0));
                }
                kernel.count_slot(state, kernel.slots.channel(*channel))?;
                None
            }
            Op::Time { ppf } => {
                kernel.time(state, Some(*ppf))?;
                None
            }
            Op::Found { table, entry } => {
                let (entry, _) = self.entry(*entry)?;
                let null = kernel.builder.build_int_compare(IntPredicate::EQ, entry, kernel.long(0), "")?;
                kernel.looked_up(state, *table, null)?;
                None
            }
            Op::Drop { reason, .. } => {
                kernel.drop_packet(state, *reason)?;
                None
            }
            Op::Count { counter, index, amount } => {
                self.count(*counter, self.int_of(*index, 32)?, self.int_of(*amount, 64)?)?;
                None
            }
            Op::Lookup { table, key } => {
                let layout = inst.result.map(|value| self.ir_ty(value)).transpose()?;
                if layout != Some(Ty::Entry(kernel.table(*table)?.value)) {
                    return internal(format!("a look-up in table {} gives {layout:?}", table.0));
                }
                Some(self.lookup(*table, key)?.into())
            }
            Op::IsNull(entry) => {
                let (entry, _) = self.entry(*entry)?;
                Some(kernel.builder.build_int_compare(IntPredicate::EQ, entry, kernel.long(0), "")?.into())
            }
            Op::EntryLoad { entry, field } => Some(self.entry_load(*entry, *field)?.into()),
            Op::EntryStore { entry, field, value } => {
                self.entry_store(*entry, *field, *value)?;
                None
            }
            Op::Insert { table, key, value, new } => Some(self.insert(*table, key, value, *new)?.into()),
            Op::Remove { table, key } => Some(self.remove(*table, key)?.into()),
            Op::SetDeadline { table, key, at } => Some(self.set_deadline(*table, key, *at)?.into()),
            Op::Take { entry, amount } => Some(self.meter_take(*entry, *amount)?.into()),
            Op::Lock { entry } => {
                self.lock_entry(*entry)?;
                None
            }
            Op::Unlock { entry } => {
                self.unlock_entry(*entry)?;
                None
            }
            Op::Fence => {
                kernel.fence(state)?;
                None
            }
            op => return internal(format!("{op:?} cannot run in the kernel")),
        })
    }
}

impl<'c> Ppf<'_, 'c, '_> {
    /// The memory of a value that lies there.
    fn kept_at(&self, value: Value) -> Res<Option<PointerValue<'c>>> {
        let Some(at) = self.spill_slots.of(value) else { return Ok(None) };
        let kernel = self.kernel;
        let own = kernel.pointer(self.state, Field::Counters)?;
        Ok(Some(kernel.at(own, Shared::counters(kernel.program) + SCRATCH + at)?))
    }

    /// A number for a head that was not there before.
    pub(super) fn new_head(&mut self) -> u32 {
        self.heads += 1;
        self.heads
    }

    /// The protocol's bytes that a handle promises.
    pub(super) fn promise(&self, packet: Value) -> Res<u64> {
        match self.ir_ty(packet)? {
            Ty::Packet(protocol) => match self.kernel.program.protocols.get(protocol.0 as usize) {
                Some(protocol) => Ok(protocol.size.into()),
                None => internal(format!("there is no protocol {}", protocol.0)),
            },
            _ => internal(format!("value {} is not a packet", packet.0)),
        }
    }

    /// Adds to a cell of a user counter, if there is one with this index.
    fn count(&self, id: baker::ir::CounterId, index: IntValue<'c>, amount: IntValue<'c>) -> Res<()> {
        let kernel = self.kernel;
        let builder = &kernel.builder;
        let Some(counter) = kernel.program.counters.get(id.0 as usize) else {
            return internal(format!("there is no counter {}", id.0));
        };
        let size = kernel.i32.const_int(counter.size.into(), false);
        let in_range = builder.build_int_compare(IntPredicate::ULT, index, size, "")?;
        let (add, done) = (self.new_block("add"), self.new_block("done"));
        kernel.likely(builder.build_conditional_branch(in_range, add, done)?)?;
        builder.position_at_end(add);
        let counters = kernel.pointer(self.state, Field::Counters)?;
        let first = kernel.at(counters, kernel.slots.user(id) as u64 * 8)?;
        let mask = u64::from(counter.size.next_power_of_two()) - 1;
        let index = kernel.masked(kernel.resize(index, 64)?, mask)?;
        let eight = kernel.i64.const_int(8, false);
        let cell = kernel.at_index(first, builder.build_int_mul(index, eight, "")?)?;
        kernel.add_to(cell, amount)?;
        builder.build_unconditional_branch(done)?;
        builder.position_at_end(done);
        Ok(())
    }

    /// An entry: where its value lies in the memory (64 bits, 0 for null), and its layout.
    pub(super) fn entry(&self, value: Value) -> Res<(IntValue<'c>, LayoutId)> {
        match (self.ir_ty(value)?, self.value(value)?) {
            (Ty::Entry(layout), BasicValueEnum::IntValue(entry)) => Ok((entry, layout)),
            _ => internal(format!("value {} is not a table entry", value.0)),
        }
    }
}

//! Fetches ahead what the look-ups of a batch will read.
//!
//! A look-up in a table that is larger than the caches waits for memory, and the packets of a batch wait one after the
//! other. So before the batch is processed, two short loops run over all of its packets. They compute the keys that
//! depend on nothing but the packet as it came in, and prefetch where those keys lie:
//!
//! ```text
//! for packet in batch { prefetch tbl24[dst >> 8], bucket(src) }         the first memory that a look-up reads
//! for packet in batch { prefetch entries[tbl24[dst >> 8] - 1] }         what that leads to
//! for packet in batch { … }                                             the program
//! ```
//!
//! Where every table that they would look into is small, or has few entries so far, the loops are left out at run time.
//!
//! A key may turn out otherwise when the packet's turn comes (it was another kind of packet, or a header was changed):
//! then a line was fetched in vain. Nothing is written, and what is read is there: bytes of packets of at least
//! [`REACH`] bytes, array entries in range, slots of tables.

use std::collections::HashMap;
use std::mem::offset_of;

use baker::ir::{Inst, MetaId, Op, PpfId, Program, Table, TableId, TableKind, Target, Ty, Value, storage_size};
use inkwell::IntPredicate;
use inkwell::attributes::AttributeLoc;
use inkwell::intrinsics::Intrinsic;
use inkwell::module::Linkage;
use inkwell::values::{BasicValueEnum, FunctionValue, IntValue, PointerValue};

use super::body::pointer_param;
use super::memory::Memory;
use super::packet::align;
use super::{Module, Res};
use crate::abi::{self, HashBucket, HashTable, LpmTable};
use crate::{CodegenError, internal};

/// Packets shorter than this are not looked at: Ethernet's least frame without its check sequence.
const REACH: u32 = 60;
/// Tables that can take no more bytes than this stay in the nearest cache.
const CACHED: u64 = 32 << 10;
/// Steps of computing keys, so that the code stays short.
const BUDGET: u32 = 400;
/// PPFs behind each other that are looked into.
const DEPTH: usize = 8;

/// Which loop.
#[derive(Clone, Copy, PartialEq)]
enum Phase {
    First,
    Second,
}

impl<'c, 'p> Module<'c, 'p> {
    /// The function of context, frame numbers and their count; `None` where there is nothing to fetch ahead.
    pub(super) fn define_prefetch(&self) -> Res<Option<FunctionValue<'c>>> {
        let builder = &self.builder;
        let ty = self.context.void_type().fn_type(&[self.ptr.into(), self.ptr.into(), self.i32.into()], false);
        let function = self.llvm.add_function("prefetch", ty, Some(Linkage::Internal));
        self.decorate(function);
        self.decorate_pointer(function, 0, size_of::<abi::Context>() as u64);
        self.attribute(function, AttributeLoc::Param(0), "noalias", 0);
        let entry = self.context.append_basic_block(function, "entry");
        let start = self.context.append_basic_block(function, "start");
        let mut block = start;
        let mut tables: Vec<TableId> = Vec::new();
        for phase in [Phase::First, Phase::Second] {
            let [packet, look, next, exit] =
                ["packet", "look", "next", "exit"].map(|name| self.context.append_basic_block(function, name));
            builder.position_at_end(block);
            builder.build_unconditional_branch(packet)?;

            builder.position_at_end(packet);
            let index = builder.build_phi(self.i32, "")?;
            let i = index.as_basic_value().into_int_value();
            let (ctx, frames) = (pointer_param(function, 0)?, pointer_param(function, 1)?);
            let frame = self.load_int(self.i32, self.element(frames, i, 4)?, 4, Memory::Batch)?;
            let descriptor = self.descriptor(ctx, frame)?;
            let long = self.has(descriptor, self.i32.const_int(REACH.into(), false))?;
            self.likely(builder.build_conditional_branch(long, look, next)?)?;

            builder.position_at_end(look);
            let head = self.head(ctx, descriptor)?;
            let mut walk = Walk { module: self, ctx, descriptor, head, phase, tables: Vec::new(), budget: BUDGET };
            if let Some(Target::Ppf(ppf)) = self.source.channels.get(Program::RX.0 as usize).map(|rx| rx.target) {
                walk.ppf(ppf, 0, &HashMap::new(), DEPTH)?;
            }
            let found = !walk.tables.is_empty();
            tables.append(&mut walk.tables);
            builder.build_unconditional_branch(next)?;

            builder.position_at_end(next);
            let following = builder.build_int_nuw_add(i, self.i32.const_int(1, false), "")?;
            let Some(BasicValueEnum::IntValue(n)) = function.get_nth_param(2) else {
                return internal("the number of packets is not an integer");
            };
            let more = builder.build_int_compare(IntPredicate::ULT, following, n, "")?;
            // Without a look-up in this phase the loop is not entered again, and LLVM removes what is left.
            let more = if found { more } else { more.get_type().const_zero() };
            builder.build_conditional_branch(more, packet, exit)?;
            index.add_incoming(&[(&self.i32.const_zero(), block), (&following, next)]);
            block = exit;
        }
        builder.position_at_end(block);
        builder.build_return(None)?;

        // Only now it is known which tables are looked into.
        tables.sort_unstable();
        tables.dedup();
        let end = self.context.append_basic_block(function, "end");
        builder.position_at_end(end);
        builder.build_return(None)?;
        builder.position_at_end(entry);
        let ctx = pointer_param(function, 0)?;
        let mut large = self.i32.const_zero();
        for &id in &tables {
            let offset = match self.table(id)?.kind {
                TableKind::Lpm => offset_of!(LpmTable, large),
                _ => offset_of!(HashTable, large),
            };
            let flag = self.load_shared(self.at(self.control(ctx, id)?, offset as u64)?)?;
            large = builder.build_or(large, flag, "")?;
        }
        let any = builder.build_int_compare(IntPredicate::NE, large, self.i32.const_zero(), "")?;
        builder.build_conditional_branch(any, start, end)?;
        Ok((!tables.is_empty()).then_some(function))
    }

    fn prefetch(&self, at: PointerValue<'c>) -> Res<()> {
        let prefetch = Intrinsic::find("llvm.prefetch")
            .and_then(|prefetch| prefetch.get_declaration(&self.llvm, &[self.ptr.into()]))
            .ok_or_else(|| CodegenError::Internal("LLVM cannot prefetch".into()))?;
        // To read, into all caches, data.
        let [read, all, data] = [0, 3, 1].map(|n| self.i32.const_int(n, false));
        self.builder.build_call(prefetch, &[at.into(), read.into(), all.into(), data.into()], "")?;
        Ok(())
    }
}

/// Metadata that PPFs before set to what can be computed.
type Metadata<'c> = HashMap<MetaId, IntValue<'c>>;

/// A walk through the program from `rx`, as a packet goes.
struct Walk<'m, 'c, 'p> {
    module: &'m Module<'c, 'p>,
    ctx: PointerValue<'c>,
    descriptor: PointerValue<'c>,
    head: PointerValue<'c>,
    phase: Phase,
    /// Tables that a prefetch was made for.
    tables: Vec<TableId>,
    budget: u32,
}

/// Where a value comes from.
#[derive(Clone)]
enum Origin<'p> {
    Inst(&'p Inst),
    /// The values that jumps pass to a block parameter.
    Jumps(Vec<Value>),
}

/// A PPF on the walk.
struct Visit<'v, 'c, 'p> {
    types: &'p [Ty],
    origins: HashMap<Value, Origin<'p>>,
    /// The packet that it gets, and how far its head is behind that of the packet as it came in.
    packet: Value,
    offset: u32,
    metadata: &'v Metadata<'c>,
    known: HashMap<Value, Option<IntValue<'c>>>,
}

impl<'c, 'p> Walk<'_, 'c, 'p> {
    fn ppf(&mut self, id: PpfId, offset: u32, metadata: &Metadata<'c>, depth: usize) -> Res<()> {
        let Some(body) = self.module.source.ppfs.get(id.0 as usize).map(|ppf| &ppf.body) else {
            return internal(format!("there is no PPF {}", id.0));
        };
        let Some(&packet) = body.blocks.first().and_then(|block| block.params.first()) else { return Ok(()) };
        let mut visit =
            Visit { types: &body.values, origins: origins(body), packet, offset, metadata, known: HashMap::new() };
        let insts = || body.blocks.iter().flat_map(|block| &block.insts);
        let mut after = metadata.clone();
        for inst in insts() {
            match &inst.op {
                Op::Lookup { table, key } => self.lookup(&mut visit, *table, key)?,
                Op::MetaStore { packet, field, value } if self.offset_of(&visit, *packet).is_some() => {
                    match self.value(&mut visit, *value)? {
                        Some(value) => after.insert(*field, value),
                        None => after.remove(field),
                    };
                }
                _ => {}
            }
        }
        for inst in insts() {
            let Op::Put { packet, channel } = inst.op else { continue };
            let target = self.module.source.channels.get(channel.0 as usize).map(|channel| channel.target);
            if let (Some(Target::Ppf(next)), Some(offset), 1..) = (target, self.offset_of(&visit, packet), depth) {
                self.ppf(next, offset, &after, depth - 1)?;
            }
        }
        Ok(())
    }

    fn lookup(&mut self, visit: &mut Visit<'_, 'c, 'p>, id: TableId, key: &[Value]) -> Res<()> {
        let module = self.module;
        let table = module.table(id)?;
        let wanted = match table.kind {
            TableKind::Array => false,
            TableKind::Lpm => {
                let values = u64::from(table.capacity) * module.stride(table.value)?;
                abi::is_dir_24_8(module.program, table) && (self.phase == Phase::First || values > CACHED)
            }
            TableKind::Hash => {
                let entry = module.hash_entry(table)?.stride as u64;
                let bytes = u64::from(table.capacity) * (entry + size_of::<HashBucket>() as u64 / 3);
                self.phase == Phase::First && bytes > CACHED
            }
        };
        if !wanted {
            return Ok(());
        }
        let mut fields = Vec::new();
        for value in key {
            match self.value(visit, *value)? {
                Some(value) => fields.push(value),
                None => return Ok(()),
            }
        }
        self.tables.push(id);
        let control = module.control(self.ctx, id)?;
        match (table.kind, fields.as_slice()) {
            (TableKind::Lpm, [key]) => self.lpm(control, table, *key),
            _ => {
                let hash = module.hash_of(control, &module.pack(table, &fields)?)?;
                module.prefetch(module.first_bucket(control, hash)?)
            }
        }
    }

    /// The slot of `tbl24`, then the group's slot or the value that it leads to.
    fn lpm(&self, control: PointerValue<'c>, table: &Table, key: IntValue<'c>) -> Res<()> {
        let module = self.module;
        let builder = &module.builder;
        let tbl24 = module.entries(control, offset_of!(LpmTable, tbl24))?;
        let upper = builder.build_right_shift(key, module.i32.const_int(8, false), false, "")?;
        let at = module.element(tbl24, upper, 4)?;
        if self.phase == Phase::First {
            return module.prefetch(at);
        }
        let slot = module.load_shared(at)?;
        let group = module.i32.const_int(abi::LPM_GROUP.into(), false);
        let is_group = builder.build_int_compare(IntPredicate::UGE, slot, group, "")?;
        let tbl8 = module.entries(control, offset_of!(LpmTable, tbl8))?;
        let number = builder.build_and(slot, module.i32.const_int((!abi::LPM_GROUP).into(), false), "")?;
        let slots = module.element(tbl8, number, 256 * 4)?;
        let in_group = module.element(slots, builder.build_and(key, module.i32.const_int(0xff, false), "")?, 4)?;
        let entries = module.entries(control, offset_of!(LpmTable, entries))?;
        let none = builder.build_int_compare(IntPredicate::EQ, slot, module.i32.const_zero(), "")?;
        let index = builder.build_int_sub(slot, module.i32.const_int(1, false), "")?;
        let index = module.select_int(none, slot, index)?;
        let value = module.element(entries, index, module.stride(table.value)?)?;
        module.prefetch(builder.build_select(is_group, in_group, value, "")?.into_pointer_value())
    }

    /// Bytes from the head of the packet as it came in to that of a handle.
    fn offset_of(&self, visit: &Visit<'_, 'c, 'p>, packet: Value) -> Option<u32> {
        if packet == visit.packet {
            return Some(visit.offset);
        }
        let Origin::Inst(inst) = visit.origins.get(&packet)? else { return None };
        let Op::Pull { packet, bytes } = inst.op else { return None };
        let Origin::Inst(Inst { op: Op::Const(bytes), .. }) = visit.origins.get(&bytes)? else { return None };
        self.offset_of(visit, packet)?.checked_add(u32::try_from(*bytes).ok()?)
    }

    /// A value, as far as it depends on the packet as it came in, on arrays and on metadata that is known.
    fn value(&mut self, visit: &mut Visit<'_, 'c, 'p>, value: Value) -> Res<Option<IntValue<'c>>> {
        if let Some(known) = visit.known.get(&value) {
            return Ok(*known);
        }
        // What leads back to itself is not known.
        visit.known.insert(value, None);
        let result = self.compute(visit, value)?;
        visit.known.insert(value, result);
        Ok(result)
    }

    fn compute(&mut self, visit: &mut Visit<'_, 'c, 'p>, value: Value) -> Res<Option<IntValue<'c>>> {
        let module = self.module;
        let Some(left) = self.budget.checked_sub(1) else { return Ok(None) };
        self.budget = left;
        let inst = match visit.origins.get(&value).cloned() {
            None => return Ok(None),
            Some(Origin::Inst(inst)) => inst,
            Some(Origin::Jumps(values)) => {
                // Of two, one is often what stands for an entry that is not there: the other is meant.
                let constant = |value: &Value| {
                    matches!(visit.origins.get(value), Some(Origin::Inst(Inst { op: Op::Const(_), .. })))
                };
                let (constants, others): (Vec<Value>, Vec<Value>) = values.iter().partition(|value| constant(value));
                let Some(meant) = others.into_iter().chain(constants).next() else { return Ok(None) };
                return self.value(visit, meant);
            }
        };
        Ok(match &inst.op {
            Op::Const(number) => match self.width(visit, inst) {
                Some(width) => Some(module.constant(width, *number)?),
                None => None,
            },
            Op::Bin(op, a, b) => match (self.value(visit, *a)?, self.value(visit, *b)?) {
                (Some(a), Some(b)) => Some(module.binary(*op, a, b)?),
                _ => None,
            },
            Op::Cast(op, a) => match (self.value(visit, *a)?, self.width(visit, inst)) {
                (Some(a), Some(width)) => Some(module.cast(*op, a, width)?),
                _ => None,
            },
            Op::Load { packet, bits } => match self.offset_of(visit, *packet) {
                Some(offset) if offset.saturating_add(bits.end_byte()) <= REACH => {
                    Some(module.load_bits(module.at(self.head, offset.into())?, *bits)?)
                }
                _ => None,
            },
            Op::MetaLoad { packet, field } if self.offset_of(visit, *packet).is_some() => {
                match visit.metadata.get(field) {
                    Some(known) => Some(*known),
                    None if *field == Program::RX_PORT => Some(module.meta_load(self.descriptor, *field)?),
                    None => None,
                }
            }
            Op::EntryLoad { entry, field } => self.array_field(visit, *entry, *field)?,
            _ => None,
        })
    }

    /// A field of an array's entry; that of entry 0 where the index is out of range.
    fn array_field(&mut self, visit: &mut Visit<'_, 'c, 'p>, entry: Value, field: u32) -> Res<Option<IntValue<'c>>> {
        let module = self.module;
        let Some(Origin::Inst(Inst { op: Op::Lookup { table: id, key }, .. })) = visit.origins.get(&entry) else {
            return Ok(None);
        };
        let (id, [index]) = (*id, key.as_slice()) else { return Ok(None) };
        let table = module.table(id)?;
        if table.kind != TableKind::Array || table.capacity == 0 {
            return Ok(None);
        }
        let Some(index) = self.value(visit, *index)? else { return Ok(None) };
        let capacity = index.get_type().const_int(table.capacity.into(), false);
        let in_range = module.builder.build_int_compare(IntPredicate::ULT, index, capacity, "")?;
        let index = module.select_int(in_range, index, index.get_type().const_zero())?;
        let entries = module.entries(module.control(self.ctx, id)?, offset_of!(abi::ArrayTable, entries))?;
        let entry = module.element(entries, index, module.stride(table.value)?)?;
        let field = module.field(table.value, field)?;
        let size = storage_size(field.width);
        let at = module.at(entry, field.offset.into())?;
        let stored = module.load_int(module.int(size * 8)?, at, align(size), Memory::Table)?;
        Ok(Some(module.resize(stored, field.width)?))
    }

    fn width(&self, visit: &Visit<'_, 'c, 'p>, inst: &Inst) -> Option<u32> {
        match inst.result.and_then(|value| visit.types.get(value.0 as usize)) {
            Some(Ty::Int(width @ 1..=128)) => Some(*width),
            _ => None,
        }
    }
}

/// Where each value of a PPF comes from.
fn origins(body: &baker::ir::Body) -> HashMap<Value, Origin<'_>> {
    let mut origins: HashMap<Value, Origin<'_>> = HashMap::new();
    for block in &body.blocks {
        origins.extend(block.insts.iter().filter_map(|inst| Some((inst.result?, Origin::Inst(inst)))));
        for dest in block.term.dests() {
            let Some(to) = body.blocks.get(dest.block.0 as usize) else { continue };
            for (param, value) in to.params.iter().zip(&dest.args) {
                match origins.entry(*param).or_insert_with(|| Origin::Jumps(Vec::new())) {
                    Origin::Jumps(values) => values.push(*value),
                    Origin::Inst(_) => {}
                }
            }
        }
    }
    origins
}

//! Look-up staging: the two functions that the body behind `rx` becomes. [`baker::opt::stage`] says why that changes
//! nothing that can be seen; `run.rs` has the loops that call them.
//!
//! ```text
//! ahead(context, packet, record, point, stops) → point      from one place to the next, without effects
//! ppf(context, packet, record, point)                       from a place to the packet's end; from 0: all of it
//! ```
//!
//! Points are numbered: 0 is the body's start; then come two for each look-up, where the first memory that it reads is
//! fetched, and where what that leads to is; then those in front of effects. `stops` has a bit for each of those two. A
//! point with [`LAST`] is where the packet waits for those before it: no place to stop follows.

use std::collections::{BTreeSet, HashMap};
use std::mem::offset_of;

use baker::ir::{BlockId, Op, TableId, TableKind, Ty, Value, storage_size};
use baker::opt::stage::{LookUp, Plan, Point};
use inkwell::IntPredicate;
use inkwell::basic_block::BasicBlock;
use inkwell::intrinsics::Intrinsic;
use inkwell::values::{BasicValueEnum, IntValue, PointerValue};

use super::body::Ppf;
use super::memory::Memory;
use super::packet::align;
use super::walk::{ControlFlow, Lowering, int_param, pointer_param};
use super::{Module, Res};
use crate::abi::{self, Context, HashTable, LpmTable};
use crate::{CodegenError, internal};

/// Bytes of a cache line.
const LINE: u64 = 64;

/// Where in a packet's record the signature of what it has read lies.
pub(super) const READS: u64 = 0;
/// Where the mask of what is put off lies.
const MASK: u64 = 8;
/// Where the first slot lies.
const SLOTS: u64 = 16;

/// Marks the point at which a packet's effects begin.
pub(super) const LAST: u64 = 1 << 31;

/// Which function of the two.
#[derive(Clone, Copy)]
pub(super) enum Part<'p> {
    Ahead(&'p Plan),
    Rest(&'p Plan),
}

/// A body on the way to one of the functions.
pub(super) struct Staged<'c, 'p> {
    part: Part<'p>,
    record: PointerValue<'c>,
    /// Values that the record keeps at some point. In memory, which LLVM turns into registers again: a value has
    /// several definitions, its own and those where the body is entered.
    kept: HashMap<Value, PointerValue<'c>>,
    reads: PointerValue<'c>,
    mask: PointerValue<'c>,
    /// Where each point is entered, from point 1 of this part on.
    entries: Vec<BasicBlock<'c>>,
}

impl<'c> Staged<'c, '_> {
    /// What goes from point to point beside values, and where the record has it.
    fn carried(&self) -> impl Iterator<Item = (PointerValue<'c>, u64)> + use<'c> {
        let plan = self.part.plan();
        let reads = plan.may_conflict().then_some((self.reads, READS));
        reads.into_iter().chain(plan.has_choice().then_some((self.mask, MASK)))
    }
}

impl<'p> Part<'p> {
    pub(super) fn plan(self) -> &'p Plan {
        match self {
            Part::Ahead(plan) | Part::Rest(plan) => plan,
        }
    }
}

/// The first point in front of an effect.
pub(super) fn first_stop(plan: &Plan) -> usize {
    1 + 2 * plan.look_ups.len()
}

/// Bytes of a packet's record.
pub(super) fn record_size(plan: &Plan) -> u64 {
    SLOTS + 8 * u64::from(plan.words)
}

impl<'c, 'p> Ppf<'_, 'c, 'p> {
    /// Prepares the lowering of a part. The function's parameters are those of the part.
    pub(super) fn part(mut self, part: Option<Part<'p>>) -> Res<Self> {
        let Some(part) = part else { return Ok(self) };
        let builder = &self.module.builder;
        builder.position_at_end(self.prologue);
        let i64_type = self.module.i64;
        let (reads, mask) = (builder.build_alloca(i64_type, "reads")?, builder.build_alloca(i64_type, "mask")?);
        let again =
            |point: &Point| point.again.iter().filter_map(|place| self.inst_at(*place).result).collect::<Vec<_>>();
        let values: BTreeSet<Value> =
            part.plan().points().flat_map(|point| [point.saved.clone(), again(point)].concat()).collect();
        let slot = |value| Ok((value, builder.build_alloca(self.ty(value)?, "")?));
        let kept = values.into_iter().map(slot).collect::<Res<_>>()?;
        let entry = || self.new_block("resume");
        let entries = match part {
            Part::Ahead(plan) => (0..2 * plan.look_ups.len()).map(|_| entry()).collect(),
            // From a look-up on it is all the same what of its memory was fetched.
            Part::Rest(plan) => {
                let look_ups = plan.look_ups.iter().map(|_| entry()).flat_map(|entry| [entry, entry]);
                look_ups.chain(plan.stops.iter().map(|_| entry())).collect()
            }
        };
        let record = pointer_param(self.function, 2)?;
        self.staged = Some(Staged { part, record, kept, reads, mask, entries });
        Ok(self)
    }

    /// From the prologue to the point that the function is entered at.
    pub(super) fn start(&mut self, block: BlockId, arguments: &[BasicValueEnum<'c>]) -> Res<()> {
        let Some(staged) = &self.staged else { return self.jump(block, arguments) };
        let module = self.module;
        let builder = &module.builder;
        let begin = self.new_block("begin");
        let case = |(index, entry): (usize, &BasicBlock<'c>)| (module.i32.const_int(1 + index as u64, false), *entry);
        let cases: Vec<_> = staged.entries.iter().enumerate().map(case).collect();
        builder.build_switch(int_param(self.function, 3)?, begin, &cases)?;
        builder.position_at_end(begin);
        for slot in [staged.reads, staged.mask] {
            builder.build_store(slot, module.i64.const_zero())?;
        }
        if let Part::Ahead(_) = staged.part {
            let [complete, short] = ["complete", "short"].map(|name| self.new_block(name));
            let has =
                module.has(pointer_param(self.function, 1)?, module.i32.const_int(self.least()?.into(), false))?;
            module.likely(builder.build_conditional_branch(has, complete, short)?)?;
            builder.position_at_end(short);
            builder.build_return(Some(&module.i32.const_int(LAST, false)))?;
            builder.position_at_end(complete);
        }
        self.jump(block, arguments)
    }

    /// Bytes of a complete packet.
    fn least(&self) -> Res<u32> {
        let protocol = match self.body.blocks[0].params.first().map(|packet| self.ir_ty(*packet)).transpose()? {
            Some(Ty::Packet(protocol)) => self.module.program.protocols.get(protocol.0 as usize),
            _ => None,
        };
        protocol.map_or_else(|| internal("a body that gets no packet"), |protocol| Ok(protocol.size))
    }

    /// Whether a block belongs to the part.
    pub(super) fn has_block(&self, block: BlockId) -> bool {
        match &self.staged {
            Some(Staged { part: Part::Ahead(plan), .. }) => plan.ahead.contains(&block),
            _ => true,
        }
    }

    /// What there is to do in front of an instruction.
    pub(super) fn pass(&mut self, block: BlockId, inst: usize) -> Res<ControlFlow> {
        let Some(part) = self.staged.as_ref().map(|staged| staged.part) else { return Ok(ControlFlow::Continue) };
        let is_here = |point: &Point| point.block == block && point.inst == inst;
        let plan = part.plan();
        let stop = plan.stops.iter().position(is_here);
        let look_up = plan.look_ups.iter().position(|look_up| is_here(&look_up.point));
        match (part, stop, look_up) {
            (Part::Rest(_), Some(stop), _) => self.enter_at(&plan.stops[stop], 2 * plan.look_ups.len() + stop)?,
            (Part::Rest(_), _, Some(look_up)) => self.enter_at(&plan.look_ups[look_up].point, 2 * look_up)?,
            (Part::Ahead(_), Some(stop), _) => {
                let number = LAST + (first_stop(plan) + stop) as u64;
                self.leave(&plan.stops[stop], self.module.i32.const_int(number, false))?;
                return Ok(ControlFlow::Return);
            }
            (Part::Ahead(_), _, Some(look_up)) => self.look_up(plan, look_up)?,
            (Part::Ahead(_), ..) => {
                if let Some(bit) = plan.deferred.iter().position(|place| *place == (block, inst)) {
                    return self.put_off(plan, bit);
                }
            }
            _ => {}
        }
        Ok(ControlFlow::Continue)
    }

    /// Lets the function be entered here.
    fn enter_at(&mut self, point: &Point, entry: usize) -> Res<()> {
        let module = self.module;
        let here = self.new_block("here");
        module.builder.build_unconditional_branch(here)?;
        self.resume(entry, point)?;
        self.catch_up(point)?;
        module.builder.build_unconditional_branch(here)?;
        module.builder.position_at_end(here);
        Ok(())
    }

    /// Stops in front of a look-up, twice, where that is wanted.
    fn look_up(&mut self, plan: &Plan, look_up: usize) -> Res<()> {
        let module = self.module;
        let builder = &module.builder;
        let LookUp { point, table, later } = &plan.look_ups[look_up];
        let (first, second) = (1 << (2 * look_up), 2 << (2 * look_up));
        let later = later.iter().fold(0, |bits, look_up| bits | 3 << (2 * look_up));
        let [wait, go, more, fetch] = ["wait", "go", "more", "fetch"].map(|name| self.new_block(name));
        builder.build_conditional_branch(self.stops_at(first)?, wait, go)?;

        builder.position_at_end(wait);
        let key = self.key_of(point)?;
        module.prefetch(self.first_memory(*table, &key)?)?;
        self.leave(point, self.numbered(1 + 2 * look_up, later | second)?)?;

        self.resume(2 * look_up, point)?;
        builder.build_conditional_branch(self.stops_at(second)?, fetch, more)?;
        builder.position_at_end(fetch);
        let key = self.key_of(point)?;
        let memory = self.second_memory(*table, &key)?;
        module.prefetch(memory)?;
        let declared = module.table(*table)?;
        if declared.kind == TableKind::Hash {
            // An entry of more than a line begins anywhere in one.
            let stride = module.hash_entry(declared)?.stride as u64;
            let mut beyond = [LINE, stride - 1].into_iter().filter(|_| stride > LINE);
            beyond.try_for_each(|at| module.prefetch(module.at(memory, at)?))?;
        }
        // All else is in the record already.
        builder.build_return(Some(&self.numbered(2 + 2 * look_up, later)?))?;

        self.resume(2 * look_up + 1, point)?;
        builder.build_unconditional_branch(go)?;
        builder.position_at_end(more);
        builder.build_unconditional_branch(go)?;
        builder.position_at_end(go);
        Ok(())
    }

    /// The number of a point, marked where the function does not stop at any of `later` (bits of `stops`).
    fn numbered(&self, number: usize, later: u64) -> Res<IntValue<'c>> {
        let module = self.module;
        let constant = |number| module.i32.const_int(number, false);
        module.select_int(self.stops_at(later)?, constant(number as u64), constant(LAST + number as u64))
    }

    /// Whether `stops` has one of these bits; 1 bit.
    fn stops_at(&self, bits: u64) -> Res<IntValue<'c>> {
        let module = self.module;
        let stops = int_param(self.function, 4)?;
        let set = module.builder.build_and(stops, module.i64.const_int(bits, false), "")?;
        Ok(module.builder.build_int_compare(IntPredicate::NE, set, module.i64.const_zero(), "")?)
    }

    fn key_of(&self, point: &Point) -> Res<Vec<IntValue<'c>>> {
        match &self.inst_at((point.block, point.inst)).op {
            Op::Lookup { key, .. } => key.iter().map(|value| self.int(*value)).collect(),
            _ => internal("a look-up that is none"),
        }
    }

    /// What a look-up reads first.
    fn first_memory(&self, id: TableId, key: &[IntValue<'c>]) -> Res<PointerValue<'c>> {
        let module = self.module;
        let table = module.table(id)?;
        let control = module.control(self.ctx, id)?;
        match (table.kind, key) {
            (TableKind::Lpm, [key]) => {
                let tbl24 = module.entries(control, offset_of!(LpmTable, tbl24))?;
                let upper = module.builder.build_right_shift(*key, module.i32.const_int(8, false), false, "")?;
                module.element(tbl24, upper, 4)
            }
            _ => module.first_bucket(control, module.hash_of(control, &module.pack(table, key)?)?),
        }
    }

    /// What that leads to.
    fn second_memory(&self, id: TableId, key: &[IntValue<'c>]) -> Res<PointerValue<'c>> {
        let module = self.module;
        let builder = &module.builder;
        let table = module.table(id)?;
        let control = module.control(self.ctx, id)?;
        let first = self.first_memory(id, key)?;
        if let (TableKind::Lpm, [key]) = (table.kind, key) {
            let constant = |value: u32| module.i32.const_int(value.into(), false);
            let slot = module.load_shared(first)?;
            let is_group = builder.build_int_compare(IntPredicate::UGE, slot, constant(abi::LPM_GROUP), "")?;
            let tbl8 = module.entries(control, offset_of!(LpmTable, tbl8))?;
            let number = builder.build_and(slot, constant(!abi::LPM_GROUP), "")?;
            let slots = module.element(tbl8, number, 256 * 4)?;
            let in_group = module.element(slots, builder.build_and(*key, constant(0xff), "")?, 4)?;
            let entries = module.entries(control, offset_of!(LpmTable, entries))?;
            let none = builder.build_int_compare(IntPredicate::EQ, slot, constant(0), "")?;
            let index = module.select_int(none, slot, builder.build_int_sub(slot, constant(1), "")?)?;
            let value = module.element(entries, index, module.stride(table.value)?)?;
            return Ok(builder.build_select(is_group, in_group, value, "")?.into_pointer_value());
        }
        let hash = module.hash_of(control, &module.pack(table, key)?)?;
        let equal = module.equal_tags(first, hash)?;
        // Without an equal tag it is the last slot's entry: there is one to read in any case.
        let last = module.i32.const_int(1 << 14, false);
        let number = module.entry_number(first, builder.build_or(equal, last, "")?)?;
        let entries = module.entries(control, offset_of!(HashTable, entries))?;
        module.element(entries, number, module.hash_entry(table)?.stride as u64)
    }

    /// Saves what is live and returns the point's number.
    fn leave(&self, point: &Point, number: IntValue<'c>) -> Res<()> {
        let module = self.module;
        let Some(staged) = &self.staged else { return internal("a body that is not staged") };
        for value in &point.saved {
            let at = module.at(staged.record, self.slot(staged, *value)?)?;
            match (self.ir_ty(*value)?, self.value(*value)?) {
                (Ty::Int(width), BasicValueEnum::IntValue(int)) => {
                    let size = storage_size(width);
                    module.store(at, module.resize(int, size * 8)?, align(size), Memory::Record)?;
                }
                (_, pointer) => {
                    let store = module.builder.build_store(at, pointer)?;
                    module.tag(store, Memory::Record)?;
                }
            }
        }
        for (slot, at) in staged.carried() {
            let value = module.builder.build_load(module.i64, slot, "")?.into_int_value();
            module.store(module.at(staged.record, at)?, value, 8, Memory::Record)?;
        }
        module.builder.build_return(Some(&number))?;
        Ok(())
    }

    fn slot(&self, staged: &Staged<'c, 'p>, value: Value) -> Res<u64> {
        match staged.part.plan().slots.get(&value) {
            Some(slot) => Ok(SLOTS + 8 * u64::from(*slot)),
            None => internal(format!("value {} has no place in the record", value.0)),
        }
    }

    /// Where the function is entered at a point: takes from the record what was live there.
    fn resume(&mut self, entry: usize, point: &Point) -> Res<()> {
        let module = self.module;
        let Some(staged) = &self.staged else { return internal("a body that is not staged") };
        module.builder.position_at_end(staged.entries[entry]);
        for (slot, at) in staged.carried() {
            let value = module.load_int(module.i64, module.at(staged.record, at)?, 8, Memory::Record)?;
            module.builder.build_store(slot, value)?;
        }
        for value in &point.saved {
            let at = module.at(staged.record, self.slot(staged, *value)?)?;
            let loaded = match self.ir_ty(*value)? {
                Ty::Int(width) => {
                    let size = storage_size(width);
                    let stored = module.load_int(module.int(size * 8)?, at, align(size), Memory::Record)?;
                    module.resize(stored, width)?.into()
                }
                _ => module.load(module.ptr, at, 8, Memory::Record)?,
            };
            self.keep(*value, loaded)?;
        }
        for place in &point.again {
            let inst = self.inst_at(*place);
            match (inst.result, self.inst(inst)?) {
                (Some(value), Some(result)) => self.keep(value, result)?,
                _ => return internal(format!("{:?} gives no value", inst.op)),
            }
        }
        Ok(())
    }

    /// Does what was put off on the way to a point.
    fn catch_up(&mut self, point: &Point) -> Res<()> {
        let module = self.module;
        let Some((plan, mask)) = self.staged.as_ref().map(|staged| (staged.part.plan(), staged.mask)) else {
            return internal("a body that is not staged");
        };
        for index in &point.due {
            self.inst(self.inst_at(plan.deferred[*index]))?;
        }
        for index in &point.maybe {
            let (due, next) = (self.new_block("due"), self.new_block("next"));
            let mask = module.builder.build_load(module.i64, mask, "")?.into_int_value();
            let bit = module.builder.build_and(mask, module.i64.const_int(1 << index, false), "")?;
            let is_due = module.builder.build_int_compare(IntPredicate::NE, bit, module.i64.const_zero(), "")?;
            module.builder.build_conditional_branch(is_due, due, next)?;
            module.builder.position_at_end(due);
            self.inst(self.inst_at(plan.deferred[*index]))?;
            module.builder.build_unconditional_branch(next)?;
            module.builder.position_at_end(next);
        }
        Ok(())
    }

    /// Notes that an instruction is due later, where the point alone does not say so.
    fn put_off(&self, plan: &Plan, bit: usize) -> Res<ControlFlow> {
        if let Some(staged) = &self.staged
            && plan.points().any(|point| point.maybe.contains(&bit))
        {
            self.set_bits(staged.mask, self.module.i64.const_int(1 << bit, false))?;
        }
        Ok(ControlFlow::Skip)
    }

    fn set_bits(&self, at: PointerValue<'c>, bits: IntValue<'c>) -> Res<()> {
        let builder = &self.module.builder;
        let old = builder.build_load(self.module.i64, at, "")?.into_int_value();
        builder.build_store(at, builder.build_or(old, bits, "")?)?;
        Ok(())
    }

    /// Keeps a value that some point's record has.
    pub(super) fn keep(&self, value: Value, result: BasicValueEnum<'c>) -> Res<()> {
        if let Some(slot) = self.staged.as_ref().and_then(|staged| staged.kept.get(&value)) {
            self.module.builder.build_store(*slot, result)?;
        }
        Ok(())
    }

    /// Such a value, or the packet, wherever the body was entered.
    pub(super) fn kept(&self, value: Value) -> Res<Option<BasicValueEnum<'c>>> {
        let Some(staged) = &self.staged else { return Ok(None) };
        if self.body.blocks[0].params.first() == Some(&value) {
            return Ok(Some(pointer_param(self.function, 1)?.into()));
        }
        match staged.kept.get(&value) {
            Some(slot) => Ok(Some(self.module.builder.build_load(self.ty(value)?, *slot, "")?)),
            None => Ok(None),
        }
    }

    /// Notes what a look-up that runs ahead has read.
    pub(super) fn note_read(&self, id: TableId, key: &[Value], entry: PointerValue<'c>) -> Res<()> {
        let Some(Staged { part: Part::Ahead(plan), reads, .. }) = &self.staged else { return Ok(()) };
        let table = self.module.table(id)?;
        if plan.keys.contains(&id) {
            self.set_bits(*reads, self.key_bit(id, key)?)?;
        }
        if plan.layouts.contains(&table.value) {
            self.set_bits(*reads, self.module.entry_bit(entry)?)?;
        }
        Ok(())
    }

    /// Notes that a key comes or goes, or that an array's entry changes.
    pub(super) fn note_change(&self, id: TableId, key: &[Value]) -> Res<()> {
        let Some(plan) = self.module.plan else { return Ok(()) };
        let table = self.module.table(id)?;
        if plan.keys.contains(&id) {
            return self.module.note_written(self.ctx, self.key_bit(id, key)?);
        }
        if table.kind == TableKind::Array && plan.layouts.contains(&table.value) {
            let (entry, _) = self.array_entry(id, table, key)?;
            return self.module.note_written(self.ctx, self.module.entry_bit(entry)?);
        }
        Ok(())
    }

    /// Notes that an entry changes.
    pub(super) fn note_store(&self, entry: Value, field: u32) -> Res<()> {
        let Some(plan) = self.module.plan else { return Ok(()) };
        let (entry, layout) = self.entry(entry)?;
        if plan.layouts.contains(&layout) && !plan.times.has(layout, field) {
            return self.module.note_written(self.ctx, self.module.entry_bit(entry)?);
        }
        Ok(())
    }

    /// The signature of a key.
    fn key_bit(&self, id: TableId, key: &[Value]) -> Res<IntValue<'c>> {
        let module = self.module;
        let hash = module.hash_of(module.control(self.ctx, id)?, &self.pack(module.table(id)?, key)?)?;
        module.bit_of(hash)
    }
}

impl<'c> Module<'c, '_> {
    /// The signature of an entry.
    fn entry_bit(&self, entry: PointerValue<'c>) -> Res<IntValue<'c>> {
        let address = self.builder.build_ptr_to_int(entry, self.i64, "")?;
        // Fibonacci hashing (Knuth, The Art of Computer Programming, volume 3, section 6.4).
        let factor = self.i64.const_int(0x9e37_79b9_7f4a_7c15, false);
        self.bit_of(self.builder.build_int_mul(address, factor, "")?)
    }

    /// One of 64 bits, by the upper bits of a hash.
    fn bit_of(&self, hash: IntValue<'c>) -> Res<IntValue<'c>> {
        let upper = self.builder.build_right_shift(hash, self.i64.const_int(58, false), false, "")?;
        Ok(self.builder.build_left_shift(self.i64.const_int(1, false), upper, "")?)
    }

    fn note_written(&self, ctx: PointerValue<'c>, bits: IntValue<'c>) -> Res<()> {
        let at = self.at(ctx, offset_of!(Context, written) as u64)?;
        let old = self.load_int(self.i64, at, 8, Memory::Context)?;
        self.store(at, self.builder.build_or(old, bits, "")?, 8, Memory::Context)
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

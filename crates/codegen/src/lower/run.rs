//! The function over a batch: each frame through the entry's protocol check and into the program.
//!
//! ```text
//! run(context, frames, n):
//!     stops = the look-ups in tables that are large now       where the program's look-ups are staged
//!     if stops: take all packets up to their first effect
//!     for packet in batch { check, ppf }                      from where it stopped
//! ```

use std::mem::offset_of;

use baker::ir::{ChannelId, DropId, Program, TableKind};
use baker::opt::stage::Plan;
use inkwell::IntPredicate;
use inkwell::attributes::AttributeLoc;
use inkwell::basic_block::BasicBlock;
use inkwell::values::{BasicValueEnum, FunctionValue, IntValue, PointerValue};

use super::body::lower_ppf;
use super::memory::Memory;
use super::stage::{LAST, Part, READS, record_size};
use super::walk::{int_param, pointer_param};
use super::{Module, Res, entry_symbol};
use crate::abi::{self, Context, HashTable, LpmTable, MAX_BATCH, Staging};
use crate::internal;

/// Batches of fewer packets are not staged: they gain too little.
const LEAST: u64 = 8;
/// Batches that are not staged after one in which a quarter of the packets began again.
const REST: u64 = 32;

/// A batch on the way through its function.
struct Batch<'c> {
    function: FunctionValue<'c>,
    ctx: PointerValue<'c>,
    frames: PointerValue<'c>,
    n: IntValue<'c>,
    /// Bytes of a complete packet.
    least: IntValue<'c>,
}

/// What the packets of a staged batch keep.
struct Records<'c, 'p> {
    plan: &'p Plan,
    /// The function that runs ahead.
    ahead: FunctionValue<'c>,
    /// Where each packet stopped; 32 bits.
    points: PointerValue<'c>,
    /// What it keeps there.
    records: PointerValue<'c>,
    /// Whether a packet has further to go.
    more: PointerValue<'c>,
    /// Number of packets that began again.
    again: PointerValue<'c>,
}

impl<'c, 'p> Module<'c, 'p> {
    /// Defines the [`abi::RunFn`] of a channel by which packets enter.
    pub(super) fn define_run(&self, entry: ChannelId) -> Res<()> {
        let builder = &self.builder;
        let Some(channel) = self.program.channels.get(entry.0 as usize) else {
            return internal(format!("there is no channel {}", entry.0));
        };
        let Some(protocol) = self.program.protocols.get(channel.protocol.0 as usize) else {
            return internal(format!("there is no protocol {}", channel.protocol.0));
        };
        // What controllers inject is too little to be worth it.
        let plan = if entry == Program::RX { self.plan } else { None };
        let ahead = plan.map(|plan| Res::Ok((plan, self.define_ahead(plan)?))).transpose()?;

        let ty = self.context.void_type().fn_type(&[self.ptr.into(), self.ptr.into(), self.i32.into()], false);
        let function = self.context_function(&entry_symbol(entry), ty, None);
        for name in ["noalias", "readonly", "nocapture"] {
            self.attribute(function, AttributeLoc::Param(1), name, 0);
        }
        let (ctx, frames) = (pointer_param(function, 0)?, pointer_param(function, 1)?);
        let least = self.i32.const_int(protocol.size.into(), false);
        let batch = Batch { function, ctx, frames, n: int_param(function, 2)?, least };

        let [start, first, exit] =
            ["entry", "first", "exit"].map(|name| self.context.append_basic_block(function, name));
        builder.position_at_end(start);
        let records = ahead.map(|(plan, ahead)| self.records(plan, ahead)).transpose()?;
        let any = builder.build_int_compare(IntPredicate::NE, batch.n, self.i32.const_zero(), "")?;
        builder.build_conditional_branch(any, first, exit)?;

        builder.position_at_end(first);
        if let Some(records) = &records {
            self.stage(&batch, records)?;
        }
        self.for_each(function, batch.n, |i| self.packet(&batch, entry, records.as_ref(), i))?;
        if let Some(records) = records.as_ref().filter(|records| records.plan.may_conflict()) {
            self.rest(&batch, records)?;
        }
        builder.build_unconditional_branch(exit)?;

        builder.position_at_end(exit);
        builder.build_return(None)?;
        Ok(())
    }

    /// A packet of the batch: from where it stopped, or from the start.
    fn packet(
        &self,
        batch: &Batch<'c>,
        entry: ChannelId,
        records: Option<&Records<'c, '_>>,
        i: IntValue<'c>,
    ) -> Res<()> {
        let builder = &self.builder;
        let block = |name| self.context.append_basic_block(batch.function, name);
        let (fresh, truncated, received, next) = (block("fresh"), block("truncated"), block("rx"), block("next"));
        let descriptor = self.descriptor_at(batch, i)?;
        let here = self.block()?;
        builder.position_at_end(received);
        let point = builder.build_phi(self.i32, "")?;
        point.add_incoming(&[(&self.i32.const_zero(), fresh)]);
        builder.position_at_end(here);
        let mut at = None;
        match records {
            None => {
                builder.build_unconditional_branch(fresh)?;
            }
            Some(records) => {
                let record = self.element(records.records, i, record_size(records.plan))?;
                let stopped = self.load_int(self.i32, self.element(records.points, i, 4)?, 4, Memory::Record)?;
                let stopped = builder.build_and(stopped, self.i32.const_int(LAST - 1, false), "")?;
                let is_ahead = builder.build_int_compare(IntPredicate::NE, stopped, self.i32.const_zero(), "")?;
                let ahead = block("ahead");
                builder.build_conditional_branch(is_ahead, ahead, fresh)?;
                builder.position_at_end(ahead);
                self.unless_met(batch, records, record, (received, fresh))?;
                point.add_incoming(&[(&stopped, self.block()?)]);
                at = Some((record, point.as_basic_value().into_int_value()));
            }
        }

        builder.position_at_end(fresh);
        let complete = self.has(descriptor, batch.least)?;
        self.likely(builder.build_conditional_branch(complete, received, truncated)?)?;
        builder.position_at_end(truncated);
        self.drop_packet(batch.ctx, descriptor, DropId::TRUNCATED)?;
        builder.build_unconditional_branch(next)?;

        builder.position_at_end(received);
        self.put_at(batch.ctx, descriptor, entry, at)?;
        builder.build_unconditional_branch(next)?;
        builder.position_at_end(next);
        Ok(())
    }

    /// On to the first block, or to the second one where packets before it have changed what a packet has read.
    fn unless_met(
        &self,
        batch: &Batch<'c>,
        records: &Records<'c, '_>,
        record: PointerValue<'c>,
        (received, fresh): (BasicBlock<'c>, BasicBlock<'c>),
    ) -> Res<()> {
        let builder = &self.builder;
        if !records.plan.may_conflict() {
            builder.build_unconditional_branch(received)?;
            return Ok(());
        }
        let reads = self.load_int(self.i64, self.at(record, READS)?, 8, Memory::Record)?;
        let written = self.load_int(self.i64, self.written(batch)?, 8, Memory::Context)?;
        let both = builder.build_and(reads, written, "")?;
        let apart = builder.build_int_compare(IntPredicate::EQ, both, self.i64.const_zero(), "")?;
        let from = self.block()?;
        let met = self.context.append_basic_block(batch.function, "met");
        self.likely(builder.build_conditional_branch(apart, received, met)?)?;
        builder.position_at_end(met);
        let count = builder.build_load(self.i32, records.again, "")?.into_int_value();
        builder.build_store(records.again, builder.build_int_add(count, self.i32.const_int(1, false), "")?)?;
        builder.build_unconditional_branch(fresh)?;
        builder.position_at_end(from);
        Ok(())
    }

    /// Where many packets began again, the next batches are not staged.
    fn rest(&self, batch: &Batch<'c>, records: &Records<'c, '_>) -> Res<()> {
        let builder = &self.builder;
        let again = builder.build_load(self.i32, records.again, "")?.into_int_value();
        let four = builder.build_left_shift(again, self.i32.const_int(2, false), "")?;
        let many = builder.build_int_compare(IntPredicate::UGT, four, batch.n, "")?;
        let at = self.at(batch.ctx, offset_of!(Context, rest) as u64)?;
        let now = self.load_int(self.i32, at, 4, Memory::Context)?;
        self.store(at, self.select_int(many, self.i32.const_int(REST, false), now)?, 4, Memory::Context)
    }

    /// Memory for what packets keep, in the function's frame.
    fn records(&self, plan: &'p Plan, ahead: FunctionValue<'c>) -> Res<Records<'c, 'p>> {
        let builder = &self.builder;
        let array = |bytes: u64, name| {
            let slot =
                builder.build_alloca(self.i64.array_type((bytes * MAX_BATCH as u64).div_ceil(8) as u32), name)?;
            Res::Ok(slot)
        };
        let records = Records {
            plan,
            ahead,
            points: array(4, "points")?,
            records: array(record_size(plan), "records")?,
            more: builder.build_alloca(self.i32, "more")?,
            again: builder.build_alloca(self.i32, "again")?,
        };
        builder.build_store(records.again, self.i32.const_zero())?;
        Ok(records)
    }

    /// Takes the packets of a batch up to their first effects, if that is worth it.
    fn stage(&self, batch: &Batch<'c>, records: &Records<'c, '_>) -> Res<()> {
        let builder = &self.builder;
        let block = |name| self.context.append_basic_block(batch.function, name);
        let (staged, plain, round, ready) = (block("staged"), block("plain"), block("round"), block("ready"));
        let bytes = builder.build_left_shift(self.resize(batch.n, 64)?, self.i64.const_int(2, false), "")?;
        self.zero_bytes(records.points, 4, bytes, Memory::Record)?;
        let rest_at = self.at(batch.ctx, offset_of!(Context, rest) as u64)?;
        let rest = self.load_int(self.i32, rest_at, 4, Memory::Context)?;
        let stops = self.stops(batch, records.plan, rest)?;
        let any = builder.build_int_compare(IntPredicate::NE, stops, self.i64.const_zero(), "")?;
        builder.build_conditional_branch(any, staged, plain)?;

        builder.position_at_end(plain);
        let zero = self.i32.const_zero();
        let resting = builder.build_int_compare(IntPredicate::NE, rest, zero, "")?;
        let less = builder.build_int_sub(rest, self.resize(resting, 32)?, "")?;
        self.store(rest_at, less, 4, Memory::Context)?;
        builder.build_unconditional_branch(ready)?;

        builder.position_at_end(staged);
        self.store(self.written(batch)?, self.i64.const_zero(), 8, Memory::Context)?;
        builder.build_unconditional_branch(round)?;

        // Each round takes each packet that is not there yet to its next point.
        builder.position_at_end(round);
        builder.build_store(records.more, zero)?;
        self.for_each(batch.function, batch.n, |i| self.advance(batch, records, stops, i))?;
        let more = builder.build_load(self.i32, records.more, "")?.into_int_value();
        let more = builder.build_int_compare(IntPredicate::NE, more, zero, "")?;
        builder.build_conditional_branch(more, round, ready)?;

        builder.position_at_end(ready);
        Ok(())
    }

    /// Takes a packet to its next point.
    fn advance(&self, batch: &Batch<'c>, records: &Records<'c, '_>, stops: IntValue<'c>, i: IntValue<'c>) -> Res<()> {
        let builder = &self.builder;
        let [go, next] = ["go", "next"].map(|name| self.context.append_basic_block(batch.function, name));
        let at = self.element(records.points, i, 4)?;
        let point = self.load_int(self.i32, at, 4, Memory::Record)?;
        let goes_on = |point| builder.build_int_compare(IntPredicate::ULT, point, self.i32.const_int(LAST, false), "");
        builder.build_conditional_branch(goes_on(point)?, go, next)?;
        builder.position_at_end(go);
        let record = self.element(records.records, i, record_size(records.plan))?;
        let args = [batch.ctx.into(), self.descriptor_at(batch, i)?.into(), record.into(), point.into(), stops.into()];
        let call = builder.build_call(records.ahead, &args, "")?;
        let Some(BasicValueEnum::IntValue(point)) = call.try_as_basic_value().basic() else {
            return internal("running ahead gives no point");
        };
        self.store(at, point, 4, Memory::Record)?;
        let goes_on = goes_on(point)?;
        let more = builder.build_load(self.i32, records.more, "")?.into_int_value();
        builder.build_store(records.more, builder.build_or(more, self.resize(goes_on, 32)?, "")?)?;
        builder.build_unconditional_branch(next)?;
        builder.position_at_end(next);
        Ok(())
    }

    /// A bit for each place at which packets stop in this batch; none where it is not staged.
    fn stops(&self, batch: &Batch<'c>, plan: &Plan, rest: IntValue<'c>) -> Res<IntValue<'c>> {
        let builder = &self.builder;
        let mut stops = self.i64.const_zero();
        for (index, look) in plan.looks.iter().enumerate() {
            let id = look.table;
            let offset = match self.table(id)?.kind {
                TableKind::Lpm => offset_of!(LpmTable, large),
                _ => offset_of!(HashTable, large),
            };
            let large = self.load_shared(self.at(self.control(batch.ctx, id)?, offset as u64)?)?;
            let both = self.i64.const_int(u64::from(abi::LARGE_FIRST | abi::LARGE_SECOND), false);
            let bits = builder.build_and(self.resize(large, 64)?, both, "")?;
            let bits = builder.build_left_shift(bits, self.i64.const_int(2 * index as u64, false), "")?;
            stops = builder.build_or(stops, bits, "")?;
        }
        let none = self.i64.const_zero();
        let enough = builder.build_int_compare(IntPredicate::UGE, batch.n, self.i32.const_int(LEAST, false), "")?;
        let rested = builder.build_int_compare(IntPredicate::EQ, rest, self.i32.const_zero(), "")?;
        let stops = self.select_int(builder.build_and(enough, rested, "")?, stops, none)?;
        let staging_at = self.at(batch.ctx, offset_of!(Context, staging) as u64)?;
        let staging = self.load_int(self.i32, staging_at, 4, Memory::Context)?;
        let is = |which: Staging| {
            builder.build_int_compare(IntPredicate::EQ, staging, self.i32.const_int(which as u64, false), "")
        };
        let all = self.i64.const_int((1 << (2 * plan.looks.len())) - 1, false);
        let stops = self.select_int(is(Staging::Always)?, all, stops)?;
        self.select_int(is(Staging::Never)?, none, stops)
    }

    /// Defines the function that runs ahead.
    fn define_ahead(&self, plan: &'p Plan) -> Res<FunctionValue<'c>> {
        let Some(root) = self.program.ppfs.get(plan.root.0 as usize) else {
            return internal(format!("there is no PPF {}", plan.root.0));
        };
        let ptr = self.ptr.into();
        let ty = self.i32.fn_type(&[ptr, ptr, ptr, self.i32.into(), self.i64.into()], false);
        let function = self.packet_function("ahead", ty);
        self.attribute(function, AttributeLoc::Function, "alwaysinline", 0);
        lower_ppf(self, root, function, Some(Part::Ahead(plan)))?;
        Ok(function)
    }

    fn descriptor_at(&self, batch: &Batch<'c>, i: IntValue<'c>) -> Res<PointerValue<'c>> {
        let frame = self.load_int(self.i32, self.element(batch.frames, i, 4)?, 4, Memory::Batch)?;
        self.descriptor(batch.ctx, frame)
    }

    fn written(&self, batch: &Batch<'c>) -> Res<PointerValue<'c>> {
        self.at(batch.ctx, offset_of!(Context, written) as u64)
    }

    /// `for i in 0..n`, where `n` (32 bits) is at least 1. The builder goes on behind the loop.
    pub(super) fn for_each(
        &self,
        function: FunctionValue<'c>,
        n: IntValue<'c>,
        each: impl FnOnce(IntValue<'c>) -> Res<()>,
    ) -> Res<()> {
        let builder = &self.builder;
        let before = self.block()?;
        let [each_block, done] = ["each", "done"].map(|name| self.context.append_basic_block(function, name));
        builder.build_unconditional_branch(each_block)?;
        builder.position_at_end(each_block);
        let index = builder.build_phi(self.i32, "")?;
        let i = index.as_basic_value().into_int_value();
        each(i)?;
        let following = builder.build_int_nuw_add(i, self.i32.const_int(1, false), "")?;
        let more = builder.build_int_compare(IntPredicate::ULT, following, n, "")?;
        builder.build_conditional_branch(more, each_block, done)?;
        index.add_incoming(&[(&self.i32.const_zero(), before), (&following, self.block()?)]);
        builder.position_at_end(done);
        Ok(())
    }
}

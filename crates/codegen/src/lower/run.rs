//! The function over a batch: each frame through the entry's protocol check and into the program.
//!
//! ```text
//! run(context, frames, n):
//!     stage(context, frames, n, points, records)       where the program's look-ups are staged: see rounds.rs
//!     for packet in batch { check, ppf }               from where it stopped
//! ```

use std::mem::offset_of;

use baker::ir::{ChannelId, DropId, Program};
use baker::opt::stage::Plan;
use inkwell::IntPredicate;
use inkwell::attributes::AttributeLoc;
use inkwell::basic_block::BasicBlock;
use inkwell::types::BasicMetadataTypeEnum;
use inkwell::values::{FunctionValue, IntValue, PointerValue};

use super::memory::Memory;
use super::stage::{LAST, READS, record_size};
use super::walk::{int_param, pointer_param};
use super::{Module, Res, entry_symbol};
use crate::abi::{Context, MAX_BATCH};
use crate::internal;

/// Batches that are not staged after one in which a quarter of the packets began again.
const REST: u64 = 32;

/// A batch on the way through its function.
pub(super) struct Batch<'c> {
    pub function: FunctionValue<'c>,
    pub ctx: PointerValue<'c>,
    pub frames: PointerValue<'c>,
    pub n: IntValue<'c>,
}

/// What the packets of a staged batch keep.
struct Records<'c, 'p> {
    plan: &'p Plan,
    /// Where each packet stopped; 32 bits.
    points: PointerValue<'c>,
    /// What it keeps there.
    records: PointerValue<'c>,
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
        let batch = self.batch_function(&entry_symbol(entry), &[])?;
        let function = batch.function;
        let least = self.i32.const_int(protocol.size.into(), false);

        let [start, first, exit] =
            ["entry", "first", "exit"].map(|name| self.context.append_basic_block(function, name));
        builder.position_at_end(start);
        let records = plan.map(|plan| self.records(plan)).transpose()?;
        let any = builder.build_int_compare(IntPredicate::NE, batch.n, self.i32.const_zero(), "")?;
        builder.build_conditional_branch(any, first, exit)?;

        builder.position_at_end(first);
        if let Some(records) = &records {
            self.call_stage(&batch, records.points, records.records)?;
        }
        self.for_each(function, batch.n, |i| self.packet(&batch, (entry, least), records.as_ref(), i))?;
        if let Some(records) = records.as_ref().filter(|records| records.plan.may_conflict()) {
            self.rest(&batch, records)?;
        }
        builder.build_unconditional_branch(exit)?;

        builder.position_at_end(exit);
        builder.build_return(None)?;
        Ok(())
    }

    /// Adds a function of context, frames and their number, and of further pointers.
    pub(super) fn batch_function(&self, name: &str, pointers: &[BasicMetadataTypeEnum<'c>]) -> Res<Batch<'c>> {
        let params = [&[self.ptr.into(), self.ptr.into(), self.i32.into()], pointers].concat();
        let function = self.context_function(name, self.context.void_type().fn_type(&params, false), None);
        for attribute in ["noalias", "readonly", "nocapture"] {
            self.attribute(function, AttributeLoc::Param(1), attribute, 0);
        }
        let (ctx, frames) = (pointer_param(function, 0)?, pointer_param(function, 1)?);
        Ok(Batch { function, ctx, frames, n: int_param(function, 2)? })
    }

    /// A packet of the batch: from where it stopped, or from the start.
    fn packet(
        &self,
        batch: &Batch<'c>,
        (entry, least): (ChannelId, IntValue<'c>),
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
        let complete = self.has(descriptor, least)?;
        self.likely(builder.build_conditional_branch(complete, received, truncated)?)?;
        builder.position_at_end(truncated);
        self.drop_packet(batch.ctx, descriptor, DropId::TRUNCATED)?;
        builder.build_unconditional_branch(next)?;

        builder.position_at_end(received);
        self.put_at(batch.ctx, descriptor, entry, at)?;
        self.time_ends(batch.ctx)?;
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
    fn records(&self, plan: &'p Plan) -> Res<Records<'c, 'p>> {
        let builder = &self.builder;
        let array = |bytes: u64, name| {
            let slot =
                builder.build_alloca(self.i64.array_type((bytes * MAX_BATCH as u64).div_ceil(8) as u32), name)?;
            Res::Ok(slot)
        };
        let records = Records {
            plan,
            points: array(4, "points")?,
            records: array(record_size(plan), "records")?,
            again: builder.build_alloca(self.i32, "again")?,
        };
        builder.build_store(records.again, self.i32.const_zero())?;
        Ok(records)
    }

    pub(super) fn descriptor_at(&self, batch: &Batch<'c>, i: IntValue<'c>) -> Res<PointerValue<'c>> {
        let frame = self.load_int(self.i32, self.element(batch.frames, i, 4)?, 4, Memory::Batch)?;
        self.descriptor(batch.ctx, frame)
    }

    pub(super) fn written(&self, batch: &Batch<'c>) -> Res<PointerValue<'c>> {
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

//! The function that takes a batch's packets up to their first effects, where its look-ups are staged.
//!
//! ```text
//! stage(context, frames, n, points, records):
//!     stops = the look-ups in tables that are large now
//!     if stops: repeat { for packet in batch { point = ahead(packet, point) } } until all wait for an effect
//! ```
//!
//! It does not lie in the module of the functions that call it, so that it is compiled at the same time as they are.

use std::mem::offset_of;

use baker::ir::TableKind;
use baker::opt::stage::Plan;
use inkwell::IntPredicate;
use inkwell::attributes::AttributeLoc;
use inkwell::module::Linkage;
use inkwell::values::{BasicValueEnum, FunctionValue, IntValue, PointerValue};

use super::body::lower_ppf;
use super::memory::Memory;
use super::run::Batch;
use super::stage::{LAST, Part, record_size};
use super::walk::pointer_param;
use super::{Module, Res, STAGE, STAGE_AT};
use crate::abi::{self, Context, HashTable, LpmTable, Staging};
use crate::internal;

/// Batches of fewer packets are not staged: they gain too little.
const LEAST: u64 = 8;

/// What takes packets from point to point.
struct Rounds<'a, 'c, 'p> {
    batch: &'a Batch<'c>,
    /// The function that runs ahead.
    ahead: FunctionValue<'c>,
    plan: &'p Plan,
    /// Where each packet stopped; 32 bits.
    points: PointerValue<'c>,
    /// What it keeps there.
    records: PointerValue<'c>,
    /// Whether a packet has further to go.
    more: PointerValue<'c>,
}

impl<'c, 'p> Module<'c, 'p> {
    /// Calls the function, whose address lies at [`STAGE_AT`].
    pub(super) fn call_stage(&self, batch: &Batch<'c>, points: PointerValue<'c>, records: PointerValue<'c>) -> Res<()> {
        let builder = &self.builder;
        let stage = self.function_at(STAGE_AT)?;
        let [ptr, n] = [self.ptr.into(), self.i32.into()];
        let ty = self.context.void_type().fn_type(&[ptr, ptr, n, ptr, ptr], false);
        let args = [batch.ctx.into(), batch.frames.into(), batch.n.into(), points.into(), records.into()];
        builder.build_indirect_call(ty, stage, &args, "")?;
        Ok(())
    }

    /// The function that the pointer with this symbol leads to: one of another module.
    pub(super) fn function_at(&self, symbol: &str) -> Res<PointerValue<'c>> {
        let at = self.llvm.get_global(symbol).unwrap_or_else(|| {
            let at = self.llvm.add_global(self.ptr, None, symbol);
            at.set_linkage(Linkage::External);
            at
        });
        self.load_constant_ptr(at.as_pointer_value(), Memory::Control)
    }

    /// Defines the function.
    pub(super) fn define_stage(&self, plan: &'p Plan) -> Res<()> {
        let ahead = self.define_ahead(plan)?;
        let builder = &self.builder;
        let batch = self.batch_function(STAGE, &[self.ptr.into(), self.ptr.into()])?;
        let (points, records) = (pointer_param(batch.function, 3)?, pointer_param(batch.function, 4)?);
        let block = |name| self.context.append_basic_block(batch.function, name);
        let [start, staged, plain, round, ready] = ["start", "staged", "plain", "round", "ready"].map(block);
        builder.position_at_end(start);
        let more = builder.build_alloca(self.i32, "more")?;
        let rounds = Rounds { batch: &batch, ahead, plan, points, records, more };
        let bytes = builder.build_left_shift(self.resize(batch.n, 64)?, self.i64.const_int(2, false), "")?;
        self.zero_bytes(points, 4, bytes, Memory::Record)?;
        let rest_at = self.at(batch.ctx, offset_of!(Context, rest) as u64)?;
        let rest = self.load_int(self.i32, rest_at, 4, Memory::Context)?;
        let stops = self.stops(&batch, plan, rest)?;
        let any = builder.build_int_compare(IntPredicate::NE, stops, self.i64.const_zero(), "")?;
        builder.build_conditional_branch(any, staged, plain)?;

        builder.position_at_end(plain);
        let zero = self.i32.const_zero();
        let resting = builder.build_int_compare(IntPredicate::NE, rest, zero, "")?;
        let less = builder.build_int_sub(rest, self.resize(resting, 32)?, "")?;
        self.store(rest_at, less, 4, Memory::Context)?;
        builder.build_unconditional_branch(ready)?;

        builder.position_at_end(staged);
        self.store(self.written(&batch)?, self.i64.const_zero(), 8, Memory::Context)?;
        builder.build_unconditional_branch(round)?;

        // Each round takes each packet that is not there yet to its next point.
        builder.position_at_end(round);
        builder.build_store(more, zero)?;
        self.for_each(batch.function, batch.n, |i| self.advance(&rounds, stops, i))?;
        let goes_on = builder.build_load(self.i32, more, "")?.into_int_value();
        let goes_on = builder.build_int_compare(IntPredicate::NE, goes_on, zero, "")?;
        builder.build_conditional_branch(goes_on, round, ready)?;

        builder.position_at_end(ready);
        builder.build_return(None)?;
        Ok(())
    }

    /// Takes a packet to its next point.
    fn advance(&self, rounds: &Rounds<'_, 'c, '_>, stops: IntValue<'c>, i: IntValue<'c>) -> Res<()> {
        let batch = rounds.batch;
        let builder = &self.builder;
        let [go, next] = ["go", "next"].map(|name| self.context.append_basic_block(batch.function, name));
        let at = self.element(rounds.points, i, 4)?;
        let point = self.load_int(self.i32, at, 4, Memory::Record)?;
        let goes_on = |point| builder.build_int_compare(IntPredicate::ULT, point, self.i32.const_int(LAST, false), "");
        builder.build_conditional_branch(goes_on(point)?, go, next)?;
        builder.position_at_end(go);
        let record = self.element(rounds.records, i, record_size(rounds.plan))?;
        let args = [batch.ctx.into(), self.descriptor_at(batch, i)?.into(), record.into(), point.into(), stops.into()];
        let call = builder.build_call(rounds.ahead, &args, "")?;
        let Some(BasicValueEnum::IntValue(point)) = call.try_as_basic_value().basic() else {
            return internal("running ahead gives no point");
        };
        self.store(at, point, 4, Memory::Record)?;
        let goes_on = goes_on(point)?;
        let more = builder.build_load(self.i32, rounds.more, "")?.into_int_value();
        builder.build_store(rounds.more, builder.build_or(more, self.resize(goes_on, 32)?, "")?)?;
        builder.build_unconditional_branch(next)?;
        builder.position_at_end(next);
        Ok(())
    }

    /// A bit for each place at which packets stop in this batch; none where it is not staged.
    fn stops(&self, batch: &Batch<'c>, plan: &Plan, rest: IntValue<'c>) -> Res<IntValue<'c>> {
        let builder = &self.builder;
        let mut stops = self.i64.const_zero();
        for (index, look_up) in plan.look_ups.iter().enumerate() {
            let id = look_up.table;
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
        let all = self.i64.const_int((1 << (2 * plan.look_ups.len())) - 1, false);
        let stops = self.select_int(is(Staging::Always)?, all, stops)?;
        self.select_int(is(Staging::Never)?, none, stops)
    }

    /// Defines the function that runs ahead.
    fn define_ahead(&self, plan: &'p Plan) -> Res<FunctionValue<'c>> {
        let root = plan.root.0 as usize;
        if root >= self.program.ppfs.len() {
            return internal(format!("there is no PPF {root}"));
        }
        let ptr = self.ptr.into();
        let ty = self.i32.fn_type(&[ptr, ptr, ptr, self.i32.into(), self.i64.into()], false);
        let function = self.packet_function("ahead", ty, Linkage::Internal);
        self.attribute(function, AttributeLoc::Function, "alwaysinline", 0);
        lower_ppf(self, root, function, Some(Part::Ahead(plan)))?;
        Ok(function)
    }
}

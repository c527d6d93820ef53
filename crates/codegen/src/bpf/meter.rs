//! Meters: [`baker::ir::meter`] in 64 and 128 bits, and one compare-and-swap.

use std::mem::offset_of;

use baker::ir::Value;
use baker::ir::meter::{APART, FINER, FRACTION, LONGEST, SECOND};
use inkwell::IntPredicate;
use inkwell::values::{IntValue, PointerValue};

use super::Kernel;
use super::body::Ppf;
use super::state::Field;
use crate::abi::MeterCell;
use crate::internal;
use crate::lower::{Lowering, Res};

/// How often the time is exchanged: each time that it fails, another processor has taken tokens.
const TRIES: u64 = 16;
/// Where in scratch memory lies what a bucket holds, and what is asked for costs.
const HOLDS: u64 = 64;
const COST: u64 = 72;

impl<'c> Kernel<'c, '_> {
    /// The product of two numbers of 64 bits, in 128.
    fn wide_product(&self, a: IntValue<'c>, b: IntValue<'c>) -> Res<IntValue<'c>> {
        let (low, high) = self.product(a, b)?;
        self.of_halves(low, high)
    }

    fn wide(&self, number: u128) -> Res<IntValue<'c>> {
        self.constant(128, number)
    }

    fn shifted(&self, value: IntValue<'c>, bits: u32) -> Res<IntValue<'c>> {
        let bits = value.get_type().const_int(bits.into(), false);
        Ok(self.builder.build_right_shift(value, bits, false, "")?)
    }
}

impl<'c> Ppf<'_, 'c, '_> {
    /// Takes tokens from a meter; 1 where it holds them.
    pub(super) fn meter_take(&self, entry: Value, amount: Value) -> Res<IntValue<'c>> {
        let kernel = self.kernel;
        let builder = &kernel.builder;
        let (entry, _) = self.entry(entry)?;
        let amount = self.int_of(amount, 64)?;
        let [take, done] = kernel.new_blocks(["take", "taken"])?;
        let cell = kernel.found_aligned(entry, 8)?;
        let field = |offset: usize| kernel.at(cell, offset as u64);
        let rate = kernel.load_once(field(offset_of!(MeterCell, rate))?, 64)?;
        let burst = kernel.load_once(field(offset_of!(MeterCell, burst))?, 64)?;
        let any = builder.build_int_compare(IntPredicate::NE, rate, kernel.long(0), "")?;
        let before = kernel.block()?;
        builder.build_conditional_branch(any, take, done)?;
        builder.position_at_end(take);
        let taken = self.take_from(field(offset_of!(MeterCell, full))?, rate, burst, amount)?;
        let from = kernel.block()?;
        builder.build_unconditional_branch(done)?;
        builder.position_at_end(done);
        let bit = kernel.context.bool_type();
        let phi = builder.build_phi(bit, "")?;
        phi.add_incoming(&[(&bit.const_zero(), before), (&taken, from)]);
        Ok(phi.as_basic_value().into_int_value())
    }

    /// [`baker::ir::meter::MeterRate::take`], where the rate is not 0.
    fn take_from(
        &self,
        full_at: PointerValue<'c>,
        rate: IntValue<'c>,
        burst: IntValue<'c>,
        tokens: IntValue<'c>,
    ) -> Res<IntValue<'c>> {
        let kernel = self.kernel;
        let builder = &kernel.builder;
        let interval = builder.build_int_unsigned_div(kernel.long(SECOND), rate, "")?;
        let is_zero = builder.build_int_compare(IntPredicate::EQ, interval, kernel.long(0), "")?;
        let interval = kernel.select_int(is_zero, kernel.long(1), interval)?;
        let held = kernel.wide_product(burst, interval)?;
        let held = builder.build_int_add(held, kernel.wide((1 << FINER) - 1)?, "")?;
        let held = kernel.shifted(held, FINER)?;
        let longest = kernel.wide(LONGEST.into())?;
        let is_long = builder.build_int_compare(IntPredicate::UGT, held, longest, "")?;
        let holds = kernel.resize(kernel.select_int(is_long, longest, held)?, 64)?;
        // What costs more than a bucket can hold is not to be had, so that 64 bits hold every sum.
        let cost = kernel.shifted(kernel.wide_product(tokens, interval)?, FINER)?;
        let is_dear = builder.build_int_compare(IntPredicate::UGT, cost, longest, "")?;
        let dear = kernel.long(LONGEST + 1);
        let cost = kernel.select_int(is_dear, dear, kernel.resize(cost, 64)?)?;
        // In memory, so that the verifier sees no more of them in each round than in the one before.
        let Some(scratch) = kernel.scratch.get() else { return internal("a meter without memory") };
        let (holds_at, cost_at) = (kernel.at(scratch, HOLDS)?, kernel.at(scratch, COST)?);
        kernel.store_once(holds_at, holds)?;
        kernel.store_once(cost_at, cost)?;
        let now = kernel.number(self.state, Field::Now)?;
        let now = builder.build_left_shift(now, kernel.long(FRACTION.into()), "")?;

        let before = kernel.block()?;
        let [round, exchange, again, done] = kernel.new_blocks(["round", "exchange", "again", "metered"])?;
        builder.build_unconditional_branch(round)?;
        builder.position_at_end(round);
        let count = builder.build_phi(kernel.i64, "")?;
        let (holds, cost) = (kernel.load_once(holds_at, 64)?, kernel.load_once(cost_at, 64)?);
        let most = builder.build_int_add(holds, kernel.long(APART), "")?;
        let full = kernel.load_once(full_at, 64)?;
        let ahead = builder.build_int_sub(full, now, "")?;
        let is_past = builder.build_int_compare(IntPredicate::UGT, ahead, most, "")?;
        let ahead = kernel.select_int(is_past, kernel.long(0), ahead)?;
        let after = builder.build_int_add(ahead, cost, "")?;
        let fits = builder.build_int_compare(IntPredicate::ULE, after, holds, "")?;
        let next = builder.build_int_add(now, after, "")?;
        builder.build_conditional_branch(fits, exchange, done)?;
        builder.position_at_end(exchange);
        let was = kernel.exchange(full_at, full, next)?;
        let changed = builder.build_int_compare(IntPredicate::EQ, was, full, "")?;
        kernel.likely(builder.build_conditional_branch(changed, done, again)?)?;
        builder.position_at_end(again);
        let rounds = builder.build_int_add(count.as_basic_value().into_int_value(), kernel.long(1), "")?;
        count.add_incoming(&[(&kernel.long(0), before), (&rounds, again)]);
        let more = builder.build_int_compare(IntPredicate::NE, rounds, kernel.long(TRIES), "")?;
        builder.build_conditional_branch(more, round, done)?;

        builder.position_at_end(done);
        let bit = kernel.context.bool_type();
        let (taken, ready) = (builder.build_phi(bit, "")?, builder.build_phi(bit, "")?);
        let (yes, no) = (bit.const_int(1, false), bit.const_zero());
        taken.add_incoming(&[(&no, round), (&yes, exchange), (&no, again)]);
        ready.add_incoming(&[(&yes, round), (&yes, exchange), (&no, again)]);
        kernel.unless_busy(self.state, ready.as_basic_value().into_int_value(), None)?;
        Ok(taken.as_basic_value().into_int_value())
    }
}

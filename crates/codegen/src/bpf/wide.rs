//! Arithmetic that the kernel's virtual machine lacks: beyond 64 bits, and signed division.

use baker::ir::BinOp;
use inkwell::IntPredicate;
use inkwell::values::IntValue;

use crate::lower::{Core, Res};
use crate::{CodegenError, internal};

/// Bits of a wide number.
const WIDE: u32 = 128;

impl<'c> Core<'c, '_> {
    /// The operation put together, where there is need for it. Division is by a number other than 0, and has a result.
    pub(crate) fn put_together(&self, op: BinOp, a: IntValue<'c>, b: IntValue<'c>) -> Res<Option<IntValue<'c>>> {
        let width = a.get_type().get_bit_width();
        let is_wide = width > 64;
        let wide = |value, signed| self.widen(value, WIDE, signed);
        let result = match op {
            BinOp::SDiv | BinOp::SRem => return self.signed_division(op, a, b).map(Some),
            BinOp::Mul if is_wide => self.multiply(wide(a, false)?, wide(b, false)?)?,
            BinOp::UDiv | BinOp::URem if is_wide => self.divide(op, wide(a, false)?, wide(b, false)?)?,
            BinOp::Shl | BinOp::LShr | BinOp::AShr if is_wide && !b.is_const() => {
                self.shift(op, wide(a, op == BinOp::AShr)?, self.resize(b, 64)?)?
            }
            _ => return Ok(None),
        };
        self.resize(result, width).map(Some)
    }

    fn widen(&self, value: IntValue<'c>, width: u32, signed: bool) -> Res<IntValue<'c>> {
        if signed && value.get_type().get_bit_width() < width {
            return Ok(self.builder.build_int_s_extend(value, self.int(width)?, "")?);
        }
        self.resize(value, width)
    }

    /// By unsigned division of the numbers without their signs.
    fn signed_division(&self, op: BinOp, a: IntValue<'c>, b: IntValue<'c>) -> Res<IntValue<'c>> {
        let builder = &self.builder;
        let zero = a.get_type().const_zero();
        let is_negative = |value| builder.build_int_compare(IntPredicate::SLT, value, zero, "");
        let negated = |value| builder.build_int_sub(zero, value, "");
        let (a_negative, b_negative) = (is_negative(a)?, is_negative(b)?);
        let a_size = self.select_int(a_negative, negated(a)?, a)?;
        let b_size = self.select_int(b_negative, negated(b)?, b)?;
        let (unsigned, flips) = match op {
            BinOp::SDiv => (BinOp::UDiv, builder.build_xor(a_negative, b_negative, "")?),
            _ => (BinOp::URem, a_negative),
        };
        let size = self.binary(unsigned, a_size, b_size)?;
        self.select_int(flips, negated(size)?, size)
    }

    /// The halves of a wide number.
    fn halves(&self, value: IntValue<'c>) -> Res<(IntValue<'c>, IntValue<'c>)> {
        let high = self.builder.build_right_shift(value, value.get_type().const_int(64, false), false, "")?;
        Ok((self.resize(value, 64)?, self.resize(high, 64)?))
    }

    pub(crate) fn of_halves(&self, low: IntValue<'c>, high: IntValue<'c>) -> Res<IntValue<'c>> {
        let high = self.resize(high, WIDE)?;
        let high = self.builder.build_left_shift(high, high.get_type().const_int(64, false), "")?;
        Ok(self.builder.build_or(high, self.resize(low, WIDE)?, "")?)
    }

    /// The product of two numbers of 64 bits, low and high half.
    pub(crate) fn product(&self, a: IntValue<'c>, b: IntValue<'c>) -> Res<(IntValue<'c>, IntValue<'c>)> {
        let builder = &self.builder;
        if self.has_wide() {
            let product = builder.build_int_mul(self.resize(a, WIDE)?, self.resize(b, WIDE)?, "")?;
            return self.halves(product);
        }
        let number = |number: u64| self.i64.const_int(number, false);
        let low = |value| builder.build_and(value, number(u32::MAX.into()), "");
        let high = |value| builder.build_right_shift(value, number(32), false, "");
        let times = |a, b| builder.build_int_mul(a, b, "");
        let plus = |a, b| builder.build_int_add(a, b, "");
        let (a0, a1, b0, b1) = (low(a)?, high(a)?, low(b)?, high(b)?);
        let (p00, p01, p10, p11) = (times(a0, b0)?, times(a0, b1)?, times(a1, b0)?, times(a1, b1)?);
        // No sum exceeds 64 bits: (2^32 - 1)^2 + 2 (2^32 - 1) = 2^64 - 1.
        let middle = plus(plus(p01, high(p00)?)?, low(p10)?)?;
        let upper = plus(plus(p11, high(middle)?)?, high(p10)?)?;
        let lower = builder.build_or(builder.build_left_shift(middle, number(32), "")?, low(p00)?, "")?;
        Ok((lower, upper))
    }

    fn multiply(&self, a: IntValue<'c>, b: IntValue<'c>) -> Res<IntValue<'c>> {
        let builder = &self.builder;
        let ((a0, a1), (b0, b1)) = (self.halves(a)?, self.halves(b)?);
        let (low, high) = self.product(a0, b0)?;
        let across =
            builder.build_int_add(builder.build_int_mul(a0, b1, "")?, builder.build_int_mul(a1, b0, "")?, "")?;
        self.of_halves(low, builder.build_int_add(high, across, "")?)
    }

    /// A shift by `by` bits (64 bits); by the width or more its result means nothing.
    fn shift(&self, op: BinOp, a: IntValue<'c>, by: IntValue<'c>) -> Res<IntValue<'c>> {
        let builder = &self.builder;
        let number = |number: u64| self.i64.const_int(number, false);
        let (low, high) = self.halves(a)?;
        let is_far = builder.build_int_compare(IntPredicate::UGE, by, number(64), "")?;
        // By 0 to 63, and what comes over from the other half: in two steps, for by 64 is not to be had.
        let near = builder.build_and(by, number(63), "")?;
        let rest = builder.build_int_sub(number(63), near, "")?;
        let left = |value, by| builder.build_left_shift(value, by, "");
        let right = |value, by| builder.build_right_shift(value, by, false, "");
        if op == BinOp::Shl {
            let over = right(right(low, number(1))?, rest)?;
            let near_high = builder.build_or(left(high, near)?, over, "")?;
            let near_low = left(low, near)?;
            let low = self.select_int(is_far, number(0), near_low)?;
            return self.of_halves(low, self.select_int(is_far, near_low, near_high)?);
        }
        let is_signed = op == BinOp::AShr;
        let over = left(left(high, number(1))?, rest)?;
        let near_low = builder.build_or(right(low, near)?, over, "")?;
        let near_high = builder.build_right_shift(high, near, is_signed, "")?;
        let filled = if is_signed { builder.build_right_shift(high, number(63), true, "")? } else { number(0) };
        let high = self.select_int(is_far, filled, near_high)?;
        self.of_halves(self.select_int(is_far, near_high, near_low)?, high)
    }

    /// Division of wide numbers, bit by bit. What it works on lies in memory, for the verifier forgets what it knew of
    /// numbers that it finds there: else each round would double the paths that it follows.
    fn divide(&self, op: BinOp, a: IntValue<'c>, b: IntValue<'c>) -> Res<IntValue<'c>> {
        let builder = &self.builder;
        let Some(scratch) = self.scratch.get() else { return internal("a division without memory") };
        let [round, done] = self.new_blocks(["round", "divided"])?;
        let wide = a.get_type();
        let one = wide.const_int(1, false);
        let (dividend, remainder, divisor) = (scratch, self.at(scratch, 16)?, self.at(scratch, 32)?);
        let load = |at| -> Res<IntValue<'c>> {
            let value = builder.build_load(wide, at, "")?;
            self.volatile(value)?;
            Ok(value.into_int_value())
        };
        let store = |at, value: IntValue<'c>| -> Res<()> {
            let store = builder.build_store(at, value)?;
            store.set_volatile(true).map_err(|error| CodegenError::Internal(error.to_string()))
        };
        store(dividend, a)?;
        store(remainder, wide.const_zero())?;
        store(divisor, b)?;
        let before = self.block()?;
        builder.build_unconditional_branch(round)?;

        builder.position_at_end(round);
        let count = builder.build_phi(self.i64, "")?;
        let (bits, rest, by) = (load(dividend)?, load(remainder)?, load(divisor)?);
        let top = |value| builder.build_right_shift(value, wide.const_int(u64::from(WIDE) - 1, false), false, "");
        let twice = |value| builder.build_left_shift(value, one, "");
        let is_beyond = self.resize(top(rest)?, 1)?;
        let rest = builder.build_or(twice(rest)?, top(bits)?, "")?;
        let is_more = builder.build_int_compare(IntPredicate::UGE, rest, by, "")?;
        let fits = builder.build_or(is_beyond, is_more, "")?;
        store(remainder, self.select_int(fits, builder.build_int_sub(rest, by, "")?, rest)?)?;
        store(dividend, builder.build_or(twice(bits)?, self.resize(fits, WIDE)?, "")?)?;
        let next = builder.build_int_add(count.as_basic_value().into_int_value(), self.i64.const_int(1, false), "")?;
        count.add_incoming(&[(&self.i64.const_zero(), before), (&next, round)]);
        let rounds = self.i64.const_int(WIDE.into(), false);
        let again = builder.build_int_compare(IntPredicate::NE, next, rounds, "")?;
        builder.build_conditional_branch(again, round, done)?;
        builder.position_at_end(done);
        load(if op == BinOp::UDiv { dividend } else { remainder })
    }
}

//! Ones' complement sums of packet bytes (RFC 1071).

use inkwell::IntPredicate;
use inkwell::values::{BasicValueEnum, FunctionValue, IntValue, PointerValue};

use super::memory::Memory;
use super::walk::pointer_param;
use super::{Core, Module, Res, out_of_line};
use crate::{CodegenError, internal};

/// The function that adds up bytes; it is made where it is needed first.
const SUM: &str = "sum";
/// Fixed headers up to this many bytes are added up without a loop.
const LONGEST_UNROLLED: u32 = 64;

impl<'c> Module<'c, '_> {
    /// Ones' complement sum of `bytes` bytes from `offset` on; 16 bits. Their expected number is `expected`.
    pub(super) fn sum(
        &self,
        ctx: PointerValue<'c>,
        packet: PointerValue<'c>,
        offset: IntValue<'c>,
        bytes: IntValue<'c>,
        expected: u32,
    ) -> Res<IntValue<'c>> {
        let builder = &self.builder;
        let function = match self.llvm.get_function(&format!("out.{SUM}")) {
            Some(function) => function,
            None => self.define_sum()?,
        };
        let from = self.place(ctx, packet, offset)?;
        let sum = if (4..=LONGEST_UNROLLED).contains(&expected) && expected.is_multiple_of(4) {
            let here = self.block()?;
            let block = |name| self.context.insert_basic_block_after(here, name);
            let (done, other, short) = (block("summed"), block("other"), block("expected"));
            let is_expected = self.i32.const_int(expected.into(), false);
            let is_expected = builder.build_int_compare(IntPredicate::EQ, bytes, is_expected, "")?;
            self.likely(builder.build_conditional_branch(is_expected, short, other)?)?;
            builder.position_at_end(short);
            let sum = self.sum_of_words(from, expected / 4)?;
            builder.build_unconditional_branch(done)?;
            builder.position_at_end(other);
            let long = self.call_sum(function, from, bytes)?;
            builder.build_unconditional_branch(done)?;
            builder.position_at_end(done);
            let phi = builder.build_phi(self.context.i16_type(), "")?;
            phi.add_incoming(&[(&sum, short), (&long, other)]);
            phi.as_basic_value().into_int_value()
        } else {
            self.call_sum(function, from, bytes)?
        };
        // From an odd place on, the bytes are each other's halves: the sum's bytes change places (RFC 1071 section 2).
        let odd = self.resize(offset, 1)?;
        let swapped = self.swap_bytes(sum, 2)?;
        Ok(builder.build_select(odd, swapped, sum, "")?.into_int_value())
    }

    fn call_sum(&self, function: FunctionValue<'c>, from: PointerValue<'c>, bytes: IntValue<'c>) -> Res<IntValue<'c>> {
        let call = self.call_out(function, &[from.into(), self.resize(bytes, 64)?.into()])?;
        match call.try_as_basic_value().basic() {
            Some(BasicValueEnum::IntValue(sum)) => self.resize(sum, 16),
            _ => internal("a sum without a value"),
        }
    }

    /// `sum(bytes, count)`: the words are added as the host reads them, which gives the sum with its bytes swapped (RFC
    /// 1071 section 2), so they are swapped once at the end. 64 bits hold the sum of 2^32 words of 32 bits.
    fn define_sum(&self) -> Res<FunctionValue<'c>> {
        let builder = &self.builder;
        let before = builder.get_insert_block();
        let ty = self.i32.fn_type(&[self.ptr.into(), self.i64.into()], false);
        let function = out_of_line::declare(self.context, &self.llvm, &self.attributes, SUM, ty);
        let from = pointer_param(function, 0)?;
        let Some(BasicValueEnum::IntValue(count)) = function.get_nth_param(1) else {
            return internal("a sum without a count");
        };
        let [entry, words, tail, byte, end] =
            ["entry", "words", "tail", "byte", "end"].map(|name| self.context.append_basic_block(function, name));
        let number = |n: u64| self.i64.const_int(n, false);
        builder.position_at_end(entry);
        let in_words = builder.build_and(count, builder.build_not(number(3), "")?, "")?;
        let any = builder.build_int_compare(IntPredicate::NE, in_words, number(0), "")?;
        builder.build_conditional_branch(any, words, tail)?;

        builder.position_at_end(words);
        let (at, sum) = (builder.build_phi(self.i64, "")?, builder.build_phi(self.i64, "")?);
        let (at_value, sum_value) = (at.as_basic_value().into_int_value(), sum.as_basic_value().into_int_value());
        let word = self.load_int(self.i32, self.at_index(from, at_value)?, 1, Memory::Frame)?;
        let more = builder.build_int_add(sum_value, self.resize(word, 64)?, "")?;
        let next = builder.build_int_add(at_value, number(4), "")?;
        at.add_incoming(&[(&number(0), entry), (&next, words)]);
        sum.add_incoming(&[(&number(0), entry), (&more, words)]);
        let again = builder.build_int_compare(IntPredicate::ULT, next, in_words, "")?;
        builder.build_conditional_branch(again, words, tail)?;

        // Up to three bytes are left, each in its half of a word.
        builder.position_at_end(tail);
        let (at, sum) = (builder.build_phi(self.i64, "")?, builder.build_phi(self.i64, "")?);
        let (at_value, sum_value) = (at.as_basic_value().into_int_value(), sum.as_basic_value().into_int_value());
        let left = builder.build_int_compare(IntPredicate::ULT, at_value, count, "")?;
        builder.build_conditional_branch(left, byte, end)?;
        builder.position_at_end(byte);
        let one = self.load_int(self.i8, self.at_index(from, at_value)?, 1, Memory::Frame)?;
        let half = builder.build_and(at_value, number(1), "")?;
        let shift = builder.build_left_shift(half, number(3), "")?;
        let one = builder.build_left_shift(self.resize(one, 64)?, shift, "")?;
        let with_byte = builder.build_int_add(sum_value, one, "")?;
        let after = builder.build_int_add(at_value, number(1), "")?;
        builder.build_unconditional_branch(tail)?;
        at.add_incoming(&[(&number(0), entry), (&in_words, words), (&after, byte)]);
        sum.add_incoming(&[(&number(0), entry), (&more, words), (&with_byte, byte)]);

        builder.position_at_end(end);
        let swapped = self.fold_sum(sum_value)?;
        builder.build_return(Some(&self.resize(swapped, 32)?))?;
        match before {
            Some(block) => builder.position_at_end(block),
            None => return Err(CodegenError::Internal("no block is being built".into())),
        }
        Ok(function)
    }
}

impl<'c> Core<'c, '_> {
    /// Ones' complement sum of a few words of 32 bits of a packet, without a loop; 16 bits.
    pub(crate) fn sum_of_words(&self, from: PointerValue<'c>, words: u32) -> Res<IntValue<'c>> {
        let mut sum = self.i64.const_zero();
        for word in 0..words {
            let word = self.load_int(self.i32, self.at(from, u64::from(word) * 4)?, self.align(4), Memory::Frame)?;
            sum = self.builder.build_int_add(sum, self.resize(word, 64)?, "")?;
        }
        self.fold_sum(sum)
    }

    /// Folds a sum of 64 bits of words as the host reads them; 16 bits, in network order.
    pub(crate) fn fold_sum(&self, sum: IntValue<'c>) -> Res<IntValue<'c>> {
        self.swap_bytes(self.fold_words(sum)?, 2)
    }

    /// A checksum (16 bits) that has followed changes, sums of ~m + m' of 32 bits (RFC 1624 equation 3). One that is
    /// `optional` stays 0, and does not become 0.
    pub(crate) fn changed_checksum(
        &self,
        old: IntValue<'c>,
        changes: [IntValue<'c>; 2],
        optional: bool,
    ) -> Res<IntValue<'c>> {
        let builder = &self.builder;
        let ones = old.get_type().const_all_ones();
        let [a, b] = changes;
        let change = builder.build_int_add(self.resize(a, 64)?, self.resize(b, 64)?, "")?;
        let without = self.resize(builder.build_xor(old, ones, "")?, 64)?;
        let sum = self.fold_words(builder.build_int_add(change, without, "")?)?;
        let mut new = builder.build_xor(sum, ones, "")?;
        let mut stays = builder.build_int_compare(IntPredicate::EQ, change, self.i64.const_zero(), "")?;
        if optional {
            let is_zero = |value: IntValue<'c>| {
                builder.build_int_compare(IntPredicate::EQ, value, value.get_type().const_zero(), "")
            };
            stays = builder.build_or(stays, is_zero(old)?, "")?;
            new = self.select_int(is_zero(new)?, ones, new)?;
        }
        self.select_int(stays, old, new)
    }

    /// A sum of words as 16 bits.
    fn fold_words(&self, sum: IntValue<'c>) -> Res<IntValue<'c>> {
        let builder = &self.builder;
        let mut folded = sum;
        // 64 bits, then 33, then 18, then 17, then 16.
        for bits in [32, 16, 16, 16] {
            let low = builder.build_and(folded, self.i64.const_int((1 << bits) - 1, false), "")?;
            let high = builder.build_right_shift(folded, self.i64.const_int(bits, false), false, "")?;
            folded = builder.build_int_add(low, high, "")?;
        }
        self.resize(folded, 16)
    }
}

//! Ones' complement sums of packet bytes (RFC 1071): short ones of constant length word by word, others by the kernel's
//! function, which takes 512 bytes at a time, from a copy in scratch memory, where lengths need not be constant.

use baker::ir::{Ty, Value};
use inkwell::IntPredicate;
use inkwell::values::IntValue;

use super::Kernel;
use super::asm::Helper;
use super::body::Ppf;
use super::main::constant;
use super::state::Field;
use crate::kernel::{Memory as Shared, ROOM};
use crate::lower::{Lowering, Memory, Res};

/// Bytes that the kernel adds up at once.
const CHUNK: u64 = 512;
/// Fixed headers up to this many bytes are added up word by word.
const LONGEST_UNROLLED: u64 = 64;

impl<'c> Kernel<'c, '_> {
    /// A number of bytes (64 bits), 1 to [`ROOM`], of which the verifier knows that.
    pub(super) fn count_of(&self, bytes: IntValue<'c>) -> Res<IntValue<'c>> {
        let one = self.i64.const_int(1, false);
        let less = self.masked(self.builder.build_int_sub(bytes, one, "")?, ROOM - 1)?;
        Ok(self.builder.build_int_add(less, one, "")?)
    }
}

impl<'c> Ppf<'_, 'c, '_> {
    /// Ones' complement sum of `bytes` bytes from `offset` on, 32 bits each; 16 bits. Mostly they are the fixed header.
    pub(super) fn sum(&mut self, packet: Value, offset: IntValue<'c>, bytes: IntValue<'c>) -> Res<IntValue<'c>> {
        let kernel = self.kernel;
        let builder = &kernel.builder;
        let usual = match self.ir_ty(packet)? {
            Ty::Packet(_) => self.promise(packet)?,
            _ => 0,
        };
        let unrolled = |bytes: u64| (4..=LONGEST_UNROLLED).contains(&bytes) && bytes.is_multiple_of(4);
        let sum = match constant(bytes) {
            Some(bytes) if unrolled(bytes) => self.sum_of_words(offset, bytes)?,
            None if unrolled(usual) => {
                let [short, other, done] = kernel.new_blocks(["usual", "other", "summed"])?;
                let number = kernel.i32.const_int(usual, false);
                let is_usual = builder.build_int_compare(IntPredicate::EQ, bytes, number, "")?;
                kernel.likely(builder.build_conditional_branch(is_usual, short, other)?)?;
                builder.position_at_end(short);
                let there = self.there;
                let few = self.sum_of_words(offset, usual)?;
                self.there = there;
                let from_short = kernel.block()?;
                builder.build_unconditional_branch(done)?;
                builder.position_at_end(other);
                let many = self.sum_of_copy(offset, bytes)?;
                let from_other = kernel.block()?;
                builder.build_unconditional_branch(done)?;
                builder.position_at_end(done);
                let phi = builder.build_phi(few.get_type(), "")?;
                phi.add_incoming(&[(&few, from_short), (&many, from_other)]);
                phi.as_basic_value().into_int_value()
            }
            _ => self.sum_of_copy(offset, bytes)?,
        };
        // From an odd place on, the bytes are each other's halves: the sum's bytes change places (RFC 1071 section 2).
        let odd = kernel.resize(offset, 1)?;
        let swapped = kernel.swap_bytes(sum, 2)?;
        Ok(builder.build_select(odd, swapped, sum, "")?.into_int_value())
    }

    fn sum_of_words(&mut self, offset: IntValue<'c>, bytes: u64) -> Res<IntValue<'c>> {
        let kernel = self.kernel;
        let from = match constant(offset) {
            Some(offset) => kernel.at(self.reach(offset + bytes)?, offset)?,
            None => kernel.within(self.place_at(offset)?, bytes, kernel.pointer(self.state, Field::End)?)?,
        };
        kernel.sum_of_words(from, (bytes / 4) as u32)
    }

    /// The sum of any number of bytes, by the kernel.
    fn sum_of_copy(&mut self, offset: IntValue<'c>, bytes: IntValue<'c>) -> Res<IntValue<'c>> {
        let kernel = self.kernel;
        let builder = &kernel.builder;
        let number = |number: u64| kernel.i64.const_int(number, false);
        let bytes = kernel.resize(bytes, 64)?;
        let counters = kernel.pointer(self.state, Field::Counters)?;
        let scratch = kernel.at(counters, Shared::counters(kernel.program))?;
        let before = kernel.block()?;
        let [copy, next, add, done] = kernel.new_blocks(["copy", "next", "add", "added"])?;
        let any = builder.build_int_compare(IntPredicate::NE, bytes, number(0), "")?;
        builder.build_conditional_branch(any, copy, done)?;

        builder.position_at_end(copy);
        // The last word may be short: the rest of it is zero.
        let last = kernel.masked(bytes, ROOM - 4)?;
        kernel.store(kernel.at_index(scratch, last)?, kernel.i32.const_zero(), 4, Memory::Table)?;
        let head = kernel.number(self.state, Field::Offset)?;
        let from = builder.build_int_add(head, kernel.resize(offset, 64)?, "")?;
        let count = kernel.count_of(bytes)?;
        let failed =
            kernel.help(Helper::XdpLoadBytes, &[self.ctx.into(), from.into(), scratch.into(), count.into()])?;
        kernel.must(failed)?;
        let from_copy = kernel.block()?;
        builder.build_unconditional_branch(next)?;

        builder.position_at_end(next);
        let (at, sum) = (builder.build_phi(kernel.i64, "")?, builder.build_phi(kernel.i64, "")?);
        let (at_value, sum_value) = (at.as_basic_value().into_int_value(), sum.as_basic_value().into_int_value());
        let more = builder.build_int_compare(IntPredicate::ULT, at_value, count, "")?;
        let bound = builder.build_int_compare(IntPredicate::NE, at_value, number(ROOM), "")?;
        builder.build_conditional_branch(builder.build_and(more, bound, "")?, add, done)?;
        builder.position_at_end(add);
        let left = builder.build_int_sub(count, at_value, "")?;
        let words = builder.build_int_add(left, number(3), "")?;
        let is_whole = builder.build_int_compare(IntPredicate::UGE, left, number(CHUNK), "")?;
        let words = builder.build_select(is_whole, number(CHUNK), words, "")?.into_int_value();
        let words = kernel.masked(words, 2 * CHUNK - 4)?;
        let from = kernel.at_index(scratch, at_value)?;
        let zero = number(0);
        let args = [zero.into(), zero.into(), from.into(), words.into(), sum_value.into()];
        let result = kernel.help(Helper::CsumDiff, &args)?;
        let next_at = builder.build_int_add(at_value, number(CHUNK), "")?;
        at.add_incoming(&[(&number(0), from_copy), (&next_at, kernel.block()?)]);
        sum.add_incoming(&[(&number(0), from_copy), (&result, kernel.block()?)]);
        builder.build_unconditional_branch(next)?;

        builder.position_at_end(done);
        let total = builder.build_phi(kernel.i64, "")?;
        total.add_incoming(&[(&number(0), before), (&sum_value, next)]);
        // 32 bits are the sum.
        let total = kernel.resize(total.as_basic_value().into_int_value(), 32)?;
        kernel.fold_sum(kernel.resize(total, 64)?)
    }
}

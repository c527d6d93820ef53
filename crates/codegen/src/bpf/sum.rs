//! Ones' complement sums of packet bytes (RFC 1071): short ones of constant length word by word, others by the kernel's
//! function, which takes 512 bytes at a time, from a copy in scratch memory, where lengths need not be constant and the
//! packet's fragments are joined.

use baker::ir::{Op, Ty, Value};
use inkwell::IntPredicate;
use inkwell::values::IntValue;

use super::Kernel;
use super::asm::Helper;
use super::body::Ppf;
use super::main::constant;
use crate::lower::{Lowering, Memory, Res};

/// Bytes that the kernel adds up at once.
const CHUNK: u64 = 512;
/// Bytes that are added up at traffic control at most, of any number of them: the verifier follows each round, and
/// forgets early ones in long loops. Jumbo frames are shorter. Longer packets are super-packets, whose checksums nobody
/// has computed, or they are left to workers ([`Kernel::is_left`]).
pub(super) const SUMMED: u64 = 20 * CHUNK;
/// Fixed headers up to this many bytes are added up word by word.
const LONGEST_UNROLLED: u64 = 64;

impl<'c> Kernel<'c, '_> {
    /// Bytes that are added up at most.
    fn longest_sum(&self) -> u64 {
        if self.is_tc() { SUMMED } else { self.longest() }
    }

    /// Whether numbers of bytes are added up that only packets tell.
    pub(super) fn sums_up(&self) -> bool {
        self.program.insts().any(|inst| matches!(inst.op, Op::Sum { .. }))
    }

    /// A number of bytes (64 bits), 1 to `most`, which is a power of two, of which the verifier knows that.
    pub(super) fn count_of(&self, bytes: IntValue<'c>, most: u64) -> Res<IntValue<'c>> {
        let one = self.i64.const_int(1, false);
        let less = self.masked(self.builder.build_int_sub(bytes, one, "")?, most - 1)?;
        Ok(self.builder.build_int_add(less, one, "")?)
    }
}

impl<'c> Ppf<'_, 'c, '_> {
    /// Ones' complement sum of `bytes` bytes from `offset` on, 32 bits each; 16 bits. Mostly they are the fixed header.
    pub(super) fn sum(&mut self, packet: Value, offset: IntValue<'c>, bytes: IntValue<'c>) -> Res<IntValue<'c>> {
        let kernel = self.kernel;
        let builder = &kernel.builder;
        let expected = match self.ir_ty(packet)? {
            Ty::Packet(_) => self.promise(packet)?,
            _ => 0,
        };
        let unrolled = |bytes: u64| (4..=LONGEST_UNROLLED).contains(&bytes) && bytes.is_multiple_of(4);
        let frags = kernel.options.frags;
        let place = self.place_of(offset)?;
        let is_header = |bytes: u64| !frags || kernel.is_header(place, bytes);
        let sum = match constant(bytes).map_or((expected, false), |bytes| (bytes, true)) {
            (bytes, true) if unrolled(bytes) && is_header(bytes) => self.sum_of_words(offset, bytes)?,
            (expected, is_constant) if unrolled(expected) => {
                let [short, other, done] = kernel.new_blocks(["expected", "other", "summed"])?;
                let number = kernel.i32.const_int(expected, false);
                let mut is_expected = builder.build_int_compare(IntPredicate::EQ, bytes, number, "")?;
                if frags {
                    let is_near = kernel.is_near(self.state, place, expected)?;
                    is_expected = if is_constant { is_near } else { builder.build_and(is_expected, is_near, "")? };
                }
                kernel.likely(builder.build_conditional_branch(is_expected, short, other)?)?;
                builder.position_at_end(short);
                let verified = self.verified;
                let few = self.sum_of_words(offset, expected)?;
                self.verified = verified;
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
            Some(offset) if !kernel.options.frags => kernel.at(self.reach(offset + bytes)?, offset)?,
            _ => kernel.near(self.state, self.place_of(offset)?, bytes)?,
        };
        kernel.sum_of_words(from, (bytes / 4) as u32)
    }

    /// The distance from the frame's first byte of what lies `offset` bytes (32 bits) behind the head; 64 bits.
    fn place_of(&self, offset: IntValue<'c>) -> Res<IntValue<'c>> {
        let kernel = self.kernel;
        let head = kernel.offset(self.state)?;
        Ok(kernel.builder.build_int_add(head, kernel.resize(offset, 64)?, "")?)
    }

    /// The sum of any number of bytes, by the kernel.
    fn sum_of_copy(&mut self, offset: IntValue<'c>, bytes: IntValue<'c>) -> Res<IntValue<'c>> {
        let kernel = self.kernel;
        let builder = &kernel.builder;
        let number = |number: u64| kernel.long(number);
        let count = kernel.resize(bytes, 64)?;
        let copy = kernel.copied(self.state)?;
        let first = self.place_of(offset)?;
        let before = kernel.block()?;
        let [next, add, done] = kernel.new_blocks(["next", "add", "added"])?;
        builder.build_unconditional_branch(next)?;

        builder.position_at_end(next);
        let (at, sum) = (builder.build_phi(kernel.i64, "")?, builder.build_phi(kernel.i64, "")?);
        let (at_value, sum_value) = (at.as_basic_value().into_int_value(), sum.as_basic_value().into_int_value());
        let more = builder.build_int_compare(IntPredicate::ULT, at_value, count, "")?;
        let bound = builder.build_int_compare(IntPredicate::NE, at_value, number(kernel.longest_sum()), "")?;
        builder.build_conditional_branch(builder.build_and(more, bound, "")?, add, done)?;
        builder.position_at_end(add);
        let left = builder.build_int_sub(count, at_value, "")?;
        let is_whole = builder.build_int_compare(IntPredicate::UGE, left, number(CHUNK), "")?;
        let part = builder.build_select(is_whole, number(CHUNK), left, "")?.into_int_value();
        let part = kernel.count_of(part, CHUNK)?;
        // The last word may be short: the rest of it is zero.
        let last = kernel.masked(part, 2 * CHUNK - 4)?;
        kernel.store(kernel.at_index(copy, last)?, kernel.i32.const_zero(), 4, Memory::Table)?;
        let from = builder.build_int_add(first, at_value, "")?;
        kernel.must(kernel.load_bytes(self.ctx, from, copy, part)?)?;
        let words = builder.build_int_add(part, number(3), "")?;
        let words = kernel.masked(words, 2 * CHUNK - 4)?;
        let zero = number(0);
        let args = [zero.into(), zero.into(), copy.into(), words.into(), sum_value.into()];
        let result = kernel.help(Helper::CsumDiff, &args)?;
        let next_at = builder.build_int_add(at_value, number(CHUNK), "")?;
        at.add_incoming(&[(&number(0), before), (&next_at, kernel.block()?)]);
        sum.add_incoming(&[(&number(0), before), (&result, kernel.block()?)]);
        builder.build_unconditional_branch(next)?;

        builder.position_at_end(done);
        // 32 bits are the sum.
        let total = kernel.resize(sum_value, 32)?;
        kernel.fold_sum(kernel.resize(total, 64)?)
    }
}

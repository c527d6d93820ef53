//! Packets that are made, grown and shortened, and what is done at places found at run time.

use std::mem::offset_of;

use baker::ir::{BitRange, PacketEnd, ProtocolId};
use inkwell::IntPredicate;
use inkwell::module::Linkage;
use inkwell::values::{BasicValueEnum, FunctionValue, IntValue, PointerValue};

use super::body::{Ppf, pointer_param};
use super::memory::Memory;
use super::{Module, Res};
use crate::abi::{self, Context};
use crate::{CodegenError, internal};

/// The function that adds up bytes; it is made where it is needed first.
const SUM: &str = "sum";

impl<'c> Module<'c, '_> {
    /// The byte `offset` (32 bits) bytes after the head.
    fn place(&self, ctx: PointerValue<'c>, packet: PointerValue<'c>, offset: IntValue<'c>) -> Res<PointerValue<'c>> {
        let head = self.head(ctx, packet)?;
        self.at_index(head, self.resize(offset, 64)?)
    }

    /// The field that lies `offset` bytes further than its bits say.
    pub(super) fn load_at(
        &self,
        ctx: PointerValue<'c>,
        packet: PointerValue<'c>,
        offset: IntValue<'c>,
        bits: BitRange,
    ) -> Res<IntValue<'c>> {
        self.load_bits(self.place(ctx, packet, offset)?, bits)
    }

    /// Stores such a field.
    pub(super) fn store_at(
        &self,
        ctx: PointerValue<'c>,
        packet: PointerValue<'c>,
        offset: IntValue<'c>,
        bits: BitRange,
        value: IntValue<'c>,
    ) -> Res<()> {
        self.store_bits(self.place(ctx, packet, offset)?, bits, value)
    }

    /// Takes bytes off the end.
    pub(super) fn trim(&self, packet: PointerValue<'c>, bytes: IntValue<'c>) -> Res<()> {
        let len = self.builder.build_int_sub(self.packet_len(packet)?, bytes, "")?;
        self.store_len(packet, len)
    }

    /// A packet of zeros, as long as the protocol's fixed header, in a frame from the free stack.
    pub(super) fn create(&self, ctx: PointerValue<'c>, protocol: ProtocolId) -> Res<PointerValue<'c>> {
        let Some(protocol) = self.program.protocols.get(protocol.0 as usize) else {
            return internal(format!("there is no protocol {}", protocol.0));
        };
        let (frame, packet) = self.free_frame(ctx)?;
        let start = self.builder.build_int_mul(self.resize(frame, 64)?, self.frame_size(ctx)?, "")?;
        let headroom = self.i64.const_int(self.program.limits.created_at().into(), false);
        self.store_addr(packet, self.builder.build_int_add(start, headroom, "")?)?;
        self.store_len(packet, self.i32.const_int(protocol.size.into(), false))?;
        let size = |bytes: u32| self.i64.const_int(bytes.into(), false);
        self.zero_bytes(self.head(ctx, packet)?, 1, size(protocol.size), Memory::Frame)?;
        let metadata = self.at(packet, abi::METADATA_OFFSET as u64)?;
        self.zero_bytes(metadata, 8, size(self.program.metadata_size), Memory::Descriptor)?;
        Ok(packet)
    }

    fn frame_size(&self, ctx: PointerValue<'c>) -> Res<IntValue<'c>> {
        self.load_constant_i64(self.at(ctx, offset_of!(Context, frame_size) as u64)?, Memory::Context)
    }

    /// Ones' complement sum of `bytes` bytes from `offset` on; 16 bits.
    pub(super) fn sum(
        &self,
        ctx: PointerValue<'c>,
        packet: PointerValue<'c>,
        offset: IntValue<'c>,
        bytes: IntValue<'c>,
    ) -> Res<IntValue<'c>> {
        let builder = &self.builder;
        let function = match self.llvm.get_function(SUM) {
            Some(function) => function,
            None => self.define_sum()?,
        };
        let from = self.place(ctx, packet, offset)?;
        let call = builder.build_call(function, &[from.into(), self.resize(bytes, 64)?.into()], "")?;
        let sum = match call.try_as_basic_value().basic() {
            Some(BasicValueEnum::IntValue(sum)) => self.resize(sum, 16)?,
            _ => return internal("a sum without a value"),
        };
        // From an odd place on, the bytes are each other's halves: the sum's bytes change places (RFC 1071 section 2).
        let odd = self.resize(offset, 1)?;
        let swapped = self.swap_bytes(sum, 2)?;
        Ok(builder.build_select(odd, swapped, sum, "")?.into_int_value())
    }

    /// `sum(bytes, count)`: the words are added as the host reads them, which gives the sum with its bytes swapped (RFC
    /// 1071 section 2), so they are swapped once at the end. 64 bits hold the sum of 2^32 words of 32 bits.
    fn define_sum(&self) -> Res<FunctionValue<'c>> {
        let builder = &self.builder;
        let before = builder.get_insert_block();
        let ty = self.i32.fn_type(&[self.ptr.into(), self.i64.into()], false);
        let function = self.llvm.add_function(SUM, ty, Some(Linkage::Internal));
        self.decorate(function);
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
        let mut folded = sum_value;
        // 64 bits, then 33, then 18, then 17, then 16.
        for bits in [32, 16, 16, 16] {
            let low = builder.build_and(folded, number((1 << bits) - 1), "")?;
            let high = builder.build_right_shift(folded, number(bits), false, "")?;
            folded = builder.build_int_add(low, high, "")?;
        }
        let swapped = self.swap_bytes(self.resize(folded, 16)?, 2)?;
        builder.build_return(Some(&self.resize(swapped, 32)?))?;
        match before {
            Some(block) => builder.position_at_end(block),
            None => return Err(CodegenError::Internal("no block is being built".into())),
        }
        Ok(function)
    }
}

impl<'c> Ppf<'_, 'c, '_> {
    /// Adds zero bytes where the frame has room; 1 where it had.
    pub fn grow(&self, packet: PointerValue<'c>, bytes: IntValue<'c>, end: PacketEnd) -> Res<IntValue<'c>> {
        let (module, builder) = (self.module, &self.module.builder);
        let wide = module.resize(bytes, 64)?;
        let frame_size = module.frame_size(self.ctx)?;
        let frame = module.resize(module.frame_number(packet)?, 64)?;
        let start = builder.build_int_mul(frame, frame_size, "")?;
        let addr = module.load_addr(packet)?;
        let len = module.packet_len(packet)?;
        let behind = builder.build_int_add(addr, module.resize(len, 64)?, "")?;
        // None of these sums of offsets and lengths of 32 bits overflows.
        let fits = match end {
            PacketEnd::Head => {
                let reserve = module.i64.const_int(module.program.limits.encap.into(), false);
                let least = builder.build_int_add(builder.build_int_add(start, wide, "")?, reserve, "")?;
                builder.build_int_compare(IntPredicate::UGE, addr, least, "")?
            }
            PacketEnd::Tail => {
                let most = builder.build_int_add(start, frame_size, "")?;
                let grown = builder.build_int_add(behind, wide, "")?;
                builder.build_int_compare(IntPredicate::ULE, grown, most, "")?
            }
        };
        let (grow, done) = (self.new_block("grow"), self.new_block("done"));
        let branch = builder.build_conditional_branch(fits, grow, done)?;
        module.likely(branch)?;
        builder.position_at_end(grow);
        let from = match end {
            PacketEnd::Head => {
                let moved = builder.build_int_sub(addr, wide, "")?;
                module.store_addr(packet, moved)?;
                moved
            }
            PacketEnd::Tail => behind,
        };
        module.store_len(packet, builder.build_int_add(len, bytes, "")?)?;
        let region = module.context_ptr(self.ctx, offset_of!(Context, region))?;
        module.zero_bytes(module.at_index(region, from)?, 1, wide, Memory::Frame)?;
        builder.build_unconditional_branch(done)?;
        builder.position_at_end(done);
        Ok(fits)
    }
}

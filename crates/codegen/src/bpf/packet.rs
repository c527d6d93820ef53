//! The packet's bytes: where its head is, and what of it is there.
//!
//! ```text
//! a handle's promise, where it is first used:     if head + 20 > end: abort        the verifier learns of 20 bytes
//! from there on:                                  load [head + 12]                 no further test
//! ```
//!
//! The program has tested that; the verifier has to see it once more where the head or the packet's memory has changed
//! since.

use baker::ir::{BitRange, Value};
use inkwell::IntPredicate;
use inkwell::values::{IntValue, PointerValue};

use super::Kernel;
use super::asm::Helper;
use super::body::{Ppf, VerifiedRange};
use super::main::constant;
use super::state::Field;
use crate::lower::{Lowering, Memory, Res};

/// Distances within a packet's first fragment have no bits but these. It is shorter than a page.
pub(super) const OFFSETS: u64 = 0x1fff;

impl<'c> Kernel<'c, '_> {
    /// Bytes from the head to the end; 32 bits.
    pub(super) fn len(&self, state: PointerValue<'c>) -> Res<IntValue<'c>> {
        let len = if self.options.frags {
            self.builder.build_int_sub(self.total(state)?, self.offset(state)?, "")?
        } else {
            self.distance(self.pointer(state, Field::End)?, self.pointer(state, Field::Head)?)?
        };
        self.resize(len, 32)
    }

    /// A distance (64 bits) that the verifier knows to lie within a packet; constants stay what they are.
    fn bounded(&self, offset: IntValue<'c>) -> Res<IntValue<'c>> {
        let is_constant = self.intrinsic("llvm.is.constant", &[self.i64.into()], &[offset.into()])?;
        let inside =
            self.builder.build_int_compare(IntPredicate::ULE, offset, self.i64.const_int(OFFSETS, false), "")?;
        let is_constant = self.builder.build_and(is_constant, inside, "")?;
        let masked = self.masked(offset, OFFSETS)?;
        Ok(self.builder.build_select(is_constant, offset, masked, "")?.into_int_value())
    }

    /// Puts the head `offset` bytes (64 bits) behind the frame's first byte.
    pub(super) fn set_offset(&self, state: PointerValue<'c>, offset: IntValue<'c>) -> Res<()> {
        if self.options.frags {
            // There is no pointer to a head beyond the first fragment.
            return self.set(state, Field::Offset, self.masked(offset, self.offsets())?);
        }
        let offset = self.bounded(offset)?;
        self.set(state, Field::Offset, offset)?;
        let head = self.at_index(self.pointer(state, Field::Data)?, offset)?;
        self.set(state, Field::Head, head)
    }

    /// Moves the frame's first byte, to the front where `by` (64 bits) is negative; 0 where the kernel did it.
    pub(super) fn move_data(
        &self,
        ctx: PointerValue<'c>,
        state: PointerValue<'c>,
        by: IntValue<'c>,
    ) -> Res<IntValue<'c>> {
        let failed = self.help(Helper::XdpAdjustHead, &[ctx.into(), by.into()])?;
        self.reload(ctx, state)?;
        Ok(failed)
    }

    /// Makes the head the frame's first byte, as the packet leaves.
    pub(super) fn settle(&self, ctx: PointerValue<'c>, state: PointerValue<'c>) -> Res<()> {
        let builder = &self.builder;
        let offset = self.offset(state)?;
        let [move_, done] = self.new_blocks(["move", "settled"])?;
        let moves = builder.build_int_compare(IntPredicate::NE, offset, self.i64.const_zero(), "")?;
        builder.build_conditional_branch(moves, move_, done)?;
        builder.position_at_end(move_);
        let failed = self.move_data(ctx, state, offset)?;
        self.must(failed)?;
        self.set(state, Field::Offset, self.i64.const_zero())?;
        builder.build_unconditional_branch(done)?;
        builder.position_at_end(done);
        Ok(())
    }
}

impl<'c> Ppf<'_, 'c, '_> {
    /// The head of a packet of which `bytes` bytes are there.
    fn head(&mut self, packet: Value, bytes: u64) -> Res<PointerValue<'c>> {
        let bytes = bytes.max(self.promise(packet)?);
        self.reach(bytes)
    }

    /// The head, where `bytes` bytes from it on are there, which the verifier is to know.
    pub(super) fn reach(&mut self, bytes: u64) -> Res<PointerValue<'c>> {
        let kernel = self.kernel;
        let head = kernel.pointer(self.state, Field::Head)?;
        if bytes <= self.verified.bytes {
            return Ok(head);
        }
        let head = kernel.within(head, bytes, kernel.pointer(self.state, Field::End)?)?;
        kernel.set(self.state, Field::Head, head)?;
        self.verified.bytes = bytes;
        Ok(head)
    }

    /// Loads bits that are counted from the head, or from `offset` bytes behind it, or stores a value there.
    pub(super) fn access(
        &mut self,
        packet: Value,
        offset: Option<Value>,
        bits: BitRange,
        stored: Option<IntValue<'c>>,
    ) -> Res<Option<IntValue<'c>>> {
        let kernel = self.kernel;
        let offset = offset.map(|offset| self.int_of(offset, 32)).transpose()?;
        if kernel.options.frags {
            let offset = offset.map_or(Ok(kernel.long(0)), |offset| kernel.resize(offset, 64))?;
            return self.field(offset, bits, stored);
        }
        let pointer_at = match offset {
            Some(offset) => self.pointer_at(packet, offset, bits)?,
            None => self.head(packet, bits.end_byte().into())?,
        };
        match stored {
            Some(value) => kernel.store_bits(pointer_at, bits, value).map(|()| None),
            None => kernel.load_bits(pointer_at, bits).map(Some),
        }
    }

    /// Where bits lie that are counted from `offset` bytes (32 bits) behind the head.
    fn pointer_at(&mut self, packet: Value, offset: IntValue<'c>, bits: BitRange) -> Res<PointerValue<'c>> {
        let kernel = self.kernel;
        if let Some(offset) = constant(offset).filter(|offset| *offset <= OFFSETS) {
            let head = self.head(packet, offset + u64::from(bits.end_byte()))?;
            return kernel.at(head, offset);
        }
        let pointer_at = self.unverified_at(offset)?;
        kernel.within(pointer_at, bits.end_byte().into(), kernel.pointer(self.state, Field::End)?)
    }

    /// A pointer `offset` (32 bits) bytes behind the head, of which nothing is known yet.
    pub(super) fn unverified_at(&self, offset: IntValue<'c>) -> Res<PointerValue<'c>> {
        let kernel = self.kernel;
        let head = kernel.offset(self.state)?;
        let offset = kernel.builder.build_int_add(head, kernel.resize(offset, 64)?, "")?;
        kernel.at_index(kernel.pointer(self.state, Field::Data)?, kernel.masked(offset, OFFSETS)?)
    }

    /// Whether the packet has so many bytes (32 bits).
    pub(super) fn has(&self, bytes: IntValue<'c>) -> Res<IntValue<'c>> {
        let kernel = self.kernel;
        match constant(bytes) {
            Some(bytes) if bytes <= self.verified.bytes => Ok(kernel.context.bool_type().const_int(1, false)),
            Some(bytes) if bytes <= OFFSETS && !kernel.options.frags => {
                let [head, end] = [Field::Head, Field::End].map(|field| kernel.pointer(self.state, field));
                let (has, head) = kernel.has(head?, bytes, end?)?;
                kernel.set(self.state, Field::Head, head)?;
                Ok(has)
            }
            _ => Ok(kernel.builder.build_int_compare(IntPredicate::UGE, kernel.len(self.state)?, bytes, "")?),
        }
    }

    /// The head is another one; what is there of it has to be tested again.
    pub(super) fn moved(&mut self) {
        self.verified = VerifiedRange { bytes: 0, head: self.new_head() };
    }

    /// Moves the head `bytes` (32 bits) towards the end.
    pub(super) fn pull(&mut self, bytes: IntValue<'c>) -> Res<()> {
        let (kernel, state) = (self.kernel, self.state);
        let verified = self.verified.bytes;
        self.moved();
        let offset = kernel.offset(state)?;
        let next = kernel.builder.build_int_add(offset, kernel.resize(bytes, 64)?, "")?;
        let Some(bytes) = constant(bytes).filter(|bytes| *bytes <= OFFSETS && !kernel.options.frags) else {
            return kernel.set_offset(state, next);
        };
        self.verified.bytes = verified.saturating_sub(bytes);
        kernel.set(state, Field::Offset, next)?;
        kernel.set(state, Field::Head, kernel.at(kernel.pointer(state, Field::Head)?, bytes)?)
    }

    /// Moves the head `bytes` to the front, where the frame has room.
    pub(super) fn push(&mut self, bytes: u32) -> Res<()> {
        let (kernel, state) = (self.kernel, self.state);
        let builder = &kernel.builder;
        self.moved();
        let offset = kernel.offset(state)?;
        let bytes = kernel.i64.const_int(bytes.into(), false);
        let next = builder.build_int_sub(offset, bytes, "")?;
        let [inside, beyond, done] = kernel.new_blocks(["inside", "beyond", "pushed"])?;
        let is_inside = builder.build_int_compare(IntPredicate::UGE, offset, bytes, "")?;
        builder.build_conditional_branch(is_inside, inside, beyond)?;
        builder.position_at_end(inside);
        kernel.set_offset(state, next)?;
        builder.build_unconditional_branch(done)?;
        builder.position_at_end(beyond);
        if kernel.is_tc() {
            kernel.make_front(self.ctx, state, builder.build_int_neg(next, "")?)?;
        } else {
            let failed = kernel.move_data(self.ctx, state, next)?;
            kernel.must(failed)?;
            kernel.set_offset(state, kernel.i64.const_zero())?;
        }
        builder.build_unconditional_branch(done)?;
        builder.position_at_end(done);
        Ok(())
    }

    /// Sets the first bytes of the packet to zero.
    pub(super) fn zero(&mut self, bytes: u64) -> Res<()> {
        let kernel = self.kernel;
        if kernel.options.frags {
            return self.zero_by_kernel(bytes);
        }
        let head = self.reach(bytes)?;
        let mut at = 0;
        while at < bytes {
            let width = [8, 4, 2, 1].into_iter().find(|width| at + width <= bytes).unwrap_or(1);
            let zero = kernel.int(width as u32 * 8)?.const_zero();
            kernel.store(kernel.at(head, at)?, zero, kernel.align(width as u32), Memory::Frame)?;
            at += width;
        }
        Ok(())
    }
}

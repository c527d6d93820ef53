//! Payloads that several packets share, and how the last one lets go of them.
//!
//! A copy that shares has its first bytes in a frame of its own, and says in its descriptor which frame has the others
//! (`rest`, `held`). That frame's count is one higher for it. A frame without another holder has the count 0, so frames
//! that are never shared cost a load where they are let go of.

use std::mem::offset_of;

use inkwell::values::{FunctionValue, IntValue, PointerValue};
use inkwell::{AtomicOrdering, AtomicRMWBinOp, IntPredicate};

use super::memory::{Memory, instruction};
use super::walk::{int_param, pointer_param};
use super::{Module, Res};
use crate::CodegenError;
use crate::abi::{self, Context};

impl<'c> Module<'c, '_> {
    /// What a copy has of its packet here, and where it has the others (`Module::parts`), where the packet has `parts`,
    /// lies in frame `number` from `offset` on (64 bits), is `len` bytes long and needs `own` of them for itself (32
    /// bits). The frame of its rest, where it has one, is held once more.
    pub(super) fn share(
        &self,
        ctx: PointerValue<'c>,
        parts: IntValue<'c>,
        (number, offset): (IntValue<'c>, IntValue<'c>),
        (len, own): (IntValue<'c>, IntValue<'c>),
    ) -> Res<IntValue<'c>> {
        let builder = &self.builder;
        let none = self.i32.const_int(abi::WHOLE.into(), false);
        let least = self.share_least(ctx)?;
        let own = self.resize(own, 64)?;
        let behind = self.without(self.resize(len, 64)?, own)?;
        let is_long = builder.build_int_compare(IntPredicate::UGE, behind, self.resize(least, 64)?, "")?;
        let is_whole = builder.build_int_compare(IntPredicate::EQ, self.resize(parts, 32)?, none, "")?;
        let shares = builder.build_and(is_whole, is_long, "")?;
        let held = builder.build_int_add(offset, own, "")?;
        let held = builder.build_left_shift(held, self.i64.const_int(32, false), "")?;
        let parts = self.select_int(shares, builder.build_or(held, number, "")?, parts)?;
        let rest = self.resize(parts, 32)?;
        let has_rest = builder.build_int_compare(IntPredicate::NE, rest, none, "")?;
        let is_counted = builder.build_and(has_rest, self.counts(least)?, "")?;
        let [hold, done] = self.new_blocks(["hold", "held"])?;
        builder.build_conditional_branch(is_counted, hold, done)?;
        builder.position_at_end(hold);
        // A holder of a frame may let others hold it: nothing else is to be seen before or behind that.
        let one = self.i32.const_int(1, false);
        let count = self.count_of(ctx, rest)?;
        builder.build_atomicrmw(AtomicRMWBinOp::Add, count, one, AtomicOrdering::Monotonic)?;
        builder.build_unconditional_branch(done)?;
        builder.position_at_end(done);
        Ok(parts)
    }

    /// Defines what drops a packet: its frame, and that of its rest, are free where they have no other holder.
    pub(super) fn define_release(&self) -> Res<()> {
        let builder = &self.builder;
        let release = self.packet_release;
        builder.position_at_end(self.context.append_basic_block(release, "entry"));
        let (ctx, packet) = (pointer_param(release, 0)?, pointer_param(release, 1)?);
        let rest = self.resize(self.parts(packet)?, 32)?;
        let none = self.i32.const_int(abi::WHOLE.into(), false);
        let has_rest = builder.build_int_compare(IntPredicate::NE, rest, none, "")?;
        let is_counted = builder.build_and(has_rest, self.counts(self.share_least(ctx)?)?, "")?;
        let [shared, own] = self.new_blocks(["shared", "own"])?;
        builder.build_conditional_branch(is_counted, shared, own)?;
        builder.position_at_end(shared);
        builder.build_call(self.frame_release, &[ctx.into(), rest.into()], "")?;
        builder.build_unconditional_branch(own)?;
        builder.position_at_end(own);
        let frame = self.frame_number(packet)?;
        builder.build_call(self.frame_release, &[ctx.into(), frame.into()], "")?;
        builder.build_return(None)?;
        self.define_frame_release(self.frame_release)
    }

    /// Defines what lets go of a frame once.
    fn define_frame_release(&self, function: FunctionValue<'c>) -> Res<()> {
        let builder = &self.builder;
        builder.position_at_end(self.context.append_basic_block(function, "entry"));
        let (ctx, frame) = (pointer_param(function, 0)?, int_param(function, 1)?);
        let [several, last, free, done] = self.new_blocks(["several", "last", "free", "done"])?;
        let (zero, one) = (self.i32.const_zero(), self.i32.const_int(1, false));
        let at = self.count_of(ctx, frame)?;
        // What others have done with the frame comes before what is done with it when it is free.
        let count = builder.build_load(self.i32, at, "")?;
        let load = instruction(count)?;
        load.set_atomic_ordering(AtomicOrdering::Acquire)
            .and_then(|()| load.set_alignment(4))
            .map_err(|error| CodegenError::Internal(error.to_string()))?;
        let is_alone = builder.build_int_compare(IntPredicate::EQ, count.into_int_value(), zero, "")?;
        self.likely(builder.build_conditional_branch(is_alone, free, several)?)?;
        builder.position_at_end(several);
        let before = builder.build_atomicrmw(AtomicRMWBinOp::Sub, at, one, AtomicOrdering::AcquireRelease)?;
        let was_last = builder.build_int_compare(IntPredicate::EQ, before, zero, "")?;
        builder.build_conditional_branch(was_last, last, done)?;
        builder.position_at_end(last);
        builder.build_store(at, zero)?;
        builder.build_unconditional_branch(free)?;
        builder.position_at_end(free);
        self.free(ctx, frame)?;
        builder.build_unconditional_branch(done)?;
        builder.position_at_end(done);
        builder.build_return(None)?;
        Ok(())
    }

    fn share_least(&self, ctx: PointerValue<'c>) -> Res<IntValue<'c>> {
        self.load_int(self.i32, self.at(ctx, offset_of!(Context, share_least) as u64)?, 4, Memory::Context)
    }

    /// Whether the rests of packets are counted.
    fn counts(&self, share_least: IntValue<'c>) -> Res<IntValue<'c>> {
        let none = self.i32.const_int(abi::SHARE_NONE.into(), false);
        Ok(self.builder.build_int_compare(IntPredicate::NE, share_least, none, "")?)
    }

    /// Where a frame's count is.
    fn count_of(&self, ctx: PointerValue<'c>, frame: IntValue<'c>) -> Res<PointerValue<'c>> {
        self.element(self.context_ptr(ctx, offset_of!(Context, shares))?, frame, 4)
    }
}

//! Packets that grow and shrink. The kernel does it, and says whether there was room.

use baker::ir::PacketEnd;
use inkwell::IntPredicate;
use inkwell::values::IntValue;

use super::asm::Helper;
use super::body::Ppf;
use super::state::Field;
use crate::kernel::{ROOM, ZEROS};
use crate::lower::Res;

/// The kernel makes no frame shorter than this (`ETH_HLEN`).
pub(super) const SHORTEST: u32 = 14;

impl<'c> Ppf<'_, 'c, '_> {
    /// Takes bytes (32 bits) off the end.
    pub(super) fn trim(&mut self, bytes: IntValue<'c>) -> Res<()> {
        let (kernel, state) = (self.kernel, self.state);
        let builder = &kernel.builder;
        self.moved();
        let whole = kernel.total(state)?;
        let bytes = kernel.resize(bytes, 64)?;
        let left = builder.build_int_sub(whole, bytes, "")?;
        // What lies in front of the head can be made as long as the kernel wants.
        let shortest = kernel.i64.const_int(SHORTEST.into(), false);
        let [short, cut] = kernel.new_blocks(["short", "cut"])?;
        let is_short = builder.build_int_compare(IntPredicate::ULT, left, shortest, "")?;
        kernel.unlikely(builder.build_conditional_branch(is_short, short, cut)?)?;
        builder.position_at_end(short);
        let more = kernel.i64.const_int(-i64::from(SHORTEST) as u64, true);
        let failed = kernel.move_data(self.ctx, state, more)?;
        kernel.must(failed)?;
        let offset = kernel.offset(state)?;
        kernel.set(state, Field::Offset, builder.build_int_add(offset, shortest, "")?)?;
        builder.build_unconditional_branch(cut)?;
        builder.position_at_end(cut);
        let by = builder.build_int_sub(kernel.i64.const_zero(), bytes, "")?;
        let failed = self.move_end(by)?;
        kernel.must(failed)
    }

    /// Moves the packet's end; 0 where the kernel did it, which then has set further bytes to zero.
    fn move_end(&mut self, by: IntValue<'c>) -> Res<IntValue<'c>> {
        let (kernel, state) = (self.kernel, self.state);
        let failed = kernel.help(Helper::XdpAdjustTail, &[self.ctx.into(), by.into()])?;
        kernel.reload(self.ctx, state)?;
        let offset = kernel.offset(state)?;
        kernel.set_offset(state, offset)?;
        Ok(failed)
    }

    /// Adds zero bytes (32 bits) where the frame has room; 1 where it had.
    pub(super) fn grow(&mut self, bytes: IntValue<'c>, end: PacketEnd) -> Res<IntValue<'c>> {
        let kernel = self.kernel;
        let builder = &kernel.builder;
        self.moved();
        let bytes = kernel.resize(bytes, 64)?;
        let room = kernel.i64.const_int(ROOM, false);
        let before = kernel.block()?;
        let [possible, done] = kernel.new_blocks(["possible", "grown"])?;
        let some = builder.build_int_compare(IntPredicate::ULT, bytes, room, "")?;
        builder.build_conditional_branch(some, possible, done)?;
        builder.position_at_end(possible);
        let grew = match end {
            PacketEnd::Head => self.grow_head(bytes)?,
            PacketEnd::Tail => {
                let failed = self.move_end(bytes)?;
                builder.build_int_compare(IntPredicate::EQ, failed, kernel.i64.const_zero(), "")?
            }
        };
        let from = kernel.block()?;
        builder.build_unconditional_branch(done)?;
        builder.position_at_end(done);
        let bit = kernel.context.bool_type();
        let phi = builder.build_phi(bit, "")?;
        phi.add_incoming(&[(&bit.const_zero(), before), (&grew, from)]);
        Ok(phi.as_basic_value().into_int_value())
    }

    /// In front: `bytes` (64 bits), less than [`ROOM`].
    fn grow_head(&mut self, bytes: IntValue<'c>) -> Res<IntValue<'c>> {
        let (kernel, state) = (self.kernel, self.state);
        let builder = &kernel.builder;
        let reserve = kernel.i64.const_int(kernel.program.limits.encap.into(), false);
        let needed = builder.build_int_add(bytes, reserve, "")?;
        let offset = kernel.offset(state)?;
        let [beyond, moved, grow, done] = kernel.new_blocks(["beyond", "moved", "grow", "headed"])?;
        let inside = builder.build_int_compare(IntPredicate::UGE, offset, needed, "")?;
        builder.build_conditional_branch(inside, grow, beyond)?;

        builder.position_at_end(beyond);
        let failed = kernel.move_data(self.ctx, state, builder.build_int_sub(offset, needed, "")?)?;
        let is_moved = builder.build_int_compare(IntPredicate::EQ, failed, kernel.i64.const_zero(), "")?;
        // Even where it failed, the pointers are others.
        kernel.set_offset(state, offset)?;
        builder.build_conditional_branch(is_moved, moved, done)?;
        builder.position_at_end(moved);
        kernel.set(state, Field::Offset, needed)?;
        builder.build_unconditional_branch(grow)?;

        builder.position_at_end(grow);
        let offset = builder.build_int_sub(kernel.offset(state)?, bytes, "")?;
        kernel.set_offset(state, offset)?;
        let [zero, zeroed] = kernel.new_blocks(["zero", "zeroed"])?;
        let any = builder.build_int_compare(IntPredicate::NE, bytes, kernel.i64.const_zero(), "")?;
        builder.build_conditional_branch(any, zero, zeroed)?;
        builder.position_at_end(zero);
        let zeros = kernel.fixed(ZEROS)?;
        let offset = kernel.offset(state)?;
        kernel.store_bytes((self.ctx, state), offset, zeros, kernel.count_of(bytes, ROOM)?)?;
        builder.build_unconditional_branch(zeroed)?;
        builder.position_at_end(zeroed);
        builder.build_unconditional_branch(done)?;

        builder.position_at_end(done);
        let bit = kernel.context.bool_type();
        let phi = builder.build_phi(bit, "")?;
        phi.add_incoming(&[(&bit.const_zero(), beyond), (&bit.const_int(1, false), zeroed)]);
        Ok(phi.as_basic_value().into_int_value())
    }
}

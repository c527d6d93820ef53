//! Copies that leave the kernel by a ring while the packet stays: see [`crate::kernel::Tap`].
//!
//! ```text
//! count the channel; the ring of this queue ─ none ─▶ tap_full
//! record of the first class that holds the bytes ─ no place ─▶ tap_full
//! channel, generation, metadata, bytes; submit, each so many times with a wake-up
//! ```
//!
//! The size of a record has to be constant ([`super::ring`]), so there is code for each class.

use std::mem::offset_of;

use baker::ir::{ChannelId, DropId, MetaId};
use inkwell::IntPredicate;
use inkwell::values::{IntValue, PointerValue};

use super::Kernel;
use crate::kernel::{Carried, Punt, TAP_BATCH, Tap};
use crate::lower::{Memory, Res};

/// What a copy is, beside the packet.
pub(super) struct Copy<'a, 'c> {
    /// Bytes (32 bits) from the packet's head to its own.
    pub skip: IntValue<'c>,
    /// What it has other values of.
    pub metadata: &'a [(MetaId, IntValue<'c>)],
    /// Where it goes.
    pub channel: ChannelId,
}

/// The bytes to be copied, 64 bits each.
#[derive(Clone, Copy)]
struct Bytes<'c> {
    /// From the frame's first byte.
    from: IntValue<'c>,
    /// Those that are read, 1 at least.
    read: IntValue<'c>,
    /// Those that the copy has.
    len: IntValue<'c>,
    /// From the first of these to the copy's head.
    head: IntValue<'c>,
}

impl<'c> Kernel<'c, '_> {
    /// Writes a copy into the ring of the queue that the packet came in by.
    pub(super) fn tap(&self, ctx: PointerValue<'c>, state: PointerValue<'c>, copy: &Copy<'_, 'c>) -> Res<()> {
        let builder = &self.builder;
        self.count_slot(state, self.slots.channel(copy.channel))?;
        let head = builder.build_int_add(self.offset(state)?, self.resize(copy.skip, 64)?, "")?;
        let total = self.total(state)?;
        // Of a socket buffer workers have to see all headers, by which they finish what was left to devices.
        let bytes = match self.is_tc() {
            true => Bytes { from: self.long(0), read: total, len: total, head },
            false => self.at_least_one(copy.channel, head, builder.build_int_sub(total, head, "")?)?,
        };

        let [full, done] = self.new_blocks(["tap_full", "tapped"])?;
        let ring = self.ring(ctx, state, full)?;
        for &class in Tap::classes(self.options.frags) {
            let [fits, larger] = self.new_blocks(["fits", "larger"])?;
            let (is_within, read) = self.has_count(bytes.read, class)?;
            builder.build_conditional_branch(is_within, fits, larger)?;
            builder.position_at_end(fits);
            let record = self.reserve(ring, Tap::bytes(self.program, class), full)?;
            self.fill(ctx, state, record, copy, Bytes { read, ..bytes })?;
            self.submit(record, self.is_turn(state)?)?;
            builder.build_unconditional_branch(done)?;
            builder.position_at_end(larger);
        }
        // There is no longer packet.
        builder.build_unconditional_branch(full)?;

        builder.position_at_end(full);
        self.count_slot(state, self.slots.drop(DropId::TAP_FULL))?;
        builder.build_unconditional_branch(done)?;
        builder.position_at_end(done);
        Ok(())
    }

    /// The bytes from a head on. The kernel reads no 0 bytes: of an empty copy it reads the byte in front, which every
    /// frame has.
    fn at_least_one(&self, channel: ChannelId, from: IntValue<'c>, len: IntValue<'c>) -> Res<Bytes<'c>> {
        if self.least(channel)? > 0 {
            return Ok(Bytes { from, read: len, len, head: self.long(0) });
        }
        let is_empty = self.builder.build_int_compare(IntPredicate::EQ, len, self.i64.const_zero(), "")?;
        let one = self.resize(is_empty, 64)?;
        let (from, read) = (self.builder.build_int_sub(from, one, "")?, self.builder.build_int_add(len, one, "")?);
        Ok(Bytes { from, read, len, head: self.long(0) })
    }

    fn fill(
        &self,
        ctx: PointerValue<'c>,
        state: PointerValue<'c>,
        record: PointerValue<'c>,
        copy: &Copy<'_, 'c>,
        bytes: Bytes<'c>,
    ) -> Res<()> {
        let front = self.at(record, size_of::<Tap>() as u64)?;
        let channel = self.context.i16_type().const_int(copy.channel.0.into(), false);
        self.write_punt(state, (front, Memory::Table), channel, self.resize(bytes.head, 32)?, copy.metadata)?;
        let to = self.at(front, Punt::bytes(self.program).into())?;
        let failed = self.load_bytes(ctx, bytes.from, to, bytes.read)?;
        // It does not fail. If it did there would be no copy, and no record that nobody submits.
        let is_read = self.builder.build_int_compare(IntPredicate::EQ, failed, self.i64.const_zero(), "")?;
        let len = self.builder.build_int_add(bytes.len, self.long(Punt::bytes(self.program).into()), "")?;
        let len = self.builder.build_select(is_read, self.resize(len, 32)?, self.i32.const_zero(), "")?;
        self.store(self.at(record, offset_of!(Tap, len) as u64)?, len.into_int_value(), 4, Memory::Table)?;
        if self.is_tc() { self.note_segments(ctx, record) } else { Ok(()) }
    }

    /// Whether the reader is to be woken for this copy: for one in [`TAP_BATCH`].
    fn is_turn(&self, state: PointerValue<'c>) -> Res<IntValue<'c>> {
        let builder = &self.builder;
        let count = self.carried(state, offset_of!(Carried, taps))?;
        let turn = builder.build_int_add(
            self.load_int(self.i64, count, 8, Memory::Descriptor)?,
            self.i64.const_int(1, false),
            "",
        )?;
        self.store(count, turn, 8, Memory::Descriptor)?;
        let rest = builder.build_and(turn, self.long(TAP_BATCH - 1), "")?;
        Ok(builder.build_int_compare(IntPredicate::EQ, rest, self.i64.const_zero(), "")?)
    }

    /// Bytes that packets of a channel have at least.
    fn least(&self, channel: ChannelId) -> Res<u32> {
        let protocol = self.channel(channel)?.protocol;
        Ok(self.program.protocols.get(protocol.0 as usize).map_or(0, |protocol| protocol.size))
    }
}

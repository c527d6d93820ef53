//! Copies that leave the kernel by a ring while the packet stays: see [`crate::kernel::Tap`].
//!
//! ```text
//! count the channel; the ring of this queue ─ none ─▶ tap_full
//! record of the first class that holds the bytes ─ no place ─▶ tap_full
//! channel, generation, metadata, bytes; submit, each so many times with a wake-up
//! ```
//!
//! The verifier wants a record to have a constant size, and to be submitted on every path. So there is code for each
//! class, without a way out of it, and no record is held across an instruction of the IR.

use std::mem::offset_of;

use baker::ir::{ChannelId, DropId, MetaId};
use inkwell::IntPredicate;
use inkwell::basic_block::BasicBlock;
use inkwell::values::{IntValue, PointerValue};

use super::Kernel;
use super::asm::Helper;
use super::main::RX_QUEUE_INDEX;
use super::state::Field;
use crate::kernel::{Carried, MapUse, Punt, TAP_BATCH, Tap};
use crate::lower::{Memory, Res};

/// Flags of a record that is submitted (`BPF_RB_NO_WAKEUP`, `BPF_RB_FORCE_WAKEUP`).
const NO_WAKEUP: u64 = 1;
const FORCE_WAKEUP: u64 = 2;

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
}

impl<'c> Kernel<'c, '_> {
    /// Writes a copy into the ring of the queue that the packet came in by.
    pub(super) fn tap(&self, ctx: PointerValue<'c>, state: PointerValue<'c>, copy: &Copy<'_, 'c>) -> Res<()> {
        let builder = &self.builder;
        self.count_slot(state, self.slots.channel(copy.channel))?;
        let head = builder.build_int_add(self.number(state, Field::Offset)?, self.resize(copy.skip, 64)?, "")?;
        let len = builder.build_int_sub(self.total(state)?, head, "")?;
        let bytes = self.at_least_one(copy.channel, head, len)?;

        let [full, done] = self.new_blocks(["tap_full", "tapped"])?;
        let ring = self.ring(ctx, state, full)?;
        for &class in Tap::classes(self.options.frags) {
            let [fits, larger] = self.new_blocks(["fits", "larger"])?;
            let (is_within, read) = self.has_count(bytes.read, class)?;
            builder.build_conditional_branch(is_within, fits, larger)?;
            builder.position_at_end(fits);
            let record = self.reserve(ring, class, full)?;
            self.fill(ctx, state, record, copy, Bytes { read, ..bytes })?;
            self.submit(state, record)?;
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
            return Ok(Bytes { from, read: len, len });
        }
        let is_empty = self.builder.build_int_compare(IntPredicate::EQ, len, self.i64.const_zero(), "")?;
        let one = self.resize(is_empty, 64)?;
        let (from, read) = (self.builder.build_int_sub(from, one, "")?, self.builder.build_int_add(len, one, "")?);
        Ok(Bytes { from, read, len })
    }

    /// The ring of the queue that the packet came in by; on at `full` where it has none.
    fn ring(&self, ctx: PointerValue<'c>, state: PointerValue<'c>, full: BasicBlock<'c>) -> Res<PointerValue<'c>> {
        let queue = match self.options.recorded {
            true => self.i32.const_zero(),
            false => self.load_int(self.i32, self.at(ctx, RX_QUEUE_INDEX)?, 4, Memory::Context)?,
        };
        let key = self.copied(state)?;
        self.store_once(key, queue)?;
        let ring = self.help(Helper::MapLookupElem, &[self.map(MapUse::Taps)?.into(), key.into()])?;
        let [there] = self.new_blocks(["ring"])?;
        self.unless_null(ring, there, full)?;
        self.known_pointer(ring)
    }

    /// A record of a class; on at `full` where there is no place for it.
    fn reserve(&self, ring: PointerValue<'c>, class: u64, full: BasicBlock<'c>) -> Res<PointerValue<'c>> {
        let size = self.long(Tap::bytes(self.program, class));
        let record = self.help(Helper::RingbufReserve, &[ring.into(), size.into(), self.i64.const_zero().into()])?;
        let [reserved] = self.new_blocks(["reserved"])?;
        self.unless_null(record, reserved, full)?;
        self.known_pointer(record)
    }

    /// Goes on at `there` where a pointer (64 bits) is not null.
    fn unless_null(&self, pointer: IntValue<'c>, there: BasicBlock<'c>, null: BasicBlock<'c>) -> Res<()> {
        let is_there = self.builder.build_int_compare(IntPredicate::NE, pointer, self.i64.const_zero(), "")?;
        self.likely(self.builder.build_conditional_branch(is_there, there, null)?)?;
        self.builder.position_at_end(there);
        Ok(())
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
        self.write_punt(state, (front, Memory::Table), channel, self.i32.const_zero(), copy.metadata)?;
        let to = self.at(front, Punt::bytes(self.program).into())?;
        let args = [ctx.into(), bytes.from.into(), to.into(), bytes.read.into()];
        let failed = self.help(Helper::XdpLoadBytes, &args)?;
        // It does not fail. If it did there would be no copy, and no record that nobody submits.
        let is_read = self.builder.build_int_compare(IntPredicate::EQ, failed, self.i64.const_zero(), "")?;
        let len = self.builder.build_int_add(bytes.len, self.long(Punt::bytes(self.program).into()), "")?;
        let len = self.builder.build_select(is_read, self.resize(len, 32)?, self.i32.const_zero(), "")?;
        self.store(self.at(record, offset_of!(Tap, len) as u64)?, len.into_int_value(), 4, Memory::Table)
    }

    /// Hands a record to the reader, who is woken for one in [`TAP_BATCH`].
    fn submit(&self, state: PointerValue<'c>, record: PointerValue<'c>) -> Res<()> {
        let builder = &self.builder;
        let count = self.carried(state, offset_of!(Carried, taps))?;
        let turn = builder.build_int_add(
            self.load_int(self.i64, count, 8, Memory::Descriptor)?,
            self.i64.const_int(1, false),
            "",
        )?;
        self.store(count, turn, 8, Memory::Descriptor)?;
        let rest = builder.build_and(turn, self.long(TAP_BATCH - 1), "")?;
        let is_turn = builder.build_int_compare(IntPredicate::EQ, rest, self.i64.const_zero(), "")?;
        let flags = builder.build_select(is_turn, self.long(FORCE_WAKEUP), self.long(NO_WAKEUP), "")?;
        self.help(Helper::RingbufSubmit, &[record.into(), flags.into_int_value().into()])?;
        Ok(())
    }

    /// Bytes that packets of a channel have at least.
    fn least(&self, channel: ChannelId) -> Res<u32> {
        let protocol = self.channel(channel)?.protocol;
        Ok(self.program.protocols.get(protocol.0 as usize).map_or(0, |protocol| protocol.size))
    }
}

//! Packet operations: descriptor, metadata, and what becomes of a packet.

use std::mem::offset_of;

use baker::ir::{ChannelId, DropId, MetaId, Target, storage_size};
use inkwell::IntPredicate;
use inkwell::values::{IntValue, PointerValue};

use super::memory::Memory;
use super::{Callee, Module, Res, ppf_at_symbol};
use crate::abi::{self, Context, Descriptor, Output};
use crate::internal;

/// A 32-bit field of the context that the generated code changes.
const FREE_LEN: u64 = offset_of!(Context, free_len) as u64;
const OUTPUT_LEN: u64 = offset_of!(Context, output_len) as u64;
/// `rest` and `held` of a descriptor, one behind the other.
const PARTS: u64 = offset_of!(Descriptor, rest) as u64;
const _: () = assert!(offset_of!(Descriptor, held) as u64 == PARTS + 4 && PARTS.is_multiple_of(8));

/// Alignment of a stored value of `size` bytes: its natural one, but no more than what allocators give.
pub(super) fn align(size: u32) -> u32 {
    size.min(8)
}

impl<'c> Module<'c, '_> {
    /// A pointer field of the context, at this offset.
    pub(super) fn context_ptr(&self, ctx: PointerValue<'c>, offset: usize) -> Res<PointerValue<'c>> {
        self.load_constant_ptr(self.at(ctx, offset as u64)?, Memory::Context)
    }

    /// The packet's first byte.
    pub(super) fn head(&self, ctx: PointerValue<'c>, packet: PointerValue<'c>) -> Res<PointerValue<'c>> {
        let region = self.context_ptr(ctx, offset_of!(Context, region))?;
        let addr = self.load_addr(packet)?;
        self.at_index(region, addr)
    }

    pub(super) fn load_addr(&self, packet: PointerValue<'c>) -> Res<IntValue<'c>> {
        self.load_int(self.i64, self.at(packet, offset_of!(Descriptor, addr) as u64)?, 8, Memory::Descriptor)
    }

    pub(super) fn store_addr(&self, packet: PointerValue<'c>, addr: IntValue<'c>) -> Res<()> {
        self.store(self.at(packet, offset_of!(Descriptor, addr) as u64)?, addr, 8, Memory::Descriptor)
    }

    /// Bytes from the head to the end; 32 bits.
    pub(super) fn packet_len(&self, packet: PointerValue<'c>) -> Res<IntValue<'c>> {
        self.load_int(self.i32, self.at(packet, offset_of!(Descriptor, len) as u64)?, 4, Memory::Descriptor)
    }

    pub(super) fn store_len(&self, packet: PointerValue<'c>, len: IntValue<'c>) -> Res<()> {
        self.store(self.at(packet, offset_of!(Descriptor, len) as u64)?, len, 4, Memory::Descriptor)
    }

    pub(super) fn frame_number(&self, packet: PointerValue<'c>) -> Res<IntValue<'c>> {
        self.load_int(self.i32, self.at(packet, offset_of!(Descriptor, frame) as u64)?, 4, Memory::Descriptor)
    }

    /// The descriptor of a frame.
    pub(super) fn descriptor(&self, ctx: PointerValue<'c>, frame: IntValue<'c>) -> Res<PointerValue<'c>> {
        let descriptors = self.context_ptr(ctx, offset_of!(Context, descriptors))?;
        self.element(descriptors, frame, abi::descriptor_stride(self.program) as u64)
    }

    /// Whether the packet has at least `bytes` (32 bits) bytes.
    pub(super) fn has(&self, packet: PointerValue<'c>, bytes: IntValue<'c>) -> Res<IntValue<'c>> {
        Ok(self.builder.build_int_compare(IntPredicate::UGE, self.packet_len(packet)?, bytes, "")?)
    }

    /// Moves the head `bytes` (32 bits) towards the end.
    pub(super) fn pull(&self, packet: PointerValue<'c>, bytes: IntValue<'c>) -> Res<()> {
        self.pull_wide(packet, self.resize(bytes, 64)?, bytes)
    }

    /// As `pull`; `wide` is the same number in 64 bits.
    fn pull_wide(&self, packet: PointerValue<'c>, wide: IntValue<'c>, bytes: IntValue<'c>) -> Res<()> {
        let addr = self.builder.build_int_add(self.load_addr(packet)?, wide, "")?;
        self.store_addr(packet, addr)?;
        let len = self.builder.build_int_sub(self.packet_len(packet)?, bytes, "")?;
        self.store_len(packet, len)
    }

    /// Moves the head `by` bytes towards the end, or to the front.
    pub(super) fn move_head(&self, packet: PointerValue<'c>, by: i32) -> Res<()> {
        // Both fields wrap around, so a negative number is added like any other.
        self.pull_wide(
            packet,
            self.i64.const_int(i64::from(by) as u64, true),
            self.i32.const_int(u64::from(by as u32), false),
        )
    }

    /// Puts zero bytes in front of the head.
    pub(super) fn push(&self, ctx: PointerValue<'c>, packet: PointerValue<'c>, bytes: u32) -> Res<()> {
        let wide = self.i64.const_int(bytes.into(), false);
        let addr = self.builder.build_int_sub(self.load_addr(packet)?, wide, "")?;
        self.store_addr(packet, addr)?;
        let more = self.i32.const_int(bytes.into(), false);
        let len = self.builder.build_int_add(self.packet_len(packet)?, more, "")?;
        self.store_len(packet, len)?;
        self.zero_bytes(self.head(ctx, packet)?, 1, wide, Memory::Frame)
    }

    /// A frame from the free stack, and its descriptor. `Limits::copies` says that there is one.
    pub(super) fn free_frame(&self, ctx: PointerValue<'c>) -> Res<(IntValue<'c>, PointerValue<'c>)> {
        let free = self.context_ptr(ctx, offset_of!(Context, free))?;
        let free_len = self.load_int(self.i32, self.at(ctx, FREE_LEN)?, 4, Memory::Context)?;
        let top = self.builder.build_int_sub(free_len, self.i32.const_int(1, false), "")?;
        self.store(self.at(ctx, FREE_LEN)?, top, 4, Memory::Context)?;
        let frame = self.load_int(self.i32, self.element(free, top, 4)?, 4, Memory::Free)?;
        Ok((frame, self.descriptor(ctx, frame)?))
    }

    /// A copy in a frame from the free stack, at the same place within the frame. `own` (32 bits): the bytes that it
    /// needs for itself, [`abi::WHOLE`] for all; the others may be shared.
    pub(super) fn copy(
        &self,
        ctx: PointerValue<'c>,
        packet: PointerValue<'c>,
        own: IntValue<'c>,
    ) -> Res<PointerValue<'c>> {
        let builder = &self.builder;
        let (frame, copy) = self.free_frame(ctx)?;
        let frame_size =
            self.load_constant_i64(self.at(ctx, offset_of!(Context, frame_size) as u64)?, Memory::Context)?;
        let from = self.load_addr(packet)?;
        // The two frames are this many bytes apart, in either direction.
        let number = self.resize(self.frame_number(packet)?, 64)?;
        let frames = builder.build_int_sub(self.resize(frame, 64)?, number, "")?;
        let to = builder.build_int_add(from, builder.build_int_mul(frames, frame_size, "")?, "")?;
        self.store_addr(copy, to)?;
        let len = self.packet_len(packet)?;
        self.store_len(copy, len)?;
        let region = self.context_ptr(ctx, offset_of!(Context, region))?;
        let start = builder.build_int_mul(number, frame_size, "")?;
        let mut parts = self.parts(packet)?;
        if self.shares {
            let offset = builder.build_int_sub(from, start, "")?;
            parts = self.share(ctx, parts, (number, offset), (len, own))?;
        }
        self.store(self.at(copy, PARTS)?, parts, 8, Memory::Descriptor)?;
        let held = builder.build_right_shift(parts, self.i64.const_int(32, false), false, "")?;
        let end = builder.build_int_add(start, held, "")?;
        let here = self.least(self.resize(len, 64)?, self.without(end, from)?)?;
        self.copy_bytes(self.at_index(region, to)?, self.at_index(region, from)?, 1, here, Memory::Frame)?;
        if self.program.metadata_size > 0 {
            let offset = abi::METADATA_OFFSET as u64;
            let bytes = self.i64.const_int(self.program.metadata_size.into(), false);
            self.copy_bytes(self.at(copy, offset)?, self.at(packet, offset)?, 8, bytes, Memory::Descriptor)?;
        }
        Ok(copy)
    }

    /// Which bytes of the packet are here and where the others are, in one word.
    pub(super) fn parts(&self, packet: PointerValue<'c>) -> Res<IntValue<'c>> {
        self.load_int(self.i64, self.at(packet, PARTS)?, 8, Memory::Descriptor)
    }

    /// All bytes of the packet are here.
    pub(super) fn store_whole(&self, packet: PointerValue<'c>) -> Res<()> {
        let whole = self.i64.const_int(u64::from(abi::WHOLE) << 32 | u64::from(abi::WHOLE), false);
        self.store(self.at(packet, PARTS)?, whole, 8, Memory::Descriptor)
    }

    /// The lesser of two unsigned numbers.
    fn least(&self, a: IntValue<'c>, b: IntValue<'c>) -> Res<IntValue<'c>> {
        let less = self.builder.build_int_compare(IntPredicate::ULT, a, b, "")?;
        Ok(self.builder.build_select(less, a, b, "")?.into_int_value())
    }

    /// `a - b`, or 0 where that is less.
    pub(super) fn without(&self, a: IntValue<'c>, b: IntValue<'c>) -> Res<IntValue<'c>> {
        let none = self.builder.build_int_compare(IntPredicate::ULT, a, b, "")?;
        let left = self.builder.build_int_sub(a, b, "")?;
        Ok(self.builder.build_select(none, self.i64.const_zero(), left, "")?.into_int_value())
    }

    /// Metadata of the packet.
    pub(super) fn meta_load(&self, packet: PointerValue<'c>, field: MetaId) -> Res<IntValue<'c>> {
        let (ptr, width) = self.meta(packet, field)?;
        let size = storage_size(width);
        let stored = self.load_int(self.int(size * 8)?, ptr, align(size), Memory::Descriptor)?;
        self.resize(stored, width)
    }

    /// Sets metadata of the packet.
    pub(super) fn meta_store(&self, packet: PointerValue<'c>, field: MetaId, value: IntValue<'c>) -> Res<()> {
        let (ptr, width) = self.meta(packet, field)?;
        if value.get_type().get_bit_width() != width {
            return internal(format!("metadata of {width} bits set to {}", value.get_type()));
        }
        let size = storage_size(width);
        self.store(ptr, self.resize(value, size * 8)?, align(size), Memory::Descriptor)
    }

    fn meta(&self, packet: PointerValue<'c>, field: MetaId) -> Res<(PointerValue<'c>, u32)> {
        let Some(meta) = self.program.metadata.get(field.0 as usize) else {
            return internal(format!("there is no metadata {}", field.0));
        };
        if !(1..=128).contains(&meta.width) {
            return internal(format!("metadata {} has {} bits", meta.name, meta.width));
        }
        Ok((self.at(packet, abi::METADATA_OFFSET as u64 + u64::from(meta.offset))?, meta.width))
    }

    /// Hands the packet to a channel.
    pub(super) fn put(&self, ctx: PointerValue<'c>, packet: PointerValue<'c>, channel: ChannelId) -> Res<()> {
        self.put_at(ctx, packet, channel, None)
    }

    /// As `put`. Where the PPF's look-ups are staged, with the packet's record, and the point to go on from.
    pub(super) fn put_at(
        &self,
        ctx: PointerValue<'c>,
        packet: PointerValue<'c>,
        channel: ChannelId,
        at: Option<(PointerValue<'c>, IntValue<'c>)>,
    ) -> Res<()> {
        let Some(target) = self.program.channels.get(channel.0 as usize).map(|channel| channel.target) else {
            return internal(format!("there is no channel {}", channel.0));
        };
        self.count_slot(ctx, self.slots.channel(channel))?;
        match target {
            Target::Ppf(ppf) => {
                let index = ppf.0 as usize;
                let Some(callee) = self.ppfs.get(index) else {
                    return internal(format!("there is no PPF {index}"));
                };
                // At the start nothing is read from the record.
                let (record, point) = at.unwrap_or((ctx, self.i32.const_zero()));
                let args = [ctx.into(), packet.into(), record.into(), point.into()];
                let count = if self.is_staged(index) { 4 } else { 2 };
                let args = &args[..count];
                match *callee {
                    Callee::Here(function) => self.builder.build_call(function, args, "")?,
                    Callee::Elsewhere(ty) => {
                        self.builder.build_indirect_call(ty, self.function_at(&ppf_at_symbol(index))?, args, "")?
                    }
                };
                Ok(())
            }
            Target::Tx => self.output(ctx, packet, abi::END_TX),
            Target::Host => self.output(ctx, packet, abi::END_HOST),
            Target::Controller(_) | Target::Queue(..) | Target::Group(..) => {
                self.output(ctx, packet, abi::END_CHANNEL + channel.0)
            }
        }
    }

    /// Lists the packet among those that leave.
    fn output(&self, ctx: PointerValue<'c>, packet: PointerValue<'c>, end: u32) -> Res<()> {
        let outputs = self.context_ptr(ctx, offset_of!(Context, outputs))?;
        let index = self.push_index(ctx, OUTPUT_LEN)?;
        let output = self.element(outputs, index, size_of::<Output>() as u64)?;
        let frame = self.frame_number(packet)?;
        self.store(self.at(output, offset_of!(Output, frame) as u64)?, frame, 4, Memory::Output)?;
        let end = self.i32.const_int(end.into(), false);
        self.store(self.at(output, offset_of!(Output, end) as u64)?, end, 4, Memory::Output)
    }

    /// Drops the packet: its frame is free.
    pub(super) fn drop_packet(&self, ctx: PointerValue<'c>, packet: PointerValue<'c>, reason: DropId) -> Res<()> {
        if reason.0 as usize >= self.program.drop_reasons.len() {
            return internal(format!("there is no drop reason {}", reason.0));
        }
        self.count_slot(ctx, self.slots.drop(reason))?;
        self.release_packet(ctx, packet)
    }

    /// Lets go of a packet.
    pub(super) fn release_packet(&self, ctx: PointerValue<'c>, packet: PointerValue<'c>) -> Res<()> {
        if self.shares {
            self.call_out(self.packet_release, &[ctx.into(), packet.into()])?;
            return Ok(());
        }
        self.free(ctx, self.frame_number(packet)?)
    }

    /// Puts a frame on the free stack.
    pub(super) fn free(&self, ctx: PointerValue<'c>, frame: IntValue<'c>) -> Res<()> {
        let free = self.context_ptr(ctx, offset_of!(Context, free))?;
        let index = self.push_index(ctx, FREE_LEN)?;
        self.store(self.element(free, index, 4)?, frame, 4, Memory::Free)
    }

    /// Reads a 32-bit length in the context and adds 1 to it.
    fn push_index(&self, ctx: PointerValue<'c>, offset: u64) -> Res<IntValue<'c>> {
        let index = self.load_int(self.i32, self.at(ctx, offset)?, 4, Memory::Context)?;
        let next = self.builder.build_int_add(index, self.i32.const_int(1, false), "")?;
        self.store(self.at(ctx, offset)?, next, 4, Memory::Context)?;
        Ok(index)
    }

    /// Adds 1 to a slot of the counter block.
    pub(super) fn count_slot(&self, ctx: PointerValue<'c>, slot: usize) -> Res<()> {
        let slot = self.i32.const_int(slot as u64, false);
        self.add_to_slot(ctx, slot, self.i64.const_int(1, false))
    }

    /// Adds `amount` (64 bits) to slot `slot` (32 bits) of the counter block, which is this worker's alone.
    pub(super) fn add_to_slot(&self, ctx: PointerValue<'c>, slot: IntValue<'c>, amount: IntValue<'c>) -> Res<()> {
        let counters = self.context_ptr(ctx, offset_of!(Context, counters))?;
        let cell = self.element(counters, slot, 8)?;
        let old = self.load_int(self.i64, cell, 8, Memory::Counter)?;
        self.store(cell, self.builder.build_int_add(old, amount, "")?, 8, Memory::Counter)
    }
}

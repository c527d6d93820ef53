//! Packets that are made, grown and shortened, and what is done at places found at run time.

use std::mem::offset_of;

use baker::ir::{BitRange, PacketEnd, ProtocolId};
use inkwell::IntPredicate;
use inkwell::values::{IntValue, PointerValue};

use super::body::Ppf;
use super::memory::Memory;
use super::walk::Lowering;
use super::{Module, Res};
use crate::abi::{self, Context};
use crate::internal;

impl<'c> Module<'c, '_> {
    /// The byte `offset` (32 bits) bytes after the head.
    pub(super) fn place(
        &self,
        ctx: PointerValue<'c>,
        packet: PointerValue<'c>,
        offset: IntValue<'c>,
    ) -> Res<PointerValue<'c>> {
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
        self.store_whole(packet)?;
        let size = |bytes: u32| self.i64.const_int(bytes.into(), false);
        self.zero_bytes(self.head(ctx, packet)?, 1, size(protocol.size), Memory::Frame)?;
        let metadata = self.at(packet, abi::METADATA_OFFSET as u64)?;
        self.zero_bytes(metadata, 8, size(self.program.metadata_size), Memory::Descriptor)?;
        Ok(packet)
    }

    fn frame_size(&self, ctx: PointerValue<'c>) -> Res<IntValue<'c>> {
        self.load_constant_i64(self.at(ctx, offset_of!(Context, frame_size) as u64)?, Memory::Context)
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

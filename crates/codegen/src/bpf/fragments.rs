//! Packets in several fragments (`BPF_F_XDP_HAS_FRAGS`): only the first one lies between the packet's pointers.
//!
//! ```text
//! received:  less than LEAST bytes in the first of several fragments, or too long ─▶ to a worker, untouched
//! an access: all of it in the first fragment:   as of any packet
//!            else:                           by a copy that the kernel makes, and takes back where it was a store
//! ```
//!
//! Lengths and tests of lengths are of the whole packet. So where a driver divides packets changes nothing but time.

use baker::ir::BitRange;
use inkwell::IntPredicate;
use inkwell::values::{IntValue, PointerValue};

use super::Kernel;
use super::body::Ppf;
use super::packet::OFFSETS;
use super::state::Field;
use crate::internal;
use crate::kernel::{FIRST_FRAGMENT, Memory as Shared, ROOM, ZEROS};
use crate::lower::Res;

/// Bytes of the longest packet in several fragments: that of an IP packet, and more than any frame of the pool.
const LONGEST: u64 = 0xffff;
/// Bytes that a load or a store of one field touches at most, with what is loaded in front of it.
const WINDOW: u32 = 24;

impl<'c> Kernel<'c, '_> {
    /// Bytes that a packet, or the longest of several fragments, does not exceed.
    pub(super) fn longest(&self) -> u64 {
        if self.options.frags { LONGEST + 1 } else { ROOM }
    }

    /// The numbers that a distance in a packet has no bits but these of.
    pub(super) fn offsets(&self) -> u64 {
        if self.options.frags { LONGEST } else { OFFSETS }
    }

    /// Bytes of the frame as the kernel has it, 64 bits.
    pub(super) fn total(&self, state: PointerValue<'c>) -> Res<IntValue<'c>> {
        if self.options.frags { self.number(state, Field::Total) } else { self.first_fragment(state) }
    }

    /// Bytes between the packet's pointers, 64 bits.
    pub(super) fn first_fragment(&self, state: PointerValue<'c>) -> Res<IntValue<'c>> {
        let bytes = self.distance(self.pointer(state, Field::End)?, self.pointer(state, Field::Data)?)?;
        if !self.is_tc() {
            return Ok(bytes);
        }
        // A socket buffer may have more there than the verifier is told of.
        let most = self.long(OFFSETS + 1);
        let fits = self.builder.build_int_compare(IntPredicate::ULT, bytes, most, "")?;
        self.select_int(fits, bytes, most)
    }

    /// Whether `bytes` bytes from a distance on (64 bits) lie in the first fragment.
    pub(super) fn is_near(&self, state: PointerValue<'c>, at: IntValue<'c>, bytes: u64) -> Res<IntValue<'c>> {
        let end = self.builder.build_int_add(at, self.long(bytes), "")?;
        Ok(self.builder.build_int_compare(IntPredicate::ULE, end, self.first_fragment(state)?, "")?)
    }

    /// The place at a distance (64 bits) in the first fragment, of which `bytes` bytes are there.
    pub(super) fn near(&self, state: PointerValue<'c>, at: IntValue<'c>, bytes: u64) -> Res<PointerValue<'c>> {
        let address = self.at_index(self.pointer(state, Field::Data)?, self.masked(at, OFFSETS)?)?;
        self.within(address, bytes, self.pointer(state, Field::End)?)
    }

    /// The packet's bytes as the process has them at hand: [`ROOM`] bytes of the CPU.
    pub(super) fn copied(&self, state: PointerValue<'c>) -> Res<PointerValue<'c>> {
        self.at(self.pointer(state, Field::Counters)?, Shared::counters(self.program))
    }

    /// Whether a received packet is one to leave to workers, 1 bit. The kernel moves the frame's start only where so
    /// much lies in the first fragment.
    pub(super) fn is_scattered(&self, state: PointerValue<'c>) -> Res<IntValue<'c>> {
        let builder = &self.builder;
        let (total, first) = (self.total(state)?, self.first_fragment(state)?);
        let is_divided = builder.build_int_compare(IntPredicate::NE, total, first, "")?;
        let least = self.long(FIRST_FRAGMENT);
        let is_short = builder.build_int_compare(IntPredicate::ULT, first, least, "")?;
        let is_long = builder.build_int_compare(IntPredicate::UGT, total, self.long(LONGEST), "")?;
        Ok(builder.build_and(is_divided, builder.build_or(is_short, is_long, "")?, "")?)
    }
}

impl<'c> Ppf<'_, 'c, '_> {
    /// Loads bits that are counted from `offset` bytes (64 bits) behind the head, or stores a value there.
    pub(super) fn field(
        &mut self,
        offset: IntValue<'c>,
        bits: BitRange,
        stored: Option<IntValue<'c>>,
    ) -> Res<Option<IntValue<'c>>> {
        let (kernel, state) = (self.kernel, self.state);
        let builder = &kernel.builder;
        // From here on only what the field touches.
        let skipped = bits.end_byte().saturating_sub(WINDOW);
        let bits = BitRange { offset: bits.offset - skipped * 8, ..bits };
        let bytes = u64::from(bits.end_byte());
        let at = builder.build_int_add(kernel.offset(state)?, offset, "")?;
        let at = builder.build_int_add(at, kernel.long(skipped.into()), "")?;
        if let Some(value) = stored.filter(|_| kernel.is_tc()) {
            return self.store_by_kernel(at, bits, value).map(|()| None);
        }
        let act = |address| match stored {
            Some(value) => kernel.store_bits(address, bits, value).map(|()| None),
            None => kernel.load_bits(address, bits).map(Some),
        };
        if kernel.is_header(at, bytes) {
            return act(kernel.near(state, at, bytes)?);
        }
        let [near, far, done] = kernel.new_blocks(["near", "far", "accessed"])?;
        let is_near = kernel.is_near(state, at, bytes)?;
        kernel.likely(builder.build_conditional_branch(is_near, near, far)?)?;

        builder.position_at_end(near);
        let of_near = act(kernel.near(state, at, bytes)?)?;
        let from_near = kernel.block()?;
        builder.build_unconditional_branch(done)?;

        builder.position_at_end(far);
        let copy = kernel.copied(state)?;
        kernel.must(kernel.load_bytes(self.ctx, at, copy, kernel.long(bytes))?)?;
        let of_far = act(copy)?;
        if stored.is_some() {
            kernel.store_bytes((self.ctx, state), at, copy, kernel.long(bytes))?;
        }
        let from_far = kernel.block()?;
        builder.build_unconditional_branch(done)?;

        builder.position_at_end(done);
        let (Some(of_near), Some(of_far)) = (of_near, of_far) else { return Ok(None) };
        let phi = builder.build_phi(of_near.get_type(), "")?;
        phi.add_incoming(&[(&of_near, from_near), (&of_far, from_far)]);
        Ok(Some(phi.as_basic_value().into_int_value()))
    }

    /// Stores bits that are counted from a distance from the frame's first byte (64 bits).
    fn store_by_kernel(&mut self, at: IntValue<'c>, bits: BitRange, value: IntValue<'c>) -> Res<()> {
        let kernel = self.kernel;
        let copy = kernel.copied(self.state)?;
        let (first, end) = (u64::from(bits.first_byte()), u64::from(bits.end_byte()));
        if !bits.offset.is_multiple_of(8) || !bits.width.is_multiple_of(8) {
            // Other bits of its bytes stay as they are.
            kernel.must(kernel.load_bytes(self.ctx, at, copy, kernel.long(end))?)?;
        }
        kernel.store_bits(copy, bits, value)?;
        let at = kernel.builder.build_int_add(at, kernel.long(first), "")?;
        let from = kernel.at(copy, first)?;
        kernel.store_bytes((self.ctx, self.state), at, from, kernel.long(end - first))
    }

    /// Sets bytes from the head on to zero, wherever they lie.
    pub(super) fn zero_by_kernel(&mut self, bytes: u64) -> Res<()> {
        let kernel = self.kernel;
        if bytes > ROOM {
            return internal(format!("a header of {bytes} bytes"));
        }
        let at = kernel.offset(self.state)?;
        kernel.store_bytes((self.ctx, self.state), at, kernel.fixed(ZEROS)?, kernel.long(bytes))
    }
}

//! Bit fields of headers: network order, any offset, 1 to 128 bits.
//!
//! A field is read as one integer, never beyond its last byte: that of a header may be the end of the frame. `v:4@0` of
//! IPv4 is one byte, shifted right by 4; a 48-bit address behind other bytes of the packet is the lower part of a load
//! of 64 bits, swapped, and at the head a load of 48 bits (LLVM makes one of 32 and one of 16 of it). A store to a part
//! of a byte reads the bytes first.

use baker::ir::BitRange;
use inkwell::values::{IntValue, PointerValue};

use super::memory::Memory;
use super::{Core, Res};
use crate::internal;

impl<'c> Core<'c, '_> {
    /// The field of the header at `head`.
    pub(crate) fn load_bits(&self, head: PointerValue<'c>, bits: BitRange) -> Res<IntValue<'c>> {
        let (mut ptr, mut bytes) = self.covering(head, bits)?;
        // What lies in front of it is the packet's, too.
        let whole = bytes.next_power_of_two();
        if bytes < whole && whole <= 8 && bits.end_byte() >= whole {
            ptr = self.at(head, u64::from(bits.end_byte() - whole))?;
            bytes = whole;
        }
        let all = self.load_big_endian(ptr, bytes)?;
        let shift = all.get_type().const_int(below(bits), false);
        let field = self.builder.build_right_shift(all, shift, false, "")?;
        self.resize(field, bits.width)
    }

    /// Stores the field of the header at `head`; other bits keep their values.
    pub(crate) fn store_bits(&self, head: PointerValue<'c>, bits: BitRange, value: IntValue<'c>) -> Res<()> {
        let (ptr, bytes) = self.covering(head, bits)?;
        if value.get_type().get_bit_width() != bits.width {
            return internal(format!("a store of {} bits with {}", bits.width, value.get_type()));
        }
        let value = self.resize(value, bytes * 8)?;
        if bits.width == bytes * 8 {
            return self.store_big_endian(ptr, bytes, value);
        }
        let ty = value.get_type();
        let shift = ty.const_int(below(bits), false);
        let ones = self.resize(self.int(bits.width)?.const_all_ones(), bytes * 8)?;
        let mask = self.builder.build_left_shift(ones, shift, "")?;
        let old = self.load_big_endian(ptr, bytes)?;
        let kept = self.builder.build_and(old, self.builder.build_not(mask, "")?, "")?;
        let new = self.builder.build_left_shift(value, shift, "")?;
        self.store_big_endian(ptr, bytes, self.builder.build_or(kept, new, "")?)
    }

    /// The first byte that a field touches, and how many it touches: 1 to 17.
    fn covering(&self, head: PointerValue<'c>, bits: BitRange) -> Res<(PointerValue<'c>, u32)> {
        if !(1..=128).contains(&bits.width) || bits.offset > u32::MAX - 256 {
            return internal(format!("a field of {} bits at bit {}", bits.width, bits.offset));
        }
        let ptr = self.at(head, bits.first_byte().into())?;
        Ok((ptr, bits.end_byte() - bits.first_byte()))
    }

    fn load_big_endian(&self, ptr: PointerValue<'c>, bytes: u32) -> Res<IntValue<'c>> {
        let raw = self.load_int(self.int(bytes * 8)?, ptr, self.align(bytes), Memory::Frame)?;
        self.swap_bytes(raw, bytes)
    }

    fn store_big_endian(&self, ptr: PointerValue<'c>, bytes: u32, value: IntValue<'c>) -> Res<()> {
        let raw = self.swap_bytes(value, bytes)?;
        self.store(ptr, raw, self.align(bytes), Memory::Frame)
    }

    /// Reverses the order of an integer's bytes.
    pub(crate) fn swap_bytes(&self, value: IntValue<'c>, bytes: u32) -> Res<IntValue<'c>> {
        if bytes == 1 {
            return Ok(value);
        }
        // LLVM swaps an even number of bytes. With an odd one, a zero byte is put on top and is the lowest afterwards.
        let even = bytes.next_multiple_of(2);
        let wide = self.resize(value, even * 8)?;
        let ty = wide.get_type();
        let swapped = self.intrinsic("llvm.bswap", &[ty.into()], &[wide.into()])?;
        if even == bytes {
            return Ok(swapped);
        }
        let low = self.builder.build_right_shift(swapped, ty.const_int(8, false), false, "")?;
        self.resize(low, bytes * 8)
    }
}

/// Bits of the last byte that lie below the field.
fn below(bits: BitRange) -> u64 {
    u64::from(bits.end_byte()) * 8 - u64::from(bits.offset) - u64::from(bits.width)
}

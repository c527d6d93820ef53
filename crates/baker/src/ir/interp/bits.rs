//! Bit fields of headers in network order: bit 0 is the most significant bit of byte 0.

use crate::ir::BitRange;

/// The field as a number, or `None` where it reaches beyond the bytes.
pub fn load_bits(bytes: &[u8], bits: BitRange) -> Option<u128> {
    let field = bytes.get(bits.first_byte() as usize..bits.end_byte() as usize)?;
    let (before, after) = margins(bits);
    let (last, rest) = field.split_last()?;
    // Bits before the field are shifted out of the byte they are in, so the sum never has more bits than the field.
    let mut value = 0u128;
    for (i, byte) in rest.iter().enumerate() {
        let byte = if i == 0 { byte & (0xff >> before) } else { *byte };
        value = value << 8 | byte as u128;
    }
    let last = if rest.is_empty() { last & (0xff >> before) } else { *last };
    Some(value << (8 - after) | (last >> after) as u128)
}

/// Sets the field and leaves all other bits as they are. `None`, and nothing changed, where it reaches beyond the
/// bytes.
pub fn store_bits(bytes: &mut [u8], bits: BitRange, value: u128) -> Option<()> {
    let field = bytes.get_mut(bits.first_byte() as usize..bits.end_byte() as usize)?;
    let (before, after) = margins(bits);
    let last = field.len() - 1;
    let mut value = value;
    for (i, byte) in field.iter_mut().enumerate().rev() {
        let low = if i == last { after } else { 0 };
        let kept_high = if i == 0 { !(0xffu8 >> before) } else { 0 };
        let kept = kept_high | !(0xffu8 << low);
        *byte = *byte & kept | (value as u8) << low & !kept;
        value >>= 8 - low;
    }
    Some(())
}

/// Bits of the first byte before the field, and bits of the last byte after it; 0 to 7 each.
fn margins(bits: BitRange) -> (u32, u32) {
    (bits.offset % 8, bits.end_byte() * 8 - (bits.offset + bits.width))
}

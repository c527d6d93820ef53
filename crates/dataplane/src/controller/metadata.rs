//! Metadata of packets that lie in frames, field by field.

use baker::ir::{MetaId, Program, storage_size};
use codegen::abi::{read_field, write_field};

use crate::packets::FramePool;

/// A field of the metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field(pub(super) MetaId);

/// A field of a packet's metadata.
///
/// # Safety
/// The caller owns the frame, and it holds a packet.
pub(super) unsafe fn read_metadata(program: &Program, pool: &FramePool, frame: u32, Field(field): Field) -> u128 {
    let field = &program.metadata[field.0 as usize];
    // SAFETY: the field lies within the metadata, which is the caller's.
    unsafe {
        let at = pool.metadata(frame).add(field.offset as usize);
        read_field(std::slice::from_raw_parts(at, storage_size(field.width) as usize), field.width)
    }
}

/// Sets a field of a packet's metadata, to a number that fits.
///
/// # Safety
/// As for [`read_metadata`].
pub(super) unsafe fn write_metadata(
    program: &Program,
    pool: &FramePool,
    frame: u32,
    Field(field): Field,
    number: u128,
) {
    let field = &program.metadata[field.0 as usize];
    // SAFETY: as above.
    unsafe {
        let at = pool.metadata(frame).add(field.offset as usize);
        write_field(std::slice::from_raw_parts_mut(at, storage_size(field.width) as usize), field.width, number);
    }
}

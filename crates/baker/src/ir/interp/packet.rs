//! A packet as the interpreter holds it.

use super::bits;
use crate::ir::BitRange;

/// Bytes with free room in front, and metadata. Operations give `None` where the packet is too short for them.
#[derive(Clone, Debug, Default)]
pub(super) struct Packet {
    bytes: Vec<u8>,
    head: usize,
    /// One number per metadata field.
    pub metadata: Vec<u128>,
}

impl Packet {
    /// Takes a received frame; all metadata zero. Keeps the buffers that it has.
    pub fn fill(&mut self, headroom: usize, frame: &[u8], metadata_fields: usize) {
        self.bytes.clear();
        self.bytes.resize(headroom, 0);
        self.bytes.extend_from_slice(frame);
        self.head = headroom;
        self.metadata.clear();
        self.metadata.resize(metadata_fields, 0);
    }

    /// Becomes a copy: the same bytes from the head on and the same metadata, with headroom of its own.
    pub fn copy_from(&mut self, other: &Packet, headroom: usize) {
        self.fill(headroom, other.data(), 0);
        self.metadata.extend_from_slice(&other.metadata);
    }

    /// From the head to the end.
    pub fn data(&self) -> &[u8] {
        &self.bytes[self.head..]
    }

    pub fn len(&self) -> usize {
        self.bytes.len() - self.head
    }

    pub fn load(&self, bits: BitRange) -> Option<u128> {
        bits::load_bits(self.data(), bits)
    }

    pub fn store(&mut self, bits: BitRange, value: u128) -> Option<()> {
        bits::store_bits(&mut self.bytes[self.head..], bits, value)
    }

    pub fn pull(&mut self, bytes: u128) -> Option<()> {
        if bytes > self.len() as u128 {
            return None;
        }
        self.head += bytes as usize;
        Some(())
    }

    /// Zero bytes in front. More room is made where the program's declared headroom is too small: that is an engine's
    /// matter, not one of meaning.
    pub fn push(&mut self, bytes: usize) {
        if self.head < bytes {
            let missing = bytes - self.head;
            self.bytes.splice(0..0, std::iter::repeat_n(0, missing));
            self.head += missing;
        }
        self.head -= bytes;
        self.bytes[self.head..self.head + bytes].fill(0);
    }
}

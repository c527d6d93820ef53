//! A packet as the interpreter holds it.

use super::bits;
use crate::ir::{BitRange, PacketEnd};

/// Where packets lie in the frames of an engine, which decides how far one can grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLayout {
    /// Bytes in front of a received packet.
    pub headroom: u32,
    /// Bytes per frame.
    pub frame_size: u32,
}

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

    /// Becomes a copy: the same bytes from the head on at the same place of the frame, and the same metadata.
    pub fn copy_from(&mut self, other: &Packet) {
        self.fill(other.head, other.data(), 0);
        self.metadata.extend_from_slice(&other.metadata);
    }

    /// Moves the bytes where the head is in front of this place of the buffer: there it is then.
    pub fn begin_at(&mut self, least: usize) {
        if self.head < least {
            let missing = least - self.head;
            self.bytes.splice(0..0, std::iter::repeat_n(0, missing));
            self.head = least;
        }
    }

    /// From the head to the end.
    pub fn data(&self) -> &[u8] {
        &self.bytes[self.head..]
    }

    pub fn len(&self) -> usize {
        self.bytes.len() - self.head
    }

    /// Where the head is in the buffer, and how long the packet is.
    pub fn extent(&self) -> (u64, u64) {
        (self.head as u64, self.len() as u64)
    }

    pub fn load(&self, bits: BitRange) -> Option<u128> {
        bits::load_bits(self.data(), bits)
    }

    pub fn store(&mut self, bits: BitRange, value: u128) -> Option<()> {
        bits::store_bits(&mut self.bytes[self.head..], bits, value)
    }

    /// The same bits, counted from `offset` bytes after the head.
    pub fn load_at(&self, offset: u128, bits: BitRange) -> Option<u128> {
        bits::load_bits(self.data().get(offset as usize..)?, bits)
    }

    pub fn store_at(&mut self, offset: u128, bits: BitRange, value: u128) -> Option<()> {
        bits::store_bits(self.bytes[self.head..].get_mut(offset as usize..)?, bits, value)
    }

    /// Ones' complement sum; words lie at even distances from the head.
    pub fn sum(&self, offset: u128, bytes: u128) -> Option<u128> {
        let (from, bytes) = (offset as usize, bytes as usize);
        let range = self.data().get(from..from.checked_add(bytes)?)?;
        let upper = |index: usize| (from + index).is_multiple_of(2);
        let sum: u64 = range.iter().enumerate().map(|(i, b)| u64::from(*b) << if upper(i) { 8 } else { 0 }).sum();
        // The end-around carry: what is not 0 stays so.
        Some(if sum == 0 { 0 } else { u128::from((sum - 1) % 0xffff + 1) })
    }

    /// Brings a checksum up to date with a sum of changes (RFC 1624 equation 3). One that is `optional` stays 0, and
    /// does not become 0.
    pub fn change_checksum(&mut self, at: u128, change: u128, optional: bool) -> Option<()> {
        let bits = BitRange { offset: 0, width: 16 };
        let old = self.load_at(at, bits)?;
        if change == 0 || (optional && old == 0) {
            return Some(());
        }
        // The end-around carry: what is not 0 stays so.
        let sum = (change + (old ^ 0xffff) - 1) % 0xffff + 1;
        let new = match sum ^ 0xffff {
            0 if optional => 0xffff,
            new => new,
        };
        self.store_at(at, bits, new)
    }

    pub fn trim(&mut self, bytes: u128) -> Option<()> {
        let len = self.len().checked_sub(bytes as usize)?;
        self.bytes.truncate(self.head + len);
        Some(())
    }

    /// Adds zero bytes where the frame has room; `reserve` stay free in front.
    pub fn grow(&mut self, bytes: u128, end: PacketEnd, layout: FrameLayout, reserve: u32) -> bool {
        let bytes = bytes as usize;
        match end {
            PacketEnd::Head => {
                let fits = bytes + reserve as usize <= self.head;
                if fits {
                    self.push(bytes);
                }
                fits
            }
            PacketEnd::Tail => {
                let fits = self.bytes.len() + bytes <= layout.frame_size as usize;
                if fits {
                    self.bytes.resize(self.bytes.len() + bytes, 0);
                }
                fits
            }
        }
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

//! What is known about packets at a place of the program, without running it.

use std::collections::BTreeMap;

use crate::ir::Value;

/// A packet from where its descriptor was first seen: named after the value of the original body that was the first
/// handle. Offsets of a family count from the head of that handle.
pub(super) type Family = Value;

/// How a live handle of the original body is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Handle {
    /// As it was: its head is the packet's, and all bytes and metadata are in memory.
    Direct,
    /// The packet's head stays where it was first; this handle's head is `delta` bytes behind it.
    Cached { family: Family, delta: i32 },
}

/// A run of header bytes in a register, first byte on top.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Chunk {
    /// Offset of its first byte.
    pub start: i32,
    /// Bytes: 1 to 8.
    pub len: i32,
}

impl Chunk {
    /// Offset of the byte after it.
    pub fn end(self) -> i32 {
        self.start + self.len
    }

    pub fn bits(self) -> u32 {
        self.len as u32 * 8
    }
}

/// The bytes of a packet that are in registers: a range without gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Window {
    /// In order.
    pub chunks: Vec<Chunk>,
    /// The packet is known to reach at least to here.
    pub proven: i32,
}

impl Window {
    /// Offset of the first byte; 0 where there is none.
    pub fn start(&self) -> i32 {
        self.chunks.first().map_or(0, |chunk| chunk.start)
    }

    /// Offset behind the last byte.
    pub fn end(&self) -> i32 {
        self.chunks.last().map_or(0, |chunk| chunk.end())
    }
}

/// What is known where a block begins: one copy of a block is made for each different knowledge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct AbstractState {
    /// Each live handle.
    pub handles: BTreeMap<Value, Handle>,
    /// Each family with a live handle.
    pub windows: BTreeMap<Family, Window>,
    /// Values of the original body that were tested to be these numbers.
    pub numbers: BTreeMap<Value, u128>,
    /// The copy of a block in which the critical section that is open here began: its blocks are never shared by two.
    pub locked: Option<usize>,
}

/// Least offset that can be held, and the one behind the last.
pub(super) const REACH: std::ops::Range<i32> = -64..192;

/// A set of offsets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bytes([u128; 2]);

impl Bytes {
    /// Adds offsets, all within [`REACH`].
    pub fn insert(&mut self, range: std::ops::Range<i32>) {
        for offset in range {
            let index = (offset - REACH.start) as usize;
            self.0[index / 128] |= 1 << (index % 128);
        }
    }

    pub fn contains(self, offset: i32) -> bool {
        let index = (offset - REACH.start) as usize;
        self.0[index / 128] >> (index % 128) & 1 == 1
    }

    pub fn union(self, other: Bytes) -> Bytes {
        Bytes([self.0[0] | other.0[0], self.0[1] | other.0[1]])
    }

    /// The first and the last offset of a range that are in the set.
    pub fn span(self, range: std::ops::Range<i32>) -> Option<(i32, i32)> {
        let mut inside = range.filter(|&offset| self.contains(offset));
        let first = inside.next()?;
        Some((first, inside.next_back().unwrap_or(first)))
    }
}

/// What of a packet may differ between registers and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Dirty {
    pub bytes: Bytes,
    /// One bit per metadata field.
    pub metadata: u128,
}

impl Dirty {
    pub fn union(self, other: Dirty) -> Dirty {
        Dirty { bytes: self.bytes.union(other.bytes), metadata: self.metadata | other.metadata }
    }
}

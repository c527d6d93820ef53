//! What a trace says about code, kept beside it: passes carry it along with the blocks and values that it is about.
//!
//! It may be wrong about the packets that come, or absent: only speed depends on it, never meaning.

use std::collections::BTreeMap;

use super::inst::{Block, Body, Value};

/// How often a block ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counts {
    /// Times that it ran.
    pub runs: u64,
    /// Times that the branch at its end took its first and its second destination; both 0 where that is not known.
    pub taken: [u64; 2],
}

/// What is known of the packets that enter a body.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Usage {
    /// How many have so many bytes from their head on.
    pub lengths: BTreeMap<u32, u64>,
    /// Places and lengths found at run time that were this number more often than all others together.
    pub expected: BTreeMap<Value, u128>,
}

impl Usage {
    /// How many packets have at least so many bytes, and how many have not.
    pub fn reaching(&self, bytes: u32) -> [u64; 2] {
        let sum = |lengths: std::collections::btree_map::Range<u32, u64>| {
            lengths.fold(0, |sum: u64, (_, packets)| sum.saturating_add(*packets))
        };
        [sum(self.lengths.range(bytes..)), sum(self.lengths.range(..bytes))]
    }

    /// The most bytes that all but one of [`WORTH`] packets have at least.
    pub fn length(&self) -> u32 {
        let enough = |bytes: &&u32| {
            let [long, short] = self.reaching(**bytes);
            short.saturating_mul(WORTH) <= long.saturating_add(short)
        };
        self.lengths.keys().rev().find(enough).copied().unwrap_or(0)
    }
}

/// A share of packets that is worth working for: one of so many.
pub const WORTH: u64 = 10;

impl Block {
    /// Whether a profile says that at least one of [`WORTH`] of `runs` came here. Without a profile it is so.
    pub(crate) fn is_hot(&self, runs: u64) -> bool {
        self.counts.is_none_or(|counts| counts.runs.saturating_mul(WORTH) >= runs)
    }
}

impl Body {
    /// Values have new names; those without one are gone.
    pub(crate) fn rename_expected(&mut self, name: impl Fn(Value) -> Option<Value>) {
        if let Some(usage) = &mut self.usage {
            let old = std::mem::take(&mut usage.expected);
            usage.expected = old.into_iter().filter_map(|(value, number)| Some((name(value)?, number))).collect();
        }
    }
}

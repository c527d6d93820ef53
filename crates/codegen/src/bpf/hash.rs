//! Hash tables, as `dataplane::tables` keeps them: two buckets of eight slots may hold a key. See
//! [`crate::abi::HashTable`].
//!
//! ```text
//! for bucket in first, second if something spilled from the first:
//!     for slots whose tag may be equal:           tags are compared four at a time
//!         the entry there has the key ─▶ found
//! ```

use std::mem::offset_of;

use baker::ir::Table;
use inkwell::IntPredicate;
use inkwell::values::{IntValue, PhiValue};

use super::Kernel;
use super::body::Ppf;
use crate::abi::HashBucket;
use crate::internal;
use crate::kernel::{Number, TableLocation};
use crate::lower::Res;

/// Four lanes of 16 bits with 1 each.
const ONES: u64 = 0x0001_0001_0001_0001;
/// The number of a lane whose lowest bit is set: multiplied by that bit, its upper 16 bits.
const LANES: u64 = 1 << 32 | 2 << 16 | 3;

/// Where a key may lie: distances of its first and second bucket, and its tag in four lanes; 64 bits each.
#[derive(Clone, Copy)]
pub(super) struct Buckets<'c> {
    pub first: IntValue<'c>,
    pub second: IntValue<'c>,
    pub tag: IntValue<'c>,
}

/// What was found.
pub(super) struct Found<'c> {
    /// Where the value lies, or 0.
    pub value: IntValue<'c>,
    /// Distance of the slot with its number; means nothing where nothing was found.
    pub slot: IntValue<'c>,
    /// The number there, one more than the entry's (64 bits); as above.
    pub number: IntValue<'c>,
}

impl<'c> Kernel<'c, '_> {
    fn add(&self, a: IntValue<'c>, b: u64) -> Res<IntValue<'c>> {
        Ok(self.builder.build_int_add(a, self.long(b), "")?)
    }

    fn phi(&self) -> Res<PhiValue<'c>> {
        Ok(self.builder.build_phi(self.i64, "")?)
    }

    /// [`crate::abi::hash_key`], with what follows from it.
    pub(super) fn hash_buckets(&self, location: TableLocation, words: &[IntValue<'c>]) -> Res<Buckets<'c>> {
        let TableLocation::Hash { buckets, count, .. } = location else {
            return internal("a hash table that is none");
        };
        let Some(table) = self.memory.tables.iter().position(|known| *known == location) else {
            return internal("a hash table without a place");
        };
        let builder = &self.builder;
        let [first, second] = [false, true].map(|second| Number::Seed(table as u32, second));
        let mut hash = self.late(first)?;
        for word in words {
            let (low, high) = self.product(builder.build_xor(hash, *word, "")?, self.late(second)?)?;
            hash = builder.build_xor(low, high, "")?;
        }
        let last = u64::from(count) - 1;
        let bucket = |number: IntValue<'c>| -> Res<IntValue<'c>> {
            let distance = builder.build_int_mul(number, self.long(size_of::<HashBucket>() as u64), "")?;
            self.add(self.masked(distance, last * size_of::<HashBucket>() as u64)?, buckets)
        };
        let upper = builder.build_right_shift(hash, self.long(32), false, "")?;
        // One of the others, by the upper half.
        let step =
            builder.build_right_shift(builder.build_int_mul(upper, self.long(last), "")?, self.long(32), false, "")?;
        let second = builder.build_int_add(self.add(hash, 1)?, step, "")?;
        let tag = builder.build_and(upper, self.long(0xffff), "")?;
        let tag = builder.build_int_mul(tag, self.long(ONES), "")?;
        Ok(Buckets { first: bucket(hash)?, second: bucket(second)?, tag })
    }

    /// Lanes of four tags that may be equal: their lowest bits.
    fn equal_tags(&self, tags: IntValue<'c>, tag: IntValue<'c>) -> Res<IntValue<'c>> {
        let builder = &self.builder;
        let difference = builder.build_xor(tags, tag, "")?;
        // A zero lane borrows from its top bit, which it has not.
        let less = builder.build_int_sub(difference, self.long(ONES), "")?;
        let zero = builder.build_and(less, builder.build_not(difference, "")?, "")?;
        let tops = builder.build_and(zero, self.long(ONES << 15), "")?;
        Ok(builder.build_right_shift(tops, self.long(15), false, "")?)
    }
}

impl<'c> Ppf<'_, 'c, '_> {
    /// Looks a packed key up.
    pub(super) fn hash_find(&self, location: TableLocation, table: &Table, words: &[IntValue<'c>]) -> Res<Found<'c>> {
        let at = self.kernel.hash_buckets(location, words)?;
        self.hash_find_at(location, at, table, words)
    }

    /// As [`Ppf::hash_find`], for a key that hashes to this place.
    pub(super) fn hash_find_at(
        &self,
        location: TableLocation,
        at: Buckets<'c>,
        table: &Table,
        words: &[IntValue<'c>],
    ) -> Res<Found<'c>> {
        let TableLocation::Hash { entries, .. } = location else { return internal("a hash table that is none") };
        let kernel = self.kernel;
        let builder = &kernel.builder;
        let long = |number| kernel.long(number);
        let layout = kernel.hash_entry(table)?;
        let blocks = ["bucket", "half", "candidate", "compare", "miss", "over", "spill", "found"];
        let [bucket, half, candidate, compare, miss, over, spill, found] = kernel.new_blocks(blocks)?;
        let before = kernel.block()?;
        builder.build_unconditional_branch(bucket)?;

        // One of two buckets.
        builder.position_at_end(bucket);
        let (base, is_second) = (kernel.phi()?, kernel.phi()?);
        let base_value = base.as_basic_value().into_int_value();
        let second_value = is_second.as_basic_value().into_int_value();
        builder.build_unconditional_branch(half)?;

        // One of its two words of tags.
        builder.position_at_end(half);
        let word = kernel.phi()?;
        let word_value = word.as_basic_value().into_int_value();
        let tags_at = builder.build_int_add(base_value, word_value, "")?;
        let tags = kernel.load_once(kernel.index(tags_at)?, 64)?;
        let equal = kernel.equal_tags(tags, at.tag)?;
        let from_half = kernel.block()?;
        builder.build_unconditional_branch(candidate)?;

        // The slots of those that may be equal, the lowest first, four at most.
        builder.position_at_end(candidate);
        let (rest, round) = (kernel.phi()?, kernel.phi()?);
        let rest_value = rest.as_basic_value().into_int_value();
        let round_value = round.as_basic_value().into_int_value();
        let any = builder.build_int_compare(IntPredicate::NE, rest_value, long(0), "")?;
        let bound = builder.build_int_compare(IntPredicate::NE, round_value, long(4), "")?;
        builder.build_conditional_branch(builder.build_and(any, bound, "")?, compare, over)?;

        builder.position_at_end(compare);
        let lowest = builder.build_and(rest_value, builder.build_int_sub(long(0), rest_value, "")?, "")?;
        let lane = builder.build_right_shift(builder.build_int_mul(lowest, long(LANES), "")?, long(48), false, "")?;
        let lane = kernel.masked(lane, 3)?;
        // Four bytes for each slot; four slots to a word of tags of eight bytes.
        let slot = builder.build_int_add(builder.build_int_mul(lane, long(4), "")?, base_value, "")?;
        let slot = builder.build_int_add(slot, builder.build_int_mul(word_value, long(2), "")?, "")?;
        let slot = kernel.add(slot, offset_of!(HashBucket, entries) as u64)?;
        let number = kernel.resize(kernel.load_once(kernel.index(slot)?, 32)?, 64)?;
        let distance = builder.build_int_mul(number, long(layout.stride as u64), "")?;
        let entry = kernel.add(distance, entries)?;
        // Entry 0 is never used, but it is there.
        let memory = kernel.found(entry)?;
        let used = builder.build_int_compare(IntPredicate::NE, number, long(0), "")?;
        let same = kernel.has_key(used, memory, words)?;
        let value = kernel.add(entry, layout.value_offset as u64)?;
        let from_compare = kernel.block()?;
        kernel.likely(builder.build_conditional_branch(same, found, miss)?)?;

        builder.position_at_end(miss);
        let others = builder.build_xor(rest_value, lowest, "")?;
        let next_round = kernel.add(round_value, 1)?;
        rest.add_incoming(&[(&equal, from_half), (&others, miss)]);
        round.add_incoming(&[(&long(0), from_half), (&next_round, miss)]);
        builder.build_unconditional_branch(candidate)?;

        // The other word, then the other bucket.
        builder.position_at_end(over);
        word.add_incoming(&[(&long(0), bucket), (&long(8), over)]);
        let was_first = builder.build_int_compare(IntPredicate::EQ, word_value, long(0), "")?;
        builder.build_conditional_branch(was_first, half, spill)?;

        builder.position_at_end(spill);
        let spilled = kernel.add(at.first, offset_of!(HashBucket, spilled) as u64)?;
        let spilled = kernel.load_once(kernel.index(spilled)?, 32)?;
        let some = builder.build_int_compare(IntPredicate::NE, spilled, kernel.i32.const_zero(), "")?;
        let is_first = builder.build_int_compare(IntPredicate::EQ, second_value, long(0), "")?;
        base.add_incoming(&[(&at.first, before), (&at.second, spill)]);
        is_second.add_incoming(&[(&long(0), before), (&long(1), spill)]);
        kernel.unlikely(builder.build_conditional_branch(builder.build_and(some, is_first, "")?, bucket, found)?)?;

        builder.position_at_end(found);
        let either = |there: IntValue<'c>| -> Res<IntValue<'c>> {
            let phi = kernel.phi()?;
            phi.add_incoming(&[(&there, from_compare), (&long(0), spill)]);
            Ok(phi.as_basic_value().into_int_value())
        };
        Ok(Found { value: either(value)?, slot: either(slot)?, number: either(number)? })
    }
}

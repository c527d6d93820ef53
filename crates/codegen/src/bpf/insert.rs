//! Insertion and removal, as `dataplane::tables::hash` does them, under the same lock.

use std::mem::offset_of;

use baker::ir::{Table, TableId, TableKind, Value};
use inkwell::IntPredicate;
use inkwell::values::{IntValue, PointerValue};
use inkwell::{AtomicOrdering, AtomicRMWBinOp};

use super::Kernel;
use super::body::Ppf;
use super::hash::Buckets;
use crate::abi::{HashBucket, Retired, SlotNumbers};
use crate::kernel::TableLocation;
use crate::lower::{Memory, Res};
use crate::{CodegenError, internal};

/// Slots of a bucket.
const SLOTS: u64 = 8;
/// A key stays in its first bucket while that holds fewer than this.
const PREFER_FIRST: u64 = 4;

impl<'c> Kernel<'c, '_> {
    /// A word of the numbers of a table's entries.
    fn numbers_word(&self, numbers: u64, offset: usize) -> Res<PointerValue<'c>> {
        self.fixed(numbers + offset as u64)
    }

    fn get(&self, numbers: u64, offset: usize) -> Res<IntValue<'c>> {
        self.load_once(self.numbers_word(numbers, offset)?, 32)
    }

    fn put_word(&self, numbers: u64, offset: usize, value: IntValue<'c>) -> Res<()> {
        self.store(self.numbers_word(numbers, offset)?, value, 4, Memory::Control)
    }

    fn changed(&self, numbers: u64, offset: usize, by: i64) -> Res<()> {
        let value = self.get(numbers, offset)?;
        let by = self.i32.const_int(by as u64, true);
        self.put_word(numbers, offset, self.builder.build_int_add(value, by, "")?)
    }

    /// A number of which the verifier forgets what it knew, so that it follows one path and not one for each number.
    fn forgotten(&self, value: IntValue<'c>) -> Res<IntValue<'c>> {
        let Some(scratch) = self.scratch.get() else { return internal("nowhere to forget") };
        self.store_once(scratch, value)?;
        self.load_once(scratch, value.get_type().get_bit_width())
    }

    /// Goes through the slots of a bucket: how many are used, or the first that is not (64 bits).
    fn slots(&self, bucket: IntValue<'c>, first_free: bool) -> Res<IntValue<'c>> {
        let builder = &self.builder;
        let before = self.block()?;
        let [round, next, done] = self.new_blocks(["slot", "next", "slots"])?;
        builder.build_unconditional_branch(round)?;
        builder.position_at_end(round);
        let (index, used) = (builder.build_phi(self.i64, "")?, builder.build_phi(self.i64, "")?);
        let (at, count) = (index.as_basic_value().into_int_value(), used.as_basic_value().into_int_value());
        let entry = builder.build_int_add(builder.build_int_mul(at, self.long(4), "")?, bucket, "")?;
        let entry = builder.build_int_add(entry, self.long(offset_of!(HashBucket, entries) as u64), "")?;
        let entry = self.load_once(self.index(entry)?, 32)?;
        let check_free = builder.build_int_compare(IntPredicate::EQ, entry, self.i32.const_zero(), "")?;
        if first_free {
            builder.build_conditional_branch(check_free, done, next)?;
        } else {
            builder.build_unconditional_branch(next)?;
        }
        builder.position_at_end(next);
        let more = builder.build_int_add(count, self.long(1), "")?;
        let more = if first_free { more } else { self.select_int(check_free, count, more)? };
        let further = builder.build_int_add(at, self.long(1), "")?;
        index.add_incoming(&[(&self.long(0), before), (&further, next)]);
        used.add_incoming(&[(&self.long(0), before), (&more, next)]);
        let again = builder.build_int_compare(IntPredicate::NE, further, self.long(SLOTS), "")?;
        builder.build_conditional_branch(again, round, done)?;
        builder.position_at_end(done);
        let found = builder.build_phi(self.i64, "")?;
        if first_free {
            found.add_incoming(&[(&at, round), (&self.long(SLOTS), next)]);
        } else {
            found.add_incoming(&[(&more, next)]);
        }
        self.forgotten(found.as_basic_value().into_int_value())
    }
}

impl<'c> Ppf<'_, 'c, '_> {
    /// Inserts or replaces, or leaves an entry that is there as it is where it is to be `new`; 1 where the value was
    /// stored. Where there is no room that is counted.
    pub(super) fn insert(&self, id: TableId, key: &[Value], value: &[Value], new: bool) -> Res<IntValue<'c>> {
        let kernel = self.kernel;
        let builder = &kernel.builder;
        let table = kernel.table(id)?;
        let [refuse, done] = kernel.new_blocks(["refuse", "inserted"])?;
        let bit = kernel.context.bool_type();
        // Where it was done or not.
        let mut ends = Vec::new();
        match (table.kind, kernel.table_location(id)?) {
            (TableKind::Array, _) if !new => {
                let (entry, in_range) = self.array_entry(id, table, key)?;
                let [store] = kernel.new_blocks(["store"])?;
                kernel.likely(builder.build_conditional_branch(in_range, store, refuse)?)?;
                builder.position_at_end(store);
                self.store_locked(entry, table, value, None)?;
                ends.push((true, kernel.block()?));
                builder.build_unconditional_branch(done)?;
            }
            (TableKind::Hash, location @ TableLocation::Hash { numbers, .. }) => {
                let words = self.pack(table, key)?;
                let at = kernel.hash_buckets(location, &words)?;
                let lock = kernel.numbers_word(numbers, offset_of!(SlotNumbers, lock))?;
                kernel.lock(self.state, lock, None)?;
                let found = self.hash_find_at(location, at, table, &words)?;
                let is_new = builder.build_int_compare(IntPredicate::EQ, found.value, kernel.long(0), "")?;
                let [replace, add, full] = kernel.new_blocks(["replace", "add", "full"])?;
                builder.build_conditional_branch(is_new, add, replace)?;
                builder.position_at_end(replace);
                if !new {
                    self.store_locked(found.value, table, value, Some(lock))?;
                }
                kernel.unlock(lock)?;
                ends.push((!new, kernel.block()?));
                builder.build_unconditional_branch(done)?;
                builder.position_at_end(add);
                self.hash_add(id, (location, at), &words, value, full)?;
                kernel.unlock(lock)?;
                ends.push((true, kernel.block()?));
                builder.build_unconditional_branch(done)?;
                builder.position_at_end(full);
                kernel.unlock(lock)?;
                builder.build_unconditional_branch(refuse)?;
            }
            _ => return internal(format!("an insertion into `{}`", table.name)),
        }
        builder.position_at_end(refuse);
        kernel.count_slot(self.state, kernel.slots.table_full(id))?;
        builder.build_unconditional_branch(done)?;
        builder.position_at_end(done);
        let phi = builder.build_phi(bit, "")?;
        ends.iter().for_each(|(stored, end)| phi.add_incoming(&[(&bit.const_int((*stored).into(), false), *end)]));
        phi.add_incoming(&[(&bit.const_zero(), refuse)]);
        Ok(phi.as_basic_value().into_int_value())
    }

    /// Writes the value of an entry that others may reach, while the lock of the table is `held`.
    fn store_locked(
        &self,
        entry: IntValue<'c>,
        table: &Table,
        value: &[Value],
        held: Option<PointerValue<'c>>,
    ) -> Res<()> {
        let lock = if table.locked { Some(self.lock_of(entry, table.value)?) } else { None };
        if let Some(lock) = lock {
            self.kernel.lock(self.state, lock, held)?;
        }
        self.store_fields(entry, table, value)?;
        lock.map_or(Ok(()), |lock| self.kernel.unlock(lock))
    }

    /// Adds a key that is not there, or goes to `full`.
    fn hash_add(
        &self,
        id: TableId,
        (location, at): (TableLocation, Buckets<'c>),
        words: &[IntValue<'c>],
        value: &[Value],
        full: inkwell::basic_block::BasicBlock<'c>,
    ) -> Res<()> {
        let TableLocation::Hash { entries, numbers, ring, .. } = location else {
            return internal("a hash table that is none");
        };
        let kernel = self.kernel;
        let builder = &kernel.builder;
        let long = |number| kernel.long(number);
        let short = |number: u64| kernel.i32.const_int(number, false);
        let table = kernel.table(id)?;
        let layout = kernel.hash_entry(table)?;
        let [room, slot_free, reused, unused, fresh, taken] =
            kernel.new_blocks(["room", "slot_free", "reused", "unused", "fresh", "taken"])?;
        let live = kernel.get(numbers, offset_of!(SlotNumbers, live))?;
        let is_room = builder.build_int_compare(IntPredicate::ULT, live, short(table.capacity.into()), "")?;
        kernel.likely(builder.build_conditional_branch(is_room, room, full)?)?;

        builder.position_at_end(room);
        let (in_first, in_second) = (kernel.slots(at.first, false)?, kernel.slots(at.second, false)?);
        let few = builder.build_int_compare(IntPredicate::ULT, in_first, long(PREFER_FIRST), "")?;
        let fewer = builder.build_int_compare(IntPredicate::ULE, in_first, in_second, "")?;
        let is_first = builder.build_or(few, fewer, "")?;
        let bucket = kernel.select_int(is_first, at.first, at.second)?;
        let slot = kernel.slots(bucket, true)?;
        let is_there = builder.build_int_compare(IntPredicate::ULT, slot, long(SLOTS), "")?;
        let slot = kernel.masked(slot, SLOTS - 1)?;
        kernel.likely(builder.build_conditional_branch(is_there, slot_free, full)?)?;

        // A number: one that is free again, or one that was never in use.
        builder.position_at_end(slot_free);
        let free = kernel.get(numbers, offset_of!(SlotNumbers, free))?;
        let any = builder.build_int_compare(IntPredicate::NE, free, short(0), "")?;
        builder.build_conditional_branch(any, reused, unused)?;
        builder.position_at_end(reused);
        let last = builder.build_int_sub(free, short(1), "")?;
        kernel.put_word(numbers, offset_of!(SlotNumbers, free), last)?;
        let last = kernel.masked(kernel.resize(last, 64)?, u64::from(ring) - 1)?;
        let distance = builder.build_int_mul(last, long(4), "")?;
        let list = kernel.fixed(numbers + SlotNumbers::FREE as u64)?;
        let again = kernel.load_once(kernel.at_index(list, distance)?, 32)?;
        builder.build_unconditional_branch(taken)?;
        builder.position_at_end(unused);
        let next = kernel.get(numbers, offset_of!(SlotNumbers, fresh))?;
        let limit = kernel.get(numbers, offset_of!(SlotNumbers, limit))?;
        let some = builder.build_int_compare(IntPredicate::ULT, next, limit, "")?;
        kernel.likely(builder.build_conditional_branch(some, fresh, full)?)?;
        builder.position_at_end(fresh);
        kernel.changed(numbers, offset_of!(SlotNumbers, fresh), 1)?;
        builder.build_unconditional_branch(taken)?;
        builder.position_at_end(taken);
        let number = builder.build_phi(kernel.i32, "")?;
        number.add_incoming(&[(&again, reused), (&next, fresh)]);
        let number = kernel.forgotten(number.as_basic_value().into_int_value())?;
        let number = builder.build_int_add(number, short(1), "")?;

        // The entry, which can't be reached yet.
        kernel.clear_deadline(id, number)?;
        let distance = builder.build_int_mul(kernel.resize(number, 64)?, long(layout.stride as u64), "")?;
        let entry = builder.build_int_add(distance, long(entries), "")?;
        let memory = kernel.found(entry)?;
        for (index, word) in words.iter().enumerate() {
            kernel.store(kernel.at(memory, index as u64 * 8)?, *word, 8, Memory::Table)?;
        }
        let size = u64::from(kernel.layout(table.value)?.size);
        for byte in 0..size.div_ceil(8) {
            let width = (size - byte * 8).min(8) as u32;
            let zero = kernel.int(width * 8)?.const_zero();
            kernel.store(kernel.at(memory, layout.value_offset as u64 + byte * 8)?, zero, 8, Memory::Table)?;
        }
        let value_at = builder.build_int_add(entry, long(layout.value_offset as u64), "")?;
        self.store_fields(value_at, table, value)?;

        let [elsewhere, publish] = kernel.new_blocks(["elsewhere", "publish"])?;
        let same = builder.build_int_compare(IntPredicate::EQ, bucket, at.first, "")?;
        builder.build_conditional_branch(same, publish, elsewhere)?;
        builder.position_at_end(elsewhere);
        self.spill(at, 1)?;
        builder.build_unconditional_branch(publish)?;
        builder.position_at_end(publish);
        let tag_at = builder.build_int_add(builder.build_int_mul(slot, long(2), "")?, bucket, "")?;
        kernel.store(kernel.index(tag_at)?, kernel.resize(at.tag, 16)?, 2, Memory::Table)?;
        let number_at = builder.build_int_add(builder.build_int_mul(slot, long(4), "")?, bucket, "")?;
        let number_at = builder.build_int_add(number_at, long(offset_of!(HashBucket, entries) as u64), "")?;
        kernel.publish(kernel.index(number_at)?, number)?;
        kernel.changed(numbers, offset_of!(SlotNumbers, live), 1)
    }

    /// Adds to the number of keys that lie elsewhere than in their first bucket.
    fn spill(&self, at: Buckets<'c>, by: i64) -> Res<()> {
        let kernel = self.kernel;
        let offset = kernel.long(offset_of!(HashBucket, spilled) as u64);
        let word = kernel.index(kernel.builder.build_int_add(at.first, offset, "")?)?;
        let value = kernel.load_once(word, 32)?;
        let by = kernel.i32.const_int(by as u64, true);
        kernel.publish(word, kernel.builder.build_int_add(value, by, "")?)
    }

    /// Removes a hash entry; 1 where it was there.
    pub(super) fn remove(&self, id: TableId, key: &[Value]) -> Res<IntValue<'c>> {
        let kernel = self.kernel;
        let builder = &kernel.builder;
        let long = |number| kernel.long(number);
        let table = kernel.table(id)?;
        let location = kernel.table_location(id)?;
        let (TableKind::Hash, TableLocation::Hash { numbers, ring, .. }) = (table.kind, location) else {
            return internal(format!("a removal from `{}`, which is no hash table", table.name));
        };
        let words = self.pack(table, key)?;
        let at = kernel.hash_buckets(location, &words)?;
        let lock = kernel.numbers_word(numbers, offset_of!(SlotNumbers, lock))?;
        kernel.lock(self.state, lock, None)?;
        let found = self.hash_find_at(location, at, table, &words)?;
        let is_there = builder.build_int_compare(IntPredicate::NE, found.value, long(0), "")?;
        let before = kernel.block()?;
        let [take_out, elsewhere, retire, done] = kernel.new_blocks(["take_out", "elsewhere", "retire", "removed"])?;
        builder.build_conditional_branch(is_there, take_out, done)?;

        builder.position_at_end(take_out);
        let slot = kernel.index(found.slot)?;
        let number = kernel.load_once(slot, 32)?;
        kernel.publish(slot, kernel.i32.const_zero())?;
        kernel.clear_deadline(id, number)?;
        let distance = builder.build_int_sub(found.slot, at.first, "")?;
        let size = long(size_of::<HashBucket>() as u64);
        let in_first = builder.build_int_compare(IntPredicate::ULT, distance, size, "")?;
        builder.build_conditional_branch(in_first, retire, elsewhere)?;
        builder.position_at_end(elsewhere);
        self.spill(at, -1)?;
        builder.build_unconditional_branch(retire)?;

        builder.position_at_end(retire);
        kernel.changed(numbers, offset_of!(SlotNumbers, live), -1)?;
        let clock = kernel.fixed(kernel.memory.epoch)?;
        let order = AtomicOrdering::SequentiallyConsistent;
        let stamp = builder
            .build_atomicrmw(AtomicRMWBinOp::Add, clock, long(1), order)
            .map_err(|error| CodegenError::Internal(error.to_string()))?;
        let stamp = builder.build_int_add(stamp, long(1), "")?;
        let last = kernel.get(numbers, offset_of!(SlotNumbers, last))?;
        let last = kernel.masked(kernel.resize(last, 64)?, u64::from(ring) - 1)?;
        let distance = builder.build_int_mul(last, long(size_of::<Retired>() as u64), "")?;
        let list = kernel.fixed(numbers + SlotNumbers::retired(ring) as u64)?;
        let retired = kernel.at_index(list, distance)?;
        kernel.store(kernel.at(retired, offset_of!(Retired, stamp) as u64)?, stamp, 8, Memory::Control)?;
        let number = builder.build_int_sub(number, kernel.i32.const_int(1, false), "")?;
        kernel.store(kernel.at(retired, offset_of!(Retired, number) as u64)?, number, 4, Memory::Control)?;
        kernel.changed(numbers, offset_of!(SlotNumbers, last), 1)?;
        builder.build_unconditional_branch(done)?;

        builder.position_at_end(done);
        let bit = kernel.context.bool_type();
        let removed = builder.build_phi(bit, "")?;
        removed.add_incoming(&[(&bit.const_zero(), before), (&bit.const_int(1, false), retire)]);
        kernel.unlock(lock)?;
        Ok(removed.as_basic_value().into_int_value())
    }
}

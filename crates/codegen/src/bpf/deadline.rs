//! Deadlines of table entries, set in the kernel: see [`crate::kernel::Armed`].
//!
//! ```text
//! the entry under the key ─ none ─▶ 0
//! its deadline ⇄ the time                          one exchange, which says what was there
//! none, or a later one, was there: tell the worker of this queue by its ring ─ no place ─▶ deadline_late, missed = 1
//! ```
//!
//! A worker whose timer finds a later deadline waits on. So an entry whose deadline is put off by each packet costs a
//! record once.

use std::mem::offset_of;

use baker::ir::deadline::SOONEST;
use baker::ir::{DropId, TableId, TableKind, Value};
use inkwell::values::{IntValue, PointerValue};
use inkwell::{AtomicOrdering, AtomicRMWBinOp, IntPredicate};

use super::Kernel;
use super::body::Ppf;
use super::state::Field;
use crate::kernel::{ARMED_SOON, Armed, DueTimes, TableLocation};
use crate::lower::{Lowering, Memory, Res};
use crate::{CodegenError, internal};

impl<'c> Kernel<'c, '_> {
    /// Where the deadline of an entry lies, where entries of the table have any. The number is `less` more than the
    /// entry's.
    fn deadline_of(&self, id: TableId, number: IntValue<'c>, less: u64) -> Res<Option<PointerValue<'c>>> {
        let Some(due) = self.memory.deadlines.get(id.0 as usize).copied().flatten() else { return Ok(None) };
        let distance = self.builder.build_int_mul(self.resize(number, 64)?, self.long(8), "")?;
        let at = self.builder.build_int_add(distance, self.long(due + DueTimes::FIRST - less * 8), "")?;
        self.found_aligned(at, 8).map(Some)
    }

    /// An entry that is new, or that is removed, has no deadline. The number is one more than the entry's, 32 bits.
    pub(super) fn clear_deadline(&self, id: TableId, number: IntValue<'c>) -> Res<()> {
        match self.deadline_of(id, number, 1)? {
            Some(cell) => self.store_once(cell, self.i64.const_zero()),
            None => Ok(()),
        }
    }

    fn swap(&self, cell: PointerValue<'c>, value: IntValue<'c>) -> Res<IntValue<'c>> {
        let order = AtomicOrdering::SequentiallyConsistent;
        let swapped = self.builder.build_atomicrmw(AtomicRMWBinOp::Xchg, cell, value, order);
        swapped.map_err(|error| CodegenError::Internal(error.to_string()))
    }
}

impl<'c> Ppf<'_, 'c, '_> {
    /// Sets the deadline of the entry under a key, or takes it away; 1 where there is such an entry.
    pub(super) fn set_deadline(&self, id: TableId, key: &[Value], at: Value) -> Res<IntValue<'c>> {
        let kernel = self.kernel;
        let builder = &kernel.builder;
        let table = kernel.table(id)?;
        let is = |predicate, a, b| builder.build_int_compare(predicate, a, b, "");
        // The entry's number, and by how much it is more than that.
        let (number, less, is_there) = match (table.kind, kernel.table_location(id)?) {
            (TableKind::Array, _) => {
                let (_, in_range) = self.array_entry(id, table, key)?;
                (self.scalar_key(table, key)?, 0, in_range)
            }
            (TableKind::Hash, location @ TableLocation::Hash { .. }) => {
                let words = self.pack(table, key)?;
                let found = self.hash_find(location, table, &words)?;
                (found.number, 1, is(IntPredicate::NE, found.value, kernel.long(0))?)
            }
            _ => return internal(format!("a deadline of an entry of `{}`", table.name)),
        };
        let [set, tell, full, done] = kernel.new_blocks(["set_deadline", "tell", "deadline_late", "deadline_set"])?;
        builder.build_conditional_branch(is_there, set, done)?;

        builder.position_at_end(set);
        let Some(cell) = kernel.deadline_of(id, number, less)? else {
            return internal(format!("entries of `{}` have no deadlines", table.name));
        };
        let (now, at) = (kernel.number(self.state, Field::Now)?, self.int_of(at, 64)?);
        let soonest = builder.build_int_add(now, kernel.long(SOONEST), "")?;
        let time = kernel.select_int(is(IntPredicate::UGT, at, soonest)?, at, soonest)?;
        let none = is(IntPredicate::EQ, at, kernel.long(0))?;
        let time = kernel.select_int(none, kernel.long(0), time)?;
        let before = kernel.swap(cell, time)?;
        // With one less, so that none is later than all.
        let one = kernel.long(1);
        let before = builder.build_int_sub(before, one, "")?;
        let is_later = is(IntPredicate::UGT, before, builder.build_int_sub(time, one, "")?)?;
        kernel.unlikely(builder.build_conditional_branch(is_later, tell, done)?)?;

        builder.position_at_end(tell);
        let ring = kernel.ring(self.ctx, self.state, full)?;
        let record = kernel.reserve(ring, size_of::<Armed>() as u64, full)?;
        let number = builder.build_int_sub(kernel.resize(number, 32)?, kernel.i32.const_int(less, false), "")?;
        let short = |value: u32| kernel.i32.const_int(value.into(), false);
        for (at, value) in [
            (offset_of!(Armed, mark), short(Armed::MARK)),
            (offset_of!(Armed, generation), short(kernel.options.generation.into())),
            (offset_of!(Armed, table), short(id.0)),
            (offset_of!(Armed, entry), number),
        ] {
            kernel.store(kernel.at(record, at as u64)?, value, 4, Memory::Table)?;
        }
        let ahead = builder.build_int_sub(time, now, "")?;
        kernel.submit(record, is(IntPredicate::ULT, ahead, kernel.long(ARMED_SOON))?)?;
        builder.build_unconditional_branch(done)?;

        builder.position_at_end(full);
        kernel.count_slot(self.state, kernel.slots.drop(DropId::DEADLINE_LATE))?;
        if let Some(due) = kernel.memory.deadlines.get(id.0 as usize).copied().flatten() {
            kernel.swap(kernel.fixed(due + DueTimes::MISSED)?, one)?;
        }
        builder.build_unconditional_branch(done)?;

        builder.position_at_end(done);
        Ok(is_there)
    }
}

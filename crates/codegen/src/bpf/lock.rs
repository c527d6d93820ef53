//! Locks of tables and of entries: 32 bits, 0 where they are free. The kernel may not wait without end: after some
//! tries the packet is dropped and counted.
//!
//! ```text
//! try:  if cmpxchg [lock], 0 → 1 is 0: held            at most TRIES times
//! busy: count table_busy, return XDP_DROP
//! ```

use baker::ir::{DropId, Value};
use inkwell::IntPredicate;
use inkwell::values::{IntValue, PointerValue};
use inkwell::{AtomicOrdering, AtomicRMWBinOp};

use super::Kernel;
use super::body::Ppf;
use super::state::Field;
use crate::CodegenError;
use crate::internal;
use crate::kernel::Verdict;
use crate::lower::Res;

/// How often a lock is tried: some microseconds.
const TRIES: u64 = 100;

fn fault(error: &str) -> CodegenError {
    CodegenError::Internal(error.to_owned())
}

impl<'c> Kernel<'c, '_> {
    /// Frees a lock.
    pub(super) fn unlock(&self, lock: PointerValue<'c>) -> Res<()> {
        self.publish(lock, self.i32.const_zero())
    }

    /// A store that others see after all that was stored before.
    pub(super) fn publish(&self, at: PointerValue<'c>, value: IntValue<'c>) -> Res<()> {
        let (exchange, order) = (AtomicRMWBinOp::Xchg, AtomicOrdering::SequentiallyConsistent);
        self.builder.build_atomicrmw(exchange, at, value, order).map(drop).map_err(|error| fault(&error.to_string()))
    }

    /// Exchanges a word where it is as expected; what it was.
    pub(super) fn exchange(
        &self,
        at: PointerValue<'c>,
        expected: IntValue<'c>,
        new: IntValue<'c>,
    ) -> Res<IntValue<'c>> {
        let order = AtomicOrdering::SequentiallyConsistent;
        let both = self.builder.build_cmpxchg(at, expected, new, order, order)?;
        Ok(self.builder.build_extract_value(both, 0, "")?.into_int_value())
    }

    /// Orders what was stored before against what is loaded behind it, as each atomic operation with a result does
    /// (instruction-set.rst of the kernel; `BPF_CMPXCHG`). The word keeps its value.
    pub(super) fn fence(&self, state: PointerValue<'c>) -> Res<()> {
        let zero = self.long(0);
        self.exchange(self.pointer(state, Field::Counters)?, zero, zero).map(drop)
    }

    /// Drops the packet at once where `ready` (1 bit) is 0: something stayed locked. `held` is freed before.
    pub(super) fn unless_busy(
        &self,
        state: PointerValue<'c>,
        ready: IntValue<'c>,
        held: Option<PointerValue<'c>>,
    ) -> Res<()> {
        let [busy, free] = self.new_blocks(["busy", "free"])?;
        self.likely(self.builder.build_conditional_branch(ready, free, busy)?)?;
        self.builder.position_at_end(busy);
        if let Some(held) = held {
            self.unlock(held)?;
        }
        self.drop_packet(state, DropId::TABLE_BUSY)?;
        self.leave(ready, Verdict::Drop)?;
        self.builder.build_unconditional_branch(free)?;
        self.builder.position_at_end(free);
        Ok(())
    }

    /// Takes a lock, or frees the one that is `held` and drops the packet.
    pub(super) fn lock(
        &self,
        state: PointerValue<'c>,
        lock: PointerValue<'c>,
        held: Option<PointerValue<'c>>,
    ) -> Res<()> {
        let builder = &self.builder;
        let before = self.block()?;
        let [attempt, again, done] = self.new_blocks(["try", "again", "tried"])?;
        builder.build_unconditional_branch(attempt)?;
        builder.position_at_end(attempt);
        let round = builder.build_phi(self.i64, "")?;
        let was = self.exchange(lock, self.i32.const_zero(), self.i32.const_int(1, false))?;
        let got = builder.build_int_compare(IntPredicate::EQ, was, self.i32.const_zero(), "")?;
        self.likely(builder.build_conditional_branch(got, done, again)?)?;
        builder.position_at_end(again);
        let next = builder.build_int_add(round.as_basic_value().into_int_value(), self.long(1), "")?;
        round.add_incoming(&[(&self.long(0), before), (&next, again)]);
        let more = builder.build_int_compare(IntPredicate::NE, next, self.long(TRIES), "")?;
        builder.build_conditional_branch(more, attempt, done)?;
        builder.position_at_end(done);
        let bit = self.context.bool_type();
        let got_it = builder.build_phi(bit, "")?;
        got_it.add_incoming(&[(&bit.const_int(1, false), attempt), (&bit.const_zero(), again)]);
        self.unless_busy(state, got_it.as_basic_value().into_int_value(), held)
    }
}

impl<'c> Ppf<'_, 'c, '_> {
    /// The lock of an entry.
    pub(super) fn lock_of(&self, entry: IntValue<'c>, layout: baker::ir::LayoutId) -> Res<PointerValue<'c>> {
        let kernel = self.kernel;
        match kernel.layout(layout)?.fields.last() {
            Some(field) if field.width == 32 => kernel.at(kernel.found_aligned(entry, 4)?, field.offset.into()),
            _ => internal("a lock of an entry that has none"),
        }
    }

    /// Locks an entry.
    pub(super) fn lock_entry(&self, entry: Value) -> Res<()> {
        let (entry, layout) = self.entry(entry)?;
        self.kernel.lock(self.state, self.lock_of(entry, layout)?, None)
    }

    /// Ends that.
    pub(super) fn unlock_entry(&self, entry: Value) -> Res<()> {
        let (entry, layout) = self.entry(entry)?;
        self.kernel.unlock(self.lock_of(entry, layout)?)
    }
}

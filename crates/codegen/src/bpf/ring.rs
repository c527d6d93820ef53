//! The rings by which the kernel tells workers something: one per worker, found by the packet's queue.
//!
//! The verifier wants a record to have a constant size, and to be submitted on every path. So what reserves one has no
//! way out of it, and no record is held across an instruction of the IR.

use inkwell::IntPredicate;
use inkwell::basic_block::BasicBlock;
use inkwell::values::{IntValue, PointerValue};

use super::Kernel;
use super::asm::Helper;
use crate::kernel::{MapUse, QUEUES};
use crate::lower::Res;

/// Flags of a record that is submitted (`BPF_RB_NO_WAKEUP`, `BPF_RB_FORCE_WAKEUP`).
const NO_WAKEUP: u64 = 1;
pub(super) const FORCE_WAKEUP: u64 = 2;

impl<'c> Kernel<'c, '_> {
    /// The ring of the queue that the packet came in by; on at `none` where it has none.
    pub(super) fn ring(
        &self,
        ctx: PointerValue<'c>,
        state: PointerValue<'c>,
        none: BasicBlock<'c>,
    ) -> Res<PointerValue<'c>> {
        let queue = match self.options.recorded {
            true => self.i32.const_zero(),
            false => self.of_context(ctx, self.context_fields().queue)?,
        };
        // A socket buffer has the number of any queue that its sender, or the device, has.
        let queue = match self.is_tc() {
            true => self.builder.build_and(queue, self.i32.const_int(u64::from(QUEUES - 1), false), "")?,
            false => queue,
        };
        let key = self.copied(state)?;
        self.store_once(key, queue)?;
        let ring = self.help(Helper::MapLookupElem, &[self.map(MapUse::Taps)?.into(), key.into()])?;
        let [there] = self.new_blocks(["ring"])?;
        self.unless_null(ring, there, none)?;
        self.known_pointer(ring)
    }

    /// A record of so many bytes; on at `full` where there is no place for it.
    pub(super) fn reserve(&self, ring: PointerValue<'c>, bytes: u64, full: BasicBlock<'c>) -> Res<PointerValue<'c>> {
        let size = self.long(bytes);
        let record = self.help(Helper::RingbufReserve, &[ring.into(), size.into(), self.i64.const_zero().into()])?;
        let [reserved] = self.new_blocks(["reserved"])?;
        self.unless_null(record, reserved, full)?;
        self.known_pointer(record)
    }

    /// Hands a record to the reader, who is woken for it where `wakes` (1 bit) says so.
    pub(super) fn submit(&self, record: PointerValue<'c>, wakes: IntValue<'c>) -> Res<()> {
        let flags = self.select_int(wakes, self.long(FORCE_WAKEUP), self.long(NO_WAKEUP))?;
        self.help(Helper::RingbufSubmit, &[record.into(), flags.into()])?;
        Ok(())
    }

    /// Goes on at `there` where a pointer (64 bits) is not null.
    fn unless_null(&self, pointer: IntValue<'c>, there: BasicBlock<'c>, null: BasicBlock<'c>) -> Res<()> {
        let is_there = self.builder.build_int_compare(IntPredicate::NE, pointer, self.i64.const_zero(), "")?;
        self.likely(self.builder.build_conditional_branch(is_there, there, null)?)?;
        self.builder.position_at_end(there);
        Ok(())
    }
}

//! How long packets are in PPFs, and what look-ups find, where a program measures it: see [`baker::opt::timing`].
//!
//! ```text
//! interval = clock - block[since]                 block: the worker's counters
//! block[rows + block[row], bucket of interval] += 1
//! block[rows + block[row], sum] += interval
//! block[row] = the PPF's, or that of the time between packets
//! block[since] = clock                            once more, so that intervals are without this
//! ```

use std::mem::offset_of;

use baker::ir::{PpfId, PpfTimes, TableId};
use inkwell::IntPredicate;
use inkwell::values::{BasicValueEnum, IntValue, PointerValue};

use super::memory::Memory;
use super::{Core, Module, Res};
use crate::abi::{Context, TICK_BITS};
use crate::{CodegenError, internal};

impl<'c> Core<'c, '_> {
    /// Where the program counts times; an error where it measures none.
    pub(crate) fn times(&self) -> Res<&PpfTimes> {
        self.slots.times().ok_or_else(|| CodegenError::Internal("the program measures no times".into()))
    }

    /// Where the program counts look-ups in a table; an error where it counts none.
    pub(crate) fn look_ups(&self, table: TableId) -> Res<usize> {
        self.slots.look_ups(table).ok_or_else(|| CodegenError::Internal("the program counts no look-ups".into()))
    }

    /// The bucket of an interval in nanoseconds: [`PpfTimes::bucket_of`]. 64 bits both.
    pub(crate) fn bucket_of(&self, interval: IntValue<'c>) -> Res<IntValue<'c>> {
        let builder = &self.builder;
        let long = |number: u64| self.i64.const_int(number, false);
        let is_long = builder.build_int_compare(IntPredicate::UGT, interval, long(PpfTimes::LONGEST), "")?;
        let length = builder.build_select(is_long, long(PpfTimes::LONGEST), interval, "")?.into_int_value();
        let (fine, highest) = (PpfTimes::FINE.into(), 63 - u64::from(PpfTimes::FINE));
        let least = builder.build_or(length, long(1 << PpfTimes::FINE), "")?;
        let zero_is_poison = self.context.bool_type().const_all_ones();
        let zeros = self.intrinsic("llvm.ctlz", &[self.i64.into()], &[least.into(), zero_is_poison.into()])?;
        let shift = builder.build_int_sub(long(highest), zeros, "")?;
        let power = builder.build_left_shift(shift, long(fine), "")?;
        Ok(builder.build_int_add(power, builder.build_right_shift(length, shift, false, "")?, "")?)
    }
}

impl<'c> Module<'c, '_> {
    /// From here on time is spent in a PPF; `None`: between packets.
    pub(super) fn time(&self, ctx: PointerValue<'c>, ppf: Option<PpfId>) -> Res<()> {
        let (builder, times) = (&self.builder, *self.times()?);
        let long = |number: usize| self.i64.const_int(number as u64, false);
        let counters = self.context_ptr(ctx, offset_of!(Context, counters))?;
        let slot = |slot: usize| self.at(counters, slot as u64 * 8);
        let load = |at| self.load_int(self.i64, at, 8, Memory::Counter);
        let ticks = builder.build_int_sub(self.clock()?, load(slot(times.since())?)?, "")?;
        let tick = self.load_int(self.i64, self.at(ctx, offset_of!(Context, tick) as u64)?, 8, Memory::Context)?;
        let scaled = builder.build_int_mul(ticks, tick, "")?;
        let interval = builder.build_right_shift(scaled, long(TICK_BITS as usize), false, "")?;
        let first = builder.build_int_mul(load(slot(times.row())?)?, long(PpfTimes::ROW), "")?;
        let cell = |in_row| {
            let index = builder.build_int_add(first, builder.build_int_add(in_row, long(times.rows()), "")?, "")?;
            self.at_index(counters, builder.build_int_mul(index, long(8), "")?)
        };
        let add = |cell, amount| {
            let sum = builder.build_int_add(load(cell)?, amount, "")?;
            self.store(cell, sum, 8, Memory::Counter)
        };
        add(cell(self.bucket_of(interval)?)?, long(1))?;
        add(cell(long(PpfTimes::SUM))?, interval)?;
        self.store(slot(times.row())?, long(ppf.map_or(0, PpfTimes::row_of)), 8, Memory::Counter)?;
        self.store(slot(times.since())?, self.clock()?, 8, Memory::Counter)
    }

    /// A look-up in a table has found nothing, or something.
    pub(super) fn looked_up(&self, ctx: PointerValue<'c>, table: TableId, nothing: IntValue<'c>) -> Res<()> {
        let slot = self.look_ups(table)?;
        self.count_slot(ctx, slot)?;
        let missed = self.builder.build_int_z_extend(nothing, self.i64, "")?;
        self.add_to_slot(ctx, self.i32.const_int(slot as u64 + 1, false), missed)
    }

    /// A packet has ended, where that is measured.
    pub(super) fn time_ends(&self, ctx: PointerValue<'c>) -> Res<()> {
        if self.program.timed { self.time(ctx, None) } else { Ok(()) }
    }

    /// The processor's clock, in ticks that are all of one length (`dataplane::ticks` reads the same one).
    fn clock(&self) -> Res<IntValue<'c>> {
        if cfg!(target_arch = "x86_64") {
            return self.intrinsic("llvm.readcyclecounter", &[], &[]);
        }
        let ty = self.i64.fn_type(&[], false);
        let read = "mrs $0, cntvct_el0".to_owned();
        let read = self.context.create_inline_asm(ty, read, "=r".to_owned(), true, false, None, false);
        match self.builder.build_indirect_call(ty, read, &[], "")?.try_as_basic_value().basic() {
            Some(BasicValueEnum::IntValue(value)) => Ok(value),
            _ => internal("a clock without a value"),
        }
    }
}

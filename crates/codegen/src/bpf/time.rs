//! How long packets are in PPFs, and what look-ups find, where a program measures it: as `lower/time.rs`, by the
//! kernel's clock.

use baker::ir::{PpfId, PpfTimes, TableId};
use inkwell::values::{IntValue, PointerValue};

use super::Kernel;
use super::asm::Helper;
use super::state::Field;
use crate::lower::{Memory, Res};

impl<'c> Kernel<'c, '_> {
    /// A look-up in a table has found nothing, or something.
    pub(super) fn looked_up(&self, state: PointerValue<'c>, table: TableId, nothing: IntValue<'c>) -> Res<()> {
        let slot = self.look_ups(table)?;
        self.count_slot(state, slot)?;
        let counters = self.pointer(state, Field::Counters)?;
        let missed = self.builder.build_int_z_extend(nothing, self.i64, "")?;
        self.add_to(self.at(counters, (slot as u64 + 1) * 8)?, missed)
    }

    /// From here on time is spent in a PPF; `None`: between packets.
    pub(super) fn time(&self, state: PointerValue<'c>, ppf: Option<PpfId>) -> Res<()> {
        let (builder, times) = (&self.builder, *self.times()?);
        let counters = self.pointer(state, Field::Counters)?;
        let slot = |slot: usize| self.at(counters, slot as u64 * 8);
        let load = |at| self.load_int(self.i64, at, 8, Memory::Counter);
        let now = self.help(Helper::KtimeGetNs, &[])?;
        let interval = builder.build_int_sub(now, load(slot(times.since())?)?, "")?;
        // The verifier is to see that both lie in the block.
        let row = self.masked(load(slot(times.row())?)?, times.row_count() as u64 - 1)?;
        let bucket = self.masked(self.bucket_of(interval)?, PpfTimes::ROW as u64 - 1)?;
        let bytes = self.long(PpfTimes::ROW as u64 * 8);
        let row = self.at_index(slot(times.rows())?, builder.build_int_mul(row, bytes, "")?)?;
        let bucket = self.at_index(row, builder.build_int_mul(bucket, self.long(8), "")?)?;
        self.add_to(bucket, self.long(1))?;
        self.add_to(self.at(row, PpfTimes::SUM as u64 * 8)?, interval)?;
        self.store(slot(times.row())?, self.long(ppf.map_or(0, PpfTimes::row_of) as u64), 8, Memory::Counter)?;
        self.store(slot(times.since())?, self.help(Helper::KtimeGetNs, &[])?, 8, Memory::Counter)
    }
}

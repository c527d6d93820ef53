//! Hold tables: packets that are kept, by functions of the data plane.

use std::mem::offset_of;

use baker::ir::TableId;
use inkwell::values::{IntValue, PointerValue};

use super::memory::Memory;
use super::{Module, Res};
use crate::abi::Context;
use crate::internal;

impl<'c> Module<'c, '_> {
    /// The control block of a hold table.
    fn hold_block(&self, ctx: PointerValue<'c>, table: TableId) -> Res<PointerValue<'c>> {
        if self.table(table)?.hold.is_none() {
            return internal(format!("table {} holds no packets", table.0));
        }
        let tables = self.context_ptr(ctx, offset_of!(Context, tables))?;
        self.load_constant_ptr(self.at(tables, 8 * u64::from(table.0))?, Memory::Control)
    }

    /// Holds a packet under a number (64 bits).
    pub(super) fn hold_put(
        &self,
        ctx: PointerValue<'c>,
        table: TableId,
        packet: PointerValue<'c>,
        key: IntValue<'c>,
    ) -> Res<()> {
        let block = self.hold_block(ctx, table)?;
        let call =
            self.builder.build_call(self.hold_put, &[block.into(), ctx.into(), packet.into(), key.into()], "")?;
        let full = self.resize(self.runtime_result(call)?.into_int_value(), 64)?;
        let slot = self.i32.const_int(self.slots.table_full(table) as u64, false);
        self.add_to_slot(ctx, slot, full)
    }

    /// A copy of the packet that is held under a number (64 bits), or a packet of 0 bytes.
    pub(super) fn hold_get(
        &self,
        ctx: PointerValue<'c>,
        table: TableId,
        key: IntValue<'c>,
        own: u32,
    ) -> Res<PointerValue<'c>> {
        let block = self.hold_block(ctx, table)?;
        let own = self.i32.const_int(own.into(), false);
        let call = self.builder.build_call(self.hold_get, &[block.into(), ctx.into(), key.into(), own.into()], "")?;
        Ok(self.runtime_result(call)?.into_pointer_value())
    }
}

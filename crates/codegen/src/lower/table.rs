//! Tables and user counters. Arrays, and `lpm` tables with keys of 32 bits, are looked up here, hash tables in
//! [`super::hash`], others through the runtime.

use std::mem::offset_of;

use baker::ir::{CounterId, Layout, LayoutField, LayoutId, Table, TableId, TableKind, Value, storage_size};
use inkwell::IntPredicate;
use inkwell::values::{IntValue, PointerValue};

use super::body::{Ppf, Scratch};
use super::memory::Memory;
use super::packet::align;
use super::walk::Lowering;
use super::{Core, Module, Res};
use crate::abi::{self, ArrayTable, Context, LpmTable};
use crate::{CodegenError, internal};

impl<'c> Ppf<'_, 'c, '_> {
    /// The value under a key, or null.
    pub fn lookup(&mut self, id: TableId, key: &[Value]) -> Res<PointerValue<'c>> {
        let table = self.module.table(id)?;
        match table.kind {
            TableKind::Array => {
                let (entry, in_range) = self.array_entry(id, table, key)?;
                let null = self.module.ptr.const_null();
                Ok(self.module.builder.build_select(in_range, entry, null, "")?.into_pointer_value())
            }
            TableKind::Lpm if abi::is_dir_24_8(self.module.program, table) => self.lpm_lookup(id, table, key),
            TableKind::Lpm => self.wide_lpm_lookup(id, table, key),
            TableKind::Hash => self.hash_lookup(id, table, key),
        }
    }

    /// The value of the longest matching prefix, by the runtime.
    fn wide_lpm_lookup(&mut self, id: TableId, table: &Table, key: &[Value]) -> Res<PointerValue<'c>> {
        let module = self.module;
        let control = module.control(self.ctx, id)?;
        let words = self.pack(table, key)?;
        let key = self.packed(table, &words)?;
        let call = module.call_out(module.lpm_lookup, &[control.into(), key.into()])?;
        Ok(module.runtime_result(call)?.into_pointer_value())
    }

    /// Inserts or replaces; 1 where the entry is there now. A refusal is counted.
    pub fn insert(&mut self, id: TableId, key: &[Value], value: &[Value], new: bool) -> Res<IntValue<'c>> {
        let module = self.module;
        let table = module.table(id)?;
        match table.kind {
            TableKind::Lpm => internal(format!("an insertion into `{}`, an lpm table", table.name)),
            TableKind::Array if new => internal(format!("a new entry of `{}`, which has them all", table.name)),
            TableKind::Array => {
                let (entry, in_range) = self.array_entry(id, table, key)?;
                let (store, refuse, done) = (self.new_block("store"), self.new_block("refuse"), self.new_block("done"));
                let branch = module.builder.build_conditional_branch(in_range, store, refuse)?;
                module.likely(branch)?;
                module.builder.position_at_end(store);
                let lock = if table.locked { Some(module.lock_in(entry, table.value)?) } else { None };
                if let Some(lock) = lock {
                    self.lock_at(lock)?;
                }
                self.store_fields(entry, table, value)?;
                if let Some(lock) = lock {
                    module.unlock_at(lock)?;
                }
                module.builder.build_unconditional_branch(done)?;
                module.builder.position_at_end(refuse);
                module.count_slot(self.ctx, module.slots.table_full(id))?;
                module.builder.build_unconditional_branch(done)?;
                module.builder.position_at_end(done);
                Ok(in_range)
            }
            TableKind::Hash => self.hash_insert(id, table, key, (value, new)),
        }
    }

    /// Removes a hash entry; 1 where it was there.
    pub fn remove(&mut self, id: TableId, key: &[Value]) -> Res<IntValue<'c>> {
        let module = self.module;
        let table = module.table(id)?;
        if table.kind != TableKind::Hash {
            return internal(format!("a removal from `{}`, which is no hash table", table.name));
        }
        self.hash_remove(id, table, key)
    }

    /// A field of an entry.
    pub fn entry_load(&self, entry: Value, field: u32) -> Res<IntValue<'c>> {
        let module = self.module;
        let (entry, layout) = self.entry(entry)?;
        let field = module.field(layout, field)?;
        let size = storage_size(field.width);
        let ptr = module.at(entry, field.offset.into())?;
        let stored = module.load_int(module.int(size * 8)?, ptr, align(size), Memory::Table)?;
        module.resize(stored, field.width)
    }

    /// Sets a field of an entry.
    pub fn entry_store(&self, entry: Value, field: u32, value: Value) -> Res<()> {
        let (entry, layout) = self.entry(entry)?;
        let field = self.module.field(layout, field)?;
        self.store_field(entry, field, value)
    }

    /// Sets the deadline of an entry, or takes it where it has come; 1 bit.
    pub fn deadline(&mut self, id: TableId, key: &[Value], at: Option<Value>) -> Res<IntValue<'c>> {
        let module = self.module;
        let table = module.table(id)?;
        let words = self.pack(table, key)?;
        let key = self.packed(table, &words)?;
        let deadlines = module.context_ptr(self.ctx, offset_of!(Context, deadlines))?;
        let number = module.i32.const_int(id.0.into(), false);
        let mut args = vec![deadlines.into(), number.into(), key.into(), module.now(self.ctx)?.into()];
        let function = match at {
            Some(at) => {
                args.push(self.int_of(at, 64)?.into());
                module.deadline_set
            }
            None => module.deadline_take,
        };
        let call = module.call_out(function, &args)?;
        module.resize(module.runtime_result(call)?.into_int_value(), 1)
    }

    /// Takes tokens from a meter; 1 where it holds them.
    pub fn meter_take(&self, entry: Value, amount: Value) -> Res<IntValue<'c>> {
        let module = self.module;
        let (cell, _) = self.entry(entry)?;
        let amount = self.int_of(amount, 64)?;
        let call = module.call_out(module.meter_take, &[cell.into(), module.now(self.ctx)?.into(), amount.into()])?;
        module.resize(module.runtime_result(call)?.into_int_value(), 1)
    }

    /// Adds to a cell of a user counter, if there is one with this index.
    pub fn count(&self, id: CounterId, index: Value, amount: Value) -> Res<()> {
        let module = self.module;
        let Some(counter) = module.program.counters.get(id.0 as usize) else {
            return internal(format!("there is no counter {}", id.0));
        };
        let (index, amount) = (self.int_of(index, 32)?, self.int_of(amount, 64)?);
        let size = module.i32.const_int(counter.size.into(), false);
        let in_range = module.builder.build_int_compare(IntPredicate::ULT, index, size, "")?;
        let (add, done) = (self.new_block("add"), self.new_block("done"));
        let branch = module.builder.build_conditional_branch(in_range, add, done)?;
        module.likely(branch)?;
        module.builder.position_at_end(add);
        let first = module.i32.const_int(module.slots.user(id) as u64, false);
        let slot = module.builder.build_int_add(first, index, "")?;
        module.add_to_slot(self.ctx, slot, amount)?;
        module.builder.build_unconditional_branch(done)?;
        module.builder.position_at_end(done);
        Ok(())
    }

    /// Address of an array's entry, and whether the index is in range (else the address means nothing).
    pub(super) fn array_entry(
        &self,
        id: TableId,
        table: &Table,
        key: &[Value],
    ) -> Res<(PointerValue<'c>, IntValue<'c>)> {
        let module = self.module;
        let index = self.scalar_key(table, key)?;
        let control = module.control(self.ctx, id)?;
        let entries = module.entries(control, offset_of!(ArrayTable, entries))?;
        let entry = module.element(entries, index, module.stride(table.value)?)?;
        let capacity = module.i32.const_int(table.capacity.into(), false);
        let in_range = module.builder.build_int_compare(IntPredicate::ULT, index, capacity, "")?;
        Ok((entry, in_range))
    }

    /// DIR-24-8, as [`LpmTable`] says: one load for most keys, two for prefixes longer than 24 bits.
    fn lpm_lookup(&self, id: TableId, table: &Table, key: &[Value]) -> Res<PointerValue<'c>> {
        let module = self.module;
        let builder = &module.builder;
        let constant = |value: u32| module.i32.const_int(value.into(), false);
        let key = self.scalar_key(table, key)?;
        let control = module.control(self.ctx, id)?;
        let tbl24 = module.entries(control, offset_of!(LpmTable, tbl24))?;
        let upper = builder.build_right_shift(key, constant(8), false, "")?;
        let first = module.load_shared(module.element(tbl24, upper, 4)?)?;
        let is_group = builder.build_int_compare(IntPredicate::UGE, first, constant(abi::LPM_GROUP), "")?;
        let (group, found) = (self.new_block("group"), self.new_block("found"));
        let before = self.here()?;
        let branch = builder.build_conditional_branch(is_group, group, found)?;
        module.unlikely(branch)?;

        builder.position_at_end(group);
        let tbl8 = module.entries(control, offset_of!(LpmTable, tbl8))?;
        let number = builder.build_and(first, constant(!abi::LPM_GROUP), "")?;
        let slots = module.element(tbl8, number, 256 * 4)?;
        let lower = builder.build_and(key, constant(0xff), "")?;
        let second = module.load_shared(module.element(slots, lower, 4)?)?;
        builder.build_unconditional_branch(found)?;

        builder.position_at_end(found);
        let phi = builder.build_phi(module.i32, "")?;
        phi.add_incoming(&[(&first, before), (&second, group)]);
        let slot = phi.as_basic_value().into_int_value();
        let default = module.load_shared(module.at(control, offset_of!(LpmTable, default_slot) as u64)?)?;
        let is_none = |slot| builder.build_int_compare(IntPredicate::EQ, slot, constant(0), "");
        let slot = module.select_int(is_none(slot)?, default, slot)?;
        let entries = module.entries(control, offset_of!(LpmTable, entries))?;
        let index = builder.build_int_sub(slot, constant(1), "")?;
        let entry = module.element(entries, index, module.stride(table.value)?)?;
        Ok(builder.build_select(is_none(slot)?, module.ptr.const_null(), entry, "")?.into_pointer_value())
    }

    /// The key of a table whose key is one 32-bit scalar.
    fn scalar_key(&self, table: &Table, key: &[Value]) -> Res<IntValue<'c>> {
        match key {
            [key] => self.int_of(*key, 32),
            _ => internal(format!("the key of `{}` is one number", table.name)),
        }
    }

    /// Writes a table's value as its layout says into its slot on the stack, padding and lock zero.
    pub(super) fn lay_out(&mut self, table: &Table, fields: &[Value]) -> Res<PointerValue<'c>> {
        let module = self.module;
        let id = table.value;
        let layout = module.layout(id)?;
        // The runtime may read it as the struct it is, so all of its alignment is needed.
        let slot = self.stack_slot(Scratch::Value(id), layout.size, layout.align.max(8))?;
        let given = layout.fields.iter().take(fields.len());
        if given.map(|field| storage_size(field.width)).sum::<u32>() < layout.size {
            module.zero_bytes(
                slot,
                align(layout.align),
                module.i64.const_int(layout.size.into(), false),
                Memory::Table,
            )?;
        }
        self.store_fields(slot, table, fields)?;
        Ok(slot)
    }

    /// Memory in the function's frame. In the prologue, so that a loop does not grow the stack.
    pub(super) fn stack_slot(&mut self, which: Scratch, size: u32, align: u32) -> Res<PointerValue<'c>> {
        if let Some(slot) = self.slots.get(&which) {
            return Ok(*slot);
        }
        let builder = &self.module.builder;
        let here = self.here()?;
        match self.prologue.get_first_instruction() {
            Some(first) => builder.position_before(&first),
            None => builder.position_at_end(self.prologue),
        }
        let slot = builder.build_alloca(self.module.i8.array_type(size), "")?;
        if let Some(inst) = slot.as_instruction() {
            inst.set_alignment(align).map_err(|error| CodegenError::Internal(error.to_string()))?;
        }
        builder.position_at_end(here);
        self.slots.insert(which, slot);
        Ok(slot)
    }

    /// Writes a value but for the lock.
    fn store_fields(&self, at: PointerValue<'c>, table: &Table, values: &[Value]) -> Res<()> {
        let layout = self.module.layout(table.value)?;
        if layout.fields.len() != values.len() + usize::from(table.locked) {
            return internal(format!("{} values for `{}`", values.len(), layout.name));
        }
        layout.fields.iter().zip(values).try_for_each(|(field, value)| self.store_field(at, field, *value))
    }

    fn store_field(&self, at: PointerValue<'c>, field: &LayoutField, value: Value) -> Res<()> {
        let module = self.module;
        let value = self.int_of(value, field.width)?;
        let size = storage_size(field.width);
        let ptr = module.at(at, field.offset.into())?;
        module.store(ptr, module.resize(value, size * 8)?, align(size), Memory::Table)
    }
}

impl<'c, 'p> Core<'c, 'p> {
    /// A table of the program.
    pub(crate) fn table(&self, id: TableId) -> Res<&'p Table> {
        let found = self.program.tables.get(id.0 as usize);
        found.ok_or_else(|| CodegenError::Internal(format!("there is no table {}", id.0)))
    }

    pub(crate) fn layout(&self, id: LayoutId) -> Res<&'p Layout> {
        let Some(layout) = self.program.layouts.get(id.0 as usize) else {
            return internal(format!("there is no layout {}", id.0));
        };
        if let Some(field) = layout.fields.iter().find(|field| !(1..=128).contains(&field.width)) {
            return internal(format!("field `{}` of `{}` has {} bits", field.name, layout.name, field.width));
        }
        Ok(layout)
    }

    pub(crate) fn field(&self, layout: LayoutId, field: u32) -> Res<&'p LayoutField> {
        let found = self.layout(layout)?.fields.get(field as usize);
        found.ok_or_else(|| CodegenError::Internal(format!("layout {} has no field {field}", layout.0)))
    }

    /// Bytes from one entry to the next.
    pub(crate) fn stride(&self, value: LayoutId) -> Res<u64> {
        self.layout(value)?;
        Ok(abi::stride(self.program, value) as u64)
    }
}

impl<'c> Module<'c, '_> {
    /// The time of the batch.
    pub(crate) fn now(&self, ctx: PointerValue<'c>) -> Res<IntValue<'c>> {
        self.load_constant_i64(self.at(ctx, offset_of!(Context, now) as u64)?, Memory::Context)
    }

    /// The table's control block.
    pub(crate) fn control(&self, ctx: PointerValue<'c>, id: TableId) -> Res<PointerValue<'c>> {
        let tables = self.context_ptr(ctx, offset_of!(Context, tables))?;
        self.load_constant_ptr(self.at(tables, u64::from(id.0) * size_of::<*mut u8>() as u64)?, Memory::Control)
    }

    /// A pointer in a control block.
    pub(crate) fn entries(&self, control: PointerValue<'c>, offset: usize) -> Res<PointerValue<'c>> {
        self.load_constant_ptr(self.at(control, offset as u64)?, Memory::Control)
    }
}

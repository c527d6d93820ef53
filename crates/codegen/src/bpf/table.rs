//! Tables: an entry is a number, where its value lies in the shared memory; 0 is null. See [`crate::kernel`].

use std::mem::offset_of;

use baker::ir::{LayoutField, Table, TableId, TableKind, Value, storage_size};
use inkwell::IntPredicate;
use inkwell::values::IntValue;

use super::Kernel;
use super::body::Ppf;
use crate::abi::{LPM_GROUP, LpmTable};
use crate::internal;
use crate::kernel::{Number, TableLocation};
use crate::lower::{Lowering, Memory, Res};

impl<'c> Kernel<'c, '_> {
    pub(super) fn long(&self, number: u64) -> IntValue<'c> {
        self.i64.const_int(number, false)
    }

    pub(super) fn table_location(&self, id: TableId) -> Res<TableLocation> {
        match self.memory.tables.get(id.0 as usize) {
            Some(location) => Ok(*location),
            None => internal(format!("table {} has no memory", id.0)),
        }
    }
}

impl<'c> Ppf<'_, 'c, '_> {
    /// The value under a key, or 0.
    pub(super) fn lookup(&mut self, id: TableId, key: &[Value]) -> Res<IntValue<'c>> {
        let kernel = self.kernel;
        let table = kernel.table(id)?;
        match (table.kind, kernel.table_location(id)?) {
            (TableKind::Array, _) => {
                let (entry, in_range) = self.array_entry(id, table, key)?;
                kernel.select_int(in_range, entry, kernel.long(0))
            }
            (TableKind::Lpm, location @ TableLocation::Lpm { .. }) => self.lpm_lookup(location, table, key),
            (TableKind::Lpm, location @ TableLocation::Trie { .. }) => self.trie_lookup(location, table, key),
            (TableKind::Hash, location @ TableLocation::Hash { .. }) => {
                let words = self.pack(table, key)?;
                Ok(self.hash_find(location, table, &words)?.value)
            }
            _ => internal(format!("`{}` cannot be looked up in the kernel", table.name)),
        }
    }

    /// Where an array's entry lies, and whether the index is in range (else the number means nothing).
    pub(super) fn array_entry(&self, id: TableId, table: &Table, key: &[Value]) -> Res<(IntValue<'c>, IntValue<'c>)> {
        let kernel = self.kernel;
        let builder = &kernel.builder;
        let index = self.scalar_key(table, key)?;
        let entries = match kernel.table_location(id)? {
            TableLocation::Array { entries } => kernel.long(entries),
            TableLocation::Published { control } => {
                let address = kernel.load_once(kernel.fixed(control)?, 64)?;
                builder.build_int_sub(address, kernel.late(Number::Base)?, "")?
            }
            location => return internal(format!("an array lies at {location:?}")),
        };
        let stride = kernel.long(kernel.stride(table.value)?);
        let distance = builder.build_int_mul(kernel.resize(index, 64)?, stride, "")?;
        let capacity = kernel.i32.const_int(table.capacity.into(), false);
        let in_range = builder.build_int_compare(IntPredicate::ULT, index, capacity, "")?;
        Ok((builder.build_int_add(entries, distance, "")?, in_range))
    }

    /// DIR-24-8, as [`LpmTable`] says.
    fn lpm_lookup(&self, location: TableLocation, table: &Table, key: &[Value]) -> Res<IntValue<'c>> {
        let TableLocation::Lpm { control, tbl24, tbl8, groups, entries } = location else {
            return internal("an lpm table that is none");
        };
        let kernel = self.kernel;
        let builder = &kernel.builder;
        let short = |value: u32| kernel.i32.const_int(value.into(), false);
        let key = self.scalar_key(table, key)?;
        let upper = builder.build_right_shift(key, short(8), false, "")?;
        let distance = builder.build_int_mul(kernel.resize(upper, 64)?, kernel.long(4), "")?;
        let slot = kernel.at_index(kernel.fixed(tbl24)?, kernel.masked(distance, (4 << 24) - 4)?)?;
        let first = kernel.load_once(slot, 32)?;
        let [group, found] = kernel.new_blocks(["group", "found"])?;
        let before = kernel.block()?;
        let is_group = builder.build_int_compare(IntPredicate::UGE, first, short(LPM_GROUP), "")?;
        kernel.unlikely(builder.build_conditional_branch(is_group, group, found)?)?;

        builder.position_at_end(group);
        let number = builder.build_int_mul(first, short(256), "")?;
        let low = builder.build_and(key, short(0xff), "")?;
        let number = kernel.resize(builder.build_or(number, low, "")?, 64)?;
        let distance = builder.build_int_mul(number, kernel.long(4), "")?;
        let distance = kernel.masked(distance, u64::from(groups) * 1024 - 4)?;
        let second = kernel.load_once(kernel.at_index(kernel.fixed(tbl8)?, distance)?, 32)?;
        let from_group = kernel.block()?;
        builder.build_unconditional_branch(found)?;

        builder.position_at_end(found);
        let phi = builder.build_phi(kernel.i32, "")?;
        phi.add_incoming(&[(&first, before), (&second, from_group)]);
        let slot = phi.as_basic_value().into_int_value();
        let default = kernel.load_once(kernel.fixed(control + offset_of!(LpmTable, default_slot) as u64)?, 32)?;
        let is_none = |slot| builder.build_int_compare(IntPredicate::EQ, slot, short(0), "");
        let slot = kernel.select_int(is_none(slot)?, default, slot)?;
        let index = builder.build_int_sub(slot, short(1), "")?;
        let stride = kernel.long(kernel.stride(table.value)?);
        let distance = builder.build_int_mul(kernel.resize(index, 64)?, stride, "")?;
        let entry = builder.build_int_add(distance, kernel.long(entries), "")?;
        kernel.select_int(is_none(slot)?, kernel.long(0), entry)
    }

    /// The key of a table whose key is one 32-bit scalar.
    pub(super) fn scalar_key(&self, table: &Table, key: &[Value]) -> Res<IntValue<'c>> {
        match key {
            [key] => self.int_of(*key, 32),
            _ => internal(format!("the key of `{}` is one number", table.name)),
        }
    }

    /// The words of a key: see [`crate::abi::pack_key`].
    pub(super) fn pack(&self, table: &Table, key: &[Value]) -> Res<Vec<IntValue<'c>>> {
        let key: Vec<_> = key.iter().map(|value| self.int(*value)).collect::<Res<_>>()?;
        self.kernel.pack(table, &key)
    }

    /// A field of an entry.
    pub(super) fn entry_load(&self, entry: Value, field: u32) -> Res<IntValue<'c>> {
        let kernel = self.kernel;
        let (entry, layout) = self.entry(entry)?;
        let field = kernel.field(layout, field)?;
        let size = storage_size(field.width);
        let ptr = kernel.at(kernel.found(entry)?, field.offset.into())?;
        let stored = kernel.load_int(kernel.int(size * 8)?, ptr, size.min(8), Memory::Table)?;
        self.most_of_port(layout, kernel.resize(stored, field.width)?)
    }

    /// Sets a field of an entry.
    pub(super) fn entry_store(&self, entry: Value, field: u32, value: Value) -> Res<()> {
        let (entry, layout) = self.entry(entry)?;
        let field = self.kernel.field(layout, field)?;
        self.store_field(entry, field, value)
    }

    fn store_field(&self, entry: IntValue<'c>, field: &LayoutField, value: Value) -> Res<()> {
        let kernel = self.kernel;
        let value = self.int_of(value, field.width)?;
        let size = storage_size(field.width);
        let ptr = kernel.at(kernel.found(entry)?, field.offset.into())?;
        kernel.store(ptr, kernel.resize(value, size * 8)?, size.min(8), Memory::Table)
    }

    /// Writes a value but for the lock.
    pub(super) fn store_fields(&self, entry: IntValue<'c>, table: &Table, values: &[Value]) -> Res<()> {
        let layout = self.kernel.layout(table.value)?;
        if layout.fields.len() != values.len() + usize::from(table.locked) {
            return internal(format!("{} values for `{}`", values.len(), layout.name));
        }
        layout.fields.iter().zip(values).try_for_each(|(field, value)| self.store_field(entry, field, *value))
    }
}

//! Hash tables: the look-up of the first bucket in line, the rest through the runtime. See [`HashTable`].
//!
//! ```text
//! hash(key) ─▶ bucket ─▶ a tag equal? ─yes─▶ its entry has the key? ─yes─▶ found
//!                            │no                        │no
//!                        spilled? ─yes──────────▶ call the runtime ─▶ found or null
//!                            │no
//!                           null
//! ```

use std::mem::offset_of;

use baker::ir::{Table, TableId, Value};
use inkwell::IntPredicate;
use inkwell::values::{BasicValueEnum, CallSiteValue, IntValue, PointerValue, VectorValue};

use super::body::{Ppf, Scratch};
use super::memory::{Memory, instruction};
use super::walk::Lowering;
use super::{Core, Module, Res};
use crate::abi::{HashBucket, HashEntry, HashTable, Inserted};
use crate::{CodegenError, internal};

impl<'c> Ppf<'_, 'c, '_> {
    /// The value under a key, or null.
    pub(super) fn hash_lookup(&mut self, id: TableId, table: &Table, key: &[Value]) -> Res<PointerValue<'c>> {
        let module = self.module;
        let builder = &module.builder;
        let entry = module.hash_entry(table)?;
        let words = self.pack(table, key)?;
        let control = module.control(self.ctx, id)?;
        let hash = module.hash_of(control, &words)?;
        let bucket = module.first_bucket(control, hash)?;
        let equal = module.equal_tags(bucket, hash)?;
        let any = builder.build_int_compare(IntPredicate::NE, equal, module.i32.const_zero(), "")?;
        let names = ["candidate", "none", "slow", "found"].map(|name| self.new_block(name));
        let [candidate, none, slow, found] = names;
        builder.build_conditional_branch(any, candidate, none)?;

        builder.position_at_end(candidate);
        let number = module.entry_number(bucket, equal)?;
        let zero = module.i32.const_zero();
        let used = builder.build_int_compare(IntPredicate::NE, number, zero, "")?;
        // There is always an entry 0 to read, though what it holds means nothing.
        let at =
            module.element(module.entries(control, offset_of!(HashTable, entries))?, number, entry.stride as u64)?;
        let same = module.has_key(used, at, &words)?;
        let value = module.at(at, entry.value_offset as u64)?;
        let from_candidate = self.here()?;
        module.likely(builder.build_conditional_branch(same, found, slow)?)?;

        builder.position_at_end(none);
        let spilled = module.at(bucket, offset_of!(HashBucket, spilled) as u64)?;
        let spilled = module.load_shared_in(module.i32, spilled, Memory::Table)?;
        let stays = builder.build_int_compare(IntPredicate::EQ, spilled, zero, "")?;
        module.likely(builder.build_conditional_branch(stays, found, slow)?)?;

        builder.position_at_end(slow);
        let key = self.packed(table, &words)?;
        let call = module.call_out(module.hash_lookup, &[control.into(), key.into()])?;
        let other = module.runtime_result(call)?.into_pointer_value();
        let from_slow = self.here()?;
        builder.build_unconditional_branch(found)?;

        builder.position_at_end(found);
        let result = builder.build_phi(module.ptr, "")?;
        result.add_incoming(&[(&value, from_candidate), (&module.ptr.const_null(), none), (&other, from_slow)]);
        Ok(result.as_basic_value().into_pointer_value())
    }

    /// Inserts or replaces, or leaves an entry that is there as it is where it is to be `new`; 1 where the value was
    /// stored. Where there is no room that is counted.
    pub(super) fn hash_insert(
        &mut self,
        id: TableId,
        table: &Table,
        key: &[Value],
        (value, new): (&[Value], bool),
    ) -> Res<IntValue<'c>> {
        let module = self.module;
        let builder = &module.builder;
        let control = module.control(self.ctx, id)?;
        let words = self.pack(table, key)?;
        let key = self.packed(table, &words)?;
        let value = self.lay_out(table, value)?;
        let new = module.context.i8_type().const_int(new.into(), false);
        let args = [control.into(), key.into(), value.into(), new.into()];
        let call = module.call_out(module.hash_insert, &args)?;
        let result = module.runtime_result(call)?.into_int_value();
        let is = |what: Inserted| {
            let what = result.get_type().const_int(what as u64, false);
            builder.build_int_compare(IntPredicate::EQ, result, what, "")
        };
        let (inserted, full) = (is(Inserted::Done)?, is(Inserted::Full)?);
        let (refuse, done) = (self.new_block("refuse"), self.new_block("done"));
        module.unlikely(builder.build_conditional_branch(full, refuse, done)?)?;
        builder.position_at_end(refuse);
        module.count_slot(self.ctx, module.slots.table_full(id))?;
        builder.build_unconditional_branch(done)?;
        builder.position_at_end(done);
        Ok(inserted)
    }

    /// Removes an entry; 1 where it was there.
    pub(super) fn hash_remove(&mut self, id: TableId, table: &Table, key: &[Value]) -> Res<IntValue<'c>> {
        let module = self.module;
        let control = module.control(self.ctx, id)?;
        let words = self.pack(table, key)?;
        let key = self.packed(table, &words)?;
        let call = module.call_out(module.hash_remove, &[control.into(), key.into()])?;
        let result = module.runtime_result(call)?.into_int_value();
        Ok(module.builder.build_int_compare(IntPredicate::NE, result, result.get_type().const_zero(), "")?)
    }

    /// The words of a key: see [`crate::abi::pack_key`].
    pub(super) fn pack(&self, table: &Table, key: &[Value]) -> Res<Vec<IntValue<'c>>> {
        let key: Vec<_> = key.iter().map(|value| self.int(*value)).collect::<Res<_>>()?;
        self.module.pack(table, &key)
    }

    /// A packed key in memory.
    pub(super) fn packed(&mut self, table: &Table, words: &[IntValue<'c>]) -> Res<PointerValue<'c>> {
        let slot = self.stack_slot(Scratch::Key(table.key), words.len() as u32 * 8, 8)?;
        for (index, word) in words.iter().enumerate() {
            self.module.store(self.module.at(slot, index as u64 * 8)?, *word, 8, Memory::Table)?;
        }
        Ok(slot)
    }
}

impl<'c> Core<'c, '_> {
    /// The words of a key: see [`crate::abi::pack_key`].
    pub(crate) fn pack(&self, table: &Table, key: &[IntValue<'c>]) -> Res<Vec<IntValue<'c>>> {
        let builder = &self.builder;
        let layout = self.layout(table.key)?;
        let widths = || key.iter().map(|value| value.get_type().get_bit_width());
        if !layout.fields.iter().map(|field| field.width).eq(widths()) {
            return internal(format!("the key of `{}` has other fields", table.name));
        }
        let count = self.hash_entry(table)?.key_words as u32;
        let ty = self.int(count * 64)?;
        let mut all = ty.const_zero();
        let mut at = 0;
        for value in key {
            let width = value.get_type().get_bit_width();
            let value = builder.build_left_shift(self.resize(*value, count * 64)?, ty.const_int(at, false), "")?;
            all = builder.build_or(all, value, "")?;
            at += u64::from(width);
        }
        let word = |index: u32| {
            let shifted = builder.build_right_shift(all, ty.const_int(u64::from(index) * 64, false), false, "")?;
            self.resize(shifted, 64)
        };
        (0..count).map(word).collect()
    }

    pub(crate) fn hash_entry(&self, table: &Table) -> Res<HashEntry> {
        Ok(HashEntry::new(self.layout(table.key)?, self.layout(table.value)?))
    }

    /// Whether an entry is used and begins with this packed key; 1 bit.
    pub(crate) fn has_key(
        &self,
        used: IntValue<'c>,
        entry: PointerValue<'c>,
        words: &[IntValue<'c>],
    ) -> Res<IntValue<'c>> {
        let mut same = used;
        for (index, word) in words.iter().enumerate() {
            let stored = self.load_int(self.i64, self.at(entry, index as u64 * 8)?, 8, Memory::Table)?;
            let equal = self.builder.build_int_compare(IntPredicate::EQ, stored, *word, "")?;
            same = self.builder.build_and(same, equal, "")?;
        }
        Ok(same)
    }
}

impl<'c> Module<'c, '_> {
    /// [`crate::abi::hash_key`].
    pub(super) fn hash_of(&self, control: PointerValue<'c>, words: &[IntValue<'c>]) -> Res<IntValue<'c>> {
        let builder = &self.builder;
        let seed = offset_of!(HashTable, seed) as u64;
        let mut hash = self.load_constant_i64(self.at(control, seed)?, Memory::Control)?;
        let multiplier = self.load_constant_i64(self.at(control, seed + 8)?, Memory::Control)?;
        let multiplier = self.resize(multiplier, 128)?;
        for word in words {
            let mixed = builder.build_xor(hash, *word, "")?;
            let product = builder.build_int_mul(self.resize(mixed, 128)?, multiplier, "")?;
            let shift = product.get_type().const_int(64, false);
            let high = self.resize(builder.build_right_shift(product, shift, false, "")?, 64)?;
            hash = builder.build_xor(self.resize(product, 64)?, high, "")?;
        }
        Ok(hash)
    }

    /// [`crate::abi::first_bucket`].
    pub(super) fn first_bucket(&self, control: PointerValue<'c>, hash: IntValue<'c>) -> Res<PointerValue<'c>> {
        let builder = &self.builder;
        let buckets =
            self.load_constant_ptr(self.at(control, offset_of!(HashTable, buckets) as u64)?, Memory::Control)?;
        let mask =
            self.load_constant_i64(self.at(control, offset_of!(HashTable, bucket_mask) as u64)?, Memory::Control)?;
        let size = self.i64.const_int(size_of::<HashBucket>() as u64, false);
        let bytes = builder.build_and(builder.build_int_mul(hash, size, "")?, mask, "")?;
        self.at_index(buckets, bytes)
    }

    /// Two bits per slot (32 bits) of the bucket, both set where its tag is that of the hash.
    pub(super) fn equal_tags(&self, bucket: PointerValue<'c>, hash: IntValue<'c>) -> Res<IntValue<'c>> {
        let builder = &self.builder;
        let lanes = self.context.i16_type().vec_type(8);
        // Each tag is read as it was at some time, for it lies in one word; volatile, so that it is read once.
        let tags = self.load(lanes, bucket, 16, Memory::Table)?;
        instruction(tags)?.set_volatile(true).map_err(|error| CodegenError::Internal(error.to_string()))?;
        let tag = builder.build_right_shift(hash, self.i64.const_int(32, false), false, "")?;
        let tag = self.resize(tag, 16)?;
        let first = builder.build_insert_element(lanes.get_undef(), tag, self.i64.const_zero(), "")?;
        let everywhere = self.i32.vec_type(8).const_zero();
        let pattern = builder.build_shuffle_vector(first, lanes.get_undef(), everywhere, "")?;
        let equal = builder.build_int_compare(IntPredicate::EQ, tags.into_vector_value(), pattern, "")?;
        let equal = builder.build_int_s_extend(equal, lanes, "")?;
        let bytes = builder.build_bit_cast(equal, self.i8.vec_type(16), "")?.into_vector_value();
        self.sign_bits(bytes)
    }

    /// The sign bits of 16 bytes; 32 bits.
    fn sign_bits(&self, bytes: VectorValue<'c>) -> Res<IntValue<'c>> {
        if cfg!(target_arch = "x86_64") {
            // By name, for LLVM prefers mask registers, from which it takes longer.
            return self.intrinsic("llvm.x86.sse2.pmovmskb.128", &[], &[bytes.into()]);
        }
        let negative = self.builder.build_int_compare(IntPredicate::SLT, bytes, bytes.get_type().const_zero(), "")?;
        let bits = self.builder.build_bit_cast(negative, self.context.i16_type(), "")?.into_int_value();
        self.resize(bits, 32)
    }

    /// The entry number in the first slot whose bits are set in `equal`; some are.
    pub(super) fn entry_number(&self, bucket: PointerValue<'c>, equal: IntValue<'c>) -> Res<IntValue<'c>> {
        let numbers = self.at(bucket, offset_of!(HashBucket, entries) as u64)?;
        // Two bits per slot, four bytes per number.
        self.load_shared_in(self.i32, self.element(numbers, self.lowest_bit(equal)?, 2)?, Memory::Table)
    }

    /// Index (32 bits) of the lowest bit that is set in 32 bits; there is one.
    fn lowest_bit(&self, bits: IntValue<'c>) -> Res<IntValue<'c>> {
        let zero_is_poison = self.context.bool_type().const_int(1, false);
        self.intrinsic("llvm.cttz", &[self.i32.into()], &[bits.into(), zero_is_poison.into()])
    }

    /// What a call of the runtime gave. The call touches table memory and nothing else that generated code sees.
    pub(super) fn runtime_result(&self, call: CallSiteValue<'c>) -> Res<BasicValueEnum<'c>> {
        let Some(value) = call.try_as_basic_value().basic() else {
            return internal("a call of the runtime without a value");
        };
        self.tag(instruction(value)?, Memory::Table)?;
        Ok(value)
    }
}

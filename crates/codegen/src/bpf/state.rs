//! What is known of the packet under way: memory on the stack, in registers once all is inlined. What parts of a
//! program hand on lies in the memory of the CPU instead, all the time: see [`Carried`].

use std::mem::offset_of;

use baker::ir::{MetaField, MetaId, Program, storage_size};
use inkwell::values::{BasicValueEnum, IntValue, PointerValue};

use super::Kernel;
use crate::kernel::{Carried, Memory as Shared};
use crate::lower::{Memory, Res};
use crate::{CodegenError, internal};

/// A field of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// Pointer to the frame's first byte, as the kernel has it.
    Data,
    /// Pointer behind its last byte.
    End,
    /// Pointer to the packet's head.
    Head,
    /// Bytes from the frame's first byte to the head, 64 bits.
    Offset,
    /// What becomes of the packet: [`crate::kernel::Verdict`], 64 bits.
    Verdict,
    /// The channel by which it goes on outside of the kernel, plus 1; 0: it does not. 64 bits.
    Punted,
    /// Pointer to the counters of this CPU.
    Counters,
    /// The time, 64 bits.
    Now,
    /// Bytes of the frame, 64 bits, where packets may come in several fragments ([`super::fragments`]).
    Total,
}

/// Where things lie in the state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields {
    metadata: u32,
    pub size: u32,
}

impl Fields {
    pub fn new(program: &Program) -> Self {
        let metadata = 8 * (Field::Total as u32 + 1);
        let metadata = metadata.next_multiple_of(16);
        Fields { metadata, size: metadata + program.metadata_size }
    }
}

impl<'c> Kernel<'c, '_> {
    fn slot(&self, state: PointerValue<'c>, field: Field) -> Res<PointerValue<'c>> {
        match field {
            Field::Now if self.part.is_some() => self.carried(state, offset_of!(Carried, now)),
            _ => self.at(state, field as u64 * 8),
        }
    }

    /// A place in [`Carried`], or behind it.
    pub(super) fn carried(&self, state: PointerValue<'c>, at: usize) -> Res<PointerValue<'c>> {
        let own = self.pointer(state, Field::Counters)?;
        self.at(own, Shared::carried(self.program) + at as u64)
    }

    /// A pointer in the state.
    pub(super) fn pointer(&self, state: PointerValue<'c>, field: Field) -> Res<PointerValue<'c>> {
        Ok(self.load(self.ptr, self.slot(state, field)?, 8, Memory::Descriptor)?.into_pointer_value())
    }

    /// A number in the state.
    pub(super) fn number(&self, state: PointerValue<'c>, field: Field) -> Res<IntValue<'c>> {
        self.load_int(self.i64, self.slot(state, field)?, 8, Memory::Descriptor)
    }

    /// Bytes from the frame's first one to the head, 64 bits: none at traffic control where no head moves, so that all
    /// places in headers are known.
    pub(super) fn offset(&self, state: PointerValue<'c>) -> Res<IntValue<'c>> {
        if self.head_stays { Ok(self.i64.const_zero()) } else { self.number(state, Field::Offset) }
    }

    /// Sets a field of the state.
    pub(super) fn set(&self, state: PointerValue<'c>, field: Field, value: impl Into<BasicValueEnum<'c>>) -> Res<()> {
        let store = self.builder.build_store(self.slot(state, field)?, value.into())?;
        self.tag(store, Memory::Descriptor)
    }

    fn meta(&self, state: PointerValue<'c>, id: MetaId) -> Res<(PointerValue<'c>, &MetaField)> {
        let Some(field) = self.program.metadata.get(id.0 as usize) else {
            return internal(format!("there is no metadata {}", id.0));
        };
        let address = match self.part {
            Some(_) => self.carried(state, size_of::<Carried>() + field.offset as usize)?,
            None => self.at(state, u64::from(self.fields.metadata) + u64::from(field.offset))?,
        };
        Ok((address, field))
    }

    /// Metadata of the packet.
    pub(super) fn meta_load(&self, state: PointerValue<'c>, id: MetaId) -> Res<IntValue<'c>> {
        let (ptr, field) = self.meta(state, id)?;
        let size = storage_size(field.width);
        let stored = self.load_int(self.int(size * 8)?, ptr, size.min(8), Memory::Descriptor)?;
        self.resize(stored, field.width)
    }

    /// Sets metadata of the packet.
    pub(super) fn meta_store(&self, state: PointerValue<'c>, id: MetaId, value: IntValue<'c>) -> Res<()> {
        let (ptr, field) = self.meta(state, id)?;
        let size = storage_size(field.width);
        if value.get_type().get_bit_width() != field.width {
            return internal(format!("metadata of {} bits set to {}", field.width, value.get_type()));
        }
        self.store(ptr, self.resize(value, size * 8)?, size.min(8), Memory::Descriptor)
    }

    /// A place in the memory that the process sees, at a constant distance.
    pub(super) fn fixed(&self, at: u64) -> Res<PointerValue<'c>> {
        self.at(self.map(crate::kernel::MapUse::Memory)?, at)
    }

    /// The place in the memory at a distance (64 bits) that the verifier knows to lie inside.
    pub(super) fn index(&self, at: IntValue<'c>) -> Res<PointerValue<'c>> {
        self.at_index(self.map(crate::kernel::MapUse::Memory)?, at)
    }

    /// The place in the memory at a distance (64 bits) found at run time, of which nothing has to be known.
    pub(super) fn found(&self, at: IntValue<'c>) -> Res<PointerValue<'c>> {
        self.found_aligned(at, 1)
    }

    /// As [`Kernel::found`], where the distance is a multiple of `align`: atomic operations ask for it.
    pub(super) fn found_aligned(&self, at: IntValue<'c>, align: u64) -> Res<PointerValue<'c>> {
        self.index(self.masked(at, self.memory.reach & !(align - 1))?)
    }

    /// A load that is neither left out nor done twice, of what the process may change at any time.
    pub(super) fn load_once(&self, ptr: PointerValue<'c>, bits: u32) -> Res<IntValue<'c>> {
        let value = self.load_int(self.int(bits)?, ptr, bits / 8, Memory::Control)?;
        self.volatile(value.into())?;
        Ok(value)
    }

    /// A store that is done, once, and there.
    pub(super) fn store_once(&self, at: PointerValue<'c>, value: IntValue<'c>) -> Res<()> {
        let store = self.builder.build_store(at, value)?;
        store.set_volatile(true).map_err(|error| CodegenError::Internal(error.to_string()))
    }

    /// Adds to a counter of this CPU, which only this program on this CPU writes.
    pub(super) fn add_to(&self, cell: PointerValue<'c>, amount: IntValue<'c>) -> Res<()> {
        let old = self.load_int(self.i64, cell, 8, Memory::Counter)?;
        self.store(cell, self.builder.build_int_add(old, amount, "")?, 8, Memory::Counter)
    }

    /// Adds 1 to a slot of [`baker::ir::CounterSlots`].
    pub(super) fn count_slot(&self, state: PointerValue<'c>, slot: usize) -> Res<()> {
        let counters = self.pointer(state, Field::Counters)?;
        self.add_to(self.at(counters, slot as u64 * 8)?, self.i64.const_int(1, false))
    }
}

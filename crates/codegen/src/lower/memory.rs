//! Loads and stores, and what kind of memory each touches.
//!
//! Packets, descriptors, counters, tables and the context never overlap, but LLVM cannot know it: all are reached
//! through pointers loaded from memory. Each access therefore carries a type (TBAA): accesses of different types do not
//! alias, so a store to a header leaves the descriptor's fields in registers.

use baker::ir::Counts;
use inkwell::AtomicOrdering;
use inkwell::context::Context;
use inkwell::types::{BasicTypeEnum, IntType};
use inkwell::values::{BasicValueEnum, InstructionValue, IntValue, MetadataValue, PointerValue};

use super::{Core, Res};
use crate::CodegenError;

/// A kind of memory, disjoint from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// [`crate::abi::Context`].
    Context,
    /// The list of frame numbers of the batch, or of keys for a timer.
    Batch,
    /// Descriptors and metadata.
    Descriptor,
    /// Packet bytes.
    Frame,
    /// The worker's counters.
    Counter,
    /// Table entries, buckets of hash tables, and what is handed to functions outside: keys, values, arguments.
    Table,
    /// The lists of tables and externs, their control blocks, and the slots of `lpm` tables.
    Control,
    /// The stack of free frames.
    Free,
    /// The list of packets that leave.
    Output,
    /// Records of packets whose look-ups are staged.
    Record,
}

const KINDS: [(Memory, &str); 10] = [
    (Memory::Context, "context"),
    (Memory::Batch, "batch"),
    (Memory::Descriptor, "descriptor"),
    (Memory::Frame, "frame"),
    (Memory::Counter, "counter"),
    (Memory::Table, "table"),
    (Memory::Control, "control"),
    (Memory::Free, "free"),
    (Memory::Output, "output"),
    (Memory::Record, "record"),
];

/// Metadata nodes of the module.
pub(super) struct Tags<'c> {
    kinds: Vec<MetadataValue<'c>>,
    empty: MetadataValue<'c>,
    unlikely: MetadataValue<'c>,
    likely: MetadataValue<'c>,
    tbaa: u32,
    invariant: u32,
    non_null: u32,
    prof: u32,
}

impl<'c> Tags<'c> {
    pub fn new(context: &'c Context) -> Self {
        let zero = context.i64_type().const_zero();
        let root = context.metadata_node(&[context.metadata_string("millrace").into()]);
        let kinds = KINDS
            .iter()
            .map(|(_, name)| {
                let ty = context.metadata_node(&[context.metadata_string(name).into(), root.into(), zero.into()]);
                context.metadata_node(&[ty.into(), ty.into(), zero.into()])
            })
            .collect();
        Tags {
            kinds,
            empty: context.metadata_node(&[]),
            unlikely: weights(context, 1, 2000),
            likely: weights(context, 2000, 1),
            tbaa: context.get_kind_id("tbaa"),
            invariant: context.get_kind_id("invariant.load"),
            non_null: context.get_kind_id("nonnull"),
            prof: context.get_kind_id("prof"),
        }
    }
}

/// An attachment that LLVM refuses is a fault of ours. How often a branch takes its first destination and its second.
fn weights(context: &Context, first: u64, second: u64) -> MetadataValue<'_> {
    let i32_type = context.i32_type();
    context.metadata_node(&[
        context.metadata_string("branch_weights").into(),
        i32_type.const_int(first, false).into(),
        i32_type.const_int(second, false).into(),
    ])
}

fn attach<'c>(inst: InstructionValue<'c>, node: MetadataValue<'c>, kind: u32) -> Res<()> {
    inst.set_metadata(node, kind).map_err(|error| CodegenError::Internal(error.to_string()))
}

impl<'c> Core<'c, '_> {
    /// Says which memory an instruction touches.
    pub fn tag(&self, inst: InstructionValue<'c>, memory: Memory) -> Res<()> {
        attach(inst, self.tags.kinds[memory as usize], self.tags.tbaa)
    }

    /// Says that a branch is unlikely to take its first destination.
    pub fn unlikely(&self, branch: InstructionValue<'c>) -> Res<()> {
        attach(branch, self.tags.unlikely, self.tags.prof)
    }

    /// Says that a branch is likely to take its first destination.
    pub fn likely(&self, branch: InstructionValue<'c>) -> Res<()> {
        attach(branch, self.tags.likely, self.tags.prof)
    }

    /// Says how often the branch at the end of the block that is being built took either destination, by a profile.
    pub fn weigh(&self, counts: Counts) -> Res<()> {
        let end = self.block()?.get_terminator();
        let Some(branch) = end.filter(|end| end.get_num_operands() == 3 && counts.taken != [0, 0]) else {
            return Ok(());
        };
        // LLVM's weights have 32 bits, and a destination of weight 0 is one that is never taken.
        let [then, other] = counts.taken.map(|taken| u32::try_from(taken).unwrap_or(u32::MAX).saturating_add(1).into());
        attach(branch, weights(self.context, then, other), self.tags.prof)
    }

    /// A load.
    pub fn load(
        &self,
        ty: impl Into<BasicTypeEnum<'c>>,
        ptr: PointerValue<'c>,
        align: u32,
        memory: Memory,
    ) -> Res<BasicValueEnum<'c>> {
        let value = self.builder.build_load(ty.into(), ptr, "")?;
        let inst = instruction(value)?;
        inst.set_alignment(align).map_err(|error| CodegenError::Internal(error.to_string()))?;
        self.tag(inst, memory)?;
        Ok(value)
    }

    /// A load of an integer.
    pub fn load_int(&self, ty: IntType<'c>, ptr: PointerValue<'c>, align: u32, memory: Memory) -> Res<IntValue<'c>> {
        Ok(self.load(ty, ptr, align, memory)?.into_int_value())
    }

    /// A load of 32 bits in a slot of an `lpm` table: see [`Module::load_shared_in`].
    pub fn load_shared(&self, ptr: PointerValue<'c>) -> Res<IntValue<'c>> {
        self.load_shared_in(self.i32, ptr, Memory::Control)
    }

    /// A load of 32 or 64 bits that another thread may store at any time. LLVM does an unordered load at most once, yet
    /// moves other accesses across it; the accesses that depend on its value come after it on all processors.
    pub fn load_shared_in(&self, ty: IntType<'c>, ptr: PointerValue<'c>, memory: Memory) -> Res<IntValue<'c>> {
        let value = self.load_int(ty, ptr, ty.get_bit_width() / 8, memory)?;
        instruction(value.into())?
            .set_atomic_ordering(AtomicOrdering::Unordered)
            .map_err(|error| CodegenError::Internal(error.to_string()))?;
        Ok(value)
    }

    /// Says that a load is done as it is written.
    pub(crate) fn volatile(&self, load: BasicValueEnum<'c>) -> Res<()> {
        instruction(load)?.set_volatile(true).map_err(|error| CodegenError::Internal(error.to_string()))
    }

    /// A load of a pointer that is not null and does not change while a batch runs.
    pub fn load_constant_ptr(&self, ptr: PointerValue<'c>, memory: Memory) -> Res<PointerValue<'c>> {
        let value = self.load(self.ptr, ptr, 8, memory)?;
        attach(instruction(value)?, self.tags.empty, self.tags.invariant)?;
        attach(instruction(value)?, self.tags.empty, self.tags.non_null)?;
        Ok(value.into_pointer_value())
    }

    /// A load of 64 bits that do not change while a batch runs.
    pub fn load_constant_i64(&self, ptr: PointerValue<'c>, memory: Memory) -> Res<IntValue<'c>> {
        let value = self.load_int(self.i64, ptr, 8, memory)?;
        attach(instruction(value.into())?, self.tags.empty, self.tags.invariant)?;
        Ok(value)
    }

    /// A store.
    pub fn store(&self, ptr: PointerValue<'c>, value: IntValue<'c>, align: u32, memory: Memory) -> Res<()> {
        let inst = self.builder.build_store(ptr, value)?;
        inst.set_alignment(align).map_err(|error| CodegenError::Internal(error.to_string()))?;
        self.tag(inst, memory)
    }

    /// A copy between places that do not overlap.
    pub fn copy_bytes(
        &self,
        to: PointerValue<'c>,
        from: PointerValue<'c>,
        align: u32,
        bytes: IntValue<'c>,
        memory: Memory,
    ) -> Res<()> {
        let call = self.builder.build_memcpy(to, align, from, align, bytes)?;
        self.tag(instruction_of_ptr(call)?, memory)
    }

    /// Sets `bytes` (64 bits) bytes to zero.
    pub fn zero_bytes(&self, to: PointerValue<'c>, align: u32, bytes: IntValue<'c>, memory: Memory) -> Res<()> {
        let call = self.builder.build_memset(to, align, self.i8.const_zero(), bytes)?;
        self.tag(instruction_of_ptr(call)?, memory)
    }

    /// `ptr` + `bytes`, inside one object.
    pub fn at(&self, ptr: PointerValue<'c>, bytes: u64) -> Res<PointerValue<'c>> {
        self.at_index(ptr, self.i64.const_int(bytes, false))
    }

    /// `ptr` + `bytes` (64 bits), inside one object.
    pub fn at_index(&self, ptr: PointerValue<'c>, bytes: IntValue<'c>) -> Res<PointerValue<'c>> {
        // SAFETY: one index into a pointer to bytes, which is what such a pointer takes.
        Ok(unsafe { self.builder.build_in_bounds_gep(self.i8, ptr, &[bytes], "")? })
    }

    /// Address of element `index` (32 bits, unsigned) of an array of elements of `stride` bytes.
    pub fn element(&self, array: PointerValue<'c>, index: IntValue<'c>, stride: u64) -> Res<PointerValue<'c>> {
        let index = self.resize(index, 64)?;
        let bytes = self.builder.build_int_nuw_mul(index, self.i64.const_int(stride, false), "")?;
        self.at_index(array, bytes)
    }
}

/// The instruction that made a value.
pub(crate) fn instruction<'c>(value: BasicValueEnum<'c>) -> Res<InstructionValue<'c>> {
    use inkwell::values::BasicValue;
    value.as_instruction_value().ok_or_else(|| CodegenError::Internal("a value without an instruction".into()))
}

fn instruction_of_ptr<'c>(value: PointerValue<'c>) -> Res<InstructionValue<'c>> {
    value.as_instruction().ok_or_else(|| CodegenError::Internal("a call without an instruction".into()))
}

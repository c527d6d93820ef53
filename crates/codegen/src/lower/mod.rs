//! IR to LLVM IR, straight: a packet is the pointer to its descriptor, and each access reads the head from it.
//!
//! The whole program becomes one module, or two (`units.rs`). Each PPF is a function of context and descriptor; a put
//! to a channel that leads to a PPF is a call, which LLVM inlines where that is worth it (`inline.rs`). For each
//! channel by which packets enter, one function loops over a batch, and for each timer one over keys.

mod arith;
mod bits;
mod body;
mod call;
mod hash;
mod hold;
mod inline;
mod intrinsic;
mod length;
mod lock;
mod memory;
mod out_of_line;
mod packet;
mod rounds;
mod run;
mod share;
mod stage;
mod sum;
mod table;
mod time;
mod timer;
mod units;
mod walk;

use baker::ir::{ChannelId, CounterSlots, Program};
use baker::opt::share::{Copies, copies};
use baker::opt::stage::Plan;
use inkwell::AddressSpace;
use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::basic_block::BasicBlock;
use inkwell::builder::Builder;
use inkwell::context::Context;
use inkwell::module::{Linkage, Module as LlvmModule};
use inkwell::types::{FunctionType, IntType, PointerType};
use inkwell::values::{FunctionValue, IntValue, PointerValue};
use std::cell::Cell;
use std::num::NonZeroU32;
use std::ops::Deref;

use crate::target::Host;
use crate::{CodegenError, abi, internal};
pub(crate) use body::named;
pub(crate) use memory::Memory;
use memory::Tags;
pub(crate) use units::Units;
pub(crate) use walk::{ControlFlow, Lowering, Walk, pointer_param};

/// Symbol of the function for packets that enter by this channel, an [`abi::RunFn`].
pub(crate) fn entry_symbol(channel: ChannelId) -> String {
    if channel == Program::RX { "millrace_run".into() } else { format!("millrace_run_{}", channel.0) }
}

/// Symbol of the function of the timer with this number, an [`abi::TimerFn`].
pub(crate) fn timer_symbol(index: usize) -> String {
    format!("millrace_timer_{index}")
}

/// Symbol of the PPF with this number, where it is a function of its own.
pub(crate) fn ppf_symbol(ppf: usize) -> String {
    format!("millrace_ppf_{ppf}")
}

/// Symbol of the pointer to it.
pub(crate) fn ppf_at_symbol(ppf: usize) -> String {
    format!("millrace_ppf_at_{ppf}")
}

/// Symbol of the function that takes a batch's packets up to their first effects.
pub(crate) const STAGE: &str = "millrace_stage";
/// Symbol of the pointer to it.
pub(crate) const STAGE_AT: &str = "millrace_stage_at";
/// Symbol of [`abi::Runtime::hash_lookup`].
pub(crate) const HASH_LOOKUP: &str = "millrace_hash_lookup";
/// Symbol of [`abi::Runtime::hash_insert`].
pub(crate) const HASH_INSERT: &str = "millrace_hash_insert";
/// Symbol of [`abi::Runtime::hash_remove`].
pub(crate) const HASH_REMOVE: &str = "millrace_hash_remove";
/// Symbol of [`abi::Runtime::lpm_lookup`].
pub(crate) const LPM_LOOKUP: &str = "millrace_lpm_lookup";
/// Symbol of [`abi::Runtime::meter_take`].
pub(crate) const METER_TAKE: &str = "millrace_meter_take";
/// Symbol of [`abi::Runtime::deadline_set`].
pub(crate) const DEADLINE_SET: &str = "millrace_deadline_set";
/// Symbol of [`abi::Runtime::deadline_take`].
pub(crate) const DEADLINE_TAKE: &str = "millrace_deadline_take";
/// Symbol of [`abi::Runtime::hold_put`].
pub(crate) const HOLD_PUT: &str = "millrace_hold_put";
/// Symbol of [`abi::Runtime::hold_get`].
pub(crate) const HOLD_GET: &str = "millrace_hold_get";
/// Name of the function that copies a packet.
const PACKET_COPY: &str = "packet.copy";
/// Name of the function that lets go of a packet.
const PACKET_RELEASE: &str = "packet.release";
/// Name of the function that lets go of a frame.
const FRAME_RELEASE: &str = "frame.release";

pub(crate) type Res<T> = Result<T, CodegenError>;

/// Lowers a unit of a program, its look-ups staged where there is a plan. The module is not yet verified or optimised
/// by LLVM.
pub(crate) fn lower<'c>(
    context: &'c Context,
    program: &Program,
    plan: Option<&Plan>,
    (units, unit): (&Units, usize),
    host: &Host,
) -> Res<LlvmModule<'c>> {
    let mut module = Module::new(context, program, plan, host);
    module.define_out_of_line()?;
    let members = units.members(program, unit);
    module.declare_ppfs(units, &members)?;
    for index in members {
        if let Callee::Here(function) = module.ppfs[index] {
            let plan = plan.filter(|plan| plan.root.0 as usize == index);
            body::lower_ppf(&module, index, function, plan.map(stage::Part::Rest))?;
        }
    }
    if unit == 0 {
        for channel in program.entries() {
            module.define_run(channel)?;
        }
        for (index, timer) in program.timers.iter().enumerate() {
            module.define_timer(index, timer)?;
        }
    } else if let Some(plan) = plan {
        module.define_stage(plan)?;
    }
    Ok(module.core.llvm)
}

/// What the lowering of every function shares, whatever processor it is for.
pub(crate) struct Core<'c, 'p> {
    pub program: &'p Program,
    pub slots: CounterSlots,
    pub context: &'c Context,
    pub llvm: LlvmModule<'c>,
    pub builder: Builder<'c>,
    tags: Tags<'c>,
    pub ptr: PointerType<'c>,
    pub i8: IntType<'c>,
    pub i32: IntType<'c>,
    pub i64: IntType<'c>,
    /// What the processor has no instructions for, and LLVM no code either.
    pub missing: Missing,
    /// Memory for what it lacks, in the function that is being built.
    pub scratch: Cell<Option<PointerValue<'c>>>,
    /// Put on every function.
    attributes: Vec<Attribute>,
}

/// What a processor has no instructions for, so that it is put together from what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    Nothing,
    /// Arithmetic beyond 64 bits other than addition, and signed division.
    Wide,
}

/// What the lowering of every function to native code shares.
struct Module<'c, 'p> {
    core: Core<'c, 'p>,
    /// How the look-ups of the PPF behind `rx` are staged.
    plan: Option<&'p Plan>,
    /// See `out_of_line.rs`.
    hash_lookup: FunctionValue<'c>,
    hash_insert: FunctionValue<'c>,
    hash_remove: FunctionValue<'c>,
    lpm_lookup: FunctionValue<'c>,
    meter_take: FunctionValue<'c>,
    deadline_set: FunctionValue<'c>,
    deadline_take: FunctionValue<'c>,
    packet_copy: FunctionValue<'c>,
    packet_release: FunctionValue<'c>,
    frame_release: FunctionValue<'c>,
    hold_put: FunctionValue<'c>,
    hold_get: FunctionValue<'c>,
    /// What copies need for themselves, and whether any of them may share.
    copies: Copies,
    shares: bool,
    /// One per PPF.
    ppfs: Vec<Callee<'c>>,
}

/// How a PPF is called.
#[derive(Clone, Copy)]
enum Callee<'c> {
    /// It is in this module.
    Here(FunctionValue<'c>),
    /// It is in another one, or it is not called.
    Elsewhere(FunctionType<'c>),
}

impl<'c, 'p> Deref for Module<'c, 'p> {
    type Target = Core<'c, 'p>;

    fn deref(&self) -> &Core<'c, 'p> {
        &self.core
    }
}

impl<'c, 'p> Module<'c, 'p> {
    fn new(context: &'c Context, program: &'p Program, plan: Option<&'p Plan>, host: &Host) -> Self {
        let llvm = context.create_module(&program.name);
        host.prepare(&llvm);
        let attributes = vec![
            enum_attribute(context, "nounwind", 0),
            context.create_string_attribute("target-cpu", &host.cpu),
            context.create_string_attribute("target-features", &host.features),
        ];
        let core = Core::new(context, program, llvm, attributes, Missing::Nothing);
        let Core { ptr, i8, i32, i64, .. } = core;
        let outside = |name: &str, ty| out_of_line::declare(context, &core.llvm, &core.attributes, name, ty);
        let hash_lookup = outside(HASH_LOOKUP, ptr.fn_type(&[ptr.into(), ptr.into()], false));
        let hash_insert = outside(HASH_INSERT, i8.fn_type(&[ptr.into(), ptr.into(), ptr.into(), i8.into()], false));
        let hash_remove = outside(HASH_REMOVE, i8.fn_type(&[ptr.into(), ptr.into()], false));
        let lpm_lookup = outside(LPM_LOOKUP, ptr.fn_type(&[ptr.into(), ptr.into()], false));
        let meter_take = outside(METER_TAKE, i8.fn_type(&[ptr.into(), i64.into(), i64.into()], false));
        let key_and_now = [ptr.into(), i32.into(), ptr.into(), i64.into()];
        let deadline_take = outside(DEADLINE_TAKE, i8.fn_type(&key_and_now, false));
        let with_deadline: Vec<_> = key_and_now.into_iter().chain([i64.into()]).collect();
        let deadline_set = outside(DEADLINE_SET, i8.fn_type(&with_deadline, false));
        let packet_copy = outside(PACKET_COPY, ptr.fn_type(&[ptr.into(), ptr.into(), i32.into()], false));
        let void = context.void_type();
        let packet_release = outside(PACKET_RELEASE, void.fn_type(&[ptr.into(), ptr.into()], false));
        let release = void.fn_type(&[ptr.into(), core.i32.into()], false);
        let frame_release = core.llvm.add_function(FRAME_RELEASE, release, Some(Linkage::Internal));
        core.decorate(frame_release);
        let runtime = |name: &str, ty| {
            let function = core.llvm.add_function(name, ty, Some(Linkage::External));
            core.attribute(function, AttributeLoc::Function, "nounwind", 0);
            function
        };
        let hold_put = runtime(HOLD_PUT, i8.fn_type(&[ptr.into(), ptr.into(), ptr.into(), i64.into()], false));
        let hold_get = runtime(HOLD_GET, ptr.fn_type(&[ptr.into(), ptr.into(), i64.into(), core.i32.into()], false));
        // Packets come from there that share bytes.
        let holds = program.tables.iter().any(|table| table.hold.is_some() || table.group.is_some());
        let copies = copies(program);
        Module {
            core,
            plan,
            hash_lookup,
            hash_insert,
            hash_remove,
            lpm_lookup,
            meter_take,
            deadline_set,
            deadline_take,
            packet_copy,
            packet_release,
            frame_release,
            hold_put,
            hold_get,
            shares: holds || !copies.is_empty(),
            copies,
            ppfs: Vec::new(),
        }
    }

    /// Declares a function for each PPF of this module, so that puts can call it.
    fn declare_ppfs(&mut self, units: &Units, members: &[usize]) -> Res<()> {
        let ptr = self.ptr.into();
        let plain = self.context.void_type().fn_type(&[ptr, ptr], false);
        let staged = self.context.void_type().fn_type(&[ptr, ptr, ptr, self.i32.into()], false);
        for (index, ppf) in self.program.ppfs.iter().enumerate() {
            let ty = if self.is_staged(index) { staged } else { plain };
            if members.binary_search(&index).is_err() {
                self.ppfs.push(Callee::Elsewhere(ty));
                continue;
            }
            let function = if units.inlined[index] {
                let function = self.packet_function(&format!("ppf.{}", ppf.name), ty, Linkage::Internal);
                self.attribute(function, AttributeLoc::Function, "alwaysinline", 0);
                function
            } else {
                self.packet_function(&ppf_symbol(index), ty, Linkage::External)
            };
            self.ppfs.push(Callee::Here(function));
        }
        Ok(())
    }

    /// Whether the PPF with this number is the one whose look-ups are staged.
    fn is_staged(&self, ppf: usize) -> bool {
        self.plan.is_some_and(|plan| plan.root.0 as usize == ppf)
    }

    /// Adds a function whose first parameter is the context.
    fn context_function(&self, name: &str, ty: FunctionType<'c>, linkage: Option<Linkage>) -> FunctionValue<'c> {
        let function = self.llvm.add_function(name, ty, linkage);
        self.decorate(function);
        self.decorate_pointer(function, 0, size_of::<abi::Context>() as u64);
        self.attribute(function, AttributeLoc::Param(0), "noalias", 0);
        function
    }

    /// Adds a function whose first parameters are context and packet.
    fn packet_function(&self, name: &str, ty: FunctionType<'c>, linkage: Linkage) -> FunctionValue<'c> {
        let function = self.context_function(name, ty, Some(linkage));
        // Only the context gets `noalias`: the frame of a dropped packet may come back as a copy, which reaches the
        // same descriptor by another pointer.
        self.decorate_pointer(function, 1, abi::METADATA_OFFSET as u64 + u64::from(self.program.metadata_size));
        function
    }

    /// Says that a parameter points to `bytes` bytes of memory that is aligned to 8 bytes.
    fn decorate_pointer(&self, function: FunctionValue<'c>, param: u32, bytes: u64) {
        let loc = AttributeLoc::Param(param);
        self.attribute(function, loc, "noundef", 0);
        self.attribute(function, loc, "nonnull", 0);
        self.attribute(function, loc, "align", 8);
        self.attribute(function, loc, "dereferenceable", bytes);
    }
}

impl<'c, 'p> Core<'c, 'p> {
    /// A module that holds nothing yet.
    pub(crate) fn new(
        context: &'c Context,
        program: &'p Program,
        llvm: LlvmModule<'c>,
        attributes: Vec<Attribute>,
        missing: Missing,
    ) -> Self {
        Core {
            program,
            slots: CounterSlots::new(program),
            context,
            llvm,
            builder: context.create_builder(),
            tags: Tags::new(context),
            ptr: context.ptr_type(AddressSpace::default()),
            i8: context.i8_type(),
            i32: context.i32_type(),
            i64: context.i64_type(),
            missing,
            scratch: Cell::new(None),
            attributes,
        }
    }

    /// Adds the attributes of all functions.
    pub(crate) fn decorate(&self, function: FunctionValue<'c>) {
        for attribute in &self.attributes {
            function.add_attribute(AttributeLoc::Function, *attribute);
        }
    }

    pub(crate) fn attribute(&self, function: FunctionValue<'c>, loc: AttributeLoc, name: &str, value: u64) {
        function.add_attribute(loc, enum_attribute(self.context, name, value));
    }

    /// Whether the processor, or LLVM, has all arithmetic.
    pub(crate) fn has_wide(&self) -> bool {
        self.missing == Missing::Nothing
    }

    /// How `bytes` bytes of a packet are taken to be aligned. The kernel's virtual machine is told that they are, for
    /// its loads of unaligned bytes would be one by one, and processors that it runs packets on do not mind.
    pub(crate) fn align(&self, bytes: u32) -> u32 {
        if self.has_wide() { 1 } else { bytes.next_power_of_two().min(8) }
    }

    /// New blocks of the function that is being built.
    pub(crate) fn new_blocks<const N: usize>(&self, names: [&str; N]) -> Res<[BasicBlock<'c>; N]> {
        match self.block()?.get_parent() {
            Some(function) => Ok(names.map(|name| self.context.append_basic_block(function, name))),
            None => internal("a block without a function"),
        }
    }

    /// The block that is being built.
    pub(crate) fn block(&self) -> Res<BasicBlock<'c>> {
        self.builder.get_insert_block().ok_or_else(|| CodegenError::Internal("no block is being built".into()))
    }

    /// The integer type of `width` bits.
    pub(crate) fn int(&self, width: u32) -> Res<IntType<'c>> {
        let Some(bits) = NonZeroU32::new(width) else {
            return internal("an integer of 0 bits");
        };
        self.context.custom_width_int_type(bits).map_err(|error| CodegenError::Internal(error.into()))
    }

    /// Widens with zeros, or keeps the low bits.
    pub(crate) fn resize(&self, value: IntValue<'c>, width: u32) -> Res<IntValue<'c>> {
        let from = value.get_type().get_bit_width();
        let ty = self.int(width)?;
        Ok(match width.cmp(&from) {
            std::cmp::Ordering::Less => self.builder.build_int_truncate(value, ty, "")?,
            std::cmp::Ordering::Equal => value,
            std::cmp::Ordering::Greater => self.builder.build_int_z_extend(value, ty, "")?,
        })
    }
}

pub(crate) fn enum_attribute(context: &Context, name: &str, value: u64) -> Attribute {
    context.create_enum_attribute(Attribute::get_named_enum_kind_id(name), value)
}

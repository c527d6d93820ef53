//! The function of a received frame.
//!
//! ```text
//! state = { data, end, head = data, counters of this CPU, metadata 0 but for rx.port }
//! rx leads outside ─▶ handed over as it was received
//! shorter than the fixed header of rx ─▶ truncated
//! count rx, ppf(state)
//! goes on outside ─▶ channel, head and metadata in front, to the socket of its queue
//! return state.verdict
//! ```
//!
//! Of a part of a program that goes on with a packet: `state` is as the part before left it, then ppf(state).

use std::mem::offset_of;

use baker::ir::{ChannelId, DropId, MetaId, PpfId, Program, Target, storage_size};
use inkwell::IntPredicate;
use inkwell::attributes::AttributeLoc;
use inkwell::basic_block::BasicBlock;
use inkwell::module::Linkage;
use inkwell::values::{BasicValueEnum, IntValue, PointerValue};

use super::asm::Helper;
use super::state::Field;
use super::{Kernel, NAME, SECTION};
use crate::internal;
use crate::kernel::{Carried, MapUse, Memory as Shared, PORT_SLOTS, PORTS, PortSlot, RECORD, Record, Verdict};
use crate::lower::{Memory, Res, pointer_param};

/// What code in front of PPFs is called.
const ENTRY: &str = "rx";

impl<'c> Kernel<'c, '_> {
    /// Declares a function for each PPF whose code is needed. All are inlined.
    pub(super) fn declare_ppfs(&mut self) {
        let ty = self.context.void_type().fn_type(&[self.ptr.into(), self.ptr.into()], false);
        let needed = match self.part {
            Some(part) => super::parts::needed(self.program, part),
            None => super::obstacles::reached(self.program),
        };
        for (ppf, reached) in self.program.ppfs.iter().zip(needed) {
            let function = reached.then(|| {
                let function = self.llvm.add_function(&format!("ppf.{}", ppf.name), ty, Some(Linkage::Internal));
                self.decorate(function);
                self.attribute(function, AttributeLoc::Function, "alwaysinline", 0);
                self.debug_info.function(function, &ppf.name);
                function
            });
            self.ppfs.push(function);
        }
    }

    /// Defines the function.
    pub(super) fn define_main(&self) -> Res<()> {
        let builder = &self.builder;
        let function = self.llvm.add_function(NAME, self.i32.fn_type(&[self.ptr.into()], false), None);
        function.set_section(Some(SECTION));
        self.decorate(function);
        self.debug_info.function(function, NAME);
        self.at_location(function, ENTRY, None)?;
        let ctx = pointer_param(function, 0)?;
        builder.position_at_end(self.context.append_basic_block(function, "entry"));
        let state = builder.build_alloca(self.i8.array_type(self.fields.size), "state")?;
        if let Some(inst) = state.as_instruction() {
            inst.set_alignment(16).map_err(|error| crate::CodegenError::Internal(error.to_string()))?;
        }
        if self.options.spill {
            self.touch_stack()?;
        }
        self.reload(ctx, state)?;
        self.set(state, Field::Verdict, self.verdict(Verdict::Drop))?;
        self.set(state, Field::Punted, self.i64.const_zero())?;
        self.set(state, Field::Counters, self.counters()?)?;
        match self.part.filter(|part| self.program.channels[Program::RX.0 as usize].target != Target::Ppf(*part)) {
            Some(part) => self.go_on(ctx, state, part)?,
            None => self.receive_new(ctx, state)?,
        }
        self.hand_over(ctx, state)?;
        if self.program.timed {
            self.time(state, None)?;
        }
        let verdict = self.resize(self.number(state, Field::Verdict)?, 32)?;
        builder.build_return(Some(&verdict))?;
        Ok(())
    }

    /// A packet that another part of the program has handed on.
    fn go_on(&self, ctx: PointerValue<'c>, state: PointerValue<'c>, part: PpfId) -> Res<()> {
        let offset =
            self.load_int(self.i64, self.carried(state, offset_of!(Carried, offset))?, 8, Memory::Descriptor)?;
        self.set_offset(state, offset)?;
        self.call(ctx, state, part)
    }

    /// A packet that was received.
    pub(super) fn receive(&self, ctx: PointerValue<'c>, state: PointerValue<'c>) -> Res<()> {
        let builder = &self.builder;
        self.set(state, Field::Head, self.pointer(state, Field::Data)?)?;
        self.set(state, Field::Offset, self.i64.const_zero())?;
        if self.program.uses_time() {
            let now = if self.options.recorded {
                self.load_once(self.fixed(RECORD + offset_of!(Record, now) as u64)?, 64)?
            } else {
                self.help(Helper::KtimeGetNs, &[])?
            };
            self.set(state, Field::Now, now)?;
        }
        for (id, field) in (0u32..).zip(&self.program.metadata) {
            let zero = self.int(field.width)?.const_zero();
            self.meta_store(state, MetaId(id), zero)?;
        }
        let interface = self.of_context(ctx, self.context_fields().interface)?;
        self.meta_store(state, Program::RX_PORT, self.port(interface)?)?;

        let rx = self.channel(Program::RX)?;
        if matches!(rx.target, Target::Controller(_)) {
            // Workers count it.
            return self.punt(state, Program::RX);
        }
        let Some(protocol) = self.program.protocols.get(rx.protocol.0 as usize) else {
            return internal("rx has no protocol");
        };
        let [complete, short, done] = self.new_blocks(["complete", "short", "done"])?;
        let has = if self.options.frags {
            let [scattered, whole] = self.new_blocks(["scattered", "whole"])?;
            let is_scattered = if self.is_tc() { self.is_left(ctx, state)? } else { self.is_scattered(state)? };
            self.unlikely(builder.build_conditional_branch(is_scattered, scattered, whole)?)?;
            builder.position_at_end(scattered);
            self.punt(state, Program::RX)?;
            builder.build_unconditional_branch(done)?;
            builder.position_at_end(whole);
            let size = self.long(protocol.size.into());
            builder.build_int_compare(IntPredicate::UGE, self.total(state)?, size, "")?
        } else {
            let (head, end) = (self.pointer(state, Field::Head)?, self.pointer(state, Field::End)?);
            let (has, head) = self.has(head, protocol.size.into(), end)?;
            self.set(state, Field::Head, head)?;
            has
        };
        self.likely(builder.build_conditional_branch(has, complete, short)?)?;

        builder.position_at_end(short);
        self.drop_packet(state, DropId::TRUNCATED)?;
        builder.build_unconditional_branch(done)?;

        builder.position_at_end(complete);
        self.put(ctx, state, Program::RX, false)?;
        builder.build_unconditional_branch(done)?;
        builder.position_at_end(done);
        Ok(())
    }

    /// Reads the packet's pointers.
    pub(super) fn reload(&self, ctx: PointerValue<'c>, state: PointerValue<'c>) -> Res<()> {
        let fields = self.context_fields();
        self.set(state, Field::Data, self.packet_pointer(ctx, fields.data)?)?;
        self.set(state, Field::End, self.packet_pointer(ctx, fields.data_end)?)?;
        if self.options.frags {
            self.set(state, Field::Total, self.packet_bytes(ctx)?)?;
        }
        Ok(())
    }

    /// The counters of this CPU.
    fn counters(&self) -> Res<PointerValue<'c>> {
        let cpu = self.help(Helper::GetSmpProcessorId, &[])?;
        let cpu = self.masked(cpu, u64::from(self.memory.cpus) - 1)?;
        let stride = self.i64.const_int(Shared::own(self.program), false);
        self.at_index(self.fixed(self.memory.own)?, self.builder.build_int_mul(cpu, stride, "")?)
    }

    /// The number of the port with an interface, or 0; 8 bits.
    pub(super) fn port(&self, interface: IntValue<'c>) -> Res<IntValue<'c>> {
        self.of_slot(interface, offset_of!(PortSlot, port))
    }

    /// The byte at an offset in an interface's [`PortSlot`], 0 where there is none.
    fn of_slot(&self, interface: IntValue<'c>, offset: usize) -> Res<IntValue<'c>> {
        let slot = self.masked(self.resize(interface, 64)?, u64::from(PORT_SLOTS) - 1)?;
        let size = self.i64.const_int(size_of::<PortSlot>() as u64, false);
        let slot = self.at_index(self.fixed(PORTS)?, self.builder.build_int_mul(slot, size, "")?)?;
        // All in one word, so that it belongs together.
        let word = self.load_once(slot, 64)?;
        let found = self.resize(word, 32)?;
        let bits = self.i64.const_int(offset as u64 * 8, false);
        let byte = self.resize(self.builder.build_right_shift(word, bits, false, "")?, 8)?;
        let is_it = self.builder.build_int_compare(IntPredicate::EQ, found, interface, "")?;
        Ok(self.builder.build_select(is_it, byte, byte.get_type().const_zero(), "")?.into_int_value())
    }

    pub(super) fn verdict(&self, verdict: Verdict) -> IntValue<'c> {
        self.i64.const_int(self.verdict_code(verdict).into(), false)
    }

    pub(super) fn channel(&self, id: ChannelId) -> Res<&baker::ir::Channel> {
        match self.program.channels.get(id.0 as usize) {
            Some(channel) => Ok(channel),
            None => internal(format!("there is no channel {}", id.0)),
        }
    }

    /// Runs a PPF.
    fn call(&self, ctx: PointerValue<'c>, state: PointerValue<'c>, ppf: PpfId) -> Res<()> {
        let Some(Some(function)) = self.ppfs.get(ppf.0 as usize) else {
            return internal(format!("there is no PPF {}", ppf.0));
        };
        self.builder.build_call(*function, &[ctx.into(), state.into()], "")?;
        Ok(())
    }

    /// Hands the packet to a channel; `on`: nothing follows, and PPFs behind channels are parts of their own.
    pub(super) fn put(&self, ctx: PointerValue<'c>, state: PointerValue<'c>, id: ChannelId, on: bool) -> Res<()> {
        let target = self.channel(id)?.target;
        self.count_slot(state, self.slots.channel(id))?;
        if let Target::Ppf(ppf) = target {
            return if on { self.hand_on(ctx, state, ppf) } else { self.call(ctx, state, ppf) };
        }
        // The kernel has no frame as short as a packet without its headers can be.
        if matches!(target, Target::Controller(_) | Target::Queue(..) | Target::Group(..)) {
            return self.punt(state, id);
        }
        let builder = &self.builder;
        let [left] = self.new_blocks(["left"])?;
        if self.options.frags {
            // It does not take a first fragment away, either; of a socket buffer nothing.
            let [far, near] = self.new_blocks(["far", "near"])?;
            let offset = self.offset(state)?;
            let is_near = match self.is_tc() {
                true => builder.build_int_compare(IntPredicate::EQ, offset, self.i64.const_zero(), "")?,
                false => self.is_near(state, offset, super::resize::SHORTEST.into())?,
            };
            self.likely(builder.build_conditional_branch(is_near, near, far)?)?;
            builder.position_at_end(far);
            self.punt(state, id)?;
            builder.build_unconditional_branch(left)?;
            builder.position_at_end(near);
        }
        if !self.is_tc() {
            self.settle(ctx, state)?;
        }
        match target {
            Target::Tx => self.transmit(ctx, state, id)?,
            _ => self.to_host(ctx, state, id)?,
        }
        builder.build_unconditional_branch(left)?;
        builder.position_at_end(left);
        Ok(())
    }

    /// The rest is done by another part of the program, which does not come back.
    fn hand_on(&self, ctx: PointerValue<'c>, state: PointerValue<'c>, ppf: PpfId) -> Res<()> {
        let carried = self.carried(state, offset_of!(Carried, offset))?;
        self.store(carried, self.offset(state)?, 8, Memory::Descriptor)?;
        let part = self.i64.const_int(ppf.0.into(), false);
        self.help(Helper::TailCall, &[ctx.into(), self.map(MapUse::Parts)?.into(), part.into()])?;
        // Only where the part is not there, or too many came before it.
        self.set(state, Field::Verdict, self.verdict(Verdict::Aborted))
    }

    /// Drops the packet.
    pub(super) fn drop_packet(&self, state: PointerValue<'c>, reason: DropId) -> Res<()> {
        if reason.0 as usize >= self.program.drop_reasons.len() {
            return internal(format!("there is no drop reason {}", reason.0));
        }
        self.count_slot(state, self.slots.drop(reason))?;
        self.end(state, self.verdict(Verdict::Drop), Verdict::Drop as u64)
    }

    /// Sets what becomes of the packet, which `noted` says, too.
    pub(super) fn end(&self, state: PointerValue<'c>, verdict: IntValue<'c>, noted: u64) -> Res<()> {
        self.set(state, Field::Verdict, verdict)?;
        if !self.options.recorded {
            return Ok(());
        }
        let end = self.fixed(RECORD + offset_of!(Record, end) as u64)?;
        self.store(end, self.i64.const_int(noted, false), 8, Memory::Table)?;
        for (id, field) in (0u32..).zip(&self.program.metadata) {
            let at = RECORD + (offset_of!(Record, metadata) as u32 + field.offset) as u64;
            let size = storage_size(field.width);
            let value = self.resize(self.meta_load(state, MetaId(id))?, size * 8)?;
            self.store(self.fixed(at)?, value, size.min(8), Memory::Table)?;
        }
        Ok(())
    }

    /// Out of the port that the metadata names, behind a channel.
    fn transmit(&self, ctx: PointerValue<'c>, state: PointerValue<'c>, id: ChannelId) -> Res<()> {
        if self.options.recorded {
            return self.end(state, self.verdict(Verdict::Transmit), Verdict::Transmit as u64);
        }
        let builder = &self.builder;
        if self.is_tc() {
            let [sent] = self.new_blocks(["sent"])?;
            return self.to_port(ctx, state, self.meta_load(state, Program::TX_PORT)?, id, sent);
        }
        let [back, same, other, done] = self.new_blocks(["back", "same", "other", "sent"])?;
        let [to, from] = [Program::TX_PORT, Program::RX_PORT].map(|port| self.meta_load(state, port));
        let (to, from) = (to?, from?);
        let is_same = builder.build_int_compare(IntPredicate::EQ, to, from, "")?;
        let named = builder.build_int_compare(IntPredicate::NE, to, to.get_type().const_zero(), "")?;
        builder.build_conditional_branch(builder.build_and(is_same, named, "")?, back, other)?;
        builder.position_at_end(back);
        let (returns, _) = self.says_slot(ctx, offset_of!(PortSlot, returns))?;
        builder.build_conditional_branch(returns, same, other)?;
        builder.position_at_end(same);
        self.set(state, Field::Verdict, self.verdict(Verdict::Transmit))?;
        builder.build_unconditional_branch(done)?;

        builder.position_at_end(other);
        self.to_port(ctx, state, to, id, done)
    }

    /// Out of a port, and on at `done`; one of workers, or none, is left to them.
    fn to_port(
        &self,
        ctx: PointerValue<'c>,
        state: PointerValue<'c>,
        port: IntValue<'c>,
        id: ChannelId,
        done: BasicBlock<'c>,
    ) -> Res<()> {
        let [missing] = self.new_blocks(["missing"])?;
        match self.is_tc() {
            true => self.redirect_to((ctx, state), port, missing, done)?,
            false => self.redirect(state, (MapUse::Devices, port), missing, done)?,
        }
        self.builder.position_at_end(missing);
        self.punt(state, id)?;
        self.builder.build_unconditional_branch(done)?;
        self.builder.position_at_end(done);
        Ok(())
    }

    /// Whether a byte in the [`PortSlot`] of the packet's interface is set; and the interface.
    fn says_slot(&self, ctx: PointerValue<'c>, offset: usize) -> Res<(IntValue<'c>, IntValue<'c>)> {
        let interface = self.of_context(ctx, self.context_fields().interface)?;
        let byte = self.of_slot(interface, offset)?;
        let is_set = self.builder.build_int_compare(IntPredicate::NE, byte, byte.get_type().const_zero(), "")?;
        Ok((is_set, interface))
    }

    /// To the host, behind a channel: to the port that takes the packets for it, or to the kernel's own stack.
    fn to_host(&self, ctx: PointerValue<'c>, state: PointerValue<'c>, id: ChannelId) -> Res<()> {
        if self.options.recorded {
            return self.end(state, self.verdict(Verdict::Pass), Verdict::Pass as u64);
        }
        let builder = &self.builder;
        let [port, stack, done] = self.new_blocks(["port", "stack", "for_host"])?;
        let (has_host, interface) = self.says_slot(ctx, offset_of!(PortSlot, has_host))?;
        builder.build_conditional_branch(has_host, port, stack)?;
        builder.position_at_end(stack);
        self.to_stack(ctx, state)?;
        builder.build_unconditional_branch(done)?;

        builder.position_at_end(port);
        let host = self.of_slot(interface, offset_of!(PortSlot, host))?;
        self.to_port(ctx, state, host, id, done)
    }

    /// To what a map has under a number, and on at `done`; by `missing` if it has nothing there.
    pub(super) fn redirect(
        &self,
        state: PointerValue<'c>,
        (map, key): (MapUse, IntValue<'c>),
        missing: BasicBlock<'c>,
        done: BasicBlock<'c>,
    ) -> Res<()> {
        let builder = &self.builder;
        let map = self.map(map)?;
        let fallback = self.verdict(Verdict::Drop);
        let verdict = self.help(Helper::RedirectMap, &[map.into(), self.resize(key, 64)?.into(), fallback.into()])?;
        self.set(state, Field::Verdict, verdict)?;
        let is_missing = builder.build_int_compare(IntPredicate::EQ, verdict, fallback, "")?;
        self.unlikely(builder.build_conditional_branch(is_missing, missing, done)?)?;
        Ok(())
    }
}

/// The number that an integer is known to be.
pub(super) fn constant(value: IntValue) -> Option<u64> {
    value.get_zero_extended_constant()
}

/// An integer.
pub(super) fn as_int(value: BasicValueEnum) -> Res<IntValue> {
    match value {
        BasicValueEnum::IntValue(value) => Ok(value),
        _ => internal("a value that is no number"),
    }
}

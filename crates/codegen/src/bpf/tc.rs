//! Where packets go from traffic control's ingress: to interfaces by their numbers, and to workers by the ring of the
//! [taps](super::tap), as there are no sockets for them.

use std::mem::offset_of;

use baker::ir::{DropId, Target};
use inkwell::IntPredicate;
use inkwell::basic_block::BasicBlock;
use inkwell::values::{IntValue, PointerValue};

use super::Kernel;
use super::asm::Helper;
use super::hook::GSO_SIZE;
use super::ring::FORCE_WAKEUP;
use super::state::Field;
use crate::kernel::{MapUse, Punt, Tap, Verdict};
use crate::lower::{Memory, Res};

/// Numbers of the context that programs may write, 32 bits each: the packet's mark, and the first of those that are a
/// program's own (`cb`).
const MARK: u64 = 8;
const OWN: u64 = 48;
/// The mark of a packet that comes in once more, as it goes to the kernel's stack: `MllR`. Packets from other network
/// namespaces have none.
const RETURNED: u64 = 0x4d6c_6c52;
/// Into the interface (`BPF_F_INGRESS`).
const INGRESS: u64 = 1;

/// Of a super-packet its packets are compared with the MTU (`BPF_MTU_CHK_SEGS`).
const SEGMENTS: u64 = 1;

impl<'c> Kernel<'c, '_> {
    /// Out of the interface of a port, and on at `done`; by `missing` if it has none, or if that sends no packets as
    /// long: behind this the kernel does not ask. A super-packet is as long as its packets.
    pub(super) fn redirect_to(
        &self,
        (ctx, state): (PointerValue<'c>, PointerValue<'c>),
        port: IntValue<'c>,
        missing: BasicBlock<'c>,
        done: BasicBlock<'c>,
    ) -> Res<()> {
        let builder = &self.builder;
        let [found, set, sends] = self.new_blocks(["found", "set", "sends"])?;
        let key = self.copied(state)?;
        self.store_once(key, self.resize(port, 32)?)?;
        let at = self.help(Helper::MapLookupElem, &[self.map(MapUse::Devices)?.into(), key.into()])?;
        let is_there = builder.build_int_compare(IntPredicate::NE, at, self.long(0), "")?;
        self.likely(builder.build_conditional_branch(is_there, found, missing)?)?;
        builder.position_at_end(found);
        let interface = self.load_once(self.known_pointer(at)?, 32)?;
        let is_set = builder.build_int_compare(IntPredicate::NE, interface, self.i32.const_zero(), "")?;
        self.likely(builder.build_conditional_branch(is_set, set, missing)?)?;
        builder.position_at_end(set);
        // The kernel leaves the MTU there.
        self.store_once(key, self.i32.const_zero())?;
        let none = self.long(0);
        let args =
            [ctx.into(), self.resize(interface, 64)?.into(), key.into(), none.into(), self.long(SEGMENTS).into()];
        let is_long = self.help(Helper::CheckMtu, &args)?;
        let fits = builder.build_int_compare(IntPredicate::EQ, is_long, none, "")?;
        self.likely(builder.build_conditional_branch(fits, sends, missing)?)?;
        builder.position_at_end(sends);
        let verdict = self.help(Helper::Redirect, &[self.resize(interface, 64)?.into(), self.long(0).into()])?;
        self.set(state, Field::Verdict, verdict)?;
        builder.build_unconditional_branch(done)?;
        Ok(())
    }

    /// Whether packets may go to the kernel's stack that have got bytes in front. The stack goes by what the kernel has
    /// found in the front that they came in with. So they come in once more, with a mark by which the program lets them
    /// pass.
    fn returns_packets(&self) -> bool {
        let has_host = || self.program.channels.iter().any(|channel| matches!(channel.target, Target::Host));
        self.is_tc() && !self.options.recorded && self.program.limits.front > 0 && has_host()
    }

    /// Notes beside a packet that it has got bytes in front.
    pub(super) fn note_front(&self, ctx: PointerValue<'c>) -> Res<()> {
        if !self.returns_packets() {
            return Ok(());
        }
        self.store_once(self.at(ctx, OWN)?, self.i32.const_int(1, false))
    }

    /// Receives a packet that does not come in once more.
    pub(super) fn receive_new(&self, ctx: PointerValue<'c>, state: PointerValue<'c>) -> Res<()> {
        if !self.returns_packets() {
            return self.receive(ctx, state);
        }
        let builder = &self.builder;
        let [returned, new, done] = self.new_blocks(["returned", "new", "let_pass"])?;
        let (mark, none) = (self.load_once(self.at(ctx, MARK)?, 32)?, self.i32.const_zero());
        let is_returned = builder.build_int_compare(IntPredicate::EQ, mark, self.i32.const_int(RETURNED, false), "")?;
        self.unlikely(builder.build_conditional_branch(is_returned, returned, new)?)?;
        builder.position_at_end(returned);
        self.store_once(self.at(ctx, MARK)?, none)?;
        self.set(state, Field::Verdict, self.verdict(Verdict::Pass))?;
        builder.build_unconditional_branch(done)?;
        builder.position_at_end(new);
        // The queueing discipline's of whoever had the packet before.
        self.store_once(self.at(ctx, OWN)?, none)?;
        self.receive(ctx, state)?;
        builder.build_unconditional_branch(done)?;
        builder.position_at_end(done);
        Ok(())
    }

    /// To the kernel's stack.
    pub(super) fn to_stack(&self, ctx: PointerValue<'c>, state: PointerValue<'c>) -> Res<()> {
        self.set(state, Field::Verdict, self.verdict(Verdict::Pass))?;
        if !self.returns_packets() {
            return Ok(());
        }
        let builder = &self.builder;
        let [again, done] = self.new_blocks(["again", "for_stack"])?;
        let has_front = self.load_once(self.at(ctx, OWN)?, 32)?;
        let has_front = builder.build_int_compare(IntPredicate::NE, has_front, self.i32.const_zero(), "")?;
        self.unlikely(builder.build_conditional_branch(has_front, again, done)?)?;
        builder.position_at_end(again);
        self.store_once(self.at(ctx, MARK)?, self.i32.const_int(RETURNED, false))?;
        let interface = self.resize(self.of_context(ctx, self.context_fields().interface)?, 64)?;
        let verdict = self.help(Helper::Redirect, &[interface.into(), self.long(INGRESS).into()])?;
        self.set(state, Field::Verdict, verdict)?;
        builder.build_unconditional_branch(done)?;
        builder.position_at_end(done);
        Ok(())
    }

    /// Notes in a record whether its packet is a super-packet.
    pub(super) fn note_segments(&self, ctx: PointerValue<'c>, record: PointerValue<'c>) -> Res<()> {
        let segment = self.of_context(ctx, GSO_SIZE)?;
        self.store(self.at(record, offset_of!(Tap, segment) as u64)?, segment, 4, Memory::Table)
    }

    /// Hands a packet that goes on outside to the worker of its queue, whole, with what that goes on with in front.
    pub(super) fn hand_over_by_ring(&self, ctx: PointerValue<'c>, state: PointerValue<'c>) -> Res<()> {
        let builder = &self.builder;
        let [goes_on, missing, done] = self.new_blocks(["goes_on", "missing", "done"])?;
        let punted = self.number(state, Field::Punted)?;
        let is_punted = builder.build_int_compare(IntPredicate::NE, punted, self.i64.const_zero(), "")?;
        self.unlikely(builder.build_conditional_branch(is_punted, goes_on, done)?)?;

        builder.position_at_end(goes_on);
        let channel = self.resize(builder.build_int_sub(punted, self.long(1), "")?, 16)?;
        let head = self.resize(self.offset(state)?, 32)?;
        let total = self.total(state)?;
        // The packet itself ends here.
        self.set(state, Field::Verdict, self.verdict(Verdict::Drop))?;
        let ring = self.ring(ctx, state, missing)?;
        for &class in Tap::classes(true) {
            let [fits, larger] = self.new_blocks(["fits", "larger"])?;
            let (is_within, bytes) = self.has_count(total, class)?;
            builder.build_conditional_branch(is_within, fits, larger)?;
            builder.position_at_end(fits);
            let record = self.reserve(ring, Tap::bytes(self.program, class), missing)?;
            let front = self.at(record, size_of::<Tap>() as u64)?;
            self.write_punt(state, (front, Memory::Table), channel, head, &[])?;
            let failed =
                self.load_bytes(ctx, self.long(0), self.at(front, Punt::bytes(self.program).into())?, bytes)?;
            let is_read = builder.build_int_compare(IntPredicate::EQ, failed, self.i64.const_zero(), "")?;
            let len = builder.build_int_add(bytes, self.long(Punt::bytes(self.program).into()), "")?;
            let len = self.select_int(is_read, self.resize(len, 32)?, self.i32.const_zero())?;
            self.store(self.at(record, offset_of!(Tap, len) as u64)?, len, 4, Memory::Table)?;
            self.note_segments(ctx, record)?;
            // The reader is woken where it sleeps. The kernel knows that by its having read all; but copies are there
            // that it was not woken for.
            let wakes = if self.program.uses_rings() { FORCE_WAKEUP } else { 0 };
            self.help(Helper::RingbufSubmit, &[record.into(), self.long(wakes).into()])?;
            builder.build_unconditional_branch(done)?;
            builder.position_at_end(larger);
        }
        builder.build_unconditional_branch(missing)?;

        builder.position_at_end(missing);
        self.drop_packet(state, DropId::NO_WORKER)?;
        builder.build_unconditional_branch(done)?;
        builder.position_at_end(done);
        Ok(())
    }
}

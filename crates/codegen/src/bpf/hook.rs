//! What differs between the hooks at which a program runs: the layout of its context, what it returns, and how it
//! changes packets.
//!
//! At traffic control's ingress a packet is a socket buffer. Code for it is that for packets in fragments
//! ([`super::fragments`]), with these differences:
//!
//! * *Stores* are made by the kernel. It gives the packet memory of its own where a sender still has it, reaches all of
//!   its pieces, and keeps the sum that a device has computed of it.
//! * *Checksums* that a device may still have to compute are changed by the kernel, which knows which those are.
//! * *The front* of a packet can't be taken away. A packet whose head is behind its first byte leaves by a worker.
//! * *Tags* of VLANs lie beside the packet; such a packet is a worker's, with its tag in place.

use baker::ir::{Op, PacketEnd, Program};
use inkwell::IntPredicate;
use inkwell::values::{IntValue, PointerValue};

use super::Kernel;
use super::asm::Helper;
use super::body::Ppf;
use super::sum::SUMMED;
use crate::kernel::{Hook, Verdict};
use crate::lower::{Memory, Res};

/// Numbers in the program's context, 32 bits each.
#[derive(Clone, Copy)]
pub(super) struct ContextFields {
    /// The packet's first byte.
    pub data: u32,
    /// Behind the last byte of its first fragment.
    pub data_end: u32,
    /// Index of the interface that it came in by.
    pub interface: u64,
    /// Number of the queue that it came in by.
    pub queue: u64,
}

/// `struct xdp_md`
const XDP: ContextFields = ContextFields { data: 0, data_end: 4, interface: 12, queue: 16 };
/// `struct __sk_buff`
const TC: ContextFields = ContextFields { data: 76, data_end: 80, interface: 40, queue: 12 };
/// Further fields there: bytes of the packet, whether it has a tag of a VLAN, bytes of payload of the packets of a
/// super-packet, 0 of another one.
const LEN: u64 = 0;
const VLAN_PRESENT: u64 = 20;
pub(super) const GSO_SIZE: u64 = 176;

/// Verdicts of traffic control (`TC_ACT_UNSPEC`: on to other programs, and then the kernel's stack; `TC_ACT_SHOT`,
/// `TC_ACT_REDIRECT`).
const NEXT: u32 = u32::MAX;
const SHOT: u32 = 2;
const REDIRECT: u32 = 7;

/// Flags of functions that change packets (`BPF_F_RECOMPUTE_CSUM`, `BPF_F_PSEUDO_HDR`, `BPF_F_MARK_MANGLED_0`).
const RECOMPUTE: u64 = 1;
const PSEUDO: u64 = 1 << 4;
const OPTIONAL: u64 = 1 << 5;

/// Bytes in front of what the kernel's sum of a packet covers (`ETH_HLEN`).
const UNCOVERED: u64 = 14;
/// So much of a packet is to lie in its first fragment, where its headers are.
const HEADERS: u64 = 128;
/// A tag of no VLAN: `ETH_P_8021Q` as the network has it.
const TAG: u64 = 0x0081;

/// Whether a PPF moves the head of a packet, or takes bytes in front of it off or on.
pub(super) fn moves_heads(program: &Program) -> bool {
    let moves = |op: &Op| {
        matches!(op, Op::Pull { .. } | Op::Push { .. } | Op::Move { .. } | Op::Grow { end: PacketEnd::Head, .. })
    };
    program.insts().any(|inst| moves(&inst.op))
}

impl<'c> Kernel<'c, '_> {
    pub(super) fn is_tc(&self) -> bool {
        self.options.hook == Hook::Tc
    }

    pub(super) fn context_fields(&self) -> ContextFields {
        if self.is_tc() { TC } else { XDP }
    }

    /// What the kernel calls a verdict. Where it is noted for tests, the hook's own names do not matter.
    pub(super) fn verdict_code(&self, verdict: Verdict) -> u32 {
        if !self.is_tc() || self.options.recorded {
            return verdict as u32;
        }
        match verdict {
            Verdict::Aborted | Verdict::Drop => SHOT,
            Verdict::Pass => NEXT,
            Verdict::Transmit | Verdict::Redirect => REDIRECT,
        }
    }

    /// A number of the context, 32 bits.
    pub(super) fn of_context(&self, ctx: PointerValue<'c>, field: u64) -> Res<IntValue<'c>> {
        self.load_int(self.i32, self.at(ctx, field)?, 4, Memory::Context)
    }

    /// Bytes of the packet, whatever its fragments are; 64 bits.
    pub(super) fn packet_bytes(&self, ctx: PointerValue<'c>) -> Res<IntValue<'c>> {
        if self.is_tc() {
            self.resize(self.of_context(ctx, LEN)?, 64)
        } else {
            self.help(Helper::XdpGetBuffLen, &[ctx.into()])
        }
    }

    /// Copies bytes of the packet; 0 where the kernel did it.
    pub(super) fn load_bytes(
        &self,
        ctx: PointerValue<'c>,
        from: IntValue<'c>,
        to: PointerValue<'c>,
        bytes: IntValue<'c>,
    ) -> Res<IntValue<'c>> {
        let helper = if self.is_tc() { Helper::SkbLoadBytes } else { Helper::XdpLoadBytes };
        self.help(helper, &[ctx.into(), from.into(), to.into(), bytes.into()])
    }

    /// Stores bytes into the packet. What was known of its memory has to be read again.
    pub(super) fn store_bytes(
        &self,
        (ctx, state): (PointerValue<'c>, PointerValue<'c>),
        at: IntValue<'c>,
        from: PointerValue<'c>,
        bytes: IntValue<'c>,
    ) -> Res<()> {
        if !self.is_tc() {
            return self.must(self.help(Helper::XdpStoreBytes, &[ctx.into(), at.into(), from.into(), bytes.into()])?);
        }
        let is_covered = self.builder.build_int_compare(IntPredicate::UGE, at, self.long(UNCOVERED), "")?;
        let flags = self.select_int(is_covered, self.long(RECOMPUTE), self.long(0))?;
        let args = [ctx.into(), at.into(), from.into(), bytes.into(), flags.into()];
        self.must(self.help(Helper::SkbStoreBytes, &args)?)?;
        self.reload(ctx, state)
    }

    /// Whether bytes from a distance on (64 bits) are in the first fragment of every socket buffer that has them.
    pub(super) fn is_header(&self, at: IntValue<'c>, bytes: u64) -> bool {
        self.is_tc() && super::main::constant(at).is_some_and(|at| at + bytes <= HEADERS)
    }

    /// Prepares a packet that was received, and says whether it is one to leave to workers, 1 bit.
    pub(super) fn is_left(&self, ctx: PointerValue<'c>, state: PointerValue<'c>) -> Res<IntValue<'c>> {
        let builder = &self.builder;
        let [tagged, headers, pull, whole] = self.new_blocks(["tagged", "headers", "pull", "whole"])?;
        let is_set =
            |value: IntValue<'c>| builder.build_int_compare(IntPredicate::NE, value, self.i32.const_zero(), "");
        let has_tag = is_set(self.of_context(ctx, VLAN_PRESENT)?)?;
        self.unlikely(builder.build_conditional_branch(has_tag, tagged, headers)?)?;
        builder.position_at_end(tagged);
        // The kernel has one tag beside a packet: another one puts that where the network has it.
        self.must(self.help(Helper::SkbVlanPush, &[ctx.into(), self.long(TAG).into(), self.long(0).into()])?)?;
        self.reload(ctx, state)?;
        builder.build_unconditional_branch(headers)?;

        builder.position_at_end(headers);
        let (total, first) = (self.total(state)?, self.first_fragment(state)?);
        let is_short = builder.build_int_compare(IntPredicate::ULT, first, self.long(HEADERS), "")?;
        let is_divided = builder.build_int_compare(IntPredicate::ULT, first, total, "")?;
        self.unlikely(builder.build_conditional_branch(builder.build_and(is_short, is_divided, "")?, pull, whole)?)?;
        builder.position_at_end(pull);
        let few = builder.build_int_compare(IntPredicate::ULT, total, self.long(HEADERS), "")?;
        let bytes = self.select_int(few, total, self.long(HEADERS))?;
        self.must(self.help(Helper::SkbPullData, &[ctx.into(), bytes.into()])?)?;
        self.reload(ctx, state)?;
        builder.build_unconditional_branch(whole)?;

        builder.position_at_end(whole);
        let is_long = builder.build_int_compare(IntPredicate::UGT, total, self.long(self.offsets()), "")?;
        let mut left = builder.build_or(has_tag, is_long, "")?;
        let (grows, asks_for_mtus) = (self.program.limits.front > 0, self.program.port_mtus().is_some());
        let sums_up = self.sums_up();
        if !grows && !asks_for_mtus && !sums_up {
            return Ok(left);
        }
        let is_super = is_set(self.of_context(ctx, GSO_SIZE)?)?;
        if sums_up {
            let is_much = builder.build_int_compare(IntPredicate::UGT, total, self.long(SUMMED), "")?;
            let is_plain = builder.build_not(is_super, "")?;
            left = builder.build_or(left, builder.build_and(is_much, is_plain, "")?, "")?;
        }
        if grows {
            // What is put in front of a super-packet would be in front of each of its packets, with lengths of all of
            // them.
            return Ok(builder.build_or(left, is_super, "")?);
        }
        if !asks_for_mtus {
            return Ok(left);
        }
        // What ports send at most is for each of its packets, whose length has to be known.
        self.of_super_packet(ctx, left, || {
            let bytes = self.segment_bytes(ctx, state)?;
            let is_unknown = builder.build_int_compare(IntPredicate::EQ, bytes, self.long(0), "")?;
            Ok(builder.build_or(left, is_unknown, "")?)
        })
    }

    /// Puts the head `bytes` (64 bits) in front of the packet's first byte. Room is made for an even number, so that
    /// checksums stay at even places.
    pub(super) fn make_front(&self, ctx: PointerValue<'c>, state: PointerValue<'c>, bytes: IntValue<'c>) -> Res<()> {
        let builder = &self.builder;
        let odd = builder.build_and(bytes, self.long(1), "")?;
        let room = builder.build_int_add(bytes, odd, "")?;
        self.must(self.help(Helper::SkbChangeHead, &[ctx.into(), room.into(), self.long(0).into()])?)?;
        self.reload(ctx, state)?;
        self.note_front(ctx)?;
        self.set_offset(state, odd)
    }
}

impl<'c> Ppf<'_, 'c, '_> {
    /// Lets the kernel change a checksum, at a distance from the frame's first byte (64 bits), which is even; the sums
    /// of changes have 32 bits.
    pub(super) fn change_by_kernel(
        &self,
        at: IntValue<'c>,
        [covered, pseudo]: [IntValue<'c>; 2],
        optional: bool,
    ) -> Res<()> {
        let (kernel, ctx) = (self.kernel, self.ctx);
        let builder = &kernel.builder;
        let optional = if optional { OPTIONAL } else { 0 };
        for (change, flags) in [(covered, optional), (pseudo, optional | PSEUDO)] {
            if super::main::constant(change) == Some(0) {
                continue;
            }
            let [some, done] = kernel.new_blocks(["change", "changed"])?;
            let any = builder.build_int_compare(IntPredicate::NE, change, change.get_type().const_zero(), "")?;
            builder.build_conditional_branch(any, some, done)?;
            builder.position_at_end(some);
            // As the packet has it.
            let change = kernel.resize(kernel.fold_sum(kernel.resize(change, 64)?)?, 64)?;
            let (none, flags) = (kernel.long(0), kernel.long(flags));
            let args = [ctx.into(), at.into(), none.into(), change.into(), flags.into()];
            kernel.must(kernel.help(Helper::L4CsumReplace, &args)?)?;
            if flags.get_zero_extended_constant().is_some_and(|flags| flags & PSEUDO == 0) {
                // It expects the covered bytes to make up for it, which were counted when they were stored.
                let back = builder.build_xor(change, kernel.long(0xffff), "")?;
                kernel.help(Helper::CsumUpdate, &[ctx.into(), back.into()])?;
            }
            kernel.reload(ctx, self.state)?;
            builder.build_unconditional_branch(done)?;
            builder.position_at_end(done);
        }
        Ok(())
    }

    /// A change of a checksum `at` bytes (32 bits) behind the head.
    pub(super) fn change_checksum(
        &mut self,
        packet: baker::ir::Value,
        offset: baker::ir::Value,
        [covered, pseudo]: [baker::ir::Value; 2],
        optional: bool,
    ) -> Res<()> {
        use crate::lower::Lowering;
        let kernel = self.kernel;
        let changes = [self.int_of(covered, 32)?, self.int_of(pseudo, 32)?];
        let bits = baker::ir::BitRange { offset: 0, width: 16 };
        let plain = |this: &mut Self| -> Res<()> {
            let Some(old) = this.access(packet, Some(offset), bits, None)? else {
                return crate::internal("a load without a value");
            };
            let new = kernel.changed_checksum(old, changes, optional)?;
            this.access(packet, Some(offset), bits, Some(new)).map(drop)
        };
        if !kernel.is_tc() {
            return plain(self);
        }
        let builder = &kernel.builder;
        let at = kernel.resize(self.int_of(offset, 32)?, 64)?;
        let at = builder.build_int_add(kernel.offset(self.state)?, at, "")?;
        let [even, odd, done] = kernel.new_blocks(["even", "odd", "kept"])?;
        let is_odd = kernel.resize(at, 1)?;
        builder.build_conditional_branch(is_odd, odd, even)?;
        builder.position_at_end(even);
        self.change_by_kernel(at, changes, optional)?;
        builder.build_unconditional_branch(done)?;
        // No sender leaves one at an odd place to a device.
        builder.position_at_end(odd);
        plain(self)?;
        builder.build_unconditional_branch(done)?;
        builder.position_at_end(done);
        Ok(())
    }
}

//! Super-packets at traffic control, and what a port sends at most: each of their packets has to fit, not all of them
//! in one. A program compares lengths of what it has before it with the MTU that it asks for (`port_mtu`), so a
//! super-packet whose packets fit is told of a port that sends it whole.

use baker::ir::LayoutId;
use inkwell::IntPredicate;
use inkwell::values::{IntValue, PointerValue};

use super::Kernel;
use super::body::Ppf;
use super::hook::GSO_SIZE;
use crate::lower::{Memory, Res};

/// Bytes of an Ethernet header, and places behind it: `ether_type`; of IPv4 its length and `protocol`; of IPv6
/// `next_header`; of TCP, behind that of IP, `data_offset`.
const ETHER: u64 = 14;
const ETHER_TYPE: u64 = 12;
const VERSION_LENGTH: u64 = ETHER;
const PROTOCOL: u64 = ETHER + 9;
const NEXT_HEADER: u64 = ETHER + 6;
const DATA_OFFSET: u64 = ETHER + 12;
/// Bytes in front of what IPv6 carries, and headers of UDP; and so much of a packet is read first.
const IPV6: u64 = 40;
const UDP: u64 = 8;
const READ: u64 = 24;
/// EtherTypes as a load has them.
const IS_IPV4: u64 = 0x0800u16.swap_bytes() as u64;
const IS_IPV6: u64 = 0x86ddu16.swap_bytes() as u64;
const TCP_NUMBER: u64 = 6;
const UDP_NUMBER: u64 = 17;

impl<'c> Kernel<'c, '_> {
    /// Whether a layout is that of the ports' MTUs.
    fn is_mtu(&self, layout: LayoutId) -> bool {
        self.program.port_mtus().is_some_and(|id| self.program.tables[id.0 as usize].value == layout)
    }

    /// A value that is another one of super-packets.
    pub(super) fn of_super_packet(
        &self,
        ctx: PointerValue<'c>,
        plain: IntValue<'c>,
        value: impl FnOnce() -> Res<IntValue<'c>>,
    ) -> Res<IntValue<'c>> {
        let builder = &self.builder;
        let [divided, told] = self.new_blocks(["divided", "told"])?;
        let payload = self.of_context(ctx, GSO_SIZE)?;
        let is_super = builder.build_int_compare(IntPredicate::NE, payload, self.i32.const_zero(), "")?;
        let from_plain = self.block()?;
        self.unlikely(builder.build_conditional_branch(is_super, divided, told)?)?;
        builder.position_at_end(divided);
        let value = value()?;
        let from_divided = self.block()?;
        builder.build_unconditional_branch(told)?;
        builder.position_at_end(told);
        let phi = builder.build_phi(plain.get_type(), "")?;
        phi.add_incoming(&[(&plain, from_plain), (&value, from_divided)]);
        Ok(phi.as_basic_value().into_int_value())
    }

    /// Of a super-packet (of another packet it means nothing) the bytes of each of its packets, behind the Ethernet
    /// header; 64 bits. 0 where that is not TCP or UDP on IPv4, or on IPv6 without extension headers.
    pub(super) fn segment_bytes(&self, ctx: PointerValue<'c>, state: PointerValue<'c>) -> Res<IntValue<'c>> {
        let builder = &self.builder;
        let long = |number: u64| self.long(number);
        let is =
            |value: IntValue<'c>, number: u64| builder.build_int_compare(IntPredicate::EQ, value, long(number), "");
        let copy = self.copied(state)?;
        let has_heads = is(self.load_bytes(ctx, long(0), copy, long(READ))?, 0)?;
        let read = |at: u64, bytes: u32| {
            let read = self.load_int(self.int(bytes * 8)?, self.at(copy, at)?, 1, Memory::Table)?;
            self.resize(read, 64)
        };
        let ether_type = read(ETHER_TYPE, 2)?;
        let (is_ipv4, is_ipv6) = (is(ether_type, IS_IPV4)?, is(ether_type, IS_IPV6)?);
        let words = builder.build_and(read(VERSION_LENGTH, 1)?, long(0xf), "")?;
        let ip = self.select_int(is_ipv4, builder.build_int_mul(words, long(4), "")?, long(IPV6))?;
        let protocol = self.select_int(is_ipv4, read(PROTOCOL, 1)?, read(NEXT_HEADER, 1)?)?;
        let (is_tcp, is_udp) = (is(protocol, TCP_NUMBER)?, is(protocol, UDP_NUMBER)?);
        let at = builder.build_int_add(ip, long(DATA_OFFSET), "")?;
        let has_offset = is(self.load_bytes(ctx, at, copy, long(1))?, 0)?;
        let words = builder.build_right_shift(read(0, 1)?, long(4), false, "")?;
        let header = self.select_int(is_tcp, builder.build_int_mul(words, long(4), "")?, long(UDP))?;
        let payload = self.resize(self.of_context(ctx, GSO_SIZE)?, 64)?;
        let bytes = builder.build_int_add(builder.build_int_add(ip, header, "")?, payload, "")?;
        let is_ip = builder.build_or(is_ipv4, is_ipv6, "")?;
        let is_known = builder.build_and(is_ip, builder.build_or(is_tcp, is_udp, "")?, "")?;
        let is_read = builder.build_and(has_heads, has_offset, "")?;
        self.select_int(builder.build_and(is_known, is_read, "")?, bytes, long(0))
    }
}

impl<'c> Ppf<'_, 'c, '_> {
    /// A field of an entry as the program is told of it: what a port sends at most is as long as a super-packet whose
    /// packets the port sends.
    pub(super) fn most_of_port(&self, layout: LayoutId, field: IntValue<'c>) -> Res<IntValue<'c>> {
        let kernel = self.kernel;
        if !kernel.is_tc() || !kernel.is_mtu(layout) {
            return Ok(field);
        }
        let builder = &kernel.builder;
        let mtu = kernel.resize(field, 64)?;
        let most = kernel.of_super_packet(self.ctx, mtu, || {
            let segment = kernel.segment_bytes(self.ctx, self.state)?;
            let whole = builder.build_int_sub(kernel.total(self.state)?, kernel.long(ETHER), "")?;
            let fits = builder.build_int_compare(IntPredicate::ULE, segment, mtu, "")?;
            let is_longer = builder.build_int_compare(IntPredicate::UGT, whole, mtu, "")?;
            kernel.select_int(builder.build_and(fits, is_longer, "")?, whole, mtu)
        })?;
        kernel.resize(most, 32)
    }
}

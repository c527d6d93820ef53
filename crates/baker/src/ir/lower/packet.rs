//! Packets: handles, fields, decap, peek, encap, copy.
//!
//! A handle made by `packet_peek` stands for no packet of its own: it is a place, `base` bytes behind the head of the
//! packet that it looks into.

use super::checksum::OwnChecksum;
use super::{Frame, Lowering, Packet, Slot};
use crate::check::hir::{Expr, ExprKind, LocalId, Type};
use crate::ir::{BinOp, BitRange, CmpOp, DropId, Op, ProtocolId, Ty, Value};

impl<'p> Lowering<'p> {
    /// Binds a local to a packet that the PPF now owns. `carried` is what is still to go into the checksum behind it.
    pub(super) fn bind_packet(
        &mut self,
        local: LocalId,
        protocol: ProtocolId,
        (value, carried): (Value, Option<Value>),
        own: &OwnChecksum,
    ) {
        let var = self.b.var(Ty::Packet(protocol));
        self.b.set(var, value);
        let index = self.packets.len();
        let carried = self.sum_var(carried);
        self.add_packet(local, Packet { var, protocol, place: None, delta: None, carried, terms: 0 }, own);
        self.owned.push(index);
    }

    fn add_packet(&mut self, local: LocalId, packet: Packet, own: &OwnChecksum) {
        let declared = self.program.protocols[packet.protocol.0 as usize].checksum.is_some();
        let delta = (declared && !own.has(local)).then(|| self.sum_var(None));
        self.packets.push(Packet { delta, ..packet });
        self.frame().slots[local.0 as usize] = Some(Slot::Packet(self.packets.len() - 1));
    }

    /// Declares a handle that looks into the packet behind another one.
    pub(super) fn peek(&mut self, local: LocalId, init: &'p Expr, own: &OwnChecksum) {
        let (Type::Packet(protocol), ExprKind::Peek(of, bytes)) = (init.ty, &init.kind) else {
            unreachable!("a peek makes a packet")
        };
        let parent = self.packet_index(*of);
        let bytes = self.inner(parent, protocol, bytes.as_deref());
        let base = match self.packets[parent].place {
            Some(place) => self.b.binary(BinOp::Add, place.base, bytes),
            None => bytes,
        };
        let Packet { var, carried, .. } = self.packets[parent];
        let (there, one) = (self.b.var(Ty::Int(1)), self.b.constant(1, 1));
        self.b.set(there, one);
        let place = Some(super::Place { parent, base, there });
        // What is behind this header belongs to its own pseudo header, where it has one, else to the one before.
        let own_pseudo = !self.program.protocols[protocol.0 as usize].pseudo.is_empty();
        let carried = if own_pseudo { self.sum_var(None) } else { carried };
        self.add_packet(local, Packet { var, protocol, place, delta: None, carried, terms: 0 }, own);
        self.peeked.push(self.packets.len() - 1);
    }

    /// A handle whose packet was consumed gets a new one of the same protocol.
    pub(super) fn rebind(&mut self, local: LocalId, (value, carried): (Value, Option<Value>)) {
        let index = self.packet_index(local);
        let Packet { var, delta, carried: sum, .. } = self.packets[index];
        self.b.set(var, value);
        let zero = self.b.constant(32, 0);
        if let Some(delta) = delta {
            self.b.set(delta, zero);
        }
        self.b.set(sum, carried.unwrap_or(zero));
        self.end_peeked(index);
        self.owned.push(index);
    }

    /// Ends the handles that look into a packet whose bytes move.
    pub(super) fn end_peeked(&mut self, index: usize) {
        for at in 0..self.peeked.len() {
            let peeked = self.peeked[at];
            if let (true, Some(place)) = (self.root(peeked) == index, self.packets[peeked].place) {
                let gone = self.b.constant(1, 0);
                self.b.set(place.there, gone);
            }
        }
    }

    /// The packet that a handle leads to, with what lies behind its handle.
    pub(super) fn root(&self, index: usize) -> usize {
        let mut root = index;
        while let Some(place) = self.packets[root].place {
            root = place.parent;
        }
        root
    }

    pub(super) fn packet_of(&mut self, index: usize) -> Value {
        let var = self.packets[index].var;
        self.b.get(var)
    }

    pub(super) fn field_bits(&self, packet: usize, field: u32) -> BitRange {
        self.program.protocols[self.packets[packet].protocol.0 as usize].fields[field as usize].bits
    }

    /// Bits of the handle's header.
    pub(super) fn load_bits(&mut self, index: usize, bits: BitRange) -> Value {
        let packet = self.packet_of(index);
        let op = match self.packets[index].place {
            Some(place) => Op::LoadAt { packet, offset: place.base, bits },
            None => Op::Load { packet, bits },
        };
        self.b.push(Ty::Int(bits.width), op)
    }

    /// Stores bits of the handle's header, whatever checksums cover them.
    pub(super) fn store_bits(&mut self, index: usize, bits: BitRange, value: Value) {
        let packet = self.packet_of(index);
        self.b.effect(match self.packets[index].place {
            Some(place) => Op::StoreAt { packet, offset: place.base, bits, value },
            None => Op::Store { packet, bits, value },
        });
    }

    pub(super) fn load_field(&mut self, local: LocalId, field: u32) -> Value {
        let index = self.packet_index(local);
        if self.is_checksum(index, field) {
            self.apply_checksums(index);
        }
        let bits = self.field_bits(index, field);
        self.load_bits(index, bits)
    }

    /// Bytes from the handle's header to the packet's end.
    pub(super) fn length(&mut self, index: usize) -> Value {
        let packet = self.packet_of(index);
        let length = self.b.push(Ty::Int(32), Op::Len { packet });
        match self.packets[index].place {
            Some(place) => self.b.binary(BinOp::Sub, length, place.base),
            None => length,
        }
    }

    /// Takes a handle out of the PPF's hands without touching the packet.
    pub(super) fn release(&mut self, local: LocalId) -> Value {
        let index = self.packet_index(local);
        self.owned.retain(|&owned| owned != index);
        self.packet_of(index)
    }

    /// A packet for whoever consumes it.
    pub(super) fn consume(&mut self, expr: &'p Expr) -> Value {
        self.consume_carrying(expr).0
    }

    /// The packet, and what is still to go into the checksum behind its header.
    pub(super) fn consume_carrying(&mut self, expr: &'p Expr) -> (Value, Option<Value>) {
        let Type::Packet(protocol) = expr.ty else { unreachable!("a packet") };
        match &expr.kind {
            ExprKind::Local(local) => {
                let index = self.packet_index(*local);
                self.apply_checksums(index);
                let carried = self.b.get(self.packets[index].carried);
                (self.release(*local), Some(carried))
            }
            ExprKind::Copy(local) => {
                let index = self.packet_index(*local);
                self.apply_checksums(index);
                let packet = self.packet_of(index);
                let carried = self.b.get(self.packets[index].carried);
                let copied = self.b.push(self.b.ty(packet), Op::Copy { packet });
                // Of a handle that looks into a packet: what lies in front of its header is not copied.
                let made = match self.base(index) {
                    Some(bytes) => self.b.push(Ty::Packet(protocol), Op::Pull { packet: copied, bytes }),
                    None => copied,
                };
                (made, Some(carried))
            }
            ExprKind::Create => {
                let made = self.b.push(Ty::Packet(protocol), Op::Create);
                self.fresh_header(made, protocol, true);
                (made, None)
            }
            ExprKind::Encap(local) => (self.encap(*local, protocol), None),
            ExprKind::Decap(local, bytes) => self.decap(*local, protocol, bytes.as_deref()),
            _ => unreachable!("the checker knows no other expression that makes a packet"),
        }
    }

    /// A header of zeros and default values in front of the packet.
    fn encap(&mut self, local: LocalId, protocol: ProtocolId) -> Value {
        let index = self.packet_index(local);
        self.apply_checksums(index);
        let packet = self.release(local);
        let bytes = self.program.protocols[protocol.0 as usize].size;
        let pushed = self.b.push(Ty::Packet(protocol), Op::Push { packet, bytes });
        self.fresh_header(pushed, protocol, false);
        pushed
    }

    /// Writes default values into a header of zeros, and its checksum where all that it covers is known: the header, or a
    /// packet that is nothing but the header (`alone`).
    fn fresh_header(&mut self, packet: Value, protocol: ProtocolId, alone: bool) {
        let protocol = &self.program.protocols[protocol.0 as usize];
        let mut words = vec![0u32; (protocol.size as usize).div_ceil(2)];
        for field in protocol.fields.iter().filter(|f| f.default != 0) {
            let value = self.b.constant(field.bits.width, field.default);
            self.b.effect(Op::Store { packet, bits: field.bits, value });
            for bit in 0..field.bits.width {
                if field.default >> (field.bits.width - 1 - bit) & 1 == 1 {
                    let at = field.bits.offset + bit;
                    words[(at / 16) as usize] |= 1 << (15 - at % 16);
                }
            }
        }
        // The fresh header is all constants, so its checksum is one too (RFC 1071). All zero counts as consistent:
        // equation 3 reaches the right sum from there.
        if let Some(checksum) = protocol.checksum
            && !checksum.pseudo
            && (alone || !checksum.payload)
            && words.iter().any(|&w| w != 0)
        {
            let mut sum: u32 = words.iter().sum();
            while sum > 0xffff {
                sum = (sum & 0xffff) + (sum >> 16);
            }
            let value = self.b.constant(16, (!sum & 0xffff) as u128);
            self.b.effect(Op::Store { packet, bits: protocol.fields[checksum.field].bits, value });
        }
    }

    /// Removes the header.
    fn decap(&mut self, local: LocalId, protocol: ProtocolId, bytes: Option<&'p Expr>) -> (Value, Option<Value>) {
        let index = self.packet_index(local);
        let bytes = self.inner(index, protocol, bytes);
        self.apply_checksums(index);
        let carried = self.b.get(self.packets[index].carried);
        let packet = self.release(local);
        let own_pseudo = !self.program.protocols[protocol.0 as usize].pseudo.is_empty();
        let carried = if own_pseudo { None } else { Some(carried) };
        (self.b.push(Ty::Packet(protocol), Op::Pull { packet, bytes }), carried)
    }

    /// Length of the handle's header: its demux, or what the program says. Where it is not at least the fixed header,
    /// does not lie within the packet, or the inner protocol's fixed header does not follow, all that the PPF holds is
    /// dropped with the reason.
    fn inner(&mut self, index: usize, inner: ProtocolId, bytes: Option<&'p Expr>) -> Value {
        let outer = self.packets[index].protocol;
        let fixed = self.program.protocols[outer.0 as usize].size;
        let inner = self.program.protocols[inner.0 as usize].size;
        let bytes = match bytes {
            Some(bytes) => self.value(bytes),
            None => self.demux(index),
        };
        match self.b.as_constant(bytes) {
            Some(constant) if constant >= fixed as u128 => {
                // The handle's promise covers the fixed header; only what goes beyond it must be looked for.
                if constant > fixed as u128 {
                    self.require_bytes(index, bytes, DropId::MALFORMED);
                }
                // A length that is beyond every packet ended the path above.
                let needed = (constant as u32).saturating_add(inner);
                if needed > fixed {
                    let needed = self.b.constant(32, needed as u128);
                    self.require_bytes(index, needed, DropId::TRUNCATED);
                }
            }
            _ => {
                let minimum = self.b.constant(32, fixed as u128);
                let too_small = self.b.push(Ty::Int(1), Op::Cmp(CmpOp::Ult, bytes, minimum));
                let (bad, good) = (self.b.block(), self.b.block());
                self.b.branch(too_small, bad, good);
                self.fail(bad, DropId::MALFORMED);
                self.b.seal(good);
                self.b.switch_to(good);
                self.require_bytes(index, bytes, DropId::MALFORMED);
                // `bytes` is now at most the packet's length, so the sum cannot wrap.
                let inner = self.b.constant(32, inner as u128);
                let needed = self.b.binary(BinOp::Add, bytes, inner);
                self.require_bytes(index, needed, DropId::TRUNCATED);
            }
        }
        bytes
    }

    /// Header bytes of the packet as its protocol's demux says.
    pub(super) fn demux(&mut self, index: usize) -> Value {
        let protocol = self.packets[index].protocol;
        self.frames.push(Frame { slots: vec![Some(Slot::Packet(index))], exit: None, peeked: self.peeked.len() });
        let bytes = self.value(&self.program.demux[protocol.0 as usize]);
        self.frames.pop();
        bytes
    }

    /// Whether there are so many bytes from the handle's header on.
    pub(super) fn has(&mut self, index: usize, bytes: Value) -> Value {
        let packet = self.packet_of(index);
        let from_head = match self.packets[index].place {
            None => Some(bytes),
            // No packet is as long as what would not fit into 32 bits.
            Some(place) => self.b.as_constant(place.base).zip(self.b.as_constant(bytes)).map(|(base, bytes)| {
                let end = (base as u32).saturating_add(bytes as u32);
                self.b.constant(32, end.into())
            }),
        };
        match from_head {
            Some(bytes) => self.b.push(Ty::Int(1), Op::Has { packet, bytes }),
            None => {
                let length = self.length(index);
                self.b.push(Ty::Int(1), Op::Cmp(CmpOp::Ule, bytes, length))
            }
        }
    }

    fn require_bytes(&mut self, index: usize, bytes: Value, reason: DropId) {
        let has = self.has(index, bytes);
        let (good, bad) = (self.b.block(), self.b.block());
        self.b.branch(has, good, bad);
        self.fail(bad, reason);
        self.b.seal(good);
        self.b.switch_to(good);
    }

    /// A block that drops all that the PPF holds and ends it.
    fn fail(&mut self, block: crate::ir::BlockId, reason: DropId) {
        self.b.seal(block);
        self.b.switch_to(block);
        for owned in self.owned.clone() {
            let packet = self.packet_of(owned);
            self.b.effect(Op::Drop { packet, reason });
        }
        self.b.ret();
    }
}

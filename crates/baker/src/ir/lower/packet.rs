//! Packets: handles, fields, decap, peek, encap, copy.
//!
//! A handle made by `packet_peek` stands for no packet of its own: it is a place, `base` bytes behind the head of the
//! packet that it looks into.

use super::layers::{Layer, Step};
use super::{Frame, Lowering, Packet, Slot, Sum};
use crate::check::hir::{Expr, ExprKind, LocalId, Type};
use crate::check::own::OwnFields;
use crate::ir::{BinOp, BitRange, CmpOp, DropId, Op, ProtocolId, Ty, Value};

/// A packet that the PPF comes to own.
#[derive(Clone, Copy)]
pub(super) struct NewPacket {
    pub packet: Value,
    /// What is still to go into the checksum behind its header.
    pub carried: Option<Value>,
    /// Whether the program keeps that in line with the pseudo header itself: see [`Layer`].
    pub apart: Option<Value>,
    /// Where its header was made anew.
    pub made: Option<Made>,
}

/// A header that was made anew: its declared length is the compiler's.
#[derive(Clone, Copy)]
pub(super) enum Made {
    /// Just now, of a packet that is nothing but the header.
    Alone,
    /// Just now, of one that holds something.
    Around,
    /// As the header that this one is a copy of: 1 bit.
    As(Value),
}

impl NewPacket {
    pub fn new(packet: Value) -> NewPacket {
        NewPacket { packet, carried: None, apart: None, made: None }
    }
}

impl<'p> Lowering<'p> {
    /// Binds a local to a packet that the PPF now owns.
    pub(super) fn bind_packet(&mut self, local: LocalId, protocol: ProtocolId, new_packet: NewPacket, own: &OwnFields) {
        let var = self.b.var(Ty::Packet(protocol));
        let index = self.packets.len();
        let layer = self.add_layer(protocol, index, None, own.checksum(local));
        self.packets.push(Packet { var, protocol, base: None, layer });
        self.frame().slots[local.0 as usize] = Some(Slot::Packet(index));
        self.hold(index, new_packet, own.length(local));
    }

    /// Declares a handle that looks into the packet behind another one.
    pub(super) fn peek(&mut self, local: LocalId, init: &'p Expr, own: &OwnFields) {
        let (Type::Packet(protocol), ExprKind::Peek(of, bytes)) = (init.ty, &init.kind) else {
            unreachable!("a peek makes a packet")
        };
        let parent = self.packet_index(*of);
        let step = |this: &Self, value: Value| match (bytes, this.b.as_constant(value)) {
            (_, Some(constant)) => Step::Constant(constant),
            (None, None) => Step::Demux,
            (Some(_), None) => Step::Other,
        };
        let bytes = self.inner(parent, protocol, bytes.as_deref());
        let step = step(self, bytes);
        let base = match self.packets[parent].base {
            Some(base) => self.b.binary(BinOp::Add, base, bytes),
            None => bytes,
        };
        let Packet { var, layer: around, .. } = self.packets[parent];
        let layer = self.know(protocol, around, (step, base), own.checksum(local));
        self.packets.push(Packet { var, protocol, base: Some(base), layer });
        self.frame().slots[local.0 as usize] = Some(Slot::Packet(self.packets.len() - 1));
    }

    /// A handle whose packet was consumed gets a new one of the same protocol.
    pub(super) fn rebind(&mut self, local: LocalId, new_packet: NewPacket, own: &OwnFields) {
        let index = self.packet_index(local);
        self.hold(index, new_packet, own.length(local));
    }

    /// A handle gets a packet, of which nothing but its header is known. `own_length`: the program writes its length.
    fn hold(&mut self, index: usize, new_packet: NewPacket, own_length: bool) {
        let Packet { var, layer, .. } = self.packets[index];
        self.b.set(var, new_packet.packet);
        self.end_known(index);
        let Layer { delta, pseudo, carried, apart, .. } = self.layers[layer];
        let zero = self.b.shared_constant(32, 0);
        let change = new_packet.carried.unwrap_or(zero);
        let takes = self.takes_pseudo(layer);
        if let Some(delta) = delta {
            self.b.set(delta, if takes && pseudo.is_none() { change } else { zero });
            if let Some(pseudo) = pseudo {
                self.b.set(pseudo, if takes { change } else { zero });
            }
            if takes && self.b.as_constant(change) != Some(0) {
                self.counted.insert(Sum::Own(layer));
            }
        }
        self.b.set(carried, if takes { zero } else { change });
        if !takes && self.b.as_constant(change) != Some(0) {
            self.counted.insert(Sum::Carried(layer));
        }
        let is_apart = new_packet.apart.unwrap_or_else(|| self.b.shared_constant(1, 0));
        self.b.set(apart, is_apart);
        self.owned.push(index);
        if !own_length && self.declared_length(index).is_some() {
            self.begin_length(index, new_packet.made);
        }
    }

    /// Ends what is known of a packet but for its own header.
    pub(super) fn end_known(&mut self, index: usize) {
        let known = self.known(index);
        self.forget(&known);
    }

    /// The handle by which the packet that a handle leads to is consumed.
    pub(super) fn root(&self, index: usize) -> usize {
        self.layers[self.packets[index].layer].root
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
        let op = match self.packets[index].base {
            Some(offset) => Op::LoadAt { packet, offset, bits },
            None => Op::Load { packet, bits },
        };
        self.b.push(Ty::Int(bits.width), op)
    }

    /// Stores bits of the handle's header, whatever checksums cover them.
    pub(super) fn store_bits(&mut self, index: usize, bits: BitRange, value: Value) {
        let packet = self.packet_of(index);
        self.b.effect(match self.packets[index].base {
            Some(offset) => Op::StoreAt { packet, offset, bits, value },
            None => Op::Store { packet, bits, value },
        });
    }

    pub(super) fn load_field(&mut self, local: LocalId, field: u32) -> Value {
        let index = self.packet_index(local);
        if self.is_checksum(index, field) {
            self.apply_checksums(index);
            self.asks_for_whole(index);
        }
        let bits = self.field_bits(index, field);
        self.load_bits(index, bits)
    }

    /// Bytes from the handle's header to the packet's end.
    pub(super) fn length(&mut self, index: usize) -> Value {
        let packet = self.packet_of(index);
        let length = self.b.push(Ty::Int(32), Op::Len { packet });
        match self.packets[index].base {
            Some(base) => self.b.binary(BinOp::Sub, length, base),
            None => length,
        }
    }

    /// Takes a handle out of the PPF's hands without touching the packet.
    pub(super) fn release(&mut self, local: LocalId) -> Value {
        let index = self.packet_index(local);
        self.owned.retain(|&owned| owned != index);
        self.packet_of(index)
    }

    /// A packet for the operation that consumes it.
    pub(super) fn consume(&mut self, expr: &'p Expr) -> Value {
        let new_packet = self.new_packet(expr);
        let Type::Packet(protocol) = expr.ty else { unreachable!("a packet") };
        if !matches!(new_packet.made, Some(Made::Alone | Made::Around))
            || self.program.counts[protocol.0 as usize].is_none()
        {
            return new_packet.packet;
        }
        // A header without a name has a length, too.
        let (var, index) = (self.b.var(Ty::Packet(protocol)), self.packets.len());
        let layer = self.add_layer(protocol, index, None, false);
        self.packets.push(Packet { var, protocol, base: None, layer });
        self.hold(index, new_packet, false);
        self.apply_checksums(index);
        self.owned.retain(|&owned| owned != index);
        self.packet_of(index)
    }

    /// The packet, and what is still to go into the checksum behind its header.
    pub(super) fn new_packet(&mut self, expr: &'p Expr) -> NewPacket {
        let Type::Packet(protocol) = expr.ty else { unreachable!("a packet") };
        match &expr.kind {
            ExprKind::Local(local) => {
                let index = self.packet_index(*local);
                self.apply_checksums(index);
                let layer = self.packets[index].layer;
                let carried = self.carried_of(layer);
                self.end_known(index);
                NewPacket { packet: self.release(*local), ..carried }
            }
            ExprKind::Copy(local) => {
                let index = self.packet_index(*local);
                self.apply_checksums(index);
                let packet = self.packet_of(index);
                let copied = self.b.push(self.b.ty(packet), Op::Copy { packet });
                // Of a handle that looks into a packet: what lies in front of its header is not copied.
                let packet = match self.base(index) {
                    Some(bytes) => self.b.push(Ty::Packet(protocol), Op::Pull { packet: copied, bytes }),
                    None => copied,
                };
                let layer = self.packets[index].layer;
                let made = self.declared_length(index).map(|_| Made::As(self.b.get(self.layers[layer].made)));
                NewPacket { packet, made, ..self.carried_of(layer) }
            }
            ExprKind::HoldGet(table, key) => {
                let key = self.value(key);
                NewPacket::new(self.b.push(Ty::Packet(protocol), Op::HoldGet { table: *table, key }))
            }
            ExprKind::Create => {
                let new_packet = self.b.push(Ty::Packet(protocol), Op::Create);
                self.fresh_header(new_packet, protocol, true);
                NewPacket { made: Some(Made::Alone), ..self.anew(new_packet) }
            }
            ExprKind::Encap(local) => {
                let pushed = self.encap(*local, protocol);
                self.anew(pushed)
            }
            ExprKind::Replace(local) => {
                let replaced = self.replace(*local, protocol);
                self.anew(replaced)
            }
            ExprKind::Decap(local, bytes) => self.decap(*local, protocol, bytes.as_deref()),
            _ => unreachable!("the checker knows no other expression that makes a packet"),
        }
    }

    /// What goes on with a header to another handle of it; the packet is still to be given.
    fn carried_of(&mut self, layer: usize) -> NewPacket {
        let packet = Value(u32::MAX);
        let Some(scope) = self.scope(layer) else { return NewPacket::new(packet) };
        let Layer { carried, apart, .. } = self.layers[scope];
        let changed = self.changed.contains(&Sum::Carried(scope));
        let carried = changed.then(|| self.b.get(carried));
        NewPacket { carried, apart: Some(self.b.get(apart)), ..NewPacket::new(packet) }
    }

    /// Removes the header.
    fn decap(&mut self, local: LocalId, protocol: ProtocolId, bytes: Option<&'p Expr>) -> NewPacket {
        let index = self.packet_index(local);
        let by_demux = bytes.is_none();
        let bytes = self.inner(index, protocol, bytes);
        self.apply_checksums(index);
        let step = match (by_demux, self.b.as_constant(bytes)) {
            (true, None) => Some(Step::Demux),
            (_, constant) => constant.map(Step::Constant),
        };
        let around = self.packets[index].layer;
        // Where the header was looked at before, what it has carried on; else what the one in front of it has.
        let peeked = self.known(index).into_iter().find(|&layer| {
            let Layer { protocol: known, inner, .. } = self.layers[layer];
            let inner = inner.expect("known by a peek");
            known == protocol && inner.parent == around && Some(inner.step) == step
        });
        let declared = &self.program.protocols[protocol.0 as usize];
        let carried = match peeked.filter(|_| !declared.pseudo.is_empty()) {
            Some(layer) => self.carried_of(layer),
            None if declared.pseudo.is_empty() => self.carried_of(around),
            None => NewPacket::new(bytes),
        };
        self.end_known(index);
        let packet = self.release(local);
        let packet = self.b.push(Ty::Packet(protocol), Op::Pull { packet, bytes });
        NewPacket { packet, ..carried }
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
        self.of_header(index, &self.program.demux[protocol.0 as usize])
    }

    /// What an expression over a header's fields gives.
    pub(super) fn of_header(&mut self, index: usize, expr: &'p Expr) -> Value {
        self.frames.push(Frame { slots: vec![Some(Slot::Packet(index))], exit: None });
        let value = self.value(expr);
        self.frames.pop();
        value
    }

    /// Whether there are so many bytes from the handle's header on.
    pub(super) fn has(&mut self, index: usize, bytes: Value) -> Value {
        let packet = self.packet_of(index);
        let from_head = match self.packets[index].base {
            None => Some(bytes),
            // No packet is as long as what would not fit into 32 bits.
            Some(base) => self.b.as_constant(base).zip(self.b.as_constant(bytes)).map(|(base, bytes)| {
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

    pub(super) fn require_bytes(&mut self, index: usize, bytes: Value, reason: DropId) {
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

//! Bytes of packets at places found at run time, and packets that get longer or shorter.

use super::Lowering;
use super::extent::Parts;
use crate::builtin::Function;
use crate::check::hir::{Expr, ExprKind, Type};
use crate::ir::{BinOp, BitRange, CastOp, CmpOp, Op, PacketEnd, Ty, Value};

impl<'p> Lowering<'p> {
    /// The language's functions that leave a packet where it is.
    pub(super) fn packet_call(&mut self, expr: &'p Expr) -> Vec<Value> {
        let ExprKind::Packet(call, local, operands) = &expr.kind else { unreachable!("a call on a packet") };
        let index = self.packet_index(*local);
        match (*call, &operands[..]) {
            (Function::PacketLoad, [offset]) => {
                let Type::Loaded { width, .. } = expr.ty else { unreachable!("a load gives loaded bytes") };
                self.packet_load(index, offset, width)
            }
            (Function::PacketStore, [offset, value]) => vec![self.packet_store(index, offset, value)],
            (Function::PacketTrimHead | Function::PacketTrimTail, [bytes]) => {
                vec![self.packet_trim(*call, index, bytes)]
            }
            (Function::PacketGrowHead | Function::PacketGrowTail, [bytes]) => {
                let bytes = self.value(bytes);
                // What a checksum covers is about to lie elsewhere.
                self.apply_checksums(index);
                let end = if *call == Function::PacketGrowHead { PacketEnd::Head } else { PacketEnd::Tail };
                let follows = self.length_follows(index) && end == PacketEnd::Tail;
                if !follows {
                    self.end_known(index);
                }
                let packet = self.packet_of(index);
                let grown = self.b.push(Ty::Int(1), Op::Grow { packet, bytes, end });
                match end {
                    PacketEnd::Head => self.other_header(index),
                    PacketEnd::Tail if follows => {
                        self.follow_length(index);
                        self.apply_known(index);
                        self.end_known(index);
                    }
                    PacketEnd::Tail => {}
                }
                vec![grown]
            }
            _ => self.checksum_call(*call, *local, operands),
        }
    }

    /// Whether the bytes are there, and their value, else 0.
    fn packet_load(&mut self, index: usize, offset: &'p Expr, width: u32) -> Vec<Value> {
        let offset = self.value(offset);
        // The bytes may be a checksum.
        self.apply_checksums(index);
        let there = self.within(index, offset, width / 8);
        let result = self.b.var(Ty::Int(width));
        let zero = self.b.constant(width, 0);
        self.b.set(result, zero);
        self.where_(there, |this| {
            let packet = this.packet_of(index);
            let offset = this.at_head(index, offset);
            let bits = BitRange { offset: 0, width };
            let value = this.b.push(Ty::Int(width), Op::LoadAt { packet, offset, bits });
            this.b.set(result, value);
        });
        vec![there, self.b.get(result)]
    }

    /// Stores where the bytes are there; whether they are.
    fn packet_store(&mut self, index: usize, offset: &'p Expr, value: &'p Expr) -> Value {
        let (offset, value) = (self.value(offset), self.value(value));
        let Ty::Int(width) = self.b.ty(value) else { unreachable!("a number") };
        let there = self.within(index, offset, width / 8);
        let layer = self.packets[index].layer;
        self.where_(there, |this| {
            let packet = this.packet_of(index);
            let at = this.at_head(index, offset);
            let all = this.b.constant(32, u128::from(width / 8));
            let written = this.b.as_constant(offset).map(|from| (from as u32, width / 8));
            let others = this.others_stored(layer, written);
            let before = this.totals(&others, layer, Parts::All);
            // The bytes lie in the handle's header or behind it, so its own checksum may cover a part of them.
            let mut keepers: Vec<(usize, Value)> = Vec::new();
            for keeper in this.covering(index) {
                let bytes = this.bytes_within(keeper, at, all);
                keepers.push((keeper, bytes));
            }
            if this.layers[layer].delta.is_some() && !others.contains(&layer) {
                let bytes = this.covered_bytes(index, offset, all);
                keepers.push((layer, bytes));
            }
            let sum = |this: &mut Self, bytes: Value| {
                let sum = this.b.push(Ty::Int(16), Op::Sum { packet, offset: at, bytes });
                this.b.push(Ty::Int(32), Op::Cast(CastOp::ZExt, sum))
            };
            let old: Vec<Value> = keepers.iter().map(|(_, bytes)| sum(this, *bytes)).collect();
            this.b.effect(Op::StoreAt { packet, offset: at, bits: BitRange { offset: 0, width }, value });
            for ((keeper, bytes), old) in keepers.into_iter().zip(old) {
                let new = sum(this, bytes);
                let old = this.complement(old);
                let change = this.sum_of(old, new);
                this.count(keeper, None, change, 1);
            }
            this.settle(before);
        });
        there
    }

    /// Of `bytes` bytes from `at` on, counted from the packet's head, those that lie within what a checksum covers
    /// whose header lies in front of them.
    fn bytes_within(&mut self, keeper: usize, at: Value, bytes: Value) -> Value {
        if self.ender(keeper).is_none() {
            return bytes;
        }
        let packet = self.packet_of(self.layers[keeper].root);
        let length = self.b.push(Ty::Int(32), Op::Len { packet });
        let end = self.cover_end(keeper, length);
        let left = self.b.binary(BinOp::Sub, end, at);
        let fewer = self.select_by(CmpOp::Ult, left, bytes, left, bytes);
        let zero = self.b.constant(32, 0);
        self.select_by(CmpOp::Ult, end, at, zero, fewer)
    }

    /// How many of `bytes` bytes from `offset` on the handle's own checksum covers.
    fn covered_bytes(&mut self, index: usize, offset: Value, bytes: Value) -> Value {
        let protocol = &self.program.protocols[self.packets[index].protocol.0 as usize];
        if protocol.checksum.is_some_and(|checksum| checksum.payload) {
            let at = self.at_head(index, offset);
            return self.bytes_within(self.packets[index].layer, at, bytes);
        }
        let length = self.length(index);
        let (header, _) = self.header_length(index, length);
        let left = self.b.binary(BinOp::Sub, header, offset);
        let fewer = self.b.push(Ty::Int(1), Op::Cmp(CmpOp::Ult, left, bytes));
        let covered = self.b.push(Ty::Int(32), Op::Select(fewer, left, bytes));
        let behind = self.b.push(Ty::Int(1), Op::Cmp(CmpOp::Ule, header, offset));
        let zero = self.b.constant(32, 0);
        self.b.push(Ty::Int(32), Op::Select(behind, zero, covered))
    }

    /// Takes bytes off where the fixed header stays; whether it does.
    fn packet_trim(&mut self, call: Function, index: usize, bytes: &'p Expr) -> Value {
        let bytes = self.value(bytes);
        self.apply_checksums(index);
        let length = self.length(index);
        let protocol = self.packets[index].protocol;
        let declared = &self.program.protocols[protocol.0 as usize];
        let fixed = self.b.constant(32, declared.size as u128);
        // The fixed header is there, so this does not wrap.
        let most = self.b.binary(BinOp::Sub, length, fixed);
        let stays = self.b.push(Ty::Int(1), Op::Cmp(CmpOp::Ule, bytes, most));
        self.where_(stays, |this| {
            let packet = this.packet_of(index);
            if call == Function::PacketTrimHead {
                let pulled = this.b.push(Ty::Packet(protocol), Op::Pull { packet, bytes });
                let var = this.packets[index].var;
                this.b.set(var, pulled);
                return this.other_header(index);
            }
            let left = this.b.binary(BinOp::Sub, length, bytes);
            this.cut(index, left);
            this.b.effect(Op::Trim { packet, bytes });
            this.follow_length(index);
            this.apply_left(index, left);
        });
        self.end_known(index);
        stays
    }

    /// Whether `bytes` bytes from `offset` on lie within what the handle leads to.
    fn within(&mut self, index: usize, offset: Value, bytes: u32) -> Value {
        if let Some(offset) = self.b.as_constant(offset) {
            let end = self.b.constant(32, (offset as u32).saturating_add(bytes).into());
            return self.has(index, end);
        }
        let length = self.length(index);
        let bytes = self.b.constant(32, bytes as u128);
        let enough = self.b.push(Ty::Int(1), Op::Cmp(CmpOp::Ule, bytes, length));
        let last = self.b.binary(BinOp::Sub, length, bytes);
        let before = self.b.push(Ty::Int(1), Op::Cmp(CmpOp::Ule, offset, last));
        self.b.binary(BinOp::And, enough, before)
    }

    /// An offset from the handle's header as one from the packet's head.
    fn at_head(&mut self, index: usize, offset: Value) -> Value {
        match self.base(index) {
            Some(base) => self.b.binary(BinOp::Add, base, offset),
            None => offset,
        }
    }

    /// Does something where a condition holds.
    pub(super) fn where_(&mut self, condition: Value, inside: impl FnOnce(&mut Self)) {
        let (then, join) = (self.b.block(), self.b.block());
        self.b.branch(condition, then, join);
        self.b.seal(then);
        self.b.switch_to(then);
        inside(self);
        self.b.jump(join);
        self.b.seal(join);
        self.b.switch_to(join);
    }
}

//! Packets: fields, checksums, decap, encap, copy.
//!
//! A declared checksum is kept by RFC 1624 equation 3, HC' = ~(~HC + ~m + m'). The sum of ~m + m' over all writes since
//! the handle was made is carried in a variable and applied once, where the handle is consumed or the checksum is read.

use std::collections::HashSet;

use super::{Frame, Lowering, Packet, Slot};
use crate::check::hir::{Code, Expr, ExprKind, LocalId, Program, Stmt, StmtKind, Type};
use crate::ir::{BinOp, BitRange, CastOp, CmpOp, DropId, Op, ProtocolId, Ty, Value};

/// Terms that a checksum's change may add up before it is folded: 2^14 × 0x1fffe < 2^32.
const MAX_TERMS: u32 = 1 << 14;

/// Handles whose checksum field the program itself writes: keeping it is then the program's own business.
pub(super) struct OwnChecksum(HashSet<LocalId>);

/// Finds the handles of a PPF, and of the functions they are lent to, whose checksum field is written.
pub(super) fn writes_checksum(program: &Program, code: &Code) -> OwnChecksum {
    let mut found = HashSet::new();
    visit(program, code, &code.body, &mut found);
    OwnChecksum(found)
}

fn visit(program: &Program, code: &Code, statements: &[Stmt], found: &mut HashSet<LocalId>) {
    let mut exprs: Vec<&Expr> = Vec::new();
    for statement in statements {
        if let StmtKind::SetField(local, field, _) = &statement.kind
            && let Type::Packet(protocol) = code.locals[local.0 as usize].ty
            && program.protocols[protocol.0 as usize].header_checksum == Some(*field as usize)
        {
            found.insert(*local);
        }
        exprs.extend(statement.kind.expressions());
        for nested in statement.kind.nested() {
            visit(program, code, nested, found);
        }
    }
    while let Some(expr) = exprs.pop() {
        if let ExprKind::Call(function, arguments) = &expr.kind {
            let callee = &program.functions[function.0 as usize].code;
            let mut inside = HashSet::new();
            visit(program, callee, &callee.body, &mut inside);
            for (i, argument) in arguments.iter().enumerate() {
                if let ExprKind::Local(local) = argument.kind
                    && inside.contains(&LocalId(i as u32))
                {
                    found.insert(local);
                }
            }
        }
        expr.for_each_operand(|operand| exprs.push(operand));
    }
}

impl<'p> Lowering<'p> {
    /// Binds a local to a packet that the PPF now owns.
    pub(super) fn bind_packet(&mut self, local: LocalId, protocol: ProtocolId, value: Value, own: &OwnChecksum) {
        let var = self.b.var(Ty::Packet(protocol));
        self.b.set(var, value);
        let declared = self.program.protocols[protocol.0 as usize].header_checksum.is_some();
        let delta = (declared && !own.0.contains(&local)).then(|| {
            let delta = self.b.var(Ty::Int(32));
            let zero = self.b.constant(32, 0);
            self.b.set(delta, zero);
            delta
        });
        self.packets.push(Packet { var, protocol, delta, terms: 0 });
        let index = self.packets.len() - 1;
        self.owned.push(index);
        self.frame().slots[local.0 as usize] = Some(Slot::Packet(index));
    }

    fn field_bits(&self, packet: usize, field: u32) -> BitRange {
        self.program.protocols[self.packets[packet].protocol.0 as usize].fields[field as usize].bits
    }

    fn is_checksum(&self, packet: usize, field: u32) -> bool {
        let protocol = &self.program.protocols[self.packets[packet].protocol.0 as usize];
        protocol.header_checksum == Some(field as usize)
    }

    pub(super) fn load_field(&mut self, local: LocalId, field: u32) -> Value {
        let index = self.packet_index(local);
        if self.is_checksum(index, field) {
            self.apply_checksum(index);
        }
        let bits = self.field_bits(index, field);
        let packet = self.packet_value(local);
        self.b.push(Ty::Int(bits.width), Op::Load { packet, bits })
    }

    pub(super) fn store_field(&mut self, local: LocalId, field: u32, value: Value) {
        let index = self.packet_index(local);
        let bits = self.field_bits(index, field);
        let packet = self.packet_value(local);
        let Some(delta) = self.packets[index].delta else {
            self.b.effect(Op::Store { packet, bits, value });
            return;
        };
        let header_bits = self.program.protocols[self.packets[index].protocol.0 as usize].size * 8;
        let old = self.covering_words(packet, bits, header_bits);
        self.b.effect(Op::Store { packet, bits, value });
        let new = self.covering_words(packet, bits, header_bits);
        let mut sum = self.b.get(delta);
        let ones = self.b.constant(32, 0xffff);
        let terms = &mut self.packets[index].terms;
        *terms += old.len() as u32;
        // Each term is at most 0x1fffe. A loop adds without a bound known here; else a fold is needed only now and then
        // so that 32 bits are always enough.
        let fold = self.exits.iter().any(|exits| exits.next.is_some()) || *terms > MAX_TERMS;
        if *terms > MAX_TERMS {
            *terms = 0;
        }
        for (old, new) in old.into_iter().zip(new) {
            let complement = self.b.binary(BinOp::Xor, old, ones);
            sum = self.b.binary(BinOp::Add, sum, complement);
            sum = self.b.binary(BinOp::Add, sum, new);
        }
        if fold {
            sum = self.fold_carry(sum);
        }
        self.b.set(delta, sum);
    }

    /// The 16-bit words of the header that a bit range touches, widened to 32 bits. The last byte of a header of odd size
    /// counts as a word's upper half, as in RFC 1071.
    fn covering_words(&mut self, packet: Value, bits: BitRange, header_bits: u32) -> Vec<Value> {
        let words = bits.offset / 16..(bits.offset + bits.width).div_ceil(16);
        words
            .map(|word| {
                let width = (header_bits - word * 16).min(16);
                let bits = BitRange { offset: word * 16, width };
                let loaded = self.b.push(Ty::Int(width), Op::Load { packet, bits });
                let wide = self.b.push(Ty::Int(32), Op::Cast(CastOp::ZExt, loaded));
                if width == 16 {
                    return wide;
                }
                let shift = self.b.constant(32, 16 - width as u128);
                self.b.binary(BinOp::Shl, wide, shift)
            })
            .collect()
    }

    /// One step of end-around carry.
    fn fold_carry(&mut self, sum: Value) -> Value {
        let (mask, sixteen) = (self.b.constant(32, 0xffff), self.b.constant(32, 16));
        let low = self.b.binary(BinOp::And, sum, mask);
        let high = self.b.binary(BinOp::LShr, sum, sixteen);
        self.b.binary(BinOp::Add, low, high)
    }

    /// Brings the checksum field up to date with all writes so far.
    fn apply_checksum(&mut self, index: usize) {
        let Packet { var, protocol, delta: Some(delta), .. } = self.packets[index] else { return };
        let sum = self.b.get(delta);
        if self.b.as_constant(sum) == Some(0) {
            return;
        }
        let protocol = &self.program.protocols[protocol.0 as usize];
        let field = protocol.header_checksum.expect("a delta is kept for a declared checksum only");
        let bits = protocol.fields[field].bits;
        let packet = self.b.get(var);
        let old = self.b.push(Ty::Int(16), Op::Load { packet, bits });
        let old = self.b.push(Ty::Int(32), Op::Cast(CastOp::ZExt, old));
        let ones = self.b.constant(32, 0xffff);
        let complement = self.b.binary(BinOp::Xor, old, ones);
        // The first fold leaves at most 0x1fffe, so the sum cannot overflow and two more folds suffice.
        let sum = self.fold_carry(sum);
        let sum = self.b.binary(BinOp::Add, sum, complement);
        let sum = self.fold_carry(sum);
        let sum = self.fold_carry(sum);
        let new = self.b.binary(BinOp::Xor, sum, ones);
        let value = self.b.push(Ty::Int(16), Op::Cast(CastOp::Trunc, new));
        self.b.effect(Op::Store { packet, bits, value });
        let zero = self.b.constant(32, 0);
        self.b.set(delta, zero);
    }

    /// Takes a handle out of the PPF's hands without touching the packet.
    pub(super) fn release(&mut self, local: LocalId) -> Value {
        let index = self.packet_index(local);
        self.owned.retain(|&owned| owned != index);
        self.packet_value(local)
    }

    /// A packet for whoever consumes it.
    pub(super) fn consume(&mut self, expr: &'p Expr) -> Value {
        let Type::Packet(protocol) = expr.ty else { unreachable!("a packet") };
        match expr.kind {
            ExprKind::Local(local) => {
                let index = self.packet_index(local);
                self.apply_checksum(index);
                self.release(local)
            }
            ExprKind::Copy(local) => {
                let index = self.packet_index(local);
                self.apply_checksum(index);
                let packet = self.packet_value(local);
                self.b.push(Ty::Packet(protocol), Op::Copy { packet })
            }
            ExprKind::Encap(local) => self.encap(local, protocol),
            ExprKind::Decap(local) => self.decap(local, protocol),
            _ => unreachable!("the checker knows no other expression that makes a packet"),
        }
    }

    /// A header of zeros and default values in front of the packet.
    fn encap(&mut self, local: LocalId, protocol: ProtocolId) -> Value {
        let index = self.packet_index(local);
        self.apply_checksum(index);
        let packet = self.release(local);
        let outer = &self.program.protocols[protocol.0 as usize];
        let pushed = self.b.push(Ty::Packet(protocol), Op::Push { packet, bytes: outer.size });
        let mut words = vec![0u32; (outer.size as usize).div_ceil(2)];
        for field in outer.fields.iter().filter(|f| f.default != 0) {
            let value = self.b.constant(field.bits.width, field.default);
            self.b.effect(Op::Store { packet: pushed, bits: field.bits, value });
            for bit in 0..field.bits.width {
                if field.default >> (field.bits.width - 1 - bit) & 1 == 1 {
                    let at = field.bits.offset + bit;
                    words[(at / 16) as usize] |= 1 << (15 - at % 16);
                }
            }
        }
        // The fresh header is all constants, so its checksum is one too (RFC 1071). All zero counts as consistent:
        // equation 3 reaches the right sum from there.
        if let Some(field) = outer.header_checksum
            && words.iter().any(|&w| w != 0)
        {
            let mut sum: u32 = words.iter().sum();
            while sum > 0xffff {
                sum = (sum & 0xffff) + (sum >> 16);
            }
            let value = self.b.constant(16, (!sum & 0xffff) as u128);
            self.b.effect(Op::Store { packet: pushed, bits: outer.fields[field].bits, value });
        }
        pushed
    }

    /// Removes the header: `demux` bytes, where they are at least the fixed header and lie within the packet, and where
    /// the new protocol's fixed header follows. Else drops it, and whatever else the PPF holds, with the reason.
    fn decap(&mut self, local: LocalId, protocol: ProtocolId) -> Value {
        let index = self.packet_index(local);
        self.apply_checksum(index);
        let outer = self.packets[index].protocol;
        let fixed = self.program.protocols[outer.0 as usize].size;
        let inner = self.program.protocols[protocol.0 as usize].size;
        let bytes = self.demux(index, outer);
        match self.b.as_constant(bytes) {
            Some(constant) => {
                // The handle's promise covers the fixed header; only what goes beyond it must be looked for.
                if constant > fixed as u128 {
                    self.require_bytes(local, bytes, DropId::MALFORMED);
                }
                if constant as u32 + inner > fixed {
                    let needed = self.b.constant(32, constant + inner as u128);
                    self.require_bytes(local, needed, DropId::TRUNCATED);
                }
            }
            None => {
                let minimum = self.b.constant(32, fixed as u128);
                let too_small = self.b.push(Ty::Int(1), Op::Cmp(CmpOp::Ult, bytes, minimum));
                let (bad, good) = (self.b.block(), self.b.block());
                self.b.branch(too_small, bad, good);
                self.fail(local, bad, DropId::MALFORMED);
                self.b.seal(good);
                self.b.switch_to(good);
                self.require_bytes(local, bytes, DropId::MALFORMED);
                // `bytes` is now at most the packet's length, so the sum cannot wrap.
                let inner = self.b.constant(32, inner as u128);
                let needed = self.b.binary(BinOp::Add, bytes, inner);
                self.require_bytes(local, needed, DropId::TRUNCATED);
            }
        }
        let packet = self.release(local);
        self.b.push(Ty::Packet(protocol), Op::Pull { packet, bytes })
    }

    /// Header bytes of the packet: its protocol's demux.
    fn demux(&mut self, index: usize, protocol: ProtocolId) -> Value {
        self.frames.push(Frame { slots: vec![Some(Slot::Packet(index))], exit: None });
        let bytes = self.value(&self.program.demux[protocol.0 as usize]);
        self.frames.pop();
        bytes
    }

    fn require_bytes(&mut self, local: LocalId, bytes: Value, reason: DropId) {
        let packet = self.packet_value(local);
        let has = self.b.push(Ty::Int(1), Op::Has { packet, bytes });
        let (good, bad) = (self.b.block(), self.b.block());
        self.b.branch(has, good, bad);
        self.fail(local, bad, reason);
        self.b.seal(good);
        self.b.switch_to(good);
    }

    /// A block that drops all that the PPF holds and ends it.
    fn fail(&mut self, local: LocalId, block: crate::ir::BlockId, reason: DropId) {
        self.b.seal(block);
        self.b.switch_to(block);
        let index = self.packet_index(local);
        debug_assert!(self.owned.contains(&index));
        for owned in self.owned.clone() {
            let var = self.packets[owned].var;
            let packet = self.b.get(var);
            self.b.effect(Op::Drop { packet, reason });
        }
        self.b.ret();
    }
}

//! What a program asks of declared checksums: whether they are right, that they are computed anew, what a payload adds
//! up to. `checksum` keeps them.

use super::Lowering;
use super::changes::Changes;
use crate::builtin::Function;
use crate::check::hir::{Expr, LocalId};
use crate::ir::{BinOp, BitRange, CastOp, Checksum, CmpOp, Op, Ty, Value};

/// Words of 32 bits that are summed up one by one: those of the longest TCP header.
const MAX_WORDS: u128 = 15;

impl<'p> Lowering<'p> {
    /// The functions named `checksum_…`.
    pub(super) fn checksum_call(&mut self, call: Function, local: LocalId, operands: &'p [Expr]) -> Vec<Value> {
        let index = self.packet_index(local);
        let layer = self.packets[index].layer;
        if call == Function::ChecksumNone {
            self.none_behind(layer, None);
            let one = self.b.shared_constant(1, 1);
            self.b.set(self.layers[layer].apart, one);
            self.take(self.layers[layer].carried);
            return Vec::new();
        }
        let checksum = self.declared(index).expect("the checker has seen to it");
        if call != Function::ChecksumOk {
            self.asks_for_whole(index);
        }
        let operands: Vec<Value> = operands.iter().map(|operand| self.value(operand)).collect();
        match (call, &operands[..]) {
            (Function::ChecksumAdjust, &[old, new]) => {
                let change = self.number_change(old, new);
                match self.layers[layer].delta {
                    Some(_) => self.count(layer, self.base(index), change, 1),
                    None => self.update_checksum(index, checksum, Changes::of_covered(change)),
                }
                Vec::new()
            }
            (Function::ChecksumOk, _) => {
                self.apply_checksums(index);
                vec![self.is_right(index, checksum, &operands)]
            }
            (Function::ChecksumPayload, _) => {
                self.apply_checksums(index);
                vec![self.payload_sum(index, checksum, &operands)]
            }
            (Function::ChecksumSet, _) => {
                self.forget_changes(layer);
                self.apply_checksums(index);
                self.forget_changes(layer);
                let (pseudo, payload) = operands.split_at(usize::from(checksum.pseudo));
                let bits = self.field_bits(index, checksum.field as u32);
                let old = self.load_bits(index, bits);
                let zero = self.b.constant(16, 0);
                self.store_bits(index, bits, zero);
                let sum = match payload {
                    [payload] => self.sum_with(index, *payload, pseudo),
                    _ => self.whole_sum(index, checksum, pseudo.first().copied()).0,
                };
                self.store_bits(index, bits, old);
                let new = self.complement(sum);
                let mut value = self.b.push(Ty::Int(16), Op::Cast(CastOp::Trunc, new));
                if checksum.optional {
                    value = self.never_zero(value);
                }
                self.store_covered(index, bits, value, false, &[]);
                Vec::new()
            }
            _ => unreachable!("the checker counts arguments"),
        }
    }

    /// Whether a checksum is right, with the pseudo header's sum if it covers one, of a number of bytes if that is
    /// given. One that a device is still to compute is, and has the number that the pseudo header adds up to; no bytes
    /// are summed up then, which may be those of a super-packet.
    fn is_right(&mut self, index: usize, checksum: Checksum, operands: &[Value]) -> Value {
        let (pseudo, bytes) = operands.split_at(usize::from(checksum.pseudo));
        let bytes = bytes.first().copied();
        let &[pseudo] = pseudo else { return self.adds_up(index, checksum, None, bytes) };
        if !self.operations {
            return self.adds_up(index, checksum, Some(pseudo), bytes);
        }
        let bits = self.field_bits(index, checksum.field as u32);
        let (found, sum) = (self.load_bits(index, bits), self.folded(pseudo));
        let sum = self.b.push(Ty::Int(16), Op::Cast(CastOp::Trunc, sum));
        let right = self.b.var(Ty::Int(1));
        let (same, zero) = (self.b.push(Ty::Int(1), Op::Cmp(CmpOp::Eq, found, sum)), self.b.constant(16, 0));
        // No pseudo header adds up to 0.
        let any = self.b.push(Ty::Int(1), Op::Cmp(CmpOp::Ne, sum, zero));
        let left = self.b.binary(BinOp::And, same, any);
        self.b.set(right, left);
        let computed = self.not(left);
        self.where_(computed, |this| {
            let sum = this.adds_up(index, checksum, Some(pseudo), bytes);
            this.b.set(right, sum);
        });
        self.b.get(right)
    }

    /// Whether all that a checksum covers adds up to 0xffff, or it is none (RFC 1071).
    fn adds_up(&mut self, index: usize, checksum: Checksum, pseudo: Option<Value>, bytes: Option<Value>) -> Value {
        let ones = self.b.constant(32, 0xffff);
        let is_ones = |this: &mut Self, sum| this.b.push(Ty::Int(1), Op::Cmp(CmpOp::Eq, sum, ones));
        let mut ok = match bytes {
            None => {
                let (sum, right) = self.whole_sum(index, checksum, pseudo);
                let equal = is_ones(self, sum);
                self.b.binary(BinOp::And, equal, right)
            }
            Some(bytes) => {
                let ok = self.b.var(Ty::Int(1));
                let length = self.length(index);
                let there = self.b.push(Ty::Int(1), Op::Cmp(CmpOp::Ule, bytes, length));
                self.b.set(ok, there);
                self.where_(there, |this| {
                    let mut sum = this.sum_of_first(index, bytes);
                    if let Some(pseudo) = pseudo {
                        let pseudo = this.fold_carry(pseudo);
                        sum = this.b.binary(BinOp::Add, sum, pseudo);
                    }
                    let sum = this.folded(sum);
                    let equal = is_ones(this, sum);
                    this.b.set(ok, equal);
                });
                self.b.get(ok)
            }
        };
        if checksum.optional {
            let none = self.is_none(index, checksum);
            ok = self.b.binary(BinOp::Or, ok, none);
        }
        ok
    }

    /// Whether an optional checksum is 0, and so there is none.
    fn is_none(&mut self, index: usize, checksum: Checksum) -> Value {
        let bits = self.field_bits(index, checksum.field as u32);
        let (found, zero) = (self.load_bits(index, bits), self.b.constant(16, 0));
        self.b.push(Ty::Int(1), Op::Cmp(CmpOp::Eq, found, zero))
    }

    /// Sum of the bytes from a handle's header on, which are there: less than 2^22. A few are read as words, which
    /// other reads of the same header may have read.
    fn sum_of_first(&mut self, index: usize, bytes: Value) -> Value {
        let few = self.b.as_constant(bytes).filter(|bytes| *bytes % 4 == 0 && *bytes <= MAX_WORDS * 4);
        let Some(few) = few else { return self.head_sum(index, bytes) };
        let (mut sum, sixteen, low) = (self.b.constant(32, 0), self.b.constant(32, 16), self.b.constant(32, 0xffff));
        for word in 0..few as u32 / 4 {
            let word = self.load_bits(index, BitRange { offset: word * 32, width: 32 });
            let halves = [self.b.binary(BinOp::LShr, word, sixteen), self.b.binary(BinOp::And, word, low)];
            sum = halves.into_iter().fold(sum, |sum, half| self.sum_of(sum, half));
        }
        self.aligned(sum, None, self.base(index))
    }

    /// A checksum is computed anew: what has changed so far does not matter, and from now on it follows its pseudo
    /// header.
    fn forget_changes(&mut self, layer: usize) {
        self.take_changes(layer);
        if let (Some(inner), Some(scope)) = (self.layers[layer].inner, self.under(layer)) {
            self.none_behind(scope, Some(layer));
            let one = self.b.shared_constant(1, 1);
            self.b.set(inner.behind, one);
        }
    }

    /// Sum of all that a checksum covers, 16 bits in 32, and whether the header's length is one: at least the fixed
    /// header and within the packet. Where it is not, the nearest one that is counts.
    fn whole_sum(&mut self, index: usize, checksum: Checksum, pseudo: Option<Value>) -> (Value, Value) {
        let length = self.length(index);
        let (bytes, right) = match checksum.payload {
            true => (self.covered_length(index, length), self.b.constant(1, 1)),
            false => self.header_length(index, length),
        };
        let sum = self.head_sum(index, bytes);
        let Some(pseudo) = pseudo else { return (sum, right) };
        let pseudo = self.folded(pseudo);
        let sum = self.b.binary(BinOp::Add, sum, pseudo);
        (self.folded(sum), right)
    }

    /// Bytes that a checksum covers from the handle's header on, of `length` bytes to the packet's end.
    fn covered_length(&mut self, index: usize, length: Value) -> Value {
        let layer = self.packets[index].layer;
        if self.ender(layer).is_none() {
            return length;
        }
        let packet = self.packet_of(index);
        let all = self.b.push(Ty::Int(32), Op::Len { packet });
        let end = self.cover_end(layer, all);
        match self.base(index) {
            Some(base) => self.b.binary(BinOp::Sub, end, base),
            None => end,
        }
    }

    /// Bytes of the handle's header within a packet of `length` bytes, and whether its demux says just that.
    pub(super) fn header_length(&mut self, index: usize, length: Value) -> (Value, Value) {
        let protocol = &self.program.protocols[self.packets[index].protocol.0 as usize];
        let fixed = self.b.constant(32, protocol.size as u128);
        let says = self.demux(index);
        let enough = self.b.push(Ty::Int(1), Op::Cmp(CmpOp::Ule, fixed, says));
        let within = self.b.push(Ty::Int(1), Op::Cmp(CmpOp::Ule, says, length));
        let right = self.b.binary(BinOp::And, enough, within);
        let least = self.b.push(Ty::Int(32), Op::Select(enough, says, fixed));
        (self.b.push(Ty::Int(32), Op::Select(within, least, length)), right)
    }

    /// Sum of `bytes` bytes from a handle's header on, 16 bits in 32, in words that begin there.
    fn head_sum(&mut self, index: usize, bytes: Value) -> Value {
        let (packet, base) = (self.packet_of(index), self.base(index));
        let offset = base.unwrap_or_else(|| self.b.constant(32, 0));
        let sum = self.b.push(Ty::Int(16), Op::Sum { packet, offset, bytes });
        let sum = self.b.push(Ty::Int(32), Op::Cast(CastOp::ZExt, sum));
        self.aligned(sum, None, base)
    }

    /// Sum of the header, of its payload, whose own sum is given, and of a pseudo header.
    fn sum_with(&mut self, index: usize, payload: Value, pseudo: &[Value]) -> Value {
        let length = self.length(index);
        let (header, _) = self.header_length(index, length);
        let mut sum = self.head_sum(index, header);
        let payload = self.folded(payload);
        let payload = self.aligned(payload, Some(header), None);
        sum = self.b.binary(BinOp::Add, sum, payload);
        if let &[pseudo] = pseudo {
            let pseudo = self.folded(pseudo);
            sum = self.b.binary(BinOp::Add, sum, pseudo);
        }
        self.folded(sum)
    }

    /// What the covered bytes behind the header, or behind so many bytes, add up to: 16 bits, in words that begin
    /// there. A right checksum says it, since all that it covers adds up to 0xffff (RFC 1624). Where there is none, the
    /// bytes are summed up.
    fn payload_sum(&mut self, index: usize, checksum: Checksum, operands: &[Value]) -> Value {
        let (pseudo, bytes) = operands.split_at(usize::from(checksum.pseudo));
        let length = self.length(index);
        let covered = self.covered_length(index, length);
        let bytes = match bytes {
            [bytes] => *bytes,
            _ => self.header_length(index, length).0,
        };
        let bytes = self.select_by(CmpOp::Ult, covered, bytes, covered, bytes);
        let mut head = self.head_sum(index, bytes);
        if let &[pseudo] = pseudo {
            let pseudo = self.folded(pseudo);
            head = self.b.binary(BinOp::Add, head, pseudo);
            head = self.folded(head);
        }
        let rest = self.complement(head);
        let rest = self.aligned(rest, None, Some(bytes));
        let sum = match checksum.optional {
            true => self.or_summed(index, checksum, (bytes, covered), rest),
            false => rest,
        };
        self.b.push(Ty::Int(16), Op::Cast(CastOp::Trunc, sum))
    }

    /// A sum of the covered bytes behind the first ones, or, where the checksum says nothing, what they add up to.
    fn or_summed(&mut self, index: usize, checksum: Checksum, (from, end): (Value, Value), sum: Value) -> Value {
        let none = self.is_none(index, checksum);
        let var = self.b.var(Ty::Int(32));
        self.b.set(var, sum);
        self.where_(none, |this| {
            let offset = match this.base(index) {
                Some(base) => this.b.binary(BinOp::Add, base, from),
                None => from,
            };
            let (packet, bytes) = (this.packet_of(index), this.b.binary(BinOp::Sub, end, from));
            let summed = this.b.push(Ty::Int(16), Op::Sum { packet, offset, bytes });
            let summed = this.b.push(Ty::Int(32), Op::Cast(CastOp::ZExt, summed));
            let summed = this.aligned(summed, None, Some(offset));
            this.b.set(var, summed);
        });
        self.b.get(var)
    }
}

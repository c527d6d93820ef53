//! Declared checksums.
//!
//! A checksum is kept by RFC 1624 equation 3, HC' = ~(~HC + ~m + m'). The sum of ~m + m' over all writes since the handle
//! was made is carried in a variable (`delta`) and applied once, where the packet is consumed or looked at as bytes. A
//! write through a handle counts for its own checksum, and for those of the headers around it, as far as it was made by
//! `packet_peek` through handles whose checksums cover their payload.
//!
//! Writes of fields of a pseudo header are summed up in `carried`, which belongs to the first checksum behind it that
//! covers one: handles that look into the packet share it, `packet_decap` hands it on.

use std::collections::HashSet;

use super::Lowering;
use crate::check::hir::{Code, Expr, ExprKind, LocalId, PacketCall, Program, Stmt, StmtKind, Type};
use crate::ir::build::Var;
use crate::ir::{BinOp, BitRange, CastOp, Checksum, CmpOp, Op, Ty, Value};

/// Terms that a checksum's change may add up before it is folded: 2^14 × 0x1fffe < 2^32.
const MAX_TERMS: u32 = 1 << 14;

/// Handles whose checksum field the program itself writes: keeping it is then the program's own business.
pub(super) struct OwnChecksum(HashSet<LocalId>);

impl OwnChecksum {
    /// Finds the handles of a PPF, and of the functions they are lent to, whose checksum field is written.
    pub fn find(program: &Program, code: &Code) -> OwnChecksum {
        let mut found = HashSet::new();
        visit(program, code, &code.body, &mut found);
        OwnChecksum(found)
    }

    pub fn has(&self, local: LocalId) -> bool {
        self.0.contains(&local)
    }
}

fn visit(program: &Program, code: &Code, statements: &[Stmt], found: &mut HashSet<LocalId>) {
    let mut exprs: Vec<&Expr> = Vec::new();
    for statement in statements {
        if let StmtKind::SetField(local, field, _) = &statement.kind
            && let Type::Packet(protocol) = code.locals[local.0 as usize].ty
            && program.protocols[protocol.0 as usize].checksum.is_some_and(|c| c.field == *field as usize)
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
    /// A variable for a sum, zero at first unless given.
    pub(super) fn sum_var(&mut self, value: Option<Value>) -> Var {
        let var = self.b.var(Ty::Int(32));
        let value = value.unwrap_or_else(|| self.b.constant(32, 0));
        self.b.set(var, value);
        var
    }

    fn declared(&self, index: usize) -> Option<Checksum> {
        self.program.protocols[self.packets[index].protocol.0 as usize].checksum
    }

    pub(super) fn is_checksum(&self, index: usize, field: u32) -> bool {
        self.declared(index).is_some_and(|checksum| checksum.field == field as usize)
    }

    /// Where the handle's header begins, from the packet's head; `None` for the head itself.
    pub(super) fn base(&self, index: usize) -> Option<Value> {
        self.packets[index].place.map(|place| place.base)
    }

    /// Handles around this one whose checksums cover what it leads to.
    pub(super) fn covering_handles(&self, index: usize) -> Vec<usize> {
        let mut found = Vec::new();
        let mut at = index;
        while let Some(place) = self.packets[at].place {
            at = place.parent;
            if self.packets[at].delta.is_some() && self.declared(at).is_some_and(|c| c.payload) {
                found.push(at);
            }
        }
        found
    }

    pub(super) fn store_field(&mut self, local: LocalId, field: u32, value: Value) {
        let index = self.packet_index(local);
        let bits = self.field_bits(index, field);
        let protocol = &self.program.protocols[self.packets[index].protocol.0 as usize];
        if protocol.pseudo.contains(&(field as usize)) {
            let old = self.load_bits(index, bits);
            let change = self.number_change(old, value);
            self.add_to(self.packets[index].carried, change);
        }
        let own = self.packets[index].delta.is_some();
        self.store_covered(index, bits, value, own);
    }

    /// Stores bits of a header, and counts them for the checksums that cover them; the header's own only where `own`.
    fn store_covered(&mut self, index: usize, bits: BitRange, value: Value, own: bool) {
        let mut keepers = self.covering_handles(index);
        if own {
            keepers.push(index);
        }
        if keepers.is_empty() {
            return self.store_bits(index, bits, value);
        }
        let header_bits = self.program.protocols[self.packets[index].protocol.0 as usize].size * 8;
        let old = self.covering_words(index, bits, header_bits);
        self.store_bits(index, bits, value);
        let new = match self.packets[index].place {
            // The header is all there, so the store stores.
            None => self.changed_words(&old, bits, header_bits, value),
            Some(_) => self.covering_words(index, bits, header_bits),
        };
        let words = old.len() as u32;
        let mut change = self.b.constant(32, 0);
        for (old, new) in old.into_iter().zip(new) {
            let old = self.complement(old);
            change = self.sum_of(change, old);
            change = self.sum_of(change, new);
        }
        for keeper in keepers {
            self.count(keeper, self.base(index), change, words);
        }
    }

    /// What a store of `value` makes of the words that [`Self::covering_words`] gave. Computed, not loaded again: a
    /// processor can't forward a byte that is still to be stored to the load of a word.
    fn changed_words(&mut self, old: &[Value], bits: BitRange, header_bits: u32, value: Value) -> Vec<Value> {
        let end = bits.offset + bits.width;
        let mut changed = Vec::with_capacity(old.len());
        for (word, &old) in (bits.offset / 16..).zip(old) {
            // Bits of the header that the word and the field share.
            let (from, to) = (bits.offset.max(word * 16), end.min(word * 16 + 16).min(header_bits));
            let shift = self.b.constant(bits.width, (end - to).into());
            let part = self.b.binary(BinOp::LShr, value, shift);
            let part = self.resize(part, bits.width, to - from, false);
            let part = self.resize(part, to - from, 32, false);
            let up = word * 16 + 16 - to;
            let shift = self.b.constant(32, up.into());
            let part = self.b.binary(BinOp::Shl, part, shift);
            let others = self.b.constant(32, 0xffff & !(((1 << (to - from)) - 1) << up));
            let kept = self.b.binary(BinOp::And, old, others);
            changed.push(self.b.binary(BinOp::Or, kept, part));
        }
        changed
    }

    /// Adds a change to a handle's checksum. It was summed up in words that begin at `base`, and consists of `terms` terms.
    pub(super) fn count(&mut self, keeper: usize, base: Option<Value>, change: Value, terms: u32) {
        let Some(delta) = self.packets[keeper].delta else { return };
        let change = self.aligned(change, base, self.base(keeper));
        let sum = self.b.get(delta);
        let mut sum = self.sum_of(sum, change);
        // Each term is at most 0x1fffe. A loop adds without a bound known here; else a fold is needed only now and then
        // so that 32 bits are always enough.
        let all = &mut self.packets[keeper].terms;
        *all += terms;
        let fold = self.exits.iter().any(|exits| exits.next.is_some()) || *all > MAX_TERMS;
        if *all > MAX_TERMS {
            *all = 0;
        }
        if fold {
            sum = self.fold_carry(sum);
        }
        self.b.set(delta, sum);
    }

    /// A sum of words that begin at one place as one of words that begin at another: its bytes change places where one of
    /// the places is odd (RFC 1071 section 2).
    pub(super) fn aligned(&mut self, sum: Value, from: Option<Value>, to: Option<Value>) -> Value {
        let places = match (from, to) {
            (Some(a), Some(b)) if a != b => self.b.binary(BinOp::Xor, a, b),
            (Some(a), None) | (None, Some(a)) => a,
            _ => return sum,
        };
        if self.b.as_constant(places).is_some_and(|place| place % 2 == 0) {
            return sum;
        }
        let odd = self.b.push(Ty::Int(1), Op::Cast(CastOp::Trunc, places));
        let sum = self.folded(sum);
        let eight = self.b.constant(32, 8);
        let up = self.b.binary(BinOp::Shl, sum, eight);
        let down = self.b.binary(BinOp::LShr, sum, eight);
        let both = self.b.binary(BinOp::Or, up, down);
        let swapped = self.low_word(both);
        self.b.push(Ty::Int(32), Op::Select(odd, swapped, sum))
    }

    /// The 16-bit words of the header that a bit range touches, widened to 32 bits. The last byte of a header of odd size
    /// counts as a word's upper half, as in RFC 1071: a change of it is one of that half.
    fn covering_words(&mut self, index: usize, bits: BitRange, header_bits: u32) -> Vec<Value> {
        let words = bits.offset / 16..(bits.offset + bits.width).div_ceil(16);
        words
            .map(|word| {
                let width = (header_bits - word * 16).min(16);
                let loaded = self.load_bits(index, BitRange { offset: word * 16, width });
                let wide = self.b.push(Ty::Int(32), Op::Cast(CastOp::ZExt, loaded));
                if width == 16 {
                    return wide;
                }
                let shift = self.b.constant(32, 16 - width as u128);
                self.b.binary(BinOp::Shl, wide, shift)
            })
            .collect()
    }

    /// ~old + new over the 16-bit words of two numbers of one width, the last word at the number's low end; folded.
    pub(super) fn number_change(&mut self, old: Value, new: Value) -> Value {
        let Ty::Int(width) = self.b.ty(old) else { unreachable!("a number") };
        let mut change = self.b.constant(32, 0);
        for (number, negate) in [(old, true), (new, false)] {
            for word in 0..width.div_ceil(16) {
                let shift = self.b.constant(width, u128::from(word) * 16);
                let shifted = if word == 0 { number } else { self.b.binary(BinOp::LShr, number, shift) };
                let wide = self.resize(shifted, width, 32, false);
                let wide = self.low_word(wide);
                let wide = if negate { self.complement(wide) } else { wide };
                change = self.sum_of(change, wide);
            }
        }
        self.fold_carry(change)
    }

    /// Adds a folded change to a sum that is kept folded.
    fn add_to(&mut self, var: Var, change: Value) {
        let sum = self.b.get(var);
        let sum = self.sum_of(sum, change);
        let sum = self.fold_carry(sum);
        self.b.set(var, sum);
    }

    /// A sum; nothing is added to zero.
    pub(super) fn sum_of(&mut self, a: Value, b: Value) -> Value {
        match (self.b.as_constant(a), self.b.as_constant(b)) {
            (Some(0), _) => b,
            (_, Some(0)) => a,
            _ => self.b.binary(BinOp::Add, a, b),
        }
    }

    pub(super) fn complement(&mut self, word: Value) -> Value {
        let ones = self.b.constant(32, 0xffff);
        self.b.binary(BinOp::Xor, word, ones)
    }

    fn low_word(&mut self, value: Value) -> Value {
        let mask = self.b.constant(32, 0xffff);
        self.b.binary(BinOp::And, value, mask)
    }

    /// One step of end-around carry.
    pub(super) fn fold_carry(&mut self, sum: Value) -> Value {
        let (low, sixteen) = (self.low_word(sum), self.b.constant(32, 16));
        let high = self.b.binary(BinOp::LShr, sum, sixteen);
        self.b.binary(BinOp::Add, low, high)
    }

    /// A sum in 16 bits: 32 bits, then 17, then 16.
    pub(super) fn folded(&mut self, sum: Value) -> Value {
        let sum = self.fold_carry(sum);
        self.fold_carry(sum)
    }

    /// Brings the checksums of the packet that a handle leads to up to date with all writes so far, the innermost first:
    /// a new checksum is a write that the headers around it may cover.
    pub(super) fn apply_checksums(&mut self, index: usize) {
        let root = self.root(index);
        for peeked in self.peeked.clone().into_iter().rev() {
            if self.root(peeked) == root {
                self.apply_peeked(peeked);
            }
        }
        self.apply_checksum(root);
    }

    /// As `apply_checksums`, for handles that look into packets and end here.
    pub(super) fn close_peeked(&mut self, from: usize) {
        for at in (from..self.peeked.len()).rev() {
            let peeked = self.peeked[at];
            // With its packet it ended before.
            if self.owned.contains(&self.root(peeked)) {
                self.apply_peeked(peeked);
            }
        }
    }

    /// As `apply_checksum`, where the header is still there: the packet's bytes may have moved on some paths.
    fn apply_peeked(&mut self, index: usize) {
        let (Some(place), Some(_)) = (self.packets[index].place, self.packets[index].delta) else { return };
        let there = self.b.get(place.there);
        match self.b.as_constant(there) {
            Some(0) => {}
            Some(_) => self.apply_checksum(index),
            None => self.where_(there, |this| this.apply_checksum(index)),
        }
    }

    fn apply_checksum(&mut self, index: usize) {
        let (Some(delta), Some(checksum)) = (self.packets[index].delta, self.declared(index)) else { return };
        let mut sum = self.take(delta);
        if checksum.pseudo {
            let change = self.take(self.packets[index].carried);
            if self.b.as_constant(change) != Some(0) {
                sum = self.fold_carry(sum);
                sum = self.sum_of(sum, change);
            }
        }
        if self.b.as_constant(sum) != Some(0) {
            self.update_checksum(index, checksum, sum);
        }
    }

    /// What a sum has come to; it begins anew. One that is zero stays the same value, so that it is still known to be zero where
    /// paths meet on which it was taken with those on which it was not.
    fn take(&mut self, var: Var) -> Value {
        let sum = self.b.get(var);
        if self.b.as_constant(sum) != Some(0) {
            let zero = self.b.constant(32, 0);
            self.b.set(var, zero);
        }
        sum
    }

    /// Applies a change to the field itself.
    fn update_checksum(&mut self, index: usize, checksum: Checksum, change: Value) {
        let bits = self.field_bits(index, checksum.field as u32);
        let old = self.load_bits(index, bits);
        let wide = self.b.push(Ty::Int(32), Op::Cast(CastOp::ZExt, old));
        let complement = self.complement(wide);
        // The first fold leaves at most 0x1fffe, so the sum cannot overflow and two more folds suffice.
        let sum = self.fold_carry(change);
        let sum = self.b.binary(BinOp::Add, sum, complement);
        let sum = self.folded(sum);
        let new = self.complement(sum);
        let mut value = self.b.push(Ty::Int(16), Op::Cast(CastOp::Trunc, new));
        if checksum.optional {
            value = self.never_zero(value);
            let zero = self.b.constant(16, 0);
            let none = self.b.push(Ty::Int(1), Op::Cmp(CmpOp::Eq, old, zero));
            value = self.b.push(Ty::Int(16), Op::Select(none, zero, value));
        }
        self.store_covered(index, bits, value, false);
    }

    /// 0xffff in place of 0: as sums they are the same.
    fn never_zero(&mut self, value: Value) -> Value {
        let (zero, ones) = (self.b.constant(16, 0), self.b.constant(16, 0xffff));
        let is_zero = self.b.push(Ty::Int(1), Op::Cmp(CmpOp::Eq, value, zero));
        self.b.push(Ty::Int(16), Op::Select(is_zero, ones, value))
    }

    /// `checksum_ok`, `checksum_set`, `checksum_adjust`.
    pub(super) fn checksum_call(&mut self, call: PacketCall, local: LocalId, operands: &'p [Expr]) -> Vec<Value> {
        let index = self.packet_index(local);
        let checksum = self.declared(index).expect("the checker has seen to it");
        let operands: Vec<Value> = operands.iter().map(|operand| self.value(operand)).collect();
        match (call, &operands[..]) {
            (PacketCall::ChecksumAdjust, &[old, new]) => {
                let change = self.number_change(old, new);
                match self.packets[index].delta {
                    Some(_) => self.count(index, self.base(index), change, 1),
                    None => self.update_checksum(index, checksum, change),
                }
                Vec::new()
            }
            (PacketCall::ChecksumOk, _) => {
                self.apply_checksums(index);
                let (sum, right) = self.whole_sum(index, checksum, operands.first().copied());
                let ones = self.b.constant(32, 0xffff);
                let equal = self.b.push(Ty::Int(1), Op::Cmp(CmpOp::Eq, sum, ones));
                let mut ok = self.b.binary(BinOp::And, equal, right);
                if checksum.optional {
                    let bits = self.field_bits(index, checksum.field as u32);
                    let (found, zero) = (self.load_bits(index, bits), self.b.constant(16, 0));
                    let none = self.b.push(Ty::Int(1), Op::Cmp(CmpOp::Eq, found, zero));
                    ok = self.b.binary(BinOp::Or, ok, none);
                }
                vec![ok]
            }
            (PacketCall::ChecksumSet, _) => {
                self.apply_checksums(index);
                let bits = self.field_bits(index, checksum.field as u32);
                let old = self.load_bits(index, bits);
                let zero = self.b.constant(16, 0);
                self.store_bits(index, bits, zero);
                let (sum, _) = self.whole_sum(index, checksum, operands.first().copied());
                self.store_bits(index, bits, old);
                let new = self.complement(sum);
                let mut value = self.b.push(Ty::Int(16), Op::Cast(CastOp::Trunc, new));
                if checksum.optional {
                    value = self.never_zero(value);
                }
                self.store_covered(index, bits, value, false);
                Vec::new()
            }
            _ => unreachable!("the checker counts arguments"),
        }
    }

    /// Sum of all that a checksum covers, 16 bits in 32, and whether the header's length is one: at least the fixed header
    /// and within the packet. Where it is not, the nearest one that is counts.
    fn whole_sum(&mut self, index: usize, checksum: Checksum, pseudo: Option<Value>) -> (Value, Value) {
        let length = self.length(index);
        let (bytes, right) = match checksum.payload {
            true => (length, self.b.constant(1, 1)),
            false => self.header_length(index, length),
        };
        let packet = self.packet_of(index);
        let base = self.base(index);
        let offset = base.unwrap_or_else(|| self.b.constant(32, 0));
        let sum = self.b.push(Ty::Int(16), Op::Sum { packet, offset, bytes });
        let sum = self.b.push(Ty::Int(32), Op::Cast(CastOp::ZExt, sum));
        let sum = self.aligned(sum, None, base);
        let Some(pseudo) = pseudo else { return (sum, right) };
        let pseudo = self.folded(pseudo);
        let sum = self.b.binary(BinOp::Add, sum, pseudo);
        (self.folded(sum), right)
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
}

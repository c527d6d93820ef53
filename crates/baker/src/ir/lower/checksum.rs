//! Declared checksums.
//!
//! A checksum is kept by RFC 1624 equation 3, HC' = ~(~HC + ~m + m'). The sum of ~m + m' over all writes since the
//! header was known is carried in a variable (`delta`) and applied once, where the packet is consumed or looked at as
//! bytes. A write counts for the checksum of its own header, for those of the headers around it that cover their
//! payload, and for any other known one that covers it: see `layers`.
//!
//! Writes of fields of a pseudo header count for the checksum behind it that is known. While none is, they are summed
//! up in `carried`, which the next header made known takes; `packet_decap` hands it on. Where a write changes how far
//! checksums reach, `extent` sums up what they cover before and after.

use super::changes::{Changes, Written};
use super::extent::Parts;
use super::{Lowering, Sum};
use crate::check::hir::LocalId;
use crate::ir::build::Var;
use crate::ir::{BinOp, BitRange, CastOp, Checksum, CmpOp, Op, Ty, Value};

/// Terms that a checksum's change may add up before it is folded: 2^14 × 0x1fffe < 2^32.
const MAX_TERMS: u32 = 1 << 14;

impl<'p> Lowering<'p> {
    pub(super) fn declared(&self, index: usize) -> Option<Checksum> {
        self.program.protocols[self.packets[index].protocol.0 as usize].checksum
    }

    pub(super) fn is_checksum(&self, index: usize, field: u32) -> bool {
        self.declared(index).is_some_and(|checksum| checksum.field == field as usize)
    }

    /// Where the handle's header begins, from the packet's head; `None` for the head itself.
    pub(super) fn base(&self, index: usize) -> Option<Value> {
        self.packets[index].base
    }

    /// The headers around a handle's whose checksums cover what it leads to.
    pub(super) fn covering(&self, index: usize) -> Vec<usize> {
        let mut around = self.around(self.packets[index].layer);
        around.retain(|&at| self.layers[at].delta.is_some() && self.checksum_of(at).is_some_and(|c| c.payload));
        around
    }

    pub(super) fn store_field(&mut self, local: LocalId, field: u32, value: Value) {
        self.store_field_at(self.packet_index(local), field, value);
    }

    pub(super) fn store_field_at(&mut self, index: usize, field: u32, value: Value) {
        let layer = self.packets[index].layer;
        let bits = self.field_bits(index, field);
        let protocol = self.packets[index].protocol.0 as usize;
        let moved = self.reached_by(layer, field);
        let before = self.totals(&moved, layer, Parts::Reach);
        if self.is_checksum(index, field) {
            self.asks_for_whole(index);
        }
        if self.program.protocols[protocol].pseudo.contains(&(field as usize)) {
            let old = self.load_bits(index, bits);
            let change = self.number_change(old, value);
            self.pseudo_changes(layer, change);
        }
        let own = self.layers[layer].delta.is_some();
        self.store_covered(index, bits, value, own, &moved);
        self.settle(before);
        if self.program.demux[protocol].reads(field) {
            self.next_moves(layer);
        }
    }

    /// A pseudo header changed: the checksum behind it follows, or the one that comes to be known next.
    fn pseudo_changes(&mut self, scope: usize, change: Value) {
        let apart = self.b.get(self.layers[scope].apart);
        let mut uncounted = self.not(apart);
        for layer in self.known(self.layers[scope].root) {
            if self.under(layer) != Some(scope) {
                continue;
            }
            let behind = self.counts(layer);
            let not_behind = self.not(behind);
            uncounted = self.both(uncounted, not_behind);
            if self.takes_pseudo(layer) {
                let change = self.where_true(behind, change);
                let base = self.base_of(layer);
                self.count_pseudo(layer, base, change);
            }
        }
        let change = self.where_true(uncounted, change);
        if self.b.as_constant(change) != Some(0) {
            self.counted.insert(Sum::Carried(scope));
            self.add_to(self.layers[scope].carried, change);
        }
    }

    /// A change where a condition holds, else 0.
    pub(super) fn where_true(&mut self, condition: Value, change: Value) -> Value {
        let zero = self.b.constant(32, 0);
        match self.b.as_constant(condition) {
            Some(0) => zero,
            Some(_) => change,
            None => self.b.push(Ty::Int(32), Op::Select(condition, change, zero)),
        }
    }

    /// Stores bits of a header, and counts them for the checksums that cover them but for some; the header's own only
    /// where `own`.
    pub(super) fn store_covered(&mut self, index: usize, bits: BitRange, value: Value, own: bool, but: &[usize]) {
        self.write_covered(index, bits, Written::Value(value), own, but);
    }

    /// The same of whatever is written.
    pub(super) fn write_covered(&mut self, index: usize, bits: BitRange, written: Written, own: bool, but: &[usize]) {
        let layer = self.packets[index].layer;
        let end = (bits.offset + bits.width).div_ceil(8);
        let mut keepers: Vec<(usize, Option<Value>)> = Vec::new();
        for keeper in self.covering(index) {
            if !but.contains(&keeper) {
                keepers.push((keeper, self.within_end(keeper, index, end)));
            }
        }
        let others = self.others_covering(layer);
        let before = self.totals(&others, layer, Parts::Bytes);
        if own && !but.contains(&layer) {
            keepers.push((layer, None));
        }
        if keepers.is_empty() {
            self.write(index, bits, written);
            return self.settle(before);
        }
        let header_bits = self.program.protocols[self.packets[index].protocol.0 as usize].size * 8;
        let old = self.covering_words(index, bits, header_bits);
        self.write(index, bits, written);
        let new = match (written, self.packets[index].base) {
            // The header is all there, so the store stores.
            (Written::Value(value), None) => self.changed_words(&old, bits, header_bits, value),
            _ => self.covering_words(index, bits, header_bits),
        };
        let words = old.len() as u32;
        let mut change = self.b.constant(32, 0);
        for (old, new) in old.into_iter().zip(new) {
            let old = self.complement(old);
            change = self.sum_of(change, old);
            change = self.sum_of(change, new);
        }
        for (keeper, within) in keepers {
            let change = match within {
                Some(within) => self.where_true(within, change),
                None => change,
            };
            self.count(keeper, self.base(index), change, words);
        }
        self.settle(before);
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

    /// Adds a change to a header's checksum. It was summed up in words that begin at `base`, and consists of `terms`
    /// terms.
    pub(super) fn count(&mut self, keeper: usize, base: Option<Value>, change: Value, terms: u32) {
        let Some(delta) = self.layers[keeper].delta else { return };
        let to = self.base_of(keeper);
        let change = self.aligned(change, base, to);
        if self.b.as_constant(change) == Some(0) {
            return;
        }
        self.counted.insert(Sum::Own(keeper));
        let sum = self.b.get(delta);
        let mut sum = self.sum_of(sum, change);
        // Each term is at most 0x1fffe. A loop adds without a bound known here; else a fold is needed only now and then
        // so that 32 bits are always enough.
        let all = &mut self.layers[keeper].terms;
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

    /// A sum of words that begin at one place as one of words that begin at another: its bytes change places where one
    /// of the places is odd (RFC 1071 section 2).
    pub(super) fn aligned(&mut self, sum: Value, from: Option<Value>, to: Option<Value>) -> Value {
        let distance = match (from, to) {
            (Some(a), Some(b)) if a != b => self.b.binary(BinOp::Xor, a, b),
            (Some(a), None) | (None, Some(a)) => a,
            _ => return sum,
        };
        if self.b.as_constant(distance).is_some_and(|place| place % 2 == 0) {
            return sum;
        }
        let odd = self.b.push(Ty::Int(1), Op::Cast(CastOp::Trunc, distance));
        let sum = self.folded(sum);
        let eight = self.b.constant(32, 8);
        let up = self.b.binary(BinOp::Shl, sum, eight);
        let down = self.b.binary(BinOp::LShr, sum, eight);
        let both = self.b.binary(BinOp::Or, up, down);
        let swapped = self.low_word(both);
        self.b.push(Ty::Int(32), Op::Select(odd, swapped, sum))
    }

    /// The 16-bit words of the header that a bit range touches, widened to 32 bits. The last byte of a header of odd
    /// size counts as a word's upper half, as in RFC 1071: a change of it is one of that half.
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

    /// The sum of a number's 16-bit words, the last word at its low end; folded once.
    pub(super) fn number_sum(&mut self, number: Value) -> Value {
        let Ty::Int(width) = self.b.ty(number) else { unreachable!("a number") };
        let mut sum = self.b.constant(32, 0);
        for word in 0..width.div_ceil(16) {
            let shift = self.b.constant(width, u128::from(word) * 16);
            let shifted = if word == 0 { number } else { self.b.binary(BinOp::LShr, number, shift) };
            let wide = self.resize(shifted, width, 32, false);
            let wide = self.low_word(wide);
            sum = self.sum_of(sum, wide);
        }
        self.fold_carry(sum)
    }

    /// Adds a folded change to a sum that is kept folded.
    pub(super) fn add_to(&mut self, var: Var, change: Value) {
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

    /// Brings the checksums of the packet that a handle leads to up to date with all writes so far.
    pub(super) fn apply_checksums(&mut self, index: usize) {
        let root = self.root(index);
        self.apply_known(root);
        self.apply_checksum(root);
    }

    /// The same for the known headers behind the packet's own, the innermost first: a new checksum is a write that the
    /// headers around it may cover. Mostly once is enough: headers that lie within others' payload by chance may need
    /// more.
    pub(super) fn apply_known(&mut self, root: usize) {
        let known = self.known(root);
        for _ in 0..known.len() {
            let mut all = true;
            for &layer in known.iter().rev() {
                all &= !self.apply_layer(layer, None);
            }
            if all {
                break;
            }
        }
    }

    /// Brings the checksum of a known header up to date, where it is there and a condition holds. Whether there may
    /// have been anything to do.
    pub(super) fn apply_layer(&mut self, layer: usize, condition: Option<Value>) -> bool {
        if !self.has_changes(layer) || !self.changed.contains(&Sum::Own(layer)) {
            return false;
        }
        let mut there = self.there(layer);
        if let Some(condition) = condition {
            there = self.both(there, condition);
        }
        match self.b.as_constant(there) {
            Some(0) => {}
            Some(_) => self.apply_at(layer),
            None => self.where_(there, |this| this.apply_at(layer)),
        }
        // Where it is not there, it is not asked for.
        self.take_changes(layer);
        true
    }

    fn apply_at(&mut self, layer: usize) {
        let handle = self.handle_of(layer);
        self.apply_checksum(handle);
    }

    fn apply_checksum(&mut self, index: usize) {
        let layer = self.packets[index].layer;
        let Some(checksum) = self.declared(index) else { return };
        let is_changed = self.has_changes(layer);
        let Some(changes) = self.take_changes(layer) else { return };
        if is_changed && self.changed.contains(&Sum::Own(layer)) {
            self.update_checksum(index, checksum, changes);
        }
    }

    /// What a sum has come to; it begins anew. One that is zero stays the same value, so that it is still known to be
    /// zero where paths meet on which it was taken with those on which it was not.
    pub(super) fn take(&mut self, var: Var) -> Value {
        let sum = self.b.get(var);
        if self.b.as_constant(sum) != Some(0) {
            let zero = self.b.shared_constant(32, 0);
            self.b.set(var, zero);
        }
        sum
    }

    /// Applies changes to the field itself.
    pub(super) fn update_checksum(&mut self, index: usize, checksum: Checksum, changes: Changes) {
        let bits = self.field_bits(index, checksum.field as u32);
        if self.operations && checksum.pseudo {
            return self.write_covered(index, bits, Written::Changes(changes, checksum.optional), false, &[]);
        }
        let change = changes.covered;
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
        self.store_covered(index, bits, value, false, &[]);
    }

    /// 0xffff in place of 0: as sums they are the same.
    pub(super) fn never_zero(&mut self, value: Value) -> Value {
        let (zero, ones) = (self.b.constant(16, 0), self.b.constant(16, 0xffff));
        let is_zero = self.b.push(Ty::Int(1), Op::Cmp(CmpOp::Eq, value, zero));
        self.b.push(Ty::Int(16), Op::Select(is_zero, ones, value))
    }
}

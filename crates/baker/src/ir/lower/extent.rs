//! How far checksums reach: what they cover is summed up before and after what may change it.
//!
//! A checksum that covers the payload reaches as far as a length says that stands in its own header or in the nearest
//! one around it that has one (`length { … }`), else to the packet's end.

use super::Lowering;
use super::layers::Layer;
use crate::ir::build::Var;
use crate::ir::{BinOp, CmpOp, Op, Ty, Value};

/// What the checksum of a header covered before a change.
pub(super) struct Total {
    layer: usize,
    /// Whether the header is there, and no other name for one that is counted already: 1 bit.
    there: Value,
    parts: Parts,
    sum: Value,
}

/// What of that may have changed.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Parts {
    /// Bytes of the header and behind it.
    Bytes,
    /// How far it reaches, too, and so the length in the pseudo header.
    Reach,
    /// All, with the other fields of the pseudo header.
    All,
}

impl<'p> Lowering<'p> {
    /// The known headers of the packet whose checksums a field of one of them says the reach of.
    pub(super) fn reached_by(&mut self, layer: usize, field: u32) -> Vec<usize> {
        let Layer { protocol, root, .. } = self.layers[layer];
        let ends = self.program.length[protocol.0 as usize].as_ref().is_some_and(|length| length.reads(field));
        let is_demux = self.program.demux[protocol.0 as usize].reads(field);
        let mut found = self.kept(root);
        found.retain(|&kept| match self.checksum_of(kept).is_some_and(|checksum| checksum.payload) {
            true => ends && self.ender(kept) == Some(layer),
            false => is_demux && kept == layer,
        });
        found
    }

    /// Known headers whose checksums may cover what is written in another one's fixed header, though they do not lie
    /// around it.
    pub(super) fn others_covering(&mut self, layer: usize) -> Vec<usize> {
        let root = self.layers[layer].root;
        let mut found = self.kept(root);
        found.retain(|&kept| {
            let apart = kept != layer && !self.is_around(kept, layer) && !self.is_around(layer, kept);
            apart && self.layers[kept].inner.is_some()
        });
        let base = self.base_of(layer).and_then(|base| self.b.as_constant(base));
        let has_checksum = self.checksum_of(layer).is_some();
        found.retain(|&kept| {
            let there = self.there(kept);
            let kept_base = self.base_of(kept).and_then(|base| self.b.as_constant(base));
            // As [`Self::unless_same`].
            let same = has_checksum && kept_base.is_some() && kept_base == base;
            self.b.as_constant(there) != Some(0) && !same
        });
        found
    }

    /// Known headers whose checksums may cover something of what is stored behind the beginning of another one, though
    /// they do not lie around it; that one itself, where the store may change how far its checksum reaches. `written`
    /// are the first of the bytes and their number, where they are known.
    pub(super) fn others_stored(&mut self, layer: usize, written: Option<(u32, u32)>) -> Vec<usize> {
        let Layer { protocol, root, .. } = self.layers[layer];
        let declared = &self.program.protocols[protocol.0 as usize];
        let (length, demux) = (&self.program.length[protocol.0 as usize], &self.program.demux[protocol.0 as usize]);
        // Whether the store may change a field that matters to others.
        let hits = |wanted: &dyn Fn(u32) -> bool| match written {
            None => true,
            Some((from, bytes)) => {
                let (from, end) = (u64::from(from) * 8, (u64::from(from) + u64::from(bytes)) * 8);
                let hit = |bits: crate::ir::BitRange| {
                    u64::from(bits.offset) < end && from < u64::from(bits.offset + bits.width)
                };
                (0..).zip(&declared.fields).any(|(index, field)| wanted(index) && hit(field.bits))
            }
        };
        let says = |index: u32| length.as_ref().is_some_and(|length| length.reads(index));
        let in_header = written.is_some_and(|(from, bytes)| from.saturating_add(bytes) <= declared.size);
        let (says, demux) = (hits(&says), hits(&|index| demux.reads(index)));
        let pseudo = hits(&|index| declared.pseudo.contains(&(index as usize)));
        let beside = self.others_covering(layer);
        let mut found = self.kept(root);
        found.retain(|&kept| {
            if kept == layer {
                let payload = self.checksum_of(kept).is_some_and(|checksum| checksum.payload);
                return if payload { says && self.ender(kept) == Some(layer) } else { demux };
            }
            let behind = self.is_around(layer, kept) && (!in_header || says || pseudo);
            beside.contains(&kept) || behind
        });
        found.retain(|&kept| {
            let there = self.there(kept);
            kept == layer || self.b.as_constant(there) != Some(0)
        });
        found
    }

    /// Whether the first `bytes` bytes behind a handle's beginning lie within what a checksum around it covers; `None`
    /// where they certainly do.
    pub(super) fn within_end(&mut self, keeper: usize, index: usize, bytes: u32) -> Option<Value> {
        let ender = self.ender(keeper)?;
        let end = self.end_of(ender);
        let bytes = self.b.constant(32, bytes.into());
        let last = match self.base(index) {
            Some(base) => self.b.binary(BinOp::Add, base, bytes),
            None => bytes,
        };
        Some(self.b.push(Ty::Int(1), Op::Cmp(CmpOp::Ule, last, end)))
    }

    /// What the checksums of some known headers cover. `writer` is the header that is written through: that is there.
    pub(super) fn totals(&mut self, layers: &[usize], writer: usize, parts: Parts) -> Vec<Total> {
        let mut all = Vec::new();
        for (layer, there, first) in self.each_once(layers, Some(writer)) {
            // What nothing in front is for any more, the length of what holds it says nothing to.
            let parts = match (first, parts) {
                (true, parts) => parts,
                (false, Parts::Reach) => continue,
                (false, _) if self.is_apart(layer) => Parts::Bytes,
                (false, parts) => parts,
            };
            if self.b.as_constant(there) != Some(0) {
                let sum = self.total(layer, there, parts);
                all.push(Total { layer, there, parts, sum });
            }
        }
        all
    }

    /// Whether, on some path, the program keeps a checksum in line with the pseudo header in front of it itself.
    fn is_apart(&mut self, layer: usize) -> bool {
        let Some(scope) = self.under(layer) else { return false };
        let apart = self.b.get(self.layers[scope].apart);
        self.b.as_constant(apart) != Some(0)
    }

    /// Headers, and whether each is there and no other view of one that is counted already. Those come first that are
    /// what the pseudo header in front of them is for; then those that others have been taken for since.
    fn each_once(&mut self, layers: &[usize], writer: Option<usize>) -> Vec<(usize, Value, bool)> {
        let mut counted: Vec<(usize, Value, bool)> = Vec::new();
        for round in 0..2 {
            for &layer in layers {
                let behind = if writer == Some(layer) { self.b.shared_constant(1, 1) } else { self.counts(layer) };
                let mut there = behind;
                if round == 1 {
                    let (known, other) = (self.there(layer), self.not(behind));
                    there = self.both(known, other);
                }
                // Of the writer's own header, and of those around it, others are only other views.
                for other in writer.into_iter().chain(writer.map_or(Vec::new(), |writer| self.around(writer))) {
                    if layer != other && self.checksum_of(other).is_some() {
                        there = self.unless_same(there, layer, other);
                    }
                }
                if self.b.as_constant(there) == Some(0) {
                    continue;
                }
                there = self.once(there, layer, &counted);
                counted.push((layer, there, round == 0));
            }
        }
        counted
    }

    /// A condition, and that a header is not at the place of one that is counted already: it is the same one then.
    fn once(&mut self, mut there: Value, layer: usize, counted: &[(usize, Value, bool)]) -> Value {
        for &(other, counted, _) in counted.iter().filter(|(other, ..)| *other != layer) {
            let alone = self.unless_same(there, layer, other);
            let not_counted = self.not(counted);
            let alone = self.either(not_counted, alone);
            there = self.both(there, alone);
        }
        there
    }

    /// A condition, and that two headers are not at one place.
    fn unless_same(&mut self, condition: Value, layer: usize, other: usize) -> Value {
        let (Some(a), Some(b)) = (self.base_of(layer), self.base_of(other)) else { return condition };
        let differ = match (self.b.as_constant(a), self.b.as_constant(b)) {
            (Some(a), Some(b)) => self.b.shared_constant(1, u128::from(a != b)),
            _ => self.b.push(Ty::Int(1), Op::Cmp(CmpOp::Ne, a, b)),
        };
        self.both(condition, differ)
    }

    /// Counts what has become of them.
    pub(super) fn settle(&mut self, before: Vec<Total>) {
        for Total { layer, there, parts, sum: old } in before {
            let new = self.total(layer, there, parts);
            let old = self.complement(old);
            let change = self.sum_of(old, new);
            let change = self.where_true(there, change);
            let base = self.base_of(layer);
            self.count(layer, base, change, 1);
        }
    }

    fn total(&mut self, layer: usize, there: Value, parts: Parts) -> Value {
        if self.b.as_constant(there) == Some(1) {
            return self.total_there(layer, parts);
        }
        let sum: Var = self.b.var(Ty::Int(32));
        let zero = self.b.constant(32, 0);
        self.b.set(sum, zero);
        self.where_(there, |this| {
            let total = this.total_there(layer, parts);
            this.b.set(sum, total);
        });
        self.b.get(sum)
    }

    fn total_there(&mut self, layer: usize, parts: Parts) -> Value {
        let handle = self.handle_of(layer);
        let (packet, base) = (self.packet_of(handle), self.base(handle));
        let length = self.b.push(Ty::Int(32), Op::Len { packet });
        let end = self.cover_end(layer, length);
        let offset = base.unwrap_or_else(|| self.b.constant(32, 0));
        let bytes = self.b.binary(BinOp::Sub, end, offset);
        let sum = self.b.push(Ty::Int(16), Op::Sum { packet, offset, bytes });
        let sum = self.b.push(Ty::Int(32), Op::Cast(crate::ir::CastOp::ZExt, sum));
        let mut sum = self.aligned(sum, None, base);
        if parts == Parts::Bytes || !self.checksum_of(layer).is_some_and(|checksum| checksum.pseudo) {
            return sum;
        }
        self.asks_for_whole(handle);
        if let Some(ender) = self.ender(layer) {
            let end = self.end_of(ender);
            let reach = self.b.binary(BinOp::Sub, end, offset);
            let reach = self.fold_carry(reach);
            sum = self.b.binary(BinOp::Add, sum, reach);
        }
        if parts == Parts::All
            && let Some(scope) = self.under(layer)
        {
            let around = self.handle_of(scope);
            let fields = self.program.protocols[self.layers[scope].protocol.0 as usize].pseudo.clone();
            for field in fields {
                let bits = self.field_bits(around, field as u32);
                let value = self.load_bits(around, bits);
                let words = self.number_sum(value);
                sum = self.b.binary(BinOp::Add, sum, words);
                sum = self.fold_carry(sum);
            }
        }
        self.folded(sum)
    }

    /// Bytes are about to be cut off behind the first `length`: counts them for the checksums that cover them.
    pub(super) fn cut(&mut self, root: usize, length: Value) {
        let packet = self.packet_of(root);
        let all = self.b.push(Ty::Int(32), Op::Len { packet });
        let mut kept = self.kept(root);
        kept.retain(|&layer| self.checksum_of(layer).is_some_and(|checksum| checksum.payload));
        for (layer, there, _) in self.each_once(&kept, None) {
            match self.b.as_constant(there) {
                Some(0) => {}
                Some(_) => self.cut_off(layer, length, all),
                None => self.where_(there, |this| this.cut_off(layer, length, all)),
            }
        }
    }

    fn cut_off(&mut self, layer: usize, length: Value, all: Value) {
        let packet = self.packet_of(self.layers[layer].root);
        let end = self.cover_end(layer, all);
        let bytes = self.b.binary(BinOp::Sub, end, length);
        let bytes = match self.ender(layer) {
            Some(_) => {
                let zero = self.b.constant(32, 0);
                self.select_by(CmpOp::Ult, end, length, zero, bytes)
            }
            None => bytes,
        };
        let sum = self.b.push(Ty::Int(16), Op::Sum { packet, offset: length, bytes });
        let sum = self.b.push(Ty::Int(32), Op::Cast(crate::ir::CastOp::ZExt, sum));
        let gone = self.complement(sum);
        self.count(layer, None, gone, 1);
    }

    /// After a cut: brings the checksums that are still there up to date.
    pub(super) fn apply_left(&mut self, root: usize, length: Value) {
        for layer in self.known(root).into_iter().rev() {
            let fixed = self.program.protocols[self.layers[layer].protocol.0 as usize].size;
            let fixed = self.b.constant(32, fixed.into());
            let Some(base) = self.base_of(layer) else { continue };
            if self.layers[layer].delta.is_some() {
                let end = self.b.binary(BinOp::Add, base, fixed);
                let left = self.b.push(Ty::Int(1), Op::Cmp(CmpOp::Ule, end, length));
                self.apply_layer(layer, Some(left));
            }
        }
    }
}

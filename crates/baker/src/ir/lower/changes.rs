//! Checksums that a device is still to compute, as hosts leave those of TCP and UDP to it: their field has the sum of
//! the pseudo header, and changes of what they cover must not be applied. Which state a packet is in is known where its
//! code runs only. So a checksum that covers a pseudo header is kept by an operation ([`Op::Checksum`]), with the
//! changes of the pseudo header apart from those of covered bytes, where the program is lowered for that
//! ([`crate::ir::Sums`]); else one sum has both.
//!
//! Whatever takes a checksum as a number, or sets it, asks for one that is there. That is noted.

use super::layers::Layer;
use super::{Lowering, Sum};
use crate::ir::{BinOp, BitRange, Op, Value};

/// Changes that a checksum has still to follow: sums of ~m + m', 32 bits.
#[derive(Clone, Copy)]
pub(super) struct Changes {
    /// Of covered bytes; of the pseudo header, too, where that is not kept apart.
    pub covered: Value,
    /// Of the pseudo header.
    pseudo: Option<Value>,
}

impl Changes {
    pub fn of_covered(covered: Value) -> Changes {
        Changes { covered, pseudo: None }
    }
}

/// What is written into a field.
#[derive(Clone, Copy)]
pub(super) enum Written {
    /// A value.
    Value(Value),
    /// Changes of a checksum, which may be optional.
    Changes(Changes, bool),
}

impl<'p> Lowering<'p> {
    /// Adds a change of the pseudo header to a header's checksum; as [`Self::count`].
    pub(super) fn count_pseudo(&mut self, keeper: usize, base: Option<Value>, change: Value) {
        let Some(pseudo) = self.layers[keeper].pseudo else { return self.count(keeper, base, change, 1) };
        let to = self.base_of(keeper);
        let change = self.aligned(change, base, to);
        if self.b.as_constant(change) == Some(0) {
            return;
        }
        self.counted.insert(Sum::Own(keeper));
        self.add_to(pseudo, change);
    }

    /// Whether a header's checksum may have something to follow.
    pub(super) fn has_changes(&mut self, layer: usize) -> bool {
        let Layer { delta, pseudo, .. } = self.layers[layer];
        [delta, pseudo].into_iter().flatten().any(|sum| {
            let sum = self.b.get(sum);
            self.b.as_constant(sum) != Some(0)
        })
    }

    /// What a header's checksum has to follow, which begins anew; `None` where it is not kept.
    pub(super) fn take_changes(&mut self, layer: usize) -> Option<Changes> {
        let Layer { delta, pseudo, .. } = self.layers[layer];
        let covered = self.take(delta?);
        let pseudo = pseudo.map(|pseudo| self.take(pseudo));
        Some(Changes { covered, pseudo })
    }

    /// Writes into a field of the handle's header, whatever checksums cover it.
    pub(super) fn write(&mut self, index: usize, bits: BitRange, written: Written) {
        let (changes, optional) = match written {
            Written::Value(value) => return self.store_bits(index, bits, value),
            Written::Changes(changes, optional) => (changes, optional),
        };
        let covered = self.fold_carry(changes.covered);
        let pseudo = match changes.pseudo {
            Some(pseudo) => self.fold_carry(pseudo),
            None => self.b.constant(32, 0),
        };
        let field = self.b.constant(32, u128::from(bits.offset / 8));
        let at = match self.base(index) {
            Some(base) => self.b.binary(BinOp::Add, base, field),
            None => field,
        };
        let packet = self.packet_of(index);
        self.b.effect(Op::Checksum { packet, at, covered, pseudo, optional });
    }

    /// Notes that a handle's checksum is taken as a number, or set, where a device may still have to compute it.
    pub(super) fn asks_for_whole(&mut self, index: usize) {
        if self.declared(index).is_some_and(|checksum| checksum.pseudo) && self.whole.is_none() {
            self.whole = Some(self.b.span);
        }
    }
}

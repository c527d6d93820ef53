//! Declared lengths.
//!
//! A header that is made here counts what it holds: its length is written as soon as the packet has the header, and
//! again where the packet's tail changes. A header that came in keeps the length that it came with: whether what is cut
//! off is padding, or a quote is made of the packet, only the program knows.
//!
//! A write is like one of the program, so checksums follow it.

use super::fresh::is_known;
use super::packet::Made;
use super::{Lowering, Packet};
use crate::check::hir::Counts;
use crate::ir::{BinOp, Op, Ty, Value};

impl<'p> Lowering<'p> {
    /// The declared length of the handle's header.
    pub(super) fn declared_length(&self, index: usize) -> Option<Counts> {
        self.program.counts[self.packets[index].protocol.0 as usize]
    }

    /// A handle got a header with a declared length that is not the program's own.
    pub(super) fn begin_length(&mut self, index: usize, made: Option<Made>) {
        let is_made = match made {
            None => self.b.shared_constant(1, 0),
            Some(Made::As(made)) => made,
            Some(Made::Alone | Made::Around) => self.b.shared_constant(1, 1),
        };
        let layer = self.packets[index].layer;
        self.b.set(self.layers[layer].made, is_made);
        if let Some(Made::Alone | Made::Around) = made {
            self.write_length(index, matches!(made, Some(Made::Alone)));
        }
    }

    /// Writes the declared length of a header that was just made, `alone` or with something behind it. A checksum that
    /// covers that, too, is still to be computed.
    pub(super) fn write_length(&mut self, index: usize, alone: bool) {
        let Some(counts) = self.declared_length(index) else { return };
        let value = self.counted(index, counts);
        let bits = self.field_bits(index, counts.field);
        let own = self.declared(index).is_some_and(|checksum| is_known(checksum, alone));
        self.store_covered(index, bits, value, own, &[]);
    }

    /// Whether a handle's length may have to follow the packet's tail.
    pub(super) fn length_follows(&mut self, index: usize) -> bool {
        if self.declared_length(index).is_none() {
            return false;
        }
        let layer = self.packets[index].layer;
        let made = self.b.get(self.layers[layer].made);
        self.b.as_constant(made) != Some(0)
    }

    /// The packet's tail has changed.
    pub(super) fn follow_length(&mut self, index: usize) {
        let layer = self.packets[index].layer;
        let (Some(counts), true) = (self.declared_length(index), self.length_follows(index)) else { return };
        let write = |this: &mut Self| {
            let value = this.counted(index, counts);
            this.store_field_at(index, counts.field, value);
        };
        let made = self.b.get(self.layers[layer].made);
        match self.b.as_constant(made) {
            Some(_) => write(self),
            None => self.where_(made, write),
        }
    }

    /// The bytes at the packet's head are another header now.
    pub(super) fn other_header(&mut self, index: usize) {
        if self.length_follows(index) {
            let no = self.b.shared_constant(1, 0);
            self.b.set(self.layers[self.packets[index].layer].made, no);
        }
    }

    /// What a handle's header holds: to where the nearest header around it says that it ends, else to the packet's end.
    /// The field has its low bits.
    fn counted(&mut self, index: usize, counts: Counts) -> Value {
        let Packet { layer, .. } = self.packets[index];
        let around = self.around(layer);
        let says = |&at: &usize| self.program.length[self.layers[at].protocol.0 as usize].is_some();
        let mut bytes = match around.into_iter().find(says) {
            None => self.length(index),
            Some(ender) => {
                let packet = self.packet_of(index);
                let all = self.b.push(Ty::Int(32), Op::Len { packet });
                let end = self.end_within(layer, ender, all);
                match self.base(index) {
                    Some(base) => self.b.binary(BinOp::Sub, end, base),
                    None => end,
                }
            }
        };
        if counts.but != 0 {
            let but = self.b.constant(32, counts.but.into());
            bytes = self.b.binary(BinOp::Sub, bytes, but);
        }
        let width = self.field_bits(index, counts.field).width;
        self.resize(bytes, 32, width, false)
    }
}

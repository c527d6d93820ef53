//! What is known of a packet: the headers that handles were made of, whatever became of the handles.
//!
//! Checksums belong to these headers. A header is known from its first handle on until the packet is consumed, gets
//! another length, or goes on as another handle's; one that was made known in a loop, until the trip ends. Where it is
//! known on some paths only, `there` says so.

use super::{Lowering, Packet, Sum};
use crate::ir::build::Var;
use crate::ir::{BinOp, Checksum, CmpOp, Op, ProtocolId, Ty, Value};

/// A header of a packet.
#[derive(Clone, Copy)]
pub(super) struct Layer {
    pub protocol: ProtocolId,
    /// The handle that the packet is consumed by.
    pub root: usize,
    /// Where it is, for one that was made known by `packet_peek`.
    pub inner: Option<Inner>,
    /// Sum of the changes not yet in the checksum field; `None` where there is none or the program keeps it itself.
    pub delta: Option<Var>,
    /// Those of its pseudo header, where they are kept apart: see `changes`.
    pub pseudo: Option<Var>,
    /// Sum of the changes of its pseudo header, while nothing behind it is known: for the checksum behind it.
    pub carried: Var,
    /// Whether the program keeps the checksum behind it in line with its pseudo header: the header was made anew, or
    /// the program says so. 1 bit.
    pub apart: Var,
    /// Whether it was made anew, so that its declared length follows the packet's tail. 1 bit.
    pub made: Var,
    /// Terms added to `delta` since it was last folded, on the longest path so far.
    pub terms: u32,
}

/// A header behind another one.
#[derive(Clone, Copy)]
pub(super) struct Inner {
    pub parent: usize,
    pub step: Step,
    /// Bytes from the packet's head.
    pub base: Var,
    /// Whether it is known, and there: 1 bit.
    pub there: Var,
    /// Whether it is what the pseudo header in front of it is for: 1 bit. Of several known headers, the last one is.
    pub behind: Var,
}

/// How far a header lies behind the one around it.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Step {
    /// As the demux says.
    Demux,
    Constant(u128),
    /// Found at run time: known to be no other one's.
    Other,
}

impl<'p> Lowering<'p> {
    /// A variable that is 0 where it was not set.
    fn zero_var(&mut self, width: u32) -> Var {
        let var = self.b.var(Ty::Int(width));
        let zero = self.b.shared_constant(width, 0);
        self.b.set_at_entry(var, zero);
        var
    }

    /// Notes a header. `own`: the program keeps its checksum itself.
    pub(super) fn add_layer(
        &mut self,
        protocol: ProtocolId,
        root: usize,
        parent_and_step: Option<(usize, Step)>,
        own: bool,
    ) -> usize {
        let declared = self.program.protocols[protocol.0 as usize].checksum;
        let delta = (declared.is_some() && !own).then(|| self.zero_var(32));
        let is_apart = self.operations && !own && declared.is_some_and(|checksum| checksum.pseudo);
        let pseudo = is_apart.then(|| self.zero_var(32));
        let inner = parent_and_step.map(|(parent, step)| {
            let (base, there, behind) = (self.zero_var(32), self.zero_var(1), self.zero_var(1));
            Inner { parent, step, base, there, behind }
        });
        let (carried, apart, made) = (self.zero_var(32), self.zero_var(1), self.zero_var(1));
        self.layers.push(Layer { protocol, root, inner, delta, pseudo, carried, apart, made, terms: 0 });
        self.layers.len() - 1
    }

    /// A header behind another one comes to be known: the same one as before, where that is certain.
    pub(super) fn know(
        &mut self,
        protocol: ProtocolId,
        parent: usize,
        (step, base): (Step, Value),
        own: bool,
    ) -> usize {
        let root = self.layers[parent].root;
        let keeps = self.program.protocols[protocol.0 as usize].checksum.is_some() && !own;
        let same = |layer: &Layer| {
            layer.protocol == protocol
                && layer.root == root
                && layer.delta.is_some() == keeps
                && layer.inner.is_some_and(|inner| inner.parent == parent && inner.step == step && step != Step::Other)
        };
        let known = self.layers.iter().position(same);
        let layer = known.unwrap_or_else(|| self.add_layer(protocol, root, Some((parent, step)), own));
        let inner = self.layers[layer].inner.expect("behind another one");
        let one = self.b.shared_constant(1, 1);
        self.b.set(inner.base, base);
        self.b.set(inner.there, one);
        if let Some(scope) = self.under(layer) {
            self.comes_behind(layer, inner, scope);
        }
        layer
    }

    /// What a pseudo header is for: this header, and no other one that was taken for it.
    fn comes_behind(&mut self, layer: usize, inner: Inner, scope: usize) {
        self.none_behind(scope, Some(layer));
        // In front of a header that was made anew, or where the program says so, nothing is followed.
        let apart = self.b.get(self.layers[scope].apart);
        let followed = self.not(apart);
        let before = self.b.get(inner.behind);
        let behind = self.either(before, followed);
        self.b.set(inner.behind, behind);
        let carried = self.take(self.layers[scope].carried);
        if self.takes_pseudo(layer) && self.changed.contains(&Sum::Carried(scope)) {
            let base = self.base_of(layer);
            self.count_pseudo(layer, base, carried);
        }
    }

    /// Nothing behind a header, but for one perhaps, is what its pseudo header is for.
    pub(super) fn none_behind(&mut self, scope: usize, but: Option<usize>) {
        for other in self.known(self.layers[scope].root) {
            if let Some(inner) = self.layers[other].inner
                && Some(other) != but
                && self.under(other) == Some(scope)
            {
                let no = self.b.shared_constant(1, 0);
                self.b.set(inner.behind, no);
            }
        }
    }

    /// The headers of a packet that are known behind its own, the first ones first: each behind those around it.
    pub(super) fn known(&self, root: usize) -> Vec<usize> {
        let of_root = |&layer: &usize| self.layers[layer].root == root && self.layers[layer].inner.is_some();
        (0..self.layers.len()).filter(of_root).collect()
    }

    /// The headers of a packet, its own among them, whose checksums are kept.
    pub(super) fn kept(&self, root: usize) -> Vec<usize> {
        let of_root = |&layer: &usize| self.layers[layer].root == root && self.layers[layer].delta.is_some();
        (0..self.layers.len()).filter(of_root).collect()
    }

    pub(super) fn checksum_of(&self, layer: usize) -> Option<Checksum> {
        self.program.protocols[self.layers[layer].protocol.0 as usize].checksum
    }

    fn has_pseudo(&self, layer: usize) -> bool {
        !self.program.protocols[self.layers[layer].protocol.0 as usize].pseudo.is_empty()
    }

    /// Whether its checksum covers a pseudo header, and is kept.
    pub(super) fn takes_pseudo(&self, layer: usize) -> bool {
        self.layers[layer].delta.is_some() && self.checksum_of(layer).is_some_and(|checksum| checksum.pseudo)
    }

    /// The header whose pseudo header is for what lies behind this one: headers that have neither a pseudo header nor a
    /// checksum are passed over.
    pub(super) fn scope(&self, layer: usize) -> Option<usize> {
        if self.has_pseudo(layer) {
            return Some(layer);
        }
        match (self.checksum_of(layer), self.layers[layer].inner) {
            (Some(_), _) => None,
            (None, Some(inner)) => self.scope(inner.parent),
            // What was taken off in front of it may have had one.
            (None, None) => Some(layer),
        }
    }

    /// The header whose pseudo header is for this one.
    pub(super) fn under(&self, layer: usize) -> Option<usize> {
        let inner = self.layers[layer].inner?;
        let ends = self.has_pseudo(layer) || self.checksum_of(layer).is_some();
        if ends { self.scope(inner.parent) } else { None }
    }

    /// Whether one header lies around another one.
    pub(super) fn is_around(&self, outer: usize, layer: usize) -> bool {
        self.around(layer).contains(&outer)
    }

    /// The headers around one, the innermost first.
    pub(super) fn around(&self, layer: usize) -> Vec<usize> {
        let parent = |&at: &usize| self.layers[at].inner.map(|inner| inner.parent);
        std::iter::successors(parent(&layer), parent).collect()
    }

    /// Bytes from the packet's head to a header; `None` for the head itself.
    pub(super) fn base_of(&mut self, layer: usize) -> Option<Value> {
        let inner = self.layers[layer].inner?;
        Some(self.b.get(inner.base))
    }

    /// Whether a header is known, and there.
    pub(super) fn there(&mut self, layer: usize) -> Value {
        match self.layers[layer].inner {
            Some(inner) => self.b.get(inner.there),
            None => self.b.shared_constant(1, 1),
        }
    }

    /// Whether it is there, and no other one was taken for it since.
    pub(super) fn counts(&mut self, layer: usize) -> Value {
        match (self.layers[layer].inner, self.under(layer)) {
            (Some(inner), Some(scope)) if self.has_pseudo(scope) => self.b.get(inner.behind),
            _ => self.there(layer),
        }
    }

    /// A handle of a known header, for what is done to it here.
    pub(super) fn handle_of(&mut self, layer: usize) -> usize {
        let Layer { protocol, root, .. } = self.layers[layer];
        let base = self.base_of(layer);
        let var = self.packets[root].var;
        self.packets.push(Packet { var, protocol, base, layer });
        self.packets.len() - 1
    }

    /// Forgets headers: they are no longer there, or no longer known to be.
    pub(super) fn forget(&mut self, layers: &[usize]) {
        for &layer in layers {
            let Layer { inner, delta, pseudo, carried, .. } = self.layers[layer];
            let Some(inner) = inner else { continue };
            let no = self.b.shared_constant(1, 0);
            self.b.set(inner.there, no);
            self.b.set(inner.behind, no);
            for sum in [Some(carried), delta, pseudo].into_iter().flatten() {
                self.take(sum);
            }
        }
    }

    /// Ends what became known in one trip of a loop: the next one may find it elsewhere.
    pub(super) fn forget_from(&mut self, first: usize) {
        for root in self.owned.clone() {
            let inside: Vec<usize> = self.known(root).into_iter().filter(|&layer| layer >= first).collect();
            if !inside.is_empty() {
                self.apply_known(root);
                self.forget(&inside);
            }
        }
    }

    /// A field was written that says where the next header begins: one that is looked up from now on may be another
    /// one.
    pub(super) fn next_moves(&mut self, layer: usize) {
        for known in &mut self.layers {
            if let Some(inner) = &mut known.inner
                && inner.parent == layer
                && inner.step == Step::Demux
            {
                inner.step = Step::Other;
            }
        }
    }

    /// The header whose length says how far a checksum reaches: its own, or the nearest one around it that says one.
    pub(super) fn ender(&self, layer: usize) -> Option<usize> {
        let says = |&at: &usize| self.program.length[self.layers[at].protocol.0 as usize].is_some();
        [layer].into_iter().chain(self.around(layer)).find(says)
    }

    /// Where the length of a header says that it ends, counted from the packet's head.
    pub(super) fn end_of(&mut self, layer: usize) -> Value {
        let handle = self.handle_of(layer);
        let length = self.program.length[self.layers[layer].protocol.0 as usize].as_ref().expect("it says one");
        let bytes = self.of_header(handle, length);
        match self.base_of(layer) {
            Some(base) => self.b.binary(BinOp::Add, base, bytes),
            None => bytes,
        }
    }

    /// Where what a kept checksum covers ends, counted from the head of a packet of `length` bytes: the fixed header is
    /// covered, and nothing beyond the packet.
    pub(super) fn cover_end(&mut self, layer: usize, length: Value) -> Value {
        if !self.checksum_of(layer).is_some_and(|checksum| checksum.payload) {
            let handle = self.handle_of(layer);
            let base = self.base_of(layer);
            let left = match base {
                Some(base) => self.b.binary(BinOp::Sub, length, base),
                None => length,
            };
            let (header, _) = self.header_length(handle, left);
            return match base {
                Some(base) => self.b.binary(BinOp::Add, base, header),
                None => header,
            };
        }
        match self.ender(layer) {
            Some(ender) => self.end_within(layer, ender, length),
            None => length,
        }
    }

    /// Where a header ends by the length of another one, or its own, counted from the head of a packet of `length`
    /// bytes: its fixed header is in it, and nothing beyond the packet.
    pub(super) fn end_within(&mut self, layer: usize, ender: usize, length: Value) -> Value {
        let end = self.end_of(ender);
        let fixed = self.program.protocols[self.layers[layer].protocol.0 as usize].size;
        let fixed = self.b.constant(32, fixed.into());
        let least = match self.base_of(layer) {
            Some(base) => self.b.binary(BinOp::Add, base, fixed),
            None => fixed,
        };
        let end = self.select_by(CmpOp::Ult, end, least, least, end);
        self.select_by(CmpOp::Ult, length, end, length, end)
    }

    pub(super) fn not(&mut self, truth: Value) -> Value {
        let one = self.b.shared_constant(1, 1);
        match self.b.as_constant(truth) {
            Some(truth) => self.b.shared_constant(1, 1 - truth),
            None => self.b.binary(BinOp::Xor, truth, one),
        }
    }

    pub(super) fn either(&mut self, a: Value, b: Value) -> Value {
        match (self.b.as_constant(a), self.b.as_constant(b)) {
            (Some(0), _) | (_, Some(1)) => b,
            (Some(_), _) | (_, Some(0)) => a,
            _ => self.b.binary(BinOp::Or, a, b),
        }
    }

    pub(super) fn both(&mut self, a: Value, b: Value) -> Value {
        match (self.b.as_constant(a), self.b.as_constant(b)) {
            (Some(1), _) | (_, Some(0)) => b,
            (Some(_), _) | (_, Some(1)) => a,
            _ => self.b.binary(BinOp::And, a, b),
        }
    }

    /// `a OP b ? yes : no`
    pub(super) fn select_by(&mut self, op: CmpOp, a: Value, b: Value, yes: Value, no: Value) -> Value {
        let compared = self.b.push(Ty::Int(1), Op::Cmp(op, a, b));
        self.b.push(self.b.ty(yes), Op::Select(compared, yes, no))
    }
}

//! Builds a body anew, a copy of each block for each abstract state that it is reached with.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};

use super::options::CacheOptions;
use super::report::{Fallback, Reason};
use super::state::{AbstractState, Chunk, Dirty, Family, Handle};
use crate::ir::analysis::{Cfg, Liveness};
use crate::ir::*;
use crate::opt::expected::Expected;
use crate::opt::straighten::straighten;

/// Copies of a block, for different abstract states.
const COPIES: usize = 8;
/// Headers that end within so many bytes are loaded ahead: Ethernet's least frame without its check sequence.
const ETHERNET: u32 = 60;

/// A body that was built anew.
pub(super) struct Built {
    /// Bytes of the packet that are loaded at once.
    pub(super) ahead: u32,
    pub(super) body: Body,
    pub(super) fallbacks: Vec<Fallback>,
}

impl<'p> Source<'p> {
    /// Builds the body anew. `ahead`: bytes of the packet that are loaded at once, where it has them.
    pub(super) fn rebuild(&self, ahead: u32) -> Rewriter<'p> {
        let mut assumed = HashMap::new();
        loop {
            let mut rewriter = Rewriter::new(*self, ahead, assumed);
            rewriter.run();
            // Each round adds at least one of finitely many bytes or fields.
            if rewriter.holds {
                return rewriter;
            }
            assumed = rewriter.copies.into_iter().map(|copy| (copy.key, copy.found)).collect();
        }
    }
}

/// The body that is built anew, and what is known of it.
#[derive(Clone, Copy)]
pub(super) struct Source<'p> {
    pub(super) program: &'p Program,
    pub(super) options: &'p CacheOptions,
    pub(super) id: PpfId,
    pub(super) body: &'p Body,
    pub(super) live: &'p Liveness<'p>,
    pub(super) expected: &'p Expected<'p>,
    pub(super) cfg: &'p Cfg,
}

/// Where a copy of a block begins: a block, an instruction of it, and the abstract state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CopyKey {
    block: BlockId,
    inst: usize,
    state: AbstractState,
}

/// A variable of the new body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum VarKey {
    /// A value of the original body.
    Value(Value),
    /// The handle that stands for a family.
    Packet(Family),
    /// Bytes in a register.
    Chunk(Family, Chunk),
    /// Metadata in a register.
    Meta(Family, MetaId),
}

/// A copy of a block.
struct Copied {
    key: CopyKey,
    block: BlockId,
    /// What may be dirty where it begins, by all that is known so far.
    found: BTreeMap<Family, Dirty>,
    /// It was built already, with what was known then.
    built: bool,
}

pub(super) struct Rewriter<'p> {
    pub(super) source: Source<'p>,
    /// Bytes of the packet that are loaded at once where it has them.
    pub(super) ahead: u32,
    /// How far it was read in registers: each end of what was loaded, and whether enough packets come there.
    pub(super) reach: BTreeMap<u32, bool>,
    /// What was dirty at each copy in the round before.
    assumed: HashMap<CopyKey, BTreeMap<Family, Dirty>>,
    pub(super) b: Builder,
    vars: HashMap<VarKey, Var>,
    copies: Vec<Copied>,
    /// Copies to be built, by the ranks of their blocks.
    ready: BinaryHeap<Reverse<(usize, usize, usize)>>,
    /// In the order in which they were built.
    built: Vec<usize>,
    index: HashMap<CopyKey, usize>,
    per_block: HashMap<(BlockId, usize), usize>,
    fallbacks: Vec<Fallback>,
    /// The abstract state, and what is dirty, where code is being built.
    pub(super) state: AbstractState,
    pub(super) dirty: BTreeMap<Family, Dirty>,
    /// The copy being built.
    pub(super) current: usize,
    /// In the block being built: truth values that say that a packet reaches to an offset.
    pub(super) proofs: HashMap<Value, (Family, i32)>,
    /// Whether the assumption was wide enough.
    pub(super) holds: bool,
}

impl<'p> Rewriter<'p> {
    fn new(source: Source<'p>, ahead: u32, assumed: HashMap<CopyKey, BTreeMap<Family, Dirty>>) -> Self {
        Rewriter {
            source,
            ahead,
            reach: BTreeMap::new(),
            assumed,
            b: Builder::default(),
            vars: HashMap::new(),
            copies: Vec::new(),
            ready: BinaryHeap::new(),
            built: Vec::new(),
            index: HashMap::new(),
            per_block: HashMap::new(),
            fallbacks: Vec::new(),
            state: AbstractState::default(),
            dirty: BTreeMap::new(),
            current: 0,
            proofs: HashMap::new(),
            holds: true,
        }
    }

    /// How many bytes from the packet's head may be worth loading at once. Without a profile there is one answer, which
    /// is among those with one.
    pub(super) fn worth_loading(&self) -> BTreeSet<u32> {
        let ethernet = self.reach.range(..=ETHERNET).next_back().map_or(0, |(&end, _)| end);
        let mut candidates = BTreeSet::from([ethernet]);
        if self.source.body.usage.is_some() {
            candidates.insert(0);
            candidates.extend(self.reach.iter().filter(|(_, hot)| **hot).map(|(end, _)| *end));
        }
        candidates
    }

    /// The block of the original body that is being built.
    fn original(&self) -> &'p Block {
        let block = self.copies.get(self.current).map_or(BlockId(0), |copy| copy.key.block);
        &self.source.body.blocks[block.0 as usize]
    }

    /// Whether enough packets come to the block that is being built.
    pub(super) fn is_hot(&self) -> bool {
        let entered = self.source.body.blocks[0].counts.map_or(0, |counts| counts.runs);
        self.original().is_hot(entered)
    }

    /// The block being built ends with a branch that is unlikely to take its second destination, by a profile where
    /// there is one.
    pub(super) fn unlikely_other(&mut self) {
        let counts = self.original().counts.map(|Counts { runs, .. }| Counts { runs, taken: [runs, 0] });
        self.b.set_counts(counts);
    }

    /// The block being built ends with a branch by whether a packet that enters has so many bytes.
    pub(super) fn by_length(&mut self, bytes: u32) {
        let taken = self.source.body.usage.as_ref().map(|usage| usage.reaching(bytes));
        self.b.set_counts(taken.map(|taken| Counts { runs: taken[0].saturating_add(taken[1]), taken }));
    }

    fn run(&mut self) {
        let entry = self.b.block();
        self.b.seal(entry);
        self.b.switch_to(entry);
        self.enter(entry);
        while let Some(Reverse((.., index))) = self.ready.pop() {
            self.built.push(index);
            self.copy(index);
        }
    }

    pub(super) fn finish(mut self) -> Built {
        // Latest first: what is read there becomes a parameter of blocks before it, without deep recursion.
        for &index in self.built.iter().rev() {
            self.b.seal(self.copies[index].block);
        }
        let mut body = self.b.finish();
        straighten(&mut body);
        Built { ahead: self.ahead, body, fallbacks: self.fallbacks }
    }

    fn var(&mut self, key: VarKey, ty: Ty) -> Var {
        let b = &mut self.b;
        *self.vars.entry(key).or_insert_with(|| b.var(ty))
    }

    pub(super) fn set(&mut self, key: VarKey, ty: Ty, value: Value) {
        let var = self.var(key, ty);
        self.b.set(var, value);
    }

    pub(super) fn get(&mut self, key: VarKey) -> Value {
        let var = self.vars[&key];
        self.b.get(var)
    }

    /// A value of the original body, in the new one.
    pub(super) fn value(&mut self, original: Value) -> Value {
        match (self.constant_of(original), self.source.body.ty(original)) {
            (Some(number), Ty::Int(width)) => self.b.constant(width, number),
            _ => self.get(VarKey::Value(original)),
        }
    }

    /// What is known of a value in all blocks: that it is a constant, or was tested to be a number.
    fn constant_of(&self, original: Value) -> Option<u128> {
        let constant = || match self.source.expected.inst(original)?.op {
            Op::Const(number) => Some(number),
            _ => None,
        };
        self.state.numbers.get(&original).copied().or_else(constant)
    }

    pub(super) fn define(&mut self, original: Value, new: Value) {
        let ty = self.b.ty(new);
        self.set(VarKey::Value(original), ty, new);
    }

    /// The number that a value of the original body is here, where that is known.
    pub(super) fn number(&mut self, original: Value) -> Option<u128> {
        let value = self.value(original);
        self.b.as_constant(value)
    }

    /// Builds the copy with this index.
    fn copy(&mut self, index: usize) {
        let copy = &mut self.copies[index];
        copy.built = true;
        let CopyKey { block, inst, state } = copy.key.clone();
        self.dirty = copy.found.clone();
        self.current = index;
        self.state = state;
        self.proofs.clear();
        self.b.switch_to(copy.block);
        let block = &self.source.body.blocks[block.0 as usize];
        for i in inst..block.insts.len() {
            self.b.span = block.insts[i].span;
            let here = (self.copies[index].key.block, i);
            if !self.inst(here, &block.insts[i]) {
                return;
            }
        }
        self.terminator(&block.term);
    }

    fn terminator(&mut self, term: &Terminator) {
        match term {
            Terminator::Return => self.b.ret(),
            Terminator::Jump(dest) => self.leave(dest),
            Terminator::Branch(condition, then, other) => {
                if let Some(number) = self.number(*condition) {
                    return self.leave(if number == 1 { then } else { other });
                }
                let proof = self.proofs.get(condition).copied();
                let condition = self.value(*condition);
                let (then_edge, other_edge) = (self.b.block(), self.b.block());
                self.b.set_counts(self.original().counts);
                self.b.branch(condition, then_edge, other_edge);
                let (state, dirty) = (self.state.clone(), self.dirty.clone());
                for (edge, dest, proof) in [(then_edge, then, proof), (other_edge, other, None)] {
                    self.b.seal(edge);
                    self.b.switch_to(edge);
                    self.state = state.clone();
                    self.dirty = dirty.clone();
                    if let Some((family, end)) = proof
                        && let Some(window) = self.state.windows.get_mut(&family)
                    {
                        window.proven = window.proven.max(end);
                    }
                    self.leave(dest);
                }
            }
        }
    }

    /// Ends the block being built with a jump along an edge of the original body.
    fn leave(&mut self, dest: &Dest) {
        let params = &self.source.body.blocks[dest.block.0 as usize].params;
        // All are read before the first is set: a block may swap its own parameters.
        let args: Vec<Option<(Value, Option<u128>)>> = dest
            .args
            .iter()
            .map(|&arg| {
                let cached = matches!(self.state.handles.get(&arg), Some(Handle::Cached { .. }));
                (!cached).then(|| (self.value(arg), self.state.numbers.get(&arg).copied()))
            })
            .collect();
        let handles: Vec<Option<Handle>> = dest.args.iter().map(|arg| self.state.handles.remove(arg)).collect();
        let live = &self.source.live.at_start(dest.block);
        self.state.numbers.retain(|value, _| live.contains(value) && !params.contains(value));
        for ((&param, arg), handle) in params.iter().zip(args).zip(handles) {
            if let Some(handle) = handle {
                self.state.handles.insert(param, handle);
            }
            if let Some((value, number)) = arg {
                self.define(param, value);
                // A number that was tested stays one. Other constants would make a copy for each: those of loops.
                if let Some(number) = number {
                    self.state.numbers.insert(param, number);
                }
            }
        }
        self.go(dest.block, 0);
    }

    /// Jumps to the copy of a block, from this instruction on, for the abstract state as it is; makes one where there
    /// is none.
    pub(super) fn go(&mut self, block: BlockId, inst: usize) {
        let mut key = CopyKey { block, inst, state: self.state.clone() };
        if !self.index.contains_key(&key)
            && self.per_block.get(&(block, inst)).is_some_and(|&copies| copies >= COPIES)
            && !self.state.windows.is_empty()
        {
            self.all_direct(Reason::Copies);
            self.state.numbers.clear();
            key.state = self.state.clone();
        }
        let index = match self.index.get(&key) {
            Some(&index) => index,
            None => self.new_copy(key),
        };
        let copy = &mut self.copies[index];
        for (family, dirty) in &self.dirty {
            let found = copy.found.entry(*family).or_default();
            let wider = found.union(*dirty);
            self.holds &= !copy.built || wider == *found;
            *found = wider;
        }
        let to = copy.block;
        self.b.jump(to);
    }

    fn new_copy(&mut self, key: CopyKey) -> usize {
        let index = self.copies.len();
        let found = self.assumed.get(&key).cloned().unwrap_or_default();
        *self.per_block.entry((key.block, key.inst)).or_default() += 1;
        self.index.insert(key.clone(), index);
        let block = self.b.block();
        self.ready.push(Reverse((self.source.cfg.ranks()[key.block.0 as usize], key.inst, index)));
        self.copies.push(Copied { key, block, found, built: false });
        index
    }

    pub(super) fn fallback(&mut self, reason: Reason) {
        let fallback = Fallback { ppf: self.source.id, span: self.b.span, reason };
        if !self.fallbacks.contains(&fallback) {
            self.fallbacks.push(fallback);
        }
    }
}

//! Spilled code: values that outlive their block lie in memory, of which the kernel's verifier knows nothing.
//!
//! The verifier follows as many paths as there are different things that it knows. A truth value that is 1 on one path
//! and 0 on another doubles them, and so does a number that was compared, as long as it is of use. What is read from
//! memory is any number, so paths that meet are one again. What loops count by stays in registers: the verifier must
//! see that they end.

use std::collections::{BTreeSet, HashMap};

use baker::ir::{BlockId, Body, Inst, Op, Terminator, Ty, Value};

use crate::kernel::VALUES;

/// Bytes of a value.
pub(super) const WIDE: u64 = 16;

/// Where values of a body lie, as distances from where those of the program begin.
#[derive(Debug, Default)]
pub(super) struct SpillSlots {
    at: HashMap<Value, u64>,
}

impl SpillSlots {
    /// For a body of whose program `used` bytes are taken already, which is brought up to date.
    pub fn new(body: &Body, used: &mut u64) -> Self {
        let stays = counted(body);
        let mut at = HashMap::new();
        for value in crossing(body) {
            if !stays.contains(&value) && *used + WIDE <= VALUES {
                at.insert(value, *used);
                *used += WIDE;
            }
        }
        SpillSlots { at }
    }

    /// Where a value lies, if in memory.
    pub fn of(&self, value: Value) -> Option<u64> {
        self.at.get(&value).copied()
    }
}

/// Numbers and entries that are used outside of the block that they are defined in.
fn crossing(body: &Body) -> BTreeSet<Value> {
    let mut home = HashMap::new();
    for (index, block) in (0u32..).zip(&body.blocks) {
        let results = block.insts.iter().filter_map(|inst| inst.result);
        home.extend(block.params.iter().copied().chain(results).map(|value| (value, BlockId(index))));
    }
    let mut crossing = BTreeSet::new();
    for (index, block) in (0u32..).zip(&body.blocks) {
        let mut used: Vec<Value> = block.insts.iter().flat_map(|inst| inst.op.operands()).collect();
        used.extend(block.term.dests().into_iter().flat_map(|dest| dest.args.iter().copied()));
        if let Terminator::Branch(condition, ..) = &block.term {
            used.push(*condition);
        }
        crossing.extend(used.into_iter().filter(|value| home.get(value) != Some(&BlockId(index))));
        crossing.extend(block.params.iter().copied());
    }
    crossing.retain(|value| !matches!(body.ty(*value), Ty::Packet(_)));
    crossing
}

/// What the verifier has to know: what is tested of the packet, and what decides whether a loop goes on.
fn counted(body: &Body) -> BTreeSet<Value> {
    let mut stays: BTreeSet<Value> = BTreeSet::new();
    let insts = || body.blocks.iter().flat_map(|block| &block.insts);
    stays.extend(insts().filter(|inst| matches!(inst.op, Op::Has { .. })).filter_map(|inst| inst.result));
    for inside in loops(body) {
        for block in &inside {
            if let Terminator::Branch(condition, then, other) = &body.blocks[block.0 as usize].term
                && inside.contains(&then.block) != inside.contains(&other.block)
            {
                stays.insert(*condition);
            }
        }
    }
    // What these come from.
    let makers: HashMap<Value, &Inst> = insts().filter_map(|inst| Some((inst.result?, inst))).collect();
    let mut passed: HashMap<Value, Vec<Value>> = HashMap::new();
    for dest in body.blocks.iter().flat_map(|block| block.term.dests()) {
        let params = &body.blocks[dest.block.0 as usize].params;
        params.iter().zip(&dest.args).for_each(|(param, arg)| passed.entry(*param).or_default().push(*arg));
    }
    let mut work: Vec<Value> = stays.iter().copied().collect();
    while let Some(value) = work.pop() {
        let from = match makers.get(&value).map(|inst| &inst.op) {
            Some(Op::Bin(_, a, b) | Op::Cmp(_, a, b)) => vec![*a, *b],
            Some(Op::Select(condition, a, b)) => vec![*condition, *a, *b],
            Some(Op::Cast(_, a)) => vec![*a],
            _ => passed.get(&value).cloned().unwrap_or_default(),
        };
        work.extend(from.into_iter().filter(|value| stays.insert(*value)));
    }
    stays
}

/// The blocks of each loop: those that lead to a jump back without passing the block that it goes to.
fn loops(body: &Body) -> Vec<BTreeSet<BlockId>> {
    let order = body.reverse_postorder();
    let slot: HashMap<BlockId, usize> = order.iter().enumerate().map(|(slot, block)| (*block, slot)).collect();
    let mut before: HashMap<BlockId, Vec<BlockId>> = HashMap::new();
    for block in &order {
        for dest in body.blocks[block.0 as usize].term.dests() {
            before.entry(dest.block).or_default().push(*block);
        }
    }
    let mut loops = Vec::new();
    for (from, to) in order.iter().flat_map(|from| {
        let dests = body.blocks[from.0 as usize].term.dests();
        dests.into_iter().map(|dest| (*from, dest.block)).collect::<Vec<_>>()
    }) {
        if slot.get(&to) > slot.get(&from) {
            continue;
        }
        let mut inside = BTreeSet::from([to]);
        let mut work = vec![from];
        while let Some(block) = work.pop() {
            if inside.insert(block) {
                work.extend(before.get(&block).into_iter().flatten());
            }
        }
        loops.push(inside);
    }
    loops
}

//! Spilled code: values that outlive their block lie in memory, of which the kernel's verifier knows nothing.
//!
//! The verifier follows as many paths as there are different things that it knows. A truth value that is 1 on one path
//! and 0 on another doubles them, and so does a number that was compared, as long as it is of use. What is read from
//! memory is any number, so paths that meet are one again. What loops count by stays in registers: the verifier must
//! see that they end.

use std::collections::{BTreeSet, HashMap};

use baker::ir::analysis::{Cfg, Definition, Definitions, Passed};
use baker::ir::{BlockId, Body, Op, Terminator, Ty, Value};

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
    let definitions = Definitions::new(body);
    let mut crossing = BTreeSet::new();
    for (id, block) in (0u32..).map(BlockId).zip(&body.blocks) {
        let home = |value: &Value| definitions.of(*value).map(Definition::block);
        crossing.extend(block.uses().filter(|value| home(value) != Some(id)));
        crossing.extend(&block.params);
    }
    crossing.retain(|value| !matches!(body.ty(*value), Ty::Packet(_)));
    crossing
}

/// What the verifier has to know: what is tested of the packet, and what decides whether a loop goes on.
fn counted(body: &Body) -> BTreeSet<Value> {
    let mut stays: BTreeSet<Value> = BTreeSet::new();
    let insts = || body.blocks.iter().flat_map(|block| &block.insts);
    stays.extend(insts().filter(|inst| matches!(inst.op, Op::Has { .. })).filter_map(|inst| inst.result));
    let (definitions, passed) = (Definitions::new(body), Passed::new(body));
    // What a value comes from.
    let sources = |value: Value| match definitions.op(value) {
        Some(Op::Bin(_, a, b) | Op::Cmp(_, a, b)) => vec![*a, *b],
        Some(Op::Select(condition, a, b)) => vec![*condition, *a, *b],
        Some(Op::Cast(_, a)) => vec![*a],
        _ => passed.to(value).to_vec(),
    };
    for inside in Cfg::new(body).loops() {
        let leaves = inside.iter().filter_map(|block| match &body.blocks[block.0 as usize].term {
            Terminator::Branch(condition, then, other) => {
                (inside.contains(&then.block) != inside.contains(&other.block)).then_some(*condition)
            }
            _ => None,
        });
        let leaves: Vec<Value> = leaves.collect();
        // A loop that ends by its counter may be left for other reasons, too, of which nothing must be known.
        let is_number = |value: Value| matches!(definitions.op(value), Some(Op::Const(_)));
        let counts = |condition: &Value| {
            origins([*condition], sources).into_iter().all(|value| is_number(value) || !sources(value).is_empty())
        };
        let counting: Vec<Value> = leaves.iter().copied().filter(counts).collect();
        stays.extend(if counting.is_empty() { leaves } else { counting });
    }
    origins(stays, sources)
}

/// Values, and all that they come from.
fn origins(values: impl IntoIterator<Item = Value>, sources: impl Fn(Value) -> Vec<Value>) -> BTreeSet<Value> {
    let mut found: BTreeSet<Value> = values.into_iter().collect();
    let mut work: Vec<Value> = found.iter().copied().collect();
    while let Some(value) = work.pop() {
        work.extend(sources(value).into_iter().filter(|value| found.insert(*value)));
    }
    found
}

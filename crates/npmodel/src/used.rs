//! Which of the operations that a packet executed were used.
//!
//! ```text
//! b0: v1 = entry_load …        not used on the way by b2, so not counted there:
//!     v2 = add v1, 1           a compiler computes both in b1
//!     branch v0, b1, b2
//! b1: … v2 …
//! b2: return
//! ```
//!
//! Accesses to packets and metadata always count: where they stand is what the optimiser decided.

use std::collections::HashSet;

use baker::ir::interp::{Code, Executed};
use baker::ir::{Dest, Op, Program, Terminator, Value};

/// For each of the executed operations whether it had an effect, or its result was used by one that counts.
pub fn used(program: &Program, executed: &[Executed]) -> Vec<bool> {
    let mut live: HashSet<(Code, Value)> = HashSet::new();
    let mut found = vec![true; executed.len()];
    for (at, this) in executed.iter().enumerate().rev() {
        let Some(inst) = this.inst(program) else {
            leave(program, this, executed.get(at + 1), &mut live);
            continue;
        };
        let wanted = inst.result.is_some_and(|result| live.remove(&(this.code, result)));
        found[at] = wanted || !is_pure(&inst.op);
        if found[at] {
            live.extend(inst.op.operands().into_iter().map(|operand| (this.code, operand)));
        }
    }
    found
}

/// Whether an operation costs nothing where its result is not used.
fn is_pure(op: &Op) -> bool {
    op.is_pure() && op.packet().is_none() && !matches!(op, Op::Now | Op::Lookup { .. })
}

/// A block's end: its condition counts, and arguments for parameters that are used. `next` is what was executed behind
/// it.
fn leave(program: &Program, this: &Executed, next: Option<&Executed>, live: &mut HashSet<(Code, Value)>) {
    let body = this.code.of(program).1;
    let end = &body.blocks[this.block as usize].term;
    let taken = |dest: &&Dest| next.is_some_and(|next| next.code == this.code && next.block == dest.block.0);
    let mut arguments = Vec::new();
    for dest in end.dests().into_iter().filter(taken) {
        let passed = body.passed(dest).filter(|(param, _)| live.contains(&(this.code, *param)));
        arguments.extend(passed.map(|(_, arg)| arg));
    }
    for dest in end.dests() {
        for param in &body.blocks[dest.block.0 as usize].params {
            live.remove(&(this.code, *param));
        }
    }
    if let Terminator::Branch(condition, ..) = end {
        arguments.push(*condition);
    }
    live.extend(arguments.into_iter().map(|argument| (this.code, argument)));
}

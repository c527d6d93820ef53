//! Locks: one entry at a time, released on every path, and nothing done meanwhile that calls out of the program.
//!
//! ```text
//!   lock v1
//!   v2: u64 = entry_load v1.packets
//!   br v3, b1(), b2()                  b1 and b2 begin with v1 locked
//! ```

use super::{Dominators, Errors};
use crate::ir::*;

/// The same entry, or none, must be locked on all edges into a block.
pub(super) fn check(body: &Body, dominators: &Dominators, errors: &mut Errors) {
    let mut starts: Vec<Option<Option<Value>>> = vec![None; body.blocks.len()];
    starts[0] = Some(None);
    // In reverse postorder a block comes after one of its predecessors, so its state is known by then.
    for &id in &dominators.order {
        let block = &body.blocks[id.0 as usize];
        let mut locked = starts[id.0 as usize].flatten();
        for Inst { op, .. } in &block.insts {
            match (op, locked) {
                (Op::Lock { entry }, None) => locked = Some(*entry),
                (Op::Unlock { entry }, Some(held)) if *entry == held => locked = None,
                (Op::Unlock { entry }, _) => errors.at(id, format!("v{} is unlocked where it is not locked", entry.0)),
                (op, Some(held)) if !may_be_locked(op) => {
                    errors.at(id, format!("{op:?} while v{} is locked", held.0));
                }
                _ => {}
            }
        }
        match (&block.term, locked) {
            (Terminator::Return, Some(held)) => errors.at(id, format!("v{} is never unlocked", held.0)),
            (term, _) => {
                for dest in term.dests() {
                    let start = &mut starts[dest.block.0 as usize];
                    if start.is_some_and(|before| before != locked) {
                        errors.at(dest.block, "an entry is locked on one path to here and not on another".into());
                    }
                    *start = Some(locked);
                }
            }
        }
    }
}

/// Whether an operation may stand between `lock` and `unlock`.
fn may_be_locked(op: &Op) -> bool {
    match op {
        Op::Const(_)
        | Op::Bin(..)
        | Op::Cmp(..)
        | Op::Cast(..)
        | Op::Select(..)
        | Op::Now
        | Op::Load { .. }
        | Op::Store { .. }
        | Op::LoadAt { .. }
        | Op::StoreAt { .. }
        | Op::Has { .. }
        | Op::Len { .. }
        | Op::Move { .. }
        | Op::MetaLoad { .. }
        | Op::MetaStore { .. }
        | Op::IsNull(_)
        | Op::EntryLoad { .. }
        | Op::EntryStore { .. } => true,
        Op::Sum { .. }
        | Op::Trim { .. }
        | Op::Grow { .. }
        | Op::Create
        | Op::Pull { .. }
        | Op::Push { .. }
        | Op::Copy { .. }
        | Op::Extern { .. }
        | Op::Put { .. }
        | Op::Pass { .. }
        | Op::Drop { .. }
        | Op::Lookup { .. }
        | Op::Insert { .. }
        | Op::Remove { .. }
        | Op::Take { .. }
        | Op::Lock { .. }
        | Op::Unlock { .. }
        | Op::Count { .. } => false,
    }
}

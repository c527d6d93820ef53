//! Locks: one entry at a time, released on every path, and nothing done meanwhile that calls out of the program.
//!
//! ```text
//!   lock v1
//!   v2: u64 = entry_load v1.packets
//!   br v3, b1(), b2()                  b1 and b2 begin with v1 locked
//! ```

use super::Errors;
use crate::ir::analysis::Cfg;
use crate::ir::*;

/// The values that are the entry which is locked: several where blocks take it as a parameter. `None` where none is
/// locked.
type Locked = Option<Vec<Value>>;

/// The same entry, or none, must be locked on all edges into a block.
pub(super) fn check(body: &Body, cfg: &Cfg, errors: &mut Errors) {
    let locks = body.blocks.iter().flat_map(|block| &block.insts).any(|inst| is_lock(&inst.op));
    if !locks {
        return;
    }
    let mut starts: Vec<Option<Locked>> = vec![None; body.blocks.len()];
    starts[0] = Some(None);
    // Where edges differ, what they have in common is left; loops may take a second round.
    let mut changed = true;
    while changed {
        changed = false;
        for &id in &cfg.order {
            let Some(mut locked) = starts[id.0 as usize].clone() else { continue };
            let block = &body.blocks[id.0 as usize];
            block.insts.iter().for_each(|inst| drop(step(&mut locked, &inst.op)));
            for dest in block.term.dests() {
                let arrives = along(body, &locked, dest);
                let start = &mut starts[dest.block.0 as usize];
                let joined = match &*start {
                    None => arrives,
                    Some(before) => join(before, &arrives),
                };
                changed |= start.as_ref() != Some(&joined);
                *start = Some(joined);
            }
        }
    }
    for &id in &cfg.order {
        let block = &body.blocks[id.0 as usize];
        let mut locked = starts[id.0 as usize].clone().flatten();
        if locked.as_ref().is_some_and(Vec::is_empty) {
            errors.at(id, "an entry is locked on one path to here and not on another".into());
            continue;
        }
        for inst in &block.insts {
            if let Err(message) = step(&mut locked, &inst.op) {
                errors.at(id, message);
            }
        }
        if let (Terminator::Return, Some([held, ..])) = (&block.term, locked.as_deref()) {
            errors.at(id, format!("v{} is never unlocked", held.0));
        }
    }
}

fn is_lock(op: &Op) -> bool {
    matches!(op, Op::Lock { .. } | Op::Unlock { .. })
}

/// What an operation does to the lock; what is wrong with it.
fn step(locked: &mut Locked, op: &Op) -> Result<(), String> {
    match (op, locked.as_deref()) {
        (Op::Lock { entry }, None) => *locked = Some(vec![*entry]),
        (Op::Unlock { entry }, Some(held)) if held.contains(entry) => *locked = None,
        (Op::Unlock { entry }, _) => return Err(format!("v{} is unlocked where it is not locked", entry.0)),
        (op, Some([held, ..])) if !op.row().while_locked => return Err(format!("{op:?} while v{} is locked", held.0)),
        _ => {}
    }
    Ok(())
}

/// The same behind an edge, where parameters may be other names of the entry.
fn along(body: &Body, locked: &Locked, dest: &Dest) -> Locked {
    let mut held = locked.clone()?;
    let params = &body.blocks[dest.block.0 as usize].params;
    let named = body.passed(dest).filter(|(_, arg)| held.contains(arg)).map(|(param, _)| param);
    let named: Vec<Value> = named.collect();
    // A parameter of a loop's head that was the entry on the last trip is what this trip makes it.
    held.retain(|value| !params.contains(value));
    held.extend(named);
    Some(held)
}

/// What two edges have in common; an empty list where they differ.
fn join(a: &Locked, b: &Locked) -> Locked {
    match (a, b) {
        (None, None) => None,
        (Some(a), Some(b)) => Some(a.iter().filter(|value| b.contains(value)).copied().collect()),
        _ => Some(Vec::new()),
    }
}

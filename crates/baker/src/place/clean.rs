//! How far a PPF has changed nothing that is seen outside, so that it could begin again.

use crate::ir::{Body, Inst, Op, Times};

/// For each block the index of its first change, or the number of its instructions; `None` where a path comes to it
/// with changes.
///
/// A touch of an entry's time of use is no change: it is done again at once. Nor is a note of the time or of a look-up.
pub(super) fn clean(body: &Body, times: &Times) -> Vec<Option<usize>> {
    let changes = |inst: &Inst| {
        let creates = matches!(inst.op, Op::Copy { .. } | Op::Create | Op::HoldGet { .. } | Op::Extern { .. });
        let is_note = matches!(inst.op, Op::Time { .. } | Op::Found { .. });
        creates || !(inst.op.is_pure() || is_note || times.is_touch(body, &inst.op))
    };
    let first = |block: usize| {
        let insts = &body.blocks[block].insts;
        insts.iter().position(changes).unwrap_or(insts.len())
    };
    let mut changed = vec![false; body.blocks.len()];
    let leads_on = |block: usize, changed: &[bool]| changed[block] || first(block) < body.blocks[block].insts.len();
    loop {
        let before = changed.clone();
        for (block, from) in body.blocks.iter().zip(0..) {
            if leads_on(from, &changed) {
                block.term.dests().into_iter().for_each(|dest| changed[dest.block.0 as usize] = true);
            }
        }
        if changed == before {
            break;
        }
    }
    (0..body.blocks.len()).map(|block| (!changed[block]).then(|| first(block))).collect()
}

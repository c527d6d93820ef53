//! Blocks that follow each other without a choice become one.
//!
//! ```text
//! b1: …; jump b2(v3)                b1: …(v3 for v4)…; return
//! b2(v4): …; return          →
//! ```
//!
//! A jump to an empty block that jumps on goes on at once, and a block with one predecessor, which jumps to it, is
//! appended to that. Unreachable blocks and unused values are removed.

use crate::ir::analysis::Cfg;
use crate::ir::*;

pub(super) fn straighten(body: &mut Body) {
    skip_empty(body);
    let cfg = Cfg::new(body);
    let mut is_there: Vec<bool> = (0..body.blocks.len() as u32).map(|id| cfg.is_reachable(BlockId(id))).collect();
    let mut replaced: Vec<Value> = (0..body.values.len() as u32).map(Value).collect();
    for b in 0..body.blocks.len() {
        if !is_there[b] {
            continue;
        }
        while let Terminator::Jump(dest) = &body.blocks[b].term {
            let to = dest.block.0 as usize;
            if cfg.predecessors(dest.block).len() != 1 || to == b {
                break;
            }
            let args = dest.args.clone();
            let next = &mut body.blocks[to];
            let insts = std::mem::take(&mut next.insts);
            let params = std::mem::take(&mut next.params);
            let term = std::mem::take(&mut next.term);
            let counts = next.counts;
            is_there[to] = false;
            for (param, arg) in params.into_iter().zip(args) {
                replaced[param.0 as usize] = arg;
            }
            body.blocks[b].insts.extend(insts);
            body.blocks[b].term = term;
            body.blocks[b].counts = match (body.blocks[b].counts, counts) {
                (Some(Counts { runs, .. }), counts) => {
                    Some(Counts { runs, taken: counts.map_or([0, 0], |counts| counts.taken) })
                }
                (None, counts) => counts,
            };
        }
    }
    let find = |mut value: Value| {
        while replaced[value.0 as usize] != value {
            value = replaced[value.0 as usize];
        }
        value
    };
    for block in &mut body.blocks {
        block.uses_mut(|value| *value = find(*value));
    }
    body.rename_expected(|value| Some(find(value)));
    tidy(body);
}

/// Redirects what leads to an empty block without parameters that only jumps on.
fn skip_empty(body: &mut Body) {
    for b in 0..body.blocks.len() {
        let mut term = std::mem::take(&mut body.blocks[b].term);
        for dest in term.dests_mut() {
            for _ in 0..body.blocks.len() {
                let next = &body.blocks[dest.block.0 as usize];
                match &next.term {
                    Terminator::Jump(on)
                        if dest.block.0 as usize != b && next.insts.is_empty() && next.params.is_empty() =>
                    {
                        *dest = on.clone();
                    }
                    _ => break,
                }
            }
        }
        body.blocks[b].term = term;
    }
}

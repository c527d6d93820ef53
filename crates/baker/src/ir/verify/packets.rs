//! Packets are unique: each is consumed exactly once on every path from its definition.
//!
//! ```text
//! b0(v0: packet<ether>):        alive: v0
//!   v1: packet<ether> = copy v0        v0, v1
//!   put v1 -> m.a                      v0
//!   br v2, b1(v0), b2()                b1: its parameter; b2: v0
//! ```

use std::collections::BTreeSet;

use super::Errors;
use crate::ir::analysis::Cfg;
use crate::ir::*;

/// The set of packets alive must be the same on all edges into a block; none may be alive at a return.
pub(super) fn check(body: &Body, cfg: &Cfg, errors: &mut Errors) {
    let is_packet = |value: &Value| matches!(body.ty(*value), Ty::Packet(_));
    // One error per packet: what comes later mostly follows from the first.
    let mut reported = BTreeSet::new();
    let mut report = |block: BlockId, packet: Value, what: &str| {
        if reported.insert(packet) {
            errors.at(block, format!("packet v{} {what}", packet.0));
        }
    };
    // Packets alive at each block's start, without its parameters.
    let mut entries: Vec<Option<BTreeSet<Value>>> = vec![None; body.blocks.len()];
    entries[0] = Some(BTreeSet::new());
    // In reverse postorder a block comes after one of its predecessors, so its set is known by then.
    for &id in &cfg.order {
        let block = &body.blocks[id.0 as usize];
        let mut alive = entries[id.0 as usize].clone().unwrap_or_default();
        alive.extend(block.params.iter().copied().filter(is_packet));
        for inst in &block.insts {
            for packet in inst.op.operands().iter().filter(|value| is_packet(value)) {
                if !alive.contains(packet) {
                    report(id, *packet, "is used after it was consumed");
                }
            }
            if let Some(packet) = inst.op.consumed() {
                alive.remove(&packet);
            }
            alive.extend(inst.result.filter(is_packet));
        }
        for dest in block.term.dests() {
            let mut passed = alive.clone();
            for packet in dest.args.iter().filter(|value| is_packet(value)) {
                if !passed.remove(packet) {
                    report(id, *packet, "is used after it was consumed");
                }
            }
            match &mut entries[dest.block.0 as usize] {
                entry @ None => *entry = Some(passed),
                Some(entry) => {
                    for packet in entry.symmetric_difference(&passed) {
                        report(dest.block, *packet, "is consumed on one path to here and alive on another");
                    }
                }
            }
        }
        if matches!(block.term, Terminator::Return) {
            for packet in alive {
                report(id, packet, "is never consumed");
            }
        }
    }
}

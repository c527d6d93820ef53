//! What a body is expected to cost a packet, by a profile: how often each block runs, times its accesses to packet
//! memory.
//!
//! ```text
//! b0: …            # 100 times, then 90 : 10     1     × 1 access
//! b1: …                                          0.9   × 1 access
//! b2: …                                          0.1   × 3 accesses
//! ```
//!
//! Branches are taken to be independent of each other, which they are not: it is an estimate, good enough to choose
//! between bodies that do the same.

use std::cmp::Ordering;

use crate::ir::analysis::{Cfg, Definitions};
use crate::ir::interp::in_line;
use crate::ir::*;

/// Times that estimates are passed on around loops.
const ROUNDS: usize = 32;
/// Differences of less are none: sums of the same in another order.
const NONE: f64 = 1e-6;

/// Per packet that enters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    accesses: f64,
    bytes: f64,
}

impl Cost {
    /// Of a body whose branches a profile knows.
    pub fn of(body: &Body) -> Cost {
        let definitions = Definitions::new(body);
        let mut cost = Cost { accesses: 0.0, bytes: 0.0 };
        for (block, runs) in body.blocks.iter().zip(runs(body)) {
            let ops = block.insts.iter().map(|inst| &inst.op);
            let once = in_line(ops, |value| definitions.constant(value));
            cost.accesses += runs * once.accesses as f64;
            cost.bytes += runs * once.bytes as f64;
        }
        cost
    }

    /// Fewer accesses come first, then fewer bytes.
    pub fn compare(&self, other: &Cost) -> Ordering {
        let compare = |a: f64, b: f64| if (a - b).abs() < NONE { Ordering::Equal } else { a.total_cmp(&b) };
        compare(self.accesses, other.accesses).then(compare(self.bytes, other.bytes))
    }
}

/// How often each block runs for one packet.
fn runs(body: &Body) -> Vec<f64> {
    let cfg = Cfg::new(body);
    let loops = cfg.back_edges().next().is_some();
    let mut runs = vec![0.0; body.blocks.len()];
    // What came back in the round before, and in this one.
    let mut back = vec![0.0; body.blocks.len()];
    for _ in 0..if loops { ROUNDS } else { 1 } {
        runs = std::mem::replace(&mut back, vec![0.0; body.blocks.len()]);
        runs[0] += 1.0;
        for from in &cfg.order {
            let block = &body.blocks[from.0 as usize];
            for (edge, dest) in block.term.dests().iter().enumerate() {
                let to = dest.block.0 as usize;
                let passed = runs[from.0 as usize] * share(block, edge);
                let sum = if cfg.is_back(*from, dest.block) { &mut back } else { &mut runs };
                sum[to] += passed;
            }
        }
    }
    runs
}

/// Which share of a block's runs takes this edge.
fn share(block: &Block, edge: usize) -> f64 {
    let edges = block.term.dests().len() as f64;
    match block.counts.map(|counts| counts.taken) {
        Some(taken) if edges > 1.0 && taken != [0, 0] => taken[edge] as f64 / (taken[0] as f64 + taken[1] as f64),
        _ => 1.0 / edges,
    }
}

//! Which tables a program writes itself. What it does not write, the control plane alone changes.
//!
//! ```text
//!   v1: entry = lookup hops(v0)
//!   br v2, b1(v1), b2()
//! b1(v3: entry):
//!   entry_store v3.port = v4           `hops` is written: v3 may be v1
//! ```

use super::*;

impl Program {
    /// For each table, whether a PPF or timer changes it: inserts, removes, locks or sets a field or the deadline of an
    /// entry, or takes tokens.
    pub fn written_tables(&self) -> Vec<bool> {
        let mut written = vec![false; self.tables.len()];
        for body in self.bodies() {
            let origins = origins(body, self.tables.len());
            for inst in body.blocks.iter().flat_map(|block| &block.insts) {
                match &inst.op {
                    Op::Insert { table, .. }
                    | Op::Remove { table, .. }
                    | Op::SetDeadline { table, .. }
                    | Op::TakeDeadline { table, .. } => {
                        written[table.0 as usize] = true;
                    }
                    Op::EntryStore { entry, .. } | Op::Lock { entry } | Op::Take { entry, .. } => {
                        let led_to = written.iter_mut().zip(&origins[entry.0 as usize]);
                        led_to.for_each(|(written, leads)| *written |= leads);
                    }
                    _ => {}
                }
            }
        }
        written
    }
}

/// For each value, the tables that it may lead into.
fn origins(body: &Body, tables: usize) -> Vec<Vec<bool>> {
    let mut origins = vec![Vec::new(); body.values.len()];
    for (origin, ty) in origins.iter_mut().zip(&body.values) {
        if let Ty::Entry(_) = ty {
            *origin = vec![false; tables];
        }
    }
    // From where a pointer comes to where it goes.
    let mut flows = Vec::new();
    for block in &body.blocks {
        for inst in &block.insts {
            match (&inst.op, inst.result) {
                (Op::Lookup { table, .. }, Some(result)) => origins[result.0 as usize][table.0 as usize] = true,
                (Op::Select(_, a, b), Some(result)) => flows.extend([(*a, result), (*b, result)]),
                _ => {}
            }
        }
    }
    flows.extend(body.all_passed().map(|(param, arg)| (arg, param)));
    flows.retain(|(from, _)| matches!(body.ty(*from), Ty::Entry(_)));
    let mut changed = true;
    while changed {
        changed = false;
        for (from, to) in &flows {
            let from = origins[from.0 as usize].clone();
            for (to, from) in origins[to.0 as usize].iter_mut().zip(from) {
                changed |= from && !*to;
                *to |= from;
            }
        }
    }
    origins
}

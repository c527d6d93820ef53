//! The optimiser's passes: what they make of small programs, as snapshots of the IR before and after.

mod abstract_state;
mod profile;
mod reach;
mod share;
mod snapshots;

use baker::ir::{self, Program};

/// A program of one file that imports what it needs.
#[track_caller]
fn compiled(source: &str) -> Program {
    let compilation = baker::check::check("opt.baker", source, &baker::library::Library);
    let rendered = baker::diag::render(&compilation.diagnostics, &compilation.sources, false);
    assert!(rendered.is_empty(), "{rendered}");
    ir::lower(&compilation.program.expect("no errors"))
}

/// Operations on packet bytes in the bodies that packets come to.
fn accesses(program: &Program) -> usize {
    let reached = program.reached_ppfs();
    let bodies = program.ppfs.iter().zip(reached).filter(|(_, reached)| *reached).map(|(ppf, _)| &ppf.body);
    let insts = bodies.flat_map(|body| &body.blocks).flat_map(|block| &block.insts);
    insts.filter(|inst| inst.op.accesses_packet()).count()
}

//! Passes that are broken on purpose: the comparison must notice each of them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use baker::ir::{BitRange, Op, Program};
use baker::opt::{self, Pass};
use dataplane::EngineKind;

use crate::generate::Style;
use crate::numbers::SplitMix64;
use crate::packets::{self, Packet};
use crate::run::Engine;
use crate::{PACKETS, SINGLY, generate, run};

/// The optimiser, then a fault in what it made.
fn broken(program: &Program, mut keep: impl FnMut(&mut Op) -> bool) -> Program {
    let mut program = opt::optimise(program, opt::Level::Cgpc);
    for block in program.ppfs.iter_mut().flat_map(|ppf| &mut ppf.body.blocks) {
        block.insts.retain_mut(|inst| keep(&mut inst.op));
    }
    program
}

/// What was kept in a register is not written back.
fn lost_store(program: &Program) -> Program {
    broken(program, |op| !matches!(op, Op::StoreAt { bits, .. } if bits.offset == 0))
}

/// Where bits at one place should be accessed, those a byte before are.
fn shifted(bits: &mut BitRange) {
    bits.offset = bits.offset.saturating_sub(8);
}

fn shifted_store(program: &Program) -> Program {
    broken(program, |op| {
        if let Op::StoreAt { bits, .. } = op {
            shifted(bits);
        }
        true
    })
}

fn shifted_load(program: &Program) -> Program {
    broken(program, |op| {
        if let Op::LoadAt { bits, .. } = op {
            shifted(bits);
        }
        true
    })
}

/// The head is not where the last handle says.
fn lost_move(program: &Program) -> Program {
    broken(program, |op| {
        if let Op::Move { by, .. } = op {
            *by = 0;
        }
        true
    })
}

/// Metadata does not reach the port.
fn lost_metadata(program: &Program) -> Program {
    broken(program, |op| !matches!(op, Op::MetaStore { .. }))
}

/// A channel inside an aggregate is not counted.
fn lost_count(program: &Program) -> Program {
    broken(program, |op| !matches!(op, Op::Pass { .. }))
}

const MUTANTS: [Pass; 6] = [
    Pass { name: "a lost store", run: lost_store },
    Pass { name: "a shifted store", run: shifted_store },
    Pass { name: "a shifted load", run: shifted_load },
    Pass { name: "a lost move of the head", run: lost_move },
    Pass { name: "lost metadata", run: lost_metadata },
    Pass { name: "a lost count", run: lost_count },
];

/// Programs that a mutant may get through at most.
const PROGRAMS: u64 = 40;

#[test]
fn broken_passes_are_noticed() {
    for mutant in &MUTANTS {
        let engines: [Engine; 1] = [(mutant.name, EngineKind::Interp, std::slice::from_ref(mutant))];
        let noticed = (0..PROGRAMS).any(|seed| {
            let program = generate::program(seed, Style::Any);
            let mut numbers = SplitMix64::new(!seed);
            let packets: Vec<Packet> = (0..PACKETS).map(|_| packets::packet(&mut numbers, &program.headers)).collect();
            let program = run::compile(&program.text).expect("a program");
            let compared = || run::compare_with(&engines, &program, &packets, SINGLY, seed);
            // The interpreter panics where a packet is too short for an access: noticed, too.
            !matches!(catch_unwind(AssertUnwindSafe(compared)), Ok(Ok(_)))
        });
        assert!(noticed, "{} went unnoticed in {PROGRAMS} programs", mutant.name);
    }
}

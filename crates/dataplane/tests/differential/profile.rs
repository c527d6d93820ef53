//! A profile made up at random: it is wrong about the packets that come, and must change nothing.

use baker::ir::{Counts, Program, Ty, Usage, Value, print};
use baker::opt::{self, Level, Pass};

use crate::generate::Style;
use crate::numbers::SplitMix64;
use crate::{generate, run};

/// Puts one beside a program, the same for the same program.
pub const PROFILE: Pass = Pass { name: "profile", run: made_up };

fn made_up(program: &Program) -> Program {
    let mut program = program.clone();
    let seed = program.bodies().flat_map(|body| &body.blocks).map(|block| block.insts.len() as u64 + 1);
    let mut numbers = SplitMix64::new(seed.fold(0, |hash: u64, len| hash.wrapping_mul(31).wrapping_add(len)));
    for ppf in &mut program.ppfs {
        let body = &mut ppf.body;
        for block in &mut body.blocks {
            let mut count = || if numbers.chance(30) { 0 } else { numbers.next() >> numbers.below(64) };
            block.counts = Some(Counts { runs: count(), taken: [count(), count()] });
        }
        let mut expected = std::collections::BTreeMap::new();
        for (index, ty) in body.values.iter().enumerate() {
            if let Ty::Int(width @ 32) = ty
                && numbers.chance(40)
            {
                let number = if numbers.chance(80) { numbers.below(80) as u128 } else { numbers.bits(*width) };
                expected.insert(Value(index as u32), number);
            }
        }
        let lengths = (0..3).map(|_| (numbers.below(257) as u32, numbers.next() >> numbers.below(64))).collect();
        body.usage = Some(Usage { lengths, expected });
    }
    program
}

/// A profile that changes no code would test nothing.
#[test]
fn a_made_up_profile_changes_code() {
    let programs = (0..20).map(|seed| run::compile(&generate::program(seed, Style::Any).text).expect("a program"));
    let optimised = |program: &Program| print(&opt::optimise(program, Level::Cgpc));
    let changed = programs.filter(|program| {
        let without = |text: String| -> String { text.lines().filter(|line| !line.contains('#')).collect() };
        without(optimised(&made_up(program))) != without(optimised(program))
    });
    assert!(changed.count() > 5);
}

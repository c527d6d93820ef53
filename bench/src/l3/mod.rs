//! The L3 switch: compiled by Millrace, interpreted, written by hand in C, forwarded by the kernel and by DPDK.

mod agree;
mod compile;
pub mod instructions;
mod live;
mod memory;
mod numbers;
mod peer;
mod setup;

use baker::ir::{self, Program};

use crate::Effort;
use crate::results::Results;

const SOURCE: &str = include_str!("../../../apps/l3switch/l3switch.baker");

/// Runs all parts.
pub fn run(effort: Effort) -> Result<Results, String> {
    let program = program()?;
    let mut results = Results::default();
    memory::measure(&program, effort, &mut results)?;
    compile::measure(effort, &mut results)?;
    instructions::measure(effort.quick, &mut results)?;
    live::measure(&program, effort, &mut results)?;
    Ok(results)
}

/// The L3 switch, compiled as far as the intermediate representation.
pub fn program() -> Result<Program, String> {
    let compilation = baker::check::check("l3switch.baker", SOURCE, &baker::library::Library);
    Ok(ir::lower(&compilation.program.ok_or("the L3 switch does not compile")?))
}

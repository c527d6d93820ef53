//! The L3 switch: compiled by Millrace, interpreted, written by hand in C, forwarded by the kernel and by DPDK.

mod agree;
pub mod instructions;
pub mod live;
mod memory;
mod peer;
pub mod setup;
mod tc;
mod workers;

use baker::ir::{self, Program};

use crate::Effort;
use crate::results::Results;

const SOURCE: &str = include_str!("../../../apps/l3switch/l3switch.baker");

/// Runs all parts, or those that `PART=memory,instructions` names: memory, workers, compile, instructions,
/// live, tc. `CASE="16 routes"` limits the measurement in memory to one case.
pub fn run(effort: Effort) -> Result<Results, String> {
    let program = program()?;
    let mut results = Results::default();
    let parts = std::env::var("PART").unwrap_or_default();
    let wanted = |part: &str| parts.is_empty() || parts.split(',').any(|named| named == part);
    if wanted("memory") {
        memory::measure(&program, effort, &mut results)?;
    }
    if wanted("workers") {
        workers::measure(&program, effort, &mut results)?;
    }
    if wanted("compile") {
        let values = crate::compile::whole("l3switch.baker", SOURCE, effort.runs)?;
        results.add("compile", "millrace", "ms", "ms", values);
    }
    if wanted("instructions") {
        instructions::measure(effort.quick, &mut results)?;
    }
    if wanted("live") {
        live::measure(&program, effort, &mut results)?;
    }
    if wanted("tc") {
        tc::measure(effort, &mut results)?;
    }
    Ok(results)
}

/// The L3 switch, compiled as far as the intermediate representation.
pub fn program() -> Result<Program, String> {
    let compilation = baker::check::check("l3switch.baker", SOURCE, &baker::library::Library);
    Ok(ir::lower(&compilation.program.ok_or("the L3 switch does not compile")?))
}

//! How long it takes to compile the L3 switch: from its text to machine code in memory.

use std::time::Instant;

use baker::opt::Level;
use codegen::OptLevel;
use dataplane::NativeEngine;

use crate::Effort;
use crate::results::Results;

/// Measures it.
pub fn measure(effort: Effort, results: &mut Results) -> Result<(), String> {
    let mut values = Vec::new();
    for run in 0..=effort.runs {
        let start = Instant::now();
        let program = super::program()?;
        NativeEngine::compile(&program, OptLevel::O3, Level::Cgpc).map_err(|error| error.to_string())?;
        // The first run loads LLVM's library.
        if run > 0 {
            values.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    results.add("compile", "millrace", "ms", "ms", values);
    Ok(())
}

//! Time from the start of the process until packets pass, and until the kernel has its part of the program.

use std::time::{Duration, Instant};

use super::systems::{SYSTEMS, System};
use crate::Effort;
use crate::results::Results;
use crate::text;
use crate::web::line::{Scratch, millrace};
use crate::web::network::{Links, Network};

/// What is measured: the code is taken from disk.
const CASE: &str = "start";
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts Millrace in each placement, on all CPUs.
pub fn measure(effort: Effort, results: &mut Results) -> Result<(), String> {
    if let Some(why) = crate::web::missing()? {
        results.note(format!("start: {why}"));
        return Ok(());
    }
    let runs = if effort.quick { 1 } else { 7 };
    for (name, system) in SYSTEMS {
        let System::Millrace(_) = system else { continue };
        // The code is compiled, or taken into the kernel's memory of files.
        start(system)?;
        let times = (0..runs).map(|_| start(system)).collect::<Result<Vec<_>, _>>()?;
        let (passes, has_all): (Vec<f64>, Vec<f64>) = times.into_iter().unzip();
        results.add(CASE, name, "until packets pass", "s", passes);
        results.add(CASE, name, "until all runs where it belongs", "s", has_all);
    }
    Ok(())
}

/// Seconds until each.
fn start(system: System) -> Result<(f64, f64), String> {
    let network = Network::new(system.middle(), Links::Plain)?;
    let scratch = Scratch::new()?;
    let Some(config) = system.config() else { return Err("it is not Millrace".into()) };
    let command = millrace("splice", &scratch.write("millrace.toml", &config)?)?;
    let begun = Instant::now();
    let mut running = network.middle.command(&command[0]).args(&command[1..]).spawn().map_err(text)?;
    running.wait_for_text("; Ctrl-C stops it", PATIENCE).map_err(text)?;
    let passes = begun.elapsed();
    running.wait_for_start(PATIENCE).map_err(text)?;
    Ok((passes.as_secs_f64(), begun.elapsed().as_secs_f64()))
}

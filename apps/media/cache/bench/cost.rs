//! What serving costs a machine, and the server's process.

use std::path::PathBuf;
use std::time::Instant;

use crate::results::Results;
use crate::{text, veth};

/// What a system has cost.
pub struct Cost {
    gbit_per_second: f64,
    /// Seconds of CPU time for 10^9 bits: of the machine, and of the process.
    machine: f64,
    process: f64,
}

/// Measures a process from some time on.
pub struct Meter {
    id: u32,
    busy: f64,
    process: f64,
    start: Instant,
}

impl Meter {
    /// Of the process with this id.
    pub fn start(id: u32) -> Result<Meter, String> {
        Ok(Meter { id, busy: veth::busy()?, process: process_time(id)?, start: Instant::now() })
    }

    /// Since its start so many bytes were served.
    pub fn cost(&self, bytes: u64) -> Result<Cost, String> {
        let (seconds, gbit) = (self.start.elapsed().as_secs_f64(), bytes as f64 * 8.0 / 1e9);
        let (busy, process) = ((veth::busy()? - self.busy) / 1e9, process_time(self.id)? - self.process);
        Ok(Cost { gbit_per_second: gbit / seconds, machine: busy / gbit, process: process / gbit })
    }
}

/// Adds what a system has cost in all runs of a case, for bits of what is named.
pub fn add(results: &mut Results, case: &str, system: &str, bits: &str, all: &[Cost]) {
    let of = |value: fn(&Cost) -> f64| all.iter().map(value).collect();
    results.add(case, system, "gbit_per_second", &format!("of {bits}"), of(|own| own.gbit_per_second));
    let unit = format!("s of CPU time for 10^9 bits of {bits}, whole machine");
    results.add(case, system, "cpu_seconds_per_gbit", &unit, of(|own| own.machine));
    let unit = "the same of the server's process";
    results.add(case, system, "server_cpu_seconds_per_gbit", unit, of(|own| own.process));
}

/// Seconds of CPU time of a process so far.
fn process_time(id: u32) -> Result<f64, String> {
    let stat = std::fs::read_to_string(PathBuf::from(format!("/proc/{id}/stat"))).map_err(text)?;
    // The name may have spaces; user and system time are the 14th and 15th field, in ticks of 10 ms.
    let fields = stat.rsplit_once(") ").map_or("", |own| own.1).split(' ');
    Ok(fields.skip(11).take(2).filter_map(|own| own.parse::<f64>().ok()).sum::<f64>() / 100.0)
}

//! In memory: what a mode costs a worker, without ports.

use std::sync::Arc;

use baker::ir::Program;
use dataplane::bench::Rig;
use dataplane::{Access, EngineKind};

use super::{case, compared, frames, gigabits, lengths, packets};
use crate::Effort;
use crate::l3::setup::Setup;
use crate::race::{Race, Side, pinned};
use crate::results::Results;

/// Frames that packets are spread over: their bytes are no longer in the nearest caches when the program comes to them,
/// as those that a device has written.
const SPREAD: usize = 1024;
/// Bytes that a repetition moves at most, so that long packets do not take long.
const MOST_KILOBYTES: u32 = 1_000_000;

/// An engine with full tables and this access.
pub fn rig(program: &Program, setup: &Setup, kind: EngineKind, length: usize, access: Access) -> Result<Rig, String> {
    let program = Arc::new(program.clone());
    let fill = |tables: &mut _| setup.fill(&program, tables);
    let mut rig = Rig::with_frames(&program, kind, frames(length), fill).map_err(|e| e.to_string())?;
    rig.set_access(access);
    Ok(rig)
}

/// Measures all lengths, on a thread that stays on the last CPU.
pub fn measure(program: &Program, setup: &Setup, effort: Effort, results: &mut Results) -> Result<(), String> {
    pinned(|| {
        for length in lengths(effort) {
            let name = format!("memory, {}", case(length));
            let packets = packets(setup, length);
            let sides = Access::ALL.map(|access| {
                let rig = rig(program, setup, EngineKind::NATIVE, length, access)?;
                Ok(Side::new(access.name(), rig))
            });
            let mut sides = sides.into_iter().collect::<Result<Vec<_>, String>>()?;
            let count = packets.len() as u32;
            let race = Race { cases: std::slice::from_ref(&name), packets: count, outputs: Some(count.into()) };
            let kilopackets = effort.kilopackets.min(MOST_KILOBYTES / length as u32).max(1);
            let effort = Effort { kilopackets, runs: effort.runs.min(7), ..effort };
            race.measure(&mut sides, effort, results, |rig, _, rounds| rig.run_spread(1, &packets, rounds, SPREAD))?;
            for access in Access::ALL {
                let rates: Vec<f64> =
                    results.values(&name, access.name(), "ns_per_packet").iter().map(|time| 1e3 / time).collect();
                results.add(&name, access.name(), "gbps", "Gbit/s", gigabits(&rates, length));
                results.add(&name, access.name(), "mpps", "million packets/s", rates);
            }
            compared(results, &name, "mpps");
        }
        Ok(())
    })
}

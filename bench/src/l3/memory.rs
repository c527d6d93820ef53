//! In memory, 64-byte packets, one core: Millrace against the C peer and the interpreter.

use std::sync::Arc;

use baker::ir::{Program, TableKind};
use dataplane::EngineKind;
use dataplane::bench::Rig;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use super::LEVELS;
use super::agree;
use super::peer::{Build, Peer};
use super::setup::Setup;
use crate::Effort;
use crate::results::Results;

/// What is measured: tables, packets, and whether the interpreter takes part.
pub struct Case {
    pub name: String,
    pub program: Arc<Program>,
    pub setup: Setup,
    pub packets: Vec<Vec<u8>>,
    interpreted: bool,
}

/// Routes of the cases, in order.
const ROUTES: [u32; 6] = [1, 16, 256, 4096, 65_536, 1_000_000];
/// Stations of the cases, in order.
const FLOWS: [u32; 6] = [1, 16, 256, 4096, 65_536, 1_000_000];
/// Packets in the pool that a run cycles through; more where there are many different destinations.
const POOL: u32 = 4096;
const LARGE_POOL: u32 = 1 << 20;

impl Case {
    /// One station to another in the same domain.
    pub fn bridged(program: &Program) -> Self {
        let setup = Setup::new(program, 16);
        let packets = setup.bridged(POOL);
        Case { name: "bridged".into(), program: Arc::new(program.clone()), setup, packets, interpreted: true }
    }

    /// Routed to random hosts behind so many routes.
    pub fn routes(program: &Program, count: u32, pool: u32) -> Self {
        let setup = Setup::new(program, count);
        let packets = setup.routed(pool);
        let name = if count == 1 { "1 route".into() } else { format!("{count} routes") };
        Case { name, program: Arc::new(program.clone()), setup, packets, interpreted: count == 16 }
    }

    /// Bridged between so many stations.
    pub fn flows(program: &Program, count: u32, pool: u32) -> Self {
        let mut program = program.clone();
        let stations =
            program.tables.iter_mut().filter(|t| t.kind == TableKind::Hash && t.name == "l2_bridge.stations");
        // Each flow has a source and a destination.
        stations.for_each(|table| table.capacity = table.capacity.max(count * 2 + 1024));
        let mut setup = Setup::new(&program, 16);
        let packets = setup.flows(count, pool);
        let name = if count == 1 { "1 flow".into() } else { format!("{count} flows") };
        Case { name, program: Arc::new(program), setup, packets, interpreted: false }
    }

    /// The compiled program with full tables.
    pub fn millrace(&self, kind: EngineKind) -> Result<Rig, String> {
        Rig::new(&self.program, kind, |tables| self.setup.fill(&self.program, tables)).map_err(|e| e.to_string())
    }

    /// Workers over the same full tables.
    pub fn workers(&self, kind: EngineKind, workers: usize) -> Result<Vec<Rig>, String> {
        let fill = |tables: &mut _| self.setup.fill(&self.program, tables);
        Rig::several(&self.program, kind, fill, workers).map_err(|e| e.to_string())
    }

    /// The C peer with full tables.
    pub fn c(&self, build: Build) -> Result<Rig, String> {
        Rig::with_engine(&self.program, Box::new(Peer::new(build, &self.setup)?)).map_err(|e| e.to_string())
    }

    fn measure(&self, effort: Effort, results: &mut Results) -> Result<(), String> {
        if std::env::var("CASE").is_ok_and(|wanted| wanted != self.name) {
            return Ok(());
        }
        agree::check(&self.program, &self.setup, Build::Native, &self.packets[..self.packets.len().min(4096)])
            .map_err(|error| format!("{}: {error}", self.name))?;
        let mut systems = vec![
            ("millrace", self.millrace(EngineKind::NATIVE)?, 1, Vec::new()),
            ("c", self.c(Build::Native)?, 1, Vec::new()),
        ];
        for (level, kind) in LEVELS {
            systems.push((level, self.millrace(kind)?, 1, Vec::new()));
        }
        if self.interpreted {
            systems.push(("interpreter", self.millrace(EngineKind::Interp)?, 50, Vec::new()));
        }
        for run in 0..=effort.runs {
            for (system, rig, slower, values) in &mut systems {
                let rounds = (effort.kilopackets * 1000 / self.packets.len() as u32 / *slower).max(1);
                let measured = rig.run(1, &self.packets, rounds);
                if measured.outputs != measured.packets {
                    let (name, out, all) = (&self.name, measured.outputs, measured.packets);
                    return Err(format!("{name}: {out} of {all} packets came out of {system}"));
                }
                // The first run warms up caches and page tables.
                if run > 0 {
                    values.push(measured.ns_per_packet);
                }
            }
        }
        for (system, _, _, values) in systems {
            results.add(&self.name, system, "ns_per_packet", "ns", values);
        }
        Ok(())
    }
}

/// Measures all cases, on a thread that stays on the last CPU.
pub fn measure(program: &Program, effort: Effort, results: &mut Results) -> Result<(), String> {
    let pinned = || {
        let mut cpus = CpuSet::new();
        let last = std::thread::available_parallelism().map_or(0, |n| n.get() - 1);
        cpus.set(last)
            .and_then(|()| sched_setaffinity(Pid::from_raw(0), &cpus))
            .map_err(|e| format!("CPU {last}: {e}"))?;
        cases(program, effort, results)
    };
    let ended = std::thread::scope(|scope| scope.spawn(pinned).join());
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn cases(program: &Program, effort: Effort, results: &mut Results) -> Result<(), String> {
    Case::bridged(program).measure(effort, results)?;
    // A smoke run leaves out what takes long to fill.
    let measured = |count: &u32| !effort.quick || *count <= 4096;
    let pool = |count: u32| if count > 256 && !effort.quick { LARGE_POOL } else { POOL };
    for count in ROUTES.into_iter().filter(measured) {
        Case::routes(program, count, pool(count)).measure(effort, results)?;
    }
    for count in FLOWS.into_iter().filter(measured) {
        Case::flows(program, count, pool(count)).measure(effort, results)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the measurement does at its start, for every kind of case.
    #[test]
    fn the_c_peer_and_millrace_agree() {
        let program = super::super::program().unwrap();
        let cases = [
            Case::bridged(&program),
            Case::routes(&program, 1, 512),
            Case::routes(&program, 16, 512),
            Case::routes(&program, 3000, 2048),
            Case::flows(&program, 1000, 512),
        ];
        for case in cases {
            for build in [Build::Native, Build::V3] {
                let result = agree::check(&case.program, &case.setup, build, &case.packets);
                result.unwrap_or_else(|error| panic!("{}: {error}", case.name));
            }
        }
    }

    /// A check that passes whatever the peer does would be no check.
    #[test]
    fn a_difference_is_found() {
        let program = super::super::program().unwrap();
        let case = Case::routes(&program, 16, 64);
        let mut other = Setup::new(&program, 16);
        other.next_hops[3].src += 1;
        let error = agree::compare(&case.program, [&case.setup, &other], Build::Native, &case.packets).unwrap_err();
        assert!(error.contains("differ"), "{error}");
    }
}

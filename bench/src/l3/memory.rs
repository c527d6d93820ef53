//! In memory, 64-byte packets, one core: Millrace against the C peers and the interpreter.

use std::sync::Arc;

use baker::ir::{Program, TableKind};
use baker::opt::profile::profiled;
use codegen::abi::{MAX_BATCH, Staging};
use dataplane::EngineKind;
use dataplane::bench::Rig;

use super::agree;
use super::peer::{Build, Kind, Peer};
use super::setup::{STATIONS, Setup};
use crate::Effort;
use crate::levels::LEVELS;
use crate::race::{Race, Side, pinned};
use crate::results::Results;

/// What is measured: tables, packets, and whether the interpreter takes part.
pub struct Case {
    pub name: String,
    pub program: Arc<Program>,
    pub setup: Setup,
    pub packets: Vec<Vec<u8>>,
    routed: bool,
    interpreted: bool,
}

/// Routes of the cases, in order.
const ROUTES: [u32; 6] = [1, 16, 256, 4096, 65_536, 1_000_000];
/// Stations of the cases, in order.
const FLOWS: [u32; 6] = [1, 16, 256, 4096, 65_536, 1_000_000];
/// Packets that a run cycles through; more where there are many different destinations.
const POOL: u32 = 4096;
const LARGE_POOL: u32 = 1 << 20;
/// Frames that packets are received into, in turn: as many as a batch has, whose headers stay in the nearest cache; and
/// as many as ports have, whose headers do not.
const FRAMES: [usize; 2] = [MAX_BATCH, 4096];

impl Case {
    /// One station to another in the same domain.
    pub fn bridged(program: &Program) -> Self {
        let setup = Setup::new(program, 16);
        let packets = setup.bridged(POOL);
        Case {
            name: "bridged".into(),
            program: Arc::new(program.clone()),
            setup,
            packets,
            routed: false,
            interpreted: true,
        }
    }

    /// Routed to random hosts behind so many routes.
    pub fn routes(program: &Program, count: u32, pool: u32) -> Self {
        let setup = Setup::new(program, count);
        let packets = setup.routed(pool);
        let name = if count == 1 { "1 route".into() } else { format!("{count} routes") };
        Case { name, program: Arc::new(program.clone()), setup, packets, routed: true, interpreted: count == 16 }
    }

    /// Bridged between so many stations.
    pub fn flows(program: &Program, count: u32, pool: u32) -> Self {
        let mut program = program.clone();
        let stations = program.tables.iter_mut().filter(|t| t.kind == TableKind::Hash && t.name == STATIONS);
        // Each flow has a source and a destination.
        stations.for_each(|table| table.capacity = table.capacity.max(count * 2 + 1024));
        let mut setup = Setup::new(&program, 16);
        let packets = setup.flows(count, pool);
        let name = if count == 1 { "1 flow".into() } else { format!("{count} flows") };
        Case { name, program: Arc::new(program), setup, packets, routed: false, interpreted: false }
    }

    /// The compiled program with full tables.
    pub fn millrace(&self, kind: EngineKind) -> Result<Rig, String> {
        Rig::new(&self.program, kind, |tables| self.setup.fill(&self.program, tables)).map_err(|e| e.to_string())
    }

    /// The compiled program with full tables, optimised by a profile of the packets that come.
    fn profiled(&self) -> Result<Rig, String> {
        let trace: Vec<(u8, Vec<u8>)> = self.packets.iter().take(256).map(|packet| (1, packet.clone())).collect();
        let program = profiled(&self.program, &trace, |machine| self.setup.fill(&self.program, machine));
        let program = Arc::new(program.map_err(|error| error.to_string())?);
        let fill = |tables: &mut _| self.setup.fill(&program, tables);
        Rig::new(&program, EngineKind::NATIVE, fill).map_err(|error| error.to_string())
    }

    /// Workers over the same full tables.
    pub fn workers(&self, kind: EngineKind, workers: usize) -> Result<Vec<Rig>, String> {
        let fill = |tables: &mut _| self.setup.fill(&self.program, tables);
        Rig::several(&self.program, kind, fill, workers).map_err(|e| e.to_string())
    }

    /// A C peer with full tables.
    pub fn c(&self, build: Build, kind: Kind) -> Result<Rig, String> {
        Rig::with_engine(&self.program, Box::new(Peer::new(build, kind, &self.setup)?)).map_err(|e| e.to_string())
    }

    /// Its name with so many frames.
    fn named(&self, frames: usize) -> String {
        if frames == MAX_BATCH { self.name.clone() } else { format!("{}, {frames} frames", self.name) }
    }

    fn measure(&self, effort: Effort, results: &mut Results) -> Result<(), String> {
        let only = std::env::var("CASE").ok();
        let wanted = |frames: &usize| only.as_ref().is_none_or(|only| *only == self.named(*frames));
        let frames: Vec<usize> = FRAMES.into_iter().filter(wanted).collect();
        if frames.is_empty() {
            return Ok(());
        }
        agree::check(&self.program, &self.setup, Build::Native, &self.packets[..self.packets.len().min(4096)])
            .map_err(|error| format!("{}: {error}", self.name))?;
        let mut sides = vec![Side::new("millrace", self.millrace(EngineKind::NATIVE)?)];
        // Where nothing is routed, the peer with DPDK's table of routes is the staged one.
        for &kind in Kind::all().iter().filter(|kind| self.routed || **kind != Kind::Dpdk) {
            sides.push(Side::new(kind.name(), self.c(Build::Native, kind)?));
        }
        for (level, kind) in LEVELS {
            sides.push(Side::new(level, self.millrace(kind)?));
        }
        let mut unstaged = self.millrace(EngineKind::NATIVE)?;
        unstaged.set_staging(Staging::Never);
        sides.push(Side::new("unstaged", unstaged));
        if self.interpreted {
            sides.push(Side::new("profiled", self.profiled()?));
            let rig = self.millrace(EngineKind::Interp)?;
            sides.push(Side::new("interpreter", rig).slower(50));
        }
        let cases: Vec<String> = frames.iter().map(|&frames| self.named(frames)).collect();
        let packets = self.packets.len() as u32;
        let race = Race { cases: &cases, packets, outputs: Some(packets.into()) };
        race.measure(&mut sides, effort, results, |rig, variant, rounds| {
            rig.run_spread(1, &self.packets, rounds, frames[variant])
        })
    }
}

/// Measures all cases, on a thread that stays on the last CPU.
pub fn measure(program: &Program, effort: Effort, results: &mut Results) -> Result<(), String> {
    pinned(|| cases(program, effort, results))
}

fn cases(program: &Program, effort: Effort, results: &mut Results) -> Result<(), String> {
    if Kind::all().len() < 3 {
        results.note("c-rte_lpm: not measured, DPDK's headers (libdpdk-dev) are not installed");
    }
    Case::bridged(program).measure(effort, results)?;
    // A smoke run leaves out what takes long to fill.
    let measured = |count: &u32| !effort.quick || *count <= 16;
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
    fn the_c_peers_and_millrace_agree() {
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
        let error = agree::compare(&case.program, [&case.setup, &other], Build::Native, Kind::Straight, &case.packets)
            .unwrap_err();
        assert!(error.contains("differ"), "{error}");
    }
}

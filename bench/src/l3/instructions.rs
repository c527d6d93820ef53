//! Instructions per packet, counted by callgrind: unlike times, they are the same in every run.
//!
//! A child of this program runs one system under valgrind twice, with different numbers of packets. Only what happens
//! inside `Rig::measured_batch` is counted, and the difference of the two counts cancels what its first call costs
//! (binding of symbols, a full table's page faults). Valgrind knows no AVX-512: Millrace sees a processor without it,
//! and the C peers are builds without it.

use std::process::Command;

use dataplane::EngineKind;

use super::LEVELS;
use super::memory::Case;
use super::peer::{Build, Kind};
use crate::results::Results;

/// First argument of the child.
pub const CHILD: &str = "l3-instructions";

const CASES: [&str; 3] = ["bridged", "16 routes", "1000000 routes"];
/// Packets of the two runs, at most what a case holds.
const PACKETS: [u32; 2] = [1024, 3072];

/// Counts for all systems, or two of them. Without valgrind there is a note and no row.
pub fn measure(quick: bool, results: &mut Results) -> Result<(), String> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        results.note("instructions per packet: not measured, valgrind is not installed");
        return Ok(());
    }
    let cases = if quick { &CASES[1..2] } else { &CASES[..] };
    let peers = Kind::all().iter().map(|kind| kind.name());
    let systems: Vec<&str> = ["millrace"].into_iter().chain(peers).chain(LEVELS.map(|(level, _)| level)).collect();
    for case in cases {
        for &system in if quick { &systems[..2] } else { &systems[..] } {
            let few = count(case, system, PACKETS[0])?;
            let per_packet = if quick {
                few / f64::from(PACKETS[0])
            } else {
                (count(case, system, PACKETS[1])? - few) / f64::from(PACKETS[1] - PACKETS[0])
            };
            results.add(case, system, "instructions_per_packet", "instructions", vec![per_packet]);
        }
    }
    Ok(())
}

fn count(case: &str, system: &str, packets: u32) -> Result<f64, String> {
    let me = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*measured_batch*"])
        .arg(me)
        .args([CHILD, case, system, &packets.to_string()])
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    // "==123== Collected : 4567"
    let collected = text.lines().find_map(|line| line.split("Collected : ").nth(1)?.trim().parse().ok());
    collected.filter(|_| output.status.success()).ok_or_else(|| format!("valgrind, {case}, {system}:\n{text}"))
}

/// The child: sets a case up and runs so many packets.
pub fn child(arguments: &[String]) -> Result<(), String> {
    let [case, system, packets] = arguments else { return Err("case, system and packets are missing".into()) };
    let packets: u32 = packets.parse().map_err(|_| "the number of packets is none")?;
    let program = super::program()?;
    let mut case = match case.as_str() {
        "bridged" => Case::bridged(&program),
        "16 routes" => Case::routes(&program, 16, packets),
        _ => Case::routes(&program, 1_000_000, packets),
    };
    case.packets.truncate(packets as usize);
    let level = LEVELS.into_iter().chain([("millrace", EngineKind::NATIVE)]).find(|(name, _)| name == system);
    let mut rig = match (level, Kind::all().iter().find(|kind| kind.name() == system)) {
        (Some((_, engine)), _) => case.millrace(engine)?,
        (None, Some(&kind)) => case.c(Build::V3, kind)?,
        (None, None) => return Err("there is no such system".into()),
    };
    rig.run(1, &case.packets, 1);
    Ok(())
}

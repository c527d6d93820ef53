//! In memory: ns per packet at each level, interleaved.

use std::slice;

use dataplane::EngineKind;

use super::case::Case;
use super::{Apps, NAMES, SMOKE};
use crate::Effort;
use crate::levels::LEVELS;
use crate::race::{Race, Side, pinned};
use crate::results::Results;

/// Packets that a run cycles through; where there are many routes or flows, and of first packets.
const POOL: u32 = 4096;
const LARGE_POOL: u32 = 1 << 18;
const FIRST: u32 = 30_000;
/// Runs of what needs fresh tables for each.
const FRESH_RUNS: usize = 7;
/// The two that are compared, with their cases' beginnings.
const RULES: [&str; 2] = ["firewall, 10 rules", "firewall, 10000 rules"];

/// What comes to them. A smoke run leaves out what needs fresh tables each time.
const KINDS: [&str; 2] = ["first packets", "established flows"];

/// Measures all cases that repeat, and then the rules.
pub fn measure(apps: &Apps, effort: Effort, results: &mut Results) -> Result<(), String> {
    let only = std::env::var("CASE").ok();
    let wanted = |name: &str| only.as_ref().is_none_or(|only| only == name);
    let names: &[&str] = if effort.quick { &NAMES[..SMOKE] } else { &NAMES };
    pinned(|| {
        for name in names.iter().filter(|name| wanted(name) && !name.contains("rules")) {
            let case = apps.case(name, if name.contains("00000 ") { LARGE_POOL } else { POOL })?;
            levels(&case, effort, results)?;
        }
        if only.is_none() || wanted("rules") {
            rules(apps, effort, results)?;
        }
        Ok(())
    })
}

fn levels(case: &Case, effort: Effort, results: &mut Results) -> Result<(), String> {
    let mut sides = Vec::new();
    for (level, kind) in LEVELS {
        sides.push(Side::new(level, case.rig(kind)?));
    }
    let race = Race { cases: slice::from_ref(&case.name), packets: case.packets.len() as u32, outputs: None };
    race.measure(&mut sides, effort, results, |rig, _, rounds| rig.run_trace(&case.packets, rounds))
}

/// 10 rules against 10 000: packets of flows that they let in, and first packets, for which each run has fresh tables.
fn rules(apps: &Apps, effort: Effort, results: &mut Results) -> Result<(), String> {
    let runs = if effort.quick { 1 } else { effort.runs.min(FRESH_RUNS) };
    for kind in if effort.quick { &KINDS[1..] } else { &KINDS } {
        let kind = *kind;
        let once = kind == "first packets";
        let pool = if effort.quick {
            POOL
        } else if once {
            FIRST
        } else {
            POOL
        };
        let cases: Vec<Case> =
            RULES.iter().map(|rules| apps.case(&format!("{rules}, {kind}"), pool)).collect::<Result<_, _>>()?;
        let mut rigs = Vec::new();
        for case in &cases {
            rigs.push(case.rig(EngineKind::NATIVE)?);
        }
        let mut times: [Vec<f64>; 2] = Default::default();
        let rounds = if once { 1 } else { effort.kilopackets * 1000 / pool };
        for run in 0..=runs {
            for ((case, rig), times) in cases.iter().zip(&mut rigs).zip(&mut times) {
                if once && run > 0 {
                    *rig = case.rig(EngineKind::NATIVE)?;
                }
                let measured = rig.run_trace(&case.packets, rounds.max(1));
                if run > 0 {
                    times.push(measured.ns_per_packet);
                }
            }
        }
        let mut ratios: Vec<f64> = times[0].iter().zip(&times[1]).map(|(few, many)| many / few).collect();
        ratios.sort_by(f64::total_cmp);
        if let Some(ratio) = ratios.get(ratios.len() / 2) {
            results.note(format!("firewall, {kind}: 10 000 rules cost {ratio:.2} times what 10 do (median of {runs})"));
        }
        for (case, times) in cases.iter().zip(times) {
            results.add(&case.name, "cgpc", "ns_per_packet", "ns", times);
        }
    }
    Ok(())
}

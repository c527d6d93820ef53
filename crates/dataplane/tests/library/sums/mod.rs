//! A checksum that was right stays right, and one that was wrong stays wrong by as much, whatever an accepted program
//! does to a packet: random programs, and checksums that are found and computed from the bytes alone.

mod offloads;
pub mod oracle;
mod packets;
mod programs;
mod replaced;

use std::collections::BTreeMap;
use std::sync::Arc;

use baker::check::{Compilation, check};
use baker::diag::render;
use baker::library::Library;
use dataplane::EngineKind;
use dataplane::step::Stepper;

use self::oracle::{Found, checksums};
use crate::keeping::SplitMix64;

/// Programs that are tried; more with the variable `MILLRACE_SUMS`.
const PROGRAMS: u64 = 500;

/// What must come of the checksums of a packet.
fn expected(before: &[u8], program: &programs::Program) -> Vec<Found> {
    let added = program.added.then_some(Found { name: "ipv4", error: Some(0) });
    added.into_iter().chain(checksums(before).into_iter().skip(program.removed)).collect()
}

/// What is wrong with what an engine makes of the packets, and how many it has sent. `None`: the program is refused.
fn wrong(
    text: &str,
    made: &programs::Program,
    (engine, inputs): (EngineKind, &[Vec<u8>]),
) -> Result<(Option<String>, u64), Box<Compilation>> {
    let compilation = check("sums.baker", text, &Library);
    let Some(program) = &compilation.program else { return Err(Box::new(compilation)) };
    let lowered = baker::ir::lower(program);
    baker::ir::verify(&lowered).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
    let mut stepper = Stepper::new(Arc::new(lowered), engine).expect("an engine");
    let mut sent = 0;
    for input in inputs {
        // A packet that is too short for a handle is dropped.
        let outputs = stepper.receive(1, input);
        let [output] = &outputs[..] else { continue };
        let (wanted, found) = (expected(input, made), checksums(&output.bytes));
        if found != wanted {
            let shown = format!("{found:?}\nnot\n{wanted:?}\n{input:02x?}\n{:02x?}", output.bytes);
            return Ok((Some(shown), sent));
        }
        sent += 1;
    }
    Ok((None, sent))
}

/// Takes lines out as long as something stays wrong.
fn reduced(made: &programs::Program, with: (EngineKind, &[Vec<u8>])) -> String {
    let mut lines: Vec<&str> = made.text.lines().collect();
    for size in [16, 8, 4, 3, 2, 1, 2, 1] {
        let mut at = 0;
        while at < lines.len() {
            let end = (at + size).min(lines.len());
            let fewer: Vec<&str> = lines[..at].iter().chain(&lines[end..]).copied().collect();
            let still = fewer.contains(&"channel_put(output, ether);") || made.added || made.removed > 0;
            match wrong(&fewer.join("\n"), made, with) {
                Ok((Some(_), _)) if still => lines = fewer,
                _ => at += 1,
            }
        }
    }
    lines.join("\n")
}

#[test]
fn checksums_keep_their_difference() {
    let programs = std::env::var("MILLRACE_SUMS").ok().and_then(|count| count.parse().ok()).unwrap_or(PROGRAMS);
    let (mut accepted, mut compared, mut refused) = (0, 0, BTreeMap::new());
    for seed in 0..programs {
        let mut n = SplitMix64(seed ^ 0x5ca1_ab1e);
        let shape = packets::Shape::random(&mut n);
        let made = programs::program(shape, &mut n);
        let inputs: Vec<Vec<u8>> = (0..8).map(|_| packets::packet(&shape, &mut n)).collect();
        let engines: &[EngineKind] = if seed % 200 == 1 { &super::ENGINES } else { &[EngineKind::Interp] };
        for engine in engines {
            match wrong(&made.text, &made, (*engine, &inputs)) {
                Ok((None, sent)) => (accepted, compared) = (accepted + 1, compared + sent),
                Ok((Some(shown), _)) => {
                    let least = reduced(&made, (*engine, &inputs));
                    panic!("seed {seed} on {engine:?}, {shape:?}\n{least}\n{shown}");
                }
                Err(compilation) => {
                    // What can't be kept is refused, and for no other reason.
                    for diagnostic in &compilation.diagnostics {
                        let shown = || render(&compilation.diagnostics, &compilation.sources, false);
                        assert!(diagnostic.code.starts_with("checksum-"), "seed {seed}\n{}\n{}", shown(), made.text);
                        *refused.entry(diagnostic.code).or_insert(0) += 1;
                    }
                }
            }
        }
    }
    assert!(accepted * 3 > programs && compared > accepted * 4, "{accepted} accepted, {compared} compared");
    assert!(programs != PROGRAMS || refused.len() > 2, "{refused:?}");
    println!("{accepted} of {programs} accepted, {compared} packets compared, refused {refused:?}");
}

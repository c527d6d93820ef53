//! BPF instructions that a routed packet executes, counted by a virtual machine: ours at each level of optimisation,
//! and those of the program by hand.

use std::collections::HashMap;

use baker::ir::Program;
use baker::opt::Level;
use baker::place::{Placement, split};
use codegen::CodegenError;
use codegen::bpf::vm::{Image, Machine, Map};
use codegen::bpf::{self, Refusal};
use codegen::kernel::{Object, Options, Verdict};
use dataplane::TableAccess;
use dataplane::xdp::SharedMemory;
use object::{Object as _, ObjectSection, ObjectSymbol, RelocationTarget};

use super::peer;
use crate::l3::setup::Setup;
use crate::results::Results;
use crate::text;

/// The interface that packets come in by.
const INTERFACE: u32 = 1;
/// The time, in ns.
const NOW: u64 = 1_000_000_000;

const LEVELS: [(&str, Level); 3] = [("base", Level::Base), ("pac", Level::Pac), ("cgpc", Level::Cgpc)];

/// Counts them for these packets, which come in at port 1.
pub fn measure(
    case: &str,
    program: &Program,
    setup: &Setup,
    frames: &[Vec<u8>],
    results: &mut Results,
) -> Result<(), String> {
    for (name, level) in LEVELS {
        let mut machine = ours(program, setup, level)?;
        add(case, name, &mut machine, frames, results)?;
    }
    add(case, "c", &mut by_hand(setup)?, frames, results)
}

fn add(case: &str, name: &str, machine: &mut Machine, frames: &[Vec<u8>], results: &mut Results) -> Result<(), String> {
    machine.now = NOW;
    let (mut instructions, mut calls) = (0, 0);
    for frame in frames {
        let done = machine.run(frame, INTERFACE, 0).map_err(|fault| format!("{case}: {name}: {fault}"))?;
        if done.verdict != Verdict::Redirect as u32 {
            return Err(format!("{case}: {name}: a packet was not sent, but {}", done.verdict));
        }
        (instructions, calls) = (instructions + done.instructions, calls + done.calls);
    }
    let each = |sum: u64| vec![sum as f64 / frames.len() as f64];
    results.add(case, name, "bpf_instructions", "executed per packet", each(instructions));
    results.add(case, name, "bpf_calls", "of them, calls of the kernel", each(calls));
    Ok(())
}

/// The kernel's part of the program with full tables.
fn ours(program: &Program, setup: &Setup, level: Level) -> Result<Machine, String> {
    let limits = bpf::limits(program);
    let placement = Placement::new(program, &limits).map_err(|found| format!("{found:?}"))?;
    let split = split(program, &placement, &limits);
    let memory = SharedMemory::new(&split.workers).map_err(text)?;
    memory.set_port(INTERFACE, 1, None, false);
    setup.fill(program, &mut TableAccess::Native(memory.tables().clone()))?;
    let take = |object: &Object| Ok::<_, Refusal<CodegenError>>(object.clone());
    let options = Options::default();
    let taken = bpf::compile_tiered(&split.kernel, level, memory.memory(), options, bpf::ANYTHING, take);
    let Ok(taken) = taken else { return Err("too much for the kernel".into()) };
    let parts: Vec<_> = taken.parts.iter().map(|(ppf, part)| (ppf.0, part)).collect();
    Ok(Machine::of(&taken.first, &parts, Map::Memory(memory.contents())))
}

/// The program by hand with the same.
fn by_hand(setup: &Setup) -> Result<Machine, String> {
    let file = object::File::parse(peer::L3).map_err(text)?;
    let section = file.section_by_name("xdp").ok_or("the peer has no program")?;
    let contents = peer::contents(setup, INTERFACE);
    let mut maps = Vec::new();
    for (at, relocation) in section.relocations() {
        let RelocationTarget::Symbol(symbol) = relocation.target() else { continue };
        let symbol = file.symbol_by_index(symbol).map_err(text)?;
        let name = symbol.name().map_err(text)?;
        let map = contents.iter().position(|(known, _)| *known == name);
        maps.push(((at / 8) as usize, map.ok_or_else(|| format!("there is no map {name}"))?));
    }
    let image = Image { code: section.data().map_err(text)?.to_vec(), maps };
    let tables = contents.into_iter().map(|(_, entries)| match entries {
        Some((key, entries)) => Map::Table { key, values: entries.into_iter().collect::<HashMap<_, _>>() },
        None => Map::Targets,
    });
    Ok(Machine::new(vec![image], tables.collect()))
}

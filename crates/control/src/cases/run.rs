//! Runs a case on an engine.

use std::fmt::{self, Write};

use baker::ir::interp::End;
use baker::ir::{CounterSlots, DropId, Program, TableEntry, TableId, TableStore, Target};
use dataplane::controller::{ExternFn, ExternTable};
use dataplane::step::{Compiled, StepOutput, Stepper};
use dataplane::{Access, EngineKind};

use super::case::{Case, Enters, Leaving, Step, To};
use crate::entries::fill;
use crate::messages::count;
use crate::packet::{describe, differences, text};

/// What went otherwise than the case says. Shows as text for people: the first step that failed, or what is missing in
/// the tables at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseFailure {
    /// The case file, with the line of the step.
    pub place: String,
    /// What the case shows.
    pub description: String,
    /// The engine.
    pub engine: EngineKind,
    /// How it got at packets.
    pub access: Access,
    /// What went wrong; lines that end with newlines.
    pub problems: String,
}

impl fmt::Display for CaseFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = if self.access == Access::default() { String::new() } else { format!(", access {}", self.access) };
        writeln!(f, "{}: {} (engine {:?}{access})", self.place, self.description, self.engine)?;
        self.problems.lines().try_for_each(|line| writeln!(f, "  {line}"))
    }
}

impl std::error::Error for CaseFailure {}

/// Runs a case: all steps in order on one engine with fresh tables. Stops at the first step that fails, for what
/// follows would only show its consequences.
pub fn run(compiled: &Compiled, case: &Case) -> Result<(), CaseFailure> {
    run_with(compiled, Access::default(), case)
}

/// As [`run`], with another way to get at packets that are received.
pub fn run_with(compiled: &Compiled, access: Access, case: &Case) -> Result<(), CaseFailure> {
    let (program, engine) = (compiled.program(), compiled.kind());
    let failure = |line: Option<usize>, note: &str, problems: String| {
        let line = line.map(|line| format!(":{line}")).unwrap_or_default();
        let place = format!("{}{line}", case.file.display());
        let description =
            if note.is_empty() { case.description.clone() } else { format!("{}: {note}", case.description) };
        CaseFailure { place, description, engine, access, problems }
    };
    let externs = case.externs.iter().map(|(name, number)| {
        let number = u128::from(*number);
        (name.clone(), Box::new(move |_: &[u128]| number) as ExternFn)
    });
    let externs = ExternTable::new(program, externs).map_err(|error| failure(None, "", error.to_string()))?;
    let mut stepper = compiled.stepper(Some(externs)).map_err(|error| failure(None, "", error.to_string()))?;
    stepper.set_access(access);
    let mut now = 0u64;
    for (_, made) in &case.controllers {
        fill(program, &made.entries, &mut stepper).map_err(|error| failure(None, "", error.to_string()))?;
    }
    fill(program, &case.entries, &mut stepper).map_err(|error| failure(None, "", error.to_string()))?;
    for step in &case.steps {
        if let Enters::Wait(time) = step.enters {
            now = now.saturating_add(time);
        }
        let problems = run_step(program, case, step, now, &mut stepper);
        if !problems.is_empty() {
            return Err(failure(Some(step.line), &step.note, problems));
        }
    }
    let problems = missing(program, &case.after, &stepper) + &wrong_sizes(program, &case.sizes, &stepper);
    if problems.is_empty() { Ok(()) } else { Err(failure(None, "", problems)) }
}

fn run_step(program: &Program, case: &Case, step: &Step, now: u64, stepper: &mut Stepper) -> String {
    if let Enters::Received { packet, .. } | Enters::Injected { packet, .. } = &step.enters
        && packet.len() > stepper.max_packet()
    {
        let (length, most) = (packet.len(), stepper.max_packet());
        return format!("the packet has {length} bytes, but a frame holds {most} at most\n");
    }
    let before = stepper.counters();
    let outputs = match &step.enters {
        Enters::Received { port, packet } => stepper.receive(*port, packet),
        Enters::Injected { channel, packet, metadata } => stepper.inject(*channel, packet, metadata),
        Enters::Wait(_) => stepper.advance(now),
    };
    let after = stepper.counters();
    let found: Vec<Leaving> = outputs.into_iter().map(|output| leaving(program, output)).collect();
    let mut out = compare(program, case, &step.outputs, &found);
    let slots = CounterSlots::new(program);
    for (index, reason) in program.drop_reasons.iter().enumerate() {
        let id = DropId(index as u32);
        let found = after[slots.drop(id)] - before[slots.drop(id)];
        let expected = step.drops.iter().find(|(drop, _)| *drop == id).map_or(0, |(_, packets)| *packets);
        if expected != found {
            let _ = writeln!(out, "dropped as {}: expected {expected}, found {found}", reason.name);
        }
    }
    for (index, table) in program.tables.iter().enumerate() {
        let slot = slots.table_full(TableId(index as u32));
        if after[slot] != before[slot] {
            let _ = writeln!(out, "table {} is full", table.name);
        }
    }
    if let Err(fault) = stepper.check_frames() {
        let _ = writeln!(out, "fault of the engine: {fault}");
    }
    if !out.is_empty() {
        let entered = match &step.enters {
            Enters::Received { port, packet } => {
                format!("in: {}: {}", case.ports.name(*port).unwrap_or("?"), text(program, packet))
            }
            Enters::Injected { channel, packet, .. } => {
                format!("in: controller {}: {} bytes", program.channels[channel.0 as usize].name, packet.len())
            }
            Enters::Wait(_) => format!("at {now} ns"),
        };
        out = format!("{entered}\n{out}");
    }
    out
}

fn leaving(program: &Program, output: StepOutput) -> Leaving {
    let to = match output.end {
        End::Controller(channel) => match program.channels[channel.0 as usize].target {
            Target::Controller(id) => To::Controller(id),
            Target::Ppf(_) | Target::Tx | Target::Host | Target::Queue(..) => To::Host,
        },
        End::Host => To::Host,
        // The metadata is as wide as a port number.
        End::Tx => To::Port(output.metadata[Program::TX_PORT.0 as usize] as u8),
    };
    Leaving { to, packet: output.bytes }
}

/// What differs between the packets that should leave and those that did, in order.
fn compare(program: &Program, case: &Case, expected: &[Leaving], found: &[Leaving]) -> String {
    let mut out = String::new();
    let show =
        |leaving: &Leaving| format!("{}: {}", leaving.to.show(program, &case.ports), text(program, &leaving.packet));
    if expected.len() != found.len() {
        let _ = writeln!(out, "expected {}, found {}", count(expected.len(), "packet"), found.len());
        expected.iter().for_each(|leaving| out.extend(["expected  ", &show(leaving), "\n"]));
        found.iter().for_each(|leaving| out.extend(["found     ", &show(leaving), "\n"]));
        return out;
    }
    for (index, (expected, found)) in expected.iter().zip(found).enumerate() {
        if expected == found {
            continue;
        }
        let _ = writeln!(out, "out[{index}]:");
        if expected.to != found.to {
            let [expected, found] = [expected, found].map(|leaving| leaving.to.show(program, &case.ports));
            let _ = writeln!(out, "port: expected {expected}, found {found}");
        }
        if expected.packet != found.packet {
            let _ = writeln!(out, "expected  {}\nfound     {}", show(expected), show(found));
            out += &differences(program, &expected.packet, &found.packet);
            let _ = write!(out, "found is\n{}", describe(program, &found.packet));
        }
    }
    out
}

/// Entries that should be in the tables and are not.
fn missing(program: &Program, after: &[(TableId, TableEntry)], store: &Stepper) -> String {
    let mut out = String::new();
    for (id, entry) in after {
        let found = store.get(*id, &entry.key, entry.prefix_len);
        if found.as_ref().is_ok_and(|found| *found == entry.value) {
            continue;
        }
        let table = &program.tables[id.0 as usize];
        let found = found.map_or("nothing".into(), |found| format!("{found:#x?}").replace(['\n', ' '], ""));
        let key = program.layouts[table.key.0 as usize].fields.iter().zip(&entry.key);
        let key: Vec<String> = key.map(|(field, number)| format!("{}{number:#x}", prefix(&field.name))).collect();
        let value = format!("{:#x?}", entry.value).replace(['\n', ' '], "");
        let len = entry.prefix_len.map(|len| format!("/{len}")).unwrap_or_default();
        let _ = writeln!(out, "table {} at {}{len}: expected {value}, found {found}", table.name, key.join(", "));
    }
    out
}

/// Tables that should have another number of entries.
fn wrong_sizes(program: &Program, sizes: &[(TableId, usize)], store: &Stepper) -> String {
    let mut out = String::new();
    for (id, expected) in sizes {
        let found = store.count(*id);
        if found != *expected {
            let name = &program.tables[id.0 as usize].name;
            let _ = writeln!(out, "table {name}: expected {expected} entries, found {found}");
        }
    }
    out
}

/// `name=` for a field of a struct, nothing for a scalar.
fn prefix(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!("{name}=") }
}

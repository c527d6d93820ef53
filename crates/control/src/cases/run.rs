//! Runs a case on an engine.

use std::fmt::{self, Write};
use std::path::PathBuf;

use baker::ir::interp::End;
use baker::ir::{CounterId, CounterSlots, DropId, Program, TableEntry, TableId, TableStore, Target};
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
    /// The case file.
    pub file: PathBuf,
    /// Line of the step, counted from 1; `None`: it is about the case as a whole, such as its tables at the end.
    pub line: Option<usize>,
    /// What the case shows, and the step.
    pub description: String,
    /// The engine.
    pub engine: EngineKind,
    /// How it got at packets.
    pub access: Access,
    /// What went wrong; lines that end with newlines.
    pub problems: String,
}

impl CaseFailure {
    /// The case file, with the line of the step.
    pub fn place(&self) -> String {
        let line = self.line.map(|line| format!(":{line}")).unwrap_or_default();
        format!("{}{line}", self.file.display())
    }
}

impl fmt::Display for CaseFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = if self.access == Access::default() { String::new() } else { format!(", access {}", self.access) };
        writeln!(f, "{}: {} (engine {:?}{access})", self.place(), self.description, self.engine)?;
        self.problems.lines().try_for_each(|line| writeln!(f, "  {line}"))
    }
}

impl std::error::Error for CaseFailure {}

/// What came of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Packets that left the program, in order.
    pub outputs: Vec<Leaving>,
    /// Packets that it dropped, by reason, where there were any.
    pub drops: Vec<(DropId, u64)>,
}

/// Runs a case: all steps in order on one engine with fresh tables. Stops at the first step that fails, for what
/// follows would only show its consequences.
///
/// # Errors
/// What went otherwise than the case says.
pub fn run(compiled: &Compiled, case: &Case) -> Result<(), CaseFailure> {
    run_with(compiled, Access::default(), case)
}

/// As [`run`], with another access mode.
///
/// # Errors
/// What went otherwise than the case says.
pub fn run_with(compiled: &Compiled, access: Access, case: &Case) -> Result<(), CaseFailure> {
    let mut execution = Execution::new(compiled, access, case)?;
    for step in &case.steps {
        let problems = match execution.step(step) {
            Ok(observed) => compare(compiled.program(), case, step, &observed),
            Err(fault) => fault,
        };
        if !problems.is_empty() {
            let problems = format!("{}\n{problems}", execution.entered(step));
            return Err(execution.failure(Some(step), problems));
        }
    }
    let problems = execution.at_the_end();
    if problems.is_empty() { Ok(()) } else { Err(execution.failure(None, problems)) }
}

/// Runs a case to its end, and gives what came of each step, whatever the case says of that.
///
/// # Errors
/// What is no matter of the case's expectations: it could not be run, or the engine is at fault.
pub fn observe(compiled: &Compiled, access: Access, case: &Case) -> Result<Vec<Observed>, CaseFailure> {
    let mut execution = Execution::new(compiled, access, case)?;
    let mut observe = |step| execution.step(step).map_err(|fault| execution.failure(Some(step), fault));
    let observed = case.steps.iter().map(&mut observe).collect::<Result<_, _>>()?;
    let fault = execution.lost_frames();
    if fault.is_empty() { Ok(observed) } else { Err(execution.failure(None, fault)) }
}

/// A case that is being run.
struct Execution<'c> {
    case: &'c Case,
    program: &'c Program,
    engine: EngineKind,
    access: Access,
    stepper: Stepper,
    /// Nanoseconds since it began.
    now: u64,
    /// Whether packets are held from one step to the next: then frames are counted behind the last one, as that lets
    /// go of them.
    holds: bool,
}

impl<'c> Execution<'c> {
    /// With tables as they are before the first step.
    fn new(compiled: &'c Compiled, access: Access, case: &'c Case) -> Result<Self, CaseFailure> {
        let (program, engine) = (&**compiled.program(), compiled.kind());
        let failed = |error: &dyn fmt::Display| failure(case, None, engine, access, error.to_string());
        let externs = case.externs.iter().map(|(name, number)| {
            let number = u128::from(*number);
            (name.clone(), Box::new(move |_: &[u128]| number) as ExternFn)
        });
        let externs = ExternTable::new(program, externs).map_err(|error| failed(&error))?;
        let mut stepper = compiled.stepper(Some(externs)).map_err(|error| failed(&error))?;
        stepper.set_access(access);
        for (_, made) in &case.controllers {
            fill(program, &made.entries, &mut stepper).map_err(|error| failed(&error))?;
        }
        fill(program, &case.entries, &mut stepper).map_err(|error| failed(&error))?;
        let holds = program.tables.iter().any(|table| table.hold.is_some());
        Ok(Execution { case, program, engine, access, stepper, now: 0, holds })
    }

    fn failure(&self, step: Option<&Step>, problems: String) -> CaseFailure {
        failure(self.case, step, self.engine, self.access, problems)
    }

    /// Runs the next step. The error: lines about what is wrong whatever the case expects.
    fn step(&mut self, step: &Step) -> Result<Observed, String> {
        let (program, stepper) = (self.program, &mut self.stepper);
        if let Enters::Received { packet, .. } | Enters::Injected { packet, .. } = &step.enters
            && packet.len() > stepper.max_packet()
        {
            let (length, most) = (packet.len(), stepper.max_packet());
            return Err(format!("the packet has {length} bytes, but a frame holds {most} at most\n"));
        }
        let before = stepper.counters();
        let outputs = match &step.enters {
            Enters::Received { port, packet } => stepper.receive(*port, packet),
            Enters::Injected { channel, packet, metadata } => stepper.inject(*channel, packet, metadata),
            Enters::Wait(time) => {
                self.now = self.now.saturating_add(*time);
                stepper.advance(self.now)
            }
        };
        let after = stepper.counters();
        let slots = CounterSlots::new(program);
        let mut faults = String::new();
        for (table, id) in program.tables.iter().zip(0..) {
            let slot = slots.table_full(TableId(id));
            if after[slot] != before[slot] {
                let _ = writeln!(faults, "table {} is full", table.name);
            }
        }
        if !self.holds
            && let Err(fault) = stepper.check_frames()
        {
            let _ = writeln!(faults, "fault of the engine: {fault}");
        }
        let outputs = outputs.into_iter().map(|output| leaving(program, output)).collect();
        let drops = (0..program.drop_reasons.len() as u32).map(DropId).filter_map(|id| {
            let dropped = after[slots.drop(id)] - before[slots.drop(id)];
            (dropped > 0).then_some((id, dropped))
        });
        let observed = Observed { outputs, drops: drops.collect() };
        if faults.is_empty() { Ok(observed) } else { Err(compare(program, self.case, step, &observed) + &faults) }
    }

    /// What a step did, in a line.
    fn entered(&self, step: &Step) -> String {
        match &step.enters {
            Enters::Received { port, packet } => {
                format!("in: {}: {}", self.case.ports.name(*port).unwrap_or("?"), text(self.program, packet))
            }
            Enters::Injected { channel, packet, .. } => {
                format!("in: controller {}: {} bytes", self.program.channels[channel.0 as usize].name, packet.len())
            }
            Enters::Wait(_) => format!("at {} ns", self.now),
        }
    }

    /// Behind the last step: whether frames have got lost.
    fn lost_frames(&mut self) -> String {
        self.stepper.check_frames().map_or_else(|fault| format!("fault of the engine: {fault}\n"), |()| String::new())
    }

    /// What is wrong with tables and counters behind the last step.
    fn at_the_end(&mut self) -> String {
        let lost = self.lost_frames();
        let Execution { case, program, stepper, .. } = self;
        missing(program, &case.after, stepper)
            + &wrong_sizes(program, &case.sizes, stepper)
            + &wrong_counters(program, &case.counters, &stepper.counters())
            + &lost
    }
}

fn failure(case: &Case, step: Option<&Step>, engine: EngineKind, access: Access, problems: String) -> CaseFailure {
    let description = match step {
        Some(Step { note, .. }) if !note.is_empty() => format!("{}: {note}", case.description),
        _ => case.description.clone(),
    };
    CaseFailure { file: case.file.clone(), line: step.map(|step| step.line), description, engine, access, problems }
}

/// What differs between what a step says and what came of it; lines that end with newlines.
fn compare(program: &Program, case: &Case, step: &Step, observed: &Observed) -> String {
    let mut out = packets(program, case, &step.outputs, &observed.outputs);
    for (reason, id) in program.drop_reasons.iter().zip(0..) {
        let of =
            |drops: &[(DropId, u64)]| drops.iter().find(|(drop, _)| drop.0 == id).map_or(0, |(_, packets)| *packets);
        let (expected, found) = (of(&step.drops), of(&observed.drops));
        if expected != found {
            let _ = writeln!(out, "dropped as {}: expected {expected}, found {found}", reason.name);
        }
    }
    out
}

fn leaving(program: &Program, output: StepOutput) -> Leaving {
    let to = match output.end {
        End::Controller(channel) => match program.channels[channel.0 as usize].target {
            Target::Controller(id) => To::Controller(id),
            Target::Ppf(_) | Target::Tx | Target::Host | Target::Queue(..) | Target::Group(..) => To::Host,
        },
        End::Host => To::Host,
        // The metadata is as wide as a port number.
        End::Tx => To::Port(output.metadata[Program::TX_PORT.0 as usize] as u8),
    };
    Leaving { to, packet: output.bytes }
}

/// What differs between the packets that should leave and those that did, in order.
fn packets(program: &Program, case: &Case, expected: &[Leaving], found: &[Leaving]) -> String {
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

/// Cells of counters that should have another number.
fn wrong_counters(program: &Program, counters: &[(CounterId, u32, u64)], found: &[u64]) -> String {
    let (slots, mut out) = (CounterSlots::new(program), String::new());
    for (id, cell, expected) in counters {
        let found = found[slots.user(*id) + *cell as usize];
        if found != *expected {
            let counter = &program.counters[id.0 as usize];
            let cell = if counter.size == 1 { String::new() } else { format!("[{cell}]") };
            let _ = writeln!(out, "counter {}{cell}: expected {expected}, found {found}", counter.name);
        }
    }
    out
}

/// `name=` for a field of a struct, nothing for a scalar.
fn prefix(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!("{name}=") }
}

//! Runs one program with the same packets on all engines and compares all that can be seen.

use std::fmt::Write;
use std::sync::Arc;

use baker::ir::interp::End;
use baker::ir::{
    BUILTIN_DROP_REASONS, Channel, ChannelId, CounterSlots, DropId, Program, Source, TableEntry, TableError, TableId,
    TableKind, TableStore, prefix_mask, print, verify,
};
use baker::opt::reach::reach;
use baker::opt::stage::Plan;
use baker::opt::{self, Level, Pass};
use codegen::OptLevel;
use codegen::abi::Staging;
use dataplane::controller::{ExternFn, ExternTable};
use dataplane::step::{StepOutput, Stepper};
use dataplane::{Access, EngineKind};

use crate::generate::CONSTRUCTS;
use crate::numbers::SplitMix64;
use crate::packets::Packet;
use crate::profile::PROFILE;

/// A name, an engine, and the passes of the optimiser that the program goes through before it gets there.
pub type Engine = (&'static str, EngineKind, &'static [Pass]);

/// What is compared with the interpreter: each pass alone, then the levels, with wrong profiles and without.
const ENGINES: [Engine; 11] = [
    ("aggregate, interpreter", EngineKind::Interp, &[opt::AGGREGATE]),
    ("number, interpreter", EngineKind::Interp, &[opt::VALUE_NUMBERING]),
    ("combine, interpreter", EngineKind::Interp, &[opt::COMBINE]),
    ("cache, interpreter", EngineKind::Interp, &[opt::CACHE]),
    (
        "cgpc with times, interpreter",
        EngineKind::Interp,
        &[opt::TIMING, opt::AGGREGATE, opt::CACHE, opt::VALUE_NUMBERING],
    ),
    ("pac with a profile, interpreter", EngineKind::Interp, &[PROFILE, opt::COMBINE, opt::VALUE_NUMBERING]),
    (
        "cgpc with a profile, interpreter",
        EngineKind::Interp,
        &[PROFILE, opt::AGGREGATE, opt::CACHE, opt::VALUE_NUMBERING],
    ),
    ("base with times, native O0", EngineKind::Native(OptLevel::O0, Level::Base), &[opt::TIMING]),
    ("base, native O3", EngineKind::Native(OptLevel::O3, Level::Base), &[]),
    ("pac, native O3", EngineKind::Native(OptLevel::O3, Level::Pac), &[]),
    ("cgpc, native O3", EngineKind::NATIVE, &[]),
];

/// How often each kind of event was compared: a test that sees none of them proves nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub programs: u64,
    pub packets: u64,
    pub to_tx: u64,
    pub to_host: u64,
    pub to_controllers: u64,
    /// Packets of controllers.
    pub injected: u64,
    /// Packets that timers sent.
    pub timed: u64,
    /// Look-ups that were counted, and those that found nothing.
    pub looked_up: u64,
    pub missed: u64,
    /// Received packets that left more than once.
    pub multiplied: u64,
    /// Packets that left longer or shorter than they came.
    pub resized: u64,
    pub truncated: u64,
    pub malformed: u64,
    /// Dropped by the program itself.
    pub dropped: u64,
    /// Insertions that a full table refused.
    pub refused: u64,
    /// Entries in the tables at the end.
    pub entries: u64,
    /// Sums of the user counters are not zero.
    pub counted: u64,
    /// Tables of instances of modules.
    pub instances: u64,
    /// Members of sets at the end.
    pub members: u64,
    /// Programs whose look-ups are staged, those of them in which packets may have to begin again, and those in which
    /// what is put off depends on the path.
    pub staged: u64,
    pub conflicts: u64,
    pub choices: u64,
    /// Copies for members of groups.
    pub fanned_out: u64,
    /// Programs that reach into packets up to a known byte.
    pub bounded: u64,
    /// Programs that have each of [`OPERATIONS`].
    pub operations: [u64; OPERATIONS.len()],
    /// How often each of [`CONSTRUCTS`] was written.
    pub constructs: [u64; CONSTRUCTS.len()],
}

/// Operations that no other event shows, by the first word of their text.
const OPERATIONS: [&str; 10] =
    ["load_at", "store_at", "sum", "trim", "grow_head", "grow_tail", "create", "take", "lock", "extern"];

impl Seen {
    pub fn add(&mut self, other: &Seen) {
        let pairs = [
            (&mut self.programs, other.programs),
            (&mut self.packets, other.packets),
            (&mut self.to_tx, other.to_tx),
            (&mut self.to_host, other.to_host),
            (&mut self.to_controllers, other.to_controllers),
            (&mut self.injected, other.injected),
            (&mut self.timed, other.timed),
            (&mut self.looked_up, other.looked_up),
            (&mut self.missed, other.missed),
            (&mut self.multiplied, other.multiplied),
            (&mut self.resized, other.resized),
            (&mut self.truncated, other.truncated),
            (&mut self.malformed, other.malformed),
            (&mut self.dropped, other.dropped),
            (&mut self.refused, other.refused),
            (&mut self.entries, other.entries),
            (&mut self.counted, other.counted),
            (&mut self.instances, other.instances),
            (&mut self.members, other.members),
            (&mut self.staged, other.staged),
            (&mut self.conflicts, other.conflicts),
            (&mut self.choices, other.choices),
            (&mut self.bounded, other.bounded),
            (&mut self.fanned_out, other.fanned_out),
        ];
        for (sum, more) in pairs {
            *sum += more;
        }
        let operations = self.operations.iter_mut().zip(other.operations);
        for (sum, more) in operations.chain(self.constructs.iter_mut().zip(other.constructs)) {
            *sum += more;
        }
    }

    /// Names of the events that were never seen.
    pub fn missing(&self) -> Vec<&'static str> {
        let all = [
            ("to_tx", self.to_tx),
            ("to_host", self.to_host),
            ("to_controllers", self.to_controllers),
            ("injected", self.injected),
            ("timed", self.timed),
            ("looked_up", self.looked_up),
            ("missed", self.missed),
            ("multiplied", self.multiplied),
            ("resized", self.resized),
            ("truncated", self.truncated),
            ("malformed", self.malformed),
            ("dropped", self.dropped),
            ("refused", self.refused),
            ("entries", self.entries),
            ("counted", self.counted),
            ("instances", self.instances),
            ("members", self.members),
            ("staged", self.staged),
            ("conflicts", self.conflicts),
            ("choices", self.choices),
            ("bounded", self.bounded),
            ("fanned_out", self.fanned_out),
        ];
        let operations = OPERATIONS.into_iter().zip(self.operations);
        let constructs = CONSTRUCTS.into_iter().zip(self.constructs);
        all.into_iter()
            .chain(operations)
            .chain(constructs)
            .filter(|(_, count)| *count == 0)
            .map(|(name, _)| name)
            .collect()
    }

    pub fn outputs(&mut self, packet: &[u8], outputs: &[StepOutput]) {
        self.packets += 1;
        self.multiplied += u64::from(outputs.len() > 1);
        for output in outputs {
            self.to_tx += u64::from(output.end == End::Tx);
            self.to_host += u64::from(output.end == End::Host);
            self.to_controllers += u64::from(matches!(output.end, End::Controller(_)));
            self.resized += u64::from(output.bytes.len() != packet.len());
        }
    }

    /// Engines that count look-ups count the same ones, of each table all and those that found nothing: their last
    /// slots.
    fn look_ups(&mut self, program: &Program, measured: &[(&str, Vec<u64>)]) -> Result<(), String> {
        let own = |counters: &[u64]| counters[counters.len() - 2 * program.tables.len()..].to_vec();
        let Some(((first, wanted), others)) = measured.split_first() else { return Ok(()) };
        let wanted = own(wanted);
        for (name, counters) in others {
            let found = own(counters);
            if found != wanted {
                return Err(format!("look-ups: {first} {wanted:?}, {name} {found:?}"));
            }
        }
        for (table, counted) in program.tables.iter().zip(wanted.chunks(2)) {
            let is_counted = table.kind != TableKind::Array;
            if counted[1] > counted[0] || (counted[0] > 0 && !is_counted) {
                return Err(format!("look-ups in {}: {counted:?}", table.name));
            }
            self.looked_up += counted[0];
            self.missed += counted[1];
        }
        Ok(())
    }

    pub fn state(&mut self, program: &Program, stepper: &Stepper) {
        let (slots, counters) = (CounterSlots::new(program), stepper.counters());
        let drop = |reason: usize| counters[slots.drop(DropId(reason as u32))];
        self.programs += 1;
        if let Some(plan) = Plan::new(&opt::optimise(program, Level::Cgpc)) {
            self.staged += 1;
            self.conflicts += u64::from(plan.may_conflict());
            self.choices += u64::from(plan.has_choice());
        }
        self.bounded += u64::from(reach(program).touched.is_some());
        let behind = |(_, channel): &(u32, &Channel)| matches!(channel.from, Some(Source::Group(_)));
        let behind = (0..).zip(&program.channels).filter(behind);
        self.fanned_out += behind.map(|(id, _)| counters[slots.channel(ChannelId(id))]).sum::<u64>();
        self.truncated += drop(0);
        self.malformed += drop(1);
        self.dropped += (BUILTIN_DROP_REASONS.len()..program.drop_reasons.len()).map(drop).sum::<u64>();
        for table in (0..program.tables.len()).map(|index| TableId(index as u32)) {
            self.refused += counters[slots.table_full(table)];
            let entries = stepper.dump(table).len() as u64;
            self.entries += entries;
            if program.tables[table.0 as usize].is_set {
                self.members += entries;
            }
        }
        let user = &counters[counters.len() - program.counters.iter().map(|c| c.size as usize).sum::<usize>()..];
        self.counted += user.iter().filter(|count| **count != 0).count() as u64;
        self.instances += program.tables.iter().filter(|table| table.name.starts_with("copy")).count() as u64;
        let text = baker::ir::print(program);
        for (count, name) in self.operations.iter_mut().zip(OPERATIONS) {
            let operation =
                |line: &str| line.split("= ").last().is_some_and(|op| op.trim().split(' ').next() == Some(name));
            *count += u64::from(text.lines().any(operation));
        }
    }
}

/// The IR of a program, or what the compiler has against it.
pub fn compile(text: &str) -> Result<Arc<Program>, String> {
    compile_by(text, baker::ir::lower)
}

/// As [`compile`], by one of the ways to lower programs.
pub fn compile_by(text: &str, lower: fn(&baker::check::hir::Program) -> Program) -> Result<Arc<Program>, String> {
    let checked = baker::check::check("random.baker", text, &baker::library::Library);
    let Some(typed) = checked.program else {
        return Err(format!(
            "the checker refuses it:\n{}",
            baker::diag::render(&checked.diagnostics, &checked.sources, false)
        ));
    };
    let program = lower(&typed);
    match baker::ir::verify(&program) {
        Ok(()) => Ok(Arc::new(program)),
        Err(errors) => Err(errors.iter().fold("the verifier refuses it:\n".into(), |text, e| format!("{text}{e}\n"))),
    }
}

/// Runs the packets one at a time up to `singly`, then the rest as one batch. `fill` seeds the control plane's part:
/// entries before the first packet, and changes before the batch. The error tells the first difference.
pub fn compare(program: &Arc<Program>, packets: &[Packet], singly: usize, fill: u64) -> Result<Seen, String> {
    compare_with(&ENGINES, program, packets, singly, fill)
}

/// As [`compare`], with these engines.
pub fn compare_with(
    engines: &[Engine],
    program: &Arc<Program>,
    packets: &[Packet],
    singly: usize,
    fill: u64,
) -> Result<Seen, String> {
    let mut seen = Seen::default();
    let externs = program.externs.iter().map(|function| (function.name.clone(), extern_of(&function.name)));
    let externs = ExternTable::new(program, externs).map_err(|error| error.to_string())?;
    let stepper = |program, kind| {
        Stepper::with_externs(program, kind, Some(externs.clone())).map_err(|error| format!("no engine: {error}"))
    };
    let entries: Vec<_> = program.entries().skip(1).collect();
    let mut interp = stepper(program.clone(), EngineKind::Interp)?;
    // Each engine gets at packets by each way in some of the programs.
    let accesses = Access::ALL.into_iter().cycle().skip(fill as usize % Access::ALL.len());
    let names: Vec<String> =
        engines.iter().zip(accesses.clone()).map(|((name, ..), access)| format!("{name}, {access}")).collect();
    let mut natives = Vec::new();
    for ((name, access), (_, kind, passes)) in names.iter().zip(accesses).zip(engines) {
        let mut optimised = Program::clone(program);
        for pass in *passes {
            optimised = (pass.run)(&optimised);
            if let Err(errors) = verify(&optimised) {
                let errors = errors.iter().fold(String::new(), |text, error| format!("{text}{error}\n"));
                return Err(format!(
                    "{name}: the verifier refuses what {} made:\n{errors}{}",
                    pass.name,
                    print(&optimised)
                ));
            }
        }
        let mut native = stepper(Arc::new(optimised), *kind)?;
        native.set_access(access);
        natives.push((name.as_str(), native));
    }
    natives.iter_mut().for_each(|(_, native)| native.set_staging(Staging::Always));
    let (one_by_one, batch) = packets.split_at(singly.min(packets.len()));

    let mut numbers = SplitMix64::new(fill);
    control(program, &mut numbers, &mut interp, &mut natives)?;
    let mut now = 0;
    for (index, (port, bytes)) in one_by_one.iter().enumerate() {
        now += numbers.bits(40) as u64;
        let timed = interp.advance(now);
        seen.timed += timed.len() as u64;
        for (name, native) in &mut natives {
            let found = native.advance(now);
            native.check_frames().map_err(|error| format!("{name}, timers until {now}: {error}"))?;
            same_outputs(name, &timed, &found).map_err(|error| format!("timers until {now}: {error}"))?;
            same_state(program, name, &interp, native).map_err(|error| format!("timers until {now}: {error}"))?;
        }
        if !entries.is_empty() && numbers.chance(40) {
            let entry = *numbers.pick(&entries);
            let metadata: Vec<u128> = program.metadata.iter().map(|field| numbers.bits(field.width)).collect();
            let at = || format!("injected by channel {}, {metadata:x?}, {}", entry.0, show_packet(*port, bytes));
            let wanted = interp.inject(entry, bytes, &metadata);
            seen.injected += 1;
            for (name, native) in &mut natives {
                let found = native.inject(entry, bytes, &metadata);
                native.check_frames().map_err(|error| format!("{name}, {}: {error}", at()))?;
                same_outputs(name, &wanted, &found).map_err(|error| format!("{}: {error}", at()))?;
                same_state(program, name, &interp, native).map_err(|error| format!("{}: {error}", at()))?;
            }
        }
        let at = || format!("packet {index}, {}", show_packet(*port, bytes));
        let wanted = interp.receive(*port, bytes);
        seen.outputs(bytes, &wanted);
        interp.check_frames().map_err(|error| format!("interpreter, {}: {error}", at()))?;
        for (name, native) in &mut natives {
            let found = native.receive(*port, bytes);
            native.check_frames().map_err(|error| format!("{name}, {}: {error}", at()))?;
            same_outputs(name, &wanted, &found).map_err(|error| format!("{}: {error}", at()))?;
            same_state(program, name, &interp, native).map_err(|error| format!("{}: {error}", at()))?;
        }
    }
    // As the control plane does it in the background.
    interp.expire();
    natives.iter_mut().for_each(|(_, native)| native.expire());
    for (name, native) in &natives {
        same_state(program, name, &interp, native).map_err(|error| format!("after expiry: {error}"))?;
    }
    control(program, &mut numbers, &mut interp, &mut natives)?;
    // The interpreter stays the reference: one packet after the other.
    let mut wanted = Vec::new();
    for (port, bytes) in batch {
        let outputs = interp.receive(*port, bytes);
        seen.outputs(bytes, &outputs);
        wanted.extend(outputs);
    }
    for (name, native) in &mut natives {
        let found = native.receive_batch(batch);
        let at = || format!("batch of packets from {singly}");
        native.check_frames().map_err(|error| format!("{name}, {}: {error}", at()))?;
        same_outputs(name, &wanted, &found).map_err(|error| format!("{}: {error}", at()))?;
        same_state(program, name, &interp, native).map_err(|error| format!("{}: {error}", at()))?;
    }
    seen.state(program, &interp);
    let counted = interp.counters().len();
    let measured = natives.iter().filter(|(_, native)| native.counters().len() > counted);
    seen.look_ups(program, &measured.map(|(name, native)| (*name, native.counters())).collect::<Vec<_>>())?;
    Ok(seen)
}

/// A function of a controller that gives the same for the same name and numbers.
fn extern_of(name: &str) -> ExternFn {
    let start = name.bytes().fold(0xcbf2_9ce4_8422_2325u128, |hash, byte| mixed(hash, byte.into()));
    Box::new(move |numbers| numbers.iter().fold(start, |hash, number| mixed(hash, *number)))
}

fn mixed(hash: u128, number: u128) -> u128 {
    (hash ^ number).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b).rotate_left(59)
}

/// A packet as kept files write it.
pub fn show_packet(port: u8, bytes: &[u8]) -> String {
    bytes.iter().fold(format!("{port} "), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Of the metadata, only what is looked at where the packet leaves.
pub fn same_outputs(name: &str, wanted: &[StepOutput], found: &[StepOutput]) -> Result<(), String> {
    let seen = |output: &StepOutput| {
        let metadata = match output.end {
            End::Tx => vec![output.metadata[Program::TX_PORT.0 as usize]],
            End::Host => vec![output.metadata[Program::RX_PORT.0 as usize]],
            End::Controller(_) => output.metadata.clone(),
        };
        (output.end, output.bytes.clone(), metadata)
    };
    if wanted.iter().map(seen).eq(found.iter().map(seen)) {
        return Ok(());
    }
    let show = |outputs: &[StepOutput]| {
        outputs.iter().fold(String::new(), |mut text, output| {
            let _ = writeln!(text, "  {:?} {} {:x?}", output.end, show_packet(0, &output.bytes), output.metadata);
            text
        })
    };
    Err(format!("packets differ\ninterpreter:\n{}{name}:\n{}", show(wanted), show(found)))
}

/// Counters and tables.
pub fn same_state(program: &Program, name: &str, interp: &Stepper, native: &Stepper) -> Result<(), String> {
    let (wanted, found) = (interp.counters(), native.counters());
    if let Some(slot) = (0..wanted.len()).find(|&slot| wanted[slot] != found[slot]) {
        let (a, b) = (wanted[slot], found[slot]);
        return Err(format!("counter {slot} ({}): interpreter {a}, {name} {b}", slot_name(program, slot)));
    }
    for (index, table) in program.tables.iter().enumerate() {
        let id = TableId(index as u32);
        let (wanted, found) = (interp.dump(id), native.dump(id));
        if wanted != found {
            return Err(format!("table {}\ninterpreter: {wanted:x?}\n{name}: {found:x?}", table.name));
        }
    }
    Ok(())
}

/// Name of a counter's slot: the order is that of `CounterSlots`.
fn slot_name(program: &Program, slot: usize) -> String {
    let channels = program.channels.iter().map(|c| format!("channel {}", c.name));
    let drops = program.drop_reasons.iter().map(|r| format!("drops {}", r.name));
    let full = program.tables.iter().map(|t| format!("full {}", t.name));
    let user = program.counters.iter().flat_map(|c| (0..c.size).map(|cell| format!("{}[{cell}]", c.name)));
    let timers = program.timers.iter().flat_map(|t| [format!("runs {}", t.name), format!("entries {}", t.name)]);
    channels.chain(drops).chain(full).chain(timers).chain(user).nth(slot).unwrap_or_default()
}

/// The control plane inserts and removes entries. All engines must answer alike.
pub fn control(
    program: &Program,
    n: &mut SplitMix64,
    interp: &mut Stepper,
    natives: &mut [(&str, Stepper)],
) -> Result<(), String> {
    for (index, table) in program.tables.iter().enumerate() {
        let id = TableId(index as u32);
        let widths = |layout: baker::ir::LayoutId| {
            program.layouts[layout.0 as usize].fields.iter().map(|f| f.width).collect::<Vec<_>>()
        };
        let keys = widths(table.key);
        let values: Vec<u32> = program.shown_value(table).fields.iter().map(|field| field.width).collect();
        let many = table.kind == TableKind::Lpm || table.group.is_some();
        for _ in 0..n.below(if many { 12 } else { 5 }) {
            let (key, prefix_len) = match table.kind {
                // A few of them cannot be.
                _ if table.group.is_some() => (vec![n.below(5) as u128, n.below(22) as u128], None),
                TableKind::Array => (vec![n.below(table.capacity as usize + 1) as u128], None),
                TableKind::Hash => (keys.iter().map(|w| small(n, *w)).collect(), None),
                TableKind::Lpm => {
                    // Near the addresses that programs look up.
                    let width = keys[0];
                    let len = width.saturating_sub(*n.pick(&[0, 0, 1, 2, 4, 7, 8, 9, 16, 24, 100, 128]));
                    let near = *n.pick(&[0x0a00_0000, 0x0a00_0100, 0]);
                    let inside = prefix_mask(width, len).expect("no longer than the key");
                    (vec![(near | n.below(16) as u128) & inside], Some(len))
                }
            };
            let mut value: Vec<u128> = values.iter().map(|w| n.bits(*w)).collect();
            if table.is_set {
                value = vec![1];
            }
            if table.meter.is_some() && n.chance(70) {
                value = vec![*n.pick(&[1, 50, 1_000_000]), *n.pick(&[1, 10, 100_000])];
            }
            let entry = TableEntry { key, prefix_len, value };
            let remove = n.chance(25);
            let act = |stepper: &mut Stepper| -> Result<(), TableError> {
                if remove { stepper.remove(id, &entry.key, entry.prefix_len) } else { stepper.insert(id, &entry) }
            };
            let wanted = act(interp);
            for (name, native) in natives.iter_mut() {
                let found = act(native);
                if found != wanted {
                    let what = if remove { "remove" } else { "insert" };
                    return Err(format!(
                        "{what} {entry:x?} in {}: interpreter {wanted:?}, {name} {found:?}",
                        table.name
                    ));
                }
            }
        }
    }
    Ok(())
}

/// A number that programs ask for, too.
fn small(n: &mut SplitMix64, width: u32) -> u128 {
    let mask = u128::MAX >> (128 - width);
    if n.chance(90) { n.below(16) as u128 & mask } else { n.bits(width) }
}

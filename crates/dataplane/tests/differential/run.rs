//! Runs one program with the same packets on all engines and compares all that can be seen.

use std::fmt::Write;
use std::sync::Arc;

use baker::ir::{Program, TableEntry, TableError, TableId, TableKind, TableStore};
use codegen::OptLevel;
use dataplane::EngineKind;
use dataplane::step::{StepOutput, Stepper};

use crate::numbers::Numbers;
use crate::packets::Packet;

/// The engines that are compared with the interpreter.
const NATIVE: [(&str, EngineKind); 2] =
    [("native O0", EngineKind::Native(OptLevel::O0)), ("native O3", EngineKind::Native(OptLevel::O3))];

/// The IR of a program, or what the compiler has against it.
pub fn compile(text: &str) -> Result<Arc<Program>, String> {
    let checked = baker::check::check("random.baker", text, &baker::library::Library);
    let Some(typed) = checked.program else {
        return Err(format!(
            "the checker refuses it:\n{}",
            baker::diag::render(&checked.diagnostics, &checked.sources, false)
        ));
    };
    let program = baker::ir::lower(&typed);
    match baker::ir::verify(&program) {
        Ok(()) => Ok(Arc::new(program)),
        Err(errors) => Err(errors.iter().fold("the verifier refuses it:\n".into(), |text, e| format!("{text}{e}\n"))),
    }
}

/// Runs the packets one at a time up to `singly`, then the rest as one batch. `fill` seeds the control plane's part:
/// entries before the first packet, and changes before the batch. The error tells the first difference.
pub fn compare(program: &Arc<Program>, packets: &[Packet], singly: usize, fill: u64) -> Result<(), String> {
    let stepper = |kind| Stepper::new(program.clone(), kind).map_err(|error| format!("no engine: {error}"));
    let mut interp = stepper(EngineKind::Interp)?;
    let mut natives = Vec::new();
    for (name, kind) in NATIVE {
        natives.push((name, stepper(kind)?));
    }
    let (one_by_one, batch) = packets.split_at(singly.min(packets.len()));

    let mut numbers = Numbers::new(fill);
    control(program, &mut numbers, &mut interp, &mut natives)?;
    for (index, (port, bytes)) in one_by_one.iter().enumerate() {
        let at = || format!("packet {index}, {}", show_packet(*port, bytes));
        let wanted = interp.receive(*port, bytes);
        interp.check_frames().map_err(|error| format!("interpreter, {}: {error}", at()))?;
        for (name, native) in &mut natives {
            let found = native.receive(*port, bytes);
            native.check_frames().map_err(|error| format!("{name}, {}: {error}", at()))?;
            same_outputs(name, &wanted, &found).map_err(|error| format!("{}: {error}", at()))?;
            same_state(program, name, &interp, native).map_err(|error| format!("{}: {error}", at()))?;
        }
    }
    control(program, &mut numbers, &mut interp, &mut natives)?;
    // The interpreter stays the reference: one packet after the other.
    let wanted: Vec<StepOutput> = batch.iter().flat_map(|(port, bytes)| interp.receive(*port, bytes)).collect();
    for (name, native) in &mut natives {
        let found = native.receive_batch(batch);
        let at = || format!("batch of packets from {singly}");
        native.check_frames().map_err(|error| format!("{name}, {}: {error}", at()))?;
        same_outputs(name, &wanted, &found).map_err(|error| format!("{}: {error}", at()))?;
        same_state(program, name, &interp, native).map_err(|error| format!("{}: {error}", at()))?;
    }
    Ok(())
}

/// A packet as kept files write it.
pub fn show_packet(port: u8, bytes: &[u8]) -> String {
    bytes.iter().fold(format!("{port} "), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn same_outputs(name: &str, wanted: &[StepOutput], found: &[StepOutput]) -> Result<(), String> {
    if wanted == found {
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
fn same_state(program: &Program, name: &str, interp: &Stepper, native: &Stepper) -> Result<(), String> {
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
    channels.chain(drops).chain(full).chain(user).nth(slot).unwrap_or_default()
}

/// The control plane inserts and removes entries. All engines must answer alike.
fn control(
    program: &Program,
    n: &mut Numbers,
    interp: &mut Stepper,
    natives: &mut [(&str, Stepper)],
) -> Result<(), String> {
    for (index, table) in program.tables.iter().enumerate() {
        let id = TableId(index as u32);
        let widths = |layout: baker::ir::LayoutId| {
            program.layouts[layout.0 as usize].fields.iter().map(|f| f.width).collect::<Vec<_>>()
        };
        let (keys, values) = (widths(table.key), widths(table.value));
        for _ in 0..n.below(if table.kind == TableKind::Lpm { 12 } else { 5 }) {
            let (key, prefix_len) = match table.kind {
                TableKind::Array => (vec![n.below(table.capacity as usize + 1) as u128], None),
                TableKind::Hash => (keys.iter().map(|w| small(n, *w)).collect(), None),
                TableKind::Lpm => {
                    let len = *n.pick(&[0, 8, 16, 23, 24, 25, 28, 30, 31, 32, 32]);
                    let mask = u32::MAX.checked_shl(32 - len).unwrap_or(0);
                    let near = *n.pick(&[0x0a00_0000, 0x0a00_0100, 0]);
                    (vec![u128::from((near | n.below(16) as u32) & mask)], Some(len))
                }
            };
            let entry = TableEntry { key, prefix_len, value: values.iter().map(|w| n.bits(*w)).collect() };
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
fn small(n: &mut Numbers, width: u32) -> u128 {
    let mask = u128::MAX >> (128 - width);
    if n.chance(90) { n.below(16) as u128 & mask } else { n.bits(width) }
}

//! The IR as text, for people: `millrace emit`, test failures, and reading what a pass did.
//!
//! The same program always gives the same text. Ids that point nowhere are printed as `protocol#9`, so that a program
//! which the verifier refused can be printed too.

use std::fmt::Write;

use super::inst::*;
use super::profile::{Counts, Usage};
use super::program::*;

/// The whole program: declarations, then every PPF.
pub fn print(program: &Program) -> String {
    let mut out = String::new();
    // Writing to a `String` cannot fail.
    let _ = write_declarations(&mut out, program);
    for timer in &program.timers {
        let over = timer.table.map(|id| name_of(&program.tables, id.0, "table", |t| &t.name));
        let over = over.map_or(String::new(), |table| format!(" over {table}"));
        let (name, slice) = (&timer.name, timer.slice);
        let when = if timer.is_at_deadline() { "at deadline".into() } else { format!("every {}ns", timer.period) };
        let body = print_body(program, &timer.body);
        let _ = write!(out, "\ntimer {name}{over} {when}, {slice} at once {{\n{body}}}\n");
    }
    for ppf in &program.ppfs {
        let _ = write!(out, "\nppf {}({}) {{\n{}}}\n", ppf.name, protocol(program, ppf.protocol), {
            print_body(program, &ppf.body)
        });
    }
    out
}

/// The blocks of one body.
pub fn print_body(program: &Program, body: &Body) -> String {
    let names = Names { program, body };
    let mut out = usage(body.usage.as_ref());
    for (i, block) in body.blocks.iter().enumerate() {
        let params = list(&block.params, |v| format!("v{}: {}", v.0, names.ty(*v)));
        let _ = writeln!(out, "b{i}({params}):{}", counts(block.counts));
        for inst in &block.insts {
            out.push_str("  ");
            if let Some(result) = inst.result {
                let _ = write!(out, "v{}: {} = ", result.0, names.ty(result));
            }
            let _ = writeln!(out, "{}", names.op(&inst.op));
        }
        let _ = writeln!(out, "  {}", terminator(&block.term));
    }
    out
}

/// What a profile says.
fn usage(usage: Option<&Usage>) -> String {
    let Some(usage) = usage else { return String::new() };
    let length = usage.length();
    let expected: String =
        usage.expected.iter().map(|(value, n)| format!(", v{} mostly {}", value.0, number(*n))).collect();
    format!("  # {length} bytes or more{expected}\n")
}

fn counts(counts: Option<Counts>) -> String {
    match counts {
        None => String::new(),
        Some(Counts { runs, taken: [0, 0] }) => format!("  # {runs} times"),
        Some(Counts { runs, taken: [first, second] }) => format!("  # {runs} times, then {first} : {second}"),
    }
}

fn write_declarations(out: &mut String, program: &Program) -> std::fmt::Result {
    writeln!(out, "program {}", program.name)?;
    let Limits { headroom, copies, .. } = program.limits;
    writeln!(out, "limits headroom {headroom}, copies {copies}")?;
    for p in &program.protocols {
        writeln!(out, "\nprotocol {} ({} bytes) {{", p.name, p.size)?;
        for (i, field) in p.fields.iter().enumerate() {
            write!(out, "  {}: {} {}", field.name, field.type_name, range(field.bits))?;
            if field.default != 0 {
                write!(out, " = {}", number(field.default))?;
            }
            writeln!(out, "{}", checksum(p, i))?;
        }
        if !p.pseudo.is_empty() {
            writeln!(out, "  pseudo {}", list(&p.pseudo, |i| p.fields[*i].name.clone()))?;
        }
        writeln!(out, "}}")?;
    }
    writeln!(out, "\nmetadata ({} bytes) {{", program.metadata_size)?;
    for field in &program.metadata {
        writeln!(out, "  {}: {} (u{}) at {}", field.name, field.type_name, field.width, field.offset)?;
    }
    writeln!(out, "}}\n")?;
    for layout in &program.layouts {
        let fields = list(&layout.fields, |f| {
            let sign = if f.signed { 'i' } else { 'u' };
            format!("{}: {} ({sign}{}) at {}", or_scalar(&f.name), f.type_name, f.width, f.offset)
        });
        writeln!(out, "layout {} (size {}, align {}) {{ {fields} }}", layout.name, layout.size, layout.align)?;
    }
    for table in &program.tables {
        let kind = table.kind_row().name;
        let (key, value) = (layout(program, table.key), layout(program, table.value));
        let idle = table.idle.map_or(String::new(), |ns| format!(" idle {ns}ns"));
        let groups = table.group.map_or(String::new(), |group| format!(" in {} groups", group.groups));
        let meter = table.meter.map_or(String::new(), |m| format!(" rate {} burst {}", m.rate, m.burst));
        writeln!(out, "{kind} {}[{}]{groups}{idle}{meter}: {key} -> {value}", table.name, table.capacity)?;
    }
    for counter in &program.counters {
        writeln!(out, "counter {}[{}]", counter.name, counter.size)?;
    }
    for queue in &program.queues {
        let drops = match queue.drops {
            QueueDrops::Newest => "newest".into(),
            QueueDrops::Oldest => "oldest".into(),
            QueueDrops::Lowest(MetaId(field)) => format!("lowest {}", program.metadata[field as usize].name),
        };
        writeln!(out, "queue {}[{}] of {} drop {drops}", queue.name, queue.lines, queue.depth)?;
    }
    for function in &program.externs {
        let result = function.result.map_or("void".into(), |width| format!("u{width}"));
        writeln!(out, "extern {result} {}({})", function.name, list(&function.params, |width| format!("u{width}")))?;
    }
    writeln!(out, "drop_reason {}", list(&program.drop_reasons, |r| r.name.clone()))?;
    for channel in &program.channels {
        let target = match channel.target {
            Target::Ppf(id) => {
                program.ppfs.get(id.0 as usize).map_or(format!("ppf#{}", id.0), |p| format!("ppf {}", p.name))
            }
            Target::Tx => "tx".into(),
            Target::Host => "host".into(),
            Target::Controller(id) => {
                format!("controller {}", name_of(&program.controllers, id.0, "controller", |c| &c.name))
            }
            Target::Group(id, on) => {
                let groups = name_of(&program.tables, id.0, "table", |t| &t.name);
                format!("group {groups}, then {}", name_of(&program.channels, on.0, "channel", |c| &c.name))
            }
            Target::Queue(id, on) => {
                let queue = name_of(&program.queues, id.0, "queue", |q| &q.name);
                format!("queue {queue}, then {}", name_of(&program.channels, on.0, "channel", |c| &c.name))
            }
        };
        let batch = channel.batch.map_or(String::new(), |b| format!(" batch {} within {}ns", b.packets, b.within));
        writeln!(out, "channel {}: {} -> {target}{batch}", channel.name, protocol(program, channel.protocol))?;
    }
    Ok(())
}

/// What the field is a checksum of.
fn checksum(protocol: &Protocol, field: usize) -> String {
    let Some(checksum) = protocol.checksum.filter(|c| c.field == field) else { return String::new() };
    let parts = [(checksum.pseudo, "pseudo header, "), (true, "header"), (checksum.payload, ", payload")];
    let parts: String = parts.into_iter().filter(|(there, _)| *there).map(|(_, part)| part).collect();
    format!(" checksum of the {parts}{}", if checksum.optional { ", or 0" } else { "" })
}

fn or_scalar(name: &str) -> &str {
    if name.is_empty() { "_" } else { name }
}

fn list<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    items.iter().map(text).collect::<Vec<_>>().join(", ")
}

fn values(values: &[Value]) -> String {
    list(values, |v| format!("v{}", v.0))
}

fn range(bits: BitRange) -> String {
    format!("[{}..{}]", bits.offset, bits.offset as u64 + bits.width as u64)
}

/// Small numbers are mostly counts, large ones mostly header fields and addresses.
fn number(n: u128) -> String {
    if n < 256 { format!("{n}") } else { format!("{n:#x}") }
}

fn name_of<T>(items: &[T], index: u32, kind: &str, name: impl Fn(&T) -> &str) -> String {
    items.get(index as usize).map_or_else(|| format!("{kind}#{index}"), |item| name(item).to_string())
}

fn protocol(program: &Program, id: ProtocolId) -> String {
    name_of(&program.protocols, id.0, "protocol", |p| &p.name)
}

fn layout(program: &Program, id: LayoutId) -> String {
    name_of(&program.layouts, id.0, "layout", |l| &l.name)
}

fn dest(dest: &Dest) -> String {
    format!("b{}({})", dest.block.0, values(&dest.args))
}

fn terminator(term: &Terminator) -> String {
    match term {
        Terminator::Jump(to) => format!("jump {}", dest(to)),
        Terminator::Branch(condition, then, other) => format!("br v{}, {}, {}", condition.0, dest(then), dest(other)),
        Terminator::Return => "return".into(),
    }
}

/// Finds names for the ids in one body.
struct Names<'a> {
    program: &'a Program,
    body: &'a Body,
}

impl Names<'_> {
    fn value_ty(&self, value: Value) -> Option<Ty> {
        self.body.values.get(value.0 as usize).copied()
    }

    fn ty(&self, value: Value) -> String {
        match self.value_ty(value) {
            Some(Ty::Int(width)) => format!("u{width}"),
            Some(Ty::Entry(id)) => format!("entry<{}>", layout(self.program, id)),
            Some(Ty::Packet(id)) => format!("packet<{}>", protocol(self.program, id)),
            None => "?".into(),
        }
    }

    /// `ether.type [96..112]`, or `ether [3..17]` where no field has exactly these bits.
    fn header_bits(&self, packet: Value, bits: BitRange) -> String {
        let Some(Ty::Packet(id)) = self.value_ty(packet) else { return range(bits) };
        let field = self
            .program
            .protocols
            .get(id.0 as usize)
            .and_then(|p| p.fields.iter().find(|f| f.bits == bits))
            .map_or(String::new(), |f| format!(".{}", f.name));
        format!("{}{field} {}", protocol(self.program, id), range(bits))
    }

    /// `v7.port`, or `v7.0` for a scalar.
    fn entry_field(&self, entry: Value, field: u32) -> String {
        let name = match self.value_ty(entry) {
            Some(Ty::Entry(id)) => self
                .program
                .layouts
                .get(id.0 as usize)
                .and_then(|l| l.fields.get(field as usize))
                .map(|f| f.name.as_str()),
            _ => None,
        };
        match name {
            Some(name) if !name.is_empty() => format!("v{}.{name}", entry.0),
            _ => format!("v{}.{field}", entry.0),
        }
    }

    fn meta(&self, id: MetaId) -> String {
        name_of(&self.program.metadata, id.0, "meta", |m| &m.name)
    }

    fn table(&self, id: TableId) -> String {
        name_of(&self.program.tables, id.0, "table", |t| &t.name)
    }

    fn op(&self, op: &Op) -> String {
        let name = op.row().name;
        match op {
            Op::Const(n) => format!("{name} {}", number(*n)),
            Op::Bin(op, a, b) => format!("{} v{}, v{}", bin_name(*op), a.0, b.0),
            Op::Cmp(op, a, b) => format!("{} v{}, v{}", cmp_name(*op), a.0, b.0),
            Op::Cast(op, a) => format!("{} v{}", cast_name(*op), a.0),
            Op::Load { packet, bits } => format!("{name} v{} {}", packet.0, self.header_bits(*packet, *bits)),
            Op::Store { packet, bits, value } => {
                format!("{name} v{} {}, v{}", packet.0, self.header_bits(*packet, *bits), value.0)
            }
            Op::LoadAt { packet, offset, bits } => {
                format!("{name} v{} + v{} {}", packet.0, offset.0, range(*bits))
            }
            Op::StoreAt { packet, offset, bits, value } => {
                format!("{name} v{} + v{} {}, v{}", packet.0, offset.0, range(*bits), value.0)
            }
            Op::Sum { packet, offset, bytes } => format!("{name} v{} + v{}, v{}", packet.0, offset.0, bytes.0),
            Op::Checksum { packet, at, covered, pseudo, optional } => {
                let optional = if *optional { ", optional" } else { "" };
                format!("{name} v{} + v{}, covered v{}, pseudo v{}{optional}", packet.0, at.0, covered.0, pseudo.0)
            }
            Op::Grow { packet, bytes, end } => {
                let end = match end {
                    PacketEnd::Head => "head",
                    PacketEnd::Tail => "tail",
                };
                format!("{name}_{end} v{}, v{}", packet.0, bytes.0)
            }
            Op::Push { packet, bytes } => format!("{name} v{}, {bytes}", packet.0),
            Op::Move { packet, by } => format!("{name} v{}, {by}", packet.0),
            Op::MetaLoad { packet, field } => format!("{name} v{} {}", packet.0, self.meta(*field)),
            Op::MetaStore { packet, field, value } => {
                format!("{name} v{} {}, v{}", packet.0, self.meta(*field), value.0)
            }
            Op::Put { packet, channel } => {
                format!(
                    "{name} v{} -> {}",
                    packet.0,
                    name_of(&self.program.channels, channel.0, "channel", |c| &c.name)
                )
            }
            Op::Tap { packet, skip, metadata, channel } => {
                let channel = name_of(&self.program.channels, channel.0, "channel", |c| &c.name);
                let own = metadata.iter().map(|(field, value)| format!(", {} v{}", self.meta(*field), value.0));
                format!("{name} v{} + v{}{} -> {channel}", packet.0, skip.0, own.collect::<String>())
            }
            Op::Pass { channel } => {
                format!("{name} {}", name_of(&self.program.channels, channel.0, "channel", |c| &c.name))
            }
            Op::Time { ppf } => format!("{name} {}", name_of(&self.program.ppfs, ppf.0, "PPF", |p| &p.name)),
            Op::Found { table, entry } => format!("{name} {} v{}", self.table(*table), entry.0),
            Op::Drop { packet, reason } => {
                format!("{name} v{} {}", packet.0, name_of(&self.program.drop_reasons, reason.0, "reason", |r| &r.name))
            }
            Op::HoldPut { packet, table, key } => {
                format!("{name} v{} -> {}(v{})", packet.0, self.table(*table), key.0)
            }
            Op::HoldGet { table, key } => format!("{name} {}(v{})", self.table(*table), key.0),
            Op::Lookup { table, key } => format!("{name} {}({})", self.table(*table), values(key)),
            Op::EntryLoad { entry, field } => format!("{name} {}", self.entry_field(*entry, *field)),
            Op::EntryStore { entry, field, value } => {
                format!("{name} {}, v{}", self.entry_field(*entry, *field), value.0)
            }
            Op::Insert { table, key, value, new } => {
                let name = if *new { "insert_new" } else { name };
                format!("{name} {}({}) = ({})", self.table(*table), values(key), values(value))
            }
            Op::Remove { table, key } => format!("{name} {}({})", self.table(*table), values(key)),
            Op::SetDeadline { table, key, at } => {
                format!("{name} {}({}), v{}", self.table(*table), values(key), at.0)
            }
            Op::TakeDeadline { table, key } => format!("{name} {}({})", self.table(*table), values(key)),
            Op::Extern { function, args } => {
                let function = name_of(&self.program.externs, function.0, "extern", |f| &f.name);
                format!("{name} {function}({})", values(args))
            }
            Op::Take { entry, amount } => format!("{name} v{}, v{}", entry.0, amount.0),
            Op::Count { counter, index, amount } => {
                let counter = name_of(&self.program.counters, counter.0, "counter", |c| &c.name);
                format!("{name} {counter}[v{}], v{}", index.0, amount.0)
            }
            // The others have nothing but operands.
            _ => format!("{name} {}", values(&op.operands())).trim_end().to_string(),
        }
    }
}

fn bin_name(op: BinOp) -> &'static str {
    match op {
        BinOp::Add => "add",
        BinOp::Sub => "sub",
        BinOp::Mul => "mul",
        BinOp::UDiv => "udiv",
        BinOp::SDiv => "sdiv",
        BinOp::URem => "urem",
        BinOp::SRem => "srem",
        BinOp::And => "and",
        BinOp::Or => "or",
        BinOp::Xor => "xor",
        BinOp::Shl => "shl",
        BinOp::LShr => "lshr",
        BinOp::AShr => "ashr",
    }
}

fn cmp_name(op: CmpOp) -> &'static str {
    match op {
        CmpOp::Eq => "eq",
        CmpOp::Ne => "ne",
        CmpOp::Ult => "ult",
        CmpOp::Ule => "ule",
        CmpOp::Slt => "slt",
        CmpOp::Sle => "sle",
    }
}

fn cast_name(op: CastOp) -> &'static str {
    match op {
        CastOp::ZExt => "zext",
        CastOp::SExt => "sext",
        CastOp::Trunc => "trunc",
    }
}

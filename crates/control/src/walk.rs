//! What a packet does on its way through a program, in the program's names: as JSON, and as text for people.

use std::collections::HashSet;
use std::fmt::Write;

use baker::ir::interp::{End, RunError, Walk, WalkStep};
use baker::ir::{BitRange, Field, Layout, PpfId, Program, TableEntry, Target};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use utoipa::ToSchema;

use crate::entries::value::address;
use crate::entries::{Notation, text};
use crate::packet::{Layer, dissect, shown};

/// A step of a packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Step {
    /// Which packet: 0 is the one that came in, others were made of it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub packet: u32,
    /// What it does.
    #[serde(flatten)]
    pub what: What,
}

fn is_zero(packet: &u32) -> bool {
    *packet == 0
}

/// What packets do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum What {
    /// It comes to a PPF, whose the next steps are.
    Enter {
        /// The PPF.
        ppf: String,
        /// By which channel; none where a PPF goes on behind what it has put into one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        channel: Option<String>,
        /// Where the PPF runs, if that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        engine: Option<String>,
        /// The packet's length, from its head on.
        bytes: u32,
        /// Half of the packets were there for less than so many nanoseconds, when it was measured last.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usual_ns: Option<u64>,
    },
    /// A field of a header or of metadata, or other bytes, are read or written.
    Field {
        /// `HEADER.FIELD`, the name of the metadata, or which bytes.
        name: String,
        /// What is there, or is then.
        value: String,
        /// Whether it is written.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        written: bool,
    },
    /// Another header is at the packet's head.
    Header {
        /// Its protocol.
        protocol: String,
    },
    /// A table is asked.
    Lookup {
        /// The table.
        table: String,
        /// The key.
        key: Json,
        /// The value; none where nothing is found.
        found: Option<Json>,
    },
    /// An entry, or a field of it, is written.
    Write {
        /// The table.
        table: String,
        /// The key; none where a field is written of the entry that was found last.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<Json>,
        /// The value.
        value: Json,
        /// Whether there was room.
        done: bool,
    },
    /// An entry is removed.
    Remove {
        /// The table.
        table: String,
        /// The key.
        key: Json,
        /// Whether there was one.
        done: bool,
    },
    /// The program counts.
    Count {
        /// The counter.
        counter: String,
        /// Its cell.
        index: u64,
        /// How much is added.
        amount: u64,
    },
    /// It is made: a copy of another packet, or a new one.
    Made {
        /// Of which packet.
        of: Option<u32>,
    },
    /// It is held in a table until it is asked for.
    Held {
        /// The table.
        table: String,
    },
    /// It is dropped.
    Dropped {
        /// Why, as the counters name it.
        reason: String,
    },
    /// It leaves the program.
    Left {
        /// By which channel.
        channel: Option<String>,
        /// Where to: `port NAME`, `host`, or a controller, a queue or a group.
        to: String,
    },
    /// The rest is not known.
    Unknown {
        /// Why.
        why: String,
    },
}

/// Names steps.
pub struct Namer<'n> {
    /// The program.
    pub program: &'n Program,
    /// How its entries are written.
    pub notation: &'n Notation,
    /// What runs a PPF, if that is known.
    pub engine: &'n dyn Fn(&str) -> Option<String>,
}

/// Names of bytes of a packet by the headers that it came in with.
struct Headers {
    layers: Vec<Layer>,
    /// Packets that other headers were put in front of: theirs lie elsewhere.
    changed: HashSet<u32>,
}

impl Headers {
    /// Headers are put in front of packets, and packets are made.
    fn follow(&mut self, step: &WalkStep) {
        let changed = match step {
            WalkStep::Header { packet, added: true, .. } | WalkStep::Made { packet, of: None } => Some(*packet),
            WalkStep::Made { packet, of: Some(of) } if self.changed.contains(of) => Some(*packet),
            _ => None,
        };
        self.changed.extend(changed);
    }
}

impl Namer<'_> {
    /// The steps of the walk of a packet. What is read several times by the same PPF is there once.
    pub fn steps(&self, packet: &[u8], walk: &Walk) -> Vec<Step> {
        let mut headers = Headers { layers: dissect(self.program, packet), changed: HashSet::new() };
        let program = self.program;
        let mut steps: Vec<Step> = Vec::new();
        let mut seen: HashSet<(u32, String, String)> = HashSet::new();
        let (mut resumed, mut channel) = (None, None);
        for step in &walk.steps {
            headers.follow(step);
            match step {
                WalkStep::Resumed(ppf) => resumed = Some(*ppf),
                WalkStep::Put { packet, channel: by, bytes } => {
                    let by = &program.channels[by.0 as usize];
                    if let Target::Ppf(ppf) = by.target {
                        (resumed, channel) = (None, None);
                        seen.clear();
                        steps.push(Step { packet: *packet, what: self.enter(ppf, Some(&by.name), *bytes) });
                    } else {
                        channel = Some(by.name.clone());
                    }
                }
                _ => {}
            }
            let Some((packet, what)) = self.named(step, &headers, &mut channel) else { continue };
            if let What::Field { name, value, written } = &what {
                let is_new = seen.insert((packet, name.clone(), value.clone()));
                if !is_new && !written {
                    continue;
                }
            }
            if let Some(ppf) = resumed.take() {
                steps.push(Step { packet, what: self.enter(ppf, None, 0) });
            }
            steps.push(Step { packet, what });
        }
        let unknown = |why| Step { packet: 0, what: What::Unknown { why } };
        steps.extend(walk.is_cut.then(|| unknown("it does more than is noted of one packet".into())));
        steps.extend(walk.failed.iter().map(|error| unknown(why(error))));
        steps
    }

    fn enter(&self, ppf: PpfId, channel: Option<&String>, bytes: u32) -> What {
        let ppf = self.program.ppfs[ppf.0 as usize].name.clone();
        let engine = (self.engine)(&ppf);
        What::Enter { ppf, channel: channel.cloned(), engine, bytes, usual_ns: None }
    }

    /// A step with its packet; what only says where packets go is none.
    fn named(&self, step: &WalkStep, headers: &Headers, channel: &mut Option<String>) -> Option<(u32, What)> {
        let program = self.program;
        let table = |table: &baker::ir::TableId| program.tables[table.0 as usize].name.clone();
        let key = |table: &baker::ir::TableId, key: &[u128]| {
            let entry = TableEntry { key: key.to_vec(), prefix_len: None, value: Vec::new() };
            self.notation.show_key(*table, &entry)
        };
        Some(match step {
            WalkStep::Field { packet, protocol, field, value, written } => {
                let protocol = &program.protocols[protocol.0 as usize];
                let field = &protocol.fields[*field];
                let name = format!("{}.{}", protocol.name, field.name);
                (*packet, What::Field { name, value: shown(field, *value), written: *written })
            }
            WalkStep::Bytes { packet, from_start: Some(bits), value, written, .. }
                if let Some((name, field)) = self.field(headers, *packet, *bits) =>
            {
                (*packet, What::Field { name, value: shown(field, *value), written: *written })
            }
            WalkStep::Bytes { packet, bits, value, written, .. } => {
                let (first, last) = (bits.offset / 8, (bits.offset + bits.width - 1) / 8);
                let name = if first == last { format!("byte {first}") } else { format!("bytes {first} to {last}") };
                (*packet, What::Field { name, value: format!("{value:#x}"), written: *written })
            }
            WalkStep::Meta { packet, field, value, written } => {
                let field = &program.metadata[field.0 as usize];
                let value = match field.name.as_str() {
                    "rx.port" | "tx.port" => self.notation.ports().shown(*value as u8),
                    _ => address(field.width, &field.type_name, *value).unwrap_or_else(|| value.to_string()),
                };
                (*packet, What::Field { name: field.name.clone(), value, written: *written })
            }
            WalkStep::Header { packet, protocol, .. } => {
                (*packet, What::Header { protocol: program.protocols[protocol.0 as usize].name.clone() })
            }
            WalkStep::Lookup { table: of, key: of_key, found } => {
                let found = found.as_ref().map(|value| self.notation.show_value(*of, value));
                (0, What::Lookup { table: table(of), key: key(of, of_key), found })
            }
            WalkStep::EntryField { table: of, field, value } => {
                let layout: &Layout = &program.layouts[program.tables[of.0 as usize].value.0 as usize];
                let name = layout.fields.get(*field as usize).map_or("", |field| &field.name);
                let value = match name {
                    "" => value.to_string().into(),
                    name => Json::String(format!("{name} = {value}")),
                };
                (0, What::Write { table: table(of), key: None, value, done: true })
            }
            WalkStep::Change { table: of, key: of_key, value: Some(value), done } => {
                let value = self.notation.show_value(*of, value);
                (0, What::Write { table: table(of), key: Some(key(of, of_key)), value, done: *done })
            }
            WalkStep::Change { table: of, key: of_key, value: None, done } => {
                (0, What::Remove { table: table(of), key: key(of, of_key), done: *done })
            }
            WalkStep::Count { counter, index, amount } => {
                let counter = program.counters[counter.0 as usize].name.clone();
                (0, What::Count { counter, index: *index as u64, amount: *amount as u64 })
            }
            WalkStep::Made { packet, of } => (*packet, What::Made { of: *of }),
            WalkStep::Held { packet, table: of } => (*packet, What::Held { table: table(of) }),
            WalkStep::Dropped { packet, reason } => {
                (*packet, What::Dropped { reason: program.drop_reasons[reason.0 as usize].name.clone() })
            }
            WalkStep::Left { packet, end, port } => {
                let to = match end {
                    End::Tx => format!("port {}", self.notation.ports().shown(*port)),
                    End::Host => "host".into(),
                    End::Controller(channel) => self.target(channel.0 as usize),
                };
                (*packet, What::Left { channel: channel.take(), to })
            }
            WalkStep::Put { .. } | WalkStep::Resumed(_) => return None,
        })
    }

    /// The field that is at a place of the packet as it came in.
    fn field(&self, headers: &Headers, packet: u32, bits: BitRange) -> Option<(String, &Field)> {
        let layer = headers.layers.iter().find(|layer| layer.bytes.contains(&(bits.offset as usize / 8)))?;
        let protocol = &self.program.protocols[layer.protocol];
        let offset = bits.offset - 8 * layer.bytes.start as u32;
        let field = protocol.fields.iter().find(|field| field.bits == BitRange { offset, ..bits })?;
        (!headers.changed.contains(&packet)).then(|| (format!("{}.{}", protocol.name, field.name), field))
    }

    fn target(&self, channel: usize) -> String {
        match &self.program.channels[channel].target {
            Target::Controller(id) => format!("controller {}", self.program.controllers[id.0 as usize].name),
            Target::Queue(..) => "a queue".into(),
            Target::Group(..) => "each member of a group".into(),
            Target::Tx => "tx".into(),
            Target::Host => "host".into(),
            Target::Ppf(ppf) => self.program.ppfs[ppf.0 as usize].name.clone(),
        }
    }
}

/// Why a walk has ended early.
fn why(error: &RunError) -> String {
    match error {
        RunError::NoExterns { ppf } => format!("{ppf} calls a function of a controller, which a trace does not"),
        error => error.to_string(),
    }
}

/// The steps for people, a line each; those of a PPF are indented below it.
pub fn lines(steps: &[Step]) -> String {
    let mut out = String::new();
    for Step { packet, what } in steps {
        let of = if *packet == 0 { String::new() } else { format!("packet {packet}: ") };
        let _ = match what {
            What::Enter { ppf, channel: Some(channel), engine, bytes, usual_ns } => {
                let engine = engine.as_ref().map(|engine| format!(" ({engine})")).unwrap_or_default();
                let usual = usual_ns.map(|time| format!(", usually <{time} ns")).unwrap_or_default();
                writeln!(out, "  {of}{channel} -> {ppf}{engine}, {bytes} bytes{usual}")
            }
            What::Enter { ppf, channel: None, .. } => writeln!(out, "  {of}{ppf} goes on"),
            What::Field { name, value, written: false } => writeln!(out, "    {of}{name} is {value}"),
            What::Field { name, value, written: true } => writeln!(out, "    {of}{name} := {value}"),
            What::Header { protocol } => writeln!(out, "    {of}head at {protocol}"),
            What::Lookup { table, key, found: Some(found) } => {
                writeln!(out, "    {of}look-up in {table}: {} has {}", text(key), text(found))
            }
            What::Lookup { table, key, found: None } => {
                writeln!(out, "    {of}look-up in {table}: {} is not there", text(key))
            }
            What::Write { table, key: Some(key), value, done } => {
                let refused = if *done { "" } else { ", refused" };
                writeln!(out, "    {of}{table}: {} := {}{refused}", text(key), text(value))
            }
            What::Write { table, key: None, value, .. } => writeln!(out, "    {of}entry of {table}: {}", text(value)),
            What::Remove { table, key, done } => {
                let none = if *done { "" } else { ", which is not there" };
                writeln!(out, "    {of}{table}: {} removed{none}", text(key))
            }
            What::Count { counter, index, amount } => writeln!(out, "    {of}{counter}[{index}] += {amount}"),
            What::Made { of: Some(from) } => writeln!(out, "    {of}copy of packet {from}"),
            What::Made { of: None } => writeln!(out, "    {of}new"),
            What::Held { table } => writeln!(out, "    {of}held in {table}"),
            What::Dropped { reason } => writeln!(out, "    {of}dropped: {reason}"),
            What::Left { channel, to } => {
                let by = channel.as_ref().map(|channel| format!("{channel} -> ")).unwrap_or_default();
                writeln!(out, "  {of}{by}{to}")
            }
            What::Unknown { why } => writeln!(out, "  {of}the rest is not known: {why}"),
        };
    }
    out
}

//! What another process has left in the program's tables, or a controller that has failed.

use std::collections::HashMap;
use std::net::Ipv6Addr;
use std::time::Duration;

use baker::ir::{Program, TableEntry, TableId, TableStore};
use dataplane::controller::NamedTables;
use wire::flow_key::FlowKey;

use crate::tables::{CREDIT, LeftConnection};

/// A table of the program's own, read by the names of its fields.
struct Fields {
    table: TableId,
    places: HashMap<String, usize>,
    capacity: u32,
}

impl Fields {
    fn of(program: &Program, name: &str) -> Result<Fields, String> {
        let found = program.tables.iter().enumerate().find(|(_, table)| table.name == name);
        let (index, table) = found.ok_or_else(|| format!("the program has no table {name}"))?;
        let layout = program.shown_value(table);
        let places = layout.fields.iter().enumerate().map(|(at, field)| (field.name.clone(), at)).collect();
        Ok(Fields { table: TableId(index as u32), places, capacity: table.capacity })
    }

    fn entry(&self, tables: &NamedTables, key: u32) -> Option<Entry<'_>> {
        let values = tables.access().get(self.table, &[key.into()], None).ok()?;
        Some(Entry { fields: self, values })
    }
}

struct Entry<'f> {
    fields: &'f Fields,
    values: Vec<u128>,
}

impl Entry<'_> {
    /// A field that there is; see [`REQUIRED`].
    fn get(&self, name: &str) -> u128 {
        self.fields.places.get(name).and_then(|at| self.values.get(*at)).copied().unwrap_or_default()
    }

    fn number(&self, name: &str) -> u32 {
        self.get(name) as u32
    }

    fn address(&self, name: &str) -> Ipv6Addr {
        self.get(name).into()
    }

    fn is(&self, name: &str) -> bool {
        self.get(name) != 0
    }
}

/// What is asked for, of connections and of segments that are under way.
const REQUIRED: [&str; 22] = [
    "state",
    "generation",
    "client",
    "own",
    "client_port",
    "own_port",
    "stream",
    "heard",
    "base",
    "acked",
    "sent",
    "first",
    "count",
    "documents",
    "document",
    "delivered",
    "turn",
    "closing",
    "closed",
    "ended",
    "live",
    "room",
];
/// Behind whose documents the stream (`NEXT_STREAM`), or the end (`NEXT_CLOSE`) follows.
const STREAM: u32 = 1;
const CLOSE: u32 = 2;
/// Bits of a segment's length, and the one that says that it is a document's.
const LENGTH: u32 = 0x7ff;
const DOCUMENT: u32 = 0x1000;

/// Connections that are there.
pub fn connections(program: &Program, tables: &NamedTables) -> Result<Vec<LeftConnection>, String> {
    let own = Fields::of(program, "sender.connections")?;
    let segments = Fields::of(program, "sender.segments")?;
    let missing = REQUIRED.iter().find(|name| !own.places.contains_key(**name));
    if let Some(name) = missing.or_else(|| ["length"].iter().find(|name| !segments.places.contains_key(**name))) {
        return Err(format!("connections, or their segments, have no field {name}"));
    }
    let each = segments.capacity / own.capacity;
    let one = |number: u32| {
        let entry = own.entry(tables, number).filter(|entry| entry.is("state"))?;
        Some(LeftConnection {
            number,
            generation: entry.number("generation"),
            key: FlowKey {
                src: entry.address("client"),
                dst: entry.address("own"),
                src_port: entry.get("client_port") as u16,
                dst_port: entry.get("own_port") as u16,
            },
            stream: entry.number("stream"),
            documents: entry.number("documents"),
            delivered: entry.number("delivered"),
            ends: entry.is("closing") || entry.is("closed") || entry.is("ended") || entry.number("turn") == CLOSE,
            plays: entry.is("live") || entry.number("turn") == STREAM,
            is_idle: entry.number("documents") == entry.number("delivered") && entry.number("room") == CREDIT,
            heard: Duration::from_nanos(entry.get("heard") as u64),
            is_sound: is_sound(&entry, number * each, each, |at| Some(segments.entry(tables, at)?.number("length"))),
        })
    };
    Ok((1..own.capacity).filter_map(one).collect())
}

/// What is asked of connections at the end of the process.
pub struct Ends(Fields);

impl Ends {
    /// Those of a program.
    pub fn of(program: &Program) -> Result<Ends, String> {
        Ok(Ends(Fields::of(program, "sender.connections")?))
    }

    /// Whether a connection is over, or its client has all of it, and its end.
    pub fn has_come(&self, tables: &NamedTables, number: u32) -> bool {
        let over = |own: Entry| !own.is("state") || (own.is("closed") && own.get("acked") == own.get("sent"));
        self.0.entry(tables, number).is_none_or(over)
    }
}

/// Whether what is under way adds up. A process that was killed may have been in the middle of a change, and numbers
/// that do not would give a client wrong bytes.
fn is_sound(own: &Entry, from: u32, each: u32, length: impl Fn(u32) -> Option<u32>) -> bool {
    let (first, count) = (own.number("first"), own.number("count"));
    if count > each || first >= each {
        return false;
    }
    let lengths: Option<Vec<u32>> = (0..count).map(|k| length(from + (first + k) % each)).collect();
    let Some(lengths) = lengths else { return false };
    let bytes: u32 = lengths.iter().map(|own| own & LENGTH).sum();
    let documents = lengths.iter().filter(|own| *own & DOCUMENT != 0).count() as u32;
    let under_way = own.number("sent").wrapping_sub(own.number("base"));
    let acked = own.number("acked").wrapping_sub(own.number("base"));
    // The end takes a number, too.
    let end = u32::from(own.is("closed"));
    under_way == bytes + end
        && acked <= under_way
        && own.number("document").wrapping_sub(own.number("delivered")) == documents
}

/// Flows whose requests are not answered.
pub fn held(program: &Program, tables: &NamedTables) -> Result<Vec<FlowKey>, String> {
    let own = Fields::of(program, "clients.flows")?;
    let at = own.places.get("connection").copied().ok_or("flows have no field connection")?;
    let key = |entry: TableEntry| {
        let [src, dst, src_port, dst_port] = <[u128; 4]>::try_from(entry.key).ok()?;
        let is_held = entry.value.get(at) == Some(&0);
        is_held.then_some(FlowKey {
            src: src.into(),
            dst: dst.into(),
            src_port: src_port as u16,
            dst_port: dst_port as u16,
        })
    };
    Ok(tables.access().dump(own.table).into_iter().filter_map(key).collect())
}

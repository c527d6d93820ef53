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
const REQUIRED: [&str; 25] = [
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
    "head",
    "tail",
    "first",
    "count",
    "page",
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
/// Bits of a segment (`segment_t`): that it is of a document, that it goes on with the packet before; its length.
const DOCUMENT: u32 = 0x1000;
const PART: u32 = 0x800;
const LENGTH: u32 = 0x7ff;
/// Of a stream's: how many packets of MPEG-TS it has, and their bytes.
const TS_COUNT: u32 = 0xf;
const TS: u32 = 188;

/// How often a connection is read that does not add up: packets may pass meanwhile, and change it.
const READINGS: usize = 4;

/// Connections that are there.
pub fn connections(program: &Program, tables: &NamedTables) -> Result<Vec<LeftConnection>, String> {
    let own = Fields::of(program, "sender.connections")?;
    let segments = Fields::of(program, "sender.segments")?;
    let chain = Fields::of(program, "sender.chain")?;
    let missing = REQUIRED.iter().find(|name| !own.places.contains_key(**name));
    if let Some(name) = missing.or_else(|| ["code"].iter().find(|name| !segments.places.contains_key(**name))) {
        return Err(format!("connections, or their segments, have no field {name}"));
    }
    let blocks = Blocks {
        size: segments.capacity / chain.capacity,
        code: &|place| Some(segments.entry(tables, place)?.number("code")),
        next: &|block| chain.entry(tables, block)?.values.first().map(|next| *next as u32),
    };
    let read = |number: u32| {
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
            is_sound: is_sound(&entry, &blocks),
        })
    };
    let one = |number: u32| {
        let mut found = read(number)?;
        for _ in 1..READINGS {
            if found.is_sound {
                break;
            }
            found = read(number)?;
        }
        Some(found)
    };
    Ok((1..own.capacity).filter_map(one).collect())
}

/// Segments under way, in blocks: what is at a place, and which block follows a block.
struct Blocks<'t> {
    size: u32,
    code: &'t dyn Fn(u32) -> Option<u32>,
    next: &'t dyn Fn(u32) -> Option<u32>,
}

impl Blocks<'_> {
    /// The segments of a connection. None: they are no list that ends where it says.
    fn of(&self, own: &Entry) -> Option<Vec<u32>> {
        let (mut block, mut at) = (own.number("head"), own.number("first"));
        let mut codes = Vec::new();
        for k in 0..own.number("count") {
            if k > 0 && at == self.size {
                (block, at) = ((self.next)(block)?, 0);
            }
            if block == 0 || at >= self.size {
                return None;
            }
            codes.push((self.code)(block * self.size + at)?);
            at += 1;
        }
        let is_end = block == 0 || block == own.number("tail") && (self.next)(block)? == 0;
        is_end.then_some(codes)
    }
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
fn is_sound(own: &Entry, blocks: &Blocks) -> bool {
    let Some(codes) = blocks.of(own) else { return false };
    let is_document = |code: u32| code & DOCUMENT != 0;
    let bytes = |code: u32| if is_document(code) { code & LENGTH } else { (code & TS_COUNT) * TS };
    // What has no bytes is no segment. The first one's packet may have begun before.
    let documents: Vec<u32> = codes.iter().copied().filter(|own| is_document(*own) && bytes(*own) != 0).collect();
    let begin = documents.iter().enumerate().filter(|(at, own)| *at == 0 || **own & PART == 0).count() as u32;
    let whole = own.number("document").wrapping_sub(own.number("delivered"));
    let unfinished = u32::from(own.is("page"));
    let under_way = own.number("sent").wrapping_sub(own.number("base"));
    let acked = own.number("acked").wrapping_sub(own.number("base"));
    // The end takes a number, too.
    let end = u32::from(own.is("closed"));
    under_way == codes.iter().copied().map(bytes).sum::<u32>() + end
        && acked <= under_way
        && (whole..=whole + unfinished).contains(&begin)
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

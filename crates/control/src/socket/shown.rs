//! The program that runs, as clients of the socket see it: its tables, in the notation of the configuration.

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baker::ir::interp::{Machine, Walk};
use baker::ir::{Program, TableEntry, TableError, TableId, TableStore, prefix_mask};
use baker::opt::explain::explain;
use dataplane::TableAccess;
use serde_json::{Value as Json, json};

use super::costs::PacketCosts;
use super::graph::Graph;
use super::line::Writer;
use super::protocol::{Code, Entry, Found, MAX_FOUND, Refusal, Reply, TableInfo};
use super::reply::done;
use crate::entries::{EntryError, EntryFault, Notation, text};
use crate::exits::Exits;
use crate::messages::list;
use crate::packet::{self, Condition};
use crate::walk::{Namer, Step, What};

/// A program with its tables.
pub struct Shown {
    program: Arc<Program>,
    notation: Notation,
    graph: Graph,
    exits: Exits,
    /// Writers one after the other: the data plane would not mind, but `table_set` reads what it wrote.
    tables: Mutex<TableAccess>,
    /// The same, for those who only count.
    counted: TableAccess,
}

/// What takes packets through a program, step by step: with no entries yet but those of the running instance.
pub(super) struct Walker(Machine);

impl std::fmt::Debug for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shown").finish_non_exhaustive()
    }
}

impl Shown {
    /// With how it is wired, what becomes of packets that leave it, its tables, and the notation of their entries.
    pub fn new(
        program: Arc<Program>,
        (graph, exits): (Graph, Exits),
        notation: Notation,
        tables: TableAccess,
    ) -> Arc<Self> {
        let counted = tables.clone();
        Arc::new(Shown { program, notation, graph, exits, tables: Mutex::new(tables), counted })
    }

    /// How it is wired.
    pub(super) fn graph(&self) -> &Graph {
        &self.graph
    }

    /// What takes packets through the program, with its tables.
    pub(super) fn walker(&self) -> Walker {
        Walker(Machine::over(self.program.clone(), Arc::new(self.counted.clone())))
    }

    /// What a packet does that comes in on a port, with the tables as they are now; and why it is dropped, if it is.
    pub(super) fn walk(&self, walker: &Walker, port: u8, packet: &[u8]) -> (Vec<Step>, Option<String>) {
        let walk = self.walk_of(walker, port, packet);
        let engine = |ppf: &str| self.engine(ppf);
        let namer = Namer { program: &self.program, notation: &self.notation, engine: &engine };
        let steps = self.exits.follow(&self.program, port, namer.steps(packet, &walk));
        let reason = |step: &Step| if let What::Dropped { reason } = &step.what { Some(reason.clone()) } else { None };
        let reason = steps.iter().find_map(reason);
        (steps, reason)
    }

    /// As [`Shown::walk`], in the program's numbers.
    pub(super) fn walk_of(&self, walker: &Walker, port: u8, packet: &[u8]) -> Walk {
        let mut machine = walker.0.clone();
        machine.set_now(dataplane::monotonic_ns());
        machine.walk(Program::RX, packet, &[port.into()])
    }

    /// What the program's accesses to packets cost, of these packets with the ports where they came in, and the tables
    /// as they are now.
    pub(super) fn costs(&self, packets: &[(u8, Vec<u8>)]) -> PacketCosts {
        let source: Arc<TableAccess> = Arc::new(self.counted.clone());
        let Ok(found) = explain(&self.program, packets, |stage| {
            let mut machine = Machine::over(stage, source.clone());
            machine.set_now(dataplane::monotonic_ns());
            Ok::<_, Infallible>(machine)
        });
        PacketCosts::new(&self.program, &found, |ppf| self.engine(ppf))
    }

    /// What runs a PPF.
    pub(super) fn engine(&self, ppf: &str) -> Option<String> {
        self.graph.nodes.iter().find(|node| node.name == ppf)?.engine.clone()
    }

    /// The name of a port.
    pub(super) fn port(&self, number: u8) -> String {
        self.notation.ports().shown(number)
    }

    /// The number of a port.
    pub(super) fn port_number(&self, name: &str) -> Result<u8, Refusal> {
        let names = self.notation.ports();
        names.number(name).ok_or_else(|| {
            let message = format!("there is no port {name:?}; there are {}", list(names.names()));
            Refusal { code: Code::NotFound, message }
        })
    }

    /// A condition on packets.
    pub(super) fn condition(&self, text: &str) -> Result<Condition, Refusal> {
        Condition::read(&self.program, text).map_err(|message| Refusal { code: Code::BadValue, message })
    }

    /// Whether all of these hold of a packet.
    pub(super) fn all_hold(&self, conditions: &[Condition], packet: &[u8]) -> bool {
        conditions.iter().all(|condition| condition.holds(&self.program, packet))
    }

    /// The headers of a packet.
    pub(super) fn headers(&self, packet: &[u8]) -> String {
        packet::text(&self.program, packet)
    }

    /// All tables.
    pub(super) fn tables_info(&self) -> Vec<TableInfo> {
        self.infos(&self.lock(), |_| true)
    }

    fn infos(&self, tables: &TableAccess, is_counted: impl Fn(&TableInfo) -> bool) -> Vec<TableInfo> {
        let program = &self.program;
        let info = |(index, table): (usize, &baker::ir::Table)| {
            let info = TableInfo {
                name: table.name.clone(),
                kind: table.kind_row().name.into(),
                key: type_name(&program.layouts[table.key.0 as usize]),
                value: type_name(&program.shown_value(table)),
                entries: 0,
                capacity: table.capacity,
            };
            let entries = if is_counted(&info) { tables.count(TableId(index as u32)) } else { 0 };
            TableInfo { entries, ..info }
        };
        program.tables.iter().enumerate().map(info).collect()
    }

    /// All tables, without counting what is set in arrays, which would mean to look at each entry. Nobody waits for it,
    /// and it does not wait for who changes them.
    pub(super) fn sizes(&self) -> Vec<TableInfo> {
        self.infos(&self.counted, |table| !table.is_array())
    }

    pub(super) fn get(&self, table: &str, key: &Json) -> Result<Entry, Refusal> {
        let id = self.notation.table(table)?;
        if let Some(address) = self.notation.address(id, key) {
            let found = self.longest(id, address);
            return found.ok_or_else(|| self.refused(id, key, TableError::NotFound));
        }
        let (numbers, prefix_len) = self.notation.key(id, key)?;
        let value = self.lock().get(id, &numbers, prefix_len).map_err(|error| self.refused(id, key, error))?;
        Ok(self.entry(id, &TableEntry { key: numbers, prefix_len, value }))
    }

    /// The entry of the longest prefix of an address.
    fn longest(&self, table: TableId, address: u128) -> Option<Entry> {
        let width = self.program.layouts[self.program.tables[table.0 as usize].key.0 as usize].fields[0].width;
        let tables = self.lock();
        (0..=width).rev().find_map(|length| {
            let prefix = address & prefix_mask(width, length)?;
            let value = tables.get(table, &[prefix], Some(length)).ok()?;
            Some(self.entry(table, &TableEntry { key: vec![prefix], prefix_len: Some(length), value }))
        })
    }

    pub(super) fn set(&self, table: &str, key: &Json, value: &Json) -> Result<Entry, Refusal> {
        let id = self.notation.table(table)?;
        if let Some(group) = self.notation.joined(id, key)? {
            let value = self.notation.value(id, key, value)?;
            let joined = self.lock().join(id, group, &value);
            let member = joined.map_err(|error| self.refused(id, key, error))?;
            let key = vec![group.into(), member.into()];
            return Ok(self.entry(id, &TableEntry { key, prefix_len: None, value }));
        }
        let entry = self.read(id, key, value)?;
        self.lock().insert(id, &entry).map_err(|error| self.refused(id, key, error))?;
        Ok(self.entry(id, &entry))
    }

    /// An entry as it is written, which may be set.
    fn read(&self, table: TableId, key: &Json, value: &Json) -> Result<TableEntry, Refusal> {
        self.notation.may_change(table)?;
        let (numbers, prefix_len) = self.notation.key(table, key)?;
        let value = self.notation.value(table, key, value)?;
        self.notation.leads(table, key, &value, |table, key| self.lock().get(table, &[key], None).ok())?;
        Ok(TableEntry { key: numbers, prefix_len, value })
    }

    pub(super) fn load(&self, table: &str, entries: &[Entry]) -> Result<(), Refusal> {
        let id = self.notation.table(table)?;
        let read = |Entry { key, value }: &Entry| self.read(id, key, value);
        let numbers = entries.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let mut taken = 0;
        let result = self.lock().insert_all(id, &mut numbers.iter().inspect(|_| taken += 1));
        // The last one that the table looked at is the one that it refused.
        result.map_err(|error| self.refused(id, &entries[taken - 1].key, error))
    }

    /// Removes an entry; its key as it is shown.
    pub(super) fn delete(&self, table: &str, key: &Json) -> Result<Json, Refusal> {
        let id = self.notation.table(table)?;
        self.notation.may_change(id)?;
        let (numbers, prefix_len) = self.notation.key(id, key)?;
        self.lock().remove(id, &numbers, prefix_len).map_err(|error| self.refused(id, key, error))?;
        Ok(self.notation.show_key(id, &TableEntry { key: numbers, prefix_len, value: Vec::new() }))
    }

    pub(super) fn dump(&self, table: &str, out: &mut Writer) -> Result<io::Result<()>, Refusal> {
        let id = self.notation.table(table)?;
        // Not under the lock: a dump of a large table takes long, and a native one is taken beside changes.
        let tables = self.lock().clone();
        let entries = tables.dump(id);
        let lines = entries.iter().map(|entry| Reply::<()>::Entry(self.entry(id, entry)));
        let sent = lines.into_iter().try_for_each(|line| out.line(&line));
        Ok(sent.and_then(|()| done(out, &json!({ "entries": entries.len() }))))
    }

    /// Entries with `search` in them, in the order of their keys.
    pub(super) fn find(&self, table: &str, search: &str, after: Option<&Json>, limit: usize) -> Result<Found, Refusal> {
        if !(1..=MAX_FOUND).contains(&limit) {
            let message = format!("limit {limit}: accepted: 1 to {MAX_FOUND}");
            return Err(Refusal { code: Code::BadRequest, message });
        }
        let id = self.notation.table(table)?;
        let after = after.map(|after| self.notation.key(id, after)).transpose()?;
        let tables = self.lock().clone();
        let all = tables.dump(id);
        let place = |entry: &&TableEntry| (entry.key.clone(), entry.prefix_len);
        let mut behind: Vec<&TableEntry> =
            all.iter().filter(|entry| after.as_ref().is_none_or(|after| place(entry) > *after)).collect();
        behind.sort_unstable_by(|a, b| (&a.key, a.prefix_len).cmp(&(&b.key, b.prefix_len)));
        let search = search.to_lowercase();
        let has = |entry: &Entry| {
            let has = |json: &Json| text(json).to_lowercase().contains(&search);
            search.is_empty() || has(&entry.key) || has(&entry.value)
        };
        let mut found = behind.into_iter().map(|entry| self.entry(id, entry)).filter(has);
        let entries = found.by_ref().take(limit).collect();
        Ok(Found { entries, more: found.next().is_some() })
    }

    fn entry(&self, table: TableId, entry: &TableEntry) -> Entry {
        Entry { key: self.notation.show_key(table, entry), value: self.notation.show_value(table, &entry.value) }
    }

    fn refused(&self, table: TableId, key: &Json, error: TableError) -> Refusal {
        self.notation.refused(table, key, error).into()
    }

    fn lock(&self) -> MutexGuard<'_, TableAccess> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<EntryError> for Refusal {
    fn from(error: EntryError) -> Self {
        let code = match error.fault {
            EntryFault::Table => Code::UnknownTable,
            EntryFault::Key => Code::BadKey,
            EntryFault::Value => Code::BadValue,
            EntryFault::NotFound => Code::NotFound,
            EntryFault::Full => Code::TableFull,
            EntryFault::Busy => Code::Busy,
        };
        Refusal { code, message: error.to_string() }
    }
}

fn type_name(layout: &baker::ir::Layout) -> String {
    match &layout.fields[..] {
        [field] if field.name.is_empty() => field.type_name.clone(),
        _ => layout.name.clone(),
    }
}

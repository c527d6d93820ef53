//! Answers requests from the running instance.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::Instant;

use baker::ir::{Program, TableEntry, TableError, TableId, TableKind, TableStore};
use dataplane::{Observer, TableAccess};
use serde::Serialize;
use serde_json::{Value as Json, json};

use super::line::Writer;
use super::protocol::{
    Code, Counters, Entry, Refusal, Reloaded, Reply, Request, Status, TableInfo, TableKindName, TimerState,
};
use crate::config::{EntryError, EntryFault, Notation, text};

/// What an instance says about itself; the rest of [`Status`] is known here.
pub type About = Status;

/// Reads the configuration again and puts it in force, or says why not.
pub type Reload = Box<dyn Fn() -> Result<Reloaded, String> + Send + Sync>;

/// A running instance, for those who ask about it.
pub struct Service {
    about: About,
    started: Instant,
    program: Arc<Program>,
    notation: Notation,
    observer: Observer,
    /// Writers one after the other: the data plane would not mind, but `table_set` reads what it wrote.
    tables: Mutex<TableAccess>,
    /// A dump holds a copy of a table, so there is one at a time.
    dump: Mutex<()>,
    stop: Arc<AtomicBool>,
    reload: Reload,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("about", &self.about).finish_non_exhaustive()
    }
}

/// Who asks, for the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    pub pid: i32,
    pub uid: u32,
}

impl Service {
    /// Answers for an instance that just started; `stop` is set when it is asked to end, `reload` called when it is asked to
    /// read its configuration again.
    pub fn new(
        about: About,
        program: Arc<Program>,
        notation: Notation,
        observer: Observer,
        tables: TableAccess,
        stop: Arc<AtomicBool>,
        reload: Reload,
    ) -> Self {
        let (tables, dump) = (Mutex::new(tables), Mutex::new(()));
        Service { about, started: Instant::now(), program, notation, observer, tables, dump, stop, reload }
    }

    /// Answers one line. An error is one of the connection.
    pub(super) fn answer(&self, line: &[u8], peer: Peer, out: &mut Writer) -> io::Result<()> {
        let request = match serde_json::from_slice::<Request>(line) {
            Ok(request) => request,
            Err(error) => {
                let message = format!("not a request: {error}");
                return refuse(out, Refusal { code: Code::BadRequest, message });
            }
        };
        match self.execute(request, peer, out) {
            Ok(result) => result,
            Err(refusal) => refuse(out, refusal),
        }
    }

    /// Does what is asked and writes the reply, or says why not.
    fn execute(&self, request: Request, peer: Peer, out: &mut Writer) -> Result<io::Result<()>, Refusal> {
        Ok(match request {
            Request::Status => done(out, &self.status()),
            Request::Counters => done(out, &Counters::from(self.observer.snapshot())),
            Request::Tables => done(out, &self.tables_info()),
            Request::TableGet { table, key } => done(out, &self.get(&table, &key)?),
            Request::TableSet { table, key, value } => {
                let entry = self.set(&table, &key, &value)?;
                let Peer { pid, uid } = peer;
                tracing::info!(table, key = text(&entry.key), value = text(&entry.value), pid, uid, "table entry set");
                done(out, &entry)
            }
            Request::TableLoad { table, entries } => {
                self.load(&table, &entries)?;
                let Peer { pid, uid } = peer;
                tracing::info!(table, entries = entries.len(), pid, uid, "table entries set");
                done(out, &json!({ "entries": entries.len() }))
            }
            Request::TableDel { table, key } => {
                let key = self.delete(&table, &key)?;
                tracing::info!(table, key = text(&key), pid = peer.pid, uid = peer.uid, "table entry removed");
                done(out, &json!({}))
            }
            Request::TableDump { table } => self.dump(&table, out)?,
            Request::Reload => {
                let reloaded = (self.reload)();
                let reloaded = reloaded.map_err(|message| Refusal { code: Code::BadConfiguration, message })?;
                let Peer { pid, uid } = peer;
                tracing::info!(controllers = reloaded.controllers.join(", "), pid, uid, "configuration read again");
                done(out, &reloaded)
            }
            Request::Stop => {
                tracing::info!(pid = peer.pid, uid = peer.uid, "told to stop");
                // The answer goes first: afterwards the connection is closed at any moment.
                let answered = done(out, &json!({}));
                self.stop.store(true, Ordering::Relaxed);
                answered
            }
        })
    }

    fn status(&self) -> Status {
        let uptime = self.started.elapsed().as_millis();
        let timers = self.observer.snapshot().timers.into_iter().map(TimerState::named).collect();
        Status { uptime_ms: u64::try_from(uptime).unwrap_or(u64::MAX), timers, ..self.about.clone() }
    }

    fn tables_info(&self) -> Vec<TableInfo> {
        let tables = self.lock();
        let info = |(index, table): (usize, &baker::ir::Table)| TableInfo {
            name: table.name.clone(),
            kind: match table.kind {
                TableKind::Array if table.meter.is_some() => TableKindName::Meter,
                TableKind::Array => TableKindName::Array,
                TableKind::Hash if table.is_set => TableKindName::Set,
                TableKind::Hash => TableKindName::Hash,
                TableKind::Lpm => TableKindName::Lpm,
            },
            key: type_name(&self.program.layouts[table.key.0 as usize]),
            value: type_name(&self.program.shown_value(table)),
            entries: tables.count(TableId(index as u32)),
            capacity: table.capacity,
        };
        self.program.tables.iter().enumerate().map(info).collect()
    }

    fn get(&self, table: &str, key: &Json) -> Result<Entry, Refusal> {
        let id = self.notation.table(table)?;
        let (numbers, prefix_len) = self.notation.key(id, key)?;
        let value = self.lock().get(id, &numbers, prefix_len).map_err(|error| self.refused(id, key, error))?;
        Ok(self.entry(id, &TableEntry { key: numbers, prefix_len, value }))
    }

    fn set(&self, table: &str, key: &Json, value: &Json) -> Result<Entry, Refusal> {
        let id = self.notation.table(table)?;
        let entry = self.read(id, key, value)?;
        self.lock().insert(id, &entry).map_err(|error| self.refused(id, key, error))?;
        Ok(self.entry(id, &entry))
    }

    /// An entry as it is written.
    fn read(&self, table: TableId, key: &Json, value: &Json) -> Result<TableEntry, Refusal> {
        let (numbers, prefix_len) = self.notation.key(table, key)?;
        let value = self.notation.value(table, key, value)?;
        Ok(TableEntry { key: numbers, prefix_len, value })
    }

    fn load(&self, table: &str, entries: &[Entry]) -> Result<(), Refusal> {
        let id = self.notation.table(table)?;
        let read = |Entry { key, value }: &Entry| self.read(id, key, value);
        let numbers = entries.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let mut taken = 0;
        let result = self.lock().insert_all(id, &mut numbers.iter().inspect(|_| taken += 1));
        // The last one that the table looked at is the one that it refused.
        result.map_err(|error| self.refused(id, &entries[taken - 1].key, error))
    }

    /// The key as it is shown.
    fn delete(&self, table: &str, key: &Json) -> Result<Json, Refusal> {
        let id = self.notation.table(table)?;
        let (numbers, prefix_len) = self.notation.key(id, key)?;
        self.lock().remove(id, &numbers, prefix_len).map_err(|error| self.refused(id, key, error))?;
        Ok(self.notation.show_key(id, &TableEntry { key: numbers, prefix_len, value: Vec::new() }))
    }

    fn dump(&self, table: &str, out: &mut Writer) -> Result<io::Result<()>, Refusal> {
        let id = self.notation.table(table)?;
        let _one = match self.dump.try_lock() {
            Ok(one) => one,
            Err(TryLockError::Poisoned(one)) => one.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let message = "another dump is under way; try again when it is done".into();
                return Err(Refusal { code: Code::Busy, message });
            }
        };
        // Not under the lock: a dump of a large table takes long, and a native one is taken beside changes.
        let tables = self.lock().clone();
        let entries = tables.dump(id);
        let lines = entries.iter().map(|entry| Reply::<()>::Entry(self.entry(id, entry)));
        let sent = lines.into_iter().try_for_each(|line| out.line(&line));
        Ok(sent.and_then(|()| done(out, &json!({ "entries": entries.len() }))))
    }

    fn entry(&self, table: TableId, entry: &TableEntry) -> Entry {
        Entry { key: self.notation.show_key(table, entry), value: self.notation.show_value(table, &entry.value) }
    }

    fn refused(&self, table: TableId, key: &Json, error: TableError) -> Refusal {
        self.notation.refused(table, key, error).into()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, TableAccess> {
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

fn done(out: &mut Writer, result: &impl Serialize) -> io::Result<()> {
    out.line(&Reply::Ok(result))?;
    out.flush()
}

/// Writes a refusal as the reply.
pub(super) fn refuse(out: &mut Writer, refusal: Refusal) -> io::Result<()> {
    out.line(&Reply::<()>::Error(refusal))?;
    out.flush()
}

fn type_name(layout: &baker::ir::Layout) -> String {
    match &layout.fields[..] {
        [field] if field.name.is_empty() => field.type_name.clone(),
        _ => layout.name.clone(),
    }
}

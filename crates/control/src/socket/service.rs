//! Answers requests from the running instance.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLockReadGuard, TryLockError};

use serde::Serialize;
use serde_json::{Value as Json, json};
use tracing::field::display;

use super::line::Writer;
use super::overview::Overview;
use super::protocol::{Code, Refusal, Request};
use super::reply::{done, refuse};
use super::running::{Reload, Running, Time};
use super::shown::Shown;
use super::timing::Timer;
use super::tracer::{MAX_TRACES, Tracer, Traces, Wanted};
use crate::application::QueryError;
use crate::entries::text;
use crate::walk::What;

/// A running instance, as the socket serves it.
pub struct Service {
    overview: Arc<Overview>,
    running: Arc<Running>,
    /// A dump holds a copy of a table, so there is one at a time.
    dump: Mutex<()>,
    tracer: Tracer,
    timer: Timer,
    stop: Arc<AtomicBool>,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("overview", &self.overview).finish_non_exhaustive()
    }
}

/// Who asks, for the log: a process of this machine, or somebody on the network.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    pub(super) pid: Option<i32>,
    pub(super) uid: Option<u32>,
    address: Option<SocketAddr>,
}

impl Caller {
    /// A process of a user.
    pub(super) fn process(pid: i32, uid: u32) -> Caller {
        Caller { pid: Some(pid), uid: Some(uid), address: None }
    }

    /// Who asks from there.
    pub fn remote(address: SocketAddr) -> Caller {
        Caller { pid: None, uid: None, address: Some(address) }
    }
}

impl Service {
    /// Answers for an instance that just started; `stop` is set when it is asked to end, `reload` called when it is
    /// asked to read program and configuration again, `time` when it is asked to measure times, or not any more.
    pub fn new(overview: Arc<Overview>, stop: Arc<AtomicBool>, reload: Reload, time: Time) -> Self {
        let running = Arc::new(Running::new(overview.clone(), reload, time));
        let tracer = Tracer::new(overview.clone(), stop.clone());
        let timer = Timer::new(overview.clone(), running.clone(), stop.clone());
        Service { overview, running, dump: Mutex::new(()), tracer, timer, stop }
    }

    /// What runs now. A query waits while another program takes over.
    fn shown(&self) -> RwLockReadGuard<'_, Arc<Shown>> {
        self.running.shown()
    }

    /// Answers one line. An error is one of the connection.
    pub(super) fn answer(&self, line: &[u8], caller: Caller, out: &mut Writer) -> io::Result<()> {
        let request = match serde_json::from_slice::<Request>(line) {
            Ok(request) => request,
            Err(error) => {
                let message = format!("not a request: {error}");
                return refuse(out, Refusal { code: Code::BadRequest, message });
            }
        };
        let result = match request {
            Request::TableDump { table } => self.dump(|shown| shown.dump(&table, out)),
            Request::Stop => {
                // The answer goes first: afterwards the connection is closed at any moment.
                let answered = done(out, &json!({}));
                self.ask(Request::Stop, caller).map(|_| answered)
            }
            request => self.ask(request, caller).map(|answer| done(out, &answer)),
        };
        match result {
            Ok(result) => result,
            Err(refusal) => refuse(out, refusal),
        }
    }

    /// Does what is asked: the result, or why there is none. A dump, which has many, is had by
    /// [`Request::TableFind`] here.
    pub fn ask(&self, request: Request, caller: Caller) -> Result<Json, Refusal> {
        let Caller { pid, uid, .. } = caller;
        let address = caller.address.map(display);
        Ok(match request {
            Request::Status => json(&self.overview.status()),
            Request::Counters => json(&self.overview.counters()),
            Request::Graph => json(self.shown().graph()),
            Request::Tables => json(&self.shown().tables_info()),
            Request::TableGet { table, key } => json(&self.shown().get(&table, &key)?),
            Request::TableSet { table, key, value } => {
                let entry = self.shown().set(&table, &key, &value)?;
                let (key, value) = (text(&entry.key), text(&entry.value));
                tracing::info!(table, key, value, pid, uid, address, "table entry set");
                json(&entry)
            }
            Request::TableLoad { table, entries } => {
                self.shown().load(&table, &entries)?;
                tracing::info!(table, entries = entries.len(), pid, uid, address, "table entries set");
                json!({ "entries": entries.len() })
            }
            Request::TableDel { table, key } => {
                let key = self.shown().delete(&table, &key)?;
                tracing::info!(table, key = text(&key), pid, uid, address, "table entry removed");
                json!({})
            }
            Request::TableDump { .. } => {
                let message = "a dump is many answers; ask for some entries at a time".into();
                return Err(Refusal { code: Code::BadRequest, message });
            }
            Request::TableFind { table, search, after, limit } => {
                self.dump(|shown| shown.find(&table, &search, after.as_ref(), limit)).map(|found| json(&found))?
            }
            Request::TraceAdd { packets, port, drops_only, per_reason, conditions } => {
                let port = port.map(|name| self.shown().port_number(&name)).transpose()?;
                if !(1..=MAX_TRACES).contains(&packets) {
                    let message = format!("{packets} packets: from 1 to {MAX_TRACES} can be traced");
                    return Err(Refusal { code: Code::BadRequest, message });
                }
                let read = |text: &String| self.shown().condition(text);
                let conditions = conditions.iter().map(read).collect::<Result<_, _>>()?;
                let drops_only = drops_only || per_reason;
                let started = self.tracer.add(Wanted { packets, port, drops_only, per_reason, conditions });
                started.map_err(|error| Refusal { code: Code::Busy, message: format!("no thread: {error}") })?;
                tracing::info!(packets, pid, uid, address, "packets are traced");
                json!({})
            }
            Request::TraceShow => json(&self.traces()),
            Request::Costs => {
                let packets = self.tracer.packets();
                self.dump(|shown| Ok(json(&shown.costs(&packets))))?
            }
            Request::TraceStop => {
                self.tracer.end();
                json!({})
            }
            Request::TimingStart { seconds } => {
                self.timer.start(seconds)?;
                tracing::info!(seconds, pid, uid, address, "times of PPFs are measured");
                json!({})
            }
            Request::TimingShow => json(&self.timer.timing()),
            Request::TimingStop => {
                self.timer.end();
                json!({})
            }
            Request::Queries => json(&self.overview.registry().offered()),
            Request::Query { controller, query, with } => {
                let (offer, queries) = self.overview.registry().find(&controller, &query)?;
                if offer.changes {
                    tracing::info!(controller, query, with = text(&with), pid, uid, address, "told");
                }
                queries.ask(&query, with).unwrap_or(Err(QueryError::Silent(controller)))?
            }
            Request::Reload => {
                let reloaded = self.running.reload()?;
                let (replaced, controllers) = (reloaded.replaced, reloaded.controllers.join(", "));
                tracing::info!(replaced, controllers, pid, uid, address, "program and configuration read again");
                reloaded.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
                json(&reloaded)
            }
            Request::Stop => {
                tracing::info!(pid, uid, address, "told to stop");
                self.stop.store(true, Ordering::Relaxed);
                json!({})
            }
        })
    }

    /// Whether a request changes anything, or shows packets. One that can't be done does not.
    pub fn changes(&self, request: &Request) -> bool {
        match request {
            Request::Query { controller, query, .. } => {
                self.overview.registry().find(controller, query).is_ok_and(|(offer, _)| offer.changes)
            }
            Request::TableSet { .. } | Request::TableLoad { .. } | Request::TableDel { .. } => true,
            Request::Reload | Request::Stop => true,
            // It exchanges the program for a while.
            Request::TimingStart { .. } | Request::TimingStop => true,
            // What hosts send to each other is not for everybody who may see how much it is.
            Request::TraceAdd { .. } | Request::TraceShow | Request::TraceStop => true,
            Request::Status | Request::Counters | Request::Graph | Request::Tables | Request::Queries => false,
            Request::TimingShow | Request::Costs => false,
            Request::TableGet { .. } | Request::TableDump { .. } | Request::TableFind { .. } => false,
        }
    }

    /// The instance, as it is looked at.
    pub fn overview(&self) -> &Overview {
        &self.overview
    }

    /// What was traced, with how long packets usually are in PPFs, where that was measured.
    fn traces(&self) -> Traces {
        let (mut traces, timing) = (self.tracer.traces(), self.timer.timing());
        let usual = |ppf: &str| Some(timing.ppfs.iter().find(|own| own.ppf == ppf)?.times.p50_ns);
        for step in traces.traces.iter_mut().flat_map(|trace| &mut trace.steps) {
            if let What::Enter { ppf, usual_ns, .. } = &mut step.what {
                *usual_ns = usual(ppf);
            }
        }
        traces
    }

    /// Goes through a table, which holds a copy of it: so there is one at a time.
    fn dump<T>(&self, go: impl FnOnce(&Shown) -> Result<T, Refusal>) -> Result<T, Refusal> {
        let _one = match self.dump.try_lock() {
            Ok(one) => one,
            Err(TryLockError::Poisoned(one)) => one.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let message = "another dump is under way; try again when it is done".into();
                return Err(Refusal { code: Code::Busy, message });
            }
        };
        let shown = self.shown().clone();
        go(&shown)
    }
}

/// A result as JSON: plain data with text as keys, so this can't fail.
fn json(result: &impl Serialize) -> Json {
    serde_json::to_value(result).expect("an answer is JSON")
}

impl From<QueryError> for Refusal {
    fn from(error: QueryError) -> Self {
        let code = match error {
            QueryError::Unknown(_) => Code::UnknownQuery,
            QueryError::Bad(_) => Code::BadValue,
            QueryError::NotFound(_) => Code::NotFound,
            QueryError::Silent(_) => Code::Busy,
        };
        Refusal { code, message: error.to_string() }
    }
}

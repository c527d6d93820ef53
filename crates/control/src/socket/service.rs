//! Answers requests from the running instance.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, TryLockError};

use serde_json::json;

use super::line::Writer;
use super::overview::Overview;
use super::protocol::{Code, Refusal, Reloaded, Request};
use super::reply::{done, refuse};
use super::shown::Shown;
use crate::application::QueryError;
use crate::entries::text;

/// Reads program and configuration again and puts them in force, or says why not. With what is shown from then on, if
/// that changes.
pub type Reload = Box<dyn Fn() -> Result<(Reloaded, Option<Arc<Shown>>), String> + Send + Sync>;

/// A running instance, as the socket serves it.
pub struct Service {
    overview: Arc<Overview>,
    shown: RwLock<Arc<Shown>>,
    /// A dump holds a copy of a table, so there is one at a time.
    dump: Mutex<()>,
    stop: Arc<AtomicBool>,
    reload: Reload,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("overview", &self.overview).finish_non_exhaustive()
    }
}

/// The client, for the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    pub pid: i32,
    pub uid: u32,
}

impl Service {
    /// Answers for an instance that just started; `stop` is set when it is asked to end, `reload` called when it is
    /// asked to read program and configuration again.
    pub fn new(overview: Arc<Overview>, stop: Arc<AtomicBool>, reload: Reload) -> Self {
        let (shown, dump) = (RwLock::new(overview.shown()), Mutex::new(()));
        Service { overview, shown, dump, stop, reload }
    }

    /// What runs now. A query waits while another program takes over.
    fn shown(&self) -> RwLockReadGuard<'_, Arc<Shown>> {
        self.shown.read().unwrap_or_else(PoisonError::into_inner)
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
            Request::Status => done(out, &self.overview.status()),
            Request::Counters => done(out, &self.overview.counters()),
            Request::Tables => done(out, &self.shown().tables_info()),
            Request::TableGet { table, key } => done(out, &self.shown().get(&table, &key)?),
            Request::TableSet { table, key, value } => {
                let entry = self.shown().set(&table, &key, &value)?;
                let Peer { pid, uid } = peer;
                tracing::info!(table, key = text(&entry.key), value = text(&entry.value), pid, uid, "table entry set");
                done(out, &entry)
            }
            Request::TableLoad { table, entries } => {
                self.shown().load(&table, &entries)?;
                let Peer { pid, uid } = peer;
                tracing::info!(table, entries = entries.len(), pid, uid, "table entries set");
                done(out, &json!({ "entries": entries.len() }))
            }
            Request::TableDel { table, key } => {
                let key = self.shown().delete(&table, &key)?;
                tracing::info!(table, key = text(&key), pid = peer.pid, uid = peer.uid, "table entry removed");
                done(out, &json!({}))
            }
            Request::TableDump { table } => self.dump(&table, out)?,
            Request::Queries => done(out, &self.overview.registry().offered()),
            Request::Query { controller, query, with } => {
                let (offer, queries) = self.overview.registry().find(&controller, &query)?;
                if offer.changes {
                    tracing::info!(controller, query, with = text(&with), pid = peer.pid, uid = peer.uid, "told");
                }
                done(out, &queries.ask(&query, with).unwrap_or(Err(QueryError::Silent(controller)))?)
            }
            Request::Reload => {
                let reloaded = self.reload()?;
                let Peer { pid, uid } = peer;
                let (replaced, controllers) = (reloaded.replaced, reloaded.controllers.join(", "));
                tracing::info!(replaced, controllers, pid, uid, "program and configuration read again");
                reloaded.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
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

    fn reload(&self) -> Result<Reloaded, Refusal> {
        let mut shown = self.shown.write().unwrap_or_else(PoisonError::into_inner);
        let (reloaded, next) = (self.reload)().map_err(|message| Refusal { code: Code::BadConfiguration, message })?;
        *shown = next.unwrap_or_else(|| shown.clone());
        self.overview.show(shown.clone());
        Ok(reloaded)
    }

    /// A dump of a table, of which there is one at a time.
    fn dump(&self, table: &str, out: &mut Writer) -> Result<io::Result<()>, Refusal> {
        let _one = match self.dump.try_lock() {
            Ok(one) => one,
            Err(TryLockError::Poisoned(one)) => one.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let message = "another dump is under way; try again when it is done".into();
                return Err(Refusal { code: Code::Busy, message });
            }
        };
        let shown = self.shown().clone();
        shown.dump(table, out)
    }
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

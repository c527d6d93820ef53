//! A thread that keeps the database up to date: with the control plane's changes, and what controllers keep, at once;
//! with what packets change in tables now and then.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use baker::ir::{Program, TableId};
use dataplane::{TableAccess, TableChange};

use super::declared::{Configured, StateError, declared};
use super::store::{Everything, KeptChange, Store, Whole};
use crate::application::Kept;
use crate::applications::KeptOfAll;

/// Changes that may wait to be written; with more of them, their writers wait.
const WAITING: usize = 65_536;
/// Changes that are written at once.
const AT_ONCE: usize = 16_384;
/// Between two looks for orders.
const PAUSE: Duration = Duration::from_millis(20);
/// Between two times that tables are written that packets change.
const EVERY: Duration = Duration::from_secs(10);
/// Between two attempts where it could not be written, which doubles from the first to the second.
const AGAIN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// A program, to be kept.
struct Job {
    program: Arc<Program>,
    configured: Configured,
    tables: TableAccess,
    kept: KeptOfAll,
}

enum Order {
    /// From now on these tables.
    Persist(Job),
    /// The end.
    End,
}

/// Keeps the state of a running instance, until this is dropped.
#[derive(Debug)]
pub struct Persister {
    orders: Sender<Order>,
    thread: Option<JoinHandle<()>>,
}

impl Persister {
    /// Starts with the tables of a program, the entries of its configuration and what its controllers keep; the control
    /// plane's changes of those tables, and of tables of programs that take over, are kept from now on.
    pub fn start(
        store: Store,
        program: Arc<Program>,
        configured: Configured,
        tables: TableAccess,
        kept: KeptOfAll,
    ) -> Result<Self, StateError> {
        let (change, changes) = sync_channel(WAITING);
        let path = store.path().to_owned();
        if !tables.tell(change) {
            return Err(StateError::new(&path, "the interpreter's tables are not kept: use another engine"));
        }
        let (orders, receive) = channel();
        let job = Job { program, configured, tables, kept };
        let run = move || Thread { store, changes, job, written: Instant::now(), failing: None }.run(&receive);
        let thread = std::thread::Builder::new().name("state".into()).spawn(run);
        let thread = thread.map_err(|error| StateError::new(&path, error))?;
        Ok(Persister { orders, thread: Some(thread) })
    }

    /// Another program, or another configuration, is in force.
    pub fn persist(&self, program: Arc<Program>, configured: Configured, tables: TableAccess, kept: KeptOfAll) {
        // Where the thread has ended it has said why.
        let _ = self.orders.send(Order::Persist(Job { program, configured, tables, kept }));
    }
}

impl Drop for Persister {
    fn drop(&mut self) {
        // As above.
        let _ = self.orders.send(Order::End);
        if let Some(thread) = self.thread.take() {
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}

struct Thread {
    store: Store,
    changes: Receiver<TableChange>,
    job: Job,
    /// When tables were written last that packets change.
    written: Instant,
    /// The last attempt to write failed, which was said.
    failing: Option<Failing>,
}

/// It cannot be written.
#[derive(Clone, Copy)]
struct Failing {
    /// When it was tried last, and how long the next attempt waits from then on.
    tried: Instant,
    pause: Duration,
}

impl Thread {
    fn run(mut self, orders: &Receiver<Order>) {
        self.everything();
        loop {
            match orders.try_recv() {
                Ok(Order::Persist(job)) => {
                    self.job = job;
                    self.everything();
                }
                Ok(Order::End) => break,
                Err(_) => {}
            }
            match self.failing {
                Some(failing) => self.wait(failing),
                None => {
                    self.changes(PAUSE);
                    self.kept();
                }
            }
            if self.failing.is_none() && self.written.elapsed() >= EVERY {
                self.of_packets();
            }
        }
        if self.failing.is_some() {
            self.everything();
        } else {
            self.changes(Duration::ZERO);
            self.kept();
            self.of_packets();
        }
    }

    /// Changes that were made.
    fn changes(&mut self, pause: Duration) {
        while self.failing.is_none() {
            let mut made = match self.changes.recv_timeout(pause) {
                Ok(change) => vec![change],
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            };
            made.extend(self.changes.try_iter().take(AT_ONCE - 1));
            let result = self.store.apply(&made);
            self.say(result);
        }
    }

    /// What controllers keep, as far as it has changed.
    fn kept(&mut self) {
        let of = |(name, kept): &(&'static str, Kept)| kept_by(name, kept.take_changes());
        let changes: Vec<KeptChange> = self.job.kept.iter().flat_map(of).collect();
        if self.failing.is_none() && !changes.is_empty() {
            let result = self.store.keep(&changes);
            self.say(result);
        }
    }

    /// While it cannot be written: all tables are, once it can, so changes need not be kept.
    fn wait(&mut self, failing: Failing) {
        std::thread::sleep(PAUSE);
        self.changes.try_iter().for_each(drop);
        self.kept();
        if failing.tried.elapsed() >= failing.pause {
            self.everything();
        }
    }

    fn everything(&mut self) {
        let tables = self.job.whole(|_| true);
        let configured = self.job.configured.clone();
        let of = |(name, kept): &(&'static str, Kept)| {
            kept_by(name, kept.take_all().into_iter().map(|(key, value)| (key, Some(value))))
        };
        let kept = self.job.kept.iter().flat_map(of).collect();
        let result = self.store.replace(&Everything { tables, configured, kept });
        self.say(result);
        self.written = Instant::now();
    }

    fn of_packets(&mut self) {
        let written = self.job.program.written_tables();
        let result = self.store.renew(&self.job.whole(|table| written[table]));
        self.say(result);
        self.written = Instant::now();
    }

    /// A full disk must not stop packets: it is said once, and when it is over.
    fn say(&mut self, result: Result<(), StateError>) {
        let tried = Instant::now();
        if result.is_err() {
            self.job.kept.iter().for_each(|(_, kept)| kept.note_failure());
        }
        self.failing = match (result, self.failing) {
            (Ok(()), None) => None,
            (Ok(()), Some(_)) => {
                tracing::warn!("state in {}: is written again, with all tables", self.store.path().display());
                None
            }
            (Err(error), None) => {
                tracing::warn!("{error}; tables are not kept until it can be written again");
                Some(Failing { tried, pause: AGAIN[0] })
            }
            (Err(_), Some(Failing { pause, .. })) => Some(Failing { tried, pause: AGAIN[1].min(pause * 2) }),
        };
    }
}

/// Changes of what a controller of this name keeps.
fn kept_by(
    name: &'static str,
    changes: impl IntoIterator<Item = (String, Option<Vec<u8>>)>,
) -> impl Iterator<Item = KeptChange> {
    changes.into_iter().map(move |(key, value)| (name.to_owned(), key, value))
}

impl Job {
    fn whole(&self, which: impl Fn(usize) -> bool) -> Vec<Whole> {
        let tables = self.program.tables.iter().enumerate();
        let tables = tables.filter(|(index, table)| table.is_settable() && which(*index));
        let whole = |(index, table): (usize, &baker::ir::Table)| Whole {
            name: table.name.clone(),
            declared: declared(&self.program, table),
            entries: self.tables.dump_kept(TableId(index as u32)),
        };
        tables.map(whole).collect()
    }
}

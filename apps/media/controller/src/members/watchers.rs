//! The thread in which members are followed, and this proxy is registered.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::mpsc::{self, UnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;

use super::registration::Registration;
use super::report::{Report, Reporter};
use super::{follow_etcd, follow_kubernetes};
use crate::settings::Settings;
use crate::settings::members::{Announce, Etcd, Source};
use crate::settings::pools::Kind;

/// Threads that look up names of hosts at most.
const LOOKERS: usize = 4;
/// How long they may take at the end.
const END: Duration = Duration::from_millis(200);

/// What the thread is told.
enum Order {
    /// To follow these from now on, and no others.
    Follow(Box<Wanted>),
    /// To remove this proxy where it is registered, and to say when that is done.
    Leave(oneshot::Sender<()>),
}

/// What is to be followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wanted {
    pools: Vec<(String, Arc<Source>)>,
    own: Option<Own>,
}

/// This proxy, as it is to be registered.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Own {
    /// The pool of its siblings.
    pool: String,
    etcd: Etcd,
    name: String,
    announce: Announce,
}

impl Wanted {
    fn of(settings: &Settings) -> Wanted {
        let followed = settings.pools.iter().filter_map(|pool| Some((pool, pool.source.clone()?)));
        let siblings = followed.clone().find(|(pool, _)| pool.kind == Kind::Siblings);
        let own = settings.peers.as_ref().and_then(|own| Some((own.name.clone()?, own.announce.clone()?)));
        let own = siblings.zip(own).and_then(|((pool, source), (name, announce))| match &*source {
            Source::Etcd(etcd) => Some(Own { pool: pool.name.clone(), etcd: etcd.clone(), name, announce }),
            Source::Kubernetes(_) => None,
        });
        Wanted { pools: followed.map(|(pool, source)| (pool.name.clone(), source)).collect(), own }
    }
}

struct Running {
    orders: UnboundedSender<Order>,
    thread: JoinHandle<()>,
    wanted: Wanted,
}

/// See the module. Where nothing is to be followed there is no thread.
#[derive(Default)]
pub struct Watchers(Option<Running>);

impl Watchers {
    /// Follows what settings say from now on. What is followed already goes on. `reports` makes where it is told, for a
    /// thread that is new.
    ///
    /// # Errors
    /// There is no thread; nothing is followed then.
    pub fn set(&mut self, settings: &Settings, reports: impl FnOnce() -> mpsc::Sender<Report>) -> io::Result<()> {
        let wanted = Wanted::of(settings);
        let own = match &mut self.0 {
            Some(own) => own,
            None if wanted == Wanted::default() => return Ok(()),
            None => self.0.insert(start(reports())?),
        };
        if own.wanted != wanted {
            own.wanted = wanted.clone();
            // The thread is there as long as somebody may tell it anything.
            let _ = own.orders.send(Order::Follow(Box::new(wanted)));
        }
        Ok(())
    }

    /// Removes this proxy where it is registered; when that is done there is an answer, or nobody who could give one.
    pub fn leave(&self) -> Option<oneshot::Receiver<()>> {
        let own = self.0.as_ref().filter(|own| own.wanted.own.is_some())?;
        let (sender, left) = oneshot::channel();
        own.orders.send(Order::Leave(sender)).ok()?;
        Some(left)
    }
}

impl Drop for Watchers {
    fn drop(&mut self) {
        if let Some(Running { orders, thread, .. }) = self.0.take() {
            drop(orders);
            // One that has panicked has said so.
            let _ = thread.join();
        }
    }
}

fn start(reports: mpsc::Sender<Report>) -> io::Result<Running> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(LOOKERS).build()?;
    let (orders, mut told) = unbounded_channel();
    let run = move || {
        dataplane::give_way();
        runtime.block_on(async {
            let mut tasks = Tasks { reports, followed: HashMap::new(), registered: None };
            while let Some(order) = told.recv().await {
                match order {
                    Order::Follow(wanted) => tasks.set(*wanted),
                    Order::Leave(done) => {
                        tasks.leave().await;
                        // Who does not wait any more needs no answer.
                        let _ = done.send(());
                    }
                }
            }
        });
        runtime.shutdown_timeout(END);
    };
    let thread = thread::Builder::new().name("media-members".into()).spawn(run)?;
    Ok(Running { orders, thread, wanted: Wanted::default() })
}

/// What runs in the thread.
struct Tasks {
    reports: mpsc::Sender<Report>,
    /// By pool.
    followed: HashMap<String, (Arc<Source>, AbortHandle)>,
    registered: Option<Registered>,
}

struct Registered {
    etcd: Etcd,
    name: String,
    wanted: watch::Sender<Option<Announce>>,
    task: tokio::task::JoinHandle<()>,
}

impl Tasks {
    fn set(&mut self, wanted: Wanted) {
        self.followed.retain(|pool, (source, task)| {
            let stays = wanted.pools.iter().any(|(own, from)| own == pool && from == source);
            if !stays {
                task.abort();
            }
            stays
        });
        for (pool, source) in wanted.pools {
            if !self.followed.contains_key(&pool) {
                let reporter = Reporter { pool: pool.clone(), source: source.clone(), reports: self.reports.clone() };
                let task = match &*source {
                    Source::Etcd(own) => tokio::spawn(follow_etcd::run(own.clone(), reporter)),
                    Source::Kubernetes(own) => tokio::spawn(follow_kubernetes::run(own.clone(), reporter)),
                };
                self.followed.insert(pool, (source, task.abort_handle()));
            }
        }
        let same =
            |had: &Registered| wanted.own.as_ref().is_some_and(|own| (&own.etcd, &own.name) == (&had.etcd, &had.name));
        if let Some(had) = self.registered.take_if(|had| !same(had)) {
            // It ends when it has removed its key.
            had.wanted.send_replace(None);
        }
        let Some(Own { pool, etcd, name, announce }) = wanted.own else { return };
        match &self.registered {
            Some(had) => _ = had.wanted.send_replace(Some(announce)),
            None => {
                let source = Arc::new(Source::Etcd(etcd.clone()));
                let reporter = Reporter { pool, source, reports: self.reports.clone() };
                let (sender, wanted) = watch::channel(Some(announce));
                let own = Registration { of: etcd.clone(), name: name.clone(), wanted, reporter };
                let task = tokio::spawn(own.run());
                self.registered = Some(Registered { etcd, name, wanted: sender, task });
            }
        }
    }

    async fn leave(&mut self) {
        if let Some(own) = self.registered.take() {
            own.wanted.send_replace(None);
            let _ = own.task.await;
        }
    }
}

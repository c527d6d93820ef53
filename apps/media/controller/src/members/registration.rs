//! This proxy's own key in etcd: set with a lease that ends where nothing is heard of the proxy, and removed at an
//! orderly end. Where the key is another one's it stays so: that is said, and looked at again until it is free.

use std::time::Duration;

use tokio::sync::watch::Receiver;
use tokio::time::{sleep, timeout};

use super::attempts::{Attempts, PAUSES};
use super::client::{Connection, Fault};
use super::etcd::{self, Entry, Set};
use super::follow_etcd::{ask, open};
use super::report::Reporter;
use crate::pools::learnt::News;
use crate::settings::members::{Announce, Etcd};

/// How long the end of a registration may take.
const LEAVE: Duration = Duration::from_millis(800);

/// A registration.
pub(super) struct Registration {
    pub(super) of: Etcd,
    pub(super) name: String,
    /// What the proxy says of itself; none: it is to be there no more.
    pub(super) wanted: Receiver<Option<Announce>>,
    pub(super) reporter: Reporter,
}

/// What is known of it.
#[derive(Default)]
struct Held {
    /// Which endpoint is asked; they are counted on, one after the other.
    at: usize,
    /// The connection to it, where it waits for nothing.
    idle: Option<Connection>,
    lease: Option<i64>,
    /// Of how long,
    ttl: Duration,
    /// and the one before, of another time.
    before: Option<i64>,
    /// Whether this process has set the key: until then, who has it and is where this proxy is was its predecessor.
    was_set: bool,
    /// What was said last of it.
    told: Option<Result<(), String>>,
}

impl Registration {
    /// Keeps it up until it is no more wanted, and removes it then; or until nobody can want it any more.
    pub(super) async fn run(mut self) {
        let mut held = Held::default();
        let mut wanted = self.wanted.clone();
        tokio::select! {
            () = self.keep_up(&mut held) => {}
            _ = wanted.wait_for(Option::is_none) => {}
        }
        if wanted.borrow().is_none() {
            self.leave(held).await;
        }
    }

    async fn tell(&self, held: &mut Held, now: Result<(), String>) {
        if held.told.as_ref() != Some(&now) {
            held.told = Some(now.clone());
            self.reporter.tell(News::Registered(now)).await;
        }
    }

    /// The connection that waits for nothing, or else a new one.
    async fn connection(&self, held: &mut Held) -> Result<Connection, Fault> {
        match held.idle.take() {
            Some(idle) => Ok(idle),
            None => open(&self.of.endpoints[held.at % self.of.endpoints.len()], &self.of).await,
        }
    }

    /// Keeps it up as long as it is wanted. Where this is given up, `held` is what there is to be removed.
    async fn keep_up(&mut self, held: &mut Held) {
        let mut attempts = Attempts::new();
        loop {
            attempts.begin();
            let Err(fault) = self.keep(held).await else { return };
            self.tell(held, Err(fault.to_string())).await;
            attempts.end();
            // It is to be back before the lease ends, which begins anew where etcd does.
            let ttl = self.wanted.borrow().as_ref().map_or(PAUSES[1], |own| own.ttl);
            sleep(attempts.pause(self.of.endpoints.len(), PAUSES[1].min(ttl / 4))).await;
            held.at += 1;
        }
    }

    /// Sets the key at an endpoint, and sees to it that it stays.
    async fn keep(&mut self, held: &mut Held) -> Result<(), Fault> {
        loop {
            let Some(own) = self.wanted.borrow_and_update().clone() else { return Ok(()) };
            let mut connection = self.connection(held).await?;
            let outcome = self.look(&mut connection, held, &own).await?;
            held.idle = Some(connection);
            self.tell(held, outcome).await;
            // Twice it may fail.
            let changed = timeout(own.ttl / 3, self.wanted.changed()).await;
            if matches!(changed, Ok(Err(_))) {
                return Ok(());
            }
        }
    }

    /// Removes the key. A request that is under way is not waited for: etcd may be slow, or not answer at all.
    async fn leave(&self, mut held: Held) {
        let Some(lease) = held.lease else { return };
        let revoke = async {
            let mut connection = self.connection(&mut held).await?;
            ask(&mut connection, etcd::revoke(lease)).await
        };
        if !matches!(timeout(LEAVE, revoke).await, Ok(Ok(_))) {
            tracing::warn!(name = self.name, "etcd could not be told that this proxy goes");
        }
    }

    /// Looks whether lease and key are there, and sets them where not; whether the key is this proxy's then.
    async fn look(
        &self,
        connection: &mut Connection,
        held: &mut Held,
        own: &Announce,
    ) -> Result<Result<(), String>, Fault> {
        if let Some(lease) = held.lease {
            let alive = ask(connection, etcd::keep_alive(lease)).await?;
            if !etcd::is_alive(&alive)? {
                held.lease = None;
            }
        }
        if held.ttl != own.ttl {
            (held.ttl, held.before) = (own.ttl, held.lease.take());
        }
        let lease = match held.lease {
            Some(lease) => lease,
            None => {
                let granted = ask(connection, etcd::grant(own.ttl.as_secs())).await?;
                let (lease, _) = etcd::granted(&granted)?;
                held.lease = Some(lease);
                lease
            }
        };
        let key = format!("{}{}", self.of.prefix, self.name);
        let got = etcd::page(&ask(connection, etcd::get(&key)).await?)?;
        let there = got.entries.into_iter().next();
        let was = match &there {
            None => 0,
            Some(entry) if entry.lease == lease && entry.is(own) => {
                held.was_set = true;
                return Ok(Ok(()));
            }
            Some(entry) if entry.lease == lease || Some(entry.lease) == held.before => entry.revision,
            Some(entry) if self.is_predecessor(entry, held, own) => entry.revision,
            Some(entry) => return Ok(Err(self.refusal(entry))),
        };
        Ok(match etcd::is_set(&ask(connection, etcd::set(&key, own, lease, was)).await?)? {
            Set::Done => {
                held.was_set = true;
                Ok(())
            }
            Set::Is(Some(entry)) => Err(self.refusal(&entry)),
            Set::Is(None) => Err("the key has changed meanwhile".to_owned()),
        })
    }

    /// Whether a key was left by a process before, which was killed where this one is.
    fn is_predecessor(&self, entry: &Entry, held: &Held, own: &Announce) -> bool {
        !held.was_set && entry.is_at(own)
    }

    fn refusal(&self, entry: &Entry) -> String {
        format!("{:?} is registered already, at {}; each proxy has a name of its own", self.name, entry.place())
    }
}

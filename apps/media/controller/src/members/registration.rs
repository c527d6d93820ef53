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
    /// Keeps it up until it is no more wanted, or nobody can want it any more.
    pub(super) async fn run(mut self) {
        let (mut at, mut attempts, mut held) = (0, Attempts::new(), Held::default());
        loop {
            let endpoint = &self.of.endpoints[at % self.of.endpoints.len()];
            attempts.begin();
            let fault = match open(endpoint, &self.of).await {
                Ok(mut connection) => match self.keep(&mut connection, &mut held).await {
                    Ok(()) => return,
                    Err(fault) => fault,
                },
                Err(fault) => fault,
            };
            self.tell(&mut held, Err(fault.to_string())).await;
            attempts.end();
            // It is to be back before the lease ends, which begins anew where etcd does.
            let ttl = self.wanted.borrow().as_ref().map_or(PAUSES[1], |own| own.ttl);
            let longest = PAUSES[1].min(ttl / 4);
            let pause = attempts.pause(self.of.endpoints.len(), longest);
            tokio::select! {
                () = sleep(pause) => {}
                // Nobody can be told that this proxy goes: the lease ends by itself.
                _ = self.wanted.wait_for(Option::is_none) => return,
            }
            at += 1;
        }
    }

    async fn tell(&self, held: &mut Held, now: Result<(), String>) {
        if held.told.as_ref() != Some(&now) {
            held.told = Some(now.clone());
            self.reporter.tell(News::Registered(now)).await;
        }
    }

    /// Sets the key, and sees to it that it stays. At its end the key is removed.
    async fn keep(&mut self, connection: &mut Connection, held: &mut Held) -> Result<(), Fault> {
        loop {
            let Some(own) = self.wanted.borrow_and_update().clone() else {
                if let Some(lease) = held.lease {
                    let revoked = timeout(LEAVE, ask(connection, etcd::revoke(lease))).await;
                    if !matches!(revoked, Ok(Ok(_))) {
                        tracing::warn!(name = self.name, "etcd could not be told that this proxy goes");
                    }
                }
                return Ok(());
            };
            let outcome = self.look(connection, held, &own).await?;
            self.tell(held, outcome).await;
            // Twice it may fail.
            let changed = timeout(own.ttl / 3, self.wanted.changed()).await;
            if matches!(changed, Ok(Err(_))) {
                return Ok(());
            }
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

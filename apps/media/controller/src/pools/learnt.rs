//! What is known of members that are found, and of the watch by which they are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::settings::members::Source;
use crate::settings::pools::Server;

/// Lines of the log at most about what is left out of one change.
const MOST_LINES: usize = 10;
/// Errors that are known not to be new, at most.
const MOST_ERRORS: usize = 16;

/// What there is to tell of a pool's members.
#[derive(Clone, Debug)]
pub enum News {
    /// A watch has begun at this endpoint.
    Connected(String),
    /// It has ended, or could not begin, and is tried again.
    Lost(String),
    /// Who the members are as of a revision.
    Members {
        /// The members.
        servers: Vec<Server>,
        /// What is none, by its key, and why.
        left_out: BTreeMap<String, &'static str>,
        /// The revision.
        revision: String,
    },
    /// Whether this proxy is registered, and why not.
    Registered(Result<(), String>),
}

/// What is known of a pool's members.
#[derive(Clone, Debug)]
pub struct Learnt {
    /// Who knows them.
    pub source: Arc<Source>,
    /// The members.
    pub servers: Vec<Server>,
    /// As of which revision; none: nobody has said who they are.
    pub revision: Option<String>,
    /// Where the watch is; none: nowhere.
    pub connected: Option<String>,
    /// Since when that is so.
    pub since: Duration,
    /// Why it was not the last time.
    pub last_error: String,
    /// Changes of members.
    pub changes: u64,
    /// Times that the watch was lost, or could not begin.
    pub lost: u64,
    /// What was left out, by the reason, since the start;
    pub left_out_total: BTreeMap<&'static str, u64>,
    /// and what is now, by its key.
    pub left_out: BTreeMap<String, &'static str>,
    /// Whether this proxy is registered; none: it is not to be.
    pub registered: Option<Result<(), String>>,
    /// Errors that were logged, and come again and again while it is tried.
    logged: BTreeSet<String>,
}

impl Learnt {
    /// Nothing yet.
    pub(super) fn new(source: Arc<Source>, now: Duration) -> Learnt {
        Learnt {
            source,
            servers: Vec::new(),
            revision: None,
            connected: None,
            since: now,
            last_error: String::new(),
            changes: 0,
            lost: 0,
            left_out_total: BTreeMap::new(),
            left_out: BTreeMap::new(),
            registered: None,
            logged: BTreeSet::new(),
        }
    }

    /// Whether an error is to be logged.
    fn is_new(&mut self, why: &str) -> bool {
        if self.logged.len() >= MOST_ERRORS {
            self.logged.clear();
        }
        self.logged.insert(why.to_owned())
    }

    /// Takes news in; whether other members are members now.
    pub(super) fn take(&mut self, pool: &str, news: News, now: Duration) -> bool {
        match news {
            News::Connected(at) => {
                tracing::info!(pool, at, "members are watched");
                self.logged.clear();
                (self.connected, self.since) = (Some(at), now);
                false
            }
            News::Lost(why) => {
                if self.is_new(&why) {
                    tracing::warn!(pool, why, members = self.servers.len(), "members are not watched, and stay");
                }
                if self.connected.take().is_some() {
                    self.since = now;
                }
                self.lost += 1;
                self.last_error = why;
                false
            }
            News::Registered(Ok(())) => {
                tracing::info!(pool, "this proxy is registered");
                self.logged.clear();
                self.registered = Some(Ok(()));
                false
            }
            News::Registered(Err(why)) => {
                if self.is_new(&why) {
                    tracing::error!(pool, why, "this proxy is not registered");
                }
                self.registered = Some(Err(why));
                false
            }
            News::Members { servers, left_out, revision } => {
                self.leave_out(pool, left_out);
                self.revision = Some(revision);
                if self.servers == servers {
                    return false;
                }
                self.servers = servers;
                self.changes += 1;
                let names: Vec<&str> = self.servers.iter().take(32).map(|own| own.name.as_str()).collect();
                tracing::warn!(pool, members = self.servers.len(), names = names.join(" "), "members have changed");
                true
            }
        }
    }

    fn leave_out(&mut self, pool: &str, now: BTreeMap<String, &'static str>) {
        let new: Vec<_> = now.iter().filter(|(key, why)| self.left_out.get(*key) != Some(*why)).collect();
        for (key, why) in new.iter().take(MOST_LINES) {
            let key: String = key.chars().take(64).map(|own| if own.is_control() { ' ' } else { own }).collect();
            tracing::warn!(pool, key, why, "no member, and left out");
        }
        if new.len() > MOST_LINES {
            tracing::warn!(pool, more = new.len() - MOST_LINES, "no members, and left out");
        }
        for (_, why) in new {
            *self.left_out_total.entry(why).or_default() += 1;
        }
        self.left_out = now;
    }
}

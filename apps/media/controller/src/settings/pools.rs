//! Pools: origins that have the same streams.

use std::sync::Arc;
use std::time::Duration;

use super::members::Source;

/// How an origin is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    /// One after the other, in proportion to their weights.
    RoundRobin,
    /// The one with the fewest sessions of the proxy for its weight.
    LeastSessions,
}

/// What the servers of a pool are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Origins, which streams of the configuration name.
    #[default]
    Origins,
    /// Other proxies beside this one, of which each has some of the streams.
    Siblings,
    /// Proxies between this one and the origins.
    Parents,
}

impl Kind {
    /// The name of the pool of peers of this kind, and of their key in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Origins => "origins",
            Kind::Siblings => "siblings",
            Kind::Parents => "parents",
        }
    }
}

/// Origins, or peers, that have the same streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// What its servers are.
    pub kind: Kind,
    /// How one is chosen.
    pub balance: Balance,
    /// The origins that are listed;
    pub servers: Vec<Server>,
    /// or who knows them.
    pub source: Option<Arc<Source>>,
    /// How it is found out whether they work.
    pub check: Check,
}

/// An origin of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its name.
    pub name: String,
    /// Its host, by name or address, without brackets.
    pub host: String,
    /// Its port; none: that of RTSP.
    pub port: Option<u16>,
    /// Its share; 0: no new streams.
    pub weight: u32,
}

/// A health check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The path that DESCRIBE is asked about; without, OPTIONS is asked.
    pub path: Option<String>,
    /// The status that is expected; without, any below 500.
    pub status: Option<u16>,
    /// From one to the next.
    pub interval: Duration,
    /// How long one may take.
    pub timeout: Duration,
    /// So many in a row that succeed make it up.
    pub rise: u32,
    /// So many in a row that fail make it down.
    pub fall: u32,
}

impl Default for Check {
    fn default() -> Self {
        let (interval, timeout) = (Duration::from_secs(2), Duration::from_secs(1));
        Check { path: None, status: None, interval, timeout, rise: 1, fall: 3 }
    }
}

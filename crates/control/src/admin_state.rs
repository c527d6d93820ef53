//! What operators say about servers of pools. How long it holds is the application's.

use serde::{Deserialize, Serialize};

use crate::application::QueryError;
use crate::messages::list;

/// What an operator has said about a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdminState {
    /// It is used if it is up.
    #[default]
    Ready,
    /// It gets nothing new; what it has goes on.
    Drain,
    /// It is out of use: what it had ends, or goes elsewhere.
    Down,
}

impl AdminState {
    /// All of them. Their places are their numbers where applications keep them in tables.
    pub const ALL: [AdminState; 3] = [AdminState::Ready, AdminState::Drain, AdminState::Down];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            AdminState::Ready => "ready",
            AdminState::Drain => "drain",
            AdminState::Down => "down",
        }
    }

    /// The one of a name.
    pub fn named(name: &str) -> Result<AdminState, QueryError> {
        AdminState::ALL.into_iter().find(|own| own.name() == name).ok_or_else(|| {
            let names = list(AdminState::ALL.map(AdminState::name));
            QueryError::Bad(format!("{name:?} is no state of a server; accepted: {names}"))
        })
    }
}

/// A query: has a server in a state from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateChange {
    /// `POOL/NAME`.
    pub server: String,
    /// `ready`, `drain` or `down`.
    pub state: String,
}

/// The state of a server as operators are shown it: what checks say (`up`, `down`), with what operators have said by
/// the name of an [`AdminState`] or in the configuration: `up, drain`.
pub fn shown(up: &str, configured: bool, weight: u32, admin: &str) -> String {
    match (configured, admin) {
        (false, _) => format!("{up}, removed"),
        (true, "ready") if weight == 0 => format!("{up}, weight 0"),
        (true, "ready") => up.to_owned(),
        (true, "down") => format!("{up}, taken down"),
        (true, admin) => format!("{up}, {admin}"),
    }
}

//! The queries.

use control::admin_state::{AdminState, StateChange};
use control::application::{Answer, Offer, QueryError};
use control::messages::{did_you_mean, list};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::admin::metrics::families;
use crate::proxy::Proxy;
use crate::proxy::world::World;

/// The proxy's queries.
pub const OFFERS: &[Offer] = &[
    Offer { name: "metrics", about: "what was counted", changes: false },
    Offer { name: "sessions", about: "sessions of clients", changes: false },
    Offer { name: "streams", about: "presentations that come from origins, and how", changes: false },
    Offer { name: "origins", about: "origins, their state, and what they failed at", changes: false },
    Offer {
        name: "peers",
        about: "other proxies that have the same streams, and who is asked for `stream`",
        changes: false,
    },
    Offer {
        name: "origin",
        about: "has a `server` of a pool, POOL/NAME, in `state` ready, drain or down from now on",
        changes: true,
    },
    Offer { name: "cache", about: "recordings behind that of number `behind`, 256 at most", changes: false },
    Offer {
        name: "recording",
        about: "the recording of number `id`, with its segments `from` a number on, 256 at most",
        changes: false,
    },
    Offer {
        name: "pin",
        about: "has a recording of number `id` never removed to make room, if `pinned`",
        changes: true,
    },
    Offer { name: "remove", about: "removes the recording of number `id`", changes: true },
    Offer { name: "kill", about: "ends the session of number `id`", changes: true },
];

/// Which session is to be ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kill {
    /// Its number.
    pub id: u64,
}

/// Which stream is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfStream {
    /// Its name, or host, port and path of its URL at the origin.
    pub stream: Option<String>,
}

fn shown(value: &impl Serialize) -> Answer {
    serde_json::to_value(value).map_err(|error| QueryError::Bad(error.to_string()))
}

/// Answers a query.
pub fn answer<W: World>(proxy: &mut Proxy<W>, name: &str, with: &Json) -> Answer {
    match name {
        "metrics" => shown(&families(proxy, with["sessions"] != Json::Bool(false))),
        "sessions" => shown(&proxy.session_states()),
        "streams" => shown(&proxy.stream_states()),
        "origins" => shown(&proxy.origin_states()),
        "peers" => {
            let of = Option::<OfStream>::deserialize(with).map_err(|error| QueryError::Bad(error.to_string()))?;
            shown(&proxy.peers_state(of.unwrap_or_default().stream.as_deref()))
        }
        "origin" => {
            let change = StateChange::deserialize(with).map_err(|error| QueryError::Bad(error.to_string()))?;
            let server = proxy.pools().named(&change.server).ok_or_else(|| {
                let names: Vec<String> = proxy.pools().iter().map(|(_, own)| own.name()).collect();
                let names = || names.iter().map(String::as_str);
                let hint = did_you_mean(&change.server, names());
                let message = format!("there is no server {:?}{hint}; accepted: {}", change.server, list(names()));
                QueryError::NotFound(message)
            })?;
            proxy.set_admin_state(server, AdminState::named(&change.state)?);
            shown(&proxy.server_state(server))
        }
        "kill" => {
            let Kill { id } = Kill::deserialize(with).map_err(|error| QueryError::Bad(error.to_string()))?;
            match proxy.kill(id) {
                true => Ok(json!({ "killed": id })),
                false => Err(QueryError::NotFound(format!("there is no session {id}"))),
            }
        }
        _ => Err(QueryError::Unknown(format!("no query {name:?}"))),
    }
}

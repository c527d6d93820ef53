//! What a running controller can be asked.

use control::application::{Answer, Offer, QueryError};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::metrics::families;
use crate::proxy::Proxy;
use crate::proxy::world::World;

/// All of them. Those about servers are answered by what asks these.
pub const OFFERS: &[Offer] = &[
    Offer { name: "metrics", about: "what was counted", changes: false },
    Offer { name: "sessions", about: "connections of clients", changes: false },
    Offer { name: "streams", about: "streams that are asked for, or come", changes: false },
    Offer { name: "origins", about: "servers, their state, and what they failed at", changes: false },
    Offer {
        name: "origin",
        about: "has a `server` of a pool, POOL/NAME, in `state` ready, drain or down from now on",
        changes: true,
    },
    Offer { name: "kick", about: "ends the connection of number `id`", changes: true },
];

/// Which connection is to be ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kick {
    /// Its number.
    pub id: u32,
}

fn shown(value: &impl Serialize) -> Answer {
    serde_json::to_value(value).map_err(|error| QueryError::Bad(error.to_string()))
}

/// Answers a query.
pub fn answer<W: World>(proxy: &mut Proxy<W>, name: &str, with: &Json) -> Answer {
    match name {
        "metrics" => shown(&families(proxy)),
        "sessions" => shown(&proxy.session_states()),
        "streams" => shown(&proxy.stream_states()),
        "kick" => {
            let Kick { id } = Kick::deserialize(with).map_err(|error| QueryError::Bad(error.to_string()))?;
            match proxy.kick(id) {
                true => Ok(json!({ "kicked": id })),
                false => Err(QueryError::NotFound(format!("there is no connection {id}"))),
            }
        }
        _ => Err(QueryError::Unknown(format!("no query {name:?}"))),
    }
}

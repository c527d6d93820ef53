//! What the controller can be asked.

use control::application::{Answer, Offer, QueryError};
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::counting::Counting;
use super::filter::Filter;
use super::flows::Flows;

/// Its queries.
pub const OFFERS: &[Offer] = &[
    Offer {
        name: "flows",
        about: "flows that fit `address`, `port`, `protocol`, `state`, `rule`, those with most by `sort` first, `limit` \
                at most",
        changes: false,
    },
    Offer { name: "kill", about: "ends the flows that fit: the rules decide about their next packets", changes: true },
];

/// Answers one. `names` are those of the rules.
pub fn answer(flows: &mut Flows, counting: &Counting, names: &[String], name: &str, with: &Json) -> Answer {
    let bad = |error: serde_json::Error| QueryError::Bad(error.to_string());
    let filter = if with.is_null() { Filter::default() } else { Filter::deserialize(with).map_err(bad)? };
    match name {
        "flows" => serde_json::to_value(flows.list(&filter, names, counting.since())?).map_err(bad),
        "kill" if !filter.is_narrow() => {
            let message = "which flows? accepted: `address`, `port`, `protocol`, `state`, `rule`";
            Err(QueryError::Bad(message.into()))
        }
        "kill" if filter.limit.is_some() => {
            Err(QueryError::Bad("all that fit are ended; there is no `limit` to that".into()))
        }
        "kill" => Ok(json!({ "killed": flows.kill(&filter, names, counting.records())? })),
        _ => Err(QueryError::Unknown(format!("no query {name:?}"))),
    }
}

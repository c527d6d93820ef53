//! The admin API: the splicer's queries.

use control::admin_state::{AdminState, StateChange};
use control::application::{Answer, Offer, QueryError};
use control::messages::{did_you_mean, list};
use indexmap::IndexMap;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::admin::sessions::Filter;
use crate::data_path::DataPath;
use crate::settings::address::text_of;
use crate::splicer::Splicer;

/// Its queries.
pub const OFFERS: &[Offer] = &[
    Offer { name: "metrics", about: "what was counted, by service and by server", changes: false },
    Offer { name: "servers", about: "all servers and what is known of them", changes: false },
    Offer {
        name: "server",
        about: "has a `server`, POOL/NAME, in `state` ready, drain or down from now on",
        changes: true,
    },
    Offer {
        name: "sessions",
        about: "connections that fit `service`, `server`, `client`, `ids`, `after`, `limit`",
        changes: false,
    },
    Offer { name: "kill", about: "ends the connections that fit with resets to both sides", changes: true },
];

/// A server, as it is shown. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerState {
    /// Its pool.
    pub pool: String,
    /// Its name.
    pub name: String,
    /// Its address and port.
    pub address: String,
    /// Its share of requests.
    pub weight: u32,
    /// Whether checks find it working.
    pub up: bool,
    /// Since when.
    pub since_ms: u64,
    /// Why.
    pub why: String,
    /// The admin state: `ready`, `drain` or `down`.
    pub admin: String,
    /// Whether the configuration has it still; those that it has no more are shown as long as they have connections.
    pub configured: bool,
    /// Connections to it that clients have.
    pub active: u32,
    /// Those without a client: made ahead, or left for the next request.
    pub idle: usize,
    /// Connections that there were.
    pub connections: u64,
    /// Requests that it was to get.
    pub requests: u64,
    /// Those that it could not have.
    pub failed: u64,
}

fn read<T: DeserializeOwned>(with: &Json) -> Result<T, QueryError> {
    T::deserialize(with).map_err(|error| QueryError::Bad(error.to_string()))
}

fn shown(value: &impl Serialize) -> Answer {
    serde_json::to_value(value).map_err(|error| QueryError::Bad(error.to_string()))
}

impl<P: DataPath> Splicer<P> {
    /// Answers a query.
    pub fn query(&mut self, name: &str, with: &Json) -> Answer {
        match name {
            "metrics" => shown(&self.families()),
            "servers" => shown(&self.servers()),
            "server" => {
                let change: StateChange = read(with)?;
                let number = self.change_server(&change)?;
                shown(&self.server(number))
            }
            "sessions" => {
                let filter = self.filter(with)?;
                shown(&self.sessions(&filter))
            }
            "kill" => {
                let filter = self.filter(with)?;
                if !filter.is_narrow() {
                    let message = "which connections? accepted: `ids`, `client`, `service`, `server`";
                    return Err(QueryError::Bad(message.into()));
                }
                let killed = self.kill(&filter);
                let missing = (filter.ids.len() == 1 && killed == 0).then(|| filter.ids[0]);
                match missing {
                    Some(id) => Err(QueryError::NotFound(format!("there is no connection {id}"))),
                    None => Ok(json!({ "killed": killed })),
                }
            }
            _ => Err(QueryError::Unknown(format!("no query {name:?}"))),
        }
    }

    /// Which connections are meant. Names must be known, else a mistake would look like an empty list.
    fn filter(&self, with: &Json) -> Result<Filter, QueryError> {
        let filter: Filter = if with.is_null() { Filter::default() } else { read(with)? };
        if let Some(service) = &filter.service {
            let names = || self.cluster.settings.services.iter().map(|own| own.name.as_str());
            if !names().any(|own| own == service) {
                let hint = did_you_mean(service, names());
                let message = format!("there is no service {service:?}{hint}; accepted: {}", list(names()));
                return Err(QueryError::NotFound(message));
            }
        }
        if let Some(server) = &filter.server {
            self.server_named(server)?;
        }
        let is_client =
            |text: &str| text.parse::<std::net::IpAddr>().is_ok() || text.parse::<std::net::SocketAddr>().is_ok();
        if let Some(client) = filter.client.as_deref().filter(|client| !is_client(client)) {
            let message = format!("{client:?} is no client; accepted: an address, with a port or without");
            return Err(QueryError::Bad(message));
        }
        Ok(filter)
    }

    fn server_named(&self, name: &str) -> Result<usize, QueryError> {
        let all: Vec<String> = (0..self.cluster.servers.len()).map(|number| self.cluster.name(number)).collect();
        let fits = |number: &usize| all[*number] == name;
        let mut found: Vec<usize> = (0..all.len()).filter(fits).collect();
        // Those of earlier configurations come behind.
        found.sort_by_key(|number| !self.cluster.servers[*number].configured);
        found.first().copied().ok_or_else(|| {
            let names = || all.iter().map(String::as_str);
            let hint = did_you_mean(name, names());
            QueryError::NotFound(format!("there is no server {name:?}{hint}; accepted: {}", list(names())))
        })
    }

    fn change_server(&mut self, change: &StateChange) -> Result<usize, QueryError> {
        let number = self.server_named(&change.server)?;
        self.set_admin_state(number, AdminState::named(&change.state)?);
        Ok(number)
    }

    fn servers(&self) -> Vec<ServerState> {
        let shown = |number: &usize| {
            let known = &self.cluster.servers[*number];
            known.configured || known.active > 0 || self.idle.count(*number) > 0
        };
        (0..self.cluster.servers.len()).filter(shown).map(|number| self.server(number)).collect()
    }

    fn server(&self, number: usize) -> ServerState {
        let (known, metrics) = (&self.cluster.servers[number], self.metrics.of_server(number));
        ServerState {
            pool: known.pool.name.clone(),
            name: known.server.name.clone(),
            address: text_of(known.server.address, known.server.port),
            weight: known.server.weight,
            up: known.up,
            since_ms: self.path.now().saturating_sub(known.since) / 1_000_000,
            why: known.why.clone(),
            admin: known.admin.name().into(),
            configured: known.configured,
            active: known.active,
            idle: self.idle.count(number),
            connections: metrics.connections,
            requests: metrics.requests,
            failed: metrics.failed,
        }
    }

    fn families(&self) -> Vec<control::application::metrics::Family> {
        // Not counted here: there may be very many, whose packets would wait.
        let named = self.cluster.settings.services.iter().zip(&self.by_service);
        let current: IndexMap<String, u64> = named.map(|(own, count)| (own.name.clone(), *count)).collect();
        let mut families = self.metrics.families(&self.cluster, &current, self.path.now());
        families.extend([self.neighbours.family(), crate::fragments::family(&self.fragments)]);
        families
    }
}

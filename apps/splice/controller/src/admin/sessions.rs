//! Connections as operators see them, and the end of them by command.

use serde::{Deserialize, Serialize};

use crate::connection::client::Client;
use crate::connection::event::Event;
use crate::connection::state::{Connection, State};
use crate::data_path::DataPath;
use crate::settings::address::{mapped, text_of};
use crate::splicer::Splicer;
use crate::tables::flow_entry::{FlowEntry, Mode, are_over};

/// Sessions that are listed at once at most; for more, ask again for those behind the last one.
pub const MOST: usize = 1000;

/// A client's connection. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// By which it is told apart, as long as the instance runs.
    pub id: u64,
    /// The client's address and port.
    pub client: String,
    /// The virtual address and port.
    pub address: String,
    /// The service; none if the configuration has it no more.
    pub service: Option<String>,
    /// Pool and name of the server that it is connected to.
    pub server: Option<String>,
    /// `idle`: between requests; `asking`: a request is on its way; `connecting`: to a server; `serving`; `answering`:
    /// by Millrace itself; `ending`: by command; `closed`: by both sides, what comes late still passes.
    pub state: String,
    /// What becomes of the client's segments, and of the server's: `held`, `limited`, `open`, `closing`.
    pub modes: [Option<String>; 2],
    /// Since it began.
    pub age_ms: u64,
    /// Since the last segment that passed, to the second.
    pub idle_ms: u64,
    /// Bytes of requests that servers have acknowledged.
    pub up: u64,
    /// Bytes of responses that the client has acknowledged.
    pub down: u64,
    /// Requests so far.
    pub requests: u64,
    /// The one on its way.
    pub request: Option<SessionRequest>,
}

/// A request on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRequest {
    /// The method.
    pub method: String,
    /// The host.
    pub host: String,
    /// The path, without the query.
    pub path: String,
    /// The status of the response, once it is known.
    pub status: Option<u16>,
    /// Since its first byte.
    pub age_ms: u64,
}

/// Which connections are meant: all that fit everything that is said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// These.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<u64>,
    /// Of this service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Of this server: its pool and name, with `/` between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Of this client: an address, or an address and port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Behind this one.
    #[serde(default)]
    pub after: u64,
    /// So many at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

impl Filter {
    /// Whether it leaves anything out.
    pub fn is_narrow(&self) -> bool {
        !self.ids.is_empty() || self.service.is_some() || self.server.is_some() || self.client.is_some()
    }
}

/// What is listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// In the order of their ids.
    pub sessions: Vec<Session>,
    /// How many connections there are that fit.
    pub fit: usize,
    /// How many there are.
    pub all: usize,
}

impl<P: DataPath> Splicer<P> {
    /// The ids of the connections that fit, in order, without regard to the limit.
    fn fitting(&self, filter: &Filter) -> Vec<u64> {
        let client = filter.client.as_deref().map(|text| match text.parse() {
            Ok(address) => (Some(mapped(address)), String::new()),
            Err(_) => (None, text.to_owned()),
        });
        let fits = |id: &u64, c: &Connection| {
            let by_client = client.as_ref().is_none_or(|(address, text)| match address {
                Some(address) => c.client.key.src == *address,
                None => text_of(c.client.key.src, c.client.key.src_port) == *text,
            });
            let service = || self.cluster.settings.services.get(c.client.service).map(|own| &own.name);
            let server = || c.state.server().map(|own| self.cluster.name(own));
            *id > filter.after
                && (filter.ids.is_empty() || filter.ids.contains(id))
                && by_client
                && (filter.service.is_none() || filter.service.as_ref() == service())
                && (filter.server.is_none() || filter.server == server())
        };
        let mut ids: Vec<u64> = self.connections.iter().filter(|(id, c)| fits(id, c)).map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids
    }

    /// Those that fit, the first of them as they are now.
    pub fn sessions(&mut self, filter: &Filter) -> Listed {
        let mut ids = self.fitting(filter);
        let (fit, all) = (ids.len(), self.len());
        ids.truncate(filter.limit.unwrap_or(MOST).min(MOST));
        let mut sessions = Vec::with_capacity(ids.len());
        for id in ids {
            sessions.extend(self.session(id));
        }
        Listed { sessions, fit, all }
    }

    /// Ends those that fit with resets to both sides; how many.
    pub fn kill(&mut self, filter: &Filter) -> usize {
        let ids = self.fitting(filter);
        ids.iter().for_each(|id| _ = self.handle(*id, Event::Kill, &[]));
        ids.len()
    }

    /// A connection as it is now.
    fn session(&mut self, id: u64) -> Option<Session> {
        let (entries, now) = self.read(id, |connection, cx| {
            connection.refresh(cx);
            let key = connection.state.server_key();
            ([cx.entry(&connection.client.key), key.and_then(|key| cx.entry(&key))], cx.now)
        })?;
        let Connection { client: c, state, .. } = &**self.connections.get(&id)?;
        let milliseconds = |since: u64| now.saturating_sub(since) / 1_000_000;
        let seen = entries.iter().flatten().map(|entry| u64::from(entry.seen)).max().unwrap_or(0);
        let exchange = c.account.exchange.as_ref();
        let request = exchange.zip(state.request()).map(|(exchange, request)| SessionRequest {
            method: request.method.clone(),
            host: request.host.clone(),
            path: request.path.clone(),
            status: exchange.status,
            age_ms: milliseconds(exchange.began),
        });
        let [up, down] = exchange.map_or([0, 0], |own| [own.up.bytes, own.down.bytes]);
        Some(Session {
            id,
            client: text_of(c.key.src, c.key.src_port),
            address: text_of(c.key.dst, c.key.dst_port),
            service: self.cluster.settings.services.get(c.service).map(|own| own.name.clone()),
            server: state.server().map(|own| self.cluster.name(own)),
            state: name_of(c, state, &entries).into(),
            modes: entries.map(|entry| entry.map(|entry| mode_of(entry.mode).to_owned())),
            age_ms: milliseconds(c.account.opened),
            idle_ms: milliseconds(seen * 1_000_000_000),
            up: c.account.up + up,
            down: c.account.down + down,
            requests: c.account.exchanges,
            request,
        })
    }
}

/// The name of a state.
fn name_of(client: &Client, state: &State, entries: &[Option<FlowEntry>; 2]) -> &'static str {
    let ended = [0, 1].map(|side| entries[side].as_ref().map_or(0, |entry| entry.ended));
    match state {
        State::Reading(_) if client.requests.bytes.ready().is_empty() => "idle",
        State::Reading(_) => "asking",
        State::Choosing(_) | State::Connecting(_) => "connecting",
        State::Joined(_) if are_over(ended) => "closed",
        State::Joined(_) if client.account.exchange.is_none() => "idle",
        State::Joined(_) => "serving",
        State::Killing(_) => "ending",
        State::Answering(_) | State::Resetting(_) | State::Over => "answering",
    }
}

/// The name of a mode.
fn mode_of(mode: Mode) -> &'static str {
    match mode {
        Mode::Held => "held",
        Mode::Limited => "limited",
        Mode::Open => "open",
        Mode::Closing => "closing",
        Mode::Finishing => "finishing",
        Mode::Awaiting => "awaiting",
        Mode::Answered => "answered",
        Mode::Acknowledging => "acknowledging",
    }
}

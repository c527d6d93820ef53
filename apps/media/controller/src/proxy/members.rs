//! Members of pools that are found: who they are now, and how that is known.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Proxy;
use super::state::ms;
use super::world::World;
use crate::pools::ServerId;
use crate::pools::learnt::News;
use crate::settings::members::Source;
use crate::settings::pools::Server;

/// How the members of a pool are known, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceState {
    /// The pool.
    pub pool: String,
    /// Who knows its members.
    pub source: String,
    /// Where they are watched; none: nowhere.
    pub connected: Option<String>,
    /// Since when that is so, in milliseconds.
    pub since_ms: u64,
    /// As of which revision they are known.
    pub revision: Option<String>,
    /// How many they are.
    pub members: usize,
    /// What is found and no member, by its key, and why.
    pub left_out: BTreeMap<String, String>,
    /// The same by the reason, since the start.
    pub left_out_total: BTreeMap<String, u64>,
    /// Changes of members.
    pub changes: u64,
    /// Times that the watch was lost, or could not begin.
    pub lost: u64,
    /// Why the last time.
    pub last_error: String,
    /// Whether this proxy is registered there; none: it is not to be.
    pub registered: Option<bool>,
    /// Why it is not.
    pub refused: Option<String>,
}

/// Members as they are kept for the next process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct MembersRecord {
    /// Who knew them.
    source: String,
    /// Name, host, port, weight.
    members: Vec<(String, String, Option<u16>, u32)>,
}

impl<W: World> Proxy<W> {
    /// What is kept of a pool's members; none where they are listed.
    pub(super) fn members_record(&self, pool: &str) -> Option<MembersRecord> {
        let (_, own) = self.pools.learnt().find(|own| own.0 == pool)?;
        let members = own.servers.iter().map(|own| (own.name.clone(), own.host.clone(), own.port, own.weight));
        Some(MembersRecord { source: own.source.to_string(), members: members.collect() })
    }

    /// Members are those that were kept, until it is known who they are.
    pub(super) fn recall_members(&mut self, pool: &str, record: MembersRecord) {
        let server = |(name, host, port, weight)| Server { name, host, port, weight };
        let servers: Vec<Server> = record.members.into_iter().map(server).collect();
        let count = servers.len();
        if self.pools.recall(&self.settings, (pool, &record.source), servers, self.now) {
            tracing::info!(pool, members = count, "members are those of the process before, until they are found");
        } else {
            self.records.members.insert(pool.to_owned());
        }
    }

    /// There are news of a pool's members. Servers that stay keep what is known of them; those that go get no new
    /// streams.
    pub fn members_told(&mut self, pool: &str, source: &Arc<Source>, news: News) {
        let used = |id: ServerId| self.upstreams.values().any(|own| own.server == Some(id));
        if self.pools.learn(&self.settings, (pool, source), news, self.now, used) {
            self.records.members.insert(pool.to_owned());
            self.leave_unwanted();
        }
    }

    /// How members are known, of all pools that do not list them.
    pub fn source_states(&self) -> Vec<SourceState> {
        let state = |(pool, own): (&String, &crate::pools::learnt::Learnt)| SourceState {
            pool: pool.clone(),
            source: own.source.to_string(),
            connected: own.connected.clone(),
            since_ms: ms(self.now.saturating_sub(own.since)),
            revision: own.revision.clone(),
            members: own.servers.len(),
            left_out: own.left_out.iter().map(|(key, why)| (key.clone(), (*why).to_owned())).collect(),
            left_out_total: own.left_out_total.iter().map(|(why, count)| ((*why).to_owned(), *count)).collect(),
            changes: own.changes,
            lost: own.lost,
            last_error: own.last_error.clone(),
            registered: own.registered.as_ref().map(Result::is_ok),
            refused: own.registered.as_ref().and_then(|own| own.clone().err()),
        };
        self.pools.learnt().map(state).collect()
    }
}

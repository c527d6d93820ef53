//! Origins: which one a presentation comes from, what is known of each, and what operators say about those of pools.

use control::admin_state::AdminState;
use serde::{Deserialize, Serialize};
use wire::rtsp::url::{Url, authority};

use super::state::ms;
use super::target::Presentation;
use super::upstream::Upstream;
use super::world::World;
use super::{Proxy, UpstreamId};
use crate::pools::{OriginCounts, Pools, ServerId, ServerState};

/// Origins of no pool of which is known what they did at most.
const MOST_ORIGINS: usize = 1024;

/// An origin, as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OriginState {
    /// Host and port.
    pub origin: String,
    /// What is known of it as a server of a pool.
    pub server: Option<ServerShown>,
    /// Presentations that come from it.
    pub streams: usize,
    /// Sessions of clients that watch them.
    pub sessions: usize,
    /// Presentations that it was asked for.
    pub asked: u64,
    /// Those that failed.
    pub failed: u64,
    /// Why the last one did.
    pub last_error: String,
}

/// A server of a pool, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerShown {
    /// Its pool.
    pub pool: String,
    /// Its name.
    pub name: String,
    /// Its share of streams.
    pub weight: u32,
    /// Whether checks find it working; none where that is not known yet.
    pub up: Option<bool>,
    /// Since when, in milliseconds.
    pub since_ms: u64,
    /// Why.
    pub why: String,
    /// The admin state: `ready`, `drain` or `down`.
    pub admin: String,
    /// Whether the configuration has it still; those that it has no more are shown as long as streams come from them.
    pub configured: bool,
    /// Health checks.
    pub checks: u64,
    /// Those that failed.
    pub checks_failed: u64,
}

fn origin_name(url: &str) -> String {
    Url::parse(url).map_or_else(|| url.to_owned(), |url| authority(url.host, Some(url.port())))
}

impl<W: World> Proxy<W> {
    /// Where a presentation is asked for: at a peer, at its URL, or at a server of its pool, other than those that were
    /// tried.
    pub(super) fn place(
        &mut self,
        presentation: &Presentation,
        tried: &[ServerId],
    ) -> Option<(Option<ServerId>, String)> {
        if let Some(place) = self.place_at_peer(presentation, tried) {
            return Some(place);
        }
        let Some(pool) = &presentation.pool else { return Some((None, presentation.url.clone())) };
        let sessions = |id: ServerId| self.upstreams.values().filter(|own| own.server == Some(id)).count();
        let server = self.pools.choose(pool, tried, sessions)?;
        Some((Some(server), self.pools.url(server, &presentation.url)?))
    }

    /// What is known of an origin: a server of a pool, or that of a URL.
    pub(super) fn counts_of(&mut self, server: Option<ServerId>, url: &str) -> &mut OriginCounts {
        if let Some(own) = server.and_then(|id| self.pools.get_mut(id)) {
            return &mut own.counts;
        }
        let name = origin_name(url);
        if self.origins.len() >= MOST_ORIGINS && !self.origins.contains_key(&name) {
            self.origins.pop_first();
        }
        self.origins.entry(name).or_default()
    }

    /// Origins of pools.
    pub fn pools(&self) -> &Pools {
        &self.pools
    }

    /// Has a server of a pool in a state from now on. Streams of one that is down come from others.
    pub fn set_admin_state(&mut self, id: ServerId, admin: AdminState) {
        let Some(own) = self.pools.get_mut(id) else { return };
        own.admin = admin;
        self.leave_unwanted();
        if admin == AdminState::Down {
            for upstream in self.streams_of(id) {
                self.fail_upstream(upstream, 503, "its origin was taken down");
            }
        }
    }

    fn streams_of(&self, server: ServerId) -> Vec<UpstreamId> {
        let mut all: Vec<_> = self.upstreams.iter().filter(|(_, own)| own.server == Some(server)).collect();
        all.sort_unstable_by_key(|(id, _)| **id);
        all.into_iter().map(|(id, _)| *id).collect()
    }

    /// Nobody joins streams of servers that are to get no more of them: else a drained one would never be free.
    pub(super) fn leave_unwanted(&mut self) {
        let (upstreams, pools) = (&self.upstreams, &self.pools);
        let unwanted = |own: &Upstream| own.server.is_some_and(|id| pools.get(id).is_none_or(|own| !own.is_wanted()));
        self.joinable.retain(|_, id| upstreams.get(id).is_none_or(|own| !unwanted(own)));
        // What is recorded always comes from another one.
        let joinable = &self.joinable;
        let left = |id: &UpstreamId, own: &Upstream| own.always && joinable.get(&own.presentation) != Some(id);
        self.upstreams.iter_mut().filter(|(id, own)| left(id, own)).for_each(|(_, own)| own.always = false);
    }

    /// Origins: servers of pools, then others by name.
    pub fn origin_states(&self) -> Vec<OriginState> {
        let servers = self.pools.iter().filter_map(|(id, _)| self.server_state(id));
        let others = self.origins.iter().map(|(name, counts)| {
            self.origin_state(name.clone(), counts, None, |own| own.server.is_none() && origin_name(&own.url) == *name)
        });
        servers.chain(others).collect()
    }

    /// A server of a pool.
    pub fn server_state(&self, id: ServerId) -> Option<OriginState> {
        let own = self.pools.get(id)?;
        let shown = self.server_shown(own);
        Some(self.origin_state(own.address(), &own.counts, Some(shown), |own| own.server == Some(id)))
    }

    fn server_shown(&self, own: &ServerState) -> ServerShown {
        ServerShown {
            pool: own.pool.name.clone(),
            name: own.server.name.clone(),
            weight: own.server.weight,
            up: own.up,
            since_ms: ms(self.now.saturating_sub(own.since)),
            why: own.why.clone(),
            admin: own.admin.name().into(),
            configured: own.configured,
            checks: own.checks,
            checks_failed: own.checks_failed,
        }
    }

    fn origin_state(
        &self,
        origin: String,
        counts: &OriginCounts,
        server: Option<ServerShown>,
        is: impl Fn(&Upstream) -> bool,
    ) -> OriginState {
        let own = || self.upstreams.values().filter(|own| is(own));
        OriginState {
            origin,
            server,
            streams: own().count(),
            sessions: own().map(|own| own.viewers.len()).sum(),
            asked: counts.asked,
            failed: counts.failed,
            last_error: counts.last_error.clone(),
        }
    }
}

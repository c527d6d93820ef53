//! Servers of pools, origins and peers: which of them work, and which one gets the next stream.

pub mod learnt;
mod rendezvous;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use control::admin_state::AdminState;
use wire::rtsp::url::{Url, authority};

use self::learnt::{Learnt, News};
use crate::settings::Settings;
use crate::settings::members::Source;
use crate::settings::pools::{Balance, Kind, Pool, Server};

/// An origin of a pool; numbers are not given twice.
pub type ServerId = u64;

/// What is known of an origin's streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OriginCounts {
    /// Presentations that it was asked for.
    pub asked: u64,
    /// Those that failed.
    pub failed: u64,
    /// Why the last one did.
    pub last_error: String,
}

/// An origin of a pool.
#[derive(Clone, Debug)]
pub struct ServerState {
    /// What the configuration says.
    pub server: Server,
    /// Its pool, as in the configuration that had it last.
    pub pool: Arc<Pool>,
    /// Whether it is in the configuration still.
    pub configured: bool,
    /// Whether it works; none as long as neither `rise` checks have succeeded nor `fall` have failed.
    pub up: Option<bool>,
    /// When that changed last,
    pub since: Duration,
    /// and why.
    pub why: String,
    /// What an operator has said about it.
    pub admin: AdminState,
    /// Checks in a row that said otherwise than `up`, and whether they succeeded.
    contrary: (bool, u32),
    /// Checks,
    pub checks: u64,
    /// and those that failed.
    pub checks_failed: u64,
    /// When the next check is due, or the one that is under way must have ended.
    pub due: Duration,
    /// What is known of its streams.
    pub counts: OriginCounts,
    /// Its credit in the weighted round.
    credit: i64,
}

impl ServerState {
    /// `POOL/NAME`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.pool.name, self.server.name)
    }

    /// Host and port.
    pub fn address(&self) -> String {
        authority(&self.server.host, self.server.port)
    }

    /// Whether it may get new streams, as far as configuration and operators say.
    pub fn is_wanted(&self) -> bool {
        self.configured && self.admin == AdminState::Ready && self.server.weight > 0
    }
}

/// All of them.
#[derive(Debug, Default)]
pub struct Pools {
    servers: BTreeMap<ServerId, ServerState>,
    next: ServerId,
    /// Members of pools that do not list them, by pool.
    learnt: BTreeMap<String, Learnt>,
    /// This proxy's share of the streams among its siblings.
    own_weight: u32,
}

impl Pools {
    /// Takes over another configuration. What is known of servers that are in both stays: a server is the same as long
    /// as its pool's name and its address are. Those that are no more are kept as long as `used` says so.
    pub fn configure(&mut self, settings: &Settings, now: Duration, used: impl Fn(ServerId) -> bool) {
        self.servers.values_mut().for_each(|own| own.configured = false);
        let source = |name: &str| settings.pools.iter().find(|pool| pool.name == name)?.source.as_ref();
        self.learnt.retain(|name, own| source(name) == Some(&own.source));
        let own = settings.peers.as_ref();
        self.own_weight = own.map_or(0, |own| own.weight);
        for pool in &settings.pools {
            let mut found = None;
            if let Some(source) = &pool.source {
                let new = || Learnt::new(source.clone(), now);
                let learnt = self.learnt.entry(pool.name.clone()).or_insert_with(new);
                if own.is_none_or(|own| own.announce.is_none()) {
                    learnt.registered = None;
                }
                let all = &learnt.servers;
                // This proxy is among its siblings, where it is known to them.
                let is_own = |server: &&Server| own.is_some_and(|own| own.name.as_ref() == Some(&server.name));
                if pool.kind == Kind::Siblings {
                    self.own_weight = all.iter().find(is_own).map_or(0, |server| server.weight);
                }
                let others = all.iter().filter(|own| pool.kind == Kind::Origins || !is_own(own));
                found = Some(others.cloned().collect::<Vec<_>>());
            }
            let pool = Arc::new(pool.clone());
            for server in found.as_ref().unwrap_or(&pool.servers) {
                let same = |own: &&mut ServerState| {
                    let address = (&own.server.host, own.server.port) == (&server.host, server.port);
                    address && own.pool.name == pool.name
                };
                if let Some(own) = self.servers.values_mut().find(same) {
                    (own.server, own.pool, own.configured) = (server.clone(), pool.clone(), true);
                    continue;
                }
                self.next += 1;
                let state = ServerState {
                    server: server.clone(),
                    pool: pool.clone(),
                    configured: true,
                    up: None,
                    since: now,
                    why: "not checked yet".into(),
                    admin: AdminState::Ready,
                    contrary: (false, 0),
                    checks: 0,
                    checks_failed: 0,
                    due: now,
                    counts: OriginCounts::default(),
                    credit: 0,
                };
                self.servers.insert(self.next, state);
            }
        }
        self.servers.retain(|id, own| own.configured || used(*id));
    }

    /// Takes in news of the members of a pool, as long as they come from where the configuration says; whether others
    /// are members now.
    pub fn learn(
        &mut self,
        settings: &Settings,
        (pool, source): (&str, &Arc<Source>),
        news: News,
        now: Duration,
        used: impl Fn(ServerId) -> bool,
    ) -> bool {
        let Some(own) = self.learnt.get_mut(pool).filter(|own| own.source == *source) else { return false };
        let changed = own.take(pool, news, now);
        if changed {
            self.configure(settings, now, used);
        }
        changed
    }

    /// Members are these, which another process knew last, until somebody says who they are. True where the pool's are
    /// found at this source.
    pub fn recall(
        &mut self,
        settings: &Settings,
        (pool, source): (&str, &str),
        servers: Vec<Server>,
        now: Duration,
    ) -> bool {
        let Some(own) = self.learnt.get_mut(pool).filter(|own| own.source.to_string() == source) else { return false };
        if own.revision.is_none() {
            own.servers = servers;
            self.configure(settings, now, |_| true);
        }
        true
    }

    /// What is known of members that are found, by pool.
    pub fn learnt(&self) -> impl Iterator<Item = (&String, &Learnt)> {
        self.learnt.iter()
    }

    /// This proxy's share of the streams among its siblings.
    pub fn own_weight(&self) -> u32 {
        self.own_weight
    }

    /// All servers, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = (ServerId, &ServerState)> {
        self.servers.iter().map(|(id, own)| (*id, own))
    }

    /// A server.
    pub fn get(&self, id: ServerId) -> Option<&ServerState> {
        self.servers.get(&id)
    }

    /// A server, to be changed.
    pub fn get_mut(&mut self, id: ServerId) -> Option<&mut ServerState> {
        self.servers.get_mut(&id)
    }

    /// The server of a name, `POOL/NAME`.
    pub fn named(&self, name: &str) -> Option<ServerId> {
        self.iter().filter(|(_, own)| own.configured).find(|(_, own)| own.name() == name).map(|(id, _)| id)
    }

    /// The URL at a server of what has the pool in the place of the host.
    pub fn url(&self, id: ServerId, of_pool: &str) -> Option<String> {
        let path = Url::parse(of_pool)?.path;
        Some(format!("rtsp://{}{path}", self.get(id)?.address()))
    }

    /// Says what a check of a server, or its use, has found: that it works, or why not. True where that changed whether
    /// it is up.
    pub fn checked(&mut self, id: ServerId, found: Result<(), &str>, now: Duration) -> bool {
        let Some(own) = self.servers.get_mut(&id) else { return false };
        let works = found.is_ok();
        let in_a_row = if own.contrary.0 == works { own.contrary.1 + 1 } else { 1 };
        own.contrary = (works, if own.up == Some(works) { 0 } else { in_a_row });
        let needed = if works { own.pool.check.rise } else { own.pool.check.fall };
        if own.contrary.1 < needed {
            return false;
        }
        (own.up, own.since, own.contrary.1) = (Some(works), now, 0);
        own.why = found.err().unwrap_or("checks succeed").to_owned();
        tracing::warn!(server = own.name(), up = works, why = own.why, "origin");
        true
    }

    /// No check is due any more.
    pub fn stop_checks(&mut self) {
        self.servers.values_mut().for_each(|own| own.due = Duration::MAX);
    }

    /// The server for a new stream of a pool, other than those that were tried. Where none is known to work, one of
    /// which nothing is known. `sessions` says how many sessions the proxy has with one.
    pub fn choose(&mut self, pool: &str, tried: &[ServerId], sessions: impl Fn(ServerId) -> usize) -> Option<ServerId> {
        let able = |up: Option<bool>| -> Vec<ServerId> {
            let fits = |(id, own): &(ServerId, &ServerState)| {
                own.pool.name == pool && own.is_wanted() && own.up == up && !tried.contains(id)
            };
            self.iter().filter(fits).map(|(id, _)| id).collect()
        };
        let mut able = [able(Some(true)), able(None)].into_iter().find(|own| !own.is_empty())?;
        match self.get(able[0])?.pool.balance {
            Balance::RoundRobin => self.in_turn(&able),
            Balance::LeastSessions => {
                // Sessions for its weight, compared without a division; the earlier one of equals.
                let load = |id: ServerId| Some((sessions(id) as u64 + 1, u64::from(self.get(id)?.server.weight)));
                let first = able.remove(0);
                Some(able.into_iter().fold(first, |best, own| match (load(best), load(own)) {
                    (Some((a, wa)), Some((b, wb))) if b * wa < a * wb => own,
                    _ => best,
                }))
            }
        }
    }

    /// The peer of a kind that has a stream, of those that may have it, are not known to be down and were not tried;
    /// none where that is this proxy itself (its name and weight), or there is none.
    pub fn peer(&self, kind: Kind, stream: &str, own: Option<(&str, u32)>, tried: &[ServerId]) -> Option<ServerId> {
        let fits = |(id, peer): &(ServerId, &ServerState)| {
            peer.pool.kind == kind && peer.is_wanted() && peer.up != Some(false) && !tried.contains(id)
        };
        let cost = |name: &str, weight: u32| rendezvous::cost(stream, name, weight);
        let all = self.iter().filter(fits).map(|(id, peer)| (cost(&peer.server.name, peer.server.weight), Some(id)));
        let own = own.map(|(name, weight)| (cost(name, weight), None));
        all.chain(own).min_by(|one, other| one.0.total_cmp(&other.0))?.1
    }

    /// Smooth weighted round robin: all get their weight as credit, the one with most pays for all.
    fn in_turn(&mut self, able: &[ServerId]) -> Option<ServerId> {
        let mut total = 0;
        let mut best: Option<(i64, ServerId)> = None;
        for id in able {
            let own = self.servers.get_mut(id)?;
            let weight = i64::from(own.server.weight);
            own.credit += weight;
            total += weight;
            if best.is_none_or(|(most, _)| own.credit > most) {
                best = Some((own.credit, *id));
            }
        }
        let (_, best) = best?;
        self.servers.get_mut(&best)?.credit -= total;
        Some(best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::pools::Check;

    fn settings(balance: Balance, servers: &[(&str, &str, u32)]) -> Settings {
        let server = |(name, host, weight): &(&str, &str, u32)| Server {
            name: (*name).into(),
            host: (*host).into(),
            port: None,
            weight: *weight,
        };
        let check = Check { rise: 2, fall: 3, ..Check::default() };
        let pool = Pool {
            name: "p".into(),
            kind: Kind::Origins,
            balance,
            servers: servers.iter().map(server).collect(),
            source: None,
            check,
        };
        Settings { pools: vec![pool], ..Settings::default() }
    }

    fn chosen(pools: &mut Pools, count: usize) -> String {
        (0..count)
            .map(|_| pools.choose("p", &[], |_| 0).map_or("-".into(), |id| pools.servers[&id].server.name.clone()))
            .collect()
    }

    #[test]
    fn weights_are_shares_in_turn() {
        let mut pools = Pools::default();
        pools.configure(
            &settings(Balance::RoundRobin, &[("a", "h1", 2), ("b", "h2", 1), ("c", "h3", 0)]),
            Duration::ZERO,
            |_| false,
        );
        assert_eq!(chosen(&mut pools, 6), "abaaba");
        // What does not work, or is not wanted, gets nothing; what is known to work comes before what is not known.
        let [a, b] = ["p/a", "p/b"].map(|name| pools.named(name).unwrap());
        assert!(!pools.checked(b, Ok(()), Duration::ZERO) && pools.checked(b, Ok(()), Duration::ZERO));
        assert_eq!(chosen(&mut pools, 3), "bbb");
        pools.get_mut(b).unwrap().admin = AdminState::Drain;
        assert_eq!(chosen(&mut pools, 2), "aa");
        for said in [false, false, true] {
            assert_eq!(pools.checked(a, Err("no"), Duration::ZERO), said);
        }
        assert_eq!(chosen(&mut pools, 1), "-");
        // A success in between begins the row anew.
        for (found, changed) in [(Ok(()), false), (Err("no"), false), (Ok(()), false), (Ok(()), true), (Ok(()), false)]
        {
            assert_eq!(pools.checked(a, found, Duration::ZERO), changed);
        }
        assert_eq!(pools.choose("p", &[a], |_| 0), None);
    }

    #[test]
    fn fewest_sessions_for_the_weight() {
        let mut pools = Pools::default();
        pools
            .configure(&settings(Balance::LeastSessions, &[("a", "h1", 1), ("b", "h2", 3)]), Duration::ZERO, |_| false);
        let mut sessions = BTreeMap::new();
        for _ in 0..8 {
            let id = pools.choose("p", &[], |id| sessions.get(&id).copied().unwrap_or(0)).unwrap();
            *sessions.entry(id).or_insert(0) += 1;
        }
        assert_eq!(sessions.into_values().collect::<Vec<usize>>(), [2, 6]);
    }

    #[test]
    fn a_server_is_the_same_by_its_address() {
        let mut pools = Pools::default();
        let at = Duration::ZERO;
        pools.configure(&settings(Balance::RoundRobin, &[("a", "h1", 1), ("b", "h2", 1)]), at, |_| false);
        let (a, b) = (pools.named("p/a").unwrap(), pools.named("p/b").unwrap());
        pools.get_mut(a).unwrap().admin = AdminState::Down;
        pools.configure(&settings(Balance::RoundRobin, &[("z", "h1", 5), ("c", "h3", 1)]), at, |id| id == b);
        assert_eq!((pools.named("p/z"), pools.named("p/a"), pools.named("p/b")), (Some(a), None, None));
        assert_eq!(pools.get(a).unwrap().admin, AdminState::Down);
        assert!(!pools.get(b).unwrap().configured);
        assert_eq!(pools.url(b, "rtsp://p/x?y").as_deref(), Some("rtsp://h2/x?y"));
        pools.configure(&Settings::default(), at, |_| false);
        assert_eq!(pools.iter().count(), 0);
    }
}

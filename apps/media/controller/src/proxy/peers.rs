//! Peers: other proxies that have the same streams. Of siblings one has each stream, which all of them agree on without
//! asking each other; it has the stream from a parent, or the origin, records it, and the others have it from there.
//! A peer that can't be had, or does not have the stream, is passed by.

use serde::{Deserialize, Serialize};

use super::members::SourceState;
use super::origins::OriginState;
use super::target::{Presentation, Target};
use super::upstream::Upstream;
use super::via;
use super::world::World;
use super::{Proxy, UpstreamId};
use crate::cache::start::{HOST, START};
use crate::pools::ServerId;
use crate::settings::Credentials;
use crate::settings::pools::Kind;

/// How a presentation is asked for at peers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Peered {
    /// The path of its URL there.
    pub path: String,
    /// Whether a sibling may be asked: none is for what one of them asks.
    pub by_siblings: bool,
}

impl Peered {
    /// What the stream is to those who agree on who has it: what was recorded of it is where it is.
    fn key(&self) -> &str {
        key(&self.path)
    }
}

fn key(path: &str) -> &str {
    path.rsplit_once('?').filter(|(_, query)| query.starts_with(START)).map_or(path, |(stream, _)| stream)
}

/// The peer that a presentation comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) kind: Kind,
    /// Who this proxy is there.
    pub(super) credentials: Option<Credentials>,
}

/// Peers, as they are shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeersState {
    /// This proxy's name among its siblings.
    pub name: Option<String>,
    /// Siblings, then parents.
    pub peers: Vec<OriginState>,
    /// How members are known of pools that do not list them, those of other kinds, too.
    #[serde(default)]
    pub sources: Vec<SourceState>,
    /// Who is asked for the stream that was named, in this order; without a name, the origin.
    #[serde(default)]
    pub asked: Vec<String>,
}

impl Upstream {
    /// What it is asked with at the place that it comes from: a user and a password.
    pub(super) fn credentials(&self) -> Option<&Credentials> {
        match &self.peer {
            Some(peer) => peer.credentials.as_ref(),
            None => self.presentation.credentials.as_ref(),
        }
    }

    /// Whether its origin sends it to a group. Peers do not.
    pub(super) fn is_multicast(&self) -> bool {
        self.multicast && self.peer.is_none()
    }

    /// Whether a sibling has it, and records it.
    pub(super) fn is_of_sibling(&self) -> bool {
        self.peer.as_ref().is_some_and(|own| own.kind == Kind::Siblings)
    }
}

impl<W: World> Proxy<W> {
    /// Notes where a presentation comes from from now on: from a server of a pool, or from nowhere else than its URL.
    pub(super) fn comes_from(&mut self, id: UpstreamId, server: Option<ServerId>) {
        let peer = self.peer_of(server);
        let Some(own) = self.upstreams.get_mut(&id) else { return };
        (own.server, own.peer) = (server, peer);
    }

    /// What a server is, where that is a peer.
    pub(super) fn peer_of(&self, server: Option<ServerId>) -> Option<Peer> {
        let kind = self.pools.get(server?)?.pool.kind;
        let credentials = self.settings.peers.as_ref().and_then(|own| own.credentials.clone());
        (kind != Kind::Origins).then_some(Peer { kind, credentials })
    }

    /// How peers are asked for what a client asks for; none where they are not.
    pub(super) fn peered(&self, target: &Target) -> Option<Peered> {
        self.settings.peers.as_ref()?;
        let presentation = &target.presentation;
        // What a client proves at the origin it can't prove elsewhere; other sources have no URL that peers would know.
        if target.plain.is_some() || target.publish.is_some() || target.forwarded || presentation.prover.is_some() {
            return None;
        }
        let url = presentation.url.strip_prefix("rtsp://")?;
        let recorded = url.strip_prefix(HOST).and_then(|own| own.strip_prefix('/'));
        let path = recorded.or(target.name.as_deref()).unwrap_or(url).to_owned();
        // A sibling that asks has found that it is to be here.
        let is_passed = target.via.as_ref().is_some_and(|passed| self.names_sibling(passed));
        let by_siblings = !is_passed;
        // What was recorded here is not asked for at parents.
        (recorded.is_none() || by_siblings).then_some(Peered { path, by_siblings })
    }

    /// A presentation that is there, and that a client may join. What comes from a sibling is not for others of them:
    /// it may come from the very one that asks.
    pub(super) fn there(&self, presentation: &Presentation) -> Option<UpstreamId> {
        let there = |own: &Presentation| self.joinable.get(own).copied().filter(|id| self.upstreams.contains_key(id));
        there(presentation).or_else(|| {
            let peers = presentation.peers.as_ref()?;
            let other = Peered { path: peers.path.clone(), by_siblings: !peers.by_siblings };
            let id = there(&Presentation { peers: Some(other), ..presentation.clone() })?;
            (peers.by_siblings || !self.upstreams.get(&id)?.is_of_sibling()).then_some(id)
        })
    }

    /// Whether another proxy has the stream of this name.
    pub(super) fn is_elsewhere(&self, stream: &str) -> bool {
        self.settings.peers.is_some() && self.sibling_of(stream, &[]).is_some()
    }

    /// The sibling that has a stream; none: this proxy.
    fn sibling_of(&self, key: &str, tried: &[ServerId]) -> Option<ServerId> {
        let own = self.settings.peers.as_ref()?;
        let itself = own.name.as_deref().map(|name| (name, self.pools.own_weight()));
        self.pools.peer(Kind::Siblings, key, itself, tried)
    }

    /// Whether a request has come through a sibling.
    fn names_sibling(&self, passed: &str) -> bool {
        let all = self.pools.iter().filter(|(_, own)| own.pool.kind == Kind::Siblings);
        let names: Vec<&str> = all.map(|(_, own)| own.server.name.as_str()).collect();
        via::names(passed).any(|own| names.contains(&own))
    }

    /// The peer other than those that were tried at which a presentation is asked for, and its URL there.
    pub(super) fn place_at_peer(
        &self,
        presentation: &Presentation,
        tried: &[ServerId],
    ) -> Option<(Option<ServerId>, String)> {
        let own = presentation.peers.as_ref()?;
        let sibling = own.by_siblings.then(|| self.sibling_of(own.key(), tried)).flatten();
        let is_recorded = key(&own.path).len() < own.path.len();
        let parent = || self.pools.peer(Kind::Parents, own.key(), None, tried).filter(|_| !is_recorded);
        let server = sibling.or_else(parent)?;
        Some((Some(server), format!("rtsp://{}/{}", self.pools.get(server)?.address(), own.path)))
    }

    /// Peers, and who is asked for a stream.
    pub fn peers_state(&self, stream: Option<&str>) -> PeersState {
        let of = |kind: Kind| self.pools.iter().filter(move |(_, own)| own.pool.kind == kind).map(|(id, _)| id);
        let all = of(Kind::Siblings).chain(of(Kind::Parents));
        let mut asked = Vec::new();
        if let Some(stream) = stream {
            let name = |id: ServerId| self.pools.get(id).map(|own| own.name());
            asked.extend(self.sibling_of(stream, &[]).and_then(name));
            let mut tried = Vec::new();
            while let Some(id) = self.pools.peer(Kind::Parents, stream, None, &tried) {
                asked.extend(name(id));
                tried.push(id);
            }
        }
        PeersState {
            name: self.settings.peers.as_ref().and_then(|own| own.name.clone()),
            peers: all.filter_map(|id| self.server_state(id)).collect(),
            sources: self.source_states(),
            asked,
        }
    }

    /// Whether an address is that of a peer, which asks for what many clients want.
    pub(super) fn is_peer(&self, address: std::net::IpAddr) -> bool {
        let mut peers = self.pools.iter().filter(|(_, own)| own.configured && own.pool.kind != Kind::Origins);
        peers.any(|(_, own)| own.server.host.parse() == Ok(address.to_canonical()))
    }
}

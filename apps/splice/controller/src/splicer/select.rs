//! A server is chosen for a request, and a connection to it: one of the idle pool, or a new one.

use wire::flow_key::FlowKey;
use wire::isn::initial;

use super::Owner;
use super::drive::Surroundings;
use crate::connection::effect::{Policy, Select, Selection};
use crate::connection::event::Event;
use crate::connection::upstream::{Hop, Offered, Peer, ServerConn};
use crate::data_path::DataPath;
use crate::tables::flow_entry::{FlowEntry, second};

impl<P: DataPath> Surroundings<'_, P> {
    /// Chooses a server, and takes a connection to it.
    pub(super) fn select(&mut self, mut select: Select) -> Event<'static> {
        let selection = match select.policy {
            Policy::Reuse { may } => self.reuse(&mut select, may),
            Policy::Fresh => self.connect(&mut select),
            Policy::Elsewhere { status } => match self.choose(&select) {
                Some(_) => self.connect(&mut select),
                None => Selection::None(status),
            },
        };
        Event::Selected(selection, select.tried)
    }

    fn choose(&mut self, select: &Select) -> Option<usize> {
        self.cluster.choose(select.pool, select.client.src, &select.options, &select.tried)
    }

    /// A connection of the idle pool, if the request `may` go out on one, or else a new one.
    fn reuse(&mut self, select: &mut Select, may: bool) -> Selection {
        let Some(server) = self.choose(select) else { return Selection::None(503) };
        let options = select.options;
        let fits = |own: &ServerConn| {
            let offered = own.peer.offered;
            may && (offered.sack, offered.times) == (options.sack, options.times) && offered.mss <= options.mss
        };
        let Some(idle) = self.idle.take(server, fits) else { return self.connect_to(server, select) };
        self.bind(idle.conn.peer.key, server);
        Selection::Idle(idle)
    }

    /// A new connection.
    fn connect(&mut self, select: &mut Select) -> Selection {
        match self.choose(select) {
            Some(server) => self.connect_to(server, select),
            None => Selection::None(503),
        }
    }

    /// A new connection to a server, or to another one where no own port towards that is free.
    fn connect_to(&mut self, mut server: usize, select: &mut Select) -> Selection {
        loop {
            let seen = self.cluster.seen(server, &select.client);
            let (by_server, path) = (&*self.by_server, &mut *self.path);
            let is_free = |key: &FlowKey| !by_server.contains_key(key) && forget_closed(path, key);
            let key = self.cluster.flow_key(server, seen, is_free);
            let known = &self.cluster.servers[server];
            let Some(mac) = known.mac else { return Selection::None(503) };
            let Some(key) = key else {
                // Others have ports of their own.
                tracing::debug!(server = known.server.name, "no own port is free");
                select.tried.push(server);
                match self.choose(select) {
                    Some(other) => server = other,
                    None => return Selection::None(503),
                }
                continue;
            };
            let (own, options) = (&known.interface, select.options);
            let peer = Peer {
                server,
                key,
                hop: Hop { port: own.port, mac, own_mac: own.mac },
                mss: options.mss.min(known.learned.and_then(|own| own.mss).unwrap_or(536)).max(100),
                offered: Offered { mss: options.mss, sack: options.sack, times: options.times },
                is_nat: seen.is_none(),
            };
            self.bind(key, server);
            let first = initial(self.path.secret(), &key, self.now);
            let held = FlowEntry::held(select.client.reversed(), second(self.now));
            return Selection::New { peer, first, has_entry: self.path.set_entry(&key, &held) };
        }
    }

    /// A connection to a server is the client's from now on.
    fn bind(&mut self, key: FlowKey, server: usize) {
        self.cluster.servers[server].active += 1;
        self.by_server.insert(key, Owner::Connection(self.id));
    }
}

/// Whether no connection has this flow key of a server's segments any more. One that both sides have closed is
/// forgotten early where its key is wanted: keys come by turns, so it is the one that was closed first.
fn forget_closed(path: &mut impl DataPath, key: &FlowKey) -> bool {
    let Some(server) = path.entry(key) else { return true };
    let other = server.to.reversed();
    let is_over =
        server.ended & 2 != 0 || (server.ended != 0 && path.entry(&other).is_none_or(|client| client.ended != 0));
    if is_over {
        path.remove_entry(&other);
    }
    is_over
}

//! Connections that are the client's with a server of the host, byte by byte: TLS from the first byte on, and what has
//! become WebSocket. Each side may end what it says before the other one does.

use std::time::Duration;

use super::Proxy;
use super::connections::State;
use super::world::{Effect, World};
use crate::http::refusal::TLS_DOWN;
use crate::tables::{Next, Order};

/// See the module.
#[derive(Debug)]
pub(super) struct Tunnel {
    /// Whether a reading of the server is under way.
    pub(super) awaits: bool,
    /// When something came last, from either side.
    pub(super) since: Duration,
}

impl Tunnel {
    /// One whose server is not read from yet.
    pub(super) fn new(now: Duration) -> Tunnel {
        Tunnel { awaits: false, since: now }
    }
}

impl<W: World> Proxy<W> {
    /// Joins a client of TLS to the host's server.
    pub(super) fn begin_tunnel(&mut self, number: u32) {
        let (now, server) = (self.now, self.settings.https_server);
        let Some(own) = self.connections.get_mut(&number) else { return };
        // It was there when this was decided.
        let Some(server) = server else { return self.refuse(number, TLS_DOWN) };
        let (bytes, generation) = (own.input.all(), own.generation);
        let credit = Order::Credit(bytes.len() as u32);
        own.state = State::Tunnels(Tunnel::new(now));
        "TLS".clone_into(&mut own.said.line);
        self.counts.tunnels += 1;
        self.effect(Effect::Connect { connection: number, generation, server, bytes });
        self.effect(Effect::Order(number, generation, credit));
        self.read_on(number);
    }

    /// The client sends nothing more.
    pub(super) fn tunnel_half_closed(&mut self, number: u32) {
        self.effect(Effect::EndServer(number));
    }

    /// The server sends nothing more; the client may go on.
    pub(super) fn tunnel_server_ended(&mut self, number: u32) {
        let Some(own) = self.connections.get_mut(&number) else { return };
        let generation = own.generation;
        if own.outgoing.finish(Next::Close) {
            return self.flush(number);
        }
        self.effect(Effect::Order(number, generation, Order::Close));
    }
}

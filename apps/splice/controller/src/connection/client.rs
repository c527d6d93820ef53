//! The client's side of a connection: what it has in every state.

use wire::flow_key::FlowKey;
use wire::seq::before;

use super::clock::ClientClock;
use super::exchange::Account;
use super::out_of_order::OutOfOrder;
use super::stream::Stream;
use super::upstream::{Hop, Upstream};
use crate::cluster::NegotiatedOptions;

/// What becomes of the client's connection behind the present response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// Another request may follow.
    KeepAlive,
    /// It ends: the server's FIN and the client's pass through.
    Close,
    /// It ends, which the server does not know: Millrace sends the FIN. See [`close`](super::close).
    SelfClose,
}

impl Persistence {
    /// Of a request: whether another one may follow, and whether the server does not know of the end.
    pub fn new(keeps_alive: bool, closes: bool) -> Persistence {
        match (closes, keeps_alive) {
            (true, _) => Persistence::SelfClose,
            (false, true) => Persistence::KeepAlive,
            (false, false) => Persistence::Close,
        }
    }

    /// Whether another request may follow the present one.
    pub fn keeps_alive(self) -> bool {
        self == Persistence::KeepAlive
    }

    /// Whether Millrace itself closes behind the response.
    pub fn closes(self) -> bool {
        self == Persistence::SelfClose
    }

    /// No other request follows.
    pub fn end(&mut self) {
        if self.keeps_alive() {
            *self = Persistence::Close;
        }
    }

    /// A FIN passes through that both sides see, so that Millrace need not send one.
    pub fn pass_fin(&mut self) {
        if self.closes() {
            *self = Persistence::Close;
        }
    }
}

/// How far the client's messages are, as its flow entry says it.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Where the next process begins to read: a request's first byte, or where the bytes end that need not be looked
    /// at.
    pub start: u32,
    /// How far a server has the client's stream.
    pub delivered: u32,
    /// Whether a server has the present request.
    pub served: bool,
    /// Whether the present request is a HEAD.
    pub is_head: bool,
    /// Whether Millrace itself is saying something to the client that no other process knows.
    pub answers: bool,
}

/// The client's side.
#[derive(Clone, Debug)]
pub struct Client {
    /// The flow key of the client's segments.
    pub key: FlowKey,
    /// The service, by its number in the configuration.
    pub service: usize,
    /// The next hop to the client.
    pub hop: Hop,
    /// What the cookie has negotiated.
    pub options: NegotiatedOptions,
    /// What the client sends.
    pub requests: Stream,
    /// What it sent of a request behind a gap.
    pub out_of_order: OutOfOrder,
    /// How far Millrace itself has acknowledged what the client sent.
    pub acknowledged: u32,
    /// The sequence number of what the client gets next from another server.
    pub next: u32,
    /// What the client has acknowledged.
    pub acked: u32,
    /// Its last window, as it came.
    pub window: u16,
    /// Its clock.
    pub clock: ClientClock,
    /// Whether it has sent its FIN.
    pub done: bool,
    /// What follows the present response.
    pub persistence: Persistence,
    /// Connections to servers that were made for it.
    pub connects: u32,
    /// What is counted of it.
    pub account: Account,
}

impl Client {
    /// Where the client's messages are while there is no request, or none whose bytes a server needs.
    pub fn at_limit(&self) -> Progress {
        let limit = self.requests.limit();
        Progress { start: limit, delivered: limit, served: false, is_head: false, answers: false }
    }

    /// Bytes that the client has room for.
    pub fn room(&self) -> u32 {
        u32::from(self.window) << self.options.scale.unwrap_or(0)
    }

    /// Whether a server has acknowledged all of the present request, which is whole.
    pub fn is_delivered(&self, u: &Upstream) -> bool {
        self.requests.is_done() && u.has_all() && !before(u.acked, self.requests.limit())
    }

    /// Whether the client waits for nothing: it has all of the response, and has sent nothing else.
    pub fn is_between(&self, u: &Upstream) -> bool {
        let asked = self.requests.is_done() && self.requests.bytes.ready().is_empty();
        u.has_all() && u.conn.responses.is_done() && asked && !before(self.acked, u.response_end())
    }

    /// Whether the client has been sent the last byte of the response behind which Millrace closes, with a FIN or
    /// before it.
    pub fn is_finishing(&self, u: &Upstream) -> bool {
        let responses = &u.conn.responses;
        self.persistence.closes() && responses.is_done() && !before(u.passed, responses.limit())
    }

    /// Whether a FIN of Millrace's own belongs behind the bytes before `end`, a number of the server's.
    pub fn finishes_at(&self, u: &Upstream, end: u32) -> bool {
        self.is_finishing(u) && !before(end, u.conn.responses.limit())
    }

    /// Whether a FIN of the server's is not for the client: it ends the server's connection behind the request and its
    /// response, and the client may go on; or it has overtaken some of a response whose end is not known yet, may be
    /// behind it, and comes again.
    pub fn keeps_fin(&self, u: &Upstream) -> bool {
        let responses = &u.conn.responses;
        let early = !responses.is_done() && !responses.bytes.is_ended() && !responses.is_endless();
        let behind = responses.is_done() && self.is_delivered(u);
        self.persistence.keeps_alive() && !self.done && (behind || early)
    }
}

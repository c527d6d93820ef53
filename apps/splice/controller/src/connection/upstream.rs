//! The server's side of a connection, by its state: [`SynSent`], [`Upstream`] (joined to a client's connection),
//! [`IdleUpstream`] (in the idle pool).
//!
//! Sequence numbers of the client's stream are the client's here. They differ from the server's where other clients
//! have used the connection before, and where the server sees the client's address.

use wire::flow_key::FlowKey;
use wire::http::Response;
use wire::seq::before;

use super::clock::{AHEAD, Recent};
use super::stream::Stream;
use crate::tables::flow_entry::Mode;

/// Bytes of a response's head at most: a longer one passes through unread.
pub const HEAD: usize = 131_072;

/// How frames reach a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The port.
    pub port: u8,
    /// The neighbour's Ethernet address.
    pub mac: [u8; 6],
    /// The own one.
    pub own_mac: [u8; 6],
}

/// The options of an own SYN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offered {
    /// The greatest segment.
    pub mss: u16,
    /// Selective acknowledgements.
    pub sack: bool,
    /// Timestamps.
    pub times: bool,
}

/// A server at the other end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The server's number.
    pub server: usize,
    /// The flow key of the server's segments.
    pub key: FlowKey,
    /// The next hop to it.
    pub hop: Hop,
    /// Bytes of a segment to it at most, with options.
    pub mss: u16,
    /// What the SYN to it has offered.
    pub offered: Offered,
    /// Whether it sees an own address.
    pub is_nat: bool,
}

/// What an established connection to a server has, whichever client uses it.
#[derive(Clone, Debug)]
pub struct ServerConn {
    /// The server.
    pub peer: Peer,
    /// The window scale that the server uses.
    pub scale: u8,
    /// The window scale that was advertised to it; 0 where none counts.
    pub advertised_scale: u8,
    /// How far its window reaches.
    pub edge: u32,
    /// Its latest clock.
    pub tsval: u32,
    /// Its clock in the last segment that a client has the beginning of.
    pub recent: Recent,
    /// What it sends.
    pub responses: Stream,
}

/// What is added to the fields of segments between a client's connection and the server's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offsets {
    /// To the client's sequence numbers.
    pub shift: u32,
    /// To the client's clock.
    pub clock: u32,
    /// To the server's sequence numbers.
    pub seq: u32,
    /// To the server's clock.
    pub tsval: u32,
}

/// The bytes of a request that the server has not acknowledged, or may have to be sent to another one.
#[derive(Clone, Debug, Default)]
pub struct KeptRequest {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The sequence number of the first.
    pub at: u32,
    /// Whether a FIN follows them.
    pub fin: bool,
    /// The client's stream from behind them on, as it was then, of a request that was not whole; where the connection
    /// is `used` alone.
    pub rest: Option<Box<Stream>>,
    /// Whether the server was told of more room than the client has that uses it now: see [`Upstream::first_length`].
    pub shrinks: bool,
    /// Whether nothing but the first segment is sent until the server has that: see [`Upstream::may_know_first_alone`].
    pub alone: bool,
    /// When the server was given the request.
    pub since: u64,
    /// When the bytes are sent again.
    pub resend: u64,
    /// From then to the next time.
    pub backoff: u64,
}

impl KeptRequest {
    /// The sequence number behind the bytes.
    pub fn end(&self) -> u32 {
        self.at.wrapping_add(self.bytes.len() as u32).wrapping_add(self.fin.into())
    }
}

/// What was written last to one of the two flow entries: mode, limit, framing and facts.
pub type Written = (Mode, u32, u64, u16);

/// An established connection to a server that belongs to a client's connection.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// The connection.
    pub conn: ServerConn,
    /// What is added between the two connections.
    pub offsets: Offsets,
    /// How far the server has acknowledged the client's stream.
    pub acked: u32,
    /// How far it was sent.
    pub sent: u32,
    /// The request.
    pub kept: KeptRequest,
    /// The head of the present response.
    pub response: Option<Response>,
    /// Whether a byte of it has been passed on.
    pub begun: bool,
    /// How far it was passed on by the controller, in the server's numbers.
    pub passed: u32,
    /// Whether the connection was there before the request: the server may close it just when that is sent.
    pub used: bool,
    /// Whether a request or response has authenticated the connection: it is no other client's then.
    pub private: bool,
    /// Whether the data path may read the head of the response: see [`awaiting`](super::awaiting).
    pub awaits: bool,
    /// Both flow entries as they were written last, the client's first.
    pub written: Option<[Written; 2]>,
    /// Whether they lead to each other.
    pub joined: bool,
    /// Whether a process before has sent on it.
    pub taken_up: bool,
}

impl Upstream {
    /// On a connection, with nothing sent yet.
    pub fn new(conn: ServerConn, offsets: Offsets) -> Upstream {
        let passed = conn.responses.limit();
        Upstream {
            conn,
            offsets,
            acked: 0,
            sent: 0,
            kept: KeptRequest::default(),
            response: None,
            begun: false,
            passed,
            used: false,
            private: false,
            awaits: false,
            written: None,
            joined: false,
            taken_up: false,
        }
    }

    /// The server gets a request, whose first bytes are kept, and which begins at a number.
    pub fn begin(&mut self, kept: Vec<u8>, start: u32) {
        self.kept = KeptRequest { bytes: kept, at: start, shrinks: self.kept.shrinks, ..KeptRequest::default() };
        (self.acked, self.sent, self.begun, self.response, self.written) = (start, start, false, None, None);
        self.conn.responses.body = None;
        self.passed = self.conn.responses.limit();
        self.awaits = false;
    }

    /// Bytes of the client's stream are for no server: its sequence numbers mean others of the server's from here on.
    /// Nothing is under way.
    pub fn skip(&mut self, count: u32) {
        self.offsets.shift = self.offsets.shift.wrapping_sub(count);
        for own in [&mut self.kept.at, &mut self.acked, &mut self.conn.edge, &mut self.sent] {
            *own = own.wrapping_add(count);
        }
    }

    /// Whether the server has acknowledged all of the kept bytes.
    pub fn has_all(&self) -> bool {
        !before(self.acked, self.kept.end())
    }

    /// Whether it is a connection of before and nothing of the request is acknowledged: the server may have closed it,
    /// and then the request goes to another one.
    pub fn is_unheard(&self) -> bool {
        self.used && !self.begun && !before(self.kept.at, self.acked)
    }

    /// Whether the server has acknowledged nothing of the request, which is kept: it may not even know that it has a
    /// connection. What the client says meanwhile is not passed on, for its echo of the clock need not be one of this
    /// server's, and servers that wait for the end of the handshake refuse such segments (Linux from 6.15 on), or read
    /// the options out of it that were negotiated (SYN cookies).
    pub fn is_silent(&self) -> bool {
        !self.begun && !self.kept.bytes.is_empty() && !before(self.kept.at, self.acked)
    }

    /// Bytes of the first segment of a request at most, of `most`. A client may have less room than the server was told
    /// before. A smaller window counts where the number of what tells it is greater (RFC 9293 section 3.10.7.4; Linux
    /// takes none with the same one).
    pub fn first_length(&self, most: usize) -> usize {
        if self.kept.shrinks && self.sent == self.kept.at { 1 } else { most }
    }

    /// Whether a reset may be about the segments behind the first one. A server that answers SYNs with cookies knows
    /// the connection by the first segment, and resets it at the others where it had no room for that (RFC 4987 section
    /// 3.6).
    pub fn may_know_first_alone(&self) -> bool {
        let first = self.kept.bytes.len().min(usize::from(self.conn.peer.mss) - 12) as u32;
        let sent = self.sent.wrapping_sub(self.kept.at);
        !self.used && self.is_silent() && if self.kept.alone { sent == 0 } else { sent > first }
    }

    /// The sequence number of the client's stream behind what has come of the response.
    pub fn response_end(&self) -> u32 {
        self.conn.responses.limit().wrapping_add(self.offsets.seq)
    }
}

/// A connection to a server whose SYN has been sent.
#[derive(Clone, Debug)]
pub struct SynSent {
    /// The server.
    pub peer: Peer,
    /// Added to the client's sequence numbers.
    pub shift: u32,
    /// The client's number of the request's first byte.
    pub start: u32,
    /// The first bytes of the request.
    pub kept: Vec<u8>,
    /// When the SYN is sent again.
    pub resend: u64,
    /// From then to the next time.
    pub backoff: u64,
}

/// A connection to a server that no client has: made ahead, or left by a client.
#[derive(Clone, Debug)]
pub struct IdleUpstream {
    /// The connection.
    pub conn: ServerConn,
    /// The sequence number that the server expects.
    pub next: u32,
    /// The clock of timestamps that the server has seen last, and when.
    pub clock: (u32, u64),
    /// Bytes that the server may send behind what was acknowledged, as it was told last.
    pub window: u32,
    /// Whether the server has answered the SYN.
    pub connected: bool,
    /// Whether the server must still be told that all of its last response has come.
    pub owes_ack: bool,
    /// When it is given up.
    pub due: u64,
}

impl IdleUpstream {
    /// The clock that the server is to see at a time: it has gone on since it saw the last one.
    pub fn clock_at(&self, now: u64) -> u32 {
        self.clock.0.wrapping_add((now.saturating_sub(self.clock.1) / 1_000_000) as u32 + 1)
    }

    /// The client's clock may have passed later than is known here.
    pub fn ahead(clock: (u32, u64)) -> (u32, u64) {
        (clock.0.wrapping_add(AHEAD), clock.1)
    }
}

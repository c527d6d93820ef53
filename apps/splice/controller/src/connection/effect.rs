//! What the connection's state machine has the splicer do, and the answers that come back as events.

use wire::flow_key::FlowKey;
use wire::segment::TcpOptions;

use super::exchange::Finished;
use super::upstream::{IdleUpstream, Peer};
use crate::cluster::NegotiatedOptions;
use crate::tables::flow_entry::FlowEntry;

/// One effect. The splicer carries out effects in the order in which they were pushed.
#[derive(Debug)]
pub enum Effect {
    /// Sends a frame of Millrace's own by a port.
    Send {
        /// The port.
        port: u8,
        /// The frame.
        frame: Vec<u8>,
    },
    /// Has the event's frame rewritten by the flow entry of its key, whatever its mode, and sent.
    Relay,
    /// The same for a frame that was made of the event's.
    RelayPart(Vec<u8>),
    /// The same for the event's frame, which is an ICMP error.
    RelayError,
    /// Writes a flow entry. Where there is no room [`Event::TableFull`](super::event::Event) follows.
    Set {
        /// Its key.
        key: FlowKey,
        /// The entry.
        entry: FlowEntry,
    },
    /// Writes one and keeps what the data path has noted in it: see [`FlowEntry::keep_noted`].
    Update {
        /// Its key.
        key: FlowKey,
        /// The entry.
        entry: FlowEntry,
    },
    /// Removes a flow entry.
    Remove(FlowKey),
    /// A connection to a server is let go, once all else that follows from the event is done. Then the client's flow
    /// entry does not lead there any more, so that a process which begins in the middle finds each connection whole,
    /// and nothing that the server says to its end goes to the client.
    LetGo(LetGo),
    /// The server's connection with this key is no client's any more.
    Unbind {
        /// The flow key of the server's segments.
        key: FlowKey,
        /// The server.
        server: usize,
    },
    /// The same, and it goes to the idle pool.
    Keep(Box<IdleUpstream>),
    /// A server is chosen, and a connection to it taken. [`Event::Selected`](super::event::Event) follows. It is the
    /// last effect of its event.
    Select(Select),
    /// [`Event::Relayed`](super::event::Event) follows, now that the event's frame has been relayed. It is the last
    /// effect of its event.
    ReportRelayed {
        /// Whether the reset was the client's, not the server's.
        of_client: bool,
    },
    /// Something is counted.
    Count(Metric),
    /// A request is over: it is counted and logged.
    Finish(Finished),
    /// A server's SYN and ACK has other options than its checks have found.
    Learn {
        /// The server.
        server: usize,
        /// The options.
        options: TcpOptions,
    },
}

/// A connection to a server that a client lets go.
#[derive(Debug)]
pub struct LetGo {
    /// The flow key of its segments.
    pub key: FlowKey,
    /// What becomes of its flow entry; none: it is removed.
    pub entry: Option<FlowEntry>,
    /// What the server is told behind that: a port and a frame.
    pub word: Option<(u8, Vec<u8>)>,
}

/// What is counted beside requests that are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// A segment is dropped for what it acknowledges.
    InvalidAck,
    /// A connection goes on to its end as passthrough.
    Passthrough,
    /// A server gets a request.
    Request {
        /// The server.
        server: usize,
        /// Whether on a new connection.
        connects: bool,
    },
    /// A server has accepted a connection, after so many nanoseconds.
    Connected {
        /// The server.
        server: usize,
        /// The time.
        time: u64,
    },
    /// A server could not have a request.
    Failed {
        /// The server.
        server: usize,
    },
}

/// Which connections a request may go out on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// On one of the idle pool, if `may`, or else a new one.
    Reuse {
        /// Whether the request may follow those of other clients.
        may: bool,
    },
    /// On a new one.
    Fresh,
    /// On a new one to another server; the client gets this status where there is none.
    Elsewhere {
        /// The status.
        status: u16,
    },
}

/// What a server is chosen by.
#[derive(Debug)]
pub struct Select {
    /// The pool.
    pub pool: usize,
    /// The flow key of the client's segments.
    pub client: FlowKey,
    /// What the client has negotiated, which the server must know, too.
    pub options: NegotiatedOptions,
    /// The connection.
    pub policy: Policy,
    /// Servers that the request was sent to in vain.
    pub tried: Vec<usize>,
}

/// A server that was chosen. The connection to it counts as the client's from here on.
#[derive(Debug)]
pub enum Selection {
    /// None: the client gets this status.
    None(u16),
    /// A connection of the idle pool.
    Idle(Box<IdleUpstream>),
    /// A new connection, whose first segments the data path holds.
    New {
        /// The server.
        peer: Peer,
        /// The number that the connection begins at, of those that do not begin at the client's.
        first: u32,
        /// Whether there was room for its flow entry.
        has_entry: bool,
    },
}

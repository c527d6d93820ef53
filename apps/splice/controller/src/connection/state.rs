//! The states of a connection, each with what it needs, and what a state leaves to the one that follows.

use wire::flow_key::FlowKey;
use wire::http::Request;

use super::client::{Client, Progress};
use super::context::Context;
use super::release::ServerSide;
use super::upstream::{SynSent, Upstream};

/// A client's connection.
#[derive(Debug)]
pub struct Connection {
    /// The client's side.
    pub client: Client,
    /// What it is doing.
    pub state: State,
    /// When [`Event::Due`](super::event::Event) is due.
    pub wake: u64,
    /// When the splicer looks at that, which may be earlier.
    pub queued: u64,
}

/// What a connection is doing.
#[derive(Debug)]
pub enum State {
    /// Waits for a request, or the rest of its head.
    Reading(Reading),
    /// A server is being chosen. Lasts no longer than one call of the splicer.
    Choosing(Choosing),
    /// Waits for a server's SYN and ACK.
    Connecting(Connecting),
    /// Both connections are joined.
    Joined(Joined),
    /// Millrace answers by itself, and closes.
    Answering(Answering),
    /// The client was reset; for a while each of its segments is answered so.
    Resetting(Resetting),
    /// Ended by an operator: the client gets resets until it takes one.
    Killing(Killing),
    /// The connection is over, and is forgotten.
    Over,
}

/// See [`State::Reading`].
#[derive(Debug)]
pub struct Reading {
    /// The server of the request before, still connected.
    pub upstream: Option<Box<Upstream>>,
    /// When the first byte of the request came.
    pub began: Option<u64>,
    /// When it is too late for the request.
    pub deadline: u64,
    /// When a request is looked at again that no server could be chosen for yet.
    pub retry: u64,
}

/// A request whose head was read, with no whole response yet.
#[derive(Debug)]
pub struct Pending {
    /// Its head.
    pub request: Request,
    /// Its first sequence number.
    pub start: u32,
    /// Servers that it was sent to in vain.
    pub tried: Vec<usize>,
}

/// See [`State::Choosing`].
#[derive(Debug)]
pub struct Choosing {
    /// The request.
    pub pending: Pending,
    /// Its bytes so far.
    pub kept: Vec<u8>,
}

/// See [`State::Connecting`].
#[derive(Debug)]
pub struct Connecting {
    /// The request.
    pub pending: Pending,
    /// The connection that is made.
    pub server: SynSent,
    /// When it is too late for the server.
    pub deadline: u64,
}

/// See [`State::Joined`].
#[derive(Debug)]
pub struct Joined {
    /// The request.
    pub pending: Pending,
    /// The server's side.
    pub upstream: Box<Upstream>,
    /// When it is too late for the response.
    pub deadline: u64,
}

/// See [`State::Answering`].
#[derive(Debug)]
pub struct Answering {
    /// The answer; a FIN follows it.
    pub bytes: Vec<u8>,
    /// Times that it was sent.
    pub tries: u32,
    /// Whether the client has it.
    pub arrived: bool,
    /// Whether it is for a HEAD.
    pub is_head: bool,
    /// When it is sent again, or the connection is forgotten.
    pub deadline: u64,
}

/// See [`State::Resetting`].
#[derive(Debug)]
pub struct Resetting {
    /// What the client may expect next, other than what it has acknowledged last.
    pub end: u32,
    /// Times that resets were sent.
    pub tries: u32,
    /// When they are sent again.
    pub resend: u64,
    /// When the connection is forgotten.
    pub deadline: u64,
}

/// See [`State::Killing`].
#[derive(Debug)]
pub struct Killing {
    /// Resets that were sent.
    pub tries: u32,
    /// When the next one is sent.
    pub deadline: u64,
}

/// What a state leaves to the one that follows: the server's side, and what an answer of Millrace's own depends on.
#[derive(Debug)]
pub struct Leftover {
    /// The server's side.
    pub server: ServerSide,
    /// Whether the present request is a HEAD.
    pub is_head: bool,
    /// When the first byte of a request came whose head is not whole.
    pub began: Option<u64>,
}

impl Connection {
    /// One in a state.
    pub fn new(client: Client, state: State) -> Connection {
        Connection { client, state, wake: u64::MAX, queued: u64::MAX }
    }
}

impl Reading {
    /// A request is expected until a time.
    pub fn until(deadline: u64, upstream: Option<Box<Upstream>>) -> Reading {
        Reading { upstream, began: None, deadline, retry: u64::MAX }
    }
}

impl Pending {
    /// Whether it is a HEAD.
    pub fn is_head(&self) -> bool {
        self.request.method == "HEAD"
    }

    /// Where the client's messages are as long as no server has the request: all of its bytes are here alone.
    pub fn progress(&self) -> Progress {
        let (start, is_head) = (self.start, self.is_head());
        Progress { start, delivered: start, served: false, is_head, answers: false }
    }

    /// The pool that the request belongs to by now: it may have been another one when it came.
    pub fn route(&self, cl: &Client, cx: &Context) -> Option<usize> {
        cx.cluster.route(cl.service, &self.request)
    }
}

impl Leftover {
    /// Without a server's side.
    pub fn alone(is_head: bool) -> Leftover {
        Leftover { server: ServerSide::None, is_head, began: None }
    }

    /// With one.
    pub fn with(server: ServerSide, is_head: bool) -> Leftover {
        Leftover { server, is_head, began: None }
    }
}

impl State {
    /// What it leaves where it ends.
    pub fn into_leftover(self) -> Leftover {
        match self {
            State::Reading(own) => {
                let server = own.upstream.map_or(ServerSide::None, ServerSide::Attached);
                Leftover { server, is_head: false, began: own.began }
            }
            State::Choosing(own) => Leftover::alone(own.pending.is_head()),
            State::Connecting(own) => Leftover::with(ServerSide::Connecting(own.server), own.pending.is_head()),
            State::Joined(own) => Leftover::with(ServerSide::Serving(own.upstream), own.pending.is_head()),
            State::Answering(own) => Leftover::alone(own.is_head),
            State::Resetting(_) | State::Killing(_) | State::Over => Leftover::alone(false),
        }
    }

    /// The established connection to a server, if there is one.
    pub fn upstream(&self) -> Option<&Upstream> {
        match self {
            State::Reading(own) => own.upstream.as_deref(),
            State::Joined(own) => Some(&own.upstream),
            _ => None,
        }
    }

    /// The same, to change it.
    pub fn upstream_mut(&mut self) -> Option<&mut Upstream> {
        match self {
            State::Reading(own) => own.upstream.as_deref_mut(),
            State::Joined(own) => Some(&mut own.upstream),
            _ => None,
        }
    }

    /// The server that it is connected to, or is being connected to.
    pub fn server(&self) -> Option<usize> {
        match self {
            State::Connecting(own) => Some(own.server.peer.server),
            other => other.upstream().map(|u| u.conn.peer.server),
        }
    }

    /// The flow key of its segments.
    pub fn server_key(&self) -> Option<FlowKey> {
        match self {
            State::Connecting(own) => Some(own.server.peer.key),
            other => other.upstream().map(|u| u.conn.peer.key),
        }
    }

    /// The port that leads to the server.
    pub fn port(&self) -> Option<u8> {
        match self {
            State::Connecting(own) => Some(own.server.peer.hop.port),
            other => other.upstream().map(|u| u.conn.peer.hop.port),
        }
    }

    /// The request that was read.
    pub fn request(&self) -> Option<&Request> {
        match self {
            State::Choosing(own) => Some(&own.pending.request),
            State::Connecting(own) => Some(&own.pending.request),
            State::Joined(own) => Some(&own.pending.request),
            _ => None,
        }
    }
}

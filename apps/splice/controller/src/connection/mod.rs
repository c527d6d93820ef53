//! One client's connection, and the server's that is joined to it: a state machine without input or output of its own,
//! as quinn's and smoltcp's are.
//!
//! # States
//!
//! [`State`](state::State) is what the connection is doing. Each variant has the data that is valid in it and no other;
//! a transition consumes the old state and makes the new one.
//!
//! ```text
//!            ┌───────────────── next request ─────────────────┐
//!            ▼                                                │
//!   ───▶ Reading ──▶ Choosing ──▶ Connecting ──▶ Joined ──────┤
//!            │  └─── same server ──────────────▲    │         │
//!            │           │  └── idle pool ─────┘    │         │
//!            │           ◀──── another server ──────┘         │
//!            ▼                                                ▼
//!        Answering, Resetting, Killing ──────────────────▶  Over
//! ```
//!
//! | state | of the server's side it has |
//! |---|---|
//! | `Reading`: a request is expected, or read | the server of the request before, if it is still connected |
//! | `Choosing`: a server is being chosen | nothing; it lasts no longer than one call of the splicer |
//! | `Connecting`: a SYN was sent | [`SynSent`](upstream::SynSent) |
//! | `Joined`: the server has the request | [`Upstream`](upstream::Upstream) |
//! | `Answering`: Millrace answers and closes | nothing |
//! | `Resetting`, `Killing`: the client gets resets | nothing |
//!
//! What the client's side has in every state is in [`Client`](client::Client). A connection to a server that no client
//! has is an [`IdleUpstream`](upstream::IdleUpstream), in the idle pool of the cluster.
//!
//! # Events and effects
//!
//! The splicer calls [`Connection::handle`](state::Connection::handle) with an [`Event`](event::Event): a segment, an
//! ICMP error, a time, an operator's command. The machine reads flow entries and servers through its
//! [`Context`](context::Context), changes itself, and pushes [`Effect`](effect::Effect)s: segments, writes of flow
//! entries, metrics. The splicer carries them out in the order in which they were pushed. Two effects have an answer
//! that comes back as an event, and each is the last one of its event: `Select`, since the choice changes what other
//! connections see, and `ReportRelayed`, since only the data path knows whether it has taken a reset. One timer is
//! polled: [`Connection::due`](state::Connection::due).
//!
//! # Invariants
//!
//! * **A flow entry is written before the segment that depends on it is sent**, and effects keep that order. So what an
//!   own segment acknowledges is first noted in the client's entry ([`State::send`](state::State::send)), and both
//!   entries are up to date before a segment is relayed.
//! * What was pushed counts as done: [`Context::entry`](context::Context::entry) reads an entry as it will be then.
//! * A write that keeps what the data path notes (`Update`) is merged when it is carried out, not when it is pushed.
//! * In `Reading` without a server and in `Connecting` all of the client's segments come to the controller. In `Joined`
//!   the server acknowledges, not Millrace.
//! * A connection to a server is in exactly one place: in a state, in an effect on its way to the idle pool or back, or
//!   in the idle pool.
//! * Whatever happens, a handler gives a state back. None has to look whether the connection is still there.
//!
//! # Files
//!
//! | file | what |
//! |---|---|
//! | `stream`, `clock`, `exchange` | messages of one direction, clocks of timestamps, a request in metrics and logs |
//! | `out_of_order` | what came of a request behind a gap |
//! | `upstream`, `client`, `facts` | the two sides; what flow entries keep of them for the next process |
//! | `effect`, `event`, `context` | what goes in and out |
//! | `acks`, `send`, `account`, `entries`, `release` | what both sides do in several states |
//! | `state`, `machine` | the states; which of them handles what |
//! | `reading`, `choosing`, `serving` | the states up to `Joined`, and the ways out of it |
//! | `client_side`, `server_side` | segments of both sides |
//! | `awaiting` | responses whose heads the data path reads |
//! | `close`, `due`, `answering` | `Connection: close`, timers, own answers |
//!
//! Imports run one way, from the bottom of the table to its top.

mod account;
mod acks;
mod answering;
mod awaiting;
mod choosing;
pub mod client;
mod client_side;
pub mod clock;
mod close;
pub mod context;
mod due;
pub mod effect;
mod entries;
pub mod event;
pub mod exchange;
pub mod facts;
mod machine;
pub mod out_of_order;
mod reading;
pub mod release;
mod send;
mod server_side;
pub mod serving;
pub mod state;
pub mod stream;
pub mod upstream;

pub use self::send::RESEND;

#[cfg(test)]
mod tests;

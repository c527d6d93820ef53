//! What happens to a client's connection.

use wire::icmp::IcmpError;
use wire::segment::Segment;

use super::effect::Selection;

/// One event.
#[derive(Debug)]
pub enum Event<'e> {
    /// A segment of the client came.
    Client(&'e Segment<'e>),
    /// A segment of the server came.
    Server(&'e Segment<'e>),
    /// An ICMP error about what the client was to get came.
    ClientError,
    /// An ICMP error about what the server was to get came.
    ServerError(&'e IcmpError),
    /// The time has come that [`Connection::due`](super::state::Connection) gave.
    Due,
    /// A server was chosen, or none: the answer to [`Effect::Select`](super::effect::Effect). With it come the servers
    /// that the request was sent to in vain.
    Selected(Selection, Vec<usize>),
    /// A reset has been relayed: the answer to [`Effect::ReportRelayed`](super::effect::Effect).
    Relayed {
        /// Whether it was the client's, not the server's.
        of_client: bool,
    },
    /// There was no room for a flow entry: the connection is lost.
    TableFull,
    /// The client's first segment wrote no flow entry: the next process must know of the connection, too.
    Note,
    /// The client's flow key begins a new connection.
    Replaced,
    /// The connection was taken up from its flow entries.
    TakenUp {
        /// Whether something is missing without which it can't go on.
        lost: bool,
    },
    /// The data path has lost the client's flow entry.
    Reset,
    /// An operator ends the connection.
    Kill,
    /// An operator has taken the server out of use.
    ServerDown,
    /// The connection is idle and makes room for another one.
    Evict,
}

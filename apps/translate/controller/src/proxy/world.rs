//! What the proxy asks of its surroundings, and what it has them do.

use std::net::SocketAddr;

use serde::Serialize;

use crate::http::target::Source;
use crate::settings::Delivery;
use crate::tables::{Next, Order, StreamCounts, Totals};

/// What the proxy asks for and gets at once.
pub trait World {
    /// What the program has counted of a stream.
    fn stream(&mut self, stream: u32) -> StreamCounts;
    /// What it has counted of a connection.
    fn totals(&mut self, connection: u32) -> Totals;
    /// Two numbers that can't be guessed.
    fn secret(&mut self) -> (u64, u64);
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Tells the program something about a connection: number, generation, what.
    Order(u32, u32, Order),
    /// Has bytes sent exactly.
    Document {
        /// The connection.
        connection: u32,
        /// Which of its documents.
        index: u32,
        /// What follows.
        next: Next,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A connection becomes one of those that a stream's packets go to: stream, connection.
    Join(u32, u32),
    /// It is none of them any more.
    Leave(u32, u32),
    /// Asks for a stream at its source.
    OpenStream {
        /// Its number.
        stream: u32,
        /// Where it comes from.
        source: Source,
        /// How it is kept.
        delivery: Delivery,
    },
    /// Nobody wants it any more.
    CloseStream(u32),
    /// Connects to a server of the host, for a connection, and sends what it begins with.
    Connect {
        /// The connection.
        connection: u32,
        /// Its generation.
        generation: u32,
        /// The server.
        server: SocketAddr,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Sends that server more.
    ToServer(u32, Vec<u8>),
    /// Tells it that nothing more comes.
    EndServer(u32),
    /// Reads once more from it.
    ReadServer(u32),
    /// Ends that connection.
    Disconnect(u32),
    /// Logs a request that was answered, or a connection that has ended.
    Log(Box<Ended>),
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// The client has all of the answer.
    Complete,
    /// The client has closed it, or reset it, before.
    Client,
    /// The client was not heard of any more.
    Vanished,
    /// The client was so slow that what it missed was not there any more.
    Behind,
    /// The stream's source has ended it, or was lost.
    Source,
    /// A server of the host failed in the middle.
    Server,
    /// Neither the client nor the server of the host has said anything for too long.
    Idle,
    /// An operator ended it.
    Kicked,
    /// Millrace ended.
    Stopped,
    /// Another process had it, and this one can't go on with it.
    NotTakenUp,
}

impl Ending {
    /// Its name, in logs.
    pub fn name(self) -> &'static str {
        match self {
            Ending::Complete => "complete",
            Ending::Client => "client_closed",
            Ending::Vanished => "vanished",
            Ending::Behind => "behind",
            Ending::Source => "source_ended",
            Ending::Server => "server_aborted",
            Ending::Idle => "idle",
            Ending::Kicked => "kicked",
            Ending::Stopped => "stopped",
            Ending::NotTakenUp => "not_taken_up",
        }
    }
}

/// A request that was answered, or a connection that is over, for the access log. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ended {
    /// Its generation, by which it is known to operators.
    pub id: u32,
    /// The client's address.
    pub client: String,
    /// The first line of its request; empty where none was read.
    pub request: String,
    /// The stream, if it was one.
    pub stream: Option<String>,
    /// The status of the answer.
    pub status: u16,
    /// From its beginning to its end.
    pub duration_ms: u64,
    /// Segments.
    pub packets: u64,
    /// Bytes that were sent, each once.
    pub bytes: u64,
    /// Segments that were sent again,
    pub again: u32,
    /// of them, with null packets in place of what they had,
    pub nulls: u32,
    /// and with newer packets.
    pub fresh: u32,
    /// Packets of the stream that were left out.
    pub skipped: u32,
    /// The round trip, in microseconds.
    pub round_trip_us: u32,
    /// Why it ended.
    pub ended: &'static str,
    /// The client's program, as it says.
    pub user_agent: Option<String>,
    /// Where its request was found, as it says.
    pub referer: Option<String>,
}

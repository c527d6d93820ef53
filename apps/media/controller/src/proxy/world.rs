//! What the proxy asks of its surroundings, and what it has them do.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use wire::picture::{Coding, Contents};

use super::accounts::Ended;
use super::{ClientId, OriginId};
use crate::cache::recordings::{Counts, Recorded};
use crate::tables::{Flow, FlowKey, Progress, Receiver};

/// What the proxy asks for and gets at once.
pub trait World {
    /// A number that nobody can guess.
    fn random(&mut self) -> u64;
    /// Takes a pair of own ports for a stream from an origin, on an own address: the first of them, which is even.
    /// `None`: there is none left.
    fn bind_pair(&mut self, address: IpAddr) -> Option<u16>;
    /// Takes a pair of own ports again that a process before had; whether it is there.
    fn bind_pair_again(&mut self, address: IpAddr, port: u16) -> bool;
    /// Takes the ports that all receivers get their streams from, on an own address; whether they are there.
    fn bind_media(&mut self, address: IpAddr) -> bool;
    /// Takes a port where a stream comes to whose sender is not told own ports: a group's, which is joined, or an own
    /// address's.
    ///
    /// # Errors
    /// Why it can't be had.
    fn listen(&mut self, at: &Listening) -> Result<(), String>;
    /// Gives such a port back at once, so that it may be taken again: address, port of RTP.
    fn leave(&mut self, address: IpAddr, port: u16);
    /// Whether the program knows the way to a receiver.
    fn has_way(&mut self, to: IpAddr) -> bool;
    /// What was counted of a track.
    fn progress(&mut self, track: u32) -> Progress;
    /// Sets what was counted of a track whose packets the program does not see.
    fn set_progress(&mut self, track: u32, progress: &Progress);
    /// Forgets what was counted of a track.
    fn reset_progress(&mut self, track: u32);
    /// Adds a receiver to the group of a track; its number there. `None`: there is no room.
    fn join(&mut self, track: u32, receiver: &Receiver) -> Option<u32>;
    /// Changes what a receiver knows.
    fn set_member(&mut self, track: u32, member: u32, receiver: &Receiver);
    /// Whether the program takes transport streams that come without RTP.
    fn takes_bare(&self) -> bool {
        false
    }
    /// Begins to record a track, by its number; whether it does.
    fn begin_recording(&mut self, _track: u32, _what: &Recorded<'_>) -> bool {
        false
    }
    /// Whether films may be recorded, and served from what was recorded.
    fn keeps_films(&self) -> bool {
        false
    }
    /// Packets of a track come, and it is said later of which part of a film they are.
    fn expect_recording(&mut self, _track: u32) {}
    /// The origin of a film says that it is as it was recorded; until when it need not be asked again, in microseconds
    /// since 1970.
    fn confirm_film(&mut self, _key: &str, _expires: u64) {}
    /// It is another one.
    fn forget_film(&mut self, _key: &str) {}
    /// The wall clock, since 1970.
    fn wall(&mut self) -> Duration;
    /// A packet of a track that is recorded.
    fn record(&mut self, _track: u32, _packet: &[u8]) {}
    /// Ends the recording of a track.
    fn end_recording(&mut self, _track: u32) {}
    /// Tracks whose recordings could not go on, since this was asked last.
    fn take_broken_recordings(&mut self) -> Vec<u32> {
        Vec::new()
    }
    /// What was counted of recordings, and how their cache does, where there is one.
    fn recordings(&self) -> Option<(Counts, media_cache::Status)> {
        None
    }
    /// The time by which [`Progress::heard`] is told, in nanoseconds.
    fn clock(&mut self) -> u64;
}

/// Where a stream comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listening {
    /// A group, or an own address.
    pub address: IpAddr,
    /// The port of RTP; that of RTCP is the next one.
    pub port: u16,
    /// The only sender that a group is joined for; none: any.
    pub source: Option<IpAddr>,
    /// Where a group is joined.
    pub interface: Interface,
    /// Whether RTCP may come, too.
    pub reports: bool,
}

impl Listening {
    /// A group to which an origin sends that is reached by an own address.
    pub(super) fn of_group(address: IpAddr, port: u16, local: IpAddr) -> Listening {
        Listening { address, port, source: None, interface: Interface::Of(local), reports: true }
    }
}

/// An interface of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interface {
    /// That of the kernel's route.
    Any,
    /// By its name.
    Named(String),
    /// The one with an address.
    Of(IpAddr),
}

/// Which own socket a datagram leaves by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum From {
    /// That of RTCP of a pair towards an origin: own address, first port of the pair.
    Pair(IpAddr, u16),
    /// That of RTCP towards receivers, on an own address.
    Reports(IpAddr),
    /// That of RTP towards receivers.
    Media(IpAddr),
}

/// What a packet of a stream is for its viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The channel of its track.
    pub channel: u8,
    /// The number of its picture; wraps around.
    pub picture: u32,
    /// Whether it can be left out, as one of a picture that no other refers to.
    pub discardable: bool,
    /// Whether it has parts of that picture alone.
    pub is_alone: bool,
}

impl Piece {
    /// A packet with these contents.
    pub(super) fn new(channel: u8, contents: Contents, coding: Coding) -> Piece {
        let Contents { picture, discardable, .. } = contents;
        Piece { channel, picture, discardable, is_alone: coding.is_one_picture() }
    }
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Sends a client a message.
    ToClient(ClientId, Vec<u8>),
    /// Sends a client a packet of a stream, framed; it may be left out where too much waits for the client, and what it
    /// is, where that is known, says which one is.
    MediaToClient(ClientId, Vec<u8>, Option<Piece>),
    /// Closes the connection of a client, when it has what was sent.
    CloseClient(ClientId),
    /// Connects to an origin.
    Connect {
        /// The connection's number.
        id: OriginId,
        /// The host, by name or address.
        host: String,
        /// The port.
        port: u16,
    },
    /// Sends an origin a message.
    ToOrigin(OriginId, Vec<u8>),
    /// Closes a connection to an origin, when it has what was sent.
    CloseOrigin(OriginId),
    /// Says by [`Proxy::way_sought`](super::Proxy::way_sought) when the way to a receiver is known, or after a while
    /// without it.
    Seek(IpAddr),
    /// Sets a flow entry.
    SetFlow(FlowKey, Flow),
    /// Removes a flow entry.
    RemoveFlow(FlowKey),
    /// Takes a receiver out of the group of a track, by its number there.
    Leave(u32, u32),
    /// Gives the program an RTP packet for all members of the group of a track, one of which has this address.
    ToGroup(u32, IpAddr, Vec<u8>),
    /// Gives a pair of own ports back, or the port where a stream came to: address, first port.
    ReleasePair(IpAddr, u16),
    /// Sends a datagram.
    Datagram(From, SocketAddr, Vec<u8>),
    /// Logs a session that has ended.
    Log(Box<Ended>),
}

//! What can be played: packets of tracks in the order in which they came.

use std::time::Duration;

use wire::rtp::Header;
use wire::sdp::Description;

/// A packet that comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next {
    /// The track's place in the description.
    pub track: usize,
    /// When it came, since the film's beginning.
    pub npt: Duration,
    /// The RTP packet, as it was recorded.
    pub packet: Vec<u8>,
    /// Its numbers do not follow those of the track's packet before: it is of another recording.
    pub anew: bool,
}

/// What is behind the packets that were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A packet.
    Packet(Next),
    /// Nothing yet: more is recorded.
    Wait,
    /// The end.
    End,
}

/// Where reading begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begin {
    /// Since the film's beginning.
    pub npt: Duration,
    /// The first packet of each track that has one from there on.
    pub first: Vec<(usize, Header)>,
}

/// A film.
pub trait Film {
    /// How it was described.
    fn description(&self) -> &Description;
    /// How long it is. It may grow.
    fn length(&self) -> Duration;
    /// Whether more is recorded.
    fn grows(&self) -> bool;
    /// Looks how far it is by now.
    fn refresh(&mut self) {}
    /// The wall clock at one of its times, since 1970; none where it has none.
    fn clock_at(&self, npt: Duration) -> Option<Duration>;
    /// Its time at one of the wall clock's, or the next one that there is.
    fn npt_at(&self, clock: Duration) -> Option<Duration>;
    /// Begins to read these tracks at the last access point at or before a time; of those that have some only pictures
    /// at which a decoder can begin, where `keys` says so.
    ///
    /// # Errors
    /// Why it can't be read.
    fn seek(&mut self, to: Duration, tracks: &[usize], keys: bool) -> Result<Begin, String>;
    /// The next packet of those tracks.
    ///
    /// # Errors
    /// Why no more can be read.
    fn read(&mut self) -> Result<Reading, String>;
}

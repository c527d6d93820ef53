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
    /// Its numbers do not follow those of the track's packet before: it is of another recording,
    pub anew: bool,
    /// which this is.
    pub recording: u64,
}

/// What is behind the packets that were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A packet.
    Packet(Next),
    /// Nothing yet: more is recorded.
    Wait,
    /// The end of what there is of it here; the film goes on elsewhere, from this time on.
    Elsewhere(Duration),
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
    /// Whether there is anything of it at a time here, or it has to be had elsewhere.
    fn has(&self, _npt: Duration) -> bool {
        true
    }
    /// The status of the answer to who asks for times that it does not have.
    fn elsewhere(&self) -> u16 {
        457
    }
    /// Looks how far it is by now.
    fn refresh(&mut self) {}
    /// Whether there may be more behind [`Reading::Wait`]. This waits for no disk.
    fn may_have_more(&self) -> bool {
        true
    }
    /// Gives what there is of these tracks here from an access point some time before a place where it goes on
    /// elsewhere, to the end.
    ///
    /// # Errors
    /// Why it can't be read.
    fn around(&self, _npt: Duration, _tracks: &[usize], _give: &mut dyn FnMut(&Next)) -> Result<(), String> {
        Ok(())
    }
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

impl<F: Film + ?Sized> Film for Box<F> {
    fn description(&self) -> &Description {
        (**self).description()
    }

    fn length(&self) -> Duration {
        (**self).length()
    }

    fn grows(&self) -> bool {
        (**self).grows()
    }

    fn has(&self, npt: Duration) -> bool {
        (**self).has(npt)
    }

    fn elsewhere(&self) -> u16 {
        (**self).elsewhere()
    }

    fn refresh(&mut self) {
        (**self).refresh();
    }

    fn may_have_more(&self) -> bool {
        (**self).may_have_more()
    }

    fn around(&self, npt: Duration, tracks: &[usize], give: &mut dyn FnMut(&Next)) -> Result<(), String> {
        (**self).around(npt, tracks, give)
    }

    fn clock_at(&self, npt: Duration) -> Option<Duration> {
        (**self).clock_at(npt)
    }

    fn npt_at(&self, clock: Duration) -> Option<Duration> {
        (**self).npt_at(clock)
    }

    fn seek(&mut self, to: Duration, tracks: &[usize], keys: bool) -> Result<Begin, String> {
        (**self).seek(to, tracks, keys)
    }

    fn read(&mut self) -> Result<Reading, String> {
        (**self).read()
    }
}

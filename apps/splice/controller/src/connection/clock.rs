//! Clocks of TCP timestamps (RFC 7323).

use wire::seq::before;

/// How far a new server's clock begins ahead of the last that the client has echoed, in milliseconds: segments of the
/// server before it may still be under way.
pub const AHEAD: u32 = 1000;
/// The same in a process that has taken up the connection. What the client echoes may be as old as anything that has
/// passed, and later clocks may be under way: as much later as a connection may be idle at most (24 h).
pub const AHEAD_UNSEEN: u32 = 24 * 3600 * 1000;

/// The clock of one side in what has come in order (`TS.Recent` of RFC 7323 section 5.3), and when that was, in
/// nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recent(Option<(u32, u64)>);

impl Recent {
    /// How long it counts: as long as segments live, in nanoseconds (RFC 9293 section 3.4.1). Clocks may go half round
    /// after that.
    const LIFE: u64 = 120_000_000_000;

    /// Whether a clock is one of before: an old duplicate has it.
    pub fn is_behind(self, value: u32, now: u64) -> bool {
        self.0.is_some_and(|(recent, when)| now < when + Self::LIFE && before(value, recent))
    }

    /// How far it has gone by now: a millisecond is the shortest tick (RFC 7323 section 5.4).
    pub fn by(self, now: u64) -> Option<u32> {
        self.0.map(|(recent, when)| recent.wrapping_add((now.saturating_sub(when) / 1_000_000) as u32))
    }

    /// Notes a clock that is not behind.
    pub fn note(&mut self, value: u32, now: u64) {
        if !self.is_behind(value, now) {
            self.0 = Some((value, now));
        }
    }
}

/// The clock of a client.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientClock {
    /// Its last timestamp and echo.
    pub times: (u32, u32),
    /// Its clock in what has come in order.
    pub recent: Recent,
    /// How far ahead of the echo in `times` the clock of the server that comes next begins, in milliseconds.
    pub ahead: u32,
    /// Whether `times` and the server's clock are known: not after a restart, until the next segment.
    pub heard: bool,
    /// When it was last sent one that was newer.
    pub at: u64,
}

impl ClientClock {
    /// The clock of the server that comes next, as the client sees it. The first one's begins where the cookie's has
    /// ended, so that the client's echo is a clock of that server's from the first segment on.
    pub fn of_next_server(&mut self) -> u32 {
        self.times.1.wrapping_add(std::mem::replace(&mut self.ahead, AHEAD))
    }
}

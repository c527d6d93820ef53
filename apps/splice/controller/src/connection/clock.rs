//! Clocks of TCP timestamps (RFC 7323).

use wire::seq::before;

/// How far a new server's clock begins ahead of the last that the client has echoed, in milliseconds: segments of the server before
/// it may still be under way.
pub const AHEAD: u32 = 1000;

/// The clock of one side in what has come in order (`TS.Recent` of RFC 7323 section 5.3), and when that was, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recent(Option<(u32, u64)>);

impl Recent {
    /// How long it counts: as long as segments live, in nanoseconds (RFC 9293 section 3.4.1). Clocks may go half round after that.
    const LIFE: u64 = 120_000_000_000;

    /// Whether a clock is one of before: an old duplicate has it.
    pub fn is_behind(self, value: u32, now: u64) -> bool {
        self.0.is_some_and(|(recent, when)| now < when + Self::LIFE && before(value, recent))
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
    /// Whether it has seen a server's clock.
    pub served: bool,
    /// Whether `times` and the server's clock are known: not after a restart, until the next segment.
    pub heard: bool,
    /// When it was last sent one that was newer.
    pub at: u64,
}

impl ClientClock {
    /// The clock of the server that comes next, as the client sees it. The first one's begins where the cookie's has ended, so that the
    /// client's echo is a clock of that server's from the first segment on.
    pub fn of_next_server(&mut self) -> u32 {
        let ahead = if self.served { AHEAD } else { 0 };
        self.served = true;
        self.times.1.wrapping_add(ahead)
    }
}

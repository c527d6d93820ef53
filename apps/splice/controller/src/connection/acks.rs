//! What each side has acknowledged: the data path notes it of segments that pass, the connection of those that come
//! here. A segment that acknowledges what was never sent comes from a host that can't see the connection, and nothing
//! in it is believed (RFC 5961 section 5.2).

use wire::segment::{ACK, RST, SYN, Segment};
use wire::seq::before;

use super::client::Client;
use super::context::Context;
use super::effect::Metric;
use super::upstream::Upstream;
use crate::tables::flow_entry::{FlowEntry, Mode};

/// What may be acknowledged beyond the last window, and how far behind what was: windows shrink, segments overtake each
/// other, and what was noted a moment before may have been written back (`BEYOND` of the program).
const BEYOND: u32 = 1 << 20;

/// What one side has acknowledged of the other one's stream, and how many bytes it had room for behind that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Acked {
    number: u32,
    window: u32,
}

impl Acked {
    fn new(number: u32, edge: u32) -> Acked {
        Acked { number, window: if before(edge, number) { 0 } else { edge.wrapping_sub(number) } }
    }

    /// Of a flow entry that segments pass by: one that holds them notes nothing. Its numbers are `ahead` of those that
    /// are wanted.
    fn of(entry: &FlowEntry, ahead: u32) -> Option<Acked> {
        let own = Acked::new(entry.acked.wrapping_sub(ahead), entry.edge.wrapping_sub(ahead));
        (entry.mode != Mode::Held).then_some(own)
    }

    /// Whether this side may acknowledge a number next, or has not long ago (RFC 5961 section 5.2).
    fn reaches(self, number: u32) -> bool {
        let reach = self.window + BEYOND;
        number.wrapping_sub(self.number).wrapping_add(reach) <= 2 * reach
    }

    /// The later of what the data path and the connection have noted. The connection's is no further ahead than a
    /// window, but may be behind by any number of bytes.
    fn later(passed: Option<Acked>, own: Acked) -> Acked {
        match passed {
            Some(passed) if before(own.number, passed.number) || !passed.reaches(own.number) => passed,
            _ => own,
        }
    }

    /// Whether the acknowledgement of a segment of this side is invalid: it is of what was not sent, or there is none.
    /// One with the number that is expected is not. Resets and SYNs are looked at for themselves.
    fn is_invalid(self, segment: &Segment, number: u32, expected: u32) -> bool {
        if segment.has(ACK) {
            return !self.reaches(number) && segment.seq != expected;
        }
        !segment.has(SYN | RST)
    }
}

impl Client {
    /// Takes over what the client has acknowledged with segments that have passed.
    pub fn hear(&mut self, cx: &mut Context) {
        let passed = cx.entry(&self.key).and_then(|entry| Acked::of(&entry, 0));
        let own = Acked { number: self.acked, window: self.room() };
        let later = Acked::later(passed, own);
        if later != own {
            let scale = self.options.scale.unwrap_or(0);
            (self.acked, self.window) = (later.number, (later.window >> scale).min(65535) as u16);
        }
    }

    /// Notes what a segment of the client acknowledges. False where the acknowledgement is invalid.
    pub fn acknowledges(&mut self, segment: &Segment, cx: &mut Context) -> bool {
        self.hear(cx);
        let acked = Acked { number: self.acked, window: self.room() };
        if acked.is_invalid(segment, segment.ack, self.requests.bytes.next()) {
            cx.count(Metric::InvalidAck);
            return false;
        }
        if segment.has(ACK) && !before(segment.ack, self.acked) {
            (self.acked, self.window) = (segment.ack, segment.window);
        }
        true
    }

    /// Notes the clock and its echo of a segment of the client.
    pub fn note_clock(&mut self, segment: &Segment, upstream: Option<&mut Upstream>, now: u64) {
        // An old segment says old times, and a SYN echoes none.
        if let Some(times) = segment.options.times.filter(|_| segment.has(ACK)) {
            self.hear_clock(times, upstream, now);
        }
    }

    /// Notes a clock of the client and its echo.
    pub fn hear_clock(&mut self, (value, echo): (u32, u32), upstream: Option<&mut Upstream>, now: u64) {
        let clock = &mut self.clock;
        if let Some(u) = upstream.filter(|_| !clock.heard) {
            u.conn.tsval = echo.wrapping_sub(u.offsets.tsval);
        }
        if !clock.heard || before(clock.times.0, value) {
            (clock.times.0, clock.at) = (value, now);
        }
        if !clock.heard || before(clock.times.1, echo) {
            clock.times.1 = echo;
        }
        clock.heard = true;
    }
}

impl Upstream {
    /// Takes over what the server has acknowledged with segments that have passed.
    pub fn hear(&mut self, cx: &mut Context) {
        let passed = cx.entry(&self.conn.peer.key).and_then(|entry| Acked::of(&entry, self.offsets.shift));
        let later = Acked::later(passed, Acked::new(self.acked, self.conn.edge));
        (self.acked, self.conn.edge) = (later.number, later.number.wrapping_add(later.window));
    }

    /// Whether the acknowledgement of a segment of the server is valid. What of it counts is noted later.
    pub fn acknowledges(&mut self, segment: &Segment, cx: &mut Context) -> bool {
        self.hear(cx);
        let acked = segment.ack.wrapping_sub(self.offsets.shift);
        let expected = self.conn.responses.bytes.next();
        let invalid = Acked::new(self.acked, self.conn.edge).is_invalid(segment, acked, expected);
        if invalid {
            cx.count(Metric::InvalidAck);
        }
        !invalid
    }

    /// Notes the clock of a segment of the server. False where the segment is an old duplicate (RFC 7323 section 5.3).
    pub fn note_clock(&mut self, segment: &Segment, cl: &mut Client, cx: &mut Context) -> bool {
        let Some((tsval, echo)) = segment.options.times else { return true };
        if self.conn.recent.is_behind(tsval, cx.now) && !segment.has(RST) {
            cx.count(Metric::InvalidAck);
            return false;
        }
        if !before(cl.acked.wrapping_sub(self.offsets.seq), segment.seq) {
            self.conn.recent.note(tsval, cx.now);
        }
        if !cl.clock.heard {
            cl.clock.times = (echo.wrapping_sub(self.offsets.clock), tsval.wrapping_add(self.offsets.tsval));
            (self.conn.tsval, cl.clock.heard) = (tsval, true);
        }
        // A server that waits for the end of the handshake takes the clock of its SYN alone.
        if before(self.conn.tsval, tsval) && (segment.has(SYN) || !self.is_silent()) {
            self.conn.tsval = tsval;
        }
        true
    }
}

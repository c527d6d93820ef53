//! What each side has acknowledged: the data path notes it of segments that pass, the connection of those that come here. Whoever
//! can't see a connection does not know its numbers, and is not believed.

use super::block::{Block, Mode, before};
use super::path::DataPath;
use super::segment::{ACK, RST, SYN, Segment};
use super::turn::Turn;

/// What may be acknowledged beyond the last window, and how far behind what was: windows shrink, segments overtake each other, and
/// what was noted a moment before may have been written back (`BEYOND` of the program).
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

    /// Of a block that segments pass by: one that holds them notes nothing. Its numbers are `ahead` of those that are wanted.
    fn of(block: &Block, ahead: u32) -> Option<Acked> {
        let own = Acked::new(block.acked.wrapping_sub(ahead), block.edge.wrapping_sub(ahead));
        (block.mode != Mode::Held).then_some(own)
    }

    /// Whether this side may acknowledge a number next, or has not long ago (RFC 5961 section 5.2).
    fn reaches(self, number: u32) -> bool {
        let reach = self.window + BEYOND;
        number.wrapping_sub(self.number).wrapping_add(reach) <= 2 * reach
    }

    /// The later of what the data path and the connection have noted. The connection's is no further ahead than a window, but may
    /// be behind by any number of bytes.
    fn later(passed: Option<Acked>, own: Acked) -> Acked {
        match passed {
            Some(passed) if before(own.number, passed.number) || !passed.reaches(own.number) => passed,
            _ => own,
        }
    }

    /// Whether a segment of this side is somebody else's: it acknowledges what was not sent, or nothing at all. One with the number
    /// that is expected is not. Resets and SYNs are looked at for themselves.
    fn is_strange(self, segment: &Segment, number: u32, expected: u32) -> bool {
        if segment.has(ACK) {
            return !self.reaches(number) && segment.seq != expected;
        }
        !segment.has(SYN | RST)
    }
}

impl<P: DataPath> Turn<'_, P> {
    /// Takes over what the client has acknowledged with segments that have passed.
    pub fn hear_client(&mut self) {
        let passed = self.path.block(&self.c.client).and_then(|block| Acked::of(&block, 0));
        let c = &mut *self.c;
        let (own, scale) = (client_acked(c.acked, c.window, c.agreed.scale), c.agreed.scale.unwrap_or(0));
        let later = Acked::later(passed, own);
        if later != own {
            (c.acked, c.window) = (later.number, (later.window >> scale).min(65535) as u16);
        }
    }

    /// Takes over what the server has acknowledged with segments that have passed.
    pub fn hear_server(&mut self) {
        let Some(u) = &mut self.c.upstream else { return };
        let passed = self.path.block(&u.ends).and_then(|block| Acked::of(&block, u.shift));
        let later = Acked::later(passed, Acked::new(u.acked, u.edge));
        (u.acked, u.edge) = (later.number, later.number.wrapping_add(later.window));
    }

    /// Notes what a segment of the client acknowledges. False where it is somebody else's, and nothing in it is to be believed.
    pub fn client_acknowledges(&mut self, segment: &Segment) -> bool {
        self.hear_client();
        let c = &mut *self.c;
        let acked = client_acked(c.acked, c.window, c.agreed.scale);
        if acked.is_strange(segment, segment.ack, c.requests.bytes.next()) {
            self.books.implausible(&self.cluster.settings, c.service);
            return false;
        }
        if segment.has(ACK) && !before(segment.ack, c.acked) {
            (c.acked, c.window) = (segment.ack, segment.window);
        }
        true
    }

    /// The same for a segment of the server. It is noted by whoever knows what of it counts.
    pub fn server_is_plausible(&mut self, segment: &Segment) -> bool {
        self.hear_server();
        let Some(u) = &self.c.upstream else { return false };
        let acked = segment.ack.wrapping_sub(u.shift);
        let strange = Acked::new(u.acked, u.edge).is_strange(segment, acked, u.responses.bytes.next());
        if strange {
            self.books.implausible(&self.cluster.settings, self.c.service);
        }
        !strange
    }
}

fn client_acked(number: u32, window: u16, scale: Option<u8>) -> Acked {
    Acked { number, window: u32::from(window) << scale.unwrap_or(0) }
}

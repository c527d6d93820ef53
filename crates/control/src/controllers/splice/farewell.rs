//! Clients that ask for one response and the end of the connection with it (`Connection: close`). That is a matter between them and
//! Millrace (RFC 9110 section 7.6.1), and the server is not told: blanks stand in the word's place, so that no number moves. Its
//! connection stays for others, and it is Millrace that closes behind the response.
//!
//! The segment with the response's last byte comes to the controller, which adds a FIN. From then on what acknowledges all of the response
//! comes here, too ([`Mode::Finishing`](super::block::Mode::Finishing)), for it may acknowledge that FIN, which is none of the server's; with
//! that the server is left to others. Where the server closes nevertheless, or the client does so before, the FIN of one goes to the other,
//! as ever.

use super::block::before;
use super::connection::{Answer, Connection, State, Upstream};
use super::path::DataPath;
use super::segment::{FIN, Segment};
use super::turn::{LINGER, Turn};

impl Connection {
    /// Whether the client has been sent the last byte of the response, with a FIN or before it.
    pub fn is_finishing(&self) -> bool {
        let has_passed = |u: &Upstream| u.responses.is_done() && !before(u.passed, u.responses.limit());
        self.closes && self.state == State::Serving && self.upstream.as_ref().is_some_and(has_passed)
    }

    /// Whether a FIN belongs behind the bytes before `end`, a number of the server's.
    pub fn finishes_at(&self, end: u32) -> bool {
        self.is_finishing() && self.upstream.as_ref().is_some_and(|u| !before(end, u.responses.limit()))
    }
}

impl<P: DataPath> Turn<'_, P> {
    /// A segment of the client that has been sent all of the response.
    pub fn on_finishing_client(&mut self, segment: &Segment) {
        let c = &mut *self.c;
        let Some(u) = &c.upstream else { return };
        let (end, next) = (u.response_end(), c.requests.limit());
        if before(c.acked, end) || !u.has_all() || !c.requests.is_done() {
            // What it acknowledges the server must know. Its FIN comes again.
            let ack = if before(end, segment.ack) { end } else { segment.ack };
            let seq = if segment.payload.is_empty() { segment.seq } else { next };
            let cut = Segment { seq, ack, payload: &[], flags: segment.flags & !FIN, ..segment.clone() };
            return self.path.relay(&cut.frame());
        }
        self.complete_exchange();
        self.leave_or_close();
        let c = &mut *self.c;
        let arrived = before(end, c.acked);
        (c.state, c.deadline) = (State::Answering, self.now + LINGER);
        c.answer = Some(Answer { bytes: Vec::new(), tries: arrived.into(), arrived, resets: false });
        self.hold_client();
        if !arrived {
            self.send_answer();
        }
        self.on_answered(segment);
    }
}

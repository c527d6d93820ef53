//! Connections between two requests: how long they have been so, and which of them make room for others.

use super::block::{Block, Mode};
use super::connection::{State, Upstream};
use super::path::DataPath;
use super::segment::{ACK, FIN, RST};
use super::splicer::Splicer;
use super::turn::Turn;

/// Connections that may make room, those that are idle longest at the end.
#[derive(Clone, Debug, Default)]
pub struct Idlers {
    found: Vec<(u32, u64)>,
    /// When all connections may be looked at again.
    due: u64,
}

/// How many are found at a time, and how long it is at least from one look at all connections to the next, in nanoseconds: it takes
/// as long as there are many.
const FOUND: usize = 256;
const PAUSE: u64 = 100_000_000;

impl<P: DataPath> Splicer<P> {
    /// Ends the connection that has waited longest for its next request. False where there is none.
    pub(super) fn make_room(&mut self) -> bool {
        loop {
            if self.idlers.found.is_empty() {
                self.find_idlers();
            }
            let Some((since, id)) = self.idlers.found.pop() else { return false };
            let mut ended = false;
            self.with(id, |turn| {
                // It may have been asked something meanwhile.
                ended = turn.idle_since() == Some(since);
                if ended {
                    turn.end_idle();
                }
            });
            if ended {
                return true;
            }
        }
    }

    fn find_idlers(&mut self) {
        let now = self.path.now();
        if now < self.idlers.due {
            return;
        }
        self.idlers.due = now + PAUSE;
        let mut found = Vec::new();
        for id in self.ids() {
            self.read(id, |turn| found.extend(turn.idle_since().map(|since| (since, id))));
        }
        found.sort_unstable();
        found.truncate(FOUND);
        found.reverse();
        self.idlers.found = found;
    }
}

impl<P: DataPath> Turn<'_, P> {
    /// The second since which the client has been free to ask for something and has not.
    pub fn idle_since(&mut self) -> Option<u32> {
        let client = self.path.block(&self.c.client)?;
        let c = &*self.c;
        if c.state == State::Asking && c.request.is_none() && c.requests.bytes.ready().is_empty() {
            return Some(client.seen);
        }
        let u = c.upstream.as_ref()?;
        let (ends, end) = (u.ends, u.response_end());
        let done = c.state == State::Serving && c.requests.is_done() && u.responses.is_done() && u.has_all();
        let has_it = !super::block::before(client.acked, end);
        let server: Block = self.path.block(&ends)?;
        (done && has_it && client.mode == Mode::Limited && client.ended == 0).then(|| client.seen.max(server.seen))
    }

    /// Gives up the server's connection of a client that is idle.
    pub fn leave_or_close(&mut self) {
        let next = self.c.requests.limit();
        if let Some(end) = self.c.upstream.as_ref().map(Upstream::response_end) {
            self.c.next = end;
            if !self.leave(next) {
                self.release(FIN);
            }
        }
    }

    /// Ends a connection that is idle.
    fn end_idle(&mut self) {
        self.leave_or_close();
        self.tell_client(RST | ACK, self.c.next, &[]);
        self.over();
    }
}

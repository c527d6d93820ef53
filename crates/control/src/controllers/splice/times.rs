//! When something is due on a connection, and what is done then.

use super::block::are_over;
use super::connection::{Connection, State};
use super::exchange::{Ending, next_look};
use super::path::DataPath;
use super::turn::{LINGER, RESEND, Turn};

/// Times that kept bytes or an answer are sent.
pub(super) const MOST_TRIES: u32 = 8;

/// A pause until the next try that is a little longer for some connections than for others: where a server had room for few of those that came at
/// the same moment, the rest must not come at the same moment again.
pub(super) fn spread(pause: u64, id: u64) -> u64 {
    pause + pause / 256 * (id % 64)
}

impl Connection {
    /// When something must be done about it next.
    pub(super) fn due(&self, now: u64) -> u64 {
        let resend = self.upstream.as_ref().filter(|u| !u.has_all()).map_or(u64::MAX, |u| u.resend);
        let due = match self.state {
            State::Asking => self.deadline.min(self.retry),
            State::Answering => self.deadline,
            State::Connecting => resend,
            State::Serving if self.is_answered() => next_look(self, now),
            State::Serving => resend.min(self.deadline),
        };
        due.max(now + 1)
    }

    /// Whether the present request has found its response.
    fn is_answered(&self) -> bool {
        self.upstream.as_ref().is_some_and(|u| u.has_all() && u.response.is_some())
    }
}

impl<P: DataPath> Turn<'_, P> {
    /// Something is due.
    pub(super) fn on_time(&mut self) {
        let (now, c) = (self.now, &*self.c);
        match c.state {
            State::Asking if now >= c.deadline => {
                // A whole request that waits for its servers' first checks is not late itself.
                let late = if c.retry == u64::MAX { 408 } else { 503 };
                self.answer(if c.requests.bytes.ready().is_empty() { 0 } else { late });
            }
            State::Asking if now >= c.retry => self.advance(),
            State::Asking => {}
            State::Answering => self.on_answer_time(),
            State::Connecting if now >= c.deadline => self.elsewhere(504),
            State::Connecting => self.send_syn(),
            State::Serving if c.is_answered() => self.look(),
            State::Serving => self.on_serving_time(),
        }
    }

    fn on_answer_time(&mut self) {
        let Some(answer) = &mut self.c.answer else { return self.over() };
        if answer.resets {
            return self.send_reset();
        }
        if answer.arrived || answer.tries >= MOST_TRIES {
            if answer.tries >= MOST_TRIES {
                return self.over();
            }
            // Once more, for the client's FIN.
            answer.tries = MOST_TRIES;
            self.c.deadline = self.now + LINGER;
            return;
        }
        self.send_answer();
    }

    /// The server does not take the request, or does not answer it.
    fn on_serving_time(&mut self) {
        let late = self.now >= self.c.deadline;
        let response = self.cluster.settings.timeouts.response;
        if late && let Some(block) = self.path.block(&self.c.client) {
            // As long as the request is still on its way, nobody is late.
            let last = u64::from(block.seen) * 1_000_000_000 + response;
            if last > self.now {
                self.c.deadline = last;
                return;
            }
        }
        let Some(u) = &mut self.c.upstream else { return };
        if u.begun && late {
            self.break_exchange(Ending::Timeout);
            return self.reset_client();
        }
        if late || (!u.has_all() && self.now >= u.resend && u.backoff >= RESEND << MOST_TRIES) {
            return self.answer(504);
        }
        if u.is_unheard() && self.now >= u.since + self.cluster.settings.timeouts.connect && self.once_more(false) {
            return;
        }
        let Some(u) = &mut self.c.upstream else { return };
        if !u.has_all() && self.now >= u.resend {
            u.backoff *= 2;
            u.resend = self.now + spread(u.backoff, self.id);
            self.resend_kept();
        }
    }

    /// Whether the connection is still there, and in use.
    fn look(&mut self) {
        let timeouts = self.cluster.settings.timeouts;
        let Some(u) = &self.c.upstream else { return self.over() };
        let blocks = [self.path.block(&self.c.client), self.path.block(&u.ends)];
        let Some(seen) = blocks.iter().flatten().map(|block| block.seen).max() else {
            self.gone = true;
            return;
        };
        let ended = [0, 1].map(|side| blocks[side].as_ref().map_or(0, |block| block.ended));
        self.look_at_exchange(ended, seen);
        if are_over(ended) {
            return self.leave_blocks();
        }
        let [Some(_), Some(_)] = &blocks else { return };
        let quiet = u64::from(self.seconds().saturating_sub(seen)) * 1_000_000_000;
        if quiet > timeouts.keep_alive && self.idle_since().is_some() {
            self.leave_or_close();
            self.answer(0);
        } else if quiet > timeouts.keep_alive && self.c.is_finishing() {
            self.reset_client();
        } else if quiet > timeouts.idle {
            self.break_exchange(Ending::Timeout);
            self.reset_client();
        }
    }
}

//! When something is due on a connection, and what is done then.

use std::ops::ControlFlow;

use wire::seq::before;

use super::answering::MOST_TRIES;
use super::client::Client;
use super::context::Context;
use super::exchange::{Ending, FIRST_LOOK, FIRST_LOOK_FOR_CLOSE, LOOK};
use super::send::{RESEND, spread};
use super::state::{Connection, Joined, Reading, State};
use crate::tables::flow_entry::are_over;

impl Connection {
    /// When something must be done about it next.
    pub fn due(&self, now: u64) -> u64 {
        let due = match &self.state {
            State::Reading(own) => own.deadline.min(own.retry),
            State::Answering(own) => own.deadline,
            State::Resetting(own) => own.resend.min(own.deadline),
            State::Killing(own) => own.deadline,
            State::Connecting(own) => own.server.resend,
            State::Joined(own) if own.is_answered() => {
                now + self.client.account.exchange.as_ref().map_or(LOOK, |exchange| exchange.pause(now, FIRST_LOOK))
            }
            State::Joined(own) if own.upstream.has_all() => own.deadline,
            State::Joined(own) => {
                let exchange = self.client.account.exchange.as_ref().filter(|_| own.may_be_closed(&self.client));
                let look = exchange.map_or(u64::MAX, |exchange| now + exchange.pause(now, FIRST_LOOK_FOR_CLOSE));
                own.upstream.kept.resend.min(own.deadline).min(look)
            }
            State::Choosing(_) | State::Over => u64::MAX,
        };
        due.max(now.saturating_add(1))
    }

    /// The second since which the client has been free to send a request and has not.
    pub fn idle_since(&self, cx: &mut Context) -> Option<u32> {
        match &self.state {
            State::Reading(_) if self.client.requests.bytes.ready().is_empty() => {
                Some(cx.entry(&self.client.key)?.seen)
            }
            State::Joined(own) => own.idle_since(&self.client, cx),
            _ => None,
        }
    }
}

impl State {
    /// Something is due.
    pub fn on_due(self, cl: &mut Client, cx: &mut Context) -> State {
        match self {
            State::Reading(own) => own.on_due(cl, cx),
            State::Connecting(own) => own.on_due(cl, cx),
            State::Joined(own) if own.is_answered() => own.look(cl, cx),
            State::Joined(own) => own.on_late(cl, cx),
            State::Answering(own) => own.on_due(cl, cx),
            State::Killing(own) => own.send(cl, cx),
            State::Resetting(own) if cx.now < own.deadline => own.send(cl, cx),
            State::Resetting(_) => self.into_leftover().over(cl, cx),
            State::Choosing(_) | State::Over => self,
        }
    }
}

impl Reading {
    fn on_due(self, cl: &mut Client, cx: &mut Context) -> State {
        if cx.now >= self.deadline {
            // A whole request that waits for its servers' first checks is not late itself.
            let late = if self.retry == u64::MAX { 408 } else { 503 };
            let status = if cl.requests.bytes.ready().is_empty() { 0 } else { late };
            return State::Reading(self).answer(status, cl, cx);
        }
        if cx.now >= self.retry { self.advance(cl, cx) } else { State::Reading(self) }
    }
}

impl Joined {
    /// Whether the present request has found its response.
    fn is_answered(&self) -> bool {
        self.upstream.has_all() && self.upstream.response.is_some()
    }

    fn idle_since(&self, cl: &Client, cx: &mut Context) -> Option<u32> {
        let u = &self.upstream;
        let client = cx.entry(&cl.key)?;
        let server = cx.entry(&u.conn.peer.key)?;
        let done = cl.requests.is_done() && u.conn.responses.is_done() && u.has_all();
        let has_it = !before(client.acked, u.response_end());
        (done && has_it && client.is_between_requests()).then(|| client.seen.max(server.seen))
    }

    /// The server does not take the request, or does not answer it.
    fn on_late(mut self, cl: &mut Client, cx: &mut Context) -> State {
        let late = cx.now >= self.deadline;
        if late && let Some(entry) = cx.entry(&cl.key) {
            // As long as the request is still on its way, no answer is late.
            let last = u64::from(entry.seen) * 1_000_000_000 + cx.timeouts().response;
            if last > cx.now {
                self.deadline = last;
                return State::Joined(self);
            }
        }
        let u = &mut *self.upstream;
        if u.begun && late {
            cl.break_exchange(Ending::Timeout, Some(u), cx);
            return State::Joined(self).reset(cl, cx);
        }
        let is_due = !u.has_all() && cx.now >= u.kept.resend;
        if late || (is_due && u.kept.backoff >= RESEND << MOST_TRIES) {
            return self.answer(504, cl, cx);
        }
        if u.is_unheard() && cx.now >= u.kept.since + cx.timeouts().connect {
            self = match self.once_more(false, cl, cx) {
                ControlFlow::Break(state) => return state,
                ControlFlow::Continue(own) => own,
            };
        }
        let u = &mut *self.upstream;
        if !u.has_all() && cx.now >= u.kept.resend {
            u.kept.backoff *= 2;
            u.kept.resend = cx.now + spread(u.kept.backoff, cx.id);
            u.resend_kept(cl, cx);
        }
        State::Joined(self)
    }

    /// Looks whether the connection is still there, and in use.
    fn look(mut self, cl: &mut Client, cx: &mut Context) -> State {
        let entries = [cx.entry(&cl.key), cx.entry(&self.upstream.conn.peer.key)];
        let Some(seen) = entries.iter().flatten().map(|entry| entry.seen).max() else {
            return self.into_leftover().abandon(cl, cx);
        };
        let ended = [0, 1].map(|side| entries[side].as_ref().map_or(0, |entry| entry.ended));
        cl.look_at_exchange(&mut self.upstream, ended, seen, cx);
        if are_over(ended) {
            return self.leave_entries(cl, cx);
        }
        if cl.is_finishing(&self.upstream) {
            self = match self.look_at_close(cl, cx) {
                State::Joined(own) => own,
                other => return other,
            };
        }
        let [Some(_), Some(_)] = &entries else { return State::Joined(self) };
        let (quiet, timeouts) = (u64::from(cx.seconds().saturating_sub(seen)) * 1_000_000_000, cx.timeouts());
        if quiet > timeouts.keep_alive && self.idle_since(cl, cx).is_some() {
            return self.leave_or_close(cl, cx).answer(0, cl, cx);
        }
        if quiet > timeouts.keep_alive && cl.is_finishing(&self.upstream) {
            return State::Joined(self).reset(cl, cx);
        }
        if quiet > timeouts.idle {
            cl.break_exchange(Ending::Timeout, Some(&mut self.upstream), cx);
            return State::Joined(self).reset(cl, cx);
        }
        State::Joined(self)
    }
}

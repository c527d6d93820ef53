//! Responses whose heads the data path reads by itself (`heads` of the program), so that a worker and the controller
//! have nothing to do for them.
//!
//! That may be where the connection was there before the request, the server's goes on after the response, and the
//! whole request is known. Where Millrace closes behind the response, the data path adds the FIN, if all of it comes at
//! once, and then takes the client's acknowledgement and answers its FIN (`closing` of the program). Until the
//! connection's next event the data path alone knows of all that. Each event begins by finding out
//! ([`Joined::catch_up`]), and ends the data path's part in it: so both never go on from different states.
//!
//! That a client has acknowledged such a FIN brings no event. So the controller looks for that from time to time, and
//! changes nothing where it is too early ([`Joined::is_left_alone`]).

use wire::body::{Body, Framing};
use wire::http::Response;
use wire::seq::before;

use super::client::Client;
use super::context::Context;
use super::facts::response_limit;
use super::state::{Joined, State};
use super::stream::Stream;
use super::upstream::{HEAD, Upstream};
use crate::tables::answered::Answered;
use crate::tables::flow_entry::{FlowEntry, Mode};

/// How long after a request the client's FIN may be left to the data path, in nanoseconds.
const GRACE: u64 = 100_000_000;

impl Upstream {
    /// Whether the data path may read the head of the response to the present request.
    pub fn may_await(&self, is_head: bool, cl: &Client) -> bool {
        let (asked, bytes) = (&cl.requests, &self.conn.responses.bytes);
        let whole = asked.is_done() && asked.bytes.ready().is_empty() && self.kept.end() == asked.limit();
        let fresh = !bytes.holds_any() && !bytes.is_ended();
        let goes_on = cl.persistence.keeps_alive() || cl.persistence.closes();
        self.used && whole && fresh && !is_head && !cl.done && goes_on
    }

    /// The data path has read a head of a response that ends at `limit`.
    fn note_answer(&mut self, answered: Answered, limit: u32) {
        let Answered { status, head, whole, .. } = answered;
        self.conn.responses = Stream::new(limit, HEAD);
        self.conn.responses.body = Some(Body::empty());
        let framing = Framing::Length(0);
        self.response = Some(Response { head, status, framing, keeps_alive: true, private: false });
        self.begun = true;
        // Where Millrace closes it has been sent a FIN with the last byte.
        self.passed = if whole { limit } else { self.passed };
    }
}

impl Joined {
    /// Whether the data path may close the connection, for all that is known here.
    pub fn may_be_closed(&self, cl: &Client) -> bool {
        self.upstream.awaits && cl.persistence.closes()
    }

    /// Whether a look is too early: the data path does all that there is to do, and the client has not acknowledged
    /// all.
    pub fn is_left_alone(&self, cl: &Client, cx: &mut Context) -> bool {
        let is_due = cx.now >= self.upstream.kept.resend || cx.now >= self.deadline;
        // A client that has acknowledged Millrace's FIN sends its own right behind that, as a rule.
        let grace = cx.now < self.upstream.kept.since + GRACE;
        let waits = |entry: &FlowEntry| {
            entry.mode != Mode::Finishing || !before(entry.limit, entry.acked) || (grace && entry.ended & 1 == 0)
        };
        !is_due && self.may_be_closed(cl) && cx.entry(&cl.key).as_ref().is_some_and(waits)
    }

    /// Takes over what the data path has read of the response, and has it read nothing more.
    pub fn catch_up(mut self, cl: &mut Client, cx: &mut Context) -> State {
        if !self.upstream.awaits {
            return State::Joined(self);
        }
        self.find_answer(cl, cx);
        if cl.is_finishing(&self.upstream) { self.look_at_close(cl, cx) } else { State::Joined(self) }
    }

    fn find_answer(&mut self, cl: &mut Client, cx: &mut Context) {
        let u = &mut *self.upstream;
        (u.awaits, u.written) = (false, None);
        let Some(entry) = cx.end_awaiting(&u.conn.peer.key) else { return };
        u.hear(cx);
        let Some(answered) = Answered::of(&entry, cx.now) else { return };
        u.note_answer(answered, response_limit(&entry, cl.persistence.closes()));
        if let Some(exchange) = &mut cl.account.exchange {
            exchange.responds(answered.status, answered.head);
            exchange.first_byte(answered.at);
        }
        if answered.whole {
            cl.complete_exchange_at(answered.at, u, cx);
        }
    }
}

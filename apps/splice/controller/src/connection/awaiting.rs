//! Responses whose heads the data path reads by itself (`heads` of the program), so that a worker and the controller
//! have nothing to do for them.
//!
//! That may be where the connection was there before the request, the server's goes on after the response, and the
//! whole request is known. Where Millrace closes behind the response, the data path adds the FIN, if all of it comes at
//! once. Until the connection's next event the data path alone knows of such a response. Each event begins by finding
//! out ([`Joined::catch_up`]), and ends the data path's part in it: so both never go on from different states.

use wire::body::{Body, Framing};
use wire::http::Response;

use super::client::Client;
use super::context::Context;
use super::facts::response_limit;
use super::state::Joined;
use super::stream::Stream;
use super::upstream::{HEAD, Upstream};
use crate::tables::answered::Answered;

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
    /// Takes over what the data path has read of the response, and has it read nothing more.
    pub fn catch_up(&mut self, cl: &mut Client, cx: &mut Context) {
        let u = &mut *self.upstream;
        if !std::mem::take(&mut u.awaits) {
            return;
        }
        u.written = None;
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

//! Connections to servers change hands: a client leaves one between two requests, and another request goes out on it.

use super::block::{Block, Mode, before};
use super::body::Framing;
use super::connection::{State, Stream};
use super::http::Request;
use super::path::DataPath;
use super::read::MOST_WARM;
use super::segment::RST;
use super::server::HEAD;
use super::settings::Reuse;
use super::turn::{Owner, Turn};
use super::warm::Idle;

impl<P: DataPath> Turn<'_, P> {
    /// Whether the client waits for nothing: it has all of the response, and has asked nothing else.
    pub fn is_between(&self) -> bool {
        let c = &*self.c;
        let answered = |end| c.requests.is_done() && c.requests.bytes.ready().is_empty() && !before(c.acked, end);
        c.upstream.as_ref().is_some_and(|u| u.has_all() && u.responses.is_done() && answered(u.response_end()))
    }

    /// Leaves the connection to the server to others, where it is certain that nothing of the client's is under way on it; `next` is
    /// the number that the client's next byte has. False where it must be closed.
    pub fn leave(&mut self, next: u32) -> bool {
        let c = &*self.c;
        let Some(u) = &c.upstream else { return false };
        let reuse = self.cluster.servers[u.server].pool.reuse;
        let bytes = &u.responses.bytes;
        let ended = bytes.is_ended() || !bytes.ready().is_empty();
        let goes_on = u.response.is_some_and(|response| response.keeps_alive) && !u.responses.is_endless() && !ended;
        let wanted = reuse != Reuse::Never && self.warm.count(u.server) < MOST_WARM && self.cluster.is_usable(u.server);
        if !wanted || !goes_on || !u.is_nat || u.private {
            return false;
        }
        let shifted = next.wrapping_add(u.shift);
        // A FIN that Millrace has added is not the server's.
        let fins = u8::from(c.closes);
        let had_all = |block: &Block| block.ended & !fins == 0 && !before(block.acked, shifted);
        let Some(block) = self.path.block(&u.ends).filter(had_all) else { return false };
        let (id, end) = (u.ends, u.response_end());
        // What the client has acknowledged last the server may not have heard. The next request tells it.
        let heard = self.path.block(&c.client).is_some_and(|own| own.mode != Mode::Held && !before(own.acked, end));
        self.hear_client();
        let times = self.c.times;
        let window = u32::from(self.c.window) << self.c.agreed.scale.unwrap_or(0);
        let Some(mut u) = self.detach() else { return false };
        let (echoed, clock) = (times.1.wrapping_sub(u.tsval_add), (times.0.wrapping_add(u.clock), self.c.clock_at));
        self.c.next = end;
        u.tsval = if before(u.tsval, echoed) { echoed } else { u.tsval };
        u.edge = block.edge;
        u.responses = Stream::new(u.responses.limit(), HEAD);
        (u.kept, u.rest) = (Vec::new(), None);
        let held = Block { seen: block.seen, ..Block::held(id.turned(), self.seconds()) };
        let due = self.now + self.cluster.settings.timeouts.warm;
        let idle = Idle::left(u, shifted, clock, due, heard, window);
        let server = idle.upstream.server;
        // It is there already, so there is room.
        self.path.set_block(&id, &held);
        self.warm.keep(idle, self.now);
        self.by_server.insert(id, Owner::Warm(server));
        true
    }

    /// Brings a request to a server of a pool: on a connection that is there, or on a new one.
    pub fn join(&mut self, pool: usize, kept: Vec<u8>) {
        let c = &*self.c;
        let reuse = self.cluster.settings.pools[pool].reuse;
        let repeatable = c.request.as_ref().is_some_and(|own| own.is_idempotent() && own.framing == Framing::Length(0));
        let may = reuse == Reuse::Always || (reuse == Reuse::Safe && repeatable);
        let Some(server) = self.cluster.choose(pool, c.client.src, &c.agreed, &c.tried) else {
            return self.answer(503);
        };
        let agreed = c.agreed;
        let fits = |sack, times, mss: u16| sack == agreed.sack && times == agreed.times && mss <= agreed.mss;
        let window = u32::from(c.window) << agreed.scale.unwrap_or(0);
        // Who was once told of much room waits for a full segment's (RFC 9293 section 3.8.6.2.1), which a small buffer never has.
        let may = may && window >= 2 * u32::from(agreed.mss);
        let Some(idle) = self.warm.take(server, |u| may && fits(u.sack, u.times, u.told_mss)) else {
            return self.connect_to(server, pool, kept);
        };
        let shrinks = window < idle.window;
        let ahead = idle.clock_at(self.now);
        let (mut u, next, c) = (idle.upstream, idle.next, &mut *self.c);
        u.shift = next.wrapping_sub(c.start);
        u.clock = ahead.wrapping_sub(c.times.0);
        u.seq_add = c.next.wrapping_sub(u.responses.limit());
        u.tsval_add = if agreed.times { c.next_clock().wrapping_sub(u.tsval) } else { 0 };
        u.clock = if agreed.times { u.clock } else { 0 };
        u.edge = u.edge.wrapping_sub(u.shift);
        u.begin(kept, c.start);
        (u.used, u.shrinks) = (true, shrinks);
        self.cluster.servers[server].active += 1;
        self.by_server.insert(u.ends, Owner::Connection(self.id));
        c.upstream = Some(u);
        self.exchange_with(server, false);
        self.serve();
    }

    /// Whether the server has closed instead of answering.
    pub fn is_closed_unanswered(&self) -> bool {
        self.c.state == State::Serving
            && self.c.upstream.as_ref().is_some_and(|u| {
                !u.begun && u.response.is_none() && u.responses.bytes.is_ended() && u.responses.bytes.ready().is_empty()
            })
    }

    /// Sends the request again on a new connection, where the present one was there before and may have ended just then. False where
    /// something might be done twice by that. `closed` says that the server has ended it: what it has not acknowledged it has never
    /// seen then.
    pub fn once_more(&mut self, closed: bool) -> bool {
        let Some(u) = &mut self.c.upstream else { return false };
        let whole = self.c.requests.is_done() && u.kept_end() == self.c.requests.limit().wrapping_add(u.fin.into());
        let repeatable = self.c.request.as_ref().is_some_and(Request::is_idempotent);
        let unseen = closed && !before(u.kept_at, u.acked);
        if !u.used || u.begun || !(unseen || (whole && repeatable)) {
            return false;
        }
        if !whole {
            // What is not kept the client has still, for nobody has acknowledged it: it is read again when it comes again.
            let Some(rest) = u.rest.take() else { return false };
            (self.c.requests, self.c.client_done) = (*rest, u.fin);
        }
        let (kept, server) = (u.kept.clone(), u.server);
        self.release(RST);
        self.exchange_retried(server);
        match self.routed() {
            Some(pool) => self.connect(pool, kept),
            None => self.answer(503),
        }
        true
    }
}

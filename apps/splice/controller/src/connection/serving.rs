//! A server has the request: what both sides of a joined connection have in common, and the ways out of it.

use std::ops::ControlFlow;

use wire::body::{Body, Framing};
use wire::http::{Refused, Response};
use wire::segment::{FIN, RST};
use wire::seq::before;

use super::client::Client;
use super::context::Context;
use super::effect::{Effect, Metric};
use super::entries::Phase;
use super::exchange::Ending;
use super::release::ServerSide;
use super::send::RESEND;
use super::state::{Choosing, Joined, Leftover, Pending, Reading, State};
use super::upstream::Upstream;
use crate::tables::flow_entry::{FlowEntry, Mode};

/// The head of a response that is not read.
pub fn passthrough(status: u16) -> Response {
    Response { head: 0, status, framing: Framing::Rest, keeps_alive: true, private: true }
}

impl Upstream {
    /// From here on it is as if both sides had agreed on another protocol.
    pub fn pass_through(&mut self) {
        self.response = Some(passthrough(101));
        self.conn.responses.body = Some(Body::new(Framing::Rest));
    }

    /// What has come of the message meanwhile is kept, too, until the server has it.
    fn gather(&mut self, cl: &mut Client) -> Result<(), Refused> {
        let Some(body) = &mut cl.requests.body else { return Ok(()) };
        let used = body.feed(cl.requests.bytes.ready())?;
        self.kept.bytes.extend(cl.requests.bytes.take(used));
        self.kept.fin = cl.requests.bytes.is_ended() && cl.requests.bytes.ready().is_empty();
        cl.done = self.kept.fin;
        if cl.done {
            cl.persistence.pass_fin();
        }
        self.kept.rest = (self.used && !cl.requests.is_done()).then(|| Box::new(cl.requests.clone()));
        cl.requests.follow()
    }
}

impl Joined {
    /// The request goes to the server that is there.
    pub fn serve(pending: Pending, mut u: Box<Upstream>, cl: &mut Client, cx: &mut Context) -> State {
        if let Err(Refused(status)) = u.gather(cl) {
            return Leftover::with(ServerSide::Attached(u), pending.is_head()).answer(status, cl, cx);
        }
        u.private |= pending.request.private;
        (u.kept.since, u.kept.resend, u.kept.backoff) = (cx.now, cx.now + RESEND, RESEND);
        u.awaits = u.may_await(pending.is_head(), cl);
        let mut own = Joined { pending, upstream: u, deadline: cx.now + cx.timeouts().response };
        own.update_entries(cl, cx);
        own.upstream.send_kept(cl, cx);
        State::Joined(own)
    }

    /// Brings both flow entries up to date.
    pub fn update_entries(&mut self, cl: &Client, cx: &mut Context) {
        let phase = Phase::Serving { start: self.pending.start, is_head: self.pending.is_head() };
        self.upstream.update_entries(cl, phase, cx);
    }

    /// Looks whether the server has acknowledged more of a request than this process has seen: one before has sent it
    /// that. Then it is not known where the request ends, and the connection goes on to its end as a passthrough.
    /// Whether it does.
    pub fn pass_if_overtaken(&mut self, cl: &mut Client, cx: &mut Context) -> bool {
        let requests = &mut cl.requests;
        if requests.is_done() || requests.is_endless() || !before(requests.bytes.next(), self.upstream.acked) {
            return false;
        }
        self.upstream.pass_through();
        requests.body = Some(Body::new(Framing::Rest));
        cx.count(Metric::Passthrough);
        true
    }

    /// The state ends.
    pub fn into_leftover(self) -> Leftover {
        State::Joined(self).into_leftover()
    }

    /// Answers the client instead of the server.
    pub fn answer(self, status: u16, cl: &mut Client, cx: &mut Context) -> State {
        self.into_leftover().answer(status, cl, cx)
    }

    /// The exchange is over: the client's next byte begins a request. `next` is the number that the client expects.
    fn await_request(self, next: u32, cl: &mut Client, cx: &Context) -> Reading {
        (cl.next, cl.requests.body) = (next, None);
        Reading::until(cx.now + cx.timeouts().keep_alive, Some(self.upstream))
    }

    /// Goes on to the next request, where there is one and the client has the whole response to the present one: then
    /// the event is done.
    pub fn next_request(mut self, cl: &mut Client, cx: &mut Context) -> ControlFlow<State, Joined> {
        let u = &self.upstream;
        let waiting = cl.requests.is_done() && !cl.requests.bytes.ready().is_empty();
        if !waiting || !cl.persistence.keeps_alive() || !u.conn.responses.is_done() || !u.has_all() {
            return ControlFlow::Continue(self);
        }
        let end = u.response_end();
        cl.hear(cx);
        if before(cl.acked, end) {
            return ControlFlow::Continue(self);
        }
        if u.conn.responses.bytes.is_ended() {
            return ControlFlow::Break(self.let_server_go(FIN, cl, cx));
        }
        cl.complete_exchange(&mut self.upstream, cx);
        let skipped = cl.pass_blank(Some(&mut self.upstream));
        if skipped && cl.requests.is_blank() && !cl.requests.bytes.is_ended() {
            // That is all: nothing else has changed.
            self.update_entries(cl, cx);
            cl.send(cx, 0, end, &[]);
            self.upstream.send(0, cl.requests.limit(), &[], cl, cx);
            return ControlFlow::Break(State::Joined(self));
        }
        ControlFlow::Break(self.await_request(end, cl, cx).advance(cl, cx))
    }

    /// The client has the whole response, and the next request may go to any server: this one is let go, with a FIN or
    /// a reset.
    pub fn let_server_go(mut self, flags: u8, cl: &mut Client, cx: &mut Context) -> State {
        let end = self.upstream.response_end();
        cl.complete_exchange(&mut self.upstream, cx);
        ServerSide::Serving(self.upstream).release(flags, cl, cx);
        (cl.next, cl.requests.body) = (end, None);
        let reading = Reading::until(cx.now + cx.timeouts().keep_alive, None);
        cl.hold(cl.at_limit(), cx);
        match cl.requests.bytes.ready().is_empty() {
            true => State::Reading(reading),
            false => reading.advance(cl, cx),
        }
    }

    /// Gives up the server of a client that has all of the response: it is left to others, or closed.
    pub fn leave_or_close(self, cl: &mut Client, cx: &mut Context) -> Leftover {
        let is_head = self.pending.is_head();
        let next = cl.requests.limit();
        cl.next = self.upstream.response_end();
        if let Some(u) = self.upstream.leave(next, true, cl, cx) {
            ServerSide::Serving(u).release(FIN, cl, cx);
        }
        Leftover::alone(is_head)
    }

    /// Whether the request may go to another server: it is whole, may be sent twice, and nothing has come back.
    pub fn may_go_elsewhere(&self, cl: &Client) -> bool {
        let u = &self.upstream;
        // Of a connection that was taken up nothing is kept.
        let kept = !u.kept.bytes.is_empty() && !u.begun;
        let whole = u.kept.end() == cl.requests.limit().wrapping_add(u.kept.fin.into());
        cl.requests.is_done() && self.pending.request.is_idempotent() && kept && whole
    }

    /// The server can't have the request: another one gets it, or the client this answer.
    pub fn elsewhere(self, status: u16, cl: &mut Client, cx: &mut Context) -> State {
        // They stay until the release, which looks how far they reach.
        let (kept, server) = (self.upstream.kept.bytes.clone(), self.upstream.conn.peer.server);
        ServerSide::Serving(self.upstream).release(0, cl, cx);
        Choosing::elsewhere(self.pending, server, kept, status, cl, cx)
    }

    /// Sends the request again on a new connection, where the present one was there before and may have ended just
    /// then. It goes on as it is where something might be done twice by that. `closed` says that the server has ended
    /// it: what it has not acknowledged it has never seen then.
    pub fn once_more(mut self, closed: bool, cl: &mut Client, cx: &mut Context) -> ControlFlow<State, Joined> {
        let u = &mut self.upstream;
        let end = cl.requests.limit().wrapping_add(u.kept.fin.into());
        let whole = cl.requests.is_done() && u.kept.end() == end;
        let unseen = closed && !before(u.kept.at, u.acked);
        if !u.used || u.begun || !(unseen || (whole && self.pending.request.is_idempotent())) {
            return ControlFlow::Continue(self);
        }
        if !whole {
            // What is not kept the client has still, for it was not acknowledged: it is read again when it comes
            // again.
            let Some(rest) = u.kept.rest.take() else { return ControlFlow::Continue(self) };
            (cl.requests, cl.done) = (*rest, u.kept.fin);
        }
        let (kept, server) = (u.kept.bytes.clone(), u.conn.peer.server);
        ServerSide::Serving(self.upstream).release(RST, cl, cx);
        cl.exchange_retried(server, cx);
        ControlFlow::Break(match self.pending.route(cl, cx) {
            Some(pool) => Choosing::connect(self.pending, pool, kept, cl, cx),
            None => Leftover::alone(self.pending.is_head()).answer(503, cl, cx),
        })
    }

    /// A reset of one side has been relayed: where the data path has taken it, the connection is over.
    pub fn on_relayed(mut self, of_client: bool, cl: &mut Client, cx: &mut Context) -> State {
        let key = if of_client { cl.key } else { self.upstream.conn.peer.key };
        if cx.entry(&key).is_none_or(|entry| entry.ended & 2 == 0) {
            return State::Joined(self);
        }
        let ending = if of_client { Ending::Client } else { Ending::Server };
        cl.break_exchange(ending, Some(&mut self.upstream), cx);
        if !of_client {
            return self.leave_entries(cl, cx);
        }
        ServerSide::Serving(self.upstream).release(0, cl, cx);
        Leftover::alone(false).over(cl, cx)
    }

    /// Both sides are done: what comes late the data path sees to, until it forgets the entries.
    pub fn leave_entries(self, cl: &mut Client, cx: &mut Context) -> State {
        let peer = self.upstream.conn.peer;
        for key in [cl.key, peer.key] {
            if let Some(entry) = cx.entry(&key).filter(|entry| entry.mode != Mode::Open) {
                cx.push(Effect::Update { key, entry: FlowEntry { mode: Mode::Open, ..entry } });
            }
        }
        cl.break_exchange(Ending::Client, None, cx);
        cx.push(Effect::Unbind { key: peer.key, server: peer.server });
        State::Over
    }
}

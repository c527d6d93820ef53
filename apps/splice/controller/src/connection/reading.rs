//! A request is read, until a server can be chosen for it.

use wire::body::Body;
use wire::http::Refused;
use wire::segment::{ACK, FIN, RST, Segment};
use wire::seq::before;

use super::client::{Client, Persistence};
use super::context::Context;
use super::entries::Phase;
use super::release::ServerSide;
use super::state::{Choosing, Joined, Leftover, Pending, Reading, State};
use super::upstream::Upstream;

/// From one look for a server to the next, in nanoseconds, as long as no server of a pool has been checked.
const RETRY: u64 = 20_000_000;

impl Client {
    /// Passes over an empty line in front of a request, which is for no server (RFC 9112 section 2.2). Whether there is
    /// one.
    pub fn pass_blank(&mut self, upstream: Option<&mut Upstream>) -> bool {
        let skipped = self.requests.pass_blank();
        upstream.into_iter().for_each(|u| u.skip(skipped));
        skipped > 0
    }
}

impl Reading {
    /// Sends the client a segment. What it acknowledges does not come again, and the flow entries say so first.
    pub fn send(&mut self, flags: u8, seq: u32, cl: &mut Client, cx: &mut Context) {
        let next = cl.requests.bytes.next();
        if before(cl.acknowledged, next) {
            cl.acknowledged = next;
            match &mut self.upstream {
                Some(u) => u.update_entries(cl, Phase::Reading, cx),
                None => cl.hold(cl.at_limit(), cx),
            }
        }
        cl.send(cx, flags, seq, &[]);
    }

    /// A segment of the client.
    pub fn on_client(mut self, segment: &Segment, cl: &mut Client, cx: &mut Context) -> State {
        let expected = cl.requests.bytes.next();
        cl.requests.bytes.insert(segment.seq, segment.payload, segment.has(FIN));
        if self.retry != u64::MAX {
            return State::Reading(self);
        }
        if cl.requests.bytes.next() != expected {
            return self.advance(cl, cx);
        }
        if segment.space() > 0 || segment.seq != expected {
            // It came a second time, or too early, or probes the connection.
            self.send(0, cl.next, cl, cx);
        }
        State::Reading(self)
    }

    /// Reads what there is of a request.
    pub fn advance(mut self, cl: &mut Client, cx: &mut Context) -> State {
        cl.pass_blank(self.upstream.as_deref_mut());
        let start = cl.requests.bytes.base();
        let ended = cl.requests.bytes.is_ended();
        if cl.requests.is_blank() && !ended {
            self.send(0, cl.next, cl, cx);
            return State::Reading(self);
        }
        if self.began.is_none() {
            (self.began, self.deadline) = (Some(cx.now), cx.now + cx.timeouts().request);
        }
        self.retry = u64::MAX;
        let most = cx.cluster.settings.request_head;
        let mut request = match cl.requests.request() {
            Ok(Some(request)) => request,
            Err(Refused(status)) => return State::Reading(self).answer(status, cl, cx),
            Ok(None) if ended && !cl.requests.bytes.ready().is_empty() => {
                return State::Reading(self).answer(400, cl, cx);
            }
            Ok(None) if ended => {
                // Where it had only to go, others may use its server's connection.
                self.upstream = self.upstream.and_then(|u| u.leave(start, false, cl, cx));
                return State::Reading(self).answer(0, cl, cx);
            }
            Ok(None) if cl.requests.bytes.ready().len() > most => return State::Reading(self).answer(431, cl, cx),
            Ok(None) => {
                self.send(0, cl.next, cl, cx);
                return State::Reading(self);
            }
        };
        let pool = cx.cluster.route(cl.service, &request);
        if pool.is_some_and(|pool| cx.cluster.is_undecided(pool, cl.key.src, cx.now)) {
            self.retry = cx.now + RETRY;
            return State::Reading(self);
        }
        let mut kept = cl.requests.take_head(request.head);
        let hidden = !request.private && pool.is_some_and(|pool| cx.cluster.outlasts(pool));
        let close = request.close.take().filter(|_| hidden);
        let body = Body::limited(request.framing, cx.cluster.settings.request_body);
        let refused = body.as_ref().err().copied();
        cl.requests.body = body.ok();
        (cl.done, cl.persistence) = (false, Persistence::new(request.keeps_alive, close.is_some()));
        cl.begin_exchange(&kept, (start, &request.host), self.began, cx);
        close.into_iter().for_each(|close| kept[close].fill(b' '));
        let pending = Pending { request, start, tried: Vec::new() };
        match (refused, pool) {
            (Some(Refused(status)), _) => self.refuse(status, &pending, cl, cx),
            (None, None) => self.refuse(503, &pending, cl, cx),
            (None, Some(pool)) => self.forward(pending, pool, kept, cl, cx),
        }
    }

    /// Answers a request whose head was read.
    fn refuse(self, status: u16, pending: &Pending, cl: &mut Client, cx: &mut Context) -> State {
        let server = self.upstream.map_or(ServerSide::None, ServerSide::Attached);
        Leftover::with(server, pending.is_head()).answer(status, cl, cx)
    }

    /// The request goes to the server that is there, or another one.
    fn forward(self, pending: Pending, pool: usize, kept: Vec<u8>, cl: &mut Client, cx: &mut Context) -> State {
        let start = pending.start;
        let Some(mut u) = self.upstream else { return Choosing::join(pending, pool, kept, cl, cx) };
        // A process before may have sent it this request already.
        let heard = Some(u.acked).filter(|acked| before(start, *acked));
        let server = u.conn.peer.server;
        let ended = u.conn.responses.bytes.is_ended();
        if heard.is_none() && (ended || !cx.cluster.serves(server, pool, &cl.options)) {
            if let Some(u) = u.leave(start, false, cl, cx) {
                u.release(FIN, start, false, cl, cx);
            }
            return Choosing::join(pending, pool, kept, cl, cx);
        }
        cl.exchange_with(server, false, cx);
        // The server's latest clock is what the client has echoed.
        let echoed = cl.clock.times.1.wrapping_sub(u.offsets.tsval);
        u.conn.tsval = if before(u.conn.tsval, echoed) { echoed } else { u.conn.tsval };
        u.begin(kept, start);
        (u.acked, u.used) = (heard.unwrap_or(start), true);
        if let Some(entry) = cx.entry(&u.conn.peer.key) {
            u.conn.edge = entry.edge.wrapping_sub(u.offsets.shift);
        }
        Joined::serve(pending, u, cl, cx)
    }

    /// A segment of the server of the request before.
    pub fn on_server(mut self, segment: &Segment, cl: &mut Client, cx: &mut Context) -> State {
        if let Some(u) = self.upstream.as_deref_mut()
            && let Some(flags) = u.on_unasked(segment, cl, cx)
        {
            let server = self.upstream.take().map_or(ServerSide::None, ServerSide::Attached);
            server.release(flags, cl, cx);
            cl.hold(cl.at_limit(), cx);
        }
        State::Reading(self)
    }
}

impl Upstream {
    /// A segment of a server that has no request. The flags that the connection is closed with, if it is to be closed:
    /// a server that was asked nothing has only to close, and nothing else of it is wanted.
    fn on_unasked(&mut self, segment: &Segment, cl: &mut Client, cx: &mut Context) -> Option<u8> {
        if !self.admits(segment, cl, cx) {
            return None;
        }
        let acked = segment.ack.wrapping_sub(self.offsets.shift);
        let is_next = segment.seq == self.conn.responses.bytes.next();
        if segment.has(ACK) && before(cl.requests.limit(), acked) {
            // It has the request that a process before has sent. The client will say once more what it was; what the
            // server says comes again, too.
            self.acked = if is_next { acked } else { self.acked };
            return None;
        }
        if segment.has(RST) {
            return is_next.then_some(0);
        }
        if !self.takes_ack(segment, cx) {
            return None;
        }
        self.conn.responses.bytes.insert(segment.seq, segment.payload, segment.has(FIN));
        match segment.payload.is_empty() {
            false => Some(RST),
            true => segment.has(FIN).then_some(FIN),
        }
    }
}

//! Segments of the server.

use std::ops::ControlFlow;

use wire::body::{Body, Framing};
use wire::http::Response;
use wire::icmp::{IcmpError, Problem};
use wire::segment::{ACK, FIN, RST, SYN, Segment, is_v6};
use wire::seq::before;

use super::client::{Client, Persistence};
use super::context::Context;
use super::effect::{Effect, Metric};
use super::send::spread;
use super::serving::passthrough;
use super::state::{Joined, Leftover, State};
use super::upstream::Upstream;

impl State {
    /// A segment of the server.
    pub fn on_server(self, segment: &Segment, cl: &mut Client, cx: &mut Context) -> State {
        match self {
            State::Connecting(own) => own.on_server(segment, cl, cx),
            State::Joined(own) => own.on_server(segment, cl, cx),
            State::Reading(own) => own.on_server(segment, cl, cx),
            other => other,
        }
    }

    /// An ICMP error about what the server was to get.
    pub fn on_server_error(self, error: &IcmpError, cl: &mut Client, cx: &mut Context) -> State {
        match self {
            State::Connecting(own) => own.on_error(error, cl, cx),
            State::Joined(mut own) => {
                own.on_error(error, cl, cx);
                State::Joined(own)
            }
            other => other,
        }
    }
}

impl Upstream {
    /// Whether a segment of the server is to be looked at: its acknowledgement and its clock are valid, and it is no
    /// SYN, which is answered.
    pub fn admits(&mut self, segment: &Segment, cl: &mut Client, cx: &mut Context) -> bool {
        if !self.acknowledges(segment, cx) || !self.note_clock(segment, cl, cx) {
            return false;
        }
        if !segment.has(SYN) {
            return true;
        }
        if self.is_silent() {
            // The acknowledgement of its SYN was lost, and the request with it.
            self.kept.resend = cx.now + spread(self.kept.backoff, cx.id);
            self.resend_kept(cl, cx);
        } else {
            self.send(0, self.sent, &[], cl, cx);
        }
        false
    }

    /// Notes what a segment of the server acknowledges. False where that much was never sent.
    pub fn takes_ack(&mut self, segment: &Segment, cx: &mut Context) -> bool {
        let (acked, end) = (segment.ack.wrapping_sub(self.offsets.shift), self.kept.end());
        // A process before may have sent more of a request than this one has seen.
        if self.is_silent() && !self.taken_up && segment.has(ACK) && before(end, acked) {
            cx.count(Metric::InvalidAck);
            return false;
        }
        if segment.has(ACK) && !before(acked, self.acked) {
            self.acked = acked;
            self.conn.edge = acked.wrapping_add(u32::from(segment.window) << self.conn.scale);
            // It may have had what comes behind the first segment already.
            let had = if before(end, acked) { end } else { acked };
            self.sent = if before(self.sent, had) { had } else { self.sent };
        }
        true
    }

    /// A response that can't be read goes on until the connection ends.
    fn pass_response(&mut self, persistence: &mut Persistence) {
        persistence.end();
        self.response.get_or_insert(Response { keeps_alive: false, ..passthrough(200) });
        self.conn.responses.body = Some(Body::new(Framing::Rest));
    }

    /// Reads the heads of responses to a request of a method, and follows their bodies.
    fn follow_response(&mut self, method: &str, cl: &mut Client) {
        while self.conn.responses.body.is_none() {
            let responses = &mut self.conn.responses;
            match responses.response(method) {
                Ok(None) if responses.bytes.room() > 0 => return,
                Ok(Some(response)) => {
                    responses.bytes.discard(response.head);
                    let exchange = &mut cl.account.exchange;
                    exchange.iter_mut().for_each(|own| own.responds(response.status, response.head));
                    // More is to come behind an interim response (RFC 9110 section 15.2).
                    self.private |= response.private;
                    if response.status == 101 || response.status >= 200 {
                        if !response.keeps_alive {
                            cl.persistence.end();
                        }
                        responses.body = Some(Body::new(response.framing));
                        self.response = Some(response);
                    }
                }
                // Where it ends is not certain, so it ends with the connection.
                Ok(None) | Err(_) => self.pass_response(&mut cl.persistence),
            }
        }
        if self.conn.responses.follow().is_err() {
            self.pass_response(&mut cl.persistence);
        }
        // Where the server closes, too, its FIN is for both.
        let responses = &self.conn.responses;
        let stays = self.response.is_none_or(|response| response.keeps_alive) && !responses.is_endless();
        if !stays || responses.bytes.is_ended() {
            cl.persistence.pass_fin();
        }
    }
}

impl Joined {
    /// A segment of the server that the data path did not let pass.
    fn on_server(mut self, segment: &Segment, cl: &mut Client, cx: &mut Context) -> State {
        if !self.upstream.admits(segment, cl, cx) {
            return State::Joined(self);
        }
        if segment.has(RST) {
            return self.on_server_reset(segment, cl, cx);
        }
        if !self.upstream.takes_ack(segment, cx) {
            return State::Joined(self);
        }
        self.pass_if_overtaken(cl, cx);
        let u = &mut *self.upstream;
        let acked = segment.ack.wrapping_sub(u.offsets.shift);
        let more = !u.has_all() && before(u.sent, u.kept.end());
        // What was sent before the request had come is no answer to it: it may be the last word to the client before.
        let end = segment.seq.wrapping_add(segment.payload.len() as u32);
        let unasked = u.used && !u.begun && !before(u.kept.at, acked);
        if unasked && before(u.conn.responses.bytes.next(), end) {
            return match self.once_more(false, cl, cx) {
                ControlFlow::Break(state) => state,
                ControlFlow::Continue(own) => own.answer(503, cl, cx),
            };
        }
        let had = u.conn.responses.bytes.insert(segment.seq, segment.payload, segment.has(FIN));
        if self.is_closed_unanswered() {
            return self.ended_unanswered(RST, cl, cx);
        }
        let u = &mut *self.upstream;
        u.follow_response(&self.pending.request.method, cl);
        if more {
            u.send_kept(cl, cx);
        }
        if segment.space() == 0 && u.is_silent() {
            // It echoes what another sender has said, and acknowledges nothing of this client's.
            return State::Joined(self);
        }
        if !had && !u.conn.responses.is_endless() {
            // The client must not have what has not been looked at, for it would not come again. The server is told
            // that there is a gap, which it would fill at the pace of its timer otherwise (RFC 5681 section 3.2).
            if !segment.payload.is_empty() {
                u.send(0, acked, &[], cl, cx);
            }
            return State::Joined(self);
        }
        self.pass_on(segment, end, cl, cx)
    }

    /// Passes a segment of the server on to the client, as far as it is for it.
    fn pass_on(mut self, segment: &Segment, end: u32, cl: &mut Client, cx: &mut Context) -> State {
        let u = &mut *self.upstream;
        // What comes behind the response was not asked for; a FIN there is the server's own matter as long as the
        // client may go on.
        let beyond = u.conn.responses.is_done() && before(u.conn.responses.limit(), end);
        // What comes again of the response before is none of this one.
        if !segment.payload.is_empty() && before(u.passed, end) {
            (u.begun, u.passed) = (true, end);
            cl.account.exchange.iter_mut().for_each(|exchange| exchange.first_byte(cx.now));
        }
        let keep_fin = segment.has(FIN) && cl.keeps_fin(u);
        self.update_entries(cl, cx);
        let finishes = !segment.payload.is_empty() && cl.finishes_at(&self.upstream, end);
        if beyond || keep_fin || finishes {
            let known = self.upstream.conn.responses.known_end();
            let length = (known.wrapping_sub(segment.seq) as usize).min(segment.payload.len());
            if length > 0 || !keep_fin {
                let payload = segment.payload.get(..length).unwrap_or_default();
                let part = Segment { payload, flags: segment.flags & !FIN, ..segment.clone() };
                match finishes {
                    true => self.upstream.finish(part, cl, cx),
                    false => cx.push(Effect::RelayPart(part.frame())),
                }
            }
        } else {
            cx.push(Effect::Relay);
        }
        let responses = &self.upstream.conn.responses;
        if responses.is_done() && !before(end, responses.limit()) && cl.requests.is_done() {
            cl.complete_exchange(&mut self.upstream, cx);
        }
        if keep_fin {
            self = match self.server_closes(cl, cx) {
                ControlFlow::Break(state) => return state,
                ControlFlow::Continue(own) => own,
            };
        }
        self.go_on(cl, cx)
    }

    /// The server closes behind a response. As soon as the client has all of it, it is let go; until then its FIN comes
    /// again.
    fn server_closes(self, cl: &mut Client, cx: &mut Context) -> ControlFlow<State, Joined> {
        cl.hear(cx);
        let bytes = &self.upstream.conn.responses.bytes;
        let ended = bytes.is_ended() && bytes.ready().is_empty();
        if ended && !before(cl.acked, self.upstream.response_end()) && cl.is_delivered(&self.upstream) {
            return ControlFlow::Break(self.let_server_go(FIN, cl, cx));
        }
        ControlFlow::Continue(self)
    }

    /// Whether the server has closed instead of answering.
    fn is_closed_unanswered(&self) -> bool {
        let (u, bytes) = (&self.upstream, &self.upstream.conn.responses.bytes);
        !u.begun && u.response.is_none() && bytes.is_ended() && bytes.ready().is_empty()
    }

    fn on_server_reset(mut self, segment: &Segment, cl: &mut Client, cx: &mut Context) -> State {
        let u = &mut *self.upstream;
        if u.begun {
            cx.push(Effect::Relay);
            cx.push(Effect::ReportRelayed { of_client: false });
            return State::Joined(self);
        }
        // All of its segments come here, so the next number is known (RFC 5961 section 3.2).
        if segment.seq != u.conn.responses.bytes.next() {
            u.send(0, u.sent, &[], cl, cx);
            return State::Joined(self);
        }
        let acked = segment.ack.wrapping_sub(u.offsets.shift);
        if segment.has(ACK) && before(u.acked, acked) && !before(u.sent, acked) {
            u.acked = acked;
        }
        if !segment.has(ACK) && u.may_know_first_alone() {
            // It gets that alone, when it is sent again.
            (u.kept.alone, u.sent) = (true, u.kept.at);
            return State::Joined(self);
        }
        self.ended_unanswered(0, cl, cx)
    }

    /// The server has ended the connection instead of answering: the request goes elsewhere, or is answered here. The
    /// server is told `flags`.
    fn ended_unanswered(self, flags: u8, cl: &mut Client, cx: &mut Context) -> State {
        let mut own = match self.once_more(true, cl, cx) {
            ControlFlow::Break(state) => return state,
            ControlFlow::Continue(own) => own,
        };
        if flags != 0 {
            own.upstream.send(flags, own.upstream.acked, &[], cl, cx);
        }
        if own.may_go_elsewhere(cl) {
            return own.elsewhere(503, cl, cx);
        }
        cl.exchange_retried(own.upstream.conn.peer.server, cx);
        let is_head = own.pending.is_head();
        own.into_leftover().server.release(0, cl, cx);
        Leftover::alone(is_head).answer(503, cl, cx)
    }

    fn on_error(&mut self, error: &IcmpError, cl: &mut Client, cx: &mut Context) {
        let u = &mut *self.upstream;
        let seq = error.seq.wrapping_sub(u.offsets.shift);
        if before(seq, u.acked) || !before(seq, u.sent) {
            // The client has sent it: what lies behind the kept bytes, or once more what they were, with that.
            return cx.push(Effect::RelayError);
        }
        let Problem::TooBig(mtu) = error.problem else { return };
        let mss = mtu - if is_v6(&cl.key) { 60 } else { 40 };
        if mss < u.conn.peer.mss {
            u.conn.peer.mss = mss;
            u.resend_kept(cl, cx);
        }
    }

    /// The server is out of use: a request that may go to another one does, one that was answered is no reason to end
    /// the connection; else it ends.
    pub fn on_server_down(mut self, cl: &mut Client, cx: &mut Context) -> State {
        if !self.upstream.begun && self.may_go_elsewhere(cl) {
            self.upstream.send(RST, self.upstream.kept.end(), &[], cl, cx);
            return self.elsewhere(503, cl, cx);
        }
        let (answered, end) = (self.upstream.conn.responses.is_done(), self.upstream.response_end());
        cl.hear(cx);
        self.upstream.hear(cx);
        let both_open = cx.entry(&cl.key).is_some_and(|entry| entry.is_between_requests());
        let done = answered && cl.is_delivered(&self.upstream) && !before(cl.acked, end);
        if !done || !both_open || !cl.persistence.keeps_alive() {
            return self.into_leftover().kill(cl, cx);
        }
        self.let_server_go(RST, cl, cx)
    }
}

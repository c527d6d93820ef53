//! Segments of the client, and what is done with those of a joined connection.

use std::ops::ControlFlow;

use wire::assembly::Assembly;
use wire::http::Refused;
use wire::segment::{FIN, RST, SYN, Segment};
use wire::seq::before;

use super::client::Client;
use super::context::Context;
use super::effect::Effect;
use super::send::spread;
use super::state::{Joined, Leftover, State};
use super::upstream::Upstream;
use crate::data_path::MARGIN;

impl State {
    /// A segment of the client.
    pub fn on_client(mut self, segment: &Segment, cl: &mut Client, cx: &mut Context) -> State {
        if self.is_old_duplicate(segment, cl, cx) {
            return self;
        }
        if !cl.acknowledges(segment, cx) {
            return self;
        }
        cl.note_clock(segment, self.upstream_mut(), cx.now);
        match self {
            State::Killing(own) => own.on_client(segment, cl, cx),
            // It asks whether it is known (RFC 5961 section 4.2). The side that has the bytes says how many.
            State::Joined(_) if segment.has(SYN) => {
                cx.push(Effect::Relay);
                self
            }
            State::Joined(own) => own.on_client(segment, cl, cx),
            _ if segment.has(SYN) => self.acknowledge(cl, cx),
            State::Resetting(_) if segment.has(RST) => self.into_leftover().over(cl, cx),
            _ if segment.has(RST) && segment.seq == cl.requests.bytes.next() => self.into_leftover().over(cl, cx),
            _ if segment.has(RST) => self.acknowledge(cl, cx),
            State::Answering(own) => own.on_client(segment, cl, cx),
            State::Resetting(_) => {
                cl.send(cx, RST, segment.ack, &[]);
                self
            }
            State::Reading(own) => own.on_client(segment, cl, cx),
            // While a server is connected nothing is acknowledged: the client keeps it meanwhile, also if Millrace does
            // not.
            State::Connecting(_) => {
                cl.requests.bytes.insert(segment.seq, segment.payload, segment.has(FIN));
                self
            }
            State::Choosing(_) | State::Over => self,
        }
    }

    /// Sends the client a segment. What it acknowledges does not come again, and the flow entry says so first.
    pub fn send(&mut self, flags: u8, seq: u32, cl: &mut Client, cx: &mut Context) {
        let is_new = before(cl.acknowledged, cl.requests.bytes.next());
        match self {
            State::Reading(own) => return own.send(flags, seq, cl, cx),
            State::Choosing(own) if is_new => {
                cl.acknowledged = cl.requests.bytes.next();
                cl.hold(own.pending.progress(), cx);
            }
            State::Connecting(own) if is_new => {
                cl.acknowledged = cl.requests.bytes.next();
                cl.hold(own.pending.progress(), cx);
            }
            _ => {}
        }
        cl.send(cx, flags, seq, &[]);
    }

    /// Tells the client what has come.
    fn acknowledge(mut self, cl: &mut Client, cx: &mut Context) -> State {
        self.send(0, cl.next, cl, cx);
        self
    }

    /// Whether a segment of the client is one that it has sent long before, by its clock: then nothing in it is news,
    /// though its numbers may seem so (RFC 7323 section 5.3).
    fn is_old_duplicate(&mut self, segment: &Segment, cl: &mut Client, cx: &mut Context) -> bool {
        let with_times = cl.options.times && !segment.has(SYN | RST);
        let Some((value, _)) = segment.options.times.filter(|_| with_times) else { return false };
        if cl.clock.recent.is_behind(value, cx.now) {
            // As for any segment that is not acceptable. While a server is connected nothing is acknowledged.
            let answers = match self {
                State::Reading(own) => own.retry == u64::MAX,
                State::Resetting(_) => true,
                _ => false,
            };
            if answers {
                self.send(0, cl.next, cl, cx);
            }
            return true;
        }
        // How far all has come: what lies behind a gap may have been sent later than what fills it.
        let had = match self {
            State::Joined(own) => own.upstream.acked,
            _ => cl.requests.bytes.next(),
        };
        if !before(had, segment.seq) {
            cl.clock.recent.note(value, cx.now);
        }
        false
    }
}

impl Joined {
    /// A segment of the client that the data path did not let pass.
    fn on_client(mut self, segment: &Segment, cl: &mut Client, cx: &mut Context) -> State {
        if segment.has(RST) {
            cx.push(Effect::Relay);
            cx.push(Effect::ReportRelayed { of_client: true });
            return State::Joined(self);
        }
        if cl.is_finishing(&self.upstream) {
            return self.on_finishing_client(segment, cl, cx);
        }
        // What lies behind a gap may be anything.
        let gap = before(cl.requests.bytes.next(), segment.seq);
        if !cl.requests.is_done() && gap && segment.space() > 0 {
            self.upstream.hear(cx);
            if self.pass_if_overtaken(cl, cx) {
                self.update_entries(cl, cx);
                cx.push(Effect::Relay);
                return State::Joined(self);
            }
            if !before(self.upstream.conn.edge, segment.end()) {
                cl.out_of_order.keep(segment);
            }
            if !self.upstream.is_silent() {
                cl.tell_gap(&self.upstream, cx);
            }
            return State::Joined(self);
        }
        if segment.space() > 0 {
            cl.requests.bytes.insert(segment.seq, segment.payload, segment.has(FIN));
        }
        if let Err(Refused(status)) = cl.requests.follow() {
            return match self.upstream.begun {
                true => State::Joined(self).reset(cl, cx),
                false => self.answer(status, cl, cx),
            };
        }
        let stream = &cl.requests;
        let (end, known) = (segment.seq.wrapping_add(segment.payload.len() as u32), stream.known_end());
        let fin = segment.has(FIN) && stream.bytes.is_ended() && stream.bytes.ready().is_empty();
        if self.upstream.is_silent() {
            self.keep_more(segment, if before(known, end) { known } else { end }, fin, cl, cx);
            return State::Joined(self);
        }
        if fin && cl.is_between(&self.upstream) {
            self = match self.client_closes(known, cl, cx) {
                ControlFlow::Break(state) => return state,
                ControlFlow::Continue(own) => own,
            };
        }
        if !before(known, end) && (fin || !segment.has(FIN)) {
            if fin {
                cl.done = true;
                cl.persistence.pass_fin();
            }
            self.update_entries(cl, cx);
            cx.push(Effect::Relay);
            return self.go_on(cl, cx);
        }
        if !before(segment.seq, known) {
            // All of it is the next request's. If that goes on at once it says what this acknowledges.
            self = match self.next_request(cl, cx) {
                ControlFlow::Break(state) => return state,
                ControlFlow::Continue(own) if cl.requests.limit() != known => return State::Joined(own),
                ControlFlow::Continue(own) => own,
            };
        }
        // What it acknowledges the server must know.
        let length = known.wrapping_sub(segment.seq) as usize;
        let (seq, payload) = match segment.payload.get(..length) {
            Some(payload) => (segment.seq, payload),
            None => (known, &[][..]),
        };
        let part = Segment { seq, payload, flags: segment.flags & !FIN, ..segment.clone() };
        cx.push(Effect::RelayPart(part.frame()));
        self.go_on(cl, cx)
    }

    /// A segment has been passed on: the next request may begin, else the flow entries are brought up to date.
    pub fn go_on(self, cl: &mut Client, cx: &mut Context) -> State {
        match self.next_request(cl, cx) {
            ControlFlow::Break(state) => state,
            ControlFlow::Continue(mut own) => {
                own.update_entries(cl, cx);
                State::Joined(own)
            }
        }
    }

    /// The client, which waits for nothing, closes at a number. Where the server is left to others, or has closed
    /// itself, that is between the client and Millrace.
    fn client_closes(mut self, end: u32, cl: &mut Client, cx: &mut Context) -> ControlFlow<State, Joined> {
        cl.complete_exchange(&mut self.upstream, cx);
        let ended = self.upstream.conn.responses.bytes.is_ended().then(|| self.upstream.response_end());
        let is_head = self.pending.is_head();
        if let Some(u) = self.upstream.leave(end, true, cl, cx) {
            let Some(next) = ended else {
                self.upstream = u;
                return ControlFlow::Continue(self);
            };
            u.release(FIN, end, true, cl, cx);
            cl.next = next;
        }
        cl.done = true;
        ControlFlow::Break(Leftover::alone(is_head).answer(0, cl, cx))
    }

    /// Keeps what comes of a request, up to `end`, with what is kept of it already, and sends it: the server has said
    /// nothing yet, and what is sent again goes from here.
    fn keep_more(&mut self, segment: &Segment, end: u32, fin: bool, cl: &mut Client, cx: &mut Context) {
        if segment.space() == 0 {
            return;
        }
        let most = cx.cluster.settings.request_head + 2 * MARGIN;
        let u = &mut *self.upstream;
        let again = before(segment.seq, u.kept.end());
        u.keep(segment, end, most);
        if fin && !u.kept.fin && u.kept.end() == end {
            (u.kept.fin, cl.done) = (true, true);
            cl.persistence.pass_fin();
        }
        if u.kept.alone {
            return;
        }
        if u.kept.end() != u.sent {
            if !u.used && u.kept.bytes.len() + 12 <= usize::from(u.conn.peer.mss) {
                // A server that answers SYNs with cookies knows the connection by the first segment alone, and resets
                // it at any other one.
                u.sent = u.kept.at;
            }
            u.send_kept(cl, cx);
        } else if again {
            // It is missed.
            u.kept.resend = cx.now + spread(u.kept.backoff, cx.id);
            u.resend_kept(cl, cx);
        }
        self.update_entries(cl, cx);
    }
}

impl Upstream {
    /// Keeps the bytes of a segment up to `end` that are new, `most` in all.
    fn keep(&mut self, segment: &Segment, end: u32, most: usize) {
        let kept = &mut self.kept;
        let new = kept.end().wrapping_sub(segment.seq) as usize;
        let length = if before(segment.seq, end) { end.wrapping_sub(segment.seq) as usize } else { 0 };
        if kept.fin || new >= length || kept.bytes.len() + length - new > most {
            return;
        }
        let more = &segment.payload[new..length];
        kept.bytes.extend_from_slice(more);
        if let Some(rest) = &mut kept.rest {
            // It has been followed already, so that it can be.
            let _ = rest.body.as_mut().map(|body| body.feed(more));
            rest.bytes = Assembly::new(segment.seq.wrapping_add(length as u32), rest.bytes.room());
        }
    }
}

//! The server's side: it is given the request, and its responses are followed.

use super::block::before;
use super::body::{Body, Framing};
use super::connection::{Connection, State, Stream, Upstream};
use super::exchange::Ending;
use super::http;
use super::icmp::{IcmpError, Problem};
use super::path::DataPath;
use super::segment::{ACK, FIN, PSH, RST, SYN, Segment, is_v6};
use super::times::spread;
use super::turn::{RESEND, Turn};

/// How far a new server's clock begins ahead of the last that the client has shown to know, in milliseconds: segments of the
/// server before it may still be under way.
pub const AHEAD: u32 = 1000;
/// The same in a process that has taken up the connection. What the client echoes may be as old as anything that has passed, and later clocks may be
/// under way: as much later as a connection may be idle at most (24 h).
pub const AHEAD_UNSEEN: u32 = 24 * 3600 * 1000;
/// Bytes of a response's head at most: then it is passed on unread.
pub const HEAD: usize = 131_072;

impl Connection {
    /// What the clock of the server that comes next is for the client. The first one's begins where Millrace's own has ended, so that what
    /// the client echoes is a clock of that server's from the first segment on.
    pub fn next_clock(&mut self) -> u32 {
        self.times.1.wrapping_add(std::mem::replace(&mut self.ahead, AHEAD))
    }
}

impl<P: DataPath> Turn<'_, P> {
    /// A segment of the server.
    pub fn on_server(&mut self, segment: &Segment, frame: &[u8]) {
        match self.c.state {
            State::Connecting => self.on_connecting(segment),
            State::Serving | State::Asking => self.on_joined_server(segment, frame),
            State::Answering => {}
        }
    }

    fn on_connecting(&mut self, segment: &Segment) {
        let (start, server) = match &self.c.upstream {
            Some(u) => (self.c.start.wrapping_add(u.shift), u.server),
            None => return,
        };
        if !segment.has(ACK) || segment.ack != start {
            // Somebody's old connection: it is told that it is over, and the SYN comes again, at once for the first time.
            if segment.has(ACK) && !segment.has(RST) {
                self.reset_server(segment.ack);
                if self.c.upstream.as_ref().is_some_and(|u| u.backoff <= 2 * RESEND) {
                    self.send_syn();
                }
            }
            return;
        }
        if segment.has(RST) {
            return self.elsewhere(503);
        }
        if !segment.has(SYN) {
            return;
        }
        let (options, agreed) = (segment.options, self.c.agreed);
        if (agreed.sack && !options.sack) || (agreed.times && options.times.is_none()) {
            // It has changed since it was checked.
            self.cluster.servers[server].learned = Some(options);
            self.reset_server(segment.ack);
            return self.elsewhere(503);
        }
        let c = &mut *self.c;
        let clock = c.next_clock();
        let Some(u) = &mut c.upstream else { return };
        (u.scale, u.told) = agreed.scale.and_then(|own| Some((options.scale?, own))).unwrap_or_default();
        u.seq_add = c.next.wrapping_sub(segment.seq.wrapping_add(1));
        u.responses = Stream::new(segment.seq.wrapping_add(1), HEAD);
        u.passed = u.responses.limit();
        if let Some((tsval, _)) = options.times.filter(|_| agreed.times) {
            (u.tsval, u.tsval_add) = (tsval, clock.wrapping_sub(tsval));
        }
        (u.acked, u.edge) = (c.start, c.start.wrapping_add(segment.window.into()));
        self.exchange_connected();
        self.serve();
    }

    /// A reset that a server believes that has something else in mind; it expects this number of its own.
    fn reset_server(&mut self, expected: u32) {
        let shift = self.c.upstream.as_ref().map_or(0, |u| u.shift);
        self.tell_server(RST, expected.wrapping_sub(shift), &[]);
    }

    /// The server can't have the request: another one gets it, or the client this answer.
    pub fn elsewhere(&mut self, status: u16) {
        let Some(u) = &mut self.c.upstream else { return };
        let (kept, server) = (std::mem::take(&mut u.kept), u.server);
        self.release(0);
        self.exchange_retried(server);
        self.c.tried.push(server);
        let (pool, agreed) = (self.routed(), self.c.agreed);
        let other = pool.filter(|pool| self.cluster.choose(*pool, self.c.client.src, &agreed, &self.c.tried).is_some());
        match other {
            Some(pool) => self.connect(pool, kept),
            None => self.answer(status),
        }
    }

    /// Whether the request may go to another server: it is whole, may be sent twice, and nothing has come back.
    pub fn may_go_elsewhere(&self) -> bool {
        let whole = self.c.requests.is_done();
        let twice = self.c.request.as_ref().is_some_and(http::Request::is_idempotent);
        self.c.upstream.as_ref().is_some_and(|u| {
            // Of a connection that was taken up nothing is kept.
            let kept = !u.kept.is_empty() && !u.begun;
            whole && twice && kept && u.kept_end() == self.c.requests.limit().wrapping_add(u.fin.into())
        })
    }

    /// Sends what the server's window has room for of the kept bytes.
    pub fn send_kept(&mut self) {
        let Some(u) = &self.c.upstream else { return };
        let again = u.backoff > RESEND;
        // Timestamps take twelve bytes of each segment.
        let longest = usize::from(u.mss) - 12;
        let mut sent_any = false;
        while let Some(u) = &self.c.upstream {
            let from = u.sent.wrapping_sub(u.kept_at) as usize;
            let room = u.edge.wrapping_sub(u.sent) as usize;
            let room = if before(u.edge, u.sent) { 0 } else { room };
            // Who knows the connection by its first segment alone resets it at any other one: see `Upstream::is_silent`.
            if (again || u.alone) && sent_any && u.is_silent() {
                break;
            }
            let length = u.kept.len().saturating_sub(from).min(u.first_length(longest)).min(room);
            let last = from + length == u.kept.len();
            let fin = last && u.fin && before(u.sent, u.kept_end());
            if length == 0 && !fin {
                break;
            }
            let (seq, payload) = (u.sent, u.kept[from..from + length].to_vec());
            let flags = if last { PSH } else { 0 } | if fin { FIN } else { 0 };
            self.tell_server(flags, seq, &payload);
            sent_any = true;
            if let Some(u) = &mut self.c.upstream {
                u.sent = seq.wrapping_add(length as u32).wrapping_add(fin.into());
            }
        }
        if !sent_any {
            let sent = self.c.upstream.as_ref().map_or(0, |u| u.sent);
            self.tell_server(0, sent, &[]);
        }
    }

    /// The same again from the first byte that the server has not acknowledged.
    pub fn resend_kept(&mut self) {
        let Some(u) = &mut self.c.upstream else { return };
        u.sent = if before(u.acked, u.kept_at) { u.kept_at } else { u.acked };
        // One byte asks for a window where there is none (RFC 9293 section 3.8.6.1).
        let least = u.sent.wrapping_add(1);
        u.edge = if before(u.edge, least) { least } else { u.edge };
        self.send_kept();
    }

    /// An error about what the server was to get.
    pub fn on_server_error(&mut self, error: &IcmpError, frame: &[u8]) {
        let v6 = is_v6(&self.c.client);
        let Some(u) = &mut self.c.upstream else { return };
        let seq = error.seq.wrapping_sub(u.shift);
        match self.c.state {
            // Of the errors about a SYN these do not pass by themselves soon (RFC 5461 section 4.1).
            State::Connecting if error.problem == Problem::Unreachable && seq == self.c.start.wrapping_sub(1) => {
                self.elsewhere(503);
            }
            State::Serving if !before(seq, u.acked) && before(seq, u.sent) => {
                let Problem::TooBig(mtu) = error.problem else { return };
                let mss = mtu - if v6 { 60 } else { 40 };
                if mss < u.mss {
                    u.mss = mss;
                    self.resend_kept();
                }
            }
            // The client has sent it: what lies behind the kept bytes, or once more what they were, with that.
            State::Serving => self.path.relay_error(frame),
            _ => {}
        }
    }

    fn on_joined_server(&mut self, segment: &Segment, frame: &[u8]) {
        if !self.server_is_plausible(segment) {
            return;
        }
        let had = self.c.acked;
        let Some(u) = &mut self.c.upstream else { return };
        if let Some((tsval, echo)) = segment.options.times {
            // RFC 7323 section 5.3. Its sender has sent something else behind it long since.
            if u.recent.is_behind(tsval, self.now) && !segment.has(RST) {
                return self.books.implausible(&self.cluster.settings, self.c.service);
            }
            if !before(had.wrapping_sub(u.seq_add), segment.seq) {
                u.recent.note(tsval, self.now);
            }
            if !self.c.heard {
                let times = (echo.wrapping_sub(u.clock), tsval.wrapping_add(u.tsval_add));
                (u.tsval, self.c.times) = (tsval, times);
                self.c.heard = true;
            }
            // What a server says that waits for the end of the handshake it does not want to hear again: its SYN's clock is the only one.
            let counts = before(u.tsval, tsval) && (segment.has(SYN) || !u.is_silent());
            u.tsval = if counts { tsval } else { u.tsval };
        }
        if segment.has(SYN) {
            // The acknowledgement of its SYN was lost, and the request with it.
            if u.is_silent() {
                u.resend = self.now + spread(u.backoff, self.id);
                return self.resend_kept();
            }
            let seq = u.sent;
            return self.tell_server(0, seq, &[]);
        }
        let acked = segment.ack.wrapping_sub(u.shift);
        if self.c.state == State::Asking && segment.has(ACK) && before(self.c.requests.limit(), acked) {
            // It has the request that a process before has sent. The client will say once more what it was; what the server says
            // comes again, too.
            if segment.seq == u.responses.bytes.next() {
                u.acked = acked;
            }
            return;
        }
        if segment.has(RST) {
            return self.on_server_reset(segment, frame);
        }
        let asked = u.kept_end();
        if u.is_silent() && segment.has(ACK) && before(asked, acked) {
            // That much was never sent.
            return self.books.implausible(&self.cluster.settings, self.c.service);
        }
        if segment.has(ACK) && !before(acked, u.acked) {
            (u.acked, u.edge) = (acked, acked.wrapping_add(u32::from(segment.window) << u.scale));
            // It may have had what comes behind the first segment already.
            let had = if before(asked, acked) { asked } else { acked };
            u.sent = if before(u.sent, had) { had } else { u.sent };
        }
        self.pass_if_overtaken();
        let Some(u) = &mut self.c.upstream else { return };
        let more = !u.has_all() && before(u.sent, asked);
        // What was sent before the request had come is no answer to it: the server has said good-bye to the one before, say.
        let end = segment.seq.wrapping_add(segment.payload.len() as u32);
        let unasked = u.used && !u.begun && !before(u.kept_at, acked) && before(u.responses.bytes.next(), end);
        if unasked && self.c.state == State::Serving {
            if !self.once_more(false) {
                self.answer(503);
            }
            return;
        }
        let had = u.responses.bytes.insert(segment.seq, segment.payload, segment.has(FIN));
        if self.c.state == State::Asking {
            return self.on_idle_server(segment);
        }
        if self.is_closed_unanswered() {
            return self.ended_unanswered(RST);
        }
        self.follow_response();
        if more {
            self.send_kept();
        }
        if segment.space() == 0 && self.c.upstream.as_ref().is_some_and(Upstream::is_silent) {
            // It echoes what somebody else has said, and acknowledges nothing of this client's.
            return;
        }
        if !had && !self.c.upstream.as_ref().is_some_and(|u| u.responses.is_endless()) {
            // The client must not have what has not been looked at, for it would not come again.
            return;
        }
        let Some(u) = &mut self.c.upstream else { return };
        let end = segment.seq.wrapping_add(segment.payload.len() as u32);
        // What comes behind the response nobody has asked for; a FIN there is the server's own matter as long as the client
        // may go on.
        let beyond = u.responses.is_done() && before(u.responses.limit(), end);
        // What comes again of the response before is none of this one.
        if !segment.payload.is_empty() && before(u.passed, end) {
            (u.begun, u.passed) = (true, end);
            self.c.exchange.iter_mut().for_each(|exchange| exchange.first_byte(self.now));
        }
        let keep_fin = segment.has(FIN) && self.keeps_fin();
        self.update_blocks();
        let finishes = !segment.payload.is_empty() && self.c.finishes_at(end);
        if beyond || keep_fin || finishes {
            let known = self.c.upstream.as_ref().map_or(end, |u| u.responses.known_end());
            let length = (known.wrapping_sub(segment.seq) as usize).min(segment.payload.len());
            if length > 0 || !keep_fin {
                let payload = segment.payload.get(..length).unwrap_or_default();
                let flags = segment.flags & !FIN | if finishes { FIN } else { 0 };
                let cut = Segment { payload, flags, ..segment.clone() };
                self.path.relay(&cut.frame());
            }
        } else {
            self.path.relay(frame);
        }
        self.last_byte_passed(end);
        if keep_fin {
            self.server_closes();
        }
        self.next_request();
        self.update_blocks();
    }

    /// Whether a FIN of the server's is not for the client: it ends the server's connection behind the request and its response, and the client may go on;
    /// or it has overtaken some of a response whose end is not known yet, may be behind it, and comes again.
    pub(super) fn keeps_fin(&self) -> bool {
        let early = |own: &Stream| !own.is_done() && !own.bytes.is_ended() && !own.is_endless();
        let behind = |own: &Stream| own.is_done() && self.c.is_delivered();
        let goes_on = self.c.keeps_alive && !self.c.client_done;
        goes_on && self.c.upstream.as_ref().is_some_and(|u| behind(&u.responses) || early(&u.responses))
    }

    /// The server closes behind a response. As soon as the client has all of it, it is let go; until then its FIN comes again.
    fn server_closes(&mut self) {
        self.hear_client();
        let Some(u) = &self.c.upstream else { return };
        let (ended, rest) = (u.responses.bytes.is_ended(), u.responses.bytes.ready());
        if ended && rest.is_empty() && !before(self.c.acked, u.response_end()) && self.c.is_delivered() {
            self.let_server_go(FIN);
        }
    }

    /// The client has the whole response, and the next request may go to any server: this one is let go, with a FIN or a reset.
    pub(super) fn let_server_go(&mut self, flags: u8) {
        let Some(u) = &self.c.upstream else { return };
        let end = u.response_end();
        self.complete_exchange();
        self.release(flags);
        let waiting = !self.c.requests.bytes.ready().is_empty();
        self.await_request(end);
        self.hold_client();
        if waiting {
            self.advance();
        }
    }

    /// A server that nobody has asked anything closes; what else it says is not wanted.
    fn on_idle_server(&mut self, segment: &Segment) {
        if !segment.payload.is_empty() || segment.has(FIN) {
            self.release(if segment.payload.is_empty() { FIN } else { RST });
            self.hold_client();
        }
    }

    fn on_server_reset(&mut self, segment: &Segment, frame: &[u8]) {
        let Some(u) = &mut self.c.upstream else { return };
        let exact = segment.seq == u.responses.bytes.next();
        if self.c.state == State::Asking {
            if exact {
                self.release(0);
                self.hold_client();
            }
            return;
        }
        if !u.begun {
            // All of its segments come here, so the next number is known (RFC 5961 section 3.2).
            let acked = segment.ack.wrapping_sub(u.shift);
            if exact && segment.has(ACK) && before(u.acked, acked) && !before(u.sent, acked) {
                u.acked = acked;
            }
            if exact && !segment.has(ACK) && u.may_know_first_alone() {
                // It gets that alone, when it is sent again.
                (u.alone, u.sent) = (true, u.kept_at);
                return;
            }
            let sent = u.sent;
            return if exact { self.ended_unanswered(0) } else { self.tell_server(0, sent, &[]) };
        }
        let ends = u.ends;
        self.path.relay(frame);
        if self.path.block(&ends).is_some_and(|block| block.ended & 2 != 0) {
            self.break_exchange(Ending::Server);
            self.leave_blocks();
        }
    }

    /// The server has ended the connection instead of answering: the request goes elsewhere, or is answered here. The server is told
    /// `flags`.
    fn ended_unanswered(&mut self, flags: u8) {
        if self.once_more(true) {
            return;
        }
        let Some((server, acked)) = self.c.upstream.as_ref().map(|u| (u.server, u.acked)) else { return };
        if flags != 0 {
            self.tell_server(flags, acked, &[]);
        }
        if self.may_go_elsewhere() {
            return self.elsewhere(503);
        }
        self.exchange_retried(server);
        self.release(0);
        self.answer(503);
    }

    /// Reads heads, and follows bodies.
    fn follow_response(&mut self) {
        let c = &mut *self.c;
        let method = c.request.as_ref().map_or("", |request| &request.method);
        let Some(u) = &mut c.upstream else { return };
        while u.responses.body.is_none() {
            match u.responses.response(method) {
                Ok(None) if u.responses.bytes.room() > 0 => return,
                Ok(Some(response)) => {
                    u.responses.bytes.discard(response.head);
                    c.exchange.iter_mut().for_each(|own| own.responds(response.status, response.head));
                    // More is to come behind an interim response (RFC 9110 section 15.2).
                    u.private |= response.private;
                    if response.status == 101 || response.status >= 200 {
                        u.response = Some(response);
                        c.keeps_alive &= response.keeps_alive;
                        u.responses.body = Some(Body::new(response.framing));
                    }
                }
                // Where it ends is not certain, so it ends with the connection.
                Ok(None) | Err(_) => unread(u, &mut c.keeps_alive),
            }
        }
        if u.responses.follow().is_err() {
            unread(u, &mut c.keeps_alive);
        }
        // Where the server closes, too, its FIN is for both.
        let stays = u.response.is_none_or(|response| response.keeps_alive) && !u.responses.is_endless();
        c.closes &= stays && !u.responses.bytes.is_ended();
    }
}

/// A response that can't be read goes on until the connection ends.
fn unread(u: &mut Upstream, keeps_alive: &mut bool) {
    *keeps_alive = false;
    u.response.get_or_insert(http::Response {
        head: 0,
        status: 200,
        framing: Framing::Rest,
        keeps_alive: false,
        private: true,
    });
    u.responses.body = Some(Body::new(Framing::Rest));
}

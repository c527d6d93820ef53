//! The client's side: requests are read, servers chosen, and what follows is joined.

use super::assembly::Assembly;
use super::block::{Block, Ends, before};
use super::body::Body;
use super::connection::{State, Stream, Upstream};
use super::exchange::Ending;
use super::http::Refused;
use super::isn::initial;
use super::path::{DataPath, MARGIN};
use super::segment::{ACK, FIN, RST, SYN, Segment, TcpOptions};
use super::times::spread;
use super::turn::{Owner, RESEND, Turn};

/// From one look for a server to the next, in nanoseconds, as long as no server of a pool has been checked.
const RETRY: u64 = 20_000_000;

impl<P: DataPath> Turn<'_, P> {
    /// A segment of the client.
    pub fn on_client(&mut self, segment: &Segment, frame: &[u8]) {
        if self.is_old_duplicate(segment) {
            return;
        }
        if !self.client_acknowledges(segment) {
            return;
        }
        let c = &mut *self.c;
        // An old segment says old times, and a SYN echoes none.
        if let Some((value, echo)) = segment.options.times.filter(|_| segment.has(ACK)) {
            if let Some(u) = c.upstream.as_mut().filter(|_| !c.heard) {
                u.tsval = echo.wrapping_sub(u.tsval_add);
            }
            if !c.heard || before(c.times.0, value) {
                (c.times.0, c.clock_at) = (value, self.now);
            }
            c.times.1 = if c.heard { c.times.1 } else { echo };
            c.heard = true;
            c.times.1 = if before(c.times.1, echo) { echo } else { c.times.1 };
        }
        if c.answer.as_ref().is_some_and(|answer| answer.resets) {
            return self.on_killed(segment);
        }
        if segment.has(SYN) {
            // It asks whether it is known (RFC 5961 section 4.2). Who has the bytes says how many.
            if c.state == State::Serving {
                return self.path.relay(frame);
            }
            return self.tell_client(0, self.c.next, &[]);
        }
        if c.state == State::Serving {
            return self.on_joined_client(segment, frame);
        }
        if segment.has(RST) {
            match (c.state == State::Answering && c.answer.is_none()) || segment.seq == c.requests.bytes.next() {
                true => self.over(),
                false => self.tell_client(0, self.c.next, &[]),
            }
            return;
        }
        match c.state {
            State::Answering => self.on_answered(segment),
            State::Asking | State::Connecting => {
                let expected = c.requests.bytes.next();
                c.requests.bytes.insert(segment.seq, segment.payload, segment.has(FIN));
                let new = c.requests.bytes.next() != expected;
                if self.c.state == State::Asking && new && self.c.retry == u64::MAX {
                    self.advance();
                } else if self.c.state == State::Asking
                    && self.c.retry == u64::MAX
                    && (segment.space() > 0 || segment.seq != expected)
                {
                    // It came a second time, or too early, or asks whether anybody is there. While a server is connected nothing
                    // is acknowledged: the client keeps it meanwhile, also if Millrace does not.
                    self.tell_client(0, self.c.next, &[]);
                }
            }
            State::Serving => {}
        }
    }

    /// Whether a segment of the client's is one that it has sent long before, by its clock: then nothing in it is news, though its numbers
    /// may seem so (RFC 7323 section 5.3).
    fn is_old_duplicate(&mut self, segment: &Segment) -> bool {
        let c = &mut *self.c;
        let Some((value, _)) = segment.options.times.filter(|_| c.agreed.times && !segment.has(SYN | RST)) else {
            return false;
        };
        if c.recent.is_behind(value, self.now) {
            // As for any segment that is not acceptable. While a server is connected nothing is acknowledged.
            if c.retry == u64::MAX && matches!(c.state, State::Asking | State::Answering) && c.answer.is_none() {
                self.tell_client(0, self.c.next, &[]);
            }
            return true;
        }
        // How far all has come: what lies behind a gap may have been sent later than what fills it.
        let had = match (&c.state, &c.upstream) {
            (State::Serving, Some(u)) => u.acked,
            _ => c.requests.bytes.next(),
        };
        if !before(had, segment.seq) {
            c.recent.note(value, self.now);
        }
        false
    }

    /// An acknowledgement of the own answer, or the client's FIN behind it.
    pub(super) fn on_answered(&mut self, segment: &Segment) {
        let c = &mut *self.c;
        let Some(answer) = &mut c.answer else { return self.tell_client(RST, segment.ack, &[]) };
        let end = c.next.wrapping_add(answer.bytes.len() as u32 + 1);
        answer.arrived |= !before(c.acked, end);
        let (arrived, done) = (answer.arrived, c.client_done);
        // Data that is not wanted any more is taken all the same, else a reset would destroy the answer before it is read.
        let expected = c.requests.bytes.next();
        if !before(segment.end(), expected) && !before(expected, segment.seq) {
            c.requests = Stream::new(segment.end(), 65536);
        }
        if segment.space() > 0 {
            self.tell_client(0, end, &[]);
        }
        if arrived && (segment.has(FIN) || done) {
            self.over();
        }
    }

    /// Reads what there is of a request.
    pub fn advance(&mut self) {
        self.pass_blank();
        let c = &mut *self.c;
        let start = c.requests.bytes.base();
        if c.requests.is_blank() && !c.requests.bytes.is_ended() {
            return self.tell_client(0, self.c.next, &[]);
        }
        if c.asking.is_none() {
            (c.asking, c.deadline) = (Some(self.now), self.now + self.cluster.settings.timeouts.request);
        }
        c.retry = u64::MAX;
        let mut request = match c.requests.request() {
            Err(Refused(status)) => return self.answer(status),
            Ok(Some(request)) => request,
            Ok(None) if c.requests.bytes.is_ended() => {
                if !c.requests.bytes.ready().is_empty() {
                    return self.answer(400);
                }
                // Where it had only to go, others may use its server's connection.
                self.leave(start);
                return self.answer(0);
            }
            Ok(None) if c.requests.bytes.ready().len() > self.cluster.settings.request_head => return self.answer(431),
            Ok(None) => return self.tell_client(0, self.c.next, &[]),
        };
        let pool = self.cluster.route(c.service, &request);
        if pool.is_some_and(|pool| self.cluster.is_undecided(pool, c.client.src, self.now)) {
            c.retry = self.now + RETRY;
            return;
        }
        let mut kept = c.requests.take_head(request.head);
        let hidden = !request.private && pool.is_some_and(|pool| self.cluster.outlasts(pool));
        let close = request.close.take().filter(|_| hidden);
        let body = Body::limited(request.framing, self.cluster.settings.request_body);
        let refused = body.as_ref().err().copied();
        c.requests.body = body.ok();
        (c.start, c.client_done, c.keeps_alive, c.closes) = (start, false, request.keeps_alive, close.is_some());
        c.request = Some(request);
        c.tried.clear();
        self.begin_exchange(&kept);
        close.into_iter().for_each(|close| kept[close].fill(b' '));
        if let Some(Refused(status)) = refused {
            return self.answer(status);
        }
        let c = &mut *self.c;
        let Some(pool) = pool else { return self.answer(503) };
        // A process before may have sent it this request already.
        let heard = c.upstream.as_ref().map(|u| u.acked).filter(|acked| before(start, *acked));
        let reused = c
            .upstream
            .as_ref()
            .is_some_and(|u| !u.responses.bytes.is_ended() && self.cluster.serves(u.server, pool, &c.agreed));
        if !reused && heard.is_none() {
            if !self.leave(start) {
                self.release_at(FIN, start);
            }
            return self.join(pool, kept);
        }
        let server = self.c.upstream.as_ref().map_or(0, |u| u.server);
        self.exchange_with(server, false);
        // The server's latest clock is what the client has echoed.
        let c = &mut *self.c;
        let Some(u) = &mut c.upstream else { return };
        let echoed = c.times.1.wrapping_sub(u.tsval_add);
        u.tsval = if before(u.tsval, echoed) { echoed } else { u.tsval };
        u.begin(kept, start);
        (u.acked, u.used) = (heard.unwrap_or(start), true);
        if let Some(block) = self.path.block(&u.ends) {
            u.edge = block.edge.wrapping_sub(u.shift);
        }
        self.serve();
    }

    /// What has come of the message meanwhile is kept, too, until the server has it.
    fn gather(&mut self) -> Result<(), Refused> {
        let c = &mut *self.c;
        let (Some(u), Some(body)) = (&mut c.upstream, &mut c.requests.body) else { return Ok(()) };
        let used = body.feed(c.requests.bytes.ready())?;
        u.kept.extend(c.requests.bytes.take(used));
        u.fin = c.requests.bytes.is_ended() && c.requests.bytes.ready().is_empty();
        (c.client_done, c.closes) = (u.fin, c.closes && !u.fin);
        u.rest = (u.used && !c.requests.is_done()).then(|| Box::new(c.requests.clone()));
        c.requests.follow()
    }

    /// The request goes to the server that is there.
    pub fn serve(&mut self) {
        if let Err(Refused(status)) = self.gather() {
            return self.answer(status);
        }
        let timeouts = self.cluster.settings.timeouts;
        self.c.state = State::Serving;
        self.c.deadline = self.now + timeouts.response;
        let private = self.c.request.as_ref().is_some_and(|request| request.private);
        if let Some(u) = &mut self.c.upstream {
            u.private |= private;
            (u.since, u.resend, u.backoff) = (self.now, self.now + RESEND, RESEND);
        }
        self.update_blocks();
        self.send_kept();
    }

    /// The pool that the present request belongs to by now: it may have been another one when it came.
    pub(super) fn routed(&self) -> Option<usize> {
        self.c.request.as_ref().and_then(|request| self.cluster.route(self.c.service, request))
    }

    /// Chooses a server, and connects to it.
    pub fn connect(&mut self, pool: usize, kept: Vec<u8>) {
        let c = &*self.c;
        match self.cluster.choose(pool, c.client.src, &c.agreed, &c.tried) {
            Some(server) => self.connect_to(server, pool, kept),
            None => self.answer(503),
        }
    }

    /// Sends a server a SYN. With full NAT it has the client's sequence number. Where the server sees the client's address and port, it may
    /// remember a connection of the same client that has ended at this very number: each begins further on than those before
    /// (RFC 9293 section 3.4.1), so that the server can tell them apart.
    pub fn connect_to(&mut self, server: usize, pool: usize, kept: Vec<u8>) {
        let c = &mut *self.c;
        let settings = self.cluster.settings.clone();
        let (by_server, path) = (&*self.by_server, &mut *self.path);
        let seen = self.cluster.seen(server, &c.client);
        let ends = self.cluster.ends(server, seen, |ends| !by_server.contains_key(ends) && forget_closed(path, ends));
        let known = &mut self.cluster.servers[server];
        let own = known.interface.clone();
        let Some(mac) = known.mac else { return self.answer(503) };
        let Some(ends) = ends else {
            // Others have ports of their own.
            tracing::debug!(server = known.server.name, "no own port is free");
            c.tried.push(server);
            return self.connect(pool, kept);
        };
        let mss = c.agreed.mss.min(known.learned.and_then(|own| own.mss).unwrap_or(536)).max(100);
        known.active += 1;
        self.by_server.insert(ends, Owner::Connection(self.id));
        let mut u = Upstream::new(server, ends, (own.port, mac, own.mac), mss);
        u.begin(kept, c.start);
        (u.acked, u.edge, u.backoff, u.is_nat) = (c.start.wrapping_sub(1), c.start, RESEND, seen.is_none());
        c.connects += 1;
        // Where it sees the client's address and port it may see them again within a tick.
        let first = initial(self.path.secret(), &ends, self.now).wrapping_add(c.connects);
        u.shift = if u.is_nat { 0 } else { first.wrapping_add(1).wrapping_sub(c.start) };
        (u.told_mss, u.sack, u.times) = (c.agreed.mss, c.agreed.sack, c.agreed.times);
        c.upstream = Some(u);
        c.state = State::Connecting;
        c.deadline = self.now + settings.timeouts.connect;
        let held = Block::held(c.client.turned(), self.seconds());
        if !self.path.set_block(&ends, &held) {
            return self.answer(503);
        }
        self.exchange_with(server, true);
        self.hold_client();
        self.send_syn();
    }

    /// Sends the SYN, once more.
    pub fn send_syn(&mut self) {
        let (c, now) = (&mut *self.c, self.now);
        let Some(u) = &mut c.upstream else { return };
        u.resend = (now + spread(u.backoff, self.id)).min(c.deadline);
        u.backoff *= 2;
        let segment = Segment {
            dst_mac: u.mac,
            src_mac: u.own_mac,
            ends: u.ends.turned(),
            seq: c.start.wrapping_sub(1).wrapping_add(u.shift),
            ack: 0,
            flags: SYN,
            window: (u32::from(c.window) << c.agreed.scale.unwrap_or(0)).clamp(1, 65535) as u16,
            options: TcpOptions {
                mss: Some(c.agreed.mss),
                scale: c.agreed.scale,
                sack: c.agreed.sack,
                times: c.agreed.times.then_some((c.times.0, 0)),
                ..TcpOptions::default()
            },
            payload: &[],
        };
        self.path.send(u.port, &segment.frame());
    }

    /// A segment of the client that the fast path did not let pass.
    fn on_joined_client(&mut self, segment: &Segment, frame: &[u8]) {
        if segment.has(RST) {
            self.path.relay(frame);
            if self.path.block(&self.c.client).is_some_and(|block| block.ended & 2 != 0) {
                self.break_exchange(Ending::Client);
                self.release(0);
                self.over();
            }
            return;
        }
        if self.c.is_finishing() {
            return self.on_finishing_client(segment);
        }
        let stream = &mut self.c.requests;
        // Behind a gap nobody knows what it is.
        let gap = before(stream.bytes.next(), segment.seq);
        if !stream.is_done() && gap && segment.space() > 0 {
            self.hear_server();
            if self.pass_if_overtaken() {
                self.update_blocks();
                self.path.relay(frame);
            }
            return;
        }
        if segment.space() > 0 {
            stream.bytes.insert(segment.seq, segment.payload, segment.has(FIN));
        }
        if let Err(Refused(status)) = stream.follow() {
            let begun = self.c.upstream.as_ref().is_some_and(|u| u.begun);
            return if begun { self.reset_client() } else { self.answer(status) };
        }
        let stream = &self.c.requests;
        let (end, known) = (segment.seq.wrapping_add(segment.payload.len() as u32), stream.known_end());
        let fin = segment.has(FIN) && stream.bytes.is_ended() && stream.bytes.ready().is_empty();
        if self.c.upstream.as_ref().is_some_and(Upstream::is_silent) {
            return self.keep_more(segment, if before(known, end) { known } else { end }, fin);
        }
        if fin && self.is_between() {
            self.complete_exchange();
            let ended = self.c.upstream.as_ref().filter(|u| u.responses.bytes.is_ended()).map(Upstream::response_end);
            if self.leave(known) || ended.is_some() {
                // The server need not know, or has closed itself, and is told that this side has, too.
                self.release_at(FIN, known);
                self.c.next = ended.unwrap_or(self.c.next);
                self.c.client_done = true;
                return self.answer(0);
            }
        }
        if !before(known, end) && (fin || !segment.has(FIN)) {
            self.c.client_done |= fin;
            self.c.closes &= !fin;
            self.update_blocks();
            self.path.relay(frame);
        } else {
            let exchange = self.c.start;
            if !before(segment.seq, known) {
                // All of it is the next request's. If that goes on at once it says what this acknowledges.
                self.next_request();
                if self.gone
                    || self.c.state != State::Serving
                    || self.c.start != exchange
                    || self.c.requests.limit() != known
                {
                    return;
                }
            }
            // What it acknowledges the server must know.
            let length = known.wrapping_sub(segment.seq) as usize;
            let (seq, payload) = match segment.payload.get(..length) {
                Some(payload) => (segment.seq, payload),
                None => (known, &[][..]),
            };
            let cut = Segment { seq, payload, flags: segment.flags & !FIN, ..segment.clone() };
            self.path.relay(&cut.frame());
        }
        self.next_request();
        self.update_blocks();
    }

    /// Keeps what comes of a request, up to `end`, with what is kept of it already, and sends it: the server has said nothing yet, and what is
    /// sent again goes from here.
    fn keep_more(&mut self, segment: &Segment, end: u32, fin: bool) {
        let most = self.cluster.settings.request_head + 2 * MARGIN;
        let Some(u) = self.c.upstream.as_mut().filter(|_| segment.space() > 0) else { return };
        let again = before(segment.seq, u.kept_end());
        let new = u.kept_end().wrapping_sub(segment.seq) as usize;
        let length = if before(segment.seq, end) { end.wrapping_sub(segment.seq) as usize } else { 0 };
        if !u.fin && new < length && u.kept.len() + length - new <= most {
            let more = &segment.payload[new..length];
            u.kept.extend_from_slice(more);
            if let Some(rest) = &mut u.rest {
                // It has been followed already, so that it can be.
                let _ = rest.body.as_mut().map(|body| body.feed(more));
                rest.bytes = Assembly::new(segment.seq.wrapping_add(length as u32), rest.bytes.room());
            }
        }
        let ends = fin && !u.fin && u.kept_end() == end;
        if ends {
            u.fin = true;
            (self.c.client_done, self.c.closes) = (true, false);
        }
        let Some(u) = self.c.upstream.as_mut().filter(|u| !u.alone) else { return };
        if u.kept_end() != u.sent {
            if !u.used && u.kept.len() + 12 <= usize::from(u.mss) {
                // Who answers SYNs with cookies knows the connection by the first segment alone, and resets it at any other one.
                u.sent = u.kept_at;
            }
            self.send_kept();
        } else if again {
            // It is missed.
            u.resend = self.now + spread(u.backoff, self.id);
            self.resend_kept();
        }
        self.update_blocks();
    }

    /// An error about what the client was to get. The own answers are short, and come again.
    pub fn on_client_error(&mut self, frame: &[u8]) {
        if self.c.state == State::Serving {
            self.path.relay_error(frame);
        }
    }

    /// Goes on to the next request, where there is one and the client has the whole response to the present one.
    pub fn next_request(&mut self) {
        let c = &mut *self.c;
        let Some(u) = &c.upstream else { return };
        let waiting = c.requests.is_done() && !c.requests.bytes.ready().is_empty();
        if c.state != State::Serving || !waiting || !c.keeps_alive || !u.responses.is_done() || !u.has_all() {
            return;
        }
        let end = u.response_end();
        self.hear_client();
        if before(self.c.acked, end) {
            return;
        }
        if self.c.upstream.as_ref().is_some_and(|u| u.responses.bytes.is_ended()) {
            return self.let_server_go(FIN);
        }
        self.complete_exchange();
        if self.pass_blank() && self.c.requests.is_blank() && !self.c.requests.bytes.is_ended() {
            // That is all: nothing else has changed.
            self.update_blocks();
            self.tell_client(0, end, &[]);
            return self.tell_server(0, self.c.requests.limit(), &[]);
        }
        self.await_request(end);
        self.advance();
    }

    /// Passes over an empty line in front of a request, which is for no server (RFC 9112 section 2.2). Whether there is one.
    fn pass_blank(&mut self) -> bool {
        let skipped = self.c.requests.pass_blank();
        self.c.upstream.iter_mut().for_each(|u| u.skip(skipped));
        skipped > 0
    }

    /// The exchange is over: the client's next byte begins a request.
    pub fn await_request(&mut self, next: u32) {
        let c = &mut *self.c;
        (c.state, c.next, c.request) = (State::Asking, next, None);
        c.requests.body = None;
        c.deadline = self.now + self.cluster.settings.timeouts.keep_alive;
    }
}

/// Whether no connection has these ends of a server's segments any more. One that both sides have closed is forgotten early where its
/// ends are wanted: they are asked for by turns, so it is the one that was closed first.
fn forget_closed(path: &mut impl DataPath, ends: &Ends) -> bool {
    let Some(server) = path.block(ends) else { return true };
    let other = server.to.turned();
    let is_over =
        server.ended & 2 != 0 || (server.ended != 0 && path.block(&other).is_none_or(|client| client.ended != 0));
    if is_over {
        path.remove_block(&other);
    }
    is_over
}

//! One connection at work: what its two sides have in common. `client` is the side of the client, `server` that of the server.

use super::block::{Block, Ends, Mode, before, second};
use super::books::Books;
use super::cluster::Cluster;
use super::connection::{Answer, Connection, State, Stream, Upstream};
use super::exchange::Ending;
use super::maps::KeyedMap;
use super::path::{DataPath, SCALE};
use super::segment::{ACK, FIN, PSH, RST, Segment, TcpOptions};
use super::server::AHEAD;
use super::warm::Warm;

/// Who has a connection to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A client's connection, by its number.
    Connection(u64),
    /// A health check of a server.
    Check(usize),
    /// Nobody at present: it goes to a server.
    Warm(usize),
}

/// From one try of Millrace's own segments to the next, in nanoseconds, at first.
pub const RESEND: u64 = 300_000_000;
/// How often it is looked whether a connection is still there.
pub const LOOK: u64 = 5_000_000_000;

/// How long an answered connection waits for the client's FIN, and a reset one for the client's segments.
pub const LINGER: u64 = 3_000_000_000;

/// A connection, and all that it may touch.
pub struct Turn<'t, P> {
    /// The data path.
    pub path: &'t mut P,
    /// The servers.
    pub cluster: &'t mut Cluster,
    /// What is counted.
    pub books: &'t mut Books,
    /// Connections to servers.
    pub by_server: &'t mut KeyedMap<Ends, Owner>,
    /// Those that nobody uses.
    pub warm: &'t mut Warm,
    /// Its number.
    pub id: u64,
    /// The connection.
    pub c: &'t mut Connection,
    /// The time.
    pub now: u64,
    /// Whether the client's block was written.
    pub noted: bool,
    /// Whether it is over.
    pub gone: bool,
}

/// A window as the receiver reads it; see `tcp_window` of the program.
fn window(window: u16, scale: u8, told: u8) -> u16 {
    ((u32::from(window) << scale) >> told).min(65535) as u16
}

impl<P: DataPath> Turn<'_, P> {
    /// The time of packets in seconds, as blocks have it.
    pub fn seconds(&self) -> u32 {
        second(self.now)
    }

    /// Sends a segment of Millrace's own to the client.
    pub fn tell_client(&mut self, flags: u8, seq: u32, payload: &[u8]) {
        self.note_acknowledged();
        let c = &self.c;
        let told = if c.agreed.scale.is_some() { SCALE } else { 0 };
        let segment = Segment {
            dst_mac: c.mac,
            src_mac: c.own_mac,
            ends: c.client.turned(),
            seq,
            ack: c.requests.bytes.next(),
            flags: flags | ACK,
            window: (c.requests.bytes.room() >> told).min(65535) as u16,
            options: TcpOptions {
                times: (c.agreed.times && c.heard).then_some((c.times.1, c.times.0)),
                ..TcpOptions::default()
            },
            payload,
        };
        self.path.send(c.port, &segment.frame());
    }

    /// What is acknowledged from now on does not come again, and the block says so first.
    fn note_acknowledged(&mut self) {
        let next = self.c.requests.bytes.next();
        if !before(self.c.acknowledged, next) {
            return;
        }
        self.c.acknowledged = next;
        match self.c.state {
            State::Asking if self.c.upstream.is_some() => self.update_blocks(),
            State::Asking | State::Connecting => self.hold_client(),
            State::Serving | State::Answering => {}
        }
    }

    /// Sends a segment of the client's stream to the server.
    pub fn tell_server(&mut self, flags: u8, seq: u32, payload: &[u8]) {
        if self.c.upstream.as_ref().is_some_and(|u| u.begun) {
            self.hear_client();
        }
        let c = &self.c;
        let Some(u) = &c.upstream else { return };
        let scale = c.agreed.scale.unwrap_or(0);
        // Of a response on its way the server hears what the client has: the rest is nowhere kept, and would not come again.
        let (next, had) = (u.responses.bytes.next(), c.acked.wrapping_sub(u.seq_add));
        let ack = if u.begun && before(had, u.responses.limit()) { had } else { next };
        // With a FIN this is the last word, and the client's own may have passed with a later clock than is known here.
        let late = (self.now.saturating_sub(c.clock_at) / 1_000_000) as u32 + AHEAD;
        let clock = c.times.0.wrapping_add(u.clock).wrapping_add(if flags & FIN != 0 && !u.fin { late } else { 0 });
        let segment = Segment {
            dst_mac: u.mac,
            src_mac: u.own_mac,
            ends: u.ends.turned(),
            seq: seq.wrapping_add(u.shift),
            ack,
            flags: flags | ACK,
            window: window(c.window, scale, u.told),
            options: TcpOptions {
                times: (c.agreed.times && c.heard).then_some((clock, u.tsval)),
                ..TcpOptions::default()
            },
            payload,
        };
        self.path.send(u.port, &segment.frame());
    }

    /// Answers the client without a server, and closes. With `status` 0 it only closes.
    pub fn answer(&mut self, status: u16) {
        let reason = match status {
            400 => "Bad Request",
            408 => "Request Timeout",
            413 => "Content Too Large",
            431 => "Request Header Fields Too Large",
            503 => "Service Unavailable",
            _ => "Gateway Timeout",
        };
        let body = format!("{status} {reason}\n");
        let head = format!(
            "HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        let is_head = self.c.request.as_ref().is_some_and(|request| request.method == "HEAD");
        let sent_body = if is_head { 0 } else { body.len() };
        let bytes = match (status, is_head) {
            (0, _) => Vec::new(),
            (_, true) => head.into_bytes(),
            (_, false) => (head + &body).into_bytes(),
        };
        match status {
            0 => self.break_exchange(Ending::Complete),
            _ => self.answer_exchange(status, bytes.len(), sent_body),
        }
        self.release(RST);
        self.c.state = State::Answering;
        self.c.answer = Some(Answer { bytes, tries: 0, arrived: false, resets: false });
        self.hold_client();
        self.send_answer();
    }

    /// Goes back to how much of the client's stream has come for certain, now that no server says so. Of a body that passes the stream is at the end
    /// from the beginning; but who is told that more has come than was sent throws away what says so (RFC 9293 section 3.10.7.4).
    fn come_back(&mut self) {
        self.hear_server();
        let c = &mut *self.c;
        let Some(u) = c.upstream.as_ref().filter(|_| c.state == State::Serving) else { return };
        let next = c.requests.bytes.next();
        if before(u.acked, next) && before(u.kept_end(), next) {
            let came = if before(c.acknowledged, u.acked) { u.acked } else { c.acknowledged };
            c.requests = Stream::new(came, 65536);
        }
    }

    /// Sends the own answer, once more.
    pub fn send_answer(&mut self) {
        let Some(answer) = &mut self.c.answer else { return };
        answer.tries += 1;
        let bytes = answer.bytes.clone();
        self.c.deadline = self.now + (RESEND << answer.tries.min(5));
        self.tell_client(FIN | PSH, self.c.next, &bytes);
    }

    /// Ends the client's connection with a reset. What the client expects it knows itself (RFC 5961 section 3.2): it takes one of these,
    /// or asks back because one lies in its window, and for a while each of its segments is answered so.
    pub fn reset_client(&mut self) {
        let end = self.c.upstream.as_ref().map_or(self.c.next, Upstream::response_end);
        self.tell_client(RST, self.c.acked, &[]);
        self.tell_client(RST, end, &[]);
        self.release(RST);
        (self.c.state, self.c.answer) = (State::Answering, None);
        self.c.deadline = self.now + LINGER;
        self.hold_client();
    }

    /// Forgets the connection.
    pub fn over(&mut self) {
        self.break_exchange(Ending::Client);
        self.release(RST);
        self.path.remove_block(&self.c.client);
        self.gone = true;
    }

    /// Gives up the connection to the server: tells it so by a FIN or a reset, unless `flags` is 0.
    pub fn release(&mut self, flags: u8) {
        let seq = match (&self.c.upstream, self.c.requests.is_done()) {
            // All that it is to get is what it has got.
            (Some(u), false) => u.kept_end(),
            _ => self.c.requests.limit(),
        };
        self.release_at(flags, seq);
    }

    /// The same where it is known which number of the client's stream the server expects.
    pub fn release_at(&mut self, flags: u8, seq: u32) {
        if flags != 0 && self.c.upstream.is_some() {
            // Nobody answers in the client's name any more, so that the server must not wait for it; and its port may be needed.
            let is_nat = self.c.upstream.as_ref().is_some_and(|u| u.is_nat);
            let flags = if is_nat { flags } else { RST };
            self.tell_server(flags, seq, &[]);
        }
        if let Some(u) = self.detach() {
            self.path.remove_block(&u.ends);
            self.by_server.remove(&u.ends);
        }
    }

    /// Takes the connection to the server from the client's.
    pub fn detach(&mut self) -> Option<Upstream> {
        self.come_back();
        let u = self.c.upstream.take()?;
        // Clocks never go back (RFC 7323 section 5.3). The server's latest may have passed unseen, and be under way to the client.
        let passed = u.recent.by(self.now).filter(|clock| before(u.tsval, *clock));
        let clock = passed.unwrap_or(u.tsval).wrapping_add(u.tsval_add);
        if self.c.heard && u.tsval_add != 0 && before(self.c.times.1, clock) {
            self.c.times.1 = clock;
        }
        self.cluster.left(u.server);
        Some(u)
    }

    /// Both sides are done: what comes late the data path sees to, until it forgets the blocks.
    pub fn leave_blocks(&mut self) {
        let Some(u) = self.c.upstream.take() else { return self.over() };
        for ends in [self.c.client, u.ends] {
            if let Some(block) = self.path.block(&ends).filter(|block| block.mode != Mode::Open) {
                self.path.update_block(&ends, &Block { mode: Mode::Open, ..block });
            }
        }
        self.by_server.remove(&u.ends);
        self.cluster.left(u.server);
        self.gone = true;
    }

    /// All of the client's segments come here from now on.
    pub fn hold_client(&mut self) {
        if let Some(u) = &mut self.c.upstream {
            u.written = None;
        }
        let c = &self.c;
        let scale = c.agreed.scale.unwrap_or(0);
        let mut held = Block {
            port: c.port,
            scale,
            dst_mac: c.mac,
            // What is held is not rewritten, so here they are the client's own.
            tsval: c.times.0,
            tsecr: c.times.1,
            acked: c.next,
            edge: c.next.wrapping_add(u32::from(c.window) << scale),
            ..Block::held(c.client.turned(), self.seconds())
        };
        c.note_client(&mut held);
        self.noted = true;
        if !self.path.set_block(&self.c.client, &held) {
            self.gone = true;
        }
    }

    /// The modes of both blocks, from what is known.
    fn modes(&self) -> Option<[Mode; 2]> {
        let (c, u) = (&*self.c, self.c.upstream.as_ref()?);
        let tunnel = u.response.is_some_and(|response| response.status == 101);
        // A FIN that is not for the client must not pass when it comes again.
        let open = tunnel || (u.responses.bytes.is_ended() && !self.keeps_fin());
        let waiting = c.requests.is_done() && !c.requests.bytes.ready().is_empty();
        let last = c.client_done || !(c.keeps_alive || c.closes);
        // An unheard request must come to the next process, if there is one.
        // What is kept comes from here, and nothing of the client's may overtake it: see `Upstream::is_silent`.
        let kept = u.is_unheard() || !u.has_all();
        let client = if c.is_finishing() && c.requests.is_done() && u.has_all() {
            Mode::Finishing
        } else if c.state != State::Serving || waiting || kept || c.is_finishing() {
            Mode::Held
        } else if c.client_done || open {
            Mode::Open
        } else if last && c.requests.is_done() && u.begun {
            Mode::Closing
        } else {
            Mode::Limited
        };
        // Before its response, acknowledgements alone pass.
        let answered = u.response.is_some();
        // Nor do those of a request that a process before has sent: else the client would not say once more what it was.
        let unknown = c.state == State::Asking && !answered;
        let server = if unknown || !u.has_all() {
            Mode::Held
        } else if answered && (u.responses.is_endless() || open || (last && u.responses.is_done())) {
            Mode::Open
        } else {
            Mode::Limited
        };
        Some([client, server])
    }

    /// Brings the control blocks up to date.
    pub fn update_blocks(&mut self) {
        let Some([client_mode, server_mode]) = self.modes() else { return };
        let (c, Some(u)) = (&*self.c, &self.c.upstream) else { return };
        let scale = c.agreed.scale.unwrap_or(0);
        let mut client = Block {
            mode: client_mode,
            port: u.port,
            scale,
            told: u.told,
            dst_mac: u.mac,
            seq: u.shift,
            ack: u.seq_add.wrapping_neg(),
            tsval: u.clock,
            tsecr: u.tsval_add.wrapping_neg(),
            acked: c.acked,
            edge: c.acked.wrapping_add(u32::from(c.window) << scale),
            ..Block::held(u.ends.turned(), self.seconds())
        };
        let mut server = Block {
            mode: server_mode,
            port: c.port,
            scale: u.scale,
            told: if c.agreed.scale.is_some() { SCALE } else { 0 },
            dst_mac: c.mac,
            seq: u.seq_add,
            ack: u.shift.wrapping_neg(),
            tsval: u.tsval_add,
            tsecr: u.clock.wrapping_neg(),
            acked: u.acked.wrapping_add(u.shift),
            edge: u.edge.wrapping_add(u.shift),
            ..Block::held(c.client.turned(), self.seconds())
        };
        c.note_client(&mut client);
        if client_mode == Mode::Finishing {
            client.limit = u.response_end();
        }
        u.note_server(&mut server, c.closes);
        // Mostly nothing has changed but what the data path notes itself.
        let written = Some([&client, &server].map(|block| (block.mode, block.limit, block.framing, block.facts)));
        if u.written == written {
            return;
        }
        for (ends, mut block) in [(c.client, client), (u.ends, server)] {
            if let Some(before) = self.path.block(&ends).filter(|before| before.to == block.to) {
                // What the data path has noted stays; what a block holds it notes nothing of.
                (block.ended, block.seen) = (before.ended, before.seen);
                // What was held it has noted nothing of.
                if before.mode != Mode::Held {
                    (block.acked, block.edge) = (before.acked, before.edge);
                }
                if block == before {
                    continue;
                }
            }
            if !self.path.update_block(&ends, &block) {
                self.gone = true;
            }
        }
        self.noted = true;
        if let Some(u) = &mut self.c.upstream {
            u.written = written;
        }
    }
}

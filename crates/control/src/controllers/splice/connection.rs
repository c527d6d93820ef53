//! A client's connection and the one that serves it.

use super::assembly::Assembly;
use super::block::{Ends, Mode, before};
use super::body::{Body, Next};
use super::cluster::Agreed;
use super::exchange::Exchange;
use super::http::{self, Refused, Request, Response};
use super::looked::Looked;

/// One direction of messages, followed from head to head. Bytes of bodies that need not be looked at are passed over: the
/// fast path sees to them.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Its bytes as far as they came to the controller.
    pub bytes: Assembly,
    /// The body on its way; none while a head is expected.
    pub body: Option<Body>,
    /// What is known of a head that is not whole, which begins at a sequence number.
    looked: (u32, Looked),
    /// Whether an empty line in front of the next head was passed over.
    blank: bool,
}

impl Stream {
    /// From a sequence number on, with room for a head.
    pub fn new(base: u32, room: usize) -> Stream {
        Stream { bytes: Assembly::new(base, room), body: None, looked: (base, Looked::default()), blank: false }
    }

    /// Passes over one empty line in front of a request (RFC 9112 section 2.2): how many bytes.
    pub fn pass_blank(&mut self) -> u32 {
        if self.blank || !self.bytes.ready().starts_with(b"\r\n") {
            return 0;
        }
        self.bytes.discard(2);
        self.blank = true;
        2
    }

    /// Whether nothing has come of a request but what may be the beginning of such a line.
    pub fn is_blank(&self) -> bool {
        self.bytes.ready().is_empty() || (!self.blank && self.bytes.ready() == b"\r")
    }

    /// Reads the head of a request, as far as it has come.
    pub fn request(&mut self) -> Result<Option<Request>, Refused> {
        self.look_from_base();
        http::request(self.bytes.ready(), &mut self.looked.1)
    }

    /// Takes the bytes of a request's head.
    pub fn take_head(&mut self, count: usize) -> Vec<u8> {
        self.blank = false;
        self.bytes.take(count)
    }

    /// Reads the head of a response to a request of a method.
    pub fn response(&mut self, method: &str) -> Result<Option<Response>, Refused> {
        self.look_from_base();
        http::response(self.bytes.ready(), method, &mut self.looked.1)
    }

    /// What was known of another head is nothing that is known of this one.
    fn look_from_base(&mut self) {
        if self.looked.0 != self.bytes.base() {
            self.looked = (self.bytes.base(), Looked::default());
        }
    }

    /// Follows the body as far as it can: what may pass now.
    pub fn follow(&mut self) -> Result<(), Refused> {
        let Some(body) = &mut self.body else { return Ok(()) };
        loop {
            let used = body.feed(self.bytes.ready())?;
            self.bytes.discard(used);
            match body.next() {
                Next::Pass(count) if self.bytes.ready().is_empty() => {
                    body.passed(count);
                    self.bytes.skip(count);
                    if matches!(body.next(), Next::Pass(_)) {
                        return Ok(());
                    }
                }
                _ => return Ok(()),
            }
            if self.bytes.ready().is_empty() {
                return Ok(());
            }
        }
    }

    /// Whether the message has ended, at [`Stream::limit`].
    pub fn is_done(&self) -> bool {
        self.body.as_ref().is_some_and(|body| body.next() == Next::End)
    }

    /// Whether it goes on until the connection ends.
    pub fn is_endless(&self) -> bool {
        self.body.as_ref().is_some_and(|body| body.next() == Next::Rest)
    }

    /// The sequence number up to which bytes need not be looked at.
    pub fn limit(&self) -> u32 {
        self.bytes.base()
    }

    /// How much of a segment belongs to the message, as far as that is known: the sequence number behind it.
    pub fn known_end(&self) -> u32 {
        if self.is_done() { self.limit() } else { self.bytes.base().wrapping_add(self.bytes.ready().len() as u32) }
    }
}

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Waits for a request, or the rest of its head.
    Asking,
    /// Waits for a server's SYN and ACK.
    Connecting,
    /// Both connections are joined.
    Serving,
    /// Millrace answers by itself, and closes.
    Answering,
}

/// The connection to a server. Sequence numbers of the client's stream are the client's here; they differ from the server's
/// where others have used the connection before, and where the server sees the client's address.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// The server's number.
    pub server: usize,
    /// Ends of the server's segments.
    pub ends: Ends,
    /// The port that leads to it.
    pub port: u8,
    /// The Ethernet address of the next hop.
    pub mac: [u8; 6],
    /// The own one.
    pub own_mac: [u8; 6],
    /// Bytes of the request that the server has not acknowledged, or may have to be sent to another one.
    pub kept: Vec<u8>,
    /// The sequence number of the first.
    pub kept_at: u32,
    /// Whether a FIN follows them.
    pub fin: bool,
    /// The client's stream from behind them on, as it was then, of a request that was not whole; for those that are `used` alone.
    pub rest: Option<Box<Stream>>,
    /// Bytes of a segment of them at most, with options.
    pub mss: u16,
    /// What the server was told: the greatest segment, selective acknowledgements, timestamps.
    pub told_mss: u16,
    /// See `told_mss`.
    pub sack: bool,
    /// See `told_mss`.
    pub times: bool,
    /// Whether it sees an own address.
    pub is_nat: bool,
    /// Whether it was there before the request: it may close just when that is sent.
    pub used: bool,
    /// Whether the server was told of more room than the client has that uses it now: see [`Upstream::first_length`].
    pub shrinks: bool,
    /// Whether nothing but the first segment of the request is sent until the server has that: see [`Upstream::may_know_first_alone`].
    pub alone: bool,
    /// Whether somebody has said on it who it is: it is nobody else's then.
    pub private: bool,
    /// What the server has acknowledged.
    pub acked: u32,
    /// How far its window reaches.
    pub edge: u32,
    /// What has been sent.
    pub sent: u32,
    /// When it was given the request.
    pub since: u64,
    /// When the kept bytes are sent again, and how long it is from then to the next time.
    pub resend: u64,
    /// See `resend`.
    pub backoff: u64,
    /// What it sends.
    pub responses: Stream,
    /// The head of the present response.
    pub response: Option<Response>,
    /// Whether a byte of it has been passed on.
    pub begun: bool,
    /// How far it was passed on by the controller, in the server's numbers.
    pub passed: u32,
    /// The window scale it uses.
    pub scale: u8,
    /// The scale that it was told; 0 where none counts.
    pub told: u8,
    /// Added to the client's sequence numbers.
    pub shift: u32,
    /// Added to the client's clock.
    pub clock: u32,
    /// Added to its sequence numbers.
    pub seq_add: u32,
    /// Added to its clock.
    pub tsval_add: u32,
    /// Its latest clock.
    pub tsval: u32,
    /// Its clock in the last segment that the client has the beginning of, and when that came.
    pub recent: Recent,
    /// Modes, limits and notes (`framing`, `facts`) of both blocks, the client's first, as they were written last.
    pub written: Option<[(Mode, u32, u64, u16); 2]>,
}

impl Upstream {
    /// One that is to be made: to a server, with the ends of its segments, the port with the Ethernet addresses of the next hop
    /// and of its own, and the greatest segment that the server takes.
    pub fn new(server: usize, ends: Ends, (port, mac, own_mac): (u8, [u8; 6], [u8; 6]), mss: u16) -> Upstream {
        Upstream {
            server,
            ends,
            port,
            mac,
            own_mac,
            kept: Vec::new(),
            kept_at: 0,
            fin: false,
            rest: None,
            mss,
            told_mss: 0,
            sack: false,
            times: false,
            is_nat: true,
            used: false,
            shrinks: false,
            alone: false,
            private: false,
            acked: 0,
            edge: 0,
            sent: 0,
            since: 0,
            resend: 0,
            backoff: 0,
            responses: Stream::new(0, 65536),
            response: None,
            begun: false,
            passed: 0,
            scale: 0,
            told: 0,
            shift: 0,
            clock: 0,
            seq_add: 0,
            tsval_add: 0,
            tsval: 0,
            recent: Recent::default(),
            written: None,
        }
    }

    /// It is given a request, whose first bytes are kept, and begins at a number.
    pub fn begin(&mut self, kept: Vec<u8>, start: u32) {
        (self.kept, self.kept_at, self.fin, self.written) = (kept, start, false, None);
        (self.rest, self.alone) = (None, false);
        (self.acked, self.sent, self.begun, self.response) = (start, start, false, None);
        self.responses.body = None;
        self.passed = self.responses.limit();
    }

    /// Bytes of the client's stream are for nobody: its sequence numbers mean others of the server's from here on. Nothing is under way.
    pub fn skip(&mut self, count: u32) {
        self.shift = self.shift.wrapping_sub(count);
        for own in [&mut self.kept_at, &mut self.acked, &mut self.edge, &mut self.sent] {
            *own = own.wrapping_add(count);
        }
    }

    /// The sequence number behind the kept bytes.
    pub fn kept_end(&self) -> u32 {
        self.kept_at.wrapping_add(self.kept.len() as u32).wrapping_add(self.fin.into())
    }

    /// Whether the server has acknowledged all of them.
    pub fn has_all(&self) -> bool {
        !before(self.acked, self.kept_end())
    }

    /// Whether it is a connection of before and nothing of the request is acknowledged: the server may have closed it, and then the
    /// request goes to another one.
    pub fn is_unheard(&self) -> bool {
        self.used && !self.begun && !before(self.kept_at, self.acked)
    }

    /// Whether the server has acknowledged nothing of the request, which is kept: it may not even know that it has a connection. What the
    /// client says meanwhile is not passed on, for its echo of the clock need not be one of this server's, and servers that wait for the
    /// end of the handshake refuse such segments (Linux from 6.15 on), or read the options out of it that they have agreed on (SYN cookies).
    pub fn is_silent(&self) -> bool {
        !self.begun && !self.kept.is_empty() && !before(self.kept_at, self.acked)
    }

    /// Bytes of the first segment of a request at most, of `most`. Who uses the connection now may have less room than was told before. A
    /// smaller window counts where the number of what tells it is greater (RFC 9293 section 3.10.7.4; Linux takes none with the same one).
    pub fn first_length(&self, most: usize) -> usize {
        if self.shrinks && self.sent == self.kept_at { 1 } else { most }
    }

    /// Whether a reset may be about the segments behind the first one. A server that answers SYNs with cookies knows the connection by the first
    /// segment, and resets it at the others where it had no room for that (RFC 4987 section 3.6).
    pub fn may_know_first_alone(&self) -> bool {
        let first = self.kept.len().min(usize::from(self.mss) - 12) as u32;
        let sent = self.sent.wrapping_sub(self.kept_at);
        !self.used && self.is_silent() && if self.alone { sent == 0 } else { sent > first }
    }

    /// The sequence number of the client's stream behind what has come of the response.
    pub fn response_end(&self) -> u32 {
        self.responses.limit().wrapping_add(self.seq_add)
    }
}

/// The clock of one side in what has come in order (`TS.Recent` of RFC 7323 section 5.3), and when that was, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recent(Option<(u32, u64)>);

impl Recent {
    /// How long it counts: as long as segments live, in nanoseconds (RFC 9293 section 3.4.1). Clocks may go half round after that.
    const LIFE: u64 = 120_000_000_000;

    /// Whether a clock is one of before: an old duplicate has it.
    pub fn is_behind(self, value: u32, now: u64) -> bool {
        self.0.is_some_and(|(recent, when)| now < when + Self::LIFE && before(value, recent))
    }

    /// How far it has gone by now: a millisecond is the shortest tick (RFC 7323 section 5.4).
    pub fn by(self, now: u64) -> Option<u32> {
        self.0.map(|(recent, when)| recent.wrapping_add((now.saturating_sub(when) / 1_000_000) as u32))
    }

    /// Notes a clock that is not behind.
    pub fn note(&mut self, value: u32, now: u64) {
        if !self.is_behind(value, now) {
            self.0 = Some((value, now));
        }
    }
}

/// An answer of Millrace's own.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its bytes; a FIN follows.
    pub bytes: Vec<u8>,
    /// Times that it was sent.
    pub tries: u32,
    /// Whether the client has it.
    pub arrived: bool,
    /// The answer is a reset: a segment of the client is to say with which number.
    pub resets: bool,
}

/// A client's connection.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Ends of the client's segments.
    pub client: Ends,
    /// The service, and the port that leads to the client.
    pub service: usize,
    /// See `service`.
    pub port: u8,
    /// Ethernet addresses: the client's next hop, and the own one.
    pub mac: [u8; 6],
    /// See `mac`.
    pub own_mac: [u8; 6],
    /// What was agreed on with cookies.
    pub agreed: Agreed,
    /// What it is doing.
    pub state: State,
    /// What the client sends.
    pub requests: Stream,
    /// The present request.
    pub request: Option<Request>,
    /// Its first sequence number.
    pub start: u32,
    /// How far Millrace itself has acknowledged what the client sent.
    pub acknowledged: u32,
    /// The sequence number of what the client gets next from somebody new.
    pub next: u32,
    /// What the client has acknowledged.
    pub acked: u32,
    /// Its last window, as it came.
    pub window: u16,
    /// Its last timestamp and echo.
    pub times: (u32, u32),
    /// Its clock in what has come in order.
    pub recent: Recent,
    /// How far ahead of `times` the clock of the server that comes next begins; see [`Connection::next_clock`].
    pub ahead: u32,
    /// Whether `times` and [`Upstream::tsval`] are known: not after a restart, until the next segment.
    pub heard: bool,
    /// When it was last sent one that was newer.
    pub clock_at: u64,
    /// The server's side.
    pub upstream: Option<Upstream>,
    /// Connections to servers that were made for it.
    pub connects: u32,
    /// Servers that the request was sent to in vain.
    pub tried: Vec<usize>,
    /// An own answer.
    pub answer: Option<Answer>,
    /// When something must be done, and what the state's own time is over.
    pub wake: u64,
    /// When that is looked at, which may be earlier.
    pub queued: u64,
    /// See `wake`.
    pub deadline: u64,
    /// When a request is looked at again that nobody could serve yet.
    pub retry: u64,
    /// Whether the client has sent its FIN.
    pub client_done: bool,
    /// Whether another request may follow the present one.
    pub keeps_alive: bool,
    /// Whether Millrace itself closes behind the response: see `farewell`.
    pub closes: bool,
    /// When it began.
    pub opened: u64,
    /// When the first byte of the request came whose head is not whole yet.
    pub asking: Option<u64>,
    /// The request on its way, to be counted.
    pub exchange: Option<Exchange>,
    /// Requests that there were.
    pub exchanges: u64,
    /// Bytes of those that are over: of requests, and of responses.
    pub up: u64,
    /// See `up`.
    pub down: u64,
}

impl Connection {
    /// Whether the server has acknowledged all of the present request, which is whole.
    pub fn is_delivered(&self) -> bool {
        let has_all = |u: &Upstream| u.has_all() && !before(u.acked, self.requests.limit());
        self.requests.is_done() && self.upstream.as_ref().is_some_and(has_all)
    }
}

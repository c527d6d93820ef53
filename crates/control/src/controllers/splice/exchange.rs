//! A request and what became of it: what figures and the access log say.
//!
//! Bytes are counted by sequence numbers: what the client has acknowledged of the response, and the server of the request. So
//! those that the fast path carries are counted without being looked at. When an exchange ends nobody tells the controller, unless the
//! last bytes of the response come to it anyway; then the next request does, or a look at the control blocks from time to time.

use super::block::before;
use super::connection::{Connection, State, Upstream};
use super::path::DataPath;
use super::turn::{LOOK, Turn};

/// The shortest pause until it is looked whether an exchange has ended.
const FIRST_LOOK: u64 = 20_000_000;

/// Bytes of one direction, up to a sequence number.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    at: u32,
    /// How many.
    pub bytes: u64,
}

impl Count {
    fn new(at: u32) -> Count {
        Count { at, bytes: 0 }
    }

    /// All up to a number are there. Between two calls it moves on by less than 2 GiB.
    fn reach(&mut self, number: u32) {
        if before(self.at, number) {
            self.bytes += u64::from(number.wrapping_sub(self.at));
            self.at = number;
        }
    }
}

/// How an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// The client has the whole response.
    Complete,
    /// Millrace answered itself.
    Answered,
    /// The client closed or reset the connection before.
    Client,
    /// The server did, in the middle of the response.
    Server,
    /// Nothing passed for too long.
    Timeout,
    /// An operator ended the connection.
    Killed,
}

impl Ending {
    /// All of them.
    pub const ALL: [Ending; 6] =
        [Ending::Complete, Ending::Answered, Ending::Client, Ending::Server, Ending::Timeout, Ending::Killed];

    /// Its name, in figures and logs.
    pub fn name(self) -> &'static str {
        match self {
            Ending::Complete => "complete",
            Ending::Answered => "answered",
            Ending::Client => "client_aborted",
            Ending::Server => "server_aborted",
            Ending::Timeout => "timeout",
            Ending::Killed => "killed",
        }
    }
}

/// What the access log says of a request's head, as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Its first line.
    pub line: Vec<u8>,
    /// The field `Referer`.
    pub referer: Option<Vec<u8>>,
    /// The field `User-Agent`.
    pub agent: Option<Vec<u8>>,
}

impl Head {
    /// Of what came of a head, which need not be one.
    pub fn of(bytes: &[u8]) -> Head {
        /// Bytes of a line that are kept.
        const MOST: usize = 4096;
        let mut lines = bytes.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let cut = |line: &[u8]| line[..line.len().min(MOST)].to_vec();
        let mut head = Head { line: cut(lines.next().unwrap_or_default()), ..Head::default() };
        for line in lines.take_while(|line| !line.is_empty()) {
            let mut parts = line.splitn(2, |byte| *byte == b':');
            let (Some(name), Some(value)) = (parts.next(), parts.next()) else { continue };
            let value = || Some(cut(value.trim_ascii()));
            if name.eq_ignore_ascii_case(b"referer") {
                head.referer = value();
            } else if name.eq_ignore_ascii_case(b"user-agent") {
                head.agent = value();
            }
        }
        head
    }
}

/// A request on its way. Times are in nanoseconds.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// When its first byte came.
    pub began: u64,
    /// When its head was whole.
    asked: u64,
    /// Its head, where there is a log.
    pub head: Option<Box<Head>>,
    /// The server that has it.
    pub server: Option<usize>,
    /// When the SYN was sent to that server.
    connecting: u64,
    /// How long that took; none on a connection that was there.
    pub connect: Option<u64>,
    /// From the whole head to the first byte of the response.
    pub first_byte: Option<u64>,
    /// Servers that it was sent to in vain.
    pub retries: u32,
    /// The status of the response.
    pub status: Option<u16>,
    /// Bytes of the response's heads.
    heads: u64,
    /// Bytes of the request that the server has acknowledged.
    pub up: Count,
    /// Bytes of the response that the client has acknowledged.
    pub down: Count,
}

impl Exchange {
    fn new(began: u64, now: u64, start: u32, next: u32) -> Exchange {
        Exchange {
            began,
            asked: now,
            head: None,
            server: None,
            connecting: now,
            connect: None,
            first_byte: None,
            retries: 0,
            status: None,
            heads: 0,
            up: Count::new(start),
            down: Count::new(next),
        }
    }

    /// Bytes of the response's body.
    pub fn body(&self) -> u64 {
        self.down.bytes.saturating_sub(self.heads)
    }

    /// A head of the response, interim ones too.
    pub fn responds(&mut self, status: u16, head: usize) {
        self.status = Some(status);
        self.heads += head as u64;
    }

    /// The first bytes of the response are there.
    pub fn first_byte(&mut self, now: u64) {
        self.first_byte.get_or_insert(now.saturating_sub(self.asked));
    }

    /// How long it may be left alone: an eighth of its time so far, so that its end is known by as much at the latest.
    pub fn pause(&self, now: u64) -> u64 {
        (now.saturating_sub(self.began) / 8).clamp(FIRST_LOOK, LOOK)
    }
}

impl Connection {
    /// What both sides have acknowledged of the exchange is counted, as far as `client` and `server` say, if they know it.
    fn count(&mut self, client: Option<u32>, server: Option<u32>) {
        let Some(exchange) = &mut self.exchange else { return };
        let earlier = |one: u32, other: u32| if before(one, other) { one } else { other };
        if let Some(acked) = client {
            let end = self.upstream.as_ref().filter(|u| u.responses.is_done()).map(Upstream::response_end);
            exchange.down.reach(end.map_or(acked, |end| earlier(acked, end)));
        }
        if let Some(acked) = server {
            let end = if self.requests.is_done() { self.requests.limit() } else { acked };
            exchange.up.reach(earlier(acked, end));
        }
    }
}

impl<P: DataPath> Turn<'_, P> {
    /// A request's head is whole.
    pub fn begin_exchange(&mut self, head: &[u8]) {
        let (c, now) = (&mut *self.c, self.now);
        let mut exchange = Exchange::new(c.asking.take().unwrap_or(now), now, c.start, c.next);
        exchange.head = self.books.logs().then(|| Box::new(Head::of(head)));
        c.exchange = Some(exchange);
        c.exchanges += 1;
    }

    /// A server gets the request: on a new connection, or on the one that is there.
    pub fn exchange_with(&mut self, server: usize, connects: bool) {
        let now = self.now;
        self.books.server(server).requests += 1;
        self.books.server(server).connections += u64::from(connects);
        let Some(exchange) = &mut self.c.exchange else { return };
        (exchange.server, exchange.connecting, exchange.connect) = (Some(server), now, None);
    }

    /// The server has accepted the connection.
    pub fn exchange_connected(&mut self) {
        let now = self.now;
        let Some(exchange) = &mut self.c.exchange else { return };
        let time = now.saturating_sub(exchange.connecting);
        exchange.connect = Some(time);
        if let Some(server) = exchange.server {
            self.books.server(server).connect.note(time);
        }
    }

    /// The server could not have it, and another one may get it.
    pub fn exchange_retried(&mut self, server: usize) {
        self.books.server(server).failed += 1;
        if let Some(exchange) = &mut self.c.exchange {
            exchange.retries += 1;
        }
    }

    /// What has been acknowledged by now, as the data path knows it.
    pub fn count_exchange(&mut self) {
        self.hear_client();
        self.hear_server();
        let server = self.c.upstream.as_ref().filter(|_| self.c.state == State::Serving);
        self.c.count(Some(self.c.acked), server.map(|u| u.acked));
    }

    /// The response has passed: nothing of the exchange is unknown any more.
    pub fn complete_exchange(&mut self) {
        if !self.c.requests.is_done() {
            // The server did not wait for all of it.
            self.count_exchange();
        }
        let end = self.c.upstream.as_ref().map(Upstream::response_end);
        let asked = self.c.requests.is_done().then(|| self.c.requests.limit());
        self.c.count(end, asked);
        self.end_exchange(Ending::Complete, self.now);
    }

    /// The segment with the last byte of the response has gone to the client.
    pub fn last_byte_passed(&mut self, end: u32) {
        let done = self.c.upstream.as_ref().is_some_and(|u| u.responses.is_done() && !before(end, u.responses.limit()));
        if done && self.c.requests.is_done() && self.c.state == State::Serving {
            self.complete_exchange();
        }
    }

    /// Looks whether the exchange has ended meanwhile. `ended` is that of the client's and of the server's block, `seen` the second of
    /// the last segment.
    pub fn look_at_exchange(&mut self, ended: [u8; 2], seen: u32) {
        if self.c.exchange.is_none() {
            return;
        }
        self.count_exchange();
        let Some(u) = &self.c.upstream else { return };
        // The look may be late, and the last segment's time is known to the second.
        let time = self.now.min(u64::from(seen) * 1_000_000_000);
        if u.responses.is_done() && self.c.exchange.as_ref().is_some_and(|own| own.down.at == u.response_end()) {
            return self.end_exchange(Ending::Complete, time);
        }
        let endless = u.responses.is_endless();
        let ending = match ended {
            [client, _] if client & 2 != 0 => Ending::Client,
            [_, server] if server & 2 != 0 => Ending::Server,
            [client, server] if client & server & 1 == 0 => return,
            _ if endless => Ending::Complete,
            _ => Ending::Server,
        };
        if endless
            && ending == Ending::Complete
            && let Some(exchange) = &mut self.c.exchange
        {
            // The FIN takes a number, too.
            exchange.down.bytes = exchange.down.bytes.saturating_sub(1);
        }
        self.end_exchange(ending, time);
    }

    /// An exchange that has not ended yet does so now.
    pub fn break_exchange(&mut self, ending: Ending) {
        if self.c.exchange.is_some() {
            self.count_exchange();
            self.end_exchange(ending, self.now);
        }
    }

    /// Millrace answers with this status, so many bytes with a body of so many.
    pub fn answer_exchange(&mut self, status: u16, bytes: usize, body: usize) {
        if self.c.exchange.is_none() {
            let head = self.c.requests.bytes.ready().to_vec();
            self.begin_exchange(&head);
        }
        if let Some(exchange) = &mut self.c.exchange {
            (exchange.status, exchange.heads) = (Some(status), (bytes - body) as u64);
            exchange.down = Count { at: self.c.next, bytes: bytes as u64 };
        }
        self.end_exchange(Ending::Answered, self.now);
    }

    fn end_exchange(&mut self, ending: Ending, time: u64) {
        let Some(exchange) = self.c.exchange.take() else { return };
        self.c.up += exchange.up.bytes;
        self.c.down += exchange.down.bytes;
        self.books.note(&self.cluster.settings, self.c, &exchange, ending);
        let duration = time.max(exchange.asked).saturating_sub(exchange.began);
        let ended = Ended { exchange: &exchange, ending, duration, late: self.now.saturating_sub(exchange.began) };
        self.books.log(self.cluster, self.c, &ended);
    }
}

/// An exchange that is over.
#[derive(Debug)]
pub struct Ended<'e> {
    /// The exchange.
    pub exchange: &'e Exchange,
    /// How it ended.
    pub ending: Ending,
    /// From its first byte to its end.
    pub duration: u64,
    /// From its first byte to now.
    pub late: u64,
}

/// When it is looked again what has become of the exchange, or of the connection.
pub fn next_look(c: &Connection, now: u64) -> u64 {
    now + c.exchange.as_ref().map_or(LOOK, |exchange| exchange.pause(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_across_the_end_of_numbers() {
        let mut count = Count::new(u32::MAX - 9);
        count.reach(u32::MAX);
        count.reach(u32::MAX - 5);
        assert_eq!(count.bytes, 9);
        for _ in 0..8 {
            let next = count.at.wrapping_add(1 << 30);
            count.reach(next);
        }
        assert_eq!(count.bytes, 9 + (8 << 30));
    }

    #[test]
    fn a_head_is_taken_apart_however_it_is() {
        let head =
            Head::of(b"GET /a HTTP/1.1\r\nHost: x\r\nreferer:  http://r/ \r\nUser-Agent: me: you\r\n\r\nReferer: no");
        let expected = Head {
            line: b"GET /a HTTP/1.1".to_vec(),
            referer: Some(b"http://r/".to_vec()),
            agent: Some(b"me: you".to_vec()),
        };
        assert_eq!(head, expected);
        assert_eq!(Head::of(b""), Head::default());
        assert_eq!(Head::of(&[0xff; 9000]).line.len(), 4096);
    }
}

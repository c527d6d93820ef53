//! A request and its response, as metrics and the access log see them.
//!
//! Bytes are counted by sequence numbers: what the client has acknowledged of the response, and the server of the
//! request. So those that the data path carries are counted without being looked at. The end of an exchange is known
//! where the last bytes of the response come to the controller; otherwise with the next request, or by a look at the
//! flow entries from time to time.

use wire::seq::before;

/// The longest pause from one look at a connection to the next, in nanoseconds.
pub const LOOK: u64 = 5_000_000_000;
/// The shortest one while a response is on its way,
pub const FIRST_LOOK: u64 = 20_000_000;
/// and while the data path may close the connection: its server waits for the next client meanwhile.
pub const FIRST_LOOK_FOR_CLOSE: u64 = 4_000_000;

/// Bytes of one direction, up to a sequence number.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    /// The number.
    pub at: u32,
    /// How many.
    pub bytes: u64,
}

impl Count {
    /// None yet.
    pub fn new(at: u32) -> Count {
        Count { at, bytes: 0 }
    }

    /// All up to a number are there. Between two calls it moves on by less than 2 GiB.
    pub fn reach(&mut self, number: u32) {
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

    /// Its name, in metrics and logs.
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
    /// The host that it was for.
    pub host: String,
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
    pub asked: u64,
    /// Its head, where there is a log.
    pub head: Option<Box<Head>>,
    /// The server that has it.
    pub server: Option<usize>,
    /// When the SYN was sent to that server.
    pub connecting: u64,
    /// How long that took; none on a connection that was there.
    pub connect: Option<u64>,
    /// From the whole head to the first byte of the response.
    pub first_byte: Option<u64>,
    /// Servers that it was sent to in vain.
    pub retries: u32,
    /// The status of the response.
    pub status: Option<u16>,
    /// Bytes of the response's heads.
    pub heads: u64,
    /// Bytes of the request that the server has acknowledged.
    pub up: Count,
    /// Bytes of the response that the client has acknowledged.
    pub down: Count,
}

impl Exchange {
    /// One whose head is whole now.
    pub fn new(began: u64, now: u64, start: u32, next: u32) -> Exchange {
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

    /// How long it may be left alone: an eighth of its time so far, so that its end is known by as much at the latest,
    /// but no less than `least`.
    pub fn pause(&self, now: u64, least: u64) -> u64 {
        (now.saturating_sub(self.began) / 8).clamp(least, LOOK)
    }
}

/// An exchange that is over. Times are in nanoseconds.
#[derive(Debug)]
pub struct Finished {
    /// The exchange.
    pub exchange: Exchange,
    /// How it ended.
    pub ending: Ending,
    /// From its first byte to its end.
    pub duration: u64,
    /// From its first byte to now.
    pub late: u64,
}

/// What is counted of a client's connection.
#[derive(Clone, Debug)]
pub struct Account {
    /// When it began.
    pub opened: u64,
    /// The request on its way.
    pub exchange: Option<Exchange>,
    /// Requests that there were.
    pub exchanges: u64,
    /// Bytes of those that are over: of requests.
    pub up: u64,
    /// Bytes of responses.
    pub down: u64,
}

impl Account {
    /// Of a connection that begins.
    pub fn new(opened: u64) -> Account {
        Account { opened, exchange: None, exchanges: 0, up: 0, down: 0 }
    }
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
            host: String::new(),
        };
        assert_eq!(head, expected);
        assert_eq!(Head::of(b""), Head::default());
        assert_eq!(Head::of(&[0xff; 9000]).line.len(), 4096);
    }
}

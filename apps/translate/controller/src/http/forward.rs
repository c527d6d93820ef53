//! Requests as the host's own HTTP server gets them, and its answers as clients get them: what is about one connection
//! alone (RFC 9110 section 7.6.1) is left out of the heads, bodies pass as they are.

use std::net::IpAddr;

use wire::body::{Body, Framing, Next};
use wire::head_progress::HeadProgress;
use wire::http;
use wire::refused::Refused;

use super::answer;
use super::request::Request;

/// Header fields that are about one connection alone.
const OF_CONNECTION: [&str; 5] = ["connection", "keep-alive", "proxy-connection", "te", "upgrade"];
/// Fields that `Connection` can't name: the message would be another one without them.
const OF_MESSAGE: [&str; 4] = ["host", "content-length", "transfer-encoding", "content-type"];
/// Bytes of an answer's head at most.
const MOST_HEAD: usize = 64 << 10;
/// Answers before the last one (RFC 9110 section 15.2) at most.
const MOST_INTERIM: u32 = 16;

/// Lines of a head without their ends, but for the first. They were read strictly: each ends with CR LF, and none is
/// folded.
fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = head.split(|byte| *byte == b'\n').skip(1);
    lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line)).filter(|line| !line.is_empty())
}

/// The name and the value of a field.
fn field(line: &[u8]) -> (&[u8], &[u8]) {
    let end = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
    (&line[..end], line.get(end + 1..).unwrap_or_default())
}

fn is_one(name: &[u8], all: &[&str]) -> bool {
    all.iter().any(|own| name.eq_ignore_ascii_case(own.as_bytes()))
}

/// Adds the fields of a head that are not about its connection.
fn end_to_end(head: &[u8], out: &mut Vec<u8>) {
    let mut named: Vec<&[u8]> = Vec::new();
    for (_, value) in lines(head).map(field).filter(|(name, _)| name.eq_ignore_ascii_case(b"connection")) {
        named.extend(value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii));
    }
    for line in lines(head) {
        let (name, _) = field(line);
        let is_named = named.iter().any(|own| own.eq_ignore_ascii_case(name)) && !is_one(name, &OF_MESSAGE);
        if !is_named && !is_one(name, &OF_CONNECTION) {
            out.extend_from_slice(line);
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// The head of a request for the server.
pub fn request(request: &Request, client: IpAddr) -> Vec<u8> {
    let mut out = Vec::with_capacity(request.head.len() + 128);
    let query = request.query.as_deref().map(|query| format!("?{query}")).unwrap_or_default();
    let version = if request.is_old { "HTTP/1.0" } else { "HTTP/1.1" };
    out.extend(format!("{} {}{query} {version}\r\n", request.method, request.path).into_bytes());
    let from = out.len();
    end_to_end(&request.head, &mut out);
    // What the client says of that is not known to be so.
    let own = out.split_off(from);
    for line in own.split_inclusive(|byte| *byte == b'\n') {
        if !is_one(field(line).0, &["x-forwarded-for"]) {
            out.extend_from_slice(line);
        }
    }
    let options = if request.is_web_socket { "Upgrade: websocket\r\nConnection: upgrade" } else { "Connection: close" };
    out.extend(format!("X-Forwarded-For: {client}\r\n{options}\r\n\r\n").into_bytes());
    out
}

/// An answer on its way from the server to a client.
#[derive(Debug)]
pub struct Answer {
    method: String,
    is_old: bool,
    is_web_socket: bool,
    /// What of a head has come that is not whole.
    head: Vec<u8>,
    progress: HeadProgress,
    interim: u32,
    status: Option<u16>,
    body: Body,
    keeps: bool,
}

impl Answer {
    /// Of a request.
    pub fn new(request: &Request) -> Answer {
        Answer {
            method: request.method.clone(),
            is_old: request.is_old,
            is_web_socket: request.is_web_socket,
            head: Vec::new(),
            progress: HeadProgress::default(),
            interim: 0,
            status: None,
            body: Body::new(Framing::Length(0)),
            keeps: false,
        }
    }

    /// Takes bytes of the server, and gives those for the client. `keeps`: another request may follow, where the
    /// answer's framing allows that.
    ///
    /// # Errors
    /// They are no answer. What was given before may be a part of one.
    pub fn take(&mut self, bytes: &[u8], keeps: bool) -> Result<Vec<u8>, Refused> {
        let mut out = Vec::with_capacity(bytes.len() + 64);
        let rest = if self.status.is_none() {
            self.head.extend_from_slice(bytes);
            let Some(rest) = self.heads(keeps, &mut out)? else { return Ok(out) };
            Some(rest)
        } else {
            None
        };
        let bytes = rest.as_deref().unwrap_or(bytes);
        // A server that says more than it has announced is not believed.
        let used = self.body.feed(bytes)?;
        out.extend_from_slice(&bytes[..used]);
        Ok(out)
    }

    /// Reads heads up to the last one; what came behind it, once it is there.
    fn heads(&mut self, keeps: bool, out: &mut Vec<u8>) -> Result<Option<Vec<u8>>, Refused> {
        loop {
            let Some(found) = http::response(&self.head, &self.method, &mut self.progress)? else {
                return if self.head.len() > MOST_HEAD { Err(Refused(502)) } else { Ok(None) };
            };
            let rest = self.head.split_off(found.head);
            let head = std::mem::replace(&mut self.head, rest);
            self.progress = HeadProgress::default();
            let is_switched = found.status == 101;
            if is_switched && !self.is_web_socket {
                return Err(Refused(502));
            }
            let is_last = found.status >= 200 || is_switched;
            // HTTP/1.0 knows no others.
            if is_last || !self.is_old {
                let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
                out.extend_from_slice(b"HTTP/1.1");
                out.extend_from_slice(line.get(8..).unwrap_or_default());
                out.extend_from_slice(b"\r\n");
                end_to_end(&head, out);
            }
            if is_last {
                let mut end = String::new();
                if is_switched {
                    end.push_str("Upgrade: websocket\r\nConnection: upgrade\r\n\r\n");
                } else {
                    let is_framed =
                        found.framing != Framing::Rest && !(found.framing == Framing::Chunked && self.is_old);
                    self.keeps = keeps && is_framed;
                    answer::end(&mut end, self.keeps);
                }
                out.extend_from_slice(end.as_bytes());
                self.status = Some(found.status);
                self.body = Body::new(found.framing);
                return Ok(Some(std::mem::take(&mut self.head)));
            }
            if !self.is_old {
                out.extend_from_slice(b"\r\n");
            }
            self.interim += 1;
            if self.interim > MOST_INTERIM {
                return Err(Refused(502));
            }
        }
    }

    /// Its status, once its head was read.
    pub fn status(&self) -> Option<u16> {
        self.status
    }

    /// Whether both sides go on with WebSocket.
    pub fn is_switched(&self) -> bool {
        self.status == Some(101)
    }

    /// Whether all of it has come.
    pub fn is_whole(&self) -> bool {
        self.status.is_some() && self.body.next() == Next::End
    }

    /// Whether it ends with the server's connection.
    pub fn is_rest(&self) -> bool {
        self.status.is_some() && self.body.next() == Next::Rest
    }

    /// Whether it says that another request may follow.
    pub fn keeps(&self) -> bool {
        self.keeps
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::http::request::Reader;

    fn read(text: &str) -> (Request, Vec<u8>) {
        Reader::default().push(text.as_bytes(), 8192).unwrap().unwrap()
    }

    #[test]
    fn the_server_gets_the_request_without_what_was_the_proxy_s() {
        let text = "POST http://a/x?y HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, X, Content-Length\r\n\
            Upgrade: websocket\r\nX-Forwarded-For: 1.2.3.4\r\nContent-Length: 3\r\nX: y:z\r\nY: z\r\n\r\nabc";
        let (found, rest) = read(text);
        let expected = "POST /x?y HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nY: z\r\n\
            X-Forwarded-For: 10.0.1.11\r\nConnection: close\r\n\r\n";
        assert_eq!(String::from_utf8(request(&found, "10.0.1.11".parse().unwrap())).unwrap(), expected);
        assert_eq!(rest, b"abc");
        let (found, _) =
            read("GET /x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\nSec-X: y\r\n\r\n");
        let expected = "GET /x HTTP/1.1\r\nHost: a\r\nSec-X: y\r\nX-Forwarded-For: ::1\r\nUpgrade: websocket\r\n\
            Connection: upgrade\r\n\r\n";
        assert_eq!(String::from_utf8(request(&found, "::1".parse().unwrap())).unwrap(), expected);
    }

    fn asked(text: &str) -> Answer {
        Answer::new(&read(&format!("{text}\r\n\r\n")).0)
    }

    /// What a client gets of an answer that comes in two pieces, and whether it keeps, is whole, or the rest.
    fn given(mut own: Answer, text: &str, cut: usize) -> Result<(String, bool, bool, bool), Refused> {
        let (one, other) = text.as_bytes().split_at(cut.min(text.len()));
        let mut out = own.take(one, true)?;
        out.extend(own.take(other, true)?);
        Ok((String::from_utf8(out).unwrap(), own.keeps(), own.is_whole(), own.is_rest()))
    }

    #[test]
    fn answers_pass_in_any_pieces() {
        let get = "GET / HTTP/1.1\r\nHost: a";
        let old = "GET / HTTP/1.0\r\nConnection: keep-alive";
        for (request, answer, expected, ends) in [
            (
                get,
                "HTTP/1.0 200 OK\r\nConnection: close, X-Own\r\nX-Own: a\r\nContent-Length: 3\r\nKeep-Alive: 5\r\n\r\nabc",
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: keep-alive\r\n\r\nabc",
                (true, true, false),
            ),
            (
                get,
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nmore",
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\
                    Connection: keep-alive\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
                (true, true, false),
            ),
            (
                old,
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n",
                "HTTP/1.1 204 No\r\nConnection: keep-alive\r\n\r\n",
                (true, true, false),
            ),
            (
                get,
                "HTTP/1.1 200 OK\r\nX: y\r\n\r\nabc",
                "HTTP/1.1 200 OK\r\nX: y\r\nConnection: close\r\n\r\nabc",
                (false, false, true),
            ),
            (
                "HEAD / HTTP/1.1\r\nHost: a",
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n",
                (true, true, false),
            ),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket",
                "HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-X: y\r\n\r\nabc",
                "HTTP/1.1 101 Switching\r\nSec-X: y\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\nabc",
                (false, false, true),
            ),
        ] {
            for cut in 0..=answer.len() {
                let (text, keeps, whole, rest) = given(asked(request), answer, cut).unwrap();
                assert_eq!((&*text, (keeps, whole, rest)), (expected, ends), "{answer} at {cut}");
            }
        }
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        let head = format!("HTTP/1.1 200 OK\r\nX: {}", "y".repeat(MOST_HEAD));
        let interim = "HTTP/1.1 103 Early\r\n\r\n".repeat(20);
        for text in [
            "SSH-2.0-x\r\n",
            "HTTP/1.1 200 OK\nX: y\n\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 101 Switching\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx",
            &head,
            &interim,
        ] {
            assert!(given(asked("GET / HTTP/1.1\r\nHost: a"), text, text.len()).is_err(), "{:.60}", text);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0usize..200) {
            let mut own = asked("GET / HTTP/1.1\r\nHost: a");
            let all = [b"HTTP/1.1 200 OK\r\n", &bytes[..]].concat();
            let (one, other) = all.split_at(cut.min(all.len()));
            let _ = own.take(one, true).and_then(|_| own.take(other, true));
        }
    }
}

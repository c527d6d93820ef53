//! Requests of clients, read strictly ([`wire::http`]), in whatever pieces they come.

use std::mem::MaybeUninit;

use wire::body::Framing;
use wire::head_progress::HeadProgress;
use wire::http;

use super::refusal::{LARGE_HEAD, LONG_URL, MALFORMED, NO_TLS, Refusal};

/// Bytes of a URL at most.
pub const MOST_URL: usize = 4096;
/// Header fields of a head at most, as [`wire::http`] has it.
const MOST_FIELDS: usize = 128;

/// What TLS begins with: a record of a handshake, the major version of all versions (RFC 8446 section 5.1).
const TLS: [u8; 2] = [22, 3];

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its head as it came.
    pub head: Vec<u8>,
    /// The method.
    pub method: String,
    /// The path, as it is written.
    pub path: String,
    /// Behind the `?`.
    pub query: Option<String>,
    /// The host with its port, as it is written; empty where HTTP/1.0 names none.
    pub authority: String,
    /// How its body is framed.
    pub framing: Framing,
    /// Whether its sender speaks HTTP/1.0.
    pub is_old: bool,
    /// Whether another request may follow (RFC 9112 section 9.3).
    pub keeps_alive: bool,
    /// Whether it wants to go on with WebSocket (RFC 6455 section 4.1).
    pub is_web_socket: bool,
    /// Its first line, for the log.
    pub line: String,
    /// `Authorization`.
    pub authorization: Option<String>,
    /// `Cookie`.
    pub cookie: Option<String>,
    /// `User-Agent`.
    pub agent: Option<String>,
    /// `Referer`.
    pub referer: Option<String>,
    /// Whether a picture is asked for, and no stream.
    pub wants_picture: bool,
    /// Whether it expects something of the proxy, and that is `100-continue`.
    pub expects: Option<bool>,
}

impl Request {
    /// Whether a URL is this request's, as a digest says it (RFC 7616 section 3.4.6): in whichever of its two forms.
    pub fn is_for(&self, url: &str) -> bool {
        let target = |url: &str| match url.split_once("://") {
            Some((_, rest)) => rest.find('/').map_or("/", |at| &rest[at..]).to_owned(),
            None => url.to_owned(),
        };
        let query = self.query.as_deref().map(|query| format!("?{query}")).unwrap_or_default();
        target(url) == format!("{}{query}", self.path)
    }

    /// Whether it has a body.
    pub fn has_body(&self) -> bool {
        self.framing != Framing::Length(0)
    }
}

/// Takes bytes until they are a request.
#[derive(Debug, Default)]
pub struct Reader {
    bytes: Vec<u8>,
    progress: HeadProgress,
    /// Whether an empty line was passed over (RFC 9112 section 2.2).
    blank: bool,
}

impl Reader {
    /// Takes bytes; the request, once its head is whole, with what came behind it.
    ///
    /// # Errors
    /// Why it is none. Nothing more can be read then. [`NO_TLS`]: it begins as TLS does; see [`Reader::bytes`].
    pub fn push(&mut self, bytes: &[u8], most: usize) -> Result<Option<(Request, Vec<u8>)>, Refusal> {
        self.bytes.extend_from_slice(bytes);
        if !self.blank && self.bytes.starts_with(&TLS[..1]) {
            match self.bytes.get(1) {
                None => return Ok(None),
                Some(version) if *version == TLS[1] => return Err(NO_TLS),
                Some(_) => {}
            }
        }
        if !self.blank && self.bytes.starts_with(b"\r\n") {
            self.bytes.drain(..2);
            self.blank = true;
        }
        if self.bytes.is_empty() || (!self.blank && self.bytes == b"\r") {
            return Ok(None);
        }
        let line = self.bytes.iter().take(MOST_URL + 64).position(|byte| *byte == b'\n');
        if line.is_none() && self.bytes.len() >= MOST_URL + 64 {
            return Err(LONG_URL);
        }
        let read = http::request(&self.bytes, &mut self.progress);
        let request = read.map_err(|refused| if refused.0 == 431 { LARGE_HEAD } else { MALFORMED })?;
        let Some(request) = request.filter(|request| request.head <= most) else {
            return if self.bytes.len() > most { Err(LARGE_HEAD) } else { Ok(None) };
        };
        let rest = self.bytes.split_off(request.head);
        let found = of(&request, std::mem::take(&mut self.bytes))?;
        Ok(Some((found, rest)))
    }

    /// What has come, where that is no request.
    pub fn bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Whether anything has come of a request.
    pub fn has_begun(&self) -> bool {
        !self.bytes.is_empty()
    }
}

/// What the strict reading does not tell of a head that it takes.
fn of(request: &http::Request, head: Vec<u8>) -> Result<Request, Refusal> {
    let mut headers = [const { MaybeUninit::uninit() }; MOST_FIELDS];
    let mut parsed = httparse::Request::new(&mut []);
    if parsed.parse_with_uninit_headers(&head, &mut headers).is_err() {
        return Err(MALFORMED);
    }
    let target = parsed.path.unwrap_or_default();
    if target.len() > MOST_URL {
        return Err(LONG_URL);
    }
    let field = |name: &str| {
        let found = parsed.headers.iter().find(|own| own.name.eq_ignore_ascii_case(name));
        found.map(|own| String::from_utf8_lossy(own.value).into_owned())
    };
    let says = |name: &str, what: &str| field(name).is_some_and(|own| own.trim().eq_ignore_ascii_case(what));
    let has = |name: &str, what: &str| {
        let own = parsed.headers.iter().filter(|own| own.name.eq_ignore_ascii_case(name));
        let mut options = own.flat_map(|own| own.value.split(|byte| *byte == b','));
        options.any(|option| option.trim_ascii().eq_ignore_ascii_case(what.as_bytes()))
    };
    let (method, minor) = (request.method.clone(), parsed.version.unwrap_or_default());
    let found = Request {
        query: target.split_once('?').map(|(_, query)| query.to_owned()),
        line: format!("{method} {target} HTTP/1.{minor}"),
        path: request.path.clone(),
        framing: request.framing,
        is_old: minor == 0,
        keeps_alive: request.keeps_alive,
        is_web_socket: minor != 0 && has("connection", "upgrade") && says("upgrade", "websocket"),
        authority: field("host").map(|own| own.trim().to_owned()).unwrap_or_default(),
        authorization: field("authorization"),
        cookie: field("cookie"),
        agent: field("user-agent"),
        referer: field("referer"),
        wants_picture: says("accept", "image/jpeg") || says("x-request-snapshot", "1"),
        expects: field("expect").map(|_| says("expect", "100-continue")),
        method,
        head: Vec::new(),
    };
    Ok(Request { head, ..found })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str =
        "GET /rtp/239.1.2.3:5004?token=x HTTP/1.1\r\nHost: H:80\r\nUser-Agent: VLC\r\nCookie: a=b\r\n\r\n";

    fn read(text: &str) -> Result<Option<(Request, Vec<u8>)>, Refusal> {
        Reader::default().push(text.as_bytes(), 8192)
    }

    #[test]
    fn requests_are_read_in_any_pieces() {
        let text = format!("\r\n{TEXT}rest");
        let whole = read(&text).unwrap().unwrap();
        assert_eq!((&*whole.0.path, whole.0.query.as_deref()), ("/rtp/239.1.2.3:5004", Some("token=x")));
        assert_eq!((&*whole.0.authority, whole.0.agent.as_deref()), ("H:80", Some("VLC")));
        assert_eq!((&*whole.0.line, &whole.1[..]), ("GET /rtp/239.1.2.3:5004?token=x HTTP/1.1", &b"rest"[..]));
        assert_eq!(whole.0.head, TEXT.as_bytes());
        for cut in 1..text.len() {
            let mut reader = Reader::default();
            let first = reader.push(&text.as_bytes()[..cut], 8192).unwrap();
            let (found, mut rest) = match first {
                Some((found, mut rest)) => {
                    rest.extend_from_slice(&text.as_bytes()[cut..]);
                    (found, rest)
                }
                None => reader.push(&text.as_bytes()[cut..], 8192).unwrap().unwrap(),
            };
            assert_eq!((&found, &*rest), (&whole.0, &b"rest"[..]), "{cut}");
            rest.clear();
        }
        let mut reader = Reader::default();
        let last = text.bytes().take(text.len() - 4).map(|byte| reader.push(&[byte], 8192).unwrap()).last();
        assert_eq!(last.flatten().unwrap().0, whole.0);
    }

    /// By RFC 9112, and the limits.
    #[test]
    fn what_is_no_request_is_refused() {
        for (text, refusal) in [
            ("GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n", MALFORMED),
            ("GET / HTTP/1.1\r\nHost: a\r\nX: a\0\r\n\r\n", MALFORMED),
            ("GET / HTTP/1.1\nHost: a\n\n", MALFORMED),
            ("GET / HTTP/1.1\r\n\r\n", MALFORMED),
            ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", MALFORMED),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", MALFORMED),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", MALFORMED),
            ("GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", MALFORMED),
            ("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", MALFORMED),
            ("\x16\x03", NO_TLS),
            ("\x16\x02\x01\x02", MALFORMED),
            ("\r\n\x16\x03\x01\r\n", MALFORMED),
        ] {
            assert_eq!(read(text), Err(refusal), "{text:?}");
        }
        let long = |count: usize| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(count));
        assert_eq!(read(&long(5000)), Err(LONG_URL));
        assert_eq!(read(&long(MOST_URL)), Err(LONG_URL));
        assert!(read(&long(MOST_URL - 1)).unwrap().is_some());
        assert_eq!(Reader::default().push(&[b'G'; 5000], 8192), Err(LONG_URL));
        let large = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "y".repeat(8192));
        assert_eq!(read(&large), Err(LARGE_HEAD));
        assert_eq!(read(&large[..large.len() - 4]), Err(LARGE_HEAD));
        let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "a: b\r\n".repeat(200));
        assert_eq!(read(&many), Err(LARGE_HEAD));
    }

    #[test]
    fn what_follows_is_known() {
        for (version, fields, keeps, is_web_socket) in [
            ("1.1", "", true, false),
            ("1.1", "Connection: close\r\n", false, false),
            ("1.0", "", false, false),
            ("1.0", "Connection: Keep-Alive\r\n", true, false),
            ("1.1", "Connection: x, Upgrade\r\nUpgrade: WebSocket\r\n", true, true),
            ("1.1", "Connection: upgrade\r\nUpgrade: h2c\r\n", true, false),
            ("1.1", "Upgrade: websocket\r\n", true, false),
            ("1.0", "Connection: keep-alive, upgrade\r\nUpgrade: websocket\r\n", true, false),
        ] {
            let found = read(&format!("GET / HTTP/{version}\r\nHost: a\r\n{fields}\r\n")).unwrap().unwrap().0;
            let own = (found.keeps_alive, found.is_web_socket, found.is_old);
            assert_eq!(own, (keeps, is_web_socket, version == "1.0"), "{version} {fields}");
        }
        let found = read("GET http://h:80/a%2f?b HTTP/1.1\r\nHost: h:80\r\n\r\n").unwrap().unwrap().0;
        assert!(["/a%2f?b", "http://other/a%2f?b"].iter().all(|url| found.is_for(url)));
        assert!(["/a%2f", "/a/?b", "", "http://h"].iter().all(|url| !found.is_for(url)));
        // One byte may be TLS, or nothing.
        let mut reader = Reader::default();
        assert_eq!(reader.push(b"\x16", 8192), Ok(None));
        assert_eq!((reader.push(b"\x03\x01", 8192), reader.bytes()), (Err(NO_TLS), b"\x16\x03\x01".to_vec()));
    }

    #[test]
    fn absolute_urls_and_old_versions_are_read() {
        let found = read("GET http://a:80/x?y HTTP/1.1\r\nHost: a:80\r\n\r\n").unwrap().unwrap().0;
        assert_eq!((&*found.path, found.query.as_deref()), ("/x", Some("y")));
        let found = read("HEAD /x HTTP/1.0\r\n\r\n").unwrap().unwrap().0;
        assert_eq!((&*found.method, &*found.authority, found.has_body()), ("HEAD", "", false));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0usize..200) {
            let mut reader = Reader::default();
            let cut = cut.min(bytes.len());
            if let Ok(None) = reader.push(&bytes[..cut], 8192) {
                let _ = reader.push(&bytes[cut..], 8192);
            }
        }
    }
}

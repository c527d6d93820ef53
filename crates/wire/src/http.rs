//! HTTP/1.1 heads (RFC 9112), read strictly: where two readers could disagree about where a message ends, it is
//! refused.
//!
//! | refused with 400 | why |
//! |---|---|
//! | `Content-Length` and `Transfer-Encoding` together | one reader takes the one, another the other (RFC 9112 section 6.1) |
//! | two `Content-Length`, or a list, or anything but digits | readers take the first or the last (6.3) |
//! | a `Transfer-Encoding` other than exactly `chunked`, or in HTTP/1.0 | readers that do not know it find no end (6.1) |
//! | a line that ends with a bare LF, a bare CR, NUL | readers disagree about lines (2.2) |
//! | a blank before the colon, a folded line | readers disagree about names and values (5.1, 5.2) |
//! | no `Host` in HTTP/1.1, two, or another one than the target's | the wrong server would answer (3.2) |
//! | a host that can't be one: blanks, `/`, `@`, a port that there is not | readers find another one in it (3.2, RFC 3986 section 3.2.2) |
//! | `*`, unless it is the target of `OPTIONS`, and a target that does not begin with `/` | it names nothing (3.2.1, 3.2.4) |
//! | a second empty line in front of the request line | it is no part of any request for some (2.2); one is passed over |
//! | `CONNECT`, versions other than 1.0 and 1.1 | there is nothing to route |

use std::mem::MaybeUninit;
use std::ops::Range;

use super::body::Framing;
use super::head_progress::HeadProgress;
use super::host::host_name;
pub use crate::refused::Refused;

/// Header fields of a head at most; more are answered with 431.
const MOST_FIELDS: usize = 128;

/// A request's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its bytes.
    pub head: usize,
    /// The method.
    pub method: String,
    /// The host without port, in small letters; empty where HTTP/1.0 names none.
    pub host: String,
    /// The path, without the query.
    pub path: String,
    /// How its body is framed.
    pub framing: Framing,
    /// Whether another request may follow.
    pub keeps_alive: bool,
    /// Where in it `close` stands, if that is all that it says of connections: what a server of HTTP/1.1 need not be
    /// told.
    pub close: Option<Range<usize>>,
    /// Whether its sender authenticates in a way that counts for all of the connection (RFC 4559 section 6).
    pub private: bool,
}

impl Request {
    /// Whether it may be sent a second time (RFC 9110 section 9.2.2).
    pub fn is_idempotent(&self) -> bool {
        ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"].contains(&self.method.as_str())
    }
}

/// A response's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// Its bytes.
    pub head: usize,
    /// The status.
    pub status: u16,
    /// How its body is framed.
    pub framing: Framing,
    /// Whether the server says that another response may follow.
    pub keeps_alive: bool,
    /// Whether it asks for what [`Request::private`] is about.
    pub private: bool,
}

/// The fields by which a server asks a client to authenticate, and is answered.
const AUTHENTICATION: [&str; 4] = ["www-authenticate", "proxy-authenticate", "authorization", "proxy-authorization"];

/// The fields that say how the message is framed.
struct Fields {
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
    private: bool,
}

fn fields(headers: &[httparse::Header]) -> Result<Fields, Refused> {
    let mut found = Fields { length: None, chunked: false, close: false, keep_alive: false, private: false };
    for header in headers {
        let value = header.value.trim_ascii();
        if header.name.eq_ignore_ascii_case("content-length") {
            let digits = !value.is_empty() && value.len() <= 18 && value.iter().all(u8::is_ascii_digit);
            if found.length.is_some() || !digits {
                return Err(Refused(400));
            }
            found.length = str::from_utf8(value).ok().and_then(|value| value.parse().ok());
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            if found.chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(Refused(400));
            }
            found.chunked = true;
        } else if header.name.eq_ignore_ascii_case("connection") {
            for option in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                found.close |= option.eq_ignore_ascii_case(b"close");
                found.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
            }
        } else if AUTHENTICATION.iter().any(|name| header.name.eq_ignore_ascii_case(name)) {
            // A list of challenges, or one answer: its scheme is its first word (RFC 9110 section 11.6).
            found.private |= value.split(|byte| *byte == b',').any(|own| {
                let scheme = own.trim_ascii().split(|byte| *byte == b' ').next().unwrap_or_default();
                [&b"ntlm"[..], b"negotiate", b"nego2"].iter().any(|name| scheme.eq_ignore_ascii_case(name))
            });
        }
    }
    if found.chunked && found.length.is_some() { Err(Refused(400)) } else { Ok(found) }
}

/// Reads a request's head. `None`: it is not complete yet. `progress` is what was known when there were fewer bytes of
/// it.
pub fn request(bytes: &[u8], progress: &mut HeadProgress) -> Result<Option<Request>, Refused> {
    if matches!(bytes.first(), Some(b'\r' | b'\n')) {
        return Err(Refused(400));
    }
    let Some((bytes, whole)) = progress.on(bytes).map_err(|()| Refused(400))? else { return Ok(None) };
    let mut headers = [const { MaybeUninit::uninit() }; MOST_FIELDS];
    let mut parsed = httparse::Request::new(&mut []);
    let head = match parsed.parse_with_uninit_headers(bytes, &mut headers) {
        Ok(httparse::Status::Complete(head)) => head,
        Ok(httparse::Status::Partial) if !whole => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Refused(431)),
        Ok(httparse::Status::Partial) => return Err(Refused(400)),
        Err(_) => return Err(Refused(400)),
    };
    let (Some(method), Some(target), Some(version)) = (parsed.method, parsed.path, parsed.version) else {
        return Err(Refused(400));
    };
    let own = fields(parsed.headers)?;
    if method == "CONNECT" || (version == 0 && own.chunked) {
        return Err(Refused(400));
    }
    let mut hosts = parsed.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("host"));
    let host = match (hosts.next(), hosts.next()) {
        (Some(header), None) => host_name(header.value)?,
        (None, None) if version == 0 => String::new(),
        _ => return Err(Refused(400)),
    };
    let path = match target.split_once("://") {
        Some((scheme, rest)) if !scheme.contains('/') => {
            let end = rest.find(['/', '?']).unwrap_or(rest.len());
            // A target of this form names a host (RFC 9110 section 4.2.1), and no user (4.2.4).
            if end == 0 || host_name(&rest.as_bytes()[..end])? != host {
                return Err(Refused(400));
            }
            // Its path may be empty.
            if rest[end..].starts_with('/') { &rest[end..] } else { "/" }
        }
        _ => target,
    };
    let path = path.split('?').next().unwrap_or_default();
    if !path.starts_with('/') && (method, target) != ("OPTIONS", "*") {
        return Err(Refused(400));
    }
    let framing = match own.length {
        _ if own.chunked => Framing::Chunked,
        Some(length) => Framing::Length(length),
        None => Framing::Length(0),
    };
    let keeps_alive = if version == 0 { own.keep_alive && !own.close } else { !own.close };
    let mut said = parsed.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("connection"));
    let close = match (said.next().map(|header| header.value.trim_ascii()), said.next()) {
        (Some(value), None) if version == 1 && value.eq_ignore_ascii_case(b"close") => {
            let at = value.as_ptr() as usize - bytes.as_ptr() as usize;
            Some(at..at + value.len())
        }
        _ => None,
    };
    Ok(Some(Request {
        head,
        method: method.into(),
        host,
        path: path.into(),
        framing,
        keeps_alive,
        close,
        private: own.private,
    }))
}

/// Reads a response's head. `None`: it is not complete yet. `method` is that of the request, `progress` as for
/// [`request`].
pub fn response(bytes: &[u8], method: &str, progress: &mut HeadProgress) -> Result<Option<Response>, Refused> {
    let Some((bytes, whole)) = progress.on(bytes).map_err(|()| Refused(502))? else { return Ok(None) };
    let mut headers = [const { MaybeUninit::uninit() }; MOST_FIELDS];
    let mut parsed = httparse::Response::new(&mut []);
    let parser = httparse::ParserConfig::default();
    let head = match parser.parse_response_with_uninit_headers(&mut parsed, bytes, &mut headers) {
        Ok(httparse::Status::Complete(head)) => head,
        Ok(httparse::Status::Partial) if !whole => return Ok(None),
        Ok(httparse::Status::Partial) | Err(_) => return Err(Refused(502)),
    };
    let (Some(status), Some(version)) = (parsed.code, parsed.version) else { return Err(Refused(502)) };
    let own = fields(parsed.headers)?;
    // RFC 9112 section 6.3, in its order.
    let framing = if status == 101 {
        Framing::Rest
    } else if status < 200 || status == 204 || status == 304 || method == "HEAD" {
        Framing::Length(0)
    } else if own.chunked {
        Framing::Chunked
    } else {
        own.length.map_or(Framing::Rest, Framing::Length)
    };
    let keeps_alive = if version == 0 { own.keep_alive && !own.close } else { !own.close };
    Ok(Some(Response { head, status, framing, keeps_alive, private: own.private }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn get(text: &str) -> Result<Option<Request>, Refused> {
        request(text.as_bytes(), &mut HeadProgress::default())
    }

    fn response(bytes: &[u8], method: &str) -> Result<Option<Response>, Refused> {
        super::response(bytes, method, &mut HeadProgress::default())
    }

    #[test]
    fn requests_are_read() {
        let text = "POST /a/b?c=d HTTP/1.1\r\nHost: WWW.Example:8080\r\nContent-Length: 12\r\n\r\nbody";
        let found = get(text).unwrap().unwrap();
        assert_eq!((found.head, &*found.host, &*found.path), (text.len() - 4, "www.example", "/a/b"));
        assert_eq!((found.framing, found.keeps_alive, found.is_idempotent()), (Framing::Length(12), true, false));
        let found = get("GET http://h.example?q HTTP/1.1\r\nHost: h.example\r\nConnection: x, Close\r\n\r\n");
        let found = found.unwrap().unwrap();
        assert_eq!((&*found.path, found.framing, found.keeps_alive), ("/", Framing::Length(0), false));
        let found = get("PUT / HTTP/1.1\r\nhost: [::1]:80\r\nTransfer-Encoding: Chunked\r\n\r\n").unwrap().unwrap();
        assert_eq!((&*found.host, found.framing), ("[::1]", Framing::Chunked));
        let found = get("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").unwrap().unwrap();
        assert_eq!((&*found.host, found.keeps_alive), ("", true));
        let options = get("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").unwrap().unwrap();
        assert_eq!((&*options.method, &*options.path), ("OPTIONS", "*"));
        let absolute = get("GET http://[::1]:80/x?y HTTP/1.1\r\nHost: [::1]\r\n\r\n").unwrap().unwrap();
        assert_eq!((&*absolute.host, &*absolute.path), ("[::1]", "/x"));
        for end in 1..text.len() - 4 {
            assert_eq!(get(&text[..end]), Ok(None), "{end}");
        }
    }

    #[test]
    fn what_is_said_of_the_connection_alone_is_found() {
        let found = |version: &str, fields: &str| {
            let text = format!("GET / HTTP/{version}\r\nHost: a\r\n{fields}\r\nX: close\r\n\r\n");
            get(&text).unwrap().unwrap().close.map(|close| text[close].to_owned())
        };
        for fields in ["Connection: close", "connection:close", "Connection: \t close \t"] {
            assert_eq!(found("1.1", fields).as_deref(), Some("close"), "{fields:?}");
        }
        assert_eq!(found("1.1", "CONNECTION: Close").as_deref(), Some("Close"));
        for fields in
            ["Connection: close, TE", "Connection: close\r\nConnection: x", "Connection: ", "Connections: close"]
        {
            assert_eq!(found("1.1", fields), None, "{fields:?}");
        }
        assert_eq!(found("1.0", "Connection: close"), None, "that ends with the response anyway");
    }

    #[test]
    fn who_is_known_by_the_connection_is_noticed() {
        let asks = |field: &str| {
            let text = format!("HTTP/1.1 401 Unauthorized\r\n{field}\r\nContent-Length: 0\r\n\r\n");
            response(text.as_bytes(), "GET").unwrap().unwrap().private
        };
        for field in [
            "WWW-Authenticate: NTLM",
            "www-authenticate: Basic realm=\"x\", Negotiate",
            "Proxy-Authenticate: ntlm TlRM",
        ] {
            assert!(asks(field), "{field}");
        }
        for field in ["WWW-Authenticate: Basic realm=\"ntlm\"", "X: NTLM", "WWW-Authenticate: Bearer"] {
            assert!(!asks(field), "{field}");
        }
        let says = |value: &str| {
            get(&format!("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: {value}\r\n\r\n")).unwrap().unwrap().private
        };
        assert!(says("Negotiate YII=") && !says("Basic Tkw="));
    }

    /// Each line of the table above.
    #[test]
    fn what_could_be_smuggled_is_refused() {
        let with = |fields: &str| get(&format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n"));
        for fields in [
            "Content-Length: 4\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: chunked\r\ncontent-length: 4",
            "Content-Length: 4\r\nContent-Length: 4",
            "Content-Length: 4, 4",
            "Content-Length: +4",
            "Content-Length: 0x4",
            "Content-Length: ",
            "Content-Length: 9999999999999999999",
            "Transfer-Encoding: chunked, chunked",
            "Transfer-Encoding: gzip, chunked",
            "Transfer-Encoding: xchunked",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
            "Transfer-Encoding : chunked",
            "Transfer-Encoding\t: chunked",
            " Transfer-Encoding: chunked",
            "X: a\r\n Transfer-Encoding: chunked",
            "X: a\nTransfer-Encoding: chunked",
            "X: a\rTransfer-Encoding: chunked",
            "X: a\0b",
            "Host: b",
        ] {
            assert_eq!(with(fields), Err(Refused(400)), "{fields:?}");
        }
        for text in [
            "GET / HTTP/1.1\r\n\r\n",
            "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\n\r\n",
            "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET x HTTP/1.1\r\nHost: a\r\n\r\n",
            "CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
            "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "GET * HTTP/1.1\r\nHost: a\r\n\r\n",
            "OPTIONS *? HTTP/1.1\r\nHost: a\r\n\r\n",
            "OPTIONS http://a* HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET ?q HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET http://user@a/ HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET http://user@a/ HTTP/1.1\r\nHost: user@a\r\n\r\n",
            "GET http:///x HTTP/1.1\r\nHost:\r\n\r\n",
            "GET http://a:b/ HTTP/1.1\r\nHost: a\r\n\r\n",
        ] {
            assert_eq!(get(text), Err(Refused(400)), "{text:?}");
        }
        let many = "X: y\r\n".repeat(MOST_FIELDS + 1);
        assert_eq!(with(many.trim_end()), Err(Refused(431)));
    }

    /// A head that comes byte by byte is read a few times, not once for each byte.
    #[test]
    fn heads_in_single_bytes_are_not_read_again_and_again() {
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "y".repeat(15_000));
        let (mut progress, bytes) = (HeadProgress::default(), head.as_bytes());
        for end in 1..bytes.len() {
            assert_eq!(request(&bytes[..end], &mut progress), Ok(None));
        }
        assert_eq!(request(bytes, &mut progress), get(&head));
        assert!(progress.read <= 4 * bytes.len(), "{} bytes read of {}", progress.read, bytes.len());
        let head = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "y".repeat(100_000));
        let (mut progress, bytes) = (HeadProgress::default(), head.as_bytes());
        for end in 1..bytes.len() {
            assert_eq!(super::response(&bytes[..end], "GET", &mut progress), Ok(None));
        }
        assert!(super::response(bytes, "GET", &mut progress).unwrap().is_some());
        assert!(progress.read <= 4 * bytes.len(), "{} bytes read of {}", progress.read, bytes.len());
    }

    #[test]
    fn what_is_no_request_is_refused_before_its_end() {
        for text in
            ["SSH-2.0-OpenSSH_9.2\r\n", "\x16\x03\x01\x02\0\x01", "GET  / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nA B: c\r\n"]
        {
            assert_eq!(get(text), Err(Refused(400)), "{text:?}");
        }
    }

    #[test]
    fn responses_end_as_their_heads_say() {
        let framing = |text: &str, method| {
            let found = response(format!("{text}\r\n\r\n").as_bytes(), method).unwrap().unwrap();
            (found.status, found.framing, found.keeps_alive)
        };
        assert_eq!(framing("HTTP/1.1 200 OK\r\nContent-Length: 5", "GET"), (200, Framing::Length(5), true));
        assert_eq!(framing("HTTP/1.1 200 OK\r\nContent-Length: 5", "HEAD"), (200, Framing::Length(0), true));
        assert_eq!(framing("HTTP/1.1 304 N\r\nContent-Length: 5", "GET"), (304, Framing::Length(0), true));
        assert_eq!(framing("HTTP/1.1 204 N", "GET"), (204, Framing::Length(0), true));
        assert_eq!(framing("HTTP/1.1 100 Continue", "POST"), (100, Framing::Length(0), true));
        assert_eq!(framing("HTTP/1.1 101 S\r\nUpgrade: x", "GET"), (101, Framing::Rest, true));
        assert_eq!(framing("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked", "GET"), (200, Framing::Chunked, true));
        assert_eq!(framing("HTTP/1.0 200 OK", "GET"), (200, Framing::Rest, false));
        assert_eq!(framing("HTTP/1.1 200 OK\r\nConnection: close", "GET"), (200, Framing::Rest, false));
        assert_eq!(response(b"SSH-2.0-x\r\n\r\n", "GET"), Err(Refused(502)));
    }

    proptest! {
        /// However a head is cut, it is read as when it is whole, and no text is a panic.
        #[test]
        fn any_text_is_read_or_refused(
            bytes in "(GET|POST)? ?/[ -~]{0,10} ?(HTTP/1\\.[01])?(\r\n|\n|\r)?([ -~]{0,12}: ?[ -~\0]{0,12}(\r\n|\n)){0,4}(\r\n)?",
        ) {
            let whole = get(&bytes);
            let mut progress = HeadProgress::default();
            for end in 0..bytes.len() {
                let part = get(&bytes[..end]);
                prop_assert!(part == Ok(None) || part == whole, "{part:?} {whole:?}");
                // In pieces it comes to the same, and mistakes may be found later.
                let piece = request(&bytes.as_bytes()[..end], &mut progress);
                prop_assert!(piece == Ok(None) || piece == whole, "{piece:?} {whole:?}");
                if piece.is_err() {
                    return Ok(());
                }
            }
            let last = request(bytes.as_bytes(), &mut progress);
            prop_assert!(last == whole || (last == Ok(None) && whole.is_err()), "{last:?} {whole:?}");
        }
    }
}

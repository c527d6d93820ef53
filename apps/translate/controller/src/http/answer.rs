//! Answers: heads of streams, refusals with their reason, pages.

use std::fmt::Write;

use super::refusal::{METHOD, NO_TLS, Refusal};

/// What clients authenticate for. It names no host.
pub const REALM: &str = "Millrace";

/// The words of a status (RFC 9110 section 15).
pub fn phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        414 => "URI Too Long",
        417 => "Expectation Failed",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "Error",
    }
}

/// The head of a live stream: its body goes on until the connection ends (RFC 9112 section 6.3). Parts of it can't be
/// had (RFC 9110 section 14.3). `keeps`: another request may follow, as for HEAD.
pub fn stream(keeps: bool) -> Vec<u8> {
    let mut head = "HTTP/1.1 200 OK\r\nContent-Type: video/mp2t\r\nCache-Control: no-store\r\nAccept-Ranges: none\r\n\
        Access-Control-Allow-Origin: *\r\nServer: Millrace\r\n"
        .to_owned();
    end(&mut head, keeps);
    head.into_bytes()
}

/// The end of a head: whether another request may follow on the connection (RFC 9112 section 9.3).
pub fn end(head: &mut String, keeps: bool) {
    head.push_str(if keeps { "Connection: keep-alive\r\n\r\n" } else { "Connection: close\r\n\r\n" });
}

/// An answer that is whole, but for what it says of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The status.
    pub status: u16,
    /// What the body is.
    pub kind: &'static str,
    /// More fields, each with its line end.
    pub fields: String,
    /// The body.
    pub body: Vec<u8>,
}

impl Document {
    /// One with status 200.
    pub fn new(kind: &'static str, body: String) -> Document {
        Document { status: 200, kind, fields: String::new(), body: body.into_bytes() }
    }

    /// As it is sent; without its body for HEAD.
    pub fn bytes(&self, is_head: bool, keeps: bool) -> Vec<u8> {
        let Document { status, kind, fields, body } = self;
        let mut out = format!("HTTP/1.1 {status} {}\r\nContent-Type: {kind}\r\n", phrase(*status));
        // Writing to a text can't fail.
        let _ = write!(out, "Content-Length: {}\r\nCache-Control: no-store\r\n{fields}", body.len());
        out.push_str("Server: Millrace\r\n");
        end(&mut out, keeps);
        let mut out = out.into_bytes();
        if !is_head {
            out.extend_from_slice(body);
        }
        out
    }
}

/// A refusal, with its reason in the body. `challenges`: how a password may be proven, where one is needed.
pub fn refusal(refusal: Refusal, challenges: &[String]) -> Document {
    let mut fields = String::new();
    for challenge in challenges {
        let _ = write!(fields, "WWW-Authenticate: {challenge}\r\n");
    }
    if refusal == METHOD {
        fields.push_str("Allow: GET, HEAD\r\n");
    } else if refusal.status == 503 {
        fields.push_str("Retry-After: 5\r\n");
    }
    let (status, kind) = (refusal.status, "text/plain; charset=utf-8");
    Document { status, kind, fields, body: format!("{}.\n", refusal.reason).into_bytes() }
}

/// What a client of TLS gets in place of a refusal: a fatal alert (RFC 8446 sections 5.1 and 6).
pub fn alert(refusal: Refusal) -> Vec<u8> {
    const ALERT: u8 = 21;
    const FATAL: u8 = 2;
    const HANDSHAKE_FAILURE: u8 = 40;
    const INTERNAL_ERROR: u8 = 80;
    let why = if refusal == NO_TLS { HANDSHAKE_FAILURE } else { INTERNAL_ERROR };
    vec![ALERT, 3, 3, 0, 2, FATAL, why]
}

#[cfg(test)]
mod tests {
    use wire::body::Framing;
    use wire::head_progress::HeadProgress;
    use wire::http;

    use super::*;
    use crate::http::refusal::{ALL, NO_PASSWORD};

    /// What is written is what a strict reader finds.
    #[test]
    fn answers_are_whole_and_framed() {
        for (own, keeps) in ALL.iter().flat_map(|own| [(own, false), (own, true)]) {
            for (method, is_head) in [("GET", false), ("HEAD", true)] {
                let bytes = refusal(*own, &[]).bytes(is_head, keeps);
                let head = http::response(&bytes, method, &mut HeadProgress::default()).unwrap().unwrap();
                let body = if is_head { 0 } else { own.reason.len() as u64 + 2 };
                assert_eq!((head.status, head.framing, head.keeps_alive), (own.status, Framing::Length(body), keeps));
                assert_eq!((bytes.len() - head.head) as u64, body);
                assert_ne!(phrase(own.status), "Error", "{}", own.status);
            }
        }
        let bytes = stream(false);
        let head = http::response(&bytes, "GET", &mut HeadProgress::default()).unwrap().unwrap();
        assert_eq!((head.head, head.framing, head.keeps_alive), (bytes.len(), Framing::Rest, false));
        let challenges = ["Digest x".to_owned(), "Basic y".to_owned()];
        let text = String::from_utf8(refusal(NO_PASSWORD, &challenges).bytes(false, true)).unwrap();
        assert!(text.contains("\r\nWWW-Authenticate: Digest x\r\nWWW-Authenticate: Basic y\r\n"), "{text}");
    }

    #[test]
    fn reasons_differ() {
        for (at, own) in ALL.iter().enumerate() {
            assert!(ALL[..at].iter().all(|other| other.reason != own.reason), "{}", own.reason);
        }
    }
}

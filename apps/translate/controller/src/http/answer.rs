//! Answers: heads of streams, refusals with their reason, pages.

use std::fmt::Write;

use super::refusal::{METHOD, Refusal};

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
/// had (RFC 9110 section 14.3).
pub fn stream() -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: video/mp2t\r\nCache-Control: no-store\r\nAccept-Ranges: none\r\n\
        Access-Control-Allow-Origin: *\r\nServer: Millrace\r\nConnection: close\r\n\r\n";
    head.as_bytes().to_vec()
}

/// A document, whole; without its body for HEAD.
pub fn document(status: u16, kind: &str, fields: &str, body: &[u8], is_head: bool) -> Vec<u8> {
    let mut out = format!("HTTP/1.1 {status} {}\r\nContent-Type: {kind}\r\n", phrase(status));
    // Writing to a text can't fail.
    let _ = write!(out, "Content-Length: {}\r\nCache-Control: no-store\r\n{fields}", body.len());
    out.push_str("Server: Millrace\r\nConnection: close\r\n\r\n");
    let mut out = out.into_bytes();
    if !is_head {
        out.extend_from_slice(body);
    }
    out
}

/// A refusal, with its reason in the body.
pub fn refusal(refusal: Refusal, is_head: bool) -> Vec<u8> {
    let mut fields = String::new();
    if refusal.status == 401 {
        let _ = write!(fields, "WWW-Authenticate: Basic realm=\"{REALM}\", charset=\"UTF-8\"\r\n");
    } else if refusal == METHOD {
        fields.push_str("Allow: GET, HEAD\r\n");
    } else if refusal.status == 503 {
        fields.push_str("Retry-After: 5\r\n");
    }
    let body = format!("{}.\n", refusal.reason);
    document(refusal.status, "text/plain; charset=utf-8", &fields, body.as_bytes(), is_head)
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
        for own in ALL {
            for (method, is_head) in [("GET", false), ("HEAD", true)] {
                let bytes = refusal(*own, is_head);
                let head = http::response(&bytes, method, &mut HeadProgress::default()).unwrap().unwrap();
                let body = if is_head { 0 } else { own.reason.len() as u64 + 2 };
                assert_eq!((head.status, head.framing, head.keeps_alive), (own.status, Framing::Length(body), false));
                assert_eq!((bytes.len() - head.head) as u64, body);
                assert_ne!(phrase(own.status), "Error", "{}", own.status);
            }
        }
        let bytes = stream();
        let head = http::response(&bytes, "GET", &mut HeadProgress::default()).unwrap().unwrap();
        assert_eq!((head.head, head.framing), (bytes.len(), Framing::Rest));
        assert!(String::from_utf8(refusal(NO_PASSWORD, false)).unwrap().contains("WWW-Authenticate: Basic realm="));
    }

    #[test]
    fn reasons_differ() {
        for (at, own) in ALL.iter().enumerate() {
            assert!(ALL[..at].iter().all(|other| other.reason != own.reason), "{}", own.reason);
        }
    }
}

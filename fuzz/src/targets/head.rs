//! HTTP heads: in whatever pieces they come, they are read as when they are whole, or refused; and what is read is
//! itself once more.

use wire::head_progress::HeadProgress;
use wire::http::{Refused, request, response};

/// Pieces of heads.
pub const WORDS: &[&str] = &[
    "GET ",
    "POST /a?b HTTP/1.1\r\n",
    "OPTIONS * HTTP/1.1\r\n",
    "CONNECT a:80 HTTP/1.1\r\n",
    " HTTP/1.0\r\n",
    "http://",
    "user@",
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.1 304 \r\n",
    "HTTP/1.0 101 x\r\n",
    "Host: a\r\n",
    "Host: [::1]:80\r\n",
    "host:\ta/b\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: 99999999999999999999\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding : identity\r\n",
    "Connection: close\r\n",
    "Connection: keep-alive, TE\r\n",
    "WWW-Authenticate: NTLM\r\n",
    "\r\n",
    "\r\n\r\n",
    "\n",
    "\r",
    "\0",
    ": ",
    "%",
    "\u{e9}",
];

/// Takes the bytes of a connection.
pub fn run(data: &[u8]) {
    let whole = request(data, &mut HeadProgress::default());
    let mut progress = HeadProgress::default();
    for end in ends(data) {
        let part = request(&data[..end], &mut progress);
        assert!(part == Ok(None) || part == whole, "{end} bytes: {part:?}, but {whole:?}");
        if part != Ok(None) {
            break;
        }
    }
    match &whole {
        Ok(Some(found)) => {
            assert!((16..=data.len()).contains(&found.head) && data[..found.head].ends_with(b"\r\n\r\n"));
            assert!(!found.method.is_empty() && (found.path.starts_with('/') || found.path == "*"));
            assert!(found.host.bytes().all(|byte| byte.is_ascii_graphic() && !b"/@?#\\".contains(&byte)), "{found:?}");
            assert_eq!(request(&data[..found.head], &mut HeadProgress::default()), whole);
            if let Some(close) = &found.close {
                assert!(data[close.clone()].eq_ignore_ascii_case(b"close"));
            }
        }
        Ok(None) => {}
        Err(Refused(status)) => assert!([400, 431].contains(status), "{status}"),
    }
    for method in ["GET", "HEAD"] {
        let whole = response(data, method, &mut HeadProgress::default());
        let mut progress = HeadProgress::default();
        for end in ends(data) {
            let part = response(&data[..end], method, &mut progress);
            assert!(part == Ok(None) || part == whole, "{end} bytes: {part:?}, but {whole:?}");
            if part != Ok(None) {
                break;
            }
        }
        if let Ok(Some(found)) = whole {
            assert!(found.head <= data.len() && data[..found.head].ends_with(b"\r\n\r\n"));
        }
    }
}

/// Where pieces end: behind each byte of a short text, and less often of a long one.
fn ends(data: &[u8]) -> impl Iterator<Item = usize> {
    (0..data.len()).step_by(1 + data.len() / 500).chain([data.len()])
}

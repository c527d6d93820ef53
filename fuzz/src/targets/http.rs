//! Requests of HTTP clients for streams: heads in any pieces, and what their URLs mean; answers of the host's own
//! server on their way to them.

use translate::http::forward::Answer;
use translate::http::place;
use translate::http::request::Reader;
use translate::http::target::{Source, Target, target, token};
use translate::settings::Settings;

/// Pieces of requests.
pub const WORDS: &[&str] = &[
    "GET /rtp/239.1.2.3:5004 HTTP/1.1\r\n",
    "GET /udp/10.0.0.1@239.1.2.3%245004?token=x HTTP/1.0\r\n",
    "GET /rtp/[2001:db8::1]@[ff15::5]:5008/ HTTP/1.1\r\n",
    "GET /rtsp/user:p@[::1]:554/a?b=c&r2h-token=d HTTP/1.1\r\n",
    "HEAD http://h:80/%70laylist.m3u8 HTTP/1.1\r\n",
    "POST /status.json HTTP/1.1\r\n",
    "Host: h\r\n",
    "Content-Length: 3\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Expect: 100-continue\r\n",
    "Authorization: Basic YTpi\r\n",
    "Cookie: r2h-token=x; a=b\r\n",
    "User-Agent: VLC R2HTOKEN/x\r\n",
    "Accept: image/jpeg\r\n",
    "Connection: keep-alive, upgrade, X\r\n",
    "Upgrade: websocket\r\n",
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.0 204 No\r\n",
    "HTTP/1.1 101 Switching\r\n",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "3\r\nabc\r\n",
    "0\r\n\r\n",
    "\u{16}\u{3}",
    "\r\n",
    "%2f",
    "^",
    "@",
];

/// Bytes of a head at most.
const MOST: usize = 4096;

/// Passes an answer whole and in pieces: a client gets the same.
fn answer(data: &[u8], request: &str) {
    let asked = Reader::default().push(request.as_bytes(), MOST);
    let (request, _) = asked.expect("a request").expect("a whole one");
    let mut whole = Answer::new(&request);
    let Ok(passed) = whole.take(data, true) else { return };
    let (mut pieces, mut found) = (Answer::new(&request), Vec::new());
    for byte in data {
        found.extend(pieces.take(&[*byte], true).expect("byte by byte it is an answer, too"));
    }
    assert_eq!(found, passed);
    let ends = |own: &Answer| (own.status(), own.keeps(), own.is_whole(), own.is_rest(), own.is_switched());
    assert_eq!(ends(&whole), ends(&pieces));
    // Nobody is told twice whether the connection goes on.
    if whole.status().is_some_and(|status| status >= 200) {
        let end = passed.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        let head = String::from_utf8_lossy(&passed[..end]).to_ascii_lowercase();
        assert_eq!(head.matches("\r\nconnection:").count(), usize::from(!head.starts_with("http/1.1 1")), "{head}");
    }
}

/// Reads a request whole and in pieces: both find the same. What it means has a form that means the same again.
pub fn run(data: &[u8]) {
    answer(data, "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    answer(data, "GET / HTTP/1.0\r\n\r\n");
    let whole = Reader::default().push(data, MOST);
    if let Ok(Some((request, rest))) = &whole {
        // An empty line in front of it may be passed over.
        assert!(data.ends_with(rest) && request.head.len() + rest.len() + 2 >= data.len());
        assert!(request.head.len() <= MOST && request.head.ends_with(b"\r\n\r\n"));
        let mut reader = Reader::default();
        for (at, byte) in data.iter().enumerate() {
            match reader.push(&[*byte], MOST) {
                Ok(None) => assert!(reader.has_begun() || at < 2),
                Ok(Some((again, rest))) => {
                    assert!(again == *request && rest.is_empty(), "byte by byte it is another one");
                    break;
                }
                Err(refusal) => panic!("byte by byte it is refused: {refusal:?}"),
            }
        }
        let _ = token(request);
        let groups = vec![("239.0.0.0".parse().expect("a group"), 8), ("ff15::".parse().expect("a group"), 16)];
        let settings = Settings { groups, ..Settings::default() };
        if let Ok(Target::Stream(source)) = target(request, &settings) {
            // Nothing else is allowed by these settings.
            let Source::Place(found) = &source else { panic!("{source:?} is not allowed") };
            assert!(settings.permits_group(found.address) && found.port != 0);
            let written = source.shown();
            let written = written.strip_prefix("rtp://").expect("it is written so");
            let (from, to) = written.rsplit_once('@').map_or((None, written), |(from, to)| (Some(from), to));
            let bracketed = from.map(|from| if from.contains(':') { format!("[{from}]@") } else { format!("{from}@") });
            let again = place::read(&format!("{}{to}", bracketed.unwrap_or_default()));
            assert_eq!(again, Some(*found), "{written}");
        }
    }
}

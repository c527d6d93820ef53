//! Heads of responses: what the library finds plain the parser of the controllers reads in the same way, and heads as
//! servers send them are plain.

use wire::body::Framing;
use wire::head_progress::HeadProgress;
use wire::http::{self, Refused, Response};

use super::keeping::SplitMix64;
use super::*;

/// The head of what lies behind a TCP header, read by the library.
fn program() -> Arc<Program> {
    let body = "
        tcp_packet_t *tcp = packet_peek(ether, 14);
        http_response_t response = http_response(tcp, (u32) tcp->data_offset << 2);
        ether->metadata.head = response.head;
        ether->metadata.length = response.length;
        ether->metadata.status = response.status;
    ";
    let imports = ["net/tcp".to_string(), "http/response".to_string()];
    super::program(&imports, "head : u32; length : u32; status : u16;", body)
}

/// What a program finds: the head's length, the body's and the status; none where the head is not plain.
fn found(program: &Arc<Program>, stepper: &mut Stepper, text: &[u8]) -> Option<(u64, u64, u16)> {
    let mut frame = vec![0; 34];
    frame[26] = 5 << 4;
    frame.extend(text);
    let outputs = stepper.receive(1, &frame);
    stepper.check_frames().expect("no frame is lost");
    let [output] = &outputs[..] else { panic!("{} packets came out", outputs.len()) };
    let field = |name: &str| {
        let at = program.metadata.iter().position(|field| field.name == name).expect("declared");
        output.metadata[at]
    };
    (field("head") != 0).then(|| (field("head") as u64, field("length") as u64, field("status") as u16))
}

fn engines() -> impl Iterator<Item = EngineKind> {
    ENGINES.into_iter().filter(|engine| shows_metadata(*engine))
}

#[test]
fn heads_of_usual_servers_are_plain() {
    let nginx = "HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Fri, 27 Nov 2026 10:00:00 GMT\r\nContent-Type: \
                 text/html\r\nContent-Length: 1024\r\nLast-Modified: Fri, 27 Nov 2026 09:00:00 GMT\r\nConnection: \
                 keep-alive\r\nETag: \"67470000-400\"\r\nAccept-Ranges: bytes\r\n\r\n";
    let apache = "HTTP/1.1 404 Not Found\r\nDate: Fri, 27 Nov 2026 10:00:00 GMT\r\nServer: Apache/2.4.62 \
                  (Debian)\r\ncontent-length:273\r\nContent-Type: text/html; charset=iso-8859-1\r\n\r\n";
    let go = "HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/plain\r\nX-Content-Type-Options: \
              nosniff\r\nContent-Length: 99999999\r\n\r\n";
    let program = program();
    for engine in engines() {
        let mut stepper = Stepper::new(program.clone(), engine).expect("an engine");
        for (head, length, status) in [(nginx, 1024, 200), (apache, 273, 404), (go, 99_999_999, 500)] {
            for body in [8, 9, 100] {
                let text = [head.as_bytes(), &vec![b'x'; body]].concat();
                let expected = Some((head.len() as u64, length, status));
                assert_eq!(found(&program, &mut stepper, &text), expected, "{engine:?}: {head}");
            }
            // Not before the last byte has come.
            for end in 0..head.len() {
                assert_eq!(found(&program, &mut stepper, &head.as_bytes()[..end]), None, "{end}");
            }
        }
    }
}

/// Lines that say where a response ends, or whose it is, and some that are damaged.
const LINES: [&str; 34] = [
    "Content-Length: 5",
    "Content-Length: 12",
    "content-length:7",
    "CONTENT-LENGTH: 0",
    "Content-Length: 1234567890",
    "Content-Length: 000000003",
    "Content-Length:  4",
    "Content-Length: 4 ",
    "Content-Length: +4",
    "Content-Length: 4, 4",
    "Content-Length: ",
    "Content-Length:",
    "Content-Length : 4",
    "Content-Length",
    "Content-Lengths: 9",
    "Content-Lengt: 9",
    "Content-Type: text/plain",
    "Content-\rLength: 4",
    "Transfer-Encoding: chunked",
    "transfer-encoding: identity",
    "Connection: keep-alive",
    "connection: KEEP-ALIVE",
    "Connection: close",
    "Connection: keep-alive, close",
    "Connection: keep-alivE\t",
    "Connection:keep-alive",
    "WWW-Authenticate: NTLM",
    "Proxy-Authenticate: Negotiate",
    "Authorization: Negotiate x",
    " Content-Length: 4",
    "\tfolded",
    "X: y",
    "Date: Fri, 27 Nov 2026 10:00:00 GMT",
    ": x",
];

const FIRST: [&str; 9] = [
    "HTTP/1.1 200 OK",
    "HTTP/1.1 404 Not Found",
    "HTTP/1.1 599 ",
    "HTTP/1.1 100 Continue",
    "HTTP/1.1 204 No Content",
    "HTTP/1.1 304 Not Modified",
    "HTTP/1.0 200 OK",
    "HTTP/1.1 20 OK",
    "http/1.1 200 OK",
];

/// A head of lines that do not belong together, and now and then of other bytes.
fn head(n: &mut SplitMix64) -> Vec<u8> {
    let mut pick = |most: usize| (n.next() % most as u64) as usize;
    let first = if pick(4) > 0 { FIRST[0] } else { FIRST[pick(FIRST.len())] };
    let mut text = format!("{first}\r\n").into_bytes();
    for _ in 0..pick(6) {
        text.extend(LINES[if pick(3) == 0 { 0 } else { pick(LINES.len()) }].bytes());
        text.extend(if pick(60) == 0 { "\n" } else { "\r\n" }.bytes());
    }
    text.extend(b"\r\n");
    if pick(3) == 0 {
        let at = pick(text.len());
        text[at] = pick(256) as u8;
    }
    text.extend(vec![b'x'; 8 + pick(9)]);
    text
}

#[test]
fn what_is_plain_is_read_as_controllers_do() {
    let program = program();
    for engine in engines() {
        let mut n = SplitMix64(0x4ead);
        let mut stepper = Stepper::new(program.clone(), engine).expect("an engine");
        let mut plain = 0;
        for _ in 0..20_000 {
            let text = head(&mut n);
            let Some((head, length, status)) = found(&program, &mut stepper, &text) else { continue };
            plain += 1;
            let expected = Response {
                head: head as usize,
                status,
                framing: Framing::Length(length),
                keeps_alive: true,
                private: false,
            };
            match http::response(&text, "GET", &mut HeadProgress::default()) {
                Ok(read) => assert_eq!(read, Some(expected), "{}", String::from_utf8_lossy(&text)),
                // Names and values with bytes that none has say nothing of the response's end.
                Err(Refused(code)) => assert_eq!(code, 502, "{}", String::from_utf8_lossy(&text)),
            }
        }
        assert!(plain > 1000, "only {plain} heads were plain");
    }
}

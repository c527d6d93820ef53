//! Clients of the control socket that mean no good: an instance answers others all the same, and is not disturbed.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use crate::PATCH;
use crate::instance::Runtime;
use crate::random::Random;

const LIMIT: Duration = Duration::from_secs(20);

fn connect(socket: &str) -> UnixStream {
    let stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    stream
}

/// The next answer; `None` where the connection was closed.
fn answer(reader: &mut impl BufRead) -> Option<Json> {
    let mut line = String::new();
    match reader.read_line(&mut line) {
        Ok(0) => None,
        Ok(_) => Some(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => None,
        Err(error) => panic!("{error}"),
    }
}

fn code(answer: &Json) -> &str {
    answer["error"]["code"].as_str().unwrap_or_else(|| panic!("no error: {answer}"))
}

#[test]
fn garbage_is_answered_line_by_line() {
    let runtime = Runtime::new();
    let instance = runtime.start(&[PATCH, "--port", "a=mem:"]);
    let socket = runtime.socket("patch");
    let mut stream = connect(&socket);
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let deep = "[".repeat(30_000);
    let lines: [&[u8]; 10] = [
        b"",
        b"{}",
        b"\0\xff\xfe",
        b"null",
        b"{\"request\": \"reboot\"}",
        b"{\"request\": \"table_get\"}",
        deep.as_bytes(),
        b"{\"request\": \"status\", \"more\": 1}x",
        b"{\"request\": \"table_dump\", \"table\": 7}",
        b"GET / HTTP/1.0\r",
    ];
    for line in lines {
        stream.write_all(&[line, b"\n"].concat()).unwrap();
        let answer = answer(&mut reader).unwrap_or_else(|| panic!("closed after {:?}", String::from_utf8_lossy(line)));
        assert_eq!(code(&answer), "bad_request", "{answer}");
    }
    stream.write_all(b"{\"request\": \"status\"}\n{\"request\": \"tables\"}\n").unwrap();
    assert_eq!(answer(&mut reader).unwrap()["ok"]["instance"], "patch", "still well, and requests may be sent ahead");
    assert_eq!(answer(&mut reader).unwrap(), json!({"ok": []}));
    // Too long: that is the end of the connection, not of the instance.
    let mut stream = connect(&socket);
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let feeding = thread::spawn(move || (0..1000).find_map(|_| stream.write_all(&[b'x'; 65536]).err()));
    assert_eq!(code(&answer(&mut reader).unwrap()), "bad_request");
    assert_eq!(answer(&mut reader), None);
    assert!(feeding.join().unwrap().is_some(), "it does not take 64 MB");
    // Random bytes.
    let mut random = Random(7);
    for _ in 0..50 {
        let mut stream = connect(&socket);
        let length = random.below(5000);
        // It may have enough before all is sent.
        let _ = stream.write_all(&random.bytes(length));
    }
    assert_eq!(runtime.json(&["status"])[0]["pid"], instance.id());
    runtime.millrace(&["stop"]).ok();
    instance.end().ok();
}

#[test]
fn idle_and_slow_clients_keep_nobody_out() {
    let runtime = Runtime::new();
    let instance = runtime.start(&[PATCH, "--port", "a=mem:"]);
    let socket = runtime.socket("patch");
    // Many more than may be connected at a time, some of them in the middle of a request.
    let idle: Vec<UnixStream> = (0..200)
        .map(|number| {
            let mut stream = connect(&socket);
            if number % 2 == 0 {
                let _ = stream.write_all(b"{\"request\": ");
            }
            stream
        })
        .collect();
    let start = Instant::now();
    assert_eq!(runtime.json(&["status"])[0]["pid"], instance.id());
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    // The first were sent away.
    for mut stream in idle.into_iter().take(150) {
        assert!(matches!(stream.read(&mut [0; 100]), Ok(_) | Err(_)), "ended, with an answer or without");
    }
    let threads = std::fs::read_dir(format!("/proc/{}/task", instance.id())).unwrap().count();
    assert!(threads < 50, "{threads} threads");
    // A client that asks much and reads nothing holds up no other.
    let greedy: Vec<_> = (0..4)
        .map(|_| {
            let mut stream = connect(&socket);
            stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
            let requests = "{\"request\": \"counters\"}\n".repeat(10_000);
            let _ = stream.write_all(requests.as_bytes());
            stream
        })
        .collect();
    for _ in 0..20 {
        assert_eq!(runtime.json(&["status"])[0]["pid"], instance.id());
    }
    let start = Instant::now();
    assert_eq!(runtime.millrace(&["stop"]).ok(), "patch: stopped\n");
    instance.end().ok();
    assert!(start.elapsed() < Duration::from_secs(5), "it does not wait for them at its end: {:?}", start.elapsed());
    drop(greedy);
}

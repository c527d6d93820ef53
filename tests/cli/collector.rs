//! `examples/collector`: a controller that serves HTTP on a runtime of its own beside its packets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use lab::{Namespace, Signal};
use serde_json::Value as Json;

use crate::controllers::network;
use crate::instance::Runtime;

const PATIENCE: Duration = Duration::from_secs(20);
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/collector");

/// A connection to the controller with a request on it.
fn ask(box_: &Namespace, port: u16, request: &str) -> BufReader<TcpStream> {
    let stream = box_.enter(|| TcpStream::connect(("127.0.0.1", port))).unwrap().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    (&stream).write_all(request.as_bytes()).unwrap();
    BufReader::new(stream)
}

/// Head and body of an answer.
fn answer(box_: &Namespace, port: u16, request: &str) -> (String, String) {
    let mut text = String::new();
    ask(box_, port, request).read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text}"));
    (head.to_owned(), body.to_owned())
}

fn counts(box_: &Namespace, port: u16) -> Json {
    let (head, body) = answer(box_, port, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

/// The next line of `/live`; none at the end.
fn line(live: &mut BufReader<TcpStream>) -> Option<Json> {
    let mut line = String::new();
    live.read_line(&mut line).unwrap();
    (!line.is_empty()).then(|| serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}")))
}

#[test]
fn counts_are_served_while_packets_pass() {
    let (box_, [a, _b]) = network();
    let runtime = Runtime::new();
    let baker = std::fs::read_to_string(format!("{FOLDER}/collector.baker")).unwrap();
    let program = runtime.write("collector.baker", &baker);
    let config = runtime.write("collector.toml", &std::fs::read_to_string(format!("{FOLDER}/collector.toml")).unwrap());
    let socket = runtime.path("socket");
    let command =
        box_.command(env!("CARGO_BIN_EXE_millrace")).args(["run", &program, "-c", &config, "--socket", &socket]);
    let mut millrace = command.args(["--port", "a=afpacket:a", "--port", "b=afpacket:b"]).spawn().unwrap();
    millrace.wait_for_text("running on 2 ports", PATIENCE).unwrap_or_else(|error| panic!("{error}"));

    let mut live = ask(&box_, 9180, "GET /live HTTP/1.1\r\n\r\n");
    let mut head = String::new();
    while live.read_line(&mut head).unwrap() > 2 {}
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    let first = line(&mut live).unwrap();

    a.ns.check(&["ping", "-n", "-q", "-c", "500", "-i", "0.002", "-s", "1200", "10.0.0.3"]).unwrap();
    let end = Instant::now() + PATIENCE;
    let seen = loop {
        let now = counts(&box_, 9180);
        if now["types"]["0800"].as_u64() >= Some(1000) {
            break now;
        }
        assert!(Instant::now() < end, "{now}");
    };
    assert!(seen["bytes"].as_u64() > Some(1000 * 1242) && seen["types"]["0806"].as_u64() >= Some(2), "{seen}");
    assert!((1..=2).all(|port| seen["ports"][port.to_string()].as_u64() >= Some(500)), "{seen}");
    let mut now = line(&mut live).unwrap();
    while now["packets"].as_u64() < seen["packets"].as_u64() {
        now = line(&mut live).unwrap();
    }
    assert!(now["packets"].as_u64() > first["packets"].as_u64());
    // The program has counted the same.
    let counters = runtime.json(&["counters", "--socket", &socket]);
    let now = counts(&box_, 9180);
    assert!(counters["channels"]["collector.tap"].as_u64() <= now["packets"].as_u64(), "{counters} {now}");
    assert!(counters["drops"].as_object().unwrap().values().all(|count| *count == 0), "{counters}");

    for (request, status) in
        [("GET /no HTTP/1.1\r\n\r\n", "404"), ("PUT / HTTP/1.1\r\n\r\n", "405"), ("\r\nwhat\r\n", "400")]
    {
        let (head, _) = answer(&box_, 9180, request);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
    }

    // Another program takes over, then other settings: what was counted stays, and so do connections.
    std::fs::write(
        &program,
        baker.replace("copy of it goes", "copy goes").replace("out ether output", "counter more; out ether output"),
    )
    .unwrap();
    runtime.json(&["reload", "--socket", &socket]);
    let after = line(&mut live).unwrap();
    assert!(after["packets"].as_u64() >= now["packets"].as_u64(), "{after}");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("9180", "9181")).unwrap();
    let began = Instant::now();
    runtime.json(&["reload", "--socket", &socket]);
    assert!(began.elapsed() < Duration::from_secs(10), "it is woken for new settings");
    assert!(counts(&box_, 9181)["packets"].as_u64() >= now["packets"].as_u64());
    assert!(box_.enter(|| TcpStream::connect(("127.0.0.1", 9180))).unwrap().is_err(), "there is no listener any more");
    assert!(line(&mut live).is_some());
    let status = runtime.json(&["status", "--socket", &socket]);
    let status = status.as_array().map_or(&status, |all| &all[0]);
    assert_eq!(status["controllers"]["collector"]["state"], "running", "{status}");
    assert_eq!(status["controllers"]["collector"]["failures"], 0, "{status}");

    // At the end listeners are told, in an orderly way.
    millrace.signal(Signal::SIGINT).unwrap();
    while line(&mut live).is_some() {}
    let output = millrace.wait(PATIENCE).unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output}");
}

//! Clients of the exporter, good ones and others, over real connections.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use control::config::Metrics;
use control::socket::{Counters, Seen, Status};
use figures::exporter::{self, Exporter, bind};

/// Nothing takes so long when all is well.
const LIMIT: Duration = Duration::from_secs(20);

fn seen() -> Seen {
    let status = Status { instance: "edge".into(), workers: 2, ..Status::default() };
    let (tables, times) = (Vec::new(), Vec::new());
    let (look_ups, asked, controllers) = (Vec::new(), Vec::new(), Vec::new());
    Seen { status, counters: Counters::default(), tables, times, look_ups, asked, controllers }
}

fn settings(listen: &str, hosts: &[&str]) -> Metrics {
    Metrics { listen: listen.parse().unwrap(), hosts: hosts.iter().map(|host| (*host).to_owned()).collect() }
}

/// One that listens, where, and how often it has looked at the instance.
fn exporter(hosts: &[&str]) -> (Exporter, SocketAddr, Arc<AtomicUsize>) {
    let looks = Arc::new(AtomicUsize::new(0));
    let counted = looks.clone();
    let exporter = exporter::exporter(Arc::new(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        seen()
    }));
    exporter.put(bind(Some(&settings("127.0.0.1:0", hosts))).unwrap()).unwrap();
    let address = address(&exporter);
    (exporter, address, looks)
}

fn address(exporter: &Exporter) -> SocketAddr {
    let url = exporter.url().unwrap();
    url.strip_prefix("http://").unwrap().strip_suffix("/metrics").unwrap().parse().unwrap()
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    stream
}

/// All that comes back for these bytes.
fn ask(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = connect(address);
    // It may have enough before all is sent, and end the connection.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_else(|| panic!("no answer: {answer:?}"))
}

fn get(address: SocketAddr, host: &str) -> String {
    ask(address, format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())
}

#[test]
fn the_format_is_the_one_that_is_asked_for() {
    let (_exporter, address, _) = exporter(&[]);
    let classic = get(address, "localhost:9464");
    assert!(classic.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{classic}");
    assert!(classic.contains("\nmillrace_workers{instance=\"edge\"} 2\n") && !classic.contains("# EOF"), "{classic}");
    let accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
    let request = format!("GET /metrics HTTP/1.1\r\nHost: [::1]\r\nAccept: {accept}\r\n\r\n");
    let open = ask(address, request.as_bytes());
    assert!(open.contains("content-type: application/openmetrics-text; version=1.0.0"), "{open}");
    assert!(open.ends_with("\n# EOF\n"), "{open}");
    let head = ask(address, b"HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(status(&head) == "200" && head.ends_with("\r\n\r\n"), "{head}");
}

#[test]
fn who_calls_the_machine_by_another_name_is_refused() {
    let (_exporter, address, looks) = exporter(&["edge.example"]);
    for host in ["127.0.0.1", "127.0.0.1:9464", "[::1]:9464", "localhost", "LOCALHOST.", "Edge.Example:80", "192.0.2.7"]
    {
        assert_eq!(status(&get(address, host)), "200", "{host}");
    }
    let before = looks.load(Ordering::Relaxed);
    for host in ["evil.example", "localhost.evil.example", "edge.example.evil", "xn--edge.example", "127.0.0.1.nip.io"]
    {
        assert_eq!(status(&get(address, host)), "421", "{host}");
    }
    for head in [
        "GET /metrics HTTP/1.1",
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: localhost",
        "GET /metrics HTTP/1.1\r\nHost: ",
        "GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost",
        "GET /metrics HTTP/1.1\r\nHost: \u{e4}",
    ] {
        let answer = ask(address, format!("{head}\r\n\r\n").as_bytes());
        assert!(matches!(status(&answer), "400" | "421"), "{head}: {answer}");
    }
    assert_eq!(looks.load(Ordering::Relaxed), before, "the instance is not looked at for them");
    let old = ask(address, b"GET /metrics HTTP/1.0\r\n\r\n");
    assert_eq!(status(&old), "200");
}

#[test]
fn only_reading_is_possible_and_only_there() {
    let (_exporter, address, _) = exporter(&[]);
    let asked = |line: &str| ask(address, format!("{line} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
    assert_eq!(status(&asked("GET /")), "200");
    assert_eq!(status(&asked("GET /metrics?x=1")), "200");
    for path in ["/metrics/", "/metrics2", "/../metrics", "/%6detrics", "/status"] {
        assert_eq!(status(&asked(&format!("GET {path}"))), "404", "{path}");
    }
    for method in ["POST", "DELETE", "PUT", "OPTIONS", "BREW"] {
        let answer = asked(&format!("{method} /metrics"));
        assert!(status(&answer) == "405" && answer.contains("allow: GET, HEAD"), "{answer}");
    }
}

#[test]
fn what_is_no_request_ends_its_connection_alone() {
    let (_exporter, address, _) = exporter(&[]);
    let long = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    let many = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "X: y\r\n".repeat(1000));
    for request in
        [long.as_bytes(), many.as_bytes(), b"\0\xff\xfe\r\n\r\n", b"{\"request\": \"status\"}\n", b"\r\n\r\n\r\n"]
    {
        let answer = ask(address, request);
        assert!(answer.is_empty() || status(&answer).starts_with('4'), "{answer}");
    }
    // One request each, also where more are sent ahead.
    let twice = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(2);
    assert_eq!(ask(address, twice.as_bytes()).matches("HTTP/1.1 200").count(), 1);
    assert_eq!(status(&get(address, "localhost")), "200");
}

#[test]
fn who_is_slow_keeps_nobody_out() {
    let (_exporter, address, _) = exporter(&[]);
    // More than there may be connections; they send a byte now and then, or read nothing.
    let mut slow: Vec<TcpStream> = (0..100).map(|_| connect(address)).collect();
    slow.iter_mut().for_each(|stream| drop(stream.write_all(b"GET /met")));
    let start = Instant::now();
    for _ in 0..20 {
        assert_eq!(status(&get(address, "localhost")), "200");
    }
    assert!(start.elapsed() < Duration::from_secs(4), "not by the time limit of the others");
    // They have ended some seconds later, whatever they send.
    for mut stream in slow {
        let mut sent = 0;
        while stream.write_all(b"x").is_ok() {
            assert!(start.elapsed() < LIMIT, "after {sent} bytes");
            thread::sleep(Duration::from_millis(50));
            sent += 1;
        }
    }
}

#[test]
fn many_readers_cost_few_looks() {
    let (_exporter, address, looks) = exporter(&[]);
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..100).for_each(|_| assert_eq!(status(&get(address, "localhost")), "200")));
        }
    });
    let most = 2 + start.elapsed().as_millis() as usize / 100;
    assert!(looks.load(Ordering::Relaxed) <= most, "{looks:?} in {:?}", start.elapsed());
}

#[test]
fn settings_change_while_it_runs() {
    let (exporter, first, _) = exporter(&[]);
    assert_eq!(status(&get(first, "edge.example")), "421");
    // Other names: the same connections.
    let named = settings("127.0.0.1:0", &["edge.example"]);
    assert!(exporter.put(exporter.bind(Some(named.clone())).unwrap()).unwrap());
    assert_eq!((status(&get(first, "edge.example")), address(&exporter)), ("200", first));
    assert!(!exporter.put(exporter.bind(Some(named.clone())).unwrap()).unwrap(), "nothing has changed");
    // An address that is taken: all stays as it is.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = taken.local_addr().unwrap().to_string();
    let error = exporter.bind(Some(settings(&busy, &[]))).unwrap_err();
    assert!(error.starts_with(&format!("metrics: cannot listen on {busy}: another program")), "{error}");
    let error = exporter.bind(Some(settings(&format!("0.0.0.0:{}", first.port()), &[]))).unwrap_err();
    assert!(error.contains(&format!("this instance listens at {first}")), "{error}");
    let error = bind(Some(&settings("192.0.2.1:9464", &[]))).unwrap_err();
    assert!(error.contains("no interface has this address"), "{error}");
    assert_eq!(status(&get(first, "edge.example")), "200");
    // Another address; what is bound and not put in force is given back.
    drop(taken);
    drop(exporter.bind(Some(settings(&busy, &[]))).unwrap());
    exporter.put(exporter.bind(Some(settings(&busy, &[]))).unwrap()).unwrap();
    assert!(TcpStream::connect(first).is_err());
    assert_eq!(status(&get(busy.parse().unwrap(), "localhost")), "200");
    // None.
    assert!(exporter.put(exporter.bind(None).unwrap()).unwrap());
    assert!(TcpStream::connect(&busy).is_err() && exporter.url().is_none());
}

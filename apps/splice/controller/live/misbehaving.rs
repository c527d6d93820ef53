//! Servers and clients that keep to TCP and to nothing else: they dribble, break off, or say nothing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use lab::Namespace;

use crate::network::{PATIENCE, SERVERS, Splice};
use crate::web::{Client, Listener, Response, Server, end_by_reset, pattern};
use crate::{VIRTUAL, VIRTUAL6, servers, wait_until_up};

/// A server that does what the target says.
///
/// | target | what it does |
/// |---|---|
/// | `/dribble` | a response of 200 bytes in chunks, byte by byte, with pauses |
/// | `/silent` | nothing |
/// | `/reset`, `/close` | ends the connection that way before the first byte |
/// | `/half-reset`, `/half-close` | the same in the middle of the response |
/// | `/early` | answers before it has read the request's body, and says that nothing more comes, which it has not said before |
/// | others | a response with the target |
fn bad(host: &Namespace, address: &str) -> Listener {
    Listener::start(host, address, misbehave)
}

fn misbehave(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
        match &*target {
            "/dribble" => {
                let mut response = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
                for chunk in pattern(200).chunks(50) {
                    response.extend([format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat());
                }
                response.extend(b"0\r\n\r\n");
                for byte in response {
                    stream.write_all(&[byte])?;
                    thread::sleep(Duration::from_millis(2));
                }
            }
            "/silent" => _ = reader.read(&mut [0])?,
            "/close" => return Ok(()),
            "/reset" => {
                end_by_reset(&stream);
                return Ok(());
            }
            "/early" => {
                stream.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")?;
                stream.shutdown(std::net::Shutdown::Write)?;
                // As servers do that do not want a reset to destroy the answer.
                thread::sleep(Duration::from_millis(700));
                std::io::copy(&mut reader, &mut std::io::sink())?;
                return Ok(());
            }
            "/half-reset" | "/half-close" => {
                let half = [b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", &pattern(100_000)[..50_000]].concat();
                stream.write_all(&half)?;
                thread::sleep(Duration::from_millis(50));
                if target == "/half-reset" {
                    end_by_reset(&stream);
                }
                return Ok(());
            }
            _ => {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{target}", target.len());
                stream.write_all(head.as_bytes())?;
            }
        }
    }
}

/// All servers of the example, one of them on each version a bad one.
fn one_bad(splice: &Splice) -> ([Listener; 2], [Server; 2]) {
    let bad = ["10.0.2.11:80", "[2001:db8:2::11]:80"].map(|address| bad(&splice.servers, address));
    let good = ["10.0.2.12:80", "[2001:db8:2::12]:80"].map(|address| Server::start(&splice.servers, address, "good"));
    (bad, good)
}

/// Sends a request on a connection of its own.
fn ask(splice: &Splice, address: &str, method: &str, target: &str) -> std::io::Result<Response> {
    let mut client = Client::connect(&splice.client, address)?;
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").as_bytes())?;
    client.receive(method)
}

#[test]
fn servers_that_misbehave_harm_their_own_responses_only() {
    for driver in ["afpacket", "xdp", "tc"] {
        let changes = [("response = \"60s\"", "response = \"1s\"")];
        let splice = Splice::start(driver, &changes, None);
        let _servers = one_bad(&splice);
        wait_until_up(&splice);
        for address in [VIRTUAL, VIRTUAL6] {
            // By turns each goes to the bad server, and to the good one, which answers with the target.
            let both = |method: &str, target: &str| {
                let mut found = Vec::new();
                for _ in 0..2 {
                    found.push(match ask(&splice, address, method, target) {
                        Ok(response) => (response.status, response.body),
                        Err(_) => (0, Vec::new()),
                    });
                }
                found.sort();
                found
            };
            let good = |target: &str| (200, target.as_bytes().to_vec());
            let mut dribbled = vec![(200, pattern(200)), good("/dribble")];
            dribbled.sort();
            assert_eq!(both("GET", "/dribble"), dribbled, "{driver}");
            // Nothing has come: another server gets what may be sent twice.
            for target in ["/reset", "/close"] {
                assert_eq!(both("GET", target), [good(target), good(target)], "{driver}");
                let answer = (503, b"503 Service Unavailable\n".to_vec());
                assert_eq!(both("POST", target), [good(target), answer], "{driver}");
            }
            // Part of it has: the client sees that it is not whole.
            for target in ["/half-reset", "/half-close"] {
                assert_eq!(both("GET", target), [(0, Vec::new()), good(target)], "{driver}");
            }
            assert_eq!(both("GET", "/silent"), [good("/silent"), (504, b"504 Gateway Timeout\n".to_vec())]);
            assert_eq!(both("GET", "/fine"), [good("/fine"), good("/fine")]);
        }
        splice.stop();
    }
}

/// Many clients send their requests so slowly that they are never whole, as slowloris does. Each gets 408 when its time
/// is over, others are served meanwhile, and nothing is left.
#[test]
fn slow_clients_are_told_so_and_others_served() {
    const SLOW: usize = 300;
    let splice = Splice::start("xdp", &[("request = \"10s\"", "request = \"2s\"")], None);
    let _servers = servers(&splice);
    wait_until_up(&splice);
    let sessions = || splice.json(&["sessions", "--limit", "1000"])["sessions"].as_array().unwrap().len();
    splice.wait("the first ones stay", |_| sessions() == 0);
    let start = Instant::now();
    let mut slow: Vec<Client> = (0..SLOW)
        .map(|number| {
            let mut client = Client::connect(&splice.client, [VIRTUAL, VIRTUAL6][number % 2]).unwrap();
            client.send(b"GET / HTTP/1.1\r\nHost: x\r\nX-A: ").unwrap();
            client
        })
        .collect();
    assert!(sessions() >= SLOW / 2, "{}", sessions());
    while start.elapsed() < Duration::from_millis(1500) {
        for client in &mut slow {
            // Some have been told by now, on a slow machine.
            let _ = client.send(b"y");
        }
        for address in [VIRTUAL, VIRTUAL6] {
            assert_eq!(ask(&splice, address, "GET", "/bytes/5000").unwrap().body, pattern(5000));
        }
        thread::sleep(Duration::from_millis(100));
    }
    for client in &mut slow {
        assert_eq!(client.receive("GET").unwrap().status, 408);
        assert!(client.is_closed());
    }
    drop(slow);
    splice.wait("something is left", |_| sessions() == 0);
    splice.stop();
}

#[test]
fn an_answer_before_the_end_of_the_request_holds_up_nobody() {
    let splice = Splice::start("xdp", &[], None);
    let _servers = SERVERS.map(|address| bad(&splice.servers, address));
    wait_until_up(&splice);
    for address in [VIRTUAL, VIRTUAL6] {
        for chunked in [false, true] {
            let start = Instant::now();
            let mut client = Client::connect(&splice.client, address).unwrap();
            // More than there is room for on the way, as long as the server does not read.
            assert_eq!(client.put("/early", &pattern(30_000_000), chunked).unwrap().status, 403);
            // It goes on, or is told that it does not.
            let goes_on = client.get("/next").is_ok_and(|response| response.body == b"/next") || client.is_closed();
            assert!(goes_on && start.elapsed() < PATIENCE / 4, "{chunked}: {:?}, {}", start.elapsed(), splice.state());
        }
    }
    splice.stop();
}

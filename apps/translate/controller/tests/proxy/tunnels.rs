//! Connections that pass byte by byte: TLS, WebSocket.

use std::time::Duration;

use translate::settings::Settings;
use translate::tables::{Next, Notice, Over};

use crate::model::{Model, key, settings};

const SECOND: Duration = Duration::from_secs(1);
/// The beginning of a client's first record.
const HELLO: &str = "\x16\x03\x01\x02\0\x01\0\x01";

fn served() -> Settings {
    let server = |port| Some(([127, 0, 0, 1], port).into());
    Settings { http_server: server(80), https_server: server(443), ..settings() }
}

#[test]
fn tls_passes_byte_by_byte() {
    for cut in 0..HELLO.len() {
        let mut model = Model::new(served());
        let own = key("10.0.1.11", 1);
        model.ask(own, &HELLO[..cut]);
        let number = model.more(own, &HELLO[cut..]).unwrap();
        let generation = model.open[&number].generation;
        assert_eq!(model.server[&number], (HELLO.as_bytes().to_vec(), 1), "{cut}");
        model.more(own, "GET / HTTP/1.1");
        assert_eq!(model.server[&number].0, [HELLO, "GET / HTTP/1.1"].concat().as_bytes());
        // What it began with was credited.
        let behind = if cut < 2 { 0 } else { HELLO.len() - cut };
        model.event(|proxy| proxy.server_took(number, generation, (14 + behind) as u32));
        assert_eq!(model.open[&number].credit, model.open[&number].sent, "{cut}");
        model.event(|proxy| proxy.server_says(number, generation, b"\x16\x03\x03 and so on"));
        assert_eq!((model.taken(number), model.server[&number].1), ("\x16\x03\x03 and so on".to_owned(), 2));
        // Each side ends by itself.
        model.event(|proxy| proxy.server_ended(number, generation, Ok(())));
        assert!(model.open[&number].closed);
        model.more(own, "more");
        assert!(model.server[&number].0.ends_with(b"more"));
        model.notice(number, Notice::HalfClosed);
        assert!(model.half_closed.contains(&number));
        model.notice(number, Notice::Ended(Over::Closed));
        assert_eq!((model.server.len(), model.proxy.sizes().0, model.proxy.counts.tunnels), (0, 0, 1));
        let ended = model.log.last().unwrap();
        assert_eq!((&*ended.request, ended.status, ended.ended), ("TLS", 200, "complete"));
    }
}

/// A server is read no faster than its client takes it.
#[test]
fn tunnels_have_a_bounded_backlog() {
    let mut model = Model::new(served());
    let number = model.ask(key("10.0.1.11", 1), HELLO).unwrap();
    let generation = model.open[&number].generation;
    let mut said = 0;
    while std::mem::take(&mut model.server.get_mut(&number).unwrap().1) != 0 {
        model.event(|proxy| proxy.server_says(number, generation, &[b'x'; 16384]));
        said += 16384;
    }
    assert!(said < 120_000, "{said}");
    assert_eq!(model.taken(number).len(), said);
    assert_eq!(model.server[&number].1, 1);
    // The end goes behind what waits.
    model.event(|proxy| proxy.server_says(number, generation, &[b'y'; 60_000]));
    model.event(|proxy| proxy.server_ended(number, generation, Ok(())));
    assert_eq!(model.taken(number).len(), 60_000);
    assert_eq!((model.open[&number].next, model.open[&number].closed), (Some(Next::Close), false));
}

#[test]
fn tunnels_end() {
    // Where nobody listens, or none is meant to.
    let mut model = Model::new(served());
    let number = model.ask(key("10.0.1.11", 1), HELLO).unwrap();
    let generation = model.open[&number].generation;
    model.event(|proxy| proxy.server_ended(number, generation, Err("refused".into())));
    assert_eq!(model.finish(number).bytes, [21, 3, 3, 0, 2, 2, 80]);
    assert_eq!(model.log.last().unwrap().status, 502);
    let mut model = Model::new(settings());
    let number = model.ask(key("10.0.1.11", 1), HELLO).unwrap();
    assert_eq!(model.finish(number).bytes, [21, 3, 3, 0, 2, 2, 40]);
    assert_eq!(model.log.last().unwrap().status, 400);
    // By silence, by a server that breaks, by an operator, and with the process.
    let mut model = Model::new(served());
    let all = [1, 2, 3, 4].map(|port| model.ask(key("10.0.1.11", port), HELLO).unwrap());
    let generations = all.map(|number| model.open[&number].generation);
    for (number, generation) in all.into_iter().zip(generations) {
        model.event(|proxy| proxy.server_says(number, generation, b"x"));
    }
    model.wait(599 * SECOND);
    model.event(|proxy| proxy.server_says(all[1], generations[1], b"x"));
    model.event(|proxy| proxy.server_ended(all[2], generations[2], Err("reset".into())));
    model.event(|proxy| proxy.kick(generations[3]));
    model.wait(2 * SECOND);
    assert_eq!(all.map(|number| model.open[&number].aborted), [true, false, true, true]);
    assert_eq!(model.server.len(), 1);
    model.again(true, served());
    assert!(model.open[&all[1]].aborted);
}

#[test]
fn web_sockets_are_joined_to_the_host_s_server() {
    let fields = "Host: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";
    let mut model = Model::new(served());
    let own = key("10.0.1.11", 1);
    let number = model.ask(own, &format!("GET /chat HTTP/1.1\r\n{fields}\r\nearly")).unwrap();
    let generation = model.open[&number].generation;
    let sent = String::from_utf8(model.server[&number].0.clone()).unwrap();
    assert!(sent.ends_with("\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"), "{sent}");
    let says = |model: &mut Model, text: &[u8]| model.event(|proxy| proxy.server_says(number, generation, text));
    says(&mut model, b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello");
    let head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\nhello";
    assert_eq!(model.taken(number), head);
    model.more(own, "GET / HTTP/1.1\r\n\r\n");
    assert!(model.server[&number].0.ends_with(b"\r\n\r\nearlyGET / HTTP/1.1\r\n\r\n"));
    model.notice(number, Notice::Ended(Over::Reset));
    assert_eq!((model.log.last().unwrap().status, model.server.len()), (101, 0));
    // A server that does not want to, and one that was not asked.
    let number = model.ask(own, &format!("GET /chat HTTP/1.1\r\n{fields}\r\n")).unwrap();
    let generation = model.open[&number].generation;
    model.event(|proxy| proxy.server_says(number, generation, b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n"));
    assert!(model.taken(number).starts_with("HTTP/1.1 403 No\r\n") && !model.open[&number].closed);
    model.more(own, "GET /chat HTTP/1.1\r\nHost: a\r\n\r\n");
    model.event(|proxy| proxy.server_says(number, generation, b"HTTP/1.1 101 Surprise\r\n\r\n"));
    assert!(model.taken(number).starts_with("HTTP/1.1 502 Bad Gateway\r\n"));
}

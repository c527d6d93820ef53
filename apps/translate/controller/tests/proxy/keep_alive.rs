//! Several requests on one connection.

use std::time::Duration;

use translate::http::refusal;
use translate::settings::{Limits, Settings};
use translate::tables::{Next, Notice, Over};

use crate::model::{Model, key, settings};

const SECOND: Duration = Duration::from_secs(1);

fn request(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// Answers in a text: status, what is said of the connection, body.
fn answers(mut text: &str) -> Vec<(u16, String, String)> {
    let mut all = Vec::new();
    while !text.is_empty() {
        let (head, rest) = text.split_once("\r\n\r\n").expect("a whole head");
        let field = |name: &str| {
            head.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim_start().to_owned())
        };
        let length = field("Content-Length:").map_or(0, |own| own.parse().unwrap());
        let (body, behind) = rest.split_at(length);
        all.push((head[9..12].parse().unwrap(), field("Connection:").unwrap_or_default(), body.to_owned()));
        text = behind;
    }
    all
}

fn statuses(text: &str) -> Vec<(u16, String)> {
    answers(text).into_iter().map(|(status, connection, _)| (status, connection)).collect()
}

fn keeps(status: u16) -> (u16, String) {
    (status, "keep-alive".into())
}

fn closes(status: u16) -> (u16, String) {
    (status, "close".into())
}

#[test]
fn requests_follow_each_other_and_a_stream_is_the_last() {
    let mut model = Model::new(settings());
    let own = key("10.0.1.11", 1);
    let number = model.ask(own, &request("/status.json")).unwrap();
    assert_eq!(statuses(&model.taken(number)), [keeps(200)]);
    let open = &model.open[&number];
    assert_eq!((open.credit, open.sent, open.closed, model.log.len()), (open.sent, open.sent, false, 1));
    model.wait(10 * SECOND);
    // In pieces, and refused.
    model.more(own, "GET /no");
    model.more(own, "thing HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(answers(&model.taken(number)), [(404, "keep-alive".into(), "There is nothing of this name.\n".into())]);
    model.more(own, "GET /vault HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(statuses(&model.taken(number)), [keeps(401)]);
    model.more(own, "HEAD /hall HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(statuses(&model.taken(number)), [keeps(200)]);
    // One that waits for a stream, which can't be had, and then for another one.
    model.more(own, &request("/hall"));
    let stream = model.open[&number].stream;
    model.event(|proxy| proxy.source_ended(stream, refusal::NOT_THERE));
    assert_eq!(statuses(&model.taken(number)), [keeps(404)]);
    model.more(own, &request("/rtp/239.1.2.3:5004"));
    let stream = model.open[&number].stream;
    assert_eq!((model.open[&number].member, model.open[&number].bytes.len()), (None, 0));
    model.packets(stream, 1);
    let open = &model.open[&number];
    assert_eq!((open.member, open.next), (Some(stream), Some(Next::Stream)));
    assert_eq!(statuses(&open.text()), [closes(200)]);
    model.more(own, &request("/status"));
    assert_eq!(statuses(&model.open[&number].text()), [closes(200)], "nothing follows a stream");
    model.notice(number, Notice::Ended(Over::Reset));
    let log: Vec<_> = model.log.iter().map(|own| (own.status, &*own.request, own.ended, own.bytes)).collect();
    let generation = model.log[0].id;
    assert!(model.log.iter().all(|own| own.id == generation));
    assert_eq!(log.len(), 6);
    assert_eq!(log[1].0, 404);
    assert_eq!((log[5].1, log[5].2), ("GET /rtp/239.1.2.3:5004 HTTP/1.1", "client_closed"));
    assert!(log[..5].iter().all(|own| own.2 == "complete" && own.3 > 100), "{log:?}");
    assert_eq!((model.proxy.counts.requests, model.proxy.sizes().0), (6, 0));
}

/// What is sent at once is answered in order, in whatever pieces it comes.
#[test]
fn pipelined_requests_are_answered_in_order() {
    let text = [
        "GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n",
        "\r\nHEAD /hall HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /vault HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /hall HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
        "GET /playlist.m3u HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "GET /status HTTP/1.1\r\nHost: a\r\n\r\n",
    ]
    .concat();
    let expected = [keeps(404), keeps(200), keeps(401), keeps(405), closes(200)];
    for cut in 1..text.len() {
        let mut model = Model::new(settings());
        let own = key("10.0.1.11", 1);
        model.ask(own, &text[..cut]);
        model.more(own, &text[cut..]);
        let number = model.number(own).unwrap();
        let open = model.finish(number);
        assert_eq!(statuses(&open.text()), expected, "{cut}");
        assert_eq!(model.log.len(), 5, "{:?}", model.log);
        assert!(model.log.iter().all(|own| own.ended == "complete"));
    }
}

#[test]
fn what_can_not_be_read_ends_the_connection() {
    for (behind, status) in [
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET /hall HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("POST /hall HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 405),
        ("\0\0\0\0", 400),
        (&format!("GET /{} HTTP/1.1\r\n", "x".repeat(5000)), 414),
    ] {
        let mut model = Model::new(settings());
        let number = model.ask(key("10.0.1.11", 1), &[&request("/status"), behind].concat()).unwrap();
        let open = model.finish(number);
        assert_eq!(statuses(&open.text()), [keeps(200), closes(status)], "{behind:?}");
        assert_eq!(model.log.last().unwrap().status, status);
    }
}

#[test]
fn connections_that_ask_nothing_more_end_in_order() {
    let mut model = Model::new(settings());
    let own = |port| key("10.0.1.11", port);
    let [silent, slow, closed] = [1, 2, 3].map(|port| model.ask(own(port), &request("/status")).unwrap());
    for number in [silent, slow, closed] {
        model.taken(number);
    }
    // What came before the end may come behind the news of it.
    model.notice(closed, Notice::HalfClosed);
    model.more(own(3), &request("/nothing"));
    assert_eq!(statuses(&model.taken(closed)), [keeps(404)]);
    model.wait(SECOND);
    assert!(model.open[&closed].closed);
    model.more(own(2), "GET /");
    model.wait(11 * SECOND);
    assert_eq!(statuses(&model.finish(slow).text()), [closes(408)]);
    assert!(!model.open[&silent].closed);
    model.wait(4 * SECOND);
    assert!(model.open[&silent].closed && model.open[&silent].bytes.is_empty());
    model.notice(silent, Notice::Ended(Over::Closed));
    model.notice(closed, Notice::Ended(Over::Closed));
    let log: Vec<_> = model.log.iter().map(|own| (own.status, own.ended)).collect();
    let complete = |status| (status, "complete");
    assert_eq!(log, [complete(200), complete(200), complete(200), complete(404), complete(408)]);
}

#[test]
fn requests_are_bounded() {
    let limits = Limits { requests: 3, connections: 8, ..Settings::default().limits };
    let mut model = Model::new(Settings { limits, ..settings() });
    let number = model.ask(key("10.0.1.11", 1), &request("/nothing").repeat(5)).unwrap();
    assert_eq!(statuses(&model.finish(number).text()), [keeps(404), keeps(404), closes(404)]);
    // Where many are there they end with their answers.
    let all: Vec<u32> = (2..9).map(|port| model.ask(key("10.0.1.11", port), &request("/nothing")).unwrap()).collect();
    let kept: Vec<bool> = all.iter().map(|number| statuses(&model.open[number].text()) == [keeps(404)]).collect();
    assert_eq!(kept, [true, true, true, true, true, true, false]);
    // A client that takes nothing has a bounded backlog: the rest of its requests waits.
    let mut model = Model::new(settings());
    let own = key("10.0.1.11", 1);
    let text = "GET /status HTTP/1.1\r\nHost: a\r\n\r\n";
    let number = model.ask(own, &text.repeat(300)).unwrap();
    let first = model.proxy.counts.requests;
    assert!((100..300).contains(&first), "{first}");
    let mut found = 0;
    while model.open[&number].acked != model.open[&number].documents {
        found += statuses(&model.taken(number)).len();
    }
    assert_eq!((found, model.log.len(), model.proxy.counts.requests), (300, 300, 300));
    assert_eq!(model.open[&number].credit, model.open[&number].sent);
}

#[test]
fn connections_go_on_behind_answers_of_the_host_s_server() {
    let mut model = Model::new(Settings { http_server: Some("127.0.0.1:80".parse().unwrap()), ..settings() });
    let own = key("10.0.1.11", 1);
    let chunked = "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n";
    let number = model.ask(own, chunked).unwrap();
    let generation = model.open[&number].generation;
    // The rest of its body, and other requests.
    model.more(own, &format!("0\r\n\r\n{}{}", request("/nothing"), request("/status")));
    let sent = String::from_utf8(model.server[&number].0.clone()).unwrap();
    assert!(sent.ends_with("\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n"), "{sent}");
    let says = |model: &mut Model, text: &str| {
        model.event(|proxy| proxy.server_says(number, generation, text.as_bytes()));
    };
    says(&mut model, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nKeep-Alive: timeout=5\r\n\r\nab");
    assert!(model.server.contains_key(&number));
    says(&mut model, "cdeGARBAGE");
    // The next one is the server's, too: another connection to it.
    let sent = String::from_utf8(model.server[&number].0.clone()).unwrap();
    assert!(sent.starts_with("GET /nothing HTTP/1.1\r\n"), "{sent}");
    says(&mut model, "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n");
    let found = answers(&model.taken(number).replace("Content-Length: 7\r\n", ""));
    assert_eq!(found[..2], [(200, "keep-alive".into(), "abcde".into()), (304, "keep-alive".into(), String::new())]);
    assert_eq!((found[2].0, &*found[2].1, model.server.len()), (200, "keep-alive", 0));
    // One that ends with the server's connection ends the client's; what is behind it is not answered.
    model.more(own, &request("/rest").repeat(2));
    says(&mut model, "HTTP/1.1 200 OK\r\n\r\nall");
    model.event(|proxy| proxy.server_ended(number, generation, Ok(())));
    assert!(model.open[&number].closed);
    assert_eq!(model.finish(number).text(), "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall");
    assert_eq!(model.log.len(), 4);
    // An answer before the request's body was there ends it, too.
    let number = model.ask(own, "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc").unwrap();
    let generation = model.open[&number].generation;
    let answer = "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n";
    model.event(|proxy| proxy.server_says(number, generation, answer.as_bytes()));
    assert_eq!(statuses(&model.finish(number).text()), [closes(413)]);
    // One that breaks off within its length is no whole one.
    let number = model.ask(own, &request("/a")).unwrap();
    let generation = model.open[&number].generation;
    model.event(|proxy| proxy.server_says(number, generation, b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab"));
    model.event(|proxy| proxy.server_ended(number, generation, Ok(())));
    assert!(model.open[&number].aborted);
    model.finish(number);
    // What can't be read is told, and the connection goes on.
    let number = model.ask(own, &request("/a")).unwrap();
    let generation = model.open[&number].generation;
    model.event(|proxy| proxy.server_says(number, generation, b"SSH-2.0-x\r\n"));
    assert_eq!(statuses(&model.taken(number)), [keeps(502)]);
    assert_eq!((model.server.len(), model.open[&number].credit), (0, model.open[&number].sent));
}

/// A process that goes on with an idle connection answers what it asks next; one that had half a request is reset.
#[test]
fn idle_connections_outlast_the_process() {
    let mut model = Model::new(settings());
    let own = |port| key("10.0.1.11", port);
    let [idle, begun, waits] = [1, 2, 3].map(|port| model.ask(own(port), &request("/status")).unwrap());
    for number in [idle, begun, waits] {
        model.taken(number);
    }
    model.more(own(2), "GET /");
    model.more(own(3), &request("/hall"));
    model.again(true, settings());
    assert!(model.open[&begun].aborted && !model.open[&idle].aborted && !model.open[&waits].aborted);
    assert_eq!((model.proxy.counts.taken_up, model.proxy.counts.not_taken_up), (2, 1));
    model.more(own(1), &request("/nothing"));
    assert_eq!(statuses(&model.taken(idle)), [keeps(404)]);
    let stream = model.open[&waits].stream;
    model.packets(stream, 1);
    assert_eq!((model.open[&waits].next, model.open[&waits].member), (Some(Next::Stream), Some(stream)));
}

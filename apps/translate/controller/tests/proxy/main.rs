//! The state machine between models of the program, its clients, and the host's own HTTP server.

mod admission;
mod any_order;
mod keep_alive;
mod model;
mod tunnels;

use std::sync::Arc;
use std::time::Duration;

use translate::http::refusal::{self, Refusal};
use translate::proxy::Proxy;
use translate::settings::{Limits, Settings};
use translate::tables::{Next, Notice, Over};

use model::{Model, key, settings};

const SECOND: Duration = Duration::from_secs(1);

fn said(refusal: Refusal) -> (u16, String) {
    (refusal.status, format!("{}.\n", refusal.reason))
}

#[test]
fn viewers_share_a_stream_that_begins_with_its_first_packet() {
    let mut model = Model::new(settings());
    let first = model.get(1, "/hall");
    assert_eq!((model.streams.len(), model.open[&first].documents), (1, 0));
    let stream = model.open[&first].stream;
    model.wait(SECOND);
    assert_eq!(model.open[&first].documents, 0, "nothing is said before the first packet");
    model.packets(stream, 1);
    let own = &model.open[&first];
    assert!(
        own.text().starts_with("HTTP/1.1 200 OK\r\nContent-Type: video/mp2t\r\n") && own.text().ends_with("\r\n\r\n")
    );
    assert_eq!((own.next, own.member), (Some(Next::Stream), Some(stream)));
    // The second one has it at once, by whatever URL.
    let second = model.get(2, "/hall?x=y");
    let own = &model.open[&second];
    assert_eq!((model.streams.len(), own.next, own.member), (1, Some(Next::Stream), Some(stream)));
    let other = model.get(3, "/rtp/239.1.2.3:5004");
    assert_ne!(model.open[&other].stream, stream);
    for number in [first, second, other] {
        model.notice(number, Notice::Ended(Over::Reset));
    }
    assert_eq!(model.streams.len(), 2, "they are kept for a while");
    // Whoever comes back has it at once.
    let again = model.get(4, "/hall");
    assert_eq!((model.open[&again].stream, model.open[&again].next), (stream, Some(Next::Stream)));
    model.notice(again, Notice::HalfClosed);
    assert!(model.open[&again].closed && model.open[&again].member.is_none());
    model.notice(again, Notice::Ended(Over::Closed));
    model.wait(6 * SECOND);
    assert_eq!((model.streams.len(), model.proxy.sizes()), (0, (0, 0, 0)));
    let ended: Vec<_> = model.log.iter().map(|own| (own.ended, own.stream.as_deref(), own.status)).collect();
    assert_eq!(ended[0], ("client_closed", Some("hall"), 200));
    assert_eq!(ended[2], ("client_closed", Some("rtp://239.1.2.3:5004"), 200));
}

#[test]
fn viewers_are_told_why_there_is_no_stream() {
    let mut model = Model::new(settings());
    let one = model.get(1, "/hall");
    model.wait(9 * SECOND);
    let late = model.get(2, "/hall");
    model.wait(2 * SECOND);
    assert_eq!(model.answered(one), said(refusal::SILENT));
    assert_eq!(model.open[&late].documents, 0, "it has its own time");
    let stream = model.open[&late].stream;
    model.event(|proxy| proxy.source_ended(stream, refusal::NOT_THERE));
    assert_eq!(model.answered(late), said(refusal::NOT_THERE));
    assert!(model.streams.is_empty());
    // Who has it is at its end.
    let third = model.get(3, "/hall");
    let stream = model.open[&third].stream;
    model.packets(stream, 1);
    model.event(|proxy| proxy.source_ended(stream, refusal::NO_SERVER));
    assert!(model.open[&third].closed && model.open[&third].member.is_none() && model.streams.is_empty());
    model.finish(third);
    assert_eq!(model.log.last().unwrap().ended, "source_ended");
    assert_eq!(model.proxy.counts.failed, 2);
}

#[test]
fn requests_are_answered_or_refused() {
    let mut model = Model::new(settings());
    let with = |fields: &str, line: &str| format!("{line} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n");
    for (port, (text, expected)) in [
        (with("", "GET /nothing"), refusal::NOTHING),
        (with("", "POST /hall"), refusal::METHOD),
        (with("", "DELETE /x"), refusal::METHOD),
        (with("Content-Length: 3\r\n", "GET /hall"), refusal::BODY),
        (with("Expect: the-unexpected\r\n", "GET /hall"), refusal::EXPECTATION),
        (with("X: a\r\n b\r\n", "GET /hall"), refusal::MALFORMED),
        (with("", "GET /rtp/1.2.3.4:5"), refusal::NOT_ALLOWED),
        (with("", "GET /rtsp/10.0.3.1/x"), refusal::NOT_ALLOWED),
        (with("", "GET /rtp/here"), refusal::BAD_PLACE),
        (with("Accept: image/jpeg\r\n", "GET /hall"), refusal::SNAPSHOT),
        (with("", &format!("GET /{}", "x".repeat(5000))), refusal::LONG_URL),
        (with(&format!("X: {}\r\n", "x".repeat(9000)), "GET /hall"), refusal::LARGE_HEAD),
        (with("", "GET /vault"), refusal::NO_PASSWORD),
        (with("Authorization: Basic YWxpY2U6d3Jvbmc=\r\n", "GET /vault"), refusal::WRONG_PASSWORD),
        (with("Authorization: Nonsense\r\n", "GET /vault"), refusal::WRONG_PASSWORD),
        (with("", "GET /vault?token=guess"), refusal::WRONG_TOKEN),
    ]
    .into_iter()
    .enumerate()
    {
        let number = model.ask(key("10.0.1.12", port as u16 + 1), &text).unwrap();
        assert_eq!(model.answered(number), said(expected), "{text}");
    }
    assert_eq!((model.proxy.counts.refused, model.proxy.counts.wrong, model.streams.len()), (16, 3, 0));
    // Of no effect on others, and not on who is right.
    for (port, fields, target) in [
        (50, "Authorization: Basic YWxpY2U6aGVyIHBhc3N3b3Jk\r\n", "/vault"),
        (51, "", "/vault?r2h-token=a-token-of-alice"),
    ] {
        let number = model.ask(key("10.0.1.12", port), &with(fields, &format!("GET {target}"))).unwrap();
        assert_eq!(model.open[&number].documents, 0, "it awaits the stream");
    }
    // Range is passed over, and HEAD needs no source.
    let head = model.ask(key("10.0.1.13", 1), &with("Range: bytes=0-\r\n", "HEAD /hall")).unwrap();
    assert_eq!(model.streams.len(), 1);
    let own = model.finish(head);
    assert!(
        own.text().starts_with("HTTP/1.1 200 OK\r\nContent-Type: video/mp2t\r\n") && own.text().ends_with("\r\n\r\n")
    );
    assert_eq!(model.log.last().unwrap().ended, "complete");
}

#[test]
fn who_guesses_is_locked_out() {
    let mut model = Model::new(settings());
    let text = |token: &str| format!("GET /vault?token={token} HTTP/1.0\r\n\r\n");
    for port in 0..10 {
        let number = model.ask(key("10.0.1.12", 100 + port), &text("wrong")).unwrap();
        assert_eq!(model.answered(number), said(refusal::WRONG_TOKEN));
    }
    let number = model.ask(key("10.0.1.12", 200), &text("a-token-of-alice")).unwrap();
    assert_eq!(model.answered(number), said(refusal::GUESSED));
    let number = model.ask(key("10.0.1.13", 200), &text("a-token-of-alice")).unwrap();
    assert_eq!(model.open[&number].documents, 0);
    model.wait(61 * SECOND);
    let number = model.ask(key("10.0.1.12", 201), &text("a-token-of-alice")).unwrap();
    assert_eq!(model.open[&number].documents, 0);
}

#[test]
fn slow_requests_end() {
    let mut model = Model::new(settings());
    let (slow, silent) = (key("10.0.1.11", 1), key("10.0.1.11", 2));
    assert_eq!(model.ask(slow, "GET /ha"), None);
    assert_eq!(model.ask(silent, ""), None);
    model.wait(6 * SECOND);
    assert_eq!(model.more(slow, "ll HTTP/1.1\r\n"), None);
    model.wait(5 * SECOND);
    let number = model.number(slow).unwrap();
    assert_eq!(model.answered(number), said(refusal::LATE));
    assert_eq!((model.number(silent), &*model.refused), (None, &[silent][..]));
    assert_eq!(model.proxy.sizes(), (0, 0, 0));
    // What comes of connections that nobody knows is reset.
    model.more(key("10.0.1.11", 3), "x");
    assert_eq!(model.refused.len(), 2);
}

#[test]
fn limits_hold_and_are_given_back() {
    let limits = Limits { connections: 6, per_client: 3, per_stream: 2, streams: 2, ..Settings::default().limits };
    let mut model = Model::new(Settings { limits, ..settings() });
    let text = |target: &str| format!("GET {target} HTTP/1.0\r\n\r\n");
    let ask =
        |model: &mut Model, client: u8, port, target| model.ask(key(&format!("10.0.1.{client}"), port), &text(target));
    let first = ask(&mut model, 11, 1, "/hall").unwrap();
    ask(&mut model, 11, 2, "/hall").unwrap();
    let third = ask(&mut model, 11, 3, "/hall").unwrap();
    assert_eq!(model.answered(third), said(refusal::OF_STREAM));
    let third = ask(&mut model, 11, 3, "/rtp/239.0.0.1:1").unwrap();
    let fourth = ask(&mut model, 11, 4, "/hall").unwrap();
    assert_eq!(model.answered(fourth), said(refusal::OF_CLIENT));
    let other = ask(&mut model, 12, 1, "/rtp/239.0.0.2:1").unwrap();
    assert_eq!(model.answered(other), said(refusal::STREAMS));
    // One that nobody views makes room.
    model.notice(third, Notice::Ended(Over::Reset));
    let other = ask(&mut model, 12, 1, "/rtp/239.0.0.2:1").unwrap();
    assert_eq!((model.open[&other].documents, model.streams.len()), (0, 2));
    for port in 0..3 {
        ask(&mut model, 13, port, "");
    }
    let number = ask(&mut model, 14, 1, "/hall").unwrap();
    assert_eq!(model.answered(number), said(refusal::CONNECTIONS));
    // Who does not stop is reset.
    for port in 10..20 {
        ask(&mut model, 11, port, "/hall");
    }
    assert!(!model.refused.is_empty());
    model.notice(first, Notice::Ended(Over::TimedOut));
    assert_eq!(model.log.last().unwrap().ended, "vanished");
}

#[test]
fn pages_are_documents() {
    let mut model = Model::new(settings());
    let playing = model.get(1, "/hall");
    let stream = model.open[&playing].stream;
    model.packets(stream, 5);
    let number = model.get(2, "/playlist.m3u?token=abc");
    let expected = "#EXTM3U\n#EXTINF:-1,hall\nhttp://proxy:8080/hall?token=abc\n#EXTINF:-1,vault\n\
        http://proxy:8080/vault?token=abc\n";
    assert_eq!(model.answered(number), (200, expected.to_owned()));
    let number = model.ask(key("10.0.1.11", 3), "GET /playlist.m3u8 HTTP/1.0\r\n\r\n").unwrap();
    assert!(model.answered(number).1.contains("\nhttp://10.0.1.1:8080/vault\n"));
    let number = model.get(4, "/status.json");
    let (status, body) = model.answered(number);
    let json: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &json["streams"][0]["packets"], &json["streams"][0]["viewers"]), (200, &5.into(), &1.into()));
    let number = model.get(5, "/status");
    assert!(model.answered(number).1.contains("<td>hall<td>1<td>5<td>"));
    let shut = Settings { pages: false, ..settings() };
    model.event(|proxy| proxy.set_settings(Arc::new(shut)));
    let number = model.get(6, "/status");
    assert_eq!(model.answered(number), said(refusal::NOTHING));
}

#[test]
fn other_paths_are_the_host_s_own_server_s() {
    let mut model = Model::new(Settings { http_server: Some("127.0.0.1:80".parse().unwrap()), ..settings() });
    let own = key("10.0.1.11", 1);
    let text = "POST /form HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 6\r\n\r\nabc";
    let number = model.ask(own, text).unwrap();
    let generation = model.open[&number].generation;
    model.more(own, "defGET /next");
    assert_eq!(model.credit, 3);
    model.event(|proxy| proxy.server_took(number, generation, 3));
    assert_eq!(model.credit, 6);
    let sent = String::from_utf8(model.server[&number].0.clone()).unwrap();
    let expected = "POST /form HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nX-Forwarded-For: 10.0.1.11\r\n\
        Connection: close\r\n\r\nabcdef";
    assert_eq!(sent, expected, "its body, and nothing behind it");
    // The answer passes as it comes, no faster than the client takes it.
    let body: Vec<u8> = (0..200_000u32).map(|at| at as u8).collect();
    let answer = [b"HTTP/1.1 201 Created\r\n\r\n".to_vec(), body.clone()].concat();
    let (mut at, mut most) = (0, 0);
    while at < answer.len() {
        let readings = std::mem::take(&mut model.server.get_mut(&number).unwrap().1);
        if readings == 0 {
            let documents = model.open[&number].documents;
            assert!(documents > model.open[&number].acked, "it goes on");
            model.notice(number, Notice::Acked(documents));
            continue;
        }
        assert_eq!(readings, 1);
        let next = (at + 16384).min(answer.len());
        model.event(|proxy| proxy.server_says(number, generation, &answer[at..next]));
        at = next;
        most = most.max(at.saturating_sub(model.open[&number].bytes.len()));
    }
    assert!(most < 100_000, "{most} bytes wait");
    model.event(|proxy| proxy.server_ended(number, generation, Ok(())));
    let expected = [b"HTTP/1.1 201 Created\r\nConnection: close\r\n\r\n".to_vec(), body].concat();
    assert!(model.finish(number).bytes == expected);
    let ended = model.log.last().unwrap();
    assert_eq!((ended.status, ended.ended), (201, "complete"));
    // What can't be had, says nothing, or breaks.
    let number = model.get(2, "/a");
    let generation = model.open[&number].generation;
    model.event(|proxy| proxy.server_ended(number, generation, Err("refused".into())));
    assert_eq!(model.answered(number), said(refusal::HOST_DOWN));
    let number = model.get(3, "/a");
    model.wait(31 * SECOND);
    assert_eq!(model.answered(number), said(refusal::HOST_SILENT));
    let number = model.get(4, "/a");
    let generation = model.open[&number].generation;
    model.event(|proxy| proxy.server_says(number, generation, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"));
    model.event(|proxy| proxy.server_ended(number, generation, Err("reset".into())));
    assert!(model.open[&number].aborted, "half an answer is no whole one");
    model.finish(number);
    assert_eq!(model.log.last().unwrap().ended, "server_aborted");
}

#[test]
fn a_reload_is_for_those_who_come() {
    let mut model = Model::new(settings());
    let before = model.get(1, "/hall");
    let other = model.get(2, "/rtsp/10.0.2.11/x");
    let mut changed = settings();
    let mut sources = (*changed.sources).clone();
    sources.streams[0].url = "rtsp://10.0.2.12/hall".into();
    changed.sources = Arc::new(sources);
    model.event(|proxy| proxy.set_settings(Arc::new(changed)));
    let after = model.get(3, "/hall");
    let same = model.get(4, "/rtsp/10.0.2.11/x");
    assert_ne!(model.open[&before].stream, model.open[&after].stream);
    assert_eq!(model.open[&other].stream, model.open[&same].stream);
    let kicked = model.open[&after].generation;
    assert!(model.event(|proxy| proxy.kick(kicked)) && !model.event(|proxy| proxy.kick(9999)));
    assert!(model.open[&after].aborted);
    model.finish(after);
    assert_eq!(model.log.last().unwrap().ended, "kicked");
    model.event(Proxy::end);
    assert!(model.open.values().all(|own| own.closed));
}

/// What there is when a process is killed: one that plays, one that waits, one whose answer is on its way, one that
/// has a page of the host's own server.
fn busy() -> (Model, [u32; 4]) {
    let mut model = Model::new(Settings { http_server: Some("127.0.0.1:80".parse().unwrap()), ..settings() });
    let plays = model.get(1, "/hall");
    model.packets(model.open[&plays].stream, 1);
    model.notice(plays, Notice::Acked(1));
    let waits = model.get(2, "/rtp/239.1.2.3:5004");
    let answers = model.get(3, "/status");
    let relays = model.get(4, "/page");
    (model, [plays, waits, answers, relays])
}

#[test]
fn another_process_goes_on() {
    let (mut model, [plays, waits, answers, relays]) = busy();
    let stream = model.open[&plays].stream;
    model.again(true, settings());
    assert_eq!((model.proxy.counts.taken_up, model.proxy.counts.not_taken_up), (3, 1));
    assert_eq!((model.open[&plays].member, model.open[&plays].aborted), (Some(stream), false));
    assert!(model.open[&relays].aborted, "nobody has the rest of its answer");
    let ended: Vec<_> = model.log.iter().map(|own| (own.ended, own.id, &*own.request)).collect();
    assert_eq!(ended, [("not_taken_up", model.open[&relays].generation, "")]);
    // The answer goes out by itself, and the stream that is awaited comes.
    let generation = model.open[&waits].generation;
    model.packets(model.open[&waits].stream, 1);
    assert_eq!((model.open[&waits].next, model.open[&waits].generation), (Some(Next::Stream), generation));
    assert_eq!(model.answered(answers).0, 200);
    assert_eq!(model.log.last().unwrap().ended, "complete");
    // Nobody gets a number that is in use, and others join the stream.
    let other = model.get(5, "/hall");
    model.packets(stream, 1);
    assert!(other > relays && model.open[&other].generation > model.open[&relays].generation);
    assert_eq!((model.open[&other].stream, model.open[&other].member), (stream, Some(stream)));
    let text = "GET /hall HTTP/1.1".to_owned();
    let states = model.proxy.session_states();
    assert_eq!((states[0].id, &states[0].request, &*states[0].state), (model.open[&plays].generation, &text, "plays"));
    for number in [plays, waits, other] {
        model.notice(number, Notice::Ended(Over::Reset));
    }
    let logged = &model.log[model.log.len() - 3];
    assert_eq!((&logged.request, logged.stream.as_deref(), logged.ended), (&text, Some("hall"), "client_closed"));
    model.notice(relays, Notice::Ended(Over::Aborted));
    model.wait(SECOND * 10);
    assert_eq!((model.proxy.sizes(), model.kept.len(), model.streams.len()), ((0, 0, 0), 0, 0));
    assert_eq!(model.probed, [key("10.0.1.11", 4)], "a client that has lost the reset gets another one");
}

#[test]
fn what_is_older_than_its_client_is_reset() {
    let (mut model, [plays, waits, answers, relays]) = busy();
    // One that the program does not have yet as it is kept.
    let gone = model.get(9, "/hall");
    model.open.remove(&gone);
    model.again(false, settings());
    assert!([plays, waits, answers, relays].iter().all(|number| model.open[number].aborted));
    assert_eq!((model.proxy.counts.taken_up, model.proxy.counts.not_taken_up, model.log.len()), (0, 5, 5));
    assert!(model.log.iter().all(|own| own.ended == "not_taken_up"));
    let number = model.get(1, "/status");
    assert!(number > gone || number == 5, "{number}");
    assert_eq!(model.answered(number).0, 200);
    for number in [plays, waits, answers, relays] {
        model.notice(number, Notice::Ended(Over::Aborted));
    }
    model.wait(SECOND * 10);
    assert_eq!((model.probed.len(), model.kept.len(), model.proxy.sizes()), (5, 0, (0, 0, 0)));
}

#[test]
fn a_stream_that_is_another_one_now_goes_on_for_its_viewers() {
    let (mut model, [plays, ..]) = busy();
    let none = media::settings::Settings { streams: Vec::new(), ..(*settings().sources).clone() };
    model.again(true, Settings { sources: Arc::new(none), ..settings() });
    let stream = model.open[&plays].stream;
    assert_eq!(model.open[&plays].member, Some(stream));
    model.event(|proxy| proxy.source_ended(stream, refusal::NOT_THERE));
    assert!(model.open[&plays].closed);
}

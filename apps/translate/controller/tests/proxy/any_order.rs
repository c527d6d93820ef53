//! Anything in any order, from clients, sources, the program, the host's own server and operators.

use std::time::Duration;

use proptest::prelude::*;
use translate::http::refusal;
use translate::settings::{Limits, Settings};
use translate::tables::{Notice, Over};

use crate::model::{Model, key, settings};

#[derive(Clone, Debug)]
enum Step {
    Ask(u8, u8, u8),
    Next(u8, u8),
    More(u8),
    Packets(u8),
    Ended(u8, u8),
    Acked(u8),
    HalfClosed(u8),
    SourceEnded(u8),
    Server(u8, u8),
    Wait(u16),
    Kick(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..20u8, 0..8u8, 0..6u8).prop_map(|(port, target, how)| Step::Ask(port, target, how)),
        (0..20u8, 0..8u8).prop_map(|(port, target)| Step::Next(port, target)),
        (0..20u8).prop_map(Step::More),
        (0..4u8).prop_map(Step::Packets),
        (any::<u8>(), 1..6u8).prop_map(|(number, over)| Step::Ended(number, over)),
        any::<u8>().prop_map(Step::Acked),
        any::<u8>().prop_map(Step::HalfClosed),
        (0..4u8).prop_map(Step::SourceEnded),
        (any::<u8>(), 0..9u8).prop_map(|(number, what)| Step::Server(number, what)),
        (0..15_000u16).prop_map(Step::Wait),
        any::<u8>().prop_map(Step::Kick),
    ]
}

proptest! {
    /// Whatever happens in whatever order: the model holds what the program would, and in the end nothing is left.
    #[test]
    fn nothing_is_left_behind(steps in prop::collection::vec(step(), 0..80)) {
        let limits = Limits { connections: 12, per_client: 10, per_stream: 5, streams: 3, ..Settings::default().limits };
        let server = Some("127.0.0.1:80".parse().unwrap());
        let mut model = Model::new(Settings { limits, http_server: server, https_server: server, ..settings() });
        let targets = ["/hall", "/vault", "/rtp/239.0.0.1:1", "/rtp/239.0.0.2:1", "/rtsp/10.0.2.3/x", "/other", "/status", "/rtp/x"];
        let own = |port: u8| key(if port.is_multiple_of(2) { "10.0.1.11" } else { "2001:db8::1" }, port.into());
        for step in steps {
            let of = |model: &Model, at: u8| model.open.keys().copied().nth(usize::from(at) % model.open.len().max(1));
            match step {
                Step::Ask(port, target, how) => {
                    let target = targets[usize::from(target)];
                    let text = match how {
                        0 => format!("GET {target} HTTP/1.0\r\n"),
                        1 => format!("GET {target} HTTP/1.0\r\n\r\n"),
                        2 => format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"),
                        3 => format!("GET /status HTTP/1.1\r\nHost: a\r\n\r\nHEAD {target} HTTP/1.0\r\n\r\nGET /"),
                        4 => format!("POST {target} HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
                            Content-Length: 3\r\n\r\n{target}"),
                        _ => "\x16\x03\x01".to_owned(),
                    };
                    // The program has one connection of a key.
                    if let Some(number) = model.number(own(port)) {
                        model.notice(number, Notice::Ended(Over::Reset));
                    }
                    model.ask(own(port), &text);
                }
                Step::Next(port, target) => {
                    // A client that sends what it has no credit for is not heard.
                    let text = format!("GET {} HTTP/1.1\r\nHost: a\r\n\r\n", targets[usize::from(target)]);
                    model.more(own(port), &text);
                }
                Step::More(port) => _ = model.more(own(port), "\r\n"),
                Step::Packets(stream) => model.packets(stream.into(), 1),
                Step::Ended(at, over) => {
                    let all = [Over::Closed, Over::Reset, Over::TimedOut, Over::Lost, Over::Aborted, Over::NoFlow];
                    let number = of(&model, at);
                    number.into_iter().for_each(|number| model.notice(number, Notice::Ended(all[usize::from(over)])));
                }
                Step::Acked(at) => {
                    if let Some(number) = of(&model, at) {
                        let documents = model.open[&number].documents;
                        model.notice(number, Notice::Acked(documents));
                    }
                }
                Step::HalfClosed(at) => {
                    of(&model, at).into_iter().for_each(|number| model.notice(number, Notice::HalfClosed));
                }
                Step::SourceEnded(stream) => {
                    model.event(|proxy| proxy.source_ended(stream.into(), refusal::NO_SERVER));
                }
                Step::Server(at, what) => {
                    let Some(number) = of(&model, at) else { continue };
                    let generation = model.open[&number].generation;
                    if !model.server.contains_key(&number) {
                        continue;
                    }
                    model.event(|proxy| match what {
                        0 => proxy.server_says(number, generation, &[b'x'; 16384]),
                        1 => proxy.server_says(number, generation, b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"),
                        2 => proxy.server_says(number, generation, b"HTTP/1.1 200 OK\r\n\r\nabc"),
                        3 => proxy.server_says(number, generation, b"HTTP/1.1 101 OK\r\n\r\nabc"),
                        4 => proxy.server_says(number, generation, b"HTTP/1.1 100 OK\r\n\r\nHTTP/1.1 200"),
                        5 => proxy.server_took(number, generation, 0),
                        6 | 7 => proxy.server_ended(number, generation, Ok(())),
                        _ => proxy.server_ended(number, generation, Err("x".into())),
                    });
                }
                Step::Wait(ms) => model.wait(Duration::from_millis(ms.into())),
                Step::Kick(at) => {
                    if let Some(number) = of(&model, at) {
                        let generation = model.open[&number].generation;
                        model.event(|proxy| proxy.kick(generation));
                    }
                }
            }
            prop_assert!(model.streams.len() <= 3);
        }
        let all: Vec<u32> = model.open.keys().copied().collect();
        all.into_iter().for_each(|number| model.notice(number, Notice::Ended(Over::Closed)));
        model.wait(Duration::from_secs(60));
        // Requests that were late are answered by then.
        let all: Vec<u32> = model.open.keys().copied().collect();
        all.into_iter().for_each(|number| model.notice(number, Notice::Ended(Over::Closed)));
        model.wait(Duration::from_secs(60));
        prop_assert_eq!(model.proxy.sizes(), (0, 0, 0));
        prop_assert!(model.streams.is_empty() && model.open.is_empty());
        // Nobody is counted any more.
        for port in 0..10u16 {
            prop_assert!(model.ask(key("10.0.1.11", 1000 + port), "GET /status HTTP/1.0\r\n\r\n").is_some());
            let number = model.number(key("10.0.1.11", 1000 + port)).unwrap();
            prop_assert_eq!(model.answered(number).0, 200);
        }
    }
}

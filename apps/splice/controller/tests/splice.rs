//! The splicer, its program and its controller together, against a small model: whatever the network does to packets,
//! both sides see what the other has sent.

#[path = "../../../../tests/support/compile.rs"]
mod common;
#[path = "splice/edges.rs"]
mod edges;
#[path = "splice/metrics.rs"]
mod metrics;
#[path = "splice/path.rs"]
mod path;
#[path = "splice/plan.rs"]
mod plan;
#[path = "splice/removal.rs"]
mod removal;
#[path = "splice/router.rs"]
mod router;
#[path = "splice/setup.rs"]
mod setup;
#[path = "splice/tcp.rs"]
mod tcp;
#[path = "splice/world.rs"]
mod world;

use std::net::Ipv4Addr;
use std::sync::Arc;

use control::config::Config;
use proptest::prelude::*;
use splice::SpliceApplication;
use splice::admin::sessions::Filter;
use splice::cluster::Cluster;
use wire::flow_key::FlowKey;
use wire::segment::TcpOptions;

use metrics::{metric, total};
use plan::{Exchange, Hosts, Routers};
use tcp::Listener;
use world::World;

fn options() -> impl Strategy<Value = TcpOptions> {
    (
        prop::sample::select(vec![536u16, 1220, 1380, 1460]),
        prop::option::of(prop::sample::select(vec![0u8, 2, 7, 14])),
        any::<bool>(),
        prop::option::of(any::<u32>().prop_map(|start| (start, 0))),
    )
        .prop_map(|(mss, scale, sack, times)| TcpOptions {
            mss: Some(mss),
            scale,
            sack,
            times,
            ..TcpOptions::default()
        })
}

fn hosts() -> impl Strategy<Value = Hosts> {
    // Numbers that wrap around within the exchange, and others.
    let first = prop_oneof![any::<u32>(), (u32::MAX - 3000)..=u32::MAX];
    let mtu = prop::sample::select(vec![1500usize, 1500, 1300, 600]);
    let quote = prop::sample::select(vec![8usize, 19, 20, 2000]);
    let routers =
        (mtu.clone(), mtu, quote).prop_map(|(clients, servers, quote)| Routers { mtu: [clients, servers], quote });
    let room = prop::sample::select(vec![
        (40_000, None),
        (65_535, None),
        (64_240, None),
        (9000, None),
        (9000, Some(700)),
        (2000, Some(600)),
    ]);
    (options(), options(), first.clone(), first, any::<(bool, bool, bool)>(), routers, room).prop_map(
        |(client, server, client_first, server_first, (pipelined, curt, blank), routers, room)| Hosts {
            client,
            server,
            client_first,
            server_first,
            pipelined,
            routers,
            fragments: None,
            blank,
            settings: "",
            curt,
            room,
        },
    )
}

fn exchange() -> impl Strategy<Value = Exchange> {
    let length = prop::sample::select(vec![0usize, 1, 500, 1500, 4000, 15000]);
    (any::<bool>(), any::<bool>(), length.clone(), length, any::<bool>())
        .prop_map(|(second, post, up, down, chunked)| Exchange { second, post, up, down, chunked, last: false })
}

/// Some, the last of which may ask for the end of the connection.
fn exchanges(exchange: impl Strategy<Value = Exchange>, most: usize) -> impl Strategy<Value = Vec<Exchange>> {
    (prop::collection::vec(exchange, 1..most), any::<bool>()).prop_map(|(mut exchanges, last)| {
        exchanges.last_mut().into_iter().for_each(|own| own.last = last);
        exchanges
    })
}

/// Does to packets what `choices` say, and nothing bad after that. True once all is done, or cut by a restart.
fn run(world: &mut World, choices: &[u8]) -> bool {
    run_with(world, choices, |_, _| {})
}

/// The same with something else that happens at each step.
fn run_with(world: &mut World, choices: &[u8], mut happens: impl FnMut(&mut World, usize)) -> bool {
    world.speak();
    let mut choices = choices.iter();
    for step in 0..3000 {
        happens(world, step);
        let choice = choices.next();
        let from = usize::from(choice.map_or(0, |choice| choice & 3));
        if choice.is_none() && world.is_down() {
            world.kill_or_start();
        }
        let path = (0..4).map(|path| (path + from) % 4).find(|path| world.queued(*path) > 0);
        match (path, choice.map(|choice| choice >> 2)) {
            (None, _) => world.wait(60_000_000),
            (Some(path), Some(0..=5)) => world.drop_one(path),
            (Some(path), Some(6..=9)) => world.double(path),
            (Some(path), Some(10..=16)) => world.put_back(path),
            (Some(_), Some(17..=19)) => world.wait(30_000_000),
            (Some(_), Some(20)) => world.kill_or_start(),
            (Some(path), Some(22..=24)) => world.damage(path),
            (Some(_), Some(25..=28)) => world.wait(700_000),
            (Some(_), Some(29..=31)) => world.busy = 4,
            (Some(path), _) => world.deliver(path),
        }
        if world.client.received.len() >= world.expected().len() && world.client.peer_closed {
            world.finished_early |= choice.is_some();
            if choice.is_none() {
                return true;
            }
        }
        if world.client.was_reset && world.lost > 0 {
            return true;
        }
        // What is not read any more ends with the server's connection.
        if (world.client.peer_closed || world.client.was_reset) && world.closes_early() {
            return true;
        }
        assert!(!world.client.was_reset, "the client was reset");
    }
    false
}

/// More settings of pools.
fn settings() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "",
        "reuse = \"never\"",
        "reuse = \"always\"",
        "reuse = \"always\"\npreconnect = 2",
        "addressing = \"transparent\"",
    ])
}

/// A client that comes after another one.
#[derive(Clone, Debug)]
struct Next {
    /// Its options, or those of the one before with another clock.
    options: Option<TcpOptions>,
    clock: u32,
    first: u32,
    exchanges: Vec<Exchange>,
    choices: Vec<u8>,
    /// How long that is after the one before, in seconds.
    pause: u64,
}

fn next_client(exchange: impl Strategy<Value = Exchange>) -> impl Strategy<Value = Next> {
    let exchanges = exchanges(exchange, 4);
    let choices = prop::collection::vec(any::<u8>(), 0..150);
    (prop::option::of(options()), any::<u32>(), any::<u32>(), exchanges, choices, 0u64..20).prop_map(
        |(options, clock, first, exchanges, choices, pause)| Next { options, clock, first, exchanges, choices, pause },
    )
}

fn ask(world: &mut World, choices: &[u8]) -> Result<(), TestCaseError> {
    let done = run(world, choices);
    let expected = world.expected();
    let received = &world.client.received;
    prop_assert!(expected.starts_with(received), "{:?}", String::from_utf8_lossy(received));
    prop_assert!(
        done,
        "{} of {} bytes came; {} requests were answered",
        received.len(),
        expected.len(),
        world.answered
    );
    Ok(())
}

/// Clients, one after the other.
fn ask_again(world: &mut World, hosts: &Hosts, clients: Vec<Next>, close: Option<bool>) -> Result<(), TestCaseError> {
    for next in clients {
        for _ in 0..next.pause * 4 {
            world.settle();
            world.wait(250_000_000);
            world.settle();
        }
        if let Some(stray) = close {
            world.close_servers(stray);
        }
        let same = TcpOptions { times: hosts.client.times.map(|_| (next.clock, 0)), ..hosts.client };
        world.next_client(next.options.unwrap_or(same), next.first, next.exchanges);
        ask(world, &next.choices)?;
    }
    Ok(())
}

/// Lets what is still under way arrive, until all requests are counted.
fn settle(world: &mut World, requests: usize) {
    for _ in 0..2000 {
        match (0..4).find(|path| world.queued(*path) > 0) {
            Some(path) => world.deliver(path),
            None if metric(world, "service_requests", "complete") == requests as u64 => return,
            None => world.wait(60_000_000),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 100, ..ProptestConfig::default() })]

    #[test]
    fn both_sides_see_what_the_other_has_sent(
        hosts in hosts(),
        settings in settings(),
        exchanges in exchanges(exchange(), 5),
        choices in prop::collection::vec(any::<u8>(), 0..300),
        clients in prop::collection::vec(next_client(exchange()), 0..3),
    ) {
        let hosts = Hosts { settings, ..hosts };
        // What may have to be sent twice must fit into a segment.
        let fits = |own: Exchange| if hosts.curt { own.shortened() } else { own };
        let exchanges: Vec<Exchange> = exchanges.into_iter().map(fits).collect();
        let clients = clients.into_iter().map(|own| Next { exchanges: own.exchanges.into_iter().map(fits).collect(), ..own });
        let mut world = World::new(hosts.clone(), exchanges.clone());
        if world.trace {
            println!("=== {choices:?}");
        }
        ask(&mut world, &choices)?;
        // Every byte is counted once, whatever carried it.
        let count = exchanges.len();
        let asked: usize = exchanges.iter().enumerate().map(|(number, own)| own.request(number).len()).sum();
        settle(&mut world, count);
        let counted = [
            metric(&mut world, "service_requests", "complete"),
            metric(&mut world, "service_responses", "2xx"),
            metric(&mut world, "service_bytes", "up"),
            metric(&mut world, "service_bytes", "down"),
        ];
        // What is counted begins anew with each process.
        if world.crashes == 0 {
            prop_assert_eq!(counted, [count, count, asked, world.expected().len()].map(|number| number as u64));
        }
        ask_again(&mut world, &hosts, clients.collect(), None)?;
    }

    /// With servers that close just when the next client asks: no client notices.
    #[test]
    fn a_server_that_closes_is_asked_again(
        hosts in hosts(),
        choices in prop::collection::vec(any::<u8>(), 0..100),
        clients in prop::collection::vec(next_client(short()), 1..4),
        stray: bool,
        always: bool,
    ) {
        // What may not be sent twice must not have been seen by any server: that is certain where the server says
        // nothing.
        let settings = if always && !stray { "reuse = \"always\"" } else { "" };
        let hosts = Hosts { settings, curt: false, ..hosts };
        let first = Exchange { second: false, post: false, up: 0, down: 500, chunked: false, last: false };
        let mut world = World::new(hosts.clone(), vec![first]);
        if world.trace {
            println!("=== {choices:?}");
        }
        ask(&mut world, &choices)?;
        ask_again(&mut world, &hosts, clients, Some(stray))?;
    }
}

/// An exchange whose request fits into a segment, so that it may be sent twice.
fn short() -> impl Strategy<Value = Exchange> {
    (exchange(), 0usize..200).prop_map(|(own, up)| Exchange { up, ..own }.shortened())
}

/// The next client's request goes out on the connection that the one before has left, also where that is made ahead.
#[test]
fn connections_to_servers_are_used_again() {
    let plain =
        TcpOptions { mss: Some(1460), scale: Some(7), sack: true, times: Some((5, 0)), ..TcpOptions::default() };
    // How many are made by then, and how many wait for the next client at the end.
    for (settings, used, left) in
        [("", 1, 1), ("reuse = \"never\"", 4, 0), ("preconnect = 2", 0, 4), ("addressing = \"transparent\"", 4, 0)]
    {
        let hosts = Hosts { settings, ..Hosts::alike(plain, [1, 9]) };
        let exchange = Exchange { second: false, post: false, up: 0, down: 3000, chunked: false, last: false };
        let mut world = World::new(hosts, vec![exchange.clone(); 2]);
        let before = world.connections();
        assert!(run(&mut world, &[]));
        for first in [7, 1 << 31, u32::MAX] {
            world.next_client(TcpOptions { times: Some((first, 0)), ..plain }, first, vec![exchange.clone(); 2]);
            assert!(run(&mut world, &[]));
        }
        // Nothing but those that were made ahead.
        assert_eq!(world.connections() - before, used, "{settings}");
        let servers = world.splicer.query("servers", &serde_json::Value::Null).unwrap();
        let idle: u64 = servers.as_array().unwrap().iter().map(|own| own["idle"].as_u64().unwrap()).sum();
        assert_eq!(idle, left, "{settings}");
        // Each request was one server's.
        assert_eq!((total(&mut world, "server_requests"), total(&mut world, "service_retries")), (8, 0), "{settings}");
    }
}

/// What a client says of its own connection (`Connection: close`) the server is not told, whose connection stays for
/// the next client. Millrace closes with the last byte, in the same segment.
#[test]
fn a_client_that_asks_for_the_end_leaves_the_server_to_others() {
    let plain =
        TcpOptions { mss: Some(1460), scale: Some(7), sack: true, times: Some((5, 0)), ..TcpOptions::default() };
    for (settings, used, closes_told) in
        [("reuse = \"always\"", 1, 0), ("reuse = \"never\"", 4, 4), ("addressing = \"transparent\"", 4, 4)]
    {
        for (chunked, down) in [(false, 0), (false, 300), (true, 300), (false, 15000), (true, 15000)] {
            let hosts = Hosts { settings, ..Hosts::alike(plain, [1, 9]) };
            let exchange = Exchange { second: false, post: false, up: 0, down, chunked, last: true };
            let mut world = World::new(hosts, vec![exchange.clone()]);
            let before = world.connections();
            assert!(run(&mut world, &[]));
            for first in [7, 1 << 31, u32::MAX] {
                world.settle();
                world.next_client(TcpOptions { times: Some((first, 0)), ..plain }, first, vec![exchange.clone()]);
                assert!(run(&mut world, &[]));
                assert_eq!(world.client.received, world.expected());
            }
            assert_eq!((world.connections() - before, world.closes_told), (used, closes_told), "{settings} {down}");
            settle(&mut world, 4);
            assert_eq!(metric(&mut world, "service_requests", "complete"), 4, "{settings} {down}");
        }
    }
}

/// A POST that fits into a segment; see `posted_again`.
fn post() -> Exchange {
    Exchange { second: false, post: true, up: 100, down: 4000, chunked: false, last: false }
}

/// A client's request has been sent on the connection that the client before has left. Whether timestamps are used.
fn posted_again(times: bool) -> World {
    let options = TcpOptions {
        mss: Some(1460),
        scale: Some(7),
        sack: true,
        times: times.then_some((6 << 29, 0)),
        ..TcpOptions::default()
    };
    let hosts = Hosts { settings: "reuse = \"always\"", ..Hosts::alike(options, [1, 9]) };
    let mut world = World::new(hosts, vec![post()]);
    assert!(run(&mut world, &[]));
    world.settle();
    let connections = world.connections();
    // Its clock is behind.
    let options = TcpOptions { times: times.then_some((5 << 29, 0)), ..options };
    world.next_client(options, 1 << 31, vec![post()]);
    world.speak();
    // The SYN, its answer and the request.
    [0, 2, 0].into_iter().for_each(|path| world.deliver(path));
    assert_eq!((world.queued(3), world.connections()), (1, connections));
    world
}

/// The process ends when it has sent a request on a connection that was there before, and the next one does not know
/// whether the server has it. It is served once, whether the server gets it, and answers it in vain, or has closed.
#[test]
fn a_request_on_a_used_connection_outlasts_the_process() {
    for case in 0..32 {
        let [times, closed, arrives, server_first, again] = [1, 2, 4, 8, 16].map(|bit| case & bit != 0);
        let mut world = posted_again(times);
        world.kill_or_start();
        if closed {
            world.close_servers(false);
        }
        while world.queued(3) > 0 {
            if arrives { world.deliver(3) } else { world.drop_one(3) }
        }
        // What the server says is either not heard, or heard by the next process before all else.
        if server_first {
            world.kill_or_start();
        }
        for path in [1, 2] {
            while world.queued(path) > 0 {
                world.deliver(path);
            }
        }
        if !server_first {
            world.kill_or_start();
        }
        world.wait(500_000_000);
        let paths = if server_first { [1, 0] } else { [0, 1] };
        if again {
            // The next one ends as soon as it has heard the server, or the client.
            world.deliver(paths[0]);
            (0..2).for_each(|_| world.kill_or_start());
        }
        paths.into_iter().for_each(|path| world.deliver(path));
        assert!(run(&mut world, &[]), "case {case}: {} bytes came", world.client.received.len());
        assert_eq!((world.answered, world.lost, world.passthrough()), (1, 0, 0), "case {case}");
        assert_eq!(world.client.received, world.expected(), "case {case}");
    }
}

/// A process hears nothing but a reset, which has no timestamps, so the one after it must not take clocks to be known.
#[test]
fn a_clock_that_was_not_heard_is_not_known_later() {
    let mut world = posted_again(true);
    world.kill_or_start();
    world.close_servers(false);
    // The server's FIN is lost, and its answer to the request comes to the next process.
    world.drop_one(1);
    world.deliver(3);
    world.kill_or_start();
    world.deliver(1);
    (0..2).for_each(|_| world.kill_or_start());
    assert!(run(&mut world, &[]), "{} bytes came", world.client.received.len());
    assert_eq!((world.answered, world.lost), (1, 0));
}

/// A server that has taken a request which may not be sent twice, and closes: the client gets an answer, and a FIN
/// behind it.
#[test]
fn a_server_that_closes_instead_of_answering_is_no_end_of_a_response() {
    let mut world = posted_again(true);
    world.mute = true;
    for _ in 0..200 {
        world.settle();
        world.wait(60_000_000);
    }
    let received = String::from_utf8_lossy(&world.client.received);
    assert!(received.starts_with("HTTP/1.1 503 ") && world.client.peer_closed, "{received:?}");
    assert_eq!(world.answered, 1);
}

/// A server closes behind a response in chunks, and its FIN overtakes some of it: the client's next request is answered
/// all the same.
#[test]
fn a_fin_that_overtakes_a_response_does_not_end_the_client() {
    let plain = TcpOptions { mss: Some(536), scale: Some(7), sack: true, times: None, ..TcpOptions::default() };
    for late in 0..12 {
        let settings = "reuse = \"always\"";
        let hosts = Hosts { pipelined: true, curt: true, settings, ..Hosts::alike(plain, [1, 9]) };
        let exchange = Exchange { second: false, post: false, up: 0, down: 1500, chunked: true, last: false };
        let mut world = World::new(hosts, vec![exchange; 3]);
        // One packet of the servers' after the other is put behind those that are under way.
        let choices: Vec<u8> = (0..40).map(|at| if at % 12 == late { LATE | 1 } else { ARRIVES }).collect();
        assert!(run(&mut world, &choices), "{late}: {} bytes came", world.client.received.len());
        assert_eq!(world.client.received, world.expected(), "{late}");
    }
}

/// A client that has an old duplicate of what it has sent under way, with numbers that would be the next request's: it
/// is no request (RFC 7323 section 5.3).
#[test]
fn an_old_duplicate_is_no_request() {
    let plain =
        TcpOptions { mss: Some(1460), scale: Some(7), sack: true, times: Some((5, 0)), ..TcpOptions::default() };
    for settings in ["", "reuse = \"never\""] {
        let exchange = Exchange { second: false, post: false, up: 0, down: 3000, chunked: false, last: false };
        let mut world = World::new(Hosts { settings, ..Hosts::alike(plain, [1, 9]) }, vec![exchange.clone(); 2]);
        world.patient = true;
        world.speak();
        for _ in 0..20 {
            world.settle();
            world.wait(60_000_000);
        }
        assert_eq!(world.client.received.len() * 2, world.expected().len());
        for _ in 0..3 {
            world.old_duplicate(b"what was asked once\r\n", 3000);
            world.settle();
        }
        assert_eq!((world.client.received.len() * 2, world.answered), (world.expected().len(), 1), "{settings}");
        world.patient = false;
        assert!(run(&mut world, &[]), "{settings}: {} bytes came", world.client.received.len());
        assert_eq!(world.client.received, world.expected(), "{settings}");
    }
}

/// A client that has less room than the one before, and a server that was told of more on the same connection: nothing
/// comes that there is no room for, however much the server may have under way.
#[test]
fn a_server_is_told_of_no_more_room_than_the_present_client_has() {
    let plain =
        TcpOptions { mss: Some(1460), scale: Some(7), sack: true, times: Some((5, 0)), ..TcpOptions::default() };
    for (settings, scale) in [
        ("preconnect = 2", Some(7)),
        ("", Some(7)),
        ("preconnect = 2", Some(2)),
        ("", Some(2)),
        ("preconnect = 2", None),
    ] {
        let exchange = Exchange { second: false, post: false, up: 0, down: 100_000, chunked: false, last: false };
        let mut world =
            World::new(Hosts { settings, room: (65_535, None), ..Hosts::alike(plain, [1, 9]) }, vec![exchange.clone()]);
        assert!(run(&mut world, &[]));
        for room in [40_000, 4_000, 9_999] {
            world.settle();
            world.set_room((room, None));
            world.next_client(TcpOptions { scale, ..plain }, room, vec![exchange.clone()]);
            // The first segment of the response is lost, so that the window stays where it was while all else comes.
            world.speak();
            while world.queued(2) < 3 {
                world.deliver([0, 1, 3].into_iter().find(|path| world.queued(*path) > 0).unwrap_or(2));
            }
            // Behind the acknowledgement of the request.
            world.deliver(2);
            world.drop_one(2);
            assert!(run(&mut world, &[]), "{settings} {room}: {} bytes came", world.client.received.len());
            assert_eq!(world.client.received, world.expected());
        }
    }
}

/// A client that reads slowly, and has hardly any room, gets everything at its own pace: each time it reads, more
/// comes.
#[test]
fn a_slow_reader_gets_all() {
    let plain = TcpOptions { mss: Some(1460), sack: true, times: Some((5, 0)), ..TcpOptions::default() };
    for (settings, scale) in [("", None), ("preconnect = 2", Some(0)), ("reuse = \"always\"", Some(7))] {
        let exchange = Exchange { second: false, post: false, up: 0, down: 30_000, chunked: false, last: false };
        let hosts = Hosts { settings, ..Hosts::alike(TcpOptions { scale, ..plain }, [1, 9]) };
        let mut world = World::new(hosts, vec![Exchange { down: 1000, ..exchange.clone() }]);
        assert!(run(&mut world, &[]));
        for room in [1152, 600] {
            world.settle();
            world.set_room((room, Some(300)));
            world.next_client(TcpOptions { scale: scale.and(Some(0)), ..plain }, room, vec![exchange.clone()]);
            let start = world.now_ms();
            assert!(run(&mut world, &[]), "{settings} {room}: {} bytes came", world.client.received.len());
            // It reads 300 bytes each 60 ms, so that it takes 6 s of the model's time at least.
            let took = world.now_ms() - start;
            assert!(took < 9000, "{settings} {room}: {took} ms");
            assert_eq!(world.client.received, world.expected());
        }
    }
}

/// A server closes behind a response, and says so again before the client has acknowledged all of it: what the client
/// has asked next is answered all the same.
#[test]
fn a_fin_that_comes_again_does_not_end_the_client() {
    let plain = TcpOptions { mss: Some(1460), scale: Some(7), sack: true, times: None, ..TcpOptions::default() };
    for early in 0..40 {
        let hosts = Hosts { pipelined: true, curt: true, ..Hosts::alike(plain, [1, 9]) };
        let exchange = Exchange { second: false, post: false, up: 0, down: 4000, chunked: false, last: false };
        let mut world = World::new(hosts, vec![exchange; 3]);
        let mut choices = vec![ARRIVES; early];
        // What the client says is under way for long.
        choices.extend([WAITS; 15]);
        choices.extend([ARRIVES | 1; 10]);
        assert!(run(&mut world, &choices), "{early}: {} bytes came", world.client.received.len());
        assert_eq!(world.client.received, world.expected(), "{early}");
    }
}

/// A server whose queue of connections is full throws away what ends a handshake, whether it has kept the SYN or
/// answered it with a cookie. The request stands still for no longer than it takes to send it again, though the client
/// does so, too, and sends more of it meanwhile; and the server reads the negotiated options out of nothing else.
/// Behind another server, too, whose clock the client echoes.
#[test]
fn a_server_that_has_no_room_for_a_while_is_sent_the_request_again() {
    for case in 0..32 {
        let [cookies, times, post, follows, late] = [1, 2, 4, 8, 16].map(|bit| case & bit != 0);
        for full in [1, 3] {
            let times = times.then_some((u32::MAX - 5000, 0));
            let plain = TcpOptions { mss: Some(1460), scale: Some(7), sack: true, times, ..TcpOptions::default() };
            let hosts = Hosts { settings: "reuse = \"never\"", ..Hosts::alike(plain, [1, 9]) };
            let up = if post { 60_000 } else { 0 };
            let exchange = |second| Exchange { second, post, up, down: 20_000, chunked: false, last: false };
            let mut world =
                World::new(hosts, if follows { vec![exchange(true), exchange(false)] } else { vec![exchange(false)] });
            world.listener = Listener { full, cookies };
            let begin = world.now();
            // What the client has sent more than the head comes when the server is asked already.
            let choices = if late { vec![ARRIVES, ARRIVES, ARRIVES | 1, ARRIVES | 3, ARRIVES | 1] } else { Vec::new() };
            assert!(run(&mut world, &choices), "case {case}, {full}: {} bytes came", world.client.received.len());
            assert_eq!(world.client.received, world.expected(), "case {case}, {full}");
            // Pauses double from 300 ms on, for each server anew.
            let seconds = (world.now() - begin) / 1_000_000_000;
            let most = ((1 << full) - 1) * 3 / 10 * if follows { 2 } else { 1 } + 3;
            assert!(seconds <= most, "case {case}, {full}: it took {seconds} s");
        }
    }
}

/// A server closes the connection when a part of a long request is still to come: the client takes the answer that says
/// so, for it acknowledges nothing that was not sent.
#[test]
fn an_own_answer_acknowledges_what_has_come() {
    for chunked in [false, true] {
        let plain =
            TcpOptions { mss: Some(536), scale: Some(7), sack: true, times: Some((5, 0)), ..TcpOptions::default() };
        let hosts = Hosts { settings: "reuse = \"never\"", ..Hosts::alike(plain, [1, 9]) };
        let exchange = Exchange { second: false, post: true, up: 60_000, down: 20, chunked, last: false };
        let mut world = World::new(hosts, vec![exchange]);
        world.speak();
        // The server has a connection, and closes it as soon as the head of the request has come.
        let connections = world.connections();
        while world.connections() == connections || world.queued(3) == 0 {
            match (0..4).find(|path| world.queued(*path) > 0) {
                Some(path) => world.deliver(path),
                None => world.wait(1_000_000),
            }
        }
        world.deliver(3);
        world.close_all();
        for _ in 0..100 {
            world.settle();
            world.wait(60_000_000);
        }
        let received = String::from_utf8_lossy(&world.client.received);
        assert!(received.starts_with("HTTP/1.1 503 ") && world.client.peer_closed, "{chunked}: {received:?}");
    }
}

/// The acknowledgements of a client that has sent more requests than one pass by the controller, all of them.
#[test]
fn a_client_that_waits_for_more_acknowledges_selectively() {
    let plain = TcpOptions { mss: Some(536), scale: Some(7), sack: true, times: Some((5, 0)), ..TcpOptions::default() };
    let exchange = Exchange { second: false, post: false, up: 0, down: 4000, chunked: false, last: false };
    let mut world = World::new(Hosts { pipelined: true, ..Hosts::alike(plain, [1, 9]) }, vec![exchange; 2]);
    // The client gets what is under way to it last: so the response's segments gather, and the second one is lost.
    world.speak();
    while world.queued(2) < 3 {
        world.deliver([0, 1, 3].into_iter().find(|path| world.queued(*path) > 0).unwrap_or(2));
    }
    world.deliver(2);
    world.drop_one(2);
    assert!(run(&mut world, &[]));
    assert_eq!(world.client.received, world.expected());
    assert!(world.sacked() > 0);
}

/// A connection that was there before has ended just when the request was sent: it is sent once more, which counts
/// once.
#[test]
fn a_request_that_is_sent_once_more_is_one_retry() {
    let mut world = posted_again(true);
    let before = total(&mut world, "server_requests");
    world.close_servers(false);
    assert!(run(&mut world, &[]), "{} bytes came", world.client.received.len());
    // It was counted when it was sent first.
    assert_eq!((total(&mut world, "server_requests") - before, total(&mut world, "service_retries")), (1, 1));
}

/// Both sides have closed, which the controller sees when it looks. It does so however often a query asks about the
/// connection.
#[test]
fn who_asks_about_connections_does_not_keep_them() {
    let plain = TcpOptions { mss: Some(1460), scale: Some(7), sack: true, times: None, ..TcpOptions::default() };
    let hosts = Hosts { settings: "reuse = \"never\"", ..Hosts::alike(plain, [1; 2]) };
    let mut world =
        World::new(hosts, vec![Exchange { second: false, up: 0, down: 20, chunked: false, post: false, last: false }]);
    assert!(run(&mut world, &[]));
    for _ in 0..300 {
        world.settle();
        world.splicer.sessions(&Filter::default());
        world.wait(100_000_000);
    }
    let left = world.splicer.sessions(&Filter::default());
    assert!(left.sessions.is_empty(), "{left:?}");
}

/// What operators have said about servers the next process knows; one that is not in its configuration is as if nothing
/// had been said.
#[test]
fn what_operators_say_outlasts_the_process() {
    let plain = TcpOptions { mss: Some(1460), scale: Some(7), sack: true, times: None, ..TcpOptions::default() };
    let exchange = Exchange { second: false, post: false, up: 0, down: 20, chunked: false, last: false };
    let mut world = World::new(Hosts::alike(plain, [1; 2]), vec![exchange]);
    let set_admin_state = |world: &mut World, server: &str, state: &str| {
        let change = serde_json::json!({ "server": server, "state": state });
        world.splicer.query("server", &change).unwrap();
    };
    let said = |world: &mut World| {
        let servers = world.splicer.query("servers", &serde_json::Value::Null).unwrap();
        let is_ready = |own: &&serde_json::Value| own["admin"] == "ready";
        let text =
            |own: &serde_json::Value| format!("{} {} {}", own["pool"], own["name"], own["admin"]).replace('"', "");
        let servers = servers.as_array().unwrap().iter();
        servers.filter(|own| !is_ready(own)).map(text).collect::<Vec<_>>()
    };
    let restart = |world: &mut World| {
        world.kill_or_start();
        world.kill_or_start();
    };
    set_admin_state(&mut world, "web/a", "drain");
    set_admin_state(&mut world, "images/b", "down");
    restart(&mut world);
    assert_eq!(said(&mut world), ["images b down", "web a drain"]);
    set_admin_state(&mut world, "web/a", "ready");
    restart(&mut world);
    assert_eq!(said(&mut world), ["images b down"]);
    let mut settings = (*world.splicer.cluster.settings).clone();
    settings.pools.iter_mut().for_each(|pool| Arc::make_mut(pool).name += "2");
    world.splicer.cluster.settings = Arc::new(settings);
    restart(&mut world);
    assert_eq!(said(&mut world), [""; 0]);
}

/// What a choice stands for; see `run`. The lowest two bits say where packets are looked for first.
const LOSS: u8 = 0;
const DOUBLE: u8 = 6 << 2;
const LATE: u8 = 10 << 2;
const WAITS: u8 = 17 << 2;
const CRASH: u8 = 20 << 2;
const ARRIVES: u8 = 21 << 2;

/// A short exchange from SYN to FIN with two servers, with each packet in turn lost, doubled or late, or with the
/// process gone from then on for some packets; and with as many such faults as `SPLICE_FAULTS` says, one otherwise, at
/// all places.
#[test]
fn any_fault_of_a_short_exchange_is_made_good() {
    let most = std::env::var("SPLICE_FAULTS").map_or(1, |text| text.parse().expect("SPLICE_FAULTS is a number"));
    let mut tried = 0;
    try_faults(&mut Vec::new(), most, &mut tried);
    println!("{tried} exchanges");
}

/// Tries what comes behind these choices. Whether the exchange took longer than they did.
fn try_faults(choices: &mut Vec<u8>, faults: usize, tried: &mut u64) -> bool {
    let plain = TcpOptions {
        mss: Some(1460),
        scale: Some(7),
        sack: true,
        times: Some((u32::MAX - 5000, 0)),
        ..TcpOptions::default()
    };
    let hosts = Hosts::alike(plain, [u32::MAX - 60; 2]);
    let exchange = |second| Exchange { second, up: 0, down: 20, chunked: second, post: false, last: second };
    let mut world = World::new(hosts, vec![exchange(false), exchange(true)]);
    if world.trace {
        println!("=== {choices:?}");
    }
    let done = run(&mut world, choices);
    *tried += 1;
    assert!(done && world.lost == 0 && world.passthrough() == 0, "{choices:?}");
    assert_eq!(world.client.received, world.expected(), "{choices:?}");
    let goes_on = !world.finished_early;
    if goes_on && faults > 0 {
        let length = choices.len();
        loop {
            for fault in [LOSS, LOSS | 3, DOUBLE, DOUBLE | 3, LATE, LATE | 3, CRASH] {
                let place = choices.len();
                choices.push(fault);
                // Gone for as long as it takes a few packets to arrive.
                choices.extend((0..if fault == CRASH { 4 } else { 0 }).map(|_| ARRIVES));
                try_faults(choices, faults - 1, tried);
                choices.truncate(place);
            }
            choices.push(ARRIVES);
            if !try_faults(choices, 0, tried) {
                break;
            }
        }
        choices.truncate(length);
    }
    goes_on
}

/// The example with a line of its text replaced.
fn configured(from: &str, to: &str) -> Result<Config, String> {
    let text = include_str!("../../splice.toml");
    assert!(text.contains(from), "{from}");
    Config::parse("t.toml", &text.replacen(from, to, 1), &world::program(), world::SPLICE)
        .map_err(|errors| format!("{errors:?}"))
}

#[test]
fn settings_that_mean_nothing_are_refused() {
    let pool = "[controllers.splice.pools.web]\n";
    let limits = "[controllers.splice.limits]\n";
    let servers = "[controllers.splice.interfaces.servers]\n";
    for (table, line, why) in [
        (pool, "addressing = \"nat\"", "full_nat"),
        (pool, "reuse = \"sometimes\"", "always"),
        (pool, "preconnect = 257", "256"),
        (pool, "preconnect = 1\naddressing = \"transparent\"", "no request could use such connections"),
        (pool, "preconnect = 1\nreuse = \"never\"", "no request could use such connections"),
        (limits, "when_full = \"wait\"", "oldest_idle"),
        (limits, "request_body = -1", "request_body"),
        (servers, "ports = \"2000-1000\"", "1024-65535"),
        (servers, "ports = \"0-1000\"", "1024-65535"),
        (servers, "ports = \"1000\"", "1024-65535"),
    ] {
        let problem = configured(table, &format!("{table}{line}\n")).map(|_| ()).unwrap_err();
        assert!(problem.contains(why), "{line}: {problem}");
    }
}

fn cluster(from: &str, to: &str) -> Cluster {
    let config = configured(from, to).unwrap();
    Cluster::new(config.settings::<SpliceApplication>().unwrap(), 0)
}

#[test]
fn own_ports_and_addresses_come_by_turns() {
    let own = "addresses = [\"10.0.2.254/24\"";
    let mut cluster = cluster(own, "ports = \"2000-2002\"\naddresses = [\"10.0.2.254/24\", \"10.0.2.253/24\"");
    let mut used: Vec<_> = (0..6).map(|_| cluster.flow_key(0, None, |_| true).unwrap()).collect();
    // The seventh is the first again.
    assert_eq!(cluster.flow_key(0, None, |_| true), Some(used[0]));
    // Those that are in use are passed over; where all are, there is none.
    assert_eq!(cluster.flow_key(0, None, |flow_key| *flow_key == used[4]), Some(used[4]));
    assert_eq!(cluster.flow_key(0, None, |_| false), None);
    used.sort_by_key(|flow_key| (flow_key.dst, flow_key.dst_port));
    used.dedup();
    let found: Vec<_> =
        used.iter().map(|flow_key| (flow_key.dst.to_ipv4_mapped().unwrap().octets()[3], flow_key.dst_port)).collect();
    assert_eq!(found, [(253, 2000), (253, 2001), (253, 2002), (254, 2000), (254, 2001), (254, 2002)]);
}

#[test]
fn servers_see_clients_that_they_reach_by_way_of_millrace() {
    let pool = "[controllers.splice.pools.web]\n";
    let mut cluster = cluster(pool, &format!("{pool}addressing = \"transparent\"\n"));
    let web = cluster.servers.iter().position(|own| own.pool.name == "web").unwrap();
    let client = |last: [u8; 2], src_port| FlowKey {
        src: Ipv4Addr::new(10, 0, last[0], last[1]).to_ipv6_mapped(),
        dst: Ipv4Addr::new(10, 0, 1, 80).to_ipv6_mapped(),
        src_port,
        dst_port: 80,
    };
    let far = client([1, 11], 5000);
    assert_eq!(cluster.seen(web, &far), Some((far.src, 5000)));
    assert_eq!(cluster.seen(web, &client([2, 11], 5000)), None, "the server itself, or its neighbour");
    let seen = cluster.seen(web, &far);
    let flow_key = cluster.flow_key(web, seen, |_| true).unwrap();
    assert_eq!((flow_key.dst, flow_key.dst_port), (far.src, 5000));
    // Another port where that one is in use.
    let other = cluster.flow_key(web, seen, |flow_key| flow_key.dst_port != 5000).unwrap();
    assert_eq!(other.dst, far.src);
}

//! The splicer, its program and its controller together, against a small model: whatever the network does to packets,
//! both sides see what the other has sent.

#[path = "../../../../tests/support/compile.rs"]
mod common;
#[path = "splice/configured.rs"]
mod configured;
#[path = "splice/crashes.rs"]
mod crashes;
#[path = "splice/edges.rs"]
mod edges;
#[path = "splice/faults.rs"]
mod faults;
#[path = "splice/metrics.rs"]
mod metrics;
#[path = "splice/path.rs"]
mod path;
#[path = "splice/plan.rs"]
mod plan;
#[path = "splice/removal.rs"]
mod removal;
#[path = "splice/reuse.rs"]
mod reuse;
#[path = "splice/router.rs"]
mod router;
#[path = "splice/run.rs"]
mod run;
#[path = "splice/setup.rs"]
mod setup;
#[path = "splice/tcp.rs"]
mod tcp;
#[path = "splice/world.rs"]
mod world;

use std::sync::Arc;

use proptest::prelude::*;
use splice::admin::sessions::Filter;
use wire::segment::TcpOptions;

use metrics::{metric, total};
use plan::{Exchange, Hosts};
use reuse::posted_again;
use run::{
    ARRIVES, LATE, Next, WAITS, ask, ask_again, exchange, exchanges, hosts, next_client, run, settings, settle, short,
};
use tcp::Listener;
use world::World;

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

/// A segment of a request in chunks is lost: what comes behind it is kept, so that the client need not send more than
/// this one again, and knows it where it can.
#[test]
fn one_lost_segment_of_an_upload_is_sent_once_more_alone() {
    for sack in [false, true] {
        let plain = TcpOptions { mss: Some(1460), scale: Some(7), sack, times: Some((5, 0)), ..TcpOptions::default() };
        let exchange = Exchange { second: false, post: true, up: 40_000, down: 20, chunked: true, last: false };
        let mut world = World::new(Hosts::alike(plain, [1, 9]), vec![exchange]);
        world.speak();
        // The client is told that the server has the first segment, and has more under way.
        for _ in 0..2 {
            while let Some(path) = [1, 3, 0].into_iter().find(|path| world.queued(2) == 0 && world.queued(*path) > 0) {
                world.deliver(path);
            }
            while world.queued(2) == 0 {
                world.wait(1_000_000);
            }
            world.deliver(2);
        }
        assert!(world.queued(0) > 5);
        world.drop_one(0);
        world.settle();
        assert!(!world.client.is_acknowledged());
        assert_eq!(world.client.sacked > 0, sack, "selective acknowledgements");
        while world.queued(0) == 0 {
            world.wait(10_000_000);
        }
        while world.queued(0) > 1 {
            world.drop_last(0);
        }
        world.settle();
        assert_eq!(world.client.received, world.expected());
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

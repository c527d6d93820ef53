//! Connections to servers that serve one client after the other.

use wire::segment::TcpOptions;

use super::metrics::{metric, total};
use super::plan::{Exchange, Hosts};
use super::run::{run, settle};
use super::world::World;

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

/// Where the response comes in one segment, and says that the request has come, the controller gets the request and
/// nothing else: the data path closes with the client. It finds that out when it looks.
#[test]
fn the_data_path_closes_with_a_client() {
    let plain =
        TcpOptions { mss: Some(1460), scale: Some(7), sack: true, times: Some((5, 0)), ..TcpOptions::default() };
    for times in [false, true] {
        let options = TcpOptions { times: plain.times.filter(|_| times), ..plain };
        let exchange = Exchange { second: false, post: false, up: 0, down: 300, chunked: false, last: true };
        let mut world = World::new(
            Hosts { settings: "reuse = \"always\"", ..Hosts::alike(options, [1, 9]) },
            vec![exchange.clone()],
        );
        assert!(run(&mut world, &[]));
        world.settle();
        let connections = world.connections();
        for number in 2..6 {
            let times = options.times.map(|_| (number << 29, 0));
            world.next_client(TcpOptions { times, ..options }, number << 30, vec![exchange.clone()]);
            let punts = world.punts();
            world.speak();
            while let Some(path) = (0..4).find(|path| world.queued(*path) > 0) {
                if path == 1 && world.is_bare(path) { world.drop_one(path) } else { world.deliver(path) }
            }
            assert_eq!(world.client.received, world.expected());
            assert!(world.client.peer_closed && world.client.is_closed(), "its FIN is answered");
            assert_eq!(world.punts() - punts, 1);
            // The server has got no acknowledgement yet, but with the next request.
            settle(&mut world, number as usize);
            assert_eq!((world.connections(), world.splicer.len()), (connections, 0));
        }
        assert_eq!(metric(&mut world, "service_requests", "complete"), 5);
    }
}

/// A POST that fits into a segment; see `posted_again`.
fn post() -> Exchange {
    Exchange { second: false, post: true, up: 100, down: 4000, chunked: false, last: false }
}

/// A client's request has been sent on the connection that the client before has left. Whether timestamps are used.
pub fn posted_again(times: bool) -> World {
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

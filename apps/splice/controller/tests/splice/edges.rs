//! Edge cases: empty lines between requests, datagrams in fragments, strangers on the link, connections that operators
//! end, and the numbers that Millrace's own connections begin at.

use std::net::Ipv4Addr;

use wire::isn::initial;
use wire::segment::{RST, Segment, TcpOptions};

use super::metrics::{metric, total};
use super::plan::{Exchange, Hosts};
use super::run::{run, settle};
use super::setup::Setup;
use super::world::World;

/// An empty line behind a request, as old browsers send it behind a POST, belongs to no request: it is acknowledged,
/// the server does not get it, and the next request goes out as it would without.
#[test]
fn an_empty_line_in_front_of_a_request_is_passed_over() {
    let plain =
        TcpOptions { mss: Some(1460), scale: Some(7), sack: true, times: Some((5, 0)), ..TcpOptions::default() };
    for settings in ["", "reuse = \"never\"", "addressing = \"transparent\""] {
        for pipelined in [false, true] {
            let hosts = Hosts { settings, blank: true, pipelined, ..Hosts::alike(plain, [1, u32::MAX - 900]) };
            let exchange =
                |post: bool| Exchange { second: !post, post, up: 700, down: 3000, chunked: post, last: false };
            let mut world = World::new(hosts, [true, true, false, false, true].map(exchange).to_vec());
            assert!(run(&mut world, &[]), "{settings} {pipelined}");
            assert_eq!(world.client.received, world.expected());
            settle(&mut world, 5);
            assert_eq!(
                (total(&mut world, "service_answers"), metric(&mut world, "service_requests", "complete")),
                (0, 5)
            );
        }
    }
}

/// For 5 s nothing reaches Millrace. Then the first server's response comes again, with a clock that is later by as
/// much than what the client echoes, and passes unseen; behind it comes the client's next request, which is the other
/// server's. The client sees that one's clock go on, not back, and each server an echo of its own past. So does the
/// next process, which has not seen the first server's clock at all.
#[test]
fn a_server_s_clock_goes_on_from_what_passed_of_the_one_before() {
    for case in 0..8 {
        let [crash, blank, posts] = [1, 2, 4].map(|bit| case & bit != 0);
        let plain =
            TcpOptions { mss: Some(1460), scale: Some(7), sack: true, times: Some((5, 0)), ..TcpOptions::default() };
        let exchange = |second| Exchange { second, post: posts, up: 2, down: 20, chunked: false, last: false };
        let mut world = World::new(
            Hosts { settings: "reuse = \"never\"", blank, ..Hosts::alike(plain, [1, 9]) },
            vec![exchange(true), exchange(false)],
        );
        world.speak();
        while world.client.received.is_empty() {
            match (0..4).find(|path| world.queued(*path) > 0) {
                Some(path) => world.deliver(path),
                None => world.wait(1_000_000),
            }
        }
        for _ in 0..13 {
            for path in [0, 1, 3] {
                (0..world.queued(path)).for_each(|_| world.drop_one(path));
            }
            world.wait(400_000_000);
        }
        if crash {
            (0..2).for_each(|_| world.kill_or_start());
        }
        // The response comes again, then the request. What the client is to get is under way until the other server has
        // the request.
        for path in [1, 0] {
            (0..world.queued(path)).for_each(|_| world.deliver(path));
        }
        assert!(world.queued(2) > 0);
        for _ in 0..100 {
            for path in [3, 1, 3, 1] {
                (0..world.queued(path)).for_each(|_| world.deliver(path));
            }
            if world.answered < 2 {
                world.wait(20_000_000);
            }
        }
        assert_eq!(world.answered, 2, "case {case}");
        assert!(run(&mut world, &[]), "case {case}: {} bytes came", world.client.received.len());
        assert_eq!(world.client.received, world.expected(), "case {case}");
    }
}

/// A client sends two requests, and the first goes to a server that has closed just then, or resets the connection
/// before it has taken the request: it is sent once more, and the second goes where it belongs.
#[test]
fn what_comes_behind_a_request_that_is_sent_once_more_is_routed() {
    let plain = TcpOptions { mss: Some(1460), scale: Some(7), sack: true, ..TcpOptions::default() };
    let exchange = |second| Exchange { second, post: false, up: 0, down: 2000, chunked: false, last: false };
    let images = Ipv4Addr::new(10, 0, 2, 12);
    for pipelined in [false, true] {
        let mut world =
            World::new(Hosts { pipelined, ..Hosts::alike(plain, [1, 9]) }, vec![exchange(false), exchange(false)]);
        assert!(run(&mut world, &[]));
        world.settle();
        world.close_servers(false);
        (0..world.queued(1)).for_each(|_| world.drop_one(1));
        let connections = world.connections();
        world.next_client(plain, 7, vec![exchange(false), exchange(true)]);
        assert!(run(&mut world, &[]), "{pipelined}: {} bytes came", world.client.received.len());
        assert_eq!((world.client.received.clone(), world.answered), (world.expected(), 2), "{pipelined}");
        assert!(world.connections() > connections);
        assert_eq!((world.last_served, world.passthrough()), (Some(images), 0), "{pipelined}");
    }
    for pipelined in [false, true] {
        let mut world = World::new(Hosts { pipelined, ..Hosts::alike(plain, [1, 9]) }, Vec::new());
        let setup = Setup {
            pools: vec![("images", vec![12]), ("web", vec![11, 13])],
            images: Some(0),
            web: 1,
            service: "ss",
            has_address: true,
            others: [false; 2],
            own: [true; 2],
            more: "",
        };
        world.reconfigure(&setup.text(), setup.serving(), false);
        for _ in 0..40 {
            world.settle();
            world.wait(50_000_000);
        }
        world.settle();
        world.next_client(plain, 7, vec![exchange(false), exchange(true)]);
        world.speak();
        // The SYN and its answer, the request, the SYN and its answer: the server is sent the request.
        [0, 2, 0, 3, 1].into_iter().for_each(|path| world.deliver(path));
        assert_eq!(world.queued(3), 1);
        world.drop_one(3);
        let (flow_key, ..) = *world.syns.last().unwrap();
        let reset = Segment {
            dst_mac: [2, 0, 0, 0, 2, 0xfe],
            src_mac: [2, 0, 0, 0, 2, 0x11],
            flow_key,
            seq: 10 + (world.connections() as u32 - 1) * 1_000_003,
            ack: 0,
            flags: RST,
            window: 0,
            options: TcpOptions::default(),
            payload: &[],
        };
        world.arrives(1, reset.frame());
        assert!(run(&mut world, &[]), "{pipelined}: {} bytes came", world.client.received.len());
        assert_eq!((world.client.received.clone(), world.answered), (world.expected(), 2), "{pipelined}");
        assert_eq!((world.last_served, world.passthrough()), (Some(images), 0), "{pipelined}");
        assert_eq!(total(&mut world, "service_retries"), 1, "{pipelined}");
    }
}

/// Not every host may say which station has an address of a server: unasked, by another port, of another station.
#[test]
fn strangers_set_no_ethernet_address_of_a_server() {
    let hosts = Hosts::alike(TcpOptions { mss: Some(1460), ..TcpOptions::default() }, [1, 9]);
    let mut world = World::new(hosts, Vec::new());
    let known = |world: &World| -> Vec<_> { world.splicer.cluster.servers.iter().map(|own| own.mac).collect() };
    let before = known(&world);
    assert!(before.iter().any(Option::is_some));
    let told = total(&mut world, "neighbour_answers");
    // 10.0.2.11 is at 02:66:66:66:66:66, says a client, and a station among the servers: to the own address on the
    // port.
    for (path, own) in [(0, [10, 0, 1, 80]), (1, [10, 0, 2, 254])] {
        let mac = [2, 0, 0, 0, path as u8 + 1, 0xfe];
        let stranger = [2, 0x66, 0x66, 0x66, 0x66, 0x66];
        let arp =
            [&mac[..], &stranger, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2], &stranger, &[10, 0, 2, 11], &mac, &own].concat();
        world.arrives(path, arp);
        assert_eq!(known(&world), before, "path {path}");
    }
    assert_eq!(total(&mut world, "neighbour_answers"), told + 2);
    assert_eq!(
        metric(&mut world, "neighbour_answers", "unasked") + metric(&mut world, "neighbour_answers", "other_port"),
        2
    );
    // All goes on, and the next question goes to the known station.
    (0..40).for_each(|_| {
        world.settle();
        world.wait(1_000_000_000);
    });
    assert_eq!(known(&world), before);
}

/// A connection that was killed does not come back with the next process, but is reset by that.
#[test]
fn a_killed_connection_stays_killed_through_a_restart() {
    let plain = TcpOptions { mss: Some(1460), ..TcpOptions::default() };
    let exchange = Exchange { second: false, post: false, up: 0, down: 20, chunked: false, last: false };
    let mut world = World::new(Hosts::alike(plain, [1, 9]), vec![exchange.clone(), exchange]);
    world.speak();
    for _ in 0..100 {
        if let Some(path) = (0..4).find(|path| world.queued(*path) > 0).filter(|_| world.answered == 0) {
            world.deliver(path);
        }
    }
    assert_eq!((world.answered, world.splicer.len()), (1, 1));
    world.splicer.query("kill", &serde_json::json!({ "service": "www" })).unwrap();
    world.kill_or_start();
    world.kill_or_start();
    assert_eq!((world.splicer.len(), world.lost), (1, 1));
    // What is sent before the ports of the next process are ready is lost, and the client does not ask.
    for path in 0..4 {
        (0..world.queued(path)).for_each(|_| world.drop_one(path));
    }
    (0..30).for_each(|_| {
        world.settle();
        world.wait(1_000_000_000);
    });
    assert_eq!((world.splicer.len(), world.client.was_reset), (0, true));
}

/// Checks, connections that are made ahead, and those in a client's name begin at numbers that can't be guessed and
/// that grow with time (RFC 6528).
#[test]
fn own_connections_begin_at_numbers_of_their_ends() {
    let plain =
        TcpOptions { mss: Some(1460), scale: Some(7), sack: true, times: Some((5, 0)), ..TcpOptions::default() };
    for (settings, own_alone) in [("preconnect = 2", true), ("addressing = \"transparent\"", false)] {
        let hosts = Hosts { settings, ..Hosts::alike(plain, [1, 9]) };
        let exchange = Exchange { second: false, post: false, up: 0, down: 30, chunked: false, last: false };
        let mut world = World::new(hosts, vec![exchange]);
        let made = world.syns.len();
        assert!(made >= if own_alone { 4 } else { 2 } && run(&mut world, &[]));
        assert!(own_alone || world.syns.len() > made);
        for (flow_key, seq, now) in &world.syns {
            // They are sent again, and a connection in a client's name counts its tries.
            let late = (*now / 4000) as u32;
            let since = seq.wrapping_sub(initial((1, 2), flow_key, 0));
            assert!(late.wrapping_sub(since.wrapping_sub(1)) < 250_000, "{flow_key:?} {seq} at {now}");
        }
    }
}

/// Requests and responses that come to Millrace in fragments are put together, whatever comes first.
#[test]
fn datagrams_in_fragments_are_read() {
    let plain =
        TcpOptions { mss: Some(1460), scale: Some(7), sack: true, times: Some((5, 0)), ..TcpOptions::default() };
    for size in [68, 576] {
        let hosts = Hosts { fragments: Some(size), ..Hosts::alike(plain, [1, 9]) };
        let exchange = Exchange { second: false, post: true, up: 4000, down: 4000, chunked: false, last: false };
        let mut world = World::new(hosts, vec![exchange; 3]);
        assert!(run(&mut world, &[]), "{size}");
        assert_eq!(world.client.received, world.expected());
        settle(&mut world, 3);
        let fragmented = u64::from(world.fragmented);
        assert!(fragmented > 10);
        assert_eq!(total(&mut world, "fragmented_datagrams"), fragmented);
        assert_eq!(metric(&mut world, "fragmented_datagrams", "reassembled"), fragmented);
    }
}

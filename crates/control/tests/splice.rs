//! The splicer, its program and its controller together, against a small model: whatever the network does to packets, both
//! sides see what the other has sent.

mod common;
#[path = "splice/router.rs"]
mod router;
#[path = "splice/tcp.rs"]
mod tcp;
#[path = "splice/world.rs"]
mod world;

use control::controllers::splice::segment::TcpOptions;
use proptest::prelude::*;

use world::{Exchange, Hosts, Routers, World};

fn options() -> impl Strategy<Value = TcpOptions> {
    (
        prop::sample::select(vec![536u16, 1220, 1380, 1460]),
        prop::option::of(prop::sample::select(vec![0u8, 2, 7, 14])),
        any::<bool>(),
        prop::option::of(any::<u32>().prop_map(|start| (start, 0))),
    )
        .prop_map(|(mss, scale, sack, times)| TcpOptions { mss: Some(mss), scale, sack, times })
}

fn hosts() -> impl Strategy<Value = Hosts> {
    // Numbers that wrap around within the exchange, and others.
    let first = prop_oneof![any::<u32>(), (u32::MAX - 3000)..=u32::MAX];
    let mtu = prop::sample::select(vec![1500usize, 1500, 1300, 600]);
    let quote = prop::sample::select(vec![8usize, 19, 20, 2000]);
    let routers =
        (mtu.clone(), mtu, quote).prop_map(|(clients, servers, quote)| Routers { mtu: [clients, servers], quote });
    (options(), options(), first.clone(), first, any::<bool>(), routers).prop_map(
        |(client, server, client_first, server_first, pipelined, routers)| Hosts {
            client,
            server,
            client_first,
            server_first,
            pipelined,
            routers,
            settings: "",
        },
    )
}

fn exchange() -> impl Strategy<Value = Exchange> {
    let length = prop::sample::select(vec![0usize, 1, 500, 1500, 4000, 15000]);
    (any::<bool>(), length.clone(), length, any::<bool>()).prop_map(|(second, up, down, chunked)| Exchange {
        second,
        up,
        down,
        chunked,
    })
}

/// Does to packets what `choices` say, and nothing bad after that. True once all is done, or cut by a restart.
fn run(world: &mut World, choices: &[u8]) -> bool {
    world.speak();
    let mut choices = choices.iter();
    for _ in 0..3000 {
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
        "reuse = \"always\"\nwarm = 2",
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
    let exchanges = prop::collection::vec(exchange, 1..4);
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
fn ask_again(world: &mut World, hosts: &Hosts, clients: Vec<Next>, close: bool) -> Result<(), TestCaseError> {
    for next in clients {
        for _ in 0..next.pause * 4 {
            world.wait(250_000_000);
            world.settle();
        }
        if close {
            world.close_servers();
        }
        let same = TcpOptions { times: hosts.client.times.map(|_| (next.clock, 0)), ..hosts.client };
        world.next_client(next.options.unwrap_or(same), next.first, next.exchanges);
        ask(world, &next.choices)?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 100, ..ProptestConfig::default() })]

    #[test]
    fn both_sides_see_what_the_other_has_sent(
        hosts in hosts(),
        settings in settings(),
        exchanges in prop::collection::vec(exchange(), 1..5),
        choices in prop::collection::vec(any::<u8>(), 0..300),
        clients in prop::collection::vec(next_client(exchange()), 0..3),
    ) {
        let hosts = Hosts { settings, ..hosts };
        let mut world = World::new(hosts.clone(), exchanges);
        world.trace = std::env::var_os("SPLICE_TRACE").is_some();
        if world.trace {
            println!("=== {choices:?}");
        }
        ask(&mut world, &choices)?;
        ask_again(&mut world, &hosts, clients, false)?;
    }

    /// With servers that close just when the next client asks: nobody notices.
    #[test]
    fn a_server_that_closes_is_asked_again(
        hosts in hosts(),
        choices in prop::collection::vec(any::<u8>(), 0..100),
        clients in prop::collection::vec(next_client(bodiless()), 1..4),
    ) {
        let first = Exchange { second: false, up: 0, down: 500, chunked: false };
        let mut world = World::new(hosts.clone(), vec![first]);
        ask(&mut world, &choices)?;
        ask_again(&mut world, &hosts, clients, true)?;
    }
}

/// An exchange whose request has no body, so that it may be sent twice.
fn bodiless() -> impl Strategy<Value = Exchange> {
    exchange().prop_map(|own| Exchange { up: 0, chunked: false, ..own })
}

/// The next client's request goes out on the connection that the one before has left, also where that is made ahead.
#[test]
fn connections_to_servers_are_used_again() {
    let plain = TcpOptions { mss: Some(1460), scale: Some(7), sack: true, times: Some((5, 0)) };
    for (settings, used) in [("", 1), ("reuse = \"never\"", 4), ("warm = 2", 0), ("addressing = \"transparent\"", 4)] {
        let routers = Routers { mtu: [1500; 2], quote: 8 };
        let hosts = Hosts {
            client: plain,
            server: plain,
            client_first: 1,
            server_first: 9,
            pipelined: false,
            routers,
            settings,
        };
        let exchange = Exchange { second: false, up: 0, down: 3000, chunked: false };
        let mut world = World::new(hosts, vec![exchange.clone(); 2]);
        let before = world.connections();
        assert!(run(&mut world, &[]));
        for first in [7, 1 << 31, u32::MAX] {
            world.next_client(TcpOptions { times: Some((first, 0)), ..plain }, first, vec![exchange.clone(); 2]);
            assert!(run(&mut world, &[]));
        }
        // Nothing but those that were made ahead.
        assert_eq!(world.connections() - before, used, "{settings}");
    }
}

/// What a choice stands for; see `run`. The lowest two bits say where packets are looked for first.
const LOSS: u8 = 0;
const DOUBLE: u8 = 6 << 2;
const LATE: u8 = 10 << 2;
const CRASH: u8 = 20 << 2;
const ARRIVES: u8 = 21 << 2;

/// A short exchange from SYN to FIN with two servers, with each packet in turn lost, doubled or late, or with the process gone from then on
/// for some packets; and with as many such faults as `SPLICE_FAULTS` says, one otherwise, at all places.
#[test]
fn any_fault_of_a_short_exchange_is_made_good() {
    let most = std::env::var("SPLICE_FAULTS").map_or(1, |text| text.parse().expect("SPLICE_FAULTS is a number"));
    let mut tried = 0;
    try_faults(&mut Vec::new(), most, &mut tried);
    println!("{tried} exchanges");
}

/// Tries what comes behind these choices. Whether the exchange took longer than they did.
fn try_faults(choices: &mut Vec<u8>, faults: usize, tried: &mut u64) -> bool {
    let plain = TcpOptions { mss: Some(1460), scale: Some(7), sack: true, times: Some((u32::MAX - 5000, 0)) };
    let routers = Routers { mtu: [1500; 2], quote: 8 };
    let (client, server, first) = (plain, plain, u32::MAX - 60);
    let hosts =
        Hosts { client, server, client_first: first, server_first: first, pipelined: false, routers, settings: "" };
    let exchange = |second| Exchange { second, up: 0, down: 20, chunked: second };
    let mut world = World::new(hosts, vec![exchange(false), exchange(true)]);
    world.trace = std::env::var_os("SPLICE_TRACE").is_some();
    if world.trace {
        println!("=== {choices:?}");
    }
    let done = run(&mut world, choices);
    *tried += 1;
    assert!(done && world.lost == 0 && world.unread == 0, "{choices:?}");
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

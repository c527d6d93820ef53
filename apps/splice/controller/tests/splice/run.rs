//! What is tried at random: options, hosts, exchanges and clients, and what happens to packets on their way.

use proptest::prelude::*;
use wire::segment::TcpOptions;

use super::metrics::metric;
use super::plan::{Exchange, Hosts, Routers};
use super::world::World;

pub fn options() -> impl Strategy<Value = TcpOptions> {
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

pub fn hosts() -> impl Strategy<Value = Hosts> {
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

pub fn exchange() -> impl Strategy<Value = Exchange> {
    let length = prop::sample::select(vec![0usize, 1, 500, 1500, 4000, 15000]);
    (any::<bool>(), any::<bool>(), length.clone(), length, any::<bool>())
        .prop_map(|(second, post, up, down, chunked)| Exchange { second, post, up, down, chunked, last: false })
}

/// Some, the last of which may ask for the end of the connection.
pub fn exchanges(exchange: impl Strategy<Value = Exchange>, most: usize) -> impl Strategy<Value = Vec<Exchange>> {
    (prop::collection::vec(exchange, 1..most), any::<bool>()).prop_map(|(mut exchanges, last)| {
        exchanges.last_mut().into_iter().for_each(|own| own.last = last);
        exchanges
    })
}

/// What a choice stands for; see `run`. The lowest two bits say where packets are looked for first.
pub const LOSS: u8 = 0;
pub const DOUBLE: u8 = 6 << 2;
pub const LATE: u8 = 10 << 2;
pub const WAITS: u8 = 17 << 2;
pub const CRASH: u8 = 20 << 2;
pub const ARRIVES: u8 = 21 << 2;

/// Does to packets what `choices` say, and nothing bad after that. True once all is done, or cut by a restart.
pub fn run(world: &mut World, choices: &[u8]) -> bool {
    run_with(world, choices, |_, _| {})
}

/// The same with something else that happens at each step.
pub fn run_with(world: &mut World, choices: &[u8], mut happens: impl FnMut(&mut World, usize)) -> bool {
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
            (Some(_), Some(kind @ 32..=33)) => world.die_after(1 + usize::from(kind - 32) * 4 + from),
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
pub fn settings() -> impl Strategy<Value = &'static str> {
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
pub struct Next {
    /// Its options, or those of the one before with another clock.
    pub options: Option<TcpOptions>,
    pub clock: u32,
    pub first: u32,
    pub exchanges: Vec<Exchange>,
    pub choices: Vec<u8>,
    /// How long that is after the one before, in seconds.
    pub pause: u64,
}

pub fn next_client(exchange: impl Strategy<Value = Exchange>) -> impl Strategy<Value = Next> {
    let exchanges = exchanges(exchange, 4);
    let choices = prop::collection::vec(any::<u8>(), 0..150);
    (prop::option::of(options()), any::<u32>(), any::<u32>(), exchanges, choices, 0u64..20).prop_map(
        |(options, clock, first, exchanges, choices, pause)| Next { options, clock, first, exchanges, choices, pause },
    )
}

pub fn ask(world: &mut World, choices: &[u8]) -> Result<(), TestCaseError> {
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
pub fn ask_again(
    world: &mut World,
    hosts: &Hosts,
    clients: Vec<Next>,
    close: Option<bool>,
) -> Result<(), TestCaseError> {
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
pub fn settle(world: &mut World, requests: usize) {
    for _ in 0..2000 {
        match (0..4).find(|path| world.queued(*path) > 0) {
            Some(path) => world.deliver(path),
            None if metric(world, "service_requests", "complete") == requests as u64 => return,
            None => world.wait(60_000_000),
        }
    }
}

/// An exchange whose request fits into a segment, so that it may be sent twice.
pub fn short() -> impl Strategy<Value = Exchange> {
    (exchange(), 0usize..200).prop_map(|(own, up)| Exchange { up, ..own }.shortened())
}

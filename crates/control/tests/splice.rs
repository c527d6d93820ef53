//! The splicer, its program and its controller together, against a small model: whatever the network does to packets, both
//! sides see what the other has sent.

mod common;
#[path = "splice/tcp.rs"]
mod tcp;
#[path = "splice/world.rs"]
mod world;

use control::controllers::splice::segment::TcpOptions;
use proptest::prelude::*;

use world::{Exchange, Hosts, World};

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
    (options(), options(), first.clone(), first, any::<bool>()).prop_map(
        |(client, server, client_first, server_first, pipelined)| Hosts {
            client,
            server,
            client_first,
            server_first,
            pipelined,
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
        if choice.is_none() && world.client.received.len() >= world.expected().len() && world.client.peer_closed {
            return true;
        }
        if world.client.was_reset && world.lost > 0 {
            return true;
        }
        assert!(!world.client.was_reset, "the client was reset");
    }
    false
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 100, ..ProptestConfig::default() })]

    #[test]
    fn both_sides_see_what_the_other_has_sent(
        hosts in hosts(),
        exchanges in prop::collection::vec(exchange(), 1..5),
        choices in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut world = World::new(hosts, exchanges);
        world.trace = std::env::var_os("SPLICE_TRACE").is_some();
        if world.trace { println!("=== {choices:?}"); }
        let done = run(&mut world, &choices);
        let expected = world.expected();
        let received = &world.client.received;
        prop_assert!(expected.starts_with(received), "{:?}", String::from_utf8_lossy(received));
        prop_assert!(done, "{} of {} bytes came; {} requests were answered", received.len(), expected.len(), world.answered);
    }
}

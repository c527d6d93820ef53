//! Every byte and every request is counted once, whatever carried it and whatever was lost on the way.

#[path = "../../../../tests/support/compile.rs"]
mod common;
#[allow(dead_code)]
#[path = "splice/metrics.rs"]
mod metrics;
#[path = "splice/path.rs"]
mod path;
#[allow(dead_code)]
#[path = "splice/plan.rs"]
mod plan;
#[path = "splice/router.rs"]
mod router;
#[allow(dead_code)]
#[path = "splice/tcp.rs"]
mod tcp;
#[allow(dead_code)]
#[path = "splice/world.rs"]
mod world;

use proptest::prelude::*;
use wire::segment::TcpOptions;

use metrics::metric;
use plan::{Exchange, Hosts};
use world::World;

/// Delivers what there is, some of it lost or twice, until the client has everything and `count` requests are counted.
fn run(world: &mut World, choices: &[u8], count: u64) {
    world.speak();
    let mut choices = choices.iter();
    for _ in 0..4000 {
        let path = (0..4).find(|path| world.queued(*path) > 0);
        match (path, choices.next().map(|choice| choice % 16)) {
            (Some(path), Some(0)) => world.drop_one(path),
            (Some(path), Some(1)) => world.double(path),
            (Some(path), Some(2)) => world.put_back(path),
            (Some(path), _) => world.deliver(path),
            // A request is over when the last byte of its response has gone, which may be lost yet.
            (None, _)
                if world.client.received.len() == world.expected().len()
                    && metric(world, "service_requests", "complete") == count =>
            {
                return;
            }
            (None, _) => world.wait(60_000_000),
        }
    }
}

fn exchange() -> impl Strategy<Value = Exchange> {
    let length = prop::sample::select(vec![0usize, 1, 500, 4000, 15000]);
    (any::<bool>(), length.clone(), length, any::<bool>()).prop_map(|(second, up, down, chunked)| Exchange {
        second,
        post: false,
        up,
        down,
        chunked,
        last: false,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 300, cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_is_counted_once(
        exchanges in prop::collection::vec(exchange(), 1..5),
        first in prop_oneof![any::<u32>(), (u32::MAX - 3000)..=u32::MAX],
        settings in prop::sample::select(vec!["", "reuse = \"never\"", "preconnect = 2"]),
        pipelined: bool,
        choices in prop::collection::vec(any::<u8>(), 0..120),
    ) {
        let plain = TcpOptions { mss: Some(1460), scale: Some(7), sack: true, times: Some((5, 0)), ..TcpOptions::default() };
        let hosts = Hosts { pipelined, settings, ..Hosts::alike(plain, [first, !first]) };
        let count = exchanges.len() as u64;
        let asked: usize = exchanges.iter().enumerate().map(|(number, own)| own.request(number).len()).sum();
        let mut world = World::new(hosts, exchanges);
        run(&mut world, &choices, count);
        prop_assert_eq!(world.client.received.len(), world.expected().len());
        let counted = [
            metric(&mut world, "service_requests", "complete"),
            metric(&mut world, "service_responses", "2xx"),
            metric(&mut world, "service_bytes", "up"),
            metric(&mut world, "service_bytes", "down"),
        ];
        prop_assert_eq!(counted, [count, count, asked as u64, world.expected().len() as u64]);
    }
}

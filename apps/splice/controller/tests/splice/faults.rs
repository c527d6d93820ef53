//! Every fault at every place of a short exchange.

use wire::segment::TcpOptions;

use super::plan::{Exchange, Hosts};
use super::run::{ARRIVES, CRASH, DOUBLE, LATE, LOSS, run};
use super::world::World;

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

//! Configurations that take away what another one had, in any order, at any moment: no client loses anything by that.

use std::net::Ipv4Addr;

use proptest::prelude::*;
use splice::data_path::DataPath;
use wire::segment::TcpOptions;

use super::plan::{Exchange, Hosts};
use super::run::{exchange, exchanges, hosts, options, run, run_with};
use super::setup::{Setup, setup};
use super::world::World;

/// A change: after so many steps, and whether another program takes over with it.
#[derive(Clone, Debug)]
struct Change {
    step: usize,
    setup: Setup,
    takes_over: bool,
}

fn changes(more: &'static str) -> impl Strategy<Value = Vec<Change>> {
    let change = (0usize..60, setup(more), any::<bool>()).prop_map(|(step, setup, takes_over)| Change {
        step,
        setup,
        takes_over,
    });
    prop::collection::vec(change, 1..5)
}

/// A client, with what happens while it asks.
#[derive(Clone, Debug)]
struct Round {
    options: TcpOptions,
    exchanges: Vec<Exchange>,
    choices: Vec<u8>,
    changes: Vec<Change>,
}

fn rounds(more: &'static str) -> impl Strategy<Value = Vec<Round>> {
    // The process does not die.
    let choice = any::<u8>().prop_map(|choice| match choice >> 2 {
        20 => choice | 4,
        32..=33 => choice | 8,
        _ => choice,
    });
    let choices = prop::collection::vec(choice, 0..150);
    let round = (options(), exchanges(exchange(), 5), choices, changes(more))
        .prop_map(|(options, exchanges, choices, changes)| Round { options, exchanges, choices, changes });
    prop::collection::vec(round, 1..4)
}

fn apply(world: &mut World, setup: &Setup, takes_over: bool) {
    world.reconfigure(&setup.text(), setup.serving(), takes_over);
}

proptest! {
    #![proptest_config(ProptestConfig {
        max_shrink_iters: 200,
        cases: ProptestConfig::default().cases / 2,
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_a_configuration_has_no_more_cuts_nothing(
        hosts in hosts(),
        rounds in prop::sample::select(vec!["", "reuse = \"never\"", "reuse = \"always\"\npreconnect = 2", "balance = \"source\""])
            .prop_flat_map(rounds),
    ) {
        let hosts = Hosts { settings: "", curt: false, ..hosts };
        let mut world = World::new(hosts.clone(), Vec::new());
        let mut service = None;
        for (number, Round { options, exchanges, choices, changes }) in rounds.into_iter().enumerate() {
            // A new client finds the address.
            if let Some(last) = changes.last().filter(|_| number > 0) {
                apply(&mut world, &Setup { has_address: true, ..last.setup.clone() }, false);
                service = Some(last.setup.service);
            }
            world.next_client(options, hosts.client_first.wrapping_add(number as u32), exchanges);
            let mut changes = changes.into_iter();
            let (mut next, mut since) = (changes.next(), 0);
            let done = run_with(&mut world, &choices, |world, _| {
                since += 1;
                if let Some(change) = next.take_if(|change| change.step < since) {
                    // Until it has asked something it has no connection that could go on. Without the address the
                    // connection is that of the service that had it, if that is there.
                    let had = service.filter(|_| !change.setup.has_address && !world.client.received.is_empty());
                    let (has_address, name) = had.map_or((true, change.setup.service), |name| (false, name));
                    apply(world, &Setup { has_address, service: name, ..change.setup }, change.takes_over);
                    (next, since, service) = (changes.next(), 0, Some(name));
                }
            });
            let (expected, received) = (world.expected(), &world.client.received);
            prop_assert!(expected.starts_with(received), "{:?}", String::from_utf8_lossy(received));
            prop_assert!(done, "{} of {} bytes came", received.len(), expected.len());
        }
    }
}

fn plain() -> TcpOptions {
    TcpOptions { mss: Some(1460), scale: Some(7), sack: true, ..TcpOptions::default() }
}

fn image() -> Exchange {
    Exchange { second: true, post: false, up: 0, down: 2000, chunked: false, last: false }
}

fn pools(pools: &[(&'static str, &[u8])], images: &str, web: &str) -> Setup {
    let place = |name: &str| pools.iter().position(|(own, _)| *own == name);
    Setup {
        pools: pools.iter().map(|(name, servers)| (*name, servers.to_vec())).collect(),
        images: place(images),
        web: place(web).unwrap(),
        service: "ss",
        has_address: true,
        others: [false; 2],
        own: [true; 2],
        more: "",
    }
}

/// Lets everything arrive, and time pass.
fn rest(world: &mut World, milliseconds: u64) {
    for _ in 0..milliseconds / 50 {
        world.settle();
        world.wait(50_000_000);
    }
    world.settle();
}

/// A request whose server was removed while it is connected to, along with a pool, and that refuses it: another server
/// of the pool that the request belongs to by now gets it.
#[test]
fn a_request_to_a_removed_server_goes_where_it_belongs() {
    let before = pools(&[("aaa", &[14]), ("images", &[12]), ("web", &[11])], "images", "web");
    let removed = vec![Ipv4Addr::new(10, 0, 2, 12)];
    for (after, served) in [
        (pools(&[("images", &[13]), ("web", &[11])], "images", "web"), 13),
        (pools(&[("web", &[11])], "images", "web"), 11),
        (pools(&[("web", &[11]), ("zzz", &[14])], "zzz", "web"), 14),
    ] {
        let mut world = World::new(Hosts::alike(plain(), [1, 9]), Vec::new());
        apply(&mut world, &before, false);
        rest(&mut world, 2000);
        world.next_client(plain(), 7, vec![image()]);
        world.speak();
        // The SYN, its answer and the request, upon which a server is connected to.
        [0, 2, 0].into_iter().for_each(|path| world.deliver(path));
        assert_eq!(world.queued(3), 1);
        world.silent = removed.clone();
        apply(&mut world, &after, false);
        // The others have been checked before they are wanted.
        rest(&mut world, 3000);
        (world.silent, world.refusing) = (Vec::new(), removed.clone());
        assert!(run(&mut world, &[]));
        assert_eq!(world.client.received, world.expected());
        assert_eq!(world.last_served, Some(Ipv4Addr::new(10, 0, 2, served)));
    }
}

/// An interface is removed while a server behind it is connected to: its answer is heard still.
#[test]
fn a_server_behind_a_removed_interface_answers() {
    let before = pools(&[("images", &[111]), ("web", &[11])], "images", "web");
    for takes_over in [false, true] {
        let mut world = World::new(Hosts::alike(plain(), [1, 9]), Vec::new());
        apply(&mut world, &before, false);
        rest(&mut world, 2000);
        world.next_client(plain(), 7, vec![image()]);
        world.speak();
        // The SYN, its answer and the request, upon which the server is connected to.
        [0, 2, 0].into_iter().for_each(|path| world.deliver(path));
        assert_eq!(world.queued(3), 1);
        apply(&mut world, &pools(&[("web", &[11])], "images", "web"), takes_over);
        assert!(run(&mut world, &[]));
        assert_eq!(world.client.received, world.expected());
        assert_eq!(world.last_served, Some(Ipv4Addr::new(10, 0, 3, 111)));
    }
}

/// A server that was away for a while is looked at again.
#[test]
fn a_server_that_comes_back_is_checked_again() {
    let with = pools(&[("images", &[12]), ("web", &[11])], "images", "web");
    let without = pools(&[("web", &[11])], "images", "web");
    let mut world = World::new(Hosts::alike(plain(), [1, 9]), Vec::new());
    let up = |world: &World| {
        let mut servers =
            world.splicer.cluster.servers.iter().filter(|own| own.configured && own.pool.name == "images");
        servers.next().is_some_and(|own| own.up)
    };
    for setup in [&with, &without, &with] {
        apply(&mut world, setup, false);
        // Long enough for the last check of one that is away.
        rest(&mut world, 3000);
    }
    assert!(up(&world));
    // And it goes down when it stops.
    world.refusing = vec![Ipv4Addr::new(10, 0, 2, 12)];
    rest(&mut world, 120_000);
    assert!(!up(&world));
}

/// Addresses that are removed stay as long as a connection uses them.
#[test]
fn addresses_in_use_outlast_their_removal() {
    let all = pools(&[("images", &[12, 111]), ("web", &[11])], "images", "web");
    let none = Setup { has_address: false, own: [true, false], ..pools(&[("web", &[11])], "images", "web") };
    let mut world = World::new(Hosts::alike(plain(), [1, 9]), Vec::new());
    apply(&mut world, &Setup { own: [false, true], ..all.clone() }, false);
    rest(&mut world, 2000);
    // One of the servers behind the third port gets one of two requests.
    for number in 0..2 {
        world.next_client(plain(), 7, vec![image(), image()]);
        world.speak();
        for _ in 0..1000 {
            if world.client.received.is_empty() {
                (0..4).for_each(|path| world.deliver(path));
            }
        }
        assert!(!world.client.received.is_empty());
        apply(&mut world, &none, number == 1);
        let own = |world: &mut World| {
            let own = world.splicer.path.own();
            let has = |text: &str| own.addresses.iter().any(|(own, _)| own.to_canonical().to_string() == text);
            (["10.0.1.80", "10.0.2.254", "10.0.3.254"].map(has), own.macs.iter().any(|(port, _)| *port == 3))
        };
        let (has, third) = own(&mut world);
        assert!(has[0] && (has[1] != has[2]) && has[2] == third, "{has:?} {third}");
        assert!(run(&mut world, &[]));
        for (flow_key, _) in world.splicer.path.entries() {
            world.splicer.path.remove_entry(&flow_key);
        }
        rest(&mut world, 20_000);
        assert_eq!(own(&mut world), ([false; 3], false));
        apply(&mut world, &all, false);
        apply(&mut world, &Setup { own: [false, true], ..all.clone() }, false);
        rest(&mut world, 2000);
    }
}

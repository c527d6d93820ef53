//! The mirror on a program's own tables, fed with recorded messages, asked as controllers ask.

use std::net::IpAddr;
use std::sync::Arc;

use baker::ir::Program;
use dataplane::controller::{NamedTables, PortInfo, Prefix};
use dataplane::{TableAccess, Tables as NativeTables};

use crate::kernel::event::{Event, Neighbour};
use crate::kernel::state::Touched;
use crate::lookup::{Answer, Lookup, Route};
use crate::mirror::Mirror;
use crate::program::{FIRST, Hop, HopAction, Tables};
use crate::recorded::{Step, record};
use crate::settings::{Fate, Settings};

/// A program that asks, with room for few routes.
fn program() -> Arc<Program> {
    let text = "import \"net/next_hop\";
        module m { in ether input; out ether output;
            ppf p(ether_packet_t *pkt) from input {
                ipv4_packet_t *ip = packet_peek(pkt);
                next_hop_t hop = routes.find(ip);
                pkt->metadata.tx.port = hop.port;
                channel_put(output, pkt);
            } }
        program { next_hop(4096, 4096) routes; rx -> m.input; m.output -> tx; }";
    let found = baker::check::check("test.baker", text, &baker::library::Library);
    Arc::new(baker::ir::lower(&found.program.unwrap_or_else(|| panic!("{:?}", found.diagnostics))))
}

fn tables() -> NamedTables {
    let program = program();
    let tables = TableAccess::Native(Arc::new(NativeTables::new(&program).unwrap()));
    NamedTables::new(program, tables)
}

fn ports() -> Vec<PortInfo> {
    let port = |number: u8| {
        let name = format!("p{number}");
        PortInfo { number, name: name.clone(), interface: Some(name), is_tap: false, in_kernel: false, host: None }
    };
    (1..=3).map(port).collect()
}

fn mirror(named: &NamedTables, settings: Settings) -> Mirror {
    Mirror::new(named, Tables::find(named).unwrap().unwrap(), &ports(), settings)
}

fn take(mirror: &mut Mirror, step: Step) {
    step.events.into_iter().for_each(|event| mirror.apply(event));
    if !step.dump.is_empty() {
        let mut touched = Touched::default();
        mirror.kernel.replace(crate::kernel::tests::dumped(&step.dump), &mut touched);
        mirror.touched.everything = true;
    }
    mirror.flush(&mut || true).unwrap();
}

/// The state after this command of the recording.
fn after(named: &NamedTables, settings: Settings, command: &str) -> Mirror {
    let mut mirror = mirror(named, settings);
    let mut steps = record().into_iter();
    loop {
        let step = steps.next().unwrap_or_else(|| panic!("{command}"));
        let is_last = step.command == command;
        take(&mut mirror, step);
        if is_last {
            return mirror;
        }
    }
}

const LAST: &str = "route add 10.3.0.0/16 via inet6 fe80::13 dev p3";

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn find(named: &NamedTables, to: &str, flow: u32) -> Answer {
    Lookup::new(named).unwrap().unwrap().find(address(to), flow)
}

fn route(named: &NamedTables, to: &str) -> Route {
    match find(named, to, 0) {
        Answer::Route(route) => route,
        other => panic!("{to}: {other:?}"),
    }
}

fn reason(name: &str) -> Answer {
    Answer::Drop(baker::ir::DropReason { name: name.into() }.value())
}

#[test]
fn next_hops_have_all_that_a_frame_needs() {
    let named = tables();
    after(&named, Settings::default(), LAST);
    let found = route(&named, "10.9.11.1");
    let mac = |last| [2, 0, 0, 0, last, 1];
    assert_eq!((found.port, found.mac), (3, (mac(3), [2, 0, 0, 0, 0, 0x13])));
    // The route's, the interface's.
    assert_eq!((found.mtu, route(&named, "10.9.1.1").mtu, route(&named, "10.3.1.1").mtu), (1280, 1500, 1400));
    assert_eq!(found.source, Some(address("10.0.3.1")));
    assert_eq!(route(&named, "10.9.7.1").source, Some(address("10.0.2.2")));
    assert_eq!(route(&named, "2001:db8:c::1").source, Some(address("2001:db8:2::1")));
    // Neighbours themselves.
    assert_eq!(route(&named, "10.0.2.12").mac.1, [2, 0, 0, 0, 0, 0x12]);
    assert_eq!(route(&named, "2001:db8:2::12").mac, (mac(2), [2, 0, 0, 0, 0, 0x12]));
    // An IPv6 gateway of an IPv4 route.
    assert_eq!(route(&named, "10.3.1.1").mac.1, [2, 0, 0, 0, 0, 0x13]);
    for host in ["10.0.1.1", "10.0.1.255", "127.0.0.1", "224.0.0.5", "255.255.255.255", "fe80::1", "ff02::1"] {
        assert_eq!(find(&named, host, 0), Answer::Host, "{host}");
    }
    // Not resolved: the host does that.
    assert_eq!(find(&named, "10.0.2.77", 0), Answer::Host);
    assert_eq!(find(&named, "10.9.8.1", 0), reason("blackhole"));
    assert_eq!(find(&named, "10.9.9.1", 0), reason("prohibited"));
    assert_eq!(find(&named, "10.9.10.1", 0), reason("unreachable"));
}

#[test]
fn before_anything_is_known_all_is_the_hosts() {
    let named = tables();
    assert_eq!(find(&named, "192.0.2.1", 0), Answer::Host);
    let mut steps = record().into_iter();
    let mut mirror = mirror(&named, Settings::default());
    take(&mut mirror, steps.next().unwrap());
    assert_eq!(find(&named, "192.0.2.1", 0), reason("no_route"));
    let drops = Settings { unreachable: Fate::Host, ..Settings::default() };
    let named = tables();
    after(&named, drops, LAST);
    assert_eq!((find(&named, "10.9.9.1", 0), find(&named, "10.9.8.1", 0)), (Answer::Host, reason("blackhole")));
}

#[test]
fn flows_are_dealt_out_by_weight() {
    let named = tables();
    after(&named, Settings::default(), LAST);
    let ports: Vec<u8> = (0..30)
        .map(|flow| match find(&named, "10.8.1.1", flow) {
            Answer::Route(route) => route.port,
            other => panic!("{other:?}"),
        })
        .collect();
    let count = |port| ports.iter().filter(|own| **own == port).count();
    assert_eq!((count(2), count(3)), (10, 20));
}

#[test]
fn unresolved_neighbours_are_asked_for_and_followed() {
    let named = tables();
    let settings = Settings { unresolved: Fate::Drop, ..Settings::default() };
    let mut mirror = after(&named, settings, LAST);
    assert_eq!(find(&named, "10.0.2.77", 0), reason("neighbour_unresolved"));
    let is_known = |to: &str| Lookup::new(&named).unwrap().unwrap().is_known(address(to));
    // Of a group, and where a route says that packets are dropped; the host's own.
    assert_eq!(["10.0.2.77", "10.8.1.1", "10.9.8.1", "10.0.2.1"].map(is_known), [false, true, true, false]);
    assert_eq!(mirror.wanted(), []);
    let mut tables = Tables::find(&named).unwrap().unwrap();
    for wanted in ["10.0.2.77", "10.7.9.9", "10.0.2.12", "10.9.8.1"] {
        tables.wanted.set(&crate::program::mapped(address(wanted)), &true).unwrap();
    }
    let p = |number: u8| *mirror.kernel.links.iter().find(|(_, link)| link.name == format!("p{number}")).unwrap().0;
    let (p1, p2) = (p(1), p(2));
    let mut wanted = mirror.wanted();
    wanted.sort();
    assert_eq!(wanted, [(address("10.0.2.77"), p2), (address("192.0.2.1"), p1)]);
    // It is there; it moves; it is not heard of for long, while packets go there; it fails.
    let known = |last: u8, is_stale| Neighbour { mac: (last != 0).then_some([2, 0, 0, 0, 9, last]), is_stale };
    let hear = |mirror: &mut Mirror, neighbour| {
        mirror.apply(Event::Neighbour(address("10.0.2.77"), p2, neighbour));
        mirror.flush(&mut || true).unwrap();
    };
    hear(&mut mirror, known(1, false));
    let first = route(&named, "10.0.2.77");
    assert_eq!((first.port, first.mac.1), (2, [2, 0, 0, 0, 9, 1]));
    assert!(is_known("10.0.2.77"));
    hear(&mut mirror, known(2, false));
    assert_eq!(route(&named, "10.0.2.77").mac.1, [2, 0, 0, 0, 9, 2]);
    tables.used.set(&first.number, &1).unwrap();
    assert_eq!(mirror.in_use().unwrap(), []);
    hear(&mut mirror, known(2, true));
    assert_eq!(mirror.in_use().unwrap(), [], "no packet went there since");
    tables.used.set(&first.number, &1).unwrap();
    assert_eq!(mirror.in_use().unwrap(), [(address("10.0.2.77"), p2)]);
    hear(&mut mirror, known(0, false));
    assert_eq!(find(&named, "10.0.2.77", 0), reason("neighbour_unresolved"));
    assert!(!is_known("10.0.2.77"));
}

#[test]
fn what_is_set_by_hand_stays() {
    let named = tables();
    let mut tables = Tables::find(&named).unwrap().unwrap();
    let own = Hop { action: HopAction::Send, port: 9, mtu: 1000, number: 5, ..Hop::default() };
    tables.hops.set(&5, &own).unwrap();
    let prefix = Prefix("10.9.11.0".parse().unwrap(), 24);
    tables.routes4.set(&prefix, &5).unwrap();
    let mut mirror = after(&named, Settings::default(), LAST);
    assert_eq!((mirror.by_hand(), route(&named, "10.9.11.1").port), (1, 9));
    // Changed in the kernel, checked, and gone there.
    mirror.verify().unwrap();
    mirror.flush(&mut || true).unwrap();
    assert_eq!(tables.routes4.get(&prefix), Some(5));
    // Set in place of one of the kernel's.
    let other = Prefix("10.9.7.0".parse().unwrap(), 24);
    tables.routes4.set(&other, &5).unwrap();
    mirror.verify().unwrap();
    mirror.flush(&mut || true).unwrap();
    assert_eq!((tables.routes4.get(&other), mirror.by_hand()), (Some(5), 2));
    // Taken away: the kernel's come back.
    tables.routes4.remove(&prefix);
    tables.routes4.remove(&other);
    mirror.retry_by_hand();
    mirror.flush(&mut || true).unwrap();
    assert_eq!((mirror.by_hand(), route(&named, "10.9.11.1").port, route(&named, "10.9.7.1").port), (0, 3, 3));
}

#[test]
fn what_others_break_is_put_right() {
    let named = tables();
    let mut mirror = after(&named, Settings::default(), LAST);
    let mut tables = Tables::find(&named).unwrap().unwrap();
    let before = (tables.routes4.entries(), tables.hops.entries());
    let number = route(&named, "10.9.1.1").number;
    tables.routes4.remove(&Prefix("10.9.0.0".parse().unwrap(), 16));
    tables.routes4.set(&Prefix("192.0.2.0".parse().unwrap(), 24), &number).unwrap();
    tables.hops.set(&number, &Hop::default()).unwrap();
    mirror.verify().unwrap();
    mirror.flush(&mut || true).unwrap();
    assert_eq!((tables.routes4.entries(), tables.hops.entries()), before);
}

/// Another process goes on with the tables: routes stay in force, and what is no more goes.
#[test]
fn what_was_there_is_taken_over() {
    let named = tables();
    let first = after(&named, Settings::default(), LAST);
    let tables = Tables::find(&named).unwrap().unwrap();
    let before = tables.routes4.entries();
    let sends = |number: u32| tables.hops.get(&number).is_some_and(|hop| hop.action == HopAction::Send);
    drop(first);
    let mut second = mirror(&named, Settings::default());
    assert_eq!(tables.routes4.entries(), before);
    let last = record().into_iter().last().unwrap();
    take(&mut second, last);
    second.settle().unwrap();
    // All that is in the tables is what is wanted, and next hops of before are gone.
    let fresh_named = self::tables();
    let mut fresh = mirror(&fresh_named, Settings::default());
    take(&mut fresh, record().into_iter().last().unwrap());
    let shape = |named: &NamedTables| {
        let tables = Tables::find(named).unwrap().unwrap();
        let routes = tables.routes4.entries();
        let meant = routes.into_iter().map(|(prefix, number)| {
            let hop = tables.hops.get(&number).unwrap();
            (prefix, Hop { number: 0, first: 0, ..hop })
        });
        (meant.collect::<Vec<_>>(), tables.hops.len())
    };
    assert_eq!(shape(&named), shape(&fresh_named));
    // What did not change has kept its number.
    let kept = before.iter().filter(|(prefix, number)| sends(*number) && tables.routes4.get(prefix) == Some(*number));
    assert!(kept.count() > 0);
    assert!(tables.routes4.entries().iter().all(|(_, number)| *number >= FIRST));
}

/// Numbers and places come back: routes come and go for as long as one likes.
#[test]
fn numbers_are_given_again() {
    let named = tables();
    let mut mirror = after(&named, Settings::default(), LAST);
    let steps = record();
    let change = |start: &str| {
        let step = steps.iter().find(|step| step.command.starts_with(start)).unwrap();
        step.events.iter().find(|event| matches!(event, Event::Route(_))).unwrap().clone()
    };
    let group = change("route add 10.8.0.0/16 nexthop");
    let count = mirror.next_hops();
    // Three numbers each.
    for round in 0..22_000u32 {
        let Event::Route(mut route) = group.clone() else { panic!() };
        let mut path = (*route.path).clone();
        path.mtu = Some(600 + round % 400);
        route.path = Arc::new(path);
        route.replaces = true;
        mirror.apply(Event::Route(route));
        mirror.flush(&mut || true).unwrap();
        mirror.settle().unwrap();
    }
    assert_eq!((mirror.next_hops(), mirror.refused), (count + 2, 0));
}

/// One process after the other takes over, each with places of groups that the one before does not use.
#[test]
fn places_of_groups_do_not_run_out() {
    let named = tables();
    let tables = Tables::find(&named).unwrap().unwrap();
    let wanted = |command: &str| {
        command == "at the start" || command.starts_with("neigh add") || command.starts_with("route add 10.8.0.0/16")
    };
    let steps: Vec<Step> = record().into_iter().filter(|step| wanted(&step.command)).collect();
    let mut places = std::collections::BTreeSet::new();
    for _ in 0..300 {
        let mut next = mirror(&named, Settings::default());
        let mut touched = Touched::default();
        let all: Vec<Event> = steps.iter().flat_map(|step| step.dump.iter().chain(&step.events)).cloned().collect();
        next.kernel.replace(crate::kernel::tests::dumped(&all), &mut touched);
        next.flush(&mut || true).unwrap();
        next.settle().unwrap();
        assert_eq!(next.refused, 0);
        let groups = tables.hops.entries().into_iter().filter(|(_, hop)| hop.action == HopAction::Group);
        places.extend(groups.map(|(_, hop)| hop.first));
        assert_eq!(route(&named, "10.8.1.1").mac.1[..5], [2, 0, 0, 0, 0]);
    }
    assert!(places.len() > 1, "a group's places change while packets may hold them: {places:?}");
}

//! Recorded messages of the kernel, against what the kernel itself did with packets then (`recorded/record.py`).

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::decide::{Decision, Way, look_up};
use crate::recorded::{Step, record};

use super::event::{Event, TABLE_MAIN};
use super::state::{Kernel, Touched};

/// A dump as it is taken in.
pub fn dumped(events: &[Event]) -> Kernel {
    let mut kernel = Kernel::new(TABLE_MAIN);
    for mut event in events.iter().cloned() {
        if let Event::Route(route) = &mut event {
            (route.replaces, route.is_appended) = (false, true);
        }
        kernel.apply(event, &mut Touched::default());
    }
    kernel
}

/// A way as `ip route get` says it.
fn said(kernel: &Kernel, way: &Way, address: IpAddr) -> String {
    let gateway = way.neighbour.filter(|neighbour| *neighbour != address);
    let source = way.source.or_else(|| kernel.source(way.interface, way.neighbour.unwrap_or(address), way.is_ipv6));
    let text = |address: Option<IpAddr>| address.map_or("-".to_owned(), |address| address.to_string());
    format!("dev {} via {} src {}", kernel.links[&way.interface].name, text(gateway), text(source))
}

/// All that packets to an address may do.
fn answers(kernel: &Kernel, address: IpAddr) -> Vec<String> {
    match look_up(kernel, address) {
        Decision::Host => vec!["host".into()],
        Decision::Drop(reason) => vec![reason.name().into()],
        Decision::Ways(ways) => ways.iter().map(|(way, _)| said(kernel, way, address)).collect(),
    }
}

#[test]
fn packets_go_where_the_kernel_sends_them() {
    let (mut kernel, mut expected, mut steps) = (Kernel::new(TABLE_MAIN), BTreeMap::new(), 0);
    for Step { command, events, dump, answers: told } in record() {
        let mut touched = Touched::default();
        events.iter().cloned().for_each(|event| kernel.apply(event, &mut touched));
        if command.starts_with("addr del") || command.starts_with("link") && !command.contains("p3 mtu") {
            assert!(touched.doubtful || command.contains("address"), "{command}: the kernel is not asked again");
        }
        if !dump.is_empty() {
            kernel.replace(dumped(&dump), &mut Touched::default());
        }
        expected.extend(told);
        for (address, answer) in &expected {
            let found = answers(&kernel, *address);
            // The kernel also sends to where nothing is at the other end.
            let lost = |name: &str| kernel.links.values().any(|link| link.name == name && !link.has_carrier);
            if found[0].starts_with("dev") && answer.split(' ').nth(1).is_some_and(lost) && !found.contains(answer) {
                continue;
            }
            assert!(found.contains(answer), "after {command}: {address}: the kernel: {answer}; here: {found:?}");
            steps += 1;
        }
    }
    assert!(steps > 1000, "{steps}");
}

/// What events have made of it is what a dump at the end says.
#[test]
fn events_alone_lead_to_the_same_routes() {
    let mut kernel = Kernel::new(TABLE_MAIN);
    let all = record();
    for step in &all {
        let mut touched = Touched::default();
        step.events.iter().cloned().for_each(|event| kernel.apply(event, &mut touched));
        // Up to what the kernel does without a word.
        if step.command == "at the start" || touched.doubtful {
            let corrected = kernel.replace(dumped(&step.dump), &mut touched);
            assert!(step.command == "at the start" || corrected < 8, "{}: {corrected}", step.command);
        } else if !step.dump.is_empty() {
            let mut touched = Touched::default();
            let corrected = kernel.replace(dumped(&step.dump), &mut touched);
            assert_eq!(corrected, 0, "{}: {touched:?}", step.command);
        }
    }
    assert_eq!(all.last().map(|step| step.command.as_str()), Some("at the end"));
}

#[test]
fn groups_have_all_their_ways_and_weights() {
    let mut kernel = Kernel::new(TABLE_MAIN);
    for step in record() {
        step.events.into_iter().for_each(|event| kernel.apply(event, &mut Touched::default()));
        if !step.dump.is_empty() {
            kernel.replace(dumped(&step.dump), &mut Touched::default());
        }
        let ways = |address: &str| match look_up(&kernel, address.parse().unwrap()) {
            Decision::Ways(ways) => {
                let name = |way: &Way| kernel.links[&way.interface].name.clone();
                let mut ways: Vec<_> = ways.iter().map(|(way, weight)| (name(way), *weight)).collect();
                ways.sort();
                ways.into_iter().map(|(name, weight)| format!("{name}*{weight}")).collect::<Vec<_>>().join(" ")
            }
            other => format!("{other:?}"),
        };
        match step.command.as_str() {
            "route add 10.8.0.0/16 nexthop via 10.0.2.12 weight 1 nexthop via 10.0.3.13 weight 2" => {
                assert_eq!(ways("10.8.1.1"), "p2*1 p3*2");
            }
            "route add 10.5.0.0/16 nhid 9" => assert_eq!(ways("10.5.1.1"), "p2*1 p3*1"),
            "nexthop replace id 7 via 10.0.3.13 dev p3" => assert_eq!(ways("10.5.1.1"), "p3*1 p3*1"),
            "nexthop replace id 9 group 8" => assert_eq!(ways("10.5.1.1"), "p3*1"),
            "-6 route append 2001:db8:9::/48 via fe80::13 dev p3" => assert_eq!(ways("2001:db8:9::1"), "p2*1 p3*1"),
            "-6 route del 2001:db8:9::/48 via 2001:db8:2::12" => assert_eq!(ways("2001:db8:9::1"), "p3*1"),
            "link set p3 down" => assert_eq!(ways("10.8.1.1"), "p2*1"),
            "link set p3 up" => assert_eq!(ways("10.8.1.1"), "p2*1 p3*2"),
            // Nothing is at its other end.
            "link set q2 down" => assert_eq!(ways("10.8.1.1"), "p3*2"),
            _ => {}
        }
    }
}

//! Packets go where the kernel's routes say, and follow their changes.

use crate::network::{PATIENCE, Router, over_both};

const DROP: &str = "unresolved = \"drop\"";

over_both!(
    routes_are_followed,
    changes_lose_nothing,
    flows_take_all_ways,
    the_hosts_packets_are_its_own,
    hand_set_routes_stay
);

/// Gateways are resolved before a packet needs them; neighbours when one does.
fn routes_are_followed(driver: &'static str) {
    let router = Router::start(driver, DROP);
    router.ip("route add 10.9.0.0/16 via 10.0.2.12");
    let found = router.leads_to("10.9.1.1", 2);
    assert_eq!(
        (found["source"].as_str(), found["src"].as_str(), found["dst"].as_str(), found["mtu"].as_u64()),
        (Some("10.0.2.1"), Some("02:00:00:00:02:01"), Some("02:00:00:00:00:12"), Some(1500))
    );
    router.arrives("10.9.1.1", 2);
    router.ip("route add 10.9.1.0/24 via 10.0.3.13");
    router.leads_to("10.9.1.1", 3);
    router.arrives("10.9.1.1", 3);
    router.ip("route del 10.9.1.0/24");
    router.leads_to("10.9.1.1", 2);
    // The better metric wins; the other one takes over.
    router.ip("route add 10.9.0.0/16 via 10.0.3.13 metric 100");
    router.arrives("10.9.1.1", 2);
    router.ip("route del 10.9.0.0/16 via 10.0.2.12");
    router.leads_to("10.9.1.1", 3);
    // IPv6, by a link-local gateway, too.
    router.ip("-6 route add 2001:db8:9::/48 via 2001:db8:2::12");
    router.leads_to("2001:db8:9::1", 2);
    router.arrives("2001:db8:9::1", 2);
    let local = "fe80::ff:fe00:13";
    router.ip(&format!("-6 route replace 2001:db8:9::/48 via {local} dev {{3}}"));
    router.leads_to("2001:db8:9::1", 3);
    router.arrives("2001:db8:9::1", 3);
    router.ip(&format!("-4 route add default via inet6 {local} dev {{3}}"));
    router.leads_to("192.0.2.1", 3);
    router.arrives("192.0.2.1", 3);
    // A packet to a neighbour that is not known is dropped, and has it asked for.
    assert_eq!(router.json(&["routes", "2001:db8:2::12"])["port"], "p2");
    assert_eq!(router.dropped("neighbour_unresolved"), 0);
    router.ip("neigh flush dev {2}");
    router.until_route("10.0.2.12", "unresolved", |said| said["reason"] == "neighbour_unresolved");
    router.send("10.0.2.12", 1, 1);
    router.leads_to("10.0.2.12", 2);
    assert_eq!(router.dropped("neighbour_unresolved"), 1);
    router.arrives("10.0.2.12", 2);
    // Routes that lead nowhere.
    for (kind, reason) in [("blackhole", "blackhole"), ("prohibit", "prohibited"), ("unreachable", "unreachable")] {
        router.ip(&format!("route replace {kind} 10.9.8.0/24"));
        router.until_route("10.9.8.1", reason, |said| said["reason"] == reason);
        router.send("10.9.8.1", 1, 5);
        assert_eq!(router.dropped(reason), 5);
    }
    router.ip("route flush root 10.9.0.0/16");
    router.ip("-4 route del default");
    router.until_route("10.9.1.1", "gone", |said| said["reason"] == "no_route");
    router.stop();
}

/// A route changes from one neighbour to the other, there and back, under traffic: nothing is lost or doubled.
fn changes_lose_nothing(driver: &'static str) {
    let router = Router::start(driver, DROP);
    router.ip("route add 10.9.0.0/16 via 10.0.2.12");
    router.ip("route add 10.10.0.0/16 via 10.0.3.13");
    router.leads_to("10.9.1.1", 2);
    router.leads_to("10.10.1.1", 3);
    let (second, third) = (router.sink(2), router.sink(3));
    let stream = router.stream("10.9.1.1", 8, 4000);
    for round in 0..10 {
        let (host, ways) =
            [("10.0.3.13", "via 10.0.3.13"), ("10.0.2.12", "nexthop via 10.0.2.12 nexthop via 10.0.3.13")][round % 2];
        router.ip(&format!("route replace 10.9.0.0/16 {ways}"));
        router.ip(&format!("route replace 10.9.{}.0/24 via {host}", round % 3));
        router.ip(&format!("route del 10.9.{}.0/24", round % 3));
    }
    // All is quiet, and the last change is in force.
    router.ip("route replace 10.9.0.0/16 via 10.0.3.13");
    router.leads_to("10.9.1.1", 3);
    let sent = stream.stop().unwrap();
    let all = second.packets() + third.packets();
    let start = std::time::Instant::now();
    while second.packets() + third.packets() < sent.packets && start.elapsed() < PATIENCE {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let (second, third) = (second.stop().unwrap(), third.stop().unwrap());
    assert_eq!(second.packets + third.packets, sent.packets, "{all}: {second:?} {third:?} {sent:?}");
    assert_eq!((second.duplicated, third.duplicated), (0, 0));
    assert!(second.packets > 0 && third.packets > 0, "{second:?} {third:?}");
    router.stop();
}

fn flows_take_all_ways(driver: &'static str) {
    let router = Router::start(driver, DROP);
    router.ip("route add 10.8.0.0/16 nexthop via 10.0.2.12 weight 1 nexthop via 10.0.3.13 weight 3");
    router.ip("-6 route add 2001:db8:8::/48 nexthop via 2001:db8:2::12 nexthop via 2001:db8:3::13");
    for (address, least) in [("10.8.1.1", [10, 60]), ("2001:db8:8::1", [40, 40])] {
        for flow in 0..4 {
            let flow = flow.to_string();
            let command = ["routes", address, "--flow", &flow];
            let start = std::time::Instant::now();
            while router.json(&command)["to"] != "port" {
                assert!(start.elapsed() < PATIENCE, "{address}");
            }
        }
        let (second, third) = (router.sink(2), router.sink(3));
        // A packet per flow.
        router.send(address, 128, 128);
        let start = std::time::Instant::now();
        while second.packets() + third.packets() < 128 && start.elapsed() < PATIENCE {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let (second, third) = (second.stop().unwrap().packets, third.stop().unwrap().packets);
        assert_eq!(second + third, 128, "{address}");
        assert!(second >= least[0] && third >= least[1], "{address}: {second} and {third}");
    }
    router.stop();
}

/// What the program leaves to the host the host gets, and what the host sends goes out.
fn the_hosts_packets_are_its_own(driver: &'static str) {
    let router = Router::start(driver, "");
    for address in ["10.0.1.1", "2001:db8:1::1", "10.0.2.1"] {
        assert!(router.hosts[0].ping(address, PATIENCE).unwrap(), "{address}");
    }
    // The kernel forwards to neighbours that are not known yet, and they are known then.
    for key in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
        router.box_.set_sysctl(key, "1").unwrap();
    }
    for (to, host) in [("10.0.2.12", "10.0.2.12"), ("2001:db8:3::13", "2001:db8:3::13")] {
        router.ip("neigh flush all");
        assert!(router.hosts[0].ping(to, PATIENCE).unwrap(), "{to}");
        router.until_route(host, "known", |said| said["to"] == "port");
    }
    router.stop();
}

fn hand_set_routes_stay(driver: &'static str) {
    let router = Router::start(driver, DROP);
    router.ip("route add 10.9.0.0/16 via 10.0.2.12");
    router.leads_to("10.9.1.1", 2);
    let hop = "{ action = \"NEXT_HOP_SEND\", port = \"p3\", src = \"02:00:00:00:03:01\", dst = \"02:00:00:00:00:13\", \
               mtu = 1500, reason = \"no_reason\", ways = 0, first = 0, number = 7 }";
    router.ask(&["table", "set", "routes.hops", "7", hop]).ok();
    router.ask(&["table", "set", "routes.routes4", "10.9.0.0/16", "7"]).ok();
    router.arrives("10.9.1.1", 3);
    // The kernel's changes do not touch it.
    router.ip("route replace 10.9.0.0/16 via 10.0.2.12 mtu 1400");
    router.until("by hand", |said| said["by_hand"] == 1);
    router.arrives("10.9.1.1", 3);
    router.ask(&["table", "del", "routes.routes4", "10.9.0.0/16"]).ok();
    let found = router.leads_to("10.9.1.1", 2);
    assert_eq!(found["mtu"], 1400);
    router.stop();
}

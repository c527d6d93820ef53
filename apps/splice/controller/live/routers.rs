//! Clients and servers behind routers, whose links take less than others or lead nowhere.
//!
//! ```text
//! far 10.0.3.2 ── 10.0.3.1 client 10.0.1.11 ── Millrace ── 10.0.2.11 servers 10.0.4.1 ── 10.0.4.11, 10.0.4.12 far
//! ```

use std::time::{Duration, Instant};

use lab::{LinkConfig, Namespace, veth};

use crate::network::{Splice, must};
use crate::web::{Client, Server, pattern, sum};
use crate::{VIRTUAL, VIRTUAL6, servers, wait_until_up};

/// Bytes that the routers' far links take.
const MTU: &str = "1300";

/// Makes a router of a host: behind it, on a link that takes `MTU` bytes, is the host that is returned.
fn behind(router: &Namespace, subnet: u8, hosts: &[u8]) -> Namespace {
    let far = must(Namespace::new("far"));
    must(veth(router, "eth1", &far, "eth0"));
    must(router.configure("eth1", &LinkConfig::host().address(format!("10.0.{subnet}.1/24")).ipv6(true)));
    let config = LinkConfig::host().ipv6(true);
    must(far.configure("eth0", &hosts.iter().fold(config, |c, host| c.address(format!("10.0.{subnet}.{host}/24")))));
    let six = |ns: &Namespace, host: String| {
        must(ns.check(&[
            "ip",
            "-6",
            "address",
            "add",
            &format!("2001:db8:{subnet}::{host}/64"),
            "dev",
            if ns.name() == router.name() { "eth1" } else { "eth0" },
            "nodad",
        ]));
    };
    six(router, "1".into());
    hosts.iter().for_each(|host| six(&far, host.to_string()));
    for (key, value) in [("net.ipv4.ip_forward", "1"), ("net.ipv6.conf.all.forwarding", "1")] {
        must(router.set_sysctl(key, value));
    }
    // The link itself takes more, so that the host behind it does not know.
    for (version, net, metric) in
        [("-4", format!("10.0.{subnet}.0/24"), "0"), ("-6", format!("2001:db8:{subnet}::/64"), "1")]
    {
        // Before the link's own route, where there is another.
        let route = ["ip", version, "route", "replace", &net, "dev", "eth1", "metric", metric, "mtu", "lock", MTU];
        must(router.check(&route));
    }
    for (version, gateway) in [("-4", format!("10.0.{subnet}.1")), ("-6", format!("2001:db8:{subnet}::1"))] {
        must(far.check(&["ip", version, "route", "add", "default", "via", &gateway]));
    }
    far
}

/// What a host has learned of the way to an address.
#[track_caller]
fn knows_mtu(host: &Namespace, address: &str) {
    let route = must(host.check(&["ip", "route", "get", address])).text();
    assert!(route.contains(&format!("mtu {MTU}")), "{address}: {route}");
}

fn drops(splice: &Splice) -> String {
    splice.counters()["drops"].to_string()
}

fn responses_fit_the_way_to_the_client(driver: &str) {
    let splice = Splice::start(driver, &[], None);
    let _servers = servers(&splice);
    wait_until_up(&splice);
    let far = behind(&splice.client, 3, &[2]);
    for address in [VIRTUAL, VIRTUAL6] {
        let mut client = Client::connect(&far, address).unwrap();
        for target in ["/bytes/1000000", "/chunked/1000000", "/images/x", "/bytes/100000"] {
            let response = client.get(target).unwrap_or_else(|e| panic!("{target}: {e}: {}", drops(&splice)));
            assert_eq!(response.status, 200);
            if let Some(size) = target.strip_prefix("/bytes/") {
                assert_eq!(response.body, pattern(size.parse().unwrap()));
            }
        }
    }
    // It is the servers that were told.
    knows_mtu(&splice.servers, "10.0.2.254");
    knows_mtu(&splice.servers, "2001:db8:2::254");
    splice.stop();
}

#[test]
fn responses_fit_the_way_to_the_client_on_workers() {
    responses_fit_the_way_to_the_client("afpacket");
}

#[test]
fn responses_fit_the_way_to_the_client_in_the_kernel() {
    responses_fit_the_way_to_the_client("xdp");
}

/// A host that lets routers cut its packets, before a way that takes less: its requests come in fragments (RFC 1122
/// section 3.3.2).
#[test]
fn requests_in_fragments_are_answered() {
    let splice = Splice::start("xdp", &[], None);
    let _servers = servers(&splice);
    wait_until_up(&splice);
    let far = behind(&splice.client, 3, &[2]);
    must(far.set_sysctl("net.ipv4.ip_no_pmtu_disc", "1"));
    let next_hop = ["ip", "route", "replace", "10.0.1.0/24", "dev", "eth0", "src", "10.0.1.11", "mtu", "lock", "600"];
    must(splice.client.check(&next_hop));
    let mut client = Client::connect(&far, VIRTUAL).unwrap();
    for size in [3000, 200_000] {
        let body = pattern(size);
        let response = client.put("/sum", &body, false).unwrap_or_else(|e| panic!("{size}: {e}: {}", drops(&splice)));
        assert_eq!(String::from_utf8_lossy(&response.body), format!("{size} {:x}", sum(&body)));
    }
    // All but the shortest of its segments.
    assert!(splice.metric("fragmented_datagrams", &["reassembled"]) > 100, "{}", drops(&splice));
    splice.stop();
}

/// Changes that put the servers behind a router.
const FAR: [(&str, &str); 8] = [
    ("addresses = [", "gateways = [\"10.0.2.11\", \"2001:db8:2::11\"]\naddresses = ["),
    ("\"10.0.2.11:80\"", "\"10.0.4.11:80\""),
    ("\"10.0.2.12:80\"", "\"10.0.4.12:80\""),
    ("\"[2001:db8:2::11]:80\"", "\"[2001:db8:4::11]:80\""),
    ("\"[2001:db8:2::12]:80\"", "\"[2001:db8:4::12]:80\""),
    ("address = \"10.0.2.12:80\"", "address = \"10.0.4.12:80\""),
    ("address = \"[2001:db8:2::12]:80\"", "address = \"[2001:db8:4::12]:80\""),
    // Checks do not notice what happens.
    ("fall = 3", "fall = 100"),
];

/// Servers behind a router, which are there before they are checked for the first time.
fn with_far_servers(driver: &str, changes: &[(&str, &str)]) -> (Splice, Vec<Server>) {
    let mut running = Vec::new();
    let splice = Splice::start_with(driver, changes, None, |_, servers| {
        let far = behind(servers, 4, &[11, 12]);
        for (last, name) in [(11, "a"), (12, "b")] {
            for address in [format!("10.0.4.{last}:80"), format!("[2001:db8:4::{last}]:80")] {
                running.push(Server::start(&far, &address, name));
            }
        }
        Some(far)
    });
    (splice, running)
}

#[test]
fn requests_fit_the_way_to_the_server() {
    let (splice, _servers) = with_far_servers("xdp", &FAR);
    wait_until_up(&splice);
    for address in [VIRTUAL, VIRTUAL6] {
        let mut client = Client::connect(&splice.client, address).unwrap();
        // The first of a request's bytes are sent on by the controller, the others by the client.
        for (size, chunked) in [(3000, false), (1_000_000, false), (1_000_000, true)] {
            let body = pattern(size);
            let response =
                client.put("/sum", &body, chunked).unwrap_or_else(|e| panic!("{size}: {e}: {}", drops(&splice)));
            assert_eq!(String::from_utf8_lossy(&response.body), format!("{size} {:x}", sum(&body)));
        }
    }
    knows_mtu(&splice.client, "10.0.1.80");
    knows_mtu(&splice.client, "2001:db8:1::80");
    splice.stop();
}

#[test]
fn a_server_that_no_way_leads_to_is_passed_over_at_once() {
    let changes = [&FAR[..], &[("connect = \"1s\"", "connect = \"30s\"")]].concat();
    let (splice, _servers) = with_far_servers("afpacket", &changes);
    wait_until_up(&splice);
    for (version, lost) in [("-4", "10.0.4.12"), ("-6", "2001:db8:4::12")] {
        must(splice.servers.check(&["ip", version, "route", "add", "unreachable", lost]));
    }
    for address in [VIRTUAL, VIRTUAL6] {
        let start = Instant::now();
        for _ in 0..4 {
            let response = Client::connect(&splice.client, address).unwrap().get("/x").unwrap();
            assert_eq!((response.status, &*response.server), (200, "a"), "{}", drops(&splice));
        }
        assert!(start.elapsed() < Duration::from_secs(15), "{address}: {:?}", start.elapsed());
    }
    splice.stop();
}

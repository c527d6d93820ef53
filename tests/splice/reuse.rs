//! Connections to servers that outlast their clients.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::network::Splice;
use crate::web::{Client, Server, connect_from, pattern};
use crate::{VIRTUAL, VIRTUAL6, servers, wait_until_up};

/// Checks that do not disturb.
const SELDOM: (&str, &str) = ("interval = \"1s\", timeout", "interval = \"1h\", timeout");
const IMAGES: &str = "[controllers.splice.pools.images]\n";

fn accepted(servers: &[Server]) -> u64 {
    servers.iter().map(|server| server.accepted.load(Ordering::Relaxed)).sum()
}

/// Clients, one after the other, and the connections that the servers have got by that.
fn new_connections(splice: &Splice, servers: &[Server], address: &str, clients: usize) -> u64 {
    let before = accepted(servers);
    for number in 0..clients {
        let mut client = Client::connect(&splice.client, address).unwrap();
        for size in [number * 700, 1, 30_000] {
            let response =
                client.get(&format!("/bytes/{size}")).unwrap_or_else(|e| panic!("{e}: {}", splice.counters()));
            assert_eq!((response.status, response.body), (200, pattern(size)), "{number}");
        }
        drop(client);
    }
    accepted(servers) - before
}

fn clients_follow_each_other(driver: &str) {
    let splice = Splice::start(driver, &[SELDOM], None);
    let servers = servers(&splice);
    wait_until_up(&splice);
    for address in [VIRTUAL, VIRTUAL6] {
        let made = new_connections(&splice, &servers, address, 100);
        assert!(made <= 20, "{address}: {made} connections");
        // Who is known by the connection keeps it for itself.
        let before = accepted(&servers);
        for _ in 0..30 {
            let mut client = Client::connect(&splice.client, address).unwrap();
            assert_eq!(client.get("/ntlm").unwrap().status, 401);
            assert_eq!(client.get("/bytes/10").unwrap().body, pattern(10));
        }
        // The first may have taken over what the others have left.
        assert!(accepted(&servers) - before >= 10, "{}", accepted(&servers) - before);
    }
    splice.stop();
}

#[test]
fn clients_follow_each_other_on_workers() {
    clients_follow_each_other("afpacket");
}

#[test]
fn clients_follow_each_other_in_the_kernel() {
    clients_follow_each_other("xdp");
}

#[test]
fn each_client_has_its_own_connection_where_that_is_asked_for() {
    let splice = Splice::start("afpacket", &[SELDOM, ("balance", "reuse = \"never\"\nbalance")], None);
    let servers = servers(&splice);
    wait_until_up(&splice);
    assert_eq!(new_connections(&splice, &servers, VIRTUAL, 20), 20);
    splice.stop();
}

#[test]
fn connections_are_made_before_they_are_needed() {
    let images = format!("{IMAGES}warm = 2\ncheck = {{ interval = \"1h\" }}\n");
    let splice = Splice::start("afpacket", &[SELDOM, (IMAGES, &images), ("idle = \"1h\"", "warm = \"1h\"")], None);
    let servers = servers(&splice);
    wait_until_up(&splice);
    // Two on each version, and those of the first requests and checks.
    splice.wait("none are made", |_| servers[1].accepted.load(Ordering::Relaxed) >= 3);
    let before = accepted(&servers);
    for address in [VIRTUAL, VIRTUAL6] {
        for _ in 0..20 {
            let mut client = Client::connect(&splice.client, address).unwrap();
            let response = client.get("/images/x").unwrap();
            assert_eq!((&*response.server, &*response.body), ("b", &b"/images/x"[..]));
        }
    }
    let made = accepted(&servers) - before;
    assert!(made <= 8, "{made}");
    splice.stop();
}

/// A client whose connection has ended may use its port again at once: its SYN is answered, and not only the second one a second later.
#[test]
fn a_port_is_used_again_at_once() {
    const MOST: Duration = Duration::from_millis(700);
    for driver in ["afpacket", "xdp"] {
        let splice = Splice::start(driver, &[], None);
        let _servers = servers(&splice);
        wait_until_up(&splice);
        for round in 0..20 {
            let (any, address) = [("0.0.0.0", VIRTUAL), ("::", VIRTUAL6)][round % 2];
            let from = SocketAddr::new(any.parse().unwrap(), 2000 + (round % 4) as u16);
            let start = Instant::now();
            let stream = splice.client.enter(|| connect_from(from, address.parse().unwrap())).unwrap();
            let mut client = Client::of(stream.unwrap());
            assert!(start.elapsed() < MOST, "{driver} {round}: {:?}: {}", start.elapsed(), splice.counters());
            // The server closes first, so that the client need not wait.
            client.send(b"GET /bytes/1000 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
            assert_eq!(client.receive("GET").unwrap().body.len(), 1000);
            assert!(client.is_closed());
        }
        splice.stop();
    }
}

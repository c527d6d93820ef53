//! Connections to servers that outlast their clients.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::network::{Splice, must};
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
        // A client that is known by the connection keeps it for itself.
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
fn clients_follow_each_other_at_traffic_control() {
    clients_follow_each_other("tc");
}

/// Behind the first request of a connection to a server, responses with plain heads need no controller, which knows of
/// them all the same.
fn responses_pass_by_themselves(driver: &str) {
    const REQUESTS: usize = 60;
    let splice = Splice::start(driver, &[SELDOM], None);
    let _servers = servers(&splice);
    wait_until_up(&splice);
    for (address, version) in [(VIRTUAL, "4"), (VIRTUAL6, "6")] {
        let complete = splice.metric("service_requests", &["complete"]);
        let mut client = Client::connect(&splice.client, address).unwrap();
        let mut bytes = 0;
        for number in 0..REQUESTS {
            let size = [20, 300, 9000, 200_000][number % 4];
            let response = client.get(&format!("/bytes/{size}")).unwrap();
            assert_eq!((response.status, response.body), (200, pattern(size)), "{driver} {address} {number}");
            bytes += size as u64;
        }
        let counters = splice.counters();
        let passed = counters["channels"][format!("heads{version}.output")].as_u64().unwrap();
        assert!(passed >= REQUESTS as u64 / 2, "{driver} {address}: {passed} of {REQUESTS}: {counters}");
        drop(client);
        splice.wait("some requests are not counted", |splice| {
            splice.metric("service_requests", &["complete"]) == complete + REQUESTS as u64
        });
        assert!(splice.metric("service_bytes", &["down"]) >= bytes);
    }
    splice.stop();
}

#[test]
fn responses_pass_by_themselves_on_workers() {
    responses_pass_by_themselves("afpacket");
}

#[test]
fn responses_pass_by_themselves_in_the_kernel() {
    responses_pass_by_themselves("xdp");
}

#[test]
fn responses_pass_by_themselves_at_traffic_control() {
    responses_pass_by_themselves("tc");
}

/// What a client says of its own connection is none of the server's, which stays for the next one.
fn clients_ask_for_the_end(driver: &str) {
    let splice = Splice::start(driver, &[SELDOM], None);
    let servers = servers(&splice);
    wait_until_up(&splice);
    for address in [VIRTUAL, VIRTUAL6] {
        let before = accepted(&servers);
        for number in 0..100 {
            let size = [0, 1, 1000, 30_000, 500_000][number % 5];
            let mut client = Client::connect(&splice.client, address).unwrap();
            if number % 3 == 0 {
                assert_eq!(client.get("/bytes/20").unwrap().body, pattern(20));
            }
            let kind = ["bytes", "chunked"][number / 5 % 2];
            let response = client.get_last(&format!("/{kind}/{size}"));
            let response = response.unwrap_or_else(|e| panic!("{number}: {e}: {}", splice.counters()));
            assert_eq!((response.status, response.body), (200, pattern(size)), "{number}");
        }
        let made = accepted(&servers) - before;
        assert!(made <= 20, "{address}: {made} connections");
        // A server that closes says so to the client, too.
        let mut client = Client::connect(&splice.client, address).unwrap();
        assert_eq!(client.get_last("/close/5000").unwrap().body, pattern(5000));
    }
    splice.stop();
}

#[test]
fn clients_ask_for_the_end_on_workers() {
    clients_ask_for_the_end("afpacket");
}

#[test]
fn clients_ask_for_the_end_in_the_kernel() {
    clients_ask_for_the_end("xdp");
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
    let images = format!("{IMAGES}preconnect = 2\ncheck = {{ interval = \"1h\" }}\n");
    let splice = Splice::start("afpacket", &[SELDOM, (IMAGES, &images), ("idle = \"1h\"", "idle_pool = \"1h\"")], None);
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

/// A client whose connection has ended may use its port again at once: its SYN is answered, and not only the second one
/// a second later, also where it asks for explicit congestion notification. Each request goes to its own pool's server.
#[test]
fn a_port_is_used_again_at_once() {
    const MOST: Duration = Duration::from_millis(700);
    // Where the server closes its flow entries are still there, for what may come late.
    let never = ("balance", "reuse = \"never\"\nbalance");
    for (driver, changes, ecn) in
        [("afpacket", &[never][..], "1"), ("xdp", &[never], "1"), ("xdp", &[], "2"), ("xdp", &[], "1")]
    {
        let splice = Splice::start_with(driver, changes, None, |client, servers| {
            for host in [client, servers] {
                must(host.set_sysctl("net.ipv4.tcp_ecn", ecn));
            }
            None
        });
        let _servers = servers(&splice);
        wait_until_up(&splice);
        for round in 0..20 {
            let (any, address) = [("0.0.0.0", VIRTUAL), ("::", VIRTUAL6)][round % 2];
            let from = SocketAddr::new(any.parse().unwrap(), 2000 + (round % 4) as u16);
            let mut start = Instant::now();
            let connect = || splice.client.enter(|| connect_from(from, address.parse().unwrap())).unwrap();
            let mut stream = connect();
            // Where the client's FIN was lost on a busy machine its own end is not over yet.
            for _ in 0..100 {
                if !stream.as_ref().is_err_and(|e| e.kind() == ErrorKind::AddrNotAvailable) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
                start = Instant::now();
                stream = connect();
            }
            let stream = stream.unwrap_or_else(|e| panic!("{driver} {changes:?} {round}: {e}: {}", splice.counters()));
            let mut client = Client::of(stream);
            assert!(start.elapsed() < MOST, "{driver} {round}: {:?}: {}", start.elapsed(), splice.counters());
            // The other side closes first, so that the client need not wait.
            let (path, size) = if round % 3 == 0 { ("/images/x", 9) } else { ("/bytes/1000", 1000) };
            let response = client.get_last(path).unwrap();
            assert_eq!(response.body.len(), size);
            assert!(round % 3 != 0 || response.server == "b", "{driver} {round}: {}", response.server);
        }
        splice.stop();
    }
}

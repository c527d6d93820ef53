//! The splicer on live network namespaces: real clients and servers, good and bad links.
//!
//! They need root, or `unshare --user --map-root-user`, and fail without.

mod floods;
mod flows;
mod limits;
mod misbehaving;
mod network;
mod operations;
mod outlast;
mod removal;
mod reuse;
mod routers;
mod segments;
mod shared_interfaces;
mod stop;
mod takeover;
mod transparent;
mod web;

#[allow(dead_code)]
#[path = "../../../../tests/support/frames.rs"]
mod frames;
#[allow(dead_code)]
#[path = "../../../../tests/support/instance.rs"]
mod instance;
#[path = "../../../../tests/support/ipfix.rs"]
mod ipfix;
#[allow(dead_code)]
#[path = "../../../../tests/support/process.rs"]
mod process;
#[allow(dead_code)]
#[path = "../../../../tests/support/random.rs"]
mod random;
#[allow(dead_code)]
#[path = "../../../../tests/support/report.rs"]
mod report;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use lab::{Impairments, Loss, Reorder};
use serde_json::Value as Json;

use network::{PATIENCE, SERVERS, Splice, must};
use web::{Client, Server, pattern, sum};

const VIRTUAL: &str = "10.0.1.80:80";
const VIRTUAL6: &str = "[2001:db8:1::80]:80";

/// Both servers of the example, on both versions.
fn servers(splice: &Splice) -> [Server; 4] {
    std::array::from_fn(|at| Server::start(&splice.servers, SERVERS[at], ["a", "b"][at % 2]))
}

/// Waits until requests are served.
#[track_caller]
fn wait_until_up(splice: &Splice) {
    for (address, target) in [VIRTUAL, VIRTUAL6].into_iter().flat_map(|own| [(own, "/up"), (own, "/images/up")]) {
        splice.wait("no server is up", |splice| {
            Client::connect(&splice.client, address)
                .and_then(|mut client| client.get(target))
                .is_ok_and(|response| response.status == 200)
        });
    }
}

#[test]
fn who_asks_is_answered() {
    let splice = Splice::start("afpacket", &[], None);
    for address in ["10.0.1.80", "2001:db8:1::80"] {
        assert!(splice.client.ping(address, PATIENCE).unwrap(), "{address}: {}", splice.counters());
    }
    let _servers = servers(&splice);
    wait_until_up(&splice);
    for address in [VIRTUAL, VIRTUAL6] {
        let mut names = Vec::new();
        for _ in 0..4 {
            let mut client = Client::connect(&splice.client, address).unwrap();
            let response = client.get("/hello").unwrap();
            assert_eq!((response.status, &*response.body), (200, &b"/hello"[..]));
            names.push(response.server);
        }
        names.sort();
        assert_eq!(names, ["a", "a", "b", "b"], "{address}");
    }
    let (_, log) = splice.stop();
    eprintln!("{log}");
}

/// Transfers of all framings and some sizes, both ways, on one connection each.
fn transfer(splice: &Splice, address: &str, sizes: &[usize]) {
    let mut client = Client::connect(&splice.client, address).unwrap();
    for size in sizes {
        let expected = pattern(*size);
        for kind in ["bytes", "chunked"] {
            let response = client.get(&format!("/{kind}/{size}"));
            let response = response.unwrap_or_else(|error| panic!("{kind} {size}: {error}: {}", splice.counters()));
            assert!(response.status == 200 && response.body == expected, "{kind} {size}: {}", response.body.len());
        }
        for chunked in [false, true] {
            let response = client.put("/sum", &expected, chunked);
            let response = response.unwrap_or_else(|e| panic!("up {size} {chunked}: {e}: {}", splice.counters()));
            let text = format!("{size} {:x}", sum(&expected));
            assert_eq!(String::from_utf8_lossy(&response.body), text, "up, chunked: {chunked}");
        }
        client.send(format!("HEAD /bytes/{size} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
        assert_eq!(client.receive("HEAD").unwrap().status, 200);
    }
    for size in sizes {
        let mut client = Client::connect(&splice.client, address).unwrap();
        let response = client.get(&format!("/close/{size}")).unwrap();
        assert!(response.body == pattern(*size), "close {size}: {}", response.body.len());
        assert!(client.is_closed());
    }
}

const SIZES: [usize; 6] = [0, 1, 1000, 1448, 20_000, 1_000_000];

/// Files of all sizes, both ways; what ports have counted.
fn transfers(driver: &str) -> Json {
    let splice = Splice::start(driver, &[], None);
    let _servers = servers(&splice);
    wait_until_up(&splice);
    for address in [VIRTUAL, VIRTUAL6] {
        transfer(&splice, address, &SIZES);
        transfer(&splice, address, &[100_000_000]);
    }
    let ports = splice.counters()["ports"].clone();
    splice.stop();
    ports
}

#[test]
fn every_byte_arrives_on_workers() {
    transfers("afpacket");
}

#[test]
fn every_byte_arrives_in_the_kernel() {
    transfers("xdp");
}

/// Hosts leave segments and checksums to devices, and super-packets stay in the kernel: interfaces count them as one.
#[test]
fn every_byte_arrives_at_traffic_control() {
    let ports = transfers("tc");
    let [packets, bytes] = ["rx_packets", "rx_bytes"].map(|name| ports["servers"][name].as_u64().unwrap());
    assert!(bytes > 200_000_000 && bytes > 5000 * packets, "{ports}");
}

#[test]
fn each_request_of_a_connection_is_routed() {
    let splice = Splice::start("afpacket", &[], None);
    let servers = servers(&splice);
    wait_until_up(&splice);
    for address in [VIRTUAL, VIRTUAL6] {
        let mut client = Client::connect(&splice.client, address).unwrap();
        for round in 0..20 {
            assert_eq!(client.get("/images/x").unwrap().server, "b", "{round}");
            let response = client.get("/bytes/3000").unwrap();
            assert_eq!((response.body, response.status), (pattern(3000), 200));
            client.send(b"GET /y HTTP/1.1\r\nHost: Images.Example:80\r\n\r\n").unwrap();
            assert_eq!(client.receive("GET").unwrap().server, "b");
            // Only GET and HEAD go to the images.
            assert_eq!(client.put("/images/up", b"abc", false).unwrap().body, b"/images/up");
        }
        // Pipelined: answered in their order, each by its own server.
        let mut client = Client::connect(&splice.client, address).unwrap();
        let mut requests = Vec::new();
        for number in 0..10 {
            let path = if number % 2 == 0 { "images" } else { "other" };
            requests.extend(format!("GET /{path}/{number} HTTP/1.1\r\nHost: x\r\n\r\n").bytes());
        }
        // In two pieces, the first ends in the middle of a head.
        client.send(&requests[..100]).unwrap();
        client.send(&requests[100..]).unwrap();
        for number in 0..10 {
            let response = client.receive("GET").unwrap();
            let path = if number % 2 == 0 { "images" } else { "other" };
            assert_eq!(String::from_utf8_lossy(&response.body), format!("/{path}/{number}"));
            assert!(number % 2 == 1 || response.server == "b");
        }
    }
    assert!(servers.iter().all(|server| server.accepted.load(Ordering::Relaxed) > 0));
    splice.stop();
}

#[test]
fn what_is_wrong_is_answered() {
    let changes = [("request = \"10s\"", "request = \"1s\"")];
    let splice = Splice::start("afpacket", &changes, None);
    // There is no server yet.
    splice.wait("it is not offered", |splice| Client::connect(&splice.client, VIRTUAL).is_ok());
    assert_eq!(Client::connect(&splice.client, VIRTUAL).unwrap().get("/").unwrap().status, 503);
    let _servers = servers(&splice);
    wait_until_up(&splice);
    let fields = |text: &str| format!("GET / HTTP/1.1\r\nHost: x\r\n{text}\r\n\r\n");
    let long = fields(&format!("X: {}", "y".repeat(20_000)));
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", 400),
        (&*fields("Content-Length: 1\r\nTransfer-Encoding: chunked"), 400),
        (&*fields("X : y"), 400),
        ("GET / HTTP/1.1\r\nHost: x\r\n", 408),
        (&*long, 431),
    ] {
        let mut client = Client::connect(&splice.client, VIRTUAL).unwrap();
        client.send(request.as_bytes()).unwrap();
        let response = client.receive("GET").unwrap_or_else(|e| panic!("{request:.80}: {e}: {}", splice.counters()));
        assert_eq!(response.status, status, "{request:.80}");
        assert!(client.is_closed());
    }
    // After a good one, too.
    let mut client = Client::connect(&splice.client, VIRTUAL).unwrap();
    assert_eq!(client.get("/bytes/10").unwrap().status, 200);
    client.send(b"nonsense\r\n\r\n").unwrap();
    assert_eq!(client.receive("GET").unwrap().status, 400);
    assert!(client.is_closed());
    // Another port: no service is there, and that is said at once.
    let refused = Client::connect(&splice.client, "10.0.1.80:81").map(|_| ()).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    // A client that expects to be asked for its body.
    let mut client = Client::connect(&splice.client, VIRTUAL).unwrap();
    client.send(b"PUT /sum HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n").unwrap();
    std::thread::sleep(Duration::from_millis(300));
    client.send(b"abc").unwrap();
    assert_eq!(client.receive("PUT").unwrap().body, format!("3 {:x}", sum(b"abc")).into_bytes());
    splice.stop();
}

/// Requests until a number of them has come to each of two servers.
#[track_caller]
fn names(splice: &Splice, count: usize) -> Vec<String> {
    let ask = |_| {
        let response = Client::connect(&splice.client, VIRTUAL).and_then(|mut client| client.get("/who")).unwrap();
        assert_eq!(response.status, 200, "{}", splice.said());
        response.server
    };
    (0..count).map(ask).collect()
}

#[test]
fn a_dead_server_is_passed_over() {
    dead_server("never");
}

#[test]
fn a_dead_server_is_passed_over_where_there_are_connections_to_it() {
    dead_server("safe");
}

fn dead_server(reuse: &str) {
    // Checks are too seldom to notice anything.
    let own = format!("reuse = {reuse:?}\nbalance");
    let changes = [("interval = \"1s\", timeout", "interval = \"1h\", timeout"), ("balance", &*own)];
    let splice = Splice::start("afpacket", &changes, None);
    let server = |name: &'static str, port: &str| Server::start(&splice.servers, &format!("10.0.2.{port}:80"), name);
    let (a, b) = (server("a", "11"), server("b", "12"));
    let six: Vec<_> =
        ["11", "12"].map(|last| Server::start(&splice.servers, &format!("[2001:db8:2::{last}]:80"), "6")).into();
    wait_until_up(&splice);
    assert!(names(&splice, 8).iter().any(|name| name == "b"));
    // It refuses: the other one gets the request.
    drop(b);
    // On connections that it has it goes on.
    let kept = reuse == "safe";
    assert!(names(&splice, 10).iter().all(|name| name == "a" || kept));
    // It is gone altogether.
    must(splice.servers.check(&["ip", "address", "del", "10.0.2.12/24", "dev", "eth0"]));
    let start = Instant::now();
    assert!(names(&splice, 2).iter().all(|name| name == "a"));
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    // No server is left: that is said.
    drop(a);
    let mut client = Client::connect(&splice.client, VIRTUAL).unwrap();
    let status = client.get("/").unwrap().status;
    assert!([503, 504].contains(&status) || kept, "{status}");
    drop(six);
    splice.stop();
}

#[test]
fn every_byte_arrives_over_bad_links() {
    for (driver, links) in [
        (
            "afpacket",
            Impairments { loss: Loss::Random(0.02), delay: Duration::from_millis(5), ..Impairments::default() },
        ),
        (
            "xdp",
            Impairments {
                loss: Loss::Random(0.01),
                duplicate: 0.02,
                delay: Duration::from_millis(10),
                reorder: Reorder { probability: 0.03, gap: 3, hold: Duration::from_millis(5) },
                ..Impairments::default()
            },
        ),
    ] {
        let splice = Splice::start(driver, &[], Some(links));
        let _servers = servers(&splice);
        wait_until_up(&splice);
        for address in [VIRTUAL, VIRTUAL6] {
            transfer(&splice, address, &[0, 1, 1448, 20_000, 300_000]);
        }
        splice.stop();
    }
}

#[test]
fn curl_is_served() {
    let splice = Splice::start("afpacket", &[], None);
    let _servers = servers(&splice);
    wait_until_up(&splice);
    for address in ["10.0.1.80", "[2001:db8:1::80]"] {
        let urls = ["bytes/3000", "images/x", "chunked/100000"].map(|path| format!("http://{address}/{path}"));
        let curl =
            splice.client.command("curl").args(["-sS", "-v", "--fail", "-w", " %{num_connects}", "-o", "/dev/null"]);
        let curl = curl.args([&urls[0], "-o", "/dev/null", &urls[1], "-o", "/dev/null", &urls[2]]).limit(PATIENCE);
        // One connection for all.
        let done = must(curl.check());
        assert_eq!(done.text().split_whitespace().collect::<Vec<_>>(), ["1", "0", "0"], "{}", done.both());
        let input = pattern(200_000);
        let put = splice.client.command("curl").args(["-sS", "--fail", "-T", "-", &format!("http://{address}/sum")]);
        let answer = must(put.input(input.clone()).limit(PATIENCE).check()).text();
        assert_eq!(answer, format!("200000 {:x}", sum(&input)));
    }
    splice.stop();
}

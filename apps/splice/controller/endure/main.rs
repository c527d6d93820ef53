//! The splicer in the long run: very many connections one after the other, very many at once, long transfers, and
//! random ones over bad links. Every byte is compared, and no flow entry is left behind.
//!
//! `make endure` runs all of it, in release mode; as one of the ordinary tests each part is short and only shows that
//! it works.

mod bursts;
mod files;
mod held;
mod links;
mod server;

#[allow(dead_code)]
#[path = "../../../../tests/support/exposition.rs"]
mod exposition;
#[allow(dead_code)]
#[path = "../../../../tests/support/instance.rs"]
mod instance;
#[allow(dead_code)]
#[path = "../live/network.rs"]
mod network;
#[allow(dead_code)]
#[path = "../../../../tests/support/process.rs"]
mod process;
#[allow(dead_code)]
#[path = "../../../../tests/support/random.rs"]
mod random;
#[allow(dead_code)]
#[path = "../../../../tests/support/report.rs"]
mod report;
#[allow(dead_code)]
#[path = "../live/web.rs"]
mod web;

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use network::{PATIENCE, SERVERS, Splice, must};
use server::Servers;
use web::{Client, connect_from, pattern, sum};

/// Virtual addresses of the example, and where clients are.
const VIRTUAL: [&str; 2] = ["10.0.1.80:80", "[2001:db8:1::80]:80"];
/// Clients' addresses of each version: each has 64 512 ports.
const ADDRESSES: usize = 8;
const FIRST_PORT: usize = 1024;
const PORTS: usize = 65536 - FIRST_PORT;

/// A number of a full run, or of one that only shows that it works.
fn scale(full: usize, short: usize) -> usize {
    if std::env::var("ENDURE").is_ok_and(|value| value == "full") { full } else { short }
}

/// The splicer with room for all connections, in XDP.
fn start(changes: &[(&str, &str)], links: Option<lab::Impairments>) -> Splice {
    start_at("xdp", changes, links)
}

/// The same at ports of another kind.
fn start_at(driver: &str, changes: &[(&str, &str)], links: Option<lab::Impairments>) -> Splice {
    let own = [("connections = 65536", "connections = 120000"), ("keep_alive = \"60s\"", "keep_alive = \"1h\"")];
    let splice = Splice::start_with(driver, &[&own, changes].concat(), links, |client, _| {
        for number in 0..ADDRESSES {
            let (v4, v6) = (format!("10.0.1.{}/24", 100 + number), format!("2001:db8:1::{}/64", 100 + number));
            must(client.check(&["ip", "address", "add", &v4, "dev", "eth0"]));
            must(client.check(&["ip", "-6", "address", "add", &v6, "dev", "eth0", "nodad"]));
        }
        None
    });
    // The kernel's table of neighbours and its memory for TCP must not be what is measured.
    let _ = splice.client.check(&["sysctl", "-qw", "net.ipv4.tcp_max_tw_buckets=262144"]);
    splice
}

/// Waits until requests are served on both versions.
fn wait_until_up(splice: &Splice) {
    for address in VIRTUAL {
        splice.wait("no server is up", |splice| {
            Client::connect(&splice.client, address)
                .and_then(|mut client| client.get("/up"))
                .is_ok_and(|response| response.status == 200)
        });
    }
}

/// A connection with a flow key of its own: each number stands for another address and port.
fn connect(number: usize) -> std::io::Result<TcpStream> {
    let (which, port) = (number % (2 * ADDRESSES), FIRST_PORT + number / (2 * ADDRESSES) % PORTS);
    let to: SocketAddr = VIRTUAL[which % 2].parse().unwrap();
    let prefix = if to.is_ipv4() { "10.0.1." } else { "2001:db8:1::" };
    let from: IpAddr = format!("{prefix}{}", 100 + which / 2).parse().unwrap();
    connect_from(SocketAddr::new(from, port as u16), to)
}

/// Does something for each number below `count` on some threads in the clients' namespace. Every tenth part of it is
/// told.
fn each(splice: &Splice, threads: usize, count: usize, what: &str, work: impl Fn(usize) + Sync) -> Duration {
    let (next, start) = (AtomicUsize::new(0), Instant::now());
    thread::scope(|scope| {
        for _ in 0..threads {
            let (next, work, host) = (&next, &work, splice.client.clone());
            scope.spawn(move || {
                must(host.enter(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= count {
                            return;
                        }
                        work(number);
                        if (number + 1) % (count / 10).max(1000) == 0 {
                            println!("{what}: {} of {count} after {:.0?}", number + 1, start.elapsed());
                        }
                    }
                }));
            });
        }
    });
    start.elapsed()
}

/// Resident memory of Millrace in KiB.
fn memory(splice: &Splice) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", splice.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// How many connections there are.
fn sessions(splice: &Splice) -> usize {
    splice.json(&["sessions", "--limit", "200000"])["sessions"].as_array().unwrap().len()
}

/// Waits until all connections of clients are gone.
fn no_sessions(splice: &Splice) {
    let start = Instant::now();
    while sessions(splice) > 0 {
        let left = || splice.json(&["sessions", "--limit", "5"]);
        let kernel = || must(splice.client.check(&["nstat", "-az"])).text();
        assert!(
            start.elapsed() < PATIENCE,
            "{} connections are left: {}\n{}\n{}",
            sessions(splice),
            left(),
            splice.counters(),
            kernel()
        );
        thread::sleep(Duration::from_millis(100));
    }
}

/// Waits until all connections of clients are gone, and all flow entries but those of checks and of unused connections
/// to servers.
fn nothing_is_left(splice: &Splice, what: &str) {
    let start = Instant::now();
    let few = 200;
    while sessions(splice) > 0 || splice.entries("spliced.flows") > few {
        assert!(
            start.elapsed() < Duration::from_secs(180),
            "{what}: {} connections and {} blocks are left",
            sessions(splice),
            splice.entries("spliced.flows")
        );
        thread::sleep(Duration::from_millis(500));
    }
    println!(
        "{what}: 0 connections and {} control blocks {:.0?} after the end, memory {} KiB",
        splice.entries("spliced.flows"),
        start.elapsed(),
        memory(splice)
    );
}

/// A request on a connection of its own, closed by one side or the other.
fn short(number: usize) {
    let stream = connect(number).unwrap_or_else(|error| panic!("{number}: {error}"));
    let mut client = Client::of(stream);
    let close = if number.is_multiple_of(2) { "Connection: close\r\n" } else { "" };
    client.send(format!("GET /{number} HTTP/1.1\r\nHost: x\r\n{close}\r\n").as_bytes()).unwrap();
    let response = client.receive("GET").unwrap_or_else(|error| panic!("{number}: {error}"));
    assert_eq!((response.status, response.body), (200, format!("/{number}").into_bytes()));
    if number.is_multiple_of(2) {
        assert!(client.is_closed(), "{number}");
    }
}

#[test]
fn churn() {
    let count = std::env::var("ENDURE_CHURN").map_or(scale(1_000_000, 1500), |text| text.parse().unwrap());
    let splice = start(&[], None);
    let _servers = Servers::start(&splice.servers, 1000);
    wait_until_up(&splice);
    let (before, flows) = (memory(&splice), splice.entries("spliced.flows"));
    let time = each(&splice, 16, count, "churn", short);
    println!(
        "churn: {count} connections in {time:.1?}, {:.0} per second; memory {before} KiB before, {} KiB after; blocks {flows} before, {} after",
        count as f64 / time.as_secs_f64(),
        memory(&splice),
        splice.entries("spliced.flows"),
    );
    // That takes the minute for which closed connections are kept.
    if scale(1, 0) == 1 {
        nothing_is_left(&splice, "churn");
    }
    no_sessions(&splice);
    splice.stop();
}

#[test]
fn large() {
    large_at("xdp");
}

/// In super-packets.
#[test]
fn large_at_traffic_control() {
    large_at("tc");
}

fn large_at(driver: &str) {
    let size = scale(1_000_000_000, 3_000_000);
    let splice = start_at(driver, &[], None);
    let _servers = SERVERS.map(|address| web::Server::start(&splice.servers, address, "s"));
    wait_until_up(&splice);
    let bytes = pattern(size);
    let text = format!("{size} {:x}", sum(&bytes)).into_bytes();
    for address in VIRTUAL {
        let mut client = Client::connect(&splice.client, address).unwrap();
        for chunked in [false, true] {
            let start = Instant::now();
            let target = format!("/{}/{size}", if chunked { "chunked" } else { "bytes" });
            let response = client.get(&target).unwrap();
            assert!(response.body == bytes, "{target}: {}", response.body.len());
            let down = start.elapsed();
            assert!(client.put("/sum", &bytes, chunked).unwrap().body == text, "up, chunked: {chunked}");
            let up = start.elapsed() - down;
            println!(
                "large: {driver}: {address}, chunked {chunked}: {size} bytes down in {down:.1?}, up in {up:.1?}; memory {} KiB",
                memory(&splice)
            );
        }
    }
    splice.stop();
}

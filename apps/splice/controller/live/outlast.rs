//! Connections outlast the process, and changes of its configuration.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::network::{PATIENCE, Splice};
use crate::stop::Stop;
use crate::web::{Client, pattern, sum};
use crate::{VIRTUAL, VIRTUAL6, servers, wait_until_up};

/// Clients that keep their connections.
const CLIENTS: usize = 8;

/// Such clients, and transfers, while something happens to the splicer several times. Not one connection is cut, and
/// every byte is right.
pub fn under_load(
    splice: &mut Splice,
    addresses: [&str; 2],
    size: usize,
    times: usize,
    happens: impl Fn(&mut Splice, usize),
) {
    let (stop, served) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; CLIENTS]);
    let host = splice.client.clone();
    let large = pattern(size);
    thread::scope(|scope| {
        let stopping = Stop(&stop);
        let mut clients = Vec::new();
        for number in 0..CLIENTS {
            let (host, stop, served) = (&host, &stop, &served);
            clients.push(scope.spawn(move || {
                let mut client = Client::connect(host, addresses[number % 2]).unwrap();
                let mut round = 0;
                while !stop.load(Ordering::Relaxed) {
                    let size = 1 + number * 700 + round % 5000;
                    let (target, expected) = match round % 4 {
                        0 => (format!("/bytes/{size}"), pattern(size)),
                        1 => (format!("/chunked/{size}"), pattern(size)),
                        _ => (format!("/images/{round}"), format!("/images/{round}").into_bytes()),
                    };
                    let response = client.get(&target);
                    let response = response.unwrap_or_else(|error| panic!("client {number}, {round}: {error}"));
                    assert_eq!((response.status, response.body == expected), (200, true), "{number} {round}");
                    if round % 4 == 3 {
                        let response = client.put("/sum", &expected, round % 8 == 3);
                        let response = response.unwrap_or_else(|error| panic!("up {number}, {round}: {error}"));
                        let text = format!("{} {:x}", expected.len(), sum(&expected));
                        assert_eq!(String::from_utf8_lossy(&response.body), text, "{number} {round}");
                    }
                    served[number].fetch_add(1, Ordering::Relaxed);
                    round += 1;
                    // Some are idle most of the time.
                    thread::sleep(Duration::from_millis(number as u64 * 7));
                }
            }));
        }
        let transfers: Vec<_> = (0..4)
            .map(|number| {
                let (host, large) = (&host, &large);
                scope.spawn(move || {
                    let mut client = Client::connect(host, addresses[number / 2]).unwrap();
                    // The second transfer of a connection, too.
                    for kind in ["bytes", "chunked"] {
                        let response = client.get(&format!("/{kind}/{}", large.len()));
                        let response = response.unwrap_or_else(|error| panic!("{kind}: {error}"));
                        assert!(response.body == *large, "{kind} {}", response.body.len());
                        let chunked = kind == "chunked";
                        let response = client.put("/sum", large, chunked);
                        let response = response.unwrap_or_else(|error| panic!("up, {kind}: {error}"));
                        let text = format!("{} {:x}", large.len(), sum(large));
                        assert_eq!(String::from_utf8_lossy(&response.body), text, "up, {kind}");
                    }
                })
            })
            .collect();
        for time in 0..times {
            let before = served.each_ref().map(|own| own.load(Ordering::Relaxed));
            happens(splice, time);
            // All of them go on.
            let goes_on = |number: usize| served[number].load(Ordering::Relaxed) > before[number] + 5;
            let start = Instant::now();
            while !(0..CLIENTS).all(goes_on) {
                assert!(start.elapsed() < PATIENCE / 2, "a client is not served: {}", splice.state());
                thread::sleep(Duration::from_millis(20));
            }
        }
        transfers.into_iter().for_each(|own| own.join().unwrap());
        drop(stopping);
        clients.into_iter().for_each(|own| own.join().unwrap());
    });
}

/// Hosts that try long enough, while there is no process.
pub fn make_patient(splice: &Splice) {
    // A client without an answer asks again every second, not after pauses that double, as far as the kernel has
    // that (since Linux 6.15). As that makes 15 times a quarter of a minute, and a loaded machine takes longer to start
    // the process, it asks more often, too.
    for host in [&*splice.client, &splice.servers] {
        let _ = host.check(&["sysctl", "-qw", "net.ipv4.tcp_rto_max_ms=1000"]);
        // BBR, which some machines have as default, takes the time without a process for a slow path, and goes on at
        // some packets a second for a minute.
        host.check(&["sysctl", "-qw", "net.ipv4.tcp_congestion_control=reno"]).unwrap();
        host.check(&["sysctl", "-qw", "net.ipv4.tcp_retries2=255"]).unwrap();
        // Then the kernel sends to it without a worker.
        host.check(&["ethtool", "-K", "eth0", "gro", "on"]).unwrap();
    }
}

#[test]
fn connections_outlast_the_process() {
    connections_outlast("xdp");
}

#[test]
fn connections_outlast_the_process_at_traffic_control() {
    connections_outlast("tc");
}

fn connections_outlast(driver: &str) {
    let mut splice = Splice::start(driver, &[("keep_alive = \"60s\"", "keep_alive = \"600s\"")], None);
    make_patient(&splice);
    let _servers = servers(&splice);
    wait_until_up(&splice);
    // One that has nothing to say meanwhile, on a slow machine for longer than a minute.
    let mut quiet = Client::connect(&splice.client, VIRTUAL).unwrap();
    assert_eq!(quiet.get("/images/quiet").unwrap().status, 200);
    // And what an operator has said.
    assert_eq!(splice.millrace(&["servers", "drain", "web/b"]).status, Some(0));
    under_load(&mut splice, [VIRTUAL, VIRTUAL6], 10_000_000, 3, |splice, time| {
        thread::sleep(Duration::from_millis(300 + 150 * time as u64));
        splice.crash(Duration::from_millis(100 * time as u64));
        splice.wait("nothing is taken up", |splice| splice.said().contains("connections taken up"));
    });
    assert_eq!(quiet.get("/other").unwrap().body, b"/other");
    assert_eq!(splice.server("web/b")["admin"], "drain");
    drop(quiet);
    splice.stop();
}

#[test]
fn a_changed_configuration_cuts_nothing() {
    a_changed_configuration("xdp");
}

#[test]
fn a_changed_configuration_cuts_nothing_at_traffic_control() {
    a_changed_configuration("tc");
}

fn a_changed_configuration(driver: &str) {
    let mut splice = Splice::start(driver, &[], None);
    let _servers = servers(&splice);
    wait_until_up(&splice);
    let changes = [
        ("balance = \"round_robin\"", "balance = \"source\""),
        ("address = \"10.0.2.11:80\" },", "address = \"10.0.2.11:80\", weight = 0 },"),
        ("path = \"/images/*\"", "path = \"/pictures/*\""),
        ("connections = 65536", "connections = 60000"),
        ("fall = 3", "fall = 2"),
    ];
    under_load(&mut splice, [VIRTUAL, VIRTUAL6], 5_000_000, changes.len(), |splice, time| {
        thread::sleep(Duration::from_millis(100));
        splice.reload(&[changes[time]]);
    });
    splice.stop();
}

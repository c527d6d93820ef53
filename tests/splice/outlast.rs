//! Connections outlast the process, and changes of its configuration.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::network::Splice;
use crate::web::{Client, pattern, sum};
use crate::{VIRTUAL, VIRTUAL6, servers, wait_until_up};

/// Clients that keep their connections, and transfers, while something happens to the splicer. Not one connection is cut, and every
/// byte is right.
fn under_load(splice: &mut Splice, size: usize, happens: impl FnOnce(&mut Splice)) {
    let (stop, served) = (AtomicBool::new(false), AtomicU64::new(0));
    let host = splice.client.clone();
    let large = pattern(size);
    thread::scope(|scope| {
        let mut clients = Vec::new();
        for number in 0..8 {
            let (host, stop, served) = (&host, &stop, &served);
            clients.push(scope.spawn(move || {
                let mut client = Client::connect(host, [VIRTUAL, VIRTUAL6][number % 2]).unwrap();
                for round in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
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
                    served.fetch_add(1, Ordering::Relaxed);
                    // Some are idle most of the time.
                    thread::sleep(Duration::from_millis(number as u64 * 7));
                }
            }));
        }
        let transfers: Vec<_> = (0..4)
            .map(|number| {
                let (host, large) = (&host, &large);
                scope.spawn(move || {
                    let mut client = Client::connect(host, [VIRTUAL, VIRTUAL6][number / 2]).unwrap();
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
        happens(splice);
        // It goes on.
        let before = served.load(Ordering::Relaxed);
        splice.wait("nobody is served", |_| served.load(Ordering::Relaxed) > before + 50);
        transfers.into_iter().for_each(|own| own.join().unwrap());
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().for_each(|own| own.join().unwrap());
    });
}

#[test]
fn connections_outlast_the_process() {
    let mut splice = Splice::start("xdp", &[], None);
    let _servers = servers(&splice);
    wait_until_up(&splice);
    // One that has nothing to say meanwhile.
    let mut quiet = Client::connect(&splice.client, VIRTUAL).unwrap();
    assert_eq!(quiet.get("/images/quiet").unwrap().status, 200);
    under_load(&mut splice, 25_000_000, |splice| {
        for round in 0..5 {
            thread::sleep(Duration::from_millis(300 + 150 * round));
            splice.crash(Duration::from_millis(100 * round));
            assert!(splice.said().contains("connections taken up"), "{}", splice.said());
        }
    });
    assert_eq!(quiet.get("/other").unwrap().body, b"/other");
    drop(quiet);
    // Nothing stays longer than it must: blocks of connections that are over.
    splice.wait("blocks stay", |splice| splice.entries("spliced.blocks") <= 60);
    splice.stop();
}

#[test]
fn a_changed_configuration_cuts_nothing() {
    let mut splice = Splice::start("xdp", &[], None);
    let _servers = servers(&splice);
    wait_until_up(&splice);
    under_load(&mut splice, 5_000_000, |splice| {
        for (from, to) in [
            ("balance = \"round_robin\"", "balance = \"source\""),
            (
                "{ name = \"a\", address = \"10.0.2.11:80\" },",
                "{ name = \"a\", address = \"10.0.2.11:80\", weight = 0 },",
            ),
            ("path = \"/images/*\"", "path = \"/pictures/*\""),
            ("connections = 65536", "connections = 60000"),
            ("fall = 3", "fall = 2"),
        ] {
            thread::sleep(Duration::from_millis(300));
            splice.reload(&[(from, to)]);
        }
    });
    splice.stop();
}

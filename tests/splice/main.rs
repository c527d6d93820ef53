//! The splicer on live network namespaces: real clients and servers, good and bad links.
//!
//! They need root, or `unshare --user --map-root-user`, and fail without.

mod network;
mod web;

#[allow(dead_code)]
#[path = "../support/frames.rs"]
mod frames;
#[allow(dead_code)]
#[path = "../support/instance.rs"]
mod instance;
#[allow(dead_code)]
#[path = "../support/process.rs"]
mod process;
#[allow(dead_code)]
#[path = "../support/report.rs"]
mod report;

use network::{PATIENCE, Splice, must};
use web::{Client, Server, pattern, sum};

const VIRTUAL: &str = "10.0.1.80:80";
const VIRTUAL6: &str = "[2001:db8:1::80]:80";

/// Both servers of the example, on both versions.
fn servers(splice: &Splice) -> [Server; 4] {
    [("10.0.2.11:80", "a"), ("10.0.2.12:80", "b"), ("[2001:db8:2::11]:80", "a"), ("[2001:db8:2::12]:80", "b")]
        .map(|(address, name)| Server::start(&splice.servers, address, name))
}

/// Waits until requests are served.
#[track_caller]
fn wait_until_up(splice: &Splice) {
    for address in [VIRTUAL, VIRTUAL6] {
        splice.wait("no server is up", |splice| {
            Client::connect(&splice.client, address)
                .and_then(|mut client| client.get("/up"))
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

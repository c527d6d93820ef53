//! The splicer between other people's clients and servers, as `make compat` runs it: nginx, Apache and Python behind
//! it, with the TCP options that each could have; curl, wrk, ab, httperf, Python, Go and Chromium in front. Every byte
//! is compared. A collector of nfdump gets what was asked for as flows.
//!
//! Needs root and these programs (`tools/setup compat` installs them), and fails without.

mod clients;
mod collectors;
mod servers;

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
#[path = "../../../../tests/support/report.rs"]
mod report;

use network::Splice;
use servers::{Files, Server};

/// The virtual addresses of the example, as in a URL.
const ADDRESSES: [&str; 2] = ["10.0.1.80", "[2001:db8:1::80]"];

/// Sizes of the files that are fetched, in bytes.
const SIZES: [usize; 5] = [1, 1000, 1460, 100_000, 20_000_000];

/// A network whose servers' end is set up so.
fn start(driver: &str, prepare: &[&[&str]]) -> Splice {
    Splice::start_with(driver, &[], None, |_, servers| {
        for command in prepare {
            network::must(servers.check(command));
        }
        None
    })
}

/// All clients against servers of one kind at all addresses of the example.
fn all_clients(driver: &str, (kind, says_what_stays): (fn(&Splice, &Files) -> Server, bool), prepare: &[&[&str]]) {
    let splice = start(driver, prepare);
    let files = Files::new(&SIZES);
    let server = kind(&splice, &files);
    for address in ADDRESSES {
        clients::wait(&splice, address);
        clients::curl(&splice, address, &files);
        clients::python(&splice, address, &files);
        clients::go(&splice, address, &files);
        clients::wrk(&splice, address);
        clients::ab(&splice, address, says_what_stays);
        clients::httperf(&splice, address);
        clients::chromium(&splice, address, &files);
    }
    server.stop();
    splice.stop();
}

#[test]
fn nginx_on_workers() {
    all_clients("afpacket", (servers::nginx, true), &[]);
}

#[test]
fn nginx_in_the_kernel() {
    all_clients("xdp", (servers::nginx, true), &[]);
}

#[test]
fn nginx_at_traffic_control() {
    all_clients("tc", (servers::nginx, true), &[]);
}

#[test]
fn apache_on_workers() {
    all_clients("afpacket", (servers::apache, true), &[]);
}

#[test]
fn apache_in_the_kernel() {
    all_clients("xdp", (servers::apache, true), &[]);
}

#[test]
fn python_in_the_kernel() {
    all_clients("xdp", (servers::python, false), &[]);
}

/// Servers whose TCP lacks what the others have.
#[test]
fn servers_with_other_options() {
    let sysctl = |text: &'static str| ["sysctl", "-qw", text];
    for text in [
        "net.ipv4.tcp_timestamps=0",
        "net.ipv4.tcp_sack=0",
        "net.ipv4.tcp_window_scaling=0",
        // A window that takes the greatest scale, 14.
        "net.ipv4.tcp_rmem=4096 131072 1000000000",
    ] {
        println!("{text}");
        all_clients("xdp", (servers::nginx, true), &[&sysctl(text)]);
    }
    for mss in ["536", "8960"] {
        println!("advertised MSS: {mss}");
        let v4 = ["ip", "route", "change", "10.0.2.0/24", "dev", "eth0", "src", "10.0.2.11", "advmss", mss];
        all_clients("xdp", (servers::nginx, true), &[&v4]);
    }
}

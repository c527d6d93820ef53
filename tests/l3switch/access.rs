//! Access modes on live AF_XDP ports: traffic through the switch and to the host itself at the same time, and jumbo
//! frames in several fragments.

use std::thread;

use lab::{LinkConfig, Namespace, Signal, veth};

use crate::instance::Runtime;
use crate::jumbo::jumbo_frames_are_carried;
use crate::stream::Stream;
use crate::switch::{PATIENCE, Switch};
use crate::transfer::{BYTES, connect, exchange, listen};

#[test]
fn through_and_to_the_host_with_copies() {
    through_and_to_the_host("copy");
}

#[test]
fn through_and_to_the_host_in_place() {
    through_and_to_the_host("in-place");
}

#[test]
fn through_and_to_the_host_with_copies_of_headers() {
    through_and_to_the_host("header-copy");
}

/// Transfers between hosts, routed and switched, one to the router itself, and pings of all by all.
fn through_and_to_the_host(access: &str) {
    let switch = Switch::start_with("afxdp", &["--access", access]);
    let network = &switch.network;
    for from in &network.hosts {
        // ARP and ICMP of the router itself.
        for router in ["10.0.1.1", "10.0.2.1"] {
            assert!(from.ns.ping(router, PATIENCE).unwrap(), "{} does not reach {router}", from.name);
        }
    }
    let stream = Stream::start(network, 4, 2, &[60, 590, 1514], 2000);
    thread::scope(|scope| {
        for (number, (client, server)) in [(1, 3), (2, 1)].into_iter().enumerate() {
            let listener = listen(network.host(server), 5000 + number as u16);
            let to = listener.local_addr().unwrap();
            let (a, b) = (10 + number as u64, 20 + number as u64);
            scope.spawn(move || exchange(listener.accept().unwrap().0, a, b));
            scope.spawn(move || exchange(connect(network.host(client), to), b, a));
        }
        let router = network.switch.enter(|| std::net::TcpListener::bind(("10.0.2.1", 5009))).unwrap().unwrap();
        let to = router.local_addr().unwrap();
        scope.spawn(move || exchange(router.accept().unwrap().0, 5, 6));
        scope.spawn(move || exchange(connect(network.host(3), to), 6, 5));
    });
    assert!(stream.stop_whole().packets > 100);
    let report = switch.stop();
    for port in ["p1", "p2", "p3", "svi2p"] {
        assert!(report.port(port, "bytes sent") > BYTES as u64, "{report:?}");
    }
    for reason in ["bad_checksum", "bad_total_length", "truncated", "no_route"] {
        assert_eq!(report.dropped(reason), 0, "{report:?}");
    }
}

#[test]
fn jumbo_frames_with_copies() {
    jumbo_frames_are_carried("afxdp", &["--access", "copy"]);
}

#[test]
fn jumbo_frames_with_copies_of_headers() {
    jumbo_frames_are_carried("afxdp", &["--access", "header-copy"]);
}

/// Two hosts with a patch cable of Millrace between them; one end of it is the address of a third one, the machine that
/// Millrace runs on.
struct Patch {
    runtime: Runtime,
    hosts: [Namespace; 2],
    middle: Namespace,
}

impl Patch {
    fn new(config: &str) -> Patch {
        let new = |name| Namespace::new(name).unwrap();
        let patch = Patch { runtime: Runtime::new(), hosts: [new("h1"), new("h2")], middle: new("middle") };
        for (host, (port, address)) in patch.hosts.iter().zip([("p1", "10.9.0.11/24"), ("p2", "10.9.0.12/24")]) {
            veth(host, "eth0", &patch.middle, port).unwrap();
            host.configure("eth0", &LinkConfig::host().ipv6(true).address(address)).unwrap();
        }
        patch.middle.configure("p1", &LinkConfig::host().ipv6(true).address("10.9.0.1/24")).unwrap();
        patch.middle.configure("p2", &LinkConfig::port()).unwrap();
        patch.hosts.iter().for_each(|host| host.wait_running("eth0", PATIENCE).unwrap());
        patch.runtime.write("patch.toml", config);
        patch
    }

    fn run(&self, access: &str) -> lab::Running {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/patch.baker");
        let config = self.runtime.path("patch.toml");
        let command = self.middle.command(env!("CARGO_BIN_EXE_millrace")).args(["run", program, "-c", &config]);
        let command = command.args(["--no-socket", "--engine", "worker", "--access", access]);
        command.spawn().unwrap()
    }
}

const CONFIG: &str = "[ports.p1]\nnumber = 1\ndevice = \"afxdp:p1\"\nown = \"kernel\"\n[ports.p2]\nnumber = 2\ndevice = \
                      \"afxdp:p2\"\n";

#[test]
fn packets_for_the_hosts_own_addresses_are_told_apart_first() {
    let patch = Patch::new(CONFIG);
    let [h1, h2] = &patch.hosts;
    for access in ["copy", "in-place", "header-copy"] {
        let mut running = patch.run(access);
        running.wait_for_text("running on 2 ports", PATIENCE).unwrap_or_else(|error| panic!("{error}"));
        for (from, to) in [(h1, "10.9.0.1"), (h1, "10.9.0.12"), (h2, "10.9.0.11")] {
            assert!(from.ping(to, PATIENCE).unwrap(), "{access}: {to} is not reached");
        }
        // The patch takes a hop off; the host's own answer comes as it was sent.
        for (to, ttl) in [("10.9.0.1", 64), ("10.9.0.12", 63)] {
            let ping = h1.check(&["ping", "-n", "-c", "1", "-W", "10", to]).unwrap().text();
            assert!(ping.contains(&format!("ttl={ttl} ")), "{access}: {ping}");
        }
        // Addresses that come later are the host's, too; one has neighbour discovery first.
        let later = format!("10.9.0.{}", 100 + access.len());
        patch.middle.check(&["ip", "address", "add", &format!("{later}/24"), "dev", "p1"]).unwrap();
        patch.middle.check(&["ip", "-6", "address", "replace", "fd09::1/64", "dev", "p1", "nodad"]).unwrap();
        h1.check(&["ip", "-6", "address", "replace", "fd09::11/64", "dev", "eth0", "nodad"]).unwrap();
        for to in [later.as_str(), "fd09::1"] {
            assert!(h1.ping(to, PATIENCE).unwrap(), "{access}: {to} is not reached");
        }
        patch.middle.check(&["ip", "address", "del", &format!("{later}/24"), "dev", "p1"]).unwrap();
        running.signal(Signal::SIGINT).unwrap();
        let output = running.wait(PATIENCE).unwrap();
        assert_eq!(output.status.code(), Some(0), "{output}");
    }
}

#[test]
fn what_cannot_tell_packets_apart_says_so() {
    let patch = Patch::new(&CONFIG.replace("afxdp:p1", "afpacket:p1"));
    let output = patch.run("copy").wait(PATIENCE).unwrap();
    assert_eq!(output.status.code(), Some(2), "{output}");
    let error = "error: port p1: afpacket:p1: its packets cannot be told apart for the kernel: `own = \"kernel\"` takes an \
                 afxdp port";
    assert!(output.to_string().contains(error), "{output}");
}

//! Broadcasts without end: they fill their own domain, and the other one does not notice.

use std::time::Duration;

use lab::{Generator, Host, Namespace, RawPort, Traffic, veth};

use crate::frames::{BROADCAST, ETH_EXPERIMENT, ethernet};
use crate::stream::Stream;
use crate::switch::{MAC, PATIENCE, Switch, over_both};

over_both!(a_blast_of_broadcasts_leaves_the_other_domain_alone, a_loop_of_bridges_is_bounded_and_ends_with_the_loop);

/// Packets per second in the domain without a storm.
const RATE: u64 = 2000;

fn broadcast() -> Vec<u8> {
    ethernet(BROADCAST, MAC[0], ETH_EXPERIMENT, &[0x55; 46])
}

fn a_blast_of_broadcasts_leaves_the_other_domain_alone(driver: &str) {
    let switch = Switch::start(driver);
    let mut wires = switch.wires();
    (1..=4).for_each(|host| wires.announce(host));
    drop(wires);
    let stream = Stream::start(&switch.network, 3, 4, &[60, 1514], RATE);
    let blast = Traffic::frames([broadcast()]).unwrap();
    let blast = Generator::start(&switch.network.host(1).ns, Host::DEVICE, blast).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    // Asked and answered in the middle of it.
    let state = switch.ask_json(&["ports"]);
    assert!(state["p2"]["tx_packets"].as_u64().unwrap() > 10_000, "{state}");
    let blast = blast.stop().unwrap();
    assert!(stream.stop_whole().packets > RATE);
    let report = switch.stop();
    // Each broadcast came in or was lost before; each that came in went out once.
    let came = report.port("p1", "received");
    assert!(came + report.port("p1", "lost in kernel") >= blast.packets, "{blast:?} {report:?}");
    assert!(report.port("p2", "sent") + report.port("p2", "failed") <= came + 100, "{report:?}");
    assert_eq!(report.port("p3", "lost in kernel"), 0, "{report:?}");
}

/// A Linux bridge between the host's link to the switch and another device.
fn bridge(namespace: &Namespace, other: &str) {
    namespace.check(&["ip", "link", "add", "name", "loop", "type", "bridge", "stp_state", "0"]).unwrap();
    for device in [Host::DEVICE, other, "loop"] {
        if device != "loop" {
            namespace.check(&["ip", "link", "set", "dev", device, "master", "loop"]).unwrap();
        }
        namespace.check(&["ip", "link", "set", "dev", device, "up"]).unwrap();
    }
}

fn a_loop_of_bridges_is_bounded_and_ends_with_the_loop(driver: &str) {
    let switch = Switch::start(driver);
    let mut wires = switch.wires();
    (1..=4).for_each(|host| wires.announce(host));
    drop(wires);
    let network = &switch.network;
    let (h1, h2) = (&network.host(1).ns, &network.host(2).ns);
    // The switch, h1 and h2 in a ring: what one floods comes round again from the other side.
    veth(h1, "ring", h2, "ring").unwrap();
    bridge(h1, "ring");
    bridge(h2, "ring");
    h1.wait_running("ring", PATIENCE).unwrap();
    let sent = |switch: &Switch| switch.ask_json(&["ports"])["p1"]["tx_packets"].as_u64().unwrap();
    let stream = Stream::start(network, 3, 4, &[60, 1514], RATE);
    let before = sent(&switch);
    RawPort::open(h1, "ring").unwrap().send(&broadcast()).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let storm = sent(&switch) - before;
    assert!(storm > 1000, "one broadcast goes round and round: {storm}");
    // The loop is opened: the storm is over at once.
    h1.down("ring").unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let after = sent(&switch);
    std::thread::sleep(Duration::from_millis(500));
    assert!(sent(&switch) - after < 20, "the storm goes on");
    assert!(stream.stop_whole().packets > RATE);
    // Stations learned in the storm are at wrong ports, and are learned again.
    assert!(network.host(3).ns.ping("10.0.2.14", PATIENCE).unwrap());
    let report = switch.stop();
    assert_eq!(report.port("p3", "lost in kernel"), 0, "{report:?}");
}

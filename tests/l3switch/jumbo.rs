//! Frames of 9000 bytes and more: carried end to end where the frames of the pool are large enough, counted where not.

use std::time::Duration;

use lab::L3Options;

use crate::stream::Stream;
use crate::switch::{Network, PATIENCE, Switch, over_both};

over_both!(
    jumbo_frames_are_carried_where_frames_are_large_enough,
    frames_that_are_too_long_for_the_pool_are_counted_and_others_go_on
);

const MTU: u32 = 9000;
/// The longest frame, without VLAN tag.
const LONGEST: usize = MTU as usize + 14;

fn network(changes: &'static [(&'static str, &'static str)]) -> Network {
    Network { options: L3Options { mtu: MTU, ..L3Options::default() }, changes }
}

fn jumbo_frames_are_carried_where_frames_are_large_enough(driver: &str) {
    jumbo_frames_are_carried(driver, &[]);
}

pub fn jumbo_frames_are_carried(driver: &str, more: &[&str]) {
    let switch = Switch::start_both(driver, &network(&[("size = 2048 ", "size = 16384 ")]), more);
    if driver == "xdp" {
        let said = switch.said();
        for port in ["p1", "p2", "p3", "p4", "svi1p"] {
            assert!(said.contains(&format!("port {port}: {port}: native XDP; what is handed over comes in")), "{said}");
        }
    }
    let hosts = &switch.network;
    for (to, name) in [("10.0.1.12", "switched"), ("10.0.2.13", "routed"), ("10.0.1.1", "the router's own")] {
        // 28 bytes of IP and ICMP header; not to be fragmented.
        let words = ["-n", "-c", "3", "-i", "0.2", "-w", "20", "-M", "do", "-s", "8972", to];
        let ping = hosts.host(1).ns.command("ping").args(words).limit(PATIENCE * 2).run().unwrap();
        assert!(ping.text().contains(" 0% packet loss") && ping.text().contains("8980 bytes from"), "{name}: {ping}");
    }
    // The kernel has learned all hosts but h4.
    assert!(hosts.host(4).ns.ping("10.0.1.12", PATIENCE).unwrap());
    let routed = Stream::start(hosts, 1, 3, &[60, 1514, 5000, LONGEST], 4000);
    let back = Stream::start(hosts, 4, 2, &[LONGEST], 1000);
    std::thread::sleep(Duration::from_millis(500));
    assert!(routed.stop_whole().packets > 1000);
    assert!(back.stop_whole().packets > 200);
    let report = switch.stop();
    for port in ["p1", "p2", "p3", "p4", "svi1p"] {
        assert_eq!(report.port(port, "oversize"), 0, "{report:?}");
    }
    assert_eq!(report.dropped("tx_failed"), 0, "{report:?}");
}

fn frames_that_are_too_long_for_the_pool_are_counted_and_others_go_on(driver: &str) {
    let mut switch = Switch::start_in(driver, &network(&[]));
    let mut wires = switch.wires();
    wires.announce(1);
    wires.announce(3);
    let hosts = &switch.network;
    // Every second one is too long.
    let stream = Stream::start(hosts, 1, 3, &[1514, LONGEST], 2000);
    std::thread::sleep(Duration::from_millis(500));
    // The sink waits for what never comes, so it is told to stop by time.
    let (sent, received) = stream.stop();
    assert!(sent.packets > 500);
    let counted = switch.ask_json(&["ports"]);
    if driver != "xdp" {
        switch.logged(&["p1: packets come in that are longer than a frame"]);
    }
    let report = switch.stop();
    let oversize = report.port("p1", "oversize");
    assert_eq!(counted["p1"]["oversize"].as_u64(), Some(oversize), "{counted}");
    assert_eq!(received.lost(&sent), oversize, "{received:?}, {report:?}");
    if driver == "xdp" {
        // What the kernel forwards needs no frame.
        assert_eq!((oversize, report.dropped("tx_failed")), (0, 0));
        return;
    }
    // The eight flows go first with one length, then with the other.
    assert!(oversize.abs_diff(sent.packets / 2) <= 8, "{oversize} of {sent:?}");
}

//! Frames inside a domain: carried as they are, flooded where the station is not known, learned where it is.

use crate::frames::{BROADCAST, ETH_EXPERIMENT, Ipv4, ethernet};
use crate::random::Random;
use crate::switch::{IP, MAC, ROUTER, Switch, over_both};

over_both!(
    frames_of_every_length_class_are_carried_as_they_are,
    frames_to_unknown_stations_and_to_groups_are_flooded_in_their_domain_only,
    a_station_that_moves_is_found_at_its_new_port
);

fn frames_of_every_length_class_are_carried_as_they_are(driver: &str) {
    let switch = Switch::start(driver);
    let mut wires = switch.wires();
    let mut random = Random(1);
    wires.settle().nothing();
    for length in [14, 15, 16, 33, 34, 35, 59, 60, 61, 64, 65, 128, 1499, 1500, 1513, 1514] {
        for (from, to) in [(1, 2), (2, 1), (3, 4), (4, 3)] {
            let mut payload = random.bytes(length - 14);
            for kind in [ETH_EXPERIMENT, 0x0800, 0x86dd, 46] {
                // What follows the header is none of the bridge's business. The first byte is no IP version, so that
                // the kernel at the other end answers nothing.
                if let Some(first) = payload.first_mut() {
                    *first = 0;
                }
                let frame = ethernet(MAC[to - 1], MAC[from - 1], kind, &payload);
                assert_eq!(frame.len(), length);
                wires.send(from, &frame);
                let mut there = [false; 4];
                there[to - 1] = true;
                wires.settle().only(&frame, there);
            }
        }
    }
    // A VLAN tag (IEEE 802.1Q), which may make the frame four bytes longer. The kernel throws tagged frames of less
    // than 20 bytes away before any socket gets them.
    for length in [20, 60, 64, 1514, 1518] {
        let payload = [&[0x20, 0x64, 0x88, 0xb5], &random.bytes(length - 18)[..]].concat();
        let frame = ethernet(MAC[1], MAC[0], 0x8100, &payload);
        wires.send(1, &frame);
        wires.settle().only(&frame, [false, true, false, false]);
    }
    // A veth device takes no less than a header: shorter frames are for the tests with capture files.
    for length in [1, 13] {
        assert!(wires.hosts[0].send(&vec![0; length]).is_err());
    }
    assert_eq!(switch.stop().drops(), []);
}

fn frames_to_unknown_stations_and_to_groups_are_flooded_in_their_domain_only(driver: &str) {
    let switch = Switch::start(driver);
    let mut wires = switch.wires();
    let unknown = [2, 0, 0, 0, 0, 0x99];
    let multicast = [1, 0, 0x5e, 0, 0, 1];
    for dst in [unknown, BROADCAST, multicast] {
        for (from, to) in [(1, 2), (2, 1), (3, 4), (4, 3)] {
            let frame = ethernet(dst, MAC[from - 1], ETH_EXPERIMENT, b"where are you?");
            wires.send(from, &frame);
            let mut there = [false; 4];
            there[to - 1] = true;
            match dst == unknown {
                true => wires.settle().only(&frame, there),
                false => wires.settle().for_all(&frame, there, (from - 1) / 2),
            }
        }
    }
    // Hosts of the other domain are unknown stations, and so is the router's address there.
    for dst in [MAC[2], ROUTER[1]] {
        let frame = Ipv4::new(IP[0], IP[2], b"not to be routed").frame(dst, MAC[0]);
        wires.send(1, &frame);
        wires.settle().only(&frame, [false, true, false, false]);
    }
    assert_eq!(switch.stop_by(lab::Signal::SIGTERM).drops(), []);
}

fn a_station_that_moves_is_found_at_its_new_port(driver: &str) {
    let switch = Switch::start(driver);
    let mut wires = switch.wires();
    let station = [2, 0, 0, 0, 0, 0x77];
    let hello = ethernet(BROADCAST, station, ETH_EXPERIMENT, b"here I am");
    let to = |from: usize| ethernet(station, MAC[from - 1], ETH_EXPERIMENT, b"to the station");
    for (at, other) in [(1, 2), (2, 1), (1, 2)] {
        wires.send(at, &hello);
        wires.settle();
        let mut there = [false; 4];
        there[at - 1] = true;
        wires.send(other, &to(other));
        wires.settle().only(&to(other), there);
        // It is at the port that this comes from: it is sent nowhere.
        wires.send(at, &to(at));
        wires.settle().nothing();
    }
    // The same address in the other domain is another station.
    wires.send(3, &hello);
    wires.settle();
    wires.send(2, &to(2));
    wires.settle().only(&to(2), [true, false, false, false]);
    wires.send(4, &to(4));
    wires.settle().only(&to(4), [false, false, true, false]);
    assert_eq!(switch.stop().drops(), [("same_port", 3)]);
}

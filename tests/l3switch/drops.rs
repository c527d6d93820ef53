//! What must not get through is dropped, counted under the right reason, and nothing comes out anywhere.

use crate::frames::{BROADCAST, ETH_EXPERIMENT, ETH_IPV4, Ipv4, ethernet};
use crate::switch::{IP, MAC, ROUTER, Switch, over_both};

over_both!(bad_packets_are_dropped_and_counted);

/// A good packet from h1 to h3.
fn good() -> Ipv4 {
    Ipv4::new(IP[0], IP[2], b"a good packet")
}

fn bad_packets_are_dropped_and_counted(driver: &str) {
    let mut frames: Vec<(&str, Vec<u8>)> = Vec::new();
    let mut routed = |reason, packets: Vec<Ipv4>| {
        frames.extend(packets.into_iter().map(|packet| (reason, packet.frame(ROUTER[0], MAC[0]))));
    };
    let versions = (0..16).filter(|&version| version != 4);
    routed("bad_version", versions.map(|version| Ipv4 { version, ..good() }).collect());
    routed("bad_header_length", (0..5).map(|ihl| Ipv4 { ihl: Some(ihl), ..good() }).collect());
    let length = |total_length| Ipv4 { total_length: Some(total_length), ..good() };
    routed("bad_total_length", [0, 19, 34, 1500, u16::MAX].map(length).to_vec());
    let beyond = [6, 9, 15].map(|ihl| Ipv4 { ihl: Some(ihl), total_length: Some(20), ..good() });
    routed("bad_total_length", beyond.to_vec());
    let errors = (0..16).map(|bit| Ipv4 { checksum_error: 1 << bit, ..good() });
    routed("bad_checksum", errors.collect());
    let martians = [
        [0, 0, 0, 0],
        [0, 1, 2, 3],
        [127, 0, 0, 1],
        [127, 255, 255, 255],
        [224, 0, 0, 1],
        [239, 255, 255, 250],
        [240, 0, 0, 1],
        [255, 255, 255, 255],
    ];
    routed("martian_source", martians.map(|src| Ipv4 { src, ..good() }).to_vec());
    let nowhere = [[0; 4], [0, 1, 2, 3], [127, 0, 0, 1], [127, 255, 255, 255], [240, 0, 0, 1], [255, 255, 255, 254]];
    routed("martian_destination", nowhere.map(|dst| Ipv4 { dst, ..good() }).to_vec());

    let whole = good().bytes();
    let cut = |length: usize| ("truncated", ethernet(ROUTER[0], MAC[0], ETH_IPV4, &whole[..length]));
    frames.extend((0..20).map(cut));
    let group = [3, 0, 0, 0, 0, 0x11];
    frames.extend([BROADCAST, MAC[1], [2, 0, 0, 0, 0, 0x99]].map(|dst| {
        let frame = ethernet(dst, group, ETH_EXPERIMENT, b"from a group");
        ("group_source", frame)
    }));
    frames.extend([BROADCAST, MAC[1]].map(|dst| ("group_source", ethernet(dst, BROADCAST, ETH_EXPERIMENT, b"x"))));
    frames.push(("same_port", ethernet(MAC[0], MAC[0], ETH_EXPERIMENT, b"to the port it came from")));

    let switch = Switch::start(driver);
    let mut wires = switch.wires();
    // The switch must know that h1 is at p1.
    wires.settle().nothing();
    for (_, frame) in &frames {
        wires.send(1, frame);
    }
    wires.settle().nothing();
    // Nor from the other side, where the router has another address.
    wires.send(3, &Ipv4 { checksum_error: 1, ..good() }.frame(ROUTER[1], MAC[2]));
    wires.settle().nothing();

    let report = switch.stop();
    let mut expected: Vec<(&str, u64)> = Vec::new();
    for reason in frames.iter().map(|(reason, _)| *reason).chain(["bad_checksum"]) {
        match expected.iter_mut().find(|(name, _)| *name == reason) {
            Some((_, count)) => *count += 1,
            None => expected.push((reason, 1)),
        }
    }
    expected.sort();
    assert_eq!(report.drops(), expected);
    assert_eq!(report.port("p1", "oversize"), 0);
    assert_eq!(report.port("p1", "lost in kernel"), 0);
}

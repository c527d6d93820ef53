//! IPv4 between the domains: exactly the packet that RFC 1812 asks for comes out.

use lab::RawPort;

use crate::frames::{ETH_IPV4, Ipv4, checksum, ethernet};
use crate::random::Random;
use crate::switch::{GATEWAY, IP, MAC, PATIENCE, ROUTER, Switch, over_both};

over_both!(
    routed_packets_are_as_they_must_be,
    what_the_router_may_not_change_stays,
    an_expired_packet_is_answered_by_the_router,
    a_packet_without_a_route_is_answered_by_the_router
);

/// Options as hosts send them: router alert (RFC 2113), a longer record route (RFC 791), and as many as there may be.
fn options() -> Vec<Vec<u8>> {
    vec![vec![0x94, 4, 0, 0], vec![7, 7, 4, 0, 0, 0, 0, 0], vec![1; 40]]
}

/// A packet whose header has the checksum `wanted`, made so by its identification.
fn with_checksum(packet: &Ipv4, wanted: u16) -> Ipv4 {
    let with = |identification| Ipv4 { identification, ..packet.clone() };
    let found = (0..=u16::MAX).map(with).find(|p| p.bytes()[10..12] == wanted.to_be_bytes());
    found.unwrap_or_else(|| panic!("no identification gives the checksum {wanted:#06x}"))
}

fn routed_packets_are_as_they_must_be(driver: &str) {
    let switch = Switch::start(driver);
    let mut wires = switch.wires();
    wires.announce(3);
    wires.announce(1);
    let mut random = Random(2);
    let mut packets = Vec::new();
    let plain = |payload: &[u8]| Ipv4::new(IP[0], IP[2], payload);
    // Frames of 34 to 1514 bytes.
    for length in [0, 1, 2, 25, 26, 27, 30, 31, 1000, 1479, 1480] {
        packets.push(plain(&random.bytes(length)));
    }
    for ttl in [2, 3, 65, 128, 255] {
        packets.push(Ipv4 { ttl, ..plain(b"ttl") });
    }
    // Where the sum of the header wraps round when the TTL changes (RFC 1624 section 3).
    for wanted in [0xfefe, 0xfeff, 0xff00, 0xfffe, 0x0000, 0x0001, 0x00ff, 0x0100] {
        packets.push(with_checksum(&plain(b"checksum"), wanted));
    }
    for options in options() {
        packets.push(Ipv4 { options, ..plain(b"with options") });
    }
    let count = packets.len() as u64;
    for packet in packets {
        wires.send(1, &packet.frame(ROUTER[0], MAC[0]));
        let after = Ipv4 { ttl: packet.ttl - 1, ..packet.clone() }.frame(MAC[2], ROUTER[1]);
        let header = 14 + usize::from(after[14] & 15) * 4;
        assert_eq!(checksum(&after[14..header]), 0, "the test's own expectation");
        wires.settle().only(&after, [false, false, true, false]);
    }
    // And the other way.
    let back = Ipv4::new(IP[2], IP[0], b"back");
    wires.send(3, &back.frame(ROUTER[1], MAC[2]));
    wires.settle().only(&Ipv4 { ttl: 63, ..back }.frame(MAC[0], ROUTER[0]), [true, false, false, false]);
    let report = switch.stop();
    assert_eq!(report.ppf("eth_encap.encap"), count + 1, "the kernel had to help: {report:?}");
    assert_eq!(report.drops(), []);
}

fn what_the_router_may_not_change_stays(driver: &str) {
    let switch = Switch::start(driver);
    let mut wires = switch.wires();
    wires.announce(3);
    // A short packet in a frame that was filled up.
    let packet = Ipv4::new(IP[0], IP[2], b"short");
    let padded = |packet: &Ipv4, dst, src| ethernet(dst, src, ETH_IPV4, &[packet.bytes(), vec![0xee; 21]].concat());
    wires.send(1, &padded(&packet, ROUTER[0], MAC[0]));
    let after = padded(&Ipv4 { ttl: 63, ..packet }, MAC[2], ROUTER[1]);
    wires.settle().only(&after, [false, false, true, false]);
    // A wrong checksum is not made right: such a packet goes no further, options or not (RFC 1812 section 5.2.2).
    for error in [1, 0x0100, 0x8000] {
        let packet = Ipv4 { options: vec![1, 1, 1, 1], checksum_error: error, ..Ipv4::new(IP[0], IP[2], b"wrong") };
        wires.send(1, &packet.frame(ROUTER[0], MAC[0]));
        let outcome = wires.settle();
        assert!(outcome.hosts.iter().all(Vec::is_empty), "{outcome:02x?}");
    }
    // Only what is for the router is routed.
    let foreign = Ipv4::new(IP[0], IP[2], b"to h2").frame(MAC[1], MAC[0]);
    wires.send(1, &foreign);
    wires.settle().only(&foreign, [false, true, false, false]);
    assert_eq!(switch.stop().drops(), [("bad_checksum", 3)]);
}

/// The next ICMP error at a host.
fn icmp_error(port: &mut RawPort) -> Vec<u8> {
    let is_error = |frame: &[u8]| frame.len() >= 42 && frame[12..14] == [8, 0] && frame[23] == 1 && frame[34] == 11;
    port.recv_where(PATIENCE, is_error).unwrap().expect("no ICMP error came back")
}

fn an_expired_packet_is_answered_by_the_router(driver: &str) {
    let switch = Switch::start(driver);
    let mut wires = switch.wires();
    wires.announce(3);
    wires.announce(1);
    for ttl in [1, 0] {
        let packet = Ipv4 { ttl, protocol: 17, ..Ipv4::new(IP[0], IP[2], b"\x03\xe8\x00\x09\x00\x0c\x00\x00late") };
        wires.send(1, &packet.frame(ROUTER[0], MAC[0]));
        let error = icmp_error(&mut wires.hosts[0]);
        // RFC 792: time exceeded (11), in transit (0); the header and 8 bytes of the packet.
        assert_eq!(error[..12], [MAC[0], ROUTER[0]].concat());
        assert_eq!(error[26..34], [GATEWAY[0], IP[0]].concat());
        assert_eq!(error[34..36], [11, 0]);
        assert_eq!(error[42..70], packet.bytes()[..28]);
        assert_eq!((checksum(&error[14..34]), checksum(&error[34..])), (0, 0));
    }
    let outcome = wires.settle();
    assert_eq!(outcome.hosts[2], Vec::<Vec<u8>>::new(), "an expired packet was delivered");
    assert_eq!(switch.stop().dropped("ttl_expired"), 0);
}

fn a_packet_without_a_route_is_answered_by_the_router(driver: &str) {
    let switch = Switch::start(driver);
    let ping = switch.network.host(1).ns.command("ping").args(["-n", "-c", "1", "-W", "10", "192.0.2.1"]);
    let said = ping.limit(PATIENCE).run().unwrap().text();
    assert!(said.contains("From 10.0.1.1 ") && said.contains("Net Unreachable"), "{said}");
    assert_eq!(switch.stop().drops(), []);
}

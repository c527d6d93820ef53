//! Links carry packets and are set up as asked; raw sockets see and send exact frames.

use std::time::{Duration, Instant};

use crate::common::{NO_ANSWER, PATIENCE, pair};
use lab::{Error, LinkConfig, Namespace, RawPort, veth};

const A: lab::Mac = [2, 0, 0, 0, 0, 0xa];

#[test]
fn linked_namespaces_reach_each_other() {
    let (a, b) = pair(&LinkConfig::host());
    a.configure("eth0", &LinkConfig::host().mac(A).address("192.0.2.1/24")).unwrap();
    b.configure("eth0", &LinkConfig::host().address("192.0.2.2/24")).unwrap();
    assert_eq!(a.device("eth0").unwrap().mac, A);
    assert!(a.ping("192.0.2.2", PATIENCE).unwrap());
    assert!(b.ping("192.0.2.1", PATIENCE).unwrap());
    b.down("eth0").unwrap();
    assert!(!a.ping("192.0.2.2", NO_ANSWER).unwrap());
}

#[test]
fn ipv6_is_off_until_asked_for() {
    let (a, b) = pair(&LinkConfig::host());
    assert_eq!(a.sysctl("net.ipv6.conf.eth0.disable_ipv6").unwrap(), "1");
    a.configure("eth0", &LinkConfig::host().ipv6(true).address("2001:db8::1/64")).unwrap();
    b.configure("eth0", &LinkConfig::host().ipv6(true).address("2001:db8::2/64")).unwrap();
    assert!(a.ping("2001:db8::2", PATIENCE).unwrap());
}

#[test]
fn offloads_are_off_and_the_mtu_is_set() {
    let (a, _b) = pair(&LinkConfig::port().mtu(1400));
    let features = a.check(&["ethtool", "-k", "eth0"]).unwrap().text();
    for feature in [
        "rx-checksumming",
        "tx-checksumming",
        "scatter-gather",
        "tcp-segmentation-offload",
        "generic-segmentation-offload",
        "generic-receive-offload",
        "rx-vlan-offload",
        "tx-vlan-offload",
    ] {
        assert!(features.lines().any(|line| line == format!("{feature}: off")), "{feature}\n{features}");
    }
    let shown = a.check(&["ip", "-oneline", "link", "show", "eth0"]).unwrap().text();
    assert!(shown.contains("mtu 1400") && shown.contains("NOARP"), "{shown}");

    let (c, _d) = pair(&LinkConfig::port().keep_offloads());
    let features = c.check(&["ethtool", "-k", "eth0"]).unwrap().text();
    assert!(features.contains("\ntx-checksumming: on\n"), "{features}");
}

#[test]
fn static_neighbours_and_routes_replace_arp() {
    // b answers no ARP, so a reaches it through the permanent entry only; 198.51.100.1 only through the route.
    let (a, b) = pair(&LinkConfig::port());
    let peer = b.device("eth0").unwrap().mac;
    let own = a.device("eth0").unwrap().mac;
    a.configure("eth0", &LinkConfig::host().address("192.0.2.1/24")).unwrap();
    b.configure("eth0", &LinkConfig::port().address("192.0.2.2/24").address("198.51.100.1/32")).unwrap();
    b.neighbour("eth0", "192.0.2.1", own).unwrap();
    assert!(!a.ping("192.0.2.2", NO_ANSWER).unwrap());
    a.neighbour("eth0", "192.0.2.2", peer).unwrap();
    assert!(a.ping("192.0.2.2", PATIENCE).unwrap());
    assert!(!a.ping("198.51.100.1", NO_ANSWER).unwrap());
    a.default_route("192.0.2.2").unwrap();
    assert!(a.ping("198.51.100.1", PATIENCE).unwrap());
}

/// A frame of the local experimental Ethernet type 1 (IEEE 802), which nothing on the way answers.
fn frame(ether_type: &[u8], length: usize) -> Vec<u8> {
    let mut frame = [&[2, 0, 0, 0, 0, 0xb][..], &A[..], ether_type].concat();
    let header = frame.len();
    frame.extend((header..length).map(|i| u8::try_from(i % 251).unwrap()));
    frame
}

#[test]
fn raw_ports_carry_exact_frames() {
    let (a, b) = pair(&LinkConfig::port());
    let (mut from, mut to) = (RawPort::open(&a, "eth0").unwrap(), RawPort::open(&b, "eth0").unwrap());
    for length in [14, 60, 64, 1514] {
        let sent = frame(&[0x88, 0xb5], length);
        from.send(&sent).unwrap();
        assert_eq!(to.recv(PATIENCE).unwrap().as_ref(), Some(&sent), "{length} bytes");
    }
    let mut beside = RawPort::open(&a, "eth0").unwrap();
    from.send(&frame(&[0x88, 0xb5], 60)).unwrap();
    to.recv(PATIENCE).unwrap().unwrap();
    for port in [&mut from, &mut beside] {
        assert_eq!(port.recv(Duration::ZERO).unwrap(), None, "what a device sends does not arrive at it");
    }
    assert!(from.send(&frame(&[0x88, 0xb5], 1515 + 4)).is_err(), "longer than the MTU and a VLAN tag allow");
    assert!(from.send(&[0; 13]).is_err(), "shorter than an Ethernet header");
}

#[test]
fn raw_ports_keep_vlan_tags() {
    let (a, b) = pair(&LinkConfig::port());
    let (from, mut to) = (RawPort::open(&a, "eth0").unwrap(), RawPort::open(&b, "eth0").unwrap());
    let customer = frame(&[0x81, 0x00, 0xe0, 0x64, 0x88, 0xb5], 100);
    let stacked = frame(&[0x88, 0xa8, 0x00, 0x05, 0x81, 0x00, 0x00, 0x06, 0x88, 0xb5], 100);
    for sent in [customer, stacked] {
        from.send(&sent).unwrap();
        assert_eq!(to.recv(PATIENCE).unwrap().as_ref(), Some(&sent));
    }
}

#[test]
fn raw_ports_wait_no_longer_than_asked() {
    let (a, b) = pair(&LinkConfig::port());
    let (from, mut to) = (RawPort::open(&a, "eth0").unwrap(), RawPort::open(&b, "eth0").unwrap());
    let start = Instant::now();
    assert_eq!(to.recv(Duration::from_millis(50)).unwrap(), None);
    assert!(start.elapsed() >= Duration::from_millis(50));
    let (other, wanted) = (frame(&[0x88, 0xb5], 60), frame(&[0x88, 0xb6], 60));
    from.send(&other).unwrap();
    from.send(&wanted).unwrap();
    assert_eq!(to.recv_where(PATIENCE, |frame| frame[13] == 0xb6).unwrap(), Some(wanted));
    from.send(&other).unwrap();
    assert_eq!(to.recv_where(Duration::from_millis(50), |frame| frame[13] == 0xb6).unwrap(), None);
}

#[test]
fn raw_ports_see_only_their_own_device() {
    let (a, b) = pair(&LinkConfig::port());
    veth(&a, "eth1", &b, "eth1").unwrap();
    for ns in [&a, &b] {
        ns.configure("eth1", &LinkConfig::port()).unwrap();
    }
    a.wait_running("eth1", PATIENCE).unwrap();
    let mut zero = RawPort::open(&b, "eth0").unwrap();
    let mut one = RawPort::open(&b, "eth1").unwrap();
    let sent = frame(&[0x88, 0xb5], 60);
    RawPort::open(&a, "eth1").unwrap().send(&sent).unwrap();
    assert_eq!(one.recv(PATIENCE).unwrap(), Some(sent));
    assert_eq!(zero.recv(Duration::ZERO).unwrap(), None);
}

#[test]
fn wrong_names_are_errors() {
    let ns = Namespace::new("x").unwrap();
    assert!(matches!(RawPort::open(&ns, "eth0"), Err(Error::System { .. })));
    assert!(matches!(ns.configure("eth0", &LinkConfig::host()), Err(Error::System { .. })));
    assert!(matches!(veth(&ns, "a-name-that-is-too-long", &ns, "b"), Err(Error::Failed { .. })));
}

//! What the hosts' own programs see: ping and TCP, switched and routed, and the router's own addresses.

use std::thread;
use std::time::Duration;

use lab::Host;

use crate::random::Random;
use crate::report::Report;
use crate::switch::{PATIENCE, Switch, over_both};
use crate::transfer::{BYTES, connect, exchange, listen};

over_both!(
    every_host_reaches_every_other_and_the_router,
    tcp_transfers_arrive_whole,
    udp_datagrams_of_every_length_arrive
);

mod over_af_xdp {
    #[test]
    fn every_host_reaches_every_other_and_the_router() {
        super::every_host_reaches_every_other_and_the_router("afxdp");
    }

    #[test]
    fn tcp_transfers_arrive_whole() {
        super::tcp_transfers_arrive_whole("afxdp");
    }
}

mod at_traffic_control {
    #[test]
    fn every_host_reaches_every_other_and_the_router() {
        super::every_host_reaches_every_other_and_the_router("tc");
    }

    #[test]
    fn udp_datagrams_of_every_length_arrive() {
        super::udp_datagrams_of_every_length_arrive("tc");
    }

    #[test]
    fn tcp_transfers_arrive_whole() {
        super::tcp_transfers_arrive_whole("tc");
    }

    #[test]
    fn tcp_transfers_arrive_whole_with_offloads_on() {
        let report = super::transfer_with_offloads_on("tc");
        // Interfaces count super-packets as one, so packets are longer than any is on a network, acknowledgements
        // included; and the program gets as many: none was divided by a worker.
        let is_longer = |port| report.port(port, "bytes received") > 1514 * report.port(port, "received");
        assert!(["p1", "p2", "p3"].into_iter().any(is_longer), "{report:?}");
        let received: u64 = report.ports.keys().map(|port| report.port(port, "received")).sum();
        assert!(report.ppf("l3_switch.l2_clsfr") <= received + 100, "{report:?}");
        assert_eq!((report.dropped("malformed"), report.dropped("no_worker")), (0, 0), "{report:?}");
    }
}

fn every_host_reaches_every_other_and_the_router(driver: &str) {
    let switch = Switch::start(driver);
    let network = &switch.network;
    thread::scope(|scope| {
        // No host is there: the kernel gives up after three ARP requests, one second apart, and says so.
        let nobody = scope.spawn(|| {
            let ping = network.host(1).ns.command("ping").args(["-n", "-c", "1", "-W", "10", "10.0.2.99"]);
            ping.limit(PATIENCE).run().unwrap()
        });
        for from in &network.hosts {
            for to in network.hosts.iter().filter(|to| to.name != from.name) {
                assert!(from.ns.ping(&to.address, PATIENCE).unwrap(), "{} does not reach {}", from.name, to.name);
            }
            for router in ["10.0.1.1", "10.0.2.1"] {
                assert!(from.ns.ping(router, PATIENCE).unwrap(), "{} does not reach {router}", from.name);
            }
        }
        // The router itself reaches the hosts.
        for host in &network.hosts {
            assert!(network.switch.ping(&host.address, PATIENCE).unwrap(), "the router does not reach {}", host.name);
        }
        // One hop between the subnets, none within.
        for (address, ttl) in [("10.0.1.12", 64), ("10.0.2.13", 63)] {
            let ping = network.host(1).ns.check(&["ping", "-n", "-c", "1", "-W", "10", address]).unwrap().text();
            assert!(ping.contains(&format!("ttl={ttl} ")), "{ping}");
        }
        // A whole frame, and a packet of several fragments.
        for size in ["1472", "8000"] {
            for address in ["10.0.1.12", "10.0.2.13", "10.0.2.1"] {
                let ping = network.host(1).ns.command("ping").args(["-n", "-c", "1", "-W", "10", "-s", size, address]);
                ping.limit(PATIENCE).check().unwrap_or_else(|error| panic!("{error}"));
            }
        }
        let nobody = nobody.join().unwrap();
        assert!(nobody.text().contains("From 10.0.1.1 ") && nobody.text().contains("Unreachable"), "{nobody}");
    });
    let report = switch.stop();
    assert!(report.ppf("eth_encap.encap") >= 12, "the kernel did the routing: {report:?}");
    assert_eq!(report.drops(), [], "{report:?}");
}

#[test]
fn tcp_transfers_arrive_whole_with_offloads_on() {
    let report = transfer_with_offloads_on("afpacket");
    assert!(report.sections["received in super-packets"]["p1"] > 100, "{report:?}");
}

/// Lets a host leave checksums and segments to devices.
pub fn offloads_on(host: &Host) {
    let words = ["rx", "tx", "sg", "tso", "gso", "gro"].iter().flat_map(|feature| [feature, "on"]);
    let words: Vec<&str> = ["ethtool", "-K", Host::DEVICE].into_iter().chain(words).collect();
    host.ns.check(&words).unwrap();
}

/// Transfers between hosts that leave checksums and segments to devices, as kernels do.
fn transfer_with_offloads_on(driver: &str) -> Report {
    let switch = Switch::start(driver);
    switch.network.hosts.iter().for_each(offloads_on);
    let report = transfer(switch);
    for port in ["p1", "p2", "p3"] {
        assert_eq!((report.port(port, "oversize"), report.port(port, "unfinished")), (0, 0), "{report:?}");
    }
    report
}

fn tcp_transfers_arrive_whole(driver: &str) {
    transfer(Switch::start(driver));
}

/// Transfers between hosts, and what the switch counted.
fn transfer(switch: Switch) -> Report {
    let network = &switch.network;
    thread::scope(|scope| {
        // Opened from either side, each with data both ways, all at once: routed and switched.
        for (number, (client, server)) in [(1, 3), (3, 1), (1, 2), (2, 1)].into_iter().enumerate() {
            let listener = listen(network.host(server), 5000 + number as u16);
            let to = listener.local_addr().unwrap();
            let (a, b) = (10 + number as u64, 20 + number as u64);
            scope.spawn(move || exchange(listener.accept().unwrap().0, a, b));
            scope.spawn(move || exchange(connect(network.host(client), to), b, a));
        }
    });
    let report = switch.stop();
    for port in ["p1", "p2", "p3"] {
        assert!(report.port(port, "bytes received") > BYTES as u64, "{report:?}");
        assert!(report.port(port, "bytes sent") > BYTES as u64, "{report:?}");
    }
    assert_eq!(report.port("p4", "oversize"), 0);
    for reason in ["bad_checksum", "bad_total_length", "truncated", "no_route"] {
        assert_eq!(report.dropped(reason), 0, "{report:?}");
    }
    report
}

fn udp_datagrams_of_every_length_arrive(driver: &str) {
    let switch = Switch::start(driver);
    let network = &switch.network;
    let bind = |host: &Host| {
        let socket = host.ns.enter(|| std::net::UdpSocket::bind((host.address.as_str(), 7000))).unwrap().unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket
    };
    let (h2, h3) = (bind(network.host(2)), bind(network.host(3)));
    // The router learns h3 from its ARP request, so that no datagram waits for it.
    assert!(network.host(3).ns.ping("10.0.2.1", PATIENCE).unwrap());
    assert!(network.host(2).ns.ping("10.0.1.1", PATIENCE).unwrap());
    let (mut random, mut buffer) = (Random(3), vec![0; 2000]);
    for length in (0..=1472).step_by(23) {
        let sent = random.bytes(length);
        h2.send_to(&sent, "10.0.2.13:7000").unwrap();
        let (received, from) = h3.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..received], from), (&sent[..], "10.0.1.12:7000".parse().unwrap()));
        h3.send_to(&sent, from).unwrap();
        let (received, _) = h2.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..received], &sent[..]);
    }
    switch.stop();
}

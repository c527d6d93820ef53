//! The L3 switch's network: all is linked, and the kernel forwards and answers nothing by itself.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::{NO_ANSWER, PATIENCE};
use lab::{Host, L3Switch, RawPort};

const BROADCAST: [u8; 6] = [0xff; 6];

/// An ARP request from a host (RFC 826).
fn arp_request(host: &Host, target: [u8; 4]) -> Vec<u8> {
    let own: std::net::Ipv4Addr = host.address.parse().unwrap();
    let mut frame = [&BROADCAST[..], &host.mac, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &host.mac, &own.octets()].concat();
    frame.extend([0; 6]);
    frame.extend(target);
    frame.resize(60, 0);
    frame
}

fn is_arp_reply(frame: &[u8]) -> bool {
    frame.len() >= 22 && frame[12..14] == [8, 6] && frame[20..22] == [0, 2]
}

#[test]
fn the_network_is_as_documented() {
    let network = L3Switch::new().unwrap();
    let names: Vec<String> = network.switch.devices().unwrap().into_iter().map(|device| device.name).collect();
    for device in L3Switch::PORTS.iter().chain(&["svi1", "svi2"]) {
        assert!(names.iter().any(|name| name == device), "{device} in {names:?}");
    }
    assert_eq!(names.len(), 9, "{names:?}");
    for (device, mac, address) in L3Switch::GATEWAYS {
        assert_eq!(network.switch.device(device).unwrap().mac, mac);
        let shown = network.switch.check(&["ip", "-oneline", "-4", "address", "show", "dev", device]).unwrap().text();
        assert!(shown.contains(&format!(" {address}/24 ")), "{shown}");
    }
    for (number, address, gateway) in [
        (1, "10.0.1.11", "10.0.1.1"),
        (2, "10.0.1.12", "10.0.1.1"),
        (3, "10.0.2.13", "10.0.2.1"),
        (4, "10.0.2.14", "10.0.2.1"),
    ] {
        let host = network.host(number);
        assert_eq!((host.name.as_str(), host.port.as_str()), (&*format!("h{number}"), &*format!("p{number}")));
        assert_eq!(host.mac, [2, 0, 0, 0, 0, 0x10 + u8::try_from(number).unwrap()]);
        assert_eq!(host.ns.device(Host::DEVICE).unwrap().mac, host.mac);
        assert_eq!(host.address, address);
        let routes = host.ns.check(&["ip", "route"]).unwrap().text();
        assert!(routes.contains(&format!("default via {gateway} dev eth0")), "{routes}");
        assert!(routes.contains(&format!("src {address}")), "{routes}");
    }
    assert_eq!(network.switch.sysctl("net.ipv4.ip_forward").unwrap(), "0");
}

#[test]
fn the_kernel_neither_answers_on_ports_nor_forwards() {
    let network = L3Switch::new().unwrap();
    let (h1, h3) = (network.host(1), network.host(3));
    let mut p1 = RawPort::open(&network.switch, "p1").unwrap();
    let mut p3 = RawPort::open(&network.switch, "p3").unwrap();
    let mut wire = RawPort::open(&h1.ns, Host::DEVICE).unwrap();
    let request = arp_request(h1, [10, 0, 1, 1]);
    wire.send(&request).unwrap();
    assert_eq!(p1.recv(PATIENCE).unwrap(), Some(request), "the port taps what the host sends");
    assert_eq!(wire.recv_where(Duration::from_millis(100), is_arp_reply).unwrap(), None);

    // Even a packet addressed to the gateway's Ethernet address does not get from one subnet to the other.
    h1.ns.neighbour(Host::DEVICE, "10.0.1.1", L3Switch::GATEWAYS[0].1).unwrap();
    assert!(!h1.ns.ping(&h3.address, NO_ANSWER).unwrap());
    let ipv4 = |frame: &[u8]| frame[12..14] == [8, 0];
    let packet = p1.recv_where(PATIENCE, ipv4).unwrap().unwrap();
    assert_eq!(p3.recv_where(Duration::ZERO, ipv4).unwrap(), None);

    // Nor does the kernel forward it when a switch brings it to the gateway: it does not even ask for the target.
    let (mut svi, mut other) = ["svi1p", "svi2p"].map(|port| RawPort::open(&network.switch, port).unwrap()).into();
    svi.send(&packet).unwrap();
    assert_eq!(other.recv(Duration::from_millis(200)).unwrap(), None);

    // The kernel's own end of the subnet does answer what a switch would bring to it.
    svi.send(&arp_request(h1, [10, 0, 1, 1])).unwrap();
    let reply = svi.recv_where(PATIENCE, is_arp_reply).unwrap().unwrap();
    assert_eq!(reply[..12], [h1.mac, L3Switch::GATEWAYS[0].1].concat());
}

/// The Internet checksum of RFC 1071, 0 over data that includes a correct one.
fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u64;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap()
}

/// Whether a TCP/IPv4 frame has a correct TCP checksum (RFC 9293, 3.1); other frames have none to check.
fn tcp_checksum_holds(frame: &[u8]) -> bool {
    if frame[12..14] != [8, 0] || frame[23] != 6 {
        return true;
    }
    let header = usize::from(frame[14] & 15) * 4;
    let total = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
    let segment = &frame[14 + header..14 + total];
    let length = u16::try_from(segment.len()).unwrap().to_be_bytes();
    checksum(&[&frame[26..34], &[0, 6], &length, segment]) == 0
}

/// Floods between the three ports of the first subnet, as a hub; every frame must be whole, short and summed.
fn hub(mut ports: [RawPort; 3], stop: &AtomicBool) -> usize {
    let mut carried = 0;
    while !stop.load(Ordering::Relaxed) {
        let mut idle = true;
        for from in 0..ports.len() {
            while let Some(frame) = ports[from].recv(Duration::ZERO).unwrap() {
                assert!(frame.len() <= 1514, "{} bytes: a super-packet", frame.len());
                assert!(tcp_checksum_holds(&frame), "the checksum was left to hardware: {frame:02x?}");
                for to in (0..ports.len()).filter(|&to| to != from) {
                    ports[to].send(&frame).unwrap();
                }
                idle = false;
                carried += 1;
            }
        }
        if idle {
            thread::sleep(Duration::from_micros(200));
        }
    }
    carried
}

#[test]
fn a_user_space_hub_connects_the_first_subnet() {
    let network = L3Switch::new().unwrap();
    let (h1, h2, h3) = (network.host(1), network.host(2), network.host(3));
    let ports = ["p1", "p2", "svi1p"].map(|port| RawPort::open(&network.switch, port).unwrap());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        // Stops the hub when this ends, also by a failed assertion; else the scope would wait for it for ever.
        struct Stop<'a>(&'a AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let guard = Stop(&stop);
        let carrying = scope.spawn(|| hub(ports, &stop));
        assert!(h1.ns.ping(&h2.address, PATIENCE).unwrap());
        assert!(h1.ns.ping("10.0.1.1", PATIENCE).unwrap(), "the gateway is the kernel's, behind svi1p");
        assert!(!h1.ns.ping(&h3.address, NO_ANSWER).unwrap(), "the kernel does not forward");

        let sent: Vec<u8> = (0..200_000u32).map(|i| (i % 251) as u8).collect();
        let listener = h2.ns.enter(|| TcpListener::bind("10.0.1.12:80")).unwrap().unwrap();
        let mut client =
            h1.ns.enter(|| TcpStream::connect_timeout(&listener.local_addr().unwrap(), PATIENCE)).unwrap().unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.set_read_timeout(Some(PATIENCE)).unwrap();
        client.set_write_timeout(Some(PATIENCE)).unwrap();
        let writing = scope.spawn({
            let sent = sent.clone();
            move || {
                client.write_all(&sent).unwrap();
            }
        });
        let mut received = Vec::new();
        server.read_to_end(&mut received).unwrap();
        writing.join().unwrap();
        assert!(received == sent);
        drop(guard);
        assert!(carrying.join().unwrap() > sent.len() / 1460);
    });
}

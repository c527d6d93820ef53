//! Hosts whose checksums and segments are left to devices, through instances that see packets as the network has them.

use std::sync::Arc;

use super::live::{AFPACKET, Host, Make, in_namespace, ip};
use super::segments::{Unfinisher, some_super};
use super::stack::{self, Stack, connect, data, datagrams, serve};
use crate::packets::{Segments, Unfinished};
use crate::ports::{Driver, Gso};
use crate::testing::{SplitMix64, forward_program};
use crate::{FrameConfig, Instance, Options, PollMode, PortConfig, Snapshot};

const TAP: Make = |_| Driver::Tap { device: "t0".into() };
const BYTES: usize = 24 << 20;

/// An instance between a and another port, which may both send super-packets, or not.
fn start(other: Make, gso: Gso, frame_size: u32, workers: usize) -> Instance {
    let frames = FrameConfig { count: 8192, frame_size, ..FrameConfig::default() };
    let port = |name, number, make: Make| PortConfig { gso, ..PortConfig::new(name, number, make(name)) };
    let options = Options { frames, poll: PollMode::Interrupt, workers, ..Options::default() };
    Instance::start(forward_program(), &options, &[port("a", 0, AFPACKET), port("b", 1, other)]).unwrap()
}

/// What there was at both ports of an instance that has finished everything, divided some, and joined some or not.
fn stop(instance: Instance, joins: [bool; 2]) -> Snapshot {
    let report = instance.stop();
    assert_eq!((report.errors.len(), report.free_frames), (0, report.frames));
    for (name, joins) in ["a", "b"].into_iter().zip(joins) {
        let port = report.snapshot.port(name).unwrap();
        assert_eq!((&port.unfinished, port.oversize), (&Vec::new(), 0), "{port:?}");
        assert!(port.rx_super > 100 && port.rx_in_super > 2 * port.rx_super, "{port:?}");
        assert_eq!(port.tx_super > 100, joins, "{port:?}");
    }
    report.snapshot
}

/// Transfers both ways, opened by either side, and small datagrams.
fn exchange(left: &Stack, right: impl Fn(Box<dyn FnOnce() + Send>), bytes: usize) {
    let data = data(bytes);
    for is_ipv6 in [false, true] {
        let (own, other) = (stack::address(is_ipv6, 1), stack::address(is_ipv6, 2));
        let there = data.clone();
        let (to, server) = left.run(move || serve(own, &there));
        let here = data.clone();
        right(Box::new(move || connect(to, &here)));
        server.join().unwrap();
        // Datagrams of a few bytes, whose checksums are left to a device, too: question and answer.
        let socket = left.run(move || datagrams(own));
        let to = socket.local_addr().unwrap();
        let answering = std::thread::spawn(move || {
            let mut buffer = [0; 2000];
            for _ in 0..50 {
                let (len, from) = socket.recv_from(&mut buffer).unwrap();
                socket.send_to(&buffer[..len], from).unwrap();
            }
        });
        right(Box::new(move || {
            let socket = datagrams(other);
            for len in 0..50 {
                let question: Vec<u8> = (0..len * 29).map(|at| at as u8 ^ len as u8).collect();
                let mut answer = [0; 2000];
                socket.send_to(&question, to).unwrap();
                let (count, _) = socket.recv_from(&mut answer).unwrap();
                assert_eq!(answer[..count], question);
            }
        }));
        answering.join().unwrap();
    }
}

fn between_af_packet_ports(gso: Gso, mtu: usize, frame_size: u32, workers: usize) {
    for name in ["a", "b"] {
        ip(&format!("link set dev {name} mtu {mtu}"));
    }
    let (left, right) = (Stack::take("left", 1, mtu), Stack::take("right", 2, mtu));
    let instance = start(AFPACKET, gso, frame_size, workers);
    exchange(&left, |job| right.run(job), BYTES);
    stop(instance, [gso == Gso::On; 2]);
}

#[test]
fn transfers_arrive_whole_between_af_packet_ports() {
    in_namespace(1, || between_af_packet_ports(Gso::Auto, 1500, 2048, 1));
}

#[test]
fn so_they_do_where_super_packets_are_sent() {
    in_namespace(1, || between_af_packet_ports(Gso::On, 1500, 2048, 1));
}

#[test]
fn so_they_do_with_two_workers() {
    in_namespace(2, || between_af_packet_ports(Gso::Auto, 1500, 2048, 2));
}

#[test]
fn so_they_do_in_jumbo_packets() {
    in_namespace(1, || between_af_packet_ports(Gso::On, 9000, 16384, 1));
}

#[test]
fn transfers_arrive_whole_at_a_tap_port() {
    for (gso, joins) in [(Gso::Auto, true), (Gso::Off, false)] {
        in_namespace(1, move || {
            let left = Stack::take("left", 1, 1500);
            let instance = start(TAP, gso, 2048, 1);
            // The test's own stack is behind it.
            stack::set_up("t0", 2, 1500);
            exchange(&left, |job| job(), BYTES);
            stop(instance, [false, joins]);
        });
    }
}

/// Super-packets of all kinds become what they are as packets: with tags, options and extension headers.
#[test]
fn segments_are_forwarded_as_they_are() {
    in_namespace(1, || {
        let (sender, host) = (Unfinisher::on("left"), Host::on("right"));
        let instance = start(AFPACKET, Gso::Auto, 2048, 1);
        let mut random = SplitMix64(11);
        let mut sent = 0;
        for round in 0..100 {
            let (packet, size) = some_super(&mut random);
            sender.send(&packet, size);
            let bytes = packet.bytes();
            let mut segments = Segments::new(&bytes, &Unfinished::read(&packet.header(size)).unwrap(), None).unwrap();
            while let Some(len) = segments.next_len() {
                let mut own = vec![0; len];
                segments.write(&bytes, &mut own);
                let (mut came, tag) = host.receive().expect("a segment arrives");
                if let Some(tag) = tag {
                    came.splice(12..12, [[0x81, 0], tag.to_be_bytes()].concat());
                }
                assert!(came == own, "round {round}, {} left: {packet:?}", segments.left());
                sent += 1;
            }
        }
        let report = instance.stop();
        let port = report.snapshot.port("a").unwrap();
        assert_eq!((port.rx_super, port.rx_in_super, port.rx_packets), (100, sent, sent));
        assert_eq!(
            (&port.unfinished, port.oversize, report.snapshot.port("b").unwrap().tx_packets),
            (&vec![], 0, sent)
        );
    });
}

/// More of them at once than a batch has room for, and longer ones than frames are.
#[test]
fn super_packets_of_many_segments_take_several_batches() {
    in_namespace(1, || {
        let (sender, host) = (Unfinisher::on("left"), Host::on("right"));
        let instance = start(AFPACKET, Gso::Auto, 2048, 1);
        let packet = super::super_packet::Super::new(false, true, 60_000);
        for size in [100, 2000, 1000] {
            sender.send(&packet, size);
        }
        let payload: Vec<u8> = (0..600 + 60)
            .flat_map(|_| host.receive().expect("a segment arrives").0[packet.headers()..].to_vec())
            .collect();
        assert!(payload == [&packet.payload[..], &packet.payload].concat());
        let report = instance.stop();
        let port = report.snapshot.port("a").unwrap();
        assert_eq!((port.rx_packets, port.oversize, port.rx_super, port.rx_in_super), (660, 30, 3, 690));
        assert_eq!(report.free_frames, report.frames);
    });
}

/// What nothing can be made of is dropped, and counted by reason.
#[test]
fn what_cannot_be_finished_is_counted() {
    in_namespace(1, || {
        let (sender, host) = (Unfinisher::on("left"), Host::on("right"));
        let instance = start(AFPACKET, Gso::Auto, 2048, 1);
        let mut packet = super::super_packet::Super::new(false, true, 3000);
        // IP's header says that it is shorter; the kernel does not look.
        packet.lies = true;
        sender.send(&packet, 1000);
        packet.lies = false;
        sender.send(&packet, 1000);
        (0..3).for_each(|_| assert!(packet.is_right(&host.receive().unwrap().0)));
        let snapshot = super::live::eventually(&instance, |s| !s.port("a").unwrap().unfinished.is_empty());
        assert_eq!(snapshot.port("a").unwrap().unfinished, [("bad_headers", 1)]);
        let report = instance.stop();
        assert_eq!(report.snapshot.port("a").unwrap().rx_packets, 3);
    });
}

/// What passes in a second, and at what cost: `cargo test -p dataplane --release -- --ignored rate_of_transfers
/// --nocapture`, on an idle machine.
#[test]
#[ignore = "a measurement"]
fn rate_of_transfers() {
    for (name, off, gso) in [
        ("offloads off", true, Gso::Auto),
        ("offloads on", false, Gso::Auto),
        ("offloads on, gso = \"on\"", false, Gso::On),
    ] {
        in_namespace(1, move || {
            let (left, right) = (Stack::take("left", 1, 1500), Stack::take("right", 2, 1500));
            if off {
                for (stack, interface) in [(&left, "left"), (&right, "right")] {
                    let words = format!("-K {interface} tx off tso off gso off gro off tx-udp-segmentation off");
                    stack.run(move || super::live::run("ethtool", &words));
                }
            }
            let instance = start(AFPACKET, gso, 2048, 1);
            let data: Arc<Vec<u8>> = data(200 << 20);
            let (there, here) = (data.clone(), data.clone());
            let own = left.address(false);
            let (to, server) = left.run(move || serve(own, &there));
            let start = std::time::Instant::now();
            right.run(move || connect(to, &here));
            server.join().unwrap();
            let rate = 2.0 * data.len() as f64 * 8.0 / start.elapsed().as_secs_f64() / 1e9;
            println!("{name}: {rate:.2} Gbit/s both ways together");
            instance.stop();
        });
    }
}

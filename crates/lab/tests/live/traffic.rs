//! Generator and sink: every packet is accounted for, and the sink sees what a link does to packets.

use std::time::Duration;

use lab::{
    Emulator, Flow, Generator, Impairments, LinkConfig, Loss, Namespace, Received, Reorder, Sent, Sink, Traffic,
    Transport, Wire,
};

use crate::common::{PATIENCE, pair};

const MACS: (lab::Mac, lab::Mac) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);

fn flow(transport: Transport) -> Flow {
    Flow { mac: MACS, address: ([192, 0, 2, 1].into(), [192, 0, 2, 2].into()), transport }
}

fn udp_flows(count: u16) -> Vec<Flow> {
    (0..count).map(|i| flow(Transport::Udp { ports: (1024 + i, 9) })).collect()
}

/// Sends from `a` to `b` until all have come.
fn run(a: &Namespace, b: &Namespace, traffic: Traffic) -> (Sent, Received) {
    let sink = Sink::start(b, "eth0", None).unwrap();
    let sent = Generator::start(a, "eth0", traffic).unwrap().wait(PATIENCE).unwrap();
    let received = sink.stop_after(sent.packets, Duration::from_secs(2)).unwrap();
    (sent, received)
}

#[test]
fn every_packet_of_every_flow_arrives_once_and_in_order() {
    let (a, b) = pair(&LinkConfig::port().mtu(9000));
    let ports = (7, 8);
    let six =
        Flow { address: ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap()), ..flow(Transport::Tcp { ports }) };
    let kinds = [Transport::Udp { ports }, Transport::Tcp { ports }, Transport::Ip, Transport::Ethernet];
    let flows: Vec<Flow> = kinds.map(flow).into_iter().chain([six]).collect();
    let traffic = Traffic::flows(&flows, &[92, 1514, 9014]).unwrap().rate(20_000).count(6000);
    let (sent, received) = run(&a, &b, traffic);
    assert_eq!((sent.packets, sent.refused), (6000, 0));
    assert_eq!(sent.bytes, 2000 * (92 + 1514 + 9014));
    assert_eq!((received.packets, received.bytes), (6000, sent.bytes), "{received:?}");
    assert_eq!((received.duplicated, received.reordered, received.stale, received.gaps), (0, 0, 0, 0));
    assert_eq!((received.lost(&sent), received.overrun), (0, 0));
    assert!(received.latency(50.0) > Duration::ZERO && received.latency(50.0) < Duration::from_secs(1));
}

#[test]
fn the_rate_is_kept() {
    let (a, b) = pair(&LinkConfig::port());
    let traffic = Traffic::flows(&udp_flows(1), &[60]).unwrap().rate(10_000).count(3000);
    let (sent, received) = run(&a, &b, traffic);
    assert_eq!(received.lost(&sent), 0);
    assert!(sent.time >= Duration::from_millis(299), "{sent:?}");
}

#[test]
fn what_a_link_does_is_seen() {
    let (a, b) = (Namespace::new("a").unwrap(), Namespace::new("b").unwrap());
    let delay = Duration::from_millis(5);
    let impairments = Impairments {
        loss: Loss::Random(0.1),
        duplicate: 0.05,
        delay,
        reorder: Reorder { probability: 0.05, gap: 3, hold: Duration::from_millis(100) },
        ..Impairments::default()
    };
    let emulator = Emulator::start(&[Wire::new((&a, "eth0"), (&b, "eth0"), impairments)], 3).unwrap();
    for ns in [&a, &b] {
        ns.configure("eth0", &LinkConfig::port()).unwrap();
        ns.wait_running("eth0", PATIENCE).unwrap();
    }
    emulator.wait_running().unwrap();
    let traffic = Traffic::flows(&udp_flows(4), &[60]).unwrap().rate(20_000).count(10_000);
    let (sent, received) = run(&a, &b, traffic);
    let counted = emulator.counters(0, lab::Direction::Forward);
    assert_eq!(sent.packets, counted.received);
    assert_eq!(received.lost(&sent), counted.lost);
    assert_eq!(received.duplicated, counted.duplicated);
    assert!((800..1200).contains(&counted.lost) && (350..650).contains(&received.duplicated), "{received:?}");
    assert!(received.reordered > 100, "{received:?}");
    assert!(received.latency(1.0) >= delay, "{:?}", received.latency(1.0));
}

#[test]
fn frames_without_numbers_are_counted_apart_and_a_device_that_is_down_refuses() {
    let (a, b) = pair(&LinkConfig::port());
    let sink = Sink::start(&b, "eth0", None).unwrap();
    let mut frame = vec![0xff; 60];
    frame[6..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    let generator = Generator::start(&a, "eth0", Traffic::frames([frame.clone()]).unwrap().count(10)).unwrap();
    assert_eq!(generator.wait(PATIENCE).unwrap().packets, 10);
    a.down("eth0").unwrap();
    let generator = Generator::start(&a, "eth0", Traffic::frames([frame]).unwrap()).unwrap();
    while generator.sent().refused == 0 {
        std::thread::yield_now();
    }
    assert_eq!(generator.stop().unwrap().packets, 0);
    // Down at one end is no carrier at the other: the sink survives both.
    let received = sink.stop().unwrap();
    assert_eq!((received.foreign, received.packets), (10, 0));
}

#[test]
fn a_generator_that_takes_too_long_says_so() {
    let (a, _b) = pair(&LinkConfig::port());
    let traffic = Traffic::flows(&udp_flows(1), &[60]).unwrap().rate(10).count(1000);
    let error = Generator::start(&a, "eth0", traffic).unwrap().wait(Duration::from_millis(50)).unwrap_err();
    assert!(error.to_string().contains("stopped after 50ms"), "{error}");
}

#[test]
fn a_device_that_is_not_there_is_named() {
    let ns = Namespace::new("a").unwrap();
    let traffic = Traffic::flows(&udp_flows(1), &[60]).unwrap();
    let errors = [
        Sink::start(&ns, "eth7", None).err().unwrap().to_string(),
        Generator::start(&ns, "eth7", traffic).err().unwrap().to_string(),
    ];
    assert!(errors.iter().all(|error| error.contains("eth7")), "{errors:?}");
}

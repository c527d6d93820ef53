//! Ports at network interfaces shared by two workers, on live veth pairs with two queues.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use baker::ir::{CounterSlots, Program};

use super::live::{self, Host, Make, eventually, ip, over_both, pair, start};
use crate::testing::forward;
use crate::{Instance, PollMode};

over_both!(2: two_workers_keep_flows_in_order, nothing_comes_twice_while_workers_start_and_stop,
    a_shared_interface_that_is_made_again_is_used_again_by_all_workers);

/// A UDP packet of a flow, or of its other direction, with a number.
fn packet(flow: u8, back: bool, number: u32) -> Vec<u8> {
    let ends = [([10, 0, 0, 1], 1000 + u16::from(flow)), ([10, 0, 1, flow], 53)];
    let [from, to] = if back { [ends[1], ends[0]] } else { ends };
    let mut packet = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, u8::from(back), flow, 8, 0];
    packet.extend([0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0]);
    packet.extend([from.0, to.0].concat());
    packet.extend([from.1.to_be_bytes(), to.1.to_be_bytes(), [0, 12], [0, 0]].concat());
    packet.extend(number.to_be_bytes());
    packet
}

/// Packets received by each worker.
fn each(instance: &Instance) -> Vec<u64> {
    let rx = CounterSlots::new(&forward()).channel(Program::RX);
    instance.observer().now().blocks.iter().map(|block| block.get(rx)).collect()
}

const FLOWS: u8 = 200;
const BURST: u32 = 10;

/// Sends bursts of all flows and receives them at the other end, a packet of each flow at a time: a veth device has
/// room for 256 packets where the machine does not run who takes them.
pub fn pass_in_order(from: &Host, to: &Host, back: bool, bursts: u32) {
    let mut next: HashMap<u8, u32> = HashMap::new();
    for number in 0..bursts * BURST {
        (0..FLOWS).for_each(|flow| from.send(&packet(flow, back, number)));
        for _ in 0..FLOWS {
            let (bytes, _) = to.receive().expect("the packet arrives");
            let (flow, number) = (bytes[11], u32::from_be_bytes(bytes[42..46].try_into().unwrap()));
            assert_eq!(bytes, packet(flow, back, number), "as it was sent");
            let expected = next.entry(flow).or_default();
            assert_eq!(number, *expected, "flow {flow}: in order, none twice, none lost");
            *expected += 1;
        }
    }
}

fn two_workers_keep_flows_in_order(driver: Make) {
    for poll in [PollMode::Interrupt, PollMode::Busy] {
        let (left, right) = (Host::on("left"), Host::on("right"));
        let instance = start(driver, 2, poll);
        pass_in_order(&left, &right, false, 10);
        let sent = u64::from(FLOWS) * u64::from(BURST) * 10;
        eventually(&instance, |s| s.port("b").unwrap().tx_packets == sent);
        let share = each(&instance);
        assert!(share.iter().sum::<u64>() == sent && share.iter().all(|n| *n > sent / 4), "{share:?}");
        // Both directions of a flow come to one worker.
        for flow in 0..40 {
            let before = each(&instance);
            left.send(&packet(flow, false, 0));
            right.receive().unwrap();
            right.send(&packet(flow, true, 0));
            left.receive().unwrap();
            eventually(&instance, |s| s.channel("rx") == before.iter().sum::<u64>() + 2);
            let more: Vec<u64> = each(&instance).iter().zip(before).map(|(after, before)| after - before).collect();
            assert!(more == [2, 0] || more == [0, 2], "flow {flow}: {more:?}");
        }
        let report = instance.stop();
        assert_eq!((report.errors.len(), report.free_frames), (0, report.frames));
        let (a, b) = (report.snapshot.port("a").unwrap(), report.snapshot.port("b").unwrap());
        assert_eq!((a.rx_packets, b.tx_packets, a.rx_dropped), (sent + 40, sent + 40, 0));
        assert_eq!((b.rx_packets, a.tx_packets), (40, 40));
    }
}

fn nothing_comes_twice_while_workers_start_and_stop(driver: Make) {
    let (left, right) = (Host::on("left"), Host::on("right"));
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0;
            // Also where the test fails before it says stop.
            let until = Instant::now() + Duration::from_secs(60);
            while !stop.load(std::sync::atomic::Ordering::Relaxed) && Instant::now() < until {
                left.send(&packet((number % 50) as u8, false, number));
                number += 1;
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        let mut last = [None; 50];
        for _ in 0..10 {
            let instance = start(driver, 2, PollMode::Interrupt);
            eventually(&instance, |s| s.port("b").unwrap().tx_packets > 100);
            let report = instance.stop();
            assert_eq!((report.errors.len(), report.free_frames), (0, report.frames));
            // At once: the host keeps some hundred packets.
            for _ in 0..report.snapshot.port("b").unwrap().tx_packets {
                let (bytes, _) = right.receive().expect("what was sent arrives");
                let number = u32::from_be_bytes(bytes[42..46].try_into().unwrap());
                let last = &mut last[usize::from(bytes[11])];
                assert!(*last < Some(number), "{number} after {last:?}");
                *last = Some(number);
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

fn a_shared_interface_that_is_made_again_is_used_again_by_all_workers(driver: Make) {
    for poll in [PollMode::Interrupt, PollMode::Busy] {
        let instance = start(driver, 2, poll);
        let says = |port: &str, wanted: Option<&str>| {
            eventually(&instance, |s| s.port(port).unwrap().error.as_deref() == wanted);
        };
        // The one that packets come from, the one that they go to, both at once.
        for removed in [&["left"][..], &["b"], &["left", "b"]] {
            for name in removed {
                // The other end goes with it.
                ip(&format!("link del dev {name}"));
            }
            for name in removed {
                let (port, other) = if *name == "left" { ("a", "a") } else { ("b", "right") };
                says(port, Some(&format!("{port}: was removed")));
                pair(name, other, 2);
            }
            ["a", "b"].into_iter().for_each(|port| says(port, None));
            let (left, right) = (Host::on("left"), Host::on("right"));
            let before = each(&instance);
            pass_in_order(&left, &right, false, 3);
            pass_in_order(&right, &left, true, 3);
            let sent = u64::from(FLOWS) * u64::from(BURST) * 6;
            eventually(&instance, |s| s.channel("rx") == before.iter().sum::<u64>() + sent);
            let more: Vec<u64> = each(&instance).iter().zip(before).map(|(after, before)| after - before).collect();
            assert!(more.iter().all(|n| *n > sent / 4), "{removed:?}: both workers get packets: {more:?}");
        }
        // It goes while it is not yet used by all.
        for _ in 0..20 {
            ip("link del dev left");
            pair("left", "a", 2);
            std::thread::sleep(Duration::from_millis(30));
        }
        // So that the workers have looked at the last one.
        std::thread::sleep(Duration::from_millis(300));
        says("a", None);
        pass_in_order(&Host::on("left"), &Host::on("right"), false, 3);
        let report = instance.stop();
        assert_eq!((report.errors, report.free_frames), (Vec::new(), report.frames));
    }
}

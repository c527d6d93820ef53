//! Floods of rubbish: the switch goes on, counts everything, and can be stopped in the middle.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use lab::{Host, RawPort};

use crate::hostile;
use crate::random::Random;
use crate::switch::{MAC, PATIENCE, ROUTER, Switch, over_both};

over_both!(rubbish_does_not_stop_it, it_can_be_stopped_in_the_middle_of_a_flood);

const FRAMES: usize = 200_000;

/// Frames that a host's device received and sent (proc(5), /proc/net/dev).
fn device_counters(host: &Host) -> (u64, u64) {
    let text = host.ns.enter(|| fs::read_to_string("/proc/thread-self/net/dev")).unwrap().unwrap();
    let line = text.lines().find_map(|line| line.trim().strip_prefix("eth0:")).unwrap();
    let numbers: Vec<u64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
    (numbers[1], numbers[9])
}

fn rubbish_does_not_stop_it(driver: &str) {
    let switch = Switch::start(driver);
    let network = &switch.network;
    let unseen = thread::scope(|scope| {
        let floods = [1, 3].map(|number| {
            scope.spawn(move || {
                let host = network.host(number);
                let port = RawPort::open(&host.ns, Host::DEVICE).unwrap();
                let (router, src) = (ROUTER[number / 2], MAC[number - 1]);
                let mut random = Random(number as u64);
                let mut unseen = 0;
                for sent in 0..FRAMES / 2 {
                    let frame = hostile::frame(&mut random, 14, router, src);
                    port.send(&frame).unwrap_or_else(|error| panic!("frame {sent}: {error}: {frame:02x?}"));
                    // The kernel throws frames with half a VLAN tag away before any packet socket gets them.
                    let half_a_tag = frame.len() < 20 && [[0x81, 0x00], [0x88, 0xa8]].contains(&[frame[12], frame[13]]);
                    unseen += u64::from(driver == "afpacket" && half_a_tag);
                }
                unseen
            })
        });
        let [p1, p3] = floods.map(|flood| flood.join().unwrap());
        [p1, 0, p3, 0]
    });
    for (from, to) in [(1, 2), (1, 3), (3, 4), (4, 1)] {
        let (from, to) = (network.host(from), network.host(to));
        assert!(from.ns.ping(&to.address, PATIENCE).unwrap(), "{} does not reach {}", from.name, to.name);
    }
    for host in &network.hosts {
        assert!(host.ns.ping("10.0.2.1", PATIENCE).unwrap(), "{} does not reach the router", host.name);
    }
    // Nothing is on its way any more once the kernels have said all they had to.
    thread::sleep(Duration::from_millis(200));
    let devices: Vec<_> = network.hosts.iter().map(device_counters).collect();
    let report = switch.stop();
    for ((port, (received, sent)), unseen) in ["p1", "p2", "p3", "p4"].into_iter().zip(devices).zip(unseen) {
        // What is lost on its way from the fast path to workers was received.
        let counts = if driver == "xdp" { &["received"][..] } else { &["received", "lost in kernel", "oversize"] };
        let came = counts.iter().map(|what| report.port(port, what)).sum::<u64>();
        assert_eq!(came + unseen, sent, "{port}: what the host sent is not what was counted: {report:?}");
        assert_eq!(report.port(port, "sent"), received, "{port}: sent is not what the host got: {report:?}");
    }
    for reason in ["truncated", "bad_header_length", "bad_total_length", "bad_checksum", "group_source"] {
        assert!(report.dropped(reason) > 0, "{reason} is not among the drops of {report:?}");
    }
}

fn it_can_be_stopped_in_the_middle_of_a_flood(driver: &str) {
    let switch = Switch::start(driver);
    let port = RawPort::open(&switch.network.host(1).ns, Host::DEVICE).unwrap();
    let (stop, started) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random(4);
            let frames: Vec<_> = (0..1000).map(|_| hostile::frame(&mut random, 14, ROUTER[0], MAC[0])).collect();
            for frame in frames.iter().cycle() {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                // Refused once the port at the other end is gone.
                let _ = port.send(frame);
                started.store(true, Ordering::Relaxed);
            }
        });
        // Also ends the flood when an assertion fails.
        struct Stop<'a>(&'a AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _guard = Stop(&stop);
        while !started.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(300));
        let report = switch.stop();
        assert!(report.port("p1", "received") > 1000, "{report:?}");
    });
}

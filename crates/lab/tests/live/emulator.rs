//! The link emulator: each impairment is seen from outside, every packet is accounted for, and runs repeat.

use std::time::{Duration, Instant};

use lab::{
    Direction, Emulator, Impairments, LinkConfig, LinkCounters, Loss, Namespace, QueueLimit, RawPort, Reorder, Wire,
};

use crate::common::{PATIENCE, eventually};

/// Two namespaces and the link between them.
struct Link {
    a: Namespace,
    b: Namespace,
    emulator: Emulator,
}

impl Link {
    /// What `forward` says from a to b, nothing on the way back.
    fn new(forward: Impairments) -> Link {
        let (a, b) = (Namespace::new("a").unwrap(), Namespace::new("b").unwrap());
        let mut wire = Wire::new((&a, "eth0"), (&b, "eth0"), forward);
        wire.backward = Impairments::default();
        let emulator = Emulator::start(&[wire], 7).unwrap();
        for (ns, address) in [(&a, "192.0.2.1/24"), (&b, "192.0.2.2/24")] {
            ns.configure("eth0", &LinkConfig::host().address(address)).unwrap();
        }
        for ns in [&a, &b] {
            ns.wait_running("eth0", PATIENCE).unwrap();
        }
        emulator.wait_running().unwrap();
        Link { a, b, emulator }
    }

    fn counters(&self) -> LinkCounters {
        self.emulator.counters(0, Direction::Forward)
    }

    /// Sends `count` numbered frames from a; the numbers as they arrive at b. The frames go in bursts that the
    /// receiving socket can hold, each once the one before is accounted for.
    fn numbered(&self, count: u32) -> Vec<u32> {
        const BURST: u32 = 100;
        let (from, mut to) = (RawPort::open(&self.a, "eth0").unwrap(), RawPort::open(&self.b, "eth0").unwrap());
        let mut seen = Vec::new();
        for first in (0..count).step_by(BURST as usize) {
            let before = self.counters();
            let numbers = first..count.min(first + BURST);
            let expected = before.received + u64::from(numbers.end - numbers.start);
            for number in numbers {
                from.send(&frame(number)).unwrap();
            }
            eventually("every frame is accounted for", || {
                let now = self.counters();
                now.received >= expected && now.in_flight == 0
            });
            while let Some(frame) = to.recv_where(Duration::from_millis(2), is_numbered).unwrap() {
                seen.push(u32::from_be_bytes(frame[14..18].try_into().unwrap()));
            }
        }
        let now = self.counters();
        assert_eq!(now.received + now.duplicated, now.sent + now.dropped(), "{now:?}");
        seen
    }
}

/// A broadcast frame of 60 bytes of the EtherType for local experiments (IEEE 802).
fn frame(number: u32) -> [u8; 60] {
    let mut frame = [0; 60];
    frame[..6].fill(0xff);
    frame[6] = 2;
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

fn is_numbered(frame: &[u8]) -> bool {
    frame[12..14] == [0x88, 0xb5]
}

#[test]
fn a_link_that_does_nothing_loses_nothing() {
    let link = Link::new(Impairments::default());
    assert!(link.a.ping("192.0.2.2", PATIENCE).unwrap());
    assert_eq!(link.numbered(2000), (0..2000).collect::<Vec<_>>());
}

#[test]
fn the_delay_is_kept_and_can_be_changed() {
    let delay = |ms| Impairments { delay: Duration::from_millis(ms), ..Impairments::default() };
    let link = Link::new(delay(30));
    let one = || {
        let (from, mut to) = (RawPort::open(&link.a, "eth0").unwrap(), RawPort::open(&link.b, "eth0").unwrap());
        let start = Instant::now();
        from.send(&frame(1)).unwrap();
        assert!(to.recv_where(PATIENCE, is_numbered).unwrap().is_some());
        start.elapsed()
    };
    assert!(one() >= Duration::from_millis(30));
    link.emulator.set(0, Direction::Forward, delay(120)).unwrap();
    assert!(one() >= Duration::from_millis(120));
}

#[test]
fn a_rate_shapes_and_its_queue_overflows() {
    // 100 frames of 60 bytes at 480 kbit/s take 1 ms each.
    let rate = Some(480_000);
    let link = Link::new(Impairments { rate, ..Impairments::default() });
    let start = Instant::now();
    assert_eq!(link.numbered(100).len(), 100);
    assert!(start.elapsed() >= Duration::from_millis(99), "{:?}", start.elapsed());

    let queue = QueueLimit { packets: 10, ..QueueLimit::default() };
    link.emulator.set(0, Direction::Forward, Impairments { rate, queue, ..Impairments::default() }).unwrap();
    let seen = link.numbered(100);
    assert!(seen.len() >= 10 && seen.starts_with(&[0]), "{seen:?}");
    assert_eq!(link.counters().queue_full, 100 - seen.len() as u64);
    assert!(link.counters().queue_full > 0);
}

#[test]
fn loss_duplication_and_reordering_repeat_with_their_seed() {
    let impairments = Impairments {
        loss: Loss::Random(0.2),
        duplicate: 0.1,
        reorder: Reorder { probability: 0.1, gap: 3, hold: Duration::from_millis(100) },
        ..Impairments::default()
    };
    // A host's own packets would take random decisions too: here there are none, for addresses come later.
    let run = || {
        let (a, b) = (Namespace::new("a").unwrap(), Namespace::new("b").unwrap());
        let emulator = Emulator::start(&[Wire::new((&a, "eth0"), (&b, "eth0"), impairments.clone())], 7).unwrap();
        for ns in [&a, &b] {
            ns.configure("eth0", &LinkConfig::port()).unwrap();
            ns.wait_running("eth0", PATIENCE).unwrap();
        }
        emulator.wait_running().unwrap();
        Link { a, b, emulator }.numbered(1000)
    };
    let first = run();
    let mut sorted = first.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert!((700..=900).contains(&sorted.len()), "{} of 1000 arrived", sorted.len());
    assert!(first.len() > sorted.len() + 40, "some arrive twice");
    assert!(first.windows(2).filter(|pair| pair[0] > pair[1]).count() > 40, "some are overtaken");
    assert_eq!(first, run());
}

#[test]
fn a_flipped_bit_is_after_the_ethernet_header() {
    let link = Link::new(Impairments { corrupt: 1.0, ..Impairments::default() });
    let (from, mut to) = (RawPort::open(&link.a, "eth0").unwrap(), RawPort::open(&link.b, "eth0").unwrap());
    for number in 0..200 {
        let sent = frame(number);
        from.send(&sent).unwrap();
        let arrived = to.recv_where(PATIENCE, is_numbered).unwrap().expect("it is not lost");
        assert_eq!(arrived[..14], sent[..14]);
        let flipped: u32 = arrived.iter().zip(&sent).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert_eq!(flipped, 1);
    }
}

#[test]
fn bad_settings_are_refused() {
    let (a, b) = (Namespace::new("a").unwrap(), Namespace::new("b").unwrap());
    let bad = Impairments { loss: Loss::Random(1.5), ..Impairments::default() };
    let error = Emulator::start(&[Wire::new((&a, "eth0"), (&b, "eth0"), bad)], 0).unwrap_err();
    assert!(error.to_string().contains("1.5"), "{error}");
}

#[test]
fn a_cpu_of_its_own_is_given_or_its_lack_is_named() {
    let (a, b) = (Namespace::new("a").unwrap(), Namespace::new("b").unwrap());
    let wire = Wire::new((&a, "eth0"), (&b, "eth0"), Impairments::default());
    let error = Emulator::start_on(Some(999), &[wire], 0).unwrap_err();
    assert!(error.to_string().contains("CPU 999"), "{error}");
}

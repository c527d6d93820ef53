//! A long run of the L3 switch: traffic, changes of tables, links that flap, TCP over a bad line, hostile packets.
//! Memory stays flat, and every lost packet is accounted for.
//!
//! `SOAK_SECONDS` says how long; a few seconds otherwise, which shows that it works. `make soak` runs it for ten
//! minutes.

use std::thread;
use std::time::{Duration, Instant};

use lab::{Host, Impairments, L3Options, Loss, RawPort};

use churn::Churn;
use random::Random;
use stream::Stream;
use switch::{MAC, Network, PATIENCE, ROUTER, Switch};

#[path = "../support/churn.rs"]
mod churn;
#[path = "../support/frames.rs"]
mod frames;
#[path = "../support/hostile.rs"]
mod hostile;
// What other tests use of these is not used here.
#[allow(dead_code)]
#[path = "../support/instance.rs"]
mod instance;
#[allow(dead_code)]
#[path = "../support/process.rs"]
mod process;
#[allow(dead_code)]
#[path = "../support/random.rs"]
mod random;
#[allow(dead_code)]
#[path = "../support/report.rs"]
mod report;
#[path = "../support/stream.rs"]
mod stream;
#[allow(dead_code)]
#[path = "../l3switch/switch.rs"]
mod switch;
#[path = "../support/transfer.rs"]
mod transfer;

/// Seconds of a run that only shows that it works.
const SHORT: u64 = 6;
/// Packets per second of each stream.
const RATE: u64 = 5000;
/// Between two flaps of p4, between two TCP transfers, and between two looks at the memory.
const FLAP: Duration = Duration::from_secs(3);
const TRANSFER: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_secs(1);
/// How long p4 is down.
const DOWN: Duration = Duration::from_millis(200);
/// From here on memory does not grow: all tables, buffers and threads have been used. In a short run from its middle
/// on.
const WARM: Duration = Duration::from_secs(20);
/// What it may grow by all the same, in KiB: the allocator's own ways.
const GROWTH: u64 = 1024;
/// What the kernel had taken when p4 went down, per flap at most.
const IN_FLIGHT: u64 = 200;

/// Resident memory of a process in KiB, but for huge pages: where a part of a table is in use, the kernel makes one
/// whenever its `khugepaged` comes by, which is 2 MiB at once. What the program allocates as it runs has none.
fn memory(process: u32) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap();
    let field = |name: &str| -> u64 {
        let line =
            rollup.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}: {rollup}"));
        line.split_whitespace().next().unwrap().parse().unwrap()
    };
    field("Rss:") - field("AnonHugePages:") - field("ShmemPmdMapped:")
}

/// Does something again and again.
struct Every {
    interval: Duration,
    next: Instant,
}

impl Every {
    fn new(interval: Duration) -> Every {
        Every { interval, next: Instant::now() + interval / 2 }
    }

    fn is_due(&mut self) -> bool {
        let due = Instant::now() >= self.next;
        if due {
            self.next = Instant::now() + self.interval;
        }
        due
    }
}

#[test]
fn memory_stays_flat_and_no_packet_is_lost_unexplained() {
    let seconds = std::env::var("SOAK_SECONDS").map_or(SHORT, |text| text.parse().expect("SOAK_SECONDS is a number"));
    let line = Impairments { delay: Duration::from_millis(1), loss: Loss::Random(0.002), ..Impairments::default() };
    let options = L3Options { line, ..L3Options::default() };
    let mut switch = Switch::start_in("afpacket", &Network { options, ..Network::default() });
    let mut wires = switch.wires();
    (1..=4).for_each(|host| wires.announce(host));
    drop(wires);
    let network = &switch.network;
    let mut churn = Churn::new(&switch.socket());
    let steady = Stream::start(network, 1, 2, &[60, 1514], RATE);
    let flapping = Stream::start(network, 2, 4, &[60, 600], RATE);
    let hostile = RawPort::open(&network.host(3).ns, Host::DEVICE).unwrap();
    let (mut random, mut flaps, mut transfers) = (Random(9), 0u64, 0u64);
    let (mut warm, mut most, mut compared) = (None, 0, 0);
    let length = Duration::from_secs(seconds);
    let warm_after = WARM.min(length / 2);
    let (mut flap, mut transfer, mut look) = (Every::new(FLAP), Every::new(TRANSFER), Every::new(LOOK));
    let start = Instant::now();
    while start.elapsed() < length {
        for _ in 0..20 {
            churn.step();
            let mut frame = hostile::frame(&mut random, 14, ROUTER[1], MAC[2]);
            // From one station: what it learns of a thousand others is no leak, but memory all the same.
            frame[6..12].copy_from_slice(&MAC[2]);
            // Refused where it is longer than the MTU.
            let _ = hostile.send(&frame);
        }
        if flap.is_due() {
            network.switch.down("p4").unwrap();
            thread::sleep(DOWN);
            network.switch.check(&["ip", "link", "set", "dev", "p4", "up"]).unwrap();
            flaps += 1;
            assert!(flapping.goes_on(PATIENCE), "p4 does not work after flap {flaps}");
        }
        if transfer.is_due() {
            let listener = transfer::listen(network.host(3), 7000);
            let to = listener.local_addr().unwrap();
            thread::scope(|scope| {
                scope.spawn(|| transfer::exchange(listener.accept().unwrap().0, transfers, transfers + 1));
                scope.spawn(|| transfer::exchange(transfer::connect(network.host(1), to), transfers + 1, transfers));
            });
            transfers += 1;
        }
        if look.is_due() {
            let now = memory(switch.id());
            if start.elapsed() > warm_after {
                let warm = *warm.get_or_insert(now);
                assert!(now <= warm + GROWTH, "memory grew from {warm} to {now} KiB in {:?}", start.elapsed());
                compared += 1;
            }
            most = most.max(now);
        }
    }
    assert!(compared > 1, "memory was never compared");
    let (time, changes) = (start.elapsed(), churn.changes);
    // Half a round of entries is there, beside the configured and learned ones, and no more.
    let tables = churn.entries();
    for name in ["l3_forward.fib", "l2_bridge.stations"] {
        let table = tables.as_array().unwrap().iter().find(|table| table["name"] == name).unwrap();
        assert!(table["entries"].as_u64().unwrap() <= 1010, "{table}");
    }
    let steady = steady.stop_whole();
    let (sent, received) = flapping.stop();
    switch.logged(&["p4: went down", "p4: works again"]);
    // This also sees to it that all frames are given back.
    let report = switch.stop();
    let (lost, counted) = (received.lost(&sent), report.port("p4", "failed"));
    assert!(
        counted <= lost + 100 * flaps && lost <= counted + IN_FLIGHT * flaps,
        "{lost} lost, {counted} counted, {flaps} flaps"
    );
    assert_eq!((received.duplicated, received.reordered, received.overrun), (0, 0, 0), "{received:?}");
    println!(
        "soak: {:.0} s, {} + {} packets, {lost} lost at {flaps} flaps ({counted} counted), {changes} changes of tables, \
         {transfers} TCP transfers; memory {most} KiB at most, {} KiB after {warm_after:?}",
        time.as_secs_f64(),
        steady.packets,
        sent.packets,
        warm.unwrap_or(0),
    );
}

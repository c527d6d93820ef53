//! Routes change as fast as a routing daemon brings them while packets pass: untouched routes lose nothing.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use control::socket::{Client, Entry, Request};
use serde_json::{Value as Json, json};

use crate::stream::Stream;
use crate::switch::Switch;

/// Changes of routes per second that are tried.
const RATE: u64 = 100_000;
/// What the slowest machine must do.
const LEAST: u64 = 5_000;
/// Routes per request: one has 64 KiB at most.
const AT_ONCE: u64 = 1000;
/// Routes that change, in turn.
const ROUTES: u64 = 20_000;
const TIME: Duration = Duration::from_secs(2);
const FIB: &str = "l3_forward.fib";

/// A route that changes: most are far from the packets' destination; others lie beside it, in what its look-up reads,
/// too, or around it.
fn route(number: u64) -> String {
    let beside = ["10.0.2.128/25", "10.0.2.64/26", "10.0.2.14/32", "10.0.2.12/32", "10.0.0.0/16", "10.0.3.0/24"];
    match number % 100 {
        near if near < beside.len() as u64 => beside[near as usize].to_owned(),
        // On both sides of the 24 bits that a look-up takes at once.
        far => format!("{}/{}", std::net::Ipv4Addr::from(0x0a80_0000 + ((number as u32) << 8)), 24 + far % 8),
    }
}

fn entries(changes: u64) -> Vec<Entry> {
    let entry = |n: u64| Entry { key: json!(route(n % ROUTES)), value: json!(1 + n / ROUTES % 2) };
    (changes..changes + AT_ONCE).map(entry).collect()
}

/// Changes routes at the rate until it is told to stop; how many changes were made, and in which time.
fn update(socket: &str, stop: &AtomicBool) -> (u64, Duration) {
    let mut client = Client::connect(Path::new(socket)).unwrap();
    let (start, mut changes) = (Instant::now(), 0);
    while !stop.load(Ordering::Relaxed) {
        let request = Request::TableLoad { table: FIB.into(), entries: entries(changes) };
        let _: Json = client.ask(&request).unwrap_or_else(|error| panic!("{error}"));
        changes += AT_ONCE;
        let due = start + Duration::from_micros(changes * 1_000_000 / RATE);
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    (changes, start.elapsed())
}

// By workers packets are lost where they and the updates need the same processor; the kernel's part has its turn in any
// case.
#[test]
fn routes_change_by_the_hundred_thousand_and_packets_pass() {
    let switch = Switch::start("xdp");
    let mut wires = switch.wires();
    (1..=4).for_each(|host| wires.announce(host));
    drop(wires);
    let stream = Stream::start(&switch.network, 1, 3, &[60, 1514], 20_000);
    let back = Stream::start(&switch.network, 4, 2, &[60], 5_000);
    let (stop, socket) = (AtomicBool::new(false), switch.socket());
    let (changes, time) = thread::scope(|scope| {
        let updates = scope.spawn(|| update(&socket, &stop));
        thread::sleep(TIME);
        stop.store(true, Ordering::Relaxed);
        updates.join().unwrap()
    });
    let (sent, sent_back) = (stream.stop_whole(), back.stop_whole());
    let rate = (changes as f64 / time.as_secs_f64()) as u64;
    println!("{rate} changes of routes per second while {} and {} packets passed", sent.packets, sent_back.packets);
    assert!(rate >= LEAST && sent.packets > 10_000 && sent_back.packets > 2_000, "{rate}, {sent:?}, {sent_back:?}");
    // The last change is in force.
    let mut client = Client::connect(Path::new(&socket)).unwrap();
    let Entry { key, value } = entries(changes - AT_ONCE).pop().unwrap();
    let found: Json =
        client.ask(&Request::TableGet { table: FIB.into(), key }).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(found["value"], value);
    let report = switch.stop();
    assert_eq!((report.dropped("table_busy"), report.dropped("tx_failed")), (0, 0), "{report:?}");
}

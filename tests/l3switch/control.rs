//! The running switch, asked and changed under traffic.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lab::{Host, RawPort};

use crate::churn::Churn;
use crate::frames::Ipv4;
use crate::stream::Stream;
use crate::switch::{IP, MAC, PATIENCE, ROUTER, SetAtEnd, Switch, Wires, over_both};

over_both!(
    what_is_learned_can_be_read_and_what_is_set_is_used,
    changes_under_traffic_lose_no_packet_unaccounted,
    hostile_clients_do_not_disturb_forwarding,
    thousands_of_changes_cost_no_packet
);

/// The next hop that leads to h3.
const NEXT_HOP: &str = "{ domain = 2, gateway = \"0.0.0.0\", src = \"02:00:00:00:02:01\" }";

/// A packet from h1 to h3 with a number, as h1 sends it.
fn numbered(number: u32) -> Vec<u8> {
    Ipv4::new(IP[0], IP[2], &number.to_be_bytes()).frame(ROUTER[0], MAC[0])
}

/// The number, if it is such a packet.
fn number(frame: &[u8]) -> Option<u32> {
    let ours = frame.len() == 38 && frame[26..34] == [IP[0], IP[2]].concat();
    ours.then(|| u32::from_be_bytes(frame[34..].try_into().unwrap()))
}

/// A switch that knows h1 and h3.
fn ready(driver: &str) -> (Switch, Wires) {
    let switch = Switch::start(driver);
    let mut wires = switch.wires();
    wires.announce(1);
    wires.announce(3);
    (switch, wires)
}

fn dropped(switch: &Switch, reason: &str) -> u64 {
    switch.ask_json(&["drops"])[reason].as_u64().unwrap()
}

fn what_is_learned_can_be_read_and_what_is_set_is_used(driver: &str) {
    let (switch, mut wires) = ready(driver);
    let stations = switch.ask(&["table", "dump", "l2_bridge.stations"]).ok();
    assert!(stations.contains("{ domain = 1, mac = \"02:00:00:00:00:11\" } = { port = 1, heard = "), "{stations}");
    let neighbour = switch.ask(&["table", "get", "l3_forward.neighbours", "10.0.2.13"]).ok();
    assert!(neighbour.starts_with("{ mac = \"02:00:00:00:00:13\", heard = "), "{neighbour}");
    // The way that the address takes.
    assert_eq!(switch.ask(&["table", "get", "l3_forward.fib", "10.0.2.13"]).ok(), "10.0.2.0/24 = 2\n");
    // No next hop any more: from the next packet on.
    switch.ask(&["table", "del", "l3_forward.next_hops", "2"]).ok();
    wires.send(1, &numbered(1));
    wires.settle().nothing();
    assert_eq!(dropped(&switch, "no_next_hop"), 1);
    switch.ask(&["table", "set", "l3_forward.next_hops", "2", NEXT_HOP]).ok();
    wires.send(1, &numbered(2));
    assert_eq!(wires.settle().hosts[2].iter().map(|frame| number(frame)).collect::<Vec<_>>(), [Some(2)]);
    // Another neighbour address: the packet is sent there.
    switch
        .ask(&["table", "set", "l3_forward.neighbours", "10.0.2.13", "{ mac = \"02:00:00:00:00:14\", heard = 0 }"])
        .ok();
    wires.send(1, &numbered(3));
    let outcome = wires.settle();
    let all: Vec<_> = outcome.hosts[2..].iter().flatten().collect();
    assert!(!all.is_empty() && all.iter().all(|frame| frame[..6] == MAC[3] && number(frame) == Some(3)), "{all:02x?}");
    switch.stop();
}

/// Sends packets 0, 1, … from h1 to h3 in bursts of ten, and collects what comes out, while something is done, then one
/// last packet. How many were sent, and the numbers that came out.
fn under_traffic(switch: &Switch, pause: Duration, work: impl FnOnce()) -> (u32, Vec<u32>) {
    let open = |host| RawPort::open(&switch.network.host(host).ns, Host::DEVICE).unwrap();
    let (sender, mut receiver) = (open(1), open(3));
    let stop = AtomicBool::new(false);
    let last = AtomicU32::new(u32::MAX);
    thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            let mut received = Vec::new();
            while received.last() != Some(&last.load(Ordering::Relaxed)) {
                let frame = receiver.recv(PATIENCE).unwrap().expect("the last packet");
                received.extend(number(&frame));
            }
            received
        });
        let sending = scope.spawn(|| {
            let mut next = 0;
            while !stop.load(Ordering::Relaxed) {
                (next..next + 10).for_each(|number| sender.send(&numbered(number)).unwrap());
                next += 10;
                thread::sleep(pause);
            }
            next
        });
        let stopping = SetAtEnd(&stop);
        work();
        drop(stopping);
        let sent = sending.join().unwrap();
        last.store(sent, Ordering::Relaxed);
        sender.send(&numbered(sent)).unwrap();
        (sent + 1, receiving.join().unwrap())
    })
}

fn changes_under_traffic_lose_no_packet_unaccounted(driver: &str) {
    let (switch, _wires) = ready(driver);
    let before = dropped(&switch, "no_next_hop");
    let (sent, received) = under_traffic(&switch, Duration::from_millis(2), || {
        for _ in 0..15 {
            switch.ask(&["table", "del", "l3_forward.next_hops", "2"]).ok();
            switch.ask(&["table", "set", "l3_forward.next_hops", "2", NEXT_HOP]).ok();
        }
    });
    assert!(received.is_sorted_by(|a, b| a < b), "in order, none twice");
    let lost = u64::from(sent) - received.len() as u64;
    assert_eq!(dropped(&switch, "no_next_hop") - before, lost);
    assert!(lost > 0 && received.len() > 100, "{lost} dropped, {} received", received.len());
    assert_eq!(switch.stop().dropped("no_next_hop"), before + lost);
}

fn hostile_clients_do_not_disturb_forwarding(driver: &str) {
    let (switch, _wires) = ready(driver);
    let socket = switch.socket();
    let (sent, received) = under_traffic(&switch, Duration::from_millis(2), || {
        let until = Instant::now() + Duration::from_secs(2);
        let attack = |bytes: Vec<u8>| {
            let socket = &socket;
            move || {
                while Instant::now() < until {
                    let Ok(mut stream) = UnixStream::connect(socket) else { continue };
                    stream.set_write_timeout(Some(Duration::from_millis(20))).unwrap();
                    // Refused, cut off, not read: all the same to an attacker.
                    let _ = stream.write_all(&bytes);
                }
            }
        };
        thread::scope(|scope| {
            scope.spawn(attack(vec![b'x'; 1 << 20]));
            scope.spawn(attack(b"{\"request\": \"table_dump\", \"table\": \"l3_forward.next_hops\"}\n".repeat(100)));
            scope.spawn(attack(Vec::new()));
        });
    });
    assert!(received.into_iter().eq(0..sent), "all {sent} of them, in order");
    assert!(sent > 500, "{sent}");
    assert_eq!(switch.ask_json(&["ports"])["p1"]["rx_dropped"], 0);
    switch.stop();
}

fn thousands_of_changes_cost_no_packet(driver: &str) {
    let (switch, _wires) = ready(driver);
    let stream = Stream::start(&switch.network, 1, 3, &[60], 10_000);
    let mut churn = Churn::new(&switch.socket());
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(3) {
        churn.step();
    }
    assert!(churn.changes > 3000, "{}", churn.changes);
    assert!(stream.stop_whole().packets > 10_000);
    let tables = churn.entries();
    let fib = tables.as_array().unwrap().iter().find(|table| table["name"] == "l3_forward.fib").unwrap();
    assert!(fib["entries"].as_u64().unwrap() <= 1002, "{fib}");
    assert_eq!(switch.stop().dropped("no_next_hop"), 0);
}

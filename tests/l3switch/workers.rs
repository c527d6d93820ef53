//! Two workers: flows stay in order while tables are learned, changed and read, and nothing is lost or counted twice.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lab::{Host, RawPort};
use serde_json::{Value as Json, json};

use crate::frames::{ETH_IPV4, Ipv4, ethernet};
use crate::switch::{IP, MAC, PATIENCE, ROUTER, SetAtEnd, Switch, over_both};

over_both!(two_workers_that_sleep, two_workers_that_poll);

const FLOWS: u32 = 40;
const NUMBERS: u32 = 150;
/// Rounds of numbers that a receiver may be behind the sender. What is under way, two packets of each flow a round,
/// must fit in the queue in front of a port, 256 frames of a veth device: a machine that stands still for a moment
/// loses what does not.
const BEHIND: u32 = 2;
/// Stations that are learned, and how many of their frames may be under way.
const STATIONS: u32 = 1000;
const STATIONS_AT_ONCE: u32 = 50;
/// An address that is set to be h3's.
const BEHIND_H3: [u8; 4] = [10, 0, 2, 77];

/// A UDP packet of a flow with a number from one host to another, as the first sends it: routed to h3, bridged to h2.
fn packet(to: usize, flow: u32, number: u32) -> Vec<u8> {
    let ports = [(2000 + flow as u16).to_be_bytes(), [0x12, 0x67], [0, 16], [0, 0]].concat();
    let payload = [&ports[..], &flow.to_be_bytes(), &number.to_be_bytes()].concat();
    // To addresses that the hosts' kernels do not have, so they do not answer.
    let packet = Ipv4 { protocol: 17, ..Ipv4::new(IP[0], if to == 2 { [10, 0, 1, 77] } else { BEHIND_H3 }, &payload) };
    if to == 2 { packet.frame(MAC[1], MAC[0]) } else { packet.frame(ROUTER[0], MAC[0]) }
}

/// Flow and number, if it is such a packet.
fn place(frame: &[u8]) -> Option<(u32, u32)> {
    let ours = frame.len() == 50 && frame[12..14] == ETH_IPV4.to_be_bytes() && frame[36..38] == [0x12, 0x67];
    let word = |at: usize| u32::from_be_bytes(frame[at..at + 4].try_into().unwrap());
    ours.then(|| (word(42), word(46)))
}

/// Receives all flows at a host and checks their order; counts them.
fn receive(mut port: RawPort, received: &AtomicU32) {
    let mut next = vec![0; FLOWS as usize];
    let start = Instant::now();
    while received.load(Ordering::Relaxed) < FLOWS * NUMBERS {
        assert!(start.elapsed() < PATIENCE, "{received:?} of {}", FLOWS * NUMBERS);
        let Some((flow, number)) = port.recv(PATIENCE).unwrap().and_then(|frame| place(&frame)) else { continue };
        let expected = &mut next[flow as usize];
        assert_eq!(number, *expected, "flow {flow}: in order, none lost, none twice");
        *expected += 1;
        received.fetch_add(1, Ordering::Relaxed);
    }
}

/// Waits until all receivers are near a number.
fn keep_near(received: &[AtomicU32], number: u32) {
    let start = Instant::now();
    let least = number.saturating_sub(BEHIND) * FLOWS;
    while received.iter().any(|received| received.load(Ordering::Relaxed) < least) {
        assert!(start.elapsed() < PATIENCE, "{received:?} of {least}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Asks over one connection.
fn asker(socket: &str) -> impl FnMut(Json) -> Json {
    let mut stream = UnixStream::connect(socket).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap());
    move |request| {
        stream.write_all(format!("{request}\n").as_bytes()).unwrap();
        loop {
            let mut line = String::new();
            answers.read_line(&mut line).unwrap();
            let answer: Json = serde_json::from_str(&line).unwrap();
            if answer.get("entry").is_none() {
                assert!(answer.get("ok").is_some(), "{request}: {answer}");
                return answer["ok"].clone();
            }
        }
    }
}

/// Sends frames of ever new stations from h4, to be learned by whichever worker gets them; to no station.
fn teach(port: &RawPort, socket: &str) {
    let mut ask = asker(socket);
    let mut came = || ask(json!({"request": "counters"}))["ports"]["p4"]["rx_packets"].as_u64().unwrap();
    let before = came();
    for station in 0..STATIONS {
        let [.., a, b] = station.to_be_bytes();
        let source = [2, 0, 0, 7, a, b];
        let packet = Ipv4 { protocol: 17, ..Ipv4::new([10, 0, 2, a], [10, 0, 2, b], &[0; 8]) };
        port.send(&ethernet(MAC[3], source, ETH_IPV4, &packet.frame([0; 6], [0; 6])[14..])).unwrap();
        thread::sleep(Duration::from_micros(200));
        let start = Instant::now();
        while (station + 1) % STATIONS_AT_ONCE == 0 && came() - before < u64::from(station + 1) {
            assert!(start.elapsed() < PATIENCE, "{} of {} frames have come in", came() - before, station + 1);
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Changes and reads tables until it is told to stop; how many requests were answered.
fn churn(socket: &str, stop: &AtomicBool) -> u32 {
    let mut ask = asker(socket);
    let mut round = 0;
    while !stop.load(Ordering::Relaxed) {
        let number = round % 200;
        // The routes and next hops in use are set anew, to what they are; others come and go.
        let (route, next_hop) =
            (format!("10.7.{number}.0/24"), json!({"domain": 2, "gateway": "0.0.0.0", "src": "02:00:00:00:02:01"}));
        ask(json!({"request": "table_set", "table": "l3_forward.fib", "key": route, "value": 2}));
        ask(json!({"request": "table_set", "table": "l3_forward.fib", "key": "10.0.2.0/24", "value": 2}));
        ask(json!({"request": "table_set", "table": "l3_forward.next_hops", "key": 2, "value": next_hop}));
        let neighbour = format!("10.7.0.{number}");
        let value = json!({"mac": "02:00:00:00:00:99", "heard": 0});
        ask(json!({"request": "table_set", "table": "l3_forward.neighbours", "key": neighbour, "value": value}));
        ask(json!({"request": "table_dump", "table": "l2_bridge.stations"}));
        ask(json!({"request": "table_dump", "table": "l3_forward.neighbours"}));
        ask(json!({"request": "counters"}));
        ask(json!({"request": "table_del", "table": "l3_forward.neighbours", "key": neighbour}));
        ask(json!({"request": "table_del", "table": "l3_forward.fib", "key": route}));
        round += 1;
    }
    round
}

fn two_workers(driver: &str, mode: &[&str]) {
    let switch = Switch::start_with(driver, &[&["--workers", "2"], mode].concat());
    let mut wires = switch.wires();
    (1..=3).for_each(|host| wires.announce(host));
    switch
        .ask(&["table", "set", "l3_forward.neighbours", "10.0.2.77", "{ mac = \"02:00:00:00:00:13\", heard = 0 }"])
        .ok();
    let status = &switch.ask_json(&["status"])[0];
    assert_eq!((&status["workers"], status["cpus"].as_array().unwrap().len()), (&json!(2), 2));
    let before = switch.ask_json(&["counters"]);
    let open = |host| RawPort::open(&switch.network.host(host).ns, Host::DEVICE).unwrap();
    let (socket, stop) = (switch.socket(), AtomicBool::new(false));
    let received = [const { AtomicU32::new(0) }; 2];
    thread::scope(|scope| {
        let stopping = SetAtEnd(&stop);
        let receivers = [2, 3].map(|host| {
            let (port, received) = (open(host), &received[host - 2]);
            scope.spawn(move || receive(port, received))
        });
        let churning = scope.spawn(|| churn(&socket, &stop));
        let learning = scope.spawn(|| teach(&open(4), &socket));
        let sender = open(1);
        for number in 0..NUMBERS {
            keep_near(&received, number);
            for flow in 0..FLOWS {
                [2, 3].into_iter().for_each(|to| sender.send(&packet(to, flow, number)).unwrap());
            }
            thread::sleep(Duration::from_millis(5));
        }
        receivers.into_iter().for_each(|receiver| receiver.join().unwrap());
        learning.join().unwrap();
        drop(stopping);
        assert!(churning.join().unwrap() > 3);
    });
    for host in [1, 4] {
        let dropped =
            switch.network.host(host).ns.check(&["cat", "/sys/class/net/eth0/statistics/tx_dropped"]).unwrap();
        assert_eq!(dropped.text().trim(), "0", "frames of h{host} that found no room in front of the port");
    }
    // What was sent last has been counted when what is sent after it has come out.
    wires.settle();
    let after = switch.ask_json(&["counters"]);
    let more = |path: &str| {
        let get = |counters: &Json| counters.pointer(path).unwrap_or_else(|| panic!("{path}")).as_u64().unwrap();
        get(&after) - get(&before)
    };
    // Besides the packets there are the marks of `settle`: from h1 two broadcasts and two for the router.
    let sent = u64::from(FLOWS * NUMBERS);
    assert_eq!(more("/ports/p1/rx_packets"), 2 * sent + 4);
    assert_eq!(more("/ppfs/l3_forward.route"), sent + 4, "h1's, and two marks each of h1 and h3");
    assert_eq!(more("/channels/l3_forward.output"), sent);
    // The stations that were learned are behind h4, where their frames came from: dropped there.
    assert_eq!(
        (more("/ports/p4/rx_packets"), more("/drops/same_port")),
        (u64::from(STATIONS) + 2, u64::from(STATIONS)),
        "{}",
        after["drops"]
    );
    for port in ["p1", "p2", "p3", "p4", "svi1p", "svi2p"] {
        assert_eq!((more(&format!("/ports/{port}/rx_dropped")), more(&format!("/ports/{port}/tx_failed"))), (0, 0));
    }
    let received: u64 =
        after["ports"].as_object().unwrap().values().map(|port| port["rx_packets"].as_u64().unwrap()).sum();
    assert_eq!(after["channels"]["rx"], received, "what the ports received is what the program got");
    let stations = switch.ask_json(&["table", "dump", "l2_bridge.stations"]);
    let learned = |entry: &&Json| entry["key"]["mac"].as_str().unwrap().starts_with("02:00:00:07:");
    let learned: Vec<_> = stations.as_array().unwrap().iter().filter(learned).collect();
    assert_eq!(learned.len(), STATIONS as usize);
    assert!(learned.iter().all(|entry| entry["value"]["port"] == 4 && entry["key"]["domain"] == 2));
    // Ends well only if all frames are back.
    switch.stop();
}

fn two_workers_that_sleep(driver: &str) {
    two_workers(driver, &[]);
}

fn two_workers_that_poll(driver: &str) {
    two_workers(driver, &["--busy"]);
}

//! What flows have carried: what operators see and collectors of IPFIX get, against packets that arrived at hosts.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use lab::RawPort;
use serde_json::{Value as Json, json};

use crate::ipfix::{Collected, Record, address, number, short};
use crate::network::{Firewall, PATIENCE, must};
use crate::{DENIED, accept, connect, pings, talk};

/// Numbers of protocols.
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Why a record is sent.
const IDLE: u64 = 1;
const ACTIVE: u64 = 2;
const DONE: u64 = 3;
const FORCED: u64 = 4;

/// Packets and bytes of IP packets from one end to another.
type Counts = BTreeMap<(u8, SocketAddr, SocketAddr), (u64, u64)>;

/// What has arrived at a port until now, beside neighbour discovery. Ports of ICMP are 0.
fn arrived(wire: &mut RawPort, counts: &mut Counts) {
    while let Some(frame) = must(wire.recv(Duration::from_millis(20))) {
        let ip = &frame[14..];
        let (protocol, length, ends, upper) = match short(&frame, 12) {
            0x0800 => {
                let [src, dst] =
                    [12, 16].map(|at| IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(&ip[at..at + 4]).unwrap())));
                (ip[9], short(ip, 2), [src, dst], 20)
            }
            0x86dd => {
                let [src, dst] =
                    [8, 24].map(|at| IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(&ip[at..at + 16]).unwrap())));
                (ip[6], short(ip, 4) + 40, [src, dst], 40)
            }
            _ => continue,
        };
        let ports = match protocol {
            TCP | UDP => [0, 2].map(|at| short(ip, upper + at)),
            ICMP => [0; 2],
            _ => continue,
        };
        let [src, dst] = [0, 1].map(|end| SocketAddr::new(ends[end], ports[end]));
        let (packets, bytes) = counts.entry((protocol, src, dst)).or_default();
        *packets += 1;
        *bytes += u64::from(length);
    }
}

/// What has arrived of a flow, of both directions.
fn both(counts: &Counts, (protocol, client, server): (u8, SocketAddr, SocketAddr)) -> [(u64, u64); 2] {
    [(client, server), (server, client)]
        .map(|(src, dst)| counts.get(&(protocol, src, dst)).copied().unwrap_or_default())
}

/// The ends of a record's flow.
fn ends(record: &Record) -> (u8, SocketAddr, SocketAddr) {
    let protocol = number(record, 4) as u8;
    let port = |element| if protocol == ICMP { 0 } else { number(record, element) as u16 };
    let client = SocketAddr::new(address(record, [8, 27]), port(7));
    (protocol, client, SocketAddr::new(address(record, [12, 28]), port(11)))
}

/// Packets and bytes of both directions of a flow, as all of its records have them together.
fn told(seen: &Collected, flow: (u8, SocketAddr, SocketAddr)) -> [(u64, u64); 2] {
    let own = seen.records.iter().filter(|record| ends(record) == flow);
    own.fold([(0, 0); 2], |all, record| {
        // Collectors that know one pair of elements have the same as those that know the other.
        assert_eq!([231, 232].map(|own| number(record, own)), [1, 0x8001].map(|own| number(record, own)));
        assert_eq!([298, 299].map(|own| number(record, own)), [2, 0x8002].map(|own| number(record, own)));
        assert!(number(record, 152) <= number(record, 153), "{record:?}");
        let counted = |packets, bytes| (number(record, packets), number(record, bytes));
        let add = |all: (u64, u64), own: (u64, u64)| (all.0 + own.0, all.1 + own.1);
        [add(all[0], counted(298, 231)), add(all[1], counted(299, 232))]
    })
}

fn collects(changes: &[(&str, &str)]) -> (Firewall, UdpSocket, Collected) {
    let ipfix = "[ipfix]\ncollectors = [\"127.0.0.1\"]\ntemplates = \"1s\"\ndomain = 7\nactive = \"1s\"\n\n\
                 [controllers.firewall]";
    let usual =
        [("[controllers.firewall]", ipfix), ("\n1 = 30\n2 = 300\n", "\n1 = 1\n2 = 1\n"), ("\n7 = 10\n", "\n7 = 1\n")];
    let firewall = Firewall::start(&[&usual[..], changes].concat());
    let collector = firewall.own().enter(|| UdpSocket::bind("127.0.0.1:4739").unwrap());
    let (collector, mut seen) = (must(collector), Collected::default());
    seen.learn_templates(&collector, PATIENCE);
    firewall.wait("records are not made", |firewall| {
        firewall.ask(&["table", "get", "flow.recorded", "0"]).ok().contains("true")
    });
    (firewall, collector, seen)
}

/// Data of both sides over a connection.
fn exchange(client: &mut TcpStream, server: &mut TcpStream) {
    for size in [1, 700, 40_000] {
        talk(client, server, &vec![7; size]);
    }
}

fn flows_are_told_to_the_byte(devices: &[(&str, &str)]) {
    let (firewall, collector, mut seen) = collects(devices);
    let mut wires = [&firewall.inside, &firewall.outside].map(|host| must(RawPort::open(host, "eth0")));
    let listeners = ["10.0.1.80:80", "[2001:db8:1::80]:80"].map(|address| firewall.listen(address));
    let mut open = Vec::new();
    let mut ended = Vec::new();
    // Connections that end, in either way, beside one that stays.
    for (number, listener) in listeners.iter().chain(&listeners).enumerate() {
        let to = listener.local_addr().unwrap();
        let mut client = connect(&firewall.outside, &to.to_string(), PATIENCE).unwrap();
        let mut server = accept(listener);
        exchange(&mut client, &mut server);
        let flow = (TCP, client.local_addr().unwrap(), to);
        if number < 2 {
            drop((client, server));
            ended.push((flow, DONE));
        } else {
            open.push((flow, client, server));
        }
    }
    // One that is refused by a host, one by a rule, a ping, a question with its answer and one without.
    let end = |text: &str| -> SocketAddr { text.parse().unwrap() };
    let refused = end("10.0.1.80:443");
    assert!(connect(&firewall.outside, &refused.to_string(), PATIENCE).is_err());
    assert!(connect(&firewall.outside, "10.0.1.11:22", DENIED).is_err());
    assert!(pings(&firewall.outside, "10.0.1.80"));
    let [asks, answers] = [(&firewall.inside, "10.0.1.11:5000"), (&firewall.outside, "10.0.9.5:5353")]
        .map(|(host, address)| must(host.enter(|| UdpSocket::bind(address).unwrap())));
    answers.set_read_timeout(Some(PATIENCE)).unwrap();
    asks.send_to(&[1; 100], "10.0.9.5:5353").unwrap();
    let mut buffer = [0; 200];
    let (length, from) = answers.recv_from(&mut buffer).unwrap();
    answers.send_to(&buffer[..length - 50], from).unwrap();
    asks.send_to(&[1; 10], "10.0.9.5:5354").unwrap();
    ended.push(((ICMP, end("10.0.9.5:0"), end("10.0.1.80:0")), IDLE));
    ended.push(((UDP, end("10.0.1.11:5000"), end("10.0.9.5:5353")), IDLE));
    ended.push(((UDP, end("10.0.1.11:5000"), end("10.0.9.5:5354")), IDLE));

    // Operators see the connections that are open, those with most bytes first.
    let shown = firewall.json(&["flows", "--state", "established", "--sort", "bytes"]);
    assert_eq!(
        (&shown["fit"], shown["flows"].as_array().unwrap().len()),
        (&Json::from(open.len()), open.len()),
        "{shown}"
    );

    // What collectors are told of a flow until its end is what has arrived.
    let started = Instant::now();
    while !ended.iter().all(|(flow, why)| seen.records.iter().any(|own| ends(own) == *flow && number(own, 136) == *why))
        || !open
            .iter()
            .all(|(flow, ..)| seen.records.iter().any(|own| ends(own) == *flow && number(own, 136) == ACTIVE))
    {
        assert!(started.elapsed() < PATIENCE, "of {ended:?} and {open:?}: {:?}", seen.records);
        seen.receive(&collector);
    }
    // Once more over those that go on, and an end by command.
    for (_, client, server) in &mut open {
        exchange(client, server);
    }
    std::thread::sleep(Duration::from_millis(300));
    let (killed, client, server) = open.remove(0);
    let of_it = killed.1.to_string();
    let done = firewall.json(&["flows", "kill", "--address", &of_it]);
    assert_eq!(done["killed"], 1, "{done}");
    ended.push((killed, FORCED));
    seen.find(&collector, PATIENCE, |own| ends(own) == killed && number(own, 136) == FORCED);
    let before = firewall.dropped("no_flow");
    std::io::Write::write_all(&mut &client, b"nobody lets it pass").unwrap();
    firewall.wait("data of a flow that was ended pass", |firewall| firewall.dropped("no_flow") > before);
    drop((client, server));
    // The last one: what is shown of it, and a record of its end.
    let (last, client, server) = open.remove(0);
    std::thread::sleep(Duration::from_millis(300));
    let shown = firewall.json(&["flows", "--address", &last.1.to_string()])["flows"][0].clone();
    let mut counts = Counts::new();
    wires.iter_mut().for_each(|wire| arrived(wire, &mut counts));
    let [up, down] = both(&counts, last);
    let number_of = |name: &str| shown[name].as_u64().unwrap();
    assert_eq!(
        [up, down],
        [(number_of("up_packets"), number_of("up")), (number_of("down_packets"), number_of("down"))],
        "{shown}"
    );
    assert_eq!(
        (&shown["rule"], &shown["protocol"], &shown["state"]),
        (&"web".into(), &"tcp".into(), &"established".into())
    );
    for (flow, why) in &ended {
        // Segments that were dropped behind an end by command did not arrive.
        assert_eq!(told(&seen, *flow), both(&counts, *flow), "{flow:?} {why}: {:?}", seen.records);
    }
    drop((client, server));
    seen.find(&collector, PATIENCE, |own| ends(own) == last && number(own, 136) == DONE);
    wires.iter_mut().for_each(|wire| arrived(wire, &mut counts));
    assert_eq!(told(&seen, last), both(&counts, last), "{:?}", seen.records);
    let refused_is_told = seen
        .records
        .iter()
        .filter(|own| ends(own).2 == refused)
        .map(|own| (number(own, 136), number(own, 298), number(own, 299)));
    assert_eq!(refused_is_told.collect::<Vec<_>>(), [(DONE, 1, 1)]);
    assert!(seen.records.iter().all(|own| ends(own).2 != end("10.0.1.11:22")), "what a rule denies is no flow");
    let ping = seen.records.iter().find(|own| ends(own) == ended[2].0).unwrap();
    assert_eq!([7, 11].map(|port| number(ping, port)), [0, 8 << 8], "type and code of an echo request");
    let names = |flow| seen.records.iter().find(|own| ends(own) == flow).unwrap()[&96].clone();
    assert_eq!((names(last), names(ended[2].0), names(ended[3].0)), (b"web".to_vec(), b"ping".to_vec(), Vec::new()));
    // Nobody wants them any more.
    let state = firewall.json(&["status"])[0]["ipfix"].clone();
    assert_eq!((&state["lost"], &state["failed"]), (&0.into(), &0.into()), "{state}");
    firewall.reload(&[devices, &[("\n7 = 10\n", "\n7 = 1\n")]].concat()).ok();
    firewall.wait("records are made still", |firewall| {
        firewall.ask(&["table", "get", "flow.recorded", "0"]).ok().contains("false")
    });
    assert_eq!(firewall.counters()["counters"]["flow.unrecorded"][0], 0, "{}", firewall.counters());
    firewall.stop();
}

#[test]
fn flows_are_told_to_the_byte_on_a_worker() {
    flows_are_told_to_the_byte(&[("auto:lan", "afpacket:lan"), ("auto:wan", "afpacket:wan")]);
}

#[test]
fn flows_are_told_to_the_byte_at_xdp() {
    flows_are_told_to_the_byte(&[("auto:lan", "xdp:lan"), ("auto:wan", "xdp:wan")]);
}

#[test]
fn flows_are_told_to_the_byte_at_tc() {
    flows_are_told_to_the_byte(&[("auto:lan", "tc:lan"), ("auto:wan", "tc:wan")]);
}

#[test]
fn mistakes_are_told() {
    let firewall = Firewall::start(&[]);
    for (words, said) in [
        (&["flows", "--address", "10.0.0.300"][..], "\"10.0.0.300\" is no address; accepted: ADDRESS"),
        (&["flows", "--protocol", "tpc"], "did you mean `tcp`?"),
        (&["flows", "--rule", "wob"], "there is no rule \"wob\"; did you mean `web`?"),
        (&["flows", "kill", "--state", "ready"], "\"ready\" is no state"),
        (&["flows", "kill"], "which flows?"),
    ] {
        let error = firewall.ask(words).failed_in_one_line(1);
        assert!(error.contains(said), "{words:?}: {error}");
    }
    // All that fit are ended: a limit would not be heeded.
    let with = json!({ "port": 80, "limit": 1 });
    let request = json!({ "request": "query", "controller": "firewall", "query": "kill", "with": with });
    let answer = firewall.request(&request);
    assert!(answer.contains("there is no `limit` to that"), "{answer}");
    assert_eq!(firewall.ask(&["flows"]).ok(), "0 of 0 that fit, of 0 in all; counted for 1 s\n");
    firewall.stop();
}

#[test]
fn a_program_that_counts_nothing_is_run_all_the_same() {
    let ipfix = "[ipfix]\ncollectors = [\"127.0.0.1\"]\n\n[controllers.firewall]";
    let changes = [("[controllers.firewall]", ipfix)];
    let firewall = Firewall::start_own(&changes, |text| text.replace("counted[", "sums["));
    assert!(firewall.ask(&["flows"]).failed_in_one_line(1).contains("the program has no table flow.counted"));
    assert!(pings(&firewall.outside, "10.0.1.80"));
    firewall.reload(&changes).ok();
    // It looks ten times a second whether somebody wants flows.
    std::thread::sleep(Duration::from_secs(1));
    let (_, said) = firewall.stop();
    assert!(said.contains("collectors get no flows: the program has no table flow.counted"), "{said}");
}

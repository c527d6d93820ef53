//! The firewall on live network namespaces: real hosts on both sides, a port scan, a flood, new rules while flows go
//! on.
//!
//! They need root, or `unshare --user --map-root-user`, and fail without.

mod flows;
mod network;

#[allow(dead_code)]
#[path = "../../../../tests/support/frames.rs"]
mod frames;
#[allow(dead_code)]
#[path = "../../../../tests/support/instance.rs"]
mod instance;
#[allow(dead_code)]
#[path = "../../../../tests/support/ipfix.rs"]
mod ipfix;
#[allow(dead_code)]
#[path = "../../../../tests/support/process.rs"]
mod process;
#[allow(dead_code)]
#[path = "../../../../tests/support/report.rs"]
mod report;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use lab::{Namespace, RawPort};

use frames::{checksum, ethernet};
use network::{Firewall, INSIDE_MAC, OUTSIDE_MAC, PATIENCE, must};

/// How long a connection that is denied is waited for.
const DENIED: Duration = Duration::from_secs(2);

fn connect(host: &Namespace, to: &str, limit: Duration) -> std::io::Result<TcpStream> {
    let to: SocketAddr = to.parse().unwrap();
    host.enter(|| TcpStream::connect_timeout(&to, limit)).unwrap()
}

/// What is written at one end of a connection comes out at the other, both ways.
#[track_caller]
fn talk(client: &mut TcpStream, server: &mut TcpStream, text: &[u8]) {
    pass(client, server, text);
    pass(server, client, text);
}

#[track_caller]
fn pass(from: &mut TcpStream, to: &mut TcpStream, text: &[u8]) {
    from.set_write_timeout(Some(PATIENCE)).unwrap();
    to.set_read_timeout(Some(PATIENCE)).unwrap();
    from.write_all(text).unwrap();
    let mut found = vec![0; text.len()];
    to.read_exact(&mut found).unwrap();
    assert_eq!(found, text);
}

fn accept(listener: &TcpListener) -> TcpStream {
    listener.accept().unwrap().0
}

/// A ping whose answer is not waited for longer than that of a denied connection.
fn pings(host: &Namespace, address: &str) -> bool {
    let ping = host.command("ping").args(["-n", "-c", "1", "-W", "2", address]).limit(PATIENCE);
    must(ping.run()).status.success()
}

#[test]
fn who_may_reach_whom() {
    let firewall = Firewall::start(&[]);
    let (inside, outside) = (&firewall.inside, &firewall.outside);
    // From inside all hosts, with ARP, neighbour discovery and fragments.
    for address in ["10.0.9.5", "2001:db8:1::5"] {
        assert!(inside.ping(address, PATIENCE).unwrap(), "{address}");
        let large = inside.command("ping").args(["-n", "-c", "1", "-W", "10", "-s", "4000", address]);
        must(large.limit(PATIENCE).check());
    }
    // From outside only what rules permit.
    assert!(pings(outside, "10.0.1.80") && pings(outside, "2001:db8:1::80"));
    assert!(!pings(outside, "10.0.1.11"));
    for (address, permitted) in
        [("10.0.1.80:80", true), ("[2001:db8:1::80]:80", true), ("10.0.1.80:8080", false), ("10.0.1.11:80", false)]
    {
        let listener = firewall.listen(address);
        if !permitted {
            assert!(connect(outside, address, DENIED).is_err(), "{address}");
            continue;
        }
        let mut client = connect(outside, address, PATIENCE).unwrap();
        talk(&mut client, &mut accept(&listener), b"permitted");
    }
    // The other way everything but mail.
    let listener = outside.enter(|| [25, 2525].map(|port| TcpListener::bind(("10.0.9.5", port)).unwrap())).unwrap();
    assert!(connect(inside, "10.0.9.5:25", DENIED).is_err());
    let mut client = connect(inside, "10.0.9.5:2525", PATIENCE).unwrap();
    talk(&mut client, &mut accept(&listener[1]), b"out");
    // A port without a listener is told: the error belongs to a flow.
    let socket = inside.enter(|| std::net::UdpSocket::bind("10.0.1.80:0").unwrap()).unwrap();
    socket.connect("10.0.9.5:9").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.send(b"anybody?").unwrap();
    assert_eq!(socket.recv(&mut [0; 10]).unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
    let counters = firewall.counters();
    // By rule, in the order of the file: the first is 1.
    let packets = |rule: usize| counters["counters"]["gate.rule_packets"][rule].as_u64().unwrap();
    assert!(packets(2) >= 1 && packets(3) > 6 && packets(6) == 2 && packets(7) == 2, "{counters}");
    let (report, log) = firewall.stop();
    let reasons: Vec<_> = report.drops().into_iter().map(|(reason, _)| reason).collect();
    assert!(report.dropped("denied_by_rule") >= 1 && report.dropped("denied_by_default") >= 3, "{report:?}");
    // Hosts look for routers, too, which belongs to no flow.
    let expected = ["denied_by_rule", "denied_by_default", "no_flow"];
    assert!(reasons.iter().all(|reason| expected.contains(reason)), "{report:?}");
    for text in ["denied_by_default", "denied_by_rule", "rule=2", "src=10.0.9.5", "dst=10.0.1.11", "dst_port=8080"] {
        assert!(log.contains(text), "{text}: {log}");
    }
}

#[test]
fn a_port_scan_finds_what_is_open_to_it() {
    let firewall = Firewall::start(&[]);
    assert!(pings(&firewall.outside, "10.0.1.80"));
    let _servers: Vec<TcpListener> =
        [22, 80, 443, 3306].map(|port| firewall.listen(&format!("10.0.1.80:{port}"))).into();
    let ports: Vec<u16> = (1..=200).chain([443, 3306]).collect();
    let open: Vec<u16> = thread::scope(|scope| {
        let chunks = ports.chunks(11);
        let scans = chunks.map(|ports| {
            scope.spawn(|| {
                let open = |port: &&u16| connect(&firewall.outside, &format!("10.0.1.80:{port}"), DENIED).is_ok();
                ports.iter().filter(open).copied().collect::<Vec<_>>()
            })
        });
        let scans: Vec<_> = scans.collect();
        scans.into_iter().flat_map(|scan| scan.join().unwrap()).collect()
    });
    assert_eq!(open, [80, 443]);
    // Those that were denied left nothing behind.
    assert!(firewall.entries("flow.flows") <= 3 && firewall.entries("flow.opening") <= 3);
    let (report, _) = firewall.stop();
    assert!(report.dropped("denied_by_default") >= 200, "{report:?}");
}

/// A SYN from an address and port that number says.
fn syn(number: u32) -> Vec<u8> {
    let src = [[10, 0].as_slice(), &((0x1000 + number % 0xe000) as u16).to_be_bytes()].concat();
    let dst = [10, 0, 1, 80];
    let port = 1024 + (number / 0xe000) as u16;
    let tcp =
        [&port.to_be_bytes()[..], &[0, 80], &number.to_be_bytes(), &[0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0]]
            .concat();
    let mut ip = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0];
    ip.extend([&src[..], &dst].concat());
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ethernet(INSIDE_MAC, OUTSIDE_MAC, 0x0800, &[ip, tcp].concat())
}

#[test]
fn a_flood_of_syns_does_not_reach_open_flows() {
    let firewall = Firewall::start(&[]);
    let listener = firewall.listen("10.0.1.80:443");
    let mut client = connect(&firewall.outside, "10.0.1.80:443", PATIENCE).unwrap();
    let mut server = accept(&listener);
    talk(&mut client, &mut server, b"before");
    // More half-open flows than the table for them holds. What the port can't take in time is lost, so it goes on until
    // the table is full.
    let wire = RawPort::open(&firewall.outside, "eth0").unwrap();
    let start = Instant::now();
    let mut number = 0;
    while firewall.dropped("flow_table_full") == 0 {
        assert!(start.elapsed() < PATIENCE, "after {number} SYNs: {}", firewall.counters());
        for _ in 0..5000 {
            wire.send(&syn(number)).unwrap();
            number += 1;
        }
    }
    assert!(firewall.entries("flow.opening") <= 65536);
    // The flow that was open is; a new one finds room soon, for half-open flows have little time now.
    talk(&mut client, &mut server, b"meanwhile");
    let start = Instant::now();
    let mut late = loop {
        match connect(&firewall.outside, "10.0.1.80:443", DENIED) {
            Ok(stream) => break stream,
            Err(error) => assert!(start.elapsed() < PATIENCE, "{error}"),
        }
    };
    // Attempts that were given up may have got through after all.
    talk(&mut client, &mut server, b"after");
    late.write_all(b"late").unwrap();
    // 30 s, or an eighth of it under pressure, and all is as before.
    firewall.wait("half-open flows remain", |firewall| firewall.entries("flow.opening") < 100);
    let (report, _) = firewall.stop();
    assert!(report.dropped("flow_table_full") > 0, "{report:?}");
}

#[test]
fn new_rules_leave_open_flows_alone() {
    let firewall = Firewall::start(&[]);
    let listener = firewall.listen("10.0.1.80:80");
    let mut client = connect(&firewall.outside, "10.0.1.80:80", PATIENCE).unwrap();
    let mut server = accept(&listener);
    talk(&mut client, &mut server, b"old rules");
    let web = "{ name = \"web\", action = \"permit\"";
    let closed = [(web, "{ name = \"web\", action = \"deny\"")];
    assert_eq!(firewall.reload(&closed).ok(), "in force: settings of firewall\n");
    assert!(connect(&firewall.outside, "10.0.1.80:80", DENIED).is_err());
    talk(&mut client, &mut server, b"new rules");
    // A configuration that is wrong changes nothing.
    let error = firewall.reload(&[(web, "{ name = \"web\", action = \"permitt\"")]).failed_in_one_line(1);
    assert!(error.contains("firewall.toml:") && error.contains("did you mean `permit`?"), "{error}");
    assert!(connect(&firewall.outside, "10.0.1.80:80", DENIED).is_err());
    // Nor does one that is strange go unnoticed.
    let all =
        format!("{{ action = \"permit\", entry = \"wan\", protocol = \"tcp\", to = \"10.0.0.0/8\" }},\n    {web}");
    let bad = "to = [\"10.0.1.80\", \"2001:db8:1::80\"]";
    let said = firewall.reload(&[(web, &all), (bad, "to = \"10.0.1.80\"")]).ok();
    let expected =
        "no packet reaches rule 4 \"web\" (line 32): rule 3 (line 31) matches all that it matches, and does the same";
    assert!(
        said.contains("warning: ") && said.contains(expected) && said.ends_with("in force: settings of firewall\n"),
        "{said}"
    );
    let mut again = connect(&firewall.outside, "10.0.1.80:80", PATIENCE).unwrap();
    talk(&mut again, &mut accept(&listener), b"permitted again");
    talk(&mut client, &mut server, b"third rules");
    // And once more, so that both sets of tables have been used twice.
    firewall.reload(&closed).ok();
    assert!(connect(&firewall.outside, "10.0.1.80:80", DENIED).is_err());
    talk(&mut client, &mut server, b"the end");
    let (report, _) = firewall.stop();
    let reasons: Vec<_> = report.drops().into_iter().map(|(reason, _)| reason).collect();
    assert!(!reasons.contains(&"out_of_state") && report.dropped("denied_by_rule") >= 3, "{report:?}");
}

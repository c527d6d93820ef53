//! Label switching on live network namespaces: three routers run `millrace run mpls` between two hosts, which ping,
//! trace and fetch through them.
//!
//! They need root, or `unshare --user --map-root-user`, and fail without.

mod network;

// What other tests use of these is not used here.
#[allow(dead_code)]
#[path = "../support/instance.rs"]
mod instance;
#[allow(dead_code)]
#[path = "../support/process.rs"]
mod process;
#[allow(dead_code)]
#[path = "../support/report.rs"]
mod report;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

use network::{Core, PATIENCE};

/// Serves one file over HTTP, to one client after the other.
fn serve(listener: &TcpListener, content: &[u8], clients: usize) {
    for _ in 0..clients {
        let (mut client, _) = listener.accept().unwrap();
        answer(&mut client, content);
    }
}

fn answer(client: &mut TcpStream, content: &[u8]) {
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        request.push(byte[0]);
    }
    let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", content.len());
    client.write_all(&[head.as_bytes(), content].concat()).unwrap();
}

#[test]
fn hosts_meet_through_label_switched_hops() {
    let core = Core::start();
    let [h1, h2] = &core.hosts;
    // The first packets are lost while the routers ask for their neighbours.
    for (host, to) in [(h1, "10.2.0.11"), (h2, "10.1.0.11"), (h1, "2001:db8:2::11"), (h2, "2001:db8:1::11")] {
        assert!(host.ping(to, PATIENCE).unwrap(), "no way to {to}");
    }
    // Three routers, whether their hops are labelled or not.
    for (to, ttl) in [("10.2.0.11", "ttl=61 "), ("2001:db8:2::11", "ttl=61 ")] {
        // One a second: `ping` waits for the last answer as long.
        let ping = h1.command("ping").args(["-n", "-c", "3", to]).limit(PATIENCE);
        let ping = ping.check().unwrap_or_else(|error| panic!("{error}")).text();
        assert!(ping.contains(" 0% packet loss") && ping.contains(ttl), "{ping}");
    }
    // Whole frames: the links of the core are wider by the labels.
    let content: Vec<u8> = (0..1_000_000u32).flat_map(|number| number.to_be_bytes()).collect();
    let listener = h2.enter(|| TcpListener::bind("10.2.0.11:80")).unwrap().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| serve(&listener, &content, 1));
        let curl = h1.command("curl").args(["-sS", "--max-time", "60", "http://10.2.0.11/"]).limit(PATIENCE);
        let found = curl.check().unwrap_or_else(|error| panic!("{error}"));
        assert!(found.stdout == content, "{} bytes came", found.stdout.len());
    });
    let [first, middle, last] = core.stop();
    assert!(first.ppf("label_push.push4") > 0 && first.ppf("label_push.push6") > 0, "{first:?}");
    assert!(middle.ppf("label_swap.swap") > 1000 && middle.ppf("ipv4_edge.check") == 0, "{middle:?}");
    assert!(last.ppf("label_lookup.look_up") > 100, "{last:?}");
    for report in [first, middle, last] {
        let reasons: Vec<_> = report.drops().into_iter().map(|(reason, _)| reason).collect();
        assert!(reasons.iter().all(|reason| *reason == "no_neighbour"), "{report:?}");
    }
}

#[test]
fn traceroute_sees_routers_and_labels() {
    let core = Core::start();
    let [h1, h2] = &core.hosts;
    for (host, to) in [(h1, "10.2.0.11"), (h2, "10.1.0.11"), (h1, "2001:db8:2::11"), (h2, "2001:db8:1::11")] {
        assert!(host.ping(to, PATIENCE).unwrap(), "no way to {to}");
    }
    // The router in the middle knows no way to the hosts: its answers go on with the labels, and come back from the
    // end.
    for (version, to, hops) in [
        (
            "-4",
            "10.2.0.11",
            ["10.1.0.1 ", "10.0.12.2 <MPLS:L=17002,E=0,S=1,T=1>", "10.0.23.3 <MPLS:L=17003,E=0,S=1,T=1>", "10.2.0.11 "],
        ),
        (
            "-6",
            "2001:db8:2::11",
            [
                "2001:db8:1::1 ",
                "2001:db8:12::2 <MPLS:L=17002,E=0,S=1,T=1>",
                "2001:db8:23::3 <MPLS:L=17003,E=0,S=1,T=1>",
                "2001:db8:2::11 ",
            ],
        ),
    ] {
        let trace = h1.command("traceroute").args([version, "-n", "-e", "-q", "1", "-w", "5", "-m", "6", to]);
        let trace = trace.limit(PATIENCE).check().unwrap_or_else(|error| panic!("{error}")).text();
        let found: Vec<&str> = trace.lines().skip(1).collect();
        assert_eq!(found.len(), hops.len(), "{trace}");
        for (line, hop) in found.iter().zip(hops) {
            assert!(line.contains(hop), "{hop}: {trace}");
        }
    }
    core.stop();
}

#[test]
fn packets_that_do_not_fit_with_their_labels() {
    let core = Core::narrow(1500);
    let [h1, h2] = &core.hosts;
    for (host, to) in [(h1, "10.2.0.11"), (h2, "10.1.0.11"), (h1, "2001:db8:2::11"), (h2, "2001:db8:1::11")] {
        assert!(host.ping(to, PATIENCE).unwrap(), "no way to {to}");
    }
    let ping = |arguments: &[&str]| {
        let ping = h1.command("ping").args(["-n", "-c", "2"]).args(arguments.iter().copied());
        ping.limit(PATIENCE).run().unwrap_or_else(|error| panic!("{error}")).both()
    };
    // 1500 bytes, and a label: fragments where they may be, else an error by a router that knows no way to the sender.
    let found = ping(&["-M", "dont", "-s", "1472", "10.2.0.11"]);
    assert!(found.contains(" 0% packet loss"), "{found}");
    let found = ping(&["-M", "do", "-s", "1472", "10.2.0.11"]);
    assert!(found.contains("From 10.0.12.2 icmp_seq=1 Frag needed and DF set (mtu = 1496)"), "{found}");
    let found = ping(&["-M", "do", "-s", "1468", "10.2.0.11"]);
    assert!(found.contains(" 0% packet loss"), "{found}");
    let found = ping(&["-M", "do", "-s", "1452", "2001:db8:2::11"]);
    assert!(found.contains("From 2001:db8:12::2 icmp_seq=1 Packet too big: mtu=1496"), "{found}");
    let found = ping(&["-M", "do", "-s", "1448", "2001:db8:2::11"]);
    assert!(found.contains(" 0% packet loss"), "{found}");
    // A host that heard of it sends what fits.
    let content: Vec<u8> = (0..250_000u32).flat_map(|number| number.to_be_bytes()).collect();
    for (at, port) in [("10.2.0.11", 5001), ("2001:db8:2::11", 5002)] {
        let listener = h2.enter(|| TcpListener::bind((at, port))).unwrap().unwrap();
        let mut client = h1.enter(|| TcpStream::connect((at, port))).unwrap().unwrap();
        thread::scope(|scope| {
            let received = scope.spawn(|| {
                let (mut server, _) = listener.accept().unwrap();
                server.set_read_timeout(Some(PATIENCE)).unwrap();
                let mut received = Vec::new();
                server.read_to_end(&mut received).unwrap();
                received
            });
            client.set_write_timeout(Some(PATIENCE)).unwrap();
            client.write_all(&content).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            assert!(received.join().unwrap() == content, "{at}");
        });
    }
    let [_, middle, _] = core.stop();
    assert!(middle.ppf("fragment.fragment") >= 2, "{middle:?}");
    assert!(middle.ppf("icmp_error.error4") >= 1 && middle.ppf("icmp_error.error6") >= 1, "{middle:?}");
    assert!(middle.drops().into_iter().all(|(reason, _)| reason == "no_neighbour"), "{middle:?}");
}

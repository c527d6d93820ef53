//! Hosts whose checksums and segments are left to hardware that is not there.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use lab::{Namespace, RawPort, Running, Signal};

use crate::PATCH;
use crate::frames::{ETH_EXPERIMENT, ethernet};
use crate::report::Report;
use crate::run::network;

const PATIENCE: Duration = Duration::from_secs(20);

fn run(ns: &Namespace, by: &[&str], ports: [&str; 2]) -> Running {
    let words = [by, &[env!("CARGO_BIN_EXE_millrace"), "run", PATCH, "--no-socket"]].concat();
    let millrace = ns.command(words[0]).args(&words[1..]);
    let millrace = millrace.args(["--port", &format!("l={}", ports[0]), "--port", &format!("r={}", ports[1])]);
    let mut running = millrace.spawn().unwrap();
    running.wait_for_text("running on 2 ports", PATIENCE).unwrap_or_else(|error| panic!("{error}"));
    running
}

fn end(mut running: Running) -> lab::Output {
    running.signal(Signal::SIGTERM).unwrap();
    running.wait(PATIENCE).unwrap()
}

#[test]
fn offloads_that_end_tcp_are_said_at_the_start() {
    let (box_, [a, _b]) = network();
    // Of an end in this namespace all is seen; and what the port itself merges, where the kernel does that before
    // Millrace.
    box_.check(&["ip", "link", "add", "svi", "type", "veth", "peer", "name", "svip"]).unwrap();
    for device in ["svi", "svip"] {
        box_.check(&["ip", "link", "set", "dev", device, "up"]).unwrap();
    }
    box_.check(&["ethtool", "-K", "svi", "tso", "off"]).unwrap();
    box_.check(&["ethtool", "-K", "svip", "gro", "on"]).unwrap();
    const UNDONE: &str = "leaves checksums or segments to hardware that is not there";
    let peer = format!("svip: its other end svi {UNDONE} (tx), so TCP fails: run `ethtool -K svi tx off`\n");
    let merges = "svip: merges packets that it receives (gro) into such as are longer than frames or the next MTU: run \
                  `ethtool -K svip gro off`\n";
    for (driver, merged) in [("afpacket", true), ("afxdp", false), ("auto", false)] {
        let text = end(run(&box_, &[], [&format!("{driver}:svip"), "mem:"])).text();
        assert_eq!((text.contains(&peer), text.contains(merges)), (true, merged), "{driver}: {text}");
    }
    // In a namespace that has a name, too; where all is off, or nothing can be seen, nothing is said.
    let named = "mount -t tmpfs run /run && mkdir /run/netns && touch /run/netns/a && mount --bind \"$0\" /run/netns/a && exec \"$@\"";
    let place = a.path();
    let by = ["unshare", "--mount", "sh", "-c", named, &place];
    for (on, by, expected) in [
        (false, &by[..], None),
        (
            true,
            &by[..],
            Some(format!(
                "left: its other end eth0 in the namespace a {UNDONE} (tx, tso), so TCP fails: run `ip netns exec a ethtool \
                 -K eth0 tx off tso off`\n"
            )),
        ),
        (true, &[], None),
    ] {
        let to = if on { "on" } else { "off" };
        a.check(&["ethtool", "-K", "eth0", "tx", to, "sg", to, "tso", to]).unwrap();
        let text = end(run(&box_, by, ["afpacket:left", "mem:"])).text();
        assert_eq!(text.contains(UNDONE), expected.is_some(), "{text}");
        assert!(expected.is_none_or(|expected| text.contains(&expected)), "{text}");
    }
}

#[test]
fn unfinished_packets_are_counted_and_said_once() {
    let (box_, [a, b]) = network();
    for (host, address) in [(&a, "10.0.0.1/24"), (&b, "10.0.0.2/24")] {
        host.check(&["ip", "address", "add", address, "dev", "eth0"]).unwrap();
    }
    a.check(&["ip", "neighbour", "add", "10.0.0.2", "lladdr", "02:00:00:00:00:02", "dev", "eth0"]).unwrap();
    let millrace = run(&box_, &[], ["afpacket:left", "afpacket:right"]);
    let wire = RawPort::open(&a, "eth0").unwrap();
    let send = |count: usize| {
        let socket = a.enter(|| UdpSocket::bind("10.0.0.1:0")).unwrap().unwrap();
        (0..count).for_each(|_| _ = socket.send_to(b"seven bytes", "10.0.0.2:9").unwrap());
    };
    // Whole ones, of which the first has no checksum to finish at all.
    let frame = ethernet([2; 6], [4; 6], ETH_EXPERIMENT, &[7; 60]);
    wire.send(&frame).unwrap();
    send(3);
    a.check(&["ethtool", "-K", "eth0", "tx", "on"]).unwrap();
    send(5);
    let start = Instant::now();
    const SAID: &str = "l: packets come in whose checksums or segments their host has left to hardware";
    while !millrace.both().contains(SAID) {
        assert!(start.elapsed() < PATIENCE, "{}", millrace.both());
        std::thread::sleep(Duration::from_millis(20));
    }
    send(2);
    let output = end(millrace);
    let text = output.both();
    assert_eq!(text.matches(SAID).count(), 1, "{text}");
    let report = Report::parse(&output.text());
    assert_eq!((report.port("l", "received"), report.port("l", "unfinished")), (11, 7), "{text}");
    assert_eq!((report.port("r", "sent"), report.port("r", "unfinished")), (11, 0), "{text}");
}

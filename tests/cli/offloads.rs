//! Hosts whose checksums and segments are left to hardware that is not there.

use std::net::UdpSocket;
use std::time::Duration;

use lab::{Namespace, RawPort, Running, Signal};

use crate::PATCH;
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
    // Of an end in this namespace all is seen. Only XDP sees what it leaves, so `auto` is traffic control.
    box_.check(&["ip", "link", "add", "svi", "type", "veth", "peer", "name", "svip"]).unwrap();
    for device in ["svi", "svip"] {
        box_.check(&["ip", "link", "set", "dev", device, "up"]).unwrap();
    }
    box_.check(&["ethtool", "-K", "svi", "tso", "off"]).unwrap();
    box_.check(&["ethtool", "-K", "svip", "gro", "on"]).unwrap();
    const UNDONE: &str = "leaves checksums or segments to hardware that is not there";
    let peer = format!("svip: its other end svi {UNDONE} (tx), so TCP fails: run `ethtool -K svi tx off`\n");
    for (driver, is_said) in [("afpacket", false), ("afxdp", true), ("auto", false)] {
        let text = end(run(&box_, &[], [&format!("{driver}:svip"), "mem:"])).text();
        assert_eq!((text.contains(&peer), text.contains("merges packets")), (is_said, false), "{driver}: {text}");
    }
    // What can't be divided again is said.
    box_.check(&["ethtool", "-K", "svip", "rx-gro-list", "on"]).unwrap();
    let text = end(run(&box_, &[], ["afpacket:svip", "mem:"])).text();
    assert!(text.contains("svip: merges packets that it receives (rx-gro-list)"), "{text}");
    assert!(text.contains("run `ethtool -K svip rx-gro-list off`\n"), "{text}");
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
                "left: its other end eth0 in the namespace a {UNDONE} (tx), so TCP fails: run `ip netns exec a ethtool \
                 -K eth0 tx off`\n"
            )),
        ),
        (true, &[], None),
    ] {
        let to = if on { "on" } else { "off" };
        a.check(&["ethtool", "-K", "eth0", "tx", to, "sg", to, "tso", to]).unwrap();
        let text = end(run(&box_, by, ["afxdp:left", "mem:"])).text();
        assert_eq!(text.contains(UNDONE), expected.is_some(), "{text}");
        assert!(expected.is_none_or(|expected| text.contains(&expected)), "{text}");
    }
}

#[test]
fn what_hosts_leave_is_finished() {
    let (box_, [a, b]) = network();
    for (host, address) in [(&a, "10.0.0.1/24"), (&b, "10.0.0.2/24")] {
        host.check(&["ip", "address", "add", address, "dev", "eth0"]).unwrap();
        host.check(&["ethtool", "-K", "eth0", "tx", "on", "sg", "on", "tso", "on", "gso", "on"]).unwrap();
    }
    a.check(&["ip", "neighbour", "add", "10.0.0.2", "lladdr", "02:00:00:00:00:02", "dev", "eth0"]).unwrap();
    b.check(&["ip", "link", "set", "dev", "eth0", "address", "02:00:00:00:00:02"]).unwrap();
    let millrace = run(&box_, &[], ["afpacket:left", "afpacket:right"]);
    let mut wire = RawPort::open(&b, "eth0").unwrap();
    let socket = a.enter(|| UdpSocket::bind("10.0.0.1:0")).unwrap().unwrap();
    socket.send_to(b"seven bytes", "10.0.0.2:9").unwrap();
    let frame = wire.recv_where(PATIENCE, |frame| frame.ends_with(b"seven bytes")).unwrap().expect("it arrives");
    // Over the addresses, the protocol and the length, then over header and payload (RFC 768).
    let pseudo = [&frame[26..34], &[0, 17, 0, 19], &frame[34..], &[0]].concat();
    let sum: u32 = pseudo.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    assert_eq!((sum % 0xffff, frame[40..42] == [0, 0]), (0, false), "{frame:02x?}");
    let output = end(millrace);
    let report = Report::parse(&output.text());
    assert_eq!((report.port("l", "oversize"), report.port("l", "unfinished")), (0, 0), "{output}");
}

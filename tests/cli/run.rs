//! `millrace run`: what starts, what does not, and what goes wrong on the way.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use lab::{LinkConfig, Namespace, RawPort, Running, Signal, veth};

use crate::frames::{ETH_EXPERIMENT, ethernet};
use crate::process::{self, Scratch, millrace, without_privileges};
use crate::report::Report;
use crate::{FIRST, PATCH, pcap};

const PATIENCE: Duration = Duration::from_secs(20);

/// A namespace for Millrace with devices `left` and `right`, linked to `eth0` of the namespace of one host each.
pub fn network() -> (Namespace, [Namespace; 2]) {
    let new = |name| Namespace::new(name).unwrap_or_else(|error| panic!("{error}"));
    let (box_, hosts) = (new("box"), [new("a"), new("b")]);
    for (host, port) in hosts.iter().zip(["left", "right"]) {
        veth(host, "eth0", &box_, port).unwrap();
        box_.configure(port, &LinkConfig::port()).unwrap();
        host.configure("eth0", &LinkConfig::host()).unwrap();
    }
    for (host, port) in hosts.iter().zip(["left", "right"]) {
        box_.wait_running(port, PATIENCE).unwrap();
        host.wait_running("eth0", PATIENCE).unwrap();
    }
    (box_, hosts)
}

/// `millrace run` with the patch cable between the namespace's two devices.
fn start(ns: &Namespace, more: &[&str]) -> Running {
    let command = ns.command(env!("CARGO_BIN_EXE_millrace")).args(["run", PATCH]).args(more);
    let mut running = command.args(["--port", "l=afpacket:left", "--port", "r=afpacket:right"]).spawn().unwrap();
    running.wait_for_text("running on 2 ports", PATIENCE).unwrap_or_else(|error| panic!("{error}"));
    running
}

#[test]
fn between_capture_files() {
    let scratch = Scratch::new();
    for engine in ["worker", "interp"] {
        let (out, replayed) = (scratch.path("out.pcap"), scratch.path("replayed.pcap"));
        let left = format!("left=pcap:{FIRST}");
        let right = format!("right=pcap:,{out}");
        let text =
            millrace(&["run", PATCH, "--port", &left, "--port", &right, "--duration", "0.2", "--engine", engine]);
        let report = Report::parse(&text.ok());
        assert_eq!((report.port("left", "received"), report.port("right", "sent")), (6, 3));
        assert_eq!(report.drops(), [("truncated", 2), ("ttl_expired", 1)]);
        millrace(&["replay", PATCH, "--in", FIRST, "--out", &replayed]).ok();
        let packets = |path: &str| pcap::read(&fs::read(path).unwrap());
        assert_eq!(packets(&out), packets(&replayed));
    }
    // Within its first packet the file ends.
    let damaged = scratch.write("damaged.pcap", &fs::read(FIRST).unwrap()[..30]);
    let port = format!("left=pcap:{damaged}");
    let done = millrace(&["run", PATCH, "--port", &port, "--duration", "0.2"]);
    assert_eq!(done.status, Some(2), "{done:?}");
    let last = done.stderr.lines().last().unwrap_or_default();
    assert!(last.starts_with("error: port left: ") && last.contains("no packet of it can be used"), "{done:?}");
}

#[test]
fn between_interfaces_in_every_mode() {
    let (box_, hosts) = network();
    let modes: [&[&str]; 7] = [
        &[],
        &["--busy"],
        &["--engine", "interp"],
        &["--cpu", "0"],
        &["--workers", "2"],
        &["--workers", "2", "--cpu", "1,0", "--busy"],
        &["--cpu", "0,1", "--engine", "interp"],
    ];
    for mode in modes {
        let mut millrace = start(&box_, mode);
        let mut wires = [0, 1].map(|i| RawPort::open(&hosts[i], "eth0").unwrap());
        for (from, to) in [(0, 1), (1, 0)] {
            let frame = ethernet([2; 6], [4; 6], ETH_EXPERIMENT, mode.concat().as_bytes());
            wires[from].send(&frame).unwrap();
            assert_eq!(wires[to].recv(PATIENCE).unwrap(), Some(frame), "{mode:?}");
        }
        millrace.signal(Signal::SIGINT).unwrap();
        let output = millrace.wait(PATIENCE).unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{mode:?}: {output}");
        assert_eq!(Report::parse(&output.text()).port("r", "sent"), 1, "{mode:?}: {output}");
    }
}

#[test]
fn workers_and_cpus_that_cannot_be() {
    let refused = |status: i32, more: &[&str]| {
        let arguments = [&["run", PATCH, "--port", "a=mem:", "--duration", "0"], more].concat();
        millrace(&arguments).failed_in_one_line(status)
    };
    assert!(refused(1, &["--workers", "0"]).contains("0 workers: use 1 to 32"));
    assert!(refused(1, &["--workers", "33"]).contains("33 workers: use 1 to 32"));
    assert!(refused(1, &["--workers", "2", "--cpu", "0"]).contains("1 CPUs are named for 2 workers"));
    assert!(refused(1, &["--cpu", "0,0"]).contains("CPU 0 is named twice"));
    assert!(refused(2, &["--cpu", "0,900"]).contains("CPU 900: cannot run a worker there"));
    let scratch = Scratch::new();
    let config = |text: &str| {
        let path = scratch.write("workers.toml", text);
        let said = millrace(&["run", PATCH, "-c", &path]).failed_in_one_line(1);
        said.split_once("workers.toml:").unwrap().1.trim().to_owned()
    };
    assert_eq!(
        config("[workers]\ncount = 3\ncpus = [0, 1]"),
        "2: workers.count: 3 workers, but `cpus` has 2; accepted: as many workers as CPUs, or no `cpus`"
    );
    assert!(config("[workers]\ncount = 33").contains("accepted: an integer from 1 to 32"));
    assert!(config("[workers]\ncpus = 1").contains("accepted: a list"));
}

#[test]
fn interfaces_that_are_no_use() {
    let (box_, _hosts) = network();
    let run = |port: &str| {
        let output = box_.run(&[env!("CARGO_BIN_EXE_millrace"), "run", PATCH, "--port", port]).unwrap();
        assert_eq!(output.status.code(), Some(2), "{output}");
        assert!(output.stdout.is_empty(), "{output}");
        let text = output.both();
        assert!(text.starts_with("error: ") && text.lines().count() == 1, "{text}");
        text
    };
    let text = run("a=afpacket:nosuch0");
    assert!(text.contains("nosuch0: there is no such interface"), "{text}");
    assert!(run("a=afpacket:a-name-too-long-for-linux").contains("a-name-too-long-for-linux"));
    box_.down("left").unwrap();
    let text = run("a=afpacket:left");
    assert!(text.contains("left: is down: run `ip link set dev left up`"), "{text}");
}

#[test]
fn an_interface_that_goes_away_does_not_stop_the_others() {
    let (box_, hosts) = network();
    let mut millrace = start(&box_, &[]);
    let (mut a, b) = (RawPort::open(&hosts[0], "eth0").unwrap(), RawPort::open(&hosts[1], "eth0").unwrap());
    let frame = ethernet([2; 6], [4; 6], ETH_EXPERIMENT, b"still there?");
    b.send(&frame).unwrap();
    assert_eq!(a.recv(PATIENCE).unwrap().as_ref(), Some(&frame));
    // Down and up again: it goes on.
    box_.down("right").unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(millrace.ended().unwrap().is_none(), "{}", millrace.both());
    box_.check(&["ip", "link", "set", "dev", "right", "up"]).unwrap();
    hosts[1].wait_running("eth0", PATIENCE).unwrap();
    b.send(&frame).unwrap();
    assert_eq!(a.recv(PATIENCE).unwrap().as_ref(), Some(&frame));
    // Removed: packets to it are dropped and counted, and the end says why.
    box_.check(&["ip", "link", "delete", "right"]).unwrap();
    for _ in 0..10 {
        a.send(&frame).unwrap();
    }
    std::thread::sleep(Duration::from_millis(300));
    assert!(millrace.ended().unwrap().is_none(), "{}", millrace.both());
    let start = Instant::now();
    millrace.signal(Signal::SIGTERM).unwrap();
    let output = millrace.wait(PATIENCE).unwrap();
    assert!(start.elapsed() < Duration::from_secs(10));
    assert_eq!(output.status.code(), Some(2), "{output}");
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    let lines: Vec<_> = said.lines().collect();
    // Logged when it happened, and said at the end.
    assert_eq!(lines.last(), Some(&"error: port r: right: was removed"), "{output}");
    let logged = |text: &str| lines.iter().any(|line| line.contains("WARN") && line.contains(text));
    assert!(logged("right: went down") && logged("right: was removed port=\"r\""), "{output}");
    assert_eq!(Report::parse(&output.text()).port("l", "received"), 10, "{output}");
}

#[test]
fn without_privileges_one_line_says_what_to_do() {
    let scratch = Scratch::new();
    let (program, source) = (scratch.millrace(), scratch.write("patch.baker", fs::read(PATCH).unwrap()));
    let nobody = without_privileges();
    let mut command = Command::new(nobody[0]);
    command.args(&nobody[1..]).args([&program, "run", &source, "--port", "a=afpacket:lo"]);
    let text = process::run(command).failed_in_one_line(2);
    assert!(text.contains("no permission") && text.contains("CAP_NET_RAW") && text.contains("unshare -Urn"), "{text}");
    // What needs none works.
    let out = scratch.path("out.pcap");
    let mut command = Command::new(nobody[0]);
    command.args(&nobody[1..]).args([&program, "run", &source, "--port", "a=mem:", "--duration", "0.1"]);
    command.args(["--port", &format!("b=pcap:,{out}")]);
    // A directory for compiled programs that is another user's is told of.
    command.env("MILLRACE_CACHE", "off");
    process::run(command).ok();
}

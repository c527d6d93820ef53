//! `millrace run` on AF_XDP ports: what it says, and what it leaves behind.

use std::time::{Duration, Instant};

use lab::{Namespace, RawPort, Running, Signal};

use crate::PATCH;
use crate::frames::{ETH_EXPERIMENT, ethernet};
use crate::report::Report;
use crate::run::network;

const PATIENCE: Duration = Duration::from_secs(20);

fn command(ns: &Namespace) -> lab::Command<'_> {
    let command = ns.command(env!("CARGO_BIN_EXE_millrace")).args(["run", PATCH]);
    command.args(["--port", "l=afxdp:left", "--port", "r=afxdp:right"])
}

fn start(ns: &Namespace) -> Running {
    let mut running = command(ns).spawn().unwrap();
    running.wait_for_text("running on 2 ports", PATIENCE).unwrap_or_else(|error| panic!("{error}"));
    running
}

/// Waits until the interfaces have an XDP program, or none.
fn programs(ns: &Namespace, wanted: bool) {
    let start = Instant::now();
    for device in ["left", "right"] {
        loop {
            let said = ns.check(&["ip", "link", "show", "dev", device]).unwrap().text();
            if said.contains("prog/xdp") == wanted {
                break;
            }
            assert!(start.elapsed() < PATIENCE, "{said}");
        }
    }
}

fn passes(hosts: &[Namespace; 2]) {
    let wires = [0, 1].map(|i| RawPort::open(&hosts[i], "eth0").unwrap());
    let [mut left, mut right] = wires;
    for number in 0..100u8 {
        let frame = ethernet([2; 6], [4; 6], ETH_EXPERIMENT, &[number; 100]);
        left.send(&frame).unwrap();
        assert_eq!(right.recv(PATIENCE).unwrap().as_ref(), Some(&frame));
        right.send(&frame).unwrap();
        assert_eq!(left.recv(PATIENCE).unwrap().as_ref(), Some(&frame));
    }
}

#[test]
fn nothing_stays_behind_even_after_a_kill() {
    let (box_, hosts) = network();
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let mut millrace = start(&box_);
        passes(&hosts);
        programs(&box_, true);
        let second = command(&box_).args(["--no-socket"]).run().unwrap();
        assert_eq!(second.status.code(), Some(2), "{second}");
        let text = String::from_utf8(second.stderr.clone()).unwrap();
        let expected = "error: port l: left: has an XDP program (id ";
        assert!(text.starts_with(expected) && text.contains("does not replace"), "{text}");
        millrace.signal(signal).unwrap();
        let output = millrace.wait(PATIENCE).unwrap();
        let about = "port l: left: native XDP; copy mode, because its driver has no zero-copy; 1 queue for 1 worker\n";
        assert!(output.text().contains(about), "{output}");
        if signal == Signal::SIGTERM {
            assert!(output.status.success(), "{output}");
            let report = Report::parse(&output.text());
            assert_eq!((report.port("l", "received"), report.port("r", "sent")), (100, 100));
        }
        programs(&box_, false);
    }
}

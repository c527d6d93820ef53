//! Configuration mistakes: each is told with file, line and key, and what is accepted.

use crate::instance::Runtime;
use crate::process::{Scratch, millrace};
use crate::{FIRST, PATCH};

#[test]
fn mistakes_are_told_with_file_line_and_key() {
    let scratch = Scratch::new();
    let expect = |text: &str, parts: &[(usize, &str, &str)]| {
        let path = scratch.write("bad.toml", text);
        let said = millrace(&["run", "l3switch", "-c", &path]).failed(1);
        assert_eq!(millrace(&["replay", "l3switch", "-c", &path, "--in", FIRST]).failed(1), said);
        let lines: Vec<_> = said.lines().collect();
        assert_eq!(lines.len(), parts.len(), "{said}");
        for (line, (number, key, problem)) in lines.iter().zip(parts) {
            let start = if key.is_empty() { String::new() } else { format!("{key}: ") };
            let start = format!("error: {path}:{number}: {start}");
            assert!(line.starts_with(&start) && line.contains(problem), "{line:?} should be {start:?} … {problem:?}");
        }
    };
    expect("x = ", &[(1, "", "not TOML")]);
    expect("[frame]\ncount = 1", &[(1, "frame", "did you mean `frames`?")]);
    expect("[frames]\n\nsize = 1000\ncount = 0", &[(3, "frames.size", "power of two"), (4, "frames.count", "range")]);
    expect("[workers]\nmode = \"fast\"\ncpus = [-1]", &[(2, "workers.mode", "busy"), (3, "workers.cpus[0]", "range")]);
    expect("ports = 3", &[(1, "ports", "[ports]")]);
    expect("[ports.p1]\nnumber = 0", &[(2, "ports.p1.number", "1 to 255")]);
    expect("[ports.p1]\ndevice = \"afpacket:x\"", &[(1, "ports.p1", "`number` is missing")]);
    expect(
        "[ports.p1]\nnumber = 1\ndevice = \"dpdk:0\"\nhost = \"p9\"\n[ports.p2]\nnumber = 1",
        &[
            (3, "ports.p1.device", "no driver `dpdk`"),
            (4, "ports.p1.host", "no port \"p9\""),
            (6, "ports.p2.number", "port p1 has number 1 already"),
        ],
    );
    expect(
        "[tables.l3_forward.fib]\n\"10.0.0.0/33\" = 1\n\"10.0.1.1/24\" = 1\n\"10.0.1.0/24\" = 99999999999",
        &[
            (2, "tables.l3_forward.fib.\"10.0.0.0/33\"", "prefix"),
            (3, "tables.l3_forward.fib.\"10.0.1.1/24\"", "10.0.1.0/24"),
            (4, "tables.l3_forward.fib.\"10.0.1.0/24\"", "range"),
        ],
    );
    // A route to nowhere, beside one to a next hop that is there; all zero is none.
    expect(
        "[tables.l3_forward.fib]\n\"10.0.1.0/24\" = 1\n\"10.0.2.0/24\" = 2\n\"10.0.3.0/24\" = 3\n\
         [tables.l3_forward.next_hops]\n1 = { domain = 1, gateway = 0, src = 1 }\n3 = { domain = 0, gateway = 0, src = 0 }",
        &[
            (3, "tables.l3_forward.fib.\"10.0.2.0/24\"", "l3_forward.next_hops has no entry 2"),
            (4, "tables.l3_forward.fib.\"10.0.3.0/24\"", "l3_forward.next_hops has no entry 3"),
        ],
    );
    expect("[ports.p1]\nnumber = 1\nmtu = 60", &[(3, "ports.p1.mtu", "range")]);
    expect("[tables.l3_forward.fob]\n\"10.0.0.0/8\" = 1", &[(1, "tables.l3_forward.fob", "did you mean `fib`?")]);
    expect("[tables.l3_fwd.fib]\n\"10.0.0.0/8\" = 1", &[(1, "tables.l3_fwd", "l3_forward")]);
    expect(
        "[tables.l3_switch.mac_addrs]\n64 = \"02:00:00:00:00:01\"\n1 = \"02:00\"",
        &[(2, "tables.l3_switch.mac_addrs.64", "0 to 63"), (3, "tables.l3_switch.mac_addrs.1", "Ethernet address")],
    );
    expect(
        "[tables.l3_forward.next_hops]\n1 = { domain = 300, gateway = \"10.0.0\", src = 1 }",
        &[(2, "tables.l3_forward.next_hops.1.domain", "255"), (2, "tables.l3_forward.next_hops.1.gateway", "IPv4")],
    );
    expect(
        "[tables.l3_forward.next_hops]\n1 = { domain = 1, gateway = 0, source = 1 }",
        &[
            (2, "tables.l3_forward.next_hops.1", "src of next_hop_t is missing"),
            (2, "tables.l3_forward.next_hops.1.source", "no such field"),
        ],
    );
}

#[test]
fn files_that_are_not_there_or_no_text() {
    let scratch = Scratch::new();
    let text = millrace(&["run", "l3switch", "-c", &scratch.path("nosuch.toml")]).failed_in_one_line(1);
    assert!(text.contains("nosuch.toml: No such file"), "{text}");
    let path = scratch.write("x.toml", b"\xff\xff");
    let text = millrace(&["run", "l3switch", "-c", &path]).failed_in_one_line(1);
    assert!(text.contains("x.toml") && text.contains("UTF-8"), "{text}");
    // The one beside the program is not passed over where it can't be read.
    let program = scratch.write("x.baker", std::fs::read(PATCH).unwrap());
    let text = millrace(&["run", &program, "--port", "a=mem:"]).failed_in_one_line(1);
    assert!(text.contains("x.toml") && text.contains("UTF-8"), "{text}");
}

#[test]
fn ports_and_devices() {
    let scratch = Scratch::new();
    let one = scratch.write("one.toml", "[ports.left]\nnumber = 1\n[ports.right]\nnumber = 2\n");
    let run = |arguments: &[&str]| millrace(&[&["run", PATCH, "--duration", "0.05"], arguments].concat());
    let text = run(&[]).failed(1);
    assert!(text.contains("there are no ports") && text.contains("--port NAME=DRIVER:DEVICE"), "{text}");
    let text = run(&["-c", &one]).failed(1);
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.contains("port left: no device") && text.contains("port right: no device"), "{text}");
    let text = run(&["-c", &one, "--port", "left=mem:"]).failed_in_one_line(1);
    assert!(text.contains("port right: no device") && text.contains("--port right=DRIVER:DEVICE"), "{text}");
    let text = run(&["-c", &one, "--port", "left=mem:", "--port", "rihgt=mem:"]).failed(1);
    assert!(text.contains("--port rihgt: the configuration has no port of this name; it has left, right"), "{text}");
    let text = run(&["--port", "a=mem:", "--port", "a=mem:"]).failed_in_one_line(2);
    assert!(text.contains("two ports are named a"), "{text}");
    for (port, problem) in [
        ("eth0", "NAME=DRIVER:DEVICE"),
        ("a=eth0", "NAME=DRIVER:DEVICE"),
        ("a=dpdk:0", "no driver `dpdk`; use one of auto, xdp, tc, afpacket, afxdp, tap, pcap, mem"),
        ("a=afpacket:", "needs an interface"),
        ("a=afxdp:", "needs an interface"),
        ("=mem:", "at least one"),
    ] {
        let text = run(&["--port", port]).failed(1);
        assert!(text.contains(problem), "{port}: {text}");
    }
    let many: Vec<String> = (0..256).map(|number| format!("--port=p{number}=mem:")).collect();
    let text = run(&many.iter().map(String::as_str).collect::<Vec<_>>()).failed_in_one_line(1);
    assert!(text.contains("256 ports: at most 255"), "{text}");
    let text = run(&["--port", "a=mem:", "--cpu", "8000"]).failed_in_one_line(2);
    assert!(text.contains("CPU 8000: cannot run a worker there"), "{text}");
    let text = run(&["-c", &one, "--port", "left=mem:", "--port", "right=mem:"]).ok();
    assert!(text.contains("running on 2 ports"), "{text}");
}

#[test]
fn flows_that_nobody_tells_of_are_warned_of() {
    let runtime = Runtime::new();
    let config = runtime.write("flows.toml", "[ipfix]\ncollectors = [\"127.0.0.1\"]\n");
    let instance = runtime.start(&[PATCH, "-c", &config, "--port", "a=mem:"]);
    let warning = format!("{config}:1: ipfix: no controller of the program tells of flows, so none are sent");
    assert!(instance.stderr().contains(&warning), "{}", instance.stderr());
    let said = runtime.millrace(&["reload"]).ok();
    assert!(said.contains(&warning), "{said}");
    runtime.millrace(&["stop"]).ok();
    assert_eq!(instance.end().status, Some(0));
}

//! `millrace run` with XDP programs at its ports, of its own or small ones: what it says, and what it leaves behind.

use std::time::{Duration, Instant};

use lab::{Namespace, RawPort, Running, Signal};

use crate::PATCH;
use crate::frames::{ETH_EXPERIMENT, ethernet};
use crate::process::{self, Scratch};
use crate::report::Report;
use crate::run::network;

const PATIENCE: Duration = Duration::from_secs(20);

fn command<'n>(ns: &'n Namespace, driver: &str) -> lab::Command<'n> {
    let command = ns.command(env!("CARGO_BIN_EXE_millrace")).args(["run", PATCH]);
    command.args(["--port", &format!("l={driver}:left"), "--port", &format!("r={driver}:right")])
}

fn start(ns: &Namespace, driver: &str) -> Running {
    let mut running = command(ns, driver).spawn().unwrap();
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

/// The next frame of this test; the hosts' kernels may send some of their own.
fn next(port: &mut RawPort) -> Option<Vec<u8>> {
    std::iter::from_fn(|| port.recv(PATIENCE).unwrap()).find(|frame| frame[12..14] == ETH_EXPERIMENT.to_be_bytes())
}

fn passes(hosts: &[Namespace; 2]) {
    let wires = [0, 1].map(|i| RawPort::open(&hosts[i], "eth0").unwrap());
    let [mut left, mut right] = wires;
    for number in 0..100u8 {
        let frame = ethernet([2; 6], [4; 6], ETH_EXPERIMENT, &[number; 100]);
        left.send(&frame).unwrap();
        assert_eq!(next(&mut right).as_ref(), Some(&frame));
        right.send(&frame).unwrap();
        assert_eq!(next(&mut left).as_ref(), Some(&frame));
    }
}

#[test]
fn nothing_stays_behind_even_after_a_kill() {
    let (box_, hosts) = network();
    for (driver, about) in [("afxdp", "copy mode"), ("xdp", "what is handed over comes in copy mode")] {
        for signal in [Signal::SIGKILL, Signal::SIGTERM] {
            let mut millrace = start(&box_, driver);
            passes(&hosts);
            programs(&box_, true);
            let second = command(&box_, driver).args(["--no-socket"]).run().unwrap();
            assert_eq!(second.status.code(), Some(2), "{second}");
            let text = String::from_utf8(second.stderr.clone()).unwrap();
            let expected = format!(" already (process {})", millrace.id());
            assert!(
                text.contains("port l: left: is a port of the instance patch") && text.contains(&expected),
                "{text}"
            );
            millrace.signal(signal).unwrap();
            let output = millrace.wait(PATIENCE).unwrap();
            let about =
                format!("port l: left: native XDP; {about}, because its driver has no zero-copy; 1 queue for 1 worker");
            assert!(output.text().contains(&about), "{output}");
            if signal == Signal::SIGTERM {
                assert!(output.status.success(), "{output}");
                let report = Report::parse(&output.text());
                assert_eq!((report.port("l", "received"), report.port("r", "sent")), (100, 100));
            }
            programs(&box_, false);
        }
    }
}

#[test]
fn somebody_elses_program_is_replaced_where_that_is_asked_for() {
    let (box_, hosts) = network();
    // Another instance's, and one as `ip` attaches them.
    let mut first = start(&box_, "xdp");
    let taken = |more: &[&str]| {
        let command = command(&box_, "xdp").args(["--no-socket", "--duration", "0.2"]);
        let output = command.args(more).run().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for more in [&[][..], &["--replace-xdp"]] {
        let (status, error) = taken(more);
        assert!(status == Some(2) && error.contains("is a port of the instance"), "it lives: {error}");
    }
    first.signal(Signal::SIGTERM).unwrap();
    first.wait(PATIENCE).unwrap();
    let object = Scratch::new();
    let source = object.write("pass.c", "__attribute__((section(\"xdp\"))) int pass(void *c) { return 2; }");
    let compiled = object.path("pass.o");
    let inner = "ip link add inner1 type veth peer name inner2 && ip link set dev inner1 up && ip link set dev inner2 up && \
                 ethtool -K inner2 tx off tso off";
    box_.check(&["sh", "-c", inner]).unwrap();
    let clang = ["clang-19", "-target", "bpf", "-O2", "-c", &source, "-o", &compiled];
    box_.check(&clang).unwrap();
    for mode in ["xdpdrv", "xdpgeneric"] {
        for device in ["left", "right", "inner1"] {
            box_.check(&["ip", "link", "set", "dev", device, mode, "obj", &compiled, "sec", "xdp"]).unwrap();
        }
        let (_, error) = taken(&[]);
        assert!(error.contains("does not replace") && error.contains("(`--replace-xdp`)"), "{error}");
        // Where all ports make do with less, nothing runs in the kernel, and that is said.
        let workers = box_.command(env!("CARGO_BIN_EXE_millrace")).args(["run", PATCH, "--port", "l=auto:inner1"]);
        let workers = workers.args(["--no-socket", "--duration", "0.1"]).run().unwrap().text();
        let expected =
            "engine: workers, because no port takes the program's part for the kernel\nport l: afpacket:inner1";
        assert!(workers.starts_with(expected) && workers.contains("; not xdp:inner1, because "), "{workers}");
        box_.check(&["ip", "link", "set", "dev", "inner1", mode, "off"]).unwrap();
        let mut running = command(&box_, "xdp").args(["--no-socket", "--replace-xdp"]).spawn().unwrap();
        running.wait_for_text("running on 2 ports", PATIENCE).unwrap_or_else(|error| panic!("{error}"));
        passes(&hosts);
        running.signal(Signal::SIGTERM).unwrap();
        running.wait(PATIENCE).unwrap();
        programs(&box_, false);
    }
}

#[test]
fn a_start_without_rights_says_what_it_takes() {
    let (box_, _hosts) = network();
    for driver in ["xdp", "tc"] {
        let words = ["--bounding-set=-all,+net_raw", "--inh-caps=-all", env!("CARGO_BIN_EXE_millrace"), "run", PATCH];
        let ports = [("l", "left"), ("r", "right")].map(|(port, name)| format!("--port={port}={driver}:{name}"));
        let refused = box_.command("setpriv").args(words).args(ports).args(["--no-socket"]).run().unwrap();
        let text = refused.both();
        assert_eq!(refused.status.code(), Some(2), "{text}");
        assert!(text.contains("it takes CAP_BPF and CAP_NET_ADMIN outside of user namespaces, or root;"), "{text}");
    }
}

#[test]
fn the_engine_says_what_it_is() {
    let (box_, _hosts) = network();
    let run = |driver: &str, more: &[&str]| {
        let output = command(&box_, driver).args(["--no-socket", "--duration", "0.1"]).args(more).run().unwrap();
        (output.status.code(), output.text(), String::from_utf8(output.stderr).unwrap())
    };
    for (driver, engine) in [("auto", "xdp"), ("xdp", "auto")] {
        let (status, out, error) = run(driver, &["--engine", engine]);
        assert_eq!(status, Some(0), "{driver} {engine}: {out}{error}");
        assert!(
            out.starts_with("engine: xdp: 2 of 2 PPFs run in the kernel; see `millrace explain`\nport l: "),
            "{out}"
        );
    }
    for (driver, engine) in [("auto", "auto"), ("auto", "tc"), ("tc", "tc"), ("tc", "auto")] {
        let (status, out, error) = run(driver, &["--engine", engine]);
        assert_eq!(status, Some(0), "{driver} {engine}: {out}{error}");
        let (said, port) = ("engine: tc: 2 of 2 PPFs run in the kernel;", "left: traffic control; what is handed");
        assert!(out.starts_with(said) && out.contains(port), "{out}");
    }
    // Others' interfaces go with either.
    let (_, out, _) = run("auto", &["--engine", "tc"]);
    assert!(out.contains("\nport r: right: traffic control;"), "{out}");
    let (_, out, _) = run("afpacket", &[]);
    assert!(out.starts_with("engine: workers, because no port is xdp:, tc: or auto:\n"), "{out}");
    let (_, out, _) = run("auto", &["--engine", "worker"]);
    assert!(out.starts_with("port l: afxdp:left: left: native XDP; copy mode"), "{out}");
    // Not what was asked for.
    let (status, _, error) = run("xdp", &["--engine", "worker"]);
    assert!(status == Some(2) && error.contains("left: xdp takes a program that runs in the kernel"), "{error}");
    let (status, _, error) = run("afpacket", &["--engine", "xdp"]);
    assert!(status == Some(1) && error.starts_with("error: --engine xdp: no port is xdp:INTERFACE"), "{error}");
    let (status, _, error) = run("afpacket", &["--engine", "tc"]);
    assert!(status == Some(1) && error.starts_with("error: --engine tc: no port is tc:INTERFACE"), "{error}");
    let (status, _, error) = run("xdp", &["--engine", "tc"]);
    assert_eq!((status, &*error), (Some(1), "error: --engine tc: port l is xdp:left\n"));
    let (status, _, error) = run("tc", &["--engine", "xdp"]);
    assert_eq!((status, &*error), (Some(1), "error: --engine xdp: port l is tc:left\n"));
    let (status, _, error) = run("tc", &["--port", "r=xdp:right"]);
    let both =
        "error: port r is xdp:right and port l is tc:left: what of a program is in the kernel runs at one of the two\n";
    assert!(status == Some(1) && error.starts_with(both), "{error}");
    // Nothing of it can run in the kernel.
    let scratch = Scratch::new();
    let copies = "import \"net/ether\";
        module m { in ether input; out ether output;
            ppf p(ether_packet_t *pkt) from input { channel_put(output, packet_copy(pkt)); packet_drop(pkt, malformed); } }
        program { rx -> m.input; m.output -> tx; }";
    let copies = scratch.write("copies.baker", copies);
    let ports = |driver: &str| ["--port".to_owned(), format!("l={driver}:left")];
    let command = |driver: &str| {
        let command = box_.command(env!("CARGO_BIN_EXE_millrace")).args(["run", &copies]).args(ports(driver));
        let output = command.args(["--no-socket", "--duration", "0.1"]).run().unwrap();
        (output.status.code(), output.text(), String::from_utf8(output.stderr).unwrap())
    };
    let why = "nothing of it can run in the kernel: m.p copies the packet, and the kernel has one packet at a time";
    let (status, out, _) = command("auto");
    assert!(status == Some(0) && out.starts_with(&format!("engine: workers, because {why}\n")), "{out}");
    let (status, _, error) = command("xdp");
    assert!(status == Some(2) && error.contains(why) && error.contains("`--engine worker` runs all"), "{error}");
}

/// Three PPFs, of which the kernel's verifier gives up on one: what `explain` says runs where is what `run` does.
#[test]
fn explain_says_what_run_does() {
    let (box_, _hosts) = network();
    let scratch = Scratch::new();
    let heavy = "import \"net/ether\";
        module m { in ether input; out ether output; channel ether all, even; hash<u32, u32> marks[256];
            ppf first(ether_packet_t *pkt) from input { pkt->dst = 1; channel_put(even, pkt); }
            ppf light(ether_packet_t *pkt) from even {
                pkt->metadata.tx.port = 1;
                if (pkt->type == 7) channel_put(output, pkt); else channel_put(all, pkt);
            }
            ppf heavy(ether_packet_t *pkt) from all {
                u32 n = (u32) pkt->src;
                for (u32 i = 0; i < 4000; i++) {
                    u32 *mark = marks[n];
                    if (mark != null) n = n * 3 + *mark;
                    u32 *other = marks[n + 1];
                    if (other != null) n = n * 5 + *other;
                }
                pkt->src = (u48) n;
                channel_put(output, pkt);
            } }
        program { rx -> m.input; m.output -> tx; }";
    let source = scratch.write("heavy.baker", heavy);
    let command = box_.command(env!("CARGO_BIN_EXE_millrace")).args(["run", &source, "--port", "l=xdp:left"]);
    let output = command.args(["--no-socket", "--duration", "0.1"]).run().unwrap();
    let said = output.text();
    let engine = said.lines().next().unwrap();
    assert!(engine.starts_with("engine: xdp: 2 of 3 PPFs run in the kernel, workers take over at m.heavy"), "{output}");
    assert!(engine.contains("m.heavy is too much for the kernel: "), "{engine}");

    let explain = ["explain", &source, "--profile", crate::FIRST];
    let found: serde_json::Value =
        serde_json::from_str(&process::millrace(&[&explain[..], &["--json"]].concat()).ok()).unwrap();
    let placement = &found["placement"];
    assert_eq!(placement["kernel"], serde_json::json!({"asked": true, "takes": true}));
    let ppfs = placement["ppfs"].as_array().unwrap();
    let runs: Vec<_> = ppfs.iter().map(|ppf| (ppf["ppf"].as_str().unwrap(), ppf["runs"].as_str().unwrap())).collect();
    assert_eq!(runs, [("m.first", "kernel"), ("m.light", "kernel"), ("m.heavy", "worker")]);
    // Both say the same reason.
    let why = ppfs[2]["why"][0].as_str().unwrap();
    let why = why.rsplit_once(" (").unwrap().0;
    assert!(why.starts_with("is too much for the kernel: ") && engine.contains(why), "{why}: {engine}");
    assert_eq!(placement["cuts"][0]["to"], "m.heavy");
    let text = process::millrace(&explain).ok();
    assert!(text.contains("\nthe kernel takes it\n") && text.contains("m.heavy  worker: it is too much"), "{text}");

    // Where the kernel may not be asked that is said, and nothing is promised.
    let program = scratch.millrace();
    let trace = scratch.write("first.pcap", std::fs::read(crate::FIRST).unwrap());
    let words = process::without_privileges();
    let mut command = std::process::Command::new(words[0]);
    command.args(&words[1..]).args([&program, "explain", &source, "--profile", &trace]);
    let text = process::run(command).ok();
    let said = "\nthe kernel was not asked: the kernel lets this process make no BPF maps";
    assert!(text.contains(said) && text.contains("A PPF that is too much for it runs on workers"), "{text}");
}

#[test]
fn without_privileges_workers_do_it() {
    let scratch = Scratch::new();
    let (program, source) = (scratch.millrace(), scratch.write("patch.baker", std::fs::read(PATCH).unwrap()));
    // Root of a user namespace of its own: packet sockets, but no BPF.
    let run = |port: &str| {
        let mut command = std::process::Command::new("unshare");
        let up =
            format!("ip link set dev lo up && exec {program} run {source} --port {port} --duration 0.1 --no-socket");
        command.args(["-Urn", "sh", "-c", &up]);
        process::run(command)
    };
    let out = run("l=auto:lo").ok();
    let why = "engine: workers, because the kernel lets this process make no BPF maps";
    assert!(out.starts_with(why) && out.contains("port l: afpacket:lo: "), "{out}");
    assert!(out.contains("; not afxdp:lo, because "), "{out}");
    let error = run("l=xdp:lo").failed_in_one_line(2);
    assert!(error.contains("the kernel lets this process make no BPF maps") && error.contains("CAP_BPF"), "{error}");
}

/// `auto` is XDP only where packets come finished, to a driver that has it.
#[test]
fn auto_goes_by_the_interfaces() {
    let (box_, _hosts) = network();
    let set_up = |words: &str| box_.check(&words.split(' ').collect::<Vec<_>>()).unwrap();
    set_up("ip link add inner1 type veth peer name inner2");
    set_up("ip link add bridge1 type bridge");
    for device in ["inner1", "inner2", "bridge1"] {
        set_up(&format!("ip link set dev {device} up"));
    }
    let says = |ports: &[&str], engine: &str, texts: &[&str]| {
        let ports = ports.iter().flat_map(|port| ["--port", port]);
        let command = box_.command(env!("CARGO_BIN_EXE_millrace")).args(["run", PATCH, "--no-socket"]);
        let output = command.args(ports).args(["--duration", "0.1"]).run().unwrap();
        let said = output.text();
        assert!(output.status.success() && said.starts_with(&format!("engine: {engine}: ")), "{output}");
        assert!(texts.iter().all(|text| said.contains(text)), "{texts:?}: {output}");
    };
    let undone = "port l: tc:inner1: inner1: traffic control; what is handed over comes by the workers' rings; not xdp, because its \
                  other end inner2 leaves checksums or segments to hardware that is not there (tx, tso)";
    says(&["l=auto:inner1"], "tc", &[undone]);
    says(&["l=auto:left"], "tc", &["not xdp, because its other end is out of sight"]);
    says(&["l=auto:bridge1"], "tc", &["not xdp, because its driver runs no XDP programs"]);
    set_up("ethtool -K inner2 tx off tso off");
    says(&["l=auto:inner1"], "xdp", &["port l: xdp:inner1: inner1: native XDP"]);
    // One port is enough, and a port that says what it is decides.
    says(&["l=auto:inner1", "r=auto:bridge1"], "tc", &["port l: tc:inner1: inner1: traffic control"]);
    says(&["l=xdp:inner1", "r=auto:left"], "xdp", &["port r: xdp:left: left: native XDP"]);
}

#[test]
fn two_instances_side_by_side() {
    let (box_, hosts) = network();
    // Each between an interface of the network and a pair between the two.
    box_.check(&["ip", "link", "add", "inner1", "type", "veth", "peer", "name", "inner2"]).unwrap();
    for device in ["inner1", "inner2"] {
        box_.check(&["ip", "link", "set", "dev", device, "up"]).unwrap();
    }
    let start = |one: &str, other: &str| {
        let command = box_.command(env!("CARGO_BIN_EXE_millrace")).args(["run", PATCH, "--no-socket"]);
        let ports = [format!("l=xdp:{one}"), format!("r=xdp:{other}")];
        let mut running = command.args(["--port", &ports[0], "--port", &ports[1]]).spawn().unwrap();
        running.wait_for_text("running on 2 ports", PATIENCE).unwrap_or_else(|error| panic!("{error}"));
        running
    };
    let first = start("left", "inner1");
    let mut second = start("inner2", "right");
    passes(&hosts);
    // One ends and comes again; the other goes on.
    second.signal(Signal::SIGKILL).unwrap();
    second.wait(PATIENCE).unwrap();
    let second = start("inner2", "right");
    passes(&hosts);
    for mut millrace in [first, second] {
        millrace.signal(Signal::SIGTERM).unwrap();
        let output = millrace.wait(PATIENCE).unwrap();
        assert!(output.status.success(), "{output}");
    }
    programs(&box_, false);
}

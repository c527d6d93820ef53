//! A program with its controller: requests of real hosts go to the slow path, which learns from them and injects
//! answers.

use std::time::{Duration, Instant};

use lab::{Host, HostConfig, Namespace, Running, Signal};
use serde_json::Value as Json;

use crate::PATCH;
use crate::instance::Runtime;
use crate::process::{Scratch, millrace};
use crate::report::Report;

const PATIENCE: Duration = Duration::from_secs(20);
/// `examples/responder`.
const RESPONDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/responder");

/// A namespace for Millrace with the ports `a` and `b`, each to a host; both hosts are in one network.
pub fn network() -> (Namespace, [Host; 2]) {
    let box_ = Namespace::new("box").unwrap_or_else(|error| panic!("{error}"));
    let hosts = [("a", 2, "10.0.0.2"), ("b", 3, "10.0.0.3")].map(|(port, last, address)| {
        let mac = [2, 0, 0, 0, 0, last];
        let config = HostConfig { name: port, mac, address, prefix: 24, gateway: "10.0.0.1", mtu: 1500 };
        Host::attach(&box_, port, config).unwrap()
    });
    for (host, port) in hosts.iter().zip(["a", "b"]) {
        box_.wait_running(port, PATIENCE).unwrap();
        host.ns.wait_running(Host::DEVICE, PATIENCE).unwrap();
    }
    (box_, hosts)
}

fn start(box_: &Namespace, runtime: &Runtime, more: &[&str]) -> Running {
    let command = box_.command(env!("CARGO_BIN_EXE_millrace")).args(["run", RESPONDER]).args(more);
    let command = command.args(["--port", "a=afpacket:a", "--port", "b=afpacket:b"]);
    let mut running = command.arg("--socket").arg(runtime.path("socket")).spawn().unwrap();
    running.wait_for_text("running on 2 ports", PATIENCE).unwrap_or_else(|error| panic!("{error}"));
    running
}

/// The hosts that have asked, as the table shows them.
fn hosts(runtime: &Runtime) -> Vec<String> {
    let dump = runtime.json(&["table", "dump", "responder.hosts", "--socket", &runtime.path("socket")]);
    let entries = dump.as_array().unwrap_or_else(|| panic!("{dump}"));
    entries.iter().map(|entry| entry["value"]["address"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn hosts_are_answered_learned_and_forgotten() {
    let (box_, [a, b]) = network();
    for mode in [&["--workers", "2"][..], &["--workers", "2", "--busy"], &["--engine", "interp"]] {
        let runtime = Runtime::new();
        let mut millrace = start(&box_, &runtime, mode);
        for host in [&a, &b] {
            host.ns.check(&["ip", "neigh", "flush", "dev", Host::DEVICE]).unwrap();
            assert!(host.ns.ping("10.0.0.1", PATIENCE).unwrap(), "{mode:?}: {}", millrace.both());
            // Long ones, too, and many at once.
            host.ns.check(&["ping", "-n", "-q", "-c", "50", "-i", "0.01", "-s", "1400", "10.0.0.1"]).unwrap();
        }
        let mut known = hosts(&runtime);
        known.sort();
        assert_eq!(known, ["10.0.0.2", "10.0.0.3"], "{mode:?}");

        // The controller's function does not let this one ask; so it does not even learn the address's station.
        b.ns.check(&["ip", "address", "add", "198.51.100.7/32", "dev", Host::DEVICE]).unwrap();
        b.ns.check(&["ip", "neigh", "flush", "dev", Host::DEVICE]).unwrap();
        let refused = b.ns.run(&["ping", "-n", "-c", "1", "-W", "1", "-I", "198.51.100.7", "10.0.0.1"]).unwrap();
        assert!(!refused.status.success(), "{refused}");
        b.ns.check(&["ip", "address", "del", "198.51.100.7/32", "dev", Host::DEVICE]).unwrap();

        // The program forgets hosts that do not ask any more.
        let end = Instant::now() + PATIENCE;
        while !hosts(&runtime).is_empty() {
            assert!(Instant::now() < end, "{mode:?}: {:?}", hosts(&runtime));
            std::thread::sleep(Duration::from_millis(100));
        }
        let ask = ["counters", "--socket", &runtime.path("socket")];
        let counters: Json = runtime.json(&ask);
        assert!(counters["counters"]["responder.forgotten"][0].as_u64() >= Some(2), "{counters}");
        assert!(counters["drops"]["not_private"].as_u64() >= Some(1), "{counters}");
        let timer = &counters["timers"]["responder.forget"];
        assert_eq!((&timer["table"], &timer["period_ns"]), (&"responder.hosts".into(), &2_000_000_000u64.into()));
        // Two hosts that were found at least once, in several runs.
        assert!(timer["runs"].as_u64() >= Some(2) && timer["entries"].as_u64() >= Some(2), "{timer}");
        let status: Json = runtime.json(&["status", "--socket", &runtime.path("socket")]);
        let status = status.as_array().map_or(&status, |all| &all[0]);
        assert!(status["timers"]["responder.forget"]["runs"].as_u64() >= timer["runs"].as_u64(), "{status}");
        for command in ["status", "counters"] {
            let text = runtime.millrace(&[command, "--socket", &runtime.path("socket")]).ok();
            let mut lines = text.lines();
            assert!(
                lines.any(|line| line.contains("responder.forget ") && line.ends_with(" responder.hosts")),
                "{text}"
            );
        }

        millrace.signal(Signal::SIGINT).unwrap();
        let output = millrace.wait(PATIENCE).unwrap();
        // Every frame came back, or this would say so.
        assert!(output.status.success() && output.stderr.is_empty(), "{mode:?}: {output}");
        let report = Report::parse(&output.text());
        let [punted, answered] = ["responder.echo_requests", "responder -> responder.answers"].map(|channel| {
            let counted = &counters["channels"][channel];
            counted.as_u64().unwrap_or_else(|| panic!("{channel}: {counters}"))
        });
        assert!(punted >= 102 && answered >= punted, "{counters}");
        assert!(report.drops().iter().all(|(reason, _)| !reason.starts_with("controller")), "{output}");
    }
}

#[test]
fn what_no_controller_has_is_told_at_the_start() {
    let scratch = Scratch::new();
    let program = |text: &str| {
        let text = format!(
            "import \"net/ether\";\nmodule m {{ in ether input; out ether a; {text} channel_put(a, p); }} }}\n"
        );
        text.into_bytes()
    };
    let wired = [
        program("ppf p(ether_packet_t *p) from input {"),
        b"program { rx -> m.input; m.a -> controller respondr; }".to_vec(),
    ];
    let file = scratch.write("wired.baker", wired.concat());
    let done = millrace(&["run", &file, "--port", "a=mem:"]);
    assert_eq!(done.status, Some(1), "{done:?}");
    assert_eq!(
        done.stderr,
        "error: there is no controller respondr; did you mean `responder`?\n  controllers: collector, firewall, media, responder, routes, splice, translate\n"
    );
    let extern_ = [
        program("extern u8 pick(u16 n); ppf p(ether_packet_t *p) from input { p->metadata.tx.port = pick(p->type);"),
        b"program { rx -> m.input; m.a -> tx; }".to_vec(),
    ];
    let file = scratch.write("extern.baker", extern_.concat());
    let input = crate::FIRST;
    for arguments in [&["run", &file, "--port", "a=mem:"][..], &["replay", &file, "--in", input]] {
        let done = millrace(arguments);
        assert_eq!(done.status, Some(1), "{done:?}");
        assert_eq!(
            done.stderr,
            "error: no controller has the function m.pick\n  controllers: collector, firewall, media, responder, routes, splice, translate\n"
        );
    }
}

#[test]
fn replay_writes_what_goes_to_controllers() {
    let scratch = Scratch::new();
    let program = b"import \"net/ether\";
module m {
    in  ether input;
    out ether a;
    counter ticks;
    ppf p(ether_packet_t *p) from input { channel_put(a, p); }
    timer tick() every 1s { counter_add(ticks, 1); }
}
program { rx -> m.input; m.a -> controller responder; }
";
    let (file, out) = (scratch.write("punt.baker", program), scratch.path("out.pcap"));
    for engine in ["worker", "interp"] {
        let text = millrace(&["replay", &file, "--in", crate::FIRST, "--out", &out, "--engine", engine]).ok();
        let punted = crate::pcap::read(&std::fs::read(&out).unwrap());
        let long = |packet: &&Vec<u8>| packet.len() >= 14;
        let given = crate::pcap::read(&std::fs::read(crate::FIRST).unwrap());
        let given: Vec<_> = given.iter().filter(long).cloned().collect();
        assert!(!given.is_empty() && punted == given, "{text}");
        assert!(text.contains(&format!("{} packets to controllers", given.len())), "{text}");
    }
}

#[test]
fn reload_puts_settings_of_controllers_in_force() {
    let runtime = Runtime::new();
    let ports = ["lan=mem:", "wan=mem:"].map(|port| ["--port", port]).concat();
    let firewall = runtime.start(&[&["firewall"], &ports[..]].concat());
    // What is built in does not change.
    assert_eq!(runtime.millrace(&["reload"]).ok(), "in force: settings of firewall\n");
    runtime.millrace(&["stop"]).ok();
    firewall.end().ok();
    let config = runtime.write("patch.toml", "");
    let patch = runtime.start(&[PATCH, "-c", &config, "--port", "a=mem:"]);
    assert_eq!(runtime.millrace(&["reload"]).ok(), "nothing has changed\n");
    runtime.millrace(&["stop"]).ok();
    patch.end().ok();
    // With a file it is read; what is in it comes into force, and what was wrong does not.
    let text = include_str!("../../apps/firewall/firewall.toml");
    let config = runtime.write("firewall.toml", text);
    let firewall = runtime.start(&[&["firewall", "-c", &config], &ports[..]].concat());
    let active = || runtime.millrace(&["table", "get", "flow.active", "0"]).ok();
    assert_eq!(active(), "0\n");
    let reloaded = runtime.json(&["reload"]);
    assert_eq!(
        (&reloaded["controllers"], &reloaded["replaced"]),
        (&serde_json::json!(["firewall"]), &serde_json::json!(false)),
        "{reloaded}"
    );
    assert_eq!(active(), "1\n");
    let dump = |set: &str| runtime.millrace(&["table", "dump", &format!("{set}.cells")]).ok();
    assert_eq!(dump("blue"), dump("green"));
    runtime.write("firewall.toml", &text.replace("icmp_type = 8 ", "icmp_typ = 8 "));
    let error = runtime.millrace(&["reload"]).failed_in_one_line(1);
    assert!(error.contains("icmp_typ: unknown key; did you mean `icmp_type`?"), "{error}");
    assert_eq!(active(), "1\n");
    runtime.millrace(&["stop"]).ok();
    firewall.end().ok();
}

/// A changed program takes over with changed settings, and the controller goes on to take settings.
#[test]
fn a_changed_program_brings_settings_and_takes_more() {
    let runtime = Runtime::new();
    macro_rules! write {
        ($($name:literal),*) => { $(runtime.write($name, include_str!(concat!("../../apps/firewall/", $name)));)* };
    }
    write!("firewall.baker", "flow.baker", "parse.baker", "record.baker", "rules.baker", "firewall.toml");
    let ports = ["lan=mem:", "wan=mem:"].map(|port| ["--port", port]).concat();
    let firewall = runtime.start(&[&[&*runtime.path("firewall.baker"), "--opt", "base"], &ports[..]].concat());
    // All tables of the set that counts.
    let rules = || {
        let active = runtime.millrace(&["table", "get", "flow.active", "0"]).ok();
        let set = ["blue.", "green."][usize::from(active == "1\n")];
        let tables = runtime.json(&["table", "ls"]);
        let names = tables.as_array().unwrap().iter().filter_map(|own| own["name"].as_str());
        let dump = |name: &str| runtime.millrace(&["table", "dump", name]).ok();
        names.filter(|name| name.starts_with(set)).map(dump).collect::<Vec<_>>()
    };
    let (program, text) =
        (include_str!("../../apps/firewall/flow.baker"), include_str!("../../apps/firewall/firewall.toml"));
    let first = rules();
    for (round, to_port) in [(0, "to_port = 26"), (1, "to_port = 27"), (2, "to_port = 28")] {
        // The second time the program stays.
        let more = if round == 0 {
            "array<u32> more[8]; array<u8> active[1];"
        } else {
            "array<u8> active[1]; array<u32> more[8];"
        };
        if round != 1 {
            runtime.write("flow.baker", &program.replacen("array<u8> active[1];", more, 1));
        }
        let before = rules();
        runtime.write("firewall.toml", &text.replacen("to_port = 25", to_port, 1));
        let reloaded = runtime.json(&["reload"]);
        assert_eq!(
            (&reloaded["controllers"], &reloaded["replaced"]),
            (&serde_json::json!(["firewall"]), &(round != 1).into())
        );
        assert!(rules() != before && rules() != first, "{to_port}");
        assert_eq!(runtime.json(&["status"])[0]["controllers"]["firewall"]["state"], "running");
    }
    runtime.millrace(&["stop"]).ok();
    firewall.end().ok();
}

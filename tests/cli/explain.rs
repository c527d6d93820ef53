//! `millrace explain`: figures of the shipped trace, one's own trace, and what is wrong with a trace.

use serde_json::Value;

use crate::frames::ethernet;
use crate::process::{Scratch, millrace};
use crate::{FIRST, PATCH, pcap};

const TRACE: &[u8] = include_bytes!("../../apps/l3switch/trace.pcapng");

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&millrace(&[&["explain", "--json"], args].concat()).ok()).expect("JSON")
}

fn figure(builds: &Value, level: &str, name: &str) -> f64 {
    builds[level][name].as_f64().unwrap_or_else(|| panic!("{level} {name} in {builds}"))
}

/// A profile of the very packets that are measured is never worse than none: accesses first, then bytes.
#[test]
fn a_profile_of_the_trace_costs_no_access_and_no_byte() {
    for app in ["l3switch", "mpls", "firewall"] {
        let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../apps").to_owned() + &format!("/{app}/trace.pcapng");
        let cgpc = |args: &[&str]| {
            let builds = &json(args)["builds"];
            ["accesses", "bytes"].map(|name| figure(builds, "cgpc", name))
        };
        let (without, with) = (cgpc(&[app]), cgpc(&[app, "--profile", &trace]));
        assert!(with <= without, "{app}: {with:?} by profile, {without:?} without");
    }
}

/// The splicer's trace brings tables of its own: connections that are joined already.
#[test]
fn the_splicer() {
    let found = json(&["splice"]);
    let paths = found["paths"].as_array().unwrap();
    let packets = |end: &str| -> u64 {
        // Also of an instance for one version of IP.
        let ends = |path: &&Value| {
            let last = path["path"].as_array().unwrap().last().unwrap().as_str().unwrap();
            last.replace(['4', '6'], "") == end
        };
        paths.iter().filter(ends).map(|path| path["packets"].as_u64().unwrap()).sum()
    };
    // All but 4 ARP requests and 20 SYNs are of connections; 16 begin a request, which goes to the controller.
    assert_eq!(["entry.output", "handshake.output", "verify.held_cc"].map(packets), [4, 20, 16], "{paths:?}");
    // With FINs apart, and data that acknowledges something new.
    assert_eq!(["spliced.output", "slow_path.output"].map(packets), [332, 28]);
    let builds = &found["builds"];
    assert!(figure(builds, "cgpc", "accesses") < figure(builds, "base", "accesses") / 4.0, "{builds}");
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/../../apps/splice");
    let trace = format!("{own}/trace.pcapng");
    let given = json(&["splice", "--profile", &trace, "-c", &format!("{own}/trace.toml")]);
    assert_eq!(given["packets"], found["packets"]);
}

/// A packet of a stream costs three accesses to packet memory, and all of it runs in the kernel.
#[test]
fn the_media_proxy() {
    let found = json(&["media"]);
    let path = &found["paths"][0];
    assert!(path["path"].as_array().unwrap().iter().any(|step| step == "forward4.output"), "{path}");
    assert!(figure(&path["builds"], "cgpc", "accesses") <= 3.0, "{path}");
}

/// The optimiser's promise for the L3 switch, per packet: at most two accesses to packet memory.
#[test]
fn the_l3_switch() {
    let found = json(&["l3switch"]);
    assert_eq!((&found["app"], &found["packets"]), (&"l3switch".into(), &400.into()));
    let builds = &found["builds"];
    assert!(figure(builds, "base", "accesses") > 20.0, "{builds}");
    assert!(figure(builds, "pac", "accesses") < figure(builds, "base", "accesses") / 4.0, "{builds}");
    assert!(figure(builds, "cgpc", "accesses") <= 2.0, "{builds}");
    assert!(figure(builds, "cgpc", "bytes") < figure(builds, "pac", "bytes"), "{builds}");
    // Three of four packets of the trace are routed.
    let routed = &found["paths"][0];
    assert!(routed["path"].as_array().unwrap().iter().any(|step| step == "l3_forward.output"), "{routed}");
    assert_eq!(routed["packets"], 297);
    let aggregate = &found["aggregates"][0];
    assert_eq!((&aggregate["root"], &aggregate["loaded_at_once"]), (&"l3_switch.l2_clsfr".into(), &42.into()));
    assert!(aggregate["in_memory"][1]["at"].as_str().unwrap().starts_with("lib/net/ipv4.baker:"), "{aggregate}");
    assert!(
        aggregate["in_memory"][0]["at"].as_str().unwrap().starts_with("apps/l3switch/l3switch.baker:"),
        "{aggregate}"
    );
    let ppfs = found["ppfs"].as_array().unwrap();
    assert_eq!(ppfs.len(), 10);
    // The whole is the sum of its parts, but for what is rounded.
    for level in ["base", "pac", "cgpc"] {
        for name in ["accesses", "bytes", "descriptor_accesses", "instructions"] {
            let sum: f64 = ppfs.iter().map(|ppf| figure(&ppf["builds"], level, name)).sum();
            assert!((sum - figure(builds, level, name)).abs() < 0.1, "{level} {name}: {sum}, {builds}");
        }
    }
    let routing = ppfs.iter().find(|ppf| ppf["name"] == "l3_forward.route").unwrap();
    assert!(routing["at"].as_str().unwrap().starts_with("apps/l3switch/l3switch.baker:"), "{routing}");
    assert!(routing["in_memory"][0]["at"].as_str().unwrap().starts_with("lib/net/ipv4.baker:"), "{routing}");
    assert_eq!(routing["passes"][3]["code"], Value::Null, "it is in an aggregate: {routing}");
    // All but flooding, and what a timer sends, fits the kernel; what is for all is handed over from the start.
    let placement = &found["placement"];
    let stages = placement["ppfs"].as_array().unwrap();
    let on_workers: Vec<_> =
        stages.iter().filter(|stage| stage["runs"] == "worker").map(|stage| &stage["ppf"]).collect();
    assert_eq!(on_workers, ["eth_encap.ask", "l2_bridge.spread"]);
    assert!(stages[0]["why"][0].as_str().unwrap().starts_with("copies the packet"), "{}", stages[0]);
    assert_eq!(placement["cuts"][0]["channel"], "l2_bridge.flood");
    let bpf = &placement["bpf"];
    assert_eq!((&bpf["tier"], bpf["programs"].as_array().unwrap().len()), (&"whole".into(), 1));
    let count = |value: &Value| value["instructions"].as_u64().unwrap();
    let of_ppfs: u64 = bpf["ppfs"].as_array().unwrap().iter().map(count).sum();
    assert_eq!((of_ppfs, count(&bpf["programs"][0])), (count(bpf), count(bpf)), "each instruction is some PPF's");
    assert!((1000..10_000).contains(&count(bpf)), "{bpf}");
    assert!((1..=512).contains(&bpf["programs"][0]["stack"].as_u64().unwrap()), "{bpf}");
    let staging = &found["staging"];
    assert_eq!(staging["root"], "l3_switch.l2_clsfr");
    let looks: Vec<&str> =
        staging["lookups"].as_array().unwrap().iter().map(|look| look["table"].as_str().unwrap()).collect();
    for table in ["l2_bridge.stations", "l3_forward.fib", "l3_forward.neighbours"] {
        assert!(looks.contains(&table), "{table}: {looks:?}");
    }
    let timer = &found["timers"][1];
    assert_eq!((&timer["name"], &timer["table"]), (&"l2_bridge.age".into(), &"l2_bridge.stations".into()));
    assert_eq!(timer["period_ns"], 10_000_000_000u64);
    assert!(timer["base"]["instructions"].as_u64() > Some(4), "{timer}");
    let text = millrace(&["explain", "l3switch"]).ok();
    assert!(text.lines().any(|line| line.contains("l2_bridge.age      l2_bridge.stations  every 10s")), "{text}");
    for part in ["400 packets of the trace", "per packet", "297 packets: rx > ", "aggregate l3_switch.l2_clsfr"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// At most one access to packet memory for a packet of IPv4, of a flow that is known or one that is opened.
#[test]
fn the_firewall() {
    let found = json(&["firewall"]);
    assert_eq!(found["packets"], 400);
    let ways: Vec<&Value> = found["paths"].as_array().unwrap().iter().collect();
    let of = |way: &&&Value, step: &str| way["path"].as_array().unwrap().iter().any(|found| found == step);
    let passes = |way: &&&Value| of(way, "parse.v4") && of(way, "gate.output");
    let ipv4: Vec<_> = ways.iter().filter(passes).collect();
    assert_eq!(ipv4.iter().map(|way| way["packets"].as_u64().unwrap()).sum::<u64>(), 310);
    assert!(ipv4.iter().all(|way| figure(&way["builds"], "cgpc", "accesses") <= 1.0), "{ipv4:?}");
    assert!(figure(&found["builds"], "cgpc", "accesses") <= 2.0, "{found}");
}

/// Few accesses, though labels move the headers behind them.
#[test]
fn label_switching() {
    let found = json(&["mpls"]);
    assert_eq!(found["packets"], 400);
    let builds = &found["builds"];
    assert!(figure(builds, "cgpc", "accesses") <= figure(builds, "base", "accesses") / 3.0, "{builds}");
    let pushed =
        found["paths"].as_array().unwrap().iter().any(|way| way["path"].to_string().contains("label_push.stack"));
    assert!(pushed, "{found}");
}

/// Each pass has a line, for the whole, for each way and for each PPF; the last of a level is the level's.
#[test]
fn pass_by_pass() {
    let found = json(&["l3switch"]);
    for part in [&found, &found["paths"][0], &found["ppfs"][0]] {
        let passes = part["passes"].as_array().unwrap();
        let name =
            |pass: &Value| (pass["level"].as_str().unwrap().to_owned(), pass["pass"].as_str().map(str::to_owned));
        let (level, pass): (Vec<_>, Vec<_>) = passes.iter().map(name).unzip();
        assert_eq!(level, ["base", "pac", "pac", "cgpc", "cgpc", "cgpc"]);
        let pass: Vec<_> = pass.iter().map(Option::as_deref).collect();
        assert_eq!(pass, [None, Some("combine"), Some("number"), Some("aggregate"), Some("cache"), Some("number")]);
        for (level, last) in [("base", 0), ("pac", 2), ("cgpc", 5)] {
            for name in ["accesses", "bytes", "descriptor_accesses", "instructions"] {
                assert_eq!(passes[last][name], part["builds"][level][name], "{part}");
            }
        }
        // Aggregation moves no byte; numbering computes less, and accesses nothing more.
        assert_eq!(passes[3]["accesses"], passes[0]["accesses"]);
        assert!(passes[5]["instructions"].as_f64() < passes[4]["instructions"].as_f64(), "{part}");
        assert_eq!(passes[5]["bytes"], passes[4]["bytes"]);
    }
}

#[test]
fn a_trace_of_ones_own() {
    let found = json(&[PATCH, "--profile", FIRST]);
    assert_eq!(found["packets"], 6);
    let scratch = Scratch::new();
    let trace = scratch.write("own.pcap", pcap::write(&[ethernet([2; 6], [4; 6], 0x88b5, &[0; 46])]));
    let bridged = json(&["l3switch", "--profile", &trace, "--port", "p2"]);
    assert_eq!(bridged["packets"], 1);
    let pcapng = scratch.write("own.pcapng", TRACE);
    // As the trace beside the program, but that the program is optimised by it, too.
    assert_eq!(json(&["l3switch", "--profile", &pcapng])["builds"]["base"], json(&["l3switch"])["builds"]["base"]);
}

/// Of a timer at deadlines it is said when it runs, and who sets them.
#[test]
fn deadlines() {
    let scratch = Scratch::new();
    let program = "import \"net/ether\";
module m {
    in  ether input;
    out ether output;
    hash<mac_addr_t, u64> flows[40];
    ppf set(ether_packet_t *pkt) from input {
        flows[pkt->src] = 0;
        pkt->metadata.tx.port = timer_set(flows[pkt->src], now_ns() + 1ms) ? 1 : 2;
        channel_put(output, pkt);
    }
    timer act(mac_addr_t source, u64 *value) over flows at deadline { *value += 1; }
    timer often() every 1s { return; }
}
program { rx -> m.input; m.output -> tx; }
";
    let program = scratch.write("deadlines.baker", program.as_bytes());
    let found = json(&[&program, "--profile", FIRST]);
    let [act, often] = [0, 1].map(|timer| &found["timers"][timer]);
    assert_eq!((&act["at_deadline"], &act["period_ns"]), (&true.into(), &Value::Null));
    assert_eq!(act["set_by"], serde_json::json!(["m.set"]));
    assert_eq!((&often["at_deadline"], &often["period_ns"]), (&false.into(), &1_000_000_000u64.into()));
    let text = millrace(&["explain", &program, "--profile", FIRST]).ok();
    for part in ["m.flows  at deadline", "every 1s", "  deadlines of m.flows are set by m.set\n"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    let scratch = Scratch::new();
    let cut = scratch.write("cut.pcapng", &TRACE[..TRACE.len() - 7]);
    let text = scratch.write("text.pcap", b"not a capture");
    let empty = scratch.write("empty.pcap", pcap::write(&[]));
    let pcapng = scratch.write("own.pcapng", TRACE);
    // The last packet is incomplete, which is told; the others are measured.
    let done = millrace(&["explain", "--json", "l3switch", "--profile", &cut]);
    assert_eq!(serde_json::from_str::<Value>(&done.stdout).unwrap()["packets"], 399);
    let told = "cut.pcapng: passed over the last packet, within which the file ends (behind packet 399, at byte ";
    assert!(done.stderr.contains(told) && done.stderr.lines().count() == 1, "{done:?}");
    let cases: [(&[&str], &str); 6] = [
        (&["l3switch", "--profile", &text], "text.pcap: neither a pcap nor a pcapng file"),
        (&["l3switch", "--profile", &empty], "empty.pcap: holds no packet"),
        (&["l3switch", "--profile", "/no/such.pcap"], "/no/such.pcap: "),
        (&["l3switch", "--profile", &text, "--port", "p9"], "--port p9: neither a port"),
        (&[PATCH], "no trace lies beside it; give one to measure with: --profile T.pcap"),
        (&[PATCH, "--profile", &pcapng], "interface p1 is no port of the configuration"),
    ];
    for (args, wanted) in cases {
        let output = millrace(&[&["explain"], args].concat());
        assert_eq!(output.status, Some(1), "{args:?}: {output:?}");
        assert!(output.stderr.contains(wanted), "{args:?}: {}", output.stderr);
    }
}

/// Each level gives the same packets.
#[test]
fn replay_at_each_level() {
    let scratch = Scratch::new();
    let run = |level: &str| {
        let output = scratch.path(level);
        millrace(&["replay", PATCH, "--in", FIRST, "--out", &output, "--opt", level]).ok();
        std::fs::read(output).unwrap()
    };
    let base = run("base");
    assert!(["pac", "cgpc"].into_iter().all(|level| run(level) == base));
    assert_eq!(millrace(&["replay", PATCH, "--in", FIRST, "--opt", "more"]).status, Some(1));
}

//! `millrace sim`: the model's figures of the shipped trace, curves, and what is wrong with what is given.

use serde_json::Value;

use crate::process::{ROOT, Scratch, millrace};
use crate::{FIRST, PATCH, pcap};

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&millrace(&[&["sim", "--json"], args].concat()).ok()).expect("JSON")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn the_l3_switch() {
    let found = json(&["l3switch", "--platform", "ixp2400", "--engines", "1..8"]);
    assert_eq!(
        (&found["app"], &found["platform"], &found["packets"]),
        (&"l3switch".into(), &"ixp2400".into(), &400.into())
    );
    let build = |level: &str| &found["builds"][level];
    let at = |level: &str, engines: usize| number(&build(level)["points"][engines - 1]["gbps"]);
    for level in ["base", "pac", "cgpc"] {
        let points = build(level)["points"].as_array().unwrap();
        assert_eq!(points.len(), 8);
        for point in points {
            let cycles = &point["cycles"];
            let waiting: f64 = cycles["waiting"].as_object().unwrap().values().map(number).sum();
            let sum = number(&cycles["busy"]) + waiting + number(&cycles["ring_full"]) + number(&cycles["no_packet"]);
            assert!((sum - 1.0).abs() < 1e-6, "{point}");
            assert!(
                point["utilisation"].as_object().unwrap().values().all(|share| (0.0..1.01).contains(&number(share)))
            );
        }
        assert!(at(level, 2) > 1.1 * at(level, 1) && at(level, 6) > 0.97 * at(level, 2), "{level}: {found}");
    }
    // The published targets: 2 Gbit/s with packet caching, at least 90 % of the bytes saved at least 5 times the rate.
    assert!(at("cgpc", 6) > 2.0 && at("cgpc", 6) > 5.0 * at("base", 6), "{found}");
    let dram = |level: &str, name: &str| number(&build(level)["memories"]["dram"][name]);
    assert!(dram("cgpc", "accesses") <= 2.0 && dram("base", "accesses") > 20.0);
    assert!(dram("cgpc", "bytes") < 0.13 * dram("base", "bytes"));
    assert!(number(&build("cgpc")["instructions"]) < number(&build("base")["instructions"]) / 1.5);
    // From run to run the same, and on another processor something else.
    assert_eq!(json(&["l3switch", "--engines", "1..8"]), found);
    let old = json(&["l3switch", "--platform", "ixp1200", "--engines", "4"]);
    assert!(number(&old["builds"]["cgpc"]["points"][0]["gbps"]) < at("cgpc", 4));
}

#[test]
fn offered_rate_text_and_plot() {
    let offered = json(&["l3switch", "--engines", "6", "--offered", "1.5"]);
    let point = |level: &str| offered["builds"][level]["points"][0].clone();
    let (cgpc, base) = (point("cgpc"), point("base"));
    assert!((number(&cgpc["gbps"]) - 1.5).abs() < 0.02 && number(&cgpc["lost"]) == 0.0, "{cgpc}");
    assert!(number(&base["gbps"]) < 0.7 && number(&base["lost"]) > 0.5, "{base}");
    let scratch = Scratch::new();
    let svg = scratch.path("out.svg");
    let text = millrace(&["sim", "l3switch", "--engines", "1..3", "--plot", &svg]).ok();
    for part in ["400 packets of the trace", "per packet, by the program", "Gbit/s by number of engines", "replicated"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let svg = std::fs::read_to_string(svg).unwrap();
    assert!(
        svg.starts_with("<svg")
            && svg.contains("l3switch on the Intel IXP2400")
            && svg.matches("polyline").count() >= 3
    );
    // A program and a trace of one's own; as little as one packet.
    assert_eq!(json(&[PATCH, "--trace", FIRST, "--engines", "2"])["packets"], 6);
}

#[test]
fn ways_are_listed_and_a_profile_is_optimised_by() {
    let found = json(&["l3switch", "--engines", "2", "--paths", "2"]);
    for level in ["base", "pac", "cgpc"] {
        let build = &found["builds"][level];
        let listed = build["listed"].as_array().unwrap();
        assert_eq!(listed.len(), 2);
        assert!(number(&listed[0]["packets"]) >= number(&listed[1]["packets"]));
        let lines: Vec<&str> =
            listed[0]["operations"].as_array().unwrap().iter().map(|l| l.as_str().unwrap()).collect();
        assert_eq!(lines[0], "l3_switch.l2_clsfr");
        assert!(lines.iter().any(|line| line.starts_with("  dram[read, ")), "{lines:?}");
    }
    let text = millrace(&["sim", "l3switch", "--engines", "2", "--paths", "1"]).ok();
    for part in ["cgpc: what ", " packets execute\n  l3_switch.l2_clsfr\n", "sram[read, 4 bytes], ctx_swap\n"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // What a profile says changes what is loaded when, and for the better.
    let trace = format!("{ROOT}/apps/mpls/trace.pcapng");
    let bytes = |found: &Value| number(&found["builds"]["cgpc"]["memories"]["dram"]["bytes"]);
    let plain = bytes(&json(&["mpls", "--engines", "2"]));
    let profiled = bytes(&json(&["mpls", "--engines", "2", "--profile", &trace]));
    assert!(profiled < plain, "{profiled}, {plain}");
}

/// Every packet of them is forwarded but those that a firewall is to deny, all have 64 bytes, and the published
/// relation of the levels is there.
#[test]
fn traces_in_the_style_of_the_npf() {
    let scratch = Scratch::new();
    for (app, kind, denied) in [("l3switch", "l3-28k", 0.0), ("mpls", "mpls-28k", 0.0), ("firewall", "firewall", 0.02)]
    {
        let folder = scratch.path(kind);
        let make = || {
            let made = std::process::Command::new(format!("{ROOT}/tools/npf"))
                .args([kind, &folder, "--packets", "600"])
                .output()
                .expect("tools/npf");
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
            let read = |ending: &str| std::fs::read(format!("{folder}/{kind}.{ending}")).unwrap();
            (read("pcapng"), read("toml"))
        };
        assert_eq!(make(), make(), "{kind}: the same seed, the same trace");
        let file = |ending: &str| format!("{folder}/{kind}.{ending}");
        let given = [app, "--trace", &file("pcapng"), "--config", &file("toml")];
        let found = json(&[&given[..], &["--engines", "6"]].concat());
        let build = |level: &str| &found["builds"][level];
        assert_eq!(found["packets"], 600);
        let forwarded = number(&build("cgpc")["forwarded"]);
        assert!(forwarded >= 1.0 - denied && (forwarded < 1.0) == (denied > 0.0), "{found}");
        let dram = |level: &str, name: &str| number(&build(level)["memories"]["dram"][name]);
        assert!(dram("cgpc", "bytes") < 0.2 * dram("base", "bytes"), "{found}");
        let rate = |level: &str| number(&build(level)["points"][0]["gbps"]);
        assert!(rate("cgpc") > 3.0 * rate("base") && rate("cgpc") > rate("pac"), "{found}");
        let text = millrace(&[&["sim"], &given[..], &["--engines", "1"]].concat()).ok();
        assert!(text.contains("600 packets of the trace, 64.0 bytes on the line on average"), "{text}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    let scratch = Scratch::new();
    let shipped = std::fs::read_to_string(format!("{ROOT}/platforms/ixp2400.toml")).unwrap();
    let changed = |name: &str, from: &str, to: &str| {
        assert!(shipped.contains(from), "{from}");
        scratch.write(name, shipped.replacen(from, to, 1))
    };
    let line = |of: &str| shipped[..shipped.find(of).unwrap()].matches('\n').count() + 1;
    let without_ports = changed("ports.toml", "duplex = ", "# duplex = ");
    let half_a_port = changed("half.toml", "duplex = { value = 1,", "duplex = { value = 0.5,");
    let endless = changed("endless.toml", "clock_hz = { value = 600e6,", "clock_hz = { value = 1e300,");
    let no_source = changed("source.toml", "count = { value = 8, source = ", "count = { value = 8, said_by = ");
    let other_ports = scratch.write("ports.pcapng", std::fs::read(format!("{ROOT}/apps/mpls/trace.pcapng")).unwrap());
    let negative = changed("negative.toml", "latency = { value = 120", "latency = { value = -120");
    let missing = changed("missing.toml", "swap = ", "# swap = ");
    let typo = changed("typo.toml", "[lpm]", "[ipm]");
    let at = |name: &str, line: usize, what: &str| format!("{name}:{line}: {what}");
    let short = scratch.write("short.pcap", pcap::write(&[vec![2; 9], vec![2; 9]]));
    let text = scratch.write("text.pcap", b"not a capture");
    let own = |path: &str| vec!["l3switch".to_owned(), "--platform".into(), path.into()];
    let args = |args: &[&str]| args.iter().map(|arg| arg.to_string()).collect::<Vec<_>>();
    let cases: Vec<(Vec<String>, String)> = vec![
        (own("ixp2800"), "there is no platform ixp2800\n  platforms: ixp1200, ixp2400, pci33".into()),
        (args(&["--platform", "ixp2400"]), "error: say which program".into()),
        (args(&["l3switch", "--platform", "pci33"]), "error: pci33 is a host-based router, which runs no program".into()),
        (own("/no/such.toml"), "/no/such.toml: ".into()),
        (own(&negative), at("negative.toml", line("latency = { value = 120"), "memory.dram.latency: -120 is not from 1 to 100000")),
        (own(&missing), at("missing.toml", line("[engines]"), "engines: missing field `swap`")),
        (own(&without_ports), at("ports.toml", line("[memory.dram]"), "memory.dram: missing field `duplex`")),
        (own(&half_a_port), at("half.toml", line("duplex = { value = 1,"), "memory.sram.duplex: 0.5 is not a whole number")),
        (own(&endless), at("endless.toml", line("clock_hz"), "engines.clock_hz: ")),
        (own(&no_source), at("source.toml", line("count = "), "engines.count: unknown field `said_by`")),
        (own(&typo), at("typo.toml", line("[lpm]"), "ipm: unknown field `ipm`")),
        (args(&["l3switch", "--engines", "0"]), "neither a number of engines from 1 to 64 nor a range".into()),
        (args(&["l3switch", "--engines", "4..2"]), "neither a number of engines".into()),
        (args(&["l3switch", "--offered", "fast"]), "not a rate from 0.001 to 1000 Gbit/s".into()),
        (args(&["l3switch", "--trace", &text]), "text.pcap: neither a pcap nor a pcapng file".into()),
        (
            args(&["l3switch", "--trace", &short]),
            "the trace does not fit the program and its configuration: all of its 2 packets are dropped\n  reasons: truncated 2".into(),
        ),
        (
            args(&["l3switch", "--trace", &other_ports]),
            "ports.pcapng: interface ce is no port of the configuration\n  ports: ".into(),
        ),
        (args(&["l3switch", "--profile", &text]), "text.pcap: neither a pcap nor a pcapng file".into()),
        (args(&["l3switch", "--profile", "/no/such.pcap"]), "/no/such.pcap: ".into()),
        (args(&["l3switch", "--paths", "all"]), "invalid value 'all' for '--paths <COUNT>'".into()),
        (args(&["l3switch", "--trace", FIRST, "--port", "77"]), "reasons: no_domain 5, truncated 1".into()),
        (args(&[PATCH]), "no trace lies beside it; give one to measure with: --trace T.pcap".into()),
        (args(&["l3switch", "--engines", "1", "--plot", "/no/such/place.svg"]), "/no/such/place.svg".into()),
    ];
    for (args, wanted) in cases {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let output = millrace(&[&["sim"], &args[..]].concat());
        let status = if wanted.starts_with("/no/such/place") { 2 } else { 1 };
        assert_eq!((output.status, output.stdout.as_str()), (Some(status), ""), "{args:?}: {output:?}");
        assert!(output.stderr.contains(&wanted), "{args:?}: {}", output.stderr);
    }
}

/// The published testbed of host-interface peering.
#[test]
fn a_host_based_router_by_packet_length() {
    let found = json(&["--platform", "pci33"]);
    let points = |access: &str| found["access"][access].as_array().unwrap().clone();
    let (copy, header) = (points("copy"), points("header-copy"));
    assert_eq!((copy.len(), points("in-place").len()), (10, 10));
    for (copy, header) in copy.iter().zip(&header) {
        assert_eq!(copy["bytes"], header["bytes"]);
        // Below a hundred bytes, copying the header is as much as copying the packet.
        assert!(number(&header["mbps"]) > 0.97 * number(&copy["mbps"]), "{copy} {header}");
        assert!((0.0..=1.0).contains(&number(&header["cpu"])) && number(&header["bus"]) <= 1.0);
    }
    assert!(number(&header[8]["mbps"]) > 1.4 * number(&copy[8]["mbps"]), "{found}");
    let published = found["published"].as_array().unwrap();
    assert!(published.len() == 8 && published.iter().all(|point| point["agrees"] == true), "{published:?}");
    let text = millrace(&["sim", "--platform", "pci33"]).ok();
    for part in ["33 MHz 32-bit PCI", "percent of the CPU", "published, and the model", "± 4 points", "below 70"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // One's own, by the pattern.
    let scratch = Scratch::new();
    let shipped = std::fs::read_to_string(format!("{ROOT}/platforms/pci33.toml")).unwrap();
    let faster =
        scratch.write("pci66.toml", shipped.replacen("clock_hz = { value = 33e6", "clock_hz = { value = 66e6", 1));
    let faster = json(&["--platform", &faster]);
    assert!(number(&faster["access"]["copy"][8]["mbps"]) > 1.3 * number(&copy[8]["mbps"]));
    assert!(faster["published"].as_array().unwrap().iter().any(|point| point["agrees"] == false));
}

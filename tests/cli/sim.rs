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
fn what_is_wrong_is_said() {
    let scratch = Scratch::new();
    let shipped = std::fs::read_to_string(format!("{ROOT}/platforms/ixp2400.toml")).unwrap();
    let changed = |name: &str, from: &str, to: &str| {
        assert!(shipped.contains(from), "{from}");
        scratch.write(name, shipped.replacen(from, to, 1))
    };
    let line = |of: &str| shipped[..shipped.find(of).unwrap()].matches('\n').count() + 1;
    let negative = changed("negative.toml", "latency = { value = 120", "latency = { value = -120");
    let missing = changed("missing.toml", "swap = ", "# swap = ");
    let typo = changed("typo.toml", "[lpm]", "[ipm]");
    let at = |name: &str, line: usize, what: &str| format!("{name}:{line}: {what}");
    let short = scratch.write("short.pcap", pcap::write(&[vec![2; 9], vec![2; 9]]));
    let text = scratch.write("text.pcap", b"not a capture");
    let own = |path: &str| vec!["l3switch".to_owned(), "--platform".into(), path.into()];
    let args = |args: &[&str]| args.iter().map(|arg| arg.to_string()).collect::<Vec<_>>();
    let cases: Vec<(Vec<String>, String)> = vec![
        (own("ixp2800"), "there is no platform ixp2800\n  platforms: ixp1200, ixp2400".into()),
        (own("/no/such.toml"), "/no/such.toml: ".into()),
        (own(&negative), at("negative.toml", line("latency = { value = 120"), "memory.dram.latency: -120 is not from 1 to 100000")),
        (own(&missing), at("missing.toml", line("[engines]"), "engines: missing field `swap`")),
        (own(&typo), at("typo.toml", line("[lpm]"), "ipm: unknown field `ipm`")),
        (args(&["l3switch", "--engines", "0"]), "neither a number of engines from 1 to 64 nor a range".into()),
        (args(&["l3switch", "--engines", "4..2"]), "neither a number of engines".into()),
        (args(&["l3switch", "--offered", "fast"]), "not a rate from 0.001 to 1000 Gbit/s".into()),
        (args(&["l3switch", "--trace", &text]), "text.pcap: neither a pcap nor a pcapng file".into()),
        (
            args(&["l3switch", "--trace", &short]),
            "the trace does not fit the program and its configuration: all of its 2 packets are dropped\n  reasons: truncated 2".into(),
        ),
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

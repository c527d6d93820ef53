//! `--profile`: code by a trace, the same packets, and what is wrong with a trace.

use crate::process::{Scratch, millrace};
use crate::{FIRST, PATCH, pcap};

const TRACE: &[u8] = include_bytes!("../../apps/l3switch/trace.pcapng");

/// Whatever the profile, a replay gives the same packets.
#[test]
fn a_profile_changes_no_packet() {
    let scratch = Scratch::new();
    let packets = pcap::read(&std::fs::read(FIRST).unwrap());
    let arp = scratch.write("arp.pcap", pcap::write(&packets[..1]));
    let run = |name: &str, profile: &[&str]| {
        let output = scratch.path(name);
        let text =
            millrace(&[&["replay", PATCH, "--in", FIRST, "--out", &output, "--opt", "cgpc"], profile].concat()).ok();
        (std::fs::read(output).unwrap(), text)
    };
    let without = run("without", &[]);
    assert_eq!(run("right", &["--profile", FIRST]), without);
    assert_eq!(run("wrong", &["--profile", &arp, "--profile-port", "7"]), without);
}

#[test]
fn code_by_a_profile() {
    let scratch = Scratch::new();
    let trace = scratch.write("own.pcapng", TRACE);
    let emit =
        |target: &str, profile: &[&str]| millrace(&[&["emit", "l3switch", "--target", target], profile].concat()).ok();
    let profile = ["--profile", trace.as_str()];
    // What the trace says is shown beside the code.
    assert!(!emit("ir", &[]).contains("# "));
    assert!(emit("ir", &profile).contains("# 400 times, then 400 : 0"));
    let weights = |text: String| text.lines().filter(|line| line.contains("\"branch_weights\"")).count();
    assert!(weights(emit("llvm", &profile)) > weights(emit("llvm", &[])) + 5);
}

#[test]
fn a_program_runs_by_a_profile() {
    let scratch = Scratch::new();
    let run = ["run", PATCH, "--no-socket", "--profile", FIRST, "--port"];
    let port = format!("p1=pcap:{FIRST},{}", scratch.path("out.pcap"));
    let text = millrace(&[&run[..], &[&port, "--duration", "1"]].concat()).ok();
    assert!(text.contains("truncated"), "{text}");
}

#[test]
fn what_is_wrong_is_said() {
    let scratch = Scratch::new();
    let mut raw_ip = pcap::write(&[vec![0x45; 40]]);
    raw_ip[20] = 101;
    let cases = [
        ("no.pcap", None, "no.pcap: No such file"),
        ("text.pcap", Some(b"not a capture".to_vec()), "text.pcap: neither a pcap nor a pcapng file"),
        ("empty.pcap", Some(pcap::write(&[])), "empty.pcap: holds no packet"),
        ("raw.pcap", Some(raw_ip), "raw.pcap: link type 101: only Ethernet (1) is supported"),
        (
            "short.pcap",
            Some(pcap::write(&[vec![1; 5], vec![2; 9]])),
            "short.pcap: no packet gets through the program; of 2 were dropped: truncated 2",
        ),
    ];
    let output = scratch.path("out.pcap");
    for (name, content, wanted) in cases {
        let path = content.map_or_else(|| scratch.path(name), |content| scratch.write(name, content));
        let commands: [&[&str]; 4] = [
            &["explain", "l3switch"],
            &["replay", PATCH, "--in", FIRST, "--out", &output],
            &["emit", PATCH, "--target", "ir"],
            &["run", PATCH, "--no-socket", "--port", "p1=pcap:/no/such.pcap"],
        ];
        for command in commands {
            let text = millrace(&[command, &["--profile", &path]].concat()).failed(1);
            assert!(text.contains(wanted), "{command:?}: {text}");
        }
    }
    let text = millrace(&["emit", "l3switch", "--target", "ir", "--profile", FIRST, "--profile-port", "p9"]).failed(1);
    assert!(text.contains("--profile-port p9: neither a port of the configuration"), "{text}");
}

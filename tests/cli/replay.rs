//! `millrace replay`: both engines give the same packets and counts, and bad files are told in one line.

use std::fs;

use crate::frames::{ETH_EXPERIMENT, Ipv4, ethernet};
use crate::process::{Scratch, millrace};
use crate::random::Random;
use crate::report::Report;
use crate::{FIRST, PATCH, hostile, pcap};

/// What both engines make of a file, which must be the same: packets, the summary, and the counters.
fn replay(app: &str, input: &str, port: &str, scratch: &Scratch) -> (Vec<Vec<u8>>, String, Report) {
    let run = |engine: &str| {
        let output = scratch.path(engine);
        let text = millrace(&["replay", app, "--in", input, "--out", &output, "--port", port, "--engine", engine]).ok();
        let summary = text.lines().next().unwrap().split_once(": ").unwrap().1.to_owned();
        (fs::read(output).unwrap(), summary, Report::parse(&text))
    };
    let (native, interp) = (run("worker"), run("interp"));
    assert!(native.0 == interp.0, "the output files differ");
    assert_eq!((&native.1, &native.2), (&interp.1, &interp.2));
    (pcap::read(&native.0), native.1, native.2)
}

#[test]
fn the_first_example() {
    let scratch = Scratch::new();
    let (packets, summary, report) = replay(PATCH, FIRST, "1", &scratch);
    assert_eq!(summary, "6 packets in, 3 out by tx, 0 to the host");
    assert_eq!(report.drops(), [("truncated", 2), ("ttl_expired", 1)]);
    assert_eq!((report.ppf("patch.classify"), report.ppf("hop.filter")), (5, 3));
    assert_eq!(report.sections["the program's counters"]["patch.bytes"], 60 + 60 + 60 + 30 + 1442);
    // ARP as it was; two IP packets with one hop less and a checksum that is right.
    let sent = pcap::read(&fs::read(FIRST).unwrap());
    assert_eq!(packets[0], sent[0]);
    for (before, after) in [(&sent[1], &packets[1]), (&sent[5], &packets[2])] {
        let mut expected = before.clone();
        expected[22] -= 1;
        expected[24..26].fill(0);
        let sum = crate::frames::checksum(&expected[14..34]);
        expected[24..26].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(*after, expected);
    }
    // Without an output file the counts are the same.
    let text = millrace(&["replay", PATCH, "--in", FIRST]).ok();
    assert_eq!(Report::parse(&text), report);
}

#[test]
fn frames_without_a_whole_header_are_truncated() {
    let scratch = Scratch::new();
    let short = (0..14).map(|length| vec![2; length]);
    let whole = [14, 15].map(|length| ethernet([2; 6], [4; 6], ETH_EXPERIMENT, &vec![0; length - 14]));
    let input = scratch.write("in.pcap", pcap::write(&short.chain(whole.clone()).collect::<Vec<_>>()));
    let (packets, summary, report) = replay(PATCH, &input, "1", &scratch);
    assert_eq!(packets, whole);
    assert_eq!(summary, "16 packets in, 2 out by tx, 0 to the host");
    assert_eq!(report.drops(), [("truncated", 14)]);
    // The L3 switch floods to the one other port of the domain.
    let (packets, summary, report) = replay("l3switch", &input, "p1", &scratch);
    assert_eq!(packets, whole);
    assert_eq!(summary, "16 packets in, 2 out by tx, 0 to the host");
    assert_eq!(report.drops(), [("truncated", 14)]);
    // A port that is in no domain.
    let (packets, _, report) = replay("l3switch", &input, "9", &scratch);
    assert_eq!(packets, Vec::<Vec<u8>>::new());
    assert_eq!(report.drops(), [("no_domain", 2), ("truncated", 14)]);
}

#[test]
fn long_packets() {
    let scratch = Scratch::new();
    // Longer than any frame of an interface, as captures on hosts with offloads have them; and longer than any frame.
    let payload = vec![7; 60_000];
    let packet = Ipv4::new([10, 0, 0, 1], [10, 0, 0, 2], &payload).frame([2; 6], [4; 6]);
    let longest = ethernet([2; 6], [4; 6], ETH_EXPERIMENT, &vec![0; 66_000]);
    let input = scratch.write("in.pcap", pcap::write(&[packet, longest]));
    let (packets, summary, report) = replay(PATCH, &input, "1", &scratch);
    assert_eq!(summary, "2 packets in, 1 out by tx, 0 to the host");
    assert_eq!(packets.iter().map(Vec::len).collect::<Vec<_>>(), [60_034]);
    assert_eq!(report.drops(), []);
    assert!(millrace(&["replay", PATCH, "--in", &input]).ok().contains("1 packets were too long for a frame"));
}

#[test]
fn rubbish_gives_the_same_on_both_engines() {
    let scratch = Scratch::new();
    let mut random = Random(5);
    let router = [2, 0, 0, 0, 1, 1];
    let frame = |_| hostile::frame(&mut random, 0, router, [2, 0, 0, 0, 0, 0x11]);
    let packets: Vec<_> = (0..20_000).map(frame).collect();
    let input = scratch.write("in.pcap", pcap::write(&packets));
    for app in ["l3switch", PATCH] {
        let (_, summary, report) = replay(app, &input, "1", &scratch);
        assert!(summary.starts_with("20 000 packets in, "), "{summary}");
        assert!(report.dropped("truncated") > 1000, "{report:?}");
    }
}

#[test]
fn capture_files_that_are_no_use() {
    let scratch = Scratch::new();
    let good = fs::read(FIRST).unwrap();
    let bad = |content: &[u8]| {
        let input = scratch.write("bad.pcap", content);
        let text = millrace(&["replay", PATCH, "--in", &input, "--out", &scratch.path("out")]).failed_in_one_line(1);
        assert!(text.starts_with(&format!("error: {input}: ")), "{text}");
        text
    };
    for content in [&[][..], b"\n", &good[..23], b"this is a text file and no capture", &[0xff; 100]] {
        assert!(bad(content).contains("not a pcap file"), "{content:?}");
    }
    let pcapng = [0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0];
    assert!(bad(&[&pcapng[..], &[0xff; 8], &[28, 0, 0, 0]].concat()).contains("editcap"));
    // Cut off at every place of the second packet; the first is whole up to byte 100.
    for end in (101..170).step_by(7) {
        assert!(bad(&good[..end]).contains("packet 2: the file is damaged or ends early"), "{end}");
    }
    let mut other_link = good.clone();
    other_link[20] = 101;
    assert!(bad(&other_link).contains("link type 101: only Ethernet"));
    let mut huge = good.clone();
    huge[32..40].fill(0xff);
    assert!(bad(&huge).contains("packet 1: the file is damaged"));
    let mut cut_by_tcpdump = good.clone();
    cut_by_tcpdump[36] += 1;
    assert!(bad(&cut_by_tcpdump).contains("only 60 of 61 bytes were captured"));
    // Random damage is an error or other packets, never a crash.
    let mut random = Random(6);
    for _ in 0..40 {
        let mut damaged = good.clone();
        for _ in 0..4 {
            let at = random.below(good.len().min(400));
            damaged[at] = random.next() as u8;
        }
        let input = scratch.write("damaged.pcap", &damaged);
        let done = millrace(&["replay", PATCH, "--in", &input]);
        assert!(matches!(done.status, Some(0 | 1)) && !done.stderr.contains("panicked"), "{done:?} {damaged:02x?}");
    }
}

#[test]
fn files_that_are_not_there() {
    let scratch = Scratch::new();
    let text = millrace(&["replay", PATCH, "--in", &scratch.path("nosuch.pcap")]).failed_in_one_line(1);
    assert!(text.contains("nosuch.pcap: cannot be opened: No such file"), "{text}");
    let text = millrace(&["replay", PATCH, "--in", FIRST, "--out", &scratch.path("no/out.pcap")]).failed_in_one_line(1);
    assert!(text.contains("no/out.pcap: cannot be written: No such file"), "{text}");
    assert_eq!(millrace(&["replay", PATCH, "--in", &scratch.path("")]).status, Some(1));
    // The input must not be emptied by writing to it.
    let copy = scratch.write("copy.pcap", fs::read(FIRST).unwrap());
    let text = millrace(&["replay", PATCH, "--in", &copy, "--out", &copy]).failed_in_one_line(1);
    assert!(text.contains("is the input file too"), "{text}");
    assert_eq!(fs::read(&copy).unwrap(), fs::read(FIRST).unwrap());
    for port in ["256", "-1", "p9", ""] {
        let text = millrace(&["replay", "l3switch", "--in", FIRST, &format!("--port={port}")]).failed(1);
        assert!(text.contains("neither a port") && text.contains("ports: p1, p2, p3, p4, svi1p, svi2p"), "{text}");
    }
}

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

/// A pcapng file with these interfaces; packets are at one of them, and were received (1) or sent (2) there.
fn pcapng(interfaces: &[&str], packets: &[(u32, u32, &[u8])]) -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let padded = |bytes: &[u8]| [bytes, &[0; 3][..bytes.len().next_multiple_of(4) - bytes.len()]].concat();
    let option = |code: u16, value: &[u8]| {
        [code.to_le_bytes().to_vec(), (value.len() as u16).to_le_bytes().to_vec(), padded(value)].concat()
    };
    let block = |kind: u32, body: Vec<u8>| {
        let len = words(&[body.len() as u32 + 12]);
        [words(&[kind]), len.clone(), body, len].concat()
    };
    let mut file = block(0x0a0d_0d0a, words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]));
    for name in interfaces {
        file.extend(block(1, [words(&[1, 0]), option(2, name.as_bytes()), option(0, &[])].concat()));
    }
    for (interface, direction, packet) in packets {
        let len = packet.len() as u32;
        let flags = [option(2, &words(&[*direction])), option(0, &[])].concat();
        file.extend(block(6, [words(&[*interface, 0, 7, len, len]), padded(packet), flags].concat()));
    }
    file
}

/// A pcapng file is read as a pcap file is; its interfaces are ports, also where they are those of a lab's capture.
#[test]
fn pcapng_files() {
    let scratch = Scratch::new();
    let sent = pcap::read(&fs::read(FIRST).unwrap());
    let expected = replay("l3switch", FIRST, "p2", &scratch);
    let names = ["p2", "switch:p2"];
    for name in names {
        // By its content, not its name; what the port has sent is not received.
        let mut packets: Vec<(u32, u32, &[u8])> = sent.iter().map(|packet| (0, 1, &packet[..])).collect();
        packets.insert(2, (0, 2, &sent[0]));
        let input = scratch.write("in.pcap", pcapng(&[name], &packets));
        let text = millrace(&["replay", "l3switch", "--in", &input, "--out", &scratch.path("out")]).ok();
        assert!(text.contains("\n  1 packets of the file were sent by ports, and not received\n"), "{text}");
        assert!(text.contains(&expected.1), "{text}");
        assert_eq!(pcap::read(&fs::read(scratch.path("out")).unwrap()), expected.0);
    }
    // Several ports, of two domains.
    let packets: Vec<(u32, u32, &[u8])> = (0..2).flat_map(|at| sent.iter().map(move |one| (at, 0, &one[..]))).collect();
    let input = scratch.write("two.pcapng", pcapng(&["p1", "p3"], &packets));
    let report = replay("l3switch", &input, "p4", &scratch).2;
    assert_eq!(report.ppf("l3_switch.l2_clsfr"), 2 * expected.2.ppf("l3_switch.l2_clsfr"));
    // The trace that ships with it names its ports, too.
    let trace = scratch.write("trace", include_bytes!("../../apps/l3switch/trace.pcapng"));
    let report = replay("l3switch", &trace, "p4", &scratch).2;
    assert_eq!(report.ppf("l3_switch.l2_clsfr"), 400);
    assert!(report.ppf("l3_forward.route") >= 297, "{report:?}");
    // An interface that is no port needs to be told; then both directions come in.
    let input = scratch.write("host.pcapng", pcapng(&["client:eth0"], &[(0, 1, &sent[0]), (0, 2, &sent[1])]));
    let text = millrace(&["replay", "l3switch", "--in", &input]).failed(1);
    assert!(text.contains("interface client:eth0 is no port of the configuration\n  ports: p1, p2"), "{text}");
    assert!(text.contains("\n  --port PORT says where its packets come in"), "{text}");
    assert!(millrace(&["replay", "l3switch", "--in", &input, "--port", "p1"]).ok().contains(": 2 packets in, "));
    let sent_alone = scratch.write("sent.pcapng", pcapng(&["p1"], &[(0, 2, &sent[0])]));
    assert!(millrace(&["replay", "l3switch", "--in", &sent_alone]).ok().contains(": 0 packets in, "));
    let text = millrace(&["explain", "l3switch", "--profile", &sent_alone]).failed_in_one_line(1);
    assert!(text.contains("ports have sent all of its packets, and received none"), "{text}");
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
        assert!(bad(content).contains("neither a pcap nor a pcapng file"), "{content:?}");
    }
    let pcapng = [0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0];
    assert!(bad(&pcapng).contains("not a pcapng file: its first block is damaged"));
    // Cut off at every place of the second packet; the first is whole up to byte 100, and goes through.
    let passed = |content: &[u8], packets: usize| {
        let input = scratch.write("damaged.pcap", content);
        let done = millrace(&["replay", PATCH, "--in", &input]);
        assert_eq!(done.status, Some(0), "{done:?}");
        assert!(done.stdout.contains(&format!("{packets} packets in, ")), "{done:?}");
        assert_eq!(done.stderr.lines().count(), 1, "{done:?}");
        assert!(done.stderr.contains(&format!("{input}: passed over ")), "{done:?}");
        done.stderr
    };
    for end in (101..170).step_by(7) {
        let told = passed(&good[..end], 1);
        assert!(told.contains("the last packet, within which the file ends (behind packet 1, at byte 100)"), "{told}");
    }
    let mut other_link = good.clone();
    other_link[20] = 101;
    assert!(bad(&other_link).contains("link type 101: only Ethernet"));
    let mut huge = good.clone();
    huge[32..40].fill(0xff);
    assert!(passed(&huge, 5).contains("1 damaged place (before the first packet, at byte 24)"));
    let mut cut_by_tcpdump = good.clone();
    cut_by_tcpdump[36] += 1;
    assert!(passed(&cut_by_tcpdump, 5).contains("1 packet that was not captured whole (packet 1: only 60 of 61 bytes"));
    assert!(bad(&good[..60]).contains("no packet of it can be used: passed over the last packet"));
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

/// A port over a damaged file passes what is whole, and the run says what is not.
#[test]
fn a_port_over_a_damaged_file() {
    let scratch = Scratch::new();
    let good = fs::read(FIRST).unwrap();
    let input = scratch.write("cut.pcap", &good[..good.len() - 5]);
    let ports = [format!("a=pcap:{input}"), format!("b=pcap:,{}", scratch.path("out.pcap"))];
    let run = ["run", PATCH, "--no-socket", "--duration", "0.2", "--port", &ports[0], "--port", &ports[1]];
    let done = millrace(&run);
    assert_eq!((done.status, Report::parse(&done.stdout).port("a", "received")), (Some(0), 5), "{done:?}");
    let told = "cut.pcap: passed over the last packet, within which the file ends (behind packet 5, at byte ";
    assert!(done.stderr.contains(told) && done.stderr.lines().count() == 1, "{done:?}");
    assert_eq!(pcap::read(&fs::read(scratch.path("out.pcap")).unwrap()).len(), 2);
}

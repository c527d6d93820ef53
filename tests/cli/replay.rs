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

/// A packet of a pcapng file: name of its interface, time in ns, flags, bytes.
type Written = (String, u64, u32, Vec<u8>);

/// Interfaces and packets of a pcapng file that was written.
fn read_pcapng(file: &[u8]) -> (Vec<String>, Vec<Written>) {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let half = |at: usize| usize::from(u16::from_le_bytes(file[at..at + 2].try_into().unwrap()));
    let (mut at, mut names, mut packets) = (0, Vec::new(), Vec::new());
    while at < file.len() {
        let (kind, len) = (word(at), word(at + 4) as usize);
        match kind {
            1 => {
                assert_eq!((half(at + 8), half(at + 16)), (1, 2), "Ethernet, then its name");
                let name = &file[at + 20..at + 20 + half(at + 18)];
                names.push(String::from_utf8(name.to_vec()).unwrap());
            }
            6 => {
                let (interface, stamp) =
                    (word(at + 8) as usize, u64::from(word(at + 12)) << 32 | u64::from(word(at + 16)));
                let captured = word(at + 20) as usize;
                assert_eq!(captured, word(at + 24) as usize);
                let flags = at + 28 + captured.next_multiple_of(4);
                assert_eq!((half(flags), half(flags + 2)), (2, 4));
                let bytes = file[at + 28..at + 28 + captured].to_vec();
                packets.push((String::clone(&names[interface]), stamp, word(flags + 4), bytes));
            }
            _ => assert_eq!((kind, at), (0x0a0d_0d0a, 0)),
        }
        at += len;
    }
    (names, packets)
}

/// A pcap file with frames at these microseconds, each with a byte that tells it.
fn at_times(times: &[u32], tell: u8) -> Vec<u8> {
    let frame = |_| ethernet([2; 6], [4; 6], ETH_EXPERIMENT, &[tell]);
    let mut file = pcap::write(&times.iter().map(frame).collect::<Vec<_>>());
    for (index, time) in times.iter().enumerate() {
        let at = 24 + index * 31 + 4;
        file[at..at + 4].copy_from_slice(&time.to_le_bytes());
    }
    file
}

/// Files for several ports come in by their times, and leave by port.
#[test]
fn several_files_and_a_file_for_each_port() {
    let scratch = Scratch::new();
    let left = scratch.write("left.pcap", at_times(&[10, 30, 50], 1));
    let right = scratch.write("right.pcap", at_times(&[20, 30, 30, 60], 2));
    let (one, two) = (format!("1={left}"), format!("2={right}"));
    let directory = scratch.path("out/new");
    for engine in ["worker", "interp"] {
        let out = scratch.path("out.pcapng");
        let given = ["replay", PATCH, "--engine", engine, "--port", &two, "--port", &one, "--out", &out];
        let text = millrace(&[&given[..], &["--out-dir", &directory]].concat()).ok();
        assert!(text.contains(": 7 packets in, 7 out by tx, 0 to the host"), "{text}");
        let (names, packets) = read_pcapng(&fs::read(&out).unwrap());
        assert_eq!(names, ["port 2", "port 1"], "as packets left, for the program has no configuration");
        let order: Vec<_> =
            packets.iter().map(|(name, time, flags, bytes)| (&name[..], time % 1_000_000, *flags, bytes[14])).collect();
        let expected = [
            ("port 2", 10, 2, 1),
            ("port 1", 20, 2, 2),
            // At the same time that of the file that was given first.
            ("port 1", 30, 2, 2),
            ("port 1", 30, 2, 2),
            ("port 2", 30, 2, 1),
            ("port 2", 50, 2, 1),
            ("port 1", 60, 2, 2),
        ];
        assert_eq!(order, expected.map(|(port, us, flags, tell)| (port, us * 1000, flags, tell)));
        for (name, tell, count) in [("port 1", 2, 4), ("port 2", 1, 3)] {
            let file = fs::read(format!("{directory}/{name}.pcap")).unwrap();
            assert_eq!(pcap::read(&file), vec![ethernet([2; 6], [4; 6], ETH_EXPERIMENT, &[tell]); count]);
        }
    }
    // What was written is read again: the ports have sent it, so nothing comes in; as any other file it does.
    let out = scratch.path("out.pcapng");
    let again = millrace(&["replay", PATCH, "--port", &format!("1={out}")]).ok();
    assert!(again.contains(": 7 packets in, "), "{again}");
}

/// The ports of a configuration have their interface or file, whether packets leave by it or not; the host, too, once
/// there are some for it.
#[test]
fn ports_of_a_configuration_by_name_and_number() {
    let scratch = Scratch::new();
    let sent = pcap::read(&fs::read(FIRST).unwrap());
    let all: Vec<(u32, u32, &[u8])> = sent.iter().map(|packet| (1, 0, &packet[..])).collect();
    let expected = replay("l3switch", FIRST, "p2", &scratch);
    // The second interface of a file without names, one that is called by the number, and one by the name.
    for names in [&["", ""], &["x", "2"], &["x", "p2"]] {
        let mut file = pcapng(names, &all);
        if names[0].is_empty() {
            // Blocks of 20 bytes: no options.
            let block = |kind: u32| [kind, 20, 1, 0, 20].iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
            let named = pcapng(names, &[]).len() - 28;
            file.splice(28..28 + named, [block(1), block(1)].concat());
        }
        let input = scratch.write("in.pcapng", &file);
        let (out, directory) = (scratch.path("o.pcapng"), scratch.path("dir"));
        let text = millrace(&["replay", "l3switch", "--in", &input, "--out", &out, "--out-dir", &directory]).ok();
        assert!(text.contains(&expected.1), "{names:?} {text}");
        let (interfaces, packets) = read_pcapng(&fs::read(&out).unwrap());
        assert_eq!(interfaces[..6], ["p1", "p2", "p3", "p4", "svi1p", "svi2p"]);
        assert!(interfaces[6..].iter().all(|name| name == "host"), "{interfaces:?}");
        assert_eq!(packets.iter().map(|packet| packet.3.clone()).collect::<Vec<_>>(), expected.0);
        for name in &interfaces {
            let own: Vec<_> =
                packets.iter().filter(|packet| packet.0 == *name).map(|packet| packet.3.clone()).collect();
            assert_eq!(pcap::read(&fs::read(format!("{directory}/{name}.pcap")).unwrap()), own, "{name}");
        }
    }
    let input = scratch.write("in.pcapng", pcapng(&["77"], &[(0, 0, &sent[0])]));
    let text = millrace(&["replay", "l3switch", "--in", &input]).failed(1);
    assert!(text.contains("interface 77 is no port of the configuration"), "{text}");
}

#[test]
fn files_that_contradict_each_other() {
    let scratch = Scratch::new();
    let text = millrace(&["replay", PATCH]).failed(1);
    assert!(text.contains("--in <IN.pcap>"), "{text}");
    let text = millrace(&["replay", PATCH, "--port", "1"]).failed_in_one_line(1);
    assert!(text.contains("there is no capture file to read"), "{text}");
    let text = millrace(&["replay", PATCH, "--in", FIRST, "--port", "1", "--port", "2"]).failed_in_one_line(1);
    assert!(text.contains("--port 2: is said twice"), "{text}");
    let text = millrace(&["replay", "l3switch", "--port", &format!("p9={FIRST}")]).failed(1);
    assert!(text.contains("--port p9: neither a port of the configuration nor a number"), "{text}");
    let copy = scratch.write("copy.pcap", fs::read(FIRST).unwrap());
    let text = millrace(&["replay", PATCH, "--in", &copy, "--out-dir", &scratch.path(".")]).failed_in_one_line(1);
    assert!(text.contains("lies in the directory of the output"), "{text}");
    assert_eq!(fs::read(&copy).unwrap(), fs::read(FIRST).unwrap());
    let text = millrace(&["replay", PATCH, "--in", FIRST, "--out-dir", &format!("{copy}/x")]).failed_in_one_line(1);
    assert!(text.contains("cannot be made"), "{text}");
    let text = millrace(&["replay", PATCH, "--in", FIRST, "--port", "2=/no/such.pcap"]).failed_in_one_line(1);
    assert!(text.contains("/no/such.pcap: cannot be opened"), "{text}");
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

/// The ways of packets, in the words of the source: the second packet is routed, the third one has no hop left.
#[test]
fn ways_of_packets_are_shown() {
    let text = millrace(&["replay", PATCH, "--in", FIRST, "--trace", "3"]).ok();
    let ways: Vec<&str> = text.split("\n\n").collect();
    let second = "\
  rx -> patch.classify, 60 bytes
    patch.bytes[0] += 60
    rx.port is 1
    tx.port := 2
    ether.dst is 02:00:00:00:00:12
    dst := 02:00:00:00:00:12
    ether.src is 02:00:00:00:00:11
    src := 02:00:00:00:00:11
    ether.type is 0x0800
    head at ipv4
  patch.to_ip -> hop.filter, 46 bytes
    ipv4.ttl is 64
    bytes 8 to 9 is 0x4011
    ipv4.ttl := 63
    ipv4.checksum is 0x24ab
    ipv4.checksum := 0x25ab
    head at ether
    dst is 02:00:00:00:00:12
    ether.dst := 02:00:00:00:00:12
    src is 02:00:00:00:00:11
    ether.src := 02:00:00:00:00:11
    ether.type := 0x0800
  hop.output -> port 2";
    assert!(ways[1].starts_with("2: port 1, 60 bytes\n  ether(dst=02:00:00:00:00:12") && ways[1].ends_with(second));
    assert!(ways[2].ends_with("    ipv4.ttl is 1\n    dropped: ttl_expired"), "{}", ways[2]);
    // Behind them is what is there without them.
    let plain = millrace(&["replay", PATCH, "--in", FIRST]).ok();
    assert!(ways.len() == 4 + plain.matches("\n\n").count() && text.ends_with(&plain), "{text}");
    let text = millrace(&["replay", PATCH, "--in", FIRST, "--trace", "many"]).failed(1);
    assert!(text.contains("--trace"), "{text}");
}

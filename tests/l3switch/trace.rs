//! What becomes of packets that are traced, while they are forwarded.

use std::time::Duration;

use serde_json::Value as Json;

use crate::eventually::eventually;
use crate::frames::Ipv4;
use crate::switch::{IP, MAC, ROUTER, Switch, over_both};

over_both!(traced_packets_go_their_way);

mod at_traffic_control {
    #[test]
    fn traced_packets_go_their_way() {
        super::traced_packets_go_their_way("tc");
    }
}

/// A packet from h1 to h3.
fn frame(number: u8, change: impl FnOnce(Ipv4) -> Ipv4) -> Vec<u8> {
    change(Ipv4::new(IP[0], IP[2], &[number; 30])).frame(ROUTER[0], MAC[0])
}

fn hex(frame: &[u8]) -> String {
    frame.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What was traced, as soon as no more is waited for.
fn traces(switch: &Switch) -> Vec<Json> {
    eventually("packets are still waited for", || {
        let found = switch.ask_json(&["trace", "show"]);
        (found["wanted"] == 0).then(|| found["traces"].as_array().unwrap().clone())
    })
}

fn step<'t>(trace: &'t Json, kind: &str, wanted: impl Fn(&Json) -> bool) -> &'t Json {
    let steps = trace["steps"].as_array().unwrap();
    steps.iter().find(|step| step["step"] == kind && wanted(step)).unwrap_or_else(|| panic!("{kind}: {trace:#}"))
}

fn traced_packets_go_their_way(driver: &str) {
    let switch = Switch::start(driver);
    let mut wires = switch.wires();
    wires.announce(1);
    wires.announce(3);
    let sent = [
        frame(1, |packet| packet),
        frame(2, |packet| Ipv4 { checksum_error: 4, ..packet }),
        frame(3, |packet| Ipv4 { dst: [10, 9, 9, 9], ..packet }),
        frame(4, |packet| packet),
    ];
    let drops = || switch.ask_json(&["drops"]);
    let before = drops();
    switch.ask(&["trace", "add", "4", "--port", "p1"]).ok();
    // It may take a moment until the kernel's part offers them.
    std::thread::sleep(Duration::from_millis(300));
    sent.iter().for_each(|frame| wires.send(1, frame));
    let traces = traces(&switch);
    let after = drops();
    let found: Vec<&str> = traces.iter().map(|trace| trace["packet"].as_str().unwrap()).collect();
    assert_eq!(found, sent.iter().map(|frame| hex(frame)).collect::<Vec<_>>());
    // The data plane has dropped as many for each reason.
    let reasons: Vec<Option<&str>> = traces.iter().map(|trace| trace["dropped"].as_str()).collect();
    for (reason, count) in after.as_object().unwrap() {
        let more = count.as_u64().unwrap() - before[reason].as_u64().unwrap();
        let traced = reasons.iter().filter(|own| **own == Some(reason)).count() as u64;
        assert_eq!(more, traced, "{reason}: {reasons:?}");
    }
    assert_eq!((reasons[0], reasons[1], reasons[3]), (None, Some("bad_checksum"), None));
    for trace in [&traces[0], &traces[3]] {
        assert_eq!((&trace["port"], &trace["bytes"]), (&"p1".into(), &sent[0].len().into()));
        let route = step(trace, "lookup", |step| step["table"] == "l3_forward.fib");
        assert_eq!((&route["key"], &route["found"]), (&"10.0.2.13".into(), &2.into()), "{trace:#}");
        let ttl = |step: &Json| step["name"] == "ipv4.ttl" && step["written"] == true;
        assert_eq!(step(trace, "field", ttl)["value"], "63");
        assert_eq!(step(trace, "left", |_| true)["to"], "port p3");
        let first = step(trace, "enter", |_| true);
        let runs = if driver == "afpacket" { "worker" } else { driver };
        assert_eq!((&first["channel"], &first["engine"]), (&"rx".into(), &runs.into()), "{trace:#}");
    }
    // They have been forwarded all the same.
    let lasting = |number: u8| frame(number, |packet| Ipv4 { ttl: 63, ..packet });
    let out = |number: u8| {
        let mut frame = lasting(number);
        frame[..6].copy_from_slice(&MAC[2]);
        frame[6..12].copy_from_slice(&ROUTER[1]);
        frame
    };
    assert_eq!(wires.settle().hosts[2], [out(1), out(4)]);

    // Only those that are dropped; of other ports, too.
    switch.ask(&["trace", "add", "1", "--drops-only"]).ok();
    std::thread::sleep(Duration::from_millis(300));
    for number in 10..20 {
        wires.send(1, &frame(number, |packet| packet));
    }
    let bad = Ipv4 { checksum_error: 1, ..Ipv4::new(IP[2], IP[0], b"bad") }.frame(ROUTER[1], MAC[2]);
    wires.send(3, &bad);
    let found = self::traces(&switch);
    let found: Vec<_> = found.iter().map(|trace| (&trace["port"], &trace["packet"], &trace["dropped"])).collect();
    assert_eq!(found, [(&"p3".into(), &hex(&bad).into(), &"bad_checksum".into())]);

    // In a capture file, as other programs read it.
    let text = switch.ask(&["trace", "show"]).ok();
    assert!(text.contains("1: port p3") && text.contains("    dropped: bad_checksum\n"), "{text}");
    let path = format!("{}.pcapng", switch.socket());
    switch.ask(&["trace", "show", "--pcap", &path]).ok();
    let file = std::fs::read(&path).unwrap();
    let comment = b"dropped: bad_checksum";
    assert!(file.windows(comment.len()).any(|part| part == comment) && file.windows(bad.len()).any(|part| part == bad));

    // Only those with these fields.
    let these = [
        "trace",
        "add",
        "2",
        "--where",
        "ipv4.dst=10.0.2.13",
        "--where",
        "ipv4.protocol > 16 && !(ipv4.protocol > 17)",
    ];
    switch.ask(&these).ok();
    std::thread::sleep(Duration::from_millis(300));
    for number in 20..23 {
        wires.send(1, &frame(number, |packet| Ipv4 { protocol: 1, ..packet }));
        wires.send(1, &frame(number, |packet| Ipv4 { protocol: 17, ..packet }));
    }
    let found = self::traces(&switch);
    let wanted = [20, 21].map(|number| hex(&frame(number, |packet| Ipv4 { protocol: 17, ..packet })));
    assert_eq!(found.iter().map(|trace| &trace["packet"]).collect::<Vec<_>>(), wanted.each_ref());

    // One of each reason, while somebody looks.
    let shown = std::thread::scope(|scope| {
        let shown = scope.spawn(|| switch.ask(&["drops", "--watch", "--count", "4", "--examples"]).ok());
        std::thread::sleep(Duration::from_millis(1200));
        for number in 30..35 {
            wires.send(1, &frame(number, |packet| Ipv4 { checksum_error: 4, ..packet }));
            wires.send(1, &frame(number, |packet| packet));
            // It ends in the IPv4 header.
            wires.send(1, &frame(number, |packet| packet)[..24]);
        }
        shown.join().unwrap()
    });
    let (_, last) = shown.rsplit_once("per second").unwrap();
    let first = frame(30, |packet| Ipv4 { checksum_error: 4, ..packet });
    let digits: Vec<String> = first[16..32].iter().map(|byte| format!("{byte:02x}")).collect();
    for example in ["\nbad_checksum: port p1, 64 bytes\n", "\ntruncated: port p1, 24 bytes\n", &digits.join(" ")] {
        assert_eq!(last.matches(example).count(), 1, "{example}: {shown}");
    }
    assert_eq!(last.matches(": port p1, ").count(), 2, "{shown}");
    switch.ask(&["trace", "add", "1"]).ok();
    switch.ask(&["trace", "stop"]).ok();

    // Nothing stays behind: what comes later is forwarded, and not traced.
    wires.settle();
    wires.send(1, &frame(99, |packet| packet));
    wires.settle().only(&out(99), [false, false, true, false]);
    assert_eq!(switch.ask_json(&["trace", "show"])["traces"].as_array().unwrap().len(), 0);
    for (arguments, said) in [
        (&["trace", "add", "0"][..], "0 packets: from 1 to 1000 can be traced"),
        (&["trace", "add", "9", "--port", "nowhere"], "there is no port \"nowhere\"; there are p1"),
        (&["trace", "add", "9", "--where", "ipv4.tll=3"], "ipv4 has no field \"tll\"; did you mean"),
        (&["trace", "add", "9", "--where", "ipv4.ttl=300"], "ipv4.ttl has 8 bits, too few for 300"),
    ] {
        let error = switch.ask(arguments).failed_in_one_line(1);
        assert!(error.contains(said), "{error}");
    }
    switch.stop();
}

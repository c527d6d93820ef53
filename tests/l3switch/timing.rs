//! How long packets are in PPFs, measured while they are forwarded.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use crate::eventually::eventually;
use crate::frames::Ipv4;
use crate::switch::{IP, MAC, ROUTER, Switch, over_both};

over_both!(times_are_measured_for_a_while);

mod at_traffic_control {
    #[test]
    fn times_are_measured_for_a_while() {
        super::times_are_measured_for_a_while("tc");
    }
}

const PACKETS: u64 = 600;
/// Packets without a route.
const NOWHERE: u64 = 7;

/// Asks on the socket, for the answer to the start comes when it is measured.
fn ask(switch: &Switch, request: &Json) -> Json {
    let mut socket = UnixStream::connect(switch.socket()).unwrap();
    writeln!(socket, "{request}").unwrap();
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

fn show(switch: &Switch) -> Json {
    ask(switch, &json!({ "request": "timing_show" }))["ok"].clone()
}

fn of<'t>(timing: &'t Json, ppf: &str) -> &'t Json {
    timing["ppfs"]
        .as_array()
        .unwrap()
        .iter()
        .find(|own| own["ppf"] == ppf)
        .unwrap_or_else(|| panic!("{ppf}: {timing:#}"))
}

fn times_are_measured_for_a_while(driver: &str) {
    let switch = Switch::start(driver);
    let mut wires = switch.wires();
    wires.announce(1);
    wires.announce(3);
    let frame = Ipv4::new(IP[0], IP[2], &[7; 60]).frame(ROUTER[0], MAC[0]);
    let after = Ipv4 { ttl: 63, ..Ipv4::new(IP[0], IP[2], &[7; 60]) }.frame(MAC[2], ROUTER[1]);
    assert_eq!(show(&switch)["ppfs"], json!([]));
    let routed = || switch.ask_json(&["counters"])["ppfs"]["l3_forward.route"].as_u64().unwrap();
    let before = routed();

    // While it is measured, packets are forwarded as always.
    let began = Instant::now();
    let start = json!({ "request": "timing_start", "seconds": 60 });
    assert_eq!(ask(&switch, &start), json!({ "ok": {} }));
    assert_eq!(ask(&switch, &start)["error"]["code"], "busy");
    for _ in 0..PACKETS / 20 {
        (0..20).for_each(|_| wires.send(1, &frame));
        wires.settle();
    }
    wires.send(1, &frame);
    wires.settle().only(&after, [false, false, true, false]);
    let (timing, passed) = (show(&switch), began.elapsed());
    // Those by which the test waits are routed, too.
    let during = routed() - before;
    assert!(during > PACKETS);
    let own = of(&timing, "l3_forward.route");
    let number = |own: &Json, what: &str| own[what].as_u64().unwrap();
    assert_eq!(number(own, "count"), during, "{timing:#}");
    assert_eq!(own["engine"], if driver == "afpacket" { "worker" } else { driver });
    let mut all = 0;
    for own in timing["ppfs"].as_array().unwrap() {
        let buckets = own["buckets"].as_array().unwrap();
        let counts: u64 = buckets.iter().map(|bucket| number(bucket, "count")).sum();
        assert_eq!(counts, number(own, "count"), "{own:#}");
        let [half, most, nearly] = ["p50_ns", "p90_ns", "p99_ns"].map(|what| number(own, what));
        assert!(0 < half && half <= most && most <= nearly, "{own:#}");
        // No interval is shorter than its bucket says, nor longer.
        let total = number(own, "total_ns");
        let longest: u64 = buckets.iter().map(|bucket| number(bucket, "count") * number(bucket, "below_ns")).sum();
        // The last one has all that is longer, as where a worker's thread waits for a processor.
        let is_beyond = buckets.last().is_some_and(|last| number(last, "below_ns") == 1 << 24);
        assert!((total < longest || is_beyond) && total + counts * 8 > longest / 2, "{own:#}");
        all += total;
    }
    // Of packets that came one after the other, on one processor at a time.
    assert!(u128::from(all) < passed.as_nanos(), "{all} ns of {passed:?}");

    // Each of those to another host was looked up among the routes, and found one; those to nowhere find none.
    let routes = || {
        let timing = show(&switch);
        let own = timing["tables"].as_array().unwrap().iter().find(|own| own["table"] == "l3_forward.fib").cloned();
        own.map(|own| [number(&own, "count"), number(&own, "missed")]).unwrap_or_else(|| panic!("{timing:#}"))
    };
    assert_eq!(routes(), [PACKETS + 1, 0]);
    let nowhere = Ipv4::new(IP[0], [198, 51, 100, 9], &[7; 60]).frame(ROUTER[0], MAC[0]);
    (0..NOWHERE).for_each(|_| wires.send(1, &nowhere));
    wires.settle();
    let during = routed() - before;
    assert_eq!(routes(), [PACKETS + 1 + NOWHERE, NOWHERE]);

    // Monitoring systems see it meanwhile.
    let metrics = switch.ask(&["metrics", "--openmetrics"]).ok();
    let count = metrics
        .lines()
        .find(|line| line.starts_with("millrace_ppf_time_seconds_count{") && line.contains("ppf=\"l3_forward.route\""));
    assert_eq!(count.and_then(|line| line.split(' ').next_back()), Some(&*during.to_string()), "{metrics}");
    let missed = metrics.lines().find(|line| {
        line.starts_with("millrace_table_missed_look_ups_total{") && line.contains("table=\"l3_forward.fib\"")
    });
    assert_eq!(missed.and_then(|line| line.split(' ').next_back()), Some(&*NOWHERE.to_string()), "{metrics}");

    // A reload of the configuration does not end it, and what was measured outlasts its end.
    switch.reload(&[]).ok();
    assert_eq!(number(of(&show(&switch), "l3_forward.route"), "count"), during);
    assert_eq!(ask(&switch, &json!({ "request": "timing_stop" })), json!({ "ok": {} }));
    eventually("it is still measured", || (number(&show(&switch), "left_ms") == 0).then_some(()));
    assert_eq!(of(&show(&switch), "l3_forward.route")["count"], during);
    let metrics = switch.ask(&["metrics", "--openmetrics"]).ok();
    assert!(!metrics.contains("millrace_ppf_time_seconds_count"), "{metrics}");
    wires.send(1, &frame);
    wires.settle().only(&after, [false, false, true, false]);
    assert!(routed() > before + during);

    // A trace says from then on what is usual.
    switch.ask(&["trace", "add", "1", "--port", "p1"]).ok();
    let trace = eventually("no trace", || {
        wires.send(1, &frame);
        let found = switch.ask_json(&["trace", "show"]);
        (found["wanted"] == 0).then(|| found["traces"][0].clone())
    });
    let steps = trace["steps"].as_array().unwrap();
    let entered = steps.iter().find(|step| step["ppf"] == "l3_forward.route").unwrap();
    assert_eq!(entered["usual_ns"], of(&show(&switch), "l3_forward.route")["p50_ns"], "{entered}");
    assert!(switch.ask(&["trace", "show"]).ok().contains(" bytes, usually <"));

    // On the command line it is one command.
    let wrong = switch.ask(&["timing", "--ppf", "l3_forward.rout"]).failed(1);
    assert!(wrong.contains("there is no PPF l3_forward.rout\n  PPFs: "), "{wrong}");
    let said = std::thread::scope(|scope| {
        let asked = scope.spawn(|| switch.ask(&["timing", "--for", "2", "--ppf", "l3_forward.route"]).ok());
        while !asked.is_finished() {
            wires.send(1, &frame);
            std::thread::sleep(Duration::from_millis(5));
        }
        asked.join().unwrap()
    });
    let line = said.lines().find(|line| line.trim_start().starts_with("l3_forward.route ")).unwrap_or_default();
    assert!(line.contains(" ns") && line.contains('%'), "{said}");
    assert!(said.contains("l3_forward.route (") && said.contains('█'), "{said}");
    switch.stop();
}

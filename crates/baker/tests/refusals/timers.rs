//! Timers.

use crate::support::{Case, refused};

/// A module with tables and this timer.
fn timer(timer: &str) -> String {
    let timer: String = timer.lines().map(|line| format!("    {line}\n")).collect();
    format!(
        "import \"net/ether\";

struct station_t {{ port : u8; learned : u64; }}
struct pair_t {{ a : u8; b : u16; }}
drop_reason done;

module m {{
    in  ether input;
    out ether output;
    array<u64> slots[8];
    hash<mac_addr_t, station_t> stations[1024];
    hash<pair_t, u32> pairs[1024];
    set<mac_addr_t> known[16];
    lpm<u32, u32> routes[8];
    const u64 PERIOD = 5s;

    ppf work(ether_packet_t *pkt) from input {{
        channel_put(output, pkt);
    }}
{timer}}}

program {{
    rx -> m.input;
    m.output -> tx;
}}
"
    )
}

#[test]
fn timers() {
    fn case<'a>(name: &'a str, codes: &'a [&'a str], text: &str) -> Case<'a> {
        (name, codes, timer(text))
    }
    refused(&[
        case("timer-over-lpm", &["wrong-table"], "timer t(u32 key, u32 *value) over routes every 1s { }"),
        case("deadline-over-nothing", &["no-deadline"], "timer t() at deadline { }"),
        case(
            "deadline-without-the-word",
            &["expected-token"],
            "timer t(mac_addr_t mac, station_t *s) over stations at 30s { }",
        ),
        case(
            "deadline-twice",
            &["second-deadline"],
            "timer t(mac_addr_t mac, station_t *s) over stations at deadline { }\n\
             timer u(mac_addr_t mac, station_t *s) over stations at deadline { }",
        ),
        case(
            "deadline-of-a-table-without",
            &["no-deadline"],
            "timer t() every 1s {\n    timer_set(stations[1], now_ns() + 1s);\n}",
        ),
        case(
            "deadline-of-no-entry",
            &["not-an-entry"],
            "timer t(mac_addr_t mac, station_t *s) over stations at deadline {\n    timer_set(s, now_ns() + 1s);\n}",
        ),
        case(
            "deadline-while-locked",
            &["in-critical"],
            "timer t(mac_addr_t mac, station_t *s) over stations at deadline {\n    critical (s) {\n        \
             timer_cancel(stations[mac]);\n    }\n}",
        ),
        case("timer-over-nothing", &["unknown-name"], "timer t(u32 key, u32 *value) over route every 1s { }"),
        case("timer-over-a-channel", &["wrong-kind-of-name"], "timer t() over output every 1s { }"),
        case("timer-with-parameters", &["timer-parameters"], "timer t(u32 n) every 1s { }"),
        case("timer-without-key", &["timer-parameters"], "timer t() over stations every 1s { }"),
        case("timer-without-entry", &["timer-parameters"], "timer t(mac_addr_t mac) over stations every 1s { }"),
        case(
            "timer-entry-as-value",
            &["timer-parameters"],
            "timer t(mac_addr_t mac, station_t s) over stations every 1s { }",
        ),
        case("timer-wrong-key", &["timer-parameters"], "timer t(u32 mac, station_t *s) over stations every 1s { }"),
        case("timer-wrong-entry", &["timer-parameters"], "timer t(mac_addr_t mac, u8 *s) over stations every 1s { }"),
        case("timer-wrong-index", &["timer-parameters"], "timer t(u8 i, u64 *s) over slots every 1s { }"),
        case("timer-set-with-entry", &["timer-parameters"], "timer t(mac_addr_t mac, bool *b) over known every 1s { }"),
        case("timer-too-often", &["bad-period"], "timer t() every 10us { }"),
        case("timer-without-time", &["bad-period"], "timer t() every 0 { }"),
        case("timer-variable-time", &["unknown-name"], "timer t() every now { }"),
        case("timer-without-every", &["expected-token"], "timer t() { }"),
        case("timer-named-twice", &["duplicate-name"], "timer known() every PERIOD { }"),
        case("timer-returns", &["return-value"], "timer t() every PERIOD { return 1; }"),
        case(
            "timer-loses-a-packet",
            &["handle-lost"],
            "timer t() every 1s {\n    ether_packet_t *pkt = packet_create();\n}",
        ),
        case(
            "timer-drops-a-key",
            &["not-a-packet"],
            "timer t(mac_addr_t mac) over known every 1s {\n    packet_drop(mac, done);\n}",
        ),
        case(
            "timer-sets-its-key",
            &["unknown-name"],
            "timer t(mac_addr_t mac) over known every 1s {\n    mac2 = mac;\n}",
        ),
        case("timer-called", &["wrong-kind-of-name"], "timer t() every 1s { }\ntimer u() every 1s { t(); }"),
        case(
            "timer-too-long",
            &["too-many-steps"],
            "timer t(u32 i, u64 *slot) over slots every 1s {\n    for (u32 a = 0; a < 4096; a++) {\n        for (u32 b = 0; b < 100; b++) { *slot += a * b; }\n    }\n}",
        ),
        case(
            "timer-too-many-packets",
            &["too-many-copies"],
            "timer t() every 1s {\n    for (u32 a = 0; a < 4000; a++) {\n        ether_packet_t *pkt = packet_create();\n        channel_put(output, pkt);\n    }\n}",
        ),
        case(
            "timer-calls-with-an-entry-locked",
            &["in-critical"],
            "extern u64 limit(u32 i);\ntimer t(u32 i, u64 *slot) over slots every 1s {\n    critical (slot) { *slot = limit(i); }\n}",
        ),
        case("timer-outside", &["outside-module"], "}\ntimer t() every 1s { }\nmodule n {"),
    ]);
}

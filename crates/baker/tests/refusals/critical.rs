//! Critical sections.

use crate::support::{module, refused};

/// A PPF with a pointer `hop` to an entry, which was tested, and this behind it.
fn with_entry(rest: &str) -> String {
    let indented = |text: &str| text.lines().map(|line| format!("    {line}\n")).collect::<String>();
    module(&format!(
        "counter seen;\nmeter all rate 5 burst 5;\nu32 flow(u32 key) {{\n    u32 *n = flows[key];\n    return n == null ? 0 : *n;\n}}\nu8 same(u8 port) {{\n    return port;\n}}\nppf work(ether_packet_t *pkt) from input {{\n    hop_t *hop = hops[pkt->metadata.rx.port];\n    if (hop == null) {{ packet_drop(pkt, too_old); return; }}\n{}}}",
        indented(rest)
    ))
}

/// These statements in a critical section, and the packet put out behind it.
fn locked(inside: &str) -> String {
    let inside: String = inside.lines().map(|line| format!("    {line}\n")).collect();
    with_entry(&format!("critical (hop) {{\n{inside}}}\nchannel_put(output, pkt);"))
}

#[test]
fn what_stands_in_a_critical_section() {
    let one: &[&str] = &["in-critical"];
    refused(&[
        ("critical-look-up", one, locked("u32 *n = flows[5];\nif (n != null)\n    hop->port = (u8) *n;")),
        ("critical-array", one, locked("hop->port = hops[1].port;")),
        ("critical-array-set", one, locked("hops[1].port = hop->port;")),
        ("critical-insertion", one, locked("flows[5] = 5;")),
        ("critical-removal", one, locked("table_remove(flows, 5);")),
        ("critical-put", one, locked("channel_put(output, packet_copy(pkt));")),
        ("critical-drop", one, with_entry("critical (hop) {\n    packet_drop(pkt, too_old);\n}")),
        ("critical-rebound", one, locked("pkt = packet_encap(pkt);")),
        ("critical-peek", one, locked("ipv4_packet_t *ip = packet_peek(pkt);\nhop->port = ip->ttl;")),
        ("critical-load", one, locked("u8 *byte = packet_load(pkt, 20);\nif (byte != null)\n    hop->port = *byte;")),
        ("critical-counter", one, locked("counter_add(seen, 1);")),
        ("critical-meter", one, locked("if (meter_take(all, 1))\n    hop->port = 1;")),
        ("critical-function", one, locked("hop->port = same(hop->port) + (u8) flow(1);")),
        ("critical-nested", one, locked("critical (hop) {\n    hop->port = 1;\n}")),
        (
            "critical-return",
            &["leaves-critical"],
            with_entry(
                "channel_put(output, pkt);\ncritical (hop) {\n    if (hop->port == 1)\n        return;\n    hop->port = 1;\n}",
            ),
        ),
        (
            "critical-break",
            &["leaves-critical"],
            with_entry(
                "for (u32 i = 0; i < 4; i++) {\n    critical (hop) {\n        if (hop->port == i)\n            break;\n        hop->port += 1;\n    }\n}\nchannel_put(output, pkt);",
            ),
        ),
        (
            "critical-continue",
            &["leaves-critical"],
            with_entry(
                "for (u32 i = 0; i < 4; i++) {\n    critical (hop) {\n        switch (hop->port) {\n        case 1:\n            break;\n        default:\n            continue;\n        }\n    }\n}\nchannel_put(output, pkt);",
            ),
        ),
    ]);
}

#[test]
fn what_is_locked() {
    let body =
        |entry: &str| with_entry(&format!("critical ({entry}) {{\n    hop->port = 1;\n}}\nchannel_put(output, pkt);"));
    refused(&[
        ("critical-number", &["not-an-entry"], body("5")),
        ("critical-value", &["not-an-entry"], body("hop->port")),
        ("critical-packet", &["not-an-entry"], body("pkt")),
        (
            "critical-loaded",
            &["not-an-entry"],
            with_entry(
                "u8 *byte = packet_load(pkt, 20);\nif (byte != null) {\n    critical (byte) {\n        hop->port = 1;\n    }\n}\nchannel_put(output, pkt);",
            ),
        ),
        ("critical-untested", &["pointer-untested"], body("hops[pkt->metadata.rx.port]")),
        (
            "critical-untested-pointer",
            &["pointer-untested"],
            with_entry("u32 *n = flows[5];\ncritical (n) {\n    hop->port = 1;\n}\nchannel_put(output, pkt);"),
        ),
    ]);
}

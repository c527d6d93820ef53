//! Hold tables: how they are declared, and that what they give is tested.

use crate::support::{module, refused};

/// A module with a hold table and a PPF with this body.
fn held(body: &str) -> String {
    let body = body.replace('\n', "\n    ");
    module(&format!("hold<ether> recent[16] of 8;\nppf work(ether_packet_t *pkt) from input {{\n    {body}\n}}"))
}

/// The same with this declaration, which nothing uses.
fn declared(table: &str) -> String {
    module(&format!("{table}\nppf work(ether_packet_t *pkt) from input {{\n    channel_put(output, pkt);\n}}"))
}

#[test]
fn declarations() {
    refused(&[
        ("hold-without-of", &["hold-without-of"], declared("hold<ether> recent[16];")),
        ("hold-of-two-types", &["table-types"], declared("hold<ether, u8> recent[16] of 8;")),
        ("hold-of-no-protocol", &["unknown-name"], declared("hold<ethre> recent[16] of 8;")),
        ("hold-idle", &["bad-hold"], declared("hold<ether> recent[16] of 8 idle 5s;")),
        ("of-without-hold", &["of-without-hold"], declared("array<u8> recent[16] of 8;")),
    ]);
}

#[test]
fn calls() {
    refused(&[
        ("hold-put-elsewhere", &["not-a-hold"], held("hold_put(hops, 1, pkt);")),
        ("hold-looked-up", &["not-a-table"], held("pkt->type = recent[1];\nchannel_put(output, pkt);")),
        (
            "hold-of-another-protocol",
            &["protocol-mismatch"],
            held("ipv4_packet_t *ip = packet_decap(pkt);\nhold_put(recent, 1, ip);"),
        ),
        ("hold-put-and-used", &["handle-used-after"], held("hold_put(recent, 1, pkt);\nchannel_put(output, pkt);")),
        (
            "hold-untested",
            &["pointer-untested"],
            held("ether_packet_t *old = hold_get(recent, 1);\nchannel_put(output, old);\nchannel_put(output, pkt);"),
        ),
        (
            "hold-tested-late",
            &["pointer-untested"],
            held(
                "ether_packet_t *old = hold_get(recent, 1);\npkt->type = 1;\nif (old != null)\n    channel_put(output, old);\n\
                 channel_put(output, pkt);",
            ),
        ),
        (
            "hold-unnamed",
            &["pointer-untested"],
            held("channel_put(output, hold_get(recent, 1));\nchannel_put(output, pkt);"),
        ),
        (
            "hold-used-where-null",
            &["handle-null"],
            held(
                "ether_packet_t *old = hold_get(recent, 1);\nif (old == null) {\n    channel_put(output, old);\n    \
                 packet_drop(pkt, too_old);\n    return;\n}\nchannel_put(output, old);\nchannel_put(output, pkt);",
            ),
        ),
        (
            "hold-lost",
            &["handle-lost"],
            held(
                "ether_packet_t *old = hold_get(recent, 1);\nif (old != null)\n    old->type = 1;\nchannel_put(output, pkt);",
            ),
        ),
    ]);
}

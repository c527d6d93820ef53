//! Drop reasons as values.

use crate::support::{module, ppf, refused};

/// A module with this item in front of a PPF that passes all.
fn passing(item: &str) -> String {
    module(&format!("{item}\n\nppf work(ether_packet_t *pkt) from input {{\n    channel_put(output, pkt);\n}}"))
}

#[test]
fn reasons() {
    let then_drop = |body: &str| ppf(&format!("{body}\npacket_drop(pkt, too_old);"));
    refused(&[
        (
            "reasons-with-one-value",
            &["reason-value"],
            then_drop("").replace("drop_reason too_old;", "drop_reason too_old, costarring, liquid;"),
        ),
        ("reason-from-a-number", &["type-mismatch"], then_drop("drop_reason why = 5;\npkt->metadata.mark = 1;")),
        ("reason-into-a-number", &["type-mismatch"], then_drop("u32 why = too_old;\npkt->metadata.mark = (u16) why;")),
        ("packet-used-after-its-end", &["handle-used-after"], then_drop("packet_end(pkt);")),
        ("end-of-a-number", &["not-a-packet"], then_drop("packet_end(5);")),
        ("require-as-a-value", &["no-result"], then_drop("bool held = packet_require(true, too_old);")),
        ("require-by-a-number", &["type-mismatch"], then_drop("packet_require(pkt->type == 5, 7);")),
        ("require-a-packet", &["wrong-arguments"], then_drop("packet_require(pkt, pkt->type == 5, too_old);")),
        (
            "require-while-locked",
            &["in-critical"],
            then_drop(
                "u32 *flow = flows[1];\nif (flow != null) {\n    critical (flow) {\n        \
                 packet_require(*flow == 1, too_old);\n    }\n}",
            ),
        ),
        (
            "require-the-other-way-round",
            &["pointer-untested"],
            then_drop(
                "u32 *flow = flows[1];\npacket_require(flow == null, too_old);\npkt->metadata.mark = (u16) *flow;",
            ),
        ),
        ("reason-cast", &["bad-cast"], then_drop("pkt->metadata.mark = (u16) too_old;")),
        ("reason-to-a-reason", &["bad-cast"], then_drop("drop_reason why = (drop_reason) pkt->metadata.mark;")),
        ("reason-as-a-condition", &["bad-condition"], then_drop("drop_reason why;\nif (why)\n    why = too_old;")),
        ("reasons-have-no-order", &["not-comparable"], then_drop("bool later = too_old > no_reason;")),
        ("reason-and-a-number", &["type-mismatch"], then_drop("bool same = too_old == 7;")),
        ("reason-computed-with", &["not-a-number"], then_drop("drop_reason why = too_old + no_reason;")),
        ("drop-by-a-number", &["type-mismatch"], ppf("packet_drop(pkt, pkt->metadata.mark);")),
        (
            "drop-by-a-loaded-number",
            &["pointer-as-value"],
            ppf("u32 *flow = flows[1];\ndrop_reason why = flow;\npacket_drop(pkt, why);"),
        ),
        (
            "reason-without-a-packet",
            &["handle-used-after"],
            ppf("packet_drop(pkt, too_old);\nif (pkt->metadata.mark == 1)\n    return;"),
        ),
        ("const-reason", &["bad-constant-type"], passing("const drop_reason WHY = too_old;")),
        (
            "switch-over-reasons",
            &["bad-switch"],
            then_drop("drop_reason why;\nswitch (why) {\ncase 1:\n    return;\n}"),
        ),
        ("reason-of-a-controller", &["bad-extern-type"], passing("extern drop_reason judge(u32 x);")),
    ]);
}

//! Groups: how they are declared, and what is done with packets behind them.

use crate::support::{module, refused};

/// A module with a group and two PPFs with these bodies, the second one behind the group.
fn grouped(first: &str, second: &str) -> String {
    let [first, second] = [first, second].map(|body| body.replace('\n', "\n    "));
    module(&format!(
        "channel ether to_one;\ngroup<hop_t> viewers[4] of 8;\ngroup<u32> all of 8;\nppf work(ether_packet_t *pkt) from input {{\n    \
         {first}\n}}\nppf one(ether_packet_t *pkt) from to_one {{\n    {second}\n}}"
    ))
}

/// The same with this declaration, which nothing uses.
fn declared(table: &str) -> String {
    module(&format!("{table}\nppf work(ether_packet_t *pkt) from input {{\n    channel_put(output, pkt);\n}}"))
}

#[test]
fn declarations() {
    refused(&[
        ("group-without-of", &["group-without-of"], declared("group<hop_t> viewers[4];")),
        ("group-of-two-types", &["table-types"], declared("group<u32, hop_t> viewers[4] of 8;")),
        ("group-idle", &["bad-group"], declared("group<hop_t> viewers[4] of 8 idle 5s;")),
        ("group-into", &["bad-group"], declared("group<u32> viewers[4] of 8 into hops;")),
        ("group-too-large", &["size-out-of-range"], declared("group<u32> viewers[4] of 2_000_000;")),
        ("group-of-packets", &["handle-without-star"], declared("group<ether_packet_t> viewers[4] of 8;")),
        (
            "group-metadata-taken",
            &["reserved-name"],
            declared("group<u32> viewers[4] of 8;").replace("mark : u16", "mark : u16; member : u8"),
        ),
        ("group-names-of-one-hash", &["group-hash"], declared("group<u32> pizhpc of 8;\ngroup<u32> rnsjfy of 8;")),
    ]);
}

#[test]
fn calls() {
    const PUT: &str = "channel_put_all(to_one, viewers[1], pkt);";
    const DROP: &str = "packet_drop(pkt, too_old);";
    refused(&[
        ("put-into-no-group", &["not-a-group"], grouped("channel_put_all(to_one, flows[1], pkt);", DROP)),
        ("put-into-which-group", &["cell-index"], grouped("channel_put_all(to_one, viewers, pkt);", DROP)),
        (
            "put-into-group-and-used",
            &["handle-used-after"],
            grouped(&format!("{PUT}\nchannel_put(output, pkt);"), DROP),
        ),
        (
            "put-into-group-of-another-protocol",
            &["protocol-mismatch"],
            grouped("ipv4_packet_t *ip = packet_decap(pkt);\nchannel_put_all(to_one, all, ip);", DROP),
        ),
        ("put-into-group-in-a-circle", &["channel-cycle"], grouped(PUT, "channel_put_all(to_one, all, pkt);")),
        ("group-looked-up", &["not-a-table"], grouped(PUT, "pkt->dst = viewers[1].mac;\nchannel_put(output, pkt);")),
        ("group-as-a-value", &["not-a-value"], grouped(PUT, "pkt->type = all;\nchannel_put(output, pkt);")),
        (
            "member-untested",
            &["pointer-untested"],
            grouped(PUT, "hop_t *hop = group_member(viewers, pkt);\npkt->dst = hop->mac;\nchannel_put(output, pkt);"),
        ),
        (
            "member-of-no-group",
            &["not-a-group"],
            grouped(PUT, "hop_t *hop = group_member(hops, pkt);\nchannel_put(output, pkt);"),
        ),
        (
            "member-of-another-type",
            &["type-mismatch"],
            grouped(PUT, "u32 *hop = group_member(viewers, pkt);\nchannel_put(output, pkt);"),
        ),
        ("member-unused", &["unused-result"], grouped(PUT, &format!("group_member(viewers, pkt);\n{DROP}"))),
        (
            "member-of-a-packet-that-is-gone",
            &["handle-used-after"],
            grouped(PUT, "channel_put(output, pkt);\nu32 *one = group_member(all, pkt);"),
        ),
        (
            "member-in-a-critical-section",
            &["in-critical"],
            grouped(
                PUT,
                "hop_t *hop = group_member(viewers, pkt);\nif (hop != null) {\n    critical (hop) {\n        u32 *one = \
                 group_member(all, pkt);\n        if (one != null)\n            hop->port = 1;\n    }\n}\nchannel_put(output, \
                 pkt);",
            ),
        ),
        ("member-number-set", &["read-only"], grouped(PUT, "pkt->metadata.member = 1;\nchannel_put(output, pkt);")),
        ("table-insert-group", &["wrong-table"], grouped(PUT, "table_remove(viewers, 1);\nchannel_put(output, pkt);")),
    ]);
}

//! A handle is consumed exactly once on every path.

use crate::support::{module, ppf, refused};

#[test]
fn handles() {
    refused(&[
        ("handle-lost", &["handle-lost"], ppf("pkt->type = 5;")),
        (
            "handle-lost-by-return",
            &["handle-lost"],
            ppf("if (pkt->type == 5)\n    return;\npacket_drop(pkt, too_old);"),
        ),
        (
            "handle-lost-in-a-case",
            &["handle-lost-on-a-path"],
            ppf(
                "switch (pkt->type) {\ncase 5:\n    channel_put(output, pkt);\ncase 6:\n    packet_drop(pkt, too_old);\n}",
            ),
        ),
        (
            "handle-used-after-a-case",
            &["handle-perhaps-gone"],
            ppf(
                "switch (pkt->type) {\ncase 5:\n    channel_put(output, pkt);\n    break;\n}\nchannel_put(output, pkt);",
            ),
        ),
        ("handle-lost-variable", &["handle-lost"], ppf("ipv4_packet_t *ip = packet_decap(pkt);\nip->ttl = 64;")),
        (
            "handle-lost-in-block",
            &["handle-lost"],
            ppf("{\n    ether_packet_t *copy = packet_copy(pkt);\n    copy->type = 5;\n}\nchannel_put(output, pkt);"),
        ),
        ("handle-lost-at-once", &["handle-lost"], ppf("packet_copy(pkt);\nchannel_put(output, pkt);")),
        (
            "handle-lost-by-break",
            &["handle-lost"],
            ppf(
                "for (u32 i = 0; i < 4; i++) {\n    ether_packet_t *copy = packet_copy(pkt);\n    if (pkt->type == i)\n        break;\n    channel_put(output, copy);\n}\npacket_drop(pkt, too_old);",
            ),
        ),
        (
            "handle-lost-by-continue",
            &["handle-lost"],
            ppf(
                "for (u32 i = 0; i < 4; i++) {\n    ether_packet_t *copy = packet_copy(pkt);\n    if (pkt->type == i)\n        continue;\n    channel_put(output, copy);\n}\npacket_drop(pkt, too_old);",
            ),
        ),
        (
            "handle-lost-on-a-path",
            &["handle-lost-on-a-path"],
            ppf("if (pkt->type == 5)\n    channel_put(output, pkt);"),
        ),
        (
            "handle-lost-in-one-arm",
            &["handle-lost-on-a-path"],
            ppf(
                "if (pkt->type == 5) {\n    channel_put(output, pkt);\n} else if (pkt->type == 6) {\n    pkt->metadata.mark = 1;\n} else {\n    packet_drop(pkt, too_old);\n}",
            ),
        ),
        ("handle-used-after", &["handle-used-after"], ppf("channel_put(output, pkt);\npkt->metadata.mark = 1;")),
        (
            "handle-used-after-decap",
            &["handle-used-after"],
            ppf(
                "ipv4_packet_t *ip = packet_decap(pkt);\nif (pkt->type == 5)\n    ip->ttl = 1;\nchannel_put(routed, ip);",
            ),
        ),
        (
            "handle-used-after-a-move",
            &["handle-used-after"],
            ppf(
                "ether_packet_t *other = pkt;\nu32 length = packet_length(pkt);\nother->metadata.mark = (u16) length;\nchannel_put(output, other);",
            ),
        ),
        ("handle-consumed-twice", &["handle-used-after"], ppf("channel_put(output, pkt);\npacket_drop(pkt, too_old);")),
        (
            "handle-perhaps-gone",
            &["handle-perhaps-gone"],
            ppf("if (pkt->type == 5)\n    channel_put(output, pkt);\nchannel_put(output, pkt);"),
        ),
        (
            "handle-perhaps-gone-when-read",
            &["handle-perhaps-gone"],
            ppf(
                "if (pkt->type == 5)\n    channel_put(output, pkt);\nif (pkt->type == 6)\n    packet_drop(pkt, too_old);",
            ),
        ),
        (
            "handle-consumed-in-loop",
            &["handle-consumed-in-loop"],
            ppf("for (u32 i = 0; i < 4; i++) {\n    if (pkt->type == i)\n        channel_put(output, pkt);\n}"),
        ),
        (
            "handle-consumed-by-continue",
            &["handle-consumed-in-loop"],
            ppf("for (u32 i = 0; i < 4; i++) {\n    channel_put(output, pkt);\n    continue;\n}"),
        ),
        (
            "handle-consumed-before-break",
            &["handle-perhaps-gone"],
            ppf(
                "for (u32 i = 0; i < 4; i++) {\n    if (pkt->type == i) {\n        channel_put(output, pkt);\n        break;\n    }\n}\npacket_drop(pkt, too_old);",
            ),
        ),
        (
            "handle-lent",
            &["handle-lent"],
            module(
                "void give_away(ether_packet_t *lent) {\n    channel_put(output, lent);\n}\n\nppf work(ether_packet_t *pkt) from input {\n    give_away(pkt);\n    packet_drop(pkt, too_old);\n}",
            ),
        ),
        (
            "handle-lent-to-decap",
            &["handle-lent"],
            module(
                "u8 ttl(ether_packet_t *lent) {\n    ipv4_packet_t *ip = packet_decap(lent);\n    u8 ttl = ip->ttl;\n    packet_drop(ip, too_old);\n    return ttl;\n}\n\nppf work(ether_packet_t *pkt) from input {\n    packet_drop(pkt, too_old);\n}",
            ),
        ),
        (
            "handle-lost-after-lending",
            &["handle-lost"],
            module(
                "void mark(ether_packet_t *lent) {\n    lent->metadata.mark = 1;\n}\n\nppf work(ether_packet_t *pkt) from input {\n    mark(pkt);\n}",
            ),
        ),
        (
            "handle-assigned",
            &["handle-assigned"],
            ppf("ether_packet_t *copy = packet_copy(pkt);\ncopy = pkt;\nchannel_put(output, copy);"),
        ),
        (
            "handle-without-star",
            &["handle-without-star"],
            module("ppf work(ether_packet_t pkt) from input {\n    packet_drop(pkt, too_old);\n}"),
        ),
        ("handle-uninitialised", &["uninitialised"], ppf("ipv4_packet_t *ip;\npacket_drop(pkt, too_old);")),
        (
            "packet-choice",
            &["packet-choice"],
            ppf("ether_packet_t *copy = packet_copy(pkt);\nchannel_put(output, pkt->type == 5 ? pkt : copy);"),
        ),
        (
            "packet-unnamed-field",
            &["unnamed-packet"],
            ppf("u16 type = packet_copy(pkt)->type;\npacket_drop(pkt, too_old);"),
        ),
        (
            "packet-unnamed-metadata",
            &["unnamed-packet"],
            ppf("packet_copy(pkt)->metadata.mark = 1;\npacket_drop(pkt, too_old);"),
        ),
        (
            "packet-unnamed-argument",
            &["unnamed-packet"],
            ppf("u32 length = packet_length(packet_copy(pkt));\npacket_drop(pkt, too_old);"),
        ),
        (
            "packet-compared-with-null",
            &["handle-not-null"],
            ppf("if (pkt == null)\n    return;\npacket_drop(pkt, too_old);"),
        ),
        (
            "packets-compared",
            &["not-comparable"],
            ppf("ether_packet_t *copy = packet_copy(pkt);\nif (copy == pkt)\n    return;"),
        ),
        ("decap-of-unknown-protocol", &["unknown-target"], ppf("packet_decap(pkt);")),
        (
            "decap-to-another-protocol",
            &["protocol-mismatch"],
            ppf("ipv4_packet_t *ip = packet_decap(pkt);\nchannel_put(output, ip);"),
        ),
        ("drop-of-a-number", &["not-a-packet"], ppf("packet_drop(5, too_old);\npacket_drop(pkt, too_old);")),
        (
            "metadata-of-a-number",
            &["not-a-packet"],
            ppf("u32 n = 5;\nn->metadata.mark = 1;\npacket_drop(pkt, too_old);"),
        ),
        ("unreachable", &["unreachable"], ppf("packet_drop(pkt, too_old);\nreturn;\nu32 x = 1;\nx += 1;")),
        (
            "unreachable-after-if",
            &["unreachable"],
            ppf(
                "if (pkt->type == 5) {\n    channel_put(output, pkt);\n    return;\n} else {\n    packet_drop(pkt, too_old);\n    return;\n}\npkt->type = 5;",
            ),
        ),
        (
            "unreachable-in-loop",
            &["unreachable"],
            ppf("for (u32 i = 0; i < 4; i++) {\n    break;\n    pkt->type = 5;\n}\nchannel_put(output, pkt);"),
        ),
    ]);
}

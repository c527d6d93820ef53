//! Handles that look into packets, bytes loaded from packets, packets that change their length, checksums.

use crate::support::{module, ppf, refused};

/// A PPF that holds the packet `ip`; `tcp` is a protocol with a payload checksum.
fn with_tcp(body: &str) -> String {
    let body = body.replace('\n', "\n    ");
    let tcp =
        "protocol tcp {\n    port : 16;\n    checksum : 16 covers { pseudo, header, payload };\n    demux { 4 };\n}\n";
    format!(
        "{tcp}{}",
        module(&format!(
            "ppf work(ether_packet_t *pkt) from input {{\n    ipv4_packet_t *ip = packet_decap(pkt);\n    {body}\n}}"
        ))
    )
}

#[test]
fn peeked() {
    refused(&[
        (
            "peeked-put",
            &["handle-peeked"],
            ppf("ipv4_packet_t *ip = packet_peek(pkt);\nchannel_put(routed, ip);\nchannel_put(output, pkt);"),
        ),
        (
            "peeked-decapped",
            &["handle-peeked"],
            ppf(
                "ipv4_packet_t *ip = packet_peek(pkt);\nether_packet_t *inner = packet_decap(ip);\nchannel_put(output, inner);\nchannel_put(output, pkt);",
            ),
        ),
        (
            "peeked-moved",
            &["handle-peeked"],
            ppf(
                "ipv4_packet_t *ip = packet_peek(pkt);\nipv4_packet_t *again = ip;\nchannel_put(routed, again);\nchannel_put(output, pkt);",
            ),
        ),
        (
            "peeked-after-its-packet",
            &["handle-used-after"],
            ppf("ipv4_packet_t *ip = packet_peek(pkt);\nchannel_put(output, pkt);\nip->ttl = 1;"),
        ),
        (
            "peeked-after-decap",
            &["handle-used-after"],
            ppf(
                "ipv4_packet_t *ip = packet_peek(pkt);\nipv4_packet_t *own = packet_decap(pkt);\nip->ttl = 1;\nchannel_put(routed, own);",
            ),
        ),
        (
            "peeked-perhaps-gone",
            &["handle-perhaps-gone"],
            ppf(
                "ipv4_packet_t *ip = packet_peek(pkt);\nif (ip->ttl == 0) {\n    packet_drop(pkt, too_old);\n    pkt = packet_create();\n}\nip->ttl = 1;\nchannel_put(output, pkt);",
            ),
        ),
        (
            "peeked-after-a-trim",
            &["handle-used-after"],
            ppf(
                "ipv4_packet_t *ip = packet_peek(pkt);\nif (packet_trim_tail(pkt, 4))\n    pkt->type = ip->ttl;\nchannel_put(output, pkt);",
            ),
        ),
        (
            "peeked-in-a-loop-that-moves-it",
            &["handle-used-after"],
            ppf(
                "ipv4_packet_t *ip = packet_peek(pkt);\nfor (u32 i = 0; i < 2; i++) {\n    ip->ttl = 1;\n    pkt = packet_decap(pkt);\n}\nchannel_put(output, pkt);",
            ),
        ),
        (
            "peeked-unnamed",
            &["unnamed-packet"],
            ppf("channel_put(routed, packet_peek(pkt));\nchannel_put(output, pkt);"),
        ),
        (
            "peeked-assigned",
            &["handle-peeked", "unnamed-packet"],
            ppf("ipv4_packet_t *ip = packet_peek(pkt);\nip = packet_peek(pkt);\nchannel_put(output, pkt);"),
        ),
        ("peeked-of-unknown-protocol", &["unknown-target"], ppf("packet_peek(pkt);\nchannel_put(output, pkt);")),
        (
            "peeked-of-a-peek-after-its-packet",
            &["handle-used-after"],
            with_tcp(
                "tcp_packet_t *tcp = packet_peek(ip);\ntcp_packet_t *inner = packet_peek(tcp, 8);\nchannel_put(routed, ip);\ninner->port = 1;",
            ),
        ),
    ]);
}

#[test]
fn rebound() {
    refused(&[
        (
            "rebound-while-held",
            &["handle-assigned"],
            ppf("pkt = packet_copy(pkt);\nchannel_put(output, pkt);"),
        ),
        (
            "rebound-while-perhaps-held",
            &["handle-assigned"],
            ppf("if (pkt->type == 5)\n    packet_drop(pkt, too_old);\npkt = packet_create();\nchannel_put(output, pkt);"),
        ),
        (
            "rebound-to-another-protocol",
            &["type-mismatch"],
            ppf("ipv4_packet_t *ip = packet_decap(pkt);\nether_packet_t *out = packet_encap(ip);\nip = out;"),
        ),
        (
            "rebound-lent",
            &["handle-lent"],
            module(
                "void inner(ether_packet_t *lent) {\n    lent = packet_decap(lent);\n}\n\nppf work(ether_packet_t *pkt) from input {\n    inner(pkt);\n    channel_put(output, pkt);\n}",
            ),
        ),
        (
            "too-many-headers",
            &["too-many-headers"],
            "import \"net/ether\";\n\nmodule m {\n    in  ether input;\n    out ether output;\n\n    ppf work(ether_packet_t *pkt) from input {\n        for (u32 i = 0; i < 400; i++)\n            pkt = packet_encap(pkt);\n        channel_put(output, pkt);\n    }\n}\n\nprogram {\n    rx -> m.input;\n    m.output -> tx;\n}\n".into(),
        ),
    ]);
}

#[test]
fn loaded() {
    let end = "\nchannel_put(output, pkt);";
    let with = |text: &str| ppf(&format!("{text}{end}"));
    refused(&[
        ("loaded-untested", &["pointer-untested"], with("u16 *port = packet_load(pkt, 34);\npkt->type = *port;")),
        (
            "loaded-tested-the-wrong-way",
            &["pointer-untested"],
            with("u16 *port = packet_load(pkt, 34);\nif (port == null)\n    pkt->type = *port;"),
        ),
        (
            "loaded-part-of-a-byte",
            &["partial-byte"],
            with("u12 *id = packet_load(pkt, 14);\nif (id)\n    pkt->type = *id;"),
        ),
        ("loaded-bool", &["partial-byte"], with("bool *id = packet_load(pkt, 14);\nif (id)\n    pkt->type = *id;")),
        ("loaded-struct", &["partial-byte"], with("hop_t *hop = packet_load(pkt, 14);")),
        ("loaded-nowhere", &["unknown-target"], with("pkt->type = *packet_load(pkt, 14);")),
        ("loaded-as-a-value", &["unknown-target"], with("u16 port = packet_load(pkt, 14);")),
        ("loaded-at-once", &["unknown-target"], with("packet_load(pkt, 14);")),
        (
            "loaded-assigned",
            &["not-assignable"],
            with("u16 *port = packet_load(pkt, 34);\nif (port != null)\n    *port = 80;"),
        ),
        ("loaded-far-off", &["narrowing"], with("u64 far = 1;\nu16 *port = packet_load(pkt, far);")),
        ("stored-untested", &["unused-result"], with("packet_store(pkt, 14, (u8) 1);")),
        ("stored-without-a-type", &["untyped-number"], with("if (packet_store(pkt, 14, 1))\n    pkt->type = 1;")),
        ("stored-part-of-a-byte", &["partial-byte"], with("if (packet_store(pkt, 14, (u7) 1))\n    pkt->type = 1;")),
        ("stored-a-bool", &["partial-byte"], with("if (packet_store(pkt, 14, true))\n    pkt->type = 1;")),
        ("stored-nowhere", &["wrong-arguments"], with("if (packet_store(pkt, (u8) 1))\n    pkt->type = 1;")),
    ]);
}

#[test]
fn resized() {
    let end = "\nchannel_put(output, pkt);";
    let with = |text: &str| ppf(&format!("{text}{end}"));
    refused(&[
        ("grown-untested", &["unused-result"], with("packet_grow_tail(pkt, 4);")),
        ("trimmed-untested", &["unused-result"], with("packet_trim_head(pkt, 4);")),
        ("grown-by-a-signed-number", &["mixed-signs"], with("i32 n = 4;\nif (packet_grow_head(pkt, n))\n    pkt->type = 1;")),
        (
            "grown-lent",
            &["handle-lent"],
            module(&format!(
                "bool pad(ether_packet_t *lent) {{\n    return packet_grow_tail(lent, 4);\n}}\n\nppf work(ether_packet_t *pkt) from input {{\n    if (pad(pkt))\n        pkt->type = 1;{end}\n}}"
            )),
        ),
        (
            "grown-peeked",
            &["handle-peeked"],
            with("ipv4_packet_t *ip = packet_peek(pkt);\nif (packet_grow_tail(ip, 4))\n    pkt->type = 1;"),
        ),
        ("grown-after", &["handle-used-after"], ppf("channel_put(output, pkt);\nif (packet_grow_tail(pkt, 4))\n    return;")),
        ("created-nowhere", &["unknown-target"], with("packet_create();")),
        ("created-of-something", &["wrong-arguments"], with("ipv4_packet_t *ip = packet_create(pkt);")),
        ("created-and-lost", &["handle-lost"], with("ipv4_packet_t *ip = packet_create();")),
        (
            "created-too-often",
            &["too-many-copies"],
            "import \"net/ether\";\n\nmodule m {\n    in  ether input;\n    out ether output;\n\n    ppf work(ether_packet_t *pkt) from input {\n        for (u32 i = 0; i < 2000; i++) {\n            ether_packet_t *made = packet_create();\n            channel_put(output, made);\n        }\n        channel_put(output, pkt);\n    }\n}\n\nprogram {\n    rx -> m.input;\n    m.output -> tx;\n}\n".into(),
        ),
    ]);
}

#[test]
fn checksums() {
    let end = "\nchannel_put(routed, ip);";
    let with = |text: &str| with_tcp(&format!("{text}{end}"));
    refused(&[
        (
            "checksum-of-none",
            &["no-checksum"],
            ppf("if (checksum_ok(pkt))\n    pkt->type = 1;\nchannel_put(output, pkt);"),
        ),
        ("checksum-untested", &["unused-result"], with("checksum_ok(ip);")),
        ("checksum-as-a-value", &["type-mismatch"], with("u16 sum = checksum_set(ip);")),
        ("checksum-of-nothing", &["wrong-arguments"], with("checksum_set();")),
        (
            "checksum-without-pseudo-header",
            &["wrong-arguments"],
            with("tcp_packet_t *tcp = packet_peek(ip);\nchecksum_set(tcp);"),
        ),
        ("checksum-with-pseudo-header", &["wrong-arguments"], with("checksum_set(ip, 5);")),
        ("checksum-adjusted-by-a-number", &["untyped-number"], with("checksum_adjust(ip, 4, 5);")),
        ("checksum-adjusted-by-a-bool", &["type-mismatch"], with("checksum_adjust(ip, true, false);")),
        (
            "checksum-adjusted-to-another-type",
            &["narrowing"],
            with("u32 wide = 5;\nchecksum_adjust(ip, ip->ttl, wide);"),
        ),
    ]);
}

#[test]
fn replaced() {
    let used: &[&str] = &["handle-used-after"];
    let ip = |body: &str| ppf(&format!("ipv4_packet_t *ip = packet_peek(pkt);\n{body}\nchannel_put(output, pkt);"));
    refused(&[
        (
            "replaced-used-after",
            used,
            ip(
                "ipv4_packet_t *inner = packet_peek(ip);\nether_packet_t *other = packet_replace(inner);\ninner->ttl = other->src == 0 ? 1 : 2;",
            ),
        ),
        (
            "replaced-beside-another",
            used,
            ip(
                "ipv4_packet_t *inner = packet_peek(ip);\nipv4_packet_t *third = packet_peek(ip, 40);\nether_packet_t *other = packet_replace(inner);\nthird->ttl = other->src == 0 ? 1 : 2;",
            ),
        ),
        (
            "replaced-in-a-loop",
            used,
            ip(
                "ipv4_packet_t *inner = packet_peek(ip);\nfor (u32 i = 0; i < 2; i++) {\n    ipv4_packet_t *third = packet_peek(ip, 40);\n    third->ttl = inner->ttl;\n    ether_packet_t *other = packet_replace(third);\n    other->type = 1;\n}",
            ),
        ),
        (
            "replaced-on-a-path",
            &["handle-perhaps-gone"],
            ip(
                "if (ip->ttl == 0) {\n    ether_packet_t *other = packet_replace(ip);\n    other->type = 1;\n}\nip->ttl = 1;",
            ),
        ),
        (
            "replaced-lent",
            &["handle-lent"],
            format!(
                "{}{}",
                "void f(ether_packet_t *pkt) {\n    mac_packet_t *ip = packet_peek(pkt);\n    mac_packet_t *other = packet_replace(ip);\n    other->mac = 1;\n}\nprotocol mac {\n    mac : 48;\n    demux { 6 };\n}\n",
                ppf("f(pkt);\nchannel_put(output, pkt);")
            ),
        ),
        (
            "replaced-assigned",
            &["handle-peeked", "handle-peeked"],
            ip("ipv4_packet_t *inner = packet_peek(ip);\nip = packet_replace(inner);"),
        ),
        ("replaced-without-a-type", &["unknown-target"], ppf("packet_drop(packet_replace(pkt), too_old);")),
    ]);
}

#[test]
fn payload_sums() {
    refused(&[
        (
            "payload-sum-not-covered",
            &["no-payload-checksum"],
            with_tcp("u16 sum = checksum_payload(ip);\nip->ttl = (u8) sum;\nchannel_put(routed, ip);"),
        ),
        (
            "payload-sum-without-a-pseudo-header",
            &["wrong-arguments"],
            with_tcp(
                "tcp_packet_t *tcp = packet_peek(ip);\nu16 sum = checksum_payload(tcp);\nip->ttl = (u8) sum;\nchannel_put(routed, ip);",
            ),
        ),
        (
            "payload-sum-wide",
            &["narrowing"],
            with_tcp(
                "tcp_packet_t *tcp = packet_peek(ip);\nu8 sum = checksum_payload(tcp, 1);\nip->ttl = sum;\nchannel_put(routed, ip);",
            ),
        ),
    ]);
}

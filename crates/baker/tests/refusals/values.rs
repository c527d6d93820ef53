//! Values, fields, calls and statements.

use crate::support::{module, ppf, refused};

fn then_put(body: &str) -> String {
    ppf(&format!("{body}\nchannel_put(output, pkt);"))
}

#[test]
fn values() {
    refused(&[
        ("unknown-field", &["unknown-field"], then_put("pkt->typ = 5;")),
        ("unknown-field-of-a-struct", &["unknown-field"], then_put("hop_t hop = hops[1];\nhop.prt = 1;")),
        (
            "unknown-field-of-a-value",
            &["unknown-field"],
            then_put("hop_t hop = hop_t { port: 1, mac: 2, vlan: 3 };\npkt->dst = hop.mac;"),
        ),
        ("missing-field", &["missing-field"], then_put("hop_t hop = hop_t { port: 1 };\npkt->dst = hop.mac;")),
        (
            "field-given-twice",
            &["duplicate-field"],
            then_put("hop_t hop = hop_t { port: 1, mac: 2, port: 3 };\npkt->dst = hop.mac;"),
        ),
        ("local-constant-set", &["not-assignable"], then_put("const u8 PORT = 1;\nPORT = 2;")),
        (
            "local-constant-of-a-variable",
            &["not-constant"],
            then_put("u8 x = 1;\nconst u8 PORT = x;\npkt->type = PORT;"),
        ),
        ("local-constant-of-a-struct", &["bad-constant-type"], then_put("const hop_t HOP = 1;\npkt->type = 1;")),
        ("local-constant-too-great", &["constant-out-of-range"], then_put("const u8 PORT = 256;\npkt->type = PORT;")),
        ("local-constant-twice", &["duplicate-name"], then_put("const u8 A = 1;\nu8 A = 2;\npkt->type = A;")),
        (
            "in-the-library",
            &["unknown-protocol", "unknown-name", "unknown-name"],
            then_put("tcp_packet_t *tcp = packet_peek(pkt);\npkt->type = TCP_SYN;\npkt->type = tcp_mss(tcp);"),
        ),
        ("no-fields", &["no-fields"], then_put("u32 x = 1;\npkt->type = x.low;")),
        ("dot-after-a-handle", &["no-fields"], then_put("pkt.type = 5;")),
        ("unknown-metadata", &["unknown-metadata"], then_put("pkt->metadata.marks = 1;\npkt->metadata.marks += 1;")),
        ("metadata-as-a-whole", &["unknown-metadata"], then_put("u32 x = pkt->metadata;\npkt->type = (u16) x;")),
        ("metadata-half-named", &["unknown-metadata"], then_put("u32 x = pkt->metadata.rx;\npkt->type = (u16) x;")),
        ("read-only", &["read-only"], then_put("pkt->metadata.rx.port = 1;")),
        ("not-assignable", &["not-assignable"], then_put("pkt->type + 1 = 5;")),
        ("not-assignable-constant", &["not-assignable"], then_put("ETH_TYPE_IPV4 = 5;")),
        (
            "not-assignable-entry-field",
            &["not-assignable"],
            module(
                "hop_t first() {\n    return hops[0];\n}\n\nppf work(ether_packet_t *pkt) from input {\n    first().port = 1;\n    channel_put(output, pkt);\n}",
            ),
        ),
        ("no-effect", &["no-effect"], then_put("pkt->type == 5;")),
        ("no-result", &["no-result"], then_put("u32 x = packet_drop(pkt, too_old);\npkt->type = (u16) x;")),
        ("void-variable", &["void-variable"], then_put("void x = 5;")),
        ("return-value-in-a-ppf", &["return-value"], ppf("channel_put(output, pkt);\nreturn 5;")),
        (
            "return-without-value",
            &["return-value"],
            module(
                "u32 f(u32 x) {\n    if (x == 1)\n        return;\n    return x;\n}\n\nppf work(ether_packet_t *pkt) from input {\n    channel_put(output, pkt);\n}",
            ),
        ),
        (
            "missing-return",
            &["missing-return"],
            module(
                "u32 f(u32 x) {\n    if (x == 1)\n        return 2;\n}\n\nppf work(ether_packet_t *pkt) from input {\n    channel_put(output, pkt);\n}",
            ),
        ),
        (
            "wrong-arguments",
            &["wrong-arguments"],
            then_put("bool group = mac_is_group(pkt->dst, 1);\npkt->type = group;"),
        ),
        ("wrong-arguments-of-the-language", &["wrong-arguments"], ppf("packet_drop(pkt);")),
        ("mtu-of-no-port", &["wrong-arguments"], ppf("if (port_mtu() > 0)\n    pkt->type = 1;")),
        (
            "argument-of-another-protocol",
            &["type-mismatch"],
            then_put("bool ok = ipv4_checksum_ok(pkt);\npkt->type = ok;"),
        ),
        ("bad-call", &["bad-call"], then_put("(pkt->type)(1);")),
        ("bad-condition", &["bad-condition"], then_put("if (hops[1])\n    pkt->type = 5;")),
        ("handle-as-condition", &["bad-condition"], then_put("if (pkt)\n    pkt->type = 5;")),
        ("value-of-a-table", &["not-a-value"], then_put("u32 x = flows;\npkt->type = (u16) x;")),
        ("value-of-a-function", &["not-a-value"], then_put("bool x = mac_is_group;\npkt->type = x;")),
        ("value-of-another-module", &["not-a-value"], then_put("u32 x = m.flows;\npkt->type = (u16) x;")),
        ("not-a-table", &["not-a-table"], then_put("u32 x = 1;\nu32 y = x[2];\npkt->type = (u16) y;")),
        ("key-of-another-type", &["type-mismatch"], then_put("if (flows[hops[1]] != null)\n    pkt->type = 5;")),
        ("key-too-wide", &["narrowing"], then_put("if (flows[pkt->dst] != null)\n    pkt->type = 5;")),
        ("remove-from-an-array", &["wrong-table"], then_put("table_remove(hops, 1);")),
        (
            "insert-new-into-an-array",
            &["wrong-table"],
            then_put("table_insert_new(hops, 1, hop_t { port: 1, mac: 1 });"),
        ),
        ("insert-into-nothing", &["wrong-table"], then_put("u32 x = 1;\ntable_insert(x, 1, 1);")),
        (
            "insert-into-lpm",
            &["wrong-table"],
            module(
                "lpm<u32, u32> fib[16];\n\nppf work(ether_packet_t *pkt) from input {\n    fib[1] = 2;\n    channel_put(output, pkt);\n}",
            ),
        ),
        ("not-a-counter", &["not-a-counter"], then_put("counter_add(flows, 1);")),
        (
            "cell-index",
            &["cell-index"],
            module(
                "counter seen[4];\n\nppf work(ether_packet_t *pkt) from input {\n    counter_add(seen, 1);\n    channel_put(output, pkt);\n}",
            ),
        ),
        ("not-a-meter", &["not-a-meter"], then_put("if (!meter_take(flows, 1))\n    pkt->type = 5;")),
        (
            "meter-not-looked-at",
            &["unused-result"],
            module(
                "meter all rate 10 burst 5;\n\nppf work(ether_packet_t *pkt) from input {\n    meter_take(all, 1);\n    channel_put(output, pkt);\n}",
            ),
        ),
        (
            "meter-cell",
            &["cell-index"],
            module(
                "meter each[4] rate 10 burst 5;\n\nppf work(ether_packet_t *pkt) from input {\n    if (meter_take(each, 1))\n        pkt->type = 5;\n    channel_put(output, pkt);\n}",
            ),
        ),
        (
            "meter-as-table",
            &["not-a-table"],
            module(
                "meter each[4] rate 10 burst 5;\n\nppf work(ether_packet_t *pkt) from input {\n    each[1] = 5;\n    channel_put(output, pkt);\n}",
            ),
        ),
        (
            "meter-as-value",
            &["not-a-value"],
            module(
                "meter all rate 10 burst 5;\n\nppf work(ether_packet_t *pkt) from input {\n    u32 x = all;\n    pkt->type = (u16) x;\n    channel_put(output, pkt);\n}",
            ),
        ),
        ("struct-in-place-of-a-number", &["type-mismatch"], then_put("u32 x = hops[1];\npkt->type = (u16) x;")),
        ("structs-compared", &["not-comparable"], then_put("if (hops[1] == hops[2])\n    pkt->type = 5;")),
        (
            "choice-of-different-types",
            &["type-mismatch"],
            then_put("u32 x = pkt->type == 5 ? pkt->type : true;\npkt->type = (u16) x;"),
        ),
    ]);
}

#[test]
fn arrays() {
    let with = |body: &str| {
        let items = "struct window_t { seen : u16[4]; count : u8; }\nhash<u32, window_t> windows[8];\n\n";
        let body = body.replace('\n', "\n    ");
        module(&format!(
            "{items}ppf work(ether_packet_t *pkt) from input {{\n    {body}\n    channel_put(output, pkt);\n}}"
        ))
    };
    refused(&[
        ("array-as-a-value", &["array-as-a-value"], with("window_t w;\npkt->type = w.seen;")),
        ("array-beyond-its-end", &["beyond-array"], with("window_t w;\npkt->type = w.seen[4];")),
        ("array-beyond-its-end-set", &["beyond-array"], with("u8 a[4];\na[5] = 1;")),
        ("array-of-no-array", &["not-a-table"], with("window_t w;\npkt->type = w.count[1];")),
        ("array-of-a-number", &["not-a-table"], with("u8 w = 1;\npkt->type = w[1];")),
        (
            "array-untested",
            &["pointer-untested"],
            with("window_t *w = windows[1];\nu8 i = (u8) pkt->type;\nw->seen[i] = 1;"),
        ),
        (
            "array-untested-read",
            &["pointer-untested"],
            with("window_t *w = windows[1];\nu8 i = (u8) pkt->type;\npkt->type = w->seen[i];"),
        ),
        (
            "array-in-a-value",
            &["array-as-a-value"],
            with("window_t w = window_t { seen: 1, count: 2 };\npkt->type = w.count;"),
        ),
        ("array-of-handles", &["bad-field-type"], with("hop_t a[2];\npkt->type = 1;")),
        ("array-too-long", &["size-out-of-range"], with("u8 a[65];\npkt->type = a[1];")),
        ("array-of-none", &["size-out-of-range"], format!("struct none_t {{ a : u8[0]; }}\n{}", then_put(""))),
        ("array-of-unknown-length", &["not-constant"], with("u8 n = 1;\nu8 a[n];\npkt->type = a[1];")),
        ("array-in-the-metadata", &["bad-field-type"], then_put("").replace("mark : u16;", "mark : u16[2];")),
        (
            "array-not-assignable",
            &["not-assignable"],
            with("u8 i = (u8) pkt->type;\npkt->type = 1;\nwindow_t { count: 1 }.seen[i] = 1;"),
        ),
    ]);
}

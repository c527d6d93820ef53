//! What names stand for.

use baker::check::check;
use baker::library::Library;

use crate::support::{Files, compare, module, ppf, refused};

fn then_put(body: &str) -> String {
    ppf(&format!("{body}\nchannel_put(output, pkt);"))
}

#[test]
fn names() {
    refused(&[
        ("unknown-name", &["unknown-name"], then_put("pkt->type = ETH_TYPE_IPV5;")),
        (
            "unknown-name-used-often",
            &["unknown-name"],
            then_put(
                "u32 a = limit;\nu32 b = limit + a;\nif (b == limit || a > limit)\n    pkt->type = 5;\na = limit;",
            ),
        ),
        (
            "unknown-variable",
            &["unknown-name"],
            then_put("u32 length = packet_length(pkt);\npkt->type = (u16) lenght;"),
        ),
        ("unknown-function", &["unknown-name"], then_put("packet_dorp(pkt, too_old);")),
        ("unknown-type", &["unknown-name"], then_put("hop h = hops[1];\npkt->dst = h.mac;")),
        ("unknown-channel", &["unknown-name"], ppf("channel_put(ouput, pkt);")),
        (
            "unknown-in-a-module",
            &["unknown-name"],
            then_put("u32 *flow = m.flow[1];\nif (flow != null)\n    *flow = 1;"),
        ),
        ("unknown-module", &["unknown-name"], then_put("pkt->type = n.LIMIT;")),
        ("unknown-struct", &["unknown-name"], then_put("hop_t h = hopt { port: 1, mac: 2 };\npkt->dst = h.mac;")),
        ("unknown-reason", &["unknown-reason"], ppf("packet_drop(pkt, too_odl);")),
        ("unknown-reason-far-off", &["unknown-reason"], ppf("packet_drop(pkt, expired);")),
        ("reason-that-is-no-name", &["type-mismatch"], ppf("packet_drop(pkt, 5);")),
        ("reason-that-is-a-table", &["wrong-kind-of-name"], ppf("packet_drop(pkt, flows);")),
        (
            "unknown-protocol",
            &["unknown-protocol"],
            then_put("ipv5_packet_t *ip = packet_decap(pkt);\nipv5_packet_t *next = packet_decap(ip);"),
        ),
        (
            "protocol-not-imported",
            &["unknown-protocol"],
            then_put("tcp_packet_t *tcp = packet_decap(pkt);\nchannel_put(routed, tcp);"),
        ),
        ("wrong-kind-of-name", &["wrong-kind-of-name"], then_put("flows x = 5;")),
        ("function-that-is-a-constant", &["wrong-kind-of-name"], then_put("pkt->type = ETH_TYPE_IPV4(1);")),
        ("channel-that-is-a-table", &["not-a-channel"], ppf("channel_put(flows, pkt);")),
        ("channel-of-another-module", &["not-a-channel"], ppf("channel_put(m.output, pkt);")),
        ("put-to-an-input", &["wrong-direction"], ppf("channel_put(input, pkt);")),
        ("duplicate-name", &["duplicate-name"], "const u8 LIMIT = 1;\nconst u8 LIMIT = 2;\n".into()),
        ("duplicate-variable", &["duplicate-name"], then_put("u32 x = 1;\nu32 x = 2;\npkt->type = (u16) x;")),
        (
            "duplicate-in-a-module",
            &["duplicate-name"],
            module("counter flows;\n\nppf work(ether_packet_t *pkt) from input {\n    channel_put(output, pkt);\n}"),
        ),
        ("reserved-name", &["reserved-name"], "const u8 u32 = 1;\n".into()),
        ("reserved-function", &["reserved-name"], "void packet_copy(u8 x) {\n    return;\n}\n".into()),
        ("reserved-drop-reason", &["reserved-name"], "const u8 truncated = 1;\n".into()),
    ]);
}

/// A module with this item that puts its packets on, and decapsulates nothing.
fn with(item: &str) -> String {
    module(&format!("{item}\n\nppf work(ether_packet_t *pkt) from input {{\n    channel_put(output, pkt);\n}}"))
}

#[test]
fn clashes() {
    let decap = "ipv4_packet_t *ip = packet_decap(pkt);\n    channel_put(routed, ip);";
    let named = |name: &str| module(&format!("ppf {name}(ether_packet_t *pkt) from input {{\n    {decap}\n}}"));
    refused(&[
        ("ppf-named-as-a-protocol", &["hides-name"], named("ipv4")),
        ("timer-named-as-a-protocol", &["hides-name"], with("timer ether() every 1s {\n}")),
        ("channel-named-as-a-protocol", &["hides-name"], with("channel ipv4 ipv4;")),
        ("table-named-as-a-protocol", &["hides-name"], with("hash<u32, u32> ipv4[16];")),
        ("table-named-as-a-struct", &["hides-name"], with("array<hop_t> hop_t[16];")),
        ("counter-named-as-its-module", &["hides-name"], with("counter m;")),
        ("counter-named-as-a-reason", &["hides-name", "hides-name"], with("counter too_old;\ncounter truncated;")),
        ("constant-named-as-a-protocol", &["hides-name"], with("const u32 ether = 5;")),
        ("meter-named-as-a-constant", &["hides-name"], with("meter ETH_TYPE_ARP;")),
        ("ppf-named-as-a-function", &["hides-name"], named("mac_is_group")),
        ("ppf-named-as-a-table", &["duplicate-name"], with("hash<u32, u32> work[16];")),
        (
            "two-ppfs-named-as-a-channel",
            &["duplicate-name"],
            named("input")
                + "module n {\n    in ether one, two;\n    ppf one(ether_packet_t *pkt) from one { packet_drop(pkt, truncated); }\n    ppf one(ether_packet_t *pkt) from two { packet_drop(pkt, truncated); }\n}\n",
        ),
        ("module-named-as-a-protocol", &["duplicate-name"], with("").replace("module m", "module ipv4")),
        ("module-named-as-an-end", &["reserved-name"], with("").replace("module m", "module tx")),
        ("instance-named-as-an-end", &["reserved-name"], with("") + "program { m host; rx -> host.input; }\n"),
        (
            "struct-named-as-a-handle",
            &["reserved-name"],
            then_put("u32 x = 1;") + "struct ipv4_packet_t { x : u32; }\n",
        ),
        ("protocol-named-as-a-handle", &["reserved-name"], with("") + "protocol gre_pkt_t { x : 32; demux { 4 }; }\n"),
        ("variable-that-hides-a-table", &["not-a-table"], then_put("u32 flows = 3;\nu32 *flow = flows[3];")),
        ("variable-that-hides-a-channel", &["not-a-channel"], ppf("u32 output = 3;\nchannel_put(output, pkt);")),
        ("variable-that-hides-a-module", &["no-fields"], then_put("u32 m = 3;\nu32 *flow = m.flows[3];")),
    ]);
}

/// Of the same kind, names are hidden; and PPFs and timers are not named in code.
#[test]
fn names_that_do_not_clash() {
    let source = with("const u16 ETH_TYPE_ARP = 5;\ntimer m() every 1s {\n    counter_add(n.flows, 1);\n}")
        + "module n {\n    in  ether input;\n    out ether output;\n    counter flows;\n\n    \
           ppf m(ether_packet_t *pkt) from input {\n        m.flows[1] = 2;\n        channel_put(output, pkt);\n    }\n}\n";
    let found = check("test.baker", &source, &Library);
    assert!(found.diagnostics.is_empty(), "{:?}", found.diagnostics);
}

#[test]
fn imports() {
    let mut wrong = String::new();
    for (name, codes, source, files) in [
        (
            "unknown-import",
            &["unknown-import"][..],
            "import \"net/ipv5\";\nimport \"net/ether.baker\";\nconst u8 X = Y;\n",
            &[][..],
        ),
        (
            "import-with-an-error",
            &["unknown-name"],
            "import \"limits\";\nconst u8 X = LIMIT;\n",
            &[("limits.baker", "const u8 LIMIT = MOST;\n")],
        ),
        (
            "import-that-collides",
            &["duplicate-name"],
            "import \"limits\";\nconst u8 LIMIT = 2;\n",
            &[("limits.baker", "const u8 LIMIT = 1;\n")],
        ),
        (
            "name-missing-in-two-files",
            &["unknown-protocol"],
            "import \"other\";\nvoid f(stp_packet_t *p) {\n    return;\n}\n",
            &[("other.baker", "void g(stp_packet_t *p) {\n    return;\n}\n")],
        ),
    ] {
        let codes = if name == "unknown-import" { &["unknown-import", "unknown-import"][..] } else { codes };
        let compilation = check("test.baker", source, &Files(files));
        let shown: String = files.iter().map(|(name, text)| format!("\n-------- {name}\n{text}")).collect();
        compare(name, codes, &format!("{source}{shown}"), &compilation, &mut wrong);
    }
    assert!(wrong.is_empty(), "{wrong}");
}

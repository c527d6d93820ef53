//! Modules with parameters, and functions of one name for several protocols.

use crate::support::{module, ppf, refused};

/// A module `hop` with these parameters and body, a module `store` with a table, and these instances.
fn hop(params: &str, body: &str, instances: &str) -> String {
    let body: String = body.lines().map(|line| format!("        {line}\n")).collect();
    let instances: String = instances.lines().map(|line| format!("    {line}\n")).collect();
    format!(
        "import \"net/ipv4\";
import \"net/ipv6\";

u8 hops(ipv4_packet_t *ip) {{ return ip->ttl; }}
u8 hops(ipv6_packet_t *ip) {{ return ip->hop_limit; }}

module hop({params}) {{
    in  ether input;
    out ether output;
    ppf check(ether_packet_t *pkt) from input {{
{body}        channel_put(output, pkt);
    }}
}}

module store {{
    in  ether input;
    out ether output;
    array<u32> ports[64];
    counter seen;
    ppf count(ether_packet_t *pkt) from input {{
        ports[1] = 1;
        channel_put(output, pkt);
    }}
}}

program {{
{instances}    rx -> a.input;
    a.output -> b.input;
    b.output -> store.input;
    store.output -> tx;
}}
"
    )
}

/// A module whose parameter is a protocol, with instances for both versions of IP.
fn both(body: &str) -> String {
    hop("protocol ip", body, "hop(ipv4) a;\nhop(ipv6) b;")
}

/// Instances with a table as their parameter.
fn with_table(body: &str, instances: &str) -> String {
    hop("table t", body, instances)
}

#[test]
fn arguments() {
    let peek = "ip_packet_t *ip = packet_peek(pkt);\nif (hops(ip) == 0) { packet_drop(pkt, no_route); return; }";
    let one = |instances: &str| hop("protocol ip", peek, instances);
    let constant = |instances: &str| {
        hop("const u8 LEAST", "if (pkt->metadata.rx.port < LEAST) { packet_drop(pkt, no_route); return; }", instances)
    };
    let many: Vec<String> = (0..70).map(|i| format!("hop(ipv4) at{i};")).collect();
    refused(&[
        ("argument-missing", &["wrong-arguments"], one("hop a;\nhop(ipv6) b;")),
        ("argument-too-many", &["wrong-arguments"], one("hop(ipv4, ipv6) a;\nhop(ipv6) b;")),
        (
            "argument-no-parameters",
            &["wrong-arguments"],
            one("hop(ipv4) a, b;\nstore(ipv4) c;")
                .replace("store.input", "c.input")
                .replace("store.output", "c.output"),
        ),
        (
            "argument-no-protocol",
            &["wrong-kind-of-name"],
            one("hop(port_mtu_t) a;\nhop(ipv6) b;").replace("module hop", "type port_mtu_t = u16;\n\nmodule hop"),
        ),
        ("argument-unknown-protocol", &["unknown-name"], one("hop(ipv5) a;\nhop(ipv6) b;")),
        ("argument-number-for-a-protocol", &["bad-argument"], one("hop(4) a;\nhop(ipv6) b;")),
        ("argument-no-type", &["wrong-kind-of-name"], hop("type addr_t", "", "hop(ipv4) a;\nhop(u32) b;")),
        ("argument-not-constant", &["not-constant"], constant("hop(store.ports[1]) a;\nhop(2) b;")),
        ("argument-too-great", &["constant-out-of-range"], constant("hop(300) a;\nhop(2) b;")),
        ("argument-of-itself", &["constant-cycle"], constant("hop(a.LEAST) a;\nhop(2) b;")),
        ("argument-no-table", &["bad-argument"], with_table("t[1] = 2;", "hop(store.seen) a;\nhop(store.ports) b;")),
        ("argument-table-of-itself", &["table-cycle"], with_table("t[1] = 2;", "hop(b.t) a;\nhop(a.t) b;")),
        ("argument-too-many-instances", &["too-many-instances"], one(&format!("hop(ipv4) a, b;\n{}", many.join("\n")))),
        ("module-without-instances", &["unknown-name", "unknown-name"], one("").replace("// ", "")),
        (
            "module-named-without-instance",
            &["wrong-kind-of-name"],
            one("hop(ipv4) a, b;").replace("rx -> a", "rx -> hop"),
        ),
    ]);
}

#[test]
fn bodies() {
    refused(&[
        (
            "field-of-one-protocol",
            &["unknown-field"],
            both("ip_packet_t *ip = packet_peek(pkt);\nif (ip->ttl == 0) { packet_drop(pkt, no_route); return; }"),
        ),
        (
            "field-of-no-protocol",
            &["unknown-field", "unknown-field"],
            both("ip_packet_t *ip = packet_peek(pkt);\nif (ip->hops == 0) { packet_drop(pkt, no_route); return; }"),
        ),
        (
            "lost-in-both-instances",
            &["handle-perhaps-gone"],
            both("if (pkt->dst == 0) { packet_drop(pkt, no_route); }"),
        ),
        ("parameter-as-value", &["not-a-value"], both("pkt->dst = ip;")),
        (
            "narrow-in-one-instance",
            &["narrowing"],
            hop("type addr_t", "addr_t a = 1;\nu8 low = a;\npkt->type = low;", "hop(u8) a;\nhop(u16) b;"),
        ),
        ("parameter-hides-a-kind", &["hides-name"], hop("protocol store", "", "hop(ipv4) a;\nhop(ipv6) b;")),
        ("parameter-twice", &["duplicate-name"], hop("protocol ip, protocol ip", "", "hop(ipv4, ipv4) a, b;")),
        ("table-of-another-type", &["narrowing"], hop("table t", "t[1] = now_ns();", "hop(store.ports) a, b;")),
    ]);
}

#[test]
fn overloads() {
    let two = "u8 left(ipv4_packet_t *ip) { return ip->ttl; }\nu8 left(ether_packet_t *pkt) { return 1; }\n";
    let with = |items: &str| {
        ppf("ipv4_packet_t *ip = packet_peek(pkt);\nip->ttl = left(ip);\nchannel_put(output, pkt);")
            .replace("module m", &format!("{items}\nmodule m"))
    };
    refused(&[
        ("overload-twice", &["duplicate-name"], with(&two.replace("ether_packet_t *pkt", "ipv4_pkt_t *ip"))),
        ("overload-without-packet", &["duplicate-name"], with(&two.replace("ether_packet_t *pkt", "u8 n"))),
        (
            "overload-for-no-such-packet",
            &["no-overload"],
            with(two)
                .replace(
                    "ipv4_packet_t *ip = packet_peek(pkt);\n",
                    "ipv4_packet_t *v4 = packet_peek(pkt);\n        tcp_packet_t *ip = packet_peek(v4);\n",
                )
                .replace("ip->ttl = left(ip);", "pkt->type = left(ip);")
                .replace("import \"net/ipv4\";", "import \"net/ipv4\";\nimport \"net/tcp\";"),
        ),
    ]);
}

#[test]
fn sizes() {
    refused(&[
        ("size-of-itself", &["constant-cycle"], "const u32 A = p.size;\nprotocol p { x : A; demux { 1 }; }\n".into()),
        ("unknown-of-a-protocol", &["unknown-name"], "import \"net/ipv4\";\nconst u32 A = ipv4.length;\n".into()),
    ]);
}

#[test]
fn calls() {
    let other = "u32 f(u32 x) { return x + hops[1].port; }\nppf work(ether_packet_t *pkt) from input { channel_put(output, pkt); }";
    let calls = |call: &str, program: &str| {
        format!(
            "{}\nmodule n {{\n    in  ether input;\n    out ether output;\n    ppf go(ether_packet_t *pkt) from input {{\n        pkt->type = (u16) {call};\n        channel_put(output, pkt);\n    }}\n}}\n{program}",
            module(other).replace("    out ipv4  routed;\n", "")
        )
    };
    let program = "program { m a, b; rx -> a.input; a.output -> b.input; b.output -> n.input; n.output -> tx; }\n";
    refused(&[
        ("call-of-a-module-unknown", &["unknown-name"], calls("m.g(1)", "")),
        ("call-of-a-module-table", &["wrong-kind-of-name"], calls("m.hops(1)", "")),
        ("call-of-a-module-arguments", &["wrong-arguments"], calls("m.f()", "")),
        ("call-of-instances", &["function-of-instances"], calls("m.f(1)", program)),
        ("call-of-an-instance", &["function-of-instances"], calls("a.f(1)", program)),
        ("call-of-a-value", &["bad-call"], calls("pkt->type(1)", "")),
    ]);
}

//! Constants, types, structs, tables, functions and PPFs.

use crate::support::{module, ppf, refused};

fn with_ppf(items: &str) -> String {
    module(&format!("{items}\n\nppf work(ether_packet_t *pkt) from input {{\n    channel_put(output, pkt);\n}}"))
}

fn set_of_marks(statement: &str) -> String {
    module(&format!(
        "set<mac_addr_t> known[16];\n\nppf work(ether_packet_t *pkt) from input {{\n    {statement}\n    channel_put(output, pkt);\n}}"
    ))
}

#[test]
fn constants_and_types() {
    refused(&[
        ("constant-cycle", &["constant-cycle"], "const u8 A = B + 1;\nconst u8 B = C;\nconst u8 C = A;\n".into()),
        (
            "not-constant",
            &["not-constant"],
            "u8 f(u8 x) {\n    return x;\n}\n\nconst u8 A = f(1);\nconst u8 B = A + 1;\n".into(),
        ),
        ("constant-of-a-struct", &["bad-constant-type"], "struct s { a : u8; }\nconst s A = s { a: 1 };\n".into()),
        ("constant-with-a-struct", &["not-constant"], "struct s { a : u8; }\nconst u8 A = s { a: 1 }.a;\n".into()),
        ("constant-from-a-table", &["not-constant"], with_ppf("const u32 FIRST = hops[0];")),
        ("constant-that-does-not-fit", &["constant-out-of-range"], "const u8 A = 200;\nconst u8 B = A + 100;\n".into()),
        (
            "enumerator-out-of-range",
            &["constant-out-of-range"],
            "enum colour : u8 {\n    RED = 254,\n    GREEN,\n    BLUE,\n    BLACK,\n}\n".into(),
        ),
        ("enum-of-bools", &["bad-type"], "enum colour : bool {\n    RED,\n    GREEN,\n}\n".into()),
        ("enum-of-unknown-type", &["unknown-name"], "enum colour : uint8 {\n    RED,\n    GREEN,\n}\n".into()),
        ("type-cycle", &["type-cycle"], "type a = b;\ntype b = c;\ntype c = a;\n".into()),
        ("type-of-void", &["bad-type"], "type nothing = void;\n".into()),
        (
            "struct-with-a-struct",
            &["bad-field-type"],
            "struct inner { a : u8; }\nstruct outer { b : u8; c : inner; }\n".into(),
        ),
        ("struct-field-twice", &["duplicate-field"], "struct s {\n    a : u8;\n    b : u8;\n    a : u16;\n}\n".into()),
        ("empty-struct", &["empty-struct"], "struct s { }\n".into()),
        ("width-beyond-128", &["unknown-name"], "struct s { a : u129; }\n".into()),
    ]);
}

#[test]
fn modules() {
    refused(&[
        (
            "table-types",
            &["table-types"],
            with_ppf("array<u32, u32> t[4];\nhash<u32> h[4];")
                .replace("hash<u32> h[4];", "u32 unused(u32 x) {\n        return x;\n    }"),
        ),
        ("set-with-a-value", &["not-assignable"], set_of_marks("known[pkt->src] = true;")),
        ("set-inserted-with-a-value", &["wrong-arguments"], set_of_marks("table_insert(known, pkt->src, true);")),
        ("set-with-two-types", &["table-types"], with_ppf("set<u32, u32> s[16];")),
        ("idle-of-an-array", &["bad-idle"], with_ppf("array<u32> t[16] idle 60s;")),
        ("queue-drops-neither", &["queue-drops"], with_ppf("queue q[4] of 8 drop first;")),
        ("queue-drops-the-lowest", &["queue-drops"], with_ppf("queue q[4] of 8 drop lowest;")),
        ("queue-drops-the-oldest-by", &["queue-drops"], with_ppf("queue q[4] of 8 drop oldest mark;")),
        ("queue-drops-by-nothing", &["unknown-metadata"], with_ppf("queue q[4] of 8 drop lowest importance;")),
        ("queue-looks-too-long", &["queue-drops"], with_ppf("queue q[4] of 257 drop lowest mark;")),
        (
            "put-into-no-queue",
            &["not-a-queue"],
            module(
                "queue q of 2;\n\nppf work(ether_packet_t *pkt) from input {\n    \
                 channel_put_at(output, output, pkt, 5);\n}",
            ),
        ),
        ("queue-too-large", &["queue-size"], with_ppf("queue q[1000000] of 1000;")),
        ("idle-of-nothing", &["bad-idle"], with_ppf("hash<u32, u32> h[16] idle 60;")),
        ("bad-lpm-key", &["bad-lpm-key"], with_ppf("lpm<i32, u32> fib[16];")),
        ("into-nothing", &["unknown-name"], with_ppf("hash<u32, u32> h[16] into nowhere;")),
        ("into-routes", &["bad-into"], with_ppf("hash<u32, u32> h[16] into routes;\nlpm<u32, u32> routes[16];")),
        (
            "into-by-a-struct",
            &["bad-into"],
            with_ppf("struct v_t { a : u32; b : u32; }\nhash<u32, v_t> h[16] into hops;"),
        ),
        ("bad-entry-type", &["bad-entry-type"], with_ppf("hash<u32, void> h[16];")),
        ("table-of-size-zero", &["size-out-of-range"], with_ppf("array<u32> t[0];")),
        ("table-too-large", &["size-out-of-range"], with_ppf("array<u32> t[1 << 40];")),
        ("table-size-unknown", &["not-constant"], with_ppf("array<u32> t[hops[0]];")),
        (
            "unread-channel",
            &["unread-channel"],
            module(
                "channel ether inner;\n\nppf work(ether_packet_t *pkt) from input {\n    channel_put(inner, pkt);\n}",
            ),
        ),
        ("unread-input", &["unread-channel"], module("")),
        (
            "two-readers",
            &["two-readers"],
            with_ppf("ppf first(ether_packet_t *pkt) from input {\n    channel_put(output, pkt);\n}"),
        ),
        (
            "reads-output",
            &["reads-output"],
            with_ppf("ppf first(ether_packet_t *pkt) from output {\n    channel_put(output, pkt);\n}"),
        ),
        (
            "reads-unknown-channel",
            &["unknown-name"],
            module("ppf work(ether_packet_t *pkt) from imput {\n    channel_put(output, pkt);\n}"),
        ),
        (
            "ppf-of-another-protocol",
            &["protocol-mismatch"],
            module("ppf work(ipv4_packet_t *ip) from input {\n    channel_put(routed, ip);\n}"),
        ),
        ("ppf-of-a-number", &["bad-ppf-parameter"], module("ppf work(u32 x) from input {\n    return;\n}")),
        (
            "port-of-unknown-protocol",
            &["unknown-name"],
            module(
                "in ipv5 other;\nppf work(ether_packet_t *pkt) from input {\n    channel_put(output, pkt);\n}\nppf rest(ether_packet_t *pkt) from other {\n    channel_put(output, pkt);\n}",
            ),
        ),
        (
            "meters-by-key",
            &["bad-meter", "bad-meter", "bad-into", "bad-idle", "cell-index", "wrong-table", "not-a-table"],
            module(
                "hash<u32, u32> plain[4] rate 5 burst 5;\nlpm<u32, meter> prefixes[4] rate 5 burst 5;\nhash<u32, meter> by[4] into plain;\narray<meter> cells[4] idle 1s;\nhash<u32, meter> keyed[4] rate 5 burst 5;\n\nppf work(ether_packet_t *pkt) from input {\n    if (meter_take(keyed, 1) || table_remove(prefixes, 1) || keyed[1] != null)\n        pkt->type = 5;\n    channel_put(output, pkt);\n}",
            ),
        ),
        (
            "bad-meter",
            &["bad-meter", "bad-meter", "size-out-of-range", "narrowing"],
            module(
                "meter fast rate 1 << 41 burst 5;\nmeter slow rate 10 burst -1;\nmeter many[1 << 21] rate 10 burst 5;\n\nppf work(ether_packet_t *pkt) from input {\n    u128 n = 1;\n    if (meter_take(fast, n))\n        pkt->type = 5;\n    channel_put(output, pkt);\n}",
            ),
        ),
        ("missing-body", &["missing-body"], module("ppf work(ether_packet_t *pkt) from input;")),
        (
            "unknown-ppf",
            &["unknown-ppf"],
            format!(
                "{}\nm.worker.ppf(ether_packet_t *pkt) {{\n    packet_drop(pkt, too_old);\n}}\n",
                ppf("channel_put(output, pkt);")
            ),
        ),
        (
            "ppf-of-unknown-module",
            &["unknown-name"],
            format!(
                "{}\nn.work.ppf(ether_packet_t *pkt) {{\n    packet_drop(pkt, too_old);\n}}\n",
                ppf("channel_put(output, pkt);")
            ),
        ),
        (
            "duplicate-body",
            &["duplicate-body"],
            format!(
                "{}\nm.work.ppf(ether_packet_t *pkt) {{\n    packet_drop(pkt, too_old);\n}}\n",
                ppf("channel_put(output, pkt);")
            ),
        ),
        (
            "body-of-another-protocol",
            &["protocol-mismatch"],
            format!(
                "{}\nm.work.ppf(ipv4_packet_t *pkt) {{\n    packet_drop(pkt, too_old);\n}}\n",
                module("ppf work(ether_packet_t *pkt) from input;")
            ),
        ),
    ]);
}

#[test]
fn functions() {
    refused(&[
        ("bad-result", &["bad-result"], with_ppf("u32 *first(u32 key) {\n    return flows[key];\n}")),
        ("bad-parameter", &["bad-parameter"], with_ppf("void set(u32 *flow) {\n    *flow = 1;\n}")),
        ("recursion", &["recursion"], with_ppf("u32 f(u32 x) {\n    return x == 0 ? 0 : f(x - 1);\n}")),
        (
            "recursion-through-others",
            &["recursion"],
            with_ppf(
                "u32 f(u32 x) {\n    return g(x);\n}\n\nu32 g(u32 x) {\n    return h(x) + 1;\n}\n\nu32 h(u32 x) {\n    return f(x);\n}",
            ),
        ),
        (
            "recursion-twice",
            &["recursion", "recursion"],
            with_ppf("u32 f(u32 x) {\n    return f(x) + g(x);\n}\n\nu32 g(u32 x) {\n    return g(x);\n}"),
        ),
    ]);
}

#[test]
fn pins() {
    let pinned = |first: &str, second: &str| {
        module(&format!(
            "channel ether on;\n\n{first} ppf start(ether_packet_t *pkt) from input {{\n    channel_put(on, pkt);\n}}\n\n\
             {second} ppf work(ether_packet_t *pkt) from on {{\n    channel_put(output, pkt);\n}}"
        ))
    };
    refused(&[
        ("pin-that-is-none", &["unknown-pin"], pinned("@gpu", "@worker")),
        ("two-pins", &["two-pins"], pinned("@kernel @worker", "@worker")),
        (
            "kernel-behind-worker",
            &["pins-contradict"],
            pinned("@worker", "@kernel") + "\nprogram { rx -> m.input; m.output -> tx; m.routed -> controller c; }\n",
        ),
    ]);
}

//! Widths, signs and constants.

use crate::support::{ppf, refused};

fn numbers(body: &str) -> String {
    ppf(&format!("{body}\nchannel_put(output, pkt);"))
}

#[test]
fn numbers_() {
    refused(&[
        ("narrowing", &["narrowing"], numbers("u32 wide = pkt->type;\nu16 narrow = wide;\npkt->type = narrow;")),
        ("narrowing-store", &["narrowing"], numbers("pkt->type = packet_length(pkt);")),
        ("narrowing-sum", &["narrowing"], numbers("u8 a = 1;\nu16 b = 2;\nu8 c = a + b;\npkt->type = c;")),
        ("narrowing-by-a-constant", &["narrowing"], numbers("u8 a = 1;\na = a + 300;\npkt->type = a;")),
        ("narrowing-update", &["narrowing"], numbers("u8 a = 1;\na += pkt->type;\npkt->type = a;")),
        (
            "narrowing-argument",
            &["narrowing"],
            numbers("bool group = mac_is_group((u64) pkt->dst);\npkt->type = group;"),
        ),
        (
            "narrowing-of-mixed-signs",
            &["narrowing"],
            numbers("i8 a = -1;\nu16 b = 65535;\ni16 c = a + b;\npkt->type = (u16) c;"),
        ),
        ("mixed-signs", &["mixed-signs"], numbers("i32 a = -1;\nu32 b = 1;\nif (a < b)\n    pkt->type = 5;")),
        ("mixed-signs-stored", &["mixed-signs"], numbers("i32 a = -1;\nu32 b = a;\npkt->metadata.mark = (u16) b;")),
        (
            "mixed-signs-of-one-width",
            &["mixed-signs"],
            numbers("u32 a = 1;\ni32 b = a;\npkt->metadata.mark = (u16) b;"),
        ),
        ("constant-out-of-range", &["constant-out-of-range"], numbers("u8 a = 256;\npkt->type = a;")),
        ("constant-negative", &["constant-out-of-range"], numbers("u8 a = -1;\npkt->type = a;")),
        ("constant-compared", &["constant-out-of-range"], numbers("if (packet_length(pkt) < -1)\n    pkt->type = 5;")),
        ("constant-as-bool", &["constant-out-of-range"], numbers("bool yes = 2;\npkt->type = yes;")),
        (
            "constant-complement-shifted",
            &["constant-out-of-range"],
            numbers("u32 mask = ~0 >> 8;\npkt->type = (u16) mask;"),
        ),
        (
            "constant-overflow",
            &["constant-overflow"],
            numbers("u128 big = 0xffffffffffffffffffffffffffffffff + 1;\npkt->type = (u16) big;"),
        ),
        ("constant-overflow-by-shift", &["constant-overflow"], numbers("u128 big = 1 << 128;\npkt->type = (u16) big;")),
        ("untyped-shift", &["untyped-shift"], numbers("pkt->type = (u16) (1 << pkt->type);")),
        ("signed-shift", &["signed-shift"], numbers("i32 n = 1;\npkt->type = pkt->type << n;")),
        ("bool-in-arithmetic", &["not-a-number"], numbers("bool yes = true;\npkt->type = yes + yes;")),
        ("bool-negated", &["not-a-number"], numbers("bool yes = ~true;\npkt->type = yes;")),
        ("bool-from-a-number", &["type-mismatch"], numbers("bool yes = pkt->type;\npkt->type = yes;")),
        (
            "bool-compared-with-a-number",
            &["type-mismatch"],
            numbers("bool yes = true;\nif (yes == pkt->type)\n    pkt->type = 5;"),
        ),
        (
            "bools-ordered",
            &["not-comparable"],
            numbers("bool a = true;\nbool b = false;\nif (a < b)\n    pkt->type = 5;"),
        ),
        ("cast-to-bool", &["bad-cast"], numbers("bool yes = (bool) pkt->type;\npkt->type = yes;")),
        ("cast-of-a-pointer", &["bad-cast"], numbers("u32 flow = (u32) flows[1];\npkt->type = (u16) flow;")),
        ("cast-of-a-packet", &["bad-cast"], numbers("u32 address = (u32) pkt;\npkt->type = (u16) address;")),
    ]);
}

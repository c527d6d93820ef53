//! Every loop has a constant bound.

use crate::support::{ppf, refused};

fn numbers(body: &str) -> String {
    ppf(&format!("{body}\nchannel_put(output, pkt);"))
}

#[test]
fn loops() {
    refused(&[
        ("unbounded-loop", &["unbounded-loop"], numbers("for (;;)\n    pkt->type += 1;")),
        (
            "unbounded-by-a-variable",
            &["unbounded-loop"],
            numbers("u32 n = packet_length(pkt);\nfor (u32 i = 0; i < n; i++)\n    pkt->type += 1;"),
        ),
        (
            "unbounded-start",
            &["unbounded-loop"],
            numbers("for (u32 i = packet_length(pkt); i < 100; i++)\n    pkt->type += 1;"),
        ),
        ("unbounded-step", &["unbounded-loop"], numbers("for (u32 i = 1; i < 100; i *= 2)\n    pkt->type += 1;")),
        ("unbounded-without-step", &["unbounded-loop"], numbers("for (u32 i = 0; i < 100;)\n    pkt->type += 1;")),
        (
            "unbounded-other-variable",
            &["unbounded-loop"],
            numbers("u32 j = 0;\nfor (u32 i = 0; i < 100; j++)\n    pkt->type += 1;"),
        ),
        (
            "unbounded-by-or",
            &["unbounded-loop"],
            numbers("for (u32 i = 0; i < 100 || pkt->type == 5; i++)\n    pkt->type += 1;"),
        ),
        (
            "unbounded-by-a-narrowing-step",
            &["unbounded-loop"],
            numbers("for (u32 i = 250; i < 260; i = (u8) (i + 1))\n    pkt->type += 1;"),
        ),
        (
            "unbounded-by-a-change-of-sign",
            &["unbounded-loop"],
            numbers("for (i8 i = -1; (u32) i > 5; i--)\n    pkt->type += 1;"),
        ),
        ("loop-too-long", &["loop-too-long"], numbers("for (u32 i = 0; i < 5000; i++)\n    pkt->type += 1;")),
        ("loop-that-wraps", &["loop-too-long"], numbers("for (u8 i = 0; i < 256; i++)\n    pkt->type += 1;")),
        ("loop-downwards", &["loop-too-long"], numbers("for (u32 i = 7; i >= 0; i--)\n    pkt->type += 1;")),
        ("loop-counter-set", &["loop-counter-set"], numbers("for (u32 i = 0; i < 10; i++)\n    i = 0;")),
        (
            "loop-counter-of-two-loops",
            &["loop-counter-set"],
            numbers("u32 i = 0;\nfor (i = 0; i < 10; i++) {\n    for (i = 0; i < 10; i++)\n        pkt->type += 1;\n}"),
        ),
        ("outside-loop", &["outside-loop"], numbers("if (pkt->type == 5)\n    break;")),
        (
            "duplicate-case",
            &["duplicate-case", "duplicate-case"],
            numbers("switch (pkt->type) {\ncase 1, 2:\n    break;\ncase 2:\ndefault:\ndefault:\n}"),
        ),
        ("case-too-large", &["constant-out-of-range"], numbers("switch (pkt->metadata.rx.port) {\ncase 256:\n}")),
        ("case-not-constant", &["not-constant"], numbers("switch (pkt->type) {\ncase pkt->metadata.mark:\n}")),
        ("switch-of-a-bool", &["bad-switch"], numbers("switch (pkt->type == 1) {\ncase 1:\n}")),
        ("continue-in-a-switch", &["outside-loop"], numbers("switch (pkt->type) {\ncase 1:\n    continue;\n}")),
        ("continue-outside-loop", &["outside-loop"], numbers("continue;")),
    ]);
}

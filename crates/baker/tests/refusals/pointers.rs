//! A look-up yields a pointer or null; the pointer is tested before it is used.

use crate::support::{module, ppf, refused};

#[test]
fn pointers() {
    refused(&[
        (
            "pointer-untested",
            &["pointer-untested"],
            ppf("u32 *flow = flows[1];\npkt->metadata.mark = (u16) *flow;\nchannel_put(output, pkt);"),
        ),
        (
            "pointer-untested-store",
            &["pointer-untested"],
            ppf("u32 *flow = flows[1];\n*flow = 2;\nchannel_put(output, pkt);"),
        ),
        (
            "pointer-untested-update",
            &["pointer-untested"],
            ppf("u32 *flow = flows[1];\n*flow += 2;\nchannel_put(output, pkt);"),
        ),
        (
            "pointer-untested-field",
            &["pointer-untested"],
            ppf("hop_t *hop = hops[pkt->metadata.rx.port];\nhop->port = 1;\nchannel_put(output, pkt);"),
        ),
        (
            "pointer-unnamed",
            &["pointer-untested"],
            ppf("u32 flow = *flows[1];\npkt->metadata.mark = (u16) flow;\nchannel_put(output, pkt);"),
        ),
        (
            "pointer-tested-the-wrong-way",
            &["pointer-untested"],
            ppf("u32 *flow = flows[1];\nif (flow == null)\n    *flow = 1;\nchannel_put(output, pkt);"),
        ),
        (
            "pointer-after-the-test",
            &["pointer-untested"],
            ppf("u32 *flow = flows[1];\nif (flow != null)\n    *flow = 1;\n*flow = 2;\nchannel_put(output, pkt);"),
        ),
        (
            "pointer-on-the-wrong-side-of-and",
            &["pointer-untested"],
            ppf("u32 *flow = flows[1];\nif (*flow == 1 && flow != null)\n    *flow = 2;\nchannel_put(output, pkt);"),
        ),
        (
            "pointer-on-the-wrong-side-of-or",
            &["pointer-untested"],
            ppf(
                "u32 *flow = flows[1];\nif (flow != null || *flow == 1)\n    pkt->type = 5;\nchannel_put(output, pkt);",
            ),
        ),
        (
            "pointer-tested-only-by-or",
            &["pointer-untested"],
            ppf(
                "u32 *flow = flows[1];\nif (flow != null || pkt->type == 5)\n    *flow = 1;\nchannel_put(output, pkt);",
            ),
        ),
        (
            "pointer-test-kept-in-a-variable",
            &["pointer-untested"],
            ppf(
                "u32 *flow = flows[1];\nbool known = flow != null;\nif (known)\n    *flow = 1;\nchannel_put(output, pkt);",
            ),
        ),
        (
            "pointer-set-after-the-test",
            &["pointer-untested"],
            ppf(
                "u32 *flow = flows[1];\nif (flow == null) {\n    packet_drop(pkt, too_old);\n    return;\n}\nflow = flows[2];\n*flow = 1;\nchannel_put(output, pkt);",
            ),
        ),
        (
            "pointer-set-in-a-loop",
            &["pointer-untested"],
            ppf(
                "u32 *flow = flows[1];\nif (flow != null) {\n    for (u32 i = 0; i < 4; i++) {\n        *flow = i;\n        flow = flows[i];\n    }\n}\nchannel_put(output, pkt);",
            ),
        ),
        (
            "pointer-as-a-number",
            &["pointer-as-value"],
            ppf("u32 flow = flows[1];\npkt->metadata.mark = (u16) flow;\nchannel_put(output, pkt);"),
        ),
        (
            "pointer-in-arithmetic",
            &["not-a-number"],
            ppf("u32 next = flows[1] + 1;\npkt->metadata.mark = (u16) next;\nchannel_put(output, pkt);"),
        ),
        ("pointer-updated", &["not-a-number"], ppf("flows[1] += 1;\nchannel_put(output, pkt);")),
        (
            "pointer-compared-with-a-number",
            &["type-mismatch"],
            ppf("if (flows[1] == pkt->type)\n    pkt->type = 5;\nchannel_put(output, pkt);"),
        ),
        (
            "pointer-ordered",
            &["not-comparable"],
            ppf("u32 *flow = flows[1];\nif (flow > null)\n    pkt->type = 5;\nchannel_put(output, pkt);"),
        ),
        (
            "pointer-without-a-star",
            &["no-fields"],
            ppf(
                "u32 *flow = flows[1];\nif (flow != null)\n    pkt->metadata.mark = flow.value;\nchannel_put(output, pkt);",
            ),
        ),
        (
            "pointer-elsewhere",
            &["pointer-elsewhere"],
            module(
                "hash<u32, u32> aging[16] idle 60s;\n\nppf work(ether_packet_t *pkt) from input {\n    u32 *flow = flows[1];\n    flow = aging[1];\n    channel_put(output, pkt);\n}",
            ),
        ),
        (
            "pointer-to-another-type",
            &["type-mismatch"],
            ppf("u8 *flow = flows[1];\nif (flow != null)\n    *flow = 1;\nchannel_put(output, pkt);"),
        ),
        ("pointer-uninitialised", &["uninitialised"], ppf("u32 *flow;\nchannel_put(output, pkt);")),
        ("bad-pointer", &["bad-pointer"], ppf("void *x = flows[1];\nchannel_put(output, pkt);")),
        (
            "not-a-pointer",
            &["not-a-pointer"],
            ppf("u32 x = 1;\nu32 y = *x;\npkt->metadata.mark = (u16) y;\nchannel_put(output, pkt);"),
        ),
    ]);
}

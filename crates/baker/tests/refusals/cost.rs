//! What a program may cost.

use baker::check::check;
use baker::diag::render;
use baker::ir::{lower, verify};
use baker::library::Library;

use crate::support::{module, refused};

#[test]
fn cost() {
    let doubling: String =
        (1..20).map(|i| format!("u32 f{i}(u32 x) {{\n    return f{}(x) + f{}(x);\n}}\n", i - 1, i - 1)).collect();
    let chain: String = (1..40).map(|i| format!("u32 f{i}(u32 x) {{\n    return f{}(x);\n}}\n", i - 1)).collect();
    let first = "u32 f0(u32 x) {\n    return x;\n}\n";
    let work = |body: &str| {
        format!("ppf work(ether_packet_t *pkt) from input {{\n    {body}\n    channel_put(output, pkt);\n}}")
    };
    let copies = "import \"net/ether\";

module m {
    in  ether input;
    out ether output;
    ppf flood(ether_packet_t *pkt) from input {
        for (u32 i = 0; i < 64; i++) {
            for (u32 j = 0; j < 64; j++)
                channel_put(output, packet_copy(pkt));
        }
        channel_put(output, pkt);
    }
}

program {
    rx -> m.input;
    m.output -> tx;
}
";
    let in_a_row: String = (0..80)
        .map(|i| {
            format!("    channel ether c{i};\n    ppf p{i}(ether_packet_t *pkt) from c{i} {{\n        channel_put(c{}, pkt);\n    }}\n", i + 1)
        })
        .collect();
    let in_a_row = format!(
        "import \"net/ether\";\n\nmodule m {{\n    in ether input;\n    ppf work(ether_packet_t *pkt) from input {{\n        channel_put(c0, pkt);\n    }}\n{in_a_row}    channel ether c80;\n    ppf last(ether_packet_t *pkt) from c80 {{\n        packet_drop(pkt, no_port);\n    }}\n}}\n"
    );
    let consts: String = (0..100).map(|i| format!("const u32 C{i} = C{} + 1;\n", i + 1)).collect();
    let types: String = (0..100).map(|i| format!("type t{i} = t{};\n", i + 1)).collect();
    refused(&[
        (
            "code-too-large",
            &["code-too-large"],
            module(&format!("{first}{doubling}{}", work("pkt->metadata.mark = (u16) f19(1);"))),
        ),
        (
            "calls-too-deep",
            &["calls-too-deep"],
            module(&format!("{first}{chain}{}", work("pkt->metadata.mark = (u16) f39(1);"))),
        ),
        ("too-many-copies", &["too-many-copies"], copies.into()),
        ("channels-too-deep", &["channels-too-deep"], in_a_row),
        ("constants-too-deep", &["chain-too-long"], format!("{consts}const u32 C100 = 1;\n")),
        ("types-too-deep", &["chain-too-long"], format!("{types}type t100 = u8;\n")),
    ]);
}

/// The largest PPF that is accepted must be lowered in reasonable time, and without much stack.
#[test]
fn the_limits_are_reached_safely() {
    let ifs = "if (x > pkt->type)\n    x = x + 1;\nelse\n    y = y ^ x;\n".repeat(1200);
    let nested = |x: &str| (0..120).fold(x.to_string(), |inner, _| format!("({inner} + 1)"));
    let chain: String = (0..63).map(|i| format!("const u32 C{i} = {};\n", nested(&format!("C{}", i + 1)))).collect();
    let deep = |i: u32| format!("u32 f{i}(u32 x) {{\n    return {};\n}}\n", nested(&format!("f{}(x)", i - 1)));
    let calls: String = (1..30).map(deep).collect();
    let body = |text: &str| {
        format!(
            "ppf work(ether_packet_t *pkt) from input {{\n    u32 x = 0;\n    u32 y = 0;\n{text}    pkt->type = (u16) (x + y);\n    channel_put(output, pkt);\n}}"
        )
    };
    for source in [
        module(&body(&ifs)),
        format!("{chain}const u32 C63 = 1;\n"),
        module(&format!("u32 f0(u32 x) {{\n    return x;\n}}\n{calls}{}", body("    x = f29(y);\n"))),
    ] {
        let compilation = check("test.baker", &source, &Library);
        let rendered = render(&compilation.diagnostics, &compilation.sources, false);
        let program = compilation.program.unwrap_or_else(|| panic!("{rendered}"));
        assert_eq!(verify(&lower(&program)), Ok(()));
    }
}

//! What a program may cost.

use baker::check::check;
use baker::ir::{lower, verify};
use baker::library::Library;

use crate::support::{module, refused};

#[test]
fn cost() {
    let doubling: String =
        (1..20).map(|i| format!("u32 f{i}(u32 x) {{\n    return f{}(x) + f{}(x);\n}}\n", i - 1, i - 1)).collect();
    let chain: String = (1..400).map(|i| format!("u32 f{i}(u32 x) {{ return f{}(x); }}\n", i - 1)).collect();
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
    let consts: String = (0..300).map(|i| format!("const u32 C{i} = C{} + 1;\n", i + 1)).collect();
    let types: String = (0..500).map(|i| format!("type t{i} = t{};\n", i + 1)).collect();
    refused(&[
        (
            "code-too-large",
            &["code-too-large"],
            module(&format!("{first}{doubling}{}", work("pkt->metadata.mark = (u16) f19(1);"))),
        ),
        (
            "calls-too-deep",
            &["calls-too-deep"],
            module(&format!("{first}{chain}{}", work("pkt->metadata.mark = (u16) f399(1);"))),
        ),
        (
            "too-many-steps",
            &["too-many-steps"],
            copies
                .replace("packet_copy(pkt)", "pkt")
                .replace("channel_put(output, pkt);\n        }", "pkt->src += (u48) i * j;\n        }")
                .replace("64", "1000"),
        ),
        ("too-many-copies", &["too-many-copies"], copies.into()),
        ("channels-too-deep", &["channels-too-deep"], in_a_row),
        ("constants-too-deep", &["chain-too-long"], format!("{consts}const u32 C300 = 1;\n")),
        ("types-too-deep", &["chain-too-long"], format!("{types}type t500 = u8;\n")),
    ]);
}

/// What lies just within the limits is lowered without trouble; what lies far beyond is refused without trouble.
#[test]
fn the_limits_are_reached_safely() {
    let ifs = |count| "if (x > pkt->type)\n    x = x + 1;\nelse\n    y = y ^ x;\n".repeat(count);
    let nested = |x: &str, levels| (0..levels).fold(x.to_string(), |inner, _| format!("({inner} + 1)"));
    let consts = |count, levels| {
        let chain: String =
            (0..count).map(|i| format!("const u32 C{i} = {};\n", nested(&format!("C{}", i + 1), levels))).collect();
        format!("{chain}const u32 C{count} = 1;\n")
    };
    let work = |text: &str| {
        format!(
            "ppf work(ether_packet_t *pkt) from input {{\n    u32 x = 0;\n    u32 y = 0;\n{text}    pkt->type = (u16) (x + y);\n    channel_put(output, pkt);\n}}"
        )
    };
    let calls = |count, levels| {
        let deep =
            |i: u32| format!("u32 f{i}(u32 x) {{\n    return {};\n}}\n", nested(&format!("f{}(x)", i - 1), levels));
        let functions: String = (1..count).map(deep).collect();
        module(&format!(
            "u32 f0(u32 x) {{\n    return x;\n}}\n{functions}{}",
            work(&format!("    x = f{}(y);\n", count - 1))
        ))
    };
    for (name, source, expected) in [
        ("large", module(&work(&ifs(1200))), None),
        ("too large", module(&work(&ifs(20_000))), Some("code-too-large")),
        ("constants", module(&consts(180, 0)).replace("    in  ether input;\n", ""), None),
        ("nested constants", module(&consts(3, 60)).replace("    in  ether input;\n", ""), None),
        ("too deep constants", consts(1000, 100), Some("chain-too-long")),
        ("calls", calls(200, 0), None),
        ("nested calls", calls(6, 100), None),
        ("too deep calls", calls(1000, 100), Some("calls-too-deep")),
    ] {
        let compilation = check("test.baker", &source, &Library);
        let codes: Vec<_> = compilation.diagnostics.iter().map(|d| d.code).collect();
        assert_eq!(codes.first().copied(), expected, "{name}: {codes:?}");
        assert!(codes.len() <= 1, "{name}: {codes:?}");
        if let Some(program) = compilation.program {
            assert_eq!(verify(&lower(&program)), Ok(()), "{name}");
        }
    }
}

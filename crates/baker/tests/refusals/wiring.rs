//! Which channel leads where.

use crate::support::refused;

/// Two modules in a row, and these wires.
fn wires(wires: &str) -> String {
    let wires: String = wires.lines().map(|line| format!("    {line}\n")).collect();
    format!(
        "import \"net/ipv4\";

module first {{
    in  ether input;
    out ipv4  output;
    ppf strip(ether_packet_t *pkt) from input {{
        ipv4_packet_t *ip = packet_decap(pkt);
        channel_put(output, ip);
    }}
}}

module second {{
    in  ipv4  input;
    out ether output;
    channel ether inner;
    ppf frame(ipv4_packet_t *ip) from input {{
        ether_packet_t *pkt = packet_encap(ip);
        channel_put(inner, pkt);
    }}
    ppf send(ether_packet_t *pkt) from inner {{
        channel_put(output, pkt);
    }}
}}

program {{
{wires}}}
"
    )
}

#[test]
fn wiring() {
    refused(&[
        ("unwired-rx", &["unwired"], wires("first.output -> second.input;\nsecond.output -> tx;")),
        ("unwired-output", &["unwired"], wires("rx -> first.input;\nfirst.output -> second.input;")),
        ("unfed", &["unfed"], wires("rx -> first.input;\nfirst.output -> second.input;\nsecond.output -> tx;").replace("in  ether input;", "in  ether input, other;").replace("module second", "module third {\n    in ether input;\n    ppf end(ether_packet_t *pkt) from input {\n        packet_drop(pkt, no_port);\n    }\n}\n\nmodule second").replace("input, other", "input")),
        ("wired-twice", &["wired-twice"], wires("rx -> first.input;\nfirst.output -> second.input;\nsecond.output -> tx;\nsecond.output -> host;")),
        ("wire-of-another-protocol", &["protocol-mismatch"], wires("rx -> first.input;\nfirst.output -> tx;\nfirst.output -> second.input;\nsecond.output -> tx;").replace("first.output -> second.input;\n", "").replace("rx -> first.input;", "rx -> first.input;\n    second.output -> second.input;").replace("    second.output -> tx;\n", "").replace("first.output -> tx;", "first.output -> second.input;")),
        ("wire-from-an-input", &["wrong-direction"], wires("rx -> first.input;\nfirst.output -> second.input;\nsecond.input -> tx;\nsecond.output -> tx;")),
        ("wire-to-an-output", &["wrong-direction"], wires("rx -> first.output;\nfirst.output -> second.input;\nsecond.output -> tx;")),
        ("wire-to-an-inner-channel", &["wrong-direction"], wires("rx -> first.input;\nfirst.output -> second.input;\nsecond.inner -> tx;\nsecond.output -> tx;")),
        ("wire-from-tx", &["wrong-direction"], wires("tx -> first.input;\nfirst.output -> second.input;\nsecond.output -> tx;")),
        ("wire-to-unknown-channel", &["unknown-name"], wires("rx -> first.input;\nfirst.output -> second.inpt;\nsecond.output -> tx;")),
        ("wire-from-unknown-module", &["unknown-name"], wires("rx -> first.input;\nfrist.output -> second.input;\nsecond.output -> tx;")),
        ("wire-to-unknown-end", &["unknown-end"], wires("rx -> first.input;\nfirst.output -> second.input;\nsecond.output -> txx;")),
        ("wire-to-a-module", &["unknown-end"], wires("rx -> first;\nfirst.output -> second.input;\nsecond.output -> tx;")),
        ("duplicate-program", &["duplicate-program"], wires("rx -> first.input;\nfirst.output -> second.input;\nsecond.output -> tx;") + "\nprogram {\n    rx -> second.input;\n}\n"),
        ("channel-cycle", &["channel-cycle"], wires("rx -> first.input;\nfirst.output -> second.input;\nsecond.output -> first.input;")),
        (
            "channel-cycle-in-a-module",
            &["channel-cycle"],
            wires("rx -> first.input;\nfirst.output -> second.input;\nsecond.output -> tx;").replace("        channel_put(output, pkt);\n", "        if (pkt->type == 5)\n            channel_put(inner, pkt);\n        else\n            channel_put(output, pkt);\n"),
        ),
        (
            "channel-cycle-through-a-function",
            &["channel-cycle"],
            wires("rx -> first.input;\nfirst.output -> second.input;\nsecond.output -> tx;").replace("    ppf send", "    void again(ether_packet_t *pkt) {\n        channel_put(inner, packet_copy(pkt));\n    }\n    ppf send").replace("        channel_put(output, pkt);\n", "        again(pkt);\n        channel_put(output, pkt);\n"),
        ),
        (
            "no-ether",
            &["no-ether"],
            "protocol frame {\n    type : 16;\n    demux { 2 };\n}\n\nmodule m {\n    in frame input;\n    ppf end(frame_packet_t *f) from input {\n        packet_drop(f, no_port);\n    }\n}\n\nprogram {\n    rx -> m.input;\n}\n".into(),
        ),
    ]);
}

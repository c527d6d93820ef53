//! Functions of controllers, and wires from and to controllers.

use crate::support::{Case, refused};

/// A module with these items and this statement in its PPF, and a program with these wires.
fn program(items: &str, statement: &str, wires: &str) -> String {
    let wires: String = wires.lines().map(|line| format!("    {line}\n")).collect();
    format!(
        "import \"net/ipv4\";

enum kind_t : u4 {{ PLAIN, OTHER }}
struct pair_t {{ a : u8; b : u8; }}

module m {{
    in  ether input;
    in  ipv4  packets;
    out ether output, punt;
    lpm<u32, u32> routes[8];
    {items}

    ppf work(ether_packet_t *pkt) from input {{
        {statement}
        channel_put(output, pkt);
    }}
    ppf frame(ipv4_packet_t *ip) from packets {{
        ether_packet_t *frame = packet_encap(ip);
        channel_put(punt, frame);
    }}
}}

program {{
{wires}}}
"
    )
}

const WIRES: &str = "rx -> m.input;\ncontroller stack -> m.packets;\nm.punt -> controller stack;\nm.output -> tx;";

#[test]
fn externs() {
    fn case<'a>(name: &'a str, codes: &'a [&'a str], items: &str, statement: &str) -> Case<'a> {
        (name, codes, program(items, statement, WIRES))
    }
    let many: Vec<String> = (0..17).map(|i| format!("u8 a{i}")).collect();
    refused(&[
        case("extern-takes-a-struct", &["bad-extern-type"], "extern u8 pick(pair_t pair);", ""),
        case("extern-takes-a-packet", &["bad-extern-type"], "extern u8 pick(ether_packet_t *pkt);", ""),
        case("extern-takes-a-pointer", &["bad-extern-type"], "extern u8 pick(u32 *entry);", ""),
        case("extern-returns-a-struct", &["bad-extern-type"], "extern pair_t pick(u8 n);", ""),
        case(
            "extern-with-many-parameters",
            &["too-many-parameters"],
            &format!("extern void pick({});", many.join(", ")),
            "",
        ),
        case(
            "extern-called-with-less",
            &["wrong-arguments"],
            "extern u8 pick(u8 a, kind_t b);",
            "pkt->metadata.tx.port = pick(1);",
        ),
        case(
            "extern-called-with-more-bits",
            &["narrowing"],
            "extern u8 pick(u8 a);",
            "pkt->metadata.tx.port = pick(pkt->type);",
        ),
        case(
            "extern-without-result-as-value",
            &["type-mismatch"],
            "extern void note(u8 a);",
            "pkt->metadata.tx.port = note(1);",
        ),
        case("extern-in-a-constant", &["not-constant"], "extern u8 pick(u8 a);\n    const u8 ONE = pick(1);", ""),
        case("extern-named-twice", &["duplicate-name"], "extern u8 routes(u8 a);", ""),
        case("extern-used-as-value", &["not-a-value"], "extern u8 pick(u8 a);", "pkt->metadata.tx.port = pick;"),
        case("extern-misspelt", &["unknown-name"], "extern u8 pick(u8 a);", "pkt->metadata.tx.port = pikc(1);"),
    ]);
}

#[test]
fn controllers() {
    fn case<'a>(name: &'a str, codes: &'a [&'a str], wires: &str) -> Case<'a> {
        (name, codes, program("", "", wires))
    }
    let more = |wire: &str| format!("{WIRES}\n{wire}");
    refused(&[
        case("controller-injects-twice", &["wired-twice"], &more("controller stack -> m.packets;")),
        case("controller-injects-at-tx", &["wrong-direction"], &more("controller stack -> tx;")),
        case("controller-to-controller", &["wrong-direction"], &more("controller stack -> controller other;")),
        case("controller-injects-at-an-output", &["wrong-direction"], &more("controller stack -> m.punt;")),
        case("controller-without-name", &["unknown-end"], &WIRES.replace("-> controller stack", "-> controller")),
        case("controller-is-no-module", &["unknown-end"], &WIRES.replace("-> controller stack", "-> stack")),
        case("controller-injects-into-nothing", &["unknown-name"], &more("controller stack -> m.nowhere;")),
        // An input that only a controller feeds is fed.
        case("controller-feeds", &["unfed"], &WIRES.replace("controller stack -> m.packets;\n", "")),
    ]);
}

#[test]
fn batches() {
    let case = |name: &'static str, codes: &'static [&'static str], clause: &str| {
        let wires = WIRES.replace("-> controller stack;\nm", &format!("-> controller stack {clause};\nm"));
        (name, codes, program("", "", &wires))
    };
    refused(&[
        case("batch-of-nothing", &["size-out-of-range"], "batch 0 within 5ms"),
        case("batch-too-large", &["size-out-of-range"], "batch 65537 within 5ms"),
        case("batch-for-a-blink", &["bad-batch"], "batch 256 within 999"),
        case("batch-for-long", &["bad-batch"], "batch 256 within 2s"),
        ("batch-to-a-port", &["bad-batch"], program("", "", &WIRES.replace("-> tx;", "-> tx batch 256 within 5ms;"))),
    ]);
}

#[test]
fn what_controllers_inject_costs() {
    let busy = "for (u32 i = 0; i < 4096; i++) { for (u16 j = 0; j < 40; j++) { pkt->type = pkt->type + j; } }";
    let text = program(
        "",
        busy,
        "rx -> controller stack;\ncontroller stack -> m.input;\ncontroller stack -> m.packets;\nm.punt -> host;\nm.output -> tx;",
    );
    let copies = "for (u32 i = 0; i < 2000; i++) { channel_put(output, packet_copy(pkt)); }";
    let more = program(
        "",
        copies,
        "rx -> controller stack;\ncontroller stack -> m.input;\ncontroller stack -> m.packets;\nm.punt -> host;\nm.output -> tx;",
    );
    refused(&[("injected-steps", &["too-many-steps"], text), ("injected-copies", &["too-many-copies"], more)]);
}

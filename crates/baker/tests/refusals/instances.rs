//! Several instances of one module.

use crate::support::refused;

/// A module `count` with two instances, and a module `fork` with this condition.
fn twice(condition: &str, instances: &str, wires: &str) -> String {
    let wires: String = wires.lines().map(|line| format!("    {line}\n")).collect();
    format!(
        "import \"net/ether\";

module count {{
    in  ether input;
    out ether output;
    const u32 SIZE = 4;
    array<u32> seen[SIZE];
    counter frames;
    ppf note(ether_packet_t *pkt) from input {{
        counter_add(frames, 1);
        channel_put(output, pkt);
    }}
}}

module fork {{
    in  ether input;
    out ether a, b;
    ppf fork(ether_packet_t *pkt) from input {{
        if ({condition})
            channel_put(a, pkt);
        else
            channel_put(b, pkt);
    }}
}}

program {{
    {instances}
{wires}}}
"
    )
}

const WIRES: &str =
    "rx -> fork.input;\nfork.a -> left.input;\nfork.b -> right.input;\nleft.output -> tx;\nright.output -> tx;";

#[test]
fn instances() {
    let two = "count left, right;";
    let many: Vec<String> = (0..70).map(|i| format!("at{i}")).collect();
    // Each of twenty instances leads to the next one.
    let large = twice("true", &format!("count {};", many[..20].join(", ")), "rx -> at0.input;\nat19.output -> tx;")
        .replace("counter_add(frames, 1);", &"pkt->type += (u16) (pkt->type * 3 + packet_length(pkt));\n".repeat(1000));
    let large = (0..19).fold(large, |large, i| {
        large.replace("    rx ->", &format!("    at{i}.output -> at{}.input;\n    rx ->", i + 1))
    });
    let (before, after) = large.split_once("module fork").expect("two modules");
    let large = before.to_string() + &after[after.find("program").expect("the program")..];
    refused(&[
        ("instance-table-of-the-module", &["needs-instance"], twice("count.seen[1] == 2", two, WIRES)),
        (
            "instance-counter-of-the-module",
            &["needs-instance"],
            twice("true", two, WIRES).replace("add(frames", "add(count.frames"),
        ),
        (
            "instance-wire-of-the-module",
            &["needs-instance"],
            twice("true", two, &WIRES.replace("left.output", "count.output")),
        ),
        ("instance-constant", &["not-of-instance"], twice("left.SIZE == 2", two, WIRES)),
        ("instance-unknown-item", &["unknown-name"], twice("left.sean[1] == 2", two, WIRES)),
        ("instance-as-value", &["not-a-value"], twice("left == 2", two, WIRES)),
        ("instance-of-unknown-module", &["unknown-name"], twice("left.seen[1] == 2", "cuont left, right;", WIRES)),
        ("instance-of-a-protocol", &["wrong-kind-of-name"], twice("true", "ether left, right;", WIRES)),
        ("instance-twice", &["duplicate-name"], twice("true", "count left, right, left;", WIRES)),
        ("instance-named-as-its-module", &["duplicate-name"], twice("true", "count left, right, count;", WIRES)),
        ("instance-unwired", &["unwired"], twice("true", two, &WIRES.replace("\nright.output -> tx;", ""))),
        (
            "instance-unfed",
            &["unfed"],
            twice("true", "count left, right, third;", &format!("{WIRES}\nthird.output -> tx;")),
        ),
        ("instance-as-end", &["unknown-end"], twice("true", two, &WIRES.replace("left.input", "left"))),
        (
            "instance-cycle",
            &["channel-cycle"],
            twice(
                "true",
                two,
                &WIRES
                    .replace("left.output -> tx", "left.output -> right.input")
                    .replace("right.output -> tx", "right.output -> left.input"),
            ),
        ),
        (
            "instance-out-of-body",
            &["wrong-kind-of-name"],
            twice("true", two, WIRES) + "\nleft.note.ppf(ether_packet_t *pkt) {\n    packet_drop(pkt, no_port);\n}\n",
        ),
        (
            "instances-too-many",
            &["too-many-instances"],
            twice("true", &format!("count left, right, {};", many.join(", ")), WIRES),
        ),
        ("instances-too-large", &["too-many-instances"], large),
    ]);
}

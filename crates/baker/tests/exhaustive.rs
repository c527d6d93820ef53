//! A `switch` without `default`: where its labels are all values that its number can have nothing passes it by; where
//! they are not, what passes it is named in the errors that follow from it.

use std::sync::Arc;

use baker::check::{Compilation, check};
use baker::diag::render;
use baker::ir::interp::Machine;
use baker::library::Library;

fn checked(items: &str, body: &str) -> Compilation {
    let text = format!(
        "import \"net/ether\";
        {items}
        module m {{ in ether input; out ether output, other;
            ppf p(ether_packet_t *pkt) from input {{
                {body}
            }} }}
        program {{ rx -> m.input; m.output -> tx; m.other -> host; }}"
    );
    check("exhaustive.baker", &text, &Library)
}

/// The codes of the errors, and all that is said.
fn refused(items: &str, body: &str) -> (Vec<&'static str>, String) {
    let compilation = checked(items, body);
    let codes = compilation.diagnostics.iter().map(|d| d.code).collect();
    (codes, render(&compilation.diagnostics, &compilation.sources, false))
}

const TWO: &str = "enum side_t : u1 { LEFT, RIGHT }";
const FOUR: &str = "enum way_t : u2 { NORTH, EAST, SOUTH, WEST }";
const THREE: &str = "enum color_t : u2 { GREEN, YELLOW = 2, RED }";

#[test]
fn all_values_have_labels() {
    // Every type of few bits, signed or not, with and without names.
    for (items, ty, labels) in [
        (TWO, "side_t", "LEFT RIGHT"),
        (TWO, "u1", "1 0"),
        ("", "i1", "-1 0"),
        (FOUR, "way_t", "SOUTH WEST NORTH EAST"),
        (THREE, "color_t", "GREEN 1 YELLOW RED"),
        ("", "i2", "-2 -1 0 1"),
    ] {
        let labels: Vec<&str> = labels.split(' ').collect();
        // Each arm hands the packet on, with its number in it.
        let arms: String = (labels.iter().enumerate())
            .map(|(n, label)| format!("case {label}: pkt->src = {n}; channel_put(output, pkt);\n"))
            .collect();
        let width = if labels.len() == 2 { 1 } else { 2 };
        let value = format!("({ty}) (u{width}) pkt->type");
        let compilation = checked(items, &format!("pkt->metadata.tx.port = 1; switch ({value}) {{ {arms} }}"));
        let rendered = render(&compilation.diagnostics, &compilation.sources, false);
        assert_eq!(rendered, "", "{ty}");
        let program = Arc::new(baker::ir::lower(compilation.program.as_ref().unwrap()));
        baker::ir::verify(&program).unwrap();
        let mut machine = Machine::new(program);
        let mut arms_taken: Vec<u8> = (0..labels.len() as u8)
            .map(|number| {
                let mut frame = [0; 60];
                frame[13] = number | 0xf0;
                machine.receive(1, &frame)[0].packet[11]
            })
            .collect();
        // By number: which arm has which label is written by hand for one of them.
        if ty == "way_t" {
            assert_eq!(arms_taken, [2, 3, 0, 1]);
        }
        if ty == "i2" {
            assert_eq!(arms_taken, [2, 3, 0, 1]);
        }
        arms_taken.sort_unstable();
        assert_eq!(arms_taken, (0..labels.len() as u8).collect::<Vec<_>>(), "{ty}");
        // A function that returns in each arm returns.
        let returns: String = labels.iter().map(|label| format!("case {label}: return 1;\n")).collect();
        let function = format!("u8 f({ty} x) {{ switch (x) {{ {returns} }} }}");
        let (codes, said) = refused(&format!("{items}\n{function}"), "channel_put(output, pkt);");
        assert!(codes.is_empty(), "{said}");
        // With one label less, it does not.
        let returns: String = labels[1..].iter().map(|label| format!("case {label}: return 1;\n")).collect();
        let function = format!("u8 f({ty} x) {{ switch (x) {{ {returns} }} }}");
        let (codes, said) = refused(&format!("{items}\n{function}"), "channel_put(output, pkt);");
        assert_eq!(codes, ["missing-return"], "{said}");
    }
}

/// An enum is a number, which may be one that has no name.
#[test]
fn all_names_are_not_all_values() {
    let puts = "channel_put(output, pkt);";
    let wrong = |items: &str, body: &str, code: &str, passes: &str| {
        let (codes, said) = refused(items, body);
        assert_eq!(codes, [code], "{said}");
        let wanted = format!("goes on behind this `switch` where it is {passes}: add `default`");
        assert!(said.contains(&wanted), "{wanted}\n{said}");
    };
    let value = "color_t color = (u2) pkt->type;";
    let body = format!("{value} switch (color) {{ case GREEN, RED: {puts} case YELLOW: {puts} }}");
    wrong(THREE, &body, "handle-lost-on-a-path", "no enumerator, such as 1");
    let body = format!("{value} switch (color) {{ case GREEN: {puts} }}");
    wrong(THREE, &body, "handle-lost-on-a-path", "`YELLOW`, `RED` or no enumerator, such as 1");
    let body =
        format!("way_t way = (u2) pkt->type; switch (way) {{ case EAST, WEST: {puts} case NORTH: {puts} return; }}");
    wrong(FOUR, &body, "handle-lost-on-a-path", "`SOUTH`");
    let many = "enum many_t { A, B, C, D, E, F, G, H }";
    let body = format!("many_t many = pkt->type; switch (many) {{ case B: {puts} return; }}");
    wrong(many, &body, "handle-lost", "`A`, `C`, `D`, `E`, `F`, 2 others or no enumerator, such as 8");
    wrong(
        "",
        &format!("switch (pkt->type) {{ case 0: {puts} }}"),
        "handle-lost-on-a-path",
        "another number, such as 1",
    );
    let function = |body: &str| format!("{THREE} u8 f(color_t x) {{ {body} }}");
    let returns = "switch (x) { case GREEN: return 1; case YELLOW: return 2; case RED: return 3; }";
    wrong(&function(returns), puts, "missing-return", "no enumerator, such as 1");
    // What is wrong for other reasons is not laid at its door.
    for body in [
        format!("{value} switch (color) {{ case GREEN: {puts} default: if (pkt->src == 1) {puts} }}"),
        "color_t color = (u2) pkt->type; switch (color) { case GREEN: pkt->src = 1; case RED: pkt->src = 2; }".into(),
        format!("{value} switch (color) {{ case GREEN: pkt->src = 1; }} if (pkt->src == 1) {puts}"),
    ] {
        let (codes, said) = refused(THREE, &body);
        assert!(codes.len() == 1 && !said.contains("this `switch`"), "{said}");
    }
}

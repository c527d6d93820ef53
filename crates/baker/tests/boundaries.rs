//! The least and the greatest value of every integer type are accepted as constants, in each way to write them, and
//! mean what they say; what lies beyond is refused.

use std::fmt::Write;
use std::sync::Arc;

use baker::check::check;
use baker::diag::render;
use baker::ir::interp::Machine;
use baker::library::Library;

const PACKET: &str = "protocol ether { first : 8; demux { 1 }; }\n";

/// A value of a type: what it is written as, and its bits, extended to 128.
struct Case {
    ty: String,
    text: String,
    bits: u128,
}

fn case(ty: &str, text: String, bits: u128) -> Case {
    Case { ty: ty.into(), text, bits }
}

/// The ends of each type, and how its uppermost bit is written.
fn ends() -> Vec<Case> {
    let mut cases = Vec::new();
    for width in 1..=128u32 {
        let top = 1u128 << (width - 1);
        let most = top | (top - 1);
        let ty = format!("u{width}");
        cases.push(case(&ty, "0".into(), 0));
        cases.push(case(&ty, most.to_string(), most));
        cases.push(case(&ty, format!("{most:#x}"), most));
        cases.push(case(&ty, format!("1 << {}", width - 1), top));
        cases.push(case(&ty, format!("(1 << {}) | {}", width - 1, top - 1), most));
        cases.push(case(&ty, "~0".into(), most));
        cases.push(case(&ty, format!("{most} - {most}"), 0));
        cases.push(case(&ty, format!("{most} * 1 / 1 % {most}"), 0));
        let ty = format!("i{width}");
        // Two's complement: the negative of the top bit.
        let least = top.wrapping_neg();
        cases.push(case(&ty, format!("-{top}"), least));
        cases.push(case(&ty, format!("-{top:#x}"), least));
        cases.push(case(&ty, format!("-(1 << {})", width - 1), least));
        cases.push(case(&ty, format!("-{} - 1", top - 1), least));
        cases.push(case(&ty, format!("~{}", top - 1), least));
        cases.push(case(&ty, (top - 1).to_string(), top - 1));
        cases.push(case(&ty, format!("{top} - 1"), top - 1));
        cases.push(case(&ty, "-1".into(), u128::MAX));
    }
    cases
}

/// An item and the statements that declare `x`, for the value of a number.
type Declare = fn(usize, &Case) -> (String, String);

/// What a program that stores each of these values gives, from a packet of zeros.
fn stored(cases: &[Case], declare: Declare) -> Vec<u128> {
    let (mut items, mut body) = (String::new(), String::new());
    for (index, case) in cases.iter().enumerate() {
        let (item, statements) = declare(index, case);
        writeln!(items, "{item}").unwrap();
        writeln!(body, "{{ {statements} all = packet_store(pkt, {}, (u128) x) && all; }}", index * 16).unwrap();
    }
    let text = format!(
        "{PACKET}{items}drop_reason short;
        module m {{ in ether input; out ether output;
            ppf p(ether_packet_t *pkt) from input {{
                bool all = true;
                {body}
                if (all) channel_put(output, pkt); else packet_drop(pkt, short);
            }} }}
        program {{ rx -> m.input; m.output -> host; }}"
    );
    let compilation = check("ends.baker", &text, &Library);
    let rendered = render(&compilation.diagnostics, &compilation.sources, false);
    assert!(rendered.is_empty(), "{rendered}");
    let program = Arc::new(baker::ir::lower(compilation.program.as_ref().unwrap()));
    let mut machine = Machine::new(program);
    let out = machine.receive(1, &vec![0; cases.len() * 16]);
    let bytes = &out[0].packet;
    bytes.chunks(16).map(|chunk| u128::from_be_bytes(chunk.try_into().unwrap())).collect()
}

#[test]
fn the_ends_of_every_type_are_accepted() {
    let cases = ends();
    // 256 at a time, so that a program stays within what one may cost.
    for cases in cases.chunks(256) {
        let ways: [Declare; 3] = [
            |_, case| (String::new(), format!("{} x = {};", case.ty, case.text)),
            |index, case| {
                (format!("const {} C{index} = {};", case.ty, case.text), format!("{} x = C{index};", case.ty))
            },
            |_, case| (String::new(), format!("{} x = 0; x = {};", case.ty, case.text)),
        ];
        for way in ways {
            for (case, found) in cases.iter().zip(stored(cases, way)) {
                assert_eq!(found, case.bits, "{} x = {}: {found:#x}", case.ty, case.text);
            }
        }
    }
}

#[test]
fn one_more_is_refused() {
    let mut lines = Vec::new();
    for width in 1..=128u32 {
        let top = 1u128 << (width - 1);
        lines.push(format!("const u{width} A{width} = -1;"));
        lines.push(format!("const i{width} B{width} = {top};"));
        lines.push(format!("const i{width} C{width} = -{};", top + 1));
        lines.push(format!("const i{width} D{width} = -(1 << {}) - 1;", width - 1));
        if width < 128 {
            lines.push(format!("const u{width} E{width} = {};", top << 1));
            lines.push(format!("const u{width} F{width} = 1 << {width};"));
        }
    }
    let compilation = check("beyond.baker", &lines.join("\n"), &Library);
    let found: Vec<_> = compilation.diagnostics.iter().map(|d| (d.code, d.primary.span)).collect();
    let line = |span: baker::source::Span| compilation.sources.line_column(span.file, span.start).0 as usize - 1;
    for (index, text) in lines.iter().enumerate() {
        let here: Vec<_> = found.iter().filter(|(_, span)| line(*span) == index).map(|(code, _)| *code).collect();
        assert_eq!(here, ["constant-out-of-range"], "{text}");
    }
    assert_eq!(found.len(), lines.len());
    // Beyond what any type has.
    for (value, code) in [
        ("340282366920938463463374607431768211455 + 1", "constant-overflow"),
        ("1 << 128", "constant-overflow"),
        ("-340282366920938463463374607431768211455 - 2", "constant-overflow"),
        ("340282366920938463463374607431768211456", "number-too-big"),
    ] {
        let compilation = check("beyond.baker", &format!("const u128 A = {value};"), &Library);
        let codes: Vec<_> = compilation.diagnostics.iter().map(|d| d.code).collect();
        assert_eq!(codes, [code], "{value}");
    }
}

/// A counter of 128 bits counts by its value, not by what that is with a sign.
#[test]
fn loops_at_the_upper_end() {
    let codes = |head: &str| {
        let text = format!(
            "{PACKET}module m {{ in ether input; counter c;
                ppf p(ether_packet_t *pkt) from input {{ for ({head}) counter_add(c, 1); packet_drop(pkt, malformed); }} }}"
        );
        let compilation = check("loops.baker", &text, &Library);
        compilation.diagnostics.iter().map(|d| d.code).collect::<Vec<_>>()
    };
    let most = u128::MAX;
    assert_eq!(codes(&format!("u128 i = {most}; i > 0; i -= 1")), ["loop-too-long"]);
    assert_eq!(codes(&format!("u128 i = 0; i < {most}; i += 1")), ["loop-too-long"]);
    assert_eq!(codes(&format!("u128 i = {most}; i > {most} - 3; i -= 1")), [] as [&str; 0]);
    assert_eq!(codes("u128 i = 1 << 127; i < (1 << 127) + 4; i++"), [] as [&str; 0]);
    let least = 1u128 << 127;
    assert_eq!(codes(&format!("i128 i = -{least}; i < -{least} + 4; i++")), [] as [&str; 0]);
}

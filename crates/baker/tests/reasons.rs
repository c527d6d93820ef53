//! Drop reasons as values: in variables, metadata, structs and tables, through functions, and compared.

use std::sync::Arc;

use baker::check::check;
use baker::diag::render;
use baker::ir::interp::Machine;
use baker::ir::{DropReason, Program, TableEntry, TableStore};
use baker::library::Library;

const PROGRAM: &str = "import \"net/ether\";
drop_reason by_table, by_struct, short, odd, by_default;
type why_t = drop_reason;
metadata { why : drop_reason; }
struct judged_t { port : u8; why : why_t; }

drop_reason length_fault(ether_packet_t *pkt) {
    if (packet_length(pkt) < 60)
        return short;
    return (packet_length(pkt) & 1) == 1 ? odd : no_reason;
}

module m {
    in ether input;
    out ether output;
    channel ether judged;
    array<drop_reason> by_port[8];
    hash<u16, judged_t> by_type[16];
    hash<drop_reason, u64> seen[16];

    drop_reason or_else(drop_reason why, drop_reason other) { return why == no_reason ? other : why; }

    ppf judge(ether_packet_t *pkt) from input {
        drop_reason why = length_fault(pkt);
        judged_t *found = by_type[pkt->type];
        if (why == no_reason && found != null)
            why = found->why;
        if (why == no_reason)
            why = by_port[pkt->metadata.rx.port];
        pkt->metadata.why = why;
        channel_put(judged, pkt);
    }

    ppf end(ether_packet_t *pkt) from judged {
        u64 *before = seen[pkt->metadata.why];
        if (before != null)
            *before += 1;
        if (pkt->metadata.rx.port == 7) {
            drop_reason why;
            packet_drop(pkt, why);
            return;
        }
        if (pkt->metadata.why == no_reason && pkt->metadata.rx.port == 1)
            channel_put(output, pkt);
        else
            packet_drop(pkt, or_else(pkt->metadata.why, by_default));
    }
}
program { rx -> m.input; m.output -> host; }
";

fn program() -> Arc<Program> {
    let compilation = check("reasons.baker", PROGRAM, &Library);
    let rendered = render(&compilation.diagnostics, &compilation.sources, false);
    assert!(rendered.is_empty(), "{rendered}");
    let program = baker::ir::lower(compilation.program.as_ref().unwrap());
    assert_eq!(baker::ir::verify(&program), Ok(()));
    Arc::new(program)
}

fn value(name: &str) -> u128 {
    DropReason { name: name.into() }.value().into()
}

#[test]
fn reasons_go_where_values_go() {
    let program = program();
    let mut machine = Machine::new(program.clone());
    let table = |name: &str| baker::ir::TableId(program.tables.iter().position(|t| t.name == name).unwrap() as u32);
    let set = |machine: &mut Machine, name: &str, key: u128, value: Vec<u128>| {
        machine.insert(table(name), &TableEntry { key: vec![key], prefix_len: None, value }).unwrap();
    };
    set(&mut machine, "m.by_port", 2, vec![value("by_table")]);
    // A number that is no reason, as a program before a reload may have left it.
    set(&mut machine, "m.by_port", 3, vec![12345]);
    set(&mut machine, "m.by_type", 0x88b5, vec![1, value("by_struct")]);
    set(&mut machine, "m.seen", value("odd"), vec![0]);
    let mut from = |port: u8, kind: u16, len: usize| {
        let mut frame = vec![0; len];
        frame[12..14].copy_from_slice(&kind.to_be_bytes());
        let before = machine.counters().to_vec();
        if !machine.receive(port, &frame).is_empty() {
            return "passed";
        }
        let drop = |reason| machine.slots().drop(baker::ir::DropId(reason));
        let reason = (0..program.drop_reasons.len() as u32).find(|r| machine.counters()[drop(*r)] > before[drop(*r)]);
        &program.drop_reasons[reason.expect("dropped") as usize].name
    };
    assert_eq!([from(1, 0, 60), from(1, 0, 59), from(1, 0, 61)], ["passed", "short", "odd"]);
    assert_eq!([from(2, 0, 60), from(2, 0x88b5, 60), from(4, 0, 60)], ["by_table", "by_struct", "by_default"]);
    assert_eq!([from(3, 0, 60), from(7, 0, 60)], ["no_reason", "no_reason"]);
    let seen = machine.dump(table("m.seen"));
    assert_eq!(seen[0].value, [1]);
}

/// What a reason's value is must never change: tables on disk and controllers hold it.
#[test]
fn values_are_hashes_of_names() {
    // FNV-1a of 32 bits: its published test vectors.
    assert_eq!((value("a"), value("foobar")), (0xe40c_292c, 0xbf9c_f968));
    assert_eq!(value("no_reason"), 0);
    let program = program();
    let values: std::collections::HashSet<u32> = program.drop_reasons.iter().map(DropReason::value).collect();
    assert_eq!(values.len(), program.drop_reasons.len());
    let field = &program.layouts.iter().find(|layout| layout.name == "judged_t").unwrap().fields[1];
    assert!(field.is_reason() && field.type_name == "drop_reason", "{field:?}");
    assert!(field.names.contains(&("by_struct".into(), value("by_struct"))));
}

const CHECKED: &str = "import \"net/ether\";
drop_reason low, high, both, absent, never;

void check(u16 type, drop_reason below, drop_reason above) {
    packet_require(type >= 10, below);
    packet_require(type < 20, type == 99 ? both : above);
}

module m {
    in ether input;
    out ether output;
    hash<u16, u8> ports[16];
    counter after;

    ppf work(ether_packet_t *pkt) from input {
        packet_require(true, never);
        ether_packet_t *copy = packet_copy(pkt);
        check(copy->type, low, high);
        for (u32 i = 0; i < 3; i++)
            packet_require(pkt->type != 12 || i < 2, both);
        channel_put(output, copy);
        u8 *port = ports[pkt->type];
        packet_require(port != null && *port != 0, absent);
        if (pkt->type == 17) {
            packet_end(pkt);
            return;
        }
        counter_add(after, *port);
        channel_put(output, pkt);
    }
}
program { rx -> m.input; m.output -> host; }
";

#[test]
fn a_condition_that_does_not_hold_ends_the_ppf() {
    let compilation = check("checked.baker", CHECKED, &Library);
    let rendered = render(&compilation.diagnostics, &compilation.sources, false);
    assert!(rendered.is_empty(), "{rendered}");
    let program = Arc::new(baker::ir::lower(compilation.program.as_ref().unwrap()));
    assert_eq!(baker::ir::verify(&program), Ok(()));
    let mut machine = Machine::new(program.clone());
    let ports = baker::ir::TableId(0);
    machine.insert(ports, &TableEntry { key: vec![15], prefix_len: None, value: vec![7] }).unwrap();
    machine.insert(ports, &TableEntry { key: vec![16], prefix_len: None, value: vec![0] }).unwrap();
    machine.insert(ports, &TableEntry { key: vec![17], prefix_len: None, value: vec![1] }).unwrap();
    let mut from = |kind: u16| {
        let mut frame = vec![0; 60];
        frame[12..14].copy_from_slice(&kind.to_be_bytes());
        let before = machine.counters().to_vec();
        let passed = machine.receive(1, &frame).len();
        let drop = |reason| machine.slots().drop(baker::ir::DropId(reason));
        let count = |reason| machine.counters()[drop(reason)] - before[drop(reason)];
        let drops = (0..program.drop_reasons.len() as u32).filter(|reason| count(*reason) > 0);
        let drops: Vec<_> = drops.map(|id| (&*program.drop_reasons[id as usize].name, count(id))).collect();
        (passed, drops)
    };
    assert_eq!(from(9), (0, vec![("low", 2)]));
    assert_eq!((from(20), from(99)), ((0, vec![("high", 2)]), (0, vec![("both", 2)])));
    assert_eq!(from(12), (0, vec![("both", 2)]));
    assert_eq!((from(14), from(16)), ((1, vec![("absent", 1)]), (1, vec![("absent", 1)])));
    assert_eq!(from(15), (2, vec![]));
    assert_eq!(from(17), (1, vec![("ended", 1)]));
    let after = machine.slots().user(baker::ir::CounterId(0));
    assert_eq!(machine.counters()[after], 7);
}

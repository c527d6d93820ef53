//! What programs ask of ports, and tables whose values lead into others: also where a module is there several times.

use std::sync::Arc;

use baker::check::check;
use baker::diag::render;
use baker::ir::interp::Machine;
use baker::ir::{Program, TableEntry, TableStore, lower, verify};
use baker::library::Library;

const PROGRAM: &str = "import \"net/ether\";
module fit {
    in ether input;
    out ether output;
    hash<mac_addr_t, u16> ways[8] into hops;
    array<u8> hops[4];
    ppf fit(ether_packet_t *pkt) from input {
        u16 *way = ways[pkt->dst];
        u8 port = way == null ? 1 : hops[*way];
        if (packet_length(pkt) > port_mtu(port) + 14) { packet_drop(pkt, no_port); return; }
        pkt->metadata.tx.port = port;
        channel_put(output, pkt);
    }
}
program {
    fit first, second;
    rx -> first.input;
    first.output -> second.input;
    second.output -> tx;
}
";

fn program(text: &str) -> Arc<Program> {
    let compilation = check("ports.baker", text, &Library);
    let rendered = render(&compilation.diagnostics, &compilation.sources, false);
    assert!(rendered.is_empty(), "{rendered}");
    let program = lower(compilation.program.as_ref().unwrap());
    assert_eq!(verify(&program), Ok(()));
    Arc::new(program)
}

#[test]
fn instances_ask_for_the_same_mtus_and_lead_into_their_own_tables() {
    let program = program(PROGRAM);
    let led: Vec<_> = program.tables.iter().filter_map(|table| Some((table.name.as_str(), table.into?.0))).collect();
    let name = |id: u32| program.tables[id as usize].name.as_str();
    let led: Vec<_> = led.into_iter().map(|(table, into)| (table, name(into))).collect();
    assert_eq!(led, [("first.ways", "first.hops"), ("second.ways", "second.hops")]);
    assert_eq!(program.tables.iter().filter(|table| table.is_of_language()).count(), 1);

    let mut machine = Machine::new(program.clone());
    let mtus = program.port_mtus().unwrap();
    let mut passes = |bytes: usize, mtu: u32| {
        let entry = TableEntry { key: vec![1], prefix_len: None, value: vec![mtu.into()] };
        machine.insert(mtus, &entry).unwrap();
        machine.receive(7, &vec![0; bytes]).len() == 1
    };
    assert!(!passes(60, 0), "there is no port 1");
    assert_eq!([passes(1514, 1500), passes(1515, 1500), passes(1515, 1501)], [true, false, true]);
}

/// The library has functions that ask.
#[test]
fn who_asks_for_no_mtu_has_no_table() {
    let text = PROGRAM.replace("packet_length(pkt) > port_mtu(port) + 14", "port > 4");
    assert_eq!(program(&text).port_mtus(), None);
    assert_eq!(program(&text.replace("port > 4", "!ether_fits(pkt, port)")).port_mtus().map(|id| id.0), Some(4));
}

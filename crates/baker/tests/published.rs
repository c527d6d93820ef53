//! What the published slides show compiles as shown, and does what they say.

use std::sync::Arc;

use baker::check::check;
use baker::diag::render;
use baker::ir::interp::{End, Machine};
use baker::ir::{Program, TableEntry, TableId, TableStore};
use baker::library::Library;

const SLIDE: &str = include_str!("../../../examples/l3_slide.baker");

/// The program, which has no errors.
#[track_caller]
fn compiled(source: &str) -> Arc<Program> {
    let compilation = check("published.baker", source, &Library);
    let rendered = render(&compilation.diagnostics, &compilation.sources, false);
    assert!(rendered.is_empty() && compilation.runnable, "{rendered}");
    let program = baker::ir::lower(compilation.program.as_ref().unwrap());
    baker::ir::verify(&program).unwrap_or_else(|errors| panic!("{errors:?}"));
    Arc::new(program)
}

const ROUTER: u64 = 0x02_00_00_00_01_01;

fn frame(dst: u64, ethertype: u16, length: usize) -> Vec<u8> {
    let mut frame = vec![0; length];
    frame[..6].copy_from_slice(&dst.to_be_bytes()[2..]);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
    if length > 14 {
        frame[14] = 0x45;
    }
    frame
}

#[test]
fn the_listing_classifies() {
    let mut machine = Machine::new(compiled(SLIDE));
    let entry = TableEntry { key: vec![3], prefix_len: None, value: vec![ROUTER.into()] };
    machine.insert(TableId(0), &entry).unwrap();

    // A bridged ARP request: a copy for ARP, then the packet itself.
    let request = frame(0xffff_ffff_ffff, 0x0806, 60);
    let outputs = machine.receive(3, &request);
    assert_eq!(outputs.iter().map(|o| (o.end, &o.packet)).collect::<Vec<_>>(), [(End::Host, &request); 2]);

    // To the router: decapsulated, and a fresh Ethernet header in front.
    let routed = frame(ROUTER, 0x0800, 34);
    let outputs = machine.receive(3, &routed);
    assert_eq!(outputs.len(), 1);
    assert_eq!(outputs[0].packet[..14], [0; 14]);
    assert_eq!(outputs[0].packet[14..], routed[14..]);

    // Too short for IPv4, to the router: there is nothing to route. On another port it is bridged.
    let short = frame(ROUTER, 0x0800, 33);
    assert!(machine.receive(3, &short).is_empty());
    assert_eq!(machine.receive(2, &short).len(), 1);
}

#[test]
fn the_listing_in_ir() {
    insta::assert_snapshot!(baker::ir::print(&compiled(SLIDE)));
}

#[test]
fn the_protocol_of_the_slides() {
    // Without the library: the program declares Ethernet itself. Both ways to write an out-of-body PPF.
    let program = compiled(
        "protocol ether { dst : 48; src : 48; type : 16; demux{ 14 }; }
module A {
    in ether input;
    out ether output;
    ppf process(ether_packet_t *pkt) from input;
}
void A.process(ether_packet_t* in_pkt) {
    in_pkt->metadata.tx.port = in_pkt->metadata.rx.port;
    channel_put(output, in_pkt);
}
program { rx -> A.input; A.output -> tx; }
",
    );
    let mut machine = Machine::new(program);
    let outputs = machine.receive(7, &frame(1, 2, 64));
    assert_eq!((outputs.len(), outputs[0].end), (1, End::Tx));
}

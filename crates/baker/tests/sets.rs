//! Sets: membership tests, insertion until full, removal.

use std::sync::Arc;

use baker::check::check;
use baker::diag::render;
use baker::ir::interp::Machine;
use baker::library::Library;

/// Remembers the sources of frames to port 1; frames to port 2 are answered by the memory, frames to port 3 forget it.
const PROGRAM: &str = "import \"net/ether\";
drop_reason stranger, noted, unknown, forgotten, no_room;
module m {
    in ether input;
    out ether output;
    set<mac_addr_t> known[2];
    ppf work(ether_packet_t *pkt) from input {
        switch (pkt->metadata.rx.port) {
        case 1:
            if (table_insert(known, pkt->src)) { packet_drop(pkt, noted); } else { packet_drop(pkt, no_room); }
        case 2:
            if (known[pkt->src] && !known[pkt->dst]) { channel_put(output, pkt); } else { packet_drop(pkt, stranger); }
        default:
            if (table_remove(known, pkt->src)) { packet_drop(pkt, forgotten); } else { packet_drop(pkt, unknown); }
        }
    }
}
program { rx -> m.input; m.output -> host; }
";

#[test]
fn members() {
    let compilation = check("sets.baker", PROGRAM, &Library);
    let rendered = render(&compilation.diagnostics, &compilation.sources, false);
    assert!(rendered.is_empty(), "{rendered}");
    let program = Arc::new(baker::ir::lower(compilation.program.as_ref().unwrap()));
    let mut machine = Machine::new(program.clone());
    let mut from = |port, source: u8| {
        let mut frame = [0; 60];
        frame[11] = source;
        let before = machine.counters().to_vec();
        if !machine.receive(port, &frame).is_empty() {
            return "passed";
        }
        let drop = |reason| machine.slots().drop(baker::ir::DropId(reason));
        let reason = (0..program.drop_reasons.len() as u32).find(|r| machine.counters()[drop(*r)] > before[drop(*r)]);
        &program.drop_reasons[reason.expect("dropped") as usize].name
    };
    assert_eq!([from(2, 7), from(1, 7), from(2, 7), from(2, 8)], ["stranger", "noted", "passed", "stranger"]);
    assert_eq!([from(1, 8), from(1, 9), from(1, 7)], ["noted", "no_room", "noted"]);
    assert_eq!([from(3, 7), from(3, 7), from(1, 9), from(2, 9)], ["forgotten", "unknown", "noted", "passed"]);
}

//! Meters: what passes, and what the control plane sees and sets.

use std::sync::Arc;

use baker::check::check;
use baker::diag::render;
use baker::ir::interp::Machine;
use baker::ir::{TableEntry, TableId, TableStore, lower, verify};
use baker::library::Library;

/// Frames pass while their port's meter has a token for each of their bytes; frames from port 9 are not metered alone.
const PROGRAM: &str = "import \"net/ether\";
drop_reason too_fast;
module m {
    in ether input;
    out ether output;
    meter each[4] rate 1000 burst 120;
    meter all rate 1_000_000 burst 1000;
    meter none;
    ppf work(ether_packet_t *pkt) from input {
        if (meter_take(none, 0)) { packet_drop(pkt, no_port); return; }
        bool passes = pkt->metadata.rx.port == 9 || meter_take(each[pkt->metadata.rx.port], packet_length(pkt));
        if (passes && meter_take(all, 1)) { channel_put(output, pkt); } else { packet_drop(pkt, too_fast); }
    }
}
program { rx -> m.input; m.output -> host; }
";

const EACH: TableId = TableId(0);
const ALL: TableId = TableId(1);
const NONE: TableId = TableId(2);
const MS: u64 = 1_000_000;

fn machine() -> Machine {
    let compilation = check("meters.baker", PROGRAM, &Library);
    let rendered = render(&compilation.diagnostics, &compilation.sources, false);
    assert!(rendered.is_empty(), "{rendered}");
    let program = lower(compilation.program.as_ref().unwrap());
    assert_eq!(verify(&program), Ok(()));
    assert!(program.uses_time());
    Machine::new(Arc::new(program))
}

fn cell(index: u128, rate: u128, burst: u128) -> TableEntry {
    TableEntry { key: vec![index], prefix_len: None, value: vec![rate, burst] }
}

#[test]
fn tokens_come_at_the_rate() {
    let mut machine = machine();
    let mut passes = |port, ms: u64| {
        machine.set_now(ms * MS);
        machine.receive(port, &[0; 60]).len() == 1
    };
    // 120 bytes at once, then 60 bytes each 60 ms.
    assert_eq!([passes(1, 5000), passes(1, 5000), passes(1, 5000)], [true, true, false]);
    assert_eq!([passes(1, 5059), passes(1, 5060), passes(1, 5060)], [false, true, false]);
    assert_eq!([passes(2, 5060), passes(2, 5060), passes(2, 5060)], [true, true, false], "others have their own");
    assert_eq!([passes(1, 9000), passes(1, 9000), passes(1, 9000)], [true, true, false], "no more than the burst");
    assert_eq!([passes(4, 9000), passes(9, 9000)], [false, true], "beyond the end there is nothing");
    // The time of a worker may lie a little behind that of another.
    assert_eq!([passes(3, 9999), passes(3, 9998), passes(3, 9998)], [true, false, false]);
    assert!(passes(3, 10_000));
}

#[test]
fn the_control_plane_sees_and_sets_rate_and_burst() {
    let mut machine = machine();
    machine.set_now(5000 * MS);
    let all = |machine: &Machine| [EACH, ALL, NONE].map(|table| machine.dump(table));
    let declared = (0..4).map(|i| cell(i, 1000, 120)).collect::<Vec<_>>();
    assert_eq!(all(&machine), [declared.clone(), vec![cell(0, 1_000_000, 1000)], vec![]]);
    let passed = |machine: &mut Machine| (0..50).filter(|_| machine.receive(1, &[0; 60]).len() == 1).count();
    assert_eq!(passed(&mut machine), 2);
    // A cell that is set is full; what it had is not in the dump.
    machine.insert(EACH, &cell(1, 10, 300)).unwrap();
    assert_eq!(passed(&mut machine), 5);
    assert_eq!(machine.get(EACH, &[1], None), Ok(vec![10, 300]));
    machine.remove(EACH, &[1], None).unwrap();
    assert_eq!((machine.dump(EACH), passed(&mut machine)), (declared, 2), "as declared");
    machine.insert(NONE, &cell(0, 1, 1)).unwrap();
    assert_eq!((passed(&mut machine), machine.count(NONE)), (0, 1));
    assert!(machine.insert(EACH, &cell(4, 1, 1)).is_err(), "beyond the end");
    for value in [vec![1], vec![1, 2, 3]] {
        assert!(machine.insert(EACH, &TableEntry { value, ..cell(0, 0, 0) }).is_err(), "rate and burst, and no more");
    }
}

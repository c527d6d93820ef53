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

/// Each source has a meter of its own, which begins with its first frame and goes after a second of silence. Frames of
/// type 1 forget it. Types from 0x1000 on are limited by prefix, as the control plane says.
const KEYED: &str = "import \"net/ether\";
drop_reason too_fast, forgotten;
module m {
    in ether input;
    out ether output;
    hash<mac_addr_t, meter> sources[3] rate 1000 burst 120 idle 1s;
    hash<mac_addr_t, meter> known[3];
    lpm<u16, meter> kinds[4];
    array<meter> ports[4] rate 1000 burst 90;
    ppf work(ether_packet_t *pkt) from input {
        packet_require(pkt->type != 1 || !table_remove(sources, pkt->src), forgotten);
        bool passes = pkt->type == 2 ? meter_take(known[pkt->src], 1)
            : pkt->type == 3 ? meter_take(ports[pkt->metadata.rx.port], packet_length(pkt))
            : pkt->type >= 0x1000 ? meter_take(kinds[pkt->type], 1) : meter_take(sources[pkt->src], packet_length(pkt));
        if (passes) { channel_put(output, pkt); } else { packet_drop(pkt, too_fast); }
    }
}
program { rx -> m.input; m.output -> host; }
";

#[test]
fn each_key_has_a_meter_of_its_own() {
    let compilation = check("meters.baker", KEYED, &Library);
    let rendered = render(&compilation.diagnostics, &compilation.sources, false);
    assert!(rendered.is_empty(), "{rendered}");
    let program = lower(compilation.program.as_ref().unwrap());
    assert_eq!(verify(&program), Ok(()));
    let mut machine = Machine::new(Arc::new(program));
    let (sources, known, kinds) = (TableId(0), TableId(1), TableId(2));
    fn passes(machine: &mut Machine, source: u8, kind: u16, ms: u64) -> bool {
        machine.set_now(ms * MS);
        let mut frame = [0; 60];
        frame[11] = source;
        frame[12..14].copy_from_slice(&kind.to_be_bytes());
        machine.receive(1, &frame).len() == 1
    }
    let mut from = |source, ms| passes(&mut machine, source, 0, ms);
    assert_eq!([from(1, 5000), from(1, 5000), from(1, 5000)], [true, true, false], "120 bytes at once");
    assert_eq!([from(2, 5000), from(2, 5000), from(2, 5000)], [true, true, false], "another one's are its own");
    assert_eq!([from(1, 5059), from(1, 5060), from(1, 5060)], [false, true, false], "60 bytes each 60 ms");
    assert_eq!([from(3, 5060), from(4, 5060)], [true, false], "where the table is full, none begins");
    assert_eq!(machine.count(sources), 3);
    // Taken away: it begins anew, full. Nor is the place of one that is too old kept.
    assert!(!passes(&mut machine, 1, 1, 5061));
    let mut from = |source, ms| passes(&mut machine, source, 0, ms);
    assert_eq!([from(4, 5061), from(4, 5061), from(4, 5061), from(1, 5061)], [true, true, false, false]);
    assert_eq!([from(2, 6062), from(2, 6062), from(2, 6062)], [true, true, false], "it was too old");
    // What the control plane has set stays, and is the only one where no rate is declared.
    assert!(!passes(&mut machine, 1, 2, 7000));
    let entry = |key: u128, prefix_len| TableEntry { key: vec![key], prefix_len, value: vec![1, 2] };
    machine.insert(known, &entry(1, None)).unwrap();
    let mut kind = |kind, ms| passes(&mut machine, 1, kind, ms);
    assert_eq!([kind(2, 7000), kind(2, 7000), kind(2, 7000)], [true, true, false]);
    assert_eq!([kind(2, 7999), kind(2, 8000), kind(2, 8000)], [false, true, false], "one token a second");
    // By prefix: all types that begin so share a meter.
    assert!(!kind(0x1001, 8000));
    machine.insert(kinds, &entry(0x1000, Some(8))).unwrap();
    let mut kind = |kind, ms| passes(&mut machine, 1, kind, ms);
    assert_eq!([kind(0x1001, 8000), kind(0x1002, 8000), kind(0x1003, 8000)], [true, true, false]);
    assert_eq!([kind(3, 8000), kind(3, 8000), kind(3, 8029), kind(3, 8030)], [true, false, false, true], "an array");
    assert_eq!(machine.dump(known), [entry(1, None)], "what is taken is not shown");
}

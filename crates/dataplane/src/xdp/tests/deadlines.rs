//! Deadlines that the kernel sets: of which of them a worker is told, when it is woken, and what it does where it could
//! not be told.

use std::collections::BTreeSet;

use codegen::kernel::Armed;

use super::*;
use crate::sys::monotonic_ns;
use crate::tables::Deadlines;
use crate::xdp::TapRing;

/// A packet makes an entry of its source where there is none, and sets its deadline to so many milliseconds from now as
/// its type says, or takes it away (0).
const SETS: &str = "module m {
        in ether input; out ether output; hash<u48, u32> flows[3000]; counter ran;
        timer act(u48 key, u32 *flow) over flows at deadline { counter_add(ran, *flow); }
        ppf p(ether_packet_t *pkt) from input {
            if (flows[pkt->src] == null)
                flows[pkt->src] = 1;
            timer_set(flows[pkt->src], pkt->type == 0 ? 0 : now_ns() + (u64) pkt->type * 1000000);
            channel_put(output, pkt);
        }
    }
    program { rx -> m.input; m.output -> tx; }";

fn sets(key: u16, ms: u16) -> Vec<u8> {
    let mut packet = packet();
    packet[6..10].fill(0);
    packet[10..12].copy_from_slice(&key.to_be_bytes());
    packet[12..14].copy_from_slice(&ms.to_be_bytes());
    packet
}

/// On the virtual machine, which counts wake-ups.
#[test]
fn a_worker_is_told_of_what_comes_earlier_and_woken_where_it_is_soon() {
    let program = program(SETS);
    let memory = SharedMemory::private(&program).unwrap();
    let options = Options { generation: 7, ..Options::default() };
    let object = bpf::compile(&program, Level::Cgpc, memory.memory(), options).unwrap();
    let mut machine = Machine::of(&object, &[], Map::Borrowed(memory.borrowed()));
    // For a key with a deadline in milliseconds whether the worker is told, and wake-ups so far.
    let steps = [
        (1, 100, true, 0),
        (1, 100, false, 0),
        (1, 200, false, 0),
        (2, 200, true, 0),
        (1, 50, true, 0),
        (1, 0, false, 0),
        (1, 0, false, 0),
        (1, 300, true, 0),
        (1, 9, true, 1),
        (1, 11, false, 1),
        (2, 8, true, 2),
    ];
    let mut entries = [None; 2];
    for (step, (key, ms, is_told, wakes)) in steps.into_iter().enumerate() {
        machine.run(&sets(key, ms), LOOPBACK, 0).unwrap();
        let records = machine.take_records();
        assert_eq!((records.len() == 1, machine.wakes()), (is_told, wakes), "step {step}");
        for record in records {
            let told = Armed::read(&record).unwrap();
            assert_eq!((told.generation, told.table), (7, 0));
            assert_eq!(*entries[usize::from(key) - 1].get_or_insert(told.entry), told.entry, "step {step}");
        }
    }
    assert_ne!(entries[0], entries[1]);
}

#[test]
fn deadlines_that_no_worker_was_told_of_are_found() {
    const FLOWS: u16 = 1500;
    let rig = Rig::new(SETS);
    let (table, tables) = (TableId(0), rig.memory.tables());
    let mut deadlines = Deadlines::new(&rig.program, tables, monotonic_ns()).unwrap();
    assert_eq!(deadlines.next(table), None);
    let ring = TapRing::with_bytes(4096, "test").unwrap();
    for key in 0..FLOWS {
        if key == FLOWS / 2 {
            // Those before found no ring.
            rig.loaded.ports().set_rings([&ring]).unwrap();
        }
        rig.loaded.run(&sets(key, 1)).unwrap();
    }
    let mut told = 0;
    ring.take(|record| {
        let Armed { table, entry, .. } = Armed::read(record).unwrap();
        deadlines.arm(table, entry);
        told += 1;
        true
    });
    assert!((100..200).contains(&told), "{told} records of 24 bytes");
    assert_eq!(rig.dropped(DropId::DEADLINE_LATE), u64::from(FLOWS) - told);
    assert_eq!(deadlines.next(table), Some(0), "there is something to look for");
    let (now, mut keys) = (monotonic_ns() + 1_000_000_000, Vec::new());
    while deadlines.due(table, now, 100, 100, &mut keys) {}
    assert_eq!(keys.len(), usize::from(FLOWS));
    assert!(keys.iter().copied().collect::<BTreeSet<_>>().into_iter().eq(0..u64::from(FLOWS)));
    assert_eq!(deadlines.next(table), None, "nothing is missed any more");
}

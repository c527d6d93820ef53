//! Entries that are inserted where there are none, on each engine.

use baker::ir::{CounterId, CounterSlots, TableId, TableStore};
use baker::opt::Level;
use codegen::OptLevel;

use crate::EngineKind;
use crate::step::Stepper;
use crate::testing::compiled;

const ENGINES: [EngineKind; 4] = [
    EngineKind::Interp,
    EngineKind::Native(OptLevel::O0, Level::Base),
    EngineKind::NATIVE,
    EngineKind::Kernel(Level::Cgpc),
];
const MS: u64 = 1_000_000;

/// A packet tries to make an entry of its source with its type as value.
fn packet(key: u8, value: u8) -> Vec<u8> {
    let mut packet = vec![0; 60];
    (packet[11], packet[13]) = (key, value);
    packet
}

/// On each engine, of packets with times, keys and values: whether each made an entry, the entries at the end, and how
/// often there was no room.
fn check(table: &str, packets: &[(u64, u8, u8, bool)], entries: &[(u128, u128)], refused: u64) {
    let program = compiled(&format!(
        "import \"net/ether\";
        module m {{
            in ether input; out ether output; counter made; {table}
            ppf p(ether_packet_t *pkt) from input {{
                if (table_insert_new(flows, pkt->src, pkt->type))
                    counter_add(made, 1);
                channel_put(output, pkt);
            }}
        }}
        program {{ rx -> m.input; m.output -> tx; }}"
    ));
    let slots = CounterSlots::new(&program);
    let (made, full) = (slots.user(CounterId(0)), slots.table_full(TableId(0)));
    for engine in ENGINES {
        let mut stepper = Stepper::new(program.clone(), engine).unwrap();
        for (step, &(time, key, value, makes)) in packets.iter().enumerate() {
            stepper.advance(time);
            let before = stepper.counters()[made];
            stepper.receive(1, &packet(key, value));
            assert_eq!(stepper.counters()[made] - before, makes.into(), "{engine:?} step {step}");
        }
        let found = stepper.dump(TableId(0)).into_iter().map(|entry| (entry.key[0], entry.value[0]));
        assert!(found.eq(entries.iter().copied()), "{engine:?}: {:?}", stepper.dump(TableId(0)));
        assert_eq!(stepper.counters()[full], refused, "{engine:?}");
    }
}

#[test]
fn an_entry_that_is_there_stays() {
    let packets = [(0, 1, 10, true), (0, 1, 11, false), (0, 2, 20, true), (0, 3, 30, false), (0, 2, 21, false)];
    check("hash<u48, u16> flows[2];", &packets, &[(1, 10), (2, 20)], 1);
}

#[test]
fn one_that_is_too_old_is_not_there_and_a_try_is_a_use() {
    let packets = [
        (0, 1, 10, true),
        (5 * MS, 1, 11, false),
        (14 * MS, 1, 12, false),
        (23 * MS, 1, 13, false),
        (34 * MS, 1, 14, true),
    ];
    check("hash<u48, u16> flows[4] idle 10ms;", &packets, &[(1, 14)], 0);
}

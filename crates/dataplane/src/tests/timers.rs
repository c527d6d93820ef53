//! Timers: when they run, what they visit, and that they hold up no packet.

use std::sync::Arc;
use std::time::{Duration, Instant};

use baker::ir::{CounterSlots, Program, TableEntry, TableId, TableStore, TimerId};
use baker::opt::Level;
use codegen::OptLevel;

use crate::ports::{Driver, MemPort};
use crate::step::Stepper;
use crate::testing::{SplitMix64, compiled, frame};
use crate::{EngineKind, FrameConfig, Instance, Options, PollMode, PortConfig};

const ENGINES: [EngineKind; 3] =
    [EngineKind::Interp, EngineKind::Native(OptLevel::O0, Level::Base), EngineKind::NATIVE];
const SECOND: u64 = 1_000_000_000;
const PATIENCE: Duration = Duration::from_secs(20);

fn program(items: &str) -> Arc<Program> {
    compiled(&format!(
        "import \"net/ether\";
        module m {{
            in  ether input;
            out ether output;
            {items}
            ppf p(ether_packet_t *pkt) from input {{ pkt->metadata.tx.port = 1; channel_put(output, pkt); }}
        }}
        program {{ rx -> m.input; m.output -> tx; }}"
    ))
}

fn counter(stepper: &Stepper, cell: usize) -> u64 {
    let slots = baker::ir::CounterSlots::new(stepper.program());
    stepper.counters()[slots.user(baker::ir::CounterId(0)) + cell]
}

#[test]
fn the_period_counts_from_start_to_start() {
    let program = program(
        "counter runs;
        array<u64> last[1];
        timer tick() every 30s {
            counter_add(runs, 1);
            u64 *at = last[0];
            if (at != null)
                *at = now_ns();
        }",
    );
    for engine in ENGINES {
        let mut stepper = Stepper::new(program.clone(), engine).unwrap();
        let last = |stepper: &Stepper| stepper.get(TableId(0), &[0], None).unwrap()[0] as u64;
        for (to, runs, at) in [(29, 0, 0), (30, 1, 30), (31, 1, 30), (100, 3, 90), (119, 3, 90), (120, 4, 120)] {
            assert!(stepper.advance(to * SECOND).is_empty());
            assert_eq!((counter(&stepper, 0), last(&stepper)), (runs, at * SECOND), "{engine:?}: {to}");
        }
        // Where time leaps, the last ones are run.
        stepper.advance(120 * SECOND + 1_000_000 * 30 * SECOND);
        assert_eq!(counter(&stepper, 0), 4 + 1025);
        assert_eq!(last(&stepper), 120 * SECOND + 1_000_000 * 30 * SECOND);
    }
}

#[test]
fn every_kind_of_table_is_gone_over() {
    let program = program(
        "counter seen[8];
        struct pair_t { a : u8; b : u48; }
        array<u16> slots[3];
        hash<pair_t, u64> pairs[200];
        set<u128> known[200];
        timer over_array(u32 index, u16 *slot) over slots every 1s {
            *slot = (u16) (*slot + index + 1);
            counter_add(seen[0], 1);
        }
        timer over_hash(pair_t key, u64 *value) over pairs every 1s {
            *value = *value * 1000 + key.b;
            counter_add(seen[1], key.a);
            if (*value % 2 == 1)
                table_remove(pairs, key);
            else
                table_insert(known, key.b);
        }
        timer over_set(u128 key) over known every 1s {
            if (key % 3 == 0)
                table_remove(known, key);
            counter_add(seen[2], 1);
        }",
    );
    let mut found = Vec::new();
    for engine in ENGINES {
        let mut stepper = Stepper::new(program.clone(), engine).unwrap();
        for n in 0..150u128 {
            let entry = TableEntry { key: vec![n % 256, n << 40 | n], prefix_len: None, value: vec![n / 7] };
            stepper.insert(TableId(1), &entry).unwrap();
        }
        let wide = TableEntry { key: vec![u128::MAX], prefix_len: None, value: vec![1] };
        stepper.insert(TableId(2), &wide).unwrap();
        stepper.advance(4 * SECOND);
        let state: Vec<_> = (0..3).map(|table| stepper.dump(TableId(table))).collect();
        let values: Vec<u128> = state[0].iter().map(|entry| entry.value[0]).collect();
        assert_eq!(values, [4, 8, 12], "all entries of an array, also those that are zero");
        assert!(state[1].len() < 150 && state[2].len() > 1, "{}, {}", state[1].len(), state[2].len());
        let (slots, counters) = (CounterSlots::new(&program), stepper.counters());
        let counted = [0, 1, 2].map(|timer| {
            [slots.timer_runs(TimerId(timer)), slots.timer_entries(TimerId(timer))].map(|slot| counters[slot])
        });
        assert_eq!([counted[0], counted[2]], [[4, 12], [4, counter(&stepper, 2)]], "{engine:?}");
        assert!(counted[1][0] == 4 && counted[1][1] >= 150, "{engine:?}: {counted:?}");
        found.push((state, stepper.counters()));
    }
    assert!(found.iter().all(|one| *one == found[0]));
}

#[test]
fn entries_that_are_too_old_are_passed_over_and_visits_are_no_use() {
    let program = program(
        "counter seen;
        hash<u32, u32> ages[16] idle 10s;
        timer note(u32 key, u32 *value) over ages every 4s {
            *value += 1;
            counter_add(seen, 1);
        }
        timer renew() every 6s {
            table_insert(ages, 1, 0);
        }",
    );
    for engine in ENGINES {
        let mut stepper = Stepper::new(program.clone(), engine).unwrap();
        // Stays, for it is the control plane's.
        stepper.insert(TableId(0), &TableEntry { key: vec![7], prefix_len: None, value: vec![0] }).unwrap();
        // At 6 s and each 6 s later one is inserted anew; at 8 s and each 4 s later both are visited.
        stepper.advance(17 * SECOND);
        assert_eq!(counter(&stepper, 0), 1 + 2 + 2 + 2, "{engine:?}");
        assert_eq!(stepper.get(TableId(0), &[7], None).unwrap(), [4]);
    }
}

#[test]
fn timers_make_packets() {
    let program = program(
        "array<mac_addr_t> hosts[3];
        timer hello(u32 index, mac_addr_t *host) over hosts every 1s {
            if (*host == 0)
                return;
            ether_packet_t *pkt = packet_create();
            pkt->dst = *host;
            pkt->metadata.tx.port = (u8) index;
            ether_packet_t *other = packet_copy(pkt);
            other->type = 0x88b5;
            channel_put(output, pkt);
            channel_put(output, other);
        }",
    );
    assert_eq!(program.limits.copies, 2);
    for engine in ENGINES {
        let mut stepper = Stepper::new(program.clone(), engine).unwrap();
        for index in [0, 2] {
            let entry = TableEntry { key: vec![index], prefix_len: None, value: vec![0x0200_0000_0000 + index] };
            stepper.insert(TableId(0), &entry).unwrap();
        }
        let outputs = stepper.advance(SECOND);
        let seen = outputs.iter().map(|o| (o.metadata[1], o.bytes[5], u16::from_be_bytes([o.bytes[12], o.bytes[13]])));
        assert_eq!(seen.collect::<Vec<_>>(), [(0, 0, 0), (0, 0, 0x88b5), (2, 2, 0), (2, 2, 0x88b5)], "{engine:?}");
        stepper.check_frames().unwrap();
    }
}

/// Entries that are there all the time are visited exactly once in each sweep, whatever becomes of others meanwhile.
#[test]
fn each_entry_that_stays_is_visited_once_per_sweep() {
    const STAYING: u64 = 500;
    let program = program(
        "hash<u32, pair_t> entries[4096];
        struct pair_t { a : u64; b : u64; }
        counter visits[500];
        counter others;
        timer visit(u32 key, pair_t *value) over entries every 1ms {
            if (key < 500)
                counter_add(visits[key], 1);
            else
                counter_add(others, 1);
        }",
    );
    for (engine, workers) in [(EngineKind::NATIVE, 1), (EngineKind::NATIVE, 2), (EngineKind::Interp, 1)] {
        let packets: Vec<_> = (0..64).map(|n| frame(0x0800, n, 60)).collect();
        let source = PortConfig::new("a", 0, Driver::Mem(MemPort::generator(packets, u64::MAX / 2)));
        let ports = [source, PortConfig::new("b", 1, Driver::Mem(MemPort::default()))];
        let frames = FrameConfig { count: 600, ..FrameConfig::default() };
        let options = Options { engine, workers, frames, poll: PollMode::Busy, ..Options::default() };
        let instance = Instance::start(program.clone(), &options, &ports).unwrap();
        let (mut tables, observer) = (instance.tables(), instance.observer());
        let entry = |key: u64, value: u64| TableEntry {
            key: vec![key.into()],
            prefix_len: None,
            value: vec![value.into(), value.into()],
        };
        (0..STAYING).for_each(|key| tables.insert(TableId(0), &entry(key, 1)).unwrap());
        let visits = || observer.snapshot().user[0].1.clone();
        // From here on, all of them are there.
        let before = visits();
        let (start, mut numbers) = (Instant::now(), SplitMix64(7));
        let mut least = 0;
        while least < 20 && start.elapsed() < PATIENCE {
            for _ in 0..100 {
                let key = 500 + numbers.below(2000);
                match numbers.below(3) {
                    0 => drop(tables.remove(TableId(0), &[key.into()], None)),
                    1 => drop(tables.insert(TableId(0), &entry(key, key))),
                    // One that stays gets another value, and so another place in memory.
                    _ => tables.insert(TableId(0), &entry(numbers.below(STAYING), key)).unwrap(),
                }
            }
            least = visits().iter().zip(&before).map(|(now, before)| now - before).min().unwrap_or(0);
        }
        let report = instance.stop();
        assert_eq!((report.free_frames, report.errors.len()), (report.frames, 0));
        // Sweeps under way at the first look and at the end may have come by some and not by others.
        let counts: Vec<u64> =
            report.snapshot.user[0].1.iter().zip(&before).map(|(now, before)| now - before).collect();
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(*least >= 20 && most - least <= 2, "{engine:?}: {least} to {most}");
        assert!(report.snapshot.user[1].1[0] > 0);
        // Packets went on meanwhile.
        assert!(report.snapshot.channel("m.output") > 1000);
    }
}

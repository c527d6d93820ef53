//! Look-ups, changes and dumps at the same time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use baker::ir::{TableEntry, TableError, TableId, TableKind};

use super::{Tables, hash, trie};
use crate::testing::{SplitMix64, pair, scalar, tables_only};

/// For the slowest of the threads on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Each value is a function of its key, in both words: a torn or misplaced one would show.
fn value_of(key: u64) -> Vec<u128> {
    let mixed = SplitMix64(key).next();
    vec![mixed.into(), (!mixed).into()]
}

#[test]
fn look_ups_during_changes_see_whole_values() {
    let program = tables_only(&[
        (TableKind::Hash, scalar(64), pair(), 4000),
        (TableKind::Lpm, scalar(32), pair(), 4000),
        (TableKind::Lpm, scalar(128), pair(), 4000),
    ]);
    let tables = Tables::new(&program).unwrap();
    let (stop, hits) = (AtomicBool::new(false), AtomicU64::new(0));
    let key_of = |numbers: &mut SplitMix64| numbers.below(6000);
    let address_of = |n: u64| 0x0a00_0000 | ((n as u32) << 3);
    // Spread over many nodes of the trie, which come and go.
    let wide_of = |n: u64| u128::from(n) << 60 | u128::from(n);
    std::thread::scope(|scope| {
        let reader = |seed| {
            let mut numbers = SplitMix64(seed);
            let worker = tables.epochs().register().unwrap();
            let [hash_table, lpm_table, trie] = *tables.control_blocks() else { panic!("three tables") };
            let lpm_table = lpm_table.cast::<codegen::abi::LpmTable>();
            while !stop.load(Ordering::Relaxed) {
                worker.quiescent();
                for _ in 0..64 {
                    let key = key_of(&mut numbers);
                    // SAFETY: as generated code does it: this thread is a registered worker, and the pointers are used
                    // before its next quiescent state. Values are only written while no look-up can reach them.
                    let found = unsafe {
                        let hash = hash::lookup(hash_table, &raw const key).cast::<[u64; 2]>();
                        let address = address_of(key);
                        let mut slot = (*lpm_table).tbl24.add(address as usize >> 8).read_volatile();
                        if slot & codegen::abi::LPM_GROUP != 0 {
                            let group = (slot & !codegen::abi::LPM_GROUP) as usize;
                            slot = (*lpm_table).tbl8.add(group * 256 + (address as usize & 255)).read_volatile();
                        }
                        let entries = (*lpm_table).entries.cast::<[u64; 2]>();
                        let lpm = slot.checked_sub(1).map(|entry| entries.add(entry as usize));
                        let wide = wide_of(key);
                        let trie = trie::lookup(trie, (&raw const wide).cast()).cast::<[u64; 2]>();
                        [(!hash.is_null()).then_some(hash), lpm, (!trie.is_null()).then_some(trie)]
                    };
                    for value in found.into_iter().flatten() {
                        // SAFETY: as above.
                        let value = unsafe { value.read_volatile() };
                        assert_eq!(value.map(u128::from).to_vec(), value_of(key));
                        hits.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        };
        let readers = [scope.spawn(move || reader(11)), scope.spawn(move || reader(12))];
        let writers = [21, 22].map(|seed| {
            let tables = &tables;
            scope.spawn(move || {
                let mut numbers = SplitMix64(seed);
                for _ in 0..300_000 {
                    let key = key_of(&mut numbers);
                    let (hash_key, address) = (vec![key.into()], vec![address_of(key).into()]);
                    if numbers.below(2) == 0 {
                        let mut entry = TableEntry { key: hash_key, prefix_len: None, value: value_of(key) };
                        // Full is possible: more keys than entries.
                        let _ = tables.insert(TableId(0), &entry);
                        (entry.key, entry.prefix_len) = (address, Some(29));
                        let _ = tables.insert(TableId(1), &entry);
                        (entry.key, entry.prefix_len) = (vec![wide_of(key)], Some(128));
                        let _ = tables.insert(TableId(2), &entry);
                    } else {
                        let _ = tables.remove(TableId(0), &hash_key, None);
                        let _ = tables.remove(TableId(1), &address, Some(29));
                        let _ = tables.remove(TableId(2), &[wide_of(key)], Some(128));
                    }
                }
            })
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        stop.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    assert!(hits.into_inner() > 1000);
    for table in [TableId(0), TableId(1), TableId(2)] {
        for entry in tables.dump(table) {
            let found = tables.lookup(table, &entry.key);
            assert_eq!(found, Some(entry.value));
        }
    }
}

#[test]
fn replacing_a_value_is_one_step_for_look_ups_and_dumps() {
    const KEYS: u64 = 40;
    let program = tables_only(&[
        (TableKind::Hash, scalar(64), pair(), KEYS as u32),
        (TableKind::Lpm, scalar(32), pair(), KEYS as u32),
        (TableKind::Lpm, scalar(128), pair(), KEYS as u32),
    ]);
    let tables = Tables::new(&program).unwrap();
    let value = |n: u64| vec![u128::from(n), u128::from(!n)];
    let entry = |table: u32, key: u64, n: u64| {
        // Nested prefixes of all lengths, some beyond the first 24 bits.
        let prefix_len = [None, Some(12 + key as u32), Some(key as u32 * 3)][table as usize];
        let key = [key.into(), 0, 0][table as usize];
        TableEntry { key: vec![key], prefix_len, value: value(n) }
    };
    let keys = [KEYS, 21, KEYS];
    let all = |table: u32| (0..keys[table as usize]).map(move |key| (table, key));
    for (table, key) in (0..3).flat_map(all) {
        tables.insert(TableId(table), &entry(table, key, key)).unwrap();
    }
    let stop = AtomicBool::new(false);
    let whole = |value: &[u128]| value[1] == u128::from(!(value[0] as u64));
    let (looks, dumps) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let look = || {
            let worker = tables.epochs().register().unwrap();
            while !stop.load(Ordering::Relaxed) {
                worker.quiescent();
                for key in 0..KEYS {
                    // SAFETY: as generated code does it: this thread is a registered worker, and the pointers are used
                    // before its next quiescent state. Values are written only while no look-up can reach them.
                    let [a, b] = unsafe {
                        let found = hash::lookup(tables.control_blocks()[0], &raw const key);
                        let wide = u128::from(key);
                        let other = trie::lookup(tables.control_blocks()[2], (&raw const wide).cast());
                        assert!(!found.is_null() && !other.is_null(), "replacing is not removing");
                        let [a, b] = other.cast::<[u64; 2]>().read();
                        assert_eq!(a, !b);
                        found.cast::<[u64; 2]>().read()
                    };
                    assert_eq!(a, !b);
                    looks.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        let dump = || {
            while !stop.load(Ordering::Relaxed) {
                for table in 0..3 {
                    let dump = tables.dump(TableId(table));
                    assert_eq!(dump.len() as u64, keys[table as usize]);
                    assert!(dump.iter().all(|entry| whole(&entry.value)));
                }
                assert!(whole(&tables.lookup(TableId(1), &[0]).unwrap()));
                dumps.fetch_add(1, Ordering::Relaxed);
            }
        };
        let (looking, dumping) = (scope.spawn(look), scope.spawn(dump));
        let (start, mut n) = (Instant::now(), 0u64);
        // A busy machine gives one of the three little time.
        let enough = || looks.load(Ordering::Relaxed) > 100 && dumps.load(Ordering::Relaxed) > 10;
        while start.elapsed() < Duration::from_millis(600) || (n <= 10 || !enough()) && start.elapsed() < PATIENCE {
            n += 1;
            for (table, key) in (0..3).flat_map(all) {
                tables.insert(TableId(table), &entry(table, key, n << 32 | key)).unwrap();
            }
        }
        stop.store(true, Ordering::Relaxed);
        looking.join().unwrap();
        dumping.join().unwrap();
        assert!(n > 10 && enough());
        for (table, key) in (0..3).flat_map(all) {
            let entry = entry(table, key, n << 32 | key);
            assert_eq!(tables.get(TableId(table), &entry.key, entry.prefix_len), Ok(entry.value));
            tables.remove(TableId(table), &entry.key, entry.prefix_len).unwrap();
        }
    });
    for table in 0..3 {
        assert_eq!((tables.count(TableId(table)), tables.lookup(TableId(table), &[0])), (0, None), "no trace is left");
    }
}

/// A change that depends on what a route is now: no other one comes between, in both forms of routes.
#[test]
fn routes_change_only_where_they_are_what_is_expected() {
    for width in [32u32, 128] {
        let program = tables_only(&[(TableKind::Lpm, scalar(width), scalar(32), 16)]);
        let tables = Tables::new(&program).unwrap();
        let (prefix, inside) = ([10u128 << (width - 8)], [(10u128 << (width - 8)) + 7]);
        let table = TableId(0);
        let change = |value: Option<&[u128]>, wanted: &dyn Fn(Option<u128>) -> bool| {
            tables.change_if(table, &prefix, Some(8), value, &mut |now| wanted(now.map(|now| now[0])))
        };
        let found = || tables.lookup(table, &inside).map(|value| value[0]);
        assert_eq!((change(Some(&[1]), &|now| now == Some(5)), found()), (Ok(false), None));
        assert_eq!((change(Some(&[1]), &|now| now.is_none()), found()), (Ok(true), Some(1)));
        assert_eq!((change(Some(&[2]), &|now| now == Some(1)), found()), (Ok(true), Some(2)));
        assert_eq!((change(None, &|now| now == Some(1)), found()), (Ok(false), Some(2)));
        assert_eq!((change(None, &|now| now == Some(2)), found()), (Ok(true), None));
        assert_eq!(change(None, &|_| true), Err(TableError::NotFound));
        assert!(tables.settle(), "there are no workers");
        // What is below 1024 is set on one side, and the other side leaves that as it is.
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    change(Some(&[2000]), &|now| now.is_none_or(|now| now >= 1024)).unwrap();
                }
            });
            for round in 0..500 {
                let own = [round % 1024];
                tables.set(table, &prefix, Some(8), &own).unwrap();
                std::hint::spin_loop();
                assert_eq!(found(), Some(own[0]));
                tables.remove(table, &prefix, Some(8)).unwrap();
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}

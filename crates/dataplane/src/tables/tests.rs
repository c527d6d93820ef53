use std::collections::{BTreeMap, HashMap};

use std::sync::Arc;

use baker::ir::{Layout, TableEntry, TableError, TableId, TableKind, prefix_mask};

use super::{Tables, View, hash, lpm, meter};
use crate::testing::{SplitMix64, pair, scalar, tables_only};

const T: TableId = TableId(0);

fn one(kind: TableKind, key: Layout, value: Layout, capacity: u32) -> Tables {
    Tables::with_seed(&tables_only(&[(kind, key, value, capacity)]), 7).unwrap()
}

fn entry(key: u128, value: u128) -> TableEntry {
    TableEntry { key: vec![key], prefix_len: None, value: vec![value] }
}

fn route(prefix: u32, len: u32, value: u128) -> TableEntry {
    TableEntry { key: vec![prefix.into()], prefix_len: Some(len), value: vec![value] }
}

#[test]
fn array() {
    let tables = one(TableKind::Array, scalar(32), scalar(48), 10);
    tables.insert(T, &entry(9, 0xffff_ffff_ffff)).unwrap();
    tables.insert(T, &entry(0, 1)).unwrap();
    assert_eq!(tables.insert(T, &entry(10, 1)), Err(TableError::OutOfRange));
    assert_eq!(tables.insert(T, &entry(1 << 32, 1)), Err(TableError::OutOfRange));
    assert_eq!(tables.insert(T, &entry(1, 1 << 48)), Err(TableError::OutOfRange), "wider than the field");
    assert_eq!(tables.insert(T, &route(1, 32, 1)), Err(TableError::BadPrefix));
    assert_eq!(tables.insert(TableId(1), &entry(0, 0)), Err(TableError::NotFound), "no such table");
    assert_eq!(tables.dump(T), [entry(0, 1), entry(9, 0xffff_ffff_ffff)]);
    assert_eq!(tables.lookup(T, &[9]), Some(vec![0xffff_ffff_ffff]));
    assert_eq!((tables.count(T), tables.get(T, &[1], None)), (2, Ok(vec![0])));
    assert_eq!(tables.get(T, &[10], None), Err(TableError::OutOfRange));
    assert_eq!(tables.lookup(T, &[10]), None);
    tables.remove(T, &[9], None).unwrap();
    assert_eq!(tables.dump(T), [entry(0, 1)]);
}

#[test]
fn an_array_of_structs_changes_between_batches() {
    let tables = Arc::new(Tables::new(&tables_only(&[(TableKind::Array, scalar(32), pair(), 65536)])).unwrap());
    let entry =
        |key: u128, n: u128| TableEntry { key: vec![key], prefix_len: None, value: vec![n, !n & u128::from(u64::MAX)] };
    let all = |n: u128| (0..65536).map(|key| entry(key, n)).collect::<Vec<_>>();
    let view = View::new(tables.clone()).unwrap();
    // SAFETY: as generated code does it: the blocks are the view's, and the index is below the capacity.
    let sees = |index: usize| unsafe {
        let control = (*view.control_blocks()).cast::<codegen::abi::ArrayTable>();
        (*control).entries.cast::<[u64; 2]>().add(index).read_volatile()[0]
    };
    // A worker that sleeps holds no writer up.
    (1..=20).for_each(|n| tables.insert_all(T, &mut all(n).iter()).unwrap());
    view.quiescent();
    assert_eq!([sees(0), sees(65535)], [20, 20]);
    tables.insert(T, &entry(3, 7)).unwrap();
    assert_eq!((sees(3), tables.get(T, &[3], None).unwrap()[0]), (20, 7), "the batch sees what it began with");
    assert_eq!(tables.insert(T, &entry(4, 8)), Err(TableError::Busy), "it may still read the other copy");
    assert_eq!(tables.insert(T, &entry(3, 7)), Ok(()), "nothing changes");
    view.quiescent();
    assert_eq!([sees(3), sees(4)], [7, 20]);
    let before = tables.epochs().retire();
    let refused = [entry(4, 8), entry(5, 9), entry(65536, 1), entry(6, 1)];
    assert_eq!(tables.insert_all(T, &mut refused.iter()), Err(TableError::OutOfRange));
    view.quiescent();
    assert_eq!([3, 4, 5, 6].map(sees), [7, 8, 9, 20], "up to the one that is refused");
    tables.insert_all(T, &mut all(30).iter()).unwrap();
    assert_eq!(tables.epochs().retire(), before + 3, "all together wait for one batch");
    view.quiescent();
    assert_eq!([3, 4, 65535].map(sees), [30; 3]);
    tables.remove(T, &[4], None).unwrap();
    assert_eq!((sees(4), tables.count(T)), (30, 65535));
    // What nobody can find is there at once, and stays there when the copies change places.
    let began = std::time::Instant::now();
    (100..200).for_each(|n| tables.prepare(T, &[n], &[n + 1, 0]).unwrap());
    assert!(began.elapsed() < super::slots::PATIENCE);
    assert_eq!((sees(199), tables.get(T, &[199], None).unwrap()), (200, vec![200, 0]));
    assert_eq!(tables.prepare(T, &[65536], &[0, 0]), Err(TableError::OutOfRange));
    view.quiescent();
    tables.insert(T, &entry(3, 8)).unwrap();
    view.quiescent();
    assert_eq!((sees(199), sees(3)), (200, 8));
    drop(view);
    (0..100).for_each(|n| tables.insert(T, &entry(n, n)).unwrap());
    assert_eq!(tables.dump(T)[99], entry(99, 99));
}

#[test]
fn meter() {
    let tables = Tables::with_seed(&crate::testing::meter_only(1000, 10), 7).unwrap();
    let cell = |index: u128, rate, burst| TableEntry { key: vec![index], prefix_len: None, value: vec![rate, burst] };
    // SAFETY: a cell of the meter.
    let take = |index: usize, ms: u64, tokens| unsafe {
        let array = tables.control_blocks()[0].cast::<codegen::abi::ArrayTable>();
        meter::take((*array).entries.add(index * 24), ms * 1_000_000, tokens)
    };
    let declared: Vec<_> = (0..4).map(|index| cell(index, 1000, 10)).collect();
    assert_eq!((tables.dump(T), tables.count(T)), (declared.clone(), 4));
    assert_eq!([take(1, 5000, 11), take(1, 5000, 10), take(1, 5000, 1), take(1, 5001, 1)], [0, 1, 0, 1]);
    assert_eq!(tables.dump(T), declared, "the state is not shown");
    tables.insert(T, &cell(1, 1000, 3)).unwrap();
    assert_eq!([take(1, 5001, 4), take(1, 5001, 3), take(1, 5001, 1)], [0, 1, 0], "full when it is set");
    assert_eq!(tables.get(T, &[1], None), Ok(vec![1000, 3]));
    tables.remove(T, &[1], None).unwrap();
    assert_eq!((tables.dump(T), take(1, 5001, 10)), (declared, 1), "as declared");
    tables.insert(T, &cell(1, 0, 0)).unwrap();
    assert_eq!((tables.count(T), take(1, 5001, 0)), (3, 0));
    assert_eq!(tables.insert(T, &cell(4, 1, 1)), Err(TableError::OutOfRange));
}

#[test]
fn workers_share_a_meter_without_loss() {
    const BURST: u64 = 400_000;
    let tables = Tables::with_seed(&crate::testing::meter_only(1000, BURST), 7).unwrap();
    let taken = std::thread::scope(|scope| {
        let worker = |now: u64| {
            let tables = &tables;
            scope.spawn(move || {
                let array = tables.control_blocks()[0].cast::<codegen::abi::ArrayTable>();
                // SAFETY: a cell of the meter.
                (0..BURST).filter(|_| unsafe { meter::take((*array).entries, now, 1) } == 1).count() as u64
            })
        };
        // Their batches began at moments a little apart: no more than a token comes meanwhile.
        [worker(5_000_000_000), worker(5_000_400_000)].map(|worker| worker.join().unwrap())
    });
    assert!((BURST..=BURST + 1).contains(&(taken[0] + taken[1])), "{taken:?}");
}

#[test]
fn hash_holds_exactly_its_capacity() {
    for capacity in [1, 7, 8, 9, 16, 63, 64, 100, 1000, 20_000] {
        for seed in 0..20 {
            let program = tables_only(&[(TableKind::Hash, scalar(32), scalar(32), capacity)]);
            let tables = Tables::with_seed(&program, seed).unwrap();
            for key in 0..u128::from(capacity) {
                tables.insert(T, &entry(key, key + 1)).unwrap();
            }
            assert_eq!((tables.count(T), tables.get(T, &[0], None)), (capacity as usize, Ok(vec![1])));
            assert_eq!(tables.get(T, &[1 << 30], None), Err(TableError::NotFound));
            assert_eq!(tables.insert(T, &entry(1 << 30, 0)), Err(TableError::Full));
            tables.insert(T, &entry(0, 5)).expect("replacing needs no room");
            tables.remove(T, &[0], None).unwrap();
            tables.insert(T, &entry(1 << 30, 0)).expect("room again");
            assert_eq!(tables.insert(T, &entry(0, 5)), Err(TableError::Full));
            if seed > 2 && capacity > 1000 {
                break;
            }
        }
    }
}

#[test]
fn hash_agrees_with_a_map() {
    // Few keys, so that inserting, replacing and removing all happen; a table that is often full.
    let tables = one(TableKind::Hash, pair(), scalar(64), 700);
    let mut model: BTreeMap<Vec<u128>, u128> = BTreeMap::new();
    let mut numbers = SplitMix64(1);
    for step in 0..200_000 {
        let key = vec![numbers.below(30).into(), numbers.below(30).into()];
        if numbers.below(100) < 40 {
            let removed = tables.remove(T, &key, None);
            assert_eq!(removed, model.remove(&key).map(drop).ok_or(TableError::NotFound));
        } else {
            let entry = TableEntry { key: key.clone(), prefix_len: None, value: vec![step] };
            let full = model.len() == 700 && !model.contains_key(&key);
            assert_eq!(tables.insert(T, &entry), if full { Err(TableError::Full) } else { Ok(()) });
            if !full {
                model.insert(key, step);
            }
        }
        let key = vec![numbers.below(30).into(), numbers.below(30).into()];
        assert_eq!(tables.lookup(T, &key), model.get(&key).map(|&value| vec![value]));
    }
    let dump: Vec<_> = tables.dump(T).into_iter().map(|e| (e.key, e.value[0])).collect();
    let mut visited = Vec::new();
    tables.visit(T, |key, prefix_len, value| visited.push((key.to_vec(), prefix_len, value.to_vec())));
    visited.sort();
    let all: Vec<_> = model.into_iter().collect();
    assert_eq!(dump, all);
    let of_model = |(key, value): (Vec<u128>, u128)| (key, None, vec![value]);
    assert_eq!(visited, all.into_iter().map(of_model).collect::<Vec<_>>());
}

#[test]
fn hash_entries_stay_where_they_are_until_workers_have_passed() {
    let tables = one(TableKind::Hash, scalar(32), scalar(64), 4);
    let control = tables.control_blocks()[0];
    // SAFETY: a hash table's control block and a packed key; the worker below is this thread.
    let find = |key: u64| unsafe { hash::lookup(control, &raw const key).cast::<u64>() };
    let worker = tables.epochs().register().unwrap();
    worker.quiescent();
    tables.insert(T, &entry(1, 11)).unwrap();
    let held = find(1);
    tables.remove(T, &[1], None).unwrap();
    assert!(find(1).is_null());
    for key in 2..1000 {
        tables.insert(T, &entry(key, 99)).unwrap();
        tables.remove(T, &[key], None).unwrap();
    }
    // SAFETY: the table lives, and entries stay mapped for as long.
    assert_eq!(unsafe { *held }, 11, "still readable by the batch that found it");
    worker.quiescent();
    let reused = (0..5000u128).any(|key| {
        tables.insert(T, &entry(key, 99)).unwrap();
        let same = find(key as u64) == held;
        tables.remove(T, &[key], None).unwrap();
        worker.quiescent();
        same
    });
    assert!(reused, "entries come back after a quiescent state");
}

#[test]
fn generated_code_reaches_hash_tables() {
    let tables = one(TableKind::Hash, scalar(48), scalar(16), 2);
    let runtime = Tables::runtime();
    let control = tables.control_blocks()[0];
    // SAFETY: a hash table's control block, and keys and a value of its layouts.
    let inserted = |key: u64, value: u16, new: u8| unsafe {
        (runtime.hash_insert)(control, (&raw const key).cast(), (&raw const value).cast(), new)
    };
    let insert = |key: u64, value: u16| inserted(key, value, 0);
    // SAFETY: as above.
    let remove = |key: u64| unsafe { (runtime.hash_remove)(control, (&raw const key).cast()) };
    assert_eq!((insert(1, 10), insert(2, 20), insert(3, 30), insert(2, 21)), (1, 1, 0, 1));
    assert_eq!([1, 2, 3].map(|key| inserted(key, 99, 1)), [2, 2, 0]);
    assert_eq!(tables.dump(T), [entry(1, 10), entry(2, 21)]);
    assert_eq!((remove(1), remove(1), insert(3, 30)), (1, 0, 1));
    assert_eq!(tables.dump(T), [entry(2, 21), entry(3, 30)]);
}

/// Longest match over a plain list.
fn naive(routes: &HashMap<(u32, u32), u128>, key: u32) -> Option<u128> {
    (0..=32).rev().find_map(|len| routes.get(&(key & lpm::mask(len as u8), len)).copied())
}

#[test]
fn lpm_agrees_with_a_list() {
    lpm_agrees(u128::MAX);
}

/// Routes with equal values share entries, also nested ones.
#[test]
fn lpm_of_few_values_agrees_with_a_list() {
    lpm_agrees(3);
}

fn lpm_agrees(values: u128) {
    let tables = one(TableKind::Lpm, scalar(32), scalar(64), 300);
    let mut model = HashMap::new();
    let mut numbers = SplitMix64(2);
    // Prefixes within 10.0.0.0/12 and few of them, so that nesting, replacing and removing all happen; also 0/0.
    let prefix = |numbers: &mut SplitMix64| {
        let len = match numbers.below(10) {
            0 => numbers.below(13),
            1..=4 => 12 + numbers.below(13),
            _ => 24 + numbers.below(9),
        } as u32;
        let address = 0x0a00_0000 | (numbers.next() as u32 & 0x000f_0307);
        (address & lpm::mask(len as u8), len)
    };
    for step in (0..30_000u128).map(|step| step % values) {
        let (address, len) = prefix(&mut numbers);
        if numbers.below(100) < 45 {
            let removed = tables.remove(T, &[address.into()], Some(len));
            assert_eq!(removed, model.remove(&(address, len)).map(drop).ok_or(TableError::NotFound));
        } else {
            let full = model.len() == 300 && !model.contains_key(&(address, len));
            let inserted = tables.insert(T, &route(address, len, step));
            assert_eq!(inserted, if full { Err(TableError::Full) } else { Ok(()) });
            let exactly = tables.get(T, &[address.into()], Some(len));
            assert_eq!(exactly, if full { Err(TableError::NotFound) } else { Ok(vec![step]) });
            if !full {
                model.insert((address, len), step);
            }
        }
        for _ in 0..4 {
            // Edges of the prefix, and anywhere near.
            let (near, _) = prefix(&mut numbers);
            for key in [address, address | !lpm::mask(len as u8), address.wrapping_sub(1), near, near | 0xff] {
                assert_eq!(tables.lookup(T, &[key.into()]), naive(&model, key).map(|value| vec![value]), "{key:x}");
            }
        }
    }
    assert_eq!(tables.count(T), model.len());
    let mut expected: Vec<_> = model.into_iter().collect();
    expected.sort();
    let dump: Vec<_> = tables.dump(T).iter().map(|e| ((e.key[0] as u32, e.prefix_len.unwrap()), e.value[0])).collect();
    assert_eq!(dump, expected);
}

#[test]
fn lpm_with_many_prefixes() {
    let tables = one(TableKind::Lpm, scalar(32), scalar(32), 100_000);
    let mut model = HashMap::new();
    let mut numbers = SplitMix64(3);
    while model.len() < 100_000 {
        // Lengths roughly as in the Internet's table.
        let len = [8, 16, 19, 20, 21, 22, 22, 23, 24, 24, 24, 24, 24, 25, 28, 32][numbers.below(16) as usize];
        let address = numbers.next() as u32 & lpm::mask(len as u8);
        let value = u128::from(numbers.next() as u32);
        tables.insert(T, &route(address, len, value)).unwrap();
        model.insert((address, len), value);
    }
    assert_eq!(tables.insert(T, &route(0, 0, 1)), Err(TableError::Full));
    let check = |model: &HashMap<(u32, u32), u128>, numbers: &mut SplitMix64| {
        for &(address, len) in model.keys().take(20_000) {
            let key = address | (numbers.next() as u32 & !lpm::mask(len as u8));
            assert_eq!(tables.lookup(T, &[key.into()]), naive(model, key).map(|value| vec![value]));
        }
        for _ in 0..20_000 {
            let key = numbers.next() as u32;
            assert_eq!(tables.lookup(T, &[key.into()]), naive(model, key).map(|value| vec![value]));
        }
    };
    check(&model, &mut numbers);
    let gone: Vec<_> = model.keys().copied().filter(|(address, len)| (address >> (32 - len)) & 1 == 1).collect();
    for (address, len) in gone {
        tables.remove(T, &[address.into()], Some(len)).unwrap();
        model.remove(&(address, len));
    }
    check(&model, &mut numbers);
    for (address, len) in std::mem::take(&mut model).into_keys() {
        tables.remove(T, &[address.into()], Some(len)).unwrap();
    }
    check(&model, &mut numbers);
    assert_eq!(tables.dump(T), []);
}

#[test]
fn lpm_refuses_what_is_no_prefix() {
    let tables = one(TableKind::Lpm, scalar(32), scalar(32), 2);
    assert_eq!(tables.insert(T, &route(0x0a00_0001, 24, 1)), Err(TableError::BadPrefix));
    assert_eq!(tables.insert(T, &route(0, 33, 1)), Err(TableError::BadPrefix));
    assert_eq!(tables.insert(T, &entry(0, 1)), Err(TableError::BadPrefix));
    assert_eq!(tables.remove(T, &[0], Some(0)), Err(TableError::NotFound));
    tables.insert(T, &route(0, 0, 1)).unwrap();
    tables.insert(T, &route(0xffff_ffff, 32, 2)).unwrap();
    assert_eq!(tables.insert(T, &route(0x0a00_0000, 8, 1)), Err(TableError::Full));
    assert_eq!(tables.lookup(T, &[0xffff_ffff]), Some(vec![2]));
    assert_eq!(tables.lookup(T, &[0xffff_fffe]), Some(vec![1]));
}

/// Longest match over a plain list of routes for keys of any width.
fn naive_wide(routes: &HashMap<(u128, u32), u128>, width: u32, key: u128) -> Option<Vec<u128>> {
    let by_length = |len| routes.get(&(key & prefix_mask(width, len).unwrap(), len));
    (0..=width).rev().find_map(by_length).map(|value| vec![*value])
}

fn wide(numbers: &mut SplitMix64) -> u128 {
    u128::from(numbers.next()) << 64 | u128::from(numbers.next())
}

#[test]
fn wide_lpm_agrees_with_a_list() {
    for width in [1, 7, 20, 33, 64, 128] {
        let tables = one(TableKind::Lpm, scalar(width), scalar(64), 300);
        let mut model = HashMap::new();
        let mut numbers = SplitMix64(width.into());
        // Few different bits, here and there, so that nesting, replacing and removing all happen.
        let bits = 0x8100_0001_8000_0003_0000_0000_0000_0103u128 | 0x11 << (width / 2) | 1 << (width - 1);
        let near = |numbers: &mut SplitMix64| wide(numbers) & bits & prefix_mask(width, width).unwrap();
        for step in 0..5_000u128 {
            let len = numbers.below(u64::from(width) + 1) as u32;
            let address = near(&mut numbers) & prefix_mask(width, len).unwrap();
            if numbers.below(100) < 45 {
                let removed = tables.remove(T, &[address], Some(len));
                assert_eq!(removed, model.remove(&(address, len)).map(drop).ok_or(TableError::NotFound));
            } else {
                let full = model.len() == 300 && !model.contains_key(&(address, len));
                let entry = TableEntry { key: vec![address], prefix_len: Some(len), value: vec![step] };
                assert_eq!(tables.insert(T, &entry), if full { Err(TableError::Full) } else { Ok(()) });
                if !full {
                    model.insert((address, len), step);
                }
            }
            let end = address | (prefix_mask(width, width).unwrap() & !prefix_mask(width, len).unwrap());
            for key in [address, end, near(&mut numbers), near(&mut numbers)] {
                assert_eq!(tables.lookup(T, &[key]), naive_wide(&model, width, key), "{width} bits, {key:x}");
            }
        }
        assert_eq!(tables.dump(T).len(), model.len());
        for (address, len) in std::mem::take(&mut model).into_keys() {
            tables.remove(T, &[address], Some(len)).unwrap();
        }
        assert_eq!((tables.lookup(T, &[0]), tables.dump(T)), (None, vec![]));
    }
}

#[test]
fn wide_lpm_with_many_prefixes() {
    let tables = one(TableKind::Lpm, scalar(128), scalar(32), 200_000);
    let mut model = HashMap::new();
    let mut numbers = SplitMix64(5);
    while model.len() < 200_000 {
        // Lengths roughly as in the Internet's table, below 2000::/3.
        let len = [29, 32, 32, 36, 40, 44, 44, 46, 48, 48, 48, 48, 48, 48, 56, 64][numbers.below(16) as usize];
        let address = (1 << 125 | wide(&mut numbers) >> 11) & prefix_mask(128, len).unwrap();
        let value = u128::from(numbers.next() as u32);
        tables.insert(T, &TableEntry { key: vec![address], prefix_len: Some(len), value: vec![value] }).unwrap();
        model.insert((address, len), value);
    }
    for (address, len) in model.keys().take(20_000) {
        let key = address | wide(&mut numbers) & !prefix_mask(128, *len).unwrap();
        assert_eq!(tables.lookup(T, &[key]), naive_wide(&model, 128, key));
    }
}

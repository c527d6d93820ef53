//! Tables: from code and from the control plane.

use baker::ir::interp::Machine;
use baker::ir::*;

use crate::support::*;

fn entry(key: &[u128], prefix_len: Option<u32>, value: &[u128]) -> TableEntry {
    TableEntry { key: key.to_vec(), prefix_len, value: value.to_vec() }
}

/// One table of the kind; `rx` goes to `tx`. Keys of an array or lpm are u32, those of a hash u32 and u8; values are
/// u16 and u48.
fn one_table(kind: TableKind, capacity: u32) -> (Machine, TableId) {
    let mut p = program();
    let ether = protocol(&mut p, "ether", &[("a", 32)]);
    channel(&mut p, "rx", ether, Target::Tx);
    let key: &[(&str, u32)] = if kind == TableKind::Hash { &[("x", 32), ("y", 8)] } else { &[("", 32)] };
    let key = layout(&mut p, "key", key);
    let value = layout(&mut p, "value", &[("a", 16), ("b", 48)]);
    let table = table(&mut p, kind, "m.t", key, value, capacity);
    (Machine::new(p), table)
}

#[test]
fn array_from_the_control_plane() {
    let (mut m, t) = one_table(TableKind::Array, 3);
    assert_eq!(m.dump(t), []);
    assert_eq!(m.insert(t, &entry(&[2], None, &[1, 2])), Ok(()));
    assert_eq!(m.insert(t, &entry(&[0], None, &[0, 4])), Ok(()));
    assert_eq!(m.insert(t, &entry(&[3], None, &[1, 2])), Err(TableError::OutOfRange));
    assert_eq!(m.insert(t, &entry(&[1 << 32], None, &[1, 2])), Err(TableError::OutOfRange));
    assert_eq!(m.insert(t, &entry(&[1], Some(32), &[1, 2])), Err(TableError::BadPrefix));
    assert_eq!(m.insert(t, &entry(&[1], None, &[0x10000, 2])), Err(TableError::OutOfRange));
    assert_eq!(m.insert(t, &entry(&[1], None, &[1])), Err(TableError::OutOfRange));
    assert_eq!(m.dump(t), [entry(&[0], None, &[0, 4]), entry(&[2], None, &[1, 2])]);
    assert_eq!((m.count(t), m.get(t, &[1], None)), (2, Ok(vec![0, 0])));
    assert_eq!(m.get(t, &[3], None), Err(TableError::OutOfRange));
    assert_eq!(m.remove(t, &[2], None), Ok(()));
    assert_eq!(m.remove(t, &[3], None), Err(TableError::OutOfRange));
    assert_eq!(m.dump(t), [entry(&[0], None, &[0, 4])]);
}

#[test]
fn hash_from_the_control_plane() {
    let (mut m, t) = one_table(TableKind::Hash, 2);
    assert_eq!(m.insert(t, &entry(&[9, 1], None, &[1, 1])), Ok(()));
    assert_eq!(m.insert(t, &entry(&[8, 2], None, &[2, 2])), Ok(()));
    assert_eq!(m.insert(t, &entry(&[8, 1], None, &[3, 3])), Err(TableError::Full));
    assert_eq!(m.insert(t, &entry(&[9, 1], None, &[4, 4])), Ok(()));
    assert_eq!(m.dump(t), [entry(&[8, 2], None, &[2, 2]), entry(&[9, 1], None, &[4, 4])]);
    assert_eq!(m.remove(t, &[8, 1], None), Err(TableError::NotFound));
    assert_eq!(m.remove(t, &[8, 2], Some(1)), Err(TableError::BadPrefix));
    assert_eq!(m.remove(t, &[8, 2], None), Ok(()));
    assert_eq!(m.remove(t, &[8, 2], None), Err(TableError::NotFound));
    assert_eq!(m.insert(t, &entry(&[8, 256], None, &[3, 3])), Err(TableError::OutOfRange));
    assert_eq!(m.insert(t, &entry(&[8], None, &[3, 3])), Err(TableError::OutOfRange));
    // The slot of the removed entry is used again, with no trace of the old value.
    m.receive(0, &[0; 4]);
    assert_eq!(m.insert(t, &entry(&[8, 1], None, &[3, 0])), Ok(()));
    assert_eq!(m.dump(t), [entry(&[8, 1], None, &[3, 0]), entry(&[9, 1], None, &[4, 4])]);
    assert_eq!(m.insert(TableId(1), &entry(&[1], None, &[1])), Err(TableError::NotFound));
    assert_eq!(m.dump(TableId(1)), []);
}

#[test]
fn lpm_from_the_control_plane() {
    let (mut m, t) = one_table(TableKind::Lpm, 3);
    assert_eq!(m.insert(t, &entry(&[0x0a000000], Some(8), &[1, 1])), Ok(()));
    assert_eq!(m.insert(t, &entry(&[0], Some(0), &[2, 2])), Ok(()));
    assert_eq!(m.insert(t, &entry(&[0x0a000000], Some(32), &[3, 3])), Ok(()));
    assert_eq!(m.insert(t, &entry(&[0x0b000000], Some(8), &[4, 4])), Err(TableError::Full));
    assert_eq!(m.insert(t, &entry(&[0x0a000000], Some(8), &[5, 5])), Ok(()));
    for (key, len) in [(0x0a000001, Some(8)), (0, Some(33)), (1 << 32, Some(32)), (0, None), (1, Some(0))] {
        assert_eq!(m.insert(t, &entry(&[key], len, &[1, 1])), Err(TableError::BadPrefix), "{key:#x} {len:?}");
    }
    let all = [
        entry(&[0], Some(0), &[2, 2]),
        entry(&[0x0a000000], Some(8), &[5, 5]),
        entry(&[0x0a000000], Some(32), &[3, 3]),
    ];
    assert_eq!(m.dump(t), all);
    assert_eq!((m.count(t), m.get(t, &[0x0a000000], Some(8))), (3, Ok(vec![5, 5])));
    assert_eq!(m.get(t, &[0x0a000000], Some(16)), Err(TableError::NotFound), "exactly this one, no shorter one");
    assert_eq!(m.get(t, &[0x0a000000], None), Err(TableError::BadPrefix));
    assert_eq!(m.remove(t, &[0x0a000000], Some(16)), Err(TableError::NotFound));
    assert_eq!(m.remove(t, &[0x0a000000], Some(8)), Ok(()));
    assert_eq!(m.dump(t), [all[0].clone(), all[2].clone()]);
}

/// Looks the first 32 bits up; stores the value's two fields, or ones where there is no entry.
fn lookup_program(kind: TableKind, capacity: u32) -> Program {
    let mut p = program();
    let proto = protocol(&mut p, "p", &[("key", 32), ("value", 32)]);
    let key = layout(&mut p, "u32", &[("", 32)]);
    let value = layout(&mut p, "u32", &[("", 32)]);
    let table = table(&mut p, kind, "m.t", key, value, capacity);
    let (mut code, packet) = Code::new(proto);
    let (miss, hit) = (code.body.block(), code.body.block());
    let key = code.load(packet, 0, 32);
    let found = code.push(Ty::Entry(value), Op::Lookup { table, key: vec![key] });
    let null = code.int(1, Op::IsNull(found));
    code.branch(null, dest(miss, &[]), dest(hit, &[]));
    code.block = hit;
    let number = code.int(32, Op::EntryLoad { entry: found, field: 0 });
    code.store(packet, 32, 32, number);
    // Every hit adds one to the entry.
    let one = code.constant(32, 1);
    let more = code.int(32, Op::Bin(BinOp::Add, number, one));
    code.effect(Op::EntryStore { entry: found, field: 0, value: more });
    code.put(packet, OUT);
    code.block = miss;
    code.drop(packet);
    one_ppf(&mut p, proto, code);
    p
}

/// Value found for a key.
fn look_up(machine: &mut Machine, key: u32) -> Option<u32> {
    let mut frame = key.to_be_bytes().to_vec();
    frame.extend([0; 4]);
    let outputs = machine.receive(0, &frame);
    outputs.first().map(|output| u32::from_be_bytes(output.packet[4..].try_into().expect("four bytes")))
}

const T: TableId = TableId(0);

#[test]
fn array_from_code() {
    let mut m = Machine::new(lookup_program(TableKind::Array, 2));
    assert_eq!(look_up(&mut m, 1), Some(0));
    assert_eq!(look_up(&mut m, 1), Some(1));
    assert_eq!(look_up(&mut m, 0), Some(0));
    assert_eq!(look_up(&mut m, 2), None);
    assert_eq!(look_up(&mut m, u32::MAX), None);
    assert_eq!(m.dump(T), [entry(&[0], None, &[1]), entry(&[1], None, &[2])]);
}

#[test]
fn lpm_against_a_linear_search() {
    let mut random = Random(5);
    let mut m = Machine::new(lookup_program(TableKind::Lpm, 1000));
    let mut routes: Vec<(u32, u32, u32)> = Vec::new();
    for round in 0..600u32 {
        // Few distinct high bits, so that prefixes nest.
        let len = random.below(33);
        let address = random.next() as u32 & 0xc0c0_ffff;
        let prefix = if len == 0 { 0 } else { address >> (32 - len) << (32 - len) };
        let value = round << 12;
        m.insert(T, &entry(&[prefix as u128], Some(len), &[value as u128])).expect("a route");
        routes.retain(|route| (route.0, route.1) != (prefix, len));
        routes.push((prefix, len, value));
        if round % 5 == 4 {
            let (prefix, len, _) = routes.swap_remove(random.below(routes.len() as u32) as usize);
            m.remove(T, &[prefix as u128], Some(len)).expect("the route is there");
        }
        for _ in 0..10 {
            let key = random.next() as u32 & 0xc0c0_ffff;
            let covers = |prefix: u32, len: u32| len == 0 || (prefix ^ key) >> (32 - len) == 0;
            let best = routes.iter_mut().filter(|route| covers(route.0, route.1)).max_by_key(|route| route.1);
            let expected = best.map(|route| {
                route.2 += 1; // the program writes through the pointer
                route.2 - 1
            });
            assert_eq!(look_up(&mut m, key), expected, "{key:#x}");
        }
    }
    let mut expected: Vec<TableEntry> =
        routes.iter().map(|r| entry(&[r.0 as u128], Some(r.1), &[r.2 as u128])).collect();
    expected.sort_by_key(|e| (e.key[0], e.prefix_len));
    assert_eq!(m.dump(T), expected);
}

#[test]
fn lpm_with_many_routes() {
    let count = 200_000u32;
    let mut m = Machine::new(lookup_program(TableKind::Lpm, count));
    for i in 0..count {
        m.insert(T, &entry(&[(i << 8) as u128], Some(24), &[i as u128])).expect("room");
    }
    assert_eq!(m.insert(T, &entry(&[0], Some(0), &[1])), Err(TableError::Full));
    for i in (0..count).step_by(997) {
        assert_eq!(look_up(&mut m, i << 8 | 0x7f), Some(i));
    }
    assert_eq!(look_up(&mut m, count << 8), None);
    assert_eq!(m.dump(T).len(), count as usize);
}

/// Runs `code` on a packet of 8 bytes that holds results; the table is a hash from u32 to u32 of two entries.
fn with_hash(code: impl FnOnce(&mut Code, Value, LayoutId)) -> Machine {
    let mut p = program();
    let proto = protocol(&mut p, "p", &[("a", 32), ("b", 32)]);
    let u32_ = layout(&mut p, "u32", &[("", 32)]);
    table(&mut p, TableKind::Hash, "m.t", u32_, u32_, 2);
    let (mut body, packet) = Code::new(proto);
    code(&mut body, packet, u32_);
    body.put(packet, OUT);
    one_ppf(&mut p, proto, body);
    Machine::new(p)
}

#[test]
fn inserting_and_removing_from_code() {
    let mut m = with_hash(|code, packet, _| {
        let keys: Vec<Value> = (0..4).map(|i| code.constant(32, i)).collect();
        let insert = |code: &mut Code, k: usize, v: usize| {
            code.int(1, Op::Insert { table: T, key: vec![keys[k]], value: vec![keys[v]], new: false })
        };
        let remove = |code: &mut Code, k: usize| code.int(1, Op::Remove { table: T, key: vec![keys[k]] });
        let results = [
            insert(code, 1, 1),
            insert(code, 2, 2),
            insert(code, 3, 3), // full
            insert(code, 1, 3), // replaces
            remove(code, 2),
            remove(code, 2), // not there any more
            insert(code, 3, 2),
            insert(code, 0, 0), // full
        ];
        for (i, result) in results.into_iter().enumerate() {
            code.store(packet, i as u32, 1, result);
        }
    });
    assert_eq!(m.receive(0, &[0; 8])[0].packet[0], 0b1101_1010);
    assert_eq!(m.counters()[m.slots().table_full(T)], 2);
    assert_eq!(m.dump(T), [entry(&[1], None, &[3]), entry(&[3], None, &[2])]);
}

/// In the block that is left, the entry is known not to be null; the other drops the packet.
fn not_null(code: &mut Code, packet: Value, entry: Value) {
    let (null_block, go_on) = (code.body.block(), code.body.block());
    let null = code.int(1, Op::IsNull(entry));
    code.branch(null, dest(null_block, &[]), dest(go_on, &[]));
    code.block = null_block;
    code.drop(packet);
    code.block = go_on;
}

#[test]
fn a_pointer_to_a_removed_entry_leads_to_the_old_value_only() {
    let mut m = with_hash(|code, packet, layout| {
        let (key, first, second, third) =
            (code.constant(32, 7), code.constant(32, 0x11), code.constant(32, 0x22), code.constant(32, 0x33));
        code.int(1, Op::Insert { table: T, key: vec![key], value: vec![first], new: false });
        let old = code.push(Ty::Entry(layout), Op::Lookup { table: T, key: vec![key] });
        not_null(code, packet, old);
        code.int(1, Op::Remove { table: T, key: vec![key] });
        code.int(1, Op::Insert { table: T, key: vec![key], value: vec![second], new: false });
        code.effect(Op::EntryStore { entry: old, field: 0, value: third });
        let read = code.int(32, Op::EntryLoad { entry: old, field: 0 });
        code.store(packet, 0, 32, read);
        let new = code.push(Ty::Entry(layout), Op::Lookup { table: T, key: vec![key] });
        not_null(code, packet, new);
        let read = code.int(32, Op::EntryLoad { entry: new, field: 0 });
        code.store(packet, 32, 32, read);
    });
    for _ in 0..100 {
        assert_eq!(m.receive(0, &[0; 8])[0].packet, [0, 0, 0, 0x33, 0, 0, 0, 0x22]);
    }
    assert_eq!(m.dump(T), [entry(&[7], None, &[0x22])]);
}

#[test]
fn a_pointer_sees_the_entry_replaced() {
    let mut m = with_hash(|code, packet, layout| {
        let (key, first, second) = (code.constant(32, 7), code.constant(32, 0x11), code.constant(32, 0x22));
        code.int(1, Op::Insert { table: T, key: vec![key], value: vec![first], new: false });
        let entry = code.push(Ty::Entry(layout), Op::Lookup { table: T, key: vec![key] });
        not_null(code, packet, entry);
        code.int(1, Op::Insert { table: T, key: vec![key], value: vec![second], new: false });
        let read = code.int(32, Op::EntryLoad { entry, field: 0 });
        code.store(packet, 0, 32, read);
    });
    assert_eq!(m.receive(0, &[0; 8])[0].packet[..4], [0, 0, 0, 0x22]);
}

#[test]
fn inserting_into_an_array_from_code() {
    let mut p = program();
    let proto = protocol(&mut p, "p", &[("key", 32), ("value", 32)]);
    let u32_ = layout(&mut p, "u32", &[("", 32)]);
    let table = table(&mut p, TableKind::Array, "m.t", u32_, u32_, 2);
    let (mut code, packet) = Code::new(proto);
    let (key, value) = (code.load(packet, 0, 32), code.load(packet, 32, 32));
    let inserted = code.int(1, Op::Insert { table, key: vec![key], value: vec![value], new: false });
    code.store(packet, 0, 1, inserted);
    code.put(packet, OUT);
    one_ppf(&mut p, proto, code);
    let mut m = Machine::new(p);
    assert_eq!(m.receive(0, &[0, 0, 0, 1, 0, 0, 0, 9])[0].packet[0], 0x80);
    assert_eq!(m.receive(0, &[0, 0, 0, 2, 0, 0, 0, 9])[0].packet[0], 0);
    assert_eq!(m.dump(T), [entry(&[1], None, &[9])]);
    assert_eq!(m.counters()[m.slots().table_full(T)], 1);
}

//! Tables and user counters.

mod common;

use baker::ir::*;
use codegen::OptLevel;
use codegen::abi::LPM_GROUP;
use common::asm::{Asm, add_layout, add_table, dest, program};
use common::tables::TestTable;
use common::{Machine, mask};

/// A program with one PPF that puts to `tx`, and what `declare` adds to it.
fn one_ppf<T>(size: u32, declare: impl FnOnce(&mut Program) -> T, code: impl FnOnce(&mut Asm, Value, T)) -> Program {
    let mut program = program(&[size], &[(0, Target::Ppf(PpfId(0))), (0, Target::Tx)], vec![]);
    let declared = declare(&mut program);
    let (mut asm, packet) = Asm::new(0);
    code(&mut asm, packet, declared);
    asm.put(packet, 1);
    program.ppfs.push(Ppf { name: "m.f".into(), protocol: ProtocolId(0), body: asm.body, pin: None, span: None });
    program
}

/// `if (entry != null) code`; goes on behind it.
fn if_found(asm: &mut Asm, entry: Value, code: impl FnOnce(&mut Asm)) {
    let null = asm.int(1, Op::IsNull(entry));
    let (found, _) = asm.new_block(&[]);
    let (join, _) = asm.new_block(&[]);
    asm.end(Terminator::Branch(null, dest(join, &[]), dest(found, &[])), found);
    code(asm);
    asm.end(Terminator::Jump(dest(join, &[])), join);
}

/// Reads the packet's word as index, writes 1 and the entry's fields behind it, and adds 1 to a field.
#[test]
fn arrays() {
    let widths = [8, 48, 1, 128, 13];
    let program = one_ppf(
        64,
        |program| {
            let key = add_layout(program, &[32]);
            let value = add_layout(program, &widths);
            (add_table(program, TableKind::Array, key, value, 100), value)
        },
        |asm, packet, (table, value)| {
            let index = asm.load(packet, 0, 32);
            let entry = asm.def(Ty::Entry(value), Op::Lookup { table, key: vec![index] });
            if_found(asm, entry, |asm| {
                let one = asm.constant(8, 1);
                asm.store(packet, 32, one);
                let mut at = 40;
                for (field, width) in widths.into_iter().enumerate() {
                    let field = field as u32;
                    let value = asm.int(width, Op::EntryLoad { entry, field });
                    asm.store(packet, at, value);
                    at += width;
                    let one = asm.constant(width, 1);
                    let more = asm.bin(BinOp::Add, value, one);
                    asm.effect(Op::EntryStore { entry, field, value: more });
                }
            });
        },
    );
    for mut machine in Machine::both(&program) {
        let values = [0xff, 0xffff_ffff_fffe, 1, u128::MAX - 1, 0x1fff];
        machine.tables[0].set_entry(99, &values);
        for (index, found) in [(99u32, true), (0, true), (100, false), (u32::MAX, false)] {
            let before = if index == 99 { values } else { [0; 5] };
            let mut packet = index.to_be_bytes().to_vec();
            packet.resize(64, 0);
            let frame = machine.receive(64, &packet, 0);
            machine.run(&[frame]);
            let got = machine.packet(frame);
            assert_eq!(got[4], found.into(), "index {index}");
            if found {
                // 8 + 48 + 1 + 128 + 13 bits from bit 40 are 25 bytes but for 2 bits.
                let bits: String = got[5..30].iter().map(|byte| format!("{byte:08b}")).collect();
                let want: String = before
                    .iter()
                    .zip(widths)
                    .map(|(value, width)| format!("{value:0w$b}", w = width as usize))
                    .collect();
                assert_eq!(bits[..198], want);
                let after: Vec<u128> =
                    before.iter().zip(widths).map(|(value, width)| value.wrapping_add(1) & mask(width)).collect();
                assert_eq!(machine.tables[0].entry(index as usize), after);
            } else {
                assert!(got[4..].iter().all(|byte| *byte == 0));
            }
            machine.release(&[frame]);
        }
    }
}

#[test]
fn array_insertions() {
    let program = one_ppf(
        8,
        |program| {
            let key = add_layout(program, &[32]);
            let value = add_layout(program, &[8, 32]);
            add_table(program, TableKind::Array, key, value, 3)
        },
        |asm, packet, table| {
            let index = asm.load(packet, 0, 32);
            let seven = asm.constant(8, 7);
            let done = asm.int(1, Op::Insert { table, key: vec![index], value: vec![seven, index], new: false });
            let wide = asm.resize(done, 8);
            asm.store(packet, 32, wide);
        },
    );
    for mut machine in Machine::both(&program) {
        let frames: Vec<u32> = [1u32, 2, 3, u32::MAX]
            .map(|index| [index.to_be_bytes(), [0xff; 4]].concat())
            .iter()
            .map(|packet| machine.receive(0, packet, 0))
            .collect();
        machine.run(&frames);
        let done: Vec<u8> = frames.iter().map(|&frame| machine.packet(frame)[4]).collect();
        assert_eq!(done, [1, 1, 0, 0]);
        assert_eq!([0, 1, 2].map(|i| machine.tables[0].entry(i)), [[0, 0], [7, 1], [7, 2]]);
        assert_eq!(machine.counter(machine.slots.table_full(TableId(0))), 2);
    }
}

#[test]
fn longest_prefixes() {
    let program = one_ppf(
        8,
        |program| {
            let key = add_layout(program, &[32]);
            let value = add_layout(program, &[16, 64]);
            (add_table(program, TableKind::Lpm, key, value, 8), value)
        },
        |asm, packet, (table, value)| {
            let dst = asm.load(packet, 0, 32);
            let entry = asm.def(Ty::Entry(value), Op::Lookup { table, key: vec![dst] });
            if_found(asm, entry, |asm| {
                let value = asm.int(16, Op::EntryLoad { entry, field: 0 });
                asm.store(packet, 32, value);
            });
        },
    );
    for mut machine in Machine::both(&program) {
        for i in 0..8 {
            machine.tables[0].set_entry(i, &[0x100 + i as u128, u128::from(u64::MAX)]);
        }
        let run = |machine: &mut Machine, address: [u8; 4]| {
            let frame = machine.receive(0, &[address, [0; 4]].concat(), 0);
            machine.run(&[frame]);
            let packet = machine.packet(frame);
            machine.release(&[frame]);
            u16::from_be_bytes([packet[4], packet[5]])
        };
        let TestTable::Lpm { tbl24, tbl8, .. } = &mut machine.tables[0] else { unreachable!() };
        tbl24[0x0a_00_00] = 1; // 10.0.0.0/24
        tbl24[0xff_ff_ff] = 2;
        tbl24[0x0a_00_01] = LPM_GROUP; // group 0
        tbl24[0x0a_00_02] = LPM_GROUP + 3;
        tbl8[0] = 3;
        tbl8[255] = 4;
        tbl8[3 * 256 + 128] = 5;
        let cases = [
            ([10, 0, 0, 0], 0x100),
            ([10, 0, 0, 255], 0x100),
            ([255, 255, 255, 255], 0x101),
            ([10, 0, 1, 0], 0x102),
            ([10, 0, 1, 255], 0x103),
            ([10, 0, 1, 7], 0),
            ([10, 0, 2, 128], 0x104),
            ([0, 0, 0, 0], 0),
            ([10, 0, 3, 0], 0),
        ];
        for (address, want) in cases {
            assert_eq!(run(&mut machine, address), want, "{address:?}");
        }
        let TestTable::Lpm { control, .. } = &mut machine.tables[0] else { unreachable!() };
        control.default_slot = 8;
        for (address, want) in cases {
            assert_eq!(run(&mut machine, address), if want == 0 { 0x107 } else { want }, "{address:?} with a default");
        }
    }
}

/// Byte 0 says what to do: 0 look up and add 1 to the entry, 1 insert, 2 remove. The key has padding.
fn hash_program() -> Program {
    one_ppf(
        48,
        |program| {
            let key = add_layout(program, &[8, 32, 13, 48]);
            let value = add_layout(program, &[1, 64]);
            (add_table(program, TableKind::Hash, key, value, 5), value)
        },
        |asm, packet, (table, value)| {
            let what = asm.load(packet, 0, 8);
            let key = vec![
                asm.load(packet, 8, 8),
                asm.load(packet, 16, 32),
                asm.load(packet, 48, 13),
                asm.load(packet, 61, 48),
            ];
            let [(insert, _), (remove, _), (lookup, _), (not_insert, _), (end, end_params)] =
                [&[][..], &[], &[], &[], &[Ty::Int(64)]].map(|params| asm.new_block(params));
            let (one, two) = (asm.constant(8, 1), asm.constant(8, 2));
            let is_insert = asm.cmp(CmpOp::Eq, what, one);
            asm.end(Terminator::Branch(is_insert, dest(insert, &[]), dest(not_insert, &[])), insert);
            let new = asm.load(packet, 112, 64);
            let flag = asm.constant(1, 1);
            let done = asm.int(1, Op::Insert { table, key: key.clone(), value: vec![flag, new], new: false });
            let done = asm.resize(done, 64);
            asm.end(Terminator::Jump(dest(end, &[done])), not_insert);
            let is_remove = asm.cmp(CmpOp::Eq, what, two);
            asm.end(Terminator::Branch(is_remove, dest(remove, &[]), dest(lookup, &[])), remove);
            let done = asm.int(1, Op::Remove { table, key: key.clone() });
            let done = asm.resize(done, 64);
            asm.end(Terminator::Jump(dest(end, &[done])), lookup);
            let entry = asm.def(Ty::Entry(value), Op::Lookup { table, key });
            if_found(asm, entry, |asm| {
                let old = asm.int(64, Op::EntryLoad { entry, field: 1 });
                let one = asm.constant(64, 1);
                let more = asm.bin(BinOp::Add, old, one);
                asm.effect(Op::EntryStore { entry, field: 1, value: more });
            });
            let null = asm.int(1, Op::IsNull(entry));
            let null = asm.resize(null, 64);
            asm.end(Terminator::Jump(dest(end, &[null])), end);
            asm.store(packet, 192, end_params[0]);
        },
    )
}

#[test]
fn hashes() {
    for mut machine in Machine::both(&hash_program()) {
        let step = |machine: &mut Machine, what: u8, key: u8, new: u64| {
            let mut packet = vec![what];
            packet.extend((1..14).map(|i| key.wrapping_mul(i)));
            packet.extend(new.to_be_bytes());
            packet.resize(48, 0xcc);
            let frame = machine.receive(20, &packet, 0);
            machine.run(&[frame]);
            let result = machine.packet(frame)[31];
            machine.release(&[frame]);
            result
        };
        assert_eq!(step(&mut machine, 0, 77, 0), 1, "null in an empty table");
        for key in 0..6 {
            assert_eq!(step(&mut machine, 1, key, 1000 + u64::from(key)), u8::from(key < 5));
        }
        assert_eq!(machine.counter(machine.slots.table_full(TableId(0))), 1);
        assert_eq!(step(&mut machine, 1, 3, 42), 1, "replaced although the table is full");
        assert_eq!(step(&mut machine, 0, 3, 0), 0);
        assert_eq!(step(&mut machine, 0, 5, 0), 1);
        assert_eq!(step(&mut machine, 2, 4, 0), 1);
        assert_eq!(step(&mut machine, 2, 4, 0), 0);
        let hash = machine.tables[0].hash();
        assert_eq!(hash.entries.len(), 4);
        // `TestHash` takes keys with their padding, so it must be zero; bits 48 to 60 and 61 to 108 by hand.
        let bytes: Vec<u8> = (1..14).map(|i: u8| 3 * i).collect();
        let word = u128::from_be_bytes([&bytes[5..], &[0; 8]].concat().try_into().unwrap());
        let key = [
            bytes[0].into(),
            u32::from_be_bytes(bytes[1..5].try_into().unwrap()).into(),
            word >> 115,
            word >> 67 & mask(48),
        ];
        assert_eq!(hash.get(&key), Some(vec![1, 43]));
        // And the other way round: what the control plane wrote is found.
        hash.set(&[0, 0, 0, 1], &[0, 9]);
        let mut packet = [0; 48];
        packet[13] = 0x08; // bit 108, the last of the key
        let frame = machine.receive(0, &packet, 0);
        machine.run(&[frame]);
        assert_eq!(machine.packet(frame)[31], 0);
        assert_eq!(machine.tables[0].hash().get(&[0, 0, 0, 1]), Some(vec![0, 10]));
    }
}

/// A store through an entry between two look-ups of it, beside stores to the packet, at O3.
#[test]
fn entries_keep_their_order() {
    let program = one_ppf(
        16,
        |program| {
            let key = add_layout(program, &[32]);
            let value = add_layout(program, &[64]);
            (add_table(program, TableKind::Hash, key, value, 4), value)
        },
        |asm, packet, (table, value)| {
            let key = asm.load(packet, 0, 32);
            let zero = asm.constant(64, 0);
            asm.int(1, Op::Insert { table, key: vec![key], value: vec![zero], new: false });
            for _ in 0..3 {
                let entry = asm.def(Ty::Entry(value), Op::Lookup { table, key: vec![key] });
                if_found(asm, entry, |asm| {
                    let old = asm.int(64, Op::EntryLoad { entry, field: 0 });
                    let three = asm.constant(64, 3);
                    let more = asm.bin(BinOp::Add, old, three);
                    asm.effect(Op::EntryStore { entry, field: 0, value: more });
                    let read = asm.int(64, Op::EntryLoad { entry, field: 0 });
                    asm.store(packet, 64, read);
                });
            }
            asm.int(1, Op::Remove { table, key: vec![key] });
            let gone = asm.def(Ty::Entry(value), Op::Lookup { table, key: vec![key] });
            let null = asm.int(1, Op::IsNull(gone));
            let null = asm.resize(null, 8);
            asm.store(packet, 32, null);
        },
    );
    let mut machine = Machine::new(&program, OptLevel::O3);
    let frame = machine.receive(0, &[5; 16], 0);
    machine.run(&[frame]);
    assert_eq!(machine.packet(frame), [5, 5, 5, 5, 1, 5, 5, 5, 0, 0, 0, 0, 0, 0, 0, 9]);
}

#[test]
fn counters() {
    let program = one_ppf(
        16,
        |program| {
            program.counters.push(Counter { name: "m.plain".into(), size: 1 });
            program.counters.push(Counter { name: "m.cells".into(), size: 4 });
            program.counters.push(Counter { name: "m.last".into(), size: 1 });
        },
        |asm, packet, ()| {
            let (index, amount) = (asm.load(packet, 0, 32), asm.load(packet, 32, 64));
            asm.effect(Op::Count { counter: CounterId(1), index, amount });
            let (zero, one) = (asm.constant(32, 0), asm.constant(64, 1));
            asm.effect(Op::Count { counter: CounterId(0), index: zero, amount: one });
            let beyond = asm.constant(32, 1);
            asm.effect(Op::Count { counter: CounterId(2), index: beyond, amount: one });
        },
    );
    for mut machine in Machine::both(&program) {
        let big = u64::MAX - 1;
        let steps = [(0u32, 5), (3, big), (3, 4), (4, 9), (u32::MAX, 9), (1, 7), (1, 7)];
        let frames: Vec<u32> = steps
            .iter()
            .map(|(index, amount)| {
                let packet = [&index.to_be_bytes()[..], &u64::to_be_bytes(*amount), &[0; 4]].concat();
                machine.receive(0, &packet, 0)
            })
            .collect();
        machine.run(&frames);
        let first = machine.slots.user(CounterId(1));
        assert_eq!([0, 1, 2, 3].map(|i| machine.counter(first + i)), [5, 14, 0, big.wrapping_add(4)]);
        assert_eq!(machine.counter(machine.slots.user(CounterId(0))), steps.len() as u64);
        assert_eq!(machine.counter(machine.slots.user(CounterId(2))), 0);
        assert_eq!(machine.channel(0), steps.len() as u64);
    }
}

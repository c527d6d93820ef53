//! Packet operations: heads, lengths, copies, metadata, channels, drops.

mod common;

use baker::ir::*;
use baker::opt::Level;
use codegen::abi::{END_HOST, END_TX, Output};
use common::asm::{Asm, add_meta, dest, program};
use common::{FRAME_SIZE, Machine, Random};

fn out(frame: u32, end: u32) -> Output {
    Output { frame, end }
}

/// 14 bytes off, 4 looked at, 8 put in front; or dropped as malformed.
fn decap_encap() -> Program {
    let (mut asm, packet) = Asm::new(0);
    let skip = asm.load(packet, 104, 8); // byte 13: how many bytes to skip
    let skip = asm.resize(skip, 32);
    let four = asm.constant(32, 4);
    let need = asm.bin(BinOp::Add, skip, four);
    let enough = asm.int(1, Op::Has { packet, bytes: need });
    let (pull, _) = asm.new_block(&[]);
    let (bad, _) = asm.new_block(&[]);
    asm.end(Terminator::Branch(enough, dest(pull, &[]), dest(bad, &[])), bad);
    asm.effect(Op::Drop { packet, reason: DropId::MALFORMED });
    asm.end(Terminator::Return, pull);
    let inner = asm.def(Ty::Packet(ProtocolId(1)), Op::Pull { packet, bytes: skip });
    asm.put(inner, 1);

    let (mut second, inner) = Asm::new(1);
    let len = second.int(32, Op::Len { packet: inner });
    let word = second.load(inner, 0, 32);
    let outer = second.def(Ty::Packet(ProtocolId(2)), Op::Push { packet: inner, bytes: 8 });
    let zero = second.load(outer, 32, 32); // must read as zero although it held the old header
    let sum = second.bin(BinOp::Add, len, zero);
    second.store(outer, 0, sum);
    second.store(outer, 64, word); // the protocol has 12 bytes: 8 and the word again
    second.put(outer, 2);
    let channels = [(0, Target::Ppf(PpfId(0))), (1, Target::Ppf(PpfId(1))), (2, Target::Tx)];
    program(&[14, 4, 12], &channels, vec![(0, asm.body), (1, second.body)])
}

#[test]
fn heads_move() {
    let program = decap_encap();
    let mut random = Random(3);
    for mut machine in Machine::both(&program) {
        let mut frames = Vec::new();
        let mut want = Vec::new();
        for (len, skip) in [(64, 14), (64, 0), (64, 60), (64, 61), (18, 14), (17, 14), (14, 10), (14, 11), (64, 255)] {
            let mut packet = random.bytes(len);
            packet[13] = skip;
            frames.push(machine.receive(100, &packet, 0));
            want.push((usize::from(skip) + 4 <= len).then(|| {
                let rest = &packet[skip.into()..];
                [&(rest.len() as u32).to_be_bytes()[..], &[0; 4], rest].concat()
            }));
        }
        let passed: Vec<u32> =
            frames.iter().zip(&want).filter(|(_, want)| want.is_some()).map(|(&frame, _)| frame).collect();
        let free = machine.free_frames().len();
        let outputs = machine.run(&frames);
        assert_eq!(outputs, passed.iter().map(|&frame| out(frame, END_TX)).collect::<Vec<_>>());
        for (frame, want) in frames.iter().zip(&want) {
            match want {
                Some(want) => assert_eq!(machine.packet(*frame), *want),
                None => assert!(machine.free_frames().contains(frame)),
            }
        }
        let dropped = frames.len() - passed.len();
        assert_eq!(dropped, 4);
        assert_eq!(machine.free_frames().len(), free + dropped);
        assert_eq!(machine.drops(DropId::MALFORMED), dropped as u64);
        assert_eq!(machine.drops(DropId::TRUNCATED), 0);
        let puts = [frames.len(), passed.len(), passed.len()].map(|n| n as u64);
        assert_eq!([0, 1, 2].map(|channel| machine.channel(channel)), puts);
    }
}

#[test]
fn packets_shorter_than_rx_are_truncated() {
    let (mut asm, packet) = Asm::new(0);
    asm.put(packet, 1);
    let mut program = program(&[14], &[(0, Target::Ppf(PpfId(0))), (0, Target::Host)], vec![(0, asm.body)]);
    for wired_through in [true, false] {
        if !wired_through {
            program.channels[0].target = Target::Host;
        }
        for mut machine in Machine::both(&program) {
            let frames = [0, 13, 14, 15].map(|len| machine.receive(FRAME_SIZE - len, &vec![9; len], 0));
            let outputs = machine.run(&frames);
            assert_eq!(outputs, [out(frames[2], END_HOST), out(frames[3], END_HOST)]);
            assert_eq!(machine.drops(DropId::TRUNCATED), 2);
            assert_eq!(machine.channel(0), 2);
            assert_eq!(machine.free_frames()[machine.free_frames().len() - 2..], frames[..2]);
            assert!(machine.run(&[]).is_empty());
            assert_eq!(machine.channel(0), 2);
        }
    }
}

/// A copy has the bytes and the metadata of the moment, and then a life of its own.
#[test]
fn copies_are_independent() {
    let (mut asm, packet) = Asm::new(0);
    let mut metas = Vec::new();
    let mut program = program(&[4], &[(0, Target::Ppf(PpfId(0))), (0, Target::Tx), (0, Target::Host)], vec![]);
    for width in [1, 13, 48, 128] {
        metas.push(add_meta(&mut program, width));
    }
    for (&field, width) in metas.iter().zip([1, 13, 48, 128]) {
        let value = asm.constant(width, 0x5555_5555_5555_5555_5555_5555_5555_5555 & common::mask(width));
        asm.effect(Op::MetaStore { packet, field, value });
    }
    let copy = asm.def(Ty::Packet(ProtocolId(0)), Op::Copy { packet });
    // Change each after the copy.
    let (one, two) = (asm.constant(8, 1), asm.constant(8, 2));
    asm.store(packet, 0, one);
    asm.store(copy, 0, two);
    let twos = asm.constant(13, 0x1aaa);
    asm.effect(Op::MetaStore { packet: copy, field: metas[1], value: twos });
    let of_original = asm.int(13, Op::MetaLoad { packet, field: metas[1] });
    let wide = asm.resize(of_original, 16);
    asm.store(packet, 16, wide);
    asm.put(copy, 2);
    asm.put(packet, 1);
    program.ppfs = vec![Ppf { name: "m.f".into(), protocol: ProtocolId(0), pin: None, body: asm.body, span: None }];
    program.limits.copies = 1;
    for mut machine in Machine::both(&program) {
        let mut random = Random(9);
        let bodies: Vec<Vec<u8>> = (0..40).map(|i| random.bytes(4 + i * 37)).collect();
        let frames: Vec<u32> = bodies.iter().map(|body| machine.receive(96, body, 7)).collect();
        let outputs = machine.run(&frames);
        assert_eq!(outputs.len(), 80);
        for (i, pair) in outputs.chunks(2).enumerate() {
            let [copy, original] = pair else { unreachable!() };
            assert_eq!((copy.end, *original), (END_HOST, out(frames[i], END_TX)));
            let mut want = bodies[i].clone();
            want[0] = 2;
            assert_eq!(machine.packet(copy.frame), want);
            want[0] = 1;
            want[2..4].copy_from_slice(&0x1555u16.to_be_bytes());
            assert_eq!(machine.packet(original.frame), want);
            let descriptor = machine.descriptor(copy.frame);
            assert_eq!(descriptor.frame, copy.frame);
            assert_eq!(descriptor.addr, u64::from(copy.frame) * FRAME_SIZE as u64 + 96);
            assert_eq!(machine.meta(copy.frame, Program::RX_PORT), 7);
            assert_eq!(machine.meta(copy.frame, metas[0]), 1);
            assert_eq!(machine.meta(copy.frame, metas[1]), 0x1aaa);
            assert_eq!(machine.meta(original.frame, metas[1]), 0x1555);
            for frame in [copy.frame, original.frame] {
                assert_eq!(machine.meta(frame, metas[2]), 0x5555_5555_5555);
                assert_eq!(machine.meta(frame, metas[3]), 0x5555_5555_5555_5555_5555_5555_5555_5555);
            }
        }
    }
}

/// The frame of a dropped packet comes back at once as a copy: its descriptor has two pointers in one function.
#[test]
fn a_dropped_frame_returns_as_a_copy() {
    let (mut asm, packet) = Asm::new(0);
    let first = asm.def(Ty::Packet(ProtocolId(0)), Op::Copy { packet });
    let nine = asm.constant(8, 9);
    asm.effect(Op::MetaStore { packet, field: Program::TX_PORT, value: nine });
    asm.store(packet, 0, nine);
    asm.effect(Op::Drop { packet, reason: DropId::NO_PORT });
    // Takes the original's frame.
    let second = asm.def(Ty::Packet(ProtocolId(0)), Op::Copy { packet: first });
    let short = asm.constant(32, 2);
    let pulled = asm.def(Ty::Packet(ProtocolId(1)), Op::Pull { packet: first, bytes: short });
    asm.put(pulled, 2);
    asm.put(second, 1);
    let channels = [(0, Target::Ppf(PpfId(0))), (0, Target::Tx), (1, Target::Tx)];
    let mut program = program(&[4, 2], &channels, vec![(0, asm.body)]);
    program.limits.copies = 1;
    for mut machine in Machine::both(&program) {
        let frame = machine.receive(10, &[1, 2, 3, 4, 5], 3);
        let outputs = machine.run(&[frame]);
        assert_eq!(outputs.len(), 2);
        assert_eq!(machine.packet(outputs[0].frame), [3, 4, 5]);
        assert_eq!(outputs[1], out(frame, END_TX));
        assert_eq!(machine.packet(frame), [1, 2, 3, 4, 5]);
        assert_eq!(machine.meta(frame, Program::TX_PORT), 0);
        assert_eq!(machine.meta(frame, Program::RX_PORT), 3);
        assert_eq!(machine.drops(DropId::NO_PORT), 1);
    }
}

/// A put is a call: what follows in the PPF happens after the PPF at the other end. Two puts lead to one PPF.
#[test]
fn puts_run_in_order() {
    let (mut asm, packet) = Asm::new(0);
    let copy = asm.def(Ty::Packet(ProtocolId(0)), Op::Copy { packet });
    let mark = asm.constant(8, 0x11);
    asm.store(packet, 0, mark);
    asm.put(copy, 1);
    asm.put(packet, 2);
    let (mut leaf, packet) = Asm::new(0);
    let byte = leaf.load(packet, 0, 8);
    let one = leaf.constant(8, 1);
    let more = leaf.bin(BinOp::Add, byte, one);
    leaf.store(packet, 0, more);
    let port = leaf.int(8, Op::MetaLoad { packet, field: Program::RX_PORT });
    leaf.effect(Op::MetaStore { packet, field: Program::TX_PORT, value: port });
    leaf.put(packet, 3);
    let leaf_of = Target::Ppf(PpfId(1));
    let channels = [(0, Target::Ppf(PpfId(0))), (0, leaf_of), (0, leaf_of), (0, Target::Tx)];
    let mut program = program(&[1], &channels, vec![(0, asm.body), (0, leaf.body)]);
    program.limits.copies = 1;
    for mut machine in Machine::both(&program) {
        let frames: Vec<u32> = (0..64).map(|i| machine.receive(0, &[0x40, i], i)).collect();
        let outputs = machine.run(&frames);
        assert_eq!(outputs.len(), 128);
        for (i, pair) in outputs.chunks(2).enumerate() {
            assert_eq!(machine.packet(pair[0].frame), [0x41, i as u8]);
            assert_eq!(machine.packet(pair[1].frame), [0x12, i as u8]);
            assert_eq!(pair[1].frame, frames[i]);
            assert_eq!(machine.meta(pair[0].frame, Program::TX_PORT), i as u128);
        }
        assert_eq!([0, 1, 2, 3].map(|channel| machine.channel(channel)), [64, 64, 64, 128]);
    }
}

/// Programs that break the rules of the IR get an error, not a panic or bad code.
#[test]
fn broken_programs_are_refused() {
    let build = |mut asm: Asm, packet: Value| {
        asm.put(packet, 1);
        program(&[14], &[(0, Target::Ppf(PpfId(0))), (0, Target::Tx)], vec![(0, asm.body)])
    };
    let mut cases: Vec<(&str, Program)> = Vec::new();
    let (mut asm, packet) = Asm::new(0);
    let (a, b) = (asm.constant(8, 1), asm.constant(9, 1));
    asm.bin(BinOp::Add, a, b);
    cases.push(("Add of 8 and 9 bits", build(asm, packet)));
    let (mut asm, packet) = Asm::new(0);
    asm.effect(Op::Store { packet, bits: BitRange { offset: 0, width: 8 }, value: Value(77) });
    cases.push(("value 77", build(asm, packet)));
    cases.push(("there is no PPF 0", program(&[14], &[(0, Target::Ppf(PpfId(0)))], vec![])));
    let (mut asm, packet) = Asm::new(0);
    asm.constant(129, 1);
    cases.push(("1 to 128 bits", build(asm, packet)));
    let (mut asm, packet) = Asm::new(0);
    let other = asm.body.value(Ty::Int(8));
    asm.effect(Op::Store { packet, bits: BitRange { offset: 0, width: 8 }, value: other });
    cases.push(("used before its definition", build(asm, packet)));
    let (mut asm, packet) = Asm::new(0);
    asm.effect(Op::Put { packet, channel: ChannelId(9) });
    cases.push(("there is no channel 9", build(asm, packet)));
    let (mut asm, packet) = Asm::new(0);
    asm.body.blocks[0].term = Terminator::Jump(dest(BlockId(5), &[]));
    cases.push(("block 5", build(asm, packet)));
    let (mut asm, packet) = Asm::new(0);
    let (next, _) = asm.new_block(&[Ty::Int(8)]);
    asm.body.blocks[0].term = Terminator::Jump(dest(next, &[]));
    cases.push(("takes 1 values, not 0", build(asm, packet)));
    let (mut asm, packet) = Asm::new(0);
    asm.int(8, Op::MetaLoad { packet, field: MetaId(40) });
    cases.push(("no metadata 40", build(asm, packet)));
    let (mut asm, packet) = Asm::new(0);
    asm.def(Ty::Entry(LayoutId(0)), Op::Lookup { table: TableId(3), key: vec![] });
    cases.push(("no table 3", build(asm, packet)));
    for (want, program) in cases {
        let error =
            codegen::emit(&program, codegen::OptLevel::O0, Level::Base, codegen::Emit::Llvm).unwrap_err().to_string();
        assert!(error.contains(want), "{error} does not say: {want}");
    }
}

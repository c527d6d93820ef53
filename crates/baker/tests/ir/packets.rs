//! Packets through the interpreter: heads, copies, metadata, channels, control flow.

use baker::ir::interp::{End, Machine, Output, RunError};
use baker::ir::*;

use crate::support::*;

/// Two protocols of 4 and 2 bytes.
fn outer_and_inner() -> (Program, ProtocolId, ProtocolId) {
    let mut p = program();
    let outer = protocol(&mut p, "outer", &[("a", 16), ("b", 16)]);
    let inner = protocol(&mut p, "inner", &[("x", 16)]);
    (p, outer, inner)
}

fn counted(machine: &Machine) -> Vec<u64> {
    machine.counters().to_vec()
}

#[test]
fn too_short_a_frame_is_truncated_and_not_counted_at_rx() {
    let (mut p, outer, _) = outer_and_inner();
    channel(&mut p, "rx", outer, Target::Tx);
    let mut machine = Machine::new(p);
    assert_eq!(machine.receive(0, &[1, 2, 3]), []);
    assert_eq!(machine.counters()[machine.slots().drop(DropId::TRUNCATED)], 1);
    assert_eq!(machine.counters()[machine.slots().channel(Program::RX)], 0);
    let outputs = machine.receive(7, &[1, 2, 3, 4]);
    assert_eq!(outputs, [Output { end: End::Tx, packet: vec![1, 2, 3, 4], metadata: vec![7, 0] }]);
    assert_eq!(machine.counters()[machine.slots().channel(Program::RX)], 1);
    assert_eq!(machine.counters()[machine.slots().drop(DropId::TRUNCATED)], 1);
}

#[test]
fn pull_moves_the_head_and_push_brings_zeros() {
    let (mut p, outer, inner) = outer_and_inner();
    let (mut code, packet) = Code::new(outer);
    let three = code.constant(32, 3);
    let pulled = code.push(Ty::Packet(inner), Op::Pull { packet, bytes: three });
    let x = code.load(pulled, 0, 16);
    let pushed = code.push(Ty::Packet(outer), Op::Push { packet: pulled, bytes: 4 });
    code.store(pushed, 0, 16, x);
    code.put(pushed, OUT);
    one_ppf(&mut p, outer, code);
    let expected = [4, 5, 0, 0, 4, 5, 6];
    assert_eq!(Machine::new(p.clone()).receive(0, &[1, 2, 3, 4, 5, 6])[0].packet, expected);
    // Too little declared headroom changes nothing.
    p.limits.headroom = 0;
    assert_eq!(Machine::new(p).receive(0, &[1, 2, 3, 4, 5, 6])[0].packet, expected);
}

#[test]
fn push_grows_a_frame_without_headroom() {
    let (mut p, outer, _) = outer_and_inner();
    p.limits.headroom = 1;
    let (mut code, packet) = Code::new(outer);
    let pushed = code.push(Ty::Packet(outer), Op::Push { packet, bytes: 4 });
    code.put(pushed, OUT);
    one_ppf(&mut p, outer, code);
    assert_eq!(Machine::new(p).receive(0, &[1, 2, 3, 4])[0].packet, [0, 0, 0, 0, 1, 2, 3, 4]);
}

#[test]
fn length_and_has_count_from_the_head() {
    let (mut p, outer, inner) = outer_and_inner();
    let (mut code, packet) = Code::new(outer);
    let one = code.constant(32, 1);
    let packet = code.push(Ty::Packet(inner), Op::Pull { packet, bytes: one });
    let len = code.int(32, Op::Len { packet });
    let low = code.int(8, Op::Cast(CastOp::Trunc, len));
    code.store(packet, 0, 8, low);
    for (i, bytes) in [4, 5, 6, u32::MAX].into_iter().enumerate() {
        let bytes = code.constant(32, bytes as u128);
        let has = code.int(1, Op::Has { packet, bytes });
        code.store(packet, 8 + i as u32, 1, has);
    }
    let out = ChannelId(2);
    code.put(packet, out);
    one_ppf(&mut p, outer, code);
    channel(&mut p, "m.inner", inner, Target::Host);
    let outputs = Machine::new(p).receive(0, &[9, 0, 0, 3, 4, 5]);
    assert_eq!(outputs, [Output { end: End::Host, packet: vec![5, 0b1100_0000, 3, 4, 5], metadata: vec![0, 0] }]);
}

#[test]
fn a_copy_is_a_packet_of_its_own() {
    let (mut p, outer, _) = outer_and_inner();
    let mark = metadata(&mut p, "mark", 20);
    let (mut code, packet) = Code::new(outer);
    let first = code.constant(20, 0xaaaaa);
    code.effect(Op::MetaStore { packet, field: mark, value: first });
    let copy = code.push(Ty::Packet(outer), Op::Copy { packet });
    let (second, byte) = (code.constant(20, 0x55555), code.constant(8, 0xff));
    code.effect(Op::MetaStore { packet: copy, field: mark, value: second });
    code.store(copy, 0, 8, byte);
    let seen = code.int(20, Op::MetaLoad { packet, field: mark });
    code.store(packet, 8, 20, seen);
    code.put(packet, OUT);
    code.put(copy, OUT);
    one_ppf(&mut p, outer, code);
    let mut machine = Machine::new(p);
    for port in [3, 255] {
        let outputs = machine.receive(port, &[0, 0, 0, 0, 8]);
        assert_eq!(outputs[0].packet, [0, 0xaa, 0xaa, 0xa0, 8]);
        assert_eq!(outputs[0].metadata, [port as u128, 0, 0xaaaaa]);
        assert_eq!(outputs[1].packet, [0xff, 0, 0, 0, 8]);
        assert_eq!(outputs[1].metadata, [port as u128, 0, 0x55555]);
        assert_eq!(outputs.len(), 2);
    }
}

/// A put into a PPF runs it before the next instruction of the one that put.
#[test]
fn puts_run_depth_first() {
    let (mut p, outer, _) = outer_and_inner();
    let (first, to_b, to_c, tx, host) = (ChannelId(0), ChannelId(1), ChannelId(2), ChannelId(3), ChannelId(4));
    let hits = counter(&mut p, "hits", 3);

    // a: a copy to b, a copy to tx, the packet to c.
    let (mut a, packet) = Code::new(outer);
    for channel in [to_b, tx] {
        let copy = a.push(Ty::Packet(outer), Op::Copy { packet });
        a.put(copy, channel);
    }
    a.put(packet, to_c);
    let a = ppf(&mut p, "m.a", outer, a);
    // b: a copy to c, marked; then the packet to host.
    let (mut b, packet) = Code::new(outer);
    let mark = b.constant(8, 0xb);
    b.store(packet, 0, 8, mark);
    let copy = b.push(Ty::Packet(outer), Op::Copy { packet });
    b.put(copy, to_c);
    let still = b.load(packet, 0, 8);
    b.store(packet, 8, 8, still);
    b.put(packet, host);
    let b = ppf(&mut p, "m.b", outer, b);
    // c: counts, marks, to tx.
    let (mut c, packet) = Code::new(outer);
    let (index, amount, mark) = (c.constant(32, 2), c.constant(64, 5), c.constant(8, 0xc));
    c.effect(Op::Count { counter: hits, index, amount });
    let beyond = c.constant(32, 3);
    c.effect(Op::Count { counter: hits, index: beyond, amount });
    c.store(packet, 24, 8, mark);
    c.put(packet, tx);
    let c = ppf(&mut p, "m.c", outer, c);

    for (name, target) in [
        ("rx", Target::Ppf(a)),
        ("m.b", Target::Ppf(b)),
        ("m.c", Target::Ppf(c)),
        ("m.tx", Target::Tx),
        ("m.host", Target::Host),
    ] {
        channel(&mut p, name, outer, target);
    }
    let mut machine = Machine::new(p);
    let ends: Vec<(End, Vec<u8>)> =
        machine.receive(0, &[0, 0, 0, 0]).into_iter().map(|output| (output.end, output.packet)).collect();
    assert_eq!(
        ends,
        [
            (End::Tx, vec![0xb, 0, 0, 0xc]),
            (End::Host, vec![0xb, 0xb, 0, 0]),
            (End::Tx, vec![0, 0, 0, 0]),
            (End::Tx, vec![0, 0, 0, 0xc]),
        ]
    );
    let at = |channel| machine.counters()[machine.slots().channel(channel)];
    assert_eq!([first, to_b, to_c, tx, host].map(at), [1, 1, 2, 3, 1]);
    let user = machine.slots().user(hits);
    assert_eq!(machine.counters()[user..user + 3], [0, 0, 10]);
}

#[test]
fn drops_are_counted_by_reason() {
    let (mut p, outer, _) = outer_and_inner();
    let mine = drop_reason(&mut p, "mine");
    let (mut code, packet) = Code::new(outer);
    let (then, other) = (code.body.block(), code.body.block());
    let bit = code.load(packet, 0, 1);
    code.branch(bit, dest(then, &[]), dest(other, &[]));
    code.block = then;
    code.effect(Op::Drop { packet, reason: mine });
    code.block = other;
    code.drop(packet);
    one_ppf(&mut p, outer, code);
    let mut machine = Machine::new(p);
    for byte in [0x80, 0x80, 0x00] {
        assert_eq!(machine.receive(0, &[byte, 0, 0, 0]), []);
    }
    let drops = |reason| machine.counters()[machine.slots().drop(reason)];
    assert_eq!((drops(mine), drops(DropId::MALFORMED), drops(DropId::TRUNCATED)), (2, 1, 0));
}

/// Counts down and swaps two numbers each round: arguments are read before any parameter is written.
#[test]
fn loops_pass_block_arguments_at_once() {
    let (mut p, outer, _) = outer_and_inner();
    let (mut code, packet) = Code::new(outer);
    let (head, round, exit) = (code.body.block(), code.body.block(), code.body.block());
    let (x, y, n) = (code.param(head, Ty::Int(8)), code.param(head, Ty::Int(8)), code.param(head, Ty::Int(8)));
    let (a, b, rounds) = (code.load(packet, 0, 8), code.load(packet, 8, 8), code.load(packet, 16, 8));
    code.jump(head, &[a, b, rounds]);
    code.block = head;
    let zero = code.constant(8, 0);
    let done = code.int(1, Op::Cmp(CmpOp::Eq, n, zero));
    code.branch(done, dest(exit, &[]), dest(round, &[]));
    code.block = round;
    let one = code.constant(8, 1);
    let fewer = code.int(8, Op::Bin(BinOp::Sub, n, one));
    code.jump(head, &[y, x, fewer]);
    code.block = exit;
    let odd = code.int(1, Op::Cmp(CmpOp::Ult, y, x));
    let greater = code.int(8, Op::Select(odd, x, y));
    code.store(packet, 0, 8, x);
    code.store(packet, 8, 8, y);
    code.store(packet, 24, 8, greater);
    code.put(packet, OUT);
    one_ppf(&mut p, outer, code);
    let mut machine = Machine::new(p);
    assert_eq!(machine.receive(0, &[1, 2, 3, 0])[0].packet, [2, 1, 3, 2]);
    assert_eq!(machine.receive(0, &[9, 2, 200, 0])[0].packet, [9, 2, 200, 9]);
}

#[test]
fn faults_of_the_compiler_are_errors_and_leave_the_machine_usable() {
    let (mut p, outer, inner) = outer_and_inner();
    let (mut code, packet) = Code::new(outer);
    let (spin, pull) = (code.body.block(), code.body.block());
    let bit = code.load(packet, 0, 1);
    code.branch(bit, dest(spin, &[]), dest(pull, &[]));
    code.block = spin;
    code.jump(spin, &[]);
    code.block = pull;
    let bytes = code.load(packet, 0, 32);
    let pulled = code.push(Ty::Packet(inner), Op::Pull { packet, bytes });
    let x = code.load(pulled, 0, 16);
    code.store(pulled, 0, 16, x);
    code.drop(pulled);
    one_ppf(&mut p, outer, code);
    let mut machine = Machine::new(p);
    let before = counted(&machine);
    assert_eq!(machine.try_receive(0, &[0x80, 0, 0, 0]), Err(RunError::StepLimit { ppf: "m.p".into() }));
    let beyond = Err(RunError::BeyondEnd { ppf: "m.p".into() });
    assert_eq!(machine.try_receive(0, &[0, 0, 0, 5]), beyond, "beyond the end");
    assert_eq!(machine.try_receive(0, &[0, 0, 0, 3]), beyond, "one byte is left of a header of two");
    assert_eq!(machine.try_receive(0, &[0, 0, 0, 2]), Ok(Vec::new()));
    let mut expected = before;
    expected[machine.slots().channel(Program::RX)] = 4;
    expected[machine.slots().drop(DropId::MALFORMED)] = 1;
    assert_eq!(machine.counters(), expected);
}

#[test]
#[should_panic(expected = "internal error: the program does not verify:\nppf m.p: b0: packet v0 is never consumed")]
fn a_machine_refuses_what_does_not_verify() {
    let (mut p, outer, _) = outer_and_inner();
    let (code, _) = Code::new(outer);
    one_ppf(&mut p, outer, code);
    Machine::new(p);
}

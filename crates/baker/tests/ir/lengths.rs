//! Bytes at run-time places, sums, and packets that are made, grown and trimmed, through the interpreter; and what the
//! verifier refuses of them.

use baker::ir::interp::{FrameLayout, Machine, RunError};
use baker::ir::*;

use crate::support::*;
use crate::verifier::messages;

/// A protocol of 4 bytes: an offset and a number of bytes.
fn header() -> (Program, ProtocolId) {
    let mut p = program();
    let header = protocol(&mut p, "header", &[("offset", 8), ("bytes", 8), ("answer", 16)]);
    (p, header)
}

/// `offset` and `bytes` of the packet as 32-bit values.
fn arguments(code: &mut Code, packet: Value) -> (Value, Value) {
    let mut load = |offset| {
        let byte = code.load(packet, offset, 8);
        code.int(32, Op::Cast(CastOp::ZExt, byte))
    };
    (load(0), load(8))
}

#[test]
fn sums_are_those_of_words_at_even_places() {
    let (mut p, protocol) = header();
    let (mut code, packet) = Code::new(protocol);
    let (offset, bytes) = arguments(&mut code, packet);
    let sum = code.int(16, Op::Sum { packet, offset, bytes });
    code.store(packet, 16, 16, sum);
    code.put(packet, OUT);
    one_ppf(&mut p, protocol, code);
    let mut machine = Machine::new(p);
    let mut sum = |offset: u8, bytes: u8, rest: &[u8]| {
        let packet = [&[offset, bytes, 0, 0], rest].concat();
        machine.try_receive(0, &packet).map(|out| u16::from_be_bytes([out[0].packet[2], out[0].packet[3]]))
    };
    assert_eq!(sum(4, 4, &[1, 2, 3, 4]), Ok(0x0406));
    assert_eq!(sum(5, 3, &[1, 2, 3, 4]), Ok(0x0306));
    assert_eq!(sum(5, 1, &[1, 2, 3, 4]), Ok(0x0002));
    assert_eq!(sum(4, 0, &[1, 2]), Ok(0));
    assert_eq!(sum(8, 0, &[1, 2, 3, 4]), Ok(0), "nothing at the very end");
    assert_eq!(sum(4, 4, &[0, 0, 0, 0]), Ok(0));
    assert_eq!(sum(4, 4, &[0xff, 0xff, 0, 0]), Ok(0xffff), "what is not zero does not become it");
    assert_eq!(sum(4, 4, &[0xff, 0xff, 0, 1]), Ok(1));
    let beyond = Err(RunError::BeyondEnd { ppf: "m.p".into() });
    assert_eq!(sum(4, 5, &[1, 2, 3, 4]), beyond);
    assert_eq!(sum(9, 0, &[1, 2, 3, 4]), beyond);
}

#[test]
fn bits_at_a_place_of_the_program_s_choice() {
    let (mut p, protocol) = header();
    let (mut code, packet) = Code::new(protocol);
    let (offset, _) = arguments(&mut code, packet);
    let bits = BitRange { offset: 4, width: 12 };
    let found = code.int(12, Op::LoadAt { packet, offset, bits });
    let wide = code.int(16, Op::Cast(CastOp::ZExt, found));
    code.store(packet, 16, 16, wide);
    let all = code.constant(12, 0xfff);
    code.effect(Op::StoreAt { packet, offset, bits, value: all });
    code.put(packet, OUT);
    one_ppf(&mut p, protocol, code);
    let mut machine = Machine::new(p);
    assert_eq!(machine.receive(0, &[5, 0, 0, 0, 9, 0xab, 0xcd])[0].packet, [5, 0, 0x0b, 0xcd, 9, 0xaf, 0xff]);
    let beyond = Err(RunError::BeyondEnd { ppf: "m.p".into() });
    assert_eq!(machine.try_receive(0, &[6, 0, 0, 0, 9, 0xab, 0xcd]), beyond);
    assert_eq!(machine.try_receive(0, &[200, 0, 0, 0]), beyond);
}

#[test]
fn packets_grow_as_far_as_their_frames() {
    for end in [PacketEnd::Head, PacketEnd::Tail] {
        let (mut p, protocol) = header();
        p.limits.encap = 3;
        let (mut code, packet) = Code::new(protocol);
        let (_, bytes) = arguments(&mut code, packet);
        let grown = code.int(1, Op::Grow { packet, bytes, end });
        code.store(packet, 0, 1, grown);
        code.put(packet, OUT);
        one_ppf(&mut p, protocol, code);
        let mut machine = Machine::new(p);
        machine.set_frame_layout(FrameLayout { headroom: 10, frame_size: 24 });
        let mut grow = |bytes: u8| machine.receive(0, &[0, bytes, 7, 7]).remove(0).packet;
        let most = if end == PacketEnd::Head { 10 - 3 } else { 24 - 10 - 4 };
        for bytes in 1..=most {
            let found = grow(bytes);
            assert_eq!(found.len(), 4 + usize::from(bytes), "{end:?} by {bytes}");
            assert_eq!(found[0], 0x80);
        }
        assert_eq!(grow(most + 1), [0, most + 1, 7, 7], "{end:?}: no room");
        assert_eq!(grow(0), [0x80, 0, 7, 7], "nothing always fits");
    }
}

#[test]
fn the_tail_is_cut() {
    let (mut p, protocol) = header();
    let (mut code, packet) = Code::new(protocol);
    let (_, bytes) = arguments(&mut code, packet);
    code.effect(Op::Trim { packet, bytes });
    code.put(packet, OUT);
    one_ppf(&mut p, protocol, code);
    let mut machine = Machine::new(p);
    assert_eq!(machine.receive(0, &[0, 2, 7, 7, 1, 2, 3])[0].packet, [0, 2, 7, 7, 1]);
    assert_eq!(machine.receive(0, &[0, 0, 7, 7])[0].packet, [0, 0, 7, 7]);
}

#[test]
fn created_packets_are_zero() {
    let (mut p, protocol) = header();
    let mark = metadata(&mut p, "mark", 16);
    p.limits.copies = 1;
    p.limits.created = 4;
    let (mut code, packet) = Code::new(protocol);
    let value = code.constant(16, 0xffff);
    code.effect(Op::MetaStore { packet, field: mark, value });
    code.drop(packet);
    let made = code.push(Ty::Packet(protocol), Op::Create);
    let seven = code.constant(8, 7);
    code.store(made, 8, 8, seven);
    code.put(made, OUT);
    one_ppf(&mut p, protocol, code);
    let outputs = Machine::new(p).receive(9, &[1, 2, 3, 4, 5]);
    assert_eq!((outputs.len(), &outputs[0].packet[..]), (1, &[0, 7, 0, 0][..]));
    assert_eq!(outputs[0].metadata, [0, 0, 0]);
}

/// Code that ends with dropping the packet gives exactly this error.
fn refuses(expected: &str, write: impl FnOnce(&mut Code, Value)) {
    let (mut p, protocol) = header();
    let (mut code, packet) = Code::new(protocol);
    write(&mut code, packet);
    code.drop(packet);
    one_ppf(&mut p, protocol, code);
    assert_eq!(messages(&p), [format!("ppf m.p: b0: {expected}")]);
}

#[test]
fn the_verifier_looks_at_types_and_owners() {
    let bits = BitRange { offset: 0, width: 8 };
    refuses("v1 is u16 where u32 is needed", |code, packet| {
        let offset = code.constant(16, 0);
        code.int(8, Op::LoadAt { packet, offset, bits });
    });
    refuses("bits [4097..4105] of a header", |code, packet| {
        let offset = code.constant(32, 0);
        code.int(8, Op::LoadAt { packet, offset, bits: BitRange { offset: 4097, width: 8 } });
    });
    refuses("v2 is u16 where u32 is needed", |code, packet| {
        let (offset, bytes) = (code.constant(32, 0), code.constant(16, 0));
        code.int(16, Op::Sum { packet, offset, bytes });
    });
    refuses("v1 is u8 where u32 is needed", |code, packet| {
        let bytes = code.constant(8, 1);
        code.effect(Op::Trim { packet, bytes });
    });
    refuses("the result of Grow { packet: Value(0), bytes: Value(1), end: Head } is not u1", |code, packet| {
        let bytes = code.constant(32, 1);
        code.int(8, Op::Grow { packet, bytes, end: PacketEnd::Head });
    });
    refuses("the result of Create is u8, not a packet", |code, _| {
        code.int(8, Op::Create);
    });
    refuses("packet v1 is never consumed", |code, _| {
        code.push(Ty::Packet(ProtocolId(0)), Op::Create);
    });
    refuses("packet v0 is used after it was consumed", |code, packet| {
        let bytes = code.constant(32, 1);
        code.put(packet, OUT);
        code.effect(Op::Trim { packet, bytes });
        // `refuses` drops it, which is one fault of the same packet.
    });
}

//! The printed text of a program with one of everything.

use baker::ir::*;

use crate::support::*;
use crate::verifier::good;

fn everything() -> Program {
    let (mut p, mut c, packet) = good();
    p.protocols[0].checksum = Some(Checksum { field: 0, payload: false, pseudo: false, optional: false });
    p.protocols[0].fields[1].default = 0x1234;
    let (hit, miss) = (c.body.block(), c.body.block());
    let (moved, number) = (c.param(hit, Ty::Packet(ProtocolId(0))), c.param(hit, Ty::Int(32)));
    let a = c.load(packet, 0, 16);
    c.store(packet, 3, 16, a);
    let key = c.int(32, Op::Cast(CastOp::ZExt, a));
    let entry = c.push(Ty::Entry(LayoutId(0)), Op::Lookup { table: TableId(2), key: vec![key] });
    let null = c.int(1, Op::IsNull(entry));
    let zero = c.constant(32, 0);
    c.branch(null, dest(miss, &[]), dest(hit, &[packet, zero]));

    c.block = hit;
    let found = c.int(32, Op::EntryLoad { entry, field: 0 });
    c.effect(Op::EntryStore { entry, field: 0, value: number });
    let sum = c.int(32, Op::Bin(BinOp::AShr, found, number));
    let less = c.int(1, Op::Cmp(CmpOp::Sle, sum, found));
    let big = c.constant(32, 0xdead_beef);
    let chosen = c.int(32, Op::Select(less, sum, big));
    let nine = c.constant(32, 9);
    let pair = c.push(Ty::Entry(LayoutId(1)), Op::Lookup { table: TableId(0), key: vec![nine] });
    let y = c.int(64, Op::EntryLoad { entry: pair, field: 1 });
    let x = c.int(16, Op::Cast(CastOp::Trunc, chosen));
    c.int(1, Op::Insert { table: TableId(1), key: vec![x, y], value: vec![sum], new: false });
    c.int(1, Op::Remove { table: TableId(1), key: vec![x, y] });
    c.effect(Op::Count { counter: CounterId(0), index: nine, amount: y });
    let mark = c.int(20, Op::MetaLoad { packet: moved, field: MetaId(2) });
    c.effect(Op::MetaStore { packet: moved, field: MetaId(2), value: mark });
    c.int(32, Op::Len { packet: moved });
    c.int(1, Op::Has { packet: moved, bytes: nine });
    let copy = c.push(Ty::Packet(ProtocolId(0)), Op::Copy { packet: moved });
    c.put(copy, OUT);
    let pulled = c.push(Ty::Packet(ProtocolId(1)), Op::Pull { packet: moved, bytes: nine });
    let pushed = c.push(Ty::Packet(ProtocolId(0)), Op::Push { packet: pulled, bytes: 8 });
    c.drop(pushed);
    c.block = miss;
    c.jump(BlockId(3), &[packet]);
    let last = c.body.block();
    let packet = c.param(last, Ty::Packet(ProtocolId(0)));
    c.block = last;
    c.drop(packet);
    one_ppf(&mut p, ProtocolId(0), c);
    channel(&mut p, "m.punt", ProtocolId(1), Target::Host);
    p
}

const TEXT: &str = "\
program test
limits headroom 16, copies 1

protocol outer (8 bytes) {
  a: u16 [0..16] checksum of the header
  b: u48 [16..64] = 0x1234
}

protocol inner (2 bytes) {
  x: u16 [0..16]
}

metadata (8 bytes) {
  rx.port: u8 (u8) at 0
  tx.port: u8 (u8) at 1
  mark: u20 (u20) at 4
}

layout u32 (size 4, align 4) { _: u32 (u32) at 0 }
layout pair (size 16, align 8) { x: u16 (u16) at 0, y: u64 (u64) at 8 }
array m.array[10]: u32 -> pair
hash m.hash[10]: pair -> u32
lpm m.lpm[10]: u32 -> u32
counter m.hits[3]
drop_reason truncated, malformed, no_port, no_host, tx_failed, controller_busy, controller_gone, table_busy, no_worker, no_reason, ended, tap_full, deadline_late
channel rx: outer -> ppf m.p
channel m.out: outer -> tx
channel m.punt: inner -> host

ppf m.p(outer) {
b0(v0: packet<outer>):
  v3: u16 = load v0 outer.a [0..16]
  store v0 outer [3..19], v3
  v4: u32 = zext v3
  v5: entry<u32> = lookup m.lpm(v4)
  v6: u1 = is_null v5
  v7: u32 = const 0
  br v6, b2(), b1(v0, v7)
b1(v1: packet<outer>, v2: u32):
  v8: u32 = entry_load v5.0
  entry_store v5.0, v2
  v9: u32 = ashr v8, v2
  v10: u1 = sle v9, v8
  v11: u32 = const 0xdeadbeef
  v12: u32 = select v10, v9, v11
  v13: u32 = const 9
  v14: entry<pair> = lookup m.array(v13)
  v15: u64 = entry_load v14.y
  v16: u16 = trunc v12
  v17: u1 = insert m.hash(v16, v15) = (v9)
  v18: u1 = remove m.hash(v16, v15)
  count m.hits[v13], v15
  v19: u20 = meta_load v1 mark
  meta_store v1 mark, v19
  v20: u32 = len v1
  v21: u1 = has v1, v13
  v22: packet<outer> = copy v1
  put v22 -> m.out
  v23: packet<inner> = pull v1, v13
  v24: packet<outer> = push v23, 8
  drop v24 malformed
  return
b2():
  jump b3(v0)
b3(v25: packet<outer>):
  drop v25 malformed
  return
}
";

#[test]
fn one_of_everything() {
    let program = everything();
    assert_eq!(verify(&program), Ok(()));
    assert_eq!(print(&program), TEXT);
    assert_eq!(print(&program), print(&program.clone()));
}

#[test]
fn a_broken_program_can_be_printed() {
    let mut p = program();
    let (mut c, packet) = Code::new(ProtocolId(4));
    c.effect(Op::Drop { packet, reason: DropId(77) });
    c.load(Value(50), 0, 8);
    c.int(8, Op::MetaLoad { packet, field: MetaId(9) });
    c.effect(Op::EntryStore { entry: Value(51), field: 2, value: Value(52) });
    c.jump(BlockId(8), &[Value(53)]);
    let target = Target::Ppf(PpfId(6));
    p.channels.push(Channel { name: "rx".into(), from: None, protocol: ProtocolId(3), target, batch: None });
    assert!(print(&p).ends_with("channel rx: protocol#3 -> ppf#6\n"));
    assert_eq!(
        print_body(&p, &c.body),
        "b0(v0: packet<protocol#4>):\n  drop v0 reason#77\n  v1: u8 = load v50 [0..8]\n  \
         v2: u8 = meta_load v0 meta#9\n  entry_store v51.2, v52\n  jump b8(v53)\n"
    );
}

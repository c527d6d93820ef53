//! The verifier on declarations, shapes and types: one good program, and one change per refusal.

use baker::ir::*;

use crate::support::*;

/// A program that uses every declaration; returns the code of its PPF before it is closed.
pub fn good() -> (Program, Code, Value) {
    let mut p = program();
    let outer = protocol(&mut p, "outer", &[("a", 16), ("b", 48)]);
    protocol(&mut p, "inner", &[("x", 16)]);
    metadata(&mut p, "mark", 20);
    let u32_ = layout(&mut p, "u32", &[("", 32)]);
    let pair = layout(&mut p, "pair", &[("x", 16), ("y", 64)]);
    table(&mut p, TableKind::Array, "m.array", u32_, pair, 10);
    table(&mut p, TableKind::Hash, "m.hash", pair, u32_, 10);
    table(&mut p, TableKind::Lpm, "m.lpm", u32_, u32_, 10);
    counter(&mut p, "m.hits", 3);
    let (code, packet) = Code::new(outer);
    (p, code, packet)
}

const OUTER: ProtocolId = ProtocolId(0);
const INNER: ProtocolId = ProtocolId(1);
const U32: LayoutId = LayoutId(0);
const PAIR: LayoutId = LayoutId(1);
const ARRAY: TableId = TableId(0);
const HASH: TableId = TableId(1);
const LPM: TableId = TableId(2);

/// The messages for a program.
pub fn messages(program: &Program) -> Vec<String> {
    verify(program).err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

/// A good program that drops its packet, changed, gives exactly this error.
fn refuses_declaration(expected: &str, change: impl FnOnce(&mut Program)) {
    let (mut p, mut code, packet) = good();
    code.drop(packet);
    one_ppf(&mut p, OUTER, code);
    assert_eq!(messages(&p), Vec::<String>::new());
    change(&mut p);
    assert_eq!(messages(&p), [expected]);
}

/// Code that ends with dropping the packet gives exactly this error.
fn refuses(expected: &str, write: impl FnOnce(&mut Code, Value)) {
    let (mut p, mut code, packet) = good();
    write(&mut code, packet);
    code.drop(packet);
    one_ppf(&mut p, OUTER, code);
    assert_eq!(messages(&p), [format!("ppf m.p: b0: {expected}")]);
}

#[test]
fn declarations() {
    refuses_declaration("protocol outer: b does not begin where the field before it ends", |p| {
        p.protocols[0].fields[1].bits = BitRange { offset: 17, width: 47 }
    });
    refuses_declaration("protocol outer: its fields have 64 bits, not 9 bytes", |p| p.protocols[0].size = 9);
    refuses_declaration("protocol outer: its checksum is none of its fields", |p| {
        p.protocols[0].checksum = Some(Checksum { field: 2, payload: false, pseudo: false, optional: false })
    });
    refuses_declaration("protocol outer: the default of a does not fit its bits", |p| {
        p.protocols[0].fields[0].default = 0x10000
    });
    refuses_declaration("protocol big: all has 136 bits", |p| {
        protocol(p, "big", &[("all", 136)]);
    });
    refuses_declaration("metadata field 1 is not tx.port with 8 bits", |p| p.metadata[1].name = "mine".into());
    refuses_declaration("metadata field 0 is not rx.port with 8 bits", |p| p.metadata[0].width = 7);
    refuses_declaration("metadata: mark is not aligned to its 4 bytes", |p| {
        p.metadata[2].offset = 6;
        p.metadata_size = 10;
    });
    refuses_declaration("metadata: tx.port overlaps the field before it", |p| p.metadata[1].offset = 0);
    refuses_declaration("metadata: its fields need 8 bytes and it has 7", |p| p.metadata_size = 7);
    refuses_declaration("metadata: mark has 0 bits", |p| p.metadata[2].width = 0);
    refuses_declaration("layout pair: its size or alignment does not suit its fields", |p| p.layouts[1].align = 4);
    refuses_declaration("layout pair: its fields need 16 bytes and it has 8", |p| p.layouts[1].size = 8);
    refuses_declaration("layout none: it has no field", |p| {
        p.layouts.push(Layout { name: "none".into(), fields: Vec::new(), size: 0, align: 1 })
    });
    refuses_declaration("table m.array: there is no such layout", |p| p.tables[0].value = LayoutId(2));
    refuses_declaration("table m.array: the key of an array is one field of 32 bits, and of an lpm one field", |p| {
        p.tables[0].key = PAIR
    });
    refuses_declaration("table m.lpm: the key of an array is one field of 32 bits, and of an lpm one field", |p| {
        p.tables[2].key = PAIR
    });
    refuses_declaration("drop reason 4 is not the built-in tx_failed", |p| p.drop_reasons[4].name = "mine".into());
    refuses_declaration("there is no channel 0, rx", |p| p.channels.clear());
    refuses_declaration("channel m.out: there is no protocol 2", |p| p.channels[1].protocol = ProtocolId(2));
    refuses_declaration("channel m.out: there is no ppf 1", |p| p.channels[1].target = Target::Ppf(PpfId(1)));
    refuses_declaration("channel rx: its protocol is not that of ppf m.p", |p| p.channels[0].protocol = INNER);
    refuses_declaration("ppf m.q: there is no protocol 9", |p| {
        let (code, _) = Code::new(OUTER);
        ppf(p, "m.q", ProtocolId(9), code);
    });
}

#[test]
fn shapes() {
    let of_body = |expected: &str, change: fn(&mut Body)| {
        refuses_declaration(&format!("ppf m.p: {expected}"), |p| change(&mut p.ppfs[0].body));
    };
    of_body("it has no entry block", |body| body.blocks.clear());
    of_body("v1 has a type that is not one: Int(0)", |body| body.values.push(Ty::Int(0)));
    of_body("v1 has a type that is not one: Int(129)", |body| body.values.push(Ty::Int(129)));
    of_body("v1 has a type that is not one: Packet(ProtocolId(2))", |body| body.values.push(Ty::Packet(ProtocolId(2))));
    of_body("v1 has a type that is not one: Entry(LayoutId(2))", |body| body.values.push(Ty::Entry(LayoutId(2))));
    of_body("b0: the entry block does not take one packet of the ppf's protocol", |body| {
        body.values[0] = Ty::Packet(INNER)
    });
    of_body("b0: the entry block does not take one packet of the ppf's protocol", |body| {
        body.values.push(Ty::Int(1));
        body.blocks[0].params.push(Value(1));
    });
    of_body("b0: v9 is not in the list of values", |body| {
        body.effect(BlockId(0), Op::Drop { packet: Value(9), reason: DropId(0) }, None)
    });
    of_body("b0: v1 is not in the list of values", |body| {
        body.blocks[0].insts.push(Inst { result: Some(Value(1)), op: Op::Const(0), span: None })
    });
    of_body("b0: v1 is defined a second time", |body| {
        body.push(BlockId(0), Ty::Int(8), Op::Const(0), None);
        body.blocks[0].insts.push(Inst { result: Some(Value(1)), op: Op::Const(0), span: None });
    });
    of_body("b0: there is no block b1", |body| body.blocks[0].term = Terminator::Jump(dest(BlockId(1), &[])));
    of_body("b1: the entry block has a predecessor", |body| {
        let block = body.block();
        body.blocks[1].term = Terminator::Jump(dest(BlockId(0), &[Value(0)]));
        body.blocks[0].term = Terminator::Jump(dest(block, &[]));
    });
    of_body("b0: b1 takes 0 values and gets 1", |body| {
        let block = body.block();
        let value = body.push(BlockId(0), Ty::Int(8), Op::Const(0), None);
        body.blocks[0].term = Terminator::Jump(dest(block, &[value]));
    });
}

#[test]
fn integers() {
    refuses("the constant 256 does not fit 8 bits", |c, _| {
        c.constant(8, 256);
    });
    refuses("the constant 1 cannot be an entry of layout 0", |c, _| {
        c.push(Ty::Entry(U32), Op::Const(1));
    });
    refuses("v2 is u9 where u8 is needed", |c, _| {
        let (a, b) = (c.constant(8, 0), c.constant(9, 0));
        c.int(8, Op::Bin(BinOp::Add, a, b));
    });
    refuses("the result of Bin(Add, Value(1), Value(1)) is not u8", |c, _| {
        let a = c.constant(8, 0);
        c.int(9, Op::Bin(BinOp::Add, a, a));
    });
    refuses("v0 is a packet of protocol 0 where bits are needed", |c, packet| {
        c.int(1, Op::Cmp(CmpOp::Eq, packet, packet));
    });
    refuses("v2 is u9 where u8 is needed", |c, _| {
        let (a, b) = (c.constant(8, 0), c.constant(9, 0));
        c.int(1, Op::Cmp(CmpOp::Eq, a, b));
    });
    refuses("the result of Cmp(Eq, Value(1), Value(1)) is not u1", |c, _| {
        let a = c.constant(8, 0);
        c.int(8, Op::Cmp(CmpOp::Eq, a, a));
    });
    for (op, to) in [(CastOp::ZExt, 8), (CastOp::SExt, 7), (CastOp::Trunc, 8), (CastOp::Trunc, 9)] {
        refuses(&format!("{op:?} cannot make u{to} of 8 bits"), |c, _| {
            let a = c.constant(8, 0);
            c.int(to, Op::Cast(op, a));
        });
    }
    refuses("v1 is u8 where u1 is needed", |c, _| {
        let a = c.constant(8, 0);
        c.int(8, Op::Select(a, a, a));
    });
    refuses("v3 is u9 where u8 is needed", |c, _| {
        let (on, a, b) = (c.constant(1, 0), c.constant(8, 0), c.constant(9, 0));
        c.int(8, Op::Select(on, a, b));
    });
    refuses("packet v0 cannot be selected", |c, packet| {
        let on = c.constant(1, 0);
        c.push(Ty::Packet(OUTER), Op::Select(on, packet, packet));
    });
    refuses("Const(3) has no result", |c, _| c.effect(Op::Const(3)));
    refuses("v1 is u8 where u1 is needed", |c, _| {
        let (a, to) = (c.constant(8, 0), c.body.block());
        c.branch(a, dest(to, &[]), dest(to, &[]));
    });
    refuses("v2 is u8 where u9 is needed", |c, _| {
        let to = c.body.block();
        c.param(to, Ty::Int(9));
        let a = c.constant(8, 0);
        c.jump(to, &[a]);
    });
}

#[test]
fn packet_operations() {
    refuses("bits [57..65] are not within the fixed header of outer", |c, packet| {
        c.load(packet, 57, 8);
    });
    refuses("bits [4294967295..4294967303] are not within the fixed header of outer", |c, packet| {
        c.load(packet, u32::MAX, 8);
    });
    refuses(
        "the result of Load { packet: Value(0), bits: BitRange { offset: 0, width: 8 } } is not u8",
        |c, packet| {
            c.int(9, Op::Load { packet, bits: BitRange { offset: 0, width: 8 } });
        },
    );
    refuses("v1 is u32 where a packet is needed", |c, _| {
        let a = c.constant(32, 0);
        c.load(a, 0, 8);
    });
    refuses("bits [64..65] are not within the fixed header of outer", |c, packet| {
        let a = c.constant(1, 0);
        c.store(packet, 64, 1, a);
    });
    refuses("v1 is u9 where u8 is needed", |c, packet| {
        let a = c.constant(9, 0);
        c.store(packet, 0, 8, a);
    });
    refuses("v2 is the result of an operation without one", |c, packet| {
        let value = c.constant(8, 0);
        c.int(8, Op::Store { packet, bits: BitRange { offset: 0, width: 8 }, value });
    });
    refuses("v1 is u16 where u32 is needed", |c, packet| {
        let bytes = c.constant(16, 0);
        c.int(1, Op::Has { packet, bytes });
    });
    refuses("the result of Len { packet: Value(0) } is not u32", |c, packet| {
        c.int(16, Op::Len { packet });
    });
    refuses("v1 is u16 where u32 is needed", |c, packet| {
        let bytes = c.constant(16, 0);
        c.push(Ty::Packet(INNER), Op::Pull { packet, bytes });
    });
    refuses("the result of Pull { packet: Value(0), bytes: Value(1) } is u8, not a packet", |c, packet| {
        let bytes = c.constant(32, 0);
        c.int(8, Op::Pull { packet, bytes });
    });
    refuses("push of 3 bytes for inner, whose fixed header has 2", |c, packet| {
        c.push(Ty::Packet(INNER), Op::Push { packet, bytes: 3 });
    });
    refuses("the result of Copy { packet: Value(0) } is not a packet of protocol 0", |c, packet| {
        c.push(Ty::Packet(INNER), Op::Copy { packet });
    });
    refuses("there is no metadata field 3", |c, packet| {
        c.int(8, Op::MetaLoad { packet, field: MetaId(3) });
    });
    refuses("the result of MetaLoad { packet: Value(0), field: MetaId(2) } is not u20", |c, packet| {
        c.int(32, Op::MetaLoad { packet, field: MetaId(2) });
    });
    refuses("v1 is u8 where u20 is needed", |c, packet| {
        let value = c.constant(8, 0);
        c.effect(Op::MetaStore { packet, field: MetaId(2), value });
    });
    refuses("there is no channel 2", |c, packet| c.put(packet, ChannelId(2)));
    refuses("put to rx, which only ports do", |c, packet| c.put(packet, Program::RX));
    refuses("v2 is a packet of protocol 1 where a packet of protocol 0 is needed", |c, packet| {
        let bytes = c.constant(32, 0);
        let pulled = c.push(Ty::Packet(INNER), Op::Pull { packet, bytes });
        c.put(pulled, OUT);
    });
    let beyond = BUILTIN_DROP_REASONS.len() as u32;
    let error = format!("there is no drop reason {beyond}");
    refuses(&error, |c, packet| c.effect(Op::Drop { packet, reason: DropId(beyond) }));
}

#[test]
fn tables_and_counters() {
    refuses("there is no table 3", |c, _| {
        let a = c.constant(32, 0);
        c.push(Ty::Entry(U32), Op::Lookup { table: TableId(3), key: vec![a] });
    });
    refuses("pair has 2 fields and gets 1 values", |c, _| {
        let a = c.constant(16, 0);
        c.push(Ty::Entry(U32), Op::Lookup { table: HASH, key: vec![a] });
    });
    refuses("v1 is u16 where u64 is needed", |c, _| {
        let a = c.constant(16, 0);
        c.push(Ty::Entry(U32), Op::Lookup { table: HASH, key: vec![a, a] });
    });
    refuses("the result of Lookup { table: TableId(0), key: [Value(1)] } is not an entry of layout 1", |c, _| {
        let a = c.constant(32, 0);
        c.push(Ty::Entry(U32), Op::Lookup { table: ARRAY, key: vec![a] });
    });
    refuses("v1 is u32 where an entry is needed", |c, _| {
        let a = c.constant(32, 0);
        c.int(1, Op::IsNull(a));
    });
    let entry = |c: &mut Code| {
        let key = c.constant(32, 0);
        c.push(Ty::Entry(PAIR), Op::Lookup { table: ARRAY, key: vec![key] })
    };
    refuses("layout pair has no field 2", |c, _| {
        let entry = entry(c);
        c.int(8, Op::EntryLoad { entry, field: 2 });
    });
    refuses("the result of EntryLoad { entry: Value(2), field: 1 } is not u64", |c, _| {
        let entry = entry(c);
        c.int(16, Op::EntryLoad { entry, field: 1 });
    });
    refuses("v1 is u32 where u64 is needed", |c, _| {
        let entry = entry(c);
        c.effect(Op::EntryStore { entry, field: 1, value: Value(1) });
    });
    refuses("insert into lpm m.lpm", |c, _| {
        let a = c.constant(32, 0);
        c.int(1, Op::Insert { table: LPM, key: vec![a], value: vec![a], new: false });
    });
    refuses("pair has 2 fields and gets 0 values", |c, _| {
        let a = c.constant(32, 0);
        c.int(1, Op::Insert { table: ARRAY, key: vec![a], value: vec![], new: false });
    });
    refuses("v3 leads into a table whose values are no meters", |c, _| {
        let (key, amount) = (c.constant(32, 1), c.constant(64, 1));
        let entry = c.push(Ty::Entry(PAIR), Op::Lookup { table: ARRAY, key: vec![key] });
        c.int(1, Op::Take { entry, amount });
    });
    refuses("remove from m.array, which is not a hash", |c, _| {
        let a = c.constant(32, 0);
        c.int(1, Op::Remove { table: ARRAY, key: vec![a] });
    });
    refuses("there is no counter 1", |c, _| {
        let (index, amount) = (c.constant(32, 0), c.constant(64, 0));
        c.effect(Op::Count { counter: CounterId(1), index, amount });
    });
    refuses("v1 is u8 where u32 is needed", |c, _| {
        let (index, amount) = (c.constant(8, 0), c.constant(64, 0));
        c.effect(Op::Count { counter: CounterId(0), index, amount });
    });
    refuses("v2 is u32 where u64 is needed", |c, _| {
        let (index, amount) = (c.constant(32, 0), c.constant(32, 0));
        c.effect(Op::Count { counter: CounterId(0), index, amount });
    });
}

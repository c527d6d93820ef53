//! The verifier on what depends on paths: dominance, packet ownership, cycles of channels.

use baker::ir::*;

use crate::support::*;
use crate::verifier::{good, messages};

const OUTER: ProtocolId = ProtocolId(0);
const INNER: ProtocolId = ProtocolId(1);

/// Errors for the code of one PPF.
pub fn errors_of(write: impl FnOnce(&mut Code, Value)) -> Vec<String> {
    let (mut p, mut code, packet) = good();
    write(&mut code, packet);
    one_ppf(&mut p, OUTER, code);
    messages(&p)
}

pub fn accepts(write: impl FnOnce(&mut Code, Value)) {
    assert_eq!(errors_of(write), Vec::<String>::new());
}

pub fn refuses(expected: &[&str], write: impl FnOnce(&mut Code, Value)) {
    let expected: Vec<String> = expected.iter().map(|message| format!("ppf m.p: {message}")).collect();
    assert_eq!(errors_of(write), expected);
}

/// Branches on the packet's first bit into two new blocks.
fn fork(code: &mut Code, packet: Value) -> (BlockId, BlockId) {
    let (then, other) = (code.body.block(), code.body.block());
    let bit = code.load(packet, 0, 1);
    code.branch(bit, dest(then, &[]), dest(other, &[]));
    (then, other)
}

#[test]
fn definitions_dominate_uses() {
    refuses(&["b0: v1 is used where its definition may not have been passed"], |c, packet| {
        // Used one instruction too early.
        let value = c.constant(8, 0);
        c.store(packet, 0, 8, value);
        c.drop(packet);
        c.body.blocks[0].insts.swap(0, 1);
    });
    refuses(&["b3: v2 is used where its definition may not have been passed"], |c, packet| {
        // Defined on one arm only.
        let (then, other) = fork(c, packet);
        let join = c.body.block();
        c.block = then;
        let value = c.constant(8, 0);
        c.jump(join, &[]);
        c.block = other;
        c.jump(join, &[]);
        c.block = join;
        c.store(packet, 0, 8, value);
        c.drop(packet);
    });
    refuses(&["b0: v1 is used but nothing defines it"], |c, packet| {
        let value = c.body.value(Ty::Int(8));
        c.store(packet, 0, 8, value);
        c.drop(packet);
    });
    refuses(&["b0: v1 is used where its definition may not have been passed"], |c, packet| {
        // Passed to the block that it is a parameter of.
        let next = c.body.block();
        let param = c.param(next, Ty::Int(8));
        c.jump(next, &[param]);
        c.block = next;
        c.drop(packet);
    });
    accepts(|c, packet| {
        // Through a loop, and used far below.
        let value = c.constant(8, 3);
        let (head, exit) = (c.body.block(), c.body.block());
        c.jump(head, &[]);
        c.block = head;
        let bit = c.load(packet, 0, 1);
        c.branch(bit, dest(head, &[]), dest(exit, &[]));
        c.block = exit;
        c.store(packet, 0, 8, value);
        c.drop(packet);
    });
    accepts(|c, packet| {
        // What cannot be reached is not asked.
        let dead = c.body.block();
        c.drop(packet);
        c.block = dead;
        c.drop(packet);
    });
}

#[test]
fn packets_are_consumed_exactly_once() {
    refuses(&["b0: packet v0 is never consumed"], |_, _| {});
    refuses(&["b0: packet v1 is never consumed"], |c, packet| {
        c.push(Ty::Packet(OUTER), Op::Copy { packet });
        c.drop(packet);
    });
    let used = "b0: packet v0 is used after it was consumed";
    refuses(&[used], |c, packet| {
        c.put(packet, OUT);
        c.drop(packet);
    });
    refuses(&[used], |c, packet| {
        c.drop(packet);
        c.load(packet, 0, 8);
    });
    refuses(&[used], |c, packet| {
        let bytes = c.constant(32, 2);
        let pulled = c.push(Ty::Packet(INNER), Op::Pull { packet, bytes });
        c.int(32, Op::Len { packet });
        c.drop(pulled);
    });
    refuses(&[used], |c, packet| {
        let pushed = c.push(Ty::Packet(INNER), Op::Push { packet, bytes: 2 });
        c.push(Ty::Packet(OUTER), Op::Copy { packet });
        c.drop(pushed);
        c.drop(Value(2));
    });
    refuses(&[used], |c, packet| {
        // The same packet for two parameters.
        let next = c.body.block();
        let (a, b) = (c.param(next, Ty::Packet(OUTER)), c.param(next, Ty::Packet(OUTER)));
        c.jump(next, &[packet, packet]);
        c.block = next;
        c.drop(a);
        c.drop(b);
    });
    refuses(&["b1: packet v0 is used after it was consumed"], |c, packet| {
        // Used by its old name where it was passed.
        let next = c.body.block();
        let param = c.param(next, Ty::Packet(OUTER));
        c.jump(next, &[packet]);
        c.block = next;
        c.load(packet, 0, 8);
        c.drop(param);
    });
    refuses(&["b3: packet v0 is consumed on one path to here and alive on another"], |c, packet| {
        let (then, other) = fork(c, packet);
        let join = c.body.block();
        c.block = then;
        c.drop(packet);
        c.jump(join, &[]);
        c.block = other;
        c.jump(join, &[]);
    });
    refuses(&["b1: packet v0 is consumed on one path to here and alive on another"], |c, packet| {
        // Consumed in every round of a loop.
        let (head, exit) = (c.body.block(), c.body.block());
        let bit = c.load(packet, 0, 1);
        c.jump(head, &[]);
        c.block = head;
        c.drop(packet);
        c.branch(bit, dest(head, &[]), dest(exit, &[]));
    });
    refuses(&["b1: packet v2 is consumed on one path to here and alive on another"], |c, packet| {
        // Made in every round of a loop, and lost.
        let (head, exit) = (c.body.block(), c.body.block());
        c.jump(head, &[]);
        c.block = head;
        let bit = c.load(packet, 0, 1);
        let copy = c.push(Ty::Packet(OUTER), Op::Copy { packet });
        c.branch(bit, dest(head, &[]), dest(exit, &[]));
        c.block = exit;
        c.drop(packet);
        c.drop(copy);
    });
    accepts(|c, packet| {
        // One arm consumes it, one edge passes it on, and it comes back round a loop.
        let (then, other) = fork(c, packet);
        let (head, exit) = (c.body.block(), c.body.block());
        let (moving, done) = (c.param(head, Ty::Packet(OUTER)), c.param(exit, Ty::Packet(OUTER)));
        c.block = then;
        c.put(packet, OUT);
        c.block = other;
        c.jump(head, &[packet]);
        c.block = head;
        let bit = c.load(moving, 0, 1);
        c.branch(bit, dest(head, &[moving]), dest(exit, &[moving]));
        c.block = exit;
        c.drop(done);
    });
}

#[test]
fn channels_form_no_cycle() {
    let mut p = program();
    let proto = protocol(&mut p, "p", &[("a", 8)]);
    for i in 0..3u32 {
        let (mut code, packet) = Code::new(proto);
        code.put(packet, ChannelId(i + 1));
        ppf(&mut p, &format!("m.p{i}"), proto, code);
        channel(&mut p, &format!("c{i}"), proto, Target::Ppf(PpfId(i)));
    }
    channel(&mut p, "c3", proto, Target::Tx);
    assert_eq!(messages(&p), Vec::<String>::new());
    p.channels[3].target = Target::Ppf(PpfId(1));
    assert_eq!(messages(&p), ["packets can run in a circle: m.p1 -> m.p2 -> m.p1"]);
    p.channels[3].target = Target::Ppf(PpfId(2));
    assert_eq!(messages(&p), ["packets can run in a circle: m.p2 -> m.p2"]);
}

/// Entries of `m.array` have a lock; what the code does with an entry that is there.
fn with_lock(write: impl FnOnce(&mut Code, Value, Value)) -> Vec<String> {
    let (mut p, mut code, packet) = good();
    let value = layout(&mut p, "locked", &[("x", 16), ("lock", 32)]);
    (p.tables[0].value, p.tables[0].locked) = (value, true);
    let index = code.constant(32, 1);
    let entry = code.push(Ty::Entry(value), Op::Lookup { table: TableId(0), key: vec![index] });
    write(&mut code, packet, entry);
    one_ppf(&mut p, OUTER, code);
    messages(&p).iter().map(|message| message.replace("ppf m.p: ", "")).collect()
}

#[test]
fn locks_are_released_on_every_path_and_nothing_is_called_meanwhile() {
    let none: [&str; 0] = [];
    let sound = with_lock(|c, packet, entry| {
        c.effect(Op::Lock { entry });
        let (then, other) = fork(c, packet);
        let join = c.body.block();
        c.block = then;
        let one = c.constant(16, 1);
        c.effect(Op::EntryStore { entry, field: 0, value: one });
        c.jump(join, &[]);
        c.block = other;
        c.jump(join, &[]);
        c.block = join;
        c.effect(Op::Unlock { entry });
        c.drop(packet);
    });
    assert_eq!(sound, none);
    let never = with_lock(|c, packet, entry| {
        c.drop(packet);
        c.effect(Op::Lock { entry });
    });
    assert_eq!(never, ["b0: v2 is never unlocked"]);
    let twice = with_lock(|c, packet, entry| {
        c.effect(Op::Lock { entry });
        c.effect(Op::Lock { entry });
        c.effect(Op::Unlock { entry });
        c.drop(packet);
    });
    assert_eq!(twice, ["b0: Lock { entry: Value(2) } while v2 is locked"]);
    // A block may take the locked entry as a parameter.
    let passed = with_lock(|c, packet, entry| {
        c.effect(Op::Lock { entry });
        let join = c.body.block();
        let ty = c.body.ty(entry);
        let param = c.param(join, ty);
        c.jump(join, &[entry]);
        c.block = join;
        c.effect(Op::Unlock { entry: param });
        c.drop(packet);
    });
    assert_eq!(passed, none);
    let free = with_lock(|c, packet, entry| {
        c.effect(Op::Unlock { entry });
        c.drop(packet);
    });
    assert_eq!(free, ["b0: v2 is unlocked where it is not locked"]);
    let dropped = with_lock(|c, packet, entry| {
        c.effect(Op::Lock { entry });
        c.drop(packet);
        c.effect(Op::Unlock { entry });
    });
    assert_eq!(dropped, ["b0: Drop { packet: Value(0), reason: DropId(1) } while v2 is locked"]);
    let on_one_path = with_lock(|c, packet, entry| {
        let (then, other) = fork(c, packet);
        let join = c.body.block();
        c.block = then;
        c.effect(Op::Lock { entry });
        c.jump(join, &[]);
        c.block = other;
        c.jump(join, &[]);
        c.block = join;
        c.drop(packet);
    });
    assert!(on_one_path.contains(&"b3: an entry is locked on one path to here and not on another".to_string()));
    let (mut p, mut code, packet) = good();
    let index = code.constant(32, 1);
    let entry = code.push(Ty::Entry(p.tables[0].value), Op::Lookup { table: TableId(0), key: vec![index] });
    code.effect(Op::Lock { entry });
    code.effect(Op::Unlock { entry });
    code.drop(packet);
    one_ppf(&mut p, OUTER, code);
    assert!(messages(&p)[0].ends_with("leads into a table whose entries have no lock"), "{:?}", messages(&p));
}

//! The verifier on what depends on paths: dominance, packet ownership, null tests, cycles of channels.

use baker::ir::*;

use crate::support::*;
use crate::verifier::{good, messages};

const OUTER: ProtocolId = ProtocolId(0);
const INNER: ProtocolId = ProtocolId(1);
const U32: LayoutId = LayoutId(0);

/// Errors for the code of one PPF.
fn errors_of(write: impl FnOnce(&mut Code, Value)) -> Vec<String> {
    let (mut p, mut code, packet) = good();
    write(&mut code, packet);
    one_ppf(&mut p, OUTER, code);
    messages(&p)
}

fn accepts(write: impl FnOnce(&mut Code, Value)) {
    assert_eq!(errors_of(write), Vec::<String>::new());
}

fn refuses(expected: &[&str], write: impl FnOnce(&mut Code, Value)) {
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

/// Looks the packet's first 32 bits up in the lpm.
fn look_up(c: &mut Code, packet: Value) -> Value {
    let key = c.load(packet, 0, 32);
    c.push(Ty::Entry(U32), Op::Lookup { table: TableId(2), key: vec![key] })
}

fn use_entry(c: &mut Code, entry: Value) {
    c.int(32, Op::EntryLoad { entry, field: 0 });
}

/// A block that drops the packet.
fn dropping(c: &mut Code, packet: Value) -> BlockId {
    let (here, block) = (c.block, c.body.block());
    c.block = block;
    c.drop(packet);
    c.block = here;
    block
}

/// Looks up and branches on a test that `test` makes of the entry; uses the entry where the test holds (`on` 1) or does
/// not hold, and not on the other side.
fn tested(on: bool, test: impl Fn(&mut Code, Value) -> Value) -> impl Fn(&mut Code, Value) {
    move |c, packet| {
        let entry = look_up(c, packet);
        let condition = test(c, entry);
        let (miss, hit) = (dropping(c, packet), c.body.block());
        let (then, other) = if on { (hit, miss) } else { (miss, hit) };
        c.branch(condition, dest(then, &[]), dest(other, &[]));
        c.block = hit;
        use_entry(c, entry);
        let value = c.constant(32, 1);
        c.effect(Op::EntryStore { entry, field: 0, value });
        c.drop(packet);
    }
}

fn is_null(c: &mut Code, entry: Value) -> Value {
    c.int(1, Op::IsNull(entry))
}

fn with_bit(c: &mut Code, value: Value, bit: u128, op: fn(Value, Value) -> Op) -> Value {
    let bit = c.constant(1, bit);
    c.int(1, op(value, bit))
}

#[test]
fn an_untested_entry_is_not_used() {
    refuses(&["b0: v2 is used where it may be null"], |c, packet| {
        let entry = look_up(c, packet);
        use_entry(c, entry);
        c.drop(packet);
    });
    refuses(&["b0: v2 is used where it may be null"], |c, packet| {
        let (entry, value) = (look_up(c, packet), c.constant(32, 0));
        c.effect(Op::EntryStore { entry, field: 0, value });
        c.drop(packet);
    });
    refuses(&["b0: v1 is used where it may be null"], |c, packet| {
        let null = c.push(Ty::Entry(U32), Op::Const(0));
        use_entry(c, null);
        c.drop(packet);
    });
}

#[test]
fn tests_of_entries() {
    let twice = ["b2: v2 is used where it may be null"; 2];
    accepts(tested(false, is_null));
    refuses(&twice, tested(true, is_null));
    // Negated in each way that there is.
    type MakeOp = fn(Value, Value) -> Op;
    let negations: [(MakeOp, u128, bool); 6] = [
        (|a, b| Op::Bin(BinOp::Xor, a, b), 1, true),
        (|a, b| Op::Bin(BinOp::Xor, b, a), 0, false),
        (|a, b| Op::Cmp(CmpOp::Eq, a, b), 0, true),
        (|a, b| Op::Cmp(CmpOp::Eq, b, a), 1, false),
        (|a, b| Op::Cmp(CmpOp::Ne, a, b), 1, true),
        (|a, b| Op::Cmp(CmpOp::Ne, a, b), 0, false),
    ];
    for (op, bit, on) in negations {
        let test = move |c: &mut Code, entry| {
            let null = is_null(c, entry);
            with_bit(c, null, bit, op)
        };
        accepts(tested(on, test));
        refuses(&twice, tested(!on, test));
    }
    // Combined with something else that is not known.
    let combined = |op: BinOp, negate: bool| {
        move |c: &mut Code, entry| {
            let mut null = is_null(c, entry);
            if negate {
                null = with_bit(c, null, 1, |a, b| Op::Bin(BinOp::Xor, a, b));
            }
            let unknown = c.load(Value(0), 0, 1);
            c.int(1, Op::Bin(op, unknown, null))
        }
    };
    accepts(tested(true, combined(BinOp::And, true)));
    refuses(&twice, tested(false, combined(BinOp::And, true)));
    accepts(tested(false, combined(BinOp::Or, false)));
    refuses(&twice, tested(true, combined(BinOp::Or, false)));
    refuses(&twice, tested(true, combined(BinOp::Xor, true)));
    // A choice of tests: both must tell.
    let chosen = |other: bool| {
        move |c: &mut Code, entry| {
            let null = is_null(c, entry);
            let found = with_bit(c, null, 1, |a, b| Op::Bin(BinOp::Xor, a, b));
            let (unknown, constant) = (c.load(Value(0), 0, 1), c.constant(1, other as u128));
            c.int(1, Op::Select(unknown, found, constant))
        }
    };
    accepts(tested(true, chosen(false)));
    refuses(&twice, tested(true, chosen(true)));
}

/// `bool ok = bit && entry != null; if (ok) { … }`
#[test]
fn a_test_kept_in_a_block_parameter() {
    let program = |short_cut: u128| {
        move |c: &mut Code, packet: Value| {
            let entry = look_up(c, packet);
            let (second, join, hit, miss) = (c.body.block(), c.body.block(), c.body.block(), dropping(c, packet));
            let ok = c.param(join, Ty::Int(1));
            let (bit, constant) = (c.load(packet, 0, 1), c.constant(1, short_cut));
            c.branch(bit, dest(second, &[]), dest(join, &[constant]));
            c.block = second;
            let null = is_null(c, entry);
            let found = with_bit(c, null, 1, |a, b| Op::Bin(BinOp::Xor, a, b));
            c.jump(join, &[found]);
            c.block = join;
            c.branch(ok, dest(hit, &[]), dest(miss, &[]));
            c.block = hit;
            use_entry(c, entry);
            c.drop(packet);
        }
    };
    accepts(program(0));
    refuses(&["b3: v2 is used where it may be null"], program(1));
}

/// The pointer tested in one round is not the pointer of the next.
#[test]
fn a_test_in_a_loop_holds_for_that_round_only() {
    let program = |late: bool| {
        move |c: &mut Code, packet: Value| {
            let (head, hit, exit) = (c.body.block(), c.body.block(), c.body.block());
            let known = c.param(head, Ty::Int(1));
            let no = c.constant(1, 0);
            c.jump(head, &[no]);
            c.block = head;
            let entry = look_up(c, packet);
            let null = is_null(c, entry);
            let found = with_bit(c, null, 1, |a, b| Op::Bin(BinOp::Xor, a, b));
            // `known` says that the entry of the round before was there.
            c.branch(if late { known } else { found }, dest(hit, &[]), dest(exit, &[]));
            c.block = hit;
            use_entry(c, entry);
            c.jump(head, &[found]);
            c.block = exit;
            c.drop(packet);
        }
    };
    accepts(program(false));
    refuses(&["b2: v4 is used where it may be null"], program(true));
}

#[test]
fn entries_that_come_as_block_parameters() {
    let program = |tested_on_both: bool| {
        move |c: &mut Code, packet: Value| {
            let entry = look_up(c, packet);
            let (hit, join, miss) = (c.body.block(), c.body.block(), dropping(c, packet));
            let param = c.param(join, Ty::Entry(U32));
            let (bit, null) = (c.load(packet, 0, 1), is_null(c, entry));
            if tested_on_both {
                c.branch(null, dest(miss, &[]), dest(hit, &[]));
            } else {
                c.branch(bit, dest(join, &[entry]), dest(hit, &[]));
            }
            c.block = hit;
            let other = c.body.block();
            c.branch(null, dest(miss, &[]), dest(other, &[]));
            c.block = other;
            c.branch(bit, dest(join, &[entry]), dest(join, &[entry]));
            c.block = join;
            use_entry(c, param);
            let again = c.push(Ty::Entry(U32), Op::Select(bit, param, param));
            use_entry(c, again);
            c.drop(packet);
        }
    };
    accepts(program(true));
    let errors = errors_of(program(false));
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(errors.iter().all(|error| error.ends_with("is used where it may be null")), "{errors:?}");
}

#[test]
fn array_entries_at_an_index_in_range_exist() {
    // The array has ten entries.
    let at = |index: fn(&mut Code, Value) -> Value| {
        move |c: &mut Code, packet: Value| {
            let key = vec![index(c, packet)];
            let entry = c.push(Ty::Entry(LayoutId(1)), Op::Lookup { table: TableId(0), key });
            c.int(64, Op::EntryLoad { entry, field: 1 });
            c.drop(packet);
        }
    };
    accepts(at(|c, _| c.constant(32, 9)));
    refuses(&["b0: v2 is used where it may be null"], at(|c, _| c.constant(32, 10)));
    accepts(at(|c, packet| {
        let bits = c.load(packet, 0, 3);
        c.int(32, Op::Cast(CastOp::ZExt, bits))
    }));
    refuses(
        &["b0: v3 is used where it may be null"],
        at(|c, packet| {
            let bits = c.load(packet, 0, 4);
            c.int(32, Op::Cast(CastOp::ZExt, bits))
        }),
    );
    refuses(
        &["b0: v3 is used where it may be null"],
        at(|c, packet| {
            let bits = c.load(packet, 0, 3);
            c.int(32, Op::Cast(CastOp::SExt, bits))
        }),
    );
    refuses(&["b0: v2 is used where it may be null"], |c, packet| {
        // A constant key of another kind of table says nothing.
        let key = vec![c.constant(32, 0)];
        let entry = c.push(Ty::Entry(U32), Op::Lookup { table: TableId(2), key });
        use_entry(c, entry);
        c.drop(packet);
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

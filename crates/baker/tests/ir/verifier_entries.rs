//! The verifier on entry pointers: used only where they were tested.

use baker::ir::*;

use crate::support::*;
use crate::verifier_flow::{accepts, errors_of, refuses};

const U32: LayoutId = LayoutId(0);

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
    // Compared as a wider number, as conditions of the source are.
    for (op, number, on) in [(CmpOp::Ne, 0, false), (CmpOp::Eq, 0, true), (CmpOp::Eq, 1, false), (CmpOp::Ne, 1, true)] {
        let test = move |c: &mut Code, entry| {
            let null = is_null(c, entry);
            let wide = c.int(8, Op::Cast(CastOp::ZExt, null));
            let wider = c.int(32, Op::Cast(CastOp::ZExt, wide));
            let number = c.constant(32, number);
            c.int(1, Op::Cmp(op, wider, number))
        };
        accepts(tested(on, test));
        refuses(&twice, tested(!on, test));
    }
    let sign_extended = |c: &mut Code, entry| {
        let null = is_null(c, entry);
        let wide = c.int(32, Op::Cast(CastOp::SExt, null));
        let number = c.constant(32, 1);
        c.int(1, Op::Cmp(CmpOp::Ne, wide, number))
    };
    refuses(&twice, tested(true, sign_extended));
    refuses(&twice, tested(false, sign_extended));
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

//! Functions of controllers, timers, and what goes to controllers and comes from them: as text, as refused by the
//! verifier, and as run by the interpreter.

use std::sync::{Arc, Mutex};

use baker::check::check;
use baker::ir::interp::{End, Externs, Machine, RunError};
use baker::ir::*;
use baker::library::Library;

use crate::verifier::messages;

const PROGRAM: &str = "import \"net/ipv4\";
metadata { mark : u12; }
struct pair_t { a : u8; b : u64; }
module m {
    in  ether input;
    in  ipv4  packets;
    out ether output, punt;
    hash<pair_t, u32> pairs[8] idle 10s;
    set<u16> known[8];
    counter calls;
    extern i8 pick(u128 wide, bool flag);
    extern void note(u7 n);
    ppf work(ether_packet_t *pkt) from input {
        pkt->metadata.mark = (u12) pick(pkt->src, pkt->type == 5);
        note(100);
        channel_put(punt, pkt);
    }
    ppf frame(ipv4_packet_t *ip) from packets {
        ether_packet_t *frame = packet_encap(ip);
        channel_put(output, frame);
    }
    timer sweep(pair_t pair, u32 *value) over pairs every 3s {
        *value = *value + pair.a;
        if (pick(pair.b, true) < 0)
            table_remove(pairs, pair);
    }
    timer members(u16 n) over known every 20ms { counter_add(calls, n); }
}
program { rx -> m.input; m.output -> tx; m.punt -> controller slow batch 64 within 3ms; controller slow -> m.packets; }
";

fn program() -> Program {
    let compilation = check("test.baker", PROGRAM, &Library);
    let text = baker::diag::render(&compilation.diagnostics, &compilation.sources, false);
    lower(&compilation.program.unwrap_or_else(|| panic!("{text}")))
}

#[test]
fn as_text() {
    let text = print(&program());
    let lines = |from: &str, count: usize| {
        let lines = text.lines().skip_while(|line| !line.starts_with(from)).take(count);
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    insta::assert_snapshot!(lines("extern", 7) + &lines("timer m.sweep", 30) + &lines("ppf m.work", 14));
    insta::assert_snapshot!("dot", dot(&program(), |_| false));
}

/// The program, changed, gives exactly this error.
fn refuses(expected: &str, change: impl FnOnce(&mut Program)) {
    let mut program = program();
    change(&mut program);
    assert_eq!(messages(&program), [expected]);
}

fn first_extern(program: &mut Program, change: impl FnOnce(&mut Inst)) {
    let insts = program.ppfs[0].body.blocks.iter_mut().flat_map(|block| &mut block.insts);
    change(insts.into_iter().find(|inst| matches!(inst.op, Op::Extern { .. })).expect("it calls one"));
}

#[test]
fn the_verifier() {
    refuses("extern m.pick: an argument or its result has not 1 to 128 bits", |p| p.externs[0].params[0] = 129);
    refuses("extern m.note: it has 17 arguments", |p| p.externs[1].params = vec![1; 17]);
    refuses("ppf m.work: b0: v1 is u48 where u128 is needed", |p| {
        let source = p.ppfs[0].body.blocks[0].insts.iter().find_map(|inst| match inst.op {
            Op::Load { bits: BitRange { width: 48, .. }, .. } => inst.result,
            _ => None,
        });
        first_extern(p, |inst| {
            if let (Op::Extern { args, .. }, Some(source)) = (&mut inst.op, source) {
                args[0] = source;
            }
        });
    });
    refuses("ppf m.work: b0: extern m.pick takes 2 arguments and gets 1", |p| {
        first_extern(p, |inst| {
            if let Op::Extern { args, .. } = &mut inst.op {
                args.pop();
            }
        });
    });
    refuses("ppf m.work: b0: there is no extern 9", |p| {
        first_extern(p, |inst| {
            if let Op::Extern { function, .. } = &mut inst.op {
                *function = ExternId(9);
            }
        });
    });
    refuses("timer m.sweep: there is no table 7", |p| p.timers[0].table = Some(TableId(7)));
    refuses("timer m.members: goes over an lpm", |p| p.tables[1].kind = TableKind::Lpm);
    refuses("timer m.members: it does nothing", |p| p.timers[1].slice = 0);
    refuses("ppf m.members: b0: the entry block does not take the fields of the timer's keys", |p| {
        p.timers[1].table = None
    });
    refuses("channel m.punt: there is no controller 3", |p| {
        let punt = p.channels.iter_mut().find(|channel| channel.name == "m.punt").unwrap();
        punt.target = Target::Controller(ControllerId(3));
    });
    refuses("channel slow -> m.packets: there is no controller that injects packets", |p| {
        p.channels.last_mut().unwrap().from = Some(Source::Controller(ControllerId(3)));
    });
    refuses("ppf m.work: b0: put to m.punt, which only a controller does", |p| {
        let punt = p.channels.iter_mut().find(|channel| channel.name == "m.punt").unwrap();
        punt.from = Some(Source::Controller(ControllerId(0)));
    });
}

/// Keeps what it is called with.
#[derive(Debug, Default)]
struct Calls(Mutex<Vec<(u32, Vec<u128>)>>);

impl Externs for Calls {
    fn call(&self, function: ExternId, arguments: &[u128]) -> u128 {
        self.0.lock().unwrap().push((function.0, arguments.to_vec()));
        // −2 in more bits than the result has.
        u128::MAX - 1
    }
}

#[test]
fn the_interpreter() {
    let program = Arc::new(program());
    let mut machine = Machine::new(program.clone());
    let frame: Vec<u8> = (0..14u8).map(|n| if n < 12 { n } else { n - 12 }).chain([5]).collect();
    assert_eq!(machine.try_receive(1, &frame), Err(RunError::NoExterns { ppf: "m.work".into() }));

    let calls: Arc<Calls> = Arc::default();
    machine.set_externs(calls.clone());
    let outputs = machine.receive(3, &frame);
    let punt = program.channels.iter().position(|channel| channel.name == "m.punt").unwrap();
    assert_eq!(outputs[0].end, End::Controller(ChannelId(punt as u32)));
    // Cut off to 8 bits and widened to 12, by its sign.
    assert_eq!((outputs[0].metadata.as_slice(), &outputs[0].packet), (&[3, 0, 0xffe][..], &frame));
    let source = 0x0607_0809_0a0b;
    assert_eq!(*calls.0.lock().unwrap(), [(0, vec![source, 0]), (1, vec![100])]);

    // What is injected has the metadata that is given, in as many bits as fit.
    let entry = program.entries().nth(1).unwrap();
    let outputs = machine.inject(entry, &[0x45; 20], &[0x1ff, 7]);
    assert_eq!((outputs[0].end, outputs[0].packet.len()), (End::Tx, 34));
    assert_eq!(outputs[0].metadata, [0xff, 7, 0]);
    assert!(machine.inject(entry, &[0x45; 19], &[]).is_empty());
    assert_eq!(machine.counters()[machine.slots().drop(DropId::TRUNCATED)], 1);

    // A timer visits an entry that is there, and the rest of what it does follows.
    machine.set_now(1_000_000_000);
    machine.insert(TableId(0), &TableEntry { key: vec![3, 9], prefix_len: None, value: vec![40] }).unwrap();
    assert!(machine.timer(TimerId(0), &[3, 8]).is_empty());
    assert_eq!(machine.get(TableId(0), &[3, 9], None).unwrap(), [40]);
    calls.0.lock().unwrap().clear();
    machine.timer(TimerId(0), &[3, 9]);
    assert_eq!(machine.count(TableId(0)), 0, "pick is below 0");
    assert_eq!(*calls.0.lock().unwrap(), [(0, vec![9, 1])]);
    machine.insert(TableId(1), &TableEntry { key: vec![500], prefix_len: None, value: vec![1] }).unwrap();
    for key in program.timers[1].keys(&program, &machine) {
        machine.timer(TimerId(1), &key);
    }
    assert_eq!(machine.counters()[machine.slots().user(CounterId(0))], 500);
}

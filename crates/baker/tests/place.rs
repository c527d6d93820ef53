//! The placer: where PPFs run and why, and that a program cut in two does what the whole one does.

use std::collections::BTreeMap;
use std::sync::Arc;

use baker::check::check;
use baker::diag;
use baker::ir::interp::{End, Externs, Machine, Output};
use baker::ir::*;
use baker::library::Library;
use baker::place::{Limits, Obstacle, Placement, Split, Stage, split};

/// A packet of type 1 is copied, one of type 2 goes to a controller's function, one of type 3 to a PPF that is pinned,
/// all others stay in the kernel. Type 4 changes a table before it is copied.
const PROGRAM: &str = "import \"net/ether\";
metadata { mark : u16; }
drop_reason unwanted;
module m {
    in  ether input;
    out ether output;
    channel ether copying, asking, pinned, late, last;
    counter seen[8];
    array<u32> marks[8];
    hash<u16, u32> types[64];
    extern u16 pick(u16 n);

    ppf classify(ether_packet_t *pkt) from input {
        counter_add(seen[0], 1);
        if (pkt->type == 0xbad) { packet_drop(pkt, unwanted); return; }
        if (pkt->type == 1) { channel_put(copying, pkt); return; }
        if (pkt->type == 2) { channel_put(asking, pkt); return; }
        if (pkt->type == 3) { channel_put(pinned, pkt); return; }
        if (pkt->type == 4) { channel_put(late, pkt); return; }
        channel_put(last, pkt);
    }
    ppf copy(ether_packet_t *pkt) from copying {
        u32 *mark = marks[(u32) (pkt->src & 7)];
        if (mark != null && *mark == 7) {
            channel_put(output, packet_copy(pkt));
        }
        pkt->metadata.mark = 5;
        channel_put(last, pkt);
    }
    ppf ask(ether_packet_t *pkt) from asking {
        pkt->metadata.mark = pick(pkt->type);
        channel_put(last, pkt);
    }
    @worker ppf slow(ether_packet_t *pkt) from pinned {
        counter_add(seen[1], 1);
        channel_put(last, pkt);
    }
    ppf change(ether_packet_t *pkt) from late {
        counter_add(seen[2], 1);
        channel_put(output, packet_copy(pkt));
        channel_put(last, pkt);
    }
    ppf finish(ether_packet_t *pkt) from last {
        pkt->type = pkt->metadata.mark + 0x1000;
        channel_put(output, pkt);
    }
}
program { rx -> m.input; m.output -> tx; }
";

fn compile(text: &str) -> Program {
    let compilation = check("test.baker", text, &Library);
    let shown = diag::render(&compilation.diagnostics, &compilation.sources, false);
    lower(&compilation.program.unwrap_or_else(|| panic!("{shown}")))
}

fn operation(inst: &Inst) -> Option<String> {
    match inst.op {
        Op::Copy { .. } => Some("copies packets".into()),
        Op::Extern { .. } => Some("calls a controller".into()),
        _ => None,
    }
}

fn limits() -> Limits<'static> {
    Limits { whole: Vec::new(), operation: Box::new(operation), unsure: Box::new(unsure), ppfs: BTreeMap::new() }
}

fn unsure(inst: &Inst) -> Option<String> {
    matches!(inst.op, Op::Grow { .. }).then(|| "may find no room".into())
}

fn stage<'p>(program: &Program, placement: &'p Placement, name: &str) -> &'p Stage {
    &placement.stages[program.ppfs.iter().position(|ppf| ppf.name == name).unwrap()]
}

#[test]
fn where_each_runs_and_why() {
    let program = compile(PROGRAM);
    let placement = Placement::new(&program, &limits()).unwrap();
    let stage = |name| stage(&program, &placement, name);
    assert_eq!(stage("m.classify"), &Stage::Kernel(Vec::new()));
    assert_eq!(stage("m.finish"), &Stage::Kernel(Vec::new()));
    assert_eq!(stage("m.slow"), &Stage::Pinned);
    let reasons = |stage: &Stage| match stage {
        Stage::Kernel(punts) => punts.iter().map(|punt| punt.reason.clone()).collect::<Vec<_>>(),
        Stage::Cannot(Obstacle { reason, .. }) => vec![format!("cannot: {reason}")],
        other => panic!("{other:?}"),
    };
    assert_eq!(reasons(stage("m.copy")), ["copies packets"]);
    assert_eq!(reasons(stage("m.ask")), ["cannot: calls a controller"]);
    assert_eq!(reasons(stage("m.change")), ["cannot: copies packets"]);
    let cuts: Vec<_> = placement.cuts.iter().map(|cut| program.channels[cut.0 as usize].name.as_str()).collect();
    assert_eq!(cuts, ["m.asking", "m.pinned", "m.late"]);

    let whole = Limits {
        whole: vec!["the metadata is too large".into()],
        operation: Box::new(|_| None),
        unsure: Box::new(|_| None),
        ppfs: BTreeMap::new(),
    };
    let placement = Placement::new(&program, &whole).unwrap();
    assert!(!placement.any_kernel());
    assert_eq!(placement.cuts, [Program::RX]);
}

#[test]
fn what_may_fail_in_the_kernel_is_done_there_only_where_it_is_pinned() {
    let text = "import \"net/ether\";
        module m { in ether input; out ether output;
            PIN ppf p(ether_packet_t *pkt) from input {
                pkt->type = 1;
                if (packet_grow_tail(pkt, 4)) { channel_put(output, pkt); return; }
                packet_drop(pkt, malformed);
            } }
        program { rx -> m.input; m.output -> tx; }";
    let found = |pin: &str| {
        let program = compile(&text.replace("PIN", pin));
        stage(&program, &Placement::new(&program, &limits()).unwrap(), "m.p").clone()
    };
    assert!(matches!(found(""), Stage::Cannot(Obstacle { reason, .. }) if reason == "may find no room"));
    assert_eq!(found("@kernel"), Stage::Kernel(Vec::new()));
}

#[test]
fn a_ppf_that_is_too_much_is_the_workers() {
    let program = compile(PROGRAM);
    let finish = PpfId(program.ppfs.iter().position(|ppf| ppf.name == "m.finish").unwrap() as u32);
    let limits = Limits { ppfs: [(finish, "is too much".to_owned())].into(), ..limits() };
    let placement = Placement::new(&program, &limits).unwrap();
    assert!(matches!(stage(&program, &placement, "m.finish"), Stage::Cannot(why) if why.reason == "is too much"));
    assert_eq!(stage(&program, &placement, "m.classify"), &Stage::Kernel(Vec::new()));
    let cuts: Vec<_> = placement.cuts.iter().map(|cut| program.channels[cut.0 as usize].name.as_str()).collect();
    assert!(cuts.contains(&"m.last"), "{cuts:?}");
}

#[test]
fn behind_workers() {
    let text = PROGRAM.replace("    ppf classify", "    @worker ppf classify");
    let program = compile(&text);
    let placement = Placement::new(&program, &limits()).unwrap();
    assert_eq!(stage(&program, &placement, "m.finish"), &Stage::Behind);
}

#[test]
fn what_is_pinned_to_the_kernel_and_cannot_run_there() {
    let errors = |text: &str| {
        let compilation = check("test.baker", text, &Library);
        let program = lower(&compilation.program.unwrap());
        let errors = Placement::new(&program, &limits()).map(|_| ()).unwrap_err();
        diag::render(&errors, &compilation.sources, false)
    };
    insta::assert_snapshot!(errors(&PROGRAM.replace("    ppf ask", "    @kernel ppf ask")));
}

/// As the controller in both runs.
#[derive(Debug)]
struct Picks;

impl Externs for Picks {
    fn call(&self, _: ExternId, args: &[u128]) -> u128 {
        args[0] + 40
    }
}

fn machine(program: &Program) -> Machine {
    let mut machine = Machine::new(program.clone());
    machine.set_externs(Arc::new(Picks));
    let marks = TableId(program.tables.iter().position(|table| table.name == "m.marks").unwrap() as u32);
    machine.insert(marks, &TableEntry { key: vec![3], prefix_len: None, value: vec![7] }).unwrap();
    machine
}

#[test]
fn cut_in_two_it_does_the_same() {
    let program = compile(PROGRAM);
    let placement = Placement::new(&program, &limits()).unwrap();
    let Split { kernel, workers, resume } = split(&program, &placement, &limits());
    for part in [&kernel, &workers] {
        verify(part).unwrap_or_else(|errors| panic!("{errors:?}\n{}", print(part)));
    }
    assert!(kernel.ppfs.iter().enumerate().all(|(index, ppf)| {
        let cannot = ppf.body.blocks.iter().flat_map(|block| &block.insts).any(|inst| operation(inst).is_some());
        !placement.is_kernel(PpfId(index as u32)) || !cannot
    }));
    let (mut one, mut fast, mut slow) = (machine(&program), machine(&kernel), machine(&workers));
    let mut handed_over = 0;
    for n in 0..400u16 {
        let kind = if n % 23 == 0 { 0xbad } else { n % 7 };
        let mut frame = vec![0u8; 60];
        frame[11] = (n / 7 % 8) as u8;
        frame[12..14].copy_from_slice(&kind.to_be_bytes());
        let wanted = one.receive(3, &frame);
        let mut found: Vec<Output> = Vec::new();
        for output in fast.receive(3, &frame) {
            match output.end {
                End::Controller(channel) => {
                    let entry = resume[channel.0 as usize].expect("a channel that leaves the kernel");
                    handed_over += 1;
                    found.extend(slow.inject(entry, &output.packet, &output.metadata));
                }
                _ => found.push(output),
            }
        }
        assert_eq!(found, wanted, "packet {n} of type {kind}");
    }
    assert!(handed_over > 100);
    // Each packet is counted once: the program's channels come first, then those by which packets are handed over.
    let channels = program.channels.len();
    let count = |machine: &Machine| {
        let slots = machine.slots();
        let channels = (0..channels as u32).map(|id| slots.channel(ChannelId(id)));
        let reasons = (0..program.drop_reasons.len() as u32).map(|id| slots.drop(DropId(id)));
        let user = (0..8).map(|cell| slots.user(CounterId(0)) + cell);
        channels.chain(reasons).chain(user).map(|slot| machine.counters()[slot]).collect::<Vec<_>>()
    };
    let sum: Vec<u64> = count(&fast).iter().zip(count(&slow)).map(|(a, b)| a + b).collect();
    assert_eq!(sum, count(&one));
}

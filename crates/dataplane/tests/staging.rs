//! Look-up staging changes nothing that can be seen: native code that looks up ahead for whole batches gives what the
//! interpreter gives packet by packet, also where packets of one batch change what others look up.

use std::sync::Arc;

use baker::ir::{Program, TableEntry, TableId, TableStore};
use baker::opt::stage::Plan;
use baker::opt::{Level, optimise};
use codegen::abi::Staging;
use codegen::{Emit, OptLevel, emit};
use dataplane::EngineKind;
use dataplane::step::{StepOutput, Stepper};

/// A chain of three look-ups; every kind of packet changes something that others look up. The first byte of the
/// destination says what a packet does, the rest of it and the source are keys.
const PROGRAM: &str = r#"
import "net/ether";

metadata { found : u8; }
drop_reason unknown, loops, removed;

struct hop_t { next : u8; uses : u32; port : u8; }

module m {
    in ether input;
    out ether output, other_cc;

    hash<u32, u8> names[4000];
    hash<u32, hop_t> hops[4000];
    hash<u32, u8> ends[4000] idle 5s;
    array<hop_t> places[256];
    counter seen[16];

    ppf go(ether_packet_t *pkt) from input {
        u8 kind = (u8) (pkt->dst >> 40);
        u8 key = (u8) (pkt->dst & 0x1f);
        u8 new = (u8) (pkt->src & 0x1f);
        u8 *known = ends[new];
        counter_add(seen[kind & 15], 1);
        if (known == null && kind == 1)
            ends[new] = key;
        if (kind == 2) { packet_drop(pkt, unknown); return; }
        u8 *name = names[key];
        if (name == null) {
            if (kind == 3)
                names[key] = new;
            channel_put(other_cc, pkt);
            return;
        }
        hop_t *hop = hops[*name];
        if (hop == null) {
            hops[*name] = hop_t { next: new, uses: 1, port: key };
            packet_drop(pkt, loops);
            return;
        }
        u8 next = hop->next;
        if (kind == 4)
            hop->next = new;
        if (kind == 5)
            *name = new;
        if (kind == 6)
            hop->uses = hop->uses + 1;
        u8 *end = ends[places[next].port ^ next];
        if (end == null) { packet_drop(pkt, unknown); return; }
        if (kind == 7)
            table_remove(names, key);
        if (kind == 8)
            table_remove(ends, new);
        if (kind == 9)
            *end = new;
        pkt->metadata.tx.port = *end;
        pkt->src = (mac_addr_t) (hop->uses + 256 * next);
        channel_put(output, pkt);
    }
}

module other {
    in ether input;
    out ether output;

    ppf learn(ether_packet_t *pkt) from input {
        u8 key = (u8) (pkt->src & 0x1f);
        u8 kind = (u8) (pkt->dst >> 40);
        if (kind == 10)
            m.hops[key] = hop_t { next: key ^ 1, uses: 0, port: 3 };
        if (kind == 11)
            m.names[key] = key;
        channel_put(output, pkt);
    }
}

program {
    rx -> m.input;
    m.other_cc -> other.input;
    m.output -> tx;
    other.output -> host;
}
"#;

fn program() -> Arc<Program> {
    let checked = baker::check::check("staging.baker", PROGRAM, &baker::library::Library);
    let rendered = baker::diag::render(&checked.diagnostics, &checked.sources, false);
    let typed = checked.program.unwrap_or_else(|| panic!("{rendered}"));
    let program = baker::ir::lower(&typed);
    baker::ir::verify(&program).expect("lowering gives valid IR");
    Arc::new(program)
}

/// Numbers by xorshift (Marsaglia 2003).
struct SplitMix64(u64);

impl SplitMix64 {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }
}

/// A packet, now and then too short for the program or for looking ahead. `kinds`: what it may do.
fn packet(n: &mut SplitMix64, kinds: u64) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[0] = n.below(kinds) as u8;
    bytes[5] = n.below(32) as u8;
    bytes[11] = n.below(32) as u8;
    if n.below(20) == 0 {
        bytes.truncate(n.below(20) as usize);
    }
    bytes
}

/// What is seen of an output: its end, its bytes, and its port.
fn seen(outputs: &[StepOutput]) -> Vec<(baker::ir::interp::End, Vec<u8>, u128)> {
    let port = |output: &StepOutput| match output.end {
        baker::ir::interp::End::Tx => output.metadata[Program::TX_PORT.0 as usize],
        _ => output.metadata[Program::RX_PORT.0 as usize],
    };
    outputs.iter().map(|output| (output.end, output.bytes.clone(), port(output))).collect()
}

fn fill(program: &Program, numbers: u64, stepper: &mut Stepper) {
    let mut n = SplitMix64(numbers);
    for (index, table) in program.tables.iter().enumerate() {
        let values = program.shown_value(table).fields.len() as u64;
        for _ in 0..10 {
            let entry = TableEntry {
                key: vec![n.below(32).into()],
                prefix_len: None,
                value: (0..values).map(|_| n.below(32).into()).collect(),
            };
            stepper.insert(TableId(index as u32), &entry).expect("there is room");
        }
    }
}

/// Batches of all sizes, the time going on between them, at each level; staged in every batch, or where the code
/// chooses.
fn agree(kinds: u64, always: bool) {
    let program = program();
    for level in Level::ALL {
        for seed in 1..7 {
            let stepper = |kind| Stepper::new(program.clone(), kind).expect("an engine");
            let mut interp = stepper(EngineKind::Interp);
            let mut native = stepper(EngineKind::Native(OptLevel::O3, level));
            for stepper in [&mut interp, &mut native] {
                fill(&program, seed * 0x9e37_79b9, stepper);
            }
            native.set_staging(if always { Staging::Always } else { Staging::Auto });
            let mut n = SplitMix64(seed * 0x1234_5677);
            for round in 0..60u64 {
                for stepper in [&mut interp, &mut native] {
                    stepper.set_now(round * 1_500_000_000);
                }
                let size = 1 + n.below(64);
                let batch: Vec<(u8, Vec<u8>)> = (0..size).map(|_| (1, packet(&mut n, kinds))).collect();
                // The interpreter takes one packet after the other.
                let wanted: Vec<StepOutput> =
                    batch.iter().flat_map(|(port, bytes)| interp.receive(*port, bytes)).collect();
                let at = format!("level {}, seed {seed}, batch {round}", level.name());
                assert_eq!(seen(&native.receive_batch(&batch)), seen(&wanted), "{at}");
                assert_eq!(native.counters(), interp.counters(), "{at}: counters");
                native.check_frames().expect("no frame is lost");
                interp.check_frames().expect("no frame is lost");
                for table in (0..program.tables.len()).map(|index| TableId(index as u32)) {
                    let name = &program.tables[table.0 as usize].name;
                    assert_eq!(native.dump(table), interp.dump(table), "{at}: {name}");
                }
            }
        }
    }
}

/// Otherwise the other tests would prove nothing.
#[test]
fn the_program_is_staged() {
    let optimised = optimise(&program(), Level::Cgpc);
    let plan = Plan::new(&optimised).expect("it is staged");
    let name = |id: TableId| optimised.tables[id.0 as usize].name.as_str();
    let look_ups: Vec<&str> = plan.look_ups.iter().map(|look_up| name(look_up.table)).collect();
    assert_eq!(look_ups, ["m.ends", "m.names", "m.hops", "m.ends"]);
    assert!(plan.may_conflict());
    assert!(!plan.deferred.is_empty() && plan.has_choice());
    let fetches = |level| {
        let text = emit(&program(), OptLevel::O0, level, Emit::Llvm).expect("it compiles");
        text.matches("call void @llvm.prefetch").count()
    };
    assert_eq!(Level::ALL.map(fetches), [0, 0, 2 * look_ups.len()], "two for each look-up, at the last level");
}

#[test]
fn packets_that_disturb_each_other() {
    agree(12, true);
}

#[test]
fn packets_that_disturb_each_other_where_the_code_chooses() {
    agree(12, false);
}

/// Only times of use and fields that no key depends on change.
#[test]
fn packets_that_disturb_nothing() {
    agree(1, true);
}

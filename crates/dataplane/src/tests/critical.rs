//! Critical sections of two workers and the control plane's changes: nothing is lost, nothing torn.

use std::sync::Arc;
use std::time::{Duration, Instant};

use baker::ir::{Program, TableEntry, TableId, TableStore};
use baker::opt::Level;
use codegen::OptLevel;

use crate::ports::{Driver, MemPort};
use crate::testing::frame;
use crate::{EngineKind, FrameConfig, Instance, Options, PollMode, PortConfig};

/// Counts all frames in one entry, and each eight times in one of two others. Of the entry that the control plane sets,
/// one half is the complement of the other, which the program keeps so.
const PROGRAM: &str = "import \"net/ether\";
struct state_t { a : u64; b : u64; c : u32; }
module m {
    in ether input;
    out ether output;
    array<state_t> all[2];
    hash<u1, state_t> each[2];
    counter torn;
    ppf count(ether_packet_t *pkt) from input {
        state_t *s = all[0];
        critical (s) {
            s->a += 1;
            for (u32 i = 0; i < 2; i++)
                s->b += 1;
            s->c += (u32) packet_length(pkt);
        }
        bool right = true;
        state_t *w = all[1];
        critical (w) {
            right = w->a == ~w->b;
            w->a = w->a * 3 + 1;
            w->b = ~w->a;
        }
        state_t *e = each[(u1) pkt->src];
        if (e != null) {
            for (u32 i = 0; i < 8; i++)
                critical (e) { *e = state_t { a: e->a + 1, b: e->b + 2, c: e->c }; }
        }
        if (!right) { counter_add(torn, 1); }
        channel_put(output, pkt);
    }
}
program { rx -> m.input; m.output -> host; }
";

const ALL: TableId = TableId(0);
const EACH: TableId = TableId(1);

fn entry(key: u128, a: u64) -> TableEntry {
    TableEntry { key: vec![key], prefix_len: None, value: vec![a.into(), (!a).into(), 0] }
}

fn run(engine: EngineKind, count: u64) {
    let compilation = baker::check::check("critical.baker", PROGRAM, &baker::library::Library);
    let program: Arc<Program> = Arc::new(baker::ir::lower(&compilation.program.expect("nothing is wrong")));
    // Odd, so that every packet comes to both workers.
    let packets: Vec<_> = (0..9).map(|source| frame(0x0800, source, 60)).collect();
    let a = PortConfig::new("a", 1, Driver::Mem(MemPort::generator(packets, count)));
    let frames = FrameConfig { count: 600, ..FrameConfig::default() };
    let options = Options { engine, poll: PollMode::Busy, frames, workers: 2, ..Options::default() };
    let prepared = Instance::prepare(program, &options, &[a]).unwrap();
    for key in 0..2 {
        let zero = TableEntry { value: vec![0, 0, 0], ..entry(key, 0) };
        prepared.tables().insert(EACH, &zero).unwrap();
    }
    prepared.tables().insert(ALL, &entry(1, 5)).unwrap();
    let instance = prepared.run().unwrap();
    let mut tables = instance.tables();
    let (start, mut n) = (Instant::now(), 0u64);
    while n < 20 || tables.get(ALL, &[0], None).unwrap()[0] < u128::from(count) {
        assert!(start.elapsed() < Duration::from_secs(30), "{engine:?}: packets are lost");
        n += 1;
        tables.insert(ALL, &entry(1, n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).unwrap();
        let value = tables.get(ALL, &[1], None).unwrap();
        assert_eq!(value[0] as u64, !(value[1] as u64), "{engine:?}");
        assert!(tables.dump(ALL).iter().all(|e| e.key[0] == 0 || e.value[0] as u64 == !(e.value[1] as u64)));
    }
    let report = instance.wait();
    let sum = |field: usize| tables.dump(EACH).iter().map(|entry| entry.value[field]).sum::<u128>();
    let count = u128::from(count);
    assert_eq!(tables.get(ALL, &[0], None), Ok(vec![count, 2 * count, (60 * count) & 0xffff_ffff]), "{engine:?}");
    assert_eq!([sum(0), sum(1)], [8 * count, 16 * count], "{engine:?}");
    assert_eq!(report.snapshot.user, [("m.torn".to_owned(), vec![0])], "{engine:?}");
}

#[test]
fn nothing_is_lost_and_nothing_torn() {
    run(EngineKind::Interp, 4000);
    for level in Level::ALL {
        run(EngineKind::Native(OptLevel::O0, level), 100_000);
        run(EngineKind::Native(OptLevel::O3, level), 500_000);
    }
}

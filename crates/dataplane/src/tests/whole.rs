//! Entries of arrays that only the control plane changes: two workers never see one half changed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use baker::ir::{Program, TableEntry, TableError, TableId, TableStore};
use baker::opt::Level;
use codegen::OptLevel;

use crate::ports::{Driver, MemPort};
use crate::testing::frame;
use crate::{EngineKind, FrameConfig, Instance, Options, PollMode, PortConfig};

/// In both arrays the second field is the complement of the first; in the first one, all entries are equal. Between two
/// fields a function is called, so that they are loaded one after the other.
const PROGRAM: &str = "import \"net/ether\";
struct wide_t { a : u64; b : u64; c : u128; }
struct word_t { a : u32; b : u32; }
module m {
    in ether input;
    out ether output;
    array<wide_t> wide[1000];
    array<word_t> words[4];
    set<u8> seen[8];
    counter torn_wide;
    counter torn_word;
    counter mixed;
    counter frames;
    counter full;
    ppf look(ether_packet_t *pkt) from input {
        wide_t *one = wide[(u32) pkt->src & 511];
        wide_t *other = wide[999 - ((u32) pkt->src & 255)];
        word_t *word = words[(u32) pkt->src & 3];
        if (one != null && other != null && word != null) {
            u64 a = one->a;
            u64 c = other->a;
            u32 d = word->a;
            if (!table_insert(seen, (u8) pkt->type & 7)) counter_add(full, 1);
            if (a != ~one->b || one->c != a) counter_add(torn_wide, 1);
            if (d != ~word->b) counter_add(torn_word, 1);
            if (a != c) counter_add(mixed, 1);
            if (pkt->type == 0x1234) WRITES
        }
        counter_add(frames, 1);
        channel_put(output, pkt);
    }
}
program { rx -> m.input; m.output -> host; }
";
const WIDE: TableId = TableId(0);
const WORDS: TableId = TableId(1);

/// Changes a table, however long the machine does not run a worker that may still read what is to be used again.
fn insist(mut change: impl FnMut() -> Result<(), TableError>) {
    let start = Instant::now();
    while let Err(error) = change() {
        assert!(error == TableError::Busy && start.elapsed() < Duration::from_secs(60), "{error}");
    }
}

/// Runs `count` packets while all entries are changed again and again. How often a half changed entry of each array was
/// seen, and entries of different changes.
fn run(engine: EngineKind, mode: PollMode, writes: &str, count: u64) -> [u64; 3] {
    let source = PROGRAM.replace("WRITES", writes);
    let compilation = baker::check::check("whole.baker", &source, &baker::library::Library);
    let program: Arc<Program> = Arc::new(baker::ir::lower(&compilation.program.expect("nothing is wrong")));
    // Odd, so that every packet comes to both workers.
    let packets: Vec<_> = (0..9).map(|source| frame(0x0800, source, 60)).collect();
    let a = PortConfig::new("a", 1, Driver::Mem(MemPort::generator(packets, count)));
    let frames = FrameConfig { count: 600, ..FrameConfig::default() };
    let options = Options { engine, poll: mode, frames, workers: 2, ..Options::default() };
    let prepared = Instance::prepare(program.clone(), &options, &[a]).unwrap();
    let fill = |tables: &mut crate::TableAccess, n: u64| {
        let entry = |key: u128, value: Vec<u128>| TableEntry { key: vec![key], prefix_len: None, value };
        let a = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let wide: Vec<_> = (0..1000).map(|key| entry(key, vec![a.into(), (!a).into(), a.into()])).collect();
        insist(|| tables.insert_all(WIDE, &mut wide.iter()));
        for key in 0..4 {
            insist(|| tables.insert(WORDS, &entry(key, vec![(a as u32).into(), (!a as u32).into()])));
        }
    };
    fill(&mut prepared.tables(), 0);
    let instance = prepared.run().unwrap();
    let (mut tables, observer) = (instance.tables(), instance.observer());
    let counted = |name: &str| {
        let user = observer.snapshot().user;
        user.into_iter().find(|(known, _)| known == name).expect("it is declared").1[0]
    };
    let (start, mut n) = (Instant::now(), 0);
    while n < 20 || counted("m.frames") < count {
        assert!(start.elapsed() < Duration::from_secs(60), "{engine:?}: {} packets of {count}", counted("m.frames"));
        n += 1;
        fill(&mut tables, n);
    }
    let a = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    assert_eq!(tables.get(WIDE, &[999], None), Ok(vec![a.into(), (!a).into(), a.into()]));
    assert_eq!(tables.count(WIDE), 1000);
    instance.wait();
    ["m.torn_wide", "m.torn_word", "m.mixed"].map(counted)
}

#[test]
fn no_look_up_sees_a_half_changed_entry() {
    for level in Level::ALL {
        for mode in [PollMode::Busy, PollMode::Interrupt] {
            let seen = run(EngineKind::Native(OptLevel::O3, level), mode, "counter_add(frames, 0);", 1_000_000);
            assert_eq!(seen, [0; 3], "{level:?} {mode:?}");
        }
    }
    assert_eq!(run(EngineKind::Interp, PollMode::Busy, "counter_add(frames, 0);", 4000), [0; 3]);
}

/// That the test above would notice, and what docs/language.md says of arrays that programs write.
#[test]
fn what_the_program_writes_changes_field_by_field() {
    let writes = "{ one->a = 1; word->a = 1; }";
    let found = (0..20).any(|_| {
        let seen = run(EngineKind::NATIVE, PollMode::Busy, writes, 1_000_000);
        seen.iter().all(|&times| times > 0)
    });
    assert!(found, "no half changed entry in 20 runs");
}

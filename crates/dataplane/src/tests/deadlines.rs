//! Deadlines of table entries: once, in their order, not before their time; on each engine, by several workers, and
//! kept when another program takes over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baker::ir::{Program, TableEntry, TableId, TableStore};
use baker::opt::Level;
use baker::place::{Placement, Stage, split};
use codegen::OptLevel;

use crate::ports::{Driver, MemPort};
use crate::step::Stepper;
use crate::tables::Carried;
use crate::testing::{SplitMix64, compiled, frame};
use crate::{EngineKind, FrameConfig, Instance, Observer, Options, PollMode, PortConfig};

const ENGINES: [EngineKind; 4] = [
    EngineKind::Interp,
    EngineKind::Native(OptLevel::O0, Level::Base),
    EngineKind::NATIVE,
    EngineKind::Kernel(Level::Cgpc),
];
const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
const PATIENCE: Duration = Duration::from_secs(30);

fn program(items: &str, body: &str) -> Arc<Program> {
    compiled(&format!(
        "import \"net/ether\";
        drop_reason done;
        module m {{
            in  ether input;
            out ether output;
            {items}
            ppf p(ether_packet_t *pkt) from input {{ {body} packet_drop(pkt, done); }}
        }}
        program {{ rx -> m.input; m.output -> tx; }}"
    ))
}

/// What a packet tells the program, as its type, with a key and a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
enum Do {
    Insert = 1,
    In,
    At,
    Cancel,
    Remove,
}

fn told(what: Do, key: u64, time: u64) -> Vec<u8> {
    let mut packet = time.to_be_bytes()[2..].to_vec();
    packet.extend(&key.to_be_bytes()[2..]);
    packet.extend((what as u16).to_be_bytes());
    packet.resize(60, 0);
    packet
}

fn told_program(table: &str) -> Arc<Program> {
    program(
        &format!(
            "{table}
            timer act(u48 key, u64 *runs) over flows at deadline {{
                *runs += 1;
                if (*runs % 3 == 0)
                    timer_set(flows[key], now_ns() + 5ms);
                ether_packet_t *pkt = packet_create();
                pkt->src = key;
                pkt->dst = (u48) now_ns();
                channel_put(output, pkt);
            }}"
        ),
        "switch (pkt->type) {
        case 1: flows[pkt->src] = 0;
        case 2: timer_set(flows[pkt->src], now_ns() + pkt->dst);
        case 3: timer_set(flows[pkt->src], pkt->dst);
        case 4: timer_cancel(flows[pkt->src]);
        case 5: table_remove(flows, pkt->src);
        default: break;
        }",
    )
}

/// What the program is to do.
#[derive(Default)]
struct Model {
    now: u64,
    /// Runs and deadline, by key.
    flows: BTreeMap<u64, (u64, Option<u64>)>,
}

impl Model {
    fn tell(&mut self, what: Do, key: u64, time: u64) {
        let now = self.now;
        let flow = self.flows.get_mut(&key);
        let soonest = |at: u64| Some(at.max(now + 1000));
        match (what, flow) {
            (Do::Insert, Some(flow)) => flow.0 = 0,
            (Do::Insert, None) => _ = self.flows.insert(key, (0, None)),
            (Do::In, Some(flow)) => flow.1 = soonest(now + time),
            (Do::At, Some(flow)) if time > 0 => flow.1 = soonest(time),
            (Do::At | Do::Cancel, Some(flow)) => flow.1 = None,
            (Do::Remove, _) => _ = self.flows.remove(&key),
            (_, None) => {}
        }
    }

    fn advance(&mut self, to: u64) -> Vec<(u64, u64)> {
        let mut ran = Vec::new();
        loop {
            let due = self.flows.iter().filter_map(|(key, (_, due))| Some(((*due)?, *key))).min();
            let Some((at, key)) = due.filter(|(at, _)| *at <= to) else { break };
            self.now = at;
            let flow = self.flows.get_mut(&key).unwrap();
            flow.0 += 1;
            flow.1 = flow.0.is_multiple_of(3).then_some(at + 5 * MS);
            ran.push((key, at));
        }
        self.now = to;
        ran
    }
}

/// Set, moved, cancelled, removed and set again, by packets and the control plane, in any order.
#[test]
fn timers_run_once_at_their_deadlines_in_order() {
    let program = told_program("hash<u48, u64> flows[40];");
    for seed in 0..6 {
        for engine in ENGINES {
            let (mut numbers, mut model) = (SplitMix64(seed), Model::default());
            let mut stepper = Stepper::new(program.clone(), engine).unwrap();
            let mut runs = 0;
            for step in 0..1500 {
                let key = numbers.below(40);
                match numbers.below(12) {
                    0 => {
                        let entry = TableEntry { key: vec![key.into()], prefix_len: None, value: vec![7] };
                        stepper.insert(TableId(0), &entry).unwrap();
                        model.flows.insert(key, (7, None));
                    }
                    1 => {
                        let removed = stepper.remove(TableId(0), &[key.into()], None).is_ok();
                        assert_eq!(removed, model.flows.remove(&key).is_some());
                    }
                    2..6 => {
                        let to = model.now + numbers.below(8 * MS);
                        let ran = stepper.advance(to);
                        let ran = ran.iter().map(|output| {
                            let number = |at: usize| {
                                let mut bytes = [0; 8];
                                bytes[2..].copy_from_slice(&output.bytes[at..at + 6]);
                                u64::from_be_bytes(bytes)
                            };
                            (number(6), number(0))
                        });
                        let wanted = model.advance(to);
                        assert_eq!(ran.collect::<Vec<_>>(), wanted, "{engine:?} seed {seed} step {step}");
                        runs += wanted.len();
                    }
                    _ => {
                        let all = [Do::Insert, Do::In, Do::In, Do::In, Do::At, Do::Cancel, Do::Remove];
                        let what = all[numbers.below(all.len() as u64) as usize];
                        // Several at one time, too.
                        let time = match what {
                            Do::At => (model.now + numbers.below(20 * MS)).saturating_sub(10 * MS) / MS * MS,
                            _ => numbers.below(20) * MS,
                        };
                        stepper.receive(1, &told(what, key, time));
                        model.tell(what, key, time);
                    }
                }
            }
            let flows = stepper.dump(TableId(0)).into_iter().map(|entry| (entry.key[0] as u64, entry.value[0] as u64));
            assert!(flows.eq(model.flows.iter().map(|(key, flow)| (*key, flow.0))));
            assert!(runs > 100, "{runs}");
            let timer = baker::ir::CounterSlots::new(&program).timer_entries(baker::ir::TimerId(0));
            assert_eq!(stepper.counters()[timer], runs as u64, "{engine:?}");
            stepper.check_frames().unwrap();
        }
    }
}

#[test]
fn arrays_and_sets_have_deadlines_and_periodic_timers_go_first() {
    let program = program(
        "array<u64> slots[4];
        set<u32> members[4];
        hash<u32, u32> order[1024];
        counter said;
        timer of_slot(u32 index, u64 *at) over slots at deadline {
            *at = now_ns();
            order[*at > 10ms ? 200 : 100 + index] = 1;
        }
        timer of_member(u32 key) over members at deadline {
            counter_add(said, key);
            timer_set(slots[key], now_ns() + 5ms);
            table_remove(members, key);
        }
        timer each() every 5ms { timer_set(slots[0], now_ns() + 10ms); }",
        "table_insert(members, 3);
        if (timer_set(members[3], 7ms) && !timer_set(members[2], 7ms) && !timer_set(slots[4], 1ms)
            && timer_set(slots[1], 5ms))
            counter_add(said, 100);",
    );
    for engine in ENGINES {
        let mut stepper = Stepper::new(program.clone(), engine).unwrap();
        stepper.receive(1, &[0; 60]);
        stepper.advance(13 * MS);
        let slots = (0..4).map(|index| stepper.get(TableId(0), &[index], None).unwrap()[0] as u64);
        // Slot 0 is put off every 5 ms, slot 2 was never set.
        assert_eq!(slots.collect::<Vec<_>>(), [0, 5 * MS, 0, 12 * MS], "{engine:?}");
        assert_eq!(stepper.count(TableId(1)), 0);
        let slots = baker::ir::CounterSlots::new(&program);
        assert_eq!(stepper.counters()[slots.user(baker::ir::CounterId(0))], 103);
        // Time stands still where nothing is to be done but what takes none.
        stepper.advance(10 * SECOND);
    }
}

#[test]
fn an_entry_that_is_too_old_has_no_deadline() {
    let program = told_program("hash<u48, u64> flows[40] idle 10ms;");
    for engine in ENGINES {
        let mut stepper = Stepper::new(program.clone(), engine).unwrap();
        for key in [1, 2] {
            stepper.receive(1, &told(Do::Insert, key, 0));
            stepper.receive(1, &told(Do::In, key, 15 * MS));
        }
        stepper.advance(8 * MS);
        stepper.receive(1, &told(Do::In, 1, 9 * MS));
        // The one was used at 8 ms, the other one is too old by 10 ms.
        assert_eq!(stepper.advance(14 * MS).len(), 0);
        // A new life.
        stepper.receive(1, &told(Do::Insert, 2, 0));
        assert_eq!(stepper.advance(60 * MS).len(), 1, "{engine:?}");
        stepper.receive(1, &told(Do::In, 1, MS));
        assert_eq!(stepper.advance(70 * MS).len(), 0, "{engine:?}: a look-up does not find it");
    }
}

/// What the engines of the tests above compare is the kernel's doing.
#[test]
fn the_kernel_sets_deadlines() {
    let program = told_program("hash<u48, u64> flows[40];");
    assert_eq!(codegen::bpf::obstacles(&program), []);
    let limits = codegen::bpf::limits(&program);
    let placement = Placement::new(&program, &limits).unwrap();
    assert_eq!(placement.stages, [Stage::Kernel(Vec::new())]);
    let set: Vec<_> = placement.deadlines[0].iter().map(|set| set.table).collect();
    assert_eq!(set, [TableId(0); 3]);
    assert!(split(&program, &placement, &limits).kernel.uses_rings());
}

/// Packets that each set the deadline of their source, which is there with its deadline from the first one on.
fn source(keys: u32, copies: usize) -> Driver {
    let packets = (0..keys).flat_map(|key| vec![told(Do::Insert, key.into(), 0); copies]);
    let packets: Vec<Vec<u8>> = packets.collect();
    let count = packets.len() as u64;
    Driver::Mem(MemPort::generator(packets, count))
}

fn options(engine: EngineKind, workers: usize, poll: PollMode) -> Options {
    let frames = FrameConfig { count: 4096, ..FrameConfig::default() };
    Options { engine, workers, poll, frames, ..Options::default() }
}

fn counted(observer: &Observer, name: &str) -> u64 {
    let snapshot = observer.snapshot();
    snapshot.user.iter().find(|(other, _)| other == name).map_or(0, |(_, cells)| cells.iter().sum())
}

fn eventually(observer: &Observer, name: &str, wanted: u64) {
    let start = Instant::now();
    while counted(observer, name) < wanted {
        assert!(start.elapsed() < PATIENCE, "{name}: {} of {wanted}", counted(observer, name));
        std::thread::sleep(Duration::from_millis(1));
    }
}

const ONCE: &str = "struct flow_t { set : u64; runs : u32; }
    hash<u48, flow_t> flows[30000];
    counter ran;
    counter again;
    counter early;
    counter sent;
    timer act(u48 key, flow_t *flow) over flows at deadline {
        counter_add(ran, 1);
        flow->runs += 1;
        if (flow->runs > 1)
            counter_add(again, 1);
        if (now_ns() < flow->set + DELAY)
            counter_add(early, 1);
    }";
const SET: &str = "flow_t *flow = flows[pkt->src];
    if (flow == null) {
        flows[pkt->src] = flow_t { set: now_ns(), runs: 0 };
        timer_set(flows[pkt->src], now_ns() + SETS);
    }
    counter_add(sent, 1);";

/// Twenty thousand at about one time, set by one worker or by two at once, while packets go on.
#[test]
fn each_runs_once_whichever_worker_has_set_it() {
    // Where two workers set one at once, the one that counts began its batch a little earlier than the other at most.
    let items = ONCE.replace("DELAY", "200ms");
    let program = program(&items, &SET.replace("SETS", "300ms"));
    for (engine, workers) in [(EngineKind::NATIVE, 1), (EngineKind::NATIVE, 2), (EngineKind::Interp, 2)] {
        for poll in [PollMode::Busy, PollMode::Interrupt] {
            let keys = if engine == EngineKind::Interp { 500 } else { 20_000 };
            // The packets of a key lie side by side, so that each worker gets one.
            let ports = [PortConfig::new("a", 1, source(keys, 2)), PortConfig::new("b", 2, idle())];
            let instance = Instance::start(program.clone(), &options(engine, workers, poll), &ports).unwrap();
            let observer = instance.observer();
            eventually(&observer, "m.sent", 2 * u64::from(keys));
            eventually(&observer, "m.ran", keys.into());
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(["m.ran", "m.again", "m.early"].map(|name| counted(&observer, name)), [keys.into(), 0, 0]);
            let report = instance.stop();
            assert_eq!((report.errors, report.free_frames), (Vec::new(), report.frames));
        }
    }
}

/// A port that has no packets and does not end, so that its instance goes on.
fn idle() -> Driver {
    let never = MemPort::generator(vec![frame(0x0800, 0, 60)], 0);
    Driver::Mem(never)
}

/// The worker that has set a deadline sleeps, and wakes for it.
#[test]
fn a_sleeping_worker_wakes_in_time_and_never_early() {
    let items = ONCE.replace("DELAY", "30ms");
    let program = program(&items, &SET.replace("SETS", "30ms"));
    let ports = [PortConfig::new("a", 1, source(50, 1)), PortConfig::new("b", 2, idle())];
    let options = options(EngineKind::NATIVE, 1, PollMode::Interrupt);
    let instance = Instance::start(program, &options, &ports).unwrap();
    let observer = instance.observer();
    eventually(&observer, "m.ran", 50);
    assert_eq!(["m.again", "m.early"].map(|name| counted(&observer, name)), [0, 0]);
    instance.stop();
}

#[test]
fn armed_deadlines_outlast_a_reload() {
    let set = SET.replace("SETS", "500ms");
    let first = program(&ONCE.replace("DELAY", "500ms"), &set);
    let second = program(&ONCE.replace("DELAY", "500ms").replace("timer act", "counter more; timer other"), &set);
    let without = program("hash<u48, u32> flows[30000];", "flows[pkt->src] = 0;");
    let ports = [PortConfig::new("a", 1, source(1000, 1)), PortConfig::new("b", 2, idle())];
    let mut instance = Instance::start(first, &options(EngineKind::NATIVE, 2, PollMode::Interrupt), &ports).unwrap();
    let observer = instance.observer();
    eventually(&observer, "m.sent", 1000);
    for _ in 0..3 {
        let next = instance.next(&second, Vec::new()).unwrap_or_else(|error| panic!("{error}"));
        assert!(matches!(next.carried(), [Carried::Kept(TableId(0))]));
        assert_eq!(instance.take_over(next), [""; 0]);
    }
    let observer = instance.observer();
    eventually(&observer, "m.ran", 1000);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(["m.ran", "m.again", "m.early"].map(|name| counted(&observer, name)), [1000, 0, 0]);
    let next = instance.next(&without, Vec::new()).unwrap();
    assert!(matches!(next.carried(), [Carried::Emptied(_)]));
    assert_eq!(instance.take_over(next), [""; 0]);
    instance.stop();
}

//! Several workers: flows in order, counters that add up, tables shared, frames all back.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use baker::ir::{CounterSlots, Program, TableEntry, TableId, TableStore};
use baker::opt::Level;
use codegen::OptLevel;

use crate::instance::worker_pool;
use crate::ports::{Driver, MemPort};
use crate::testing::{TO_HOST, TWICE, forward, forward_program, frame};
use crate::{EngineKind, FrameConfig, Instance, Options, PollMode, PortConfig, Report, sys};

const ENGINES: [EngineKind; 2] = [EngineKind::Interp, EngineKind::NATIVE];

fn two(engine: EngineKind, poll: PollMode) -> Options {
    let frames = FrameConfig { count: 600, ..FrameConfig::default() };
    Options { engine, poll, frames, workers: 2, ..Options::default() }
}

/// Packets of 64 flows with numbers, so placed that a generator gives each flow to one worker.
fn flows(length: u32) -> Vec<Vec<u8>> {
    let packet = |number: u32, flow: u32| {
        let mut packet = frame(if flow % 8 == 3 { TWICE } else { 0x0800 }, flow, 60);
        packet[20..24].copy_from_slice(&number.to_be_bytes());
        packet
    };
    (0..length).flat_map(|number| (0..64).map(move |flow| packet(number, flow))).collect()
}

/// Flow and number of such a packet.
fn place(packet: &[u8]) -> (u32, u32) {
    let word = |at: usize| u32::from_be_bytes(packet[at..at + 4].try_into().unwrap());
    (word(8), word(20))
}

fn whole(report: &Report) {
    assert_eq!((report.errors.len(), report.free_frames), (0, report.frames), "{:?}", report.errors);
}

#[test]
fn flows_stay_in_order_and_counters_add_up() {
    for engine in ENGINES {
        for poll in [PollMode::Busy, PollMode::Interrupt] {
            let length = if engine == EngineKind::Interp { 50 } else { 2000 };
            let packets = flows(length);
            let (count, bytes) = (packets.len() as u64, packets.iter().map(|packet| packet.len() as u64).sum());
            let (b, sent) = MemPort::default().collect();
            let a = PortConfig::new("a", 0, Driver::Mem(MemPort::generator(packets, count)));
            let ports = [a, PortConfig::new("b", 1, Driver::Mem(b))];
            let instance = Instance::start(forward_program(), &two(engine, poll), &ports).unwrap();
            let observer = instance.observer();
            let report = instance.wait();
            whole(&report);
            let mut next: HashMap<u32, Vec<u32>> = HashMap::new();
            for packet in sent.lock().unwrap().iter() {
                let (flow, number) = place(packet);
                next.entry(flow).or_default().push(number);
            }
            assert_eq!(next.len(), 64);
            for (flow, numbers) in next {
                let copies = if flow % 8 == 3 { 2 } else { 1 };
                assert!(numbers.into_iter().eq((0..length).flat_map(|n| std::iter::repeat_n(n, copies))), "{flow}");
            }
            let snapshot = report.snapshot;
            assert_eq!((snapshot.channel("rx"), snapshot.channel("m.out")), (count, count + count / 8));
            assert_eq!(snapshot.user, [("m.seen".to_owned(), vec![count, 0, 0, 0])]);
            assert_eq!(snapshot.drops.iter().map(|(_, n)| n).sum::<u64>(), 0);
            let (a, b) = (snapshot.port("a").unwrap(), snapshot.port("b").unwrap());
            assert_eq!((a.rx_packets, a.rx_bytes, b.tx_packets), (count, bytes, count + count / 8));
            // Each worker did its half, and counted it itself.
            let rx = CounterSlots::new(&forward()).channel(Program::RX);
            let each: Vec<u64> = observer.now().blocks.iter().map(|block| block.get(rx)).collect();
            assert_eq!(each, [count / 2; 2], "{engine:?}");
        }
    }
}

#[test]
fn all_workers_learn_while_the_table_is_changed_and_read() {
    for engine in ENGINES {
        let mut program = forward();
        program.tables[0].capacity = 5000;
        // Odd, so that every packet comes to both workers: they learn the same addresses at the same time.
        let packets: Vec<_> = (0..3001).map(|n| frame(0x0800, n, 60)).chain([frame(0x0800, 0, 60)]).collect();
        assert!(packets.len().is_multiple_of(2));
        let packets: Vec<_> = packets.iter().chain(&packets[1..]).chain([&packets[0]]).cloned().collect();
        let a = PortConfig::new("a", 0, Driver::Mem(MemPort::generator(packets, u64::MAX)));
        let ports = [a, PortConfig::new("b", 1, Driver::Mem(MemPort::default()))];
        let instance = Instance::start(Arc::new(program), &two(engine, PollMode::Busy), &ports).unwrap();
        let mut tables = instance.tables();
        let key = |n: u32| u128::from(0x0200_0000_0000 | u64::from(n));
        let (start, mut round) = (Instant::now(), 0u32);
        let full = |tables: &crate::TableAccess| tables.count(TableId(0)) >= 3001;
        while start.elapsed() < Duration::from_millis(500) || !full(&tables) {
            assert!(instance.is_running() && start.elapsed() < Duration::from_secs(20), "{engine:?}");
            // Entries of packets, which come back, and others, which do not.
            for n in 0..50 {
                let _ = tables.remove(TableId(0), &[key(round * 50 % 3000 + n)], None);
                let other = TableEntry { key: vec![key(1 << 20 | n)], prefix_len: None, value: vec![round.into()] };
                let other = TableEntry { value: vec![other.value[0] & 0xff], ..other };
                tables.insert(TableId(0), &other).unwrap();
                assert_eq!(tables.get(TableId(0), &other.key, None), Ok(other.value));
                tables.remove(TableId(0), &other.key, None).unwrap();
            }
            let dump = tables.dump(TableId(0));
            assert!(dump.is_sorted_by(|a, b| a.key < b.key), "each key once");
            assert!(dump.iter().all(|entry| entry.value == [0] && entry.key[0] <= key(3000)), "{engine:?}");
            round += 1;
        }
        let report = instance.stop();
        whole(&report);
        // Everything comes back that is not removed any more.
        assert!(report.snapshot.tables_full.iter().all(|(_, times)| *times == 0));
        let (a, b) = (report.snapshot.port("a").unwrap(), report.snapshot.port("b").unwrap());
        assert_eq!((a.rx_packets, report.snapshot.channel("m.out")), (b.tx_packets, b.tx_packets));
    }
}

#[test]
fn a_worker_leaves_the_others_their_frames() {
    // Four frames, and each packet may become two: one packet at a time for each of two workers.
    let mut packets = flows(50);
    packets.iter_mut().for_each(|packet| packet[12..14].copy_from_slice(&TWICE.to_be_bytes()));
    let count = packets.len() as u64;
    let (b, sent) = MemPort::default().collect();
    let ports = [
        PortConfig::new("a", 0, Driver::Mem(MemPort::generator(packets, count))),
        PortConfig::new("b", 1, Driver::Mem(b)),
    ];
    let options = |count| Options {
        frames: FrameConfig { count, ..FrameConfig::default() },
        ..two(EngineKind::Native(OptLevel::O0, Level::Base), PollMode::Busy)
    };
    let report = Instance::start(forward_program(), &options(4), &ports).unwrap().wait();
    whole(&report);
    assert_eq!(sent.lock().unwrap().len() as u64, 2 * count);
    let error = Instance::start(forward_program(), &options(3), &ports).unwrap_err().to_string();
    assert!(error.starts_with("3 frames: at least 4 are needed, for each worker"), "{error}");
}

#[test]
fn cpus_of_workers() {
    let allowed = sys::allowed_cpus().unwrap();
    assert_eq!(worker_pool::cpus(1, &[]).unwrap(), [None]);
    assert_eq!(worker_pool::cpus(2, &[]).unwrap(), [Some(allowed[0]), Some(allowed[1])]);
    assert_eq!(worker_pool::cpus(2, &[7, 3]).unwrap(), [Some(7), Some(3)]);
    let error = |workers, cpus: &[usize]| worker_pool::cpus(workers, cpus).unwrap_err().to_string();
    assert_eq!(error(0, &[]), "0 workers: use 1 to 32");
    assert_eq!(error(33, &[]), "33 workers: use 1 to 32");
    assert_eq!(error(2, &[0]), "1 CPUs are named for 2 workers: name one for each, or none");
    assert_eq!(error(2, &[1, 1]), "CPU 1 is named twice: each worker needs its own");
    if allowed.len() < 32 {
        let expected = format!("32 workers, but this process may use {} CPUs", allowed.len());
        assert!(error(32, &[]).starts_with(&expected));
    }
    // One without its place keeps all from starting.
    let options = Options { cpus: vec![allowed[0], 900], ..two(EngineKind::Interp, PollMode::Busy) };
    let (a, received) = MemPort::default().collect();
    let ports = [
        PortConfig::new("a", 0, Driver::Mem(a)),
        PortConfig::new("b", 1, Driver::Mem(MemPort::generator(flows(1), 64))),
    ];
    let error = Instance::start(forward_program(), &options, &ports).unwrap_err().to_string();
    assert!(error.starts_with("CPU 900: cannot run a worker there: "), "{error}");
    assert!(received.lock().unwrap().is_empty());
}

#[test]
fn where_threads_run() {
    let allowed = sys::allowed_cpus().unwrap();
    let ports = [PortConfig::new("a", 0, Driver::Mem(MemPort::generator(flows(1), u64::MAX)))];
    let options = two(EngineKind::Native(OptLevel::O0, Level::Base), PollMode::Busy);
    let instance = Instance::start(forward_program(), &options, &ports).unwrap();
    let start = Instant::now();
    let mut pinned = BTreeMap::new();
    while pinned.len() < 2 {
        assert!(start.elapsed() < Duration::from_secs(20), "{pinned:?}");
        for task in std::fs::read_dir("/proc/self/task").unwrap() {
            // Threads of other tests come and go.
            let read =
                |file: &str| std::fs::read_to_string(task.as_ref().unwrap().path().join(file)).unwrap_or_default();
            let status = read("status");
            let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t"));
            if let (Some(worker), Some(cpu)) = (read("comm").trim().strip_prefix("worker-"), allowed)
                && let Ok(cpu) = cpu.parse::<usize>()
            {
                pinned.insert(worker.to_owned(), cpu);
            }
        }
    }
    assert_eq!(pinned.into_values().collect::<Vec<_>>(), [allowed[0], allowed[1]]);
    whole(&instance.stop());
}

#[test]
fn counters_are_read_while_all_workers_count() {
    let a = PortConfig::new("a", 0, Driver::Mem(MemPort::generator(flows(3), u64::MAX)));
    let b = PortConfig::new("b", 1, Driver::Mem(MemPort::default()));
    let options = two(EngineKind::NATIVE, PollMode::Interrupt);
    let instance = Instance::start(forward_program(), &options, &[a, b]).unwrap();
    let (observer, stop) = (instance.observer(), AtomicBool::new(false));
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut before = observer.snapshot();
            while !stop.load(Ordering::Relaxed) {
                let now = observer.snapshot();
                assert!(now.channel("rx") >= before.channel("rx") && now.channel("m.out") >= before.channel("m.out"));
                before = now;
            }
        });
        std::thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
        instance.stop()
    });
    whole(&report);
    let received = report.snapshot.port("a").unwrap().rx_packets;
    assert!(received > 10_000);
    assert_eq!((report.snapshot.channel("rx"), report.snapshot.user[0].1[0]), (received, received));
    assert_eq!(report.snapshot.port("b").unwrap().tx_packets, report.snapshot.channel("m.out"));
    assert_eq!(report.snapshot.channel("m.host"), 0, "{TO_HOST:x}");
}

//! Whole instances between ports in memory, with every engine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baker::ir::{Program, TableEntry, TableId, TableStore};
use baker::opt::Level;
use codegen::OptLevel;

use crate::ports::{Driver, MemPort, MemSink};
use crate::testing::{TO_DROP, TO_HOST, TWICE, forward, forward_program, frame};
use crate::{
    EngineKind, FrameConfig, FrameError, FramePool, Instance, Options, PollMode, PortConfig, Report, StartError,
};

const ENGINES: [EngineKind; 3] =
    [EngineKind::Interp, EngineKind::Native(OptLevel::O0, Level::Base), EngineKind::NATIVE];

fn options(engine: EngineKind) -> Options {
    Options { engine, frames: FrameConfig { count: 512, ..FrameConfig::default() }, ..Options::default() }
}

/// Packets of all kinds and lengths.
fn mixed(count: u32) -> Vec<Vec<u8>> {
    let kind = |n: u32| [0x0800, 0x86dd, TO_HOST, TO_DROP, TWICE, 0x0800, 0x88f7][n as usize % 7];
    (0..count).map(|n| frame(kind(n), n % 50, 14 + (n as usize * 37) % 1501)).collect()
}

fn kind(packet: &[u8]) -> u16 {
    u16::from_be_bytes([packet[12], packet[13]])
}

/// Ports a (generates) and b (keeps), and h, the host port of a.
fn three_ports(packets: Vec<Vec<u8>>, count: u64) -> (Vec<PortConfig>, MemSink, MemSink) {
    let (b, sent) = MemPort::default().collect();
    let (h, host) = MemPort::default().collect();
    let mut a = PortConfig::new("a", 0, Driver::Mem(MemPort::generator(packets, count)));
    a.host = Some(7);
    let ports = vec![a, PortConfig::new("b", 1, Driver::Mem(b)), PortConfig::new("h", 7, Driver::Mem(h))];
    (ports, sent, host)
}

fn run(program: Arc<Program>, options: &Options, ports: &[PortConfig]) -> Report {
    let report = Instance::start(program, options, ports).unwrap().wait();
    assert_eq!(report.errors, [""; 0]);
    assert_eq!(report.free_frames, report.frames, "all frames are back");
    report
}

#[test]
fn every_engine_forwards_the_same_in_order() {
    let packets = mixed(1000);
    let to_tx = |p: &&Vec<u8>| kind(p) != TO_HOST && kind(p) != TO_DROP;
    let mut expected = Vec::new();
    for packet in packets.iter().filter(to_tx) {
        expected.extend(std::iter::repeat_n(packet.clone(), if kind(packet) == TWICE { 2 } else { 1 }));
    }
    let to_host: Vec<_> = packets.iter().filter(|p| kind(p) == TO_HOST).cloned().collect();
    let dropped = packets.iter().filter(|p| kind(p) == TO_DROP).count() as u64;
    let bytes = |packets: &[Vec<u8>]| packets.iter().map(|p| p.len() as u64).sum::<u64>();
    for engine in ENGINES {
        for poll in [PollMode::Busy, PollMode::Interrupt] {
            let (ports, sent, host) = three_ports(packets.clone(), 1000);
            let report = run(forward_program(), &Options { poll, ..options(engine) }, &ports);
            assert!(*sent.lock().unwrap() == expected, "{engine:?}");
            assert!(*host.lock().unwrap() == to_host, "{engine:?}");
            let snapshot = report.snapshot;
            let tx = expected.len() as u64;
            let channels = [("rx", 1000), ("m.out", tx), ("m.host", to_host.len() as u64)];
            assert_eq!(snapshot.channels, channels.map(|(name, count)| (name.to_owned(), count)), "{engine:?}");
            assert_eq!(snapshot.ppfs, [("m.forward".to_owned(), 1000)]);
            assert_eq!(snapshot.user, [("m.seen".to_owned(), vec![1000, 0, 0, 0])]);
            assert_eq!(snapshot.dropped("unwanted"), dropped);
            assert_eq!(snapshot.drops.iter().map(|(_, n)| n).sum::<u64>(), dropped);
            assert_eq!(snapshot.tables_full, [("m.macs".to_owned(), 0)]);
            let (a, b) = (snapshot.port("a").unwrap(), snapshot.port("b").unwrap());
            assert_eq!((a.rx_packets, a.rx_bytes, a.tx_packets), (1000, bytes(&packets), 0));
            assert_eq!((b.tx_packets, b.tx_bytes, b.rx_packets), (tx, bytes(&expected), 0));
        }
    }
}

#[test]
fn tables_are_the_same_whatever_the_engine() {
    let mut dumps = Vec::new();
    for engine in ENGINES {
        let (ports, ..) = three_ports(mixed(500), 500);
        let prepared = Instance::prepare(forward_program(), &options(engine), &ports).unwrap();
        let mut tables = prepared.tables();
        let entry = |key: u128, port| TableEntry { key: vec![key], prefix_len: None, value: vec![port] };
        tables.insert(TableId(0), &entry(42, 3)).unwrap();
        let instance = prepared.run().unwrap();
        let tables = instance.tables();
        instance.wait();
        let dump = tables.dump(TableId(0));
        assert_eq!(dump.len(), 51, "50 source addresses and the one given");
        assert!(dump.contains(&entry(42, 3)) && dump.contains(&entry(0x0200_0000_0031, 0)));
        dumps.push(dump);
    }
    assert!(dumps.iter().all(|dump| *dump == dumps[0]));
}

#[test]
fn a_full_table_is_counted() {
    for engine in ENGINES {
        let packets: Vec<_> = (0..100).map(|n| frame(0x0800, n, 60)).collect();
        let (ports, ..) = three_ports(packets, 100);
        let report = run(forward_program(), &options(engine), &ports);
        assert_eq!(report.snapshot.tables_full, [("m.macs".to_owned(), 100 - 64)], "{engine:?}");
    }
}

#[test]
fn few_frames_make_small_batches_but_lose_nothing() {
    for engine in ENGINES {
        for count in [2, 3, 4, 65, 130] {
            let (ports, sent, _) = three_ports(vec![frame(TWICE, 1, 60)], 500);
            let frames = FrameConfig { count, ..FrameConfig::default() };
            let report = run(forward_program(), &Options { frames, ..options(engine) }, &ports);
            assert_eq!((sent.lock().unwrap().len(), report.frames), (1000, count));
        }
    }
}

#[test]
fn drops_have_reasons() {
    for engine in ENGINES {
        // Port 2 sends to 3, which is not there; its packets for the host have no host port.
        let packets = vec![frame(0x0800, 1, 60), frame(TO_HOST, 2, 60), vec![1; 13], vec![], vec![1; 2000]];
        let port = PortConfig::new("lonely", 2, Driver::Mem(MemPort::generator(packets, 50)));
        let report = run(forward_program(), &options(engine), &[port]);
        let dropped = |reason| report.snapshot.dropped(reason);
        assert_eq!((dropped("no_port"), dropped("no_host"), dropped("truncated")), (10, 10, 20), "{engine:?}");
        let port = report.snapshot.port("lonely").unwrap();
        assert_eq!((port.oversize, port.rx_packets), (10, 40));

        let packets = vec![frame(0x0800, 1, 60), frame(0x0800, 1, 1200), frame(0x0800, 1, 1000)];
        let a = PortConfig::new("a", 0, Driver::Mem(MemPort::generator(packets, 30)));
        let (narrow, sent) = MemPort::default().fail_above(1000).collect();
        let report = run(forward_program(), &options(engine), &[a, PortConfig::new("b", 1, Driver::Mem(narrow))]);
        assert_eq!((report.snapshot.dropped("tx_failed"), report.snapshot.port("b").unwrap().tx_failed), (10, 10));
        assert_eq!(sent.lock().unwrap().len(), 20, "those after the failed one are sent");
    }
}

#[test]
fn stops_while_packets_arrive_and_counts_add_up() {
    for poll in [PollMode::Busy, PollMode::Interrupt] {
        let a = PortConfig::new("a", 0, Driver::Mem(MemPort::generator(mixed(700), u64::MAX)));
        let b = PortConfig::new("b", 1, Driver::Mem(MemPort::default()));
        let options = Options { poll, cpus: vec![0], ..options(EngineKind::NATIVE) };
        let instance = Instance::start(forward_program(), &options, &[a, b]).unwrap();
        let start = Instant::now();
        while instance.snapshot().port("b").unwrap().tx_packets < 100_000 {
            assert!(start.elapsed() < Duration::from_secs(20) && instance.is_running());
            std::thread::yield_now();
        }
        let mut tables = instance.tables();
        let entry = TableEntry { key: vec![99], prefix_len: None, value: vec![9] };
        tables.insert(TableId(0), &entry).unwrap();
        let report = instance.stop();
        assert_eq!((report.free_frames, report.errors.len()), (report.frames, 0));
        let snapshot = report.snapshot;
        let received = snapshot.port("a").unwrap().rx_packets;
        let kinds = |channel| snapshot.channel(channel);
        let twice = kinds("m.out") + kinds("m.host") + snapshot.dropped("unwanted") - received;
        assert!(twice > 0 && twice < received / 6, "each received packet left once or twice");
        assert_eq!(snapshot.dropped("no_host"), kinds("m.host"));
        assert_eq!(snapshot.port("b").unwrap().tx_packets, kinds("m.out"));
        assert!(tables.dump(TableId(0)).contains(&entry));
    }
}

#[test]
fn start_errors_say_what_to_do() {
    let mem = |name: &str, number| PortConfig::new(name, number, Driver::Mem(MemPort::default()));
    let error = |options: Options, ports: &[PortConfig]| {
        let result = Instance::start(forward_program(), &options, ports);
        result.expect_err("refused").to_string()
    };
    let native = || options(EngineKind::Native(OptLevel::O0, Level::Base));
    let text = error(native(), &[mem("a", 1), mem("b", 1)]);
    assert_eq!(text, "ports a and b both have number 1: give each its own");
    let text = error(native(), &[mem("a", 1), mem("a", 2)]);
    assert_eq!(text, "two ports are named a: give each its own name");
    let text = error(native(), &[PortConfig { host: Some(9), ..mem("a", 1) }]);
    assert_eq!(text, "port a: its host port has number 9, but there is no such port");
    let text = error(Options { cpus: vec![900], ..native() }, &[mem("a", 1)]);
    assert!(text.starts_with("CPU 900: cannot run a worker there: "), "{text}");
    let missing = Driver::AfPacket { interface: "absent0".into() };
    let text = error(native(), &[PortConfig::new("a", 1, missing)]);
    let expected = "port a: absent0: there is no such interface in this network namespace (see `ip link`)";
    assert_eq!(text, expected);
}

#[test]
fn frames_are_checked() {
    let mut program = forward();
    let mut make = |count, frame_size, headroom, pushed| {
        program.limits.headroom = pushed;
        FramePool::new(&program, FrameConfig { count, frame_size, headroom })
    };
    assert!(matches!(make(8, 1000, 0, 0), Err(FrameError::Size(1000))));
    assert!(matches!(make(8, 256, 0, 0), Err(FrameError::Size(256))));
    assert!(matches!(make(8, 1 << 17, 0, 0), Err(FrameError::Size(_))));
    assert!(matches!(make(8, 512, 500, 0), Err(FrameError::Headroom { headroom: 512, .. })));
    assert!(matches!(make(8, 512, 0, u32::MAX), Err(FrameError::Headroom { .. })));
    assert!(matches!(make(1, 2048, 0, 0), Err(FrameError::TooFew { least: 2, .. })));
    let pool = make(8, 2048, 10, 130).unwrap();
    assert_eq!((pool.headroom(), pool.max_packet(), pool.free_frames()), (192, 2048 - 192, 8));
    assert!(matches!(StartError::from(FrameError::Size(3)), StartError::Frames(_)));
}

#[test]
fn measures_engines_over_the_same_packets() {
    let mut results = BTreeMap::new();
    for (index, engine) in ENGINES.into_iter().enumerate() {
        let fill = |tables: &mut crate::TableAccess| {
            let entry = TableEntry { key: vec![1], prefix_len: None, value: vec![1] };
            tables.insert(TableId(0), &entry).map_err(|e| e.to_string())
        };
        let measured = crate::bench::in_memory(&forward_program(), engine, 0, fill, &mixed(150), 10).unwrap();
        assert_eq!(measured.packets, 1500);
        assert!(measured.ns_per_packet > 0.0);
        results.insert(index, (measured.outputs, measured.snapshot));
    }
    assert_eq!(results[&0], results[&1]);
    assert_eq!(results[&0], results[&2]);
    let refused = |_: &mut crate::TableAccess| Err("no".to_owned());
    let error = crate::bench::in_memory(&forward_program(), ENGINES[0], 0, refused, &[], 1).unwrap_err();
    assert_eq!(error.to_string(), "no");
}

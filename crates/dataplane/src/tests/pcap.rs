//! Capture files: what is read and written, and what is refused.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use baker::opt::Level;
use codegen::OptLevel;

use crate::ports::{Captured, Driver, MemPort};
use crate::testing::{TO_DROP, TO_HOST, TWICE, forward_program, frame};
use crate::{EngineKind, Instance, Options, PortConfig, ReplayError, ReplayInput, ReplayOutputs, ReplayReport, replay};

/// A directory of one test, removed at its end.
struct Dir(PathBuf);

impl Dir {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("millrace-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Dir(path)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn header(magic: u32, link: u32) -> Vec<u8> {
    let mut bytes = magic.to_le_bytes().to_vec();
    bytes.extend([2, 0, 4, 0]);
    for word in [0, 0, 65535, link] {
        bytes.extend(u32::to_le_bytes(word));
    }
    bytes
}

fn record(second: u32, fraction: u32, packet: &[u8], original: u32) -> Vec<u8> {
    let words = [second, fraction, packet.len() as u32, original];
    let mut bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    bytes.extend(packet);
    bytes
}

fn capture(magic: u32, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = header(magic, 1);
    for (index, packet) in packets.iter().enumerate() {
        bytes.extend(record(100 + index as u32, 5, packet, packet.len() as u32));
    }
    bytes
}

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;

fn run(input: &Path, output: Option<&Path>) -> Result<ReplayReport, String> {
    let engine = EngineKind::Native(OptLevel::O0, Level::Base);
    over(engine, input, output).map_err(|error| error.to_string())
}

/// All packets come in on port 4.
fn over(engine: EngineKind, input: &Path, output: Option<&Path>) -> Result<ReplayReport, ReplayError> {
    let inputs = vec![ReplayInput { path: input, entries: Box::new(|_: &Captured| Ok(Some(4))) }];
    let outputs = ReplayOutputs { file: output, ..ReplayOutputs::default() };
    replay(&forward_program(), engine, inputs, None, |_| Ok(()), outputs)
}

#[test]
fn replay_writes_what_leaves_in_order() {
    let dir = Dir::new("replay");
    let packets = vec![
        frame(0x0800, 1, 60),
        frame(TO_HOST, 2, 42),
        frame(TO_DROP, 3, 60),
        frame(TWICE, 4, 1514),
        vec![0; 13],
        frame(0x0800, 5, 40_000),
    ];
    for (magic, nanoseconds) in [(MICROSECONDS, 5000), (NANOSECONDS, 5)] {
        let input = dir.file("in.pcap", &capture(magic, &packets));
        let output = dir.0.join("out.pcap");
        let report = run(&input, Some(&output)).unwrap();
        assert_eq!((report.received, report.tx, report.host, report.oversize), (6, 4, 1, 0));
        assert_eq!((report.snapshot.dropped("unwanted"), report.snapshot.dropped("truncated")), (1, 1));
        let mut expected = header(NANOSECONDS, 1);
        expected[16..20].copy_from_slice(&262_144u32.to_le_bytes());
        for index in [0, 1, 3, 3, 5] {
            let packet = &packets[index];
            expected.extend(record(100 + index as u32, nanoseconds, packet, packet.len() as u32));
        }
        assert!(std::fs::read(&output).unwrap() == expected);
        let interp = over(EngineKind::Interp, &input, Some(&output)).unwrap();
        assert_eq!(interp, report);
        assert!(std::fs::read(&output).unwrap() == expected);
    }
}

#[test]
fn bad_files_have_clear_errors() {
    let dir = Dir::new("bad");
    let error = |name: &str, bytes: &[u8]| {
        let path = dir.file(name, bytes);
        let text = run(&path, None).unwrap_err();
        assert!(!text.contains('\n') && text.starts_with(path.to_str().unwrap()), "{text}");
        text
    };
    let good = capture(MICROSECONDS, &[frame(0x0800, 1, 60), frame(0x0800, 2, 60)]);
    assert!(error("empty", b"").contains("neither a pcap nor a pcapng file"));
    assert!(error("text", b"hello, this is no capture at all").contains("neither a pcap nor a pcapng file"));
    assert!(error("pcapng", &[0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0]).contains("not a pcapng file"));
    assert!(error("short-header", &good[..20]).contains("neither a pcap nor a pcapng file"));
    assert!(error("link", &header(MICROSECONDS, 101)).contains("link type 101: only Ethernet (1) is supported"));
    // What is damaged or was cut is passed over and told; where nothing else is there, that is an error.
    let skipped = |name: &str, bytes: &[u8], received: u64| {
        let report = run(&dir.file(name, bytes), None).unwrap();
        assert_eq!(report.received, received, "{name}");
        report.skipped.concat()
    };
    assert!(skipped("cut", &good[..good.len() - 1], 1).contains("the last packet, within which the file ends"));
    assert!(skipped("cut-header", &good[..24 + 76 + 8], 1).contains("the last packet, within which the file ends"));
    let mut truncated = good.clone();
    truncated.extend(record(1, 1, &frame(0x0800, 1, 60), 1500));
    assert!(skipped("caplen", &truncated, 2).contains("(packet 3: only 60 of 1500 bytes"));
    let mut huge = good.clone();
    huge.extend([1, 0, 0, 0, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0x7f]);
    assert!(skipped("huge", &huge, 2).contains("1 damaged place (behind packet 2, at byte 176)"));
    let nothing = error("nothing", &good[..50]);
    assert!(nothing.contains("no packet of it can be used: passed over the last packet"), "{nothing}");
    let absent = run(&dir.0.join("absent"), None).unwrap_err();
    assert!(absent.contains("cannot be opened"), "{absent}");
    let unwritable = run(&dir.file("good", &good), Some(&dir.0)).unwrap_err();
    assert!(unwritable.contains("cannot be written"), "{unwritable}");
}

#[test]
fn ports_over_files() {
    let dir = Dir::new("ports");
    let packets: Vec<_> = (0..300).map(|n| frame(0x0800, n, 60 + n as usize)).collect();
    let input = dir.file("in.pcap", &capture(NANOSECONDS, &packets));
    let output = dir.0.join("out.pcap");
    let pcap = |input: Option<&Path>, output: Option<&Path>| Driver::Pcap {
        input: input.map(Path::to_owned),
        output: output.map(Path::to_owned),
    };
    let options = Options::default();
    let ports = [PortConfig::new("a", 0, pcap(Some(&input), None)), PortConfig::new("b", 1, pcap(None, Some(&output)))];
    let report = Instance::start(forward_program(), &options, &ports).unwrap().wait();
    assert_eq!((report.errors.len(), report.free_frames), (0, report.frames));
    // What was written is read back through another instance.
    let (sink, seen) = MemPort::default().collect();
    let ports = [PortConfig::new("a", 0, pcap(Some(&output), None)), PortConfig::new("b", 1, Driver::Mem(sink))];
    Instance::start(forward_program(), &options, &ports).unwrap().wait();
    assert!(*seen.lock().unwrap() == packets);

    let cut = dir.file("cut.pcap", &capture(NANOSECONDS, &packets)[..2000]);
    let ports = [PortConfig::new("a", 0, pcap(Some(&cut), None))];
    let report = Instance::start(Arc::clone(&forward_program()), &options, &ports).unwrap().wait();
    // It is no failure, but it is told.
    assert_eq!((report.errors.len(), report.snapshot.ports[0].rx_packets), (0, 22));
    let told = report.snapshot.ports[0].error.clone().unwrap();
    assert!(
        told.contains("cut.pcap: passed over the last packet, within which the file ends (behind packet 22"),
        "{told}"
    );
    // The first example as a pcapng file: a section, an interface, a packet.
    let block = |kind: u32, body: &[u8]| {
        let len = (body.len() as u32 + 12).to_le_bytes();
        [&kind.to_le_bytes()[..], &len, body, &len].concat()
    };
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let section = block(0x0a0d_0d0a, &words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]));
    let enhanced = |packet: &[u8]| block(6, &[words(&[0, 0, 5, 60, 60]), packet.to_vec()].concat());
    let file = [section, block(1, &words(&[1, 0])), enhanced(&packets[0])].concat();
    let pcapng = dir.file("called.pcap", &file);
    let (sink, seen) = MemPort::default().collect();
    let ports = [PortConfig::new("a", 0, pcap(Some(&pcapng), None)), PortConfig::new("b", 1, Driver::Mem(sink))];
    Instance::start(forward_program(), &options, &ports).unwrap().wait();
    assert!(*seen.lock().unwrap() == packets[..1]);
}

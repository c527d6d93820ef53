//! Captures, read back.

use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use lab::{Capture, Generator, LinkConfig, RawPort, Tap, Traffic};
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::blocks::interface_statistics::InterfaceStatisticsOption;
use pcap_file::pcapng::{Block, PcapNgReader};

use crate::common::{PATIENCE, eventually, pair};

/// A file's path, removed when dropped.
struct Path(PathBuf);

impl Path {
    fn new(name: &str) -> Path {
        Path(std::env::temp_dir().join(format!("lab-{}-{name}.pcapng", std::process::id())))
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn both_ends_of_a_link_are_captured_with_names_times_and_directions() {
    let (a, b) = pair(&LinkConfig::port());
    let path = Path::new("both");
    let before = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let taps = [("a:eth0", &a), ("b:eth0", &b)].map(|(label, namespace)| Tap {
        namespace,
        device: "eth0",
        label,
        mtu: 1500,
        mirrored: false,
    });
    let capture = Capture::start(&taps, &path.0).unwrap();
    // A raw socket and not a generator, whose frames are not seen where they go out.
    let port = RawPort::open(&a, "eth0").unwrap();
    for number in 0..1000 {
        let mut frame = vec![0xff; if number % 2 == 0 { 60 } else { 1514 }];
        frame[12..14].copy_from_slice(&[0x88, 0xb5]);
        port.send(&frame).unwrap();
    }
    eventually("all are captured at both ends", || capture.captured().packets >= 2000);
    let captured = capture.stop().unwrap();
    assert_eq!((captured.packets, captured.dropped), (2000, 0));
    let after = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();

    let mut reader = PcapNgReader::new(File::open(&path.0).unwrap()).unwrap();
    let (mut names, mut packets, mut statistics) = (Vec::new(), [0, 0], Vec::new());
    let (mut last, mut nanoseconds) = (Duration::ZERO, false);
    while let Some(block) = reader.next_block() {
        match block.unwrap() {
            Block::InterfaceDescription(device) => {
                assert!(device.options.contains(&InterfaceDescriptionOption::IfTsResol(9)));
                names.extend(device.options.iter().find_map(|option| match option {
                    InterfaceDescriptionOption::IfName(name) => Some(name.to_string()),
                    _ => None,
                }));
            }
            Block::EnhancedPacket(packet) => {
                let expected = if packets[packet.interface_id as usize] % 2 == 0 { 60 } else { 1514 };
                assert_eq!((packet.original_len, packet.data.len()), (expected, expected as usize));
                packets[packet.interface_id as usize] += 1;
                assert!(packet.timestamp >= before && packet.timestamp <= after, "{:?}", packet.timestamp);
                last = packet.timestamp;
                nanoseconds |= last.subsec_nanos() % 1000 != 0;
                // Out at a, in at b.
                let direction = format!("{:?}", packet.options);
                let flags = if packet.interface_id == 0 { "Flags(2)" } else { "Flags(1)" };
                assert!(direction.contains(flags), "{direction}");
            }
            Block::InterfaceStatistics(end) => {
                assert!(end.options.contains(&InterfaceStatisticsOption::IsbIfRecv(1000)), "{end:?}");
                assert!(end.options.contains(&InterfaceStatisticsOption::IsbIfDrop(0)), "{end:?}");
                // Upper half first, as the standard has it.
                statistics.push(Duration::from_nanos(end.timestamp.rotate_left(32)));
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((names, packets), (vec!["a:eth0".to_owned(), "b:eth0".to_owned()], [1000, 1000]));
    assert!(nanoseconds, "all stamps are whole microseconds");
    assert_eq!(statistics.len(), 2);
    assert!(statistics.iter().all(|time| *time >= last && *time <= after), "{statistics:?}");
}

#[test]
fn a_capture_can_be_read_while_it_goes_on_and_a_bad_path_is_named() {
    let (a, b) = pair(&LinkConfig::port());
    let tap = Tap { namespace: &b, device: "eth0", label: "b:eth0", mtu: 1500, mirrored: false };
    let error = Capture::start(&[tap], "/nonexistent/x.pcapng".as_ref()).err().unwrap();
    assert!(error.to_string().contains("/nonexistent/x.pcapng"), "{error}");
    let path = Path::new("growing");
    let capture = Capture::start(&[tap], &path.0).unwrap();
    let mut frame = vec![0xff; 60];
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    Generator::start(&a, "eth0", Traffic::frames([frame]).unwrap().count(5)).unwrap().wait(PATIENCE).unwrap();
    eventually("the packets are in the file", || {
        let mut reader = PcapNgReader::new(File::open(&path.0).unwrap()).unwrap();
        let mut packets = 0;
        while let Some(Ok(block)) = reader.next_block() {
            packets += usize::from(matches!(block, Block::EnhancedPacket(_)));
        }
        packets == 5
    });
    drop(capture);
}

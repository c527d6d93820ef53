//! Access modes of whole instances: the same packets leave, and every frame comes back.

use std::sync::Arc;

use baker::ir::Program;
use baker::opt::Level;
use codegen::OptLevel;

use crate::ports::{Driver, MemPort, MemSink};
use crate::testing::{TO_DROP, TO_HOST, TWICE, compiled, forward_program, frame};
use crate::{Access, EngineKind, FrameConfig, Instance, Options, PortConfig, Report};

const ENGINES: [EngineKind; 3] =
    [EngineKind::Interp, EngineKind::Native(OptLevel::O0, Level::Base), EngineKind::NATIVE];

/// Ports a (generates) and b (keeps), and h, the host port of a.
fn ports(packets: &[Vec<u8>], count: u64, access: Access) -> (Vec<PortConfig>, [MemSink; 2]) {
    let (b, sent) = MemPort::default().collect();
    let (h, host) = MemPort::default().collect();
    let a = PortConfig::new("a", 0, Driver::Mem(MemPort::generator(packets.to_vec(), count)));
    let a = PortConfig { host: Some(7), access, ..a };
    (vec![a, PortConfig::new("b", 1, Driver::Mem(b)), PortConfig::new("h", 7, Driver::Mem(h))], [sent, host])
}

fn run(program: &Arc<Program>, options: &Options, ports: &[PortConfig]) -> Report {
    let report = Instance::start(program.clone(), options, ports).unwrap().wait();
    assert_eq!((&report.errors[..], report.free_frames), (&[][..], report.frames));
    report
}

/// What leaves by b and to the host, with one worker.
fn passed(program: &Arc<Program>, engine: EngineKind, packets: &[Vec<u8>], access: Access) -> [Vec<Vec<u8>>; 2] {
    let frames = FrameConfig { count: 512, frame_size: 4096, ..FrameConfig::default() };
    let (ports, sinks) = ports(packets, packets.len() as u64, access);
    run(program, &Options { engine, frames, ..Options::default() }, &ports);
    sinks.map(|sink| std::mem::take(&mut *sink.lock().unwrap()))
}

/// Packets of all kinds and lengths, longer than headers and shorter.
fn mixed(count: u32) -> Vec<Vec<u8>> {
    let kind = |n: u32| [0x0800, 0x86dd, TO_HOST, TO_DROP, TWICE, 0x0800, 0x88f7][n as usize % 7];
    (0..count).map(|n| frame(kind(n), n % 50, 14 + (n as usize * 37) % 3000)).collect()
}

/// Takes 20 bytes off, puts 14 others on, and sends what it was and what it became, twice each; and a packet of its own
/// in between.
const RESHAPE: &str = "import \"net/ether\";
protocol tag { a : 64; b : 64; c : 32; demux { 20 }; }
module m {
    in ether input;
    out ether output;
    channel tag tags;
    ppf work(ether_packet_t *pkt) from input {
        pkt->metadata.tx.port = 1;
        channel_put(output, packet_copy(pkt));
        pkt->src = pkt->src + 1;
        ether_packet_t *own = packet_create();
        own->metadata.tx.port = 1;
        own->type = pkt->type;
        if (packet_grow_tail(own, 200)) own->dst = 7;
        channel_put(output, own);
        tag_packet_t *tag = packet_decap(pkt);
        tag->c = 5;
        tag_packet_t *copy = packet_copy(tag);
        tag->b = 3;
        if (tag->a == 9) { packet_drop(copy, malformed); packet_drop(tag, malformed); return; }
        if (packet_trim_tail(copy, 2)) tag->b = 4;
        channel_put(tags, copy);
        channel_put(tags, tag);
    }
    ppf on(tag_packet_t *tag) from tags {
        ether_packet_t *pkt = packet_encap(tag);
        pkt->type = 0x0101;
        channel_put(output, pkt);
    }
}
program { rx -> m.input; m.output -> tx; }
";

#[test]
fn the_same_packets_leave_in_every_mode() {
    let packets = mixed(700);
    for program in [forward_program(), compiled(RESHAPE)] {
        let expected = passed(&program, EngineKind::Interp, &packets, Access::InPlace);
        assert!(expected[0].len() >= 400);
        for engine in ENGINES {
            for access in Access::ALL {
                assert!(
                    passed(&program, engine, &packets, access) == expected,
                    "{}, {engine:?}, {access}",
                    program.name
                );
            }
        }
    }
}

#[test]
fn ports_of_one_instance_have_modes_of_their_own_and_workers_memory_of_theirs() {
    let program = forward_program();
    for workers in [1, 2] {
        // Two ports that send each other everything.
        let modes = [Access::Copy, Access::HeaderCopy];
        let generator = || Driver::Mem(MemPort::generator(mixed(500), 100_000));
        let port = |(number, access): (u8, Access)| PortConfig {
            access,
            ..PortConfig::new(["a", "b"][number as usize], number, generator())
        };
        let ports: Vec<_> = (0..).zip(modes).map(port).collect();
        let frames = FrameConfig { frame_size: 4096, ..FrameConfig::default() };
        let report = run(&program, &Options { frames, workers, ..Options::default() }, &ports);
        let sent = |port: &str| report.snapshot.port(port).unwrap().tx_packets;
        // Of seven packets one goes nowhere, one to a host that is not there, and one leaves twice.
        let expected = 100_000 - report.snapshot.dropped("no_host") / 2 - report.snapshot.dropped("unwanted") / 2
            + mixed(500).iter().filter(|p| p[12..14] == TWICE.to_be_bytes()).count() as u64 * 200;
        assert_eq!((sent("a"), sent("b")), (expected, expected), "{workers} workers");
    }
}

#[test]
fn an_instance_says_how_much_it_copies() {
    let notes = |program: &Arc<Program>, engine: EngineKind, access: Access| {
        let (ports, _) = ports(&[], 0, access);
        let options = Options { engine, ..Options::default() };
        Instance::prepare(program.clone(), &options, &ports).unwrap().notes().to_vec()
    };
    let program = forward_program();
    assert_eq!(notes(&program, EngineKind::NATIVE, Access::InPlace), [""; 0]);
    assert_eq!(
        notes(&program, EngineKind::NATIVE, Access::HeaderCopy),
        ["port a: the first 14 bytes of packets are copied (access = \"header-copy\")"]
    );
    let whole = "port a: packets are copied whole (access = \"header-copy\"), because the program's reach into them has no bound";
    assert_eq!(notes(&program, EngineKind::Interp, Access::HeaderCopy), [whole]);
    assert_eq!(
        notes(&program, EngineKind::NATIVE, Access::Copy),
        ["port a: packets are copied into host memory and out again (access = \"copy\")"]
    );
}

#[test]
fn names_are_read_as_they_are_shown() {
    for access in Access::ALL {
        assert_eq!(access.to_string().parse(), Ok(access));
    }
    let error = "zero".parse::<Access>().unwrap_err();
    assert_eq!(error, "\"zero\" is not an access mode; use one of copy, in-place, header-copy");
}

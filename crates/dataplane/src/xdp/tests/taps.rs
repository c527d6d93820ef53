//! Copies that leave the kernel by a ring: what is in a record, its classes, and where there is no place.

use baker::ir::{ChannelId, Op};
use baker::place::{Placement, Split, Stage, split};
use codegen::kernel::{TAP_BATCH, Tap};

use super::*;
use crate::xdp::TapRing;

/// Of all packets: a copy to a controller as they are after a change, with metadata of its own; one from the first byte
/// behind the header on to a PPF of workers; then a change that no copy has.
const TAPS: &str = "metadata { note : u32; mark : u16; }
    module m { in ether input; out ether output, all; channel inner inside; counter seen;
        ppf p(ether_packet_t *pkt) from input {
            pkt->type = 0x1234;
            pkt->metadata.mark = 9;
            ether_packet_t *copy = packet_copy(pkt);
            copy->metadata.note = 0x01020304;
            channel_put(all, copy);
            inner_packet_t *inner = packet_peek(pkt);
            channel_put(inside, packet_copy(inner));
            pkt->type = 0x5678;
            pkt->metadata.tx.port = pkt->metadata.rx.port;
            channel_put(output, pkt);
        }
        @worker ppf slow(inner_packet_t *i) from inside { counter_add(seen, 1); packet_drop(i, malformed); } }
    program { rx -> m.input; m.output -> tx; m.all -> controller c; }";

struct Tapped {
    split: Split,
    memory: SharedMemory,
    loaded: Loaded,
}

fn cut(text: &str) -> (Placement, Split) {
    let program = program(text);
    let limits = bpf::limits(&program);
    let placement = Placement::new(&program, &limits).unwrap();
    let split = split(&program, &placement, &limits);
    (placement, split)
}

impl Tapped {
    fn new(options: Options) -> Tapped {
        let (placement, split) = cut(TAPS);
        assert_eq!(placement.stages, [Stage::Kernel(Vec::new()), Stage::Pinned]);
        let channels: Vec<ChannelId> = placement.taps[0].iter().map(|tap| tap.channel).collect();
        assert_eq!(
            channels.iter().map(|id| split.kernel.channels[id.0 as usize].name.as_str()).collect::<Vec<_>>(),
            ["m.all", "m.inside"]
        );
        let memory = SharedMemory::new(&split.workers).unwrap();
        memory.set_port(LOOPBACK, PORT, None, true);
        let loaded = Loaded::compile(&split.kernel, Level::Cgpc, &memory, options).unwrap();
        Tapped { split, memory, loaded }
    }

    fn channel(&self, name: &str) -> u32 {
        self.split.kernel.channels.iter().position(|channel| channel.name == name).unwrap() as u32
    }

    fn lost(&self) -> u64 {
        self.memory.counter(CounterSlots::new(&self.split.workers).drop(DropId::TAP_FULL))
    }

    /// The copies of one packet: number of the channel, metadata, bytes.
    fn of(&self, ring: &TapRing) -> Vec<(u32, Vec<u8>, Vec<u8>)> {
        let mut found = Vec::new();
        ring.take(|record| {
            let (punt, metadata, packet) = Punt::read(&self.split.kernel, Tap::read(record).unwrap()).unwrap();
            assert_eq!((punt.generation, punt.head), (5, 0));
            found.push((punt.channel.into(), metadata.to_vec(), packet.to_vec()));
            true
        });
        found
    }

    fn metadata(&self, name: &str, from: &[u8]) -> u128 {
        let field = self.split.kernel.metadata.iter().find(|field| field.name == name).unwrap();
        let bytes = &from[field.offset as usize..][..field.width.div_ceil(8) as usize];
        bytes.iter().rev().fold(0, |value, byte| value << 8 | u128::from(*byte))
    }

    /// The packet's own bytes, and its copies, as they must be.
    fn check(&self, packet: &[u8], ran: &[u8], copies: &[(u32, Vec<u8>, Vec<u8>)]) {
        let typed = |high: u8, low: u8| [&packet[..12], &[high, low], &packet[14..]].concat();
        assert_eq!(ran, typed(0x56, 0x78));
        let [(all, of_all, whole), (inside, of_inside, inner)] = copies else { panic!("{} copies", copies.len()) };
        assert_eq!((*all, *inside), (self.channel("m.all"), self.channel("m.inside")));
        assert!(*whole == typed(0x12, 0x34) && inner == &packet[14..], "{} bytes", packet.len());
        let values = |metadata: &[u8]| ["note", "mark", "rx.port", "tx.port"].map(|name| self.metadata(name, metadata));
        assert_eq!(values(of_all), [0x01020304, 9, PORT.into(), 0]);
        assert_eq!(values(of_inside), [0, 9, PORT.into(), 0]);
    }
}

fn long(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + at / 251) as u8).collect()
}

#[test]
fn a_record_is_the_copy_and_the_packet_goes_on() {
    for (spill, apart) in [(false, false), (true, false), (false, true)] {
        let tapped = Tapped::new(Options { spill, apart, generation: 5, ..Options::default() });
        let ring = TapRing::new("test").unwrap();
        tapped.loaded.ports().set_rings([&ring]).unwrap();
        for bytes in [16, 60, 270, 271, 1514, 1550, 1551, 3000] {
            let packet = long(bytes);
            let ran = tapped.loaded.run(&packet).unwrap();
            assert_eq!(ran.verdict, Verdict::Transmit as u32);
            // The packet, and what is in front of it.
            assert!((bytes as u64..ring.size()).contains(&ring.waiting()), "{} bytes wait", ring.waiting());
            tapped.check(&packet, &ran.packet, &tapped.of(&ring));
            assert_eq!(ring.waiting(), 0);
        }
        assert_eq!(tapped.lost(), 0);
        let slots = CounterSlots::new(&tapped.split.workers);
        let counted = |name| tapped.memory.counter(slots.channel(ChannelId(tapped.channel(name))));
        assert_eq!([counted("m.all"), counted("m.inside"), counted("m.output")], [8; 3]);
    }
}

#[test]
fn a_copy_of_a_packet_in_fragments_is_whole() {
    let tapped = Tapped::new(Options { frags: true, generation: 5, ..Options::default() });
    let ring = TapRing::new("test").unwrap();
    tapped.loaded.ports().set_rings([&ring]).unwrap();
    for (bytes, first) in [(60, 60), (900, 64), (1500, 1500), (3000, 100), (9014, 3000), (9300, 64), (30000, 2000)] {
        let packet = long(bytes);
        let ran = match tapped.loaded.run_divided(&packet, first) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && first < bytes => {
                eprintln!("the kernel's test run divides no packets (Linux 6.18 does)");
                continue;
            }
            ran => ran.unwrap(),
        };
        assert_eq!(ran.verdict, Verdict::Transmit as u32);
        tapped.check(&packet, &ran.packet, &tapped.of(&ring));
    }
    assert_eq!(tapped.lost(), 0);
}

#[test]
fn without_a_place_the_copy_is_counted_and_the_packet_goes_on() {
    let tapped = Tapped::new(Options { generation: 5, ..Options::default() });
    let goes_on = || {
        let ran = tapped.loaded.run(&packet()).unwrap();
        assert_eq!((ran.verdict, &ran.packet[12..14]), (Verdict::Transmit as u32, &[0x56, 0x78][..]));
    };
    goes_on();
    assert_eq!(tapped.lost(), 2, "the queue has no ring");
    let ring = TapRing::with_bytes(4096, "test").unwrap();
    tapped.loaded.ports().set_rings([&ring]).unwrap();
    (0..20).for_each(|_| goes_on());
    let kept = tapped.of(&ring).len() as u64;
    assert_eq!(tapped.lost(), 2 + 40 - kept);
    // Records of the smallest class, of some 300 bytes with what is in front of them.
    assert!((12..16).contains(&kept), "{kept}");
    goes_on();
    assert_eq!((tapped.of(&ring).len(), tapped.lost()), (2, 42 - kept), "there is place again");
}

/// On the virtual machine, which counts wake-ups: one for so many copies.
#[test]
fn the_reader_is_woken_once_for_many() {
    let (_, split) = cut(TAPS);
    let memory = SharedMemory::private(&split.workers).unwrap();
    let object = bpf::compile(&split.kernel, Level::Cgpc, memory.memory(), Options::default()).unwrap();
    let mut machine = Machine::of(&object, &[], Map::Borrowed(memory.borrowed()));
    let mut copies = 0;
    for number in 1..=1000u64 {
        machine.run(&packet(), LOOPBACK, 0).unwrap();
        copies += machine.take_records().len() as u64;
        assert_eq!((copies, machine.wakes()), (2 * number, 2 * number / TAP_BATCH));
    }
    machine.ring_room = 0;
    machine.run(&packet(), LOOPBACK, 0).unwrap();
    assert_eq!((machine.take_records().len(), machine.wakes()), (0, 2000 / TAP_BATCH));
}

/// What is no tap: the copy goes to a port, its bytes are changed, or the packet is before it is put.
#[test]
fn which_copies_are_none() {
    let placed = |copies: &str, more: &str| {
        let text = format!(
            "metadata {{ note : u32; }}
            module m {{ in ether input; out ether output, all; channel ether other;
                ppf p(ether_packet_t *pkt) from input {{ {copies} channel_put(output, pkt); }}
                {more} ppf q(ether_packet_t *e) from other {{ channel_put(output, e); }} }}
            program {{ rx -> m.input; m.output -> tx; m.all -> controller c; }}"
        );
        let (placement, split) = cut(&text);
        let p = split.kernel.ppfs.iter().position(|ppf| ppf.name == "m.p").unwrap();
        let taps = split.kernel.ppfs[p].body.blocks.iter().flat_map(|block| &block.insts);
        let taps = taps.filter(|inst| matches!(inst.op, Op::Tap { .. })).count();
        assert_eq!(taps, placement.taps[p].len());
        (matches!(placement.stages[p], Stage::Kernel(_)), taps)
    };
    assert_eq!(placed("channel_put(all, packet_copy(pkt));", ""), (true, 1));
    assert_eq!(placed("channel_put(other, packet_copy(pkt));", "@worker"), (true, 1));
    assert_eq!(placed("channel_put(other, packet_copy(pkt));", ""), (false, 0), "its PPF runs in the kernel, too");
    assert_eq!(placed("channel_put(output, packet_copy(pkt));", ""), (false, 0));
    let with_copy =
        |between: &str| placed(&format!("ether_packet_t *c = packet_copy(pkt); {between} channel_put(all, c);"), "");
    assert_eq!(with_copy("c->metadata.note = 1; c->metadata.note = pkt->metadata.note + 1;"), (true, 1));
    assert_eq!(with_copy("u16 type = pkt->type; c->metadata.note = (u32) type;"), (true, 1));
    assert_eq!(with_copy("channel_put(all, packet_copy(pkt));"), (true, 2));
    assert_eq!(with_copy("c->type = 1;"), (false, 0));
    assert_eq!(with_copy("pkt->type = 1;"), (false, 0));
    assert_eq!(with_copy("pkt->metadata.note = 1;"), (false, 0));
    assert_eq!(with_copy("if (pkt->type == 1) c->metadata.note = 1;"), (false, 0));
    assert_eq!(with_copy("channel_put(all, packet_copy(c));"), (false, 0));
}

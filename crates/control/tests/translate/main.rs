//! apps/translate between models of a source and of a TCP client: every byte that the client reads is what the source
//! has sent at that place, or a null packet, without a hole and without a repetition.

mod blocks;
mod client;
#[path = "../../../../tests/support/compile.rs"]
mod common;
mod damage;
mod inputs;
mod link;
mod orders;
mod parts;
mod pictures;
mod scenes;
mod soak;
mod stream;
mod watch;
mod workers;
mod world;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use baker::ir::Program;
use baker::opt::Level;
use client::{ACK, Client, FIN, Options, RST, SYN};
use dataplane::EngineKind;
use stream::{number_of, payload};
use world::{HEAD, Scene, World};

fn program() -> Arc<Program> {
    static PROGRAM: OnceLock<Arc<Program>> = OnceLock::new();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../apps/translate/translate.baker");
    PROGRAM.get_or_init(|| common::compile(Path::new(path))).clone()
}

fn quiet() -> Scene {
    Scene {
        client: Options { sack: true, mss: 1460, delays: 40, scale: Some(7), buffer: 1 << 20, first: 1000, reneges: 0 },
        start: 0,
        delay: 10,
        loss: 0,
        reordered: 0,
        duplicated: 0,
        source_loss: 0,
        source_reordered: 0,
        source_duplicated: 0,
        source_late: 0,
        switches: 0,
        sequence: 65500,
        forms: false,
        sizes: false,
        bare: false,
        form: 0,
        outages: (0, 0),
        settings: [20, 500, 1000],
        start_ms: 0,
        pictures: false,
        rate_bytes: 131_600,
        fill: 0,
        policy: 0,
        rate: 2,
        period: 5,
        seed: 1,
        engine: EngineKind::NATIVE,
        reads: 1 << 20,
    }
}

/// Packets of the source that the client has, and null ones in their place.
#[derive(Debug, Default, PartialEq)]
struct Read {
    first: u32,
    packets: u32,
    nulls: u32,
    missing: u32,
}

/// What a client has read, checked.
fn read(data: &[u8]) -> Read {
    let body = data.strip_prefix(HEAD).expect("the head comes first");
    let mut read = Read::default();
    let mut last = None;
    for bytes in body.chunks(1316).filter(|bytes| bytes.len() == 1316) {
        if bytes.chunks(188).all(|ts| ts[..4] == [0x47, 0x1f, 0xff, 0x10] && ts[4..].iter().all(|byte| *byte == 0)) {
            read.nulls += 1;
            // One is in the place of a packet.
            last = last.map(|last: u32| last + 1);
            continue;
        }
        let number = number_of(bytes).0;
        assert_eq!(bytes, payload(number), "packet {number} is as the source has sent it");
        match last {
            None => read.first = number,
            Some(last) => {
                assert!(number > last, "{number} comes after {last}");
                read.missing += number - last - 1;
            }
        }
        (read.packets, last) = (read.packets + 1, Some(number));
    }
    read
}

#[test]
fn a_stream_without_loss_is_whole() {
    for engine in [EngineKind::Interp, EngineKind::NATIVE, EngineKind::Kernel(Level::Cgpc)] {
        let mut world = World::new(&program(), Scene { engine, ..quiet() });
        world.run(100);
        world.connect();
        world.run(1000);
        let read = read(&world.client.data);
        assert!(read.packets > 190, "{read:?}");
        assert!(world.counter("only.sent") > 190, "{} have gone straight", world.counter("only.sent"));
        assert_eq!((read.missing, read.nulls, world.client.duplicates), (0, 0, 0), "{read:?}");
    }
}

/// Streams for a while, then lets what is under way come home.
fn streamed(scene: Scene, ms: u64) -> (World, Read) {
    let mut world = World::new(&program(), scene);
    world.run(100);
    world.connect();
    world.run(ms);
    world.running = false;
    world.scene.loss = 0;
    world.run(3000);
    assert!(!world.client.reset, "a reset came");
    let read = read(&world.client.data);
    (world, read)
}

#[test]
fn what_is_lost_is_sent_again() {
    for (seed, (loss, delay)) in (1..).zip([(30, 10), (30, 100), (200, 5)]) {
        for sack in [true, false] {
            let client = Options { sack, ..quiet().client };
            let (world, read) = streamed(Scene { client, loss, delay, seed, ..quiet() }, 3000);
            assert!(read.packets > 400, "{read:?}");
            println!("loss {loss} delay {delay} sack {sack}: {read:?}, {} frames", world.sent);
        }
    }
}

#[test]
fn a_hostile_way_leaves_the_stream_whole() {
    for seed in 1..3 {
        let scene = Scene { loss: 20, reordered: 100, duplicated: 50, seed, delay: 15, ..quiet() };
        let (_, read) = streamed(scene, 4000);
        assert!(read.packets > 600, "{read:?}");
    }
}

#[test]
fn what_the_source_has_lost_is_no_hole() {
    let scene = Scene { source_loss: 30, source_reordered: 50, period: 3, ..quiet() };
    let (world, read) = streamed(scene, 3000);
    assert!(read.missing > 5 && read.packets > 900, "{read:?}");
    assert_eq!(read.nulls, 0);
    let (sent, got) = (world.source, read.packets);
    assert!(read.first + got + read.missing + 10 > sent, "{read:?} of {sent}");
}

/// Reasons of connections that have ended.
fn ends(world: &World) -> Vec<u8> {
    world.notices.iter().filter(|notice| notice[0] == 3).map(|notice| notice[1]).collect()
}

#[test]
fn a_client_that_stops_reading_loses_packets_and_no_bytes() {
    for buffer in [1000, 4000, 20000, 60000] {
        let client = Options { buffer, ..quiet().client };
        let mut world = World::new(&program(), Scene { client, delay: 5, ..quiet() });
        world.run(50);
        world.connect();
        world.run(500);
        world.scene.reads = 0;
        world.run(4000);
        world.scene.reads = 300;
        world.run(4000);
        world.running = false;
        world.run(3000);
        assert!(!world.client.reset);
        let read = read(&world.client.data);
        println!("buffer {buffer}: {read:?}, {} frames", world.sent);
        // A window that no segment fits into is sent beyond, once in a while.
        let least = if buffer < 1316 { 10 } else { 100 };
        assert!(read.packets > least && read.missing > 300, "{buffer}: {read:?}");
    }
}

#[test]
fn a_client_that_lets_go_of_what_it_had_gets_it_again() {
    for seed in 1..3 {
        let client = Options { reneges: 60, ..quiet().client };
        let (_, read) = streamed(Scene { client, loss: 30, seed, ..quiet() }, 3000);
        assert!(read.packets > 300, "{read:?}");
    }
}

#[test]
fn numbers_wrap_around() {
    // The time and the client's number change the cookie, which is the first number.
    let scene = |first: u32, period: u64| Scene {
        client: Options { first, ..quiet().client },
        start: period * 64_000_000_000 + 1_000_000_000,
        loss: 10,
        ..quiet()
    };
    let mut world = World::new(&program(), scene(0, 0));
    let mut base = |first: u32, period: u64| {
        world.scene.start = scene(first, period).start;
        world.base_for(first)
    };
    let period = (1..200_u64).step_by(2).find(|period| base(0, *period) >> 20 & 15 == 15).expect("a period");
    let near = (0..100_000).find(|first| base(*first, period) > u32::MAX - 400_000);
    let scene = |first: u32| scene(first, period);
    let (world, read) = streamed(scene(near.expect("a number near the end")), 4000);
    assert!(world.client.data.len() > 500_000 && read.packets > 500, "{read:?}");
}

#[test]
fn a_reset_ends_the_connection_only_with_the_exact_number() {
    let mut world = World::new(&program(), quiet());
    world.connect();
    world.run(200);
    let right = world.client.sent;
    world.client.sent = right.wrapping_add(5);
    let reset = world.client.segment(RST | ACK, &[]);
    world.client.sent = right;
    world.client_sends(vec![reset]);
    world.run(100);
    assert!(ends(&world).is_empty());
    let reset = world.client.segment(RST | ACK, &[]);
    world.client_sends(vec![reset]);
    world.run(100);
    assert_eq!(ends(&world), [2_u8]);
    let sent = world.sent;
    world.run(100);
    assert_eq!(world.sent, sent, "nothing is sent any more");
}

#[test]
fn a_half_closed_stream_stops() {
    let mut world = World::new(&program(), quiet());
    world.connect();
    world.run(200);
    let fin = world.client.segment(FIN | ACK, &[]);
    world.client_sends(vec![fin]);
    world.client.sent = world.client.sent.wrapping_add(1);
    world.run(100);
    assert!(world.client.finished, "our FIN has come");
    world.run(3000);
    assert_eq!(ends(&world), [1_u8]);
    read(&world.client.data);
}

#[test]
fn a_client_that_has_vanished_is_given_up() {
    let mut world = World::new(&program(), Scene { period: 50, ..quiet() });
    world.connect();
    world.run(500);
    world.deaf = true;
    world.run(130_000);
    assert_eq!(ends(&world), [3_u8]);
}

#[test]
fn a_document_comes_whole_and_ends() {
    for (loss, fill) in [(0, 0), (100, 0), (300, 3)] {
        let mut world = World::new(&program(), Scene { loss, fill, seed: 5, ..quiet() });
        let pages: Vec<Vec<u8>> = (0..12u8).map(|page| vec![page; 100 + usize::from(page) * 90]).collect();
        world.documents = pages.iter().map(|page| (page.clone(), 0)).collect();
        world.documents.last_mut().unwrap().1 = 2;
        world.connect();
        world.run(30_000);
        assert_eq!(world.client.data, pages.concat());
        assert!(world.client.finished);
        let acknowledged = world.notices.iter().rfind(|notice| notice[0] == 1).expect("a notice");
        assert_eq!(acknowledged[12..], 12u32.to_be_bytes());
    }
}

#[test]
fn other_forms_of_rtp_are_the_same_to_the_client() {
    for engine in [EngineKind::Interp, EngineKind::NATIVE] {
        let (_, read) = streamed(Scene { forms: true, engine, ..quiet() }, 500);
        assert!(read.packets > 95 && read.missing == 0 && read.nulls == 0, "{read:?}");
    }
}

#[test]
fn what_is_no_segment_of_the_connection_is_challenged() {
    let mut world = World::new(&program(), Scene { period: 1000, ..quiet() });
    world.connect();
    world.run(1500);
    let good = world.client.segment(ACK, &[]);
    let ack = u32::from_be_bytes(good[42..46].try_into().unwrap());
    let mut challenged = |change: &dyn Fn(&mut Client)| {
        let mut stranger = world.client.clone();
        change(&mut stranger);
        let frame = stranger.segment(stranger.flags, &[]);
        world.stepper.receive(1, &frame)
    };
    // A SYN, an acknowledgement of what was not sent, a number far outside of the window.
    let syn = challenged(&|client| client.flags = SYN);
    let ahead = challenged(&|client| client.received += 5000);
    let outside = challenged(&|client| client.sent = client.sent.wrapping_add(1 << 20));
    for out in [syn, ahead, outside] {
        assert_eq!(out.len(), 1);
        let answer = client::parse(&out[0].bytes);
        assert_eq!((answer.flags, answer.seq, answer.ack), (ACK, ack, world.client.sent));
        assert!(answer.payload.is_empty() && answer.options.is_empty() && answer.window > 1000);
    }
    // A damaged one has no answer, nor has a right one, and nothing has changed.
    let mut damaged = good.clone();
    *damaged.last_mut().unwrap() ^= 1;
    assert!(world.stepper.receive(1, &damaged).is_empty() && world.stepper.receive(1, &good).is_empty());
    assert!(ends(&world).is_empty());
    // A keep-alive probe is answered (RFC 9293 section 3.8.4).
    let mut prober = world.client.clone();
    prober.sent = prober.sent.wrapping_sub(1);
    let out = world.stepper.receive(1, &prober.segment(ACK, &[]));
    assert_eq!(client::parse(&out[0].bytes).ack, world.client.sent);
}

#[test]
fn the_answer_to_a_syn_declines_timestamps() {
    let mut world = World::new(&program(), quiet());
    let out = world.stepper.receive(1, &world.client.segment(SYN, &[]));
    let answer = client::parse(&out[0].bytes);
    assert_eq!((answer.flags, answer.ack), (SYN | ACK, 1001));
    assert_eq!(answer.options, [2, 4, 5, 0xb4, 4, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 0]);
}

/// A frame of IPv6 with a segment of the client `2001:db8:1::11`.
fn frame6(seq: u32, ack: u32, flags: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let [client, own] = [0x11, 1].map(|last| [0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    let mut tcp = [50000u16, 80].map(u16::to_be_bytes).concat();
    tcp.extend([seq, ack].map(u32::to_be_bytes).concat());
    tcp.extend([(5 + options.len() as u8 / 4) << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
    tcp.extend([options, payload].concat());
    let checksum = !client::fold(client::sum(&tcp) + client::sum(&client) + client::sum(&own) + 6 + tcp.len() as u32);
    tcp[16..18].copy_from_slice(&checksum.to_be_bytes());
    let mut frame = vec![2, 0, 0, 0, 1, 1, 2, 0, 0, 0, 1, 0x11, 0x86, 0xdd, 0x60, 0, 0, 0];
    frame.extend((tcp.len() as u16).to_be_bytes());
    frame.extend([6, 64]);
    [frame, client.to_vec(), own.to_vec(), tcp].concat()
}

#[test]
fn clients_of_ipv6_are_served_alike() {
    let mut world = World::new(&program(), quiet());
    let number = |bytes: &[u8], at: usize| u32::from_be_bytes(bytes[54 + at..58 + at].try_into().unwrap());
    let right = |bytes: &[u8]| {
        let upper = client::sum(&bytes[22..]) + 6 + bytes.len() as u32 - 54;
        bytes[18..20] == (bytes.len() as u16 - 54).to_be_bytes() && client::fold(upper) == 0xffff
    };
    let out = world.stepper.receive(1, &frame6(9, 0, SYN, &[2, 4, 5, 0xa0, 1, 1, 4, 2], &[]));
    assert_eq!((out.len(), out[0].bytes.len(), out[0].bytes[54 + 13]), (1, 94, SYN | ACK));
    assert!(right(&out[0].bytes) && number(&out[0].bytes, 8) == 10);
    let ours = number(&out[0].bytes, 4).wrapping_add(1);
    let out = world.stepper.receive(1, &frame6(10, ours, ACK, &[], b"GET / HTTP/1.1\r\n\r\n"));
    assert_eq!(out.len(), 2, "the request goes to the controller, and is acknowledged");
    let answer = &out.iter().find(|out| out.bytes[..2] == [2, 0]).expect("an acknowledgement").bytes;
    assert!(right(answer) && number(answer, 4) == ours && number(answer, 8) == 28);
}

#[test]
fn routers_may_cut_segments_that_are_too_long_for_one_of_them() {
    let mut world = World::new(&program(), quiet());
    world.connect();
    world.run(300);
    let error = |seq: u32, damage: u8| {
        let mut quote = vec![0x45, 0, 5, 0x54, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 1, 1, 10, 0, 1, 11];
        quote.extend([80u16, 50000].map(u16::to_be_bytes).concat());
        quote.extend(seq.to_be_bytes());
        let mut icmp = [vec![3, 4, 0, 0, 0, 0, 1, 0xf4], quote].concat();
        let checksum = !client::fold(client::sum(&icmp)) ^ u16::from(damage);
        icmp[2..4].copy_from_slice(&checksum.to_be_bytes());
        client::frame([10, 0, 1, 99], client::OWN, 1, &icmp)
    };
    for (ahead, damage, counts) in [(0, 1, false), (900_000, 0, false), (0, 0, true)] {
        let good = world.client.segment(ACK, &[]);
        let under_way = u32::from_be_bytes(good[42..46].try_into().unwrap());
        let frame = error(under_way.wrapping_add(ahead), damage);
        world.watch.is_narrow = true;
        assert!(world.stepper.receive(1, &frame).is_empty());
        world.run(50);
        assert_eq!(world.in_parts != 0, counts, "{ahead} {damage}");
    }
    read(&world.client.data);
}

#[test]
fn other_fills() {
    for fill in [1, 2] {
        let (_, read) = streamed_any(Scene { fill, loss: 30, ..quiet() }, 3000);
        println!("fill {fill}: {read:?}");
    }
}

/// With packets that may come twice.
fn streamed_any(scene: Scene, ms: u64) -> (World, Read) {
    let fresh = scene.fill == 2;
    let mut world = World::new(&program(), scene);
    world.run(100);
    world.connect();
    world.run(ms);
    world.running = false;
    world.scene.loss = 0;
    world.run(3000);
    if !fresh {
        let read = read(&world.client.data);
        return (world, read);
    }
    let body = world.client.data.strip_prefix(HEAD).unwrap();
    for bytes in body.chunks(1316).filter(|bytes| bytes.len() == 1316 && bytes[1] != 0x1f) {
        assert_eq!(bytes, payload(number_of(bytes).0));
    }
    (world, Read::default())
}

#[test]
fn the_rate_is_friendly() {
    for (loss, delay) in [(0, 50), (5, 20), (10, 50)] {
        let (world, read) = streamed(Scene { rate: 0, loss, delay, ..quiet() }, 10_000);
        println!("TFRC loss {loss} delay {delay}: {read:?}, {} frames", world.sent);
        assert!(read.packets > 400, "{read:?}");
    }
}

//! Packets that are longer than the client, or its way, takes.

use crate::client::{ACK, Options};
use crate::stream::{number_of, payload};
use crate::world::{HEAD, Scene, World};
use crate::{Read, program, quiet as native};
use dataplane::EngineKind;

/// Interpreted: these worlds are short, and there are many.
fn quiet() -> Scene {
    Scene { engine: EngineKind::Interp, ..native() }
}

/// What a client has read, checked packet of MPEG-TS by packet; counted in packets of the source.
pub fn read(data: &[u8]) -> Read {
    let body = data.strip_prefix(HEAD).expect("the head comes first");
    let (mut read, mut packets, mut last) = (Read::default(), 0, None);
    assert_eq!(body.len() % 188, 0, "whole packets");
    for bytes in body.chunks(188) {
        if bytes[..4] == [0x47, 0x1f, 0xff, 0x10] && bytes[4..].iter().all(|byte| *byte == 0) {
            read.nulls += 1;
            last = last.map(|last| last + 1);
            continue;
        }
        let (number, part, _) = number_of(bytes);
        let part = u32::from(part);
        assert!(bytes == &payload(number)[part as usize * 188..][..188], "{number} is as the source has sent it");
        let place = number * 7 + part;
        if let Some(last) = last {
            assert!(place > last, "{place} comes after {last}");
            read.missing += place - last - 1;
        }
        (packets, last) = (packets + 1, Some(place));
    }
    read.packets = packets / 7;
    read
}

/// Streams to a client over a link; what is under way then comes home.
fn streamed(scene: Scene, mss: u16, is_v6: bool, change: impl Fn(&mut World)) -> (World, Read) {
    let mut world = World::new(&program(), scene);
    world.client.options.mss = mss;
    world.link.is_v6 = is_v6;
    world.run(100);
    world.connect();
    world.run(500);
    change(&mut world);
    world.run(2500);
    world.running = false;
    world.scene.loss = 0;
    world.run(3000);
    assert!(!world.client.reset, "a reset came");
    let read = read(&world.client.data);
    (world, read)
}

#[test]
fn packets_of_seven_are_whole_for_clients_that_take_them() {
    for (mss, is_v6) in [(1316, false), (1340, false), (1379, false), (1380, false), (1460, false), (1440, true)] {
        let (world, read) = streamed(quiet(), mss, is_v6, |_| ());
        assert!(read.packets > 590 && (read.missing, read.nulls) == (0, 0), "{mss}: {read:?}");
        assert_eq!(world.client.longest, 1316, "{mss}");
    }
}

/// Segments end where packets of MPEG-TS do.
#[test]
fn packets_that_are_too_long_for_a_client_come_in_parts() {
    for (mss, is_v6, part) in [(1300, false, 1128), (1220, true, 1128), (536, false, 376), (400, false, 376)] {
        for (loss, sack, seed) in [(0, true, 1), (30, true, 2), (30, false, 3)] {
            let client = Options { sack, ..quiet().client };
            println!("{mss} {loss} {sack}");
            let (world, read) = streamed(Scene { client, loss, seed, ..quiet() }, mss, is_v6, |_| ());
            assert!(read.packets > 400, "{mss} {loss}: {read:?}");
            assert_eq!(world.client.longest, part, "{mss}");
            if loss == 0 {
                assert!(read.packets > 590 && (read.missing, read.nulls) == (0, 0), "{read:?}");
            }
        }
    }
}

#[test]
fn a_way_that_becomes_narrow_is_kept_to() {
    // Bytes of a packet, what routers say of it, and bytes of the longest segment then.
    let ways =
        [(1200, None, false, 1128), (700, None, false, 564), (1280, None, true, 1128), (1280, Some(1100), true, 1128)];
    for (mtu, says, is_v6, part) in ways {
        for (loss, delay, sack) in [(0, 10, true), (20, 40, true)] {
            let client = Options { sack, ..quiet().client };
            let scene = Scene { client, loss, delay, seed: mtu as u64, ..quiet() };
            let (world, read) = streamed(scene, 1440, is_v6, |world| {
                (world.link.mtu, world.link.says) = (Some(mtu), says);
                world.link.longest = 0;
            });
            assert!(read.packets > 500, "{mtu} {loss}: {read:?}");
            let headers = if is_v6 { 60 } else { 40 };
            assert!(world.link.refused > 0, "{mtu}");
            assert_eq!((world.link.longest, world.in_parts), (headers + part, 0), "{mtu}");
            if loss == 0 {
                assert_eq!((read.missing, read.nulls), (0, 0), "{mtu}");
            }
        }
    }
}

/// Ten minutes later it is tried whether the way is wide again (RFC 1191 section 6.3).
#[test]
fn a_way_that_is_wide_again_is_made_use_of() {
    for (wide, longest) in [(true, 1316), (false, 1128)] {
        let mut world = World::new(&program(), Scene { period: 100, ..native() });
        world.client.options.mss = 1440;
        world.connect();
        world.run(1000);
        world.link.mtu = Some(1200);
        world.run(1000);
        assert_eq!(world.client.longest, 1316, "before");
        world.link.longest = 0;
        world.run(590_000);
        assert_eq!(world.link.longest, 40 + 1128, "{wide}: for ten minutes");
        let refused = world.link.refused;
        if wide {
            world.link.mtu = None;
        }
        world.run(60_000);
        assert_eq!(world.link.longest, 40 + longest, "{wide}: behind them");
        assert_eq!(world.link.refused > refused, !wide, "{wide}: a router was asked");
        world.running = false;
        world.run(1000);
        let read = read(&world.client.data);
        assert!(read.packets > 6400 && (read.missing, read.nulls) == (0, 0), "{wide}: {read:?}");
    }
}

/// Below 552 bytes, and where the router does not say how many, those of IPv4 may cut.
#[test]
fn routers_that_say_little_may_cut() {
    for (mtu, says, longest) in [(400, None, 376), (1000, Some(0), 1316)] {
        let (world, read) = streamed(quiet(), 1460, false, |world| {
            (world.link.mtu, world.link.says) = (Some(mtu), says);
            world.link.longest = 0;
        });
        assert!(read.packets > 500 && (read.missing, read.nulls) == (0, 0), "{mtu}: {read:?}");
        assert!(world.in_parts > 100, "{mtu}");
        assert_eq!(world.link.longest, 40 + longest, "{mtu}");
    }
}

/// All room for segments is taken when the way becomes narrow.
#[test]
fn a_full_scoreboard_finds_room_for_parts() {
    for (mtu, loss, seed) in [(600, 0, 1), (600, 50, 2), (1280, 50, 3)] {
        let scene = Scene { delay: 200, period: 2, loss, seed, ..quiet() };
        let (world, read) = streamed(scene, 1460, false, |world| world.link.mtu = Some(mtu));
        assert!(world.link.refused > 10 && read.packets > 100, "{mtu} {loss}: {read:?}");
    }
}

/// Parts that are filled with null packets are as long as what they replace.
#[test]
fn parts_are_filled_alike() {
    for (fill, delay) in [(1, 10), (0, 300), (2, 10)] {
        let scene = Scene { fill, delay, loss: 30, seed: 9, ..quiet() };
        let mut world = World::new(&program(), scene);
        world.client.options.mss = 1200;
        world.connect();
        world.run(3000);
        world.running = false;
        world.scene.loss = 0;
        world.run(3000);
        let body = world.client.data.strip_prefix(HEAD).expect("the head comes first");
        assert!(body.len().is_multiple_of(188) && body.chunks(188).all(|packet| packet[0] == 0x47), "{fill}");
        let nulls = body.chunks(188).filter(|packet| packet[1..4] == [0x1f, 0xff, 0x10]).count();
        assert!(body.len() / 188 > 1000 && nulls > 5 && nulls < 1000, "{fill}: {nulls} of {}", body.len() / 188);
    }
}

/// Documents are cut anywhere, and counted when all of them has come.
#[test]
fn documents_come_in_parts_where_the_way_has_become_narrow() {
    for loss in [0, 100] {
        let mut world = World::new(&program(), Scene { loss, seed: 3, ..quiet() });
        let pages: Vec<Vec<u8>> = (0..15u8).map(|page| vec![page; 1300 + usize::from(page)]).collect();
        world.documents = pages.iter().map(|page| (page.clone(), 0)).collect();
        world.documents.last_mut().unwrap().1 = 2;
        world.link.mtu = Some(600);
        world.connect();
        world.run(30_000);
        assert!(world.client.data == pages.concat() && world.client.finished, "{loss}");
        let acknowledged = world.notices.iter().rfind(|notice| notice[0] == 1).expect("a notice");
        assert_eq!(acknowledged[12..], 15u32.to_be_bytes());
        assert!(world.client.longest <= 560);
    }
}

/// Errors about what is not under way, of an unknown connection, or that say nothing new change nothing.
#[test]
fn errors_of_strangers_change_nothing() {
    let mut world = World::new(&program(), quiet());
    world.connect();
    world.run(300);
    let good = world.client.segment(ACK, &[]);
    let under_way = u32::from_be_bytes(good[42..46].try_into().unwrap());
    for (seq, port, mtu) in
        [(under_way.wrapping_sub(1_000_000), 80u16, 600), (under_way, 81, 600), (under_way, 80, 1500)]
    {
        let mut segment =
            vec![2, 0, 0, 0, 1, 0x11, 2, 0, 0, 0, 1, 1, 8, 0, 0x45, 0, 5, 0x54, 0, 0, 0x40, 0, 64, 6, 0, 0];
        segment.extend([10, 0, 1, 1, 10, 0, 1, 11]);
        segment.extend([port, 50000].map(u16::to_be_bytes).concat());
        segment.extend(seq.to_be_bytes());
        segment.resize(14 + 1356, 0);
        let mut link = crate::link::Link { mtu: Some(1300), says: Some(mtu), ..Default::default() };
        let error = link.too_long(&segment).expect("it is too long");
        world.stepper.receive(1, &error);
        world.run(50);
        world.client.longest = 0;
        world.run(200);
        assert_eq!(world.client.longest, 1316, "{seq} {port} {mtu}");
    }
    read(&world.client.data);
}
